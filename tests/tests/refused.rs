//! Runs the real program when the system refuses a resource other than disk space: locks, threads, processes, memory, randomness,
//! or only the disk of the ledger.
//!
//! As in `shortage.rs`, the program exits by itself with a message, complete files stay complete, and the same command works as
//! soon as the resource is available.

mod exits;
mod world;

use exits::{in_order, text};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use world::{PI, World, strings};

/// Checks that existing files are complete, and that the same command succeeds.
fn recovers(world: &World, args: &[String], case: &str) {
    world.healthy(&args.iter().map(String::as_str).collect::<Vec<_>>(), case);
    let settings = fs::read(world.agent().join("settings.json")).expect("settings");
    let settings: Value = serde_json::from_slice(&settings).unwrap_or_else(|error| panic!("{case}: {error}"));
    assert_eq!(settings["theme"], "dark", "{case}");
    let ledgers = world.healthy(&["ext", "ledger", "verify", "--json"], case);
    let ledgers: Value = serde_json::from_str(&ledgers).unwrap_or_else(|error| panic!("{case}: {error}"));
    for ledger in ledgers["ledgers"].as_array().expect("a list") {
        assert_eq!(ledger["open"], serde_json::json!([]), "{case}: {ledger}");
    }
}

/// Q32: some network file systems have no locks. Without a lock, no file is written there.
#[test]
fn a_file_system_without_locks() {
    const WITHOUT_LOCKS: &str = "error:95:1";
    let world = World::new();
    let install = strings(&["install", "steady", "--registry", &world.registry.url()]);
    for args in [world.turn(&[]), install] {
        let case = format!("{args:?} without locks");
        world.reset(false);
        let output = world.pi(&args, Some(WITHOUT_LOCKS));
        in_order(&output, &case);
        let stderr = text(&output.stderr);
        assert!(!output.status.success() && stderr.contains("does not support locks"), "{case}: {stderr}");
        recovers(&world, &args, &case);
    }
    // Commands without a lock continue to work.
    world.reset(false);
    let output = world.pi(&world.turn(&["--no-session"]), Some(WITHOUT_LOCKS));
    in_order(&output, "without locks and session");
    assert!(output.status.success(), "{}", text(&output.stderr));
}

/// Q29: no predictable names or keys are generated.
#[test]
fn a_system_without_randomness() {
    let world = World::new();
    world.reset(false);
    let output = world.pi(&world.turn(&[]), Some("entropy"));
    in_order(&output, "without randomness");
    let stderr = text(&output.stderr);
    assert!(!output.status.success() && stderr.contains("no randomness"), "{stderr}");
    let there: Vec<_> =
        fs::read_dir(world.agent()).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(there, ["settings.json"], "nothing was begun");
    recovers(&world, &world.turn(&[]), "with randomness again");
}

