use super::*;
use crate::testing;
use pijs_llm::message::{AssistantMessage, Block, StopReason, ToolCall, ToolResultMessage, Usage};
use pijs_session_store::{Session, refs};
use serde_json::Map;
use std::path::Path;

const SETTINGS: CompactionSettings = CompactionSettings { enabled: true, reserve_tokens: 10, keep_recent_tokens: 10 };

fn reply(text: &str, call: Option<(&str, &str)>) -> Message {
    let mut content = vec![Block::text(text)];
    content.extend(call.map(|(name, path)| {
        Block::ToolCall(ToolCall {
            id: "c".into(),
            name: name.into(),
            arguments: json!({"path": path}),
            extra: Map::new(),
        })
    }));
    Message::Assistant(AssistantMessage {
        content,
        api: String::new(),
        provider: String::new(),
        model: String::new(),
        usage: Usage::default(),
        stop_reason: StopReason::Stop,
        error_message: None,
        timestamp: 0,
        extra: Map::new(),
    })
}

fn result(text: &str) -> Message {
    Message::ToolResult(ToolResultMessage {
        tool_call_id: "c".into(),
        tool_name: "read".into(),
        content: text.into(),
        details: None,
        usage: None,
        is_error: false,
        timestamp: 0,
    })
}

fn session(messages: &[Message]) -> Session {
    let mut session = Session::in_memory(Path::new("/w"), testing::ambient());
    for message in messages {
        session.append_message(message).unwrap();
    }
    session
}

fn roles(messages: &[Message]) -> Vec<&str> {
    messages.iter().map(Message::role).collect()
}

#[test]
fn whole_turns_are_summarised_and_the_newest_stay() {
    let long = "x".repeat(40);
    let session = session(&[
        Message::user("a", 0),
        reply("b", Some(("read", "f"))),
        result("r"),
        Message::user(long.as_str(), 0),
    ]);
    let prepared = prepare(&refs(&session.branch(None).unwrap()), SETTINGS).unwrap();
    assert_eq!(roles(&prepared.to_summarize), ["user", "assistant", "toolResult"]);
    assert!(!prepared.is_split);
    assert_eq!(prepared.first_kept, session.entries().nth(3).unwrap().unwrap().id);
    assert_eq!(prepared.files.details(), json!({"readFiles": ["f"], "modifiedFiles": []}));
}

#[test]
fn a_turn_may_be_cut_in_two_but_never_between_a_call_and_its_result() {
    let long = "x".repeat(40);
    let session = session(&[
        Message::user("a", 0),
        reply("first", Some(("edit", "f"))),
        result(&long),
        reply("second", Some(("read", "f"))),
        result(&long),
    ]);
    let prepared = prepare(&refs(&session.branch(None).unwrap()), SETTINGS).unwrap();
    // The budget ends inside the last result, after which there is no cut point.
    assert_eq!(prepared.first_kept, session.entries().nth(3).unwrap().unwrap().id);
    assert!(prepared.is_split);
    assert_eq!(roles(&prepared.turn_prefix), ["user", "assistant", "toolResult"]);
    assert!(prepared.to_summarize.is_empty());
    assert_eq!(prepared.files.details(), json!({"readFiles": [], "modifiedFiles": ["f"]}));
}

#[test]
fn a_second_compaction_has_nothing_to_do() {
    let mut session = session(&[Message::user("a", 0)]);
    assert_eq!(prepare(&refs(&session.branch(None).unwrap()), SETTINGS), None);
    let kept = session.entries().next().unwrap().unwrap().id.clone();
    session
        .append(Body::Compaction {
            summary: "S".into(),
            first_kept_entry_id: kept,
            tokens_before: 1,
            extra: Map::new(),
        })
        .unwrap();
    assert_eq!(prepare(&refs(&session.branch(None).unwrap()), SETTINGS), None);
}

#[test]
fn a_later_compaction_builds_on_the_earlier_one() {
    let long = "x".repeat(40);
    let mut session = session(&[Message::user("old", 0), Message::user("kept", 0)]);
    let kept = session.entries().nth(1).unwrap().unwrap().id.clone();
    let extra =
        pijs_session_store::summary::rest(Some(json!({"readFiles": ["r"], "modifiedFiles": ["m"]})), None, false);
    session
        .append(Body::Compaction { summary: "S".into(), first_kept_entry_id: kept, tokens_before: 1, extra })
        .unwrap();
    session.append_message(&Message::user(long.as_str(), 0)).unwrap();
    let prepared = prepare(&refs(&session.branch(None).unwrap()), SETTINGS).unwrap();
    assert_eq!(prepared.previous_summary.as_deref(), Some("S"));
    assert_eq!(roles(&prepared.to_summarize), ["user"]);
    assert_eq!(prepared.files.details(), json!({"readFiles": ["r"], "modifiedFiles": ["m"]}));
}
