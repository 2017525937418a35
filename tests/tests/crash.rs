//! Kills the real program, or makes it panic, at its n-th change of a durable file, and starts it again.
//!
//! The library crates test every fault at every operation of their part; this test covers their integration. It samples the
//! points, or covers all of them with `PIJS_NIGHTLY=1`.

mod world;

use serde_json::{Value, json};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use world::{PI, World, strings};

/// Number of points outside of a nightly run.
const SAMPLE: usize = 8;

/// Kinds of failures.
const KINDS: [&str; 4] = ["kill-before", "kill-halfway", "kill-after", "panic"];

struct Work {
    name: &'static str,
    args: Vec<String>,
    builds: bool,
    /// Checks the files after the killed run, and after the same command ran once more.
    check: fn(&World, &str),
}

fn run(world: &World, work: &Work) {
    if !work.builds {
        // The changes of a first compilation must not be counted.
        world.reset(false);
        world.healthy(&work.args.iter().map(String::as_str).collect::<Vec<_>>(), work.name);
    }
    world.reset(work.builds);
    let record = world.path("record");
    let _ = fs::remove_file(&record);
    let output = world.pi(&work.args, Some(&format!("record:{}", record.display())));
    assert!(output.status.success(), "{}: {}", work.name, String::from_utf8_lossy(&output.stderr));
    let changes = fs::read_to_string(&record).expect("changes were recorded");
    let changes: Vec<&str> = changes.lines().collect();
    assert!(changes.len() >= 4, "{}: {changes:?}", work.name);
    let step = if std::env::var_os("PIJS_NIGHTLY").is_some() { 1 } else { changes.len().div_ceil(SAMPLE) };
    let mut kills = 0;
    for (at, change) in changes.iter().enumerate().step_by(step) {
        let kind = KINDS[(at / step) % KINDS.len()];
        let case = format!("{}: {kind} at change {}: {change}", work.name, at + 1);
        world.reset(work.builds);
        let output = world.pi(&work.args, Some(&format!("{kind}:{}", at + 1)));
        // The order of the program's threads varies, so the last points may not be reached again. A panic ends its thread, which
        // need not be the main one.
        let killed = output.status.signal() == Some(9);
        let panicked = kind == "panic" && String::from_utf8_lossy(&output.stderr).contains("panicked at");
        let ended = killed || panicked && output.status.code().is_some();
        assert!(ended || output.status.success(), "{case}: {}", String::from_utf8_lossy(&output.stderr));
        kills += usize::from(ended);
        let args: Vec<&str> = work.args.iter().map(String::as_str).collect();
        world.healthy(&args, &case);
        (work.check)(world, &case);
        let ledgers: Value = serde_json::from_str(&world.healthy(&["ext", "ledger", "verify", "--json"], &case))
            .unwrap_or_else(|error| panic!("{case}: {error}"));
        for ledger in ledgers["ledgers"].as_array().expect("a list") {
            assert_eq!(ledger["open"], json!([]), "{case}: {ledger}");
            assert_eq!(ledger["torn"], false, "{case}: {ledger}");
        }
        let settings: Value = serde_json::from_slice(&fs::read(world.agent().join("settings.json")).expect("settings"))
            .unwrap_or_else(|error| panic!("{case}: {error}"));
        assert_eq!(settings["theme"], "dark", "{case}");
        let left = temporary(&world.agent()).into_iter().chain(temporary(&world.path("cache")));
        assert_eq!(left.collect::<Vec<_>>(), Vec::<PathBuf>::new(), "{case}");
    }
    assert!(kills > 0, "{}: it was never ended", work.name);
    eprintln_counts(work.name, kills, changes.len());
}

#[expect(clippy::print_stderr, reason = "the counts are what a reader of the test wants to know")]
fn eprintln_counts(name: &str, kills: usize, points: usize) {
    eprintln!("{name}: {kills} kills and panics of the real program survived, of {points} points");
}

/// Returns the temporary files below a folder.
fn temporary(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(temporary(&path));
        }
        if path.extension().is_some_and(|extension| extension == "tmp") {
            found.push(path);
        }
    }
    found
}

