//! Checks that a rule fires at the delta at which Node's `RegExp` first matches the text so far, however the text is cut. Node's
//! results are stored in `fixtures/rules/regexp-node.json`.

use pijs_rules::{Condition, EngineOptions, MatchContext, Origin, Rule, RuleEngine, RuleSettings};
use std::fs;

/// Returns the number of characters that were read when the rule fired.
fn fires_after(engine: &mut RuleEngine, characters: &[char], size: usize) -> Option<usize> {
    engine.reset_buffers();
    let mut read = 0;
    for piece in characters.chunks(size) {
        read += piece.len();
        let delta: String = piece.iter().collect();
        if engine.check_delta(&delta, &MatchContext::text(0)).is_some() {
            return Some(read);
        }
    }
    (!engine.end_of_message(0).is_empty()).then_some(usize::MAX)
}

#[test]
fn a_rule_fires_when_node_first_matches() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/rules/regexp-node.json");
    let kept: serde_json::Value = serde_json::from_slice(&fs::read(path).expect("the fixture")).expect("it is JSON");
    let mut wrong = Vec::new();
    for case in kept["cases"].as_array().expect("cases") {
        let text = |number: usize| case[number].as_str().expect("a text");
        let (source, flags, text, answers) = (text(0), text(1), text(2), text(3).as_bytes());
        let mut rule = Rule::new("a", Origin::Project, "x");
        rule.conditions.push(Condition { source: source.to_owned(), flags: flags.to_owned() });
        let name = rule.name.clone();
        let settings = RuleSettings { enabled: true, ..RuleSettings::default() };
        let mut engine = RuleEngine::new(vec![rule], settings, EngineOptions::default());
        let characters: Vec<char> = text.chars().collect();
        for size in [1, 2, 3, 5, usize::MAX] {
            let ends = (1..=characters.len()).filter(|&end| end.is_multiple_of(size) || end == characters.len());
            let expected = { ends }.find(|&end| answers[end] == b'1');
            let fired = fires_after(&mut engine, &characters, size);
            engine.retract(&name);
            if fired != expected {
                wrong.push(format!("/{source}/{flags} on {text:?} in pieces of {size}: {fired:?}, Node {expected:?}"));
                break;
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
