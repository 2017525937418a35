//! Streamed deltas and the verdict on them: `stream_text`.

use crate::ids::{EntryIndex, Handle};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where a delta comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StreamSource {
    /// Assistant prose; the only source a handler hears without asking for others.
    #[default]
    Text,
    /// Model reasoning.
    Thinking,
    /// Arguments of a tool call, as pieces of JSON text.
    Tool,
}

impl StreamSource {
    /// The name as it is written on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Thinking => "thinking",
            Self::Tool => "tool",
        }
    }
}

/// One delta on its way to the handlers of one realm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StreamDelta {
    /// Attempt counter of the session; a new attempt starts with empty accumulated text.
    pub attempt: u32,
    /// Where the delta comes from.
    pub source: StreamSource,
    /// Distinguishes parallel streams of one source in an attempt (tool calls, text blocks
    /// share 0): accumulated text is kept per `(source, stream)`.
    pub stream: u32,
    /// The new text. Surrogate halves are joined before delivery.
    pub chunk: String,
    /// Set when `source` is `tool`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// Paths named so far by the tool's arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub file_paths: Vec<String>,
}

/// A handler's answer that is not *continue*.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StreamVerdict {
    /// Entry of the package whose handler answered.
    pub entry: EntryIndex,
    /// The handler.
    pub handler: Handle,
    /// Injected before the retry; absent means that the run ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Injection>,
}

/// What a verdict puts into the conversation before the retry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Injection {
    /// The text.
    pub content: String,
    /// `system` unless the handler says otherwise.
    #[serde(default)]
    pub role: InjectionRole,
}

/// Role an injection asks for. A provider without mid-conversation system messages gets a
/// marked user message instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InjectionRole {
    /// A system message.
    #[default]
    System,
    /// A user message.
    User,
}
