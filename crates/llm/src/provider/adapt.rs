//! Adapts a conversation to one model.
//!
//! Messages of other models are kept as text, without signatures and ids that only their servers know. Images are replaced by a
//! note for a model that does not accept them. Each API writes the result of [`adapt`] in its own format.

use super::{Model, RequestMessage};
use crate::message::{AssistantMessage, Block, Content, ThinkingBlock, ToolCall};
use std::collections::BTreeMap;

const UNSEEN: &str = "(image omitted: model does not support images)";
const UNSEEN_OF_TOOL: &str = "(tool image omitted: model does not support images)";
/// Member with the signature of a tool call; pi's name.
pub const CALL_SIGNATURE: &str = "thoughtSignature";
/// Member with the signature of a text; pi's name.
pub const TEXT_SIGNATURE: &str = "textSignature";
/// Member that marks encrypted thinking.
pub const REDACTED: &str = "redacted";

/// The model that produced a message.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Origin {
    /// Wire format.
    pub api: String,
    /// Name of the provider.
    pub provider: String,
    /// Model id.
    pub model: String,
}

impl Origin {
    /// Returns the model of a reply.
    pub fn of(reply: &AssistantMessage) -> Self {
        Self { api: reply.api.clone(), provider: reply.provider.clone(), model: reply.model.clone() }
    }

    /// Returns whether this is the same model.
    pub fn is(&self, model: &Model) -> bool {
        self.speaks_as(model) && self.model == model.id
    }

    /// Returns whether both have the same provider and wire format.
    pub fn speaks_as(&self, model: &Model) -> bool {
        self.provider == model.provider && self.api == model.api
    }
}

/// Adapts the conversation. `rename` converts a call id of another model to one that this API accepts.
pub(super) fn adapt(
    messages: &[RequestMessage],
    model: &Model,
    rename: impl Fn(&str, &Origin) -> String,
) -> Vec<RequestMessage> {
    let mut renamed = BTreeMap::new();
    let seen =
        |blocks: &[Block], missing: &str| if model.is_blind() { blind(blocks, missing) } else { blocks.to_vec() };
    messages
        .iter()
        .map(|message| match message {
            RequestMessage::User(Content::Blocks(blocks)) => RequestMessage::User(seen(blocks, UNSEEN).into()),
            RequestMessage::ToolResult { tool_call_id, tool_name, content, is_error } => RequestMessage::ToolResult {
                tool_call_id: renamed.get(tool_call_id).unwrap_or(tool_call_id).clone(),
                tool_name: tool_name.clone(),
                content: seen(content, UNSEEN_OF_TOOL),
                is_error: *is_error,
            },
            RequestMessage::Assistant { content, origin } => {
                let own = origin.is(model);
                let block = |block: &Block| match block {
                    Block::Thinking(thinking) => thought(thinking, own),
                    Block::Text(text) if !own => Some(Block::text(text.text.clone())),
                    Block::ToolCall(call) if !own => {
                        let id = rename(&call.id, origin);
                        renamed.insert(call.id.clone(), id.clone());
                        let mut call = ToolCall { id, ..call.clone() };
                        call.extra.shift_remove(CALL_SIGNATURE);
                        Some(Block::ToolCall(call))
                    }
                    other => Some(other.clone()),
                };
                RequestMessage::Assistant {
                    content: content.iter().filter_map(block).collect(),
                    origin: origin.clone(),
                }
            }
            other => other.clone(),
        })
        .collect()
}

/// Converts thinking of another model to text; encrypted thinking is kept for its own model only.
fn thought(thinking: &ThinkingBlock, own: bool) -> Option<Block> {
    let signed = thinking.thinking_signature.as_ref().is_some_and(|signature| !signature.is_empty());
    if is_redacted(thinking) || (own && signed) {
        return own.then(|| Block::Thinking(thinking.clone()));
    }
    if thinking.thinking.trim().is_empty() {
        return None;
    }
    Some(if own { Block::Thinking(thinking.clone()) } else { Block::text(thinking.thinking.clone()) })
}

/// Returns whether thinking is encrypted.
pub(super) fn is_redacted(thinking: &ThinkingBlock) -> bool {
    thinking.extra.get(REDACTED).and_then(serde_json::Value::as_bool) == Some(true)
}

/// Replaces consecutive images by one note.
fn blind(blocks: &[Block], missing: &str) -> Vec<Block> {
    let mut out: Vec<Block> = Vec::new();
    for block in blocks {
        match block {
            Block::Image { .. } if out.last().and_then(Block::as_text) == Some(missing) => {}
            Block::Image { .. } => out.push(Block::text(missing)),
            other => out.push(other.clone()),
        }
    }
    out
}

/// Returns the text blocks, one on each line.
pub(super) fn lines(blocks: &[Block]) -> String {
    blocks.iter().filter_map(Block::as_text).collect::<Vec<_>>().join("\n")
}

/// Replaces all characters except letters, digits, `_` and `-`, which every API accepts in ids.
pub(super) fn plain_id(id: &str) -> String {
    id.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' }).collect()
}

/// Returns the first characters of a text.
pub(super) fn cut(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

/// Returns a short hash of a long id. Equals pi's function, since both programs read each other's sessions.
pub(super) fn short_hash(text: &str) -> String {
    let (mut high, mut low) = (0xdead_beef_u32, 0x41c6_ce57_u32);
    for unit in text.encode_utf16().map(u32::from) {
        high = (high ^ unit).wrapping_mul(2_654_435_761);
        low = (low ^ unit).wrapping_mul(1_597_334_677);
    }
    let mix = |one: u32, other: u32| {
        (one ^ (one >> 16)).wrapping_mul(2_246_822_507) ^ (other ^ (other >> 13)).wrapping_mul(3_266_489_909)
    };
    high = mix(high, low);
    low = mix(low, high);
    format!("{}{}", base36(low), base36(high))
}

fn base36(mut number: u32) -> String {
    let mut digits = Vec::new();
    loop {
        digits.push(char::from_digit(number % 36, 36).expect("the digit is below 36"));
        number /= 36;
        if number == 0 {
            return digits.iter().rev().collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn consecutive_images_have_one_note() {
        let image = || Block::Image { data: "AA==".into(), mime_type: "image/png".into() };
        let model = Model::new("p", "m", "a").with("input", json!(["text"]));
        let said = vec![Block::text("a"), image(), image(), Block::text("b"), image()];
        let fitted = adapt(&[RequestMessage::User(said.into())], &model, |id, _| id.to_owned());
        let expected = vec![Block::text("a"), Block::text(UNSEEN), Block::text("b"), Block::text(UNSEEN)];
        assert_eq!(fitted, [RequestMessage::User(expected.into())]);
    }
}
