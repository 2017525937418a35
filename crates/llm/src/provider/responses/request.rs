//! Writes the request body: the conversation as items.

use crate::message::{Block, Content, ToolCall};
use crate::provider::adapt::{TEXT_SIGNATURE, adapt, cut, lines, plain_id, short_hash};
use crate::provider::openai::Retention;
use crate::provider::openai::request::MAX_KEY_CHARS;
use crate::provider::{Model, Origin, Request, RequestMessage, ToolDescription};
use serde_json::{Map, Value, json};

/// Minimum token limit that the API accepts.
const MIN_TOKENS: u64 = 16;
/// Maximum length of an id, in characters.
const MAX_ID_CHARS: usize = 64;

pub(super) fn body(model: &Model, request: &Request, retention: Retention) -> Value {
    let mut body = json!({"model": model.id, "input": input(model, request), "stream": true});
    if let Some(session) = request.session.as_ref().filter(|_| retention != Retention::None) {
        body["prompt_cache_key"] = json!(cut(session, MAX_KEY_CHARS));
    }
    let long = retention == Retention::Long && model.compat_flag("supportsLongCacheRetention").unwrap_or(true);
    match model.compat_flag("supportsExplicitPromptCacheMode") {
        Some(true) if retention == Retention::None => body["prompt_cache_options"] = json!({"mode": "explicit"}),
        Some(true) if long => body["prompt_cache_options"] = json!({"ttl": "30m"}),
        Some(true) => {}
        _ if long => body["prompt_cache_retention"] = json!("24h"),
        _ => {}
    }
    body["store"] = json!(false);
    let limited = model.compat_flag("supportsMaxOutputTokens").unwrap_or(true);
    if let Some(tokens) = request.room(model).filter(|_| limited) {
        body["max_output_tokens"] = json!(tokens.max(MIN_TOKENS));
    }
    if !request.tools.is_empty() {
        body["tools"] = request.tools.iter().map(|described| tool(model, described)).collect();
    }
    if model.reasoning() {
        let level =
            request.thinking.as_deref().map(|level| model.clamp_thinking(level)).filter(|level| *level != "off");
        if let Some(level) = level {
            body["reasoning"] = json!({"effort": model.thinking_value(level), "summary": "auto"});
            body["include"] = json!(["reasoning.encrypted_content"]);
        } else if model.can_disable_thinking() && model.provider != "github-copilot" {
            body["reasoning"] = json!({"effort": model.mapped_level("off").unwrap_or("none")});
        }
        if model.provider == "xai" {
            body["include"] = json!(["reasoning.encrypted_content"]);
        }
    }
    for (key, value) in model.sampling() {
        body[key] = value.clone();
    }
    body
}

fn tool(model: &Model, tool: &ToolDescription) -> Value {
    let mut function =
        json!({"type": "function", "name": tool.name, "description": tool.description, "parameters": tool.parameters});
    if model.compat_flag("supportsStrictMode") == Some(true) {
        function["strict"] = json!(false);
    }
    function
}

fn input(model: &Model, request: &Request) -> Vec<Value> {
    let developer = model.reasoning() && model.compat_flag("supportsDeveloperRole").unwrap_or(true);
    let system = |text: &str| json!({"role": if developer { "developer" } else { "system" }, "content": text});
    let mut out = Vec::new();
    if !request.system.is_empty() {
        out.push(system(&request.system));
    }
    // Messages without an id get one from their position.
    for (at, message) in adapt(&request.messages, model, |id, origin| call_id(model, id, origin)).iter().enumerate() {
        match message {
            RequestMessage::System(text) => out.push(system(text)),
            RequestMessage::User(Content::Text(text)) => {
                out.push(json!({"role": "user", "content": [{"type": "input_text", "text": text}]}));
            }
            RequestMessage::User(Content::Blocks(blocks)) => {
                let content: Vec<Value> = blocks.iter().filter_map(part).collect();
                if !content.is_empty() {
                    out.push(json!({"role": "user", "content": content}));
                }
            }
            RequestMessage::Assistant { content, origin } => reply(model, at, content, origin, &mut out),
            RequestMessage::ToolResult { tool_call_id, content, .. } => {
                let call = tool_call_id.split('|').next().unwrap_or_default();
                out.push(json!({"type": "function_call_output", "call_id": call, "output": output(content)}));
            }
        }
    }
    out
}

/// Converts a call id of another model. Only OpenAI's own servers accept both parts.
fn call_id(model: &Model, id: &str, origin: &Origin) -> String {
    let part = |id: &str| cut(&plain_id(id), MAX_ID_CHARS).trim_end_matches('_').to_owned();
    if !matches!(model.provider.as_str(), "openai" | "openai-codex" | "opencode") {
        return part(id);
    }
    let mut parts = id.split('|');
    let (Some(call), Some(item)) = (parts.next(), parts.next()) else { return part(id) };
    let item =
        if origin.speaks_as(model) { part(item) } else { cut(&format!("fc_{}", short_hash(item)), MAX_ID_CHARS) };
    let item = if item.starts_with("fc_") { item } else { part(&format!("fc_{item}")) };
    format!("{}|{item}", part(call))
}

