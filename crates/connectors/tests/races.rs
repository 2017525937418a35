//! Folders and links change places while every verb runs: nothing outside is read or changed (attack cases F06, F07).
//!
//! A second process does nothing but exchange a folder for a link that leads out (`swap`), or move the folder out of the
//! project and back (`move`). Each verb runs 4,000 rounds, or as many as `PIJS_RACE_ROUNDS` says; the nightly run says
//! 400,000, the count of the kernel's own test of `openat2`. The test is a program of its own, since it is that
//! second process as well.

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
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use serde_json::{Value, json};
    use std::collections::BTreeMap;
    use std::io::{Read as _, Write as _};
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::MetadataExt as _;
    use std::path::{Path, PathBuf};
    use std::process::{Child, Command, Stdio};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    const ROUNDS: usize = 4_000;
    /// The outside is looked at this often, and at the end.
    const LOOK_EVERY: usize = 1_000;
    const CANARY: &str = "canary";

    /// Verb, capability, parameters. `d` is what changes places; inside it are the file `f`, the folder `e` and the link `l`.
    fn verbs() -> Vec<(&'static str, &'static str, Value)> {
        vec![
            ("readFile", "read", json!({"op": "readFile", "path": "d/f", "encoding": "utf8"})),
            ("open", "read", json!({"op": "open", "path": "d/f"})),
            ("stat", "read", json!({"op": "stat", "path": "d/f"})),
            ("lstat", "read", json!({"op": "lstat", "path": "d/f"})),
            ("access", "read", json!({"op": "access", "path": "d/f", "mode": 6})),
            ("realpath", "read", json!({"op": "realpath", "path": "d/f"})),
            ("readlink", "read", json!({"op": "readlink", "path": "d/l"})),
            ("readdir", "read", json!({"op": "readdir", "path": "d"})),
            ("readdir deep", "read", json!({"op": "readdir", "path": ".", "recursive": true})),
            ("writeFile", "write", json!({"op": "writeFile", "path": "d/f", "data": "mine"})),
            ("writeFile new", "write", json!({"op": "writeFile", "path": "d/n", "data": "mine"})),
            ("writeFile in place", "write", json!({"op": "writeFile", "path": "d/f", "data": "mine", "flag": "r+"})),
            ("appendFile", "write", json!({"op": "appendFile", "path": "d/f", "data": "x"})),
            ("truncate", "write", json!({"op": "truncate", "path": "d/f", "len": 2})),
            ("open w", "write", json!({"op": "open", "path": "d/f", "flags": "w"})),
            ("mkdir", "write", json!({"op": "mkdir", "path": "d/n"})),
            ("mkdir -p", "write", json!({"op": "mkdir", "path": "d/n/m", "recursive": true})),
            ("mkdtemp", "write", json!({"op": "mkdtemp", "prefix": "d/t-"})),
            ("rmdir", "write", json!({"op": "rmdir", "path": "d/e"})),
            ("unlink", "write", json!({"op": "unlink", "path": "d/f"})),
            ("rm", "write", json!({"op": "rm", "path": "d/e", "recursive": true})),
            ("rename out of it", "write", json!({"op": "rename", "from": "d/f", "to": "moved"})),
            ("rename into it", "write", json!({"op": "rename", "from": "mine", "to": "d/f"})),
            ("link out of it", "write", json!({"op": "link", "from": "d/f", "to": "linked"})),
            ("link into it", "write", json!({"op": "link", "from": "mine", "to": "d/n"})),
            ("symlink", "write", json!({"op": "symlink", "target": "f", "path": "d/n"})),
            ("chmod", "write", json!({"op": "chmod", "path": "d/f", "mode": 0o600})),
            ("utimes", "write", json!({"op": "utimes", "path": "d/f", "atimeMs": 1, "mtimeMs": 1})),
            ("copyFile from it", "write", json!({"op": "copyFile", "from": "d/f", "to": "copy"})),
            ("copyFile into it", "write", json!({"op": "copyFile", "from": "mine", "to": "d/f"})),
            ("cp from it", "write", json!({"op": "cp", "from": "d", "to": "copies", "recursive": true})),
            ("cp into it", "write", json!({"op": "cp", "from": "src", "to": "d/n", "recursive": true})),
        ]
    }

    pub(super) fn main() {
        let arguments: Vec<String> = std::env::args().collect();
        if let [_, how, folder] = &arguments[..]
            && let Some(how) = how.strip_prefix("--attack=")
        {
            return attack(how, Path::new(folder));
        }
        let rounds = std::env::var("PIJS_RACE_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(ROUNDS);
        let mut trials = Vec::new();
        for how in ["swap", "move"] {
            for (name, capability, params) in verbs() {
                let title = format!("{how}::{}", name.replace(' ', "-"));
                trials.push(Trial::test(title.clone(), move || {
                    race(how, &title, capability, &params, rounds).map_err(Failed::from)
                }));
            }
        }
        libtest_mimic::run(&Arguments::from_args(), trials).exit();
    }

    /// The second process: changes the folder's place until its input ends, and says how often it did.
    fn attack(how: &str, app: &Path) {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        std::thread::spawn(move || {
            let _ = std::io::stdin().read(&mut [0]);
            seen.store(true, Ordering::Relaxed);
        });
        let (mut count, away) = (0_u64, app.join("../away/d"));
        while !stop.load(Ordering::Relaxed) {
            let done = match how {
                "swap" => renameat_with(CWD, app.join("d"), CWD, app.join("way-out"), RenameFlags::EXCHANGE),
                _ => renameat_with(CWD, app.join("d"), CWD, &away, RenameFlags::NOREPLACE)
                    .and_then(|()| renameat_with(CWD, &away, CWD, app.join("d"), RenameFlags::NOREPLACE)),
            };
            count += u64::from(done.is_ok());
        }
        let _ = write!(std::io::stdout(), "{count}");
    }

    struct Attacker(Child);

    impl Attacker {
        fn start(how: &str, app: &Path) -> Self {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.arg(format!("--attack={how}")).arg(app).stdin(Stdio::piped()).stdout(Stdio::piped());
            Self(command.spawn().unwrap())
        }

        /// How often it struck.
        fn stop(mut self) -> u64 {
            drop(self.0.stdin.take());
            let output = self.0.wait_with_output().unwrap();
            String::from_utf8_lossy(&output.stdout).parse().unwrap_or(0)
        }
    }

    fn race(how: &str, title: &str, capability: &str, params: &Value, rounds: usize) -> Result<(), String> {
        let read = Grant::any("r", "tools");
        let world = Setup { keeps_ledger: false, ..Setup::new(&[writer(), read]) }.build();
        let (app, outside) = (world.app(), world.root().join("outside"));
        std::fs::create_dir(app.join("d")).unwrap();
        std::fs::create_dir(world.root().join("away")).unwrap();
        std::os::unix::fs::symlink("../outside", app.join("way-out")).unwrap();
        for name in ["f", "e/inner", "secret"] {
            let file = outside.join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, CANARY).unwrap();
        }
        std::os::unix::fs::symlink(CANARY, outside.join("l")).unwrap();
        let folder = std::fs::File::open(app.join("d")).unwrap();
        let inside = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
        let before = snapshot(&outside);
        let attacker = Attacker::start(how, &app);
        let mut outcomes: BTreeMap<String, usize> = BTreeMap::new();
        let mut escaped = None;
        for round in 0..rounds {
            prepare(&app, &inside);
            let result = world.sync(capability, "fs", params.clone());
            if saw_canary(&world, &result) {
                escaped = Some(format!("round {round}: {}", result.output));
                break;
            }
            *outcomes.entry(outcome(&result)).or_default() += 1;
            close(&world, &result);
            if round % LOOK_EVERY == LOOK_EVERY - 1 && snapshot(&outside) != before {
                escaped = Some(format!("round {round}: the outside has changed"));
                break;
            }
        }
        let strikes = attacker.stop();
        if escaped.is_none() && snapshot(&outside) != before {
            escaped = Some("the outside has changed".to_owned());
        }
        // What was read or copied must be ours.
        for name in ["moved", "linked", "copy", "copies/f", "copies/secret", "copies/e/inner"] {
            if std::fs::read_to_string(app.join(name)).is_ok_and(|text| text == CANARY) {
                escaped = Some(format!("{name} holds what was outside"));
            }
        }
        let _ = writeln!(std::io::stderr(), "{title}: {rounds} rounds, {strikes} strikes, {outcomes:?}");
        match escaped {
            Some(how) => Err(how),
            None if strikes == 0 => Err("the attacker never struck, so nothing was tested".to_owned()),
            None => Ok(()),
        }
    }

    /// What a round needs: our file, folder and link in `d`, and nothing left of the round before.
    fn prepare(app: &Path, inside: &Path) {
        let _ = std::fs::write(inside.join("f"), "mine");
        let _ = std::fs::create_dir(inside.join("e"));
        let _ = std::os::unix::fs::symlink("mine", inside.join("l"));
        let _ = std::fs::write(app.join("mine"), "mine");
        for name in ["linked", "moved"] {
            if std::fs::read_to_string(app.join(name)).is_ok_and(|text| text != CANARY) {
                let _ = std::fs::remove_file(app.join(name));
            }
        }
        let new = inside.join("n");
        if std::fs::remove_file(&new).is_err() {
            let _ = std::fs::remove_dir_all(&new);
        }
        for entry in std::fs::read_dir(inside).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with("t-") {
                let _ = std::fs::remove_dir(entry.path());
            }
        }
    }

    fn outcome(result: &HostResult) -> String {
        match &result.error {
            None => "ok".to_owned(),
            Some(error) => format!("{}:{}", error.code, error.details["reason"].as_str().unwrap_or_default()),
        }
    }

    fn saw_canary(world: &World, result: &HostResult) -> bool {
        let text = result.output.to_string();
        if text.contains(CANARY) || text.contains("outside") || text.contains("secret") || text.contains("inner") {
            return true;
        }
        match result.output.get("fd") {
            Some(fd) => {
                let read = world.read(json!({"op": "read", "fd": fd, "length": 100, "position": 0}));
                read.bytes.first().is_some_and(|bytes| bytes == CANARY.as_bytes())
            }
            None => false,
        }
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

    /// Everything below a folder.
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
