//! What the model is given: from session entries to the messages of a request.
//!
//! The session is the only source. What is not an entry below the leaf, a discarded attempt for
//! instance, cannot get into a request.

use crate::message::{BashExecution, Block, Content, CustomMessage, Message, StopReason, SystemMessage, UserMessage};
use crate::provider::{Origin, RequestMessage};
use crate::session::{Body, Entry, EntryId};
use crate::verdict_text;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// An entry and what it says to the model.
pub(crate) struct Projected<'a> {
    pub(crate) entry: &'a Entry,
    pub(crate) messages: Vec<Message>,
}

/// The conversation along a branch, as `context` handlers see it.
pub(crate) fn messages(branch: &[&Entry]) -> Vec<Message> {
    projection(branch).into_iter().flat_map(|projected| projected.messages).collect()
}

/// The entries that the model still sees: the latest compaction first, then what it kept. What it kept of system
/// messages is in the compaction itself.
fn visible<'a>(branch: &[&'a Entry]) -> Vec<&'a Entry> {
    let compaction = branch.iter().enumerate().rev().find_map(|(at, entry)| match &entry.body {
        Body::Compaction { first_kept_entry_id, .. } => Some((at, first_kept_entry_id)),
        _ => None,
    });
    let Some((at, kept)) = compaction else { return branch.to_vec() };
    let first = branch[..at].iter().position(|entry| entry.id == *kept).unwrap_or(at);
    let is_system = |entry: &Entry| matches!(&entry.body, Body::Message { message: Message::System(_) });
    let mut visible = vec![branch[at]];
    visible.extend(branch[first..at].iter().filter(|entry| !is_system(entry)));
    visible.extend(&branch[at + 1..]);
    visible
}

/// The system messages that the model still sees, in order.
pub(crate) fn told(branch: &[&Entry]) -> Vec<SystemMessage> {
    let told = |entry: &&Entry| match &entry.body {
        Body::Message { message: Message::System(system) } => Some(system.clone()),
        Body::Compaction { extra, .. } => told_by(extra),
        _ => None,
    };
    visible(branch).iter().filter_map(told).collect()
}

/// What a compaction says of the prompt and the tools.
fn told_by(extra: &Map<String, Value>) -> Option<SystemMessage> {
    extra.get("systemMessage").and_then(|value| serde_json::from_value(value.clone()).ok())
}

/// What each entry says that the model still sees. Edits of entries count.
pub(crate) fn projection<'a>(branch: &[&'a Entry]) -> Vec<Projected<'a>> {
    let visible = visible(branch);
    let mut edits: BTreeMap<&EntryId, &Value> = BTreeMap::new();
    for entry in &visible {
        if let Body::ContextEdit { target_id, replacement } = &entry.body {
            edits.insert(target_id, replacement);
        }
    }
    visible
        .into_iter()
        .enumerate()
        .map(|(at, entry)| {
            // An older compaction may lie inside what the newest one kept; it says nothing any more.
            let stale = at > 0 && matches!(entry.body, Body::Compaction { .. });
            let said = if stale { None } else { said(entry) };
            let edited = match edits.get(&entry.id) {
                None => said,
                Some(Value::Null) => None,
                Some(replacement) => said.map(|message| edited(message, replacement)),
            };
            let told = match &entry.body {
                Body::Compaction { extra, .. } if !stale => told_by(extra).map(Message::System),
                _ => None,
            };
            Projected { entry, messages: told.into_iter().chain(edited).collect() }
        })
        .collect()
}

/// A message with other content.
fn edited(message: Message, replacement: &Value) -> Message {
    if matches!(message, Message::System(_)) {
        return message;
    }
    let Some(content) = replacement.get("content") else { return message };
    let mut value = message.to_value();
    value["content"] = content.clone();
    serde_json::from_value(value).unwrap_or(message)
}

