//! Writes the request body: conversation, tools, and the members that a server needs.

use super::compat::{Compat, Retention};
use super::effort;
use crate::message::{Block, Content};
use crate::provider::adapt::{CALL_SIGNATURE, adapt, cut, lines, plain_id, short_hash};
use crate::provider::{Model, Origin, Request, RequestMessage, ToolDescription};
use serde_json::{Map, Value, json};

/// Maximum length of a call id, in characters.
const MAX_ID_CHARS: usize = 40;
/// Maximum length of a cache key, in characters.
pub(in crate::provider) const MAX_KEY_CHARS: usize = 64;
/// Members in which servers send reasoning and expect it back.
pub(super) const REASONING: [&str; 3] = ["reasoning_content", "reasoning", "reasoning_text"];

pub(super) fn body(model: &Model, request: &Request, retention: Retention) -> Value {
    let compat = Compat::of(model);
    let mut body = json!({"model": model.id, "messages": messages(model, request), "stream": true});
    let long = retention == Retention::Long && compat.keeps_long();
    if let Some(session) =
        request.session.as_ref().filter(|_| long || (compat.is_openai() && retention != Retention::None))
    {
        body["prompt_cache_key"] = json!(cut(session, MAX_KEY_CHARS));
    }
    if long {
        body["prompt_cache_retention"] = json!("24h");
    }
    if compat.tells_usage() {
        body["stream_options"] = json!({"include_usage": true});
    }
    if compat.takes_store() {
        body["store"] = json!(false);
    }
    let room = request.room(model);
    if let Some(tokens) = room {
        body[compat.tokens_member()] = json!(tokens);
    }
    if !request.tools.is_empty() {
        body["tools"] = request.tools.iter().map(|described| tool(model, described)).collect();
        if compat.has("zaiToolStream") {
            body["tool_stream"] = json!(true);
        }
    } else if has_calls(&request.messages) {
        // Some upstream servers reject calls without a list of tools.
        body["tools"] = json!([]);
    }
    if compat.marks_cache() && retention != Retention::None {
        mark(&mut body, if long { json!({"type": "ephemeral", "ttl": "1h"}) } else { json!({"type": "ephemeral"}) });
    }
    if let Some(priority) = model.compat("vllmPriority") {
        body["priority"] = priority.clone();
    }
    effort::put(model, request.thinking.as_deref(), room, &mut body);
    if let Some(routing) = model.compat("openRouterRouting") {
        body["provider"] = routing.clone();
    }
    let routing = model.compat("vercelGatewayRouting").and_then(Value::as_object);
    let chosen = ["only", "order"].into_iter().filter_map(|key| Some((key.to_owned(), routing?.get(key)?.clone())));
    let chosen: Map<String, Value> = chosen.collect();
    if !chosen.is_empty() {
        body["providerOptions"] = json!({"gateway": chosen});
    }
    for (key, value) in model.sampling() {
        body[key] = value.clone();
    }
    body
}

fn has_calls(messages: &[RequestMessage]) -> bool {
    messages.iter().any(|message| match message {
        RequestMessage::ToolResult { .. } => true,
        RequestMessage::Assistant { content, .. } => content.iter().any(|block| matches!(block, Block::ToolCall(_))),
        _ => false,
    })
}

fn tool(model: &Model, tool: &ToolDescription) -> Value {
    let mut function = json!({"name": tool.name, "description": tool.description, "parameters": tool.parameters});
    if model.compat_flag("supportsStrictMode") == Some(true) {
        function["strict"] = json!(false);
    }
    json!({"type": "function", "function": function})
}

/// Marks the prompt, the tools and the conversation so far for the cache.
fn mark(body: &mut Value, control: Value) {
    let messages = body["messages"].as_array_mut().expect("messages are a list");
    let is_system = |message: &&mut Value| matches!(message["role"].as_str(), Some("system" | "developer"));
    if let Some(system) = messages.iter_mut().find(is_system) {
        mark_text(system, &control);
    }
    for message in messages.iter_mut().rev() {
        if !matches!(message["role"].as_str(), Some("system" | "developer")) && mark_text(message, &control) {
            break;
        }
    }
    if let Some(last) = body.get_mut("tools").and_then(Value::as_array_mut).and_then(|tools| tools.last_mut()) {
        last["cache_control"] = control;
    }
}

fn mark_text(message: &mut Value, control: &Value) -> bool {
    match &mut message["content"] {
        Value::String(text) if !text.is_empty() => {
            message["content"] = json!([{"type": "text", "text": text, "cache_control": control}]);
            true
        }
        Value::Array(parts) => match parts.iter_mut().rev().find(|part| part["type"] == "text") {
            Some(part) => {
                part["cache_control"] = control.clone();
                true
            }
            None => false,
        },
        _ => false,
    }
}

