//! Lines of a session file: the header and the entries of pi's format, version 3.

use pijs_llm::message::{AssistantMessage, Content, CustomMessage, Message, StopReason, also_null};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fmt;

/// The only version that is written. The real pi migrates older ones on opening.
pub const VERSION: u64 = 3;

/// The first line of a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// Always `session`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Always 3.
    #[serde(default)]
    pub version: u64,
    /// UUID, version 7.
    pub id: String,
    /// Creation time in ISO 8601.
    pub timestamp: String,
    /// Working directory of the session.
    #[serde(default)]
    pub cwd: String,
    /// File that this session was forked from; `None` if it was not forked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_session: Option<String>,
    /// Members unknown to this version.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Member of the header of a session whose program an extension started.
pub(super) const OF_AGENT: &str = "ofAgent";

impl Header {
    /// Returns whether an extension started the program that created the session.
    pub fn is_of_agent(&self) -> bool {
        self.extra.get(OF_AGENT) == Some(&Value::Bool(true))
    }
}

/// Id of an entry, unique within its file: eight hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EntryId(pub String);

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An entry: a node of the session's tree.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Id of the entry.
    pub id: EntryId,
    /// Id of the entry that this one follows; `None` for a root.
    pub parent: Option<EntryId>,
    /// Creation time in ISO 8601.
    pub timestamp: String,
    /// Content of the entry.
    pub body: Body,
    /// Extensions that wrote or changed the entry without consent of the user. Stored in the file, and not shown to the model or
    /// to extensions.
    pub authors: BTreeSet<String>,
    /// Whether the authors only changed the entry: a reply of the model, or the result of a tool or command.
    pub is_edited: bool,
}

/// Member with the authors: a name, or a list of several. pi keeps members that it does not know.
const BY_EXTENSION: &str = "byExtension";
/// Member that is `true` when the authors only changed the entry.
const IS_EDITED: &str = "isEdited";

/// Name used as the author when the extension's name is not recorded.
pub const SOME_EXTENSION: &str = "an extension of an earlier run";

/// Name used as the author of an entry that PiJS did not write. It has no capability.
pub const ANOTHER_PROGRAM: &str = "another program";

/// Contents of an entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Body {
    /// A message of the conversation.
    Message {
        /// The message.
        message: Message,
    },
    /// A message that an extension or a verdict added, which the model sees.
    #[serde(rename_all = "camelCase")]
    CustomMessage {
        /// Type chosen by the extension; may be empty.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        custom_type: String,
        /// Content for the model.
        content: Content,
        /// Whether the message is shown to the user; absent means hidden.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        display: Option<bool>,
        /// Data for extensions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        details: Option<Value>,
    },
    /// Data of an extension, hidden from the model.
    #[serde(rename_all = "camelCase")]
    Custom {
        /// Type chosen by the extension; may be empty.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        custom_type: String,
        /// The data.
        #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "also_null")]
        data: Option<Value>,
    },
    /// A summary of everything before `first_kept_entry_id`.
    #[serde(rename_all = "camelCase")]
    Compaction {
        /// The summary.
        summary: String,
        /// Id of the first entry that the model still sees.
        first_kept_entry_id: EntryId,
        /// Number of tokens of the context before the compaction.
        #[serde(default)]
        tokens_before: u64,
        /// Members that this version does not use.
        #[serde(flatten)]
        extra: Map<String, Value>,
    },
    /// A summary of an abandoned branch.
    #[serde(rename_all = "camelCase")]
    BranchSummary {
        /// Id of the entry at which the branch began.
        from_id: String,
        /// The summary.
        summary: String,
        /// Members that this version does not use.
        #[serde(flatten)]
        extra: Map<String, Value>,
    },
    /// A change of the model.
    #[serde(rename_all = "camelCase")]
    ModelChange {
        /// Provider name.
        provider: String,
        /// Model id.
        model_id: String,
    },
    /// A change of the thinking level.
    #[serde(rename_all = "camelCase")]
    ThinkingLevelChange {
        /// `off`, `low`, ...
        thinking_level: String,
    },
    /// A replacement of an earlier entry in the context.
    #[serde(rename_all = "camelCase")]
    ContextEdit {
        /// Id of the replaced entry.
        target_id: EntryId,
        /// `{content}`, or `null` to remove the entry from the context.
        replacement: Value,
    },
    /// A label for another entry.
    #[serde(rename_all = "camelCase")]
    Label {
        /// Id of the labelled entry.
        target_id: EntryId,
        /// The label; `None` removes it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        label: Option<String>,
    },
    /// The name of the session.
    SessionInfo {
        /// The name; `None` removes it.
        #[serde(default)]
        name: Option<String>,
    },
    /// An entry of an unknown type, kept unchanged.
    #[serde(untagged)]
    Other(Map<String, Value>),
}

impl Body {
    /// Returns whether the entry affects the context of the model.
    pub fn is_heard(&self) -> bool {
        match self {
            Self::Message { .. }
            | Self::CustomMessage { .. }
            | Self::Compaction { .. }
            | Self::BranchSummary { .. }
            | Self::ContextEdit { .. }
            | Self::Other(_) => true,
            Self::Custom { .. }
            | Self::ModelChange { .. }
            | Self::ThinkingLevelChange { .. }
            | Self::Label { .. }
            | Self::SessionInfo { .. } => false,
        }
    }

