//! `openai/NAME`: chat completions over server-sent events, as OpenAI and the many compatible
//! servers speak it.
//!
//! A system message may stand anywhere, so an injection goes in as one. Reasoning arrives as
//! `reasoning_content` or `reasoning`, whichever the server uses.

use super::http::{Access, Decode, Endpoint, HttpOptions, secret};
use super::surrogates::{Joiner, Wtf8};
use super::{
    ErrorKind, Model, Outgoing, Provider, ProviderError, ProviderEvent, ProviderOptions, ProviderStream, Request,
    RequestMessage, effort,
};
use crate::ambient::Ambient;
use crate::message::{Block, StopReason, Usage};
use reqwest::header::{AUTHORIZATION, HeaderMap};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tokio_util::sync::CancellationToken;

const BASE_URL: &str = "https://api.openai.com/v1";

/// A model behind a chat completions endpoint.
#[derive(Debug)]
pub struct OpenAi {
    model: Model,
    endpoint: Endpoint,
}

impl OpenAi {
    /// Fails without a key, unless another base URL is given: local servers need none.
    pub fn new(id: &str, options: &ProviderOptions, ambient: &Ambient) -> Result<Self, ProviderError> {
        if options.openai_key.is_none() && options.base_url.is_none() {
            return Err(ProviderError::new(ErrorKind::Auth, format!("no key for openai/{id}"))
                .with_help("set OPENAI_API_KEY, or name a server that needs none with --base-url"));
        }
        let base = options.base_url.as_deref().unwrap_or(BASE_URL);
        let model = Model::new("openai", id, "openai-completions").with("baseUrl", base);
        let access = Access { key: options.openai_key.clone(), headers: HeaderMap::new() };
        Self::over(model, access, &options.http, ambient)
    }

    /// Any model behind a chat completions endpoint.
    pub fn over(model: Model, access: Access, options: &HttpOptions, ambient: &Ambient) -> Result<Self, ProviderError> {
        let mut headers = access.headers;
        if let Some(key) = &access.key {
            headers.insert(AUTHORIZATION, secret(&format!("Bearer {key}"), &model)?);
        }
        let base = model.base_url().unwrap_or(BASE_URL).trim_end_matches('/');
        let url = format!("{base}/chat/completions");
        Ok(Self { model, endpoint: Endpoint::new(url, headers, options, ambient)? })
    }
}

impl Provider for OpenAi {
    fn model(&self) -> &Model {
        &self.model
    }

