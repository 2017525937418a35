//! The scripted model: replies come from the scenario in order, regardless of the caller.

use super::scenario::{Fill, ReplyBlock, WholeReply};
use super::trace::{ItemIndex, Trace, first_line, message, present, short_hash};
use crate::normalise::Normaliser;
use async_stream::stream;
use futures_util::StreamExt;
use pijs_llm::message::{StopReason, Usage};
use pijs_llm::provider::{
    ErrorKind, Model, Note, Outgoing, Provider, ProviderError, ProviderEvent, ProviderStream, Request, ToolDescription,
};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// Steps to play inside a model call, and a sender that resumes the waiting call.
pub(super) struct InnerSteps {
    pub(super) call: usize,
    pub(super) steps: Vec<Map<String, Value>>,
    pub(super) done: oneshot::Sender<()>,
}

/// The script of one run, shared by all models.
#[derive(Clone)]
pub(super) struct Script(Arc<Mutex<ScriptState>>);

struct ScriptState {
    replies: Vec<WholeReply>,
    fill: Fill,
    /// UTF-16 units per delta.
    chunk: usize,
    calls: usize,
    /// Number of tool calls that have an id.
    numbered: usize,
    /// Hashes of the system prompts that the trace already contains.
    systems: BTreeSet<String>,
    trace: Trace,
    normaliser: Normaliser,
    during: mpsc::UnboundedSender<InnerSteps>,
    /// The request that was recorded but not sent yet.
    asked: Option<RecordedRequest>,
}

struct RecordedRequest {
    item: ItemIndex,
    number: usize,
    payload: Value,
}

impl Script {
    pub(super) fn new(
        replies: Vec<WholeReply>,
        chunk: f64,
        fill: Fill,
        trace: Trace,
        normaliser: Normaliser,
    ) -> (Self, mpsc::UnboundedReceiver<InnerSteps>) {
        let (during, steps) = mpsc::unbounded_channel();
        // The reference's faux model counts tokens of four characters.
        let tokens = (chunk / 4.0).round().clamp(1.0, 1e6);
        let chunk = usize::try_from(tokens as u64).unwrap_or(1) * 4;
        let inner = ScriptState {
            replies,
            fill,
            chunk,
            calls: 0,
            numbered: 0,
            systems: BTreeSet::new(),
            trace,
            normaliser,
            during,
            asked: None,
        };
        (Self(Arc::new(Mutex::new(inner))), steps)
    }

    /// Returns the number of model calls, and of unused replies.
    pub(super) fn counts(&self) -> (usize, usize) {
        let inner = self.lock();
        (inner.calls, inner.replies.len().saturating_sub(inner.calls))
    }

    /// Records a call and returns the body that handlers may change.
    fn ask(&self, model: &Model, request: &Request) -> Value {
        let mut inner = self.lock();
        let inner = &mut *inner;
        let system = inner.normaliser.text(&request.system);
        let hash = short_hash(&system);
        if inner.systems.insert(hash.clone()) {
            inner.trace.record("system", json!({"hash": hash, "text": system}));
        }
        let tools: Vec<&str> = request.tools.iter().map(|ToolDescription { name, .. }| name.as_str()).collect();
        let messages: Vec<Value> = request.conversation.iter().map(|said| provider_form(&said.to_value())).collect();
        inner.calls += 1;
        let number = inner.calls;
        let item = json!({
            "n": number, "model": format!("{}/{}", model.provider, model.id), "thinking": request.thinking,
            "system": hash, "tools": tools, "messages": messages,
        });
        let item = inner.trace.record("llm", present(item));
        let payload = json!({"model": model.id, "system": system, "tools": tools, "messages": messages});
        inner.asked = Some(RecordedRequest { item, number, payload: payload.clone() });
        payload
    }

    /// Returns the number of the call that was recorded last, and its reply with ids for the tool calls.
    fn take(&self, sent: &Outgoing) -> (usize, Option<WholeReply>) {
        let mut inner = self.lock();
        let Some(asked) = inner.asked.take() else {
            // The body of a request is always built before it is sent; otherwise the script has no reply for it.
            return (inner.calls, None);
        };
        if asked.payload != sent.payload {
            inner.trace.set(asked.item, "payload", sent.payload.clone());
        }
        let headers: BTreeMap<_, _> =
            sent.headers.iter().filter_map(|(name, value)| Some((name, value.as_ref()?))).collect();
        if !headers.is_empty() {
            inner.trace.set(asked.item, "headers", json!(headers));
        }
        let Some(reply) = inner.replies.get(asked.number - 1) else { return (asked.number, None) };
        let mut reply = inner.fill.reply(reply);
        for block in &mut reply.content {
            if let ReplyBlock::ToolCall(call) = block
                && call.id.is_none()
            {
                inner.numbered += 1;
                call.id = Some(format!("call_{}", inner.numbered));
            }
        }
        (asked.number, Some(reply))
    }

