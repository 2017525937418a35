//! Messages of a conversation, as pi writes them to events and session files.
//!
//! [`Message`] is one of pi's roles; [`AssistantMessage`] is what a provider's stream is
//! assembled into. Members that this version of PiJS does not know are kept (`extra`,
//! [`Message::Other`]), so that a file of the real pi survives a round trip.

use crate::provider::Model;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Custom type of what a verdict injects. Reserved: its role may be `system`.
pub const VERDICT_TYPE: &str = "stream_verdict";

/// One message of the conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "camelCase")]
pub enum Message {
    /// What the person said.
    User(UserMessage),
    /// What the model said.
    Assistant(AssistantMessage),
    /// What a tool answered.
    ToolResult(ToolResultMessage),
    /// What an extension put in; the model sees it as a user message.
    Custom(CustomMessage),
    /// A shell command the person ran.
    BashExecution(BashExecution),
    /// What the model is told of its prompt and its tools from here on.
    System(SystemMessage),
    /// A role that PiJS does not know; kept in files, never sent to a model.
    #[serde(untagged)]
    Other(Value),
}

impl Message {
    /// The extensions that wrote it or changed it, of a message that notes them.
    pub fn authors_mut(&mut self) -> Option<&mut BTreeSet<String>> {
        match self {
            Self::User(UserMessage { authors, .. }) | Self::Custom(CustomMessage { authors, .. }) => Some(authors),
            _ => None,
        }
    }

    /// The role as it is written.
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

    /// The message as JSON.
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).expect("a message has only string keys")
    }

    /// A message of the person, at a time.
    pub fn user(text: impl Into<String>, timestamp: u64) -> Self {
        Self::User(UserMessage { content: vec![Block::text(text)].into(), timestamp, authors: BTreeSet::new() })
    }
}

/// `role: user`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UserMessage {
    /// Text and images.
    pub content: Content,
    /// Milliseconds since 1970.
    #[serde(default)]
    pub timestamp: u64,
    /// Extensions that wrote it or changed it; none where the user did. No part of the message: a session notes it of
    /// the entry.
    #[serde(skip)]
    pub authors: BTreeSet<String>,
}

/// A member that is there, `null` included: only one that lacks is none.
pub fn also_null<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(value).map(Some)
}

/// `role: toolResult`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResultMessage {
    /// The call it answers.
    pub tool_call_id: String,
    /// Name of the tool.
    pub tool_name: String,
    /// Text and images for the model.
    pub content: Content,
    /// For people and extensions.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "also_null")]
    pub details: Option<Value>,
    /// What the tool itself used of models, as it says: `Usage` or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Value>,
    /// Whether the tool failed.
    #[serde(default)]
    pub is_error: bool,
    /// Milliseconds since 1970.
    #[serde(default)]
    pub timestamp: u64,
}

/// `role: custom`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CustomMessage {
    /// Which extension's, by its own naming; it need not say so.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub custom_type: String,
    /// Text and images for the model.
    pub content: Content,
    /// Whether people see it; unsaid, they do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display: Option<bool>,
    /// For extensions.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "also_null")]
    pub details: Option<Value>,
    /// Milliseconds since 1970.
    #[serde(default)]
    pub timestamp: u64,
    /// Extensions that wrote it or changed it; none where the user did. No part of the message: a session notes it of
    /// the entry.
    #[serde(skip)]
    pub authors: BTreeSet<String>,
}

/// `role: bashExecution`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BashExecution {
    /// The command line.
    pub command: String,
    /// What it printed.
    #[serde(default)]
    pub output: String,
    /// How it ended.
    #[serde(default)]
    pub exit_code: Option<i64>,
    /// Whether the person stopped it.
    #[serde(default)]
    pub cancelled: bool,
    /// Whether `output` was cut.
    #[serde(default)]
    pub truncated: bool,
    /// Where all of the output is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_output_path: Option<String>,
    /// Milliseconds since 1970.
    #[serde(default)]
    pub timestamp: u64,
    /// Kept from the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclude_from_context: Option<bool>,
}

