//! Tests the inputs of public reports about pi. Each `fixtures/reports/NN-NAME` describes the behaviour in `case.md`;
//! `expected.txt` is the output of the real pi 0.87.1 (captured once), if it is text.

mod support;

use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use support::client::Client;
use support::{Run, World, fixture, run};

/// Returns a world whose project contains the files of a report.
fn reported(name: &str) -> (World, String) {
    let world = World::new();
    let folder = fixture(&format!("reports/{name}"));
    for file in fs::read_dir(&folder).expect("the report").flatten() {
        fs::copy(file.path(), world.project().join(file.file_name())).expect("a copy");
    }
    let expected = fs::read_to_string(Path::new(&folder).join("expected.txt")).unwrap_or_default();
    (world, expected)
}

/// Runs `pi`, with text on its standard input if there is any.
fn with_input(world: &World, args: &[&str], input: Option<&str>) -> Run {
    let mut command = world.command(args);
    let Some(input) = input else { return run(command) };
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("pi starts");
    // A refused command line does not read standard input.
    let _ = child.stdin.take().expect("it is piped").write_all(input.as_bytes());
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Run { code: output.status.code().unwrap_or(-1), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Returns names and kinds of the members of a value.
fn shape(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(_) => "b".into(),
        Value::Number(_) => "n".into(),
        Value::String(_) => "s".into(),
        Value::Array(items) => {
            let kinds: BTreeSet<String> = items.iter().map(shape).collect();
            format!("[{}]", kinds.into_iter().collect::<Vec<_>>().join("|"))
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(key, _)| key.as_str());
            let members: Vec<String> = members.iter().map(|(key, value)| format!("{key}:{}", shape(value))).collect();
            format!("{{{}}}", members.join(","))
        }
    }
}

/// Returns the line of an event in `expected.txt`; `None` for events that depend on the prompt's text.
fn shape_of(mut event: Value) -> Option<String> {
    let kind = event["type"].as_str().expect("a type").to_owned();
    let role = event["message"]["role"].as_str().map(str::to_owned);
    if role.as_deref() == Some("system") {
        return None;
    }
    if kind == "agent_end" {
        let roles = event["messages"].as_array().expect("a list").iter().filter_map(|message| message["role"].as_str());
        let roles: Vec<String> = roles.filter(|role| *role != "system").map(|role| format!("'{role}'")).collect();
        return Some(format!("agent_end [{}]", roles.join(", ")));
    }
    let update = event["assistantMessageEvent"]["type"].as_str().map(|update| format!(":{update}")).unwrap_or_default();
    let role = role.map(|role| format!(":{role}")).unwrap_or_default();
    let left_out = ["details", "diagnostics", "responseId", "responseModel", "byExtension"];
    for place in ["", "/message"] {
        if let Some(Value::Object(members)) = event.pointer_mut(place) {
            members.retain(|key, _| !left_out.contains(&key.as_str()));
        }
    }
    if let Some(Value::Object(result)) = event.get_mut("result") {
        result.shift_remove("details");
    }
    Some(format!("{kind}{update}{role} {}", shape(&event)))
}

#[test]
fn events_of_json_mode_have_the_members_of_pi() {
    let (world, expected) = reported("53-event-shapes-in-json-mode");
    let retry = json!({"retry": {"enabled": true, "maxRetries": 2, "baseDelayMs": 50}});
    world.write("home/.pi/agent/settings.json", retry.to_string());
    let options = ["-p", "go", "--model", "script:m.jsonl", "--mode", "json", "--no-session", "--policy", "permissive"];
    let run = world.pi(&options);
    let mut lines = vec![format!("exit {}", run.code)];
    lines.extend(run.events().into_iter().filter_map(shape_of));
    lines.dedup();
    let expected: Vec<&str> = expected.lines().collect();
    for (at, (actual, expected)) in lines.iter().zip(&expected).enumerate() {
        assert_eq!(actual, expected, "line {at}");
    }
    assert_eq!(lines.len(), expected.len());
}

/// An extension that writes displayed text which differs from the sum of the deltas.
const SHOWN: &str = r#"
import { appendFileSync } from "node:fs";
export default function (pi: any) {
  const say = (line: unknown) => appendFileSync("shown.txt", `${JSON.stringify(line)}\n`);
  let texts: string[] = [];
  const kept: any[] = [];
  let updates = 0;
  const check = (event: any, who: string) => {
    const { message, assistantMessageEvent: { type, contentIndex, delta, partial } } = event;
    const block = message.content[contentIndex];
    const shown = block.text ?? block.thinking ?? JSON.stringify(block.arguments);
    if (who === "first") {
      updates += 1;
      if (type.endsWith("_start")) texts[contentIndex] = "";
      if (type === "text_delta" || type === "thinking_delta") texts[contentIndex] += delta;
      kept.push([message, JSON.stringify(message)]);
    }
    // A block begins with its first piece.
    if (block.type !== "toolCall" && !type.endsWith("_start") && shown !== texts[contentIndex]) say([who, type, shown, texts[contentIndex]]);
    if (JSON.stringify(partial) !== JSON.stringify(message)) say([who, "partial", partial]);
    if (Object.keys(message).join() !== "role,content,api,provider,model,usage,stopReason,timestamp") say(Object.keys(message));
    if (Object.keys(event).join() !== "type,message,assistantMessageEvent") say(Object.keys(event));
    if (type === "toolcall_end") say([who, block.arguments]);
  };
  pi.on("message_start", (event: any) => {
    if (event.message.role === "assistant") texts = [];
  });
  pi.on("message_update", (event: any) => check(event, "first"));
  pi.on("message_update", async (event: any) => check(event, "second"));
  let late = false;
  pi.on("message_update", (event: any) => {
    if (late || event.assistantMessageEvent.type !== "text_delta") return;
    late = true;
    pi.on("message_update", (later: any) => check(later, "late"));
  });
  pi.on("agent_end", () => {
    say(["changed", kept.filter(([message, text]) => JSON.stringify(message) !== text).length, updates]);
  });
}
"#;

