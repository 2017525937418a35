//! Messages of a conversation in pi's format, as used in events and session files.
//!
//! [`Message`] has a variant for each of pi's roles; a provider's stream is assembled into an [`AssistantMessage`]. Unknown
//! members are preserved (`extra`, [`Message::Other`]), so that a file of the real pi survives a round trip.

use crate::provider::Model;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Custom type of a verdict's injected message. Reserved, because the role of such a message may be `system`.
pub const VERDICT_TYPE: &str = "stream_verdict";

/// A message of the conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "camelCase")]
pub enum Message {
    /// A message of the user.
    User(UserMessage),
    /// A reply of the model.
    Assistant(AssistantMessage),
    /// The result of a tool.
    ToolResult(ToolResultMessage),
    /// A message of an extension; the model sees it as a user message.
    Custom(CustomMessage),
    /// A shell command run by the user.
    BashExecution(BashExecution),
    /// A change of the system prompt or of the tools.
    System(SystemMessage),
    /// An unknown role; kept in files, never sent to a model.
    #[serde(untagged)]
    Other(Value),
}

impl Message {
    /// Returns the extensions that wrote or changed the message, for messages that record them.
    pub fn authors_mut(&mut self) -> Option<&mut BTreeSet<String>> {
        match self {
            Self::User(UserMessage { authors, .. }) | Self::Custom(CustomMessage { authors, .. }) => Some(authors),
            _ => None,
        }
    }

    /// Returns the role in pi's format.
    pub fn role(&self) -> &str {
        match self {
            Self::User(_) => "user",
            Self::Assistant(_) => "assistant",
            Self::ToolResult(_) => "toolResult",
            Self::Custom(_) => "custom",
            Self::BashExecution(_) => "bashExecution",
            Self::System(_) => "system",
            Self::Other(value) => value.get("role").and_then(Value::as_str).unwrap_or(""),
        }
    }

    /// Returns the message as JSON.
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).expect("a message has only string keys")
    }

    /// Creates a message of the user.
    pub fn user(text: impl Into<String>, timestamp: u64) -> Self {
        Self::User(UserMessage { content: vec![Block::text(text)].into(), timestamp, authors: BTreeSet::new() })
    }
}

/// A message with `role: user`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UserMessage {
    /// Text and images.
    pub content: Content,
    /// Milliseconds since 1970.
    #[serde(default)]
    pub timestamp: u64,
    /// Extensions that wrote or changed the message; empty for the user's own. Not serialised: the session stores it with the
    /// entry.
    #[serde(skip)]
    pub authors: BTreeSet<String>,
}

/// Deserialises a present member as `Some`, `null` included, so that only an absent member is `None`.
pub fn also_null<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(value).map(Some)
}

/// A message with `role: toolResult`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResultMessage {
    /// Id of the tool call.
    pub tool_call_id: String,
    /// Name of the tool.
    pub tool_name: String,
    /// Text and images for the model.
    pub content: Content,
    /// Details for users and extensions.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "also_null")]
    pub details: Option<Value>,
    /// Usage of models that the tool itself called: `Usage` or a superset, as the tool reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Value>,
    /// Whether the tool failed.
    #[serde(default)]
    pub is_error: bool,
    /// Milliseconds since 1970.
    #[serde(default)]
    pub timestamp: u64,
}

/// A message with `role: custom`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CustomMessage {
    /// Type chosen by the extension; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub custom_type: String,
    /// Text and images for the model.
    pub content: Content,
    /// Whether the message is shown to users; absent means hidden.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display: Option<bool>,
    /// Data for extensions.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "also_null")]
    pub details: Option<Value>,
    /// Milliseconds since 1970.
    #[serde(default)]
    pub timestamp: u64,
    /// Extensions that wrote or changed the message; empty for the user's own. Not serialised: the session stores it with the
    /// entry.
    #[serde(skip)]
    pub authors: BTreeSet<String>,
}