fn messages(model: &Model, request: &Request) -> Vec<Value> {
    let compat = Compat::of(model);
    let role = compat.system_role();
    let bridges = compat.has("requiresAssistantAfterToolResult");
    let bridge = || json!({"role": "assistant", "content": "I have processed the tool results."});
    let mut out = Vec::new();
    if !request.system.is_empty() {
        out.push(json!({"role": role, "content": request.system}));
    }
    let fitted = adapt(&request.messages, model, |id, _: &Origin| call_id(model, id));
    let mut after_result = false;
    let mut images: Vec<Value> = Vec::new();
    for message in &fitted {
        let is_result = matches!(message, RequestMessage::ToolResult { .. });
        // A tool message may contain only text, so images follow the results as a separate message.
        if !is_result && !images.is_empty() {
            show(&mut images, bridges.then(bridge), &mut out);
            after_result = false;
        }
        match message {
            RequestMessage::System(text) => out.push(json!({"role": role, "content": text})),
            RequestMessage::User(said) => {
                if bridges && after_result {
                    out.push(bridge());
                }
                let Some(content) = user(said) else { continue };
                out.push(json!({"role": "user", "content": content}));
            }
            RequestMessage::Assistant { content, .. } => {
                let Some(reply) = assistant(model, &compat, content) else { continue };
                out.push(reply);
            }
            RequestMessage::ToolResult { tool_call_id, tool_name, content, .. } => {
                let shown: Vec<Value> = content.iter().filter_map(image).collect();
                let text = match lines(content) {
                    text if !text.is_empty() => text,
                    _ if shown.is_empty() => "(no tool output)".to_owned(),
                    _ => "(see attached image)".to_owned(),
                };
                images.extend(shown);
                let mut result = json!({"role": "tool", "content": text, "tool_call_id": tool_call_id});
                if compat.has("requiresToolResultName") && !tool_name.is_empty() {
                    result["name"] = json!(tool_name);
                }
                out.push(result);
            }
        }
        after_result = is_result;
    }
    if !images.is_empty() {
        show(&mut images, bridges.then(bridge), &mut out);
    }
    out
}

fn show(images: &mut Vec<Value>, bridge: Option<Value>, out: &mut Vec<Value>) {
    out.extend(bridge);
    let text = json!({"type": "text", "text": "Attached image(s) from tool result:"});
    let content: Vec<Value> = std::iter::once(text).chain(images.drain(..)).collect();
    out.push(json!({"role": "user", "content": content}));
}

/// Converts a call id of another API. Two ids may share their first part, so both parts are kept.
fn call_id(model: &Model, id: &str) -> String {
    let Some((call, item)) = id.split_once('|') else {
        return if model.provider == "openai" { cut(id, MAX_ID_CHARS) } else { id.to_owned() };
    };
    let (call, item) = (plain_id(call), plain_id(item));
    let both = if item.is_empty() { call.clone() } else { format!("{call}_{item}") };
    if both.len() <= MAX_ID_CHARS {
        return both;
    }
    let hash = cut(&short_hash(id), 8);
    format!("{}_{hash}", cut(&call, MAX_ID_CHARS - hash.len() - 1))
}

/// Converts user content; returns `None` for an empty message, which some servers reject.
fn user(said: &Content) -> Option<Value> {
    let blocks = match said {
        Content::Text(text) => return Some(json!(text)),
        Content::Blocks(blocks) => blocks,
    };
    let parts = blocks.iter().filter_map(|block| match block.as_text() {
        Some(text) => (!text.is_empty()).then(|| json!({"type": "text", "text": text})),
        None => image(block),
    });
    Some(parts.collect::<Vec<Value>>()).filter(|parts| !parts.is_empty()).map(Value::Array)
}

fn image(block: &Block) -> Option<Value> {
    match block {
        Block::Image { data, mime_type } => {
            Some(json!({"type": "image_url", "image_url": {"url": format!("data:{mime_type};base64,{data}")}}))
        }
        _ => None,
    }
}

fn assistant(model: &Model, compat: &Compat<'_>, blocks: &[Block]) -> Option<Value> {
    let texts: Vec<&str> = blocks.iter().filter_map(Block::as_text).filter(|text| !text.trim().is_empty()).collect();
    let thinking: Vec<_> = blocks
        .iter()
        .filter_map(|block| match block {
            Block::Thinking(thinking) => Some(thinking),
            _ => None,
        })
        .collect();
    let calls: Vec<_> = blocks
        .iter()
        .filter_map(|block| match block {
            Block::ToolCall(call) => Some(call),
            _ => None,
        })
        .collect();
    let thoughts: Vec<_> = thinking.iter().filter(|block| !block.thinking.trim().is_empty()).collect();
    let signed = thinking.iter().filter_map(|block| block.thinking_signature.as_deref());
    let sealed = calls.iter().filter_map(|call| call.extra.get(CALL_SIGNATURE)?.as_str());
    let details = signed.clone().find_map(details).or_else(|| {
        let sealed: Vec<Value> = sealed.filter_map(sealed_detail).collect();
        (!sealed.is_empty()).then_some(Value::Array(sealed))
    });
    let text = texts.concat();
    let nothing = if compat.has("requiresAssistantAfterToolResult") { json!("") } else { Value::Null };
    let mut message = json!({"role": "assistant", "content": if text.is_empty() { nothing } else { json!(text) }});
    if !thoughts.is_empty() && compat.has("requiresThinkingAsText") {
        let thought = thoughts.iter().map(|block| block.thinking.as_str()).collect::<Vec<_>>().join("\n\n");
        let parts = std::iter::once(thought.as_str()).chain(texts.iter().copied());
        message["content"] = parts.map(|text| json!({"type": "text", "text": text})).collect();
    } else if let (Some(first), None) = (thoughts.first(), &details) {
        let member = first.thinking_signature.as_deref().filter(|member| REASONING.contains(member));
        if let Some(member) = member.map(|member| reasoning_member(model, member)) {
            let thought: Vec<&str> = thoughts.iter().map(|block| block.thinking.as_str()).collect();
            message[member] = json!(thought.join("\n"));
        }
    }
    if !calls.is_empty() {
        let call = |call: &&crate::message::ToolCall| json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments.to_string()}});
        message["tool_calls"] = calls.iter().map(call).collect();
    }
    if let Some(details) = details {
        message["reasoning_details"] = details;
    }
    if compat.wants_reasoning_back() && model.reasoning() && message.get("reasoning_content").is_none() {
        message["reasoning_content"] = json!("");
    }
    let is_empty = match &message["content"] {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        _ => false,
    };
    (!is_empty || !calls.is_empty()).then_some(message)
}