/// Converts a block that the model reads.
fn part(block: &Block) -> Option<Value> {
    match block {
        Block::Text(block) => Some(json!({"type": "input_text", "text": block.text})),
        Block::Image { data, mime_type } => {
            let url = format!("data:{mime_type};base64,{data}");
            Some(json!({"type": "input_image", "detail": "auto", "image_url": url}))
        }
        _ => None,
    }
}

/// Converts the result of a tool; a result of text only becomes a string.
fn output(blocks: &[Block]) -> Value {
    let text = lines(blocks);
    let images = blocks.iter().filter(|block| matches!(block, Block::Image { .. })).filter_map(part);
    let images: Vec<Value> = images.collect();
    if images.is_empty() {
        return Value::String(if text.is_empty() { "(no tool output)".to_owned() } else { text });
    }
    let text = (!text.is_empty()).then(|| json!({"type": "input_text", "text": text}));
    text.into_iter().chain(images).collect()
}

fn reply(model: &Model, at: usize, blocks: &[Block], origin: &Origin, out: &mut Vec<Value>) {
    let mut texts = 0;
    for block in blocks {
        match block {
            // A signature of another API is not an item and is dropped.
            Block::Thinking(block) => out.extend(
                block
                    .thinking_signature
                    .as_deref()
                    .and_then(|signature| serde_json::from_str::<Map<String, Value>>(signature).ok())
                    .map(Value::Object),
            ),
            Block::Text(block) => {
                let counted = if texts == 0 { format!("msg_pi_{at}") } else { format!("msg_pi_{at}_{texts}") };
                texts += 1;
                let signed =
                    block.extra.get(TEXT_SIGNATURE).and_then(Value::as_str).filter(|signature| !signature.is_empty());
                let (id, phase) = signed.map_or((counted, None), signature);
                let id = if id.chars().count() > MAX_ID_CHARS { format!("msg_{}", short_hash(&id)) } else { id };
                let content = json!([{"type": "output_text", "text": block.text, "annotations": []}]);
                let mut item = json!({"type": "message", "role": "assistant", "content": content, "status": "completed", "id": id});
                if let Some(phase) = phase {
                    item["phase"] = json!(phase);
                }
                out.push(item);
            }
            Block::ToolCall(call) => out.push(function_call(model, call, origin)),
            Block::Image { .. } | Block::Other(_) => {}
        }
    }
}

/// Parses id and phase from the signature of a text; older signatures consist of the id only.
fn signature(signature: &str) -> (String, Option<String>) {
    let read: Option<Map<String, Value>> = serde_json::from_str(signature).ok();
    let read = read.filter(|read| read.get("v").and_then(Value::as_u64) == Some(1));
    let text = |key: &str| Some(read.as_ref()?.get(key)?.as_str()?.to_owned());
    match text("id") {
        Some(id) => (id, text("phase").filter(|phase| matches!(phase.as_str(), "commentary" | "final_answer"))),
        None => (signature.to_owned(), None),
    }
}

fn function_call(model: &Model, call: &ToolCall, origin: &Origin) -> Value {
    let mut parts = call.id.split('|');
    let call_id = parts.next().unwrap_or_default();
    // The server would require the reasoning that precedes another model's item, which the request does not contain.
    let same_model = !origin.speaks_as(model) || origin.model == model.id;
    let item_id = parts.next().filter(|item| item.starts_with("fc_") && same_model);
    let mut value = json!({"type": "function_call"});
    if let Some(item_id) = item_id {
        value["id"] = json!(item_id);
    }
    value["call_id"] = json!(call_id);
    value["name"] = json!(call.name);
    value["arguments"] = json!(call.arguments.to_string());
    if let Some(namespace) = call.extra.get("namespace").filter(|_| origin.is(model)) {
        value["namespace"] = namespace.clone();
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_other_models_become_ones_that_fit() {
        let openai = Model::new("openai", "m", "openai-responses");
        let of =
            |provider: &str| Origin { api: "openai-responses".into(), provider: provider.into(), model: "o".into() };
        assert_eq!(call_id(&openai, "call_1|fc_1", &of("openai")), "call_1|fc_1");
        assert_eq!(call_id(&openai, "call_1|x", &of("openai")), "call_1|fc_x");
        assert!(call_id(&openai, "call_1|fc_1", &of("other")).starts_with("call_1|fc_"));
        assert_ne!(call_id(&openai, "call_1|fc_1", &of("other")), "call_1|fc_1");
        assert_eq!(call_id(&Model::new("p", "m", "openai-responses"), "call_1|fc_1_", &of("p")), "call_1_fc_1");
    }

    #[test]
    fn a_signature_of_text_is_its_id_and_phase() {
        assert_eq!(signature(r#"{"v":1,"id":"a","phase":"commentary"}"#), ("a".into(), Some("commentary".into())));
        assert_eq!(signature(r#"{"v":1,"id":"a","phase":"x"}"#), ("a".into(), None));
        assert_eq!(signature("msg_1"), ("msg_1".into(), None));
    }
}
