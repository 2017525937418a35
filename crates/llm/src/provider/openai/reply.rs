//! Decodes the chunks of a chat completion.

use super::request::{REASONING, is_detail, reasoning_member};
use crate::message::{Block, StopReason, ThinkingBlock, Usage};
use crate::provider::error_messages::ErrorFormat;
use crate::provider::http::Decode;
use crate::provider::surrogates::{Joiner, Wtf8};
use crate::provider::{ErrorKind, Model, Note, ProviderError, ProviderEvent, SignedBlock};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Deserialize)]
struct ChunkBody {
    id: Option<String>,
    model: Option<String>,
    #[serde(default)]
    choices: Option<Vec<ChoiceBody>>,
    usage: Option<UsageBody>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct ChoiceBody {
    #[serde(default)]
    index: u32,
    delta: Option<DeltaBody>,
    finish_reason: Option<String>,
    usage: Option<UsageBody>,
}

#[derive(Default, Deserialize)]
struct DeltaBody {
    content: Option<Wtf8>,
    reasoning_content: Option<Wtf8>,
    reasoning: Option<Wtf8>,
    reasoning_text: Option<Wtf8>,
    reasoning_details: Option<Value>,
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
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
    /// Number of cached tokens, in the format of some servers.
    prompt_cache_hit_tokens: Option<u64>,
    cached_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct PromptDetails {
    cached_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct CompletionDetails {
    reasoning_tokens: Option<u64>,
}

impl UsageBody {
    fn read(&self) -> Usage {
        let details = self.prompt_tokens_details.as_ref();
        let read = details.and_then(|details| details.cached_tokens);
        let cache_read = read.or(self.prompt_cache_hit_tokens).or(self.cached_tokens).unwrap_or(0);
        let cache_write = details.and_then(|details| details.cache_write_tokens).unwrap_or(0);
        let input = self.prompt_tokens.unwrap_or(0).saturating_sub(cache_read).saturating_sub(cache_write);
        let output = self.completion_tokens.unwrap_or(0);
        let reasoning = self.completion_tokens_details.as_ref().and_then(|details| details.reasoning_tokens);
        let reasoning = Some(reasoning.unwrap_or(0));
        let usage = Usage { input, output, cache_read, cache_write, reasoning, ..Usage::default() };
        Usage { total_tokens: usage.all(), ..usage }
    }
}

/// The decoder of one reply.
pub(super) struct Decoder {
    model: Model,
    /// Whether a reply without a stop reason is incomplete.
    says_why: bool,
    has_begun: bool,
    told: BTreeSet<&'static str>,
    text: Joiner,
    thinking: Joiner,
    is_thinking: bool,
    /// Reasoning details of OpenRouter, which arrive in pieces and must be sent back.
    details: Vec<Value>,
    calls: BTreeMap<u32, Joiner>,
    stop: Option<Result<StopReason, String>>,
}

impl Decode for Decoder {
    fn event(&mut self, data: &str, out: &mut Vec<ProviderEvent>) -> Result<(), ProviderError> {
        if !std::mem::replace(&mut self.has_begun, true) {
            out.push(ProviderEvent::Note(Note::Interleaved));
        }
        if data.trim() == "[DONE]" {
            return self.end(out);
        }
        let chunk: ChunkBody = serde_json::from_str(data).map_err(|error| {
            ProviderError::new(ErrorKind::Malformed, format!("invalid chat completion chunk: {error}"))
        })?;
        if let Some(error) = chunk.error {
            return Err(ProviderError::new(ErrorKind::Provider, reported(&error)));
        }
        self.tell("responseId", chunk.id.filter(|id| !id.is_empty()), out);
        let other = chunk.model.filter(|model| !model.is_empty() && *model != self.model.id);
        self.tell("responseModel", other, out);
        let choice = chunk.choices.into_iter().flatten().find(|choice| choice.index == 0);
        let (usage, choice) = match choice {
            Some(mut choice) => (chunk.usage.or(choice.usage.take()), Some(choice)),
            None => (chunk.usage, None),
        };
        out.extend(usage.map(|usage| ProviderEvent::Note(Note::Usage(usage.read()))));
        let Some(choice) = choice else { return Ok(()) };
        if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
            self.stop = Some(match reason.as_str() {
                "stop" | "end" => Ok(StopReason::Stop),
                "length" => Ok(StopReason::Length),
                "tool_calls" | "function_call" => Ok(StopReason::ToolUse),
                other => Err(format!("Provider finish_reason: {other}")),
            });
            out.push(ProviderEvent::Note(Note::Members(Map::from_iter([("rawStopReason".to_owned(), json!(reason))]))));
        }
        if let Some(delta) = choice.delta {
            self.delta(delta, out);
        }
        Ok(())
    }

    fn wording(&self) -> ErrorFormat {
        ErrorFormat::Completions
    }

    fn end(&mut self, out: &mut Vec<ProviderEvent>) -> Result<(), ProviderError> {
        if !self.details.is_empty() {
            let details = Value::Array(std::mem::take(&mut self.details)).to_string();
            out.push(ProviderEvent::Note(Note::Signed(SignedBlock::Thinking, details)));
        }
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
        // Blocks end even when the reply has failed.
        out.push(ProviderEvent::BlockEnd);
        let stop = match self.stop.take() {
            Some(stop) => stop,
            None if self.says_why => return Err(ProviderError::cut_short("Stream ended without finish_reason")),
            None if self.calls.is_empty() => Ok(StopReason::Stop),
            None => Ok(StopReason::ToolUse),
        };
        let stop = stop.map_err(|said| ProviderError::new(ErrorKind::Provider, said))?;
        out.push(ProviderEvent::Done(stop));
        Ok(())
    }
}

impl Decoder {
    pub(super) fn new(model: &Model, says_why: bool) -> Self {
        Self {
            model: model.clone(),
            says_why,
            has_begun: false,
            told: BTreeSet::new(),
            text: Joiner::default(),
            thinking: Joiner::default(),
            is_thinking: false,
            details: Vec::new(),
            calls: BTreeMap::new(),
            stop: None,
        }
    }

