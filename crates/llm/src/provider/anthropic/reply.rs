//! Decodes the events of the Messages API.

use crate::message::{Block, StopReason, TextBlock, ThinkingBlock, Usage};
use crate::provider::adapt::REDACTED;
use crate::provider::error_messages::ErrorFormat;
use crate::provider::http::Decode;
use crate::provider::surrogates::{Joiner, Wtf8};
use crate::provider::{ErrorKind, Model, Note, ProviderError, ProviderEvent};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Text that replaces encrypted thinking.
const SEALED: &str = "[Reasoning redacted]";

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
}

#[derive(Deserialize)]
struct MessageBody {
    id: Option<String>,
    model: Option<String>,
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
    signature: Option<String>,
    data: Option<String>,
    input: Option<Value>,
}

#[derive(Deserialize)]
struct DeltaBody {
    text: Option<Wtf8>,
    thinking: Option<Wtf8>,
    signature: Option<String>,
    partial_json: Option<Wtf8>,
    stop_reason: Option<String>,
    stop_details: Option<StopDetails>,
}

#[derive(Deserialize)]
struct StopDetails {
    explanation: Option<String>,
}

#[derive(Deserialize)]
struct UsageBody {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_creation: Option<CacheCreation>,
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Deserialize)]
struct CacheCreation {
    ephemeral_1h_input_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct OutputDetails {
    thinking_tokens: Option<u64>,
}

/// State of an open content block.
enum OpenBlock {
    Text(Joiner),
    Thinking(Joiner),
    Sealed,
    Tool { joiner: Joiner, given: Option<Value>, any: bool },
    Unknown,
}

/// The decoder of one reply.
pub(super) struct Decoder {
    model: Model,
    open: BTreeMap<u32, OpenBlock>,
    usage: Usage,
    stop: Option<Result<StopReason, String>>,
}

impl Decode for Decoder {
    fn event(&mut self, data: &str, out: &mut Vec<ProviderEvent>) -> Result<(), ProviderError> {
        let event: EventBody = serde_json::from_str(data)
            .map_err(|error| ProviderError::new(ErrorKind::Malformed, format!("invalid Messages event: {error}")))?;
        match event.kind.as_str() {
            "message_start" => self.begin(event.message, out),
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
                if let Some(delta) = event.delta {
                    self.why(delta, out);
                }
            }
            "message_stop" => match self.stop.take() {
                Some(Ok(stop)) => out.push(ProviderEvent::Done(stop)),
                Some(Err(said)) => return Err(ProviderError::new(ErrorKind::Provider, said)),
                None => return Err(ProviderError::cut_short("Anthropic stream ended without a stop reason")),
            },
            // The whole error is passed on unchanged, because retry logic searches it.
            "error" => return Err(ProviderError::new(ErrorKind::Provider, data)),
            // Ignores `ping` and events of later versions.
            _ => {}
        }
        Ok(())
    }

    fn wording(&self) -> ErrorFormat {
        ErrorFormat::Anthropic
    }

    fn end(&mut self, _out: &mut Vec<ProviderEvent>) -> Result<(), ProviderError> {
        Err(ProviderError::cut_short("Anthropic stream ended before message_stop"))
    }
}

impl Decoder {
    pub(super) fn new(model: &Model) -> Self {
        Self { model: model.clone(), open: BTreeMap::new(), usage: Usage::default(), stop: None }
    }

    fn begin(&mut self, message: Option<MessageBody>, out: &mut Vec<ProviderEvent>) {
        let Some(message) = message else { return };
        let mut said = Map::new();
        said.extend(message.id.map(|id| ("responseId".to_owned(), json!(id))));
        let other = message.model.filter(|model| *model != self.model.id);
        said.extend(other.map(|model| ("responseModel".to_owned(), json!(model))));
        if !said.is_empty() {
            out.push(ProviderEvent::Note(Note::Members(said)));
        }
        if let Some(usage) = &message.usage {
            let kept = usage.cache_creation.as_ref().and_then(|creation| creation.ephemeral_1h_input_tokens);
            self.usage.cache_write_1h = Some(kept.unwrap_or(0));
        }
        self.count(message.usage, out);
    }

