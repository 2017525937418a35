//! Tests every class of hostile archive and its code (cases I01 to I20), and mutations of well-formed archives.

use super::*;
use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;

/// A tar archive written header by header, so that it can violate any rule.
#[derive(Default)]
struct Tar(Vec<u8>);

impl Tar {
    fn raw(mut self, name: &[u8], kind: u8, size: u64, mode: u32, data: &[u8]) -> Self {
        let mut header = tar::Header::new_ustar();
        header.as_mut_bytes()[..name.len()].copy_from_slice(name);
        header.as_mut_bytes()[156] = kind;
        header.set_size(size);
        header.set_mode(mode);
        header.set_cksum();
        self.0.extend_from_slice(header.as_bytes());
        self.0.extend_from_slice(data);
        self.0.resize(self.0.len().next_multiple_of(BLOCK), 0);
        self
    }

    fn entry(self, name: &str, kind: u8, data: &[u8]) -> Self {
        self.raw(name.as_bytes(), kind, data.len() as u64, 0o644, data)
    }

    fn file(self, name: &str, data: &[u8]) -> Self {
        self.entry(name, b'0', data)
    }

    fn pax(self, records: &[(&str, &str)]) -> Self {
        let text: String = records.iter().map(|(key, value)| pax_record(key, value)).collect();
        self.entry("PaxHeader/x", b'x', text.as_bytes())
    }

    fn end(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 2 * BLOCK, 0);
        gzip(&self.0)
    }
}

