//! Runs the real program under a shortage: of disk space, files, a cache, or exclusive access to its files.
//!
//! In each case the program exits by itself with a message, complete files stay complete, and the same command works without
//! intervention as soon as the shortage ends. Errors are injected at a sample of the operations, or at all of them with
//! `PIJS_NIGHTLY=1`.

mod exits;
mod world;

use exits::{in_order, text};
use serde_json::Value;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Output, Stdio};
use world::{PI, World, strings};

/// Numbers of the first failing operation; all later ones fail too. A nightly run tests every number.
const SAMPLE: [usize; 10] = [1, 2, 3, 5, 8, 13, 21, 34, 55, 89];
/// Maximum number of operations, including reads; a run has fewer.
const OPERATIONS: usize = 400;

/// Number and message of each injected error.
const ERRORS: [(i32, &str); 5] = [
    (28, "No space left on device"),
    (122, "Disk quota exceeded"),
    (30, "Read-only file system"),
    (5, "Input/output error"),
    (24, "Too many open files"),
];

/// Checks that existing files are complete.
fn kept(world: &World, case: &str) {
    let settings = fs::read(world.agent().join("settings.json")).expect("settings");
    let settings: Value = serde_json::from_slice(&settings).unwrap_or_else(|error| panic!("{case}: {error}"));
    assert_eq!(settings["theme"], "dark", "{case}");
    let ledgers = world.healthy(&["ext", "ledger", "verify", "--json"], case);
    serde_json::from_str::<Value>(&ledgers).unwrap_or_else(|error| panic!("{case}: {error}"));
}

#[expect(clippy::print_stderr, reason = "the counts are what a reader of the test wants to know")]
fn counted(name: &str, named: usize, cases: usize) {
    eprintln!("{name}: {named} of {cases} faults were met and named");
}

fn fail_everywhere(args: impl Fn(&World) -> Vec<String>) {
    let world = World::new();
    let args = args(&world);
    world.reset(false);
    world.healthy(&args.iter().map(String::as_str).collect::<Vec<_>>(), "without a fault");
    let numbers = if std::env::var_os("PIJS_NIGHTLY").is_some() { (1..OPERATIONS).collect() } else { SAMPLE.to_vec() };
    let mut named = 0;
    for (at, number) in numbers.iter().enumerate() {
        let (error, words) = ERRORS[at % ERRORS.len()];
        let case = format!("{args:?}: error {error} from operation {number} on");
        world.reset(false);
        let output = world.pi(&args, Some(&format!("error:{error}:{number}")));
        in_order(&output, &case);
        let stderr = text(&output.stderr);
        named += usize::from(stderr.contains(words));
        assert!(output.status.success() || stderr.contains(words), "{case}: it does not say why: {stderr}");
        world.healthy(&args.iter().map(String::as_str).collect::<Vec<_>>(), &case);
        kept(&world, &case);
    }
    counted(&args[0], named, numbers.len());
    assert!(named > 0, "no fault was ever met");
}

#[test]
fn disks_that_fail_during_a_turn() {
    fail_everywhere(|world| world.turn(&[]));
}

#[test]
fn disks_that_fail_during_an_install() {
    fail_everywhere(|world| strings(&["install", "steady", "--registry", &world.registry.url()]));
}

#[test]
fn disks_that_fail_while_a_folder_is_trusted() {
    fail_everywhere(|_| strings(&["trust"]));
}

/// Runs a shell script in a separate mount namespace in which `$HOME` is a file system of this size; `None` if the kernel does
/// not permit it.
fn on_a_small_disk(world: &World, size: &str, script: &str) -> Option<Output> {
    let inside = format!("mount -t tmpfs -o size={size} none \"$HOME\" || exit 77\n{script}");
    let unshare = ["--mount", "--map-root-user", "sh", "-c", &inside];
    let output = world.command("unshare").args(unshare).env("PI", PI).stdin(Stdio::null()).output().ok()?;
    let refused = output.status.code() == Some(77) || text(&output.stderr).starts_with("unshare:");
    (!refused).then_some(output)
}