/// `role: system`: changes of the prompt and of the tools. What holds is all of them together (`transcript.rs`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SystemMessage {
    /// What stands before the sections.
    pub content: Content,
    /// Sections of the prompt by name; `null` takes one away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sections: Option<Map<String, Value>>,
    /// Milliseconds since 1970.
    #[serde(default)]
    pub timestamp: u64,
    /// `{name, description, parameters}` of tools that came.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools_added: Vec<Value>,
    /// `{name}` of tools that went.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools_removed: Vec<Value>,
    /// Members this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// `role: assistant`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AssistantMessage {
    /// In the order the model produced them.
    pub content: Vec<Block>,
    /// Wire format of the provider, pi's name.
    pub api: String,
    /// Provider name.
    pub provider: String,
    /// Model id.
    pub model: String,
    /// What it cost.
    #[serde(default)]
    pub usage: Usage,
    /// Why it ended.
    pub stop_reason: StopReason,
    /// Milliseconds since 1970.
    #[serde(default)]
    pub timestamp: u64,
    /// What the provider said of it (`responseId`, `rawStopReason`), and members this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
}

impl AssistantMessage {
    /// Whether this model made it.
    pub fn is_of(&self, model: &Model) -> bool {
        self.provider == model.provider && self.model == model.id
    }

    /// The text blocks, joined.
    pub fn text(&self) -> String {
        self.content.iter().filter_map(Block::as_text).collect()
    }

    /// The tool calls in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.content.iter().filter_map(|block| match block {
            Block::ToolCall(call) => Some(call),
            _ => None,
        })
    }
}

/// Content that may be plain text or blocks; pi writes both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// Plain text.
    Text(String),
    /// Blocks.
    Blocks(Vec<Block>),
}

impl Default for Content {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

impl Content {
    /// The text parts joined by line breaks, as pi joins them.
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Blocks(blocks) => blocks.iter().filter_map(Block::as_text).collect::<Vec<_>>().join("\n"),
        }
    }

    /// The content as blocks.
    pub fn blocks(&self) -> Vec<Block> {
        match self {
            Self::Text(text) => vec![Block::text(text.clone())],
            Self::Blocks(blocks) => blocks.clone(),
        }
    }

    /// As a person types it: one text, then what else there is.
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

/// A piece of content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum Block {
    /// Prose.
    Text(TextBlock),
    /// Model reasoning.
    Thinking(ThinkingBlock),
    /// A picture, base64.
    #[serde(rename_all = "camelCase")]
    Image {
        /// Base64.
        data: String,
        /// `image/png`.
        mime_type: String,
    },
    /// A request to run a tool.
    ToolCall(ToolCall),
    /// Something newer.
    #[serde(untagged)]
    Other(Value),
}

impl Block {
    /// Prose.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextBlock { text: text.into(), extra: Map::new() })
    }

    /// The text of a text block.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(block) => Some(&block.text),
            _ => None,
        }
    }
}

/// `type: text`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TextBlock {
    /// The prose.
    pub text: String,
    /// Members this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// `type: thinking`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ThinkingBlock {
    /// The reasoning.
    pub thinking: String,
    /// What the provider wants back with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking_signature: Option<String>,
    /// Members this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// `type: toolCall`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// From the model.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// As the model gave them, before validation.
    pub arguments: Value,
    /// Members this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Why an assistant message ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StopReason {
    /// It has not: the message is still being written.
    Pending,
    /// The model was done.
    Stop,
    /// The token limit was reached.
    Length,
    /// The model waits for tools.
    ToolUse,
    /// The provider failed.
    Error,
    /// The run was aborted.
    Aborted,
}

/// Tokens, as pi counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// Read by the model, without cached ones.
    pub input: u64,
    /// Written by the model.
    pub output: u64,
    /// Read from the provider's cache.
    pub cache_read: u64,
    /// Written to the provider's cache.
    pub cache_write: u64,
    /// Written while thinking, of `output`; `None` where the provider does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
    /// All together.
    pub total_tokens: u64,
    /// In dollars, by the prices of the model; zeros where none are known.
    pub cost: Cost,
    /// Of `cache_write`, what is kept for an hour and costs more; `None` where the provider does not tell.
    #[serde(rename = "cacheWrite1h", skip_serializing_if = "Option::is_none")]
    pub cache_write_1h: Option<u64>,
}

impl Usage {
    /// All that was read, from the cache or not. Whatever a provider or a file says, no count passes the largest number.
    pub fn all_read(&self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_write)
    }

    /// The sum of the counts, where `total_tokens` is what the provider calls so.
    pub fn all(&self) -> u64 {
        self.all_read().saturating_add(self.output)
    }
}

/// The sum of what two replies tell; known as soon as one tells it.
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

/// Dollars.
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

/// Bytes of values as JSON.
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
