//! Decodes the events of the Responses API.

use crate::message::{Block, StopReason, TextBlock, ThinkingBlock, Usage};
use crate::provider::error_messages::ErrorFormat;
use crate::provider::http::Decode;
use crate::provider::surrogates::{Joiner, Wtf8};
use crate::provider::{ErrorKind, Note, ProviderError, ProviderEvent, SignedBlock};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct EventBody {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    output_index: u32,
    delta: Option<Wtf8>,
    arguments: Option<Wtf8>,
    item: Option<Value>,
    response: Option<ResponseBody>,
    code: Option<Value>,
    message: Option<String>,
}

#[derive(Deserialize)]
struct ResponseBody {
    id: Option<String>,
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
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Deserialize)]
struct OutputDetails {
    reasoning_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct InputDetails {
    #[serde(default)]
    cached_tokens: u64,
    #[serde(default)]
    cache_write_tokens: u64,
}

/// State of an open output item.
enum OpenItem {
    /// A text with its content so far, from which the missing part is derived when the item ends.
    Text {
        joiner: Joiner,
        so_far: String,
    },
    Thinking {
        joiner: Joiner,
        so_far: String,
    },
    /// A call with its arguments so far.
    Call {
        joiner: Joiner,
        so_far: String,
    },
}

impl OpenItem {
    /// Adds a piece and returns its well-formed part.
    fn take(&mut self, piece: &Wtf8) -> String {
        let (Self::Text { joiner, so_far } | Self::Thinking { joiner, so_far } | Self::Call { joiner, so_far }) = self;
        let text = joiner.push(piece);
        so_far.push_str(&text);
        text
    }
}

/// The decoder of one reply.
pub(super) struct Decoder {
    /// Name of the provider, for error messages.
    provider: String,
    open: BTreeMap<u32, OpenItem>,
    called: bool,
}

impl Decode for Decoder {
    fn event(&mut self, data: &str, out: &mut Vec<ProviderEvent>) -> Result<(), ProviderError> {
        let event: EventBody = serde_json::from_str(data).map_err(|error| {
            if is_chat(data) {
                return malformed("the response is a chat completion");
            }
            ProviderError::new(ErrorKind::Malformed, format!("invalid Responses event: {error}"))
        })?;
        let index = event.output_index;
        match event.kind.as_str() {
            "response.created" => tell("responseId", event.response.and_then(|response| response.id), out),
            "response.output_item.added" => self.begin(index, &event.item.unwrap_or_default(), out),
            "response.output_text.delta"
            | "response.refusal.delta"
            | "response.reasoning_summary_text.delta"
            | "response.reasoning_text.delta"
            | "response.function_call_arguments.delta" => self.delta(index, &event.delta.unwrap_or_default(), out),
            // Parts are separated by a blank line; the blank line after the last part is trimmed at the end.
            "response.reasoning_summary_part.done"
                if matches!(self.open.get(&index), Some(OpenItem::Thinking { .. })) =>
            {
                self.delta(index, &"\n\n".into(), out);
            }
            "response.function_call_arguments.done" => {
                self.rest_of_call(index, event.arguments.unwrap_or_default(), out)
            }
            "response.output_item.done" => self.end_item(index, &event.item.unwrap_or_default(), out),
            "response.completed" | "response.incomplete" => {
                let response = event.response.ok_or_else(|| malformed("a completed response without content"))?;
                return self.complete(response, out);
            }
            "response.failed" => {
                let response = event.response.as_ref();
                tell("rawStopReason", response.and_then(|response| response.status.clone()), out);
                let reason = response.and_then(|response| response.incomplete_details.as_ref()?.reason.as_deref());
                let said = match response.and_then(|response| response.error.as_ref()) {
                    Some(error) => {
                        let code = code(error.code.as_ref()).unwrap_or_else(|| "unknown".to_owned());
                        format!("{code}: {}", error.message.as_deref().unwrap_or("no message"))
                    }
                    None => match reason {
                        Some(reason) => format!("incomplete: {reason}"),
                        None => "Unknown error (no error details in response)".to_owned(),
                    },
                };
                return Err(ProviderError::new(ErrorKind::Provider, said));
            }
            "error" => {
                let code = code(event.code.as_ref()).unwrap_or_else(|| "unknown".to_owned());
                let said = event.message.as_deref().unwrap_or("no message");
                return Err(ProviderError::new(ErrorKind::Provider, format!("Error Code {code}: {said}")));
            }
            _ => {}
        }
        Ok(())
    }