    /// Sets the stop reason. A reason that means a failure takes effect when the reply is complete.
    fn why(&mut self, delta: DeltaBody, out: &mut Vec<ProviderEvent>) {
        let Some(reason) = delta.stop_reason else { return };
        let explained = delta.stop_details.and_then(|details| details.explanation).filter(|text| !text.is_empty());
        self.stop = Some(match reason.as_str() {
            "end_turn" | "pause_turn" | "stop_sequence" => Ok(StopReason::Stop),
            "max_tokens" => Ok(StopReason::Length),
            "tool_use" => Ok(StopReason::ToolUse),
            "refusal" => Err(explained.unwrap_or_else(|| "The model refused to complete the request".to_owned())),
            "sensitive" => Err("Provider stopped with: sensitive".to_owned()),
            other => Err(format!("Unhandled stop reason: {other}")),
        });
        out.push(ProviderEvent::Note(Note::Members(Map::from_iter([("rawStopReason".to_owned(), json!(reason))]))));
    }

    fn start(&mut self, index: u32, block: BlockBody, out: &mut Vec<ProviderEvent>) {
        let mut joiner = Joiner::default();
        let open = match block.kind.as_str() {
            "text" => {
                out.push(ProviderEvent::Open(Block::Text(TextBlock::default())));
                let text = block.text.map(|text| joiner.push(&text)).unwrap_or_default();
                ProviderEvent::push(text, ProviderEvent::Text, out);
                OpenBlock::Text(joiner)
            }
            "thinking" => {
                let thinking_signature = Some(block.signature.unwrap_or_default());
                out.push(ProviderEvent::Open(Block::Thinking(ThinkingBlock {
                    thinking_signature,
                    ..ThinkingBlock::default()
                })));
                let text = block.thinking.map(|text| joiner.push(&text)).unwrap_or_default();
                ProviderEvent::push(text, ProviderEvent::Thinking, out);
                OpenBlock::Thinking(joiner)
            }
            "redacted_thinking" => {
                out.push(ProviderEvent::Open(Block::Thinking(ThinkingBlock {
                    thinking: SEALED.to_owned(),
                    thinking_signature: block.data,
                    extra: Map::from_iter([(REDACTED.to_owned(), json!(true))]),
                })));
                OpenBlock::Sealed
            }
            "tool_use" => {
                out.push(ProviderEvent::ToolCall { index, id: block.id, name: block.name, arguments: String::new() });
                let is_something = |input: &Value| input.as_object().is_some_and(|input| !input.is_empty());
                OpenBlock::Tool { joiner, given: block.input.filter(is_something), any: false }
            }
            _ => OpenBlock::Unknown,
        };
        self.open.insert(index, open);
    }

    fn delta(&mut self, index: u32, delta: DeltaBody, out: &mut Vec<ProviderEvent>) -> Result<(), ProviderError> {
        let Some(open) = self.open.get_mut(&index) else {
            return Err(missing("content_block_delta", "its content_block_start"));
        };
        match open {
            OpenBlock::Text(joiner) => {
                if let Some(text) = delta.text {
                    ProviderEvent::push(joiner.push(&text), ProviderEvent::Text, out);
                }
            }
            OpenBlock::Thinking(joiner) => {
                if let Some(text) = delta.thinking {
                    ProviderEvent::push(joiner.push(&text), ProviderEvent::Thinking, out);
                }
                if let Some(signature) = delta.signature {
                    out.push(ProviderEvent::Note(Note::ThinkingSignature(signature)));
                }
            }
            OpenBlock::Tool { joiner, any, .. } => {
                if let Some(piece) = delta.partial_json {
                    *any |= !piece.is_empty();
                    let arguments = joiner.push(&piece);
                    out.push(ProviderEvent::ToolCall { index, id: None, name: None, arguments });
                }
            }
            OpenBlock::Sealed | OpenBlock::Unknown => {}
        }
        Ok(())
    }

