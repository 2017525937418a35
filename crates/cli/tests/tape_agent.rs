//! Tests `pi replay` of the agent's loop, the recordings of `fixtures/tapes/`, and the schedule lab.

#![cfg(target_os = "linux")]

mod support;

use pijs_tape::{AgentRecord, Event, TapeReader, TapeWriter};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use support::client::Client;
use support::{Run, World, fixture, run};

/// The environment variable with which the tapes of `fixtures/tapes/` are recorded again.
const UPDATE: &str = "INSTA_UPDATE";

fn strings(args: &[&str]) -> Vec<String> {
    args.iter().map(|arg| (*arg).to_owned()).collect()
}

/// Records a session and returns the tape.
fn record(world: &World, script: &str, extensions: &[&str], more: &[&str]) -> PathBuf {
    let tape = world.path().join("session.tape");
    let model = world.raw_script(script);
    let mut args = strings(&["-p", "hello", "--model", &model, "--tape", tape.to_str().expect("text")]);
    for extension in extensions {
        // A committed tape must not contain paths of this machine.
        let source = fs::read(fixture(&format!("extensions/{extension}/index.ts"))).expect("an extension");
        let entry = world.write(&format!("extensions/{extension}/index.ts"), source);
        let folder = entry.parent().and_then(Path::to_str).expect("text");
        args.extend(["-e".to_owned(), folder.to_owned()]);
    }
    args.extend(strings(more));
    let mut command = world.command(&args);
    command.env("TZ", "Asia/Kolkata");
    run(command).succeeded();
    tape
}

/// Replays in another folder, with another home and zone.
fn replay(tape: &Path, more: &[&str]) -> Run {
    let elsewhere = World::new();
    let mut args = strings(&["replay", tape.to_str().expect("text")]);
    args.extend(strings(more));
    let mut command = elsewhere.command(&args);
    command.env("TZ", "America/Lima");
    let output = run(command);
    let left: Vec<_> = fs::read_dir(elsewhere.project()).expect("a folder").flatten().collect();
    assert!(left.is_empty(), "a replay writes nothing: {left:?}");
    output
}

fn replay_json(tape: &Path, more: &[&str]) -> Value {
    let run = replay(tape, &[more, &["--json"]].concat());
    serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("no JSON:\n{}\n{}", run.stdout, run.stderr))
}

/// Three replies: one calls tools of pi, one is stopped by a verdict, one is kept.
const TOOLS: &str = r#"{"events":[{"text":"I write. "},{"tool_call":{"id":"a","name":"write","arguments":"{\"path\":\"new.txt\",\"content\":\"one\\ntwo\"}"}}],"stop":"tool_use"}
{"events":[{"tool_call":{"id":"b","name":"bash","arguments":"{\"command\":\"echo printed; cat new.txt\"}"}},{"tool_call":{"id":"c","name":"read","arguments":"{\"path\":\"absent.txt\"}"}}],"stop":"tool_use"}
{"events":[{"text":"it is "},{"text":"forbidden "},{"text":"to say"}],"stop":"end_turn"}
{"events":[{"thinking":"well"},{"text":"it is "},{"text":"fine"}],"stop":"end_turn"}"#;

const ALLOWED: [&str; 6] = ["--allow", "verdict", "--allow", "read", "--allow", "exec"];

#[test]
fn the_loop_of_the_agent_replays_without_the_model_files_and_programs() {
    let world = World::new();
    world.write("project/AGENTS.md", "Be brief.\n");
    let tape = record(&world, TOOLS, &["verdict-word"], &ALLOWED);
    fs::remove_dir_all(world.project()).expect("the project is removed");
    let outcome = replay_json(&tape, &[]);
    assert_eq!(outcome["equal"], true, "{outcome:#}");
    let agent = &outcome["agent"];
    assert_eq!((&agent["divergence"], &agent["stopped_at"]), (&Value::Null, &Value::Null), "{agent:#}");
    assert_eq!((&agent["requests"], &agent["tool_calls"]), (&json!(4), &json!(3)), "{agent:#}");
    let run = replay(&tape, &[]);
    assert!(run.succeeded().stdout.contains("4 requests, 3 tool calls"), "{}", run.stdout);
}

