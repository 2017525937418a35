//! The Gemini API (`google-generative-ai`) over server-sent events.
//!
//! It has no system message in the middle of a conversation, so an injection goes in as a marked user message. Calls
//! have no ids of the provider's: they are numbered here. What the model signed (`thoughtSignature`) goes back with
//! the block it came with.

use super::http::{Access, Decode, Endpoint, HttpOptions, secret};
use super::surrogates::{Joiner, Wtf8};
use super::{
    ErrorKind, Model, Outgoing, Provider, ProviderError, ProviderEvent, ProviderStream, Request, RequestMessage, marked,
};
use crate::ambient::Ambient;
use crate::message::{Block, StopReason, Usage};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use tokio_util::sync::CancellationToken;

const BASE_URL: &str = "https://generativelanguage.googleapis.com/v1beta";
/// pi's name for a signature, in a block's further members.
pub(crate) const SIGNATURE: &str = "thoughtSignature";

/// A model behind the Gemini API.
#[derive(Debug)]
pub struct Google {
    model: Model,
    endpoint: Endpoint,
    /// Begins the ids of calls, so that those of two replies differ.
    run: String,
}

impl Google {
    /// Any model behind the Gemini API.
    ///
    /// # Errors
    ///
    /// When the key cannot be a header.
    pub fn over(model: Model, access: Access, options: &HttpOptions, ambient: &Ambient) -> Result<Self, ProviderError> {
        let mut headers = access.headers;
        if let Some(key) = &access.key {
            headers.insert("x-goog-api-key", secret(key, &model)?);
        }
        let base = model.base_url().unwrap_or(BASE_URL).trim_end_matches('/');
        let url = format!("{base}/models/{}:streamGenerateContent?alt=sse", model.id);
        let run = ambient.uuid_v7();
        let model = Model { system_anywhere: false, ..model };
        Ok(Self { model, endpoint: Endpoint::new(url, headers, options, ambient)?, run })
    }

    /// Gemini 3 and later take a level, those before a number of tokens.
    fn thinking(&self, level: Option<&str>) -> Option<Value> {
        if !self.model.reasoning() {
            return None;
        }
        let by_level = !["gemini-1", "gemini-2"].iter().any(|old| self.model.id.contains(old));
        Some(match level {
            Some(level) if by_level => {
                let named = self.model.thinking_value(level).to_uppercase();
                json!({"includeThoughts": true, "thinkingLevel": named})
            }
            Some(level) => json!({"includeThoughts": true, "thinkingBudget": self.budget(level)}),
            // Thinking that cannot be turned off is kept low and out of sight.
            None if by_level => json!({"thinkingLevel": self.model.clamp_thinking("minimal").to_uppercase()}),
            None if self.model.id.contains("pro") => json!({"thinkingBudget": self.budget("minimal")}),
            None => json!({"thinkingBudget": 0}),
        })
    }

    /// Tokens for thinking; the smallest and the largest differ from model to model.
    fn budget(&self, level: &str) -> u64 {
        let pro = self.model.id.contains("pro");
        match level {
            "minimal" if pro => 128,
            "minimal" => 512,
            "low" => 2048,
            "medium" => 8192,
            _ if pro => 32_768,
            _ => 24_576,
        }
    }
}

impl Provider for Google {
    fn model(&self) -> &Model {
        &self.model
    }

