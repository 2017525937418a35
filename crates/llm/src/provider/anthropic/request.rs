//! Writes the request body: prompt, tools and conversation, with cache marks.

use crate::message::{Block, Content, ThinkingBlock};
use crate::provider::adapt::{adapt, cut, is_redacted, lines, plain_id};
use crate::provider::openai::{Retention, effort};
use crate::provider::{Model, Origin, Request, RequestMessage, ToolDescription, marked};
use serde_json::{Map, Value, json};

/// Default of the required token limit; every current model accepts it.
const MAX_TOKENS: u64 = 8192;
/// Number of tokens left for the reply when thinking shares its limit, and minimum number of thinking tokens.
const MIN_TOKENS: u64 = 1024;
/// Maximum length of a call id, in characters.
const MAX_ID_CHARS: usize = 64;

/// Writes the body. `asked` contains the beta features that the user configured, which replace the default ones.
pub(super) fn body(model: &Model, request: &Request, retention: Retention, asked: Option<&str>) -> Value {
    let keeps_long = model.compat_flag("supportsLongCacheRetention").unwrap_or(true);
    let control = match retention {
        Retention::None => None,
        Retention::Long if keeps_long => Some(json!({"type": "ephemeral", "ttl": "1h"})),
        _ => Some(json!({"type": "ephemeral"})),
    };
    let level = request.thinking.as_deref().filter(|_| model.reasoning());
    let by_itself = model.compat_flag("forceAdaptiveThinking") == Some(true);
    let (tokens, budget) = match level.filter(|_| !by_itself) {
        Some(level) => with_thinking(model, request, level),
        None => (request.room(model).unwrap_or(MAX_TOKENS), None),
    };
    let mut messages = messages(model, request);
    if let (Some(control), Some(last)) = (&control, messages.last_mut().filter(|last| last["role"] == "user")) {
        mark(last, control);
    }
    let mut body = json!({"model": model.id, "messages": messages, "max_tokens": tokens, "stream": true});
    let betas = betas(model, request, level.is_some() && !by_itself, asked);
    if !betas.is_empty() {
        body["betas"] = json!(betas);
    }
    if !request.system.is_empty() {
        body["system"] = json!([with_control(json!({"type": "text", "text": request.system}), control.as_ref())]);
    }
    if !request.tools.is_empty() {
        let on_tools = model.compat_flag("supportsCacheControlOnTools").unwrap_or(true);
        let control = control.as_ref().filter(|_| on_tools);
        let last = request.tools.len() - 1;
        let tools = request.tools.iter().enumerate();
        body["tools"] =
            tools.map(|(at, said)| with_control(tool(model, said), control.filter(|_| at == last))).collect();
    }
    if let Some(level) = level {
        body["thinking"] = match budget {
            Some(budget) => json!({"type": "enabled", "budget_tokens": budget, "display": "summarized"}),
            None => json!({"type": "adaptive", "display": "summarized"}),
        };
        if by_itself {
            body["output_config"] = json!({"effort": named_effort(model, level)});
        }
    } else if model.reasoning() && model.can_disable_thinking() {
        body["thinking"] = json!({"type": "disabled"});
    }
    if let Some(others) =
        model.compat("allowedFallbackModels").and_then(Value::as_array).filter(|list| !list.is_empty())
    {
        body["fallbacks"] = others.iter().map(|other| json!({"model": other["model"]})).collect();
    }
    body
}

/// Returns the token limits of the whole reply and of its thinking. An explicit limit is increased by the thinking tokens.
fn with_thinking(model: &Model, request: &Request, level: &str) -> (u64, Option<u64>) {
    let wanted = effort::budget(level);
    let most = model.max_tokens().unwrap_or(MAX_TOKENS + wanted);
    let more = request.room(model).unwrap_or(MAX_TOKENS).saturating_add(wanted);
    let whole = Request { max_tokens: Some(more.min(most)), ..request.clone() };
    let tokens = whole.room(model).unwrap_or(most);
    let budget = Some(wanted.min(tokens.saturating_sub(MIN_TOKENS))).filter(|budget| *budget > 0);
    (tokens, Some(budget.unwrap_or(MIN_TOKENS)))
}

/// Returns the API's name of a thinking level, for models that choose their thinking tokens.
fn named_effort<'a>(model: &'a Model, level: &'a str) -> &'a str {
    match (model.mapped_level(level), level) {
        (Some(named), _) => named,
        (None, "minimal" | "low") => "low",
        (None, "medium") => "medium",
        (None, _) => "high",
    }
}

