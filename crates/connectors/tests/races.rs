//! Exchanges folders and links while every verb runs, and checks that nothing outside is read or changed (attack cases F06, F07).
//!
//! A second process repeatedly exchanges a folder for a link that leads out (`swap`), or moves the folder out of the project and
//! back (`move`). Each verb runs 2,000 rounds in each mode, or `PIJS_RACE_ROUNDS`; the nightly run has 200,000, so each verb runs
//! 400,000 times, as often as the kernel's own test of `openat2`. The test has no test harness, since the second process is the
//! same executable.
//!
//! Only the effects of a verb are undone before the next round. With `TMPDIR` in memory (not below `/dev`, which is protected) a
//! run takes a tenth of the time: a file system's journal slows both sides, but the race is in the path walk. The output has a
//! line for each verb with the number of exchanges and the results of the calls; `io:EINVAL` and `io:ENOTDIR` are exchanges in
//! the middle of a walk. A race without exchanges, or without a successful call, fails, since it tested nothing.

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
mod support;

#[cfg(target_os = "linux")]
fn main() {
    linux::main();
}

#[cfg(target_os = "linux")]
mod linux {
    use super::support::{Setup, World, ok, writer};
    use libtest_mimic::{Arguments, Failed, Trial};
    use pijs_hostcall::Grant;
    use pijs_protocol::HostResult;
    use rustix::fs::{self, AtFlags, CWD, Mode, OFlags, RenameFlags, renameat_with};
    use serde_json::{Value, json};
    use std::collections::BTreeMap;
    use std::io::{Read as _, Write as _};
    use std::os::fd::{AsRawFd as _, OwnedFd};
    use std::os::unix::fs::MetadataExt as _;
    use std::path::{Path, PathBuf};
    use std::process::{Child, Command, Stdio};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Default number of rounds of one verb in one mode.
    const ROUNDS: usize = 2_000;
    /// Number of rounds between two checks of the files outside, which are also checked at the end.
    const LOOK_EVERY: usize = 1_000;
    const CANARY: &str = "canary";
    /// Maximum pause between two exchanges, in iterations of an empty loop: about the time of a call.
    const LONGEST_PAUSE: u32 = 512;

    /// State that a call changes, and that is restored for the next round.
    #[derive(Clone, Copy)]
    enum Restore {
        Nothing,
        /// The file `d/f` exists with the project's content.
        File,
        /// The folder `d/e` exists.
        Folder,
        /// `d/n` does not exist.
        New,
        /// No folder `d/t-...` exists.
        Temporary,
        /// The file `mine` exists.
        Mine,
        /// If this name exists, it must have the project's content; it is removed.
        Taken(&'static str),
    }

    struct Verb {
        name: &'static str,
        capability: &'static str,
        method: &'static str,
        params: Value,
        restore: Restore,
    }