/// What an entry says to the model by itself.
pub(crate) fn said(entry: &Entry) -> Option<Message> {
    let timestamp = millis(&entry.timestamp);
    match &entry.body {
        Body::Message { message } => Some(message.clone()),
        Body::CustomMessage { custom_type, content, display, details } => Some(Message::Custom(CustomMessage {
            custom_type: custom_type.clone(),
            content: content.clone(),
            display: *display,
            details: details.clone(),
            timestamp,
        })),
        Body::BranchSummary { summary, from_id, .. } => Some(Message::Other(
            json!({"role": "branchSummary", "summary": summary, "fromId": from_id, "timestamp": timestamp}),
        )),
        Body::Compaction { summary, tokens_before, .. } => Some(Message::Other(json!({
            "role": "compactionSummary", "summary": summary, "tokensBefore": tokens_before, "timestamp": timestamp,
        }))),
        _ => None,
    }
}

/// Milliseconds since 1970 of an ISO time; 0 for what is none.
fn millis(iso: &str) -> u64 {
    let time = OffsetDateTime::parse(iso, &Rfc3339).ok();
    time.and_then(|time| u64::try_from(time.unix_timestamp_nanos() / 1_000_000).ok()).unwrap_or(0)
}

/// A summary as the model reads it.
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
            // The provider is given what they come to.
            Message::System(_) => {}
            Message::Assistant(_) | Message::ToolResult(_) | Message::BashExecution(_) => {}
        }
    }
    answer_open_calls(&mut open, &mut out);
    out
}

/// The conversation in the roles that models know, complete: without what they are told of prompt and tools, which a request
/// has elsewhere.
pub(crate) fn conversation(messages: &[Message]) -> Vec<Message> {
    let sent = for_models(messages).into_iter();
    sent.filter(|message| !matches!(message, Message::System(_))).collect()
}

/// The same with it.
pub(crate) fn for_models(messages: &[Message]) -> Vec<Message> {
    let user = |content: Content, timestamp| Message::User(UserMessage { content, timestamp });
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

/// What a verdict injected keeps the role it asked for; everything else of extensions is a user
/// message.
pub(crate) fn custom_message(custom: &CustomMessage) -> RequestMessage {
    if verdict_text::has_system_role(custom) {
        return RequestMessage::System(verdict_text::text(custom));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{AssistantMessage, ToolCall, ToolResultMessage, Usage, VERDICT_TYPE};
    use serde_json::json;

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

    fn entry(id: &str, body: Body) -> Entry {
        Entry { id: EntryId(id.into()), parent: None, timestamp: String::new(), body, extension: None }
    }

    #[test]
    fn a_compaction_hides_what_is_before_the_kept_entry() {
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
        assert_eq!(texts, ["", "kept", "new"]);
        let sent = request_messages(&messages(&entries.iter().collect::<Vec<_>>()));
        assert!(matches!(&sent[0], RequestMessage::User(said) if said.text().ends_with("<summary>\nS\n</summary>")));
    }

    #[test]
    fn an_edit_replaces_what_an_entry_says_or_takes_it_away() {
        let said = |text: &str| Body::Message { message: Message::user(text, 0) };
        let edit = |target: &str, replacement| Body::ContextEdit { target_id: EntryId(target.into()), replacement };
        let entries = [
            entry("1", said("secret")),
            entry("2", said("long")),
            entry("3", edit("1", Value::Null)),
            entry("4", edit("2", json!({"content": "short"}))),
        ];
        let seen = messages(&entries.iter().collect::<Vec<_>>());
        assert!(matches!(&seen[..], [Message::User(user)] if user.content.text() == "short"));
    }

    #[test]
    fn only_a_verdict_speaks_as_the_system() {
        let custom = |custom_type: &str, role: &str| {
            Message::Custom(CustomMessage {
                custom_type: custom_type.into(),
                content: "c".into(),
                display: Some(true),
                details: Some(json!({"role": role})),
                timestamp: 0,
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
