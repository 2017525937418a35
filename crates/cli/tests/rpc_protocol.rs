//! Tests the records that a client of `pi --mode rpc` receives. `fixtures/rpc/NAME.json` is the client's input, for the extension
//! in the same folder, and `NAME.expected.jsonl` the output of the real pi 0.87.1 (captured once). Ids of entries and sessions,
//! times, and values that depend on the prompt's text are ignored.

mod support;

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use support::World;
use support::client::Client;

/// Members that differ between runs, or that count the characters of pi's own prompts.
const LEFT_OUT: &[&str] = &["timestamp", "percent", "tokensBefore", "estimatedTokensAfter", "sourceInfo"];

#[track_caller]
fn as_in_pi(name: &str) {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/rpc");
    let read = |file: PathBuf| fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let scenario: Value = serde_json::from_str(&read(fixtures.join(format!("{name}.json")))).expect("JSON");
    let expected = read(fixtures.join(format!("{name}.expected.jsonl")));
    let world = World::new();
    if let Some(settings) = scenario.get("settings") {
        world.write("home/.pi/agent/settings.json", settings.to_string());
    }
    let extension = fixtures.join("client.ts").display().to_string();
    let mut client = Client::start(&world, &["-ne", "-e", &extension, "--model", "own/m"]);
    let (mut records, mut answers) = (Vec::new(), BTreeMap::new());
    for step in scenario["steps"].as_array().expect("a list of steps") {
        let from = records.len();
        let until = |records: &mut Vec<Value>, client: &Client, fits: &dyn Fn(&Value) -> bool| {
            let found = records[from..].iter().find(|record| fits(record)).cloned();
            found.unwrap_or_else(|| {
                let (before, found) = client.until(fits);
                records.extend(before.into_iter().chain([found.clone()]));
                found
            })
        };
        if let Some(line) = step["raw"].as_str() {
            client.write_line(line);
            until(&mut records, &client, &|record| record["type"] == "response");
            continue;
        }
        let id = client.send(filled(&step["send"], &answers));
        let answer =
            until(&mut records, &client, &|record| record["type"] == "response" && record["id"] == id.as_str());
        if let Some(name) = step["as"].as_str() {
            answers.insert(name.to_owned(), answer["data"].clone());
        }
        if let Some(event) = step["until"].as_str() {
            let (kind, role) = event.split_once(':').map_or((event, None), |(kind, role)| (kind, Some(role)));
            until(&mut records, &client, &|record| {
                record["type"] == kind && role.is_none_or(|role| record["message"]["role"] == role)
            });
        }
    }
    records.extend(client.rest());
    let mut names = Names::default();
    let actual: Vec<Value> = records.iter().map(|record| names.normalised(record)).collect();
    let read = |line: &str| Names::default().normalised(&serde_json::from_str(line).expect("JSON"));
    let expected: Vec<Value> = expected.lines().map(read).collect();
    for (at, (expected, actual)) in expected.iter().zip(&actual).enumerate() {
        assert_eq!(actual, expected, "record {at} of {name}");
    }
    assert_eq!(actual.len(), expected.len(), "{name}: {:#?}", actual.last());
}

/// Replaces `{{NAME.member...}}` by a part of an earlier answer.
fn filled(value: &Value, answers: &BTreeMap<String, Value>) -> Value {
    match value {
        Value::String(text) => match text.strip_prefix("{{").and_then(|text| text.strip_suffix("}}")) {
            Some(path) => {
                let (name, members) = path.split_once('.').expect("an answer and a member");
                answers[name].pointer(&format!("/{}", members.replace('.', "/"))).cloned().expect("it was answered")
            }
            None => value.clone(),
        },
        Value::Object(members) => members.iter().map(|(key, value)| (key.clone(), filled(value, answers))).collect(),
        other => other.clone(),
    }
}

/// Names ids by first appearance.
#[derive(Default)]
struct Names {
    entries: Vec<String>,
    sessions: Vec<String>,
}

impl Names {
    fn normalised(&mut self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.name(text).into(),
            // JavaScript has one type of number.
            Value::Number(number) => number.as_f64().into(),
            Value::Array(items) => items.iter().map(|item| self.normalised(item)).collect(),
            Value::Object(members) if members.get("role").is_some_and(|role| role == "system") => {
                json!({"role": "system"})
            }
            Value::Object(members) => self.members(members),
            other => other.clone(),
        }
    }

    fn members(&mut self, members: &Map<String, Value>) -> Value {
        let is_request = members.get("type").is_some_and(|kind| kind == "extension_ui_request");
        let left_out = |key: &str, value: &Value| {
            LEFT_OUT.contains(&key)
                || (key == "tokens" && !value.is_object())
                || (key == "id" && is_request)
                // pi 1.5 adds the disposition to the answers of 0.87.1.
                || (key == "data" && value.get("disposition").is_some())
        };
        // Sorted by name, which decides the order of first appearance.
        let sorted: BTreeMap<&String, &Value> = members.iter().filter(|(key, value)| !left_out(key, value)).collect();
        let normal = sorted.into_iter().map(|(key, value)| {
            let value = match key.as_str() {
                "sessionFile" => "<file>".into(),
                "extensionPath" => value.as_str().and_then(|path| path.rsplit('/').next()).unwrap_or_default().into(),
                _ => self.normalised(value),
            };
            (key.clone(), value)
        });
        Value::Object(normal.collect())
    }

    fn name(&mut self, text: &str) -> String {
        let is_hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-'));
        let (kind, known) = match text.len() {
            8 if is_hex(text) && !text.contains('-') => ("entry", &mut self.entries),
            36 if is_hex(text) && text.as_bytes()[8] == b'-' => ("session", &mut self.sessions),
            _ => return text.to_owned(),
        };
        let at = known.iter().position(|known| known == text).unwrap_or_else(|| {
            known.push(text.to_owned());
            known.len() - 1
        });
        format!("<{kind}:{at}>")
    }
}

#[test]
fn the_state_of_a_session_matches_pi() {
    as_in_pi("state");
}

#[test]
fn commands_during_a_run_are_answered_at_once_and_in_order() {
    as_in_pi("running");
}

#[test]
fn a_session_is_compacted_forked_cloned_and_left() {
    as_in_pi("session");
}

#[test]
fn invalid_options_are_refused_with_pis_messages() {
    as_in_pi("refused");
}
