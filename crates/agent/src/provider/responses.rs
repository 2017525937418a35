//! The Responses API of OpenAI and of servers like it, over server-sent events.
//!
//! Nothing is kept on the server (`store: false`): reasoning comes back encrypted, is kept as the signature of its
//! thinking block, and goes out again as it came. A tool call's id is pi's, `CALL|ITEM`.

use super::http::{Access, Decode, Endpoint, HttpOptions, secret};
use super::surrogates::{Joiner, Wtf8};
use super::{
    ErrorKind, Model, Outgoing, Provider, ProviderError, ProviderEvent, ProviderStream, Request, RequestMessage,
};
use crate::ambient::Ambient;
use crate::message::{Block, StopReason, Usage};
use reqwest::header::AUTHORIZATION;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use tokio_util::sync::CancellationToken;

const BASE_URL: &str = "https://api.openai.com/v1";
/// The API takes no lower limit.
const FEWEST_TOKENS: u64 = 16;

/// A model behind the Responses API.
#[derive(Debug)]
pub struct Responses {
    model: Model,
    endpoint: Endpoint,
}

impl Responses {
    /// Any model behind the Responses API.
    ///
    /// # Errors
    ///
    /// When the key cannot be a header.
    pub fn over(model: Model, access: Access, options: &HttpOptions, ambient: &Ambient) -> Result<Self, ProviderError> {
        let mut headers = access.headers;
        if let Some(key) = &access.key {
            headers.insert(AUTHORIZATION, secret(&format!("Bearer {key}"), &model)?);
        }
        let base = model.base_url().unwrap_or(BASE_URL).trim_end_matches('/');
        let url = format!("{base}/responses");
        Ok(Self { model, endpoint: Endpoint::new(url, headers, options, ambient)? })
    }

    /// Who speaks for the system: reasoning models call it the developer.
    fn system_role(&self) -> &'static str {
        let developer = self.model.compat("supportsDeveloperRole").and_then(Value::as_bool).unwrap_or(true);
        if self.model.reasoning() && developer { "developer" } else { "system" }
    }

    fn input(&self, request: &Request) -> Vec<Value> {
        let mut out = Vec::new();
        let system = |text: &str| json!({"role": self.system_role(), "content": text});
        if !request.system.is_empty() {
            out.push(system(&request.system));
        }
        for message in &request.messages {
            match message {
                RequestMessage::System(text) => out.push(system(text)),
                RequestMessage::User(blocks) => {
                    let content: Vec<Value> = blocks.iter().filter_map(part).collect();
                    if !content.is_empty() {
                        out.push(json!({"role": "user", "content": content}));
                    }
                }
                RequestMessage::Assistant(blocks) => out.extend(blocks.iter().filter_map(item)),
                RequestMessage::ToolResult { tool_call_id, content, .. } => {
                    let call = tool_call_id.split('|').next().unwrap_or_default();
                    out.push(json!({"type": "function_call_output", "call_id": call, "output": output(content)}));
                }
            }
        }
        out
    }
}

impl Provider for Responses {
    fn model(&self) -> &Model {
        &self.model
    }