fn betas(model: &Model, request: &Request, thinks: bool, asked: Option<&str>) -> Vec<String> {
    if let Some(asked) = asked {
        let mut listed: Vec<String> = Vec::new();
        for feature in asked.split(',').map(str::trim).filter(|feature| !feature.is_empty()) {
            if !listed.iter().any(|known| known == feature) {
                listed.push(feature.to_owned());
            }
        }
        return listed;
    }
    let eager = model.compat_flag("supportsEagerToolInputStreaming").unwrap_or(true);
    let falls_back =
        model.compat("allowedFallbackModels").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    [
        (!eager && !request.tools.is_empty(), "fine-grained-tool-streaming-2025-05-14"),
        (thinks, "interleaved-thinking-2025-05-14"),
        (falls_back, "server-side-fallback-2026-07-01"),
    ]
    .into_iter()
    .filter(|(wanted, _)| *wanted)
    .map(|(_, feature)| feature.to_owned())
    .collect()
}

fn with_control(mut value: Value, control: Option<&Value>) -> Value {
    if let Some(control) = control {
        value["cache_control"] = control.clone();
    }
    value
}

fn tool(model: &Model, tool: &ToolDescription) -> Value {
    let mut said = json!({"name": tool.name, "description": tool.description});
    if model.compat_flag("supportsEagerToolInputStreaming").unwrap_or(true) {
        said["eager_input_streaming"] = json!(true);
    }
    let member = |key: &str, otherwise: Value| {
        tool.parameters.get(key).filter(|value| !value.is_null()).cloned().unwrap_or(otherwise)
    };
    said["input_schema"] = json!({"type": "object", "properties": member("properties", json!({})), "required": member("required", json!([]))});
    said
}

/// Marks the conversation up to this message for the cache.
fn mark(message: &mut Value, control: &Value) {
    if let Value::String(text) = &message["content"] {
        message["content"] = json!([{"type": "text", "text": text}]);
    }
    if let Some(block) = message["content"].as_array_mut().and_then(|blocks| blocks.last_mut()) {
        block["cache_control"] = control.clone();
    }
}

fn messages(model: &Model, request: &Request) -> Vec<Value> {
    let mut out: Vec<Value> = Vec::new();
    let mut after_result = false;
    for message in adapt(&request.messages, model, |id, _: &Origin| cut(&plain_id(id), MAX_ID_CHARS)) {
        let is_result = matches!(message, RequestMessage::ToolResult { .. });
        match &message {
            RequestMessage::User(Content::Text(text)) if !text.trim().is_empty() => {
                out.push(json!({"role": "user", "content": text}));
            }
            RequestMessage::User(Content::Blocks(blocks)) => {
                let content: Vec<Value> = blocks.iter().filter_map(user_block).collect();
                if content.is_empty() {
                    continue;
                }
                out.push(json!({"role": "user", "content": content}));
            }
            RequestMessage::User(_) => continue,
            RequestMessage::System(text) => inject(&mut out, text),
            RequestMessage::Assistant { content, .. } => {
                let content: Vec<Value> = content.iter().filter_map(|block| reply_block(model, block)).collect();
                if content.is_empty() {
                    continue;
                }
                out.push(json!({"role": "assistant", "content": content}));
            }
            RequestMessage::ToolResult { tool_call_id, content, is_error, .. } => {
                let result = json!({"type": "tool_result", "tool_use_id": tool_call_id, "content": result(content), "is_error": is_error});
                // Results of the calls of one reply belong in one message.
                match out.last_mut().filter(|_| after_result).and_then(|last| last["content"].as_array_mut()) {
                    Some(results) => results.push(result),
                    None => out.push(json!({"role": "user", "content": [result]})),
                }
            }
        }
        after_result = is_result;
    }
    out
}

/// Adds an injection to the preceding user message, or as a separate message.
fn inject(out: &mut Vec<Value>, text: &str) {
    let block = json!({"type": "text", "text": marked(text)});
    match out.last_mut().filter(|last| last["role"] == "user").and_then(|last| last["content"].as_array_mut()) {
        Some(blocks) => blocks.push(block),
        None => out.push(json!({"role": "user", "content": [block]})),
    }
}

/// Converts a block of the user; returns `None` for text of white space only, which the API rejects.
fn user_block(block: &Block) -> Option<Value> {
    match block {
        Block::Text(block) => (!block.text.trim().is_empty()).then(|| json!({"type": "text", "text": block.text})),
        other => image(other),
    }
}

