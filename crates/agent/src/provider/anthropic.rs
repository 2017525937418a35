//! `anthropic/NAME`: the Messages API over server-sent events.
//!
//! The API has no system message in the middle of a conversation, so an injection goes in as a
//! marked user message ([`super::marked`]). Neighbouring user messages are sent as one.

use super::http::{Access, Decode, Endpoint, HttpOptions, secret};
use super::surrogates::{Joiner, Wtf8};
use super::{
    ErrorKind, Model, Outgoing, Provider, ProviderError, ProviderEvent, ProviderOptions, ProviderStream, Request,
    RequestMessage, marked,
};
use crate::ambient::Ambient;
use crate::message::{Block, StopReason, Usage};
use reqwest::header::{HeaderMap, HeaderValue};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tokio_util::sync::CancellationToken;

const BASE_URL: &str = "https://api.anthropic.com/v1";
const API_VERSION: &str = "2023-06-01";
/// The API requires a limit; every current model takes this one.
const MAX_TOKENS: u64 = 8192;
/// The least that thinking may have, and what is left for the reply.
const FEWEST_TOKENS: u64 = 1024;

/// A model behind the Messages API.
#[derive(Debug)]
pub struct Anthropic {
    model: Model,
    endpoint: Endpoint,
}

impl Anthropic {
    /// Fails without a key, unless another base URL is given.
    pub fn new(id: &str, options: &ProviderOptions, ambient: &Ambient) -> Result<Self, ProviderError> {
        if options.anthropic_key.is_none() && options.base_url.is_none() {
            return Err(ProviderError::new(ErrorKind::Auth, format!("no key for anthropic/{id}"))
                .with_help("set ANTHROPIC_API_KEY"));
        }
        let base = options.base_url.as_deref().unwrap_or(BASE_URL);
        let model = Model { system_anywhere: false, ..Model::new("anthropic", id, "anthropic-messages") };
        let access = Access { key: options.anthropic_key.clone(), headers: HeaderMap::new() };
        Self::over(model.with("baseUrl", base), access, &options.http, ambient)
    }

    /// Any model behind the Messages API.
    pub fn over(model: Model, access: Access, options: &HttpOptions, ambient: &Ambient) -> Result<Self, ProviderError> {
        let mut headers = access.headers;
        headers.insert("anthropic-version", HeaderValue::from_static(API_VERSION));
        if let Some(key) = &access.key {
            headers.insert("x-api-key", secret(key, &model)?);
        }
        let base = model.base_url().unwrap_or(BASE_URL).trim_end_matches('/');
        // Both forms of the base are in use: with and without the version.
        let url = if base.ends_with("/v1") { format!("{base}/messages") } else { format!("{base}/v1/messages") };
        let model = Model { system_anywhere: false, ..model };
        Ok(Self { model, endpoint: Endpoint::new(url, headers, options, ambient)? })
    }
}

/// Tokens for thinking, by level; the reply's limit comes on top.
fn thinking_budget(level: &str) -> u64 {
    match level {
        "minimal" => 1024,
        "low" => 2048,
        "medium" => 8192,
        "high" => 16_384,
        _ => 32_768,
    }
}

/// A level in the API's words, for models that decide by themselves how long they think.
fn effort<'a>(model: &'a Model, level: &'a str) -> &'a str {
    match model.thinking_value(level) {
        "minimal" => "low",
        named => named,
    }
}

impl Provider for Anthropic {
    fn model(&self) -> &Model {
        &self.model
    }

    fn payload(&self, request: &Request) -> Value {
        let most = self.model.max_tokens();
        let mut tokens = request.max_tokens.or(most).unwrap_or(MAX_TOKENS);
        let mut body = json!({"model": self.model.id, "messages": messages(&request.messages), "stream": true});
        if let Some(level) = request.thinking.as_deref().filter(|_| self.model.reasoning()) {
            if self.model.compat("forceAdaptiveThinking").and_then(Value::as_bool) == Some(true) {
                body["thinking"] = json!({"type": "adaptive", "display": "summarized"});
                body["output_config"] = json!({"effort": effort(&self.model, level)});
            } else {
                // Thinking comes out of the reply's tokens, of which some have to be left.
                let wanted = thinking_budget(level);
                tokens = (request.max_tokens.unwrap_or(MAX_TOKENS) + wanted).min(most.unwrap_or(u64::MAX));
                let budget = wanted.min(tokens.saturating_sub(FEWEST_TOKENS)).max(FEWEST_TOKENS);
                body["thinking"] = json!({"type": "enabled", "budget_tokens": budget});
            }
        }
        body["max_tokens"] = json!(tokens);
        if !request.system.is_empty() {
            body["system"] = json!(request.system);
        }
        if !request.tools.is_empty() {
            body["tools"] = request
                .tools
                .iter()
                .map(
                    |tool| json!({"name": tool.name, "description": tool.description, "input_schema": tool.parameters}),
                )
                .collect();
        }
        body
    }