    fn wording(&self) -> ErrorFormat {
        ErrorFormat::Responses(self.provider.clone())
    }

    fn end(&mut self, _: &mut Vec<ProviderEvent>) -> Result<(), ProviderError> {
        Err(ProviderError::cut_short("OpenAI Responses stream ended before a terminal response event"))
    }
}

impl Decoder {
    pub(super) fn new(provider: &str) -> Self {
        Self { provider: provider.to_owned(), open: BTreeMap::new(), called: false }
    }

    fn begin(&mut self, index: u32, item: &Value, out: &mut Vec<ProviderEvent>) {
        let text = |key: &str| item.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (joiner, so_far) = (Joiner::default(), String::new());
        let open = match text("type").as_str() {
            "message" => {
                out.push(ProviderEvent::Open(Block::Text(TextBlock::default())));
                OpenItem::Text { joiner, so_far }
            }
            "reasoning" => {
                out.push(ProviderEvent::Open(Block::Thinking(ThinkingBlock::default())));
                OpenItem::Thinking { joiner, so_far }
            }
            "function_call" => {
                self.called = true;
                let id = match text("id") {
                    item if item.is_empty() => text("call_id"),
                    item => format!("{}|{item}", text("call_id")),
                };
                let name = Some(text("name"));
                out.push(ProviderEvent::ToolCall { index, id: Some(id), name, arguments: String::new() });
                let so_far = text("arguments");
                if !so_far.is_empty() {
                    out.push(untold(index, so_far.clone()));
                }
                OpenItem::Call { joiner, so_far }
            }
            _ => return,
        };
        self.open.insert(index, open);
    }

    fn delta(&mut self, index: u32, piece: &Wtf8, out: &mut Vec<ProviderEvent>) {
        let Some(open) = self.open.get_mut(&index) else { return };
        let text = open.take(piece);
        if text.is_empty() {
            return;
        }
        out.push(match open {
            OpenItem::Text { .. } => ProviderEvent::Text(text),
            OpenItem::Thinking { .. } => ProviderEvent::Thinking(text),
            OpenItem::Call { .. } => ProviderEvent::ToolCall { index, id: None, name: None, arguments: text },
        });
    }

    /// Emits the remaining arguments of a call, which may be complete only at its end.
    fn rest_of_call(&mut self, index: u32, whole: Wtf8, out: &mut Vec<ProviderEvent>) {
        let Some(OpenItem::Call { so_far, .. }) = self.open.get_mut(&index) else { return };
        let whole = Joiner::default().push(&whole);
        let Some(rest) = whole.strip_prefix(so_far.as_str()).filter(|rest| !rest.is_empty()) else { return };
        out.push(ProviderEvent::ToolCall { index, id: None, name: None, arguments: rest.to_owned() });
        *so_far = whole;
    }

    /// Ends an item. Emits content that arrived without deltas.
    fn end_item(&mut self, index: u32, item: &Value, out: &mut Vec<ProviderEvent>) {
        if !self.open.contains_key(&index) {
            self.begin(index, item, out);
        }
        let Some(open) = self.open.remove(&index) else { return };
        let texts = |list: &str, between: &str| -> String {
            let parts = item.get(list).and_then(Value::as_array).into_iter().flatten();
            let text = |part: &Value| Some(part.get("text").or_else(|| part.get("refusal"))?.as_str()?.to_owned());
            parts.filter_map(text).collect::<Vec<_>>().join(between)
        };
        match open {
            OpenItem::Text { mut joiner, so_far } => {
                out.extend(joiner.finish().map(ProviderEvent::Text));
                // Passed to rules, but not reported as a delta.
                if let Some(rest) = rest(&so_far, &texts("content", "")) {
                    out.push(ProviderEvent::RulesOnly(Box::new(ProviderEvent::Text(rest))));
                }
                if let Some(id) = item.get("id").and_then(Value::as_str) {
                    let mut signature = json!({"v": 1, "id": id});
                    if let Some(phase) = item.get("phase").filter(|phase| !phase.is_null()) {
                        signature["phase"] = phase.clone();
                    }
                    out.push(ProviderEvent::Note(Note::Signed(SignedBlock::Text, signature.to_string())));
                }
            }
            OpenItem::Thinking { mut joiner, so_far } => {
                out.extend(joiner.finish().map(ProviderEvent::Thinking));
                let whole = Some(texts("summary", "\n\n")).filter(|text| !text.is_empty());
                let whole = whole.unwrap_or_else(|| texts("content", "\n\n"));
                match rest(&so_far, &whole) {
                    Some(rest) => out.push(ProviderEvent::RulesOnly(Box::new(ProviderEvent::Thinking(rest)))),
                    None if so_far.strip_suffix("\n\n") == Some(&whole) => out.push(ProviderEvent::Note(Note::Trimmed)),
                    None => {}
                }
                out.push(ProviderEvent::Note(Note::Signed(SignedBlock::Thinking, item.to_string())));
            }
            OpenItem::Call { mut joiner, so_far } => {
                let whole = item.get("arguments").and_then(Value::as_str).unwrap_or_default();
                let late = joiner.finish().or_else(|| rest(&so_far, whole));
                out.extend(late.map(|arguments| untold(index, arguments)));
            }
        }
        out.push(ProviderEvent::BlockEnd);
    }

