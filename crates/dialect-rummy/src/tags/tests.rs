//! Runs the cases of `fixtures/rummy/tags`: replies of a model, with the expected commands and warnings.
//!
//! `commands` lists fields that each command must have; null means that the field must be missing. `warnings` lists a part of
//! each warning. `max` is the limit of commands.

use super::parse;
use crate::Profile;
use serde_json::Value;

#[test]
fn replies_become_commands() {
    let cases: Value =
        serde_json::from_str(include_str!("../../../../fixtures/rummy/tags/tags.json")).expect("the fixture is JSON");
    let mut wrong = Vec::new();
    for case in cases.as_array().expect("a list of cases") {
        let input = match &case["input"] {
            Value::Array(lines) => lines.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n"),
            other => other.as_str().expect("a reply").to_owned(),
        };
        let max = case["max"].as_u64().map_or(99, |max| max.try_into().unwrap());
        let parsed = parse(&input, &Profile::v2(), max);
        let commands: Vec<Value> = parsed.commands.iter().map(super::Command::to_json).collect();
        let expected = case["commands"].as_array().expect("commands");
        let fits = |found: &Value, expected: &Value| {
            let members = expected.as_object().expect("a command is an object");
            members.iter().all(|(name, value)| found.get(name).unwrap_or(&Value::Null) == value)
        };
        let warnings = case["warnings"].as_array().cloned().unwrap_or_default();
        let warns = |found: &String, part: &Value| found.contains(part.as_str().expect("a warning"));
        let is_right = commands.len() == expected.len()
            && commands.iter().zip(expected).all(|(found, expected)| fits(found, expected))
            && parsed.warnings.len() == warnings.len()
            && parsed.warnings.iter().zip(&warnings).all(|(found, part)| warns(found, part))
            && case.get("unparsed").is_none_or(|text| *text == parsed.unparsed.as_str());
        if !is_right {
            let found = serde_json::to_string(&commands).unwrap();
            wrong.push(format!("{}\n  found {found}\n  {:?}\n  {:?}", case["name"], parsed.warnings, parsed.unparsed));
        }
    }
    assert!(wrong.is_empty(), "{} cases are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// `<ping/>`, the simplest invocation of a plugin's own tool, is a command: rummy's plugin guide, "Quickstart".
#[test]
fn tools_of_plugins_are_commands() {
    let reply = "<ping/><pong target=\"x\">y</pong>";
    assert!(parse(reply, &Profile::v2(), 99).commands.is_empty());
    let commands = super::parse_with(reply, &["ping", "pong"], 99).commands;
    assert_eq!(commands[0].to_json(), serde_json::json!({"name": "ping"}));
    assert_eq!(commands[1].to_json(), serde_json::json!({"name": "pong", "target": "x", "body": "y"}));
}

#[test]
fn any_text_is_read_to_its_end() {
    let pieces = [
        "<set",
        "<get ",
        "path=\"",
        "\"",
        ">",
        "/>",
        "</set>",
        "`",
        "```",
        "<|tool_call>",
        "call:get{",
        "}",
        "<<:::SEARCH",
        ":::",
        "{\"name\":\"get\"",
        "[TOOL_CALLS]",
        "<|channel|>",
        "<|message|>",
        "é",
        "\n",
        "<",
        "'",
        "=",
        "😀",
    ];
    let mut state = 7_u32;
    for _ in 0..3_000 {
        let mut text = String::new();
        for _ in 0..12 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            text.push_str(pieces[(state >> 16) as usize % pieces.len()]);
        }
        parse(&text, &Profile::v2(), 99);
    }
}
