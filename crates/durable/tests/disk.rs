//! Tests unusual files and concurrent processes.

use pijs_durable::{Appender, Disk, Lock, LockError, Replace, real_path};
use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("there").permissions().mode() & 0o777
}

#[test]
fn permissions_and_links_are_kept_only_for_shared_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let elsewhere = folder.path().join("dotfiles.json");
    let link = folder.path().join("settings.json");
    fs::write(&elsewhere, "{}").expect("a file");
    fs::set_permissions(&elsewhere, Permissions::from_mode(0o644)).expect("permissions");
    symlink(&elsewhere, &link).expect("a link");
    let disk = Disk::system();

    disk.replace(&link, b"{\"a\":1}", Replace::SHARED).expect("replaced");
    assert_eq!(fs::read(&elsewhere).expect("there"), b"{\"a\":1}");
    assert_eq!(mode(&elsewhere), 0o644);
    assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
    assert_eq!(fs::read(folder.path().join("dotfiles.json.bak")).expect("there"), b"{}");

    disk.replace(&link, b"{\"a\":2}", Replace::STATE).expect("replaced");
    assert!(!fs::symlink_metadata(&link).expect("there").is_symlink());
    assert_eq!(mode(&link), 0o600);
    assert_eq!(fs::read(&elsewhere).expect("there"), b"{\"a\":1}");

    // The content is equal; only the permissions differ.
    fs::set_permissions(&link, Permissions::from_mode(0o666)).expect("permissions");
    disk.replace(&link, b"{\"a\":2}", Replace::STATE).expect("replaced");
    assert_eq!(mode(&link), 0o600);
}

#[test]
fn a_full_folder_loses_its_oldest_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = Disk::system();
    // The names are not in the order of the times.
    for (age, name) in ["d", "b", "e", "a", "c"].into_iter().enumerate() {
        let file = fs::File::create(folder.path().join(name)).expect("a file");
        let time = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000 - age as u64);
        file.set_modified(time).expect("a time");
    }
    let names = || disk.list(folder.path()).expect("listed");

    disk.tidy(folder.path(), 5).expect("tidied");
    assert_eq!(names(), ["a", "b", "c", "d", "e"], "five entries are permitted");
    disk.tidy(folder.path(), 4).expect("tidied");
    assert_eq!(names(), ["b", "d"], "half of four, the newest");

    fs::create_dir(folder.path().join("folder")).expect("a folder");
    symlink("b", folder.path().join("link")).expect("a link");
    disk.tidy(folder.path(), 3).expect("tidied");
    assert_eq!(names(), ["d", "folder", "link"], "only files are removed");
}

#[test]
fn only_regular_files_are_replaced_or_appended_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = Disk::system();
    let directory = folder.path().join("directory");
    fs::create_dir(&directory).expect("a folder");
    let pipe = folder.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).expect("a pipe");
    let link = folder.path().join("link");
    fs::write(folder.path().join("target"), "x\n").expect("a file");
    symlink(folder.path().join("target"), &link).expect("a link");
    let twin = folder.path().join("twin");
    fs::hard_link(folder.path().join("target"), &twin).expect("a second name");

    for path in [&directory, &pipe] {
        let error = disk.replace(path, b"x", Replace::STATE).expect_err("no file");
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains("not a regular file"), "{error}");
    }
    for path in [&directory, &pipe, &link] {
        let error = Appender::open(&disk, path).expect_err("no file");
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
    let error = Appender::open(&disk, &twin).expect_err("two names");
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    assert_eq!(fs::read(folder.path().join("target")).expect("there"), b"x\n");
}