#[test]
fn extensions_get_the_whole_message_with_each_update() {
    let world = World::new();
    let call = r#"{"path":"nope","n":[1,2]}"#;
    let events: Vec<Value> =
        [json!({"thinking": "let "}), json!({"thinking": "me"}), json!({"text": "\u{fc}n\u{ef} "})]
            .into_iter()
            .chain((0..20).map(|number| json!({"text": format!("piece {number} \u{1f600}")})))
            .chain([json!({"tool_call": {"id": "c1", "name": "read", "arguments": &call[..9]}})])
            .chain([json!({"tool_call": {"id": "c1", "name": "read", "arguments": &call[9..]}})])
            .collect();
    let model = world.raw_script(&format!(
        "{}\n{}\n",
        json!({"events": events, "stop": "tool_use"}),
        json!({"events": [{"text": "the "}, {"text": "end"}], "stop": "end_turn"})
    ));
    let one = world.write("one.ts", SHOWN).display().to_string();
    let two = world.write("two.ts", SHOWN.replace("shown.txt", "other.txt")).display().to_string();
    for isolation in if cfg!(target_os = "linux") { &["process", "thread"][..] } else { &["thread"] } {
        let options =
            ["-p", "go", "--no-session", "--model", &model, "--policy", "permissive", "--isolation", isolation];
        world.pi(&[&options[..], &["-e", &one, "-e", &two]].concat()).succeeded();
        for file in ["shown.txt", "other.txt"] {
            let shown = world.read(&format!("project/{file}"));
            let ends = r#"["first",{"path":"nope","n":[1,2]}] ["second",{"path":"nope","n":[1,2]}] ["late",{"path":"nope","n":[1,2]}] ["changed",0,35]"#;
            assert_eq!(shown.lines().collect::<Vec<_>>().join(" "), ends, "{file} in a {isolation}");
            fs::remove_file(world.project().join(file)).expect("it is there");
        }
    }
}

#[test]
fn command_lines_of_programs_mean_what_they_mean_in_pi() {
    let (world, expected) = reported("56-command-lines-of-supervisors");
    let reply = json!({"events": [{"text": "ok"}], "stop": "end_turn"}).to_string() + "\n";
    world.write("project/m.jsonl", reply.repeat(5));
    world.write("project/f.txt", "file text\n");
    world.write("project/a b.txt", "two words\r\n");
    world.write("project/empty.txt", "");
    fs::create_dir(world.project().join("d")).expect("a folder");
    let cases: Value = serde_json::from_str(&world.read("project/lines.json")).expect("JSON");
    let project = world.project().canonicalize().expect("it exists").display().to_string();
    let seen = world.project().join("out.txt");
    let mut lines = Vec::new();
    for case in cases.as_array().expect("a list") {
        let _ = fs::remove_file(&seen);
        let base = ["--model", "script:m.jsonl", "--no-session", "-e", "ext.ts", "--policy", "permissive"];
        let args = case["args"].as_array().expect("a list").iter().filter_map(Value::as_str);
        let run = with_input(&world, &base.into_iter().chain(args).collect::<Vec<_>>(), case["stdin"].as_str());
        let how = if run.code == 0 { "ok" } else { "failed" };
        let prompts = fs::read_to_string(&seen).unwrap_or_default().replace(&project, "CWD").replace('\n', " ");
        lines.push(format!("{} => {how} {prompts}", case["name"].as_str().expect("a name")));
    }
    assert_eq!(lines, expected.lines().collect::<Vec<_>>());
}

/// Returns the names of events, and the details of retries.
fn summary(event: &Value) -> String {
    let text = |path: &str| event.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut parts = vec![text("/type"), text("/message/role"), text("/message/stopReason")];
    for key in ["willRetry", "attempt", "maxAttempts", "delayMs", "success", "errorMessage", "finalError"] {
        parts.extend(event.get(key).map(|value| format!("{key}={value}")));
    }
    parts.extend(event.get("entry").map(|entry| format!("{} {}", text("/entry/type"), entry["replacement"])));
    parts.retain(|part| !part.is_empty());
    parts.join(" ")
}

