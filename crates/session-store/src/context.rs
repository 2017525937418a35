//! Projects session entries to the messages of a model request.
//!
//! The session is the only source: anything that is not an entry on the branch of the leaf, such as a discarded attempt, cannot
//! become part of a request.

use crate::entry::{Body, Entry, EntryId};
use pijs_llm::message::{CustomMessage, Message, SystemMessage};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// An entry with the messages that it contributes to a request.
pub struct Projected<'a> {
    /// The entry.
    pub entry: &'a Entry,
    /// Messages for the model.
    pub messages: Vec<Message>,
}

/// Returns the conversation along a branch, as passed to `context` handlers.
pub fn messages(branch: &[&Entry]) -> Vec<Message> {
    projection(branch).into_iter().flat_map(|projected| projected.messages).collect()
}

/// Returns the entries that are visible to the model: the latest compaction, then the entries that it kept. System messages that
/// it kept are part of the compaction entry.
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

/// Returns the system messages that are visible to the model, in order.
pub fn system_messages(branch: &[&Entry]) -> Vec<SystemMessage> {
    let system = |entry: &&Entry| match &entry.body {
        Body::Message { message: Message::System(system) } => Some(system.clone()),
        Body::Compaction { extra, .. } => compaction_system_message(extra),
        _ => None,
    };
    visible(branch).iter().filter_map(system).collect()
}

/// Returns the system message, with prompt and tools, that a compaction kept.
fn compaction_system_message(extra: &Map<String, Value>) -> Option<SystemMessage> {
    extra.get("systemMessage").and_then(|value| serde_json::from_value(value.clone()).ok())
}

/// Projects the entries visible to the model, with context edits applied.
pub fn projection<'a>(branch: &[&'a Entry]) -> Vec<Projected<'a>> {
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
            // A kept range may contain an older compaction, which the latest one supersedes.
            let stale = at > 0 && matches!(entry.body, Body::Compaction { .. });
            let message = if stale { None } else { message_of(entry) };
            let edited = match edits.get(&entry.id) {
                None => message,
                Some(Value::Null) => None,
                Some(replacement) => message.map(|message| edited(message, replacement)),
            };
            let told = match &entry.body {
                Body::Compaction { extra, .. } if !stale => compaction_system_message(extra).map(Message::System),
                _ => None,
            };
            Projected { entry, messages: told.into_iter().chain(edited).collect() }
        })
        .collect()
}

/// Replaces the content of a message.
fn edited(message: Message, replacement: &Value) -> Message {
    if matches!(message, Message::System(_)) {
        return message;
    }
    let Some(content) = replacement.get("content") else { return message };
    let mut value = message.to_value();
    value["content"] = content.clone();
    serde_json::from_value(value).unwrap_or(message)
}

/// Returns the message that an entry contributes, without context edits.
pub fn message_of(entry: &Entry) -> Option<Message> {
    let timestamp = millis(&entry.timestamp);
    match &entry.body {
        Body::Message { message } => Some(message.clone()),
        Body::CustomMessage { custom_type, content, display, details } => Some(Message::Custom(CustomMessage {
            custom_type: custom_type.clone(),
            content: content.clone(),
            display: *display,
            details: details.clone(),
            timestamp,
            authors: BTreeSet::new(),
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

/// Parses an ISO 8601 time to milliseconds since 1970; 0 for an invalid time.
fn millis(iso: &str) -> u64 {
    let time = OffsetDateTime::parse(iso, &Rfc3339).ok();
    time.and_then(|time| u64::try_from(time.unix_timestamp_nanos() / 1_000_000).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pijs_llm::conversation::request_messages;
    use pijs_llm::provider::RequestMessage;
    use serde_json::json;

    fn entry(id: &str, body: Body) -> Entry {
        let (id, authors) = (EntryId(id.into()), Default::default());
        Entry { id, parent: None, timestamp: String::new(), body, authors, is_edited: false }
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
    fn a_context_edit_replaces_or_removes_an_entry() {
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
}