/// Returns the member in which reasoning is sent back; for one server it differs from the member in replies.
pub(super) fn reasoning_member<'a>(model: &Model, member: &'a str) -> &'a str {
    if model.provider == "opencode-go" && member == "reasoning" { "reasoning_content" } else { member }
}

/// Parses OpenRouter's reasoning details from the signature of a thinking block.
fn details(signature: &str) -> Option<Value> {
    let list: Vec<Value> = serde_json::from_str(signature).ok()?;
    (!list.is_empty() && list.iter().all(is_detail)).then_some(Value::Array(list))
}

/// Parses an encrypted detail from the signature of a call, as in older sessions.
fn sealed_detail(signature: &str) -> Option<Value> {
    let detail: Value = serde_json::from_str(signature).ok()?;
    let given = |key: &str| detail[key].as_str().is_some_and(|text| !text.is_empty());
    (is_detail(&detail) && detail["type"] == "reasoning.encrypted" && given("id") && given("data")).then_some(detail)
}

/// Returns whether a value is a reasoning detail that can be sent back.
pub(super) fn is_detail(detail: &Value) -> bool {
    let text = |key: &str| detail.get(key).is_some_and(Value::is_string);
    let text_or_nothing = |key: &str| detail.get(key).is_none_or(|value| value.is_null() || value.is_string());
    let common = text_or_nothing("id")
        && detail.get("format").is_none_or(Value::is_string)
        && detail.get("index").is_none_or(Value::is_number);
    detail.is_object()
        && common
        && match detail["type"].as_str() {
            Some("reasoning.summary") => text("summary"),
            Some("reasoning.encrypted") => text("data"),
            Some("reasoning.text") => text("text") && text_or_nothing("signature"),
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(model: &Model, messages: Vec<RequestMessage>) -> Vec<Value> {
        super::messages(model, &Request { messages, ..Request::default() })
    }

    #[test]
    fn an_empty_message_is_not_sent() {
        let user = |blocks: &[&str]| {
            RequestMessage::User(blocks.iter().map(|text| Block::text(*text)).collect::<Vec<_>>().into())
        };
        let model = Model::new("p", "m", "openai-completions");
        let sent = sent(&model, vec![user(&["hi"]), user(&[""]), user(&[])]);
        assert_eq!(sent, [json!({"role": "user", "content": [{"type": "text", "text": "hi"}]})]);
    }

    #[test]
    fn an_id_of_another_api_becomes_one_that_fits_and_stays_unique() {
        let model = Model::new("p", "m", "openai-completions");
        assert_eq!(call_id(&model, "call_1|fc_2"), "call_1_fc_2");
        let (one, other) =
            (call_id(&model, &format!("c|{}", "a".repeat(99))), call_id(&model, &format!("c|{}", "b".repeat(99))));
        assert!(one != other && one.starts_with("c_") && one.len() <= MAX_ID_CHARS, "{one} {other}");
        assert_eq!(call_id(&Model::new("openai", "m", "a"), &"x".repeat(50)).len(), MAX_ID_CHARS);
    }

    #[test]
    fn compatibility_is_detected_by_name_and_address() {
        let at = |provider: &str, url: &str| {
            Model::new(provider, "m", "openai-completions").with("baseUrl", url).with("maxTokens", 9)
        };
        let body =
            |model: &Model| body(model, &Request { session: Some("s".into()), ..Request::default() }, Retention::Short);
        let own = body(&at("openai", "https://api.openai.com/v1"));
        assert_eq!(
            (&own["store"], &own["max_completion_tokens"], &own["prompt_cache_key"]),
            (&json!(false), &json!(9), &json!("s"))
        );
        let deep = body(&at("mine", "https://api.deepseek.com"));
        assert_eq!(
            (&deep["store"], &deep["max_tokens"], &deep["prompt_cache_key"]),
            (&Value::Null, &json!(9), &Value::Null)
        );
    }
}
