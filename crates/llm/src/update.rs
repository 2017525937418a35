//! Updates of a reply, as pi's `assistantMessageEvent`.

use crate::message::{Block, ToolCall};
use serde_json::{Map, json};

/// A change of an assistant message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Update<'a> {
    /// Index of the block.
    pub index: usize,
    /// Kind of the change.
    pub kind: UpdateKind<'a>,
}

/// Changes of a block.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(missing_docs, reason = "pi's assistantMessageEvent types, with its own words")]
pub enum UpdateKind<'a> {
    TextStart,
    TextDelta(&'a str),
    TextEnd(&'a str),
    ThinkingStart,
    ThinkingDelta(&'a str),
    ThinkingEnd(&'a str),
    ToolCallStart,
    ToolCallDelta(&'a str),
    ToolCallEnd(&'a ToolCall),
}

impl Update<'_> {
    /// Returns pi's `assistantMessageEvent`, except for the message so far.
    pub fn to_map(self) -> Map<String, serde_json::Value> {
        let (kind, extra) = match self.kind {
            UpdateKind::TextStart => ("text_start", None),
            UpdateKind::TextDelta(delta) => ("text_delta", Some(("delta", json!(delta)))),
            UpdateKind::TextEnd(content) => ("text_end", Some(("content", json!(content)))),
            UpdateKind::ThinkingStart => ("thinking_start", None),
            UpdateKind::ThinkingDelta(delta) => ("thinking_delta", Some(("delta", json!(delta)))),
            UpdateKind::ThinkingEnd(content) => ("thinking_end", Some(("content", json!(content)))),
            UpdateKind::ToolCallStart => ("toolcall_start", None),
            UpdateKind::ToolCallDelta(delta) => ("toolcall_delta", Some(("delta", json!(delta)))),
            UpdateKind::ToolCallEnd(call) => ("toolcall_end", Some(("toolCall", json!(Block::ToolCall(call.clone()))))),
        };
        let mut map = Map::new();
        map.insert("type".to_owned(), kind.into());
        map.insert("contentIndex".to_owned(), self.index.into());
        map.extend(extra.map(|(key, value)| (key.to_owned(), value)));
        map
    }
}