    fn complete(&mut self, response: ResponseBody, out: &mut Vec<ProviderEvent>) -> Result<(), ProviderError> {
        tell("responseId", response.id, out);
        if let Some(usage) = response.usage {
            let (read, written) = usage
                .input_tokens_details
                .map_or((0, 0), |details| (details.cached_tokens, details.cache_write_tokens));
            let thought = usage.output_tokens_details.and_then(|details| details.reasoning_tokens);
            out.push(ProviderEvent::Note(Note::Usage(Usage {
                input: usage.input_tokens.saturating_sub(read).saturating_sub(written),
                output: usage.output_tokens,
                cache_read: read,
                cache_write: written,
                reasoning: Some(thought.unwrap_or(0)),
                total_tokens: usage.total_tokens,
                ..Usage::default()
            })));
        }
        let reason = response.incomplete_details.and_then(|details| details.reason);
        let status = response.status.unwrap_or_default();
        let raw = reason.as_ref().map_or_else(|| status.clone(), |reason| format!("{status}.{reason}"));
        tell("rawStopReason", Some(raw).filter(|raw| !raw.is_empty()), out);
        let failed = |said: String| Err(ProviderError::new(ErrorKind::Provider, said));
        let stop = match (status.as_str(), reason.as_deref()) {
            ("incomplete", Some("max_output_tokens")) => StopReason::Length,
            ("incomplete", Some(reason)) => return failed(format!("Response incomplete: {reason}")),
            ("incomplete", None) => return failed("Response incomplete without a provider reason".to_owned()),
            ("failed" | "cancelled", _) => return failed("An unknown error occurred".to_owned()),
            ("" | "completed" | "in_progress" | "queued", _) if self.called => StopReason::ToolUse,
            ("" | "completed" | "in_progress" | "queued", _) => StopReason::Stop,
            (other, _) => return failed(format!("Unhandled stop reason: {other}")),
        };
        out.push(ProviderEvent::Done(stop));
        Ok(())
    }
}

/// Returns the rest of a text after the part that was already emitted.
fn rest(so_far: &str, whole: &str) -> Option<String> {
    whole.strip_prefix(so_far).filter(|rest| !rest.is_empty()).map(str::to_owned)
}

/// Returns a piece of a call that only rules receive.
fn untold(index: u32, arguments: String) -> ProviderEvent {
    ProviderEvent::RulesOnly(Box::new(ProviderEvent::ToolCall { index, id: None, name: None, arguments }))
}

fn tell(member: &str, value: Option<String>, out: &mut Vec<ProviderEvent>) {
    out.extend(
        value.map(|value| ProviderEvent::Note(Note::Members(Map::from_iter([(member.to_owned(), json!(value))])))),
    );
}

/// Returns whether an event is a chat completion chunk.
fn is_chat(data: &str) -> bool {
    let read: Option<Value> = serde_json::from_str(data).ok();
    read.and_then(|event| event.get("object")?.as_str().map(|object| object.starts_with("chat.completion")))
        .unwrap_or_default()
}

fn malformed(what: &str) -> ProviderError {
    ProviderError::new(ErrorKind::Malformed, what)
}

fn code(code: Option<&Value>) -> Option<String> {
    match code? {
        Value::String(code) => Some(code.clone()),
        Value::Null => None,
        other => Some(other.to_string()),
    }
}