#[test]
fn a_loop_that_goes_another_way_is_named_where_it_does() {
    let world = World::new();
    let tape = record(&world, TOOLS, &["verdict-word"], &ALLOWED);
    // The output of the shell differs on this tape.
    let other = world.path().join("other.tape");
    let changed = std::cell::Cell::new(0);
    rewritten(&tape, &other, |agent| {
        let text = serde_json::to_string(agent).expect("JSON");
        if matches!(agent, AgentRecord::Answer { .. }) && text.contains("printed") {
            changed.set(changed.get() + 1);
            *agent = serde_json::from_str(&text.replace("printed", "changed")).expect("a record");
        }
    });
    assert!(changed.get() > 0, "the tape has the result of the shell");
    let run = replay(&other, &[]);
    run.failed(1, &["the replay differs from the recording", "the agent's loop", "- recorded", "changed"]);
}

#[test]
fn a_replay_may_begin_late() {
    let world = World::new();
    let tape = record(&world, TOOLS, &["verdict-word", "handlers-a"], &ALLOWED);
    let all = replay_json(&tape, &[]);
    let ticks = all["ticks"].as_u64().expect("a number");
    let late = replay_json(&tape, &["--from", &(ticks / 2).to_string()]);
    assert_eq!((&late["equal"], &late["ticks"]), (&json!(true), &json!(ticks)), "{late:#}");
    assert_eq!(late["agent"], Value::Null);
}

/// Sessions that are recorded in `fixtures/tapes/`: the name, the extensions, the model and the grants.
const SESSIONS: [(&str, &[&str], &str, &[&str]); 11] = [
    (
        "worker",
        &["tape-worker", "tape-watch"],
        STOPPED,
        &["--allow", "read", "--allow", "write", "--allow", "verdict", "--deny", "exec"],
    ),
    ("tools", &["verdict-word"], TOOLS, &ALLOWED),
    ("handlers", &["handlers-a", "handlers-b"], PLAIN, &[]),
    ("registers", &["registers", "registers-too"], PLAIN, &[]),
    ("state", &["reads-state"], PLAIN, &[]),
    ("bus", &["bus-talks", "bus-hears"], PLAIN, &[]),
    ("events", &["concurrent-events"], PLAIN, &[]),
    ("own-tools", &["concurrent-tools"], OWN_TOOLS, &[]),
    ("timers", &["timers-and-exec"], PLAIN, &["--allow", "exec"]),
    ("guards", &["guards-instead"], TOOLS, &ALLOWED),
    ("order", &["last-wins"], PLAIN, &["--allow", "exec"]),
];

const PLAIN: &str = r#"{"events":[{"text":"all "},{"text":"done"}],"stop":"end_turn"}"#;

const STOPPED: &str = r#"{"events":[{"text":"so on "},{"text":"read "},{"text":"a "},{"text":"TODO"},{"text":" b"}],"stop":"end_turn"}
{"events":[{"text":"all "},{"text":"done"}],"stop":"end_turn"}"#;

const OWN_TOOLS: &str = r#"{"events":[{"tool_call":{"id":"a","name":"long","arguments":"{}"}},{"tool_call":{"id":"b","name":"short","arguments":"{}"}}],"stop":"tool_use"}
{"events":[{"text":"done"}],"stop":"end_turn"}"#;

fn tapes() -> PathBuf {
    PathBuf::from(fixture("tapes"))
}

/// The recorded sessions replay in both kinds of realms. With `INSTA_UPDATE=always`, the tapes are recorded again.
#[test]
fn the_recorded_sessions_replay_in_both_kinds_of_realms() {
    for (name, extensions, script, more) in SESSIONS {
        let kept = tapes().join(format!("{name}.tape"));
        if std::env::var(UPDATE).is_ok_and(|update| update == "always") {
            let world = World::new();
            world.write("project/notes.txt", "some notes\n");
            let (recorded, clean) = (record(&world, script, extensions, more), world.path().join("clean.tape"));
            // The folder of the program is in `PATH`.
            let folder = Path::new(env!("CARGO_BIN_EXE_pi")).parent().and_then(Path::to_str).expect("text");
            let (from, to) = (recorded.to_str().expect("text"), clean.to_str().expect("text"));
            world.pi(&["tape", "redact", from, "-o", to, "--secret", folder]).succeeded();
            fs::copy(clean, &kept).expect("a tape");
        }
        for isolation in ["thread", "process"] {
            let outcome = replay_json(&kept, &["--isolation", isolation, "--accept-build"]);
            assert_eq!(outcome["equal"], true, "{name} in a {isolation}: {outcome:#}");
            assert_eq!(outcome["agent"]["stopped_at"], Value::Null, "{name}: {outcome:#}");
        }
    }
    let size: u64 =
        fs::read_dir(tapes()).expect("tapes").flatten().map(|tape| tape.metadata().map_or(0, |it| it.len())).sum();
    assert!(size < 500_000, "the tapes stay small: {size} bytes");
}