/// A message with `role: bashExecution`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BashExecution {
    /// The command line.
    pub command: String,
    /// Output of the command.
    #[serde(default)]
    pub output: String,
    /// Exit code; `None` when the command was killed.
    #[serde(default)]
    pub exit_code: Option<i64>,
    /// Whether the user cancelled the command.
    #[serde(default)]
    pub cancelled: bool,
    /// Whether `output` was truncated.
    #[serde(default)]
    pub truncated: bool,
    /// Path of the complete output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_output_path: Option<String>,
    /// Milliseconds since 1970.
    #[serde(default)]
    pub timestamp: u64,
    /// Whether the message is hidden from the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclude_from_context: Option<bool>,
}

/// A message with `role: system`: a change of the prompt and of the tools. `transcript.rs` combines all of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SystemMessage {
    /// Text before the sections.
    pub content: Content,
    /// Sections of the prompt by name; `null` removes one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sections: Option<Map<String, Value>>,
    /// Milliseconds since 1970.
    #[serde(default)]
    pub timestamp: u64,
    /// Added tools: `{name, description, parameters}`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools_added: Vec<Value>,
    /// Removed tools: `{name}`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools_removed: Vec<Value>,
    /// Members unknown to this version.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A message with `role: assistant`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AssistantMessage {
    /// Content blocks in the order in which the model produced them.
    pub content: Vec<Block>,
    /// Wire format of the provider in pi's vocabulary.
    pub api: String,
    /// Provider name.
    pub provider: String,
    /// Model id.
    pub model: String,
    /// Tokens and cost.
    #[serde(default)]
    pub usage: Usage,
    /// Reason for the end of the reply.
    pub stop_reason: StopReason,
    /// Milliseconds since 1970.
    #[serde(default)]
    pub timestamp: u64,
    /// Members set by the provider (`responseId`, `rawStopReason`), and members unknown to this version.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
    /// Error message of a failed reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
}

impl AssistantMessage {
    /// Returns whether this model produced the message.
    pub fn is_of(&self, model: &Model) -> bool {
        self.provider == model.provider && self.model == model.id
    }

    /// Returns the concatenated text blocks.
    pub fn text(&self) -> String {
        self.content.iter().filter_map(Block::as_text).collect()
    }

    /// Returns the tool calls in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.content.iter().filter_map(|block| match block {
            Block::ToolCall(call) => Some(call),
            _ => None,
        })
    }
}

/// Content as plain text or blocks; pi writes both forms.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// Plain text.
    Text(String),
    /// Content blocks.
    Blocks(Vec<Block>),
}

impl Default for Content {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

impl Content {
    /// Returns the text blocks joined by line breaks, as pi does.
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Blocks(blocks) => blocks.iter().filter_map(Block::as_text).collect::<Vec<_>>().join("\n"),
        }
    }

    /// Returns the content as blocks.
    pub fn blocks(&self) -> Vec<Block> {
        match self {
            Self::Text(text) => vec![Block::text(text.clone())],
            Self::Blocks(blocks) => blocks.clone(),
        }
    }

    /// Normalises content to the form of typed input: one text block, then all other blocks.
    #[must_use]
    pub fn as_typed(self) -> Self {
        let text = self.text();
        match self {
            Self::Text(_) => self,
            Self::Blocks(blocks) => {
                let others = blocks.into_iter().filter(|block| block.as_text().is_none());
                Self::Blocks(std::iter::once(Block::text(text)).chain(others).collect())
            }
        }
    }
}

impl From<Vec<Block>> for Content {
    fn from(blocks: Vec<Block>) -> Self {
        Self::Blocks(blocks)
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// A block of content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum Block {
    /// Text of the reply.
    Text(TextBlock),
    /// Reasoning of the model.
    Thinking(ThinkingBlock),
    /// An image.
    #[serde(rename_all = "camelCase")]
    Image {
        /// Base64-encoded data.
        data: String,
        /// Media type such as `image/png`.
        mime_type: String,
    },
    /// A request to run a tool.
    ToolCall(ToolCall),
    /// An unknown block type.
    #[serde(untagged)]
    Other(Value),
}

impl Block {
    /// Creates a text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextBlock { text: text.into(), extra: Map::new() })
    }