    /// Returns the body of a custom message, for which pi has a separate entry type.
    pub fn of_custom(message: CustomMessage) -> Self {
        let CustomMessage { custom_type, content, display, details, timestamp: _, authors: _ } = message;
        Self::CustomMessage { custom_type, content, display, details }
    }
}

impl Entry {
    /// Marks the entry as written by another program, and removes the authors that it claims.
    pub(super) fn of_another_program(mut self) -> Self {
        self.authors = BTreeSet::from([ANOTHER_PROGRAM.to_owned()]);
        self.is_edited = false;
        self
    }

    /// Returns whether this is a complete reply of the model, even one that extensions changed.
    pub(super) fn is_reply(&self) -> bool {
        let is_whole = |reply: &AssistantMessage| !matches!(reply.stop_reason, StopReason::Error | StopReason::Aborted);
        let replied = matches!(&self.body, Body::Message { message: Message::Assistant(reply) } if is_whole(reply));
        replied && (self.authors.is_empty() || self.is_edited)
    }

    /// Returns whether another program wrote the entry.
    pub fn is_foreign(&self) -> bool {
        self.authors.contains(ANOTHER_PROGRAM)
    }

    /// Returns the entry for display, with members in pi's order and without members that pi does not know.
    pub fn to_value(&self) -> Value {
        self.members().into()
    }

    /// Returns the entry as stored in the file.
    pub fn written(&self) -> Value {
        let mut members = self.members();
        let mut authors: Vec<Value> = self.authors.iter().map(|author| author.as_str().into()).collect();
        let author = if authors.len() > 1 { Some(authors.into()) } else { authors.pop() };
        members.extend(author.map(|author| (BY_EXTENSION.to_owned(), author)));
        members.extend(self.is_edited.then(|| (IS_EDITED.to_owned(), true.into())));
        members.into()
    }

    fn members(&self) -> Map<String, Value> {
        let Value::Object(body) = serde_json::to_value(&self.body).expect("an entry has only string keys") else {
            unreachable!("every body is an object");
        };
        let mut out = Map::new();
        let mut rest = body.into_iter();
        out.extend(rest.by_ref().take(1));
        out.insert("id".to_owned(), self.id.0.clone().into());
        out.insert("parentId".to_owned(), self.parent.as_ref().map_or(Value::Null, |parent| parent.0.clone().into()));
        out.insert("timestamp".to_owned(), self.timestamp.clone().into());
        out.extend(rest);
        out
    }

    /// Parses an entry; `None` for an invalid one.
    pub fn from_value(value: Value) -> Option<Self> {
        let Value::Object(mut members) = value else { return None };
        members.get("type")?.as_str()?;
        let id = EntryId(members.remove("id")?.as_str()?.to_owned());
        let parent = match members.remove("parentId") {
            None | Some(Value::Null) => None,
            Some(parent) => Some(EntryId(parent.as_str()?.to_owned())),
        };
        let timestamp = members.remove("timestamp")?.as_str()?.to_owned();
        let named = |said: &Value| said.as_str().map_or_else(|| SOME_EXTENSION.to_owned(), str::to_owned);
        let authors = match members.shift_remove(BY_EXTENSION) {
            None => BTreeSet::new(),
            Some(Value::Array(several)) if !several.is_empty() => several.iter().map(named).collect(),
            Some(one) => BTreeSet::from([named(&one)]),
        };
        let is_edited = !authors.is_empty() && members.shift_remove(IS_EDITED) == Some(Value::Bool(true));
        let body = serde_json::from_value(Value::Object(members)).ok()?;
        Some(Self { id, parent, timestamp, body, authors, is_edited })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_entry_type_of_pi_survives_a_round_trip_byte_for_byte() {
        for rest in [
            json!({"message": {"role": "user", "content": "hi", "timestamp": 1}}),
            json!({"customType": "x", "content": "c", "display": true, "details": {"a": 1}}),
            json!({"customType": "x", "data": [1]}),
            json!({"summary": "s", "firstKeptEntryId": "aaaaaaaa", "tokensBefore": 3, "fromHook": true}),
            json!({"fromId": "root", "summary": "s", "details": {}}),
            json!({"targetId": "aaaaaaaa", "replacement": null}),
            json!({"provider": "p", "modelId": "m"}),
            json!({"thinkingLevel": "off"}),
            json!({"targetId": "aaaaaaaa", "label": "l"}),
            json!({"name": "n"}),
            json!({"anything": {"new": true}}),
        ]
        .into_iter()
        .zip([
            "message",
            "custom_message",
            "custom",
            "compaction",
            "branch_summary",
            "context_edit",
            "model_change",
            "thinking_level_change",
            "label",
            "session_info",
            "invented_later",
        ]) {
            let (rest, kind) = rest;
            let mut line =
                json!({"type": kind, "id": "01234567", "parentId": null, "timestamp": "2026-01-02T03:04:05.000Z"});
            line.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
            let entry = Entry::from_value(line.clone()).unwrap();
            assert_eq!(entry.to_value().to_string(), line.to_string());
            assert_eq!(matches!(entry.body, Body::Other(_)), kind == "invented_later", "{kind}");
        }
    }
}
