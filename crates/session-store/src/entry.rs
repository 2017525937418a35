//! Lines of a session file: the header and the entries of pi's format, version 3.

use pijs_llm::message::{AssistantMessage, Content, CustomMessage, Message, StopReason, also_null};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fmt;

/// The only version that is written; the real pi migrates older ones when it opens them.
pub const VERSION: u64 = 3;

/// The first line of a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// `session`.
    #[serde(rename = "type")]
    pub kind: String,
    /// 3.
    #[serde(default)]
    pub version: u64,
    /// UUID, version 7.
    pub id: String,
    /// ISO 8601.
    pub timestamp: String,
    /// Working directory of the session.
    #[serde(default)]
    pub cwd: String,
    /// File this one was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_session: Option<String>,
    /// Members this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Names an entry within its file: eight hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EntryId(pub String);

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One entry: a node of the session's tree.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Its name.
    pub id: EntryId,
    /// What it follows; `None` for a root.
    pub parent: Option<EntryId>,
    /// ISO 8601.
    pub timestamp: String,
    /// What it holds.
    pub body: Body,
    /// The extensions that wrote it or changed it, without a person who agreed. They are written down, and shown to nobody.
    pub authors: BTreeSet<String>,
    /// Whether the authors only changed it: a reply of the model, or what a tool or a command came to.
    pub is_edited: bool,
}

/// The member that says so: a name, or a list of several. pi leaves members alone that it does not know.
const BY_EXTENSION: &str = "byExtension";
/// The member that is `true` where those only changed it.
const IS_EDITED: &str = "isEdited";

/// An extension of which no more is known than that it was one.
pub const SOME_EXTENSION: &str = "an extension of an earlier run";

/// Stands in the place of an extension where PiJS did not write an entry. It holds no capability.
pub const ANOTHER_PROGRAM: &str = "another program";

/// What an entry holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Body {
    /// A message of the conversation.
    Message {
        /// The message.
        message: Message,
    },
    /// A message that an extension, or a verdict, put in; the model sees it.
    #[serde(rename_all = "camelCase")]
    CustomMessage {
        /// Whose; an extension need not say so.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        custom_type: String,
        /// What the model sees.
        content: Content,
        /// Whether people see it; unsaid, they do not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        display: Option<bool>,
        /// For extensions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        details: Option<Value>,
    },
    /// Data of an extension; the model does not see it.
    #[serde(rename_all = "camelCase")]
    Custom {
        /// Whose; an extension need not say so.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        custom_type: String,
        /// The data.
        #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "also_null")]
        data: Option<Value>,
    },
    /// Everything before `first_kept_entry_id` was summarised.
    #[serde(rename_all = "camelCase")]
    Compaction {
        /// The summary.
        summary: String,
        /// The first entry the model still sees.
        first_kept_entry_id: EntryId,
        /// Tokens of the context before.
        #[serde(default)]
        tokens_before: u64,
        /// Members this version does not use.
        #[serde(flatten)]
        extra: Map<String, Value>,
    },
    /// A branch that was left, summarised.
    #[serde(rename_all = "camelCase")]
    BranchSummary {
        /// Where it began.
        from_id: String,
        /// The summary.
        summary: String,
        /// Members this version does not use.
        #[serde(flatten)]
        extra: Map<String, Value>,
    },
    /// Another model from here on.
    #[serde(rename_all = "camelCase")]
    ModelChange {
        /// Provider name.
        provider: String,
        /// Model id.
        model_id: String,
    },
    /// Another thinking level from here on.
    #[serde(rename_all = "camelCase")]
    ThinkingLevelChange {
        /// `off`, `low`, ...
        thinking_level: String,
    },
    /// What the model sees of an earlier entry from here on.
    #[serde(rename_all = "camelCase")]
    ContextEdit {
        /// The entry.
        target_id: EntryId,
        /// `{content}` in its place, or `null`: nothing.
        replacement: Value,
    },
    /// A name for another entry.
    #[serde(rename_all = "camelCase")]
    Label {
        /// The entry.
        target_id: EntryId,
        /// Its name; absent takes it away.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        label: Option<String>,
    },
    /// A name for the session.
    SessionInfo {
        /// The name.
        #[serde(default)]
        name: Option<String>,
    },
    /// A type that PiJS does not know; kept as it is.
    #[serde(untagged)]
    Other(Map<String, Value>),
}

impl Body {
    /// Whether the model sees it, or sees something else because of it.
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

    /// A message that an extension, or a verdict, put in: pi has an entry of its own for it.
    pub fn of_custom(message: CustomMessage) -> Self {
        let CustomMessage { custom_type, content, display, details, timestamp: _, authors: _ } = message;
        Self::CustomMessage { custom_type, content, display, details }
    }
}

impl Entry {
    /// Marks the entry as written by another program. Ignores what the entry says about its own author.
    pub(super) fn of_another_program(mut self) -> Self {
        self.authors = BTreeSet::from([ANOTHER_PROGRAM.to_owned()]);
        self.is_edited = false;
        self
    }

    /// Whether it is a whole reply that the model gave, whatever extensions changed in it.
    pub(super) fn is_reply(&self) -> bool {
        let is_whole = |reply: &AssistantMessage| !matches!(reply.stop_reason, StopReason::Error | StopReason::Aborted);
        let replied = matches!(&self.body, Body::Message { message: Message::Assistant(reply) } if is_whole(reply));
        replied && (self.authors.is_empty() || self.is_edited)
    }

    /// Whether another program wrote it.
    pub fn is_foreign(&self) -> bool {
        self.authors.contains(ANOTHER_PROGRAM)
    }

    /// The entry as it is shown, members in pi's order: without what pi does not know.
    pub fn to_value(&self) -> Value {
        self.members().into()
    }

    /// The same as it stands in a file.
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

    /// Reads an entry; `None` for a line that is none.
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