#[test]
fn an_install_is_killed() {
    let world = World::new();
    let args = strings(&["install", "steady", "--registry", &world.registry.url()]);
    let check = |world: &World, case: &str| {
        let listed: Value = serde_json::from_str(&world.healthy(&["list", "--json"], case)).expect("json");
        assert_eq!(listed[0]["version"], "1.0.0", "{case}");
        let lock = fs::read(world.agent().join("pijs-lock.json")).expect("a lock");
        let lock: Value = serde_json::from_slice(&lock).expect("json");
        assert_eq!(lock["packages"]["npm:steady"]["version"], "1.0.0", "{case}");
        let place = world.agent().join("npm/node_modules/steady");
        assert!(place.join("node_modules/leaf/index.js").exists(), "{case}");
        assert!(!world.agent().join("npm/.pending.json").exists(), "{case}");
    };
    run(&world, &Work { name: "install", args, builds: false, check });
}

#[test]
fn a_build_is_killed() {
    let world = World::new();
    let extension = world.path("notes.ts").display().to_string();
    let args = strings(&["install", &extension]);
    run(&world, &Work { name: "build", args, builds: true, check: |_, _| {} });
}

#[test]
fn a_turn_with_three_tool_calls_is_killed() {
    let world = World::new();
    let args = world.turn(&[]);
    let check = |world: &World, case: &str| {
        let folder = world.agent().join("sessions");
        let mut sessions = 0;
        for project in fs::read_dir(folder).expect("sessions").flatten() {
            for file in fs::read_dir(project.path()).expect("sessions").flatten() {
                let text = fs::read_to_string(file.path()).expect("text");
                // A killed session may end in a partial line, which the next open moves aside.
                let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
                let whole = lines.map(serde_json::from_str::<Value>).collect::<Result<Vec<_>, _>>();
                assert!(whole.is_ok(), "{case}: {text}");
                sessions += 1;
            }
        }
        assert!(sessions >= 1, "{case}");
        // Continues the latest session, whichever it is.
        let model = format!("script:{}", world.path("model.jsonl").display());
        let extension = world.path("notes.ts").display().to_string();
        world.healthy(&["-p", "more", "--model", &model, "-e", &extension, "--continue"], case);
    };
    run(&world, &Work { name: "turn", args, builds: false, check });
}

#[test]
fn trusting_a_folder_is_killed() {
    let world = World::new();
    let check = |world: &World, case: &str| {
        let trusted = fs::read_to_string(world.agent().join("pijs/trusted.json")).expect("there");
        assert!(trusted.contains("project"), "{case}: {trusted}");
    };
    run(&world, &Work { name: "trust", args: strings(&["trust"]), builds: false, check });
}

/// Opens one session file twice: the second session is refused while the first runs, and continues at once when the first is
/// killed.
#[test]
fn a_lock_is_released_when_its_holder_is_killed() {
    let world = World::new();
    world.reset(false);
    let session = world.path("home/s.jsonl");
    let header =
        json!({"type": "session", "version": 3, "id": "x", "timestamp": "2026-01-02T03:04:05.000Z", "cwd": "/"});
    fs::write(&session, format!("{header}\n")).expect("a session");
    let slow = world.path("slow.jsonl");
    let reply = json!({"events": [{"text": "wait"}, {"delay_ms": 600_000}, {"text": "over"}], "stop": "end_turn"});
    fs::write(&slow, format!("{reply}\n")).expect("a model");
    let mut holder = world
        .command(PI)
        .args(["-p", "x", "--model", &format!("script:{}", slow.display()), "--mode", "json", "--session"])
        .arg(&session)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("pi starts");
    // The first event shows that the session is open.
    let mut first = [0];
    std::io::Read::read_exact(holder.stdout.as_mut().expect("piped"), &mut first).expect("it says something");
    let model = format!("script:{}", world.path("model.jsonl").display());
    let extension = world.path("notes.ts").display().to_string();
    let session = session.display().to_string();
    let args = ["-p", "y", "--model", &model, "-e", &extension, "--session", &session];
    let refused = world.pi(&strings(&args), None);
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && stderr.contains("another pi is using it"), "{stderr}");
    holder.kill().expect("killed");
    holder.wait().expect("gone");
    world.healthy(&args, "after the holder was killed");
}
