//! Tests that a realm does not read any state of the machine.

use crate::support::{Guest, NOW, Sources};
use serde_json::json;

const CLEAN: Sources<'static> = &[("main.js", include_str!("../fixtures/guests/clean.js"))];

#[test]
fn no_text_becomes_code_without_a_grant() {
    let mut guest = Guest::new(CLEAN);
    let answers = guest.ask("codeFromText", &[]);
    let answers = answers.as_array().expect("a list");
    assert_eq!(answers.len(), 15);
    assert_eq!(guest.host.calls.len(), 15, "each is asked for");
    for answer in answers {
        assert!(answer.as_str().is_some_and(|text| text.contains("eval is not supported")), "{answer}");
    }
}

#[test]
fn globals_that_reach_the_machine_are_missing() {
    assert_eq!(Guest::new(CLEAN).ask("missingGlobals", &[]), json!([]));
}

#[test]
fn dates_come_from_the_driver() {
    let dates = Guest::new(CLEAN).ask("dates", &[]);
    assert_eq!(
        dates,
        json!({
            "first": NOW.epoch_ms,
            "step": 1,
            "text": "string",
            "fixed": "1970-01-02T00:00:00.000Z",
            "parsed": 86_400_000,
            "utc": 86_400_000,
            "subclass": [true, true, 2023],
            "identity": [true, "Date", 7, true],
        })
    );
}

#[test]
fn the_same_deliveries_give_the_same_yields() {
    let run = || {
        let mut guest = Guest::new(CLEAN);
        ["work", "draw", "dates", "work"].map(|export| guest.turn(export, &[]).expect("the realm is running"))
    };
    let (first, second) = (run(), run());
    assert_eq!(first, second);
    assert_eq!(first[0].usage.clock_reads, 20_000);
    assert_eq!(first[0].usage.random_draws, 20_000);
    assert!(first[0].usage.heap_bytes > 100_000);
}

#[test]
fn stacks_begin_as_in_node() {
    let stacks = Guest::new(CLEAN).ask("stacks", &[]);
    assert_eq!(stacks["thrown"][0], "TypeError: first line");
    assert!(stacks["thrown"][1].as_str().is_some_and(|frame| frame.starts_with("    at ")), "{stacks}");
    assert!(stacks["thrown"].to_string().contains("main.js:"), "{stacks}");
    assert_eq!(stacks["engine"][0], "TypeError: cannot read property 'member' of undefined");
    assert_eq!(stacks["own"][0], "OwnError: named");
    assert!(!stacks["own"].to_string().contains("captureStackTrace"), "{stacks}");
    assert!(!stacks["plain"].to_string().contains("captureStackTrace"), "{stacks}");
    assert_eq!(stacks["assigned"], "mine");
}
