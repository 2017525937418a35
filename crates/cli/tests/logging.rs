//! Tests `--log-json FILE` and `PI_LOG`: spans and events of a session as `pi.ext.log.v1` lines and as text.

mod support;

use pijs_testkit::registry::Registry;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use support::{World, fixture, run};

const SECRET: &str = "correct-horse-battery";

/// An extension that makes allowed and denied calls in a fixed order: each is answered before the next begins.
const LOOKS: &str = r#"
import { existsSync, readFileSync } from "node:fs";
export default (pi) => {
  pi.on("agent_start", () => {
    existsSync("notes.txt");
    try { readFileSync("/etc/passwd"); } catch {}
  });
  pi.on("turn_end", () => pi.log("info", "the key is " + process.env.DEPLOY_TOKEN, { api_key: "abcdefgh" }));
};
"#;

/// Runs a session with two extensions, one of which stops the reply by a verdict.
fn session(world: &World, more: &[&str]) -> support::Run {
    world.write("project/notes.txt", "some notes\n");
    let looks = world.write("project/looks.ts", LOOKS).display().to_string();
    let word = fixture("extensions/verdict-word");
    let model = world.script(&[&["it is ", "forbidden ", "to say"], &["it is ", "fine"]]);
    let args =
        ["-p", "hello", "--model", &model, "-e", &looks, "-e", &word, "--allow", "verdict", "--session-id", "s-1"];
    let env = ["--allow", "env:DEPLOY_TOKEN", "--isolation", "thread"];
    let mut command = world.command(&[&args[..], &env, more].concat());
    command.env("DEPLOY_TOKEN", SECRET);
    run(command)
}

fn lines(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).expect("a log");
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

fn of<'a>(lines: &'a [Value], event: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["event"] == event).collect()
}

/// Normalises lines as the format specifies: members that differ between runs and machines become `<NAME>`, and paths are
/// relative to the project.
fn normalised(world: &World, lines: &[Value]) -> Vec<String> {
    let folder = world.path().display().to_string();
    let line = |line: &Value| {
        let mut line = line.clone();
        for (part, key) in [("", "ts"), ("source", "pid"), ("source", "host")] {
            let members = if part.is_empty() { Some(&mut line) } else { line.get_mut(part) };
            if let Some(value) = members.and_then(|members| members.get_mut(key)) {
                *value = json!(format!("<{key}>"));
            }
        }
        for key in ["run_id", "session_id", "artifact_id", "trace_id", "span_id"] {
            if let Some(value) = line["correlation"].get_mut(key) {
                *value = json!(format!("<{key}>"));
            }
        }
        // The ledger's line of a verdict contains the microseconds that the handler took.
        if let Some(latency) = line["data"].get_mut("latency_us") {
            *latency = json!("<latency_us>");
        }
        line.to_string().replace(&folder, "<cwd>")
    };
    lines.iter().map(line).collect()
}

#[test]
fn a_session_is_logged_with_its_correlation_ids() {
    let world = World::new();
    session(&world, &["--log-json", "log.jsonl"]).succeeded();
    let lines = lines(&world.project().join("log.jsonl"));
    let schema = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schema/pi.ext.log.v1.schema.json");
    let schema: Value = serde_json::from_str(&fs::read_to_string(schema).expect("the schema")).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    for line in &lines {
        assert!(validator.is_valid(line), "{line:#}");
    }
    for event in [
        "session.start",
        "session.end",
        "model_turn.start",
        "model_turn.end",
        "model_request.start",
        "tick.start",
        "tick.end",
        "host_call.start",
        "policy.decision",
        "host_call.end",
        "stream.verdict",
        "build.start",
        "build.resolve.start",
    ] {
        assert!(!of(&lines, event).is_empty(), "no {event}");
    }
    let outcomes: Vec<&str> =
        of(&lines, "model_request.end").iter().filter_map(|line| line["data"]["outcome"].as_str()).collect();
    assert_eq!(outcomes, ["discarded", "Stop"]);

    // A call, its decision and its end are in one span, inside the tick that made the call.
    let denied = |line: &&&Value| line["data"]["allowed"] == false;
    let decision = *of(&lines, "policy.decision").iter().find(denied).expect("the refused call");
    let ids = &decision["correlation"];
    assert!(ids["extension_id"].as_str().is_some_and(|id| id.contains("looks")), "{decision:#}");
    assert_eq!((&ids["session_id"], &ids["scenario_id"]), (&json!("s-1"), &json!("session:s-1")));
    let end = of(&lines, "host_call.end").into_iter().find(|line| line["correlation"]["span_id"] == ids["span_id"]);
    let end = end.expect("the end of the refused call");
    assert_eq!((&end["data"]["is_error"], &end["data"]["code"]), (&json!(true), &json!("denied")), "{end:#}");
    assert_eq!(end["correlation"]["host_call_id"], ids["host_call_id"]);
    let tick =
        of(&lines, "tick.start").into_iter().rev().find(|tick| tick["correlation"]["trace_id"] == ids["trace_id"]);
    assert!(tick.is_some(), "the call is in the trace of the session");

    let text = fs::read_to_string(world.project().join("log.jsonl")).expect("a log");
    assert!(!text.contains(SECRET) && !text.contains("abcdefgh"), "no secret is logged:\n{text}");
    assert!(text.contains("[REDACTED]"), "{text}");
}