    fn headers(&self) -> BTreeMap<String, String> {
        self.endpoint.shown_headers()
    }

    fn send(&self, outgoing: Outgoing, cancel: CancellationToken) -> ProviderStream {
        self.endpoint.send(outgoing, Decoder::default(), cancel)
    }
}

fn messages(messages: &[RequestMessage]) -> Vec<Value> {
    let mut out: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in messages {
        let (role, content) = match message {
            RequestMessage::User(blocks) => ("user", blocks.iter().filter_map(block).collect()),
            RequestMessage::System(text) => ("user", vec![json!({"type": "text", "text": marked(text)})]),
            RequestMessage::Assistant(blocks) => ("assistant", blocks.iter().filter_map(block).collect::<Vec<_>>()),
            RequestMessage::ToolResult { tool_call_id, content, is_error, .. } => {
                let content: Vec<Value> = content.iter().filter_map(block).collect();
                let result = json!({"type": "tool_result", "tool_use_id": tool_call_id, "content": content, "is_error": is_error});
                ("user", vec![result])
            }
        };
        if content.is_empty() {
            continue;
        }
        match out.last_mut() {
            Some((last, blocks)) if *last == role => blocks.extend(content),
            _ => out.push((role, content)),
        }
    }
    out.into_iter().map(|(role, content)| json!({"role": role, "content": content})).collect()
}