    /// Returns all verbs. `d` is the exchanged folder, with the file `f`, the folder `e` and the link `l`.
    fn verbs() -> Vec<Verb> {
        use Restore::{File, Folder, Mine, New, Nothing, Taken, Temporary};
        let verbs = [
            ("readFile", "read", json!({"op": "readFile", "path": "d/f", "encoding": "utf8"}), Nothing),
            ("open", "read", json!({"op": "open", "path": "d/f"}), Nothing),
            ("stat", "read", json!({"op": "stat", "path": "d/f"}), Nothing),
            ("lstat", "read", json!({"op": "lstat", "path": "d/f"}), Nothing),
            ("access", "read", json!({"op": "access", "path": "d/f", "mode": 6}), Nothing),
            ("realpath", "read", json!({"op": "realpath", "path": "d/f"}), Nothing),
            ("readlink", "read", json!({"op": "readlink", "path": "d/l"}), Nothing),
            ("readdir", "read", json!({"op": "readdir", "path": "d"}), Nothing),
            ("readdir deep", "read", json!({"op": "readdir", "path": ".", "recursive": true}), Nothing),
            ("writeFile", "write", json!({"op": "writeFile", "path": "d/f", "data": "mine"}), Nothing),
            ("writeFile new", "write", json!({"op": "writeFile", "path": "d/n", "data": "mine"}), New),
            (
                "writeFile in place",
                "write",
                json!({"op": "writeFile", "path": "d/f", "data": "mine", "flag": "r+"}),
                Nothing,
            ),
            ("appendFile", "write", json!({"op": "appendFile", "path": "d/f", "data": "x"}), File),
            ("truncate", "write", json!({"op": "truncate", "path": "d/f", "len": 2}), Nothing),
            ("open w", "write", json!({"op": "open", "path": "d/f", "flags": "w"}), Nothing),
            ("mkdir", "write", json!({"op": "mkdir", "path": "d/n"}), New),
            ("mkdir -p", "write", json!({"op": "mkdir", "path": "d/n/m", "recursive": true}), New),
            ("mkdtemp", "write", json!({"op": "mkdtemp", "prefix": "d/t-"}), Temporary),
            ("rmdir", "write", json!({"op": "rmdir", "path": "d/e"}), Folder),
            ("unlink", "write", json!({"op": "unlink", "path": "d/f"}), File),
            ("rm", "write", json!({"op": "rm", "path": "d/e", "recursive": true}), Folder),
            ("rename out of it", "write", json!({"op": "rename", "from": "d/f", "to": "moved"}), Taken("moved")),
            ("rename into it", "write", json!({"op": "rename", "from": "mine", "to": "d/f"}), Mine),
            ("link out of it", "write", json!({"op": "link", "from": "d/f", "to": "linked"}), Taken("linked")),
            ("link into it", "write", json!({"op": "link", "from": "mine", "to": "d/n"}), New),
            ("symlink", "write", json!({"op": "symlink", "target": "f", "path": "d/n"}), New),
            ("chmod", "write", json!({"op": "chmod", "path": "d/f", "mode": 0o600}), Nothing),
            ("utimes", "write", json!({"op": "utimes", "path": "d/f", "atimeMs": 1, "mtimeMs": 1}), Nothing),
            ("copyFile from it", "write", json!({"op": "copyFile", "from": "d/f", "to": "copy"}), Taken("copy")),
            ("copyFile into it", "write", json!({"op": "copyFile", "from": "mine", "to": "d/f"}), Nothing),
            ("cp from it", "write", json!({"op": "cp", "from": "d", "to": "copies", "recursive": true}), Nothing),
            ("cp into it", "write", json!({"op": "cp", "from": "src", "to": "d/n", "recursive": true}), New),
        ];
        let databases = [
            ("sqlite", "read", json!({"op": "get", "readOnly": true, "sql": "SELECT v FROM t"}), Nothing),
            (
                "sqlite change",
                "write",
                json!({"op": "exec", "sql": "PRAGMA synchronous = 0; UPDATE t SET v = 'mine'"}),
                Nothing,
            ),
        ];
        let verb =
            |method| move |(name, capability, params, restore)| Verb { name, capability, method, params, restore };
        verbs.into_iter().map(verb("fs")).chain(databases.into_iter().map(verb("sqlite"))).collect()
    }

    /// Performs a verb once.
    fn act(world: &World, verb: &Verb) -> HostResult {
        if verb.method != "sqlite" {
            return world.sync(verb.capability, verb.method, verb.params.clone());
        }
        let read_only = verb.params.get("readOnly").is_some();
        let open = json!({"op": "open", "path": "d/db", "readOnly": read_only});
        let opened = world.sync(verb.capability, "sqlite", open);
        let Some(number) = opened.output.get("db").cloned() else { return opened };
        let mut params = verb.params.clone();
        params["db"] = number.clone();
        let done = world.sync("read", "sqlite", params);
        ok(world.sync("read", "sqlite", json!({"op": "close", "db": number})));
        done
    }

    /// Creates a database with one row in another process, since SQLite in this one is configured for calls of extensions.
    fn database(file: &Path, text: &str) {
        let mut maker = Command::new(std::env::current_exe().unwrap());
        assert!(maker.arg(format!("--database={text}")).arg(file).status().unwrap().success());
    }

    fn make_database(file: &Path, text: &str) {
        let database = rusqlite::Connection::open(file).unwrap();
        database.execute("CREATE TABLE t (v)", ()).unwrap();
        database.execute("INSERT INTO t VALUES (?)", [text]).unwrap();
    }