fn extc(world: &World, args: &[String]) -> Run {
    let mut command = world.program(env!("CARGO_BIN_EXE_extc"), args);
    command.env("TZ", "Asia/Kolkata");
    run(command)
}

#[test]
fn a_planted_ordering_bug_is_found_shrunk_and_replayed_from_its_string() {
    let world = World::new();
    let tape = record(&world, PLAIN, &["last-wins"], &["--allow", "exec"]);
    let (entry, tape_name) = (fixture("extensions/last-wins"), tape.to_str().expect("text").to_owned());
    let test = |more: &[&str]| {
        let mut args = strings(&["test", &entry, &tape_name, "--json"]);
        args.extend(strings(more));
        let run = extc(&world, &args);
        (run.code, serde_json::from_str::<Value>(&run.stdout).unwrap_or_else(|_| panic!("{}", run.stderr)))
    };
    let (code, report) = test(&["--explore", "200"]);
    let explored = &report["tapes"][0]["explored"];
    let schedule = explored["schedule"].as_str().unwrap_or_else(|| panic!("no schedule fails: {report:#}"));
    assert_eq!((code, &report["tapes"][0]["status"]), (1, &json!("unordered")));
    let failure = explored["failure"].as_str().expect("a message");
    assert!(failure.contains("depends on the order of completions"), "{failure}");
    // The lab finds it again, as the same string.
    assert_eq!(test(&["--explore", "200"]).1["tapes"][0]["explored"]["schedule"], schedule);

    let drive = |schedule: &str, more: &[&str]| {
        let mut args = strings(&["ext", "drive", "--schedule", schedule, &tape_name]);
        args.extend(strings(more));
        run(world.command(&args))
    };
    drive(schedule, &[]).failed(1, &["depends on the order of completions", schedule]);
    drive("lab1:", &[]).succeeded();
    drive("nonsense", &[]).failed(1, &["nonsense"]);

    // After the fix, the order makes no difference.
    let source = fs::read_to_string(Path::new(&entry).join("index.ts")).expect("a file");
    let mended = source.replace("latest = name;", "if (name === \"third\") latest = name;");
    let mended = world.write("mended/last-wins/index.ts", mended);
    let folder = mended.parent().and_then(Path::to_str).expect("text");
    drive(schedule, &["--against", folder]).succeeded();
    // From here on, the tape expects the fixed output, regardless of which program ended last in the recording.
    extc(&world, &strings(&["test", folder, &tape_name, "--accept"])).succeeded();
    let run = extc(&world, &strings(&["test", folder, &tape_name, "--explore", "200"]));
    assert!(run.succeeded().stdout.contains("all there are"), "{}", run.stdout);
}

#[test]
fn a_bug_of_a_killed_worker_is_found_and_replayed_from_its_string() {
    let world = World::new();
    let tape = record(&world, PLAIN, &["forgets"], &["--allow", "exec"]);
    let (entry, tape_name) = (fixture("extensions/forgets"), tape.to_str().expect("text").to_owned());
    let test = |entry: &str, faults: &[&str]| {
        let mut args = strings(&["test", entry, &tape_name, "--json", "--explore", "200"]);
        args.extend(strings(faults));
        let run = extc(&world, &args);
        let report: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("{}", run.stderr));
        (run.code, report["tapes"][0]["explored"].clone())
    };
    let (code, explored) = test(&entry, &[]);
    assert_eq!((code, &explored["schedule"]), (0, &Value::Null), "no order alone shows it: {explored:#}");
    let (code, explored) = test(&entry, &["--faults", "1"]);
    let schedule = explored["schedule"].as_str().unwrap_or_else(|| panic!("no schedule fails: {explored:#}"));
    assert_eq!(code, 1);
    let failure = explored["failure"].as_str().expect("a message");
    assert!(failure.contains("throws an unhandled error: TypeError"), "{failure}");

    let drive = |more: &[&str]| {
        let mut args = strings(&["ext", "drive", "--schedule", schedule, &tape_name]);
        args.extend(strings(more));
        run(world.command(&args))
    };
    drive(&[]).failed(1, &["TypeError", schedule]);
    let source = fs::read_to_string(Path::new(&entry).join("index.ts")).expect("a file");
    let mended = world.write("mended/forgets/index.ts", source.replace("turns!.push", "(turns ??= []).push"));
    let folder = mended.parent().and_then(Path::to_str).expect("text");
    drive(&["--against", folder]).succeeded();
    let (code, explored) = test(folder, &["--faults", "1"]);
    assert_eq!((code, &explored["schedule"]), (0, &Value::Null), "{explored:#}");
}

