//! Kills the worker of an extension at arbitrary moments of a session of the real program: the session continues, each call is
//! answered exactly once, and the answers are in the session's file (Q39).

#![cfg(target_os = "linux")]

#[expect(dead_code, reason = "shared with tests that fault files, which use all of it")]
mod world;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fs;
use std::process::{Child, Stdio};
use std::time::Duration;
use world::{PI, World};

/// Number of kills in the long form, and the number in CI.
const KILLS: [u32; 2] = [10_000, 40];

/// Number of replies with calls.
const REPLIES: usize = 6;
/// Number of calls in each reply.
const CALLS: usize = 2;

/// Increment of the delay between an event and the kill. After a number of steps the delay starts again.
const STEP: Duration = Duration::from_micros(700);
const STEPS: u32 = 97;

/// Number of events between the kills of two rounds. It spreads the kills over all events of a session, from the start of a
/// worker to the end, regardless of the machine's speed.
const STRIDE: usize = 13;

const KEEPS: &str = r#"
export default (pi: any) => pi.registerTool({
  name: "keep", label: "keep", description: "keeps a number",
  parameters: { type: "object", properties: { number: { type: "number" } } },
  execute: async (_id: string, { number }: { number: number }) => {
    pi.appendEntry("kept", { number });
    await new Promise((resolve) => setTimeout(resolve, 1));
    return { content: [{ type: "text", text: `kept ${number}` }], details: {} };
  },
});
"#;

fn world() -> World {
    let world = World::new();
    fs::write(world.path("keeps.ts"), KEEPS).expect("an extension");
    let call = |number: usize| {
        let arguments = json!({"number": number}).to_string();
        json!({"tool_call": {"id": format!("call-{number}"), "name": "keep", "arguments": arguments}})
    };
    let calls = (0..REPLIES).map(|reply| {
        let calls: Vec<Value> = (0..CALLS).map(|index| call(reply * CALLS + index)).collect();
        json!({"events": calls, "stop": "tool_use"})
    });
    let replies = calls.chain([json!({"events": [{"text": "all kept"}], "stop": "end_turn"})]);
    let script: String = replies.map(|reply| format!("{reply}\n")).collect();
    fs::write(world.path("keeps.jsonl"), script).expect("a model");
    world
}

fn start(world: &World) -> Child {
    let model = format!("script:{}", world.path("keeps.jsonl").display());
    let extension = world.path("keeps.ts").display().to_string();
    let mut command = world.command(PI);
    command.args(["-p", "keep", "--mode", "json", "--model", &model, "-e", &extension]);
    // The output goes to a file, since the test does not read it while the program runs.
    let events = fs::File::create(world.path("events")).expect("a file");
    command.stdin(Stdio::null()).stdout(events).stderr(Stdio::piped());
    command.spawn().expect("pi starts")
}

/// Returns the worker of a program, if it has one.
fn worker(program: u32) -> Option<Pid> {
    let children = fs::read_to_string(format!("/proc/{program}/task/{program}/children")).ok()?;
    let child: i32 = children.split_whitespace().next()?.parse().ok()?;
    let command = fs::read(format!("/proc/{child}/cmdline")).ok()?;
    command.starts_with(b"pijs-worker").then(|| Pid::from_raw(child)).flatten()
}

/// Returns the number of events that a session has written.
fn events_written(world: &World) -> usize {
    let text = fs::read(world.path("events")).unwrap_or_default();
    text.iter().filter(|byte| **byte == b'\n').count()
}

/// Kills the first worker of a program, `pause` after event number `after`. Returns whether a worker existed.
fn kill_a_worker(world: &World, program: &mut Child, after: usize, pause: Duration) -> bool {
    // Bounded by the program, which exits.
    while events_written(world) < after || worker(program.id()).is_none() {
        if program.try_wait().expect("it is ours").is_some() {
            return false;
        }
        std::thread::yield_now();
    }
    std::thread::sleep(pause);
    let Some(worker) = worker(program.id()) else { return false };
    // The parent may have exited, and its worker with it.
    kill_process(worker, Signal::KILL).is_ok()
}