    fn lock(&self) -> MutexGuard<'_, ScriptState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a message in the provider's form.
fn provider_form(said: &Value) -> Value {
    let Value::Object(mut members) = message(said) else { return Value::Null };
    for left_out in ["details", "terminate", "display", "customType"] {
        members.shift_remove(left_out);
    }
    Value::Object(members)
}

/// One of the two models of the script.
pub(super) struct ScriptedModel {
    model: Model,
    script: Script,
}

impl ScriptedModel {
    /// Creates the model `faux-1` or `faux-2`.
    pub(super) fn new(id: &str, script: Script) -> Self {
        let reasoning = id == "faux-2";
        let model = Model::new("faux", id, "faux")
            .with("name", if reasoning { "Faux Two" } else { "Faux One" })
            .with("baseUrl", "http://localhost:0")
            .with("reasoning", reasoning)
            .with("input", json!(["text", "image"]))
            .with("contextWindow", 128_000)
            .with("maxTokens", 16_384);
        Self { model, script }
    }
}

impl Provider for ScriptedModel {
    fn model(&self) -> &Model {
        &self.model
    }

    fn payload(&self, request: &Request) -> Value {
        self.script.ask(&self.model, request)
    }

    fn send(&self, outgoing: Outgoing, cancel: CancellationToken) -> ProviderStream {
        let script = self.script.clone();
        stream! {
            let (call, reply) = script.take(&outgoing);
            let reply_status = reply.as_ref().and_then(|reply| reply.status).unwrap_or(200);
            let headers = reply.as_ref().and_then(|reply| reply.headers.clone());
            let headers = headers.unwrap_or_else(|| BTreeMap::from([("x-faux".to_owned(), "1".to_owned())]));
            yield Ok(ProviderEvent::Response { status: reply_status, headers });
            let Some(reply) = reply else {
                yield Err(ProviderError::new(ErrorKind::Provider, "No more faux responses queued"));
                return;
            };
            if !reply.during.is_empty() {
                let (done, waits) = oneshot::channel();
                let sender = script.lock().during.clone();
                // The receiver is dropped when the driver is closed; no more steps are played then.
                if sender.send(InnerSteps { call, steps: reply.during.clone(), done }).is_ok() {
                    let _ = waits.await;
                }
            }
            let chunk = script.lock().chunk;
            let notes = [Note::CallsStayEmpty, Note::Usage(usage(&reply.usage))].map(ProviderEvent::Note);
            let begins = notes.into_iter().chain([ProviderEvent::Begun]);
            for event in begins.chain(events(&reply, chunk)) {
                // Pieces of a stream arrive in separate tasks.
                tokio::task::yield_now().await;
                if cancel.is_cancelled() {
                    yield Err(ProviderError::new(ErrorKind::Cancelled, "Request was aborted"));
                    return;
                }
                yield Ok(event);
            }
            yield ending(&reply);
        }
        .boxed()
    }
}

fn events(reply: &WholeReply, chunk: usize) -> Vec<ProviderEvent> {
    let mut events = Vec::new();
    for (index, block) in (0..).zip(&reply.content) {
        match block {
            ReplyBlock::Text(text) => events.extend(pieces(text, chunk).into_iter().map(ProviderEvent::Text)),
            ReplyBlock::Thinking(text) => events.extend(pieces(text, chunk).into_iter().map(ProviderEvent::Thinking)),
            ReplyBlock::ToolCall(call) => {
                let arguments = call.arguments.clone().unwrap_or_else(|| json!({})).to_string();
                for (at, arguments) in pieces(&arguments, chunk).into_iter().enumerate() {
                    let (id, name) = if at == 0 { (call.id.clone(), Some(call.name.clone())) } else { (None, None) };
                    events.push(ProviderEvent::ToolCall { index, id, name, arguments });
                }
            }
        }
        events.push(ProviderEvent::BlockEnd);
    }
    events
}

/// Splits a text into pieces of `units` UTF-16 units without splitting surrogate pairs.
fn pieces(text: &str, units: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    let mut length = 0;
    for character in text.chars() {
        if length >= units {
            pieces.push(String::new());
            length -= units;
        }
        pieces.last_mut().expect("the list of pieces is never empty").push(character);
        length += character.len_utf16();
    }
    pieces
}

fn ending(reply: &WholeReply) -> Result<ProviderEvent, ProviderError> {
    let calls_tools = reply.content.iter().any(|block| matches!(block, ReplyBlock::ToolCall(_)));
    let stop = match (reply.stop_reason.as_deref(), &reply.error_message) {
        (Some("stop"), _) => StopReason::Stop,
        (Some("length"), _) => StopReason::Length,
        (Some("toolUse"), _) => StopReason::ToolUse,
        (Some("aborted"), _) => return Err(ProviderError::new(ErrorKind::Cancelled, "Request was aborted")),
        (Some("error"), message) => return Err(failed(message.as_deref().unwrap_or_default())),
        (_, Some(message)) => return Err(failed(message)),
        _ if calls_tools => StopReason::ToolUse,
        _ => StopReason::Stop,
    };
    Ok(ProviderEvent::Done(stop))
}

fn failed(message: &str) -> ProviderError {
    ProviderError::new(ErrorKind::Provider, first_line(message))
}

fn usage(given: &Map<String, Value>) -> Usage {
    let mut usage = json!({
        "input": 10, "output": 5, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 15,
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0},
    });
    if let Value::Object(members) = &mut usage {
        members.extend(given.clone());
    }
    serde_json::from_value(usage).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_count_utf_16_units_and_keep_pairs() {
        assert_eq!(pieces("abcdefghi", 4), ["abcd", "efgh", "i"]);
        assert_eq!(pieces("", 4), [""]);
        assert_eq!(pieces("abc\u{1f600}def", 4), ["abc\u{1f600}", "def"]);
    }
}
