//! Writes the request body in the form that Google's client accepts, which extensions see, and converts it to the wire form.

use crate::message::{Block, Content};
use crate::provider::adapt::{CALL_SIGNATURE, TEXT_SIGNATURE, adapt, cut, lines, plain_id};
use crate::provider::openai::effort;
use crate::provider::{Model, Origin, Request, RequestMessage, ToolDescription, marked};
use serde_json::{Map, Value, json};

/// Maximum length of a call id, in characters.
const MAX_ID_CHARS: usize = 64;
/// Members of `config` that are top-level on the wire; all others become `generationConfig`.
const BESIDE: [&str; 6] =
    ["systemInstruction", "safetySettings", "tools", "toolConfig", "cachedContent", "serviceTier"];
/// Members of `config` that are not sent.
const KEPT: [&str; 2] = ["abortSignal", "httpOptions"];

pub(super) fn body(model: &Model, request: &Request) -> Value {
    let mut config = Map::new();
    let mut put = |key: &str, value: Value| config.insert(key.to_owned(), value);
    if let Some(tokens) = request.room(model) {
        put("maxOutputTokens", json!(tokens));
    }
    if !request.system.is_empty() {
        put("systemInstruction", json!(request.system));
    }
    if !request.tools.is_empty() {
        let tool = |tool: &ToolDescription| json!({"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.parameters});
        let declared: Vec<Value> = request.tools.iter().map(tool).collect();
        put("tools", json!([{"functionDeclarations": declared}]));
    }
    if model.reasoning() {
        put("thinkingConfig", thinking(model, request.thinking.as_deref()));
    }
    // Google's client has an abort signal here; it is empty when serialised.
    put("abortSignal", json!({}));
    json!({"model": model.id, "contents": contents(model, &request.messages), "config": config})
}

/// Converts the body to the wire form.
pub(super) fn wire(body: Value) -> Value {
    let Value::Object(mut body) = body else { return body };
    let contents = body.shift_remove("contents").unwrap_or_else(|| json!([]));
    let contents = contents.as_array().map(|list| list.iter().map(content).collect());
    let mut out = Map::from_iter([("contents".to_owned(), contents.unwrap_or(Value::Null))]);
    let Some(Value::Object(mut config)) = body.shift_remove("config") else { return Value::Object(out) };
    for key in BESIDE {
        let Some(value) = config.shift_remove(key) else { continue };
        let value = match value {
            Value::String(text) if key == "systemInstruction" => json!({"parts": [{"text": text}], "role": "user"}),
            other => other,
        };
        out.insert(key.to_owned(), value);
    }
    config.retain(|key, value| !KEPT.contains(&key.as_str()) && !value.is_null());
    if !config.is_empty() {
        out.insert("generationConfig".to_owned(), Value::Object(config));
    }
    Value::Object(out)
}

/// Orders the members as Google's client does.
fn content(content: &Value) -> Value {
    let ordered = |value: &Value, first: &[&str]| match value {
        Value::Object(members) => {
            let known = first.iter().filter_map(|key| Some(((*key).to_owned(), members.get(*key)?.clone())));
            let others = members.iter().filter(|(key, _)| !first.contains(&key.as_str()));
            Value::Object(known.chain(others.map(|(key, value)| (key.clone(), value.clone()))).collect())
        }
        other => other.clone(),
    };
    let part = |part: &Value| {
        let mut part = ordered(part, &["functionCall", "functionResponse", "inlineData", "text", "thought"]);
        for (key, first) in [("functionCall", ["args", "id"]), ("inlineData", ["data", "mimeType"])] {
            if let Some(member) = part.get_mut(key) {
                *member = ordered(member, &first);
            }
        }
        part
    };
    let mut content = ordered(content, &["parts", "role"]);
    if let Some(parts) = content.get_mut("parts").and_then(Value::as_array_mut) {
        for one in parts {
            *one = part(one);
        }
    }
    content
}

/// Returns the thinking configuration: a level for some models, a token count for others.
fn thinking(model: &Model, level: Option<&str>) -> Value {
    let level = level.map(|level| model.clamp_thinking(level)).filter(|level| *level != "off");
    let named = |level: &str| model.mapped_level(level).unwrap_or(level).to_uppercase();
    match level {
        Some(level) if by_level(&model.id) => json!({"includeThoughts": true, "thinkingLevel": named(level)}),
        Some(level) => json!({"includeThoughts": true, "thinkingBudget": budget(&model.id, level)}),
        None if by_level(&model.id) && model.clamp_thinking("off") != "off" => {
            json!({"thinkingLevel": named(model.clamp_thinking("off"))})
        }
        None => json!({"thinkingBudget": 0}),
    }
}

fn by_level(id: &str) -> bool {
    let id = id.to_lowercase();
    let third = id.split("gemini-3").skip(1).any(|rest| {
        // Accepts `-pro` and `.1-pro`, with an optional minor version.
        let rest = match rest.strip_prefix('.') {
            Some(minor) => minor.trim_start_matches(|c: char| c.is_ascii_digit()),
            None => rest,
        };
        rest.starts_with("-pro") || rest.starts_with("-flash")
    });
    third
        || matches!(id.as_str(), "gemini-flash-latest" | "gemini-flash-lite-latest")
        || id.contains("gemma-4")
        || id.contains("gemma4")
}

/// Returns the number of thinking tokens; -1 lets an unknown model choose.
fn budget(id: &str, level: &str) -> i64 {
    let (least, most) = match () {
        () if id.contains("2.5-pro") => (128, 32_768),
        () if id.contains("2.5-flash-lite") => (512, 24_576),
        () if id.contains("2.5-flash") => (128, 24_576),
        () => return -1,
    };
    match level {
        "minimal" => least,
        "low" | "medium" => i64::try_from(effort::budget(level)).expect("the budget fits into an `i64`"),
        _ => most,
    }
}

/// Returns the major version of a Gemini model.
fn version(id: &str) -> Option<u32> {
    let id = id.to_lowercase();
    let rest = id.strip_prefix("gemini-")?;
    let rest = rest.strip_prefix("live-").unwrap_or(rest);
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// Returns whether the model matches results to calls by id.
fn has_ids(id: &str) -> bool {
    id.starts_with("claude-") || id.starts_with("gpt-oss-") || version(id).is_some_and(|version| version >= 3)
}

fn contents(model: &Model, messages: &[RequestMessage]) -> Vec<Value> {
    let ids = has_ids(&model.id);
    let rename = |id: &str, _: &Origin| if ids { cut(&plain_id(id), MAX_ID_CHARS) } else { id.to_owned() };
    let mut out: Vec<Value> = Vec::new();
    for message in adapt(messages, model, rename) {
        let mut say = |role: &str, parts: Vec<Value>| {
            if !parts.is_empty() {
                out.push(json!({"role": role, "parts": parts}));
            }
        };
        match &message {
            RequestMessage::User(Content::Text(text)) => say("user", vec![json!({"text": text})]),
            RequestMessage::User(Content::Blocks(blocks)) => say("user", blocks.iter().filter_map(given).collect()),
            RequestMessage::System(text) => say("user", vec![json!({"text": marked(text)})]),
            RequestMessage::Assistant { content, origin } => {
                let own = origin.provider == model.provider && origin.model == model.id;
                say("model", content.iter().filter_map(|block| part(block, own, ids)).collect());
            }
            RequestMessage::ToolResult { tool_call_id, tool_name, content, is_error } => {
                let images: Vec<Value> =
                    content.iter().filter(|block| matches!(block, Block::Image { .. })).filter_map(given).collect();
                let text = match lines(content) {
                    text if text.is_empty() && !images.is_empty() => "(see attached image)".to_owned(),
                    text => text,
                };
                let response = json!({(if *is_error { "error" } else { "output" }): text});
                let mut answer = json!({"name": tool_name, "response": response});
                let inside = version(&model.id).is_none_or(|version| version >= 3);
                if inside && !images.is_empty() {
                    answer["parts"] = json!(images);
                }
                if ids {
                    answer["id"] = json!(tool_call_id);
                }
                let answer = json!({"functionResponse": answer});
                // Results of the calls of one reply belong in one turn.
                let is_answer = |part: &Value| part.get("functionResponse").is_some();
                let last =
                    out.last_mut().filter(|last| last["role"] == "user").and_then(|last| last["parts"].as_array_mut());
                match last.filter(|parts| parts.iter().any(is_answer)) {
                    Some(parts) => parts.push(answer),
                    None => out.push(json!({"role": "user", "parts": [answer]})),
                }
                if !inside && !images.is_empty() {
                    let parts: Vec<Value> =
                        std::iter::once(json!({"text": "Tool result image:"})).chain(images).collect();
                    out.push(json!({"role": "user", "parts": parts}));
                }
            }
        }
    }
    out
}

/// Converts a block that the model reads.
fn given(block: &Block) -> Option<Value> {
    match block {
        Block::Text(block) => Some(json!({"text": block.text})),
        Block::Image { data, mime_type } => Some(json!({"inlineData": {"mimeType": mime_type, "data": data}})),
        _ => None,
    }
}

/// Converts a block that a model wrote. A signed block is kept even if its text is empty.
fn part(block: &Block, own: bool, ids: bool) -> Option<Value> {
    let usable = |signature: Option<&str>| signature.filter(|text| own && is_signature(text)).map(str::to_owned);
    let signed = |mut part: Value, signature: Option<String>| {
        if let Some(signature) = signature {
            part["thoughtSignature"] = json!(signature);
        }
        part
    };
    match block {
        Block::Text(block) => {
            let signature = usable(block.extra.get(TEXT_SIGNATURE).and_then(Value::as_str));
            let says = !block.text.trim().is_empty() || signature.is_some();
            says.then(|| signed(json!({"text": block.text}), signature))
        }
        Block::Thinking(block) => {
            let signature = usable(block.thinking_signature.as_deref());
            let says = !block.thinking.trim().is_empty() || signature.is_some();
            let part =
                if own { json!({"thought": true, "text": block.thinking}) } else { json!({"text": block.thinking}) };
            says.then(|| signed(part, signature))
        }
        Block::ToolCall(call) => {
            let args = if call.arguments.is_null() { json!({}) } else { call.arguments.clone() };
            let mut said = json!({"name": call.name, "args": args});
            if ids {
                said["id"] = json!(call.id);
            }
            Some(signed(json!({"functionCall": said}), usable(call.extra.get(CALL_SIGNATURE).and_then(Value::as_str))))
        }
        Block::Image { .. } | Block::Other(_) => None,
    }
}

/// Returns whether a signature belongs to this API, which uses base64 and rejects others, such as items of the Responses API.
fn is_signature(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    !body.is_empty() && text.len().is_multiple_of(4) && text.len() - body.len() <= 2 && body.bytes().all(is_base64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_with_thinking_levels_are_recognised_by_name() {
        for (id, takes) in [
            ("gemini-3-flash-preview", true),
            ("models/gemini-3.1-pro", true),
            ("gemini-2.5-flash", false),
            ("gemini-30-pro", false),
            ("gemini-flash-latest", true),
            ("gemma4-9b", true),
        ] {
            assert_eq!(by_level(id), takes, "{id}");
        }
        assert_eq!(
            (version("gemini-live-3.5"), version("gemini-2.5-pro"), version("gemma-4")),
            (Some(3), Some(2), None)
        );
    }

    #[test]
    fn members_added_by_a_handler_are_sent_as_by_the_client() {
        let body = json!({"model": "m", "contents": [{"role": "user", "parts": []}],
            "config": {"temperature": 0.5, "systemInstruction": "S", "safetySettings": [1], "abortSignal": {}}});
        assert_eq!(
            wire(body),
            json!({"contents": [{"parts": [], "role": "user"}], "systemInstruction": {"parts": [{"text": "S"}], "role": "user"},
                "safetySettings": [1], "generationConfig": {"temperature": 0.5}})
        );
    }
}