/// An extension that relies on receiving an event that another extension sends at the start, an order that is not guaranteed.
const READER: &str = r#"
export default (pi: any) => {
  let news: { text: string } | undefined;
  pi.events.on("news", (event: any) => { news = event; });
  pi.on("agent_start", () => console.log(news!.text));
};
"#;

/// An extension that sends an event before the first turn.
const SENDER: &str = r#"
export default (pi: any) => {
  pi.on("session_start", () => pi.events.emit("news", { text: "hello" }));
};
"#;

#[test]
fn a_bug_of_the_order_between_extensions_is_found_and_replayed_from_its_string() {
    let world = World::new();
    let [reader, sender] = [("reader", READER), ("sender", SENDER)].map(|(name, source)| {
        let entry = world.write(&format!("extensions/{name}/index.ts"), source);
        entry.parent().and_then(Path::to_str).expect("text").to_owned()
    });
    let tape = world.path().join("news.tape");
    let model = world.raw_script(PLAIN);
    let tape_name = tape.to_str().expect("text").to_owned();
    let args = strings(&["-p", "hello", "--model", &model, "--tape", &tape_name, "-e", &sender, "-e", &reader]);
    run(world.command(&args)).succeeded();
    let test = |faults: &[&str]| {
        let mut args = strings(&["test", &reader, &tape_name, "--json", "--explore", "400"]);
        args.extend(strings(faults));
        let run = extc(&world, &args);
        let report: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("{}", run.stderr));
        report["tapes"][0]["explored"].clone()
    };
    assert_eq!(test(&[])["schedule"], Value::Null, "the host's order alone does not show it");
    let explored = test(&["--faults", "1"]);
    let schedule = explored["schedule"].as_str().unwrap_or_else(|| panic!("no schedule fails: {explored:#}"));
    let failure = explored["failure"].as_str().expect("a message");
    assert!(failure.contains("TypeError"), "{failure}");
    let drive = run(world.command(&strings(&["ext", "drive", "--schedule", schedule, &tape_name])));
    drive.failed(1, &["TypeError", schedule]);
}

/// An extension whose commands switch to other sessions, in addition to the client's requests.
const TRAVELS: &str = r#"
export default (pi: any) => {
  pi.on("session_start", (event: any) => pi.appendEntry("started", { reason: event.reason }));
  pi.registerCommand("again", { description: "reloads", handler: (_: string, ctx: any) => ctx.reload() });
  pi.registerCommand("fresh", { description: "begins anew", handler: (_: string, ctx: any) => ctx.newSession() });
};
"#;

#[test]
fn sessions_that_take_the_place_of_the_first_one_are_replayed() {
    let world = World::new();
    world.write("project/AGENTS.md", "Be brief.\n");
    let travels = world.write("project/travels.ts", TRAVELS).display().to_string();
    let tape = world.path().join("travels.tape");
    let model = world.script(&[&["one"], &["two"], &["three"], &["four"], &["five"]]);
    let options = ["--model", &model, "-e", &travels, "--tape", tape.to_str().expect("text")];
    let mut client = Client::start(&world, &options);
    let prompt = |client: &mut Client, text: &str| {
        client.call(json!({"type": "prompt", "message": text}));
        client.until(|record| record["type"] == "agent_settled");
    };
    prompt(&mut client, "first");
    let first = client.call(json!({"type": "get_state"}))["data"]["sessionFile"].as_str().expect("a file").to_owned();
    let entries = client.call(json!({"type": "get_fork_messages"}));
    let entry = entries["data"]["messages"][0]["entryId"].as_str().expect("an entry").to_owned();
    client.call(json!({"type": "new_session"}));
    prompt(&mut client, "second");
    world.write("project/AGENTS.md", "Be very brief.\n");
    client.call(json!({"type": "switch_session", "sessionPath": first}));
    prompt(&mut client, "third");
    client.call(json!({"type": "fork", "entryId": entry}));
    prompt(&mut client, "fourth");
    for command in ["/again", "/fresh"] {
        client.call(json!({"type": "prompt", "message": command}));
    }
    prompt(&mut client, "fifth");
    assert_eq!(client.end(), 0);
    fs::remove_dir_all(world.project()).expect("the project is removed");
    fs::remove_dir_all(world.home()).expect("the sessions are removed");
    let outcome = replay_json(&tape, &[]);
    let agent = &outcome["agent"];
    assert_eq!((&agent["divergence"], &agent["stopped_at"]), (&Value::Null, &Value::Null), "{outcome:#}");
    assert_eq!((&outcome["equal"], &agent["requests"]), (&json!(true), &json!(5)), "{agent:#}");
}

