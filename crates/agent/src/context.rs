//! What the model is given: from session entries to the messages of a request.
//!
//! The session is the only source. What is not an entry below the leaf, a discarded attempt for
//! instance, cannot get into a request.

use crate::control::VERDICT_TYPE;
use crate::message::{BashExecution, Block, Content, CustomMessage, Message, StopReason, UserMessage};
use crate::provider::RequestMessage;
use crate::session::{Body, Entry};
use serde_json::Value;
use std::collections::BTreeSet;

/// The conversation along a branch, as `context` handlers see it.
pub(crate) fn messages(branch: &[&Entry]) -> Vec<Message> {
    let compaction = branch.iter().enumerate().rev().find_map(|(at, entry)| match &entry.body {
        Body::Compaction { summary, first_kept_entry_id, .. } => Some((at, summary, first_kept_entry_id)),
        _ => None,
    });
    let mut out = Vec::new();
    let mut visible = branch;
    if let Some((at, summary, kept)) = compaction {
        out.push(summary_message("The conversation before this point was summarised as follows:", summary));
        let first = branch[..at].iter().position(|entry| entry.id == *kept).unwrap_or(at);
        visible = &branch[first..];
    }
    out.extend(visible.iter().filter_map(|entry| message(entry)));
    out
}

fn message(entry: &Entry) -> Option<Message> {
    match &entry.body {
        Body::Message { message } => Some(message.clone()),
        Body::CustomMessage { custom_type, content, display, details } => Some(Message::Custom(CustomMessage {
            custom_type: custom_type.clone(),
            content: content.clone(),
            display: *display,
            details: details.clone(),
            timestamp: 0,
        })),
        Body::BranchSummary { summary, .. } => {
            Some(summary_message("Another branch of this conversation was summarised as follows:", summary))
        }
        _ => None,
    }
}

fn summary_message(introduction: &str, summary: &str) -> Message {
    Message::user(format!("{introduction}\n\n<summary>\n{summary}\n</summary>"), 0)
}

/// The conversation as a provider takes it.
///
/// Replies that failed or were aborted are left out, results of calls that are left out too, and a
/// call that never got a result is given one, since providers refuse a call without.
pub(crate) fn request_messages(messages: &[Message]) -> Vec<RequestMessage> {
    let mut out = Vec::new();
    let mut open: Vec<(String, String)> = Vec::new();
    let mut known = BTreeSet::new();
    for message in messages {
        if !matches!(message, Message::ToolResult(_)) {
            answer_open_calls(&mut open, &mut out);
        }
        match message {
            Message::User(user) => out.push(RequestMessage::User(user.content.blocks())),
            Message::Custom(custom) => out.push(custom_message(custom)),
            Message::BashExecution(run) if run.exclude_from_context != Some(true) => {
                out.push(RequestMessage::User(vec![Block::text(bash_text(run))]));
            }
            Message::Assistant(reply) if !matches!(reply.stop_reason, StopReason::Error | StopReason::Aborted) => {
                open = reply.tool_calls().map(|call| (call.id.clone(), call.name.clone())).collect();
                known.extend(open.iter().map(|(id, _)| id.clone()));
                out.push(RequestMessage::Assistant(reply.content.clone()));
            }
            Message::ToolResult(result) if known.contains(&result.tool_call_id) => {
                open.retain(|(id, _)| *id != result.tool_call_id);
                out.push(RequestMessage::ToolResult {
                    tool_call_id: result.tool_call_id.clone(),
                    tool_name: result.tool_name.clone(),
                    content: result.content.blocks(),
                    is_error: result.is_error,
                });
            }
            Message::Assistant(_) | Message::ToolResult(_) | Message::BashExecution(_) | Message::Other(_) => {}
        }
    }
    answer_open_calls(&mut open, &mut out);
    out
}

/// The conversation in the roles that models know, complete.
pub(crate) fn conversation(messages: &[Message]) -> Vec<Message> {
    let user = |content: Content, timestamp| Message::User(UserMessage { content, timestamp });
    messages
        .iter()
        .filter_map(|message| match message {
            Message::User(_) | Message::Assistant(_) | Message::ToolResult(_) => Some(message.clone()),
            Message::Custom(custom) => Some(user(custom.content.blocks().into(), custom.timestamp)),
            Message::BashExecution(run) if run.exclude_from_context != Some(true) => {
                Some(user(vec![Block::text(bash_text(run))].into(), run.timestamp))
            }
            Message::BashExecution(_) | Message::Other(_) => None,
        })
        .collect()
}