#[test]
fn a_retry_is_told_over_rpc_as_in_pi() {
    let expected = fs::read_to_string(fixture("reports/retries-over-rpc/expected.txt")).expect("the report");
    let scenarios = fs::read_to_string(fixture("reports/retries-over-rpc/scenarios.json")).expect("the report");
    let scenarios: Value = serde_json::from_str(&scenarios).expect("JSON");
    let mut lines = Vec::new();
    for scenario in scenarios.as_array().expect("a list") {
        let world = World::new();
        world.write("home/.pi/agent/settings.json", scenario["settings"].to_string());
        let replies = scenario["model"].as_array().expect("a list").iter().map(|reply| format!("{reply}\n"));
        let model = world.raw_script(&replies.collect::<String>());
        let mut client = Client::start(&world, &["--no-session", "--policy", "permissive", "--model", &model]);
        lines.push(format!("# {}", scenario["name"].as_str().expect("a name")));
        for prompt in scenario["prompts"].as_array().expect("a list") {
            client.send(json!({"type": "prompt", "message": prompt}));
            let mut told = Vec::new();
            if let Some(stop) = scenario["stop"].as_str() {
                let (before, waits) = client.until(|record| record["type"] == "auto_retry_start");
                told.extend(before.into_iter().chain([waits]));
                client.send(json!({"type": stop}));
            }
            let (before, settled) = client.until(|record| record["type"] == "agent_settled");
            told.extend(before.into_iter().chain([settled]));
            let quiet = ["response", "message_update", "tool_execution_update"];
            told.retain(|event| {
                !quiet.contains(&event["type"].as_str().expect("a type")) && event["message"]["role"] != "system"
            });
            lines.extend(told.iter().map(summary));
        }
        let messages = client.call(json!({"type": "get_messages"}));
        let messages = messages["data"]["messages"].as_array().expect("a list").iter();
        let told = messages.filter(|message| message["role"] != "system").map(|message| {
            let stop = message["stopReason"].as_str().map(|stop| format!("/{stop}")).unwrap_or_default();
            format!("{}{stop}", message["role"].as_str().expect("a role"))
        });
        lines.push(format!("told: {}", told.collect::<Vec<_>>().join(" ")));
        assert_eq!(client.end(), 0);
    }
    for (at, (actual, expected)) in lines.iter().zip(expected.lines()).enumerate() {
        assert_eq!(actual, expected, "line {at}");
    }
    assert_eq!(lines.len(), expected.lines().count());
}

#[test]
fn a_prompt_with_front_matter_sets_no_flags() {
    let (world, _) = reported("15-flags");
    let base =
        ["--model", "script:m.jsonl", "--no-session", "-e", "ext.ts", "-e", "other.ts", "--policy", "permissive"];
    let seen = |args: &[&str]| {
        let _ = fs::remove_file(world.project().join("out.txt"));
        world.pi(&[&base[..], args].concat()).succeeded();
        world.read("project/out.txt")
    };
    let flags = ["--plan", "--level=low", "--level", "high", "--path", "./a=b", "-p", "hello"];
    assert_eq!(seen(&flags), "factory false low undefined\nstart true high ./a=b undefined\n\"hello\"\n");
    let prompt = "---\nname: plan\nlevel: x\n---\nDo it.";
    let told = format!("factory false low undefined\nstart false low undefined undefined\n{}\n", json!(prompt));
    assert_eq!(seen(&["-p", prompt]), told);
    world.pi(&[&base[..], &["-p", "hello", "--path"]].concat()).failed(1, &["path", "requires a value"]);
    world.pi(&[&base[..], &["-p", "hello", "--unheard-of"]].concat()).failed(2, &["Unknown option: --unheard-of"]);
    world.pi(&["--model", "script:m.jsonl", "-e", "wrong.ts", "-p", "x"]).failed(1, &["count"]);
}

#[test]
fn a_noisy_rule_does_not_use_up_the_limits_of_others() {
    let (world, _) = reported("32-one-noisy-rule");
    let options =
        ["--model", "script:m.jsonl", "--no-session", "-e", "noisy.ts", "-e", "guard.ts", "--policy", "permissive"];
    let mut client = Client::start(&world, &options);
    let mut asked = |prompt: &str| {
        client.send(json!({"type": "prompt", "message": prompt}));
        let (before, _) = client.until(|record| record["type"] == "agent_settled");
        let last =
            before.iter().rfind(|record| record["type"] == "message_end" && record["message"]["role"] == "assistant");
        let text = last.expect("a reply")["message"]["content"][0]["text"].as_str().unwrap_or_default().to_owned();
        (text, Value::from(before).to_string())
    };
    let mut kept = 0;
    for number in 0..12 {
        match asked(&format!("q{number}")).0.starts_with("fine") {
            true => kept += 1,
            // Beyond the cap of the rule, its text is not stopped, and the script is one reply ahead.
            false => drop(asked("skip the spare reply")),
        }
    }
    assert_eq!(kept, 10, "the cap of a rule in a session");
    let (text, told) = asked("print the key");
    assert_eq!(text, "no keys");
    assert!(!told.contains("LEAKED"), "{told}");
    assert_eq!(client.end(), 0);
}
