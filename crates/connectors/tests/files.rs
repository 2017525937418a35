//! Tests files: atomic writes, watches, handles, and mounted file systems.

#[cfg(unix)]
mod support;

#[cfg(unix)]
mod unix {
    use super::support::{Setup, World, ok, op, why, writer};
    use pijs_connectors::system::MemoryFileSystem;
    use serde_json::{Value, json};
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
    use std::sync::Arc;

    #[test]
    fn a_file_is_replaced_at_once_and_keeps_its_mode() {
        let world = World::new(&[writer()]);
        let file = world.app().join("f");
        std::fs::write(&file, "old").unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).unwrap();
        let reader = std::fs::File::open(&file).unwrap();
        let before = file.metadata().unwrap().ino();
        ok(world.write(json!({"op": "writeFile", "path": "f", "data": "new"})));
        let after = file.metadata().unwrap();
        assert_eq!((after.mode() & 0o777, after.ino() != before), (0o640, true));
        // A reader with an open handle still gets the old content.
        assert_eq!(std::io::read_to_string(reader).unwrap(), "old");
        assert_eq!(std::fs::read_dir(world.app()).unwrap().count(), 3, "src, .pi and f: no temporary file is left");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_that_is_watched_is_written_into() {
        let world = World::new(&[writer()]);
        let file = world.app().join("src/a.txt");
        let before = file.metadata().unwrap().ino();
        for path in ["src", "src/a.txt"] {
            let begun = world.read(op("watch", json!({"path": path})));
            assert!(ok(begun)["watch"].is_u64(), "{path}");
            ok(world.write(json!({"op": "writeFile", "path": "src/a.txt", "data": path})));
            assert_eq!(std::fs::read_to_string(&file).unwrap(), path);
            assert_eq!(file.metadata().unwrap().ino(), before, "{path}");
        }
        // A file that is not watched is replaced.
        let other = world.app().join("b");
        std::fs::write(&other, "old").unwrap();
        let before = other.metadata().unwrap().ino();
        ok(world.write(json!({"op": "writeFile", "path": "b", "data": "new"})));
        assert_ne!(other.metadata().unwrap().ino(), before);
    }