#[test]
fn an_append_only_file_reports_its_last_whole_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a/session.jsonl");
    let disk = Disk::system();
    let opened = Appender::open(&disk, &path).expect("new");
    assert!(opened.created);
    assert_eq!((opened.whole, opened.torn, mode(&path)), (0, 0, 0o600));
    drop(opened);

    let long = "y".repeat(70_000);
    for (content, whole) in
        [("", 0), ("a", 0), ("\n", 1), ("a\nbc", 2), ("a\nbc\n", 5), (&format!("x\n{long}"), 2), (&long, 0)]
    {
        fs::write(&path, content).expect("a file");
        let opened = Appender::open(&disk, &path).expect("free");
        let length = content.len() as u64;
        assert!(!opened.created);
        assert_eq!((opened.whole, opened.torn), (whole, length - whole));
        let mut appender = opened.appender;
        assert_eq!((appender.length(), appender.is_broken(), appender.path()), (length, false, &*path));
        appender.cut(whole).expect("cut");
        appender.append(b"12345\n").expect("appended");
        appender.sync().expect("durable");
        assert_eq!((appender.length(), appender.is_broken()), (whole + 6, false));
        assert_eq!(appender.read_range(whole + 1, whole + 4).expect("there"), b"234");
        let mut piece = [0; 3];
        assert_eq!(appender.read_at(&mut piece, whole + 4).expect("there"), 2);
        assert_eq!(&piece[..2], b"5\n");
        let beyond = appender.read_range(whole, whole + 7).expect_err("too short");
        assert_eq!(beyond.kind(), ErrorKind::UnexpectedEof);
    }
}

#[test]
fn an_append_only_file_is_private() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("session.jsonl");
    let disk = Disk::system();
    for (before, after) in [(0o666, 0o600), (0o640, 0o600), (0o604, 0o600), (0o700, 0o700), (0o600, 0o600)] {
        fs::write(&path, "a\n").expect("a file");
        fs::set_permissions(&path, Permissions::from_mode(before)).expect("permissions");
        Appender::open(&disk, &path).expect("free");
        assert_eq!(mode(&path), after, "{before:o}");
    }
}

#[test]
fn missing_paths_are_no_error_and_impossible_ones_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = Disk::system();
    let missing = folder.path().join("missing/x");
    assert_eq!(disk.read(&missing, 9).expect("nothing"), None);
    assert!(!disk.exists(&missing).expect("nothing"));
    disk.remove(&missing).expect("nothing");
    disk.remove_tree(&missing).expect("nothing");
    disk.sweep_owned(&missing).expect("nothing");

    let endless = folder.path().join("n".repeat(300));
    let answers = [
        disk.read(&endless, 9).map(drop),
        disk.exists(&endless).map(drop),
        disk.remove(&endless),
        disk.remove_tree(&endless),
        disk.sweep_owned(&endless),
        disk.create_dirs(&endless),
        disk.create_dirs(&endless.join("x")),
        disk.replace(&endless, b"x", Replace::STATE).map(drop),
    ];
    for (at, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer.expect_err("the name is invalid").kind(), ErrorKind::InvalidFilename, "{at}");
    }

    let made = folder.path().join("a/b/c");
    disk.create_dirs(&made).expect("made");
    disk.create_dirs(&made).expect("there");
    fs::write(made.join("x"), "x").expect("a file");
    assert!(disk.exists(&made.join("x")).expect("there"));
    assert!(disk.create_dirs(&made.join("x/y")).is_err(), "a file is no folder");
    disk.remove(&made.join("x")).expect("removed");
    assert!(!made.join("x").exists());
    disk.remove_tree(&folder.path().join("a")).expect("removed");
    assert!(!folder.path().join("a").exists());
}

#[test]
fn one_writer_appends_at_a_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("session.jsonl");
    let disk = Disk::system();
    let first = Appender::open(&disk, &path).expect("free");
    let error = Appender::open(&disk, &path).expect_err("taken");
    assert_eq!(error.kind(), ErrorKind::ResourceBusy, "{error}");
    drop(first);
    Appender::open(&disk, &path).expect("free again");
}

#[test]
fn a_lock_names_its_holder_and_ends_with_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("npm/.lock");
    let disk = Disk::system();
    let lock = Lock::take(&disk, &path, Duration::ZERO, |_| panic!("nobody has it")).expect("free");
    let mut waited = None;
    let error = Lock::take(&disk, &path, Duration::from_millis(30), |holder| waited = holder).expect_err("taken");
    assert_eq!(waited, Some(std::process::id()));
    let LockError::Held { holder: Some(holder), .. } = error else { panic!("{error}") };
    assert_eq!(holder, std::process::id());
    let waiter = {
        let (disk, path) = (disk.clone(), path.clone());
        std::thread::spawn(move || Lock::take(&disk, &path, Duration::from_secs(120), |_| ()).map(drop))
    };
    drop(lock);
    waiter.join().expect("no panic").expect("it got the lock");
}