#[test]
#[expect(clippy::print_stderr, reason = "why a case was left out")]
fn a_full_home_leaves_files_complete() {
    let world = World::new();
    world.reset(false);
    let turn: Vec<String> = world.turn(&["--continue"]).iter().map(|arg| format!("'{arg}'")).collect();
    let turn = turn.join(" ");
    // Runs a turn that works, one on a full disk, and one when there is space again; then prints the bytes that must not have
    // changed.
    let script = format!(
        r#"
        export XDG_CACHE_HOME="$HOME/cache" PIJS_WORDS=own
        mkdir -p "$HOME/.pi/agent" && printf '{{"theme": "dark"}}\n' > "$HOME/.pi/agent/settings.json"
        "$PI" {turn} > /dev/null || exit 10
        find "$HOME" -name '*.jsonl' -path '*sessions*' -exec cat {{}} + > ../before
        cat /dev/zero > "$HOME/fill" 2> /dev/null
        "$PI" {turn} > ../full.out 2> ../full.err
        echo "$?" > ../full.code
        rm "$HOME/fill"
        "$PI" {turn} > /dev/null || exit 12
        find "$HOME" -name '*.jsonl' -path '*sessions*' -exec cat {{}} + > ../after
        cat "$HOME/.pi/agent/settings.json"
        "#
    );
    for size in ["4m", "16m"] {
        let Some(output) = on_a_small_disk(&world, size, &script) else {
            eprintln!("left out: this kernel lets nobody mount in a namespace of his own");
            return;
        };
        let read = |name: &str| fs::read_to_string(world.path(name)).unwrap_or_default();
        let (code, stderr) = (read("full.code"), read("full.err"));
        assert!(output.status.success(), "{size}: {:?}: {}", output.status, text(&output.stderr));
        assert!(!stderr.contains("panicked"), "{size}: {stderr}");
        assert!(code.trim().parse::<i32>().is_ok_and(|code| code < 128), "{size}: {code}: {stderr}");
        assert!(stderr.contains("No space left on device"), "{size}: {code}: {stderr}");
        assert!(text(&output.stdout).contains("dark"), "{size}");
        assert!(!read("before").is_empty() && read("after").starts_with(&read("before")), "{size}: {}", read("after"));
    }
}

#[test]
fn few_files() {
    let world = World::new();
    for limit in [64, 32, 24, 16, 10] {
        let case = format!("{limit} files");
        world.reset(false);
        let script = format!("ulimit -n {limit} && exec \"$0\" \"$@\"");
        let mut command = world.command("sh");
        let output = command.args(["-c", &script, PI]).args(world.turn(&[])).output().expect("sh starts");
        in_order(&output, &case);
        let stderr = text(&output.stderr);
        assert!(output.status.success() || stderr.contains("Too many open files"), "{case}: {stderr}");
        world.healthy(&world.turn(&[]).iter().map(String::as_str).collect::<Vec<_>>(), &case);
        kept(&world, &case);
    }
}