    pub(super) fn main() {
        let arguments: Vec<String> = std::env::args().collect();
        if let [_, how, folder] = &arguments[..]
            && let Some(how) = how.strip_prefix("--attack=")
        {
            return attack(how, Path::new(folder));
        }
        if let [_, how, file] = &arguments[..]
            && let Some(text) = how.strip_prefix("--database=")
        {
            return make_database(Path::new(file), text);
        }
        let rounds = std::env::var("PIJS_RACE_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(ROUNDS);
        let mut trials = Vec::new();
        for how in ["swap", "move"] {
            for verb in verbs() {
                let title = format!("{how}::{}", verb.name.replace(' ', "-"));
                trials.push(Trial::test(title.clone(), move || race(how, &title, &verb, rounds).map_err(Failed::from)));
            }
        }
        // One race at a time: two already need a processor each.
        let mut arguments = Arguments::from_args();
        arguments.test_threads.get_or_insert(1);
        libtest_mimic::run(&arguments, trials).exit();
    }

    /// The second process: exchanges the folder until its input ends, and reports its start and the number of exchanges.
    ///
    /// The length of the pauses varies, so that exchanges happen at every step of a call, and some calls succeed.
    fn attack(how: &str, app: &Path) {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        std::thread::spawn(move || {
            let _ = std::io::stdin().read(&mut [0]);
            seen.store(true, Ordering::Relaxed);
        });
        let (folder, way_out, away) = (app.join("d"), app.join("way-out"), app.join("../away/d"));
        let (mut count, mut random) = (0_u64, 1_u32);
        while !stop.load(Ordering::Relaxed) {
            let done = match how {
                "swap" => renameat_with(CWD, &folder, CWD, &way_out, RenameFlags::EXCHANGE),
                _ if count.is_multiple_of(2) => renameat_with(CWD, &folder, CWD, &away, RenameFlags::NOREPLACE),
                _ => renameat_with(CWD, &away, CWD, &folder, RenameFlags::NOREPLACE),
            };
            let done = match done {
                // A call has created a new folder with this name in the meantime.
                Err(rustix::io::Errno::EXIST) => renameat_with(CWD, &away, CWD, &folder, RenameFlags::EXCHANGE)
                    .map(|()| drop(std::fs::remove_dir_all(&away))),
                done => done,
            };
            if done.is_ok() && count == 0 {
                let _ = write!(std::io::stdout(), ".").and_then(|()| std::io::stdout().flush());
            }
            count += u64::from(done.is_ok());
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            for _ in 0..(random >> 8) % LONGEST_PAUSE {
                std::hint::spin_loop();
            }
        }
        let _ = write!(std::io::stdout(), "{count}");
    }

    struct Attacker(Child);

    impl Attacker {
        fn start(how: &str, app: &Path) -> Self {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.arg(format!("--attack={how}")).arg(app).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut attacker = command.spawn().unwrap();
            // Waits for the attacker to begin: on a busy machine, the calls could be over before.
            attacker.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
            Self(attacker)
        }

        /// Stops the attacker and returns the number of exchanges.
        fn stop(mut self) -> u64 {
            drop(self.0.stdin.take());
            let output = self.0.wait_with_output().unwrap();
            String::from_utf8_lossy(&output.stdout).parse().unwrap_or(0)
        }
    }

    fn race(how: &str, title: &str, verb: &Verb, rounds: usize) -> Result<(), String> {
        let read = Grant::any("r", "tools");
        let world = Setup { keeps_ledger: false, ..Setup::new(&[writer(), read]) }.build();
        let (app, outside) = (world.app(), world.root().join("outside"));
        std::fs::create_dir_all(app.join("d/e")).unwrap();
        std::fs::write(app.join("d/f"), "mine").unwrap();
        std::fs::write(app.join("mine"), "mine").unwrap();
        std::os::unix::fs::symlink("mine", app.join("d/l")).unwrap();
        std::fs::create_dir(world.root().join("away")).unwrap();
        std::os::unix::fs::symlink("../outside", app.join("way-out")).unwrap();
        for name in ["f", "e/inner", "secret"] {
            let file = outside.join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, CANARY).unwrap();
        }
        std::os::unix::fs::symlink(CANARY, outside.join("l")).unwrap();
        database(&app.join("d/db"), "mine");
        database(&outside.join("db"), CANARY);
        let places = Folders { app: open(&app), d: open(&app.join("d")) };
        let before = snapshot(&outside);
        let attacker = Attacker::start(how, &app);
        let mut outcomes: BTreeMap<String, usize> = BTreeMap::new();
        let mut escaped = None;
        // Runs more rounds if the folder was absent in all of them.
        for round in 0..20 * rounds {
            if round >= rounds && outcomes.contains_key("ok") {
                break;
            }
            let result = act(&world, verb);
            if saw_canary(&world, &result) {
                escaped = Some(format!("round {round}: {}", result.output));
                break;
            }
            *outcomes.entry(outcome(&result)).or_default() += 1;
            close(&world, &result);
            if let Err(what) = places.restore(verb.restore) {
                escaped = Some(format!("round {round}: {what}"));
                break;
            }
            if round % LOOK_EVERY == LOOK_EVERY - 1 && snapshot(&outside) != before {
                escaped = Some(format!("round {round}: the outside has changed"));
                break;
            }
        }
        let strikes = attacker.stop();
        if escaped.is_none() && snapshot(&outside) != before {
            escaped = Some("the outside has changed".to_owned());
        }
        // Copies must contain only the project's text. A name that exists only outside must not appear.
        for name in ["copies/secret", "copies/e/inner"] {
            if std::fs::exists(app.join(name)).unwrap_or(true) {
                escaped = Some(format!("{name} was outside"));
            }
        }
        let done = outcomes.get("ok").copied().unwrap_or_default();
        let refused = outcomes.values().sum::<usize>() - done;
        let _ = writeln!(
            std::io::stderr(),
            "{title}: {rounds} rounds, {strikes} strikes, {done} done, {refused} refused {outcomes:?}"
        );
        match escaped {
            Some(how) => Err(how),
            None if strikes == 0 || done == 0 => {
                Err("the attacker never struck, or left no call alone: nothing was tested".to_owned())
            }
            None => Ok(()),
        }
    }

