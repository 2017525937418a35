//! Tests opening a session that the real pi wrote. `fixtures/sessions/capture.mjs` wrote the session and the real pi's view of
//! it; given a file, the script prints the real pi's view of a session written by PiJS.

mod support;

use serde_json::{Value, json};
use support::{World, fixture};

/// Returns an extension's view of a session file of the project.
fn look(world: &World, session: &str) -> Value {
    let (look, model) = (fixture("sessions/look.ts"), world.script(&[&["went on"]]));
    let args = ["-p", "/look", "--model", &model, "--session", session, "-e", &look, "--allow", "write"];
    world.pi(&args).succeeded();
    serde_json::from_str(&world.read("project/look.json")).expect("JSON")
}

#[test]
fn a_session_of_the_real_pi_reads_the_same() {
    let world = World::new();
    let written = std::fs::read(fixture("sessions/pi-0.87.1.jsonl")).expect("a session");
    world.write("project/s.jsonl", &written);
    let expected =
        std::fs::read(fixture("sessions/pi-0.87.1.expected.json")).expect("the expected file of the real pi");
    let expected: Value = serde_json::from_slice(&expected).expect("JSON");
    let seen = look(&world, "s.jsonl");
    for member in ["name", "labels", "context"] {
        assert_eq!(seen[member], expected[member], "{member}");
    }
    // The model of this run is appended to the existing entries.
    for member in ["entries", "branch"] {
        let (seen, expected) = (seen[member].as_array().expect("a list"), expected[member].as_array().expect("a list"));
        assert_eq!(seen[..expected.len()], expected[..], "{member}");
        let added = seen[expected.len()..].iter().map(|entry| entry.get(0).unwrap_or(entry));
        assert!(added.clone().all(|kind| ["model_change", "thinking_level_change"].iter().any(|known| kind == known)));
    }
    // The existing bytes are unchanged.
    let after = std::fs::read(world.project().join("s.jsonl")).expect("a session");
    assert!(after.starts_with(&written), "lines of the real pi were changed");
    // The session continues.
    let model = world.script(&[&["went on"]]);
    world.pi(&["-p", "fifth", "--model", &model, "--session", "s.jsonl"]).succeeded();
    let seen = look(&world, "s.jsonl");
    let context = seen["context"].as_array().expect("a list");
    let last = |back: usize| context[context.len() - back].clone();
    assert_eq!([last(2), last(1)], [json!(["user", "fifth", null]), json!(["assistant", "went on", null])]);
}

/// Returns a session whose older entries, on the branch and off it, contain texts of `characters` characters.
fn session_of(characters: usize) -> String {
    let time = "2026-01-02T03:04:05.678Z";
    let id = |number: usize| format!("{number:08x}");
    let entry = |number: usize, parent: Option<usize>, rest: Value| {
        let mut line = json!({"type": rest["type"], "id": id(number), "parentId": parent.map(id), "timestamp": time});
        line.as_object_mut().expect("an object").extend(rest.as_object().expect("an object").clone());
        line
    };
    let said = |role: &str, length: usize| {
        let mut message =
            json!({"role": role, "content": [{"type": "text", "text": "x".repeat(length)}], "timestamp": 1});
        if role == "assistant" {
            let cost = json!({"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0});
            message["usage"] =
                json!({"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 2, "cost": cost});
            message["stopReason"] = json!("stop");
            (message["api"], message["provider"], message["model"]) = (json!("a"), json!("p"), json!("m"));
        }
        json!({"type": "message", "message": message})
    };
    let mut lines = vec![json!({"type": "session", "version": 3, "id": "s", "timestamp": time, "cwd": "/w"})];
    lines.push(entry(0, None, json!({"type": "session_info", "name": "far"})));
    lines.push(entry(1, Some(0), json!({"type": "thinking_level_change", "thinkingLevel": "off"})));
    lines.extend((2..22).map(|number| entry(number, Some(number - 1), said("user", characters))));
    // Another branch, and its label.
    lines.push(entry(22, Some(1), said("user", characters)));
    lines.push(entry(23, Some(21), json!({"type": "label", "targetId": id(1), "label": "begin"})));
    lines.push(entry(24, Some(23), said("assistant", 10)));
    let kept = json!({"type": "compaction", "summary": "S", "firstKeptEntryId": id(24), "tokensBefore": 9});
    lines.push(entry(25, Some(24), kept));
    lines.push(entry(26, Some(25), said("assistant", 10)));
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_long_session_looks_to_an_extension_like_a_short_one() {
    let world = World::new();
    let (look, model) = (fixture("sessions/look-far.ts"), world.script(&[&["went on"]]));
    // The long session has 20 MB, of which an extension reads a part; the realm stores all of it only if it reads all of it.
    let [short, long] = [10, 2_000_000].map(|characters| {
        world.write("project/s.jsonl", session_of(characters).as_bytes());
        let args = ["-p", "/look-far", "--model", &model, "--session", "s.jsonl", "-e", &look, "--allow", "write"];
        world.pi(&args).succeeded();
        serde_json::from_str::<Value>(&world.read("project/far.json")).expect("JSON")
    });
    // The model of the run is appended to the existing entries, under random ids.
    let same =
        |seen: &Value| -> Value {
            let text = seen.to_string();
            let ids = regex::Regex::new(r#""[0-9a-f]{8}""#).expect("a constant");
            let known = |id: &str| id[1..7] == *"000000";
            Value::from(ids.replace_all(&text, |found: &regex::Captures<'_>| {
                if known(&found[0]) { found[0].to_owned() } else { "\"new\"".to_owned() }
            }))
        };
    assert_eq!(same(&long), same(&short));
    assert_eq!(
        (&short["old"], &short["none"]),
        (&json!(["00000001", "00000000", "thinking_level_change"]), &Value::Null)
    );
    assert_eq!(short["context"].as_array().map(Vec::len), Some(3), "{}", short["context"]);
    assert_eq!((&short["added"], &short["last"], &short["label"]), (&json!(1), &json!("far"), &json!("begin")));
}