#[test]
fn native_rules_are_replayed_with_their_changes() {
    let world = World::new();
    world.rule("no-stop", "condition: 'never stop'", "Stop it.");
    let tape = world.path().join("rules.tape");
    let model = world.script(&[&["we ", "never ", "stop"], &["we stop"], &["a ", "fresh ", "word"], &["done"]]);
    let options = ["--model", &model, "--rules", "--approve", "--tape", tape.to_str().expect("text")];
    let mut client = Client::start(&world, &options);
    let prompt = |client: &mut Client, text: &str| {
        client.call(json!({"type": "prompt", "message": text}));
        client.until(|record| record["type"] == "agent_settled").0
    };
    let fired = |records: &[Value]| records.iter().filter(|record| record["type"] == "rule_fired").count();
    assert_eq!(fired(&prompt(&mut client, "first")), 1);
    world.rule("no-fresh", "condition: 'fresh'", "Not fresh.");
    assert_eq!(fired(&prompt(&mut client, "second")), 1, "the rule that was written since then");
    assert_eq!(client.end(), 0);
    fs::remove_dir_all(world.project()).expect("the rules are removed");
    let outcome = replay_json(&tape, &[]);
    let agent = &outcome["agent"];
    assert_eq!((&agent["divergence"], &agent["stopped_at"]), (&Value::Null, &Value::Null), "{outcome:#}");
    assert_eq!((&outcome["equal"], &agent["requests"]), (&json!(true), &json!(4)), "{agent:#}");
}

/// An extension that runs the user's shell commands itself if they begin with `there`, and sends a model request on `/aside`.
const AT_HAND: &str = r#"
export default (pi: any) => {
  pi.on("user_bash", ({ command }: any) => {
    if (!command.startsWith("there")) return;
    return { operations: { exec: async (text: string, _cwd: string, { onData }: any) => {
      onData(new TextEncoder().encode(`ran ${text}\n`));
      return { exitCode: 7 };
    } } };
  });
  pi.registerCommand("aside", { handler: async (_: string, ctx: any) => {
    const question = { systemPrompt: "s", messages: [{ role: "user", content: "q", timestamp: 0 }] };
    const reply = await ctx.modelRegistry.complete(ctx.model, question);
    pi.sendMessage({ customType: "aside", content: reply.content[0].text, display: true });
  } });
};
"#;

/// Asserts that the agent's loop was replayed completely, with this number of requests.
#[track_caller]
fn is_whole(outcome: &Value, requests: u64) {
    let agent = &outcome["agent"];
    assert_eq!((&agent["divergence"], &agent["stopped_at"]), (&Value::Null, &Value::Null), "{outcome:#}");
    assert_eq!((&outcome["equal"], &agent["requests"]), (&json!(true), &json!(requests)), "{agent:#}");
}

