//! Tests `--isolation`: the same session runs in sandboxed processes and in the host's thread.

#![cfg(target_os = "linux")]

mod support;

use serde_json::Value;
use support::{World, fixture};

/// Members that differ between two runs of one session by design: times and ids.
const NEW: [&str; 5] = ["id", "timestamp", "parentId", "latency_us", "latencyUs"];

fn without_what_is_new(mut events: Vec<Value>) -> Vec<Value> {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(members) => {
                members.retain(|name, _| !NEW.contains(&name.as_str()));
                members.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    events.iter_mut().for_each(strip);
    events
}

#[test]
fn pi_ttsr_does_the_same_in_a_sealed_process_as_in_a_thread() {
    let world = World::new();
    let session = |isolation: &str| {
        world.rule("no-todo", "trigger: TODO\nscope: chunk", "Never leave a TODO.");
        let model = world.script(&[&["a ", "TODO", " b"], &["all ", "done"]]);
        let run = world.ttsr(&model, &["--isolation", isolation]);
        run.succeeded();
        without_what_is_new(run.events())
    };
    let sealed = session("process");
    assert!(sealed.iter().any(|event| event["type"] == "stream_verdict"), "{sealed:?}");
    assert_eq!(sealed, session("thread"));
}

/// Effects at deltas have the same order in both isolations, although a sandboxed realm gets many deltas in one batch, because
/// the script delivers the whole reply at once.
#[test]
fn effects_at_deltas_have_one_order_in_process_and_thread() {
    let world = World::new();
    let extension = fixture("extensions/verdict-mixed/index.ts");
    let quiet = ["so ", "on ", "and ", "on "].repeat(8);
    let mut first = Vec::new();
    for deed in ["log", "call", "late", "exec", "throw", "call", "log"] {
        first.extend(&quiet);
        first.push(deed);
    }
    let replies = [
        [first.clone(), vec!["stop", "never", "seen"]].concat(),
        [quiet.clone(), vec!["soon", "never"]].concat(),
        quiet,
    ];
    let replies: Vec<&[&str]> = replies.iter().map(Vec::as_slice).collect();
    let session = |isolation: &str| {
        let model = world.script(&replies);
        let run =
            world.pi(&["-p", "x", "--model", &model, "--mode", "json", "-e", &extension, "--isolation", isolation]);
        run.succeeded();
        // On a busy machine, any delta may be slow.
        let complaints: Vec<String> =
            run.stderr.lines().filter(|line| !line.contains("stream_text took")).map(str::to_owned).collect();
        (without_what_is_new(run.events()), complaints)
    };
    let (sealed, complaints) = session("process");
    let count = |kind: &str| sealed.iter().filter(|event| event["type"] == kind).count();
    assert_eq!(count("stream_verdict"), 2, "{complaints:?}");
    assert!(count("message_update") > 200);
    assert_eq!((sealed, complaints), session("thread"));
}

#[test]
fn a_realm_that_dies_is_started_again_and_the_session_lives() {
    let world = World::new();
    // An interrupt cannot stop this built-in; only killing the process can.
    let path = world.write(
        "project/stuck.ts",
        "export default function (pi) {\n  pi.on('stream_text', () => Array.prototype.reverse.call({ length: 2 ** 53 - 1 }));\n}\n",
    );
    let model = world.script(&[&["he", "llo"]]);
    let run = world.pi(&["-p", "x", "--model", &model, "--isolation", "process", "-e", &path.display().to_string()]);
    assert!(run.succeeded().stdout.contains("hello"), "{}", run.stdout);
    assert!(run.stderr.contains("deadline"), "{}", run.stderr);
}

#[test]
fn an_extension_observes_the_same_in_a_process_and_a_thread() {
    let world = World::new();
    let path = world.write(
        "project/where.ts",
        "export default function (pi) {\n  pi.on('session_start', () => { console.log(process.pid, process.cwd(), process.argv.length, new Date(0).getTimezoneOffset()); });\n}\n",
    );
    let said = |isolation: &str| {
        let model = world.script(&[&["hi"]]);
        let path = path.display().to_string();
        let mut command = world.command(&["-p", "x", "--model", &model, "--isolation", isolation, "-e", &path]);
        command.env("TZ", "XYZ-3");
        let run = support::run(command);
        run.succeeded();
        let line = run.stderr.lines().find(|line| line.contains("-180")).unwrap_or_else(|| panic!("{}", run.stderr));
        // The pid in the command differs between runs.
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        words.into_iter().filter(|word| word.parse::<u32>().is_err()).collect::<Vec<_>>()
    };
    assert_eq!(said("process"), said("thread"));
}

#[test]
fn the_seal_is_the_default() {
    let world = World::new();
    let help = world.pi(&["--help"]);
    let line = help.succeeded().stdout.lines().skip_while(|line| !line.contains("--isolation")).take(8);
    assert!(line.collect::<String>().contains("[default: process]"), "{}", help.stdout);
    // The worker's argument is not accepted from users.
    world.pi(&["--pijs-realm-worker"]).failed(2, &["--model"]);
}
