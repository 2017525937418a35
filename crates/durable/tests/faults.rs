//! Injects every fault at every operation of this crate. Prints the counts: `cargo test -- --nocapture`.

use pijs_durable::fault::{Case, Density, Survey, Work, survey};
use pijs_durable::{Appender, Disk, Replace};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

const OLD: &[u8] = b"{\"packages\": [\"old\"]}\n";
const NEW: &[u8] = b"{\"packages\": [\"old\", \"new\"]}\n";

fn clear(folder: &std::path::Path) {
    if folder.exists() {
        fs::remove_dir_all(folder).expect("our own folder");
    }
    fs::create_dir(folder).expect("a folder");
}

fn hidden(folder: &std::path::Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("readable").path());
    entries.filter(|path| path.extension().is_some_and(|extension| extension == "tmp")).collect()
}

/// Replaces a settings file.
struct Settings {
    folder: PathBuf,
    how: Replace,
}

impl Work for Settings {
    type Acknowledged = bool;

    fn reset(&mut self) {
        clear(&self.folder);
        let path = self.folder.join("settings.json");
        fs::write(&path, OLD).expect("a file");
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("permissions");
    }

    fn run(&mut self, disk: &Disk) -> bool {
        disk.replace(&self.folder.join("settings.json"), NEW, self.how).is_ok()
    }

    fn check(&mut self, acknowledged: bool, case: &Case) {
        let path = self.folder.join("settings.json");
        let now = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", case.name));
        assert!(now == OLD || now == NEW, "{}: {:?}", case.name, String::from_utf8_lossy(&now));
        assert!(!acknowledged || now == NEW, "{}: said done, and it is not", case.name);
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600, "{}", case.name);
        if let Ok(backup) = fs::read(self.folder.join("settings.json.bak")) {
            assert_eq!(backup, OLD, "{}", case.name);
        }
        // The next run needs no repair and removes temporary files.
        assert!(self.run(&Disk::system()), "{}", case.name);
        assert_eq!(fs::read(&path).expect("there"), NEW, "{}", case.name);
        assert_eq!(hidden(&self.folder), Vec::<PathBuf>::new(), "{}", case.name);
    }
}

/// Creates a key once, in a folder that does not exist.
struct Key {
    folder: PathBuf,
}

impl Work for Key {
    type Acknowledged = bool;

    fn reset(&mut self) {
        clear(&self.folder);
    }

    fn run(&mut self, disk: &Disk) -> bool {
        disk.create_once(&self.folder.join("a/b/key"), b"0123456789abcdef").is_ok()
    }

    fn check(&mut self, acknowledged: bool, case: &Case) {
        let path = self.folder.join("a/b/key");
        match fs::read(&path) {
            Ok(key) => assert_eq!(key, b"0123456789abcdef", "{}", case.name),
            Err(error) => assert!(!acknowledged, "{}: {error}", case.name),
        }
        assert!(self.run(&Disk::system()), "{}", case.name);
        assert_eq!(fs::read(&path).expect("there"), b"0123456789abcdef");
        let mode = |path: &str| fs::metadata(self.folder.join(path)).expect("there").permissions().mode() & 0o777;
        assert_eq!((mode("a"), mode("a/b"), mode("a/b/key")), (0o700, 0o700, 0o600), "{}", case.name);
    }
}

/// Appends lines one by one, with a flush at the end.
struct Lines {
    folder: PathBuf,
    count: u64,
}

/// Number of accepted lines, and number of lines before the successful flush.
#[derive(Default)]
struct AcceptedLines {
    written: u64,
    flushed: u64,
}

impl Work for Lines {
    type Acknowledged = AcceptedLines;

    fn reset(&mut self) {
        clear(&self.folder);
    }

    fn run(&mut self, disk: &Disk) -> AcceptedLines {
        let mut taken = AcceptedLines::default();
        let Ok(opened) = Appender::open(disk, &self.folder.join("log.jsonl")) else { return taken };
        let mut appender = opened.appender;
        for number in 0..self.count {
            // A refused line may be retried, as a caller does after a temporarily full disk.
            let line = format!("{{\"n\":{number}}}\n");
            if appender.append(line.as_bytes()).or_else(|_| appender.append(line.as_bytes())).is_err() {
                break;
            }
            taken.written += 1;
        }
        if appender.sync().is_ok() {
            taken.flushed = taken.written;
        }
        taken
    }

    fn check(&mut self, taken: AcceptedLines, case: &Case) {
        let path = self.folder.join("log.jsonl");
        if !case.name.starts_with("power") && taken.written > 0 {
            let lines = fs::read_to_string(&path).expect("readable").matches('\n').count() as u64;
            assert!(lines >= taken.written, "{}: {lines} of {}", case.name, taken.written);
        }
        let opened = Appender::open(&Disk::system(), &path).unwrap_or_else(|error| panic!("{}: {error}", case.name));
        let mut appender = opened.appender;
        appender.cut(opened.whole).expect("ours");
        appender.append(b"{\"n\":\"next\"}\n").expect("ours");
        let text = fs::read(&path).expect("readable");
        let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
        let (next, before) = lines[..lines.len() - 1].split_last().expect("a line");
        assert_eq!(*next, b"{\"n\":\"next\"}", "{}", case.name);
        assert!(before.len() as u64 >= taken.flushed, "{}", case.name);
        for (number, line) in before.iter().enumerate() {
            assert_eq!(*line, format!("{{\"n\":{number}}}").as_bytes(), "{}", case.name);
        }
    }
}

#[expect(clippy::print_stdout, reason = "the counts are what a reader of the test wants to know")]
fn all(name: &str, work: &mut impl Work, root: &std::path::Path) -> Survey {
    let done = survey(root, Density::ALL, work).expect("a folder of our own");
    println!("{name}: {0}/{0} kills, {1}/{1} power cuts, {2}/{2} errors survived", done.kills, done.cuts, done.errors);
    done
}

#[test]
fn a_replaced_file_is_old_or_new() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("agent");
    for how in [Replace::STATE, Replace::SHARED, Replace::DERIVED] {
        let done = all(&format!("{how:?}"), &mut Settings { folder: root.clone(), how }, &root);
        assert!(done.kills >= 6 && done.errors >= 40, "{done:?}");
    }
}

#[test]
fn a_key_is_complete_or_missing() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("base");
    all("create_once", &mut Key { folder: root.clone() }, &root);
}

#[test]
fn of_a_hundred_lines_none_is_torn_or_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("logs");
    let done = all("100 appends", &mut Lines { folder: root.clone(), count: 100 }, &root);
    assert!(done.kills >= 200, "{done:?}");
}