fn pax_record(key: &str, value: &str) -> String {
    let rest = key.len() + value.len() + 3;
    let digits = |n: usize| n.to_string().len();
    let length = (1..8).map(|d| rest + d).find(|total| digits(*total) + rest == *total).expect("short records");
    format!("{length} {key}={value}\n")
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

fn honest() -> Tar {
    Tar::default().file("package/package.json", b"{}").file("package/src/index.ts", b"export default () => {};\n")
}

#[track_caller]
fn refused(tgz: &[u8], code: InstallCode) {
    refused_under(tgz, &InstallLimits::default(), code);
}

#[track_caller]
fn refused_under(tgz: &[u8], limits: &InstallLimits, code: InstallCode) {
    match unpack(tgz, limits) {
        Ok(unpacked) => panic!("taken: {:?}", unpacked.files().map(|(path, _)| path.to_owned()).collect::<Vec<_>>()),
        Err(error) => assert_eq!(error.code, code, "{error}"),
    }
}

#[test]
fn an_honest_archive_loses_its_top_folder_and_nothing_else() {
    let tgz = honest().entry("package/empty/", b'5', b"").file("package/LICENSE", b"").end();
    let unpacked = unpack(&tgz, &InstallLimits::default()).expect("a valid archive");
    let paths: Vec<_> = unpacked.files().map(|(path, bytes)| (path.to_owned(), bytes.len())).collect();
    assert_eq!(paths, [("LICENSE".to_owned(), 0), ("package.json".to_owned(), 2), ("src/index.ts".to_owned(), 25)]);
    assert!(unpacked.warnings.is_empty());
}

#[test]
fn the_top_folder_may_have_any_name_and_a_leading_dot_slash() {
    let tgz = Tar::default().entry("./", b'5', b"").file("./pi-ttsr-1.0/package.json", b"{}").end();
    assert!(unpack(&tgz, &InstallLimits::default()).expect("a valid archive").get("package.json").is_some());
}

#[test]
fn a_dot_component_is_ignored_at_any_position() {
    let tgz = honest().file("package/./src/././a.ts", b"a").entry("package/./src/./", b'5', b"").end();
    assert_eq!(unpack(&tgz, &InstallLimits::default()).expect("a valid archive").get("src/a.ts"), Some(&b"a"[..]));
    // A repeated file with equal content is one file.
    let twice = honest().file("package/./src/index.ts", b"export default () => {};\n").end();
    assert!(unpack(&twice, &InstallLimits::default()).expect("a valid archive").get("src/index.ts").is_some());
    refused(&honest().file("package/./src/index.ts", b"x").end(), InstallCode::Format);
    refused(&honest().file("package/./src/./../../../x", b"x").end(), InstallCode::Path);
    refused(&honest().file("./.", b"x").end(), InstallCode::Path);
}

#[test]
fn long_names_come_through_pax_and_gnu_records() {
    let long = format!("package/{}/{}.ts", "d".repeat(120), "f".repeat(120));
    let pax = Tar::default().pax(&[("path", &long), ("mtime", "1.5")]).file("package/cut", b"x").end();
    let gnu =
        Tar::default().entry("././@LongLink", b'L', format!("{long}\0").as_bytes()).file("package/cut", b"x").end();
    for tgz in [pax, gnu] {
        let unpacked = unpack(&tgz, &InstallLimits::default()).expect("a valid archive");
        assert_eq!(unpacked.get(long.strip_prefix("package/").expect("prefixed")), Some(&b"x"[..]));
    }
}

#[test]
fn a_name_that_leaves_the_package_is_a_path_refusal() {
    for name in [
        "package/../../../../tmp/x",
        "package/..",
        "../package/x",
        "/tmp/x",
        "//host/share/x",
        "package\\..\\..\\x",
        "package/C:x",
        "C:\\x",
        "package//x",
        "package/a\nb",
        "package/a\u{7f}b",
        "package/dot.",
        "package/blank ",
    ] {
        refused(&honest().file(name, b"x").end(), InstallCode::Path);
    }
    refused(&honest().raw(b"package/\xff\xfe", b'0', 1, 0o644, b"x").end(), InstallCode::Path);
}

#[test]
fn a_pax_path_is_checked_like_any_other() {
    refused(&honest().pax(&[("path", "package/../x")]).file("package/safe", b"x").end(), InstallCode::Path);
    refused(&honest().pax(&[("path", "/tmp/x")]).file("package/safe", b"x").end(), InstallCode::Path);
}

#[test]
fn names_that_some_file_system_confuses_are_refused() {
    refused(&honest().file("package/A.ts", b"1").file("package/a.ts", b"2").end(), InstallCode::Path);
    refused(&honest().file("package/Lib/a.ts", b"1").file("package/lib/b.ts", b"2").end(), InstallCode::Path);
    for (one, other) in [("\u{df}", "\u{1e9e}"), ("ss", "\u{1e9e}"), ("\u{3c3}", "\u{3c2}"), ("\u{17f}", "S")] {
        let both = honest().file(&format!("package/{one}.ts"), b"1").file(&format!("package/{other}.ts"), b"2");
        refused(&both.end(), InstallCode::Path);
    }
    // The first archive has one name in two normal forms, the second a name that is not in form C.
    refused(&honest().file("package/\u{e9}.ts", b"1").file("package/e\u{301}.ts", b"2").end(), InstallCode::Path);
    refused(&honest().file("package/e\u{301}.ts", b"2").end(), InstallCode::Path);
}

#[test]
fn links_of_every_kind_are_refused() {
    for (name, kind) in [("package/src", b'2'), ("package/a", b'2'), ("package/h", b'1'), ("././@LongLink", b'K')] {
        refused(&Tar::default().entry(name, kind, b"").file("package/src/x", b"x").end(), InstallCode::Link);
    }
    refused(&honest().pax(&[("linkpath", "/etc")]).file("package/x", b"x").end(), InstallCode::Link);
}

#[test]
fn entries_other_than_files_and_folders_are_refused() {
    for kind in [b'3', b'4', b'6', b'7', b'S', b'V', b'M', b'D', b'Z', 0xff] {
        refused(&honest().entry("package/dev", kind, b"").end(), InstallCode::Format);
    }
}

#[test]
fn setuid_is_dropped_with_a_warning() {
    let tgz = honest().raw(b"package/tool", b'0', 1, 0o4777, b"x").end();
    let unpacked = unpack(&tgz, &InstallLimits::default()).expect("taken");
    assert_eq!(unpacked.warnings.len(), 1, "{:?}", unpacked.warnings);
}

#[test]
fn two_sizes_for_one_entry_are_refused() {
    for (header, record) in [(512, "0"), (0, "512"), (512, "1024"), (512, "511")] {
        let data = vec![b'x'; header];
        refused(&honest().pax(&[("size", record)]).file("package/x", &data).end(), InstallCode::Format);
    }
    let same = honest().pax(&[("size", "3")]).file("package/x", b"abc").end();
    assert_eq!(unpack(&same, &InstallLimits::default()).expect("same size twice").get("x"), Some(&b"abc"[..]));
}

#[test]
fn abused_extension_headers_are_refused() {
    let big = "v".repeat(100_000);
    let many: Vec<(String, String)> = (0..101).map(|i| (format!("SCHILY.k{i}"), "v".to_owned())).collect();
    let many: String = many.iter().map(|(key, value)| pax_record(key, value)).collect();
    for hostile in [
        honest().pax(&[("comment", &big)]).file("package/x", b""),
        honest().entry("PaxHeader/x", b'x', many.as_bytes()).file("package/x", b""),
        honest().entry("PaxHeader/x", b'x', b"99 path=package/x\n").file("package/x", b""),
        honest().entry("PaxHeader/x", b'x', b"0 path=package/x\n").file("package/x", b""),
        honest().entry("PaxHeader/x", b'x', b"1 path=package/x\n").file("package/x", b""),
        honest().entry("PaxHeader/x", b'x', b"5 =x\n").file("package/x", b""),
        honest().entry("PaxHeader/x", b'x', b"path=package/x\n").file("package/x", b""),
        honest().pax(&[("comment", "a\0b")]).file("package/x", b""),
        honest().pax(&[("path", "package/a"), ("path", "package/b")]).file("package/x", b""),
        honest().pax(&[("size", "5"), ("size", "3")]).file("package/x", b"abc"),
        honest().pax(&[("size", "+3")]).file("package/x", b"abc"),
        honest().pax(&[("GNU.sparse.realsize", "1099511627776")]).file("package/x", b""),
        honest().pax(&[("hdrcharset", "BINARY")]).file("package/x", b""),
        honest().pax(&[("path", "package/a")]).pax(&[("path", "package/b")]).file("package/x", b""),
        honest().entry("pax_global_header", b'g', pax_record("comment", "abc").as_bytes()).file("package/x", b""),
        Tar::default().entry("pax_global_header", b'g', pax_record("path", "x").as_bytes()).file("package/x", b""),
        honest()
            .entry("././@LongLink", b'L', b"package/a\0")
            .entry("././@LongLink", b'L', b"package/b\0")
            .file("package/x", b""),
        honest().entry("././@LongLink", b'L', b"package/a\0hidden").file("package/x", b""),
        honest().entry("././@LongLink", b'L', b"package/a\0"),
        honest().pax(&[("path", "package/a")]),
    ] {
        refused(&hostile.end(), InstallCode::Format);
    }
    let commit =
        Tar::default().entry("pax_global_header", b'g', pax_record("comment", "abc").as_bytes()).file("package/x", b"");
    unpack(&commit.end(), &InstallLimits::default()).expect("the output of `git archive` unpacks");
}

#[test]
fn decompression_bombs_end_at_a_limit() {
    let small = InstallLimits { entries: 10, unpacked: 1 << 20, compressed: 1 << 16, ..InstallLimits::default() };
    let many = (0..11).fold(Tar::default(), |tar, i| tar.file(&format!("package/{i}"), b""));
    refused_under(&many.end(), &small, InstallCode::Size);
    let folders = (0..11).fold(Tar::default(), |tar, i| tar.entry(&format!("package/{i}/"), b'5', b""));
    refused_under(&folders.end(), &small, InstallCode::Size);

    let deep = format!("package/{}x", "d/".repeat(5_000));
    refused(&Tar::default().pax(&[("path", &deep)]).file("package/x", b"").end(), InstallCode::Size);
    let long = format!("package/{}", "n".repeat(4_096));
    refused(&Tar::default().pax(&[("path", &long)]).file("package/x", b"").end(), InstallCode::Size);

    let zeros = vec![0; 2 << 20];
    refused_under(&honest().file("package/zeros", &zeros).end(), &small, InstallCode::Size);
    refused(&honest().file("package/zeros", &vec![0; 8 << 20]).end(), InstallCode::Size);
    refused_under(&vec![0; (1 << 16) + 1], &small, InstallCode::Size);
}

#[test]
fn limits_accept_the_maximum_and_refuse_one_more() {
    let under = |tgz: &[u8], limits: InstallLimits| unpack(tgz, &limits).map(drop).map_err(|error| error.code);
    let full = Err(InstallCode::Size);

    let tgz = honest().end();
    let compressed = |compressed| under(&tgz, InstallLimits { compressed, ..InstallLimits::default() });
    assert_eq!((compressed(tgz.len()), compressed(tgz.len() - 1)), (Ok(()), full));

    let entries = |entries| under(&tgz, InstallLimits { entries, ..InstallLimits::default() });
    assert_eq!((entries(2), entries(1)), (Ok(()), full));

    let two = Tar::default().file("package/a", &[1; 600]).file("package/b", &[2; 400]).end();
    let unpacked = |unpacked| under(&two, InstallLimits { unpacked, ..InstallLimits::default() });
    assert_eq!((unpacked(1000), unpacked(999)), (Ok(()), full));

    let deep = |depth| under(&tgz, InstallLimits { depth, ..InstallLimits::default() });
    assert_eq!((deep(2), deep(1)), (Ok(()), full));

    let named = |bytes: usize| {
        let path = format!("package/{}", "n".repeat(bytes));
        under(&Tar::default().pax(&[("path", &path)]).file("package/x", b"").end(), InstallLimits::default())
    };
    assert_eq!((named(255), named(256)), (Ok(()), full));

    // Headers and padding have a separate limit.
    let padded = |blocks| {
        let mut tar = Tar::default().file("package/a", b"x").0;
        tar.resize(blocks * BLOCK, 0);
        under(&gzip(&tar), InstallLimits { unpacked: 2 * BLOCK, entries: 2, ..InstallLimits::default() })
    };
    assert_eq!((padded(10), padded(11)), (Ok(()), full));

    let blank = |bytes: usize| {
        let mut tar = Tar::default().file("package/a", b"x").0;
        tar.resize(bytes, 0);
        under(&gzip(&tar), InstallLimits::default())
    };
    assert_eq!((blank(RATIO_FLOOR), blank(RATIO_FLOOR + BLOCK)), (Ok(()), full));
    let noise: Vec<u8> = (0..RATIO_FLOOR as u64).flat_map(|n| (n * n).to_le_bytes()).collect();
    assert_eq!(under(&Tar::default().file("package/a", &noise).end(), InstallLimits::default()), Ok(()));

    let note = |bytes: usize| {
        let value = "v".repeat(bytes - "65536 comment=\n".len());
        under(&honest().pax(&[("comment", &value)]).file("package/x", b"").end(), InstallLimits::default())
    };
    assert_eq!((note(MAX_EXTENSION_BYTES), note(MAX_EXTENSION_BYTES + 1)), (Ok(()), Err(InstallCode::Format)));
}

#[test]
fn files_of_a_tree_have_names_like_those_of_an_archive() {
    let from = |paths: &[&str]| {
        let files = paths.iter().map(|path| (path.as_bytes().to_vec(), b"abc".to_vec()));
        Unpacked::from_files(files, &InstallLimits::default()).map_err(|error| error.code)
    };
    assert_eq!(from(&["package/a", "package/d/b"]).map(|files| files.size()), Ok(6));
    for hostile in ["package/./a", "./package/a", "package/../a", "package//a"] {
        assert_eq!(from(&[hostile]).err(), Some(InstallCode::Path), "{hostile}");
    }
    assert_eq!(from(&["package/a", "package/a"]).err(), Some(InstallCode::Format));
}

#[test]
fn a_size_beyond_the_archive_is_refused() {
    refused(&honest().raw(b"package/x", b'0', 1 << 32, 0o644, b"x").end(), InstallCode::Format);
}

#[test]
fn gzip_must_be_one_whole_member() {
    let tgz = honest().end();
    let twice: Vec<u8> = tgz.iter().chain(&gzip(b"more")).copied().collect();
    let trailing: Vec<u8> = tgz.iter().chain(b"junk").copied().collect();
    let mut wrong_sum = tgz.clone();
    let at = wrong_sum.len() - 8;
    wrong_sum[at] ^= 1;
    for broken in [&twice[..], &trailing, &wrong_sum, &tgz[..tgz.len() - 9], &tgz[..12], b"", b"PK\x03\x04"] {
        refused(broken, InstallCode::Format);
    }
}

#[test]
fn the_end_of_the_archive_is_not_guessed() {
    refused(&gzip(&honest().0), InstallCode::Format);
    let mut smuggled = honest().0;
    smuggled.resize(smuggled.len() + BLOCK, 0);
    smuggled.extend(Tar::default().file("package/late", b"x").0);
    smuggled.resize(smuggled.len() + 2 * BLOCK, 0);
    refused(&gzip(&smuggled), InstallCode::Format);
    let mut bad_sum = honest().0;
    bad_sum[0] ^= 1;
    bad_sum.resize(bad_sum.len() + 2 * BLOCK, 0);
    refused(&gzip(&bad_sum), InstallCode::Format);
}

#[test]
fn a_path_cannot_be_both_a_file_and_a_folder() {
    refused(&honest().file("package/package.json", b"{\"evil\":1}").end(), InstallCode::Format);
    refused(&honest().file("package/src", b"x").end(), InstallCode::Format);
    refused(&honest().file("package/a", b"x").file("package/a/b", b"x").end(), InstallCode::Format);
    refused(&honest().raw(b"package/d/", b'5', 3, 0o755, b"abc").end(), InstallCode::Format);
}

#[test]
fn there_is_exactly_one_top_folder() {
    refused(&honest().file("other/x.ts", b"x").end(), InstallCode::Format);
    refused(&honest().file("x.ts", b"x").end(), InstallCode::Format);
    refused(&Tar::default().end(), InstallCode::Format);
}

#[test]
fn the_digest_covers_names_and_bytes_in_any_order() {
    let digest = |tar: Tar| unpack(&tar.end(), &InstallLimits::default()).expect("a valid archive").digest();
    let base = digest(Tar::default().file("p/a", b"1").file("p/b", b"2"));
    assert_eq!(base, digest(Tar::default().file("q/b", b"2").file("q/a", b"1")));
    assert_ne!(base, digest(Tar::default().file("p/a", b"2").file("p/b", b"1")));
    assert_ne!(base, digest(Tar::default().file("p/a", b"").file("p/b", b"12")));
}

#[test]
fn files_get_fixed_modes_and_never_replace_others() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let dir = Dir::open_ambient_dir(folder.path(), cap_std::ambient_authority()).expect("open");
    let unpacked =
        unpack(&honest().raw(b"package/tool", b'0', 1, 0o7777, b"x").end(), &InstallLimits::default()).expect("taken");
    unpacked.write_into(&dir).expect("written");
    assert_eq!(std::fs::read(folder.path().join("src/index.ts")).expect("there"), b"export default () => {};\n");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(folder.path().join("tool")).expect("there").permissions().mode();
        assert_eq!(mode & 0o7133, 0, "{mode:o}");
    }
    unpacked.write_into(&dir).expect_err("a second time");
}