fn texts(message: &Value) -> String {
    let blocks = message["content"].as_array().into_iter().flatten();
    blocks.filter_map(|block| block["text"].as_str()).collect()
}

/// Checks that no answer is lost or repeated. Returns the number of calls that the extension answered.
fn judge(world: &World, events: &str, case: &str) -> usize {
    let mut files = fs::read_dir(world.agent().join("sessions")).expect("sessions").flatten();
    let project = files.next().expect("a project").path();
    let file = fs::read_dir(project).expect("a folder").flatten().next().expect("a session").path();
    let text = fs::read_to_string(file).expect("text");
    let parse =
        |line: &str| -> Value { serde_json::from_str(line).unwrap_or_else(|error| panic!("{case}: {error}: {line}")) };
    let entries: Vec<Value> = text.lines().map(parse).collect();
    let messages = |role: &'static str| {
        let messages = entries.iter().filter(|entry| entry["type"] == "message").map(|entry| &entry["message"]);
        messages.filter(move |message| message["role"] == role)
    };
    assert_eq!(messages("assistant").count(), REPLIES + 1, "{case}: {text}");
    assert_eq!(texts(messages("assistant").next_back().expect("replies")), "all kept", "{case}");
    let kept = |number: usize| {
        let is_it = |entry: &&Value| entry["customType"] == "kept" && entry["data"]["number"] == number;
        entries.iter().filter(is_it).count()
    };
    let mut answered = 0;
    for number in 0..REPLIES * CALLS {
        let id = format!("call-{number}");
        let results: Vec<&Value> =
            messages("toolResult").filter(|message| message["toolCallId"] == id.as_str()).collect();
        let [result] = results.as_slice() else { panic!("{case}: {id} has {} results: {text}", results.len()) };
        let entries = kept(number);
        if result["isError"] == false {
            assert_eq!(
                (texts(result).as_str(), entries),
                (format!("kept {number}").as_str(), 1),
                "{case}: {id}: {text}"
            );
            answered += 1;
        } else {
            assert!(entries <= 1, "{case}: {id} was kept {entries} times: {text}");
        }
        let ends = |event: &Value| event["type"] == "tool_execution_end" && event["toolCallId"] == id.as_str();
        assert_eq!(events.lines().map(parse).filter(ends).count(), 1, "{case}: {id}: {events}");
    }
    answered
}

#[test]
fn a_worker_killed_at_any_moment_loses_no_call_and_no_entry() {
    let [all, share] = KILLS;
    let kills = if std::env::var_os("PIJS_NIGHTLY").is_some() { all } else { share };
    let world = world();
    world.reset(false);
    assert!(start(&world).wait().expect("it ends").success());
    let written = events_written(&world);
    let (mut killed, mut failed) = (0, 0);
    for round in 0.. {
        assert!(round < kills * 4, "only {killed} of {round} workers were there to be killed");
        if killed >= kills {
            break;
        }
        world.reset(false);
        let mut program = start(&world);
        let case = format!("round {round}");
        // Every other round also kills the replacement while it starts or takes over.
        for kill in 0..=round % 2 {
            let after = if kill == 0 { round as usize * STRIDE % written } else { 0 };
            killed += u32::from(kill_a_worker(&world, &mut program, after, STEP * ((round + 31 * kill) % STEPS)));
        }
        let output = program.wait_with_output().expect("it ends");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{case}: {:?}: {stderr}", output.status);
        let events = fs::read_to_string(world.path("events")).expect("text");
        let answered = judge(&world, &events, &case);
        failed += u32::from(answered < REPLIES * CALLS);
    }
    // If no kill hits a call, the test shows nothing.
    assert!(failed > 0, "no call was under way when its worker was killed");
}
