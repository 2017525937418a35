//! Decodes the chunks of a Gemini reply.

use crate::message::{Block, StopReason, TextBlock, ThinkingBlock, Usage};
use crate::provider::error_messages::ErrorFormat;
use crate::provider::http::Decode;
use crate::provider::surrogates::{Joiner, Wtf8};
use crate::provider::{ErrorKind, Note, ProviderError, ProviderEvent, SignedBlock};
use serde::Deserialize;
use serde_json::{Map, Value, json};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ChunkBody {
    #[serde(default)]
    candidates: Vec<CandidateBody>,
    usage_metadata: Option<UsageBody>,
    prompt_feedback: Option<Feedback>,
    response_id: Option<String>,
    error: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CandidateBody {
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
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct UsageBody {
    prompt_token_count: u64,
    cached_content_token_count: u64,
    candidates_token_count: u64,
    thoughts_token_count: u64,
    total_token_count: u64,
}

/// The decoder of one reply.
#[derive(Default)]
pub(super) struct Decoder {
    text: Joiner,
    thinking: Joiner,
    /// Kind of the last piece.
    current: Option<SignedBlock>,
    /// Prefix of generated call ids.
    calls: String,
    /// Ids of the calls so far.
    called: Vec<String>,
    is_told: bool,
    stop: Option<Result<StopReason, String>>,
}

impl Decode for Decoder {
    fn event(&mut self, data: &str, out: &mut Vec<ProviderEvent>) -> Result<(), ProviderError> {
        let chunk: ChunkBody = serde_json::from_str(data)
            .map_err(|error| ProviderError::new(ErrorKind::Malformed, format!("invalid Gemini chunk: {error}")))?;
        let failed = |message: String| ProviderError::new(ErrorKind::Provider, message);
        if let Some(error) = chunk.error {
            return Err(failed(json!({"error": error}).to_string()));
        }
        if let Some(id) = chunk.response_id.filter(|id| !id.is_empty() && !std::mem::replace(&mut self.is_told, true)) {
            out.push(ProviderEvent::Note(Note::Members(Map::from_iter([("responseId".to_owned(), json!(id))]))));
        }
        if let Some(reason) = chunk.prompt_feedback.and_then(|feedback| feedback.block_reason) {
            return Err(failed(format!("the provider refused the prompt: {reason}")));
        }
        let reply = chunk.candidates.into_iter().next();
        let (content, reason) = reply.map_or((None, None), |reply| (reply.content, reply.finish_reason));
        for part in content.into_iter().flat_map(|content| content.parts) {
            self.part(part, out);
        }
        if let Some(reason) = reason {
            self.stop = Some(match reason.as_str() {
                "STOP" if !self.called.is_empty() => Ok(StopReason::ToolUse),
                "STOP" => Ok(StopReason::Stop),
                "MAX_TOKENS" => Ok(StopReason::Length),
                other => Err(format!("Provider stopped with: {other}")),
            });
            out.push(ProviderEvent::Note(Note::Members(Map::from_iter([("rawStopReason".to_owned(), json!(reason))]))));
        }
        if let Some(usage) = chunk.usage_metadata {
            out.push(ProviderEvent::Note(Note::Usage(Usage {
                input: usage.prompt_token_count.saturating_sub(usage.cached_content_token_count),
                output: usage.candidates_token_count.saturating_add(usage.thoughts_token_count),
                cache_read: usage.cached_content_token_count,
                reasoning: Some(usage.thoughts_token_count),
                total_tokens: usage.total_token_count,
                ..Usage::default()
            })));
        }
        Ok(())
    }

    fn wording(&self) -> ErrorFormat {
        ErrorFormat::Google
    }

    fn end(&mut self, out: &mut Vec<ProviderEvent>) -> Result<(), ProviderError> {
        out.extend(self.thinking.finish().map(ProviderEvent::Thinking));
        out.extend(self.text.finish().map(ProviderEvent::Text));
        out.push(ProviderEvent::BlockEnd);
        let Some(stop) = self.stop.take() else {
            return Err(ProviderError::cut_short("Google stream ended without a finish reason"));
        };
        let stop = stop.map_err(|said| ProviderError::new(ErrorKind::Provider, said))?;
        out.push(ProviderEvent::Done(stop));
        Ok(())
    }
}

impl Decoder {
    pub(super) fn new(calls: String) -> Self {
        Self { calls, ..Self::default() }
    }

    fn part(&mut self, part: PartBody, out: &mut Vec<ProviderEvent>) {
        let signature = part.thought_signature.filter(|signature| !signature.is_empty());
        if let Some(text) = part.text {
            let signs = if part.thought { SignedBlock::Thinking } else { SignedBlock::Text };
            if self.current.replace(signs) != Some(signs) {
                out.push(ProviderEvent::Open(match signs {
                    SignedBlock::Text => Block::Text(TextBlock::default()),
                    SignedBlock::Thinking => Block::Thinking(ThinkingBlock::default()),
                }));
            }
            let (joiner, event): (_, fn(String) -> ProviderEvent) = match signs {
                SignedBlock::Thinking => (&mut self.thinking, ProviderEvent::Thinking),
                SignedBlock::Text => (&mut self.text, ProviderEvent::Text),
            };
            out.push(event(joiner.push(&text)));
            out.extend(signature.clone().map(|signature| ProviderEvent::Note(Note::Signed(signs, signature))));
        }
        if let Some(call) = part.function_call {
            self.current = None;
            let index = u32::try_from(self.called.len()).unwrap_or(u32::MAX);
            // Some servers restart their ids with each reply.
            let own = call.id.filter(|id| !id.is_empty() && !self.called.contains(id));
            let id = own.unwrap_or_else(|| format!("{}_{}_{index}", call.name, self.calls));
            self.called.push(id.clone());
            let arguments = if call.args.is_null() { "{}".to_owned() } else { call.args.to_string() };
            out.push(ProviderEvent::ToolCall { index, id: Some(id), name: Some(call.name), arguments });
            out.extend(signature.map(|signature| ProviderEvent::Note(Note::CallSignature { index, signature })));
            out.push(ProviderEvent::BlockEnd);
        }
    }
}
