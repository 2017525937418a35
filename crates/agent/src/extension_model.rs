//! Providers implemented by a stream function of an extension.
//!
//! The function lives in the extension's realm on the agent's thread, while a [`Provider`] may be polled on any thread. A request
//! is therefore sent to the agent as work, and events return through a channel. pi's `AssistantMessageEvent`s become provider
//! events: deltas as they arrive, the usage at the end.

use crate::agent::Agent;
use crate::control::AgentControl;
use crate::extensions::ModelCall;
use crate::mailbox::{AgentTask, StreamRequest};
use async_stream::stream;
use futures_util::{FutureExt, StreamExt};
use pijs_host::PiProfile;
use pijs_llm::message::{Block, Message, StopReason};
use pijs_llm::provider::{
    ErrorKind, Model, Note, Outgoing, Provider, ProviderError, ProviderEvent, ProviderStream, Request,
};
use pijs_protocol::guard;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Bytes of a call's arguments that are buffered until its name is known.
const MAX_NAMELESS_BYTES: usize = 1 << 20;

/// A provider that calls the stream function of an extension.
pub(crate) struct ExtensionModel {
    model: Model,
    control: AgentControl,
}

impl ExtensionModel {
    pub(crate) fn new(model: Model, control: AgentControl) -> Self {
        Self { model, control }
    }
}

impl Provider for ExtensionModel {
    fn model(&self) -> &Model {
        &self.model
    }

    /// Returns pi's context and options; the extension writes the actual request body.
    fn payload(&self, request: &Request) -> Value {
        let tools: Vec<Value> = request
            .tools
            .iter()
            .map(|tool| json!({"name": tool.name, "description": tool.description, "parameters": tool.parameters}))
            .collect();
        // Messages as in the session: the extension's client repairs them for its server.
        let said: Vec<Value> = request.conversation.iter().map(Message::to_value).collect();
        let mut transcript: Vec<Value> = request.transcript.iter().map(Message::to_value).collect();
        if transcript.is_empty() {
            let head = json!({"role": "system", "content": request.system, "toolsAdded": tools, "timestamp": 0});
            transcript = std::iter::once(head).chain(said.clone()).collect();
        }
        let mut payload =
            json!({"systemPrompt": request.system, "messages": said, "tools": tools, "transcript": transcript});
        if let Some(level) = &request.thinking {
            payload["reasoning"] = json!(level);
        }
        if let Some(tokens) = request.max_tokens {
            payload["maxTokens"] = json!(tokens);
        }
        payload
    }

    fn has_own_payload(&self) -> bool {
        true
    }

    fn send(&self, outgoing: Outgoing, cancel: CancellationToken) -> ProviderStream {
        let (events, mut arriving) = mpsc::unbounded_channel();
        let stopped = cancel.child_token();
        // Dropping the stream cancels the extension's request.
        let guard = stopped.clone().drop_guard();
        self.control.send(AgentTask::Stream(StreamRequest {
            model: self.model.clone(),
            outgoing,
            cancel: stopped,
            events,
        }));
        stream! {
            let _guard = guard;
            loop {
                tokio::select! {
                    biased;
                    () = cancel.cancelled() => {
                        yield Err(ProviderError::new(ErrorKind::Cancelled, "the request was cancelled"));
                        return;
                    }
                    event = arriving.recv() => match event {
                        Some(event) => {
                            let last = matches!(event, Ok(ProviderEvent::Done(_)) | Err(_));
                            yield event;
                            if last {
                                return;
                            }
                        }
                        None => return,
                    },
                }
            }
        }
        .boxed()
    }
}

impl Agent {
    /// Calls the stream function and forwards its events.
    pub(crate) async fn stream_through_extension(&self, streamed: StreamRequest) {
        let StreamRequest { model, outgoing, cancel, events } = streamed;
        let failed = |message: String| {
            // The receiver may have been dropped.
            let _ = events.send(Err(ProviderError::new(ErrorKind::Provider, message)));
        };
        let Outgoing { payload, headers } = outgoing;
        let mut options = json!({});
        for key in ["reasoning", "maxTokens"] {
            if let Some(value) = payload.get(key) {
                options[key] = value.clone();
            }
        }
        let headers: BTreeMap<String, String> =
            headers.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        if !headers.is_empty() {
            options["headers"] = json!(headers);
        }
        let sink = events.clone();
        let mut reading = EventDecoder::default();
        let call = ModelCall {
            provider: &model.provider,
            model: model.to_value(),
            context: context_value(payload, self.extensions.profile()),
            options,
            cancel,
            on_event: Box::new(move |event| match event.get("type").and_then(Value::as_str) {
                Some("payload") => {
                    let payload = event.get("payload").cloned().unwrap_or_default();
                    async move { self.transform_payload(payload).await }.boxed_local()
                }
                Some("response") => {
                    let response = ProviderEvent::Response {
                        status: event
                            .get("status")
                            .and_then(Value::as_u64)
                            .and_then(|status| u16::try_from(status).ok())
                            .unwrap_or(200),
                        headers: event
                            .get("headers")
                            .cloned()
                            .and_then(|headers| serde_json::from_value(headers).ok())
                            .unwrap_or_default(),
                    };
                    let _ = sink.send(Ok(response));
                    async { Value::Null }.boxed_local()
                }
                _ => {
                    for event in reading.read(&event) {
                        let _ = sink.send(event);
                    }
                    async { Value::Null }.boxed_local()
                }
            }),
        };
        match self.extensions.stream_model(call).await {
            Ok(()) => failed("the provider's stream ended before its reply was complete".to_owned()),
            Err(message) => failed(message),
        }
    }
}