    fn payload(&self, request: &Request) -> Value {
        let mut body = json!({
            "model": self.model.id,
            "messages": messages(request),
            "stream": true,
        });
        if self.model.compat("supportsUsageInStreaming").and_then(Value::as_bool).unwrap_or(true) {
            body["stream_options"] = json!({"include_usage": true});
        }
        effort::put(&self.model, request.thinking.as_deref(), &mut body);
        if let Some(tokens) = request.max_tokens {
            let field = self.model.compat("maxTokensField").and_then(Value::as_str);
            body[field.unwrap_or("max_completion_tokens")] = json!(tokens);
        }
        if !request.tools.is_empty() {
            body["tools"] = request
                .tools
                .iter()
                .map(|tool| {
                    let function =
                        json!({"name": tool.name, "description": tool.description, "parameters": tool.parameters});
                    json!({"type": "function", "function": function})
                })
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

fn messages(request: &Request) -> Vec<Value> {
    let mut out = Vec::new();
    if !request.system.is_empty() {
        out.push(json!({"role": "system", "content": request.system}));
    }
    // A tool message holds text only: its images follow the batch of results as a user message.
    let mut images: Vec<Value> = Vec::new();
    for message in &request.messages {
        if !matches!(message, RequestMessage::ToolResult { .. }) && !images.is_empty() {
            out.push(json!({"role": "user", "content": std::mem::take(&mut images)}));
        }
        match message {
            RequestMessage::System(text) => out.push(json!({"role": "system", "content": text})),
            // A message with nothing in it says nothing; some servers refuse it.
            RequestMessage::User(blocks) => {
                out.extend(user_content(blocks).map(|content| json!({"role": "user", "content": content})));
            }
            RequestMessage::Assistant(blocks) => out.push(assistant(blocks)),
            RequestMessage::ToolResult { tool_call_id, content, .. } => {
                images.extend(content.iter().filter_map(image));
                out.push(json!({"role": "tool", "tool_call_id": tool_call_id, "content": text_of(content)}));
            }
        }
    }
    if !images.is_empty() {
        out.push(json!({"role": "user", "content": images}));
    }
    out
}

fn user_content(blocks: &[Block]) -> Option<Value> {
    if !blocks.iter().any(|block| matches!(block, Block::Image { .. })) {
        return Some(text_of(blocks)).filter(|text| !text.is_empty()).map(Value::String);
    }
    let parts = blocks.iter().filter_map(|block| match block.as_text() {
        Some(text) => (!text.is_empty()).then(|| json!({"type": "text", "text": text})),
        None => image(block),
    });
    Some(parts.collect())
}

fn image(block: &Block) -> Option<Value> {
    match block {
        Block::Image { data, mime_type } => {
            Some(json!({"type": "image_url", "image_url": {"url": format!("data:{mime_type};base64,{data}")}}))
        }
        _ => None,
    }
}

fn assistant(blocks: &[Block]) -> Value {
    let text: String = blocks.iter().filter_map(Block::as_text).collect();
    let calls: Vec<Value> = blocks
        .iter()
        .filter_map(|block| match block {
            Block::ToolCall(call) => Some(json!({
                "id": call.id, "type": "function",
                "function": {"name": call.name, "arguments": call.arguments.to_string()},
            })),
            _ => None,
        })
        .collect();
    let content = if text.is_empty() && !calls.is_empty() { Value::Null } else { Value::String(text) };
    let mut message = json!({"role": "assistant", "content": content});
    if !calls.is_empty() {
        message["tool_calls"] = Value::Array(calls);
    }
    message
}

fn text_of(blocks: &[Block]) -> String {
    blocks.iter().filter_map(Block::as_text).collect::<Vec<_>>().join("\n")
}

#[derive(Deserialize)]
struct ChunkBody {
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<UsageBody>,
    error: Option<ErrorBody>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    index: u32,
    #[serde(default)]
    delta: DeltaBody,
    finish_reason: Option<String>,
}

#[derive(Default, Deserialize)]
struct DeltaBody {
    content: Option<Wtf8>,
    reasoning_content: Option<Wtf8>,
    reasoning: Option<Wtf8>,
    #[serde(default)]
    tool_calls: Option<Vec<CallBody>>,
}

#[derive(Deserialize)]
struct CallBody {
    #[serde(default)]
    index: u32,
    id: Option<String>,
    function: Option<FunctionBody>,
}

#[derive(Deserialize)]
struct FunctionBody {
    name: Option<String>,
    arguments: Option<Wtf8>,
}

#[derive(Deserialize)]
struct UsageBody {
    #[serde(default)]
    prompt_tokens: u64,
    #[serde(default)]
    completion_tokens: u64,
    prompt_tokens_details: Option<PromptDetails>,
}

#[derive(Deserialize)]
struct PromptDetails {
    #[serde(default)]
    cached_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct ErrorBody {
    message: Option<String>,
}

#[derive(Default)]
struct Decoder {
    text: Joiner,
    thinking: Joiner,
    calls: BTreeMap<u32, Joiner>,
    stop: Option<StopReason>,
}

impl Decode for Decoder {
    fn event(&mut self, data: &str, out: &mut Vec<ProviderEvent>) -> Result<(), ProviderError> {
        if data.trim() == "[DONE]" {
            return self.end(out);
        }
        let chunk: ChunkBody = serde_json::from_str(data).map_err(|error| {
            ProviderError::new(ErrorKind::Malformed, format!("a chat completion chunk that cannot be read: {error}"))
        })?;
        if let Some(error) = chunk.error {
            let message = error.message.unwrap_or_else(|| "the provider reported an error".to_owned());
            return Err(ProviderError::new(ErrorKind::Provider, message));
        }
        for choice in chunk.choices.into_iter().filter(|choice| choice.index == 0) {
            self.delta(choice.delta, out);
            if let Some(reason) = choice.finish_reason {
                self.stop = Some(match reason.as_str() {
                    "length" => StopReason::Length,
                    "tool_calls" | "function_call" => StopReason::ToolUse,
                    "content_filter" => {
                        return Err(ProviderError::new(
                            ErrorKind::Provider,
                            "the provider's content filter ended the reply",
                        ));
                    }
                    _ => StopReason::Stop,
                });
            }
        }
        if let Some(usage) = chunk.usage {
            let cached = usage.prompt_tokens_details.and_then(|details| details.cached_tokens).unwrap_or(0);
            out.push(ProviderEvent::Usage(Usage {
                input: usage.prompt_tokens.saturating_sub(cached),
                output: usage.completion_tokens,
                cache_read: cached,
                total_tokens: usage.prompt_tokens + usage.completion_tokens,
                ..Usage::default()
            }));
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<ProviderEvent>) -> Result<(), ProviderError> {
        let Some(stop) = self.stop else {
            return Err(ProviderError::cut_short());
        };
        out.extend(self.thinking.finish().map(ProviderEvent::Thinking));
        out.extend(self.text.finish().map(ProviderEvent::Text));
        for (index, call) in &mut self.calls {
            out.extend(call.finish().map(|arguments| ProviderEvent::ToolCall {
                index: *index,
                id: None,
                name: None,
                arguments,
            }));
        }
        out.push(ProviderEvent::Done(stop));
        Ok(())
    }
}

impl Decoder {
    fn delta(&mut self, delta: DeltaBody, out: &mut Vec<ProviderEvent>) {
        if let Some(piece) = delta.reasoning_content.or(delta.reasoning) {
            push(self.thinking.push(&piece), ProviderEvent::Thinking, out);
        }
        if let Some(piece) = delta.content {
            push(self.text.push(&piece), ProviderEvent::Text, out);
        }
        for call in delta.tool_calls.into_iter().flatten() {
            let first = !self.calls.contains_key(&call.index);
            let joiner = self.calls.entry(call.index).or_default();
            let (name, piece) = call.function.map_or((None, None), |function| (function.name, function.arguments));
            let arguments = piece.map(|piece| joiner.push(&piece)).unwrap_or_default();
            if first || !arguments.is_empty() {
                let (id, name) = if first { (call.id, name) } else { (None, None) };
                out.push(ProviderEvent::ToolCall { index: call.index, id, name, arguments });
            }
        }
    }
}

fn push(text: String, event: fn(String) -> ProviderEvent, out: &mut Vec<ProviderEvent>) {
    if !text.is_empty() {
        out.push(event(text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let request = Request { messages: vec![user(&["hi"]), user(&[""]), user(&[])], ..Request::default() };
        assert_eq!(messages(&request), [json!({"role": "user", "content": "hi"})]);
    }

    #[test]
    fn interleaved_tool_calls_are_told_apart_by_index() {
        let out = decode(&[
            r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"ls","arguments":""}}]}}]}"#,
            r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"b","function":{"name":"read","arguments":"{"}}]}}]}"#,
            r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}},{"index":1,"function":{"arguments":"}"}}]}}]}"#,
            r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#,
            "[DONE]",
        ])
        .unwrap();
        let call = |index, id: Option<&str>, name: Option<&str>, arguments: &str| ProviderEvent::ToolCall {
            index,
            id: id.map(str::to_owned),
            name: name.map(str::to_owned),
            arguments: arguments.to_owned(),
        };
        assert_eq!(
            out,
            [
                call(0, Some("a"), Some("ls"), ""),
                call(1, Some("b"), Some("read"), "{"),
                call(0, None, None, "{}"),
                call(1, None, None, "}"),
                ProviderEvent::Done(StopReason::ToolUse),
            ]
        );
    }

    #[test]
    fn a_pair_split_over_two_chunks_is_joined() {
        let out = decode(&[
            r#"{"choices":[{"delta":{"content":"a\ud83d"}}]}"#,
            r#"{"choices":[{"delta":{"content":"\ude00"}}],"usage":null}"#,
            r#"{"choices":[{"delta":{"reasoning_content":"hm"},"finish_reason":"stop"}]}"#,
        ])
        .unwrap();
        let text = |text: &str| ProviderEvent::Text(text.to_owned());
        assert_eq!(out, [text("a"), text("😀"), ProviderEvent::Thinking("hm".to_owned())]);
    }

    #[test]
    fn a_reply_without_a_finish_reason_is_incomplete() {
        let error = decode(&[r#"{"choices":[{"delta":{"content":"a"}}]}"#, "[DONE]"]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Network);
    }

    #[test]
    fn json_that_is_cut_anywhere_is_malformed() {
        let whole = r#"{"choices":[{"delta":{"content":"ab"}}]}"#;
        for cut in 1..whole.len() {
            assert_eq!(decode(&[&whole[..cut]]).unwrap_err().kind(), ErrorKind::Malformed, "cut at {cut}");
        }
    }
}
