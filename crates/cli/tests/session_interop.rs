//! A session that the real pi wrote, opened here. `fixtures/sessions/capture.mjs` wrote it, and says what the real pi
//! sees in it; with a file it says what the real pi sees in one of ours.

mod support;

use serde_json::{Value, json};
use support::{World, fixture};

/// What an extension sees in a session file of the project.
fn look(world: &World, session: &str) -> Value {
    let (look, model) = (fixture("sessions/look.ts"), world.script(&[&["went on"]]));
    let args = ["-p", "/look", "--model", &model, "--session", session, "-e", &look, "--allow", "write"];
    world.pi(&args).succeeded();
    serde_json::from_str(&world.read("project/look.json")).expect("JSON")
}

#[test]
fn what_the_real_pi_wrote_is_what_is_seen_here() {
    let world = World::new();
    let written = std::fs::read(fixture("sessions/pi-0.87.1.jsonl")).expect("a session");
    world.write("project/s.jsonl", &written);
    let expected = std::fs::read(fixture("sessions/pi-0.87.1.expected.json")).expect("what the real pi sees");
    let expected: Value = serde_json::from_slice(&expected).expect("JSON");
    let seen = look(&world, "s.jsonl");
    for member in ["name", "labels", "context"] {
        assert_eq!(seen[member], expected[member], "{member}");
    }
    // The model of this run is noted behind what was there.
    for member in ["entries", "branch"] {
        let (seen, expected) = (seen[member].as_array().expect("a list"), expected[member].as_array().expect("a list"));
        assert_eq!(seen[..expected.len()], expected[..], "{member}");
        let added = seen[expected.len()..].iter().map(|entry| entry.get(0).unwrap_or(entry));
        assert!(added.clone().all(|kind| ["model_change", "thinking_level_change"].iter().any(|known| kind == known)));
    }
    // Nothing of what was written is written anew.
    let after = std::fs::read(world.project().join("s.jsonl")).expect("a session");
    assert!(after.starts_with(&written), "lines of the real pi were changed");
    // And it goes on.
    let model = world.script(&[&["went on"]]);
    world.pi(&["-p", "fifth", "--model", &model, "--session", "s.jsonl"]).succeeded();
    let seen = look(&world, "s.jsonl");
    let context = seen["context"].as_array().expect("a list");
    let last = |back: usize| context[context.len() - back].clone();
    assert_eq!([last(2), last(1)], [json!(["user", "fifth", null]), json!(["assistant", "went on", null])]);
}