    fn payload(&self, request: &Request) -> Value {
        let mut body = json!({"model": self.model.id, "input": self.input(request), "stream": true, "store": false});
        let limited = self.model.compat("supportsMaxOutputTokens").and_then(Value::as_bool).unwrap_or(true);
        if let Some(tokens) = request.max_tokens.filter(|_| limited) {
            body["max_output_tokens"] = json!(tokens.max(FEWEST_TOKENS));
        }
        if !request.tools.is_empty() {
            let tool = |tool: &super::ToolDescription| {
                json!({"type": "function", "name": tool.name, "description": tool.description,
                    "parameters": tool.parameters, "strict": false})
            };
            body["tools"] = request.tools.iter().map(tool).collect();
        }
        if self.model.reasoning() {
            let can_rest = self.model.thinking_levels().contains(&"off") && self.model.provider != "github-copilot";
            match request.thinking.as_deref() {
                Some(level) => {
                    body["reasoning"] = json!({"effort": self.model.thinking_value(level), "summary": "auto"});
                    body["include"] = json!(["reasoning.encrypted_content"]);
                }
                None if can_rest => {
                    let off = self.model.thinking_value("off");
                    body["reasoning"] = json!({"effort": if off == "off" { "none" } else { off }});
                }
                None => {}
            }
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

/// A block that the model reads.
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

/// What a tool said: text alone is a string.
fn output(blocks: &[Block]) -> Value {
    if blocks.iter().any(|block| matches!(block, Block::Image { .. })) {
        return blocks.iter().filter_map(part).collect();
    }
    Value::String(blocks.iter().filter_map(Block::as_text).collect::<Vec<_>>().join("\n"))
}

/// A block that the model wrote.
fn item(block: &Block) -> Option<Value> {
    match block {
        Block::Text(block) => (!block.text.is_empty()).then(
            || json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": block.text, "annotations": []}]}),
        ),
        // A signature of another API is no item.
        Block::Thinking(block) => serde_json::from_str::<Map<String, Value>>(block.thinking_signature.as_ref()?)
            .ok()
            .filter(|item| item.get("type").and_then(Value::as_str) == Some("reasoning"))
            .map(Value::Object),
        Block::ToolCall(call) => {
            let (call_id, item_id) = call.id.split_once('|').unwrap_or((&call.id, ""));
            let mut value = json!({"type": "function_call", "call_id": call_id, "name": call.name,
                "arguments": call.arguments.to_string()});
            if item_id.starts_with("fc_") {
                value["id"] = json!(item_id);
            }
            Some(value)
        }
        _ => None,
    }
}

#[derive(Deserialize)]
struct EventBody {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    output_index: u32,
    delta: Option<Wtf8>,
    item: Option<Value>,
    response: Option<ResponseBody>,
    code: Option<Value>,
    message: Option<String>,
}

#[derive(Deserialize)]
struct ResponseBody {
    status: Option<String>,
    usage: Option<UsageBody>,
    error: Option<ErrorBody>,
    incomplete_details: Option<Incomplete>,
}

#[derive(Deserialize)]
struct Incomplete {
    reason: Option<String>,
}

#[derive(Deserialize)]
struct ErrorBody {
    code: Option<Value>,
    message: Option<String>,
}

#[derive(Deserialize)]
struct UsageBody {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
    #[serde(default)]
    total_tokens: u64,
    input_tokens_details: Option<InputDetails>,
}

#[derive(Deserialize)]
struct InputDetails {
    #[serde(default)]
    cached_tokens: u64,
    #[serde(default)]
    cache_write_tokens: u64,
}

/// What an open output item is.
enum Open {
    Text { joiner: Joiner, any: bool },
    Thinking { joiner: Joiner, any: bool },
    Call { joiner: Joiner, any: bool },
}

#[derive(Default)]
struct Decoder {
    open: BTreeMap<u32, Open>,
    /// Reasoning of which a part is complete: a blank line stands before the next one.
    gaps: BTreeSet<u32>,
    called: bool,
}

impl Decode for Decoder {
    fn event(&mut self, data: &str, out: &mut Vec<ProviderEvent>) -> Result<(), ProviderError> {
        let event: EventBody = serde_json::from_str(data).map_err(|error| {
            ProviderError::new(ErrorKind::Malformed, format!("a Responses event that cannot be read: {error}"))
        })?;
        match event.kind.as_str() {
            "response.output_item.added" => self.begin(event.output_index, event.item.unwrap_or_default(), out),
            "response.output_text.delta"
            | "response.refusal.delta"
            | "response.reasoning_summary_text.delta"
            | "response.reasoning_text.delta"
            | "response.function_call_arguments.delta" => {
                self.delta(event.output_index, &event.delta.unwrap_or_default(), out);
            }
            "response.reasoning_summary_part.done" => self.gaps.extend([event.output_index]),
            "response.output_item.done" => self.end_item(event.output_index, event.item.unwrap_or_default(), out),
            "response.completed" | "response.incomplete" => {
                let response = event.response.ok_or_else(|| malformed("a response that is complete and not there"))?;
                return self.complete(response, out);
            }
            "response.failed" => {
                let response = event.response;
                let reason =
                    response.as_ref().and_then(|response| response.incomplete_details.as_ref()?.reason.clone());
                let said = match response.and_then(|response| response.error) {
                    Some(error) => said(error.code, error.message),
                    None => reason.unwrap_or_else(|| "the provider reported a failure".to_owned()),
                };
                return Err(ProviderError::new(ErrorKind::Provider, said));
            }
            "error" => return Err(ProviderError::new(ErrorKind::Provider, said(event.code, event.message))),
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, _: &mut Vec<ProviderEvent>) -> Result<(), ProviderError> {
        Err(ProviderError::cut_short())
    }
}

impl Decoder {
    fn begin(&mut self, index: u32, item: Value, out: &mut Vec<ProviderEvent>) {
        let text = |key: &str| item.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let open = match text("type").as_str() {
            "message" => Open::Text { joiner: Joiner::default(), any: false },
            "reasoning" => Open::Thinking { joiner: Joiner::default(), any: false },
            "function_call" => {
                self.called = true;
                let arguments = text("arguments");
                let any = !arguments.is_empty();
                let id = match text("id") {
                    item if item.is_empty() => text("call_id"),
                    item => format!("{}|{item}", text("call_id")),
                };
                out.push(ProviderEvent::ToolCall { index, id: Some(id), name: Some(text("name")), arguments });
                Open::Call { joiner: Joiner::default(), any }
            }
            _ => return,
        };
        self.open.insert(index, open);
    }

    fn delta(&mut self, index: u32, piece: &Wtf8, out: &mut Vec<ProviderEvent>) {
        let Some(open) = self.open.get_mut(&index) else { return };
        if self.gaps.remove(&index) {
            out.push(ProviderEvent::Thinking("\n\n".to_owned()));
        }
        let (Open::Text { joiner, any } | Open::Thinking { joiner, any } | Open::Call { joiner, any }) = open;
        let text = joiner.push(piece);
        if text.is_empty() {
            return;
        }
        *any = true;
        out.push(match open {
            Open::Text { .. } => ProviderEvent::Text(text),
            Open::Thinking { .. } => ProviderEvent::Thinking(text),
            Open::Call { .. } => ProviderEvent::ToolCall { index, id: None, name: None, arguments: text },
        });
    }

    /// An item is complete. One that came without deltas is given now.
    fn end_item(&mut self, index: u32, item: Value, out: &mut Vec<ProviderEvent>) {
        if !self.open.contains_key(&index) {
            self.begin(index, item.clone(), out);
        }
        let Some(mut open) = self.open.remove(&index) else { return };
        let rest = match &mut open {
            Open::Text { joiner, .. } | Open::Thinking { joiner, .. } | Open::Call { joiner, .. } => joiner.finish(),
        };
        let texts = |list: &str| -> String {
            let parts = item.get(list).and_then(Value::as_array).into_iter().flatten();
            let text = |part: &Value| Some(part.get("text").or_else(|| part.get("refusal"))?.as_str()?.to_owned());
            parts.filter_map(text).collect::<Vec<_>>().join("\n\n")
        };
        let given = |text: String| (!text.is_empty()).then_some(text);
        match open {
            Open::Text { any, .. } => {
                let late = if any { rest } else { given(texts("content")) };
                out.extend(late.map(ProviderEvent::Text));
                out.push(ProviderEvent::BlockEnd);
            }
            Open::Thinking { any, .. } => {
                let late = if any { rest } else { given(texts("summary")).or_else(|| given(texts("content"))) };
                // Reasoning without a word has no block to carry it, and the model does without.
                if any || late.is_some() {
                    out.extend(late.map(ProviderEvent::Thinking));
                    out.push(ProviderEvent::ThinkingSignature(item.to_string()));
                    out.push(ProviderEvent::BlockEnd);
                }
            }
            Open::Call { any, .. } => {
                let arguments = || item.get("arguments").and_then(Value::as_str).unwrap_or_default().to_owned();
                if let Some(arguments) = if any { rest } else { given(arguments()) } {
                    out.push(ProviderEvent::ToolCall { index, id: None, name: None, arguments });
                }
            }
        }
    }

    fn complete(&mut self, response: ResponseBody, out: &mut Vec<ProviderEvent>) -> Result<(), ProviderError> {
        if let Some(usage) = response.usage {
            let (read, written) = usage
                .input_tokens_details
                .map_or((0, 0), |details| (details.cached_tokens, details.cache_write_tokens));
            out.push(ProviderEvent::Usage(Usage {
                input: usage.input_tokens.saturating_sub(read + written),
                output: usage.output_tokens,
                cache_read: read,
                cache_write: written,
                total_tokens: usage.total_tokens,
                ..Usage::default()
            }));
        }
        let reason = response.incomplete_details.and_then(|details| details.reason);
        let stop = match (response.status.as_deref(), reason.as_deref()) {
            (Some("incomplete"), Some("content_filter")) => {
                return Err(ProviderError::new(ErrorKind::Provider, "the provider's content filter ended the reply"));
            }
            (Some("incomplete"), _) => StopReason::Length,
            (Some("failed" | "cancelled"), _) => {
                return Err(ProviderError::new(ErrorKind::Provider, "the provider ended the reply"));
            }
            _ if self.called => StopReason::ToolUse,
            _ => StopReason::Stop,
        };
        out.push(ProviderEvent::Done(stop));
        Ok(())
    }
}

fn malformed(what: &str) -> ProviderError {
    ProviderError::new(ErrorKind::Malformed, what)
}

fn said(code: Option<Value>, message: Option<String>) -> String {
    let code = match code {
        Some(Value::String(code)) => code,
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    };
    match (code.as_str(), message) {
        ("", Some(message)) => message,
        ("", None) => "the provider reported an error".to_owned(),
        (code, Some(message)) => format!("{code}: {message}"),
        (code, None) => code.to_owned(),
    }
}