/// Eight processes install, build and run with one home (Q30).
#[test]
fn eight_concurrent_processes_share_one_home() {
    const PROCESSES: usize = 8;
    let world = World::new();
    world.reset(true);
    for n in 0..PROCESSES {
        let text =
            format!("export default (pi: any) => {{ pi.registerCommand(\"c{n}\", {{ handler: () => {{}} }}); }};");
        fs::write(world.path(&format!("x{n}.ts")), text).expect("an extension");
    }
    let start = |args: Vec<String>| {
        let mut command = world.command(PI);
        command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts")
    };
    let installs =
        (0..PROCESSES).map(|n| start(strings(&["install", &world.path(&format!("x{n}.ts")).to_string_lossy()])));
    let turns = (0..PROCESSES).map(|_| start(world.turn(&[])));
    let children: Vec<_> = installs.chain(turns).collect();
    for child in children {
        let output = child.wait_with_output().expect("it ends");
        in_order(&output, "eight at once");
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    let listed: Value = serde_json::from_str(&world.healthy(&["list", "--json"], "list")).expect("json");
    assert_eq!(listed.as_array().map(Vec::len), Some(PROCESSES), "{listed}");
    kept(&world, "eight at once");
}

/// The cache disappears while a session runs: the session continues, and the next one builds again (Q33).
#[test]
fn a_deleted_cache_is_rebuilt_by_the_next_session() {
    let world = World::new();
    world.reset(true);
    let args = world.turn(&["--mode", "json"]);
    let mut child =
        world.command(PI).args(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    let mut first = [0];
    std::io::Read::read_exact(child.stdout.as_mut().expect("piped"), &mut first).expect("it says something");
    fs::remove_dir_all(world.path("cache")).expect("removed");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success() && text(&output.stdout).contains("noted"), "{}", text(&output.stderr));
    world.healthy(&world.turn(&[]).iter().map(String::as_str).collect::<Vec<_>>(), "without a cache");
}

/// In any environment that the caller of pi sets up (Q45), the program works or fails with a message, and its files are private
/// to the user.
#[test]
fn unusual_environments_work_or_fail_with_a_message() {
    let world = World::new();
    let works = [
        ("everything is everybody's", "umask 000; exec \"$0\" \"$@\""),
        ("no terminal of that name", "TERM=no-such-terminal exec \"$0\" \"$@\""),
        ("no language of that name", "LANG=tlh_KL.EBCDIC LC_ALL=nonsense exec \"$0\" \"$@\""),
        ("no zone of that name", "TZ=Nowhere/Nothing exec \"$0\" \"$@\""),
        ("a zone that is a file", "TZ=/etc/passwd exec \"$0\" \"$@\""),
        ("no name", "exec -a '' \"$0\" \"$@\""),
        ("no input", "exec \"$0\" \"$@\" <&-"),
    ];
    let refused = [
        ("no home", "unset HOME; exec \"$0\" \"$@\"", "HOME"),
        ("a home that is relative", "HOME=here exec \"$0\" \"$@\"", "HOME"),
        ("no folder", "mkdir gone && cd gone && rmdir ../gone && exec \"$0\" \"$@\"", "working folder"),
    ];
    let run = |script: &str| {
        world.reset(false);
        world.command("bash").args(["-c", script, PI]).args(world.turn(&[])).output().expect("bash starts")
    };
    for (case, script) in works {
        let output = run(script);
        in_order(&output, case);
        assert!(output.status.success(), "{case}: {}", text(&output.stderr));
        private(&world, case);
    }
    for (case, script, words) in refused {
        let output = run(script);
        in_order(&output, case);
        assert!(!output.status.success() && text(&output.stderr).contains(words), "{case}: {}", text(&output.stderr));
    }
    // The output is closed, so the program only has to exit by itself.
    let closed = run("exec \"$0\" \"$@\" <&- >&- 2>&-");
    assert_eq!(closed.status.signal(), None);
    private(&world, "nothing is open");
}

/// Checks that only the user can read or change pi's files.
fn private(world: &World, case: &str) {
    use std::os::unix::fs::MetadataExt as _;
    let mut folders = vec![world.agent()];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
            let about = fs::symlink_metadata(&entry).expect("it is there");
            // The test itself wrote this file.
            if !entry.ends_with("settings.json") {
                assert_eq!(about.mode() & 0o077, 0, "{case}: {} {:o}", entry.display(), about.mode());
                seen += 1;
            }
            if about.is_dir() {
                folders.push(entry);
            }
        }
    }
    assert!(seen >= 3, "{case}: it wrote {seen} files");
}

/// An idle session uses no processor time and has no periodic wake-ups (Q38).
#[test]
#[cfg(target_os = "linux")]
fn idle_costs_nothing() {
    use std::io::{BufRead as _, BufReader, Write as _};
    const WATCHED: std::time::Duration = std::time::Duration::from_secs(2);
    let world = World::new();
    world.reset(false);
    let model = format!("script:{}", world.path("model.jsonl").display());
    let extension = world.path("notes.ts").display().to_string();
    let mut child = world
        .command(PI)
        .args(["--mode", "rpc", "--model", &model, "-e", &extension])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    let mut input = child.stdin.take().expect("piped");
    input.write_all(b"{\"id\":\"1\",\"type\":\"get_state\"}\n").expect("it listens");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    assert!(lines.any(|line| line.expect("text").contains("get_state")), "it answers");
    let spent = || {
        let threads = fs::read_dir(format!("/proc/{}/task", child.id())).expect("threads");
        threads.fold((0_u64, 0_u64), |(time, turns), thread| {
            let text = fs::read_to_string(thread.expect("a thread").path().join("schedstat")).unwrap_or_default();
            let mut numbers = text.split_whitespace().map(|number| number.parse::<u64>().unwrap_or(0));
            (time + numbers.next().unwrap_or(0), turns + numbers.nth(1).unwrap_or(0))
        })
    };
    // Work left over from the start finishes in one of these intervals, depending on the machine. The figures are of this process
    // alone: CPU time in nanoseconds, and the number of wake-ups.
    let mut intervals = (0..15).map(|_| {
        let before = spent();
        std::thread::sleep(WATCHED);
        let after = spent();
        (after.0 - before.0, after.1 - before.1)
    });
    let mut seen = Vec::new();
    let is_idle = intervals.any(|(time, turns)| {
        seen.push((time, turns));
        time < 20_000_000 && turns < 40
    });
    drop(input);
    child.wait().expect("it ends");
    assert!(is_idle, "nanoseconds and wakes in intervals of {WATCHED:?}: {seen:?}");
}
