//! Runs the cases of `fixtures/rummy/entries`: calls of the facade, with expected results, refusals and changes.
//!
//! A case names the section of rummy's documents on which it is based. It begins with project 1 and the project's runs 1 and 2. A
//! step is `{"entries": METHOD, "args", "as"}` or `{"db": NAME, "op", "params"}`; the host performs it unless `as` names another
//! writer. Its expected results are `returns` (objects may have more members than named), `error` (the outcome), `says` (part of
//! the message), `changes` and `woken`. A case with `permits` instead lists the writers of a scheme: each writer tries each verb,
//! and every verb of an unlisted writer is refused.

use crate::{Conduct, Options, Profile, Store, WaiterId, Writer};
use serde_json::{Value, json};

const FILES: &[(&str, &str)] = &[
    ("entries.json", include_str!("../../../../fixtures/rummy/entries/entries.json")),
    ("writers.json", include_str!("../../../../fixtures/rummy/entries/writers.json")),
    ("permissions.json", include_str!("../../../../fixtures/rummy/entries/permissions.json")),
    ("runs.json", include_str!("../../../../fixtures/rummy/entries/runs.json")),
    ("faithful.json", include_str!("../../../../fixtures/rummy/entries/faithful.json")),
    ("v0_5.json", include_str!("../../../../fixtures/rummy/entries/v0_5.json")),
];

fn contains(actual: &Value, expected: &Value) -> bool {
    match (actual, expected) {
        (Value::Object(actual), Value::Object(expected)) => {
            expected.iter().all(|(name, value)| contains(actual.get(name).unwrap_or(&Value::Null), value))
        }
        (Value::Array(actual), Value::Array(expected)) => {
            actual.len() == expected.len() && actual.iter().zip(expected).all(|(one, other)| contains(one, other))
        }
        // Attributes are returned as JSON in a string.
        (Value::String(text), Value::Object(_)) => {
            serde_json::from_str(text).is_ok_and(|inner: Value| contains(&inner, expected))
        }
        _ => actual == expected,
    }
}

/// Returns the steps of a case: the listed ones, or for `permits` those in which each writer tries each verb on an entry of the
/// scheme.
fn steps_of(case: &Value) -> Vec<Value> {
    let permits = &case["permits"];
    let Some(path) = permits["path"].as_str() else { return case["steps"].as_array().expect("steps").clone() };
    let writers = permits["writers"].as_array().expect("writers");
    let first = &writers[0];
    let mut steps = vec![
        json!({ "entries": "set", "args": { "runId": 1, "path": path, "body": "x", "writer": first }, "as": first }),
    ];
    for writer in ["model", "client", "plugin", "system"] {
        let whole = json!({ "runId": 1, "path": path, "body": "y", "writer": writer });
        if writers.contains(&writer.into()) {
            steps.push(json!({ "entries": "set", "args": whole, "as": writer }));
            continue;
        }
        let with = |more: Value| {
            let mut args = json!({ "runId": 1, "path": path, "writer": writer });
            args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            args
        };
        let glob = format!("{}*", &path[..path.len() - 1]);
        let tries = [
            ("set", whole),
            ("set", with(json!({ "body": "z", "append": true }))),
            ("set", with(json!({ "state": "failed" }))),
            ("set", with(json!({ "attributes": { "a": 1 } }))),
            ("set", json!({ "runId": 1, "path": glob, "pattern": true, "body": "z", "writer": writer })),
            ("rm", with(json!({}))),
            ("cp", json!({ "runId": 1, "from": path, "to": format!("{path}2"), "writer": writer })),
        ];
        let says = format!("403: writer \"{writer}\" not permitted for scheme {}", permits["scheme"]);
        let refused = |(method, args)| json!({ "entries": method, "args": args, "as": writer, "error": "permission:403", "says": says });
        steps.extend(tries.map(refused));
    }
    steps.push(json!({ "entries": "getBody", "args": [1, path], "returns": "y" }));
    steps.push(json!({ "entries": "getState", "args": [1, path], "returns": { "state": "resolved" } }));
    steps
}

fn run_case(case: &Value) -> Result<(), String> {
    let profile = case["profile"].as_str().map_or_else(Profile::v2, |name| Profile::named(name).expect("a profile"));
    let conduct = if case["conduct"] == "faithful" { Conduct::Faithful } else { Conduct::Strict };
    let max_body = 64;
    let mut store = Store::in_memory(Options { profile, conduct, max_body, ..Options::default() }).expect("a store");
    store.set_now(1_700_000_000_000);
    let project = store.upsert_project("demo", Some("/demo"), None).expect("a project");
    for alias in ["demo_1", "demo_2"] {
        store.create_run(project, alias, Some("m"), None).expect("a run");
    }
    for (number, step) in steps_of(case).iter().enumerate() {
        let at = |what: String| format!("step {}: {what}\n  {step}", number + 1);
        let ceiling = step["as"].as_str().map_or(Writer::Plugin, |word| Writer::parse(word).expect("a writer"));
        let (result, waits) = if let Some(path) = step["wait"].as_str() {
            (Ok(json!(store.wait(1, path, WaiterId(7)).expect("it can wait"))), true)
        } else if let Some(name) = step["db"].as_str() {
            let op = step["op"].as_str().unwrap_or("all");
            let is_plugin = step["as"] == "plugin";
            let run = if is_plugin { Store::plugin_statement } else { Store::statement };
            (run(&mut store, name, op, &step["params"]), false)
        } else {
            (store.entries(step["entries"].as_str().expect("a method"), &step["args"], ceiling), false)
        };
        let changes = store.take_changes();
        let woken: Vec<String> = store.take_woken().into_iter().map(|one| one.path).collect();
        match (&result, step["error"].as_str()) {
            (Err(error), Some(outcome)) if error.outcome() == outcome => {
                if !changes.is_empty() {
                    return Err(at(format!("a refused call announced {changes:?}")));
                }
            }
            (Ok(_), None) => {}
            (other, _) => return Err(at(format!("ended with {other:?}"))),
        }
        let text = result.as_ref().map_or_else(ToString::to_string, |value| format!("{value}"));
        if let Some(says) = step["says"].as_str()
            && !text.contains(says)
        {
            return Err(at(format!("said {text}")));
        }
        if let (Some(expected), Ok(value)) = (step.get("returns"), &result)
            && !contains(value, expected)
        {
            return Err(at(format!("returned {value}")));
        }
        if let Some(expected) = step.get("changes") {
            let found: Vec<String> = changes
                .iter()
                .map(|one| format!("{} {}", serde_json::to_value(one.change_type).unwrap().as_str().unwrap(), one.path))
                .collect();
            if json!(found) != *expected {
                return Err(at(format!("announced {found:?}")));
            }
        }
        let expected: Vec<&str> = step["woken"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if woken != expected && !waits {
            return Err(at(format!("woke {woken:?}")));
        }
    }
    Ok(())
}

#[test]
fn documented_cases_pass() {
    let mut failures = Vec::new();
    let mut count = 0;
    for (file, text) in FILES {
        let cases: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{file}: {error}"));
        for case in cases.as_array().expect("a list of cases") {
            count += 1;
            assert!(case["section"].is_string(), "{file}: a case names its section: {}", case["name"]);
            if let Err(error) = run_case(case) {
                failures.push(format!("{file}: {}: {error}", case["name"]));
            }
        }
    }
    assert!(failures.is_empty(), "{} of {count} cases failed:\n{}", failures.len(), failures.join("\n"));
}