    fn stop_block(&mut self, index: u32, out: &mut Vec<ProviderEvent>) {
        match self.open.remove(&index) {
            Some(OpenBlock::Text(mut joiner)) => {
                out.extend(joiner.finish().map(ProviderEvent::Text));
                out.push(ProviderEvent::BlockEnd);
            }
            Some(OpenBlock::Thinking(mut joiner)) => {
                out.extend(joiner.finish().map(ProviderEvent::Thinking));
                out.push(ProviderEvent::BlockEnd);
            }
            Some(OpenBlock::Sealed) => out.push(ProviderEvent::BlockEnd),
            Some(OpenBlock::Tool { mut joiner, given, any }) => {
                // Some servers send all arguments of a call at once.
                let late = if any { joiner.finish() } else { given.map(|given| given.to_string()) };
                let piece = |arguments| ProviderEvent::ToolCall { index, id: None, name: None, arguments };
                out.extend(late.map(|arguments| ProviderEvent::RulesOnly(Box::new(piece(arguments)))));
                out.push(ProviderEvent::BlockEnd);
            }
            Some(OpenBlock::Unknown) | None => {}
        }
    }

    fn count(&mut self, usage: Option<UsageBody>, out: &mut Vec<ProviderEvent>) {
        let Some(usage) = usage else { return };
        let known = &mut self.usage;
        known.input = usage.input_tokens.unwrap_or(known.input);
        known.output = usage.output_tokens.unwrap_or(known.output);
        known.cache_read = usage.cache_read_input_tokens.unwrap_or(known.cache_read);
        known.cache_write = usage.cache_creation_input_tokens.unwrap_or(known.cache_write);
        let thought = usage.output_tokens_details.and_then(|details| details.thinking_tokens);
        known.reasoning = thought.or(known.reasoning);
        known.total_tokens = known.all();
        out.push(ProviderEvent::Note(Note::Usage(*known)));
    }
}

fn missing(event: &str, what: &str) -> ProviderError {
    ProviderError::new(ErrorKind::Malformed, format!("a {event} event without {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(events: &[&str]) -> Result<Vec<ProviderEvent>, ProviderError> {
        let mut decoder = Decoder::new(&Model::new("p", "m", "anthropic-messages"));
        let mut out = Vec::new();
        for event in events {
            decoder.event(event, &mut out)?;
        }
        Ok(out)
    }

    #[test]
    fn text_thinking_and_tool_arguments_are_separate() {
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
        let open = |block: Value| ProviderEvent::Open(serde_json::from_value(block).unwrap());
        assert_eq!(
            out[1..],
            [
                open(json!({"type": "thinking", "thinking": "", "thinkingSignature": ""})),
                ProviderEvent::Thinking("hm".to_owned()),
                ProviderEvent::Note(Note::ThinkingSignature("sig".to_owned())),
                ProviderEvent::BlockEnd,
                open(json!({"type": "text", "text": ""})),
                ProviderEvent::Text("x".to_owned()),
                ProviderEvent::Text("\u{fffd}".to_owned()),
                ProviderEvent::BlockEnd,
                call(Some("t"), Some("ls"), ""),
                call(None, None, "{}"),
                ProviderEvent::BlockEnd,
                ProviderEvent::Note(Note::Usage(Usage {
                    input: 7,
                    output: 9,
                    total_tokens: 16,
                    cache_write_1h: Some(0),
                    ..Usage::default()
                })),
                ProviderEvent::Note(Note::Members(Map::from_iter([("rawStopReason".to_owned(), json!("tool_use"))]))),
                ProviderEvent::Done(StopReason::ToolUse),
            ]
        );
    }

    #[test]
    fn a_delta_without_its_block_is_malformed() {
        let error = decode(&[r#"{"type":"content_block_delta","index":4,"delta":{"text":"x"}}"#]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed);
    }
}