#[test]
fn two_runs_log_equal_lines() {
    let logged = || {
        let world = World::new();
        session(&world, &["--log-json", "log.jsonl"]).succeeded();
        let lines = lines(&world.project().join("log.jsonl"));
        // The tests share compiled artifacts, so the first run may build an artifact that the second finds in the cache.
        let lines: Vec<Value> =
            lines.into_iter().filter(|line| !line["event"].as_str().expect("a name").starts_with("build.")).collect();
        normalised(&world, &lines)
    };
    let (first, second) = (logged(), logged());
    assert!(first.len() > 40, "{first:#?}");
    for (number, (first, second)) in (1..).zip(first.iter().zip(&second)) {
        assert_eq!(first, second, "line {number}");
    }
    assert_eq!(first.len(), second.len());
}

/// Asserts that the phases of a compilation are spans within it.
#[track_caller]
fn has_phases(lines: &[Value]) {
    let compile = *of(lines, "build.compile.start").last().expect("it is compiled");
    for phase in ["build.link", "build.check", "build.emit"] {
        let [begin, end] = ["start", "end"].map(|edge| {
            let found = of(lines, &format!("{phase}.{edge}"));
            *found.last().unwrap_or_else(|| panic!("no {phase}.{edge} in {lines:#?}"))
        });
        assert_eq!(begin["correlation"]["span_id"], end["correlation"]["span_id"], "{phase}");
        assert_eq!(begin["correlation"]["trace_id"], compile["correlation"]["trace_id"], "{phase}");
        assert_ne!(begin["correlation"]["span_id"], compile["correlation"]["span_id"], "{phase}");
    }
}

#[test]
fn phases_of_a_sealed_build_are_spans_within_it() {
    let world = World::new();
    let registry = Registry::start();
    // The source is unique, because the tests share compiled artifacts.
    let source = format!("// {}\nexport default () => {{}};\n", world.path().display());
    let manifest = json!({"name": "logged", "version": "1.0.0", "pi": {"extensions": ["./index.ts"]}});
    registry.publish(manifest, &[("index.ts", &source)]);
    world.pi(&["install", "logged", "--registry", &registry.url(), "--log-json", "log.jsonl"]).succeeded();
    let lines = lines(&world.project().join("log.jsonl"));
    let sealed = of(&lines, "build.start").iter().any(|line| line["data"]["sealed"] == true);
    assert!(sealed, "an installed package is compiled in a sealed child: {lines:#?}");
    has_phases(&lines);
}

#[test]
fn extc_logs_its_build() {
    let world = World::new();
    world.write("project/looks.ts", LOOKS);
    let build = |more: &[&str]| {
        let args: Vec<String> =
            [&["build", "looks.ts", "--no-cache"], more].concat().iter().map(|arg| (*arg).to_owned()).collect();
        world.program(env!("CARGO_BIN_EXE_extc"), &args)
    };
    run(build(&["--log-json", "log.jsonl"])).succeeded();
    let lines = lines(&world.project().join("log.jsonl"));
    assert_eq!(lines[0]["correlation"]["scenario_id"], "command:extc", "{:#}", lines[0]);
    has_phases(&lines);

    let mut command = build(&[]);
    command.env("PI_LOG", "pijs=debug");
    let logged = run(command);
    assert!(logged.succeeded().stderr.contains("build.link"), "{}", logged.stderr);
    run(build(&["--log-json", "absent/log.jsonl"])).failed(1, &["--log-json", "cannot be written"]);
}

#[test]
fn people_read_the_log_on_stderr_without_secrets() {
    let world = World::new();
    let looks = world.write("project/looks.ts", LOOKS).display().to_string();
    let model = world.script(&[&["fine"]]);
    let mut command = world.command(&["-p", "hello", "--model", &model, "-e", &looks, "--allow", "env:DEPLOY_TOKEN"]);
    command.env("DEPLOY_TOKEN", SECRET).env("PI_LOG", "pijs=debug");
    let logged = run(command);
    let stderr = &logged.succeeded().stderr;
    for word in ["session{", "model_turn{", "tick{", "host_call{", "policy.decision", "build.resolve"] {
        assert!(stderr.contains(word), "{word} is missing in:\n{stderr}");
    }
    assert!(!stderr.contains(SECRET), "{stderr}");
    let quiet = world.pi(&["-p", "hello", "--model", &model]);
    assert_eq!(quiet.succeeded().stderr, "", "without the variable nothing is printed");
}

#[test]
fn an_installation_and_a_new_session_are_logged() {
    let world = World::new();
    world.write(
        "project/own/package.json",
        r#"{"name": "own", "version": "1.0.0", "pi": {"extensions": ["./index.ts"]}}"#,
    );
    world.write("project/own/index.ts", "export default () => {};\n");
    world.pi(&["install", "./own", "--yes", "--log-json", "install.jsonl"]).succeeded();
    let lines = lines(&world.project().join("install.jsonl"));
    let step = of(&lines, "install.step")[0];
    let ids = &step["correlation"];
    assert!(ids["extension_id"].as_str().is_some_and(|id| id.ends_with("own")), "{step:#}");
    assert_eq!(ids["scenario_id"], "command:install");
    assert_eq!(of(&lines, "install.end").len(), 1);
}

#[test]
fn wrong_directives_and_files_are_refused() {
    let world = World::new();
    let model = world.script(&[&["fine"]]);
    let mut command = world.command(&["-p", "hello", "--model", &model]);
    command.env("PI_LOG", "pijs=loud");
    run(command).failed(2, &["PI_LOG", "pijs=loud", "pijs=debug"]);
    world
        .pi(&["-p", "hello", "--model", &model, "--log-json", "absent/log.jsonl"])
        .failed(1, &["--log-json", "absent"]);
}