/// The holder's process id is not written to a lock file with a second hard link.
#[test]
fn a_lock_does_not_write_into_a_file_with_a_second_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let (diary, lock) = (folder.path().join("diary"), folder.path().join("lock"));
    fs::write(&diary, "dear diary").expect("a file");
    fs::hard_link(&diary, &lock).expect("a second name");
    let disk = Disk::system();
    let held = Lock::take(&disk, &lock, Duration::ZERO, |_| ()).expect("free");
    assert_eq!(fs::read(&diary).expect("there"), b"dear diary");
    assert!(matches!(Lock::take(&disk, &lock, Duration::ZERO, |_| ()), Err(LockError::Held { .. })));
    drop(held);
}

#[test]
fn a_folder_that_others_may_write_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = Disk::system();
    let fresh = folder.path().join("cache/pijs");
    disk.private_dir(&fresh).expect("made");
    assert_eq!((mode(&fresh), mode(&folder.path().join("cache"))), (0o700, 0o700));
    disk.private_dir(&fresh).expect("ours");
    for bits in [0o770, 0o707, 0o777, 0o1777] {
        fs::set_permissions(&fresh, Permissions::from_mode(bits)).expect("permissions");
        let error = disk.private_dir(&fresh).expect_err("the folder is open to others");
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        assert!(error.to_string().contains(&format!("mode {bits:o}")), "{error}");
    }
    fs::set_permissions(&fresh, Permissions::from_mode(0o755)).expect("permissions");
    disk.private_dir(&fresh).expect("a readable folder is accepted");
    let link = folder.path().join("link");
    symlink(&fresh, &link).expect("a link");
    assert!(disk.private_dir(&link).expect_err("a link").to_string().contains("symbolic link"));
    fs::write(folder.path().join("file"), "").expect("a file");
    assert!(disk.private_dir(&folder.path().join("file")).expect_err("a file").to_string().contains("not a folder"));
}

#[test]
fn files_of_dead_processes_are_removed_and_others_stay() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = Disk::system();
    let live = disk.temporary_in(folder.path(), "work").expect("a name");
    fs::create_dir(&live).expect("a folder");
    let dead = folder.path().join("work.4194303-0badcafe-1.tmp");
    fs::create_dir_all(dead.join("deep/er")).expect("folders");
    let other = folder.path().join("work.tmp");
    fs::write(&other, "").expect("a file");
    disk.sweep_owned(folder.path()).expect("swept");
    assert!(live.exists() && other.exists() && !dead.exists());
}

#[test]
fn replacing_a_file_removes_temporary_files_of_dead_processes() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = Disk::system();
    let left = |name: &str| {
        let path = folder.path().join(format!(".{name}.4194303-0badcafe-1.tmp"));
        fs::write(&path, "half").expect("a file");
        path
    };
    let (own, other) = (left("settings.json"), left("trust.json"));
    let target = folder.path().join("settings.json");
    fs::write(&target, "{}").expect("a file");
    fs::set_permissions(&target, Permissions::from_mode(0o666)).expect("permissions");
    disk.replace(&target, b"{\"a\":1}", Replace::SHARED).expect("replaced");
    assert!(!own.exists() && other.exists());
    assert_eq!(mode(&target), 0o666, "whatever the umask is");
}

#[test]
fn a_real_path_is_the_one_that_the_standard_library_finds() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("a/b")).expect("folders");
    fs::write(at("a/b/file"), "").expect("a file");
    fs::write(at("a/odd (deleted)"), "").expect("a file");
    symlink("a/b", at("link")).expect("a link");
    symlink("nowhere", at("broken")).expect("a link");
    symlink("loop", at("loop")).expect("a link");
    for name in [
        "a",
        "a/b/file",
        "link/file",
        "link/..",
        "a/./b",
        "a/odd (deleted)",
        ".",
        "broken",
        "loop",
        "none",
        "a/b/file/x",
    ] {
        let (real, expected) = (real_path(&at(name)), at(name).canonicalize());
        let kinds = |result: std::io::Result<std::path::PathBuf>| result.map_err(|error| error.kind());
        assert_eq!(kinds(real), kinds(expected), "{name}");
    }
    assert!(real_path(Path::new(".")).expect("it is there").is_absolute());
}