/// Runs a shell script as a user who has no other processes; `None` if that is impossible.
fn as_nobody(world: &World, script: &str) -> Option<Output> {
    const NOBODY: &str = "65533";
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let given = std::process::Command::new("chown").args(["-R", NOBODY]).arg(world.path("")).status();
    let args = ["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "bash", "-c", script, PI];
    let mut command = world.command("setpriv");
    let output = command.args(args).args(world.turn(&[])).stdin(Stdio::null()).output().ok()?;
    let refused = text(&output.stderr).contains("setpriv:") || text(&output.stderr).contains("ermission denied");
    (given.is_ok_and(|status| status.success()) && !refused).then_some(output)
}

/// Q15: under a limit on processes, which counts threads as well, the program neither hangs nor panics.
#[test]
#[expect(clippy::print_stderr, reason = "why a case was left out")]
fn few_processes() {
    let world = World::new();
    for limit in [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16] {
        let case = format!("{limit} processes");
        world.reset(false);
        let Some(output) = as_nobody(&world, &format!("ulimit -u {limit} && exec \"$0\" \"$@\"")) else {
            eprintln!("left out: this user has other processes, which the limit counts");
            return;
        };
        in_order(&output, &case);
        let stderr = text(&output.stderr);
        assert!(output.status.success() || stderr.contains("temporarily unavailable"), "{case}: {stderr}");
        recovers(&world, &world.turn(&[]), &case);
    }
}

/// Q17: memory runs out at any point. A process may abort, but its files are complete.
#[test]
fn little_memory() {
    const MEBIBYTES: [u64; 12] = [80, 84, 88, 92, 96, 100, 104, 110, 120, 140, 180, 260];
    let world = World::new();
    let install = strings(&["install", "steady", "--registry", &world.registry.url()]);
    let mut stopped = 0;
    for args in [world.turn(&[]), install] {
        for most in MEBIBYTES {
            let case = format!("{args:?} in {most} MiB");
            world.reset(false);
            let mut command = world.command("sh");
            let script = format!("ulimit -v {} && exec \"$0\" \"$@\"", most << 10);
            let output = command.args(["-c", &script, PI]).args(&args).output().expect("sh starts");
            stopped += usize::from(!output.status.success());
            recovers(&world, &args, &case);
        }
    }
    assert!(stopped > 0, "it never ran out");
}

/// Runs a shell script in a separate mount namespace in which `$LOGS` is a file system of 1 MiB; `None` if the kernel does not
/// permit it.
fn with_a_small_log_disk(world: &World, script: &str) -> Option<Output> {
    let logs = world.path("logs");
    fs::create_dir_all(&logs).expect("a folder");
    let inside = format!("mount -t tmpfs -o size=1m none \"$LOGS\" || exit 77\n{script}");
    let unshare = ["--mount", "--map-root-user", "sh", "-c", &inside];
    let mut command = world.command("unshare");
    command.args(unshare).env("PI", PI).env("LOGS", &logs).env("PI_EXTENSION_LOG_DIR", &logs);
    let output = command.stdin(Stdio::null()).output().ok()?;
    let refused = output.status.code() == Some(77) || text(&output.stderr).starts_with("unshare:");
    (!refused).then_some(output)
}

/// Fills the ledger's disk, acts without a record, and frees the disk again.
const FILLS: &str = r#"
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
export default (pi: any) => {
  const write = (name: string) => {
    try { writeFileSync(name, "x"); } catch (error: any) {
      console.log(`${name}: ${error.message}`);
      if (error.cause) console.log(`no room, ${error.cause.code} ${error.cause.details.reason}`);
    }
  };
  const sh = (script: string) => execFileSync("sh", ["-c", script]);
  pi.on("session_start", () => write("before"));
  pi.on("turn_start", () => {
    sh("cat /dev/zero > @@logs@@/fill 2> /dev/null || true");
    for (let n = 0; n < 50; n++) write("full");
  });
  pi.on("turn_end", () => { sh("rm @@logs@@/fill"); });
  pi.on("agent_end", () => write("after"));
};
"#;

/// Q09: only the ledger's disk is full. There is one warning, lost lines are counted, and recording resumes when there is space.
/// In strict mode, no call runs without a record.
#[test]
#[expect(clippy::print_stderr, reason = "why a case was left out")]
fn a_full_disk_of_the_ledger() {
    let world = World::new();
    let run = |policy: &str, first: &str| {
        world.reset(false);
        let logs = world.path("logs").display().to_string();
        fs::write(world.path("fills.ts"), FILLS.replace("@@logs@@", &logs)).expect("an extension");
        let reply = "{\"events\":[{\"text\":\"done\"}],\"stop\":\"end_turn\"}\n";
        fs::write(world.path("one.jsonl"), reply).expect("a model");
        let script = format!(
            "{first}\n\"$PI\" -p x --model script:../one.jsonl -e ../fills.ts --policy {policy} --allow write --allow exec\n\
             code=$?; cat \"$LOGS\"/*.jsonl > ../ledger 2> /dev/null; exit $code"
        );
        with_a_small_log_disk(&world, &script)
    };
    let Some(output) = run("permissive", "") else {
        eprintln!("left out: this kernel lets nobody mount in a namespace of his own");
        return;
    };
    let stderr = text(&output.stderr);
    in_order(&output, "permissive");
    assert!(output.status.success(), "{stderr}");
    for name in ["before", "full", "after"] {
        assert!(world.path("project").join(name).exists(), "{name}: {stderr}");
    }
    assert_eq!(stderr.matches("warning: the ledger").count(), 1, "{stderr}");
    let ledger = fs::read(world.path("ledger")).expect("a ledger");
    pijs_hostcall::ledger::verify(&*ledger).unwrap_or_else(|error| panic!("{error:?}: {}", text(&ledger)));
    let lines: Vec<Value> =
        text(&ledger).lines().map(|line| serde_json::from_str(line).expect("verified lines")).collect();
    let starts =
        lines.iter().filter(|line| line["event"] == "host_call.start" && line["data"]["capability"] == "write");
    let dropped = lines.iter().any(|line| line["event"] == "ledger.dropped");
    assert!(starts.count() >= 52 || dropped, "what is missing is counted: {}", text(&ledger));

    let output = run("strict", "cat /dev/zero > \"$LOGS/fill\" 2> /dev/null").expect("the program starts again");
    let stderr = text(&output.stderr);
    in_order(&output, "strict");
    assert!(stderr.contains("before: EACCES"), "refused, and no failure of the file: {stderr}");
    assert!(stderr.contains("no room, denied policy"), "{stderr}");
    assert!(!world.path("project/before").exists() && !world.path("project/full").exists(), "{stderr}");
}

/// A control group with a memory limit, removed on drop.
struct Group {
    folder: PathBuf,
}

impl Group {
    /// Creates a group in the unified or the older hierarchy, if the machine permits it.
    fn with_memory(bytes: u64) -> Option<Self> {
        let name = format!("pijs-{}", std::process::id());
        let trees = [("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")];
        trees.into_iter().find_map(|(tree, limit)| {
            let group = Self { folder: PathBuf::from(tree).join(&name) };
            fs::create_dir(&group.folder).ok()?;
            // Without the file the hierarchy does not govern memory, and the group is removed.
            let has_limit = group.folder.join(limit).exists();
            (has_limit && fs::write(group.folder.join(limit), bytes.to_string()).is_ok()).then_some(group)
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The system removes a killed process later.
        for _ in 0..200 {
            if fs::remove_dir(&self.folder).is_ok() || !self.folder.exists() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }
}

/// Fills memory outside of any heap limit: twenty realms together exceed the group's limit.
const EATS: &str = r#"
export default (pi: any) => {
  const kept: Uint8Array[] = [];
  pi.registerTool({
    name: "eat", label: "eat", description: "eats", parameters: { type: "object", properties: {} },
    execute: async () => {
      for (;;) kept.push(new Uint8Array(4 << 20).fill(kept.length + 1));
    },
  });
};
"#;

/// Q16: the memory of a container runs out. The system kills a worker but not the host, the worker's calls are answered, and the
/// session continues.
#[test]
#[expect(clippy::print_stderr, reason = "why a case was left out")]
fn the_memory_of_a_group_runs_out() {
    const BYTES: u64 = 256 << 20;
    const EXTENSIONS: usize = 20;
    let world = World::new();
    world.reset(false);
    let Some(group) = Group::with_memory(BYTES) else {
        eprintln!("left out: this machine lets nobody make a group of processes with a limit of its own");
        return;
    };
    fs::write(world.path("eats.ts"), EATS).expect("an extension");
    let call =
        |n: usize| serde_json::json!({"tool_call": {"id": format!("call-{n}"), "name": "eat", "arguments": "{}"}});
    let replies = [
        serde_json::json!({"events": [call(1)], "stop": "tool_use"}),
        serde_json::json!({"events": [{"text": "went on"}], "stop": "end_turn"}),
    ];
    fs::write(world.path("eats.jsonl"), replies.map(|reply| format!("{reply}\n")).concat()).expect("a model");
    let mut args = strings(&["-p", "eat", "--mode", "json", "--model", "script:../eats.jsonl", "-e", "../eats.ts"]);
    for number in 0..EXTENSIONS {
        let file = format!("idle{number}.ts");
        fs::write(world.path(&file), format!("export default () => {{ /* {number} */ }};\n")).expect("an extension");
        args.extend(strings(&["-e", &format!("../{file}")]));
    }
    // Keeps the compilation out of the limited run.
    world.healthy(&["-p", "x", "--model", "script:../model.jsonl", "-e", "../eats.ts"], "alone");
    let mut command = world.command("sh");
    let script = "echo $$ > \"$GROUP/cgroup.procs\" && exec \"$0\" \"$@\"";
    let output = command.args(["-c", script, PI]).args(&args).env("GROUP", &group.folder).output().expect("sh starts");
    in_order(&output, "a group without memory");
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "the host lives: {:?}: {stderr}", output.status);
    assert!(stdout.contains("went on"), "{stdout}");
    let end = stdout.lines().find(|line| line.contains("tool_execution_end")).expect("the call was answered");
    assert!(end.contains("\"isError\":true"), "{end}");
    drop(group);
    recovers(&world, &world.turn(&[]), "with memory again");
}
