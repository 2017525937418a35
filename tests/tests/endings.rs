//! Terminates the real program while an extension's program runs and a model streams (Q40): it exits soon, the conversation is in
//! the session, and no process that it started remains.

#![cfg(target_os = "linux")]

mod world;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use world::{PI, World};

/// Time limit of any step; only a hang reaches it.
const CEILING: Duration = Duration::from_secs(120);

/// Starts a program that left its parent and its session. Reports when the program runs, and when the model streams: earlier
/// messages are part of the conversation then.
const STARTS: &str = r#"
import { spawn } from "node:child_process";
export default (pi: any) => {
  pi.on("agent_start", () => new Promise<void>((resolve) => {
    const child = spawn("sh", ["-c", "setsid nohup sleep @@mark@@ > /dev/null 2>&1 & echo up > up; wait"]);
    child.on("spawn", () => resolve());
  }));
  pi.on("message_update", () => new Promise<void>((resolve) => {
    spawn("sh", ["-c", "echo up > talks"]).on("close", () => resolve());
  }));
};
"#;

/// A session whose model streams endlessly.
struct Talking {
    world: World,
    mark: String,
    child: Child,
}

/// Waits for a condition, up to the ceiling.
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < CEILING, "{what} has not happened");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the processes whose command line contains this word.
fn processes(mark: &str) -> Vec<PathBuf> {
    let all = fs::read_dir("/proc").expect("it is mounted").flatten().map(|entry| entry.path());
    let has = |path: &PathBuf| {
        let line = fs::read(path.join("cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == mark.as_bytes())
    };
    all.filter(has).collect()
}

impl Talking {
    fn start(number: usize, mode: &[&str]) -> Self {
        let world = World::new();
        world.reset(false);
        // A duration that no other process uses for `sleep`.
        let mark = format!("36{:05}{number:02}", std::process::id() % 100_000);
        fs::write(world.path("starts.ts"), STARTS.replace("@@mark@@", &mark)).expect("an extension");
        let reply = json!({"events": [{"text": "begun"}, {"delay_ms": 600_000}, {"text": "over"}], "stop": "end_turn"});
        fs::write(world.path("slow.jsonl"), format!("{reply}\n")).expect("a model");
        let model = format!("script:{}", world.path("slow.jsonl").display());
        let extension = world.path("starts.ts").display().to_string();
        let mut command = world.command(PI);
        command.args(mode).args(["--model", &model, "-e", &extension, "--allow", "exec"]);
        // With a prompt on the command line, piped input belongs to it.
        command.stdin(if mode[0] == "-p" { Stdio::null() } else { Stdio::piped() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().expect("pi starts");
        Self { world, mark, child }
    }

    fn until_it_talks(&self) {
        wait_until("the program's start", || self.world.path("project/up").exists());
        wait_until("the program itself", || !processes(&self.mark).is_empty());
        wait_until("the first word of the model", || self.world.path("project/talks").exists());
    }

    fn tell(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).expect("a process id")).expect("not zero");
        // The first of two signals may already have terminated it.
        let _ = kill_process(pid, signal);
    }

    /// Checks that the program exits by itself, with all its processes.
    fn ends_alone(mut self, case: &str) -> World {
        wait_until(case, || self.child.try_wait().expect("it is ours").is_some());
        let output = self.child.wait_with_output().expect("it ended");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code().is_some(), "{case}: {:?}: {stderr}", output.status);
        assert!(!stderr.contains("panicked"), "{case}: {stderr}");
        wait_until(&format!("{case}: the end of its program"), || processes(&self.mark).is_empty());
        self.world
    }

    /// Checks that the program exits, and that the next session continues from its messages.
    fn ends(self, case: &str) {
        let world = self.ends_alone(case);
        let said = |entry: &Value| entry["message"]["role"] == "user" && entry.to_string().contains("tell me");
        let entries = entries(&world, case);
        assert!(entries.iter().any(said), "{case}: {entries:?}");
        goes_on(&world, case);
    }

    /// Checks that the program exits after a second signal. A signal that is handled on its own does not wait until the reply is
    /// written, and a session without a reply is not stored.
    fn ends_in_haste(self, case: &str) {
        let world = self.ends_alone(case);
        entries(&world, case);
        goes_on(&world, case);
    }
}

/// Returns the entries in all complete lines of a world's sessions.
fn entries(world: &World, case: &str) -> Vec<Value> {
    let projects = fs::read_dir(world.agent().join("sessions")).into_iter().flatten().flatten();
    let texts: String = projects
        .flat_map(|project| fs::read_dir(project.path()).expect("a folder").flatten())
        .map(|file| fs::read_to_string(file.path()).expect("text"))
        .collect();
    let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{case}: {error}: {line}"));
    texts.lines().map(parse).collect()
}

/// Checks that the next session continues this one.
fn goes_on(world: &World, case: &str) {
    let more = world.turn(&["--continue"]);
    world.healthy(&more.iter().map(String::as_str).collect::<Vec<_>>(), case);
}

#[test]
fn it_is_told_to_end_by_a_signal() {
    for (number, signal) in [Signal::TERM, Signal::HUP, Signal::INT].into_iter().enumerate() {
        let talking = Talking::start(number, &["-p", "tell me"]);
        talking.until_it_talks();
        talking.tell(signal);
        talking.ends(&format!("{signal:?}"));
    }
}

#[test]
fn exits_on_a_second_signal() {
    let talking = Talking::start(40, &["-p", "tell me"]);
    talking.until_it_talks();
    talking.tell(Signal::INT);
    talking.tell(Signal::INT);
    talking.ends_in_haste("two interrupts");
}

#[test]
fn its_input_ends() {
    let mut talking = Talking::start(10, &["--mode", "rpc"]);
    let mut input = talking.child.stdin.take().expect("piped");
    input.write_all(b"{\"type\":\"prompt\",\"message\":\"tell me\"}\n").expect("it listens");
    talking.until_it_talks();
    drop(input);
    talking.ends("the end of its input");
}

#[test]
fn a_program_that_drives_it_tells_it_to_end_by_a_signal() {
    for (number, signal) in [Signal::TERM, Signal::HUP, Signal::INT].into_iter().enumerate() {
        let mut talking = Talking::start(30 + number, &["--mode", "rpc"]);
        let mut input = talking.child.stdin.take().expect("piped");
        input.write_all(b"{\"type\":\"prompt\",\"message\":\"tell me\"}\n").expect("it listens");
        talking.until_it_talks();
        talking.tell(signal);
        talking.ends(&format!("{signal:?} while it is driven"));
    }
}

#[test]
fn nobody_reads_what_it_says() {
    let mut talking = Talking::start(20, &["--mode", "rpc"]);
    let mut input = talking.child.stdin.take().expect("piped");
    let mut output = BufReader::new(talking.child.stdout.take().expect("piped"));
    input.write_all(b"{\"type\":\"prompt\",\"message\":\"tell me\"}\n").expect("it listens");
    output.read_line(&mut String::new()).expect("it answers");
    talking.until_it_talks();
    drop(output);
    // The program notices a closed output at its next write, and may exit before this request is sent.
    let _ = input.write_all(b"{\"type\":\"get_state\"}\n");
    let _ = input.write_all(b"{\"type\":\"get_state\"}\n");
    drop(input);
    // A reply that no client reads is not recorded, and a session without a reply is not written, as in pi.
    talking.ends_alone("nobody who reads");
}