fn answer_open_calls(open: &mut Vec<(String, String)>, out: &mut Vec<RequestMessage>) {
    out.extend(open.drain(..).map(|(tool_call_id, tool_name)| RequestMessage::ToolResult {
        tool_call_id,
        tool_name,
        content: vec![Block::text("No result provided")],
        is_error: true,
    }));
}

/// What a verdict injected keeps the role it asked for; everything else of extensions is a user
/// message.
fn custom_message(custom: &CustomMessage) -> RequestMessage {
    let role = custom.details.as_ref().and_then(|details| details.get("role")).and_then(Value::as_str);
    if custom.custom_type == VERDICT_TYPE && role == Some("system") {
        return RequestMessage::System(custom.content.text());
    }
    RequestMessage::User(custom.content.blocks())
}

fn bash_text(run: &BashExecution) -> String {
    let mut text = format!("Ran `{}`\n", run.command);
    if run.output.is_empty() {
        text.push_str("(no output)");
    } else {
        text.push_str(&format!("```\n{}\n```", run.output));
    }
    match run.exit_code {
        _ if run.cancelled => text.push_str("\n\n(command cancelled)"),
        Some(code) if code != 0 => text.push_str(&format!("\n\nCommand exited with code {code}")),
        _ => {}
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{AssistantMessage, ToolCall, ToolResultMessage, Usage};
    use crate::session::EntryId;
    use serde_json::{Map, json};

    fn reply(stop_reason: StopReason, call: Option<&str>) -> Message {
        let call = call.map(|id| {
            Block::ToolCall(ToolCall { id: id.into(), name: "t".into(), arguments: json!({}), extra: Map::new() })
        });
        Message::Assistant(AssistantMessage {
            content: call.into_iter().collect(),
            api: String::new(),
            provider: String::new(),
            model: String::new(),
            usage: Usage::default(),
            stop_reason,
            error_message: None,
            timestamp: 0,
            extra: Map::new(),
        })
    }

    fn result(id: &str) -> Message {
        Message::ToolResult(ToolResultMessage {
            tool_call_id: id.into(),
            tool_name: "t".into(),
            content: "r".into(),
            details: None,
            is_error: false,
            timestamp: 0,
        })
    }

    #[test]
    fn failed_replies_are_left_out_with_their_results() {
        let sent = request_messages(&[
            Message::user("a", 0),
            reply(StopReason::Error, Some("1")),
            result("1"),
            reply(StopReason::Aborted, None),
            Message::user("b", 0),
        ]);
        assert_eq!(sent, [RequestMessage::User(vec![Block::text("a")]), RequestMessage::User(vec![Block::text("b")])]);
    }

    #[test]
    fn a_call_without_a_result_is_given_one() {
        let sent = request_messages(&[reply(StopReason::ToolUse, Some("1")), Message::user("b", 0)]);
        assert!(
            matches!(&sent[1], RequestMessage::ToolResult { tool_call_id, is_error: true, .. } if tool_call_id == "1")
        );
        assert_eq!(sent.len(), 3);
    }

    #[test]
    fn a_compaction_hides_what_is_before_the_kept_entry() {
        let entry = |id: &str, body| Entry { id: EntryId(id.into()), parent: None, timestamp: String::new(), body };
        let said = |text: &str| Body::Message { message: Message::user(text, 0) };
        let entries = [
            entry("1", said("old")),
            entry("2", said("kept")),
            entry(
                "3",
                Body::Compaction {
                    summary: "S".into(),
                    first_kept_entry_id: EntryId("2".into()),
                    tokens_before: 1,
                    extra: Map::new(),
                },
            ),
            entry("4", said("new")),
        ];
        let texts: Vec<String> = messages(&entries.iter().collect::<Vec<_>>())
            .iter()
            .map(|message| match message {
                Message::User(user) => user.content.text(),
                _ => String::new(),
            })
            .collect();
        assert!(texts[0].contains("<summary>\nS\n"));
        assert_eq!(texts[1..], ["kept", "new"]);
    }

    #[test]
    fn only_a_verdict_speaks_as_the_system() {
        let custom = |custom_type: &str, role: &str| {
            Message::Custom(CustomMessage {
                custom_type: custom_type.into(),
                content: "c".into(),
                display: true,
                details: Some(json!({"role": role})),
                timestamp: 0,
            })
        };
        let sent = request_messages(&[
            custom(VERDICT_TYPE, "system"),
            custom(VERDICT_TYPE, "user"),
            custom("other", "system"),
        ]);
        let user = RequestMessage::User(vec![Block::text("c")]);
        assert_eq!(sent, [RequestMessage::System("c".into()), user.clone(), user]);
    }
}