fn image(block: &Block) -> Option<Value> {
    match block {
        Block::Image { data, mime_type } => {
            Some(json!({"type": "image", "source": {"type": "base64", "media_type": mime_type, "data": data}}))
        }
        _ => None,
    }
}

/// Converts the result of a tool; a result of text only becomes a string.
fn result(blocks: &[Block]) -> Value {
    if !blocks.iter().any(|block| matches!(block, Block::Image { .. })) {
        return Value::String(lines(blocks));
    }
    let text = |block: &Block| block.as_text().map(|text| json!({"type": "text", "text": text}));
    let mut content: Vec<Value> = blocks.iter().filter_map(|block| text(block).or_else(|| image(block))).collect();
    if !blocks.iter().any(|block| block.as_text().is_some()) {
        content.insert(0, json!({"type": "text", "text": "(see attached image)"}));
    }
    Value::Array(content)
}

fn reply_block(model: &Model, block: &Block) -> Option<Value> {
    match block {
        Block::Text(_) => user_block(block),
        Block::Thinking(block) => thinking(model, block),
        Block::ToolCall(call) => {
            let input = if call.arguments.is_null() { Value::Object(Map::new()) } else { call.arguments.clone() };
            Some(json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input}))
        }
        Block::Image { .. } | Block::Other(_) => None,
    }
}

/// Converts a thinking block. It is sent back with its signature. Without a signature it becomes text, unless the server does not
/// sign.
fn thinking(model: &Model, block: &ThinkingBlock) -> Option<Value> {
    let signature = block.thinking_signature.as_deref().unwrap_or_default();
    if is_redacted(block) {
        return Some(json!({"type": "redacted_thinking", "data": signature}));
    }
    let signed = !signature.trim().is_empty();
    match (signed, block.thinking.trim().is_empty()) {
        (true, _) => Some(json!({"type": "thinking", "thinking": block.thinking, "signature": signature})),
        (false, true) => None,
        (false, false) if model.compat_flag("allowEmptySignature") == Some(true) => {
            Some(json!({"type": "thinking", "thinking": block.thinking, "signature": ""}))
        }
        (false, false) => Some(json!({"type": "text", "text": block.thinking})),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::ToolCall;

    fn sent(messages: Vec<RequestMessage>) -> Vec<Value> {
        let model = Model::new("p", "m", "anthropic-messages");
        super::messages(&model, &Request { messages, ..Request::default() })
    }

    #[test]
    fn an_empty_message_is_not_sent() {
        let user = |blocks: &[&str]| {
            RequestMessage::User(blocks.iter().map(|text| Block::text(*text)).collect::<Vec<_>>().into())
        };
        let sent = sent(vec![user(&["hi"]), user(&["", " \n"]), user(&[])]);
        assert_eq!(sent, [json!({"role": "user", "content": [{"type": "text", "text": "hi"}]})]);
    }

    #[test]
    fn an_injection_is_a_marked_user_message_beside_the_prompt() {
        let sent = sent(vec![
            RequestMessage::user("hi"),
            RequestMessage::System("rule".to_owned()),
            RequestMessage::Assistant {
                content: vec![Block::ToolCall(ToolCall {
                    id: "t".into(),
                    name: "ls".into(),
                    arguments: json!({}),
                    ..ToolCall::default()
                })],
                origin: Origin::default(),
            },
            RequestMessage::ToolResult {
                tool_call_id: "t".into(),
                tool_name: "ls".into(),
                content: vec![Block::text("a")],
                is_error: false,
            },
        ]);
        assert_eq!(
            sent,
            [
                json!({"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "text", "text": marked("rule")}]}),
                json!({"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "ls", "input": {}}]}),
                json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "a", "is_error": false}]}),
            ]
        );
    }

    #[test]
    fn thinking_leaves_room_for_the_answer() {
        let model = Model::new("p", "m", "anthropic-messages").with("reasoning", true).with("maxTokens", 4000);
        let body = |model: &Model, level: Option<&str>, max_tokens| {
            let request = Request { thinking: level.map(str::to_owned), max_tokens, ..Request::default() };
            body(model, &request, Retention::Short, None)
        };
        let whole = body(&model, Some("high"), None);
        assert_eq!((&whole["max_tokens"], &whole["thinking"]["budget_tokens"]), (&json!(4000), &json!(2976)));
        let limited = body(&model, Some("minimal"), Some(500));
        assert_eq!((&limited["max_tokens"], &limited["thinking"]["budget_tokens"]), (&json!(1524), &json!(500)));
        assert_eq!(body(&model, None, None)["thinking"], json!({"type": "disabled"}));
    }
}