    /// Reports a member of the message the first time it has a value.
    fn tell(&mut self, member: &'static str, value: Option<String>, out: &mut Vec<ProviderEvent>) {
        if let Some(value) = value.filter(|_| self.told.insert(member)) {
            out.push(ProviderEvent::Note(Note::Members(Map::from_iter([(member.to_owned(), json!(value))]))));
        }
    }

    fn delta(&mut self, delta: DeltaBody, out: &mut Vec<ProviderEvent>) {
        if let Some(piece) = delta.content {
            ProviderEvent::push(self.text.push(&piece), ProviderEvent::Text, out);
        }
        // Uses the first non-empty member, since some servers send the same text in two.
        let said = REASONING.into_iter().zip([delta.reasoning_content, delta.reasoning, delta.reasoning_text]);
        let mut said = said.filter_map(|(member, piece)| Some((member, piece.filter(|piece| !piece.is_empty())?)));
        if let Some((member, piece)) = said.next() {
            self.open_thinking(reasoning_member(&self.model, member), out);
            ProviderEvent::push(self.thinking.push(&piece), ProviderEvent::Thinking, out);
        }
        for call in delta.tool_calls.into_iter().flatten() {
            let index = call.index;
            let (name, piece) = call.function.map_or((None, None), |function| (function.name, function.arguments));
            if let std::collections::btree_map::Entry::Vacant(slot) = self.calls.entry(index) {
                slot.insert(Joiner::default());
                out.push(ProviderEvent::ToolCall { index, id: call.id, name, arguments: String::new() });
            }
            let joiner = self.calls.get_mut(&index).expect("the call was just inserted");
            let arguments = piece.map(|piece| joiner.push(&piece)).unwrap_or_default();
            out.push(ProviderEvent::ToolCall { index, id: None, name: None, arguments });
        }
        for detail in delta.reasoning_details.as_ref().and_then(Value::as_array).into_iter().flatten() {
            if is_detail(detail) {
                self.open_thinking("", out);
                join(&mut self.details, detail);
            }
        }
    }