/// A block as the API takes it. Text that is nothing but white space is refused there, and unsigned thinking too.
fn block(block: &Block) -> Option<Value> {
    match block {
        Block::Text(block) => (!block.text.trim().is_empty()).then(|| json!({"type": "text", "text": block.text})),
        Block::Thinking(block) => block
            .thinking_signature
            .as_ref()
            // One of the Responses API is an item of its own.
            .filter(|signature| !signature.starts_with('{'))
            .map(|signature| json!({"type": "thinking", "thinking": block.thinking, "signature": signature})),
        Block::Image { data, mime_type } => {
            Some(json!({"type": "image", "source": {"type": "base64", "media_type": mime_type, "data": data}}))
        }
        Block::ToolCall(call) => {
            Some(json!({"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}))
        }
        Block::Other(_) => None,
    }
}

#[derive(Deserialize)]
struct EventBody {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    index: u32,
    message: Option<MessageBody>,
    content_block: Option<BlockBody>,
    delta: Option<DeltaBody>,
    usage: Option<UsageBody>,
    error: Option<ErrorBody>,
}

#[derive(Deserialize)]
struct MessageBody {
    usage: Option<UsageBody>,
}

#[derive(Deserialize)]
struct BlockBody {
    #[serde(rename = "type")]
    kind: String,
    id: Option<String>,
    name: Option<String>,
    text: Option<Wtf8>,
    thinking: Option<Wtf8>,
}

#[derive(Deserialize)]
struct DeltaBody {
    text: Option<Wtf8>,
    thinking: Option<Wtf8>,
    signature: Option<String>,
    partial_json: Option<Wtf8>,
    stop_reason: Option<String>,
}

#[derive(Deserialize)]
struct UsageBody {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct ErrorBody {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    message: String,
}

/// What an open content block is.
enum Open {
    Text(Joiner),
    Thinking(Joiner),
    Tool(Joiner),
    Unknown,
}

#[derive(Default)]
struct Decoder {
    open: BTreeMap<u32, Open>,
    usage: Usage,
    stop: Option<StopReason>,
}

impl Decode for Decoder {
    fn event(&mut self, data: &str, out: &mut Vec<ProviderEvent>) -> Result<(), ProviderError> {
        let event: EventBody = serde_json::from_str(data).map_err(|error| {
            ProviderError::new(ErrorKind::Malformed, format!("a Messages event that cannot be read: {error}"))
        })?;
        match event.kind.as_str() {
            "message_start" => self.count(event.message.and_then(|message| message.usage), out),
            "content_block_start" => match event.content_block {
                Some(block) => self.start(event.index, block, out),
                None => return Err(missing("content_block_start", "content_block")),
            },
            "content_block_delta" => match event.delta {
                Some(delta) => return self.delta(event.index, delta, out),
                None => return Err(missing("content_block_delta", "delta")),
            },
            "content_block_stop" => self.stop_block(event.index, out),
            "message_delta" => {
                self.count(event.usage, out);
                match event.delta.and_then(|delta| delta.stop_reason).as_deref() {
                    None => {}
                    Some("max_tokens") => self.stop = Some(StopReason::Length),
                    Some("tool_use") => self.stop = Some(StopReason::ToolUse),
                    Some("refusal") => {
                        return Err(ProviderError::new(ErrorKind::Provider, "the model refused to answer"));
                    }
                    Some(_) => self.stop = Some(StopReason::Stop),
                }
            }
            "message_stop" => match self.stop {
                Some(stop) => out.push(ProviderEvent::Done(stop)),
                None => return Err(missing("message_stop", "an earlier stop_reason")),
            },
            "error" => {
                let (kind, message) = event.error.map(|error| (error.kind, error.message)).unwrap_or_default();
                return Err(ProviderError::new(
                    ErrorKind::Provider,
                    format!("the provider reported {kind}: {message}"),
                ));
            }
            // `ping`, and what later versions add.
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, _out: &mut Vec<ProviderEvent>) -> Result<(), ProviderError> {
        Err(ProviderError::cut_short())
    }
}

impl Decoder {
    fn start(&mut self, index: u32, block: BlockBody, out: &mut Vec<ProviderEvent>) {
        let mut joiner = Joiner::default();
        let open = match block.kind.as_str() {
            "text" => {
                let text = block.text.map(|text| joiner.push(&text)).unwrap_or_default();
                push(text, ProviderEvent::Text, out);
                Open::Text(joiner)
            }
            "thinking" => {
                let text = block.thinking.map(|text| joiner.push(&text)).unwrap_or_default();
                push(text, ProviderEvent::Thinking, out);
                Open::Thinking(joiner)
            }
            "tool_use" => {
                out.push(ProviderEvent::ToolCall { index, id: block.id, name: block.name, arguments: String::new() });
                Open::Tool(joiner)
            }
            _ => Open::Unknown,
        };
        self.open.insert(index, open);
    }

    fn delta(&mut self, index: u32, delta: DeltaBody, out: &mut Vec<ProviderEvent>) -> Result<(), ProviderError> {
        let Some(open) = self.open.get_mut(&index) else {
            return Err(missing("content_block_delta", "its content_block_start"));
        };
        match open {
            Open::Text(joiner) => {
                if let Some(text) = delta.text {
                    push(joiner.push(&text), ProviderEvent::Text, out);
                }
            }
            Open::Thinking(joiner) => {
                if let Some(text) = delta.thinking {
                    push(joiner.push(&text), ProviderEvent::Thinking, out);
                }
                if let Some(signature) = delta.signature {
                    out.push(ProviderEvent::ThinkingSignature(signature));
                }
            }
            Open::Tool(joiner) => {
                let arguments = delta.partial_json.map(|piece| joiner.push(&piece)).unwrap_or_default();
                if !arguments.is_empty() {
                    out.push(ProviderEvent::ToolCall { index, id: None, name: None, arguments });
                }
            }
            Open::Unknown => {}
        }
        Ok(())
    }

    fn stop_block(&mut self, index: u32, out: &mut Vec<ProviderEvent>) {
        match self.open.remove(&index) {
            Some(Open::Text(mut joiner)) => {
                out.extend(joiner.finish().map(ProviderEvent::Text));
                out.push(ProviderEvent::BlockEnd);
            }
            Some(Open::Thinking(mut joiner)) => {
                out.extend(joiner.finish().map(ProviderEvent::Thinking));
                out.push(ProviderEvent::BlockEnd);
            }
            Some(Open::Tool(mut joiner)) => out.extend(joiner.finish().map(|arguments| ProviderEvent::ToolCall {
                index,
                id: None,
                name: None,
                arguments,
            })),
            Some(Open::Unknown) | None => {}
        }
    }

    fn count(&mut self, usage: Option<UsageBody>, out: &mut Vec<ProviderEvent>) {
        let Some(usage) = usage else { return };
        let known = &mut self.usage;
        known.input = usage.input_tokens.unwrap_or(known.input);
        known.output = usage.output_tokens.unwrap_or(known.output);
        known.cache_read = usage.cache_read_input_tokens.unwrap_or(known.cache_read);
        known.cache_write = usage.cache_creation_input_tokens.unwrap_or(known.cache_write);
        known.total_tokens = known.input + known.output + known.cache_read + known.cache_write;
        out.push(ProviderEvent::Usage(*known));
    }
}

fn missing(event: &str, what: &str) -> ProviderError {
    ProviderError::new(ErrorKind::Malformed, format!("a {event} event without {what}"))
}

fn push(text: String, event: fn(String) -> ProviderEvent, out: &mut Vec<ProviderEvent>) {
    if !text.is_empty() {
        out.push(event(text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::ToolCall;

    fn decode(events: &[&str]) -> Result<Vec<ProviderEvent>, ProviderError> {
        let mut decoder = Decoder::default();
        let mut out = Vec::new();
        for event in events {
            decoder.event(event, &mut out)?;
        }
        Ok(out)
    }

    #[test]
    fn a_message_that_says_nothing_is_not_sent() {
        let user = |blocks: &[&str]| RequestMessage::User(blocks.iter().map(|text| Block::text(*text)).collect());
        let sent = messages(&[user(&["hi"]), user(&["", " \n"]), user(&[])]);
        assert_eq!(sent, [json!({"role": "user", "content": [{"type": "text", "text": "hi"}]})]);
    }

    #[test]
    fn text_thinking_and_tool_arguments_are_told_apart() {
        let out = decode(&[
            r#"{"type":"message_start","message":{"usage":{"input_tokens":7,"output_tokens":1}}}"#,
            r#"{"type":"ping"}"#,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"sig"}}"#,
            r#"{"type":"content_block_stop","index":0}"#,
            r#"{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}"#,
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"x\ud83d"}}"#,
            r#"{"type":"content_block_stop","index":1}"#,
            r#"{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"t","name":"ls","input":{}}}"#,
            r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{}"}}"#,
            r#"{"type":"content_block_stop","index":2}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":9}}"#,
            r#"{"type":"message_stop"}"#,
        ])
        .unwrap();
        let call = |id: Option<&str>, name: Option<&str>, arguments: &str| ProviderEvent::ToolCall {
            index: 2,
            id: id.map(str::to_owned),
            name: name.map(str::to_owned),
            arguments: arguments.to_owned(),
        };
        assert_eq!(
            out[1..],
            [
                ProviderEvent::Thinking("hm".to_owned()),
                ProviderEvent::ThinkingSignature("sig".to_owned()),
                ProviderEvent::BlockEnd,
                ProviderEvent::Text("x".to_owned()),
                ProviderEvent::Text("\u{fffd}".to_owned()),
                ProviderEvent::BlockEnd,
                call(Some("t"), Some("ls"), ""),
                call(None, None, "{}"),
                ProviderEvent::Usage(Usage { input: 7, output: 9, total_tokens: 16, ..Usage::default() }),
                ProviderEvent::Done(StopReason::ToolUse),
            ]
        );
    }

    #[test]
    fn an_injection_is_a_marked_user_message_beside_the_prompt() {
        let sent = messages(&[
            RequestMessage::User(vec![Block::text("hi")]),
            RequestMessage::System("rule".to_owned()),
            RequestMessage::Assistant(vec![Block::ToolCall(ToolCall {
                id: "t".into(),
                name: "ls".into(),
                arguments: json!({}),
                ..ToolCall::default()
            })]),
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
                json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "a"}], "is_error": false}]}),
            ]
        );
    }

    #[test]
    fn a_delta_without_its_block_is_malformed() {
        let error = decode(&[r#"{"type":"content_block_delta","index":4,"delta":{"text":"x"}}"#]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed);
    }
}
