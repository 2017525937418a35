//! Streamed deltas and the verdict on them: `stream_text`.

use crate::ids::{EntryIndex, Handle};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The source of a delta.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StreamSource {
    /// Assistant prose; the default source of a handler.
    #[default]
    Text,
    /// Model reasoning.
    Thinking,
    /// Arguments of a tool call, as pieces of JSON text.
    Tool,
}

impl StreamSource {
    /// Returns the name as it is written on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Thinking => "thinking",
            Self::Tool => "tool",
        }
    }
}

/// One delta for the handlers of one realm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StreamDelta {
    /// Attempt counter of the session; a new attempt starts with empty accumulated text.
    pub attempt: u32,
    /// Source of the delta.
    pub source: StreamSource,
    /// Distinguishes parallel streams of one source in an attempt (tool calls; all text blocks have 0). Accumulated text is kept
    /// per `(source, stream)`.
    pub stream: u32,
    /// The new text. Surrogate halves are joined before delivery.
    pub chunk: String,
    /// Name of the tool; set if `source` is `tool`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// Paths named so far by the tool's arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub file_paths: Vec<String>,
}

/// An answer of a handler other than *continue*.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StreamVerdict {
    /// Entry of the package whose handler answered.
    pub entry: EntryIndex,
    /// Handle of the handler.
    pub handler: Handle,
    /// Content to inject before the retry; absent means that the run ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Injection>,
}

/// The content that a verdict adds to the conversation before the retry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Injection {
    /// The text.
    pub content: String,
    /// Role of the message; `system` by default.
    #[serde(default)]
    pub role: InjectionRole,
}

/// Requested role of an injection. A provider without system messages in mid-conversation gets a marked user message instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InjectionRole {
    /// A system message.
    #[default]
    System,
    /// A user message.
    User,
}