    fn open(folder: &Path) -> OwnedFd {
        fs::open(folder, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap()
    }

    /// The project, and the exchanged folder at its current location.
    struct Folders {
        app: OwnedFd,
        d: OwnedFd,
    }

    impl Folders {
        /// Restores the state. Fails when a call changed anything outside.
        fn restore(&self, what: Restore) -> Result<(), String> {
            match what {
                Restore::Nothing => {}
                Restore::File => fill(&self.d, "f"),
                Restore::Folder => drop(fs::mkdirat(&self.d, "e", Mode::from_raw_mode(0o755))),
                Restore::New => clear(&self.d, "n"),
                Restore::Temporary => {
                    for entry in fs::Dir::read_from(&self.d).unwrap().flatten() {
                        if entry.file_name().to_bytes().starts_with(b"t-") {
                            let _ = fs::unlinkat(&self.d, entry.file_name(), AtFlags::REMOVEDIR);
                        }
                    }
                }
                Restore::Mine => fill(&self.app, "mine"),
                Restore::Taken(name) => {
                    let Ok(file) = fs::openat(&self.app, name, OFlags::RDONLY | OFlags::NOFOLLOW, Mode::empty()) else {
                        return Ok(());
                    };
                    let mut text = String::new();
                    let _ = std::fs::File::from(file).read_to_string(&mut text);
                    if text == CANARY {
                        return Err(format!("{name} was outside"));
                    }
                    let _ = fs::unlinkat(&self.app, name, AtFlags::empty());
                    fill(&self.d, "f");
                }
            }
            Ok(())
        }
    }

    /// Writes the project's content to a file of this folder.
    fn fill(folder: &OwnedFd, name: &str) {
        let bits = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = fs::openat(folder, name, bits, Mode::from_raw_mode(0o644)).unwrap();
        rustix::io::write(file, b"mine").unwrap();
    }

    /// Removes a name, recursively.
    fn clear(folder: &OwnedFd, name: &str) {
        if fs::unlinkat(folder, name, AtFlags::empty()) == Err(rustix::io::Errno::ISDIR) {
            let _ = std::fs::remove_dir_all(format!("/proc/self/fd/{}/{name}", folder.as_raw_fd()));
        }
    }

    fn outcome(result: &HostResult) -> String {
        match &result.error {
            None => "ok".to_owned(),
            Some(error) => format!("{}:{}", error.code, error.details["reason"].as_str().unwrap_or_default()),
        }
    }

    fn saw_canary(world: &World, result: &HostResult) -> bool {
        if let Some(fd) = result.output.get("fd") {
            let read = world.read(json!({"op": "read", "fd": fd, "length": 100, "position": 0}));
            return read.bytes.first().is_some_and(|bytes| bytes == CANARY.as_bytes());
        }
        let told = |text: &str| [CANARY, "outside", "secret", "inner"].iter().any(|name| text.contains(name));
        result.bytes.iter().any(|bytes| told(&String::from_utf8_lossy(bytes))) || told(&result.output.to_string())
    }

    fn close(world: &World, result: &HostResult) {
        if let Some(fd) = result.output.get("fd") {
            ok(world.read(json!({"op": "close", "fd": fd})));
        }
    }

    #[derive(PartialEq)]
    struct Facts {
        mode: u32,
        links: u64,
        modified: (i64, i64),
        content: Vec<u8>,
    }

    /// Returns all files below a folder.
    fn snapshot(folder: &Path) -> BTreeMap<PathBuf, Facts> {
        let mut found = BTreeMap::new();
        let mut waiting = vec![folder.to_owned()];
        while let Some(folder) = waiting.pop() {
            for entry in std::fs::read_dir(&folder).unwrap().flatten() {
                let stat = entry.path().symlink_metadata().unwrap();
                if stat.is_dir() {
                    waiting.push(entry.path());
                }
                let content = std::fs::read(entry.path()).unwrap_or_default();
                let modified = (stat.mtime(), stat.mtime_nsec());
                let facts = Facts { mode: stat.mode(), links: stat.nlink(), modified, content };
                found.insert(entry.path(), facts);
            }
        }
        found
    }
}