    /// Opens a thinking block. Its signature is the name of the member with the reasoning, in which the reasoning is sent back.
    fn open_thinking(&mut self, member: &str, out: &mut Vec<ProviderEvent>) {
        if !std::mem::replace(&mut self.is_thinking, true) {
            let block = ThinkingBlock { thinking_signature: Some(member.to_owned()), ..ThinkingBlock::default() };
            out.push(ProviderEvent::Open(Block::Thinking(block)));
        }
    }
}

/// Appends pieces of text and summaries to the same detail; an encrypted detail arrives complete.
fn join(details: &mut Vec<Value>, detail: &Value) {
    let text = match detail["type"].as_str() {
        Some("reasoning.text") => "text",
        Some("reasoning.summary") => "summary",
        _ => "",
    };
    let last = details.last_mut().filter(|last| !text.is_empty() && last["type"] == detail["type"]);
    let Some(last) = last else { return details.push(detail.clone()) };
    let whole = format!("{}{}", last[text].as_str().unwrap_or_default(), detail[text].as_str().unwrap_or_default());
    last[text] = json!(whole);
    for member in ["signature", "id", "format", "index"] {
        let is_there = |value: &Value| !value.is_null() && value.as_str() != Some("");
        if let Some(value) = detail.get(member).filter(|_| !last.get(member).is_some_and(is_there)) {
            last[member] = value.clone();
        }
    }
}

/// Returns the message of an error that the server sent instead of a chunk.
fn reported(error: &Value) -> String {
    let message = error.get("message").and_then(Value::as_str).or(error.as_str());
    message.map_or_else(|| error.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(events: &[&str]) -> Result<Vec<ProviderEvent>, ProviderError> {
        let mut decoder = Decoder::new(&Model::new("p", "m", "openai-completions"), true);
        let mut out = Vec::new();
        for event in events {
            decoder.event(event, &mut out)?;
        }
        Ok(out)
    }

    fn said(member: &str, value: &str) -> ProviderEvent {
        ProviderEvent::Note(Note::Members(Map::from_iter([(member.to_owned(), json!(value))])))
    }

    #[test]
    fn interleaved_tool_calls_are_separated_by_index() {
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
                ProviderEvent::Note(Note::Interleaved),
                call(0, Some("a"), Some("ls"), ""),
                call(0, None, None, ""),
                call(1, Some("b"), Some("read"), ""),
                call(1, None, None, "{"),
                call(0, None, None, "{}"),
                call(1, None, None, "}"),
                said("rawStopReason", "tool_calls"),
                ProviderEvent::BlockEnd,
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
        let signature = Some("reasoning_content".to_owned());
        let open = Block::Thinking(ThinkingBlock { thinking_signature: signature, ..ThinkingBlock::default() });
        let thought = [ProviderEvent::Open(open), ProviderEvent::Thinking("hm".to_owned())];
        let [first, second] = thought;
        let stop = said("rawStopReason", "stop");
        assert_eq!(out, [ProviderEvent::Note(Note::Interleaved), text("a"), text("😀"), stop, first, second]);
    }

    #[test]
    fn a_reply_without_a_finish_reason_is_incomplete() {
        let error = decode(&[r#"{"choices":[{"delta":{"content":"a"}}]}"#, "[DONE]"]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Network);
    }

    #[test]
    fn truncated_json_is_malformed() {
        let whole = r#"{"choices":[{"delta":{"content":"ab"}}]}"#;
        for cut in 1..whole.len() {
            assert_eq!(decode(&[&whole[..cut]]).unwrap_err().kind(), ErrorKind::Malformed, "cut at {cut}");
        }
    }

    #[test]
    fn pieces_of_one_reasoning_detail_are_joined_and_sign_the_thinking() {
        let out = decode(&[
            r#"{"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.text","text":"a","index":0}]}}]}"#,
            r#"{"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.text","text":"b","signature":"s"},{"type":"reasoning.encrypted","data":"d"},{"type":"new"}]}}]}"#,
            r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#,
            "[DONE]",
        ])
        .unwrap();
        let details = r#"[{"type":"reasoning.text","text":"ab","index":0,"signature":"s"},{"type":"reasoning.encrypted","data":"d"}]"#;
        assert!(out.contains(&ProviderEvent::Note(Note::Signed(SignedBlock::Thinking, details.to_owned()))), "{out:?}");
    }
}