#[test]
fn shell_commands_settings_and_model_requests_of_extensions_are_replayed() {
    let world = World::new();
    let at_hand = world.write("project/at-hand.ts", AT_HAND).display().to_string();
    let tape = world.path().join("acts.tape");
    let model = world.script(&[&["one"], &["an ", "aside"], &["two"]]);
    let options = ["--model", &model, "-e", &at_hand, "--tape", tape.to_str().expect("text")];
    let mut client = Client::start(&world, &options);
    let bash =
        |client: &mut Client, command: &str| client.call(json!({"type": "bash", "command": command}))["data"].clone();
    assert_eq!(bash(&mut client, "echo here; echo also >&2; exit 3")["exitCode"], 3);
    assert_eq!(bash(&mut client, "there it is")["output"], "ran there it is\n");
    let long = bash(&mut client, "seq 20000");
    assert_eq!(long["truncated"], true, "{long}");
    client.call(json!({"type": "bash", "command": "echo unseen", "excludeFromContext": true}));
    client.call(json!({"type": "set_auto_retry", "enabled": false}));
    client.call(json!({"type": "set_steering_mode", "mode": "all"}));
    let prompt = |client: &mut Client, text: &str| {
        client.call(json!({"type": "prompt", "message": text}));
        client.until(|record| record["type"] == "agent_settled");
    };
    prompt(&mut client, "first");
    client.call(json!({"type": "prompt", "message": "/aside"}));
    prompt(&mut client, "second");
    assert_eq!(client.end(), 0);
    fs::remove_dir_all(world.project()).expect("the project is removed");
    is_whole(&replay_json(&tape, &[]), 3);
}

#[test]
fn a_model_that_is_chosen_by_a_key_is_replayed() {
    let world = World::new();
    let tape = world.path().join("models.tape");
    let mut command = world.command(&["--mode", "rpc", "--tape", tape.to_str().expect("text")]);
    command.env("ANTHROPIC_API_KEY", "a-key-of-this-test");
    let mut client = Client::of(command);
    let cycled = client.call(json!({"type": "cycle_model"}))["data"]["model"].clone();
    assert_eq!(cycled["provider"], "anthropic", "{cycled}");
    client.call(json!({"type": "cycle_model"}));
    assert_eq!(client.end(), 0);
    is_whole(&replay_json(&tape, &[]), 0);
}

/// Rewrites the records of the agent on a tape.
fn rewritten(tape: &Path, to: &Path, change: impl Fn(&mut AgentRecord)) {
    let reader = TapeReader::new(fs::File::open(tape).expect("a tape")).expect("a tape");
    let mut written =
        TapeWriter::new(fs::File::create(to).expect("a file"), &reader.header().clone()).expect("a header");
    for record in reader {
        let record = record.expect("a record");
        match record.event {
            Event::Blob(blob) => written.append_blob(&blob).expect("written"),
            Event::Agent(mut agent) => {
                change(&mut agent);
                written.append_agent(*agent).expect("written");
            }
            event => {
                if let Some(event) = event.as_ref() {
                    written.append(record.realm, event).expect("written");
                }
            }
        }
    }
    written.finish().expect("written");
}

/// A change to a record, as another version of pi would write it.
type Change = fn(&mut AgentRecord);

#[test]
fn a_replay_that_cannot_repeat_an_act_fails_and_says_where_it_stopped() {
    let world = World::new();
    let tape = world.path().join("shell.tape");
    let watch = world.write("project/watch.ts", AT_HAND).display().to_string();
    let model = world.script(&[&["one"]]);
    let options = ["--model", &model, "-e", &watch, "--tape", tape.to_str().expect("text")];
    let mut client = Client::start(&world, &options);
    client.call(json!({"type": "bash", "command": "echo here"}));
    assert_eq!(client.end(), 0);
    // Tapes of older versions contain only the command, and tapes of later versions may contain acts that this version does not
    // know.
    let cases: [(&str, Change, [&str; 2]); 2] = [
        (
            "older.tape",
            |record| {
                if let AgentRecord::Act { act, value } = record
                    && act == "bash"
                {
                    *value = json!("echo here");
                }
            },
            ["\"bash\": the tape does not have its arguments", "record the session again"],
        ),
        (
            "later.tape",
            |record| {
                if let AgentRecord::Act { act, .. } = record
                    && act == "bash"
                {
                    *act = "teleport".to_owned();
                }
            },
            ["\"teleport\": this version of pi does not know the act", "with the version of pi that recorded it"],
        ),
    ];
    for (name, change, expected) in cases {
        let other = world.path().join(name);
        rewritten(&tape, &other, change);
        replay(&other, &[]).failed(1, &["beyond record", "the latest turn before it is", "[invalid_request]"]);
        replay(&other, &[]).failed(1, &expected);
        let outcome = replay_json(&other, &[]);
        assert_eq!(outcome["equal"], false, "{outcome:#}");
        assert!(outcome["agent"]["stopped_at"]["record"].as_u64().is_some_and(|record| record > 1), "{outcome:#}");
        // A turn before the unknown act can still be inspected.
        replay(&other, &["--until", "1"]).succeeded();
    }
}
