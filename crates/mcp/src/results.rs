//! Converts MCP results to content blocks for the model.
//!
//! Text longer than [`MAX_TEXT`] is truncated in the middle; the whole text is stored in a file that the model can read.

use crate::names::visible;
use rmcp::model::{CallToolResult, ContentBlock, GetPromptResult, ReadResourceResult, ResourceContents, Role};
use serde_json::{Value, json};

/// Maximum number of bytes of text for the model.
pub const MAX_TEXT: usize = 20 << 10;
/// Maximum number of blocks of a result; a note states how many are omitted.
const MAX_BLOCKS: usize = 64;
/// Maximum size of an image as base64, in bytes; the limit of providers.
const MAX_IMAGE: usize = 7 << 20;

/// A result as content blocks of pi: `{type: "text", text}` and `{type: "image", data, mimeType}`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct McpContent {
    /// Content blocks.
    pub blocks: Vec<Value>,
    /// Whether the tool reported a failure.
    pub is_error: bool,
}

impl McpContent {
    /// Returns the text of all blocks.
    pub fn text(&self) -> String {
        let text = |block: &Value| block.get("text").and_then(Value::as_str).map(str::to_owned);
        self.blocks.iter().filter_map(text).collect::<Vec<_>>().join("\n")
    }

    /// Truncates text that is too long in its middle. Returns the whole text if it was truncated; the caller stores it and refers
    /// to it with [`McpContent::name_file`].
    pub fn cut(&mut self) -> Option<String> {
        let text = self.text();
        if text.len() <= MAX_TEXT {
            return None;
        }
        self.blocks.retain(|block| block.get("text").is_none());
        self.blocks.insert(0, json!({"type": "text", "text": cut_middle(&text, MAX_TEXT)}));
        Some(text)
    }

    /// Adds a block with the path of the whole text.
    pub fn name_file(&mut self, place: &str) {
        self.blocks.push(json!({"type": "text", "text": format!("[the whole text: {place}]")}));
    }
}

/// Converts a `CallToolResult`. Returns `None` when the value has another format.
pub fn of_tool(server: &str, result: Value) -> Option<McpContent> {
    let result: CallToolResult = serde_json::from_value(result).ok()?;
    let mut blocks: Vec<Value> = result.content.iter().take(MAX_BLOCKS).map(|block| of_block(server, block)).collect();
    if result.content.len() > MAX_BLOCKS {
        blocks.push(text(format!("[{} more blocks are left out]", result.content.len() - MAX_BLOCKS)));
    }
    if let (true, Some(structured)) = (blocks.is_empty(), &result.structured_content) {
        blocks.push(text(structured.to_string()));
    }
    Some(McpContent { blocks, is_error: result.is_error == Some(true) })
}

/// Converts a `ReadResourceResult`. Returns `None` when the value has another format.
pub fn of_resource(result: Value) -> Option<McpContent> {
    let result: ReadResourceResult = serde_json::from_value(result).ok()?;
    Some(McpContent { blocks: result.contents.iter().take(MAX_BLOCKS).map(of_contents).collect(), is_error: false })
}

/// Converts a `GetPromptResult` to the text of a user message. Returns `None` when the value has another format.
pub fn of_prompt(server: &str, result: Value) -> Option<String> {
    let result: GetPromptResult = serde_json::from_value(result).ok()?;
    let mut said = Vec::new();
    for message in &result.messages {
        let block = of_block(server, &message.content);
        let line = block.get("text").and_then(Value::as_str).unwrap_or("[an image]").to_owned();
        said.push(if message.role == Role::Assistant { format!("Assistant: {line}") } else { line });
    }
    Some(visible(&said.join("\n\n"), MAX_TEXT))
}