    fn payload(&self, request: &Request) -> Value {
        let mut body = json!({"contents": contents(&request.messages)});
        if !request.system.is_empty() {
            body["systemInstruction"] = json!({"parts": [{"text": request.system}]});
        }
        if !request.tools.is_empty() {
            let tool = |tool: &super::ToolDescription| json!({"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.parameters});
            let declared: Vec<Value> = request.tools.iter().map(tool).collect();
            body["tools"] = json!([{"functionDeclarations": declared}]);
        }
        let mut config = Map::new();
        if let Some(tokens) = request.max_tokens {
            config.insert("maxOutputTokens".to_owned(), json!(tokens));
        }
        if let Some(thinking) = self.thinking(request.thinking.as_deref()) {
            config.insert("thinkingConfig".to_owned(), thinking);
        }
        if !config.is_empty() {
            body["generationConfig"] = Value::Object(config);
        }
        body
    }

    fn headers(&self) -> BTreeMap<String, String> {
        self.endpoint.shown_headers()
    }

    fn send(&self, outgoing: Outgoing, cancel: CancellationToken) -> ProviderStream {
        // What is sent before differs from reply to reply, and so do the numbers of its calls.
        let earlier = outgoing.payload.get("contents").and_then(Value::as_array).map_or(0, Vec::len);
        let calls = format!("{}_{earlier}", self.run);
        self.endpoint.send(outgoing, Decoder { calls, ..Decoder::default() }, cancel)
    }
}

fn contents(messages: &[RequestMessage]) -> Vec<Value> {
    let mut out: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in messages {
        let (role, parts) = match message {
            RequestMessage::User(blocks) => ("user", blocks.iter().filter_map(part).collect::<Vec<_>>()),
            RequestMessage::System(text) => ("user", vec![json!({"text": marked(text)})]),
            RequestMessage::Assistant(blocks) => ("model", blocks.iter().filter_map(part).collect()),
            RequestMessage::ToolResult { tool_name, content, is_error, .. } => {
                let text = content.iter().filter_map(Block::as_text).collect::<Vec<_>>().join("\n");
                let response = json!({(if *is_error { "error" } else { "output" }): text});
                let answer = json!({"functionResponse": {"name": tool_name, "response": response}});
                let images = content.iter().filter(|block| matches!(block, Block::Image { .. })).filter_map(part);
                ("user", [answer].into_iter().chain(images).collect())
            }
        };
        if parts.is_empty() {
            continue;
        }
        match out.last_mut() {
            Some((last, all)) if *last == role => all.extend(parts),
            _ => out.push((role, parts)),
        }
    }
    out.into_iter().map(|(role, parts)| json!({"role": role, "parts": parts})).collect()
}

fn part(block: &Block) -> Option<Value> {
    let signed = |mut part: Value, signature: Option<&str>| {
        if let Some(signature) = signature.filter(|signature| is_signature(signature)) {
            part[SIGNATURE] = json!(signature);
        }
        part
    };
    match block {
        Block::Text(block) => (!block.text.trim().is_empty()).then(|| json!({"text": block.text})),
        Block::Thinking(block) => {
            let signature = block.thinking_signature.as_deref().filter(|signature| is_signature(signature))?;
            Some(signed(json!({"thought": true, "text": block.thinking}), Some(signature)))
        }
        Block::Image { data, mime_type } => Some(json!({"inlineData": {"mimeType": mime_type, "data": data}})),
        Block::ToolCall(call) => {
            let part = json!({"functionCall": {"name": call.name, "args": call.arguments}});
            Some(signed(part, call.extra.get(SIGNATURE).and_then(Value::as_str)))
        }
        Block::Other(_) => None,
    }
}

/// A signature of this API is base64; others (an item of the Responses API) are refused there.
fn is_signature(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    !body.is_empty() && text.len().is_multiple_of(4) && text.len() - body.len() <= 2 && body.bytes().all(is_base64)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ChunkBody {
    #[serde(default)]
    candidates: Vec<Candidate>,
    usage_metadata: Option<UsageBody>,
    prompt_feedback: Option<Feedback>,
    error: Option<ErrorBody>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    content: Option<ContentBody>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct ContentBody {
    #[serde(default)]
    parts: Vec<PartBody>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PartBody {
    text: Option<Wtf8>,
    #[serde(default)]
    thought: bool,
    thought_signature: Option<String>,
    function_call: Option<CallBody>,
}

#[derive(Deserialize)]
struct CallBody {
    id: Option<String>,
    #[serde(default)]
    name: String,
    #[serde(default)]
    args: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Feedback {
    block_reason: Option<String>,
}

#[derive(Deserialize)]
struct ErrorBody {
    message: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct UsageBody {
    prompt_token_count: u64,
    cached_content_token_count: u64,
    candidates_token_count: u64,
    thoughts_token_count: u64,
    total_token_count: u64,
}

#[derive(Default)]
struct Decoder {
    text: Joiner,
    thinking: Joiner,
    calls: String,
    called: u32,
    stop: Option<StopReason>,
}

impl Decode for Decoder {
    fn event(&mut self, data: &str, out: &mut Vec<ProviderEvent>) -> Result<(), ProviderError> {
        let chunk: ChunkBody = serde_json::from_str(data).map_err(|error| {
            ProviderError::new(ErrorKind::Malformed, format!("a Gemini chunk that cannot be read: {error}"))
        })?;
        let failed = |message: String| ProviderError::new(ErrorKind::Provider, message);
        if let Some(error) = chunk.error {
            return Err(failed(error.message.unwrap_or_else(|| "the provider reported an error".to_owned())));
        }
        if let Some(reason) = chunk.prompt_feedback.and_then(|feedback| feedback.block_reason) {
            return Err(failed(format!("the provider refused the prompt: {reason}")));
        }
        let reply = chunk.candidates.into_iter().next();
        let (content, reason) = reply.map_or((None, None), |reply| (reply.content, reply.finish_reason));
        for part in content.into_iter().flat_map(|content| content.parts) {
            self.part(part, out);
        }
        if let Some(usage) = chunk.usage_metadata {
            out.push(ProviderEvent::Usage(Usage {
                input: usage.prompt_token_count.saturating_sub(usage.cached_content_token_count),
                output: usage.candidates_token_count + usage.thoughts_token_count,
                cache_read: usage.cached_content_token_count,
                total_tokens: usage.total_token_count,
                ..Usage::default()
            }));
        }
        match reason.as_deref() {
            None => {}
            Some("STOP") if self.called > 0 => self.stop = Some(StopReason::ToolUse),
            Some("STOP") => self.stop = Some(StopReason::Stop),
            Some("MAX_TOKENS") => self.stop = Some(StopReason::Length),
            Some(reason) => return Err(failed(format!("the provider ended the reply: {reason}"))),
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<ProviderEvent>) -> Result<(), ProviderError> {
        let Some(stop) = self.stop else {
            return Err(ProviderError::cut_short());
        };
        out.extend(self.thinking.finish().map(ProviderEvent::Thinking));
        out.extend(self.text.finish().map(ProviderEvent::Text));
        out.push(ProviderEvent::Done(stop));
        Ok(())
    }
}

impl Decoder {
    fn part(&mut self, part: PartBody, out: &mut Vec<ProviderEvent>) {
        if let Some(text) = part.text {
            let (joiner, event): (_, fn(String) -> ProviderEvent) = match part.thought {
                true => (&mut self.thinking, ProviderEvent::Thinking),
                false => (&mut self.text, ProviderEvent::Text),
            };
            let text = joiner.push(&text);
            if !text.is_empty() {
                out.push(event(text));
            }
            if let (true, Some(signature)) = (part.thought, &part.thought_signature) {
                out.push(ProviderEvent::ThinkingSignature(signature.clone()));
            }
        }
        if let Some(call) = part.function_call {
            let index = self.called;
            self.called += 1;
            let id = call.id.unwrap_or_else(|| format!("{}_{}_{index}", call.name, self.calls));
            let arguments = if call.args.is_null() { "{}".to_owned() } else { call.args.to_string() };
            out.push(ProviderEvent::ToolCall { index, id: Some(id), name: Some(call.name), arguments });
            if let Some(signature) = part.thought_signature {
                out.push(ProviderEvent::CallSignature { index, signature });
            }
        }
    }
}
