//! Converts messages of a session to messages of a request.
//!
//! A verdict with the system role keeps that role; its text is truncated to [`MAX_VERDICT_BYTES`] bytes, and chat-template
//! markers and control characters in it are neutralised.

use crate::message::{BashExecution, Block, Content, CustomMessage, Message, StopReason, UserMessage, VERDICT_TYPE};
use crate::provider::{Origin, RequestMessage};
use pijs_protocol::{chat_markup, guard};
use serde_json::Value;
use std::collections::BTreeSet;

/// Maximum size of one injected text in bytes; about 8,000 tokens.
pub const MAX_VERDICT_BYTES: usize = 32 << 10;

/// Returns the text of a summary message for the model.
fn summary_text(value: &Value) -> Option<String> {
    let summary = value.get("summary")?.as_str()?;
    let introduction = match value.get("role")?.as_str()? {
        "branchSummary" => {
            return Some(format!(
                "The following is a summary of a branch that this conversation came back from:\n\n<summary>\n{summary}</summary>"
            ));
        }
        "compactionSummary" => "The conversation history before this point was compacted into the following summary:",
        _ => return None,
    };
    Some(format!("{introduction}\n\n<summary>\n{summary}\n</summary>"))
}

/// Returns the conversation in the form that providers accept.
///
/// Omits failed and aborted replies together with the results of their calls, and adds a result to each call without one, since
/// providers reject such calls.
pub fn request_messages(messages: &[Message]) -> Vec<RequestMessage> {
    let mut out = Vec::new();
    let mut open: Vec<(String, String)> = Vec::new();
    let mut known = BTreeSet::new();
    for message in messages {
        if !matches!(message, Message::ToolResult(_)) {
            answer_open_calls(&mut open, &mut out);
        }
        match message {
            Message::User(user) => out.push(RequestMessage::User(user.content.clone())),
            Message::Custom(custom) => out.push(custom_message(custom)),
            Message::BashExecution(run) if run.exclude_from_context != Some(true) => {
                out.push(RequestMessage::user(bash_text(run)));
            }
            Message::Assistant(reply) if !matches!(reply.stop_reason, StopReason::Error | StopReason::Aborted) => {
                open = reply.tool_calls().map(|call| (call.id.clone(), call.name.clone())).collect();
                known.extend(open.iter().map(|(id, _)| id.clone()));
                out.push(RequestMessage::Assistant { content: reply.content.clone(), origin: Origin::of(reply) });
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
            Message::Other(value) => {
                out.extend(summary_text(value).map(RequestMessage::user));
            }
            // The caller passes all system messages to the provider combined.
            Message::System(_) => {}
            Message::Assistant(_) | Message::ToolResult(_) | Message::BashExecution(_) => {}
        }
    }
    answer_open_calls(&mut open, &mut out);
    out
}

/// Returns the whole conversation in the roles that models know, without system messages, because a request has separate members
/// for prompt and tools.
pub fn conversation(messages: &[Message]) -> Vec<Message> {
    let sent = for_models(messages).into_iter();
    sent.filter(|message| !matches!(message, Message::System(_))).collect()
}

/// Returns the whole conversation in the roles that models know, with system messages.
pub fn for_models(messages: &[Message]) -> Vec<Message> {
    let user =
        |content: Content, timestamp| Message::User(UserMessage { content, timestamp, authors: BTreeSet::new() });
    messages
        .iter()
        .filter_map(|message| match message {
            Message::User(_) | Message::Assistant(_) | Message::ToolResult(_) | Message::System(_) => {
                Some(message.clone())
            }
            Message::Custom(custom) => Some(user(custom.content.blocks().into(), custom.timestamp)),
            Message::BashExecution(run) if run.exclude_from_context != Some(true) => {
                Some(user(vec![Block::text(bash_text(run))].into(), run.timestamp))
            }
            Message::Other(value) => {
                let timestamp = value.get("timestamp").and_then(Value::as_u64).unwrap_or(0);
                summary_text(value).map(|text| user(vec![Block::text(text)].into(), timestamp))
            }
            Message::BashExecution(_) => None,
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

/// Converts a custom message: a verdict keeps its role, any other message gets the user role.
pub fn custom_message(custom: &CustomMessage) -> RequestMessage {
    if has_system_role(custom) {
        return RequestMessage::System(verdict_text(custom));
    }
    RequestMessage::User(custom.content.blocks().into())
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

/// Returns whether a message was injected by a verdict.
pub fn is_verdict(custom: &CustomMessage) -> bool {
    custom.custom_type == VERDICT_TYPE
}

/// Returns whether a message was injected by a verdict with the system role.
pub fn has_system_role(custom: &CustomMessage) -> bool {
    is_verdict(custom) && detail(custom, "role") == Some("system")
}

/// Returns the text of a verdict, neutralised and truncated.
pub fn verdict_text(custom: &CustomMessage) -> String {
    let text = custom.content.text();
    if !guard!(SystemMarkup) {
        return text;
    }
    let kept = chat_markup::cut(&text, MAX_VERDICT_BYTES);
    let mut said = chat_markup::neutralise_reminder(kept).into_owned();
    let left_out = text.len() - kept.len();
    if left_out > 0 {
        said.push_str(&format!("\n[{left_out} bytes left out]"));
    }
    said
}

/// Returns a text member of a message's details.
pub fn detail<'a>(custom: &'a CustomMessage, name: &str) -> Option<&'a str> {
    custom.details.as_ref()?.get(name)?.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{AssistantMessage, ToolCall, ToolResultMessage, Usage};
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
            usage: None,
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
        assert_eq!(sent, [RequestMessage::user("a"), RequestMessage::user("b")]);
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
    fn only_a_verdict_has_the_system_role() {
        let custom = |custom_type: &str, role: &str| {
            Message::Custom(CustomMessage {
                custom_type: custom_type.into(),
                content: "c".into(),
                display: Some(true),
                details: Some(json!({"role": role})),
                timestamp: 0,
                authors: BTreeSet::new(),
            })
        };
        let sent = request_messages(&[
            custom(VERDICT_TYPE, "system"),
            custom(VERDICT_TYPE, "user"),
            custom("other", "system"),
        ]);
        let user = RequestMessage::user("c");
        assert_eq!(sent, [RequestMessage::System("c".into()), user.clone(), user]);
    }
}