/// Returns pi's context. Its messages contain prompt and tools, which are separate members in earlier versions of pi.
fn context_value(mut payload: Value, profile: PiProfile) -> Value {
    let mut part = |key: &str| payload.get_mut(key).map(Value::take).unwrap_or_default();
    if profile.hears_system_messages() {
        return json!({"messages": part("transcript")});
    }
    json!({"systemPrompt": part("systemPrompt"), "messages": part("messages"), "tools": part("tools")})
}

/// A decoder of pi's `AssistantMessageEvent`s.
#[derive(Default)]
struct EventDecoder {
    /// Calls by content index.
    calls: BTreeMap<u64, StreamedCall>,
    /// Whether the reply arrived in deltas.
    is_streamed: bool,
}

impl EventDecoder {
    /// Decodes an event, preceded by its token counts.
    fn read(&mut self, event: &Value) -> Vec<Result<ProviderEvent, ProviderError>> {
        said(event, &["usage"]).map(Ok).into_iter().chain(self.read_kind(event)).collect()
    }

    fn read_kind(&mut self, event: &Value) -> Vec<Result<ProviderEvent, ProviderError>> {
        let text = |key: &str| event.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let index = event.get("contentIndex").and_then(Value::as_u64).unwrap_or(0);
        let number = u32::try_from(index).unwrap_or(u32::MAX);
        let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
        self.is_streamed |= ["text_", "thinking_", "toolcall_"].iter().any(|part| kind.starts_with(part));
        match kind {
            "start" => vec![Ok(ProviderEvent::Begun)],
            "text_delta" => vec![Ok(ProviderEvent::Text(text("delta")))],
            "thinking_delta" => vec![Ok(ProviderEvent::Thinking(text("delta")))],
            "thinking_end" => signature(event).into_iter().map(Ok).chain([Ok(ProviderEvent::BlockEnd)]).collect(),
            "text_end" => vec![Ok(ProviderEvent::BlockEnd)],
            "toolcall_start" | "toolcall_delta" => self.call(event, index, number),
            "toolcall_end" => {
                self.call(event, index, number).into_iter().chain([Ok(ProviderEvent::BlockEnd)]).collect()
            }
            "done" => {
                let message = event.get("message").cloned().unwrap_or_default();
                let stop = event.get("reason").or_else(|| message.get("stopReason")).cloned().unwrap_or_default();
                let stop = serde_json::from_value(stop).unwrap_or(StopReason::Stop);
                let whole = if self.is_streamed { Vec::new() } else { pieces(&message) };
                let end = rest(&message).into_iter().chain([ProviderEvent::Done(stop)]);
                whole.into_iter().chain(end).map(Ok).collect()
            }
            "error" => {
                let message = event.get("error").cloned().unwrap_or_default();
                let said =
                    message.get("errorMessage").and_then(Value::as_str).unwrap_or("the provider failed").to_owned();
                let aborted = event.get("reason").and_then(Value::as_str) == Some("aborted");
                let kind = if aborted { ErrorKind::Cancelled } else { ErrorKind::Provider };
                rest(&message).map(Ok).into_iter().chain([Err(ProviderError::new(kind, said))]).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Decodes an event of a call. The call begins when its name is known, with the arguments buffered so far; without deltas,
    /// its arguments are sent at the end.
    fn call(&mut self, event: &Value, index: u64, number: u32) -> Vec<Result<ProviderEvent, ProviderError>> {
        let block = event.get("toolCall").or_else(|| event.get("block"));
        let member = |key: &str| block.and_then(|block| block.get(key)).and_then(Value::as_str).map(str::to_owned);
        let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
        let call = self.calls.entry(index).or_default();
        if kind == "toolcall_delta" {
            call.arguments.push_str(event.get("delta").and_then(Value::as_str).unwrap_or_default());
        } else if kind == "toolcall_end" && !call.is_passed && call.arguments.is_empty() {
            let arguments = block.and_then(|block| block.get("arguments"));
            call.arguments = arguments.map(Value::to_string).unwrap_or_default();
        }
        let (id, name) = if call.is_begun { (None, None) } else { (member("id"), member("name")) };
        call.is_begun |= name.is_some() || kind == "toolcall_end";
        let begins = name.is_some();
        // A call without a name is not reported until its buffer is full; then its arguments are forwarded, so that they count
        // toward the size limit.
        call.is_begun |= call.arguments.len() > MAX_NAMELESS_BYTES && guard!(ReplySize);
        if !call.is_begun || (!begins && call.arguments.is_empty()) {
            return Vec::new();
        }
        call.is_passed |= !call.arguments.is_empty();
        let arguments = std::mem::take(&mut call.arguments);
        let call = ProviderEvent::ToolCall { index: number, id, name, arguments };
        vec![Ok(if kind == "toolcall_end" { ProviderEvent::RulesOnly(Box::new(call)) } else { call })]
    }
}

/// State of a call.
#[derive(Default)]
struct StreamedCall {
    is_begun: bool,
    /// Arguments that are not forwarded yet.
    arguments: String,
    /// Whether some of the arguments were forwarded.
    is_passed: bool,
}

/// Splits a reply that arrived without deltas into the events of a streamed one.
fn pieces(message: &Value) -> Vec<ProviderEvent> {
    let blocks = message.get("content").cloned().and_then(|content| serde_json::from_value::<Vec<Block>>(content).ok());
    let mut pieces = Vec::new();
    for (index, block) in (0..).zip(blocks.unwrap_or_default()) {
        match block {
            Block::Text(block) => pieces.push(ProviderEvent::Text(block.text)),
            Block::Thinking(block) => {
                pieces.push(ProviderEvent::Thinking(block.thinking));
                pieces.extend(block.thinking_signature.map(Note::ThinkingSignature).map(ProviderEvent::Note));
            }
            Block::ToolCall(call) => {
                let (id, name, arguments) = (Some(call.id), Some(call.name), call.arguments.to_string());
                pieces.push(ProviderEvent::ToolCall { index, id, name, arguments });
            }
            _ => continue,
        }
        pieces.push(ProviderEvent::BlockEnd);
    }
    pieces.into_iter().map(|piece| ProviderEvent::RulesOnly(Box::new(piece))).collect()
}

fn signature(event: &Value) -> Option<ProviderEvent> {
    match serde_json::from_value(event.get("block")?.clone()).ok()? {
        Block::Thinking(block) => block.thinking_signature.map(Note::ThinkingSignature).map(ProviderEvent::Note),
        _ => None,
    }
}

/// Members of a reply that the session sets.
const OWN: [&str; 7] = ["role", "content", "provider", "model", "stopReason", "errorMessage", "timestamp"];

/// Returns the members of a complete reply other than its content and end.
fn rest(message: &Value) -> Option<ProviderEvent> {
    let keys: Vec<&str> = message.as_object()?.keys().map(String::as_str).filter(|key| !OWN.contains(key)).collect();
    said(message, &keys)
}

fn said(value: &Value, keys: &[&str]) -> Option<ProviderEvent> {
    let member = |key: &&str| Some(((*key).to_owned(), value.get(*key).filter(|member| !member.is_null())?.clone()));
    let members: Map<String, Value> = keys.iter().filter_map(member).collect();
    (!members.is_empty()).then_some(ProviderEvent::Note(Note::Members(members)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_call_is_held_back_until_its_name_is_known() {
        let block = json!({"type": "toolCall", "id": "c1", "name": "look", "arguments": {}});
        let end = json!({"type": "toolCall", "id": "c1", "name": "look", "arguments": {"a": 1}});
        let event = |kind: &str, more: Value| {
            let mut event = json!({"type": kind, "contentIndex": 0});
            event.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
            event
        };
        for events in [
            vec![event("toolcall_start", json!({"block": block})), event("toolcall_end", json!({"toolCall": end}))],
            vec![event("toolcall_start", json!({})), event("toolcall_end", json!({"toolCall": end}))],
            vec![
                event("toolcall_start", json!({})),
                event("toolcall_delta", json!({"delta": "{\"a\":"})),
                event("toolcall_delta", json!({"delta": "1}", "block": block})),
                event("toolcall_end", json!({"toolCall": end})),
            ],
        ] {
            let mut reading = EventDecoder::default();
            let (mut names, mut given) = (Vec::new(), String::new());
            for read in events.iter().flat_map(|event| reading.read(event)) {
                let read = match read.expect("a call") {
                    ProviderEvent::BlockEnd => continue,
                    ProviderEvent::RulesOnly(last) => *last,
                    read => read,
                };
                let ProviderEvent::ToolCall { id, name, arguments, .. } = read else { panic!("a call") };
                names.extend(name.map(|name| (id.unwrap_or_default(), name)));
                given.push_str(&arguments);
            }
            assert_eq!(
                (names, given.as_str()),
                (vec![("c1".to_owned(), "look".to_owned())], "{\"a\":1}"),
                "{events:?}"
            );
        }
    }
}