    #[test]
    fn a_file_with_two_names_stays_one_file() {
        let world = World::new(&[writer()]);
        let (file, other) = (world.app().join("f"), world.app().join("g"));
        std::fs::write(&file, "old").unwrap();
        std::fs::hard_link(&file, &other).unwrap();
        ok(world.write(json!({"op": "writeFile", "path": "f", "data": "new"})));
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "new");
    }

    #[test]
    fn a_link_inside_stays_a_link_and_its_file_is_written() {
        let world = World::new(&[writer()]);
        std::os::unix::fs::symlink("src/a.txt", world.app().join("l")).unwrap();
        ok(world.write(json!({"op": "writeFile", "path": "l", "data": "new"})));
        assert!(world.app().join("l").is_symlink());
        assert_eq!(std::fs::read_to_string(world.app().join("src/a.txt")).unwrap(), "new");
    }

    /// In a folder that an extension may write but not read, it reads the files that it made while they are unchanged, and no
    /// others.
    #[test]
    fn an_extension_reads_only_its_own_unchanged_files() {
        let world = World::new(&[writer()]);
        let tmp = world.app().parent().unwrap().join("tmp");
        let at = |name: &str| tmp.join(name).display().to_string();
        let read = |name: &str| world.read(json!({"op": "readFile", "path": at(name), "encoding": "utf8"}));
        let text = |name: &str| ok(read(name))["text"].as_str().unwrap().to_owned();
        let refused = |name: &str| assert_eq!(why(&read(name)), "denied:no_grant", "{name}");
        let list = |name: &str| {
            let listed = ok(world.read(json!({"op": "readdir", "path": at(name)})));
            let names = listed["entries"].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap());
            names.map(str::to_owned).collect::<Vec<_>>()
        };

        // The extension creates a folder and files, moves and changes them, and reads them back.
        ok(world.write(json!({"op": "mkdir", "path": at("own"), "recursive": true})));
        ok(world.read(json!({"op": "access", "path": at("own"), "mode": 6})));
        ok(world.write(json!({"op": "writeFile", "path": at("own/state.tmp"), "data": "one"})));
        ok(world.write(json!({"op": "rename", "from": at("own/state.tmp"), "to": at("own/state")})));
        ok(world.write(json!({"op": "appendFile", "path": at("own/log"), "data": "a"})));
        ok(world.write(json!({"op": "appendFile", "path": at("own/log"), "data": "b"})));
        ok(world.write(json!({"op": "chmod", "path": at("own/log"), "mode": 0o600})));
        let fd = ok(world.write(json!({"op": "open", "path": at("own/file"), "flags": "w+"})))["fd"].clone();
        ok(world.write(json!({"op": "write", "fd": fd, "data": "by handle"})));
        ok(world.read(json!({"op": "read", "fd": fd, "length": 9, "position": 0})));
        ok(world.read(json!({"op": "close", "fd": fd})));
        ok(world.write(json!({"op": "rename", "from": at("own"), "to": at("moved")})));
        assert_eq!(
            (text("moved/state"), text("moved/log"), text("moved/file")),
            ("one".into(), "ab".into(), "by handle".into())
        );
        assert_eq!(list("moved"), ["file", "log", "state"]);
        // A missing file is reported as missing, which a writer could find out anyway.
        assert_eq!(why(&read("moved/absent")), "io:ENOENT");

        // Other programs add, replace, change and link files.
        std::fs::write(tmp.join("moved/theirs"), "secret").unwrap();
        std::fs::write(tmp.join("moved/state"), "two").unwrap();
        std::fs::remove_file(tmp.join("moved/file")).unwrap();
        std::fs::write(tmp.join("moved/file"), "by handle").unwrap();
        std::os::unix::fs::symlink("theirs", tmp.join("moved/link")).unwrap();
        for name in ["moved/theirs", "moved/state", "moved/file", "moved/link"] {
            refused(name);
            assert!(
                why(&world.write(json!({"op": "copyFile", "from": at(name), "to": "copy"}))).starts_with("denied"),
                "{name}"
            );
        }
        assert_eq!(list("moved"), ["log"]);
        for params in [
            json!({"op": "readlink", "path": at("moved/link")}),
            json!({"op": "realpath", "path": at("moved/link")}),
            json!({"op": "readdir", "path": tmp.display().to_string()}),
        ] {
            assert_eq!(why(&world.read(params.clone())).split(':').next(), Some("denied"), "{params}");
        }

        // A file to which the extension appends does not become its own, nor does a file that it moves or links into its own
        // folder.
        ok(world.write(json!({"op": "appendFile", "path": at("moved/theirs"), "data": "x"})));
        refused("moved/theirs");
        ok(world.write(json!({"op": "rename", "from": at("moved/theirs"), "to": at("moved/log")})));
        refused("moved/log");
        ok(world.write(json!({"op": "link", "from": at("moved/log"), "to": at("moved/second")})));
        refused("moved/second");
        let open = world.write(json!({"op": "open", "path": at("moved/log"), "flags": "r+"}));
        assert!(why(&open).starts_with("denied"), "{open:?}");
        assert_eq!(std::fs::read_to_string(tmp.join("moved/log")).unwrap(), "secretx");
        // A file that the extension replaces as a whole becomes its own.
        ok(world.write(json!({"op": "writeFile", "path": at("moved/log"), "data": "mine"})));
        assert_eq!(text("moved/log"), "mine");
    }

    #[test]
    fn only_regular_files_are_opened_and_nothing_blocks() {
        let world = World::new(&[writer()]);
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, world.app().join("pipe"), mode).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(world.app().join("socket")).unwrap();
        for (path, reason) in [("pipe", "io:EOPNOTSUPP"), ("socket", "io:ENXIO")] {
            assert_eq!(why(&world.read(json!({"op": "readFile", "path": path}))), reason);
        }
        for path in ["pipe", "socket"] {
            assert!(why(&world.write(json!({"op": "writeFile", "path": path, "data": "x"}))).starts_with("io:"));
            assert!(why(&world.write(json!({"op": "copyFile", "from": path, "to": "copy"}))).starts_with("io:"));
        }
        // A file larger than the limit of one read is refused by its size, before memory is exhausted.
        let sparse = std::fs::File::create(world.app().join("sparse")).unwrap();
        sparse.set_len(1 << 40).unwrap();
        assert_eq!(why(&world.read(json!({"op": "readFile", "path": "sparse"}))), "io:EFBIG");
        assert_eq!(why(&world.read(json!({"op": "readFile", "path": "src"}))), "io:EISDIR");
    }

    #[test]
    fn flags_that_change_a_file_need_to_be_allowed_to() {
        let world = World::new(&[]);
        const CREATE: u64 = 0o100;
        const TRUNCATE: u64 = 0o1000;
        const APPEND: u64 = 0o2000;
        for bits in [CREATE, TRUNCATE, APPEND, CREATE | TRUNCATE, 1, 2] {
            let as_reading = world.read(json!({"op": "open", "path": "src/a.txt", "flags": bits}));
            assert_eq!(why(&as_reading), "invalid_request:capability_mismatch", "{bits:o}");
            let as_writing = world.write(json!({"op": "open", "path": "src/a.txt", "flags": bits}));
            assert_eq!(why(&as_writing), "denied:no_grant", "{bits:o}");
        }
        let fd = ok(world.read(json!({"op": "open", "path": "src/a.txt"})))["fd"].clone();
        for params in [
            json!({"op": "write", "fd": fd, "data": "x"}),
            json!({"op": "ftruncate", "fd": fd}),
            json!({"op": "writeFile", "fd": fd, "data": "x"}),
        ] {
            assert!(why(&world.write(params.clone())).starts_with("io:E"), "{params}");
        }
        for params in [
            json!({"op": "fchmod", "fd": fd, "mode": 0}),
            json!({"op": "futimes", "fd": fd, "atimeMs": 0, "mtimeMs": 0}),
        ] {
            assert_eq!(why(&world.write(params.clone())), "denied:no_grant", "{params}");
        }
        assert_eq!(std::fs::read_to_string(world.app().join("src/a.txt")).unwrap(), "hello");
    }

    #[test]
    fn handles_change_modes_and_times() {
        let world = World::new(&[writer()]);
        let fd = ok(world.write(json!({"op": "open", "path": "f", "flags": "w"})))["fd"].clone();
        ok(world.write(json!({"op": "fchmod", "fd": fd, "mode": 0o4711})));
        ok(world.write(json!({"op": "futimes", "fd": fd, "atimeMs": 1000, "mtimeMs": 2500})));
        ok(world.read(json!({"op": "fdatasync", "fd": fd})));
        let stat = ok(world.read(json!({"op": "fstat", "fd": fd})));
        // The set-user-id bit is not set.
        assert_eq!((stat["mode"].as_u64().unwrap() & 0o7777, &stat["mtimeMs"]), (0o711, &json!(2500.0)));
        std::os::unix::fs::symlink("nowhere", world.app().join("l")).unwrap();
        ok(world.write(json!({"op": "lutimes", "path": "l", "atimeMs": 0, "mtimeMs": 1000})));
        assert_eq!(ok(world.read(json!({"op": "lstat", "path": "l"})))["mtimeMs"], 1000.0);
    }

    #[cfg(target_os = "linux")]
    async fn event(call: &mut super::support::Call) -> Value {
        let result = call.next().await;
        result.output
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_watch_reports_changes_until_it_is_cancelled() {
        let world = World::new(&[writer()]);
        let watch = op("watch", json!({"path": ".", "recursive": true, "token": "w"}));
        let mut call = world.start("read", "fs", watch, vec![]);
        assert_eq!(event(&mut call).await, json!({"ready": true}));
        std::fs::write(world.app().join("src/new"), "x").unwrap();
        assert_eq!(event(&mut call).await, json!({"event": "rename", "name": "src/new"}));
        assert_eq!(event(&mut call).await, json!({"event": "change", "name": "src/new"}));
        // A new folder is watched as well, with its existing content.
        std::fs::create_dir_all(world.app().join("deep/er")).unwrap();
        let mut names = std::collections::BTreeSet::new();
        while names.len() < 2 {
            names.insert(event(&mut call).await["name"].as_str().unwrap().to_owned());
        }
        std::fs::write(world.app().join("deep/er/file"), "x").unwrap();
        while event(&mut call).await["name"] != "deep/er/file" {}
        world.cancel("w");
        loop {
            let last = call.next().await;
            if last.is_error {
                assert_eq!(why(&last), "timeout:cancelled");
                return;
            }
        }
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn watches_of_one_folder_are_independent() {
        let world = World::new(&[writer()]);
        let start = |path: &str, token: &str| {
            world.start("read", "fs", op("watch", json!({"path": path, "token": token})), vec![])
        };
        let mut first = start("src", "first");
        assert_eq!(event(&mut first).await, json!({"ready": true}));
        std::fs::write(world.app().join("src/before"), "x").unwrap();
        // A watch does not report changes from before it began, although the system has one queue for all watches.
        std::fs::create_dir(world.app().join("tools")).unwrap();
        let (mut second, mut other) = (start("src", "second"), start("tools", "other"));
        assert_eq!(event(&mut second).await, json!({"ready": true}));
        assert_eq!(event(&mut other).await, json!({"ready": true}));
        for name in ["before", "after"] {
            if name == "after" {
                std::fs::write(world.app().join("src/after"), "x").unwrap();
                assert_eq!(event(&mut second).await, json!({"event": "rename", "name": "after"}));
            }
            while event(&mut first).await != json!({"event": "rename", "name": name}) {}
        }
        // The end of one watch does not affect the others.
        world.cancel("first");
        while !first.next().await.is_error {}
        std::fs::write(world.app().join("src/last"), "x").unwrap();
        while event(&mut second).await != json!({"event": "rename", "name": "last"}) {}
        std::fs::write(world.app().join("tools/x"), "x").unwrap();
        assert_eq!(event(&mut other).await, json!({"event": "rename", "name": "x"}));
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_watch_of_a_file_ends_with_it_and_does_not_look_outside() {
        let world = World::new(&[writer()]);
        let mut call = world.start("read", "fs", op("watch", json!({"path": "src/a.txt"})), vec![]);
        assert_eq!(event(&mut call).await, json!({"ready": true}));
        std::fs::write(world.app().join("src/a.txt"), "more").unwrap();
        assert_eq!(event(&mut call).await, json!({"event": "change", "name": "a.txt"}));
        std::fs::remove_file(world.app().join("src/a.txt")).unwrap();
        while event(&mut call).await != json!({"gone": true}) {}
        std::os::unix::fs::symlink("../outside", world.app().join("way-out")).unwrap();
        for path in ["way-out", "way-out/secret", "../outside", "/etc"] {
            let refused = world.start("read", "fs", op("watch", json!({"path": path})), vec![]).all().await;
            assert_eq!(why(&refused[0]), "denied:no_grant", "{path}");
        }
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_begun_watch_is_taken_over_once() {
        let world = World::new(&[writer()]);
        let begun = ok(world.read(op("watch", json!({"path": "src"}))))["watch"].clone();
        std::fs::write(world.app().join("src/a.txt"), "seen").unwrap();
        let asked = op("watch", json!({"path": "src", "begun": begun}));
        let mut call = world.start("read", "fs", asked.clone(), vec![]);
        assert_eq!(event(&mut call).await, json!({"ready": true}));
        assert_eq!(event(&mut call).await, json!({"event": "change", "name": "a.txt"}));
        // A begun watch can be taken over only once.
        let again = world.start("read", "fs", asked, vec![]).all().await;
        assert_eq!(why(&again[0]), "invalid_request:schema");
    }

    /// A grant for the project does not cover a file system that is mounted into it. Mounting requires a separate namespace; the
    /// test is skipped where the system does not provide one.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_mounted_file_system_is_not_entered() {
        let world = World::new(&[writer()]);
        let mount = world.app().join("mount");
        std::fs::create_dir(&mount).unwrap();
        let mounted = std::process::Command::new("mount").args(["-t", "tmpfs", "tmpfs"]).arg(&mount).output();
        if !mounted.is_ok_and(|output| output.status.success()) {
            return;
        }
        let _mounted = Mounted(mount.clone());
        std::fs::write(mount.join("f"), "canary").unwrap();
        for (capability, params) in [
            ("read", json!({"op": "readFile", "path": "mount/f"})),
            ("read", json!({"op": "readdir", "path": "mount"})),
            ("write", json!({"op": "writeFile", "path": "mount/f", "data": "x"})),
            ("write", json!({"op": "rm", "path": "mount/f"})),
        ] {
            assert_eq!(why(&world.sync(capability, "fs", params.clone())), "io:EXDEV", "{params}");
        }
        assert_eq!(std::fs::read_to_string(mount.join("f")).unwrap(), "canary");
    }

    /// Unmounts on drop, also when the test fails.
    #[cfg(target_os = "linux")]
    struct Mounted(std::path::PathBuf);

    #[cfg(target_os = "linux")]
    impl Drop for Mounted {
        fn drop(&mut self) {
            let _ = std::process::Command::new("umount").arg(&self.0).output();
        }
    }

    /// Returns calls whose results must be equal in both file systems, in order: capability and parameters.
    fn calls() -> Vec<(&'static str, Value)> {
        let write = |params: Value| ("write", params);
        let read = |params: Value| ("read", params);
        vec![
            write(json!({"op": "mkdir", "path": "a/b/c", "recursive": true})),
            write(json!({"op": "mkdir", "path": "a"})),
            write(json!({"op": "writeFile", "path": "a/f", "data": "one"})),
            write(json!({"op": "appendFile", "path": "a/f", "data": " two"})),
            read(json!({"op": "readFile", "path": "a/f", "encoding": "utf8"})),
            write(json!({"op": "writeFile", "path": "a/f", "data": "x", "flag": "wx"})),
            write(json!({"op": "writeFile", "path": "a/f", "data": "new"})),
            write(json!({"op": "link", "from": "a/f", "to": "a/g"})),
            write(json!({"op": "writeFile", "path": "a/f", "data": "both"})),
            read(json!({"op": "readFile", "path": "a/g", "encoding": "utf8"})),
            write(json!({"op": "truncate", "path": "a/g", "len": 2})),
            write(json!({"op": "symlink", "target": "f", "path": "a/l"})),
            read(json!({"op": "readFile", "path": "a/l", "encoding": "utf8"})),
            read(json!({"op": "readlink", "path": "a/l"})),
            read(json!({"op": "readlink", "path": "a/f"})),
            write(json!({"op": "symlink", "target": "../../outside", "path": "out"})),
            read(json!({"op": "readFile", "path": "way-out/secret"})),
            read(json!({"op": "readdir", "path": "a", "recursive": true})),
            read(json!({"op": "readdir", "path": "a/f"})),
            read(json!({"op": "exists", "path": "a/none"})),
            read(json!({"op": "readFile", "path": "a"})),
            read(json!({"op": "readFile", "path": "a/none"})),
            read(json!({"op": "readFile", "path": "a/f/x"})),
            write(json!({"op": "chmod", "path": "a/f", "mode": 0o600})),
            write(json!({"op": "utimes", "path": "a/f", "atimeMs": 1000, "mtimeMs": 2000})),
            write(json!({"op": "rename", "from": "a", "to": "a/b/inside"})),
            write(json!({"op": "rename", "from": "a/f", "to": "a/b"})),
            write(json!({"op": "rename", "from": "a/b", "to": "a/f"})),
            write(json!({"op": "rename", "from": "a/b", "to": "moved"})),
            write(json!({"op": "rmdir", "path": "moved"})),
            write(json!({"op": "unlink", "path": "moved"})),
            write(json!({"op": "rmdir", "path": "moved/c"})),
            write(json!({"op": "copyFile", "from": "a/f", "to": "copy"})),
            write(json!({"op": "copyFile", "from": "a/f", "to": "copy", "exclusive": true})),
            write(json!({"op": "cp", "from": "a", "to": "copies", "recursive": true})),
            read(json!({"op": "readdir", "path": "copies", "recursive": true})),
            write(json!({"op": "open", "path": "h", "flags": "w+"})),
            write(json!({"op": "write", "fd": 3, "data": "abcdef"})),
            write(json!({"op": "write", "fd": 3, "data": "X", "position": 1})),
            read(json!({"op": "read", "fd": 3, "length": 3, "position": 0})),
            write(json!({"op": "ftruncate", "fd": 3, "len": 8})),
            write(json!({"op": "unlink", "path": "h"})),
            read(json!({"op": "fstat", "fd": 3})),
            read(json!({"op": "close", "fd": 3})),
            read(json!({"op": "close", "fd": 3})),
            read(json!({"op": "realpath", "path": "a/l"})),
            read(json!({"op": "stat", "path": "a/l"})),
            read(json!({"op": "lstat", "path": "a/l"})),
            write(json!({"op": "rm", "path": "a"})),
            write(json!({"op": "rm", "path": "a", "recursive": true})),
            write(json!({"op": "rm", "path": "a"})),
            write(json!({"op": "rm", "path": "a", "force": true})),
            read(json!({"op": "readdir", "path": "."})),
        ]
    }

    /// Returns the result of a call without members that differ between two file systems: numbers, times, the folder.
    fn told(world: &World, capability: &str, params: &Value) -> String {
        let result = world.sync(capability, "fs", params.clone());
        let mut output = result.output.clone();
        if let Some(stat) = output.as_object_mut() {
            let is_folder = stat.get("kind").is_some_and(|kind| kind == "dir");
            for name in ["dev", "ino", "uid", "gid", "blocks", "blksize", "ctimeMs", "birthtimeMs", "atimeMs"] {
                stat.remove(name);
            }
            // A time is compared only if a call has set it.
            if stat.get("mtimeMs").is_some_and(|time| *time != 2000.0) {
                stat.remove("mtimeMs");
            }
            if is_folder {
                stat.remove("size");
            }
            // The mode depends on the process's umask, so it is compared only if a call has set it.
            if stat.get("mode").is_some_and(|mode| mode.as_u64() != Some(0o100_600)) {
                stat.remove("mode");
            }
        }
        let error = result.error.map(|error| (error.code, error.message));
        format!("{output} {error:?} {:?}", result.bytes).replace(&*world.root().to_string_lossy(), "ROOT")
    }

    #[test]
    fn files_in_memory_answer_as_those_of_the_system() {
        let disk = World::new(&[writer()]);
        std::os::unix::fs::symlink("../outside", disk.app().join("way-out")).unwrap();
        let memory = Setup {
            system: |root| {
                let files = MemoryFileSystem::new()
                    .folder(root.join("app/.pi"))
                    .folder(root.join("home/.pi/agent"))
                    .folder(root.join("tmp"))
                    .file(root.join("outside/secret"), "canary")
                    .file(root.join("app/src/a.txt"), "hello")
                    .symlink(root.join("app/way-out"), "../outside");
                Arc::new(files)
            },
            ..Setup::new(&[writer()])
        }
        .build();
        for (capability, params) in calls() {
            assert_eq!(told(&memory, capability, &params), told(&disk, capability, &params), "{params}");
        }
    }

    #[tokio::test]
    async fn a_name_is_all_that_is_told_of_what_is_outside() {
        let world = World::new(&[]);
        std::os::unix::fs::symlink("../outside", world.app().join("d")).unwrap();
        for verb in ["stat", "readFile", "readdir", "realpath", "access", "open", "readlink"] {
            for folder in ["../outside", "d", "/root", "/etc/ssl"] {
                let words = |name: &str| {
                    let path = format!("{folder}/{name}");
                    let error = world.read(json!({"op": verb, "path": path})).error.unwrap();
                    (error.code, error.message.replace(&path, "PATH"), error.details["reason"].clone())
                };
                assert_eq!(words("secret"), words("no-such-name"), "{verb} {folder}");
            }
        }
    }
}