    /// Returns the text of a text block.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(block) => Some(&block.text),
            _ => None,
        }
    }
}

/// A block with `type: text`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TextBlock {
    /// The text.
    pub text: String,
    /// Members unknown to this version.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A block with `type: thinking`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ThinkingBlock {
    /// The reasoning.
    pub thinking: String,
    /// Signature that the provider requires with the block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking_signature: Option<String>,
    /// Members unknown to this version.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A block with `type: toolCall`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Id chosen by the model.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// Arguments from the model, before validation.
    pub arguments: Value,
    /// Members unknown to this version.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Reasons for the end of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StopReason {
    /// The reply is incomplete.
    Pending,
    /// The model finished.
    Stop,
    /// The token limit was reached.
    Length,
    /// The model requests tool calls.
    ToolUse,
    /// The provider failed.
    Error,
    /// The run was aborted.
    Aborted,
}

/// Token counts in pi's format.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// Input tokens that were not cached.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Input tokens read from the provider's cache.
    pub cache_read: u64,
    /// Input tokens written to the provider's cache.
    pub cache_write: u64,
    /// Reasoning tokens, included in `output`; `None` when the provider does not report them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
    /// Total as reported by the provider.
    pub total_tokens: u64,
    /// Cost in dollars by the model's prices; zero for unknown prices.
    pub cost: Cost,
    /// Part of `cache_write` that is cached for one hour, at a higher price; `None` when the provider does not report it.
    #[serde(rename = "cacheWrite1h", skip_serializing_if = "Option::is_none")]
    pub cache_write_1h: Option<u64>,
}

impl Usage {
    /// Returns all input tokens, cached ones included. Saturates, since the counts come from providers and files.
    pub fn all_read(&self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_write)
    }

    /// Returns the sum of all counts. In contrast, `total_tokens` is the figure that the provider reports.
    pub fn all(&self) -> u64 {
        self.all_read().saturating_add(self.output)
    }
}

/// Adds optional counts; `None` if both are `None`.
fn together(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.saturating_add(other)),
        (one, other) => one.or(other),
    }
}

impl std::ops::Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
            reasoning: together(self.reasoning, other.reasoning),
            cache_write_1h: together(self.cache_write_1h, other.cache_write_1h),
            total_tokens: self.total_tokens.saturating_add(other.total_tokens),
            cost: self.cost + other.cost,
        }
    }
}

/// Cost in dollars.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "the names of Usage again")]
pub struct Cost {
    pub input: f64,
    pub output: f64,
    pub cache_read: f64,
    pub cache_write: f64,
    pub total: f64,
}

impl std::ops::Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            input: self.input + other.input,
            output: self.output + other.output,
            cache_read: self.cache_read + other.cache_read,
            cache_write: self.cache_write + other.cache_write,
            total: self.total + other.total,
        }
    }
}

/// Returns the size of values as JSON text in bytes.
pub fn bytes_of<'a>(values: impl IntoIterator<Item = &'a Value>) -> usize {
    values.into_iter().map(|value| value.to_string().len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unknown_members_and_roles_survive_a_round_trip() {
        for value in [
            json!({"role": "assistant", "content": [{"type": "text", "text": "a", "textSignature": "s"}], "api": "x",
                   "provider": "p", "model": "m", "usage": Usage::default(), "stopReason": "toolUse", "timestamp": 1, "responseId": "r"}),
            json!({"role": "newRole", "content": "x"}),
            json!({"role": "user", "content": "plain", "timestamp": 3}),
            json!({"role": "system", "content": "", "sections": {"cwd": "/w", "gone": null}, "timestamp": 3, "toolsRemoved": [{"name": "ls"}]}),
            json!({"role": "toolResult", "toolCallId": "1", "toolName": "ls", "content": [{"type": "image", "data": "AA==", "mimeType": "image/png"}],
                   "details": {"a": 1}, "isError": false, "timestamp": 1}),
        ] {
            let message: Message = serde_json::from_value(value.clone()).unwrap();
            assert_eq!(message.to_value(), value);
        }
    }
}