fn of_block(server: &str, block: &ContentBlock) -> Value {
    match block {
        ContentBlock::Text(said) => text(said.text.clone()),
        ContentBlock::Image(image) if image.data.len() <= MAX_IMAGE => {
            json!({"type": "image", "data": image.data, "mimeType": image.mime_type})
        }
        ContentBlock::Image(image) => text(format!("[an image of {} bytes is left out]", image.data.len() / 4 * 3)),
        ContentBlock::Audio(audio) => text(format!("[audio, {}, is left out]", audio.mime_type)),
        ContentBlock::Resource(resource) => of_contents(&resource.resource),
        ContentBlock::ResourceLink(link) => {
            text(format!("[resource {} of the server {server}; read_mcp_resource reads it]", link.uri))
        }
        _ => text("[a block of an unknown kind is left out]".to_owned()),
    }
}

fn of_contents(contents: &ResourceContents) -> Value {
    match contents {
        ResourceContents::TextResourceContents { text: said, .. } => text(said.clone()),
        ResourceContents::BlobResourceContents { blob, mime_type, uri, .. } => {
            let kind = mime_type.as_deref().unwrap_or("application/octet-stream");
            match kind.starts_with("image/") && blob.len() <= MAX_IMAGE {
                true => json!({"type": "image", "data": blob, "mimeType": kind}),
                false => text(format!("[{uri}: {kind}, {} bytes, is left out]", blob.len() / 4 * 3)),
            }
        }
        _ => text("[contents of an unknown kind are left out]".to_owned()),
    }
}

fn text(said: String) -> Value {
    json!({"type": "text", "text": said})
}

/// Returns the beginning and the end of a text, about `limit` bytes in total.
fn cut_middle(text: &str, limit: usize) -> String {
    let half = limit / 2;
    let head = text.floor_char_boundary(half);
    let tail = text.ceil_char_boundary(text.len() - half);
    let gone = text[head..tail].chars().count();
    format!("{}\n…{gone} chars truncated…\n{}", &text[..head], &text[tail..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_block_is_converted() {
        let answer = of_tool(
            "s",
            json!({"isError": true, "content": [
                {"type": "text", "text": "a"},
                {"type": "image", "data": "AAAA", "mimeType": "image/png"},
                {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
                {"type": "resource_link", "uri": "file:///x", "name": "x"},
                {"type": "resource", "resource": {"uri": "u", "text": "b"}},
                {"type": "resource", "resource": {"uri": "u", "blob": "AAAA", "mimeType": "image/png"}},
            ]}),
        )
        .expect("a result");
        assert!(answer.is_error);
        assert_eq!(answer.blocks[1], json!({"type": "image", "data": "AAAA", "mimeType": "image/png"}));
        assert_eq!(answer.blocks[5]["type"], "image");
        let expected =
            "a\n[audio, audio/wav, is left out]\n[resource file:///x of the server s; read_mcp_resource reads it]\nb";
        assert_eq!(answer.text(), expected);
        let structured = of_tool("s", json!({"content": [], "structuredContent": {"n": 1}})).expect("a result");
        assert_eq!(structured.text(), "{\"n\":1}");
    }

    #[test]
    fn long_text_is_truncated_in_the_middle_and_kept_in_full() {
        let long = format!("begin{}end", "ä".repeat(20_000));
        let mut answer = McpContent {
            blocks: vec![json!({"type": "text", "text": long}), json!({"type": "image"})],
            is_error: false,
        };
        assert_eq!(answer.cut(), Some(long));
        let text = answer.text();
        assert!(text.starts_with("begin") && text.ends_with("end") && text.contains(" chars truncated…"), "{text}");
        assert!(text.len() < MAX_TEXT + 100);
        assert_eq!(answer.blocks[1], json!({"type": "image"}));
        answer.name_file("/tmp/x");
        assert!(answer.text().ends_with("[the whole text: /tmp/x]"));
        let mut short = McpContent { blocks: vec![json!({"type": "text", "text": "x"})], is_error: false };
        assert_eq!(short.cut(), None);
    }
}