#[cfg(unix)]
#[test]
fn a_link_planted_below_the_folder_is_not_followed() {
    let outside = tempfile::tempdir().expect("temporary folder");
    let folder = tempfile::tempdir().expect("temporary folder");
    std::os::unix::fs::symlink(outside.path(), folder.path().join("src")).expect("link");
    let dir = Dir::open_ambient_dir(folder.path(), cap_std::ambient_authority()).expect("open");
    let unpacked = unpack(&honest().end(), &InstallLimits::default()).expect("taken");
    unpacked.write_into(&dir).expect_err("src is a link");
    assert_eq!(std::fs::read_dir(outside.path()).expect("there").count(), 0);
}

fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let base = honest().pax(&[("path", "package/deep/er"), ("size", "5")]).file("package/x", b"12345").entry(
        "package/d/",
        b'5',
        b"",
    );
    let mut tar = base.0;
    tar.resize(tar.len() + 2 * BLOCK, 0);
    let size = tar.len();
    let change = (0..size, any::<u8>());
    (prop::collection::vec(change, 0..6), any::<bool>(), 0..size).prop_map(move |(changes, mend, cut)| {
        let mut tar = tar.clone();
        for (at, byte) in changes {
            tar[at] = byte;
        }
        // Without this, the checksum would detect nearly every mutation.
        if mend {
            for at in (0..tar.len()).step_by(BLOCK) {
                let mut header = tar::Header::from_byte_slice(&tar[at..at + BLOCK]).clone();
                if header.as_ustar().is_some() {
                    header.set_cksum();
                    tar[at..at + BLOCK].copy_from_slice(header.as_bytes());
                }
            }
        } else {
            tar.truncate(size - cut / 4);
        }
        gzip(&tar)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn mutated_archives_are_refused_or_stay_inside(tgz in mutated()) {
        let folder = tempfile::tempdir().expect("temporary folder");
        let inner = folder.path().join("inner");
        std::fs::create_dir(&inner).expect("created");
        if let Ok(unpacked) = unpack(&tgz, &InstallLimits::default()) {
            for (path, _) in unpacked.files() {
                prop_assert!(std::path::Path::new(path).components().all(|c| matches!(c, std::path::Component::Normal(_))), "{path:?}");
            }
            let dir = Dir::open_ambient_dir(&inner, cap_std::ambient_authority()).expect("open");
            prop_assert!(unpacked.write_into(&dir).is_ok());
        }
        prop_assert_eq!(std::fs::read_dir(folder.path()).expect("there").count(), 1);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..2048)) {
        let _ = unpack(&bytes, &InstallLimits::default());
        let _ = unpack(&gzip(&bytes), &InstallLimits::default());
    }
}
