//! Scripted model (`script:FILE`): reads replies from a file, so that a session runs offline.
//!
//! The file is JSON lines; the n-th line answers the n-th request:
//!
//! ```json
//! {"events": [{"text": "Hel"}, {"text": "lo"}, {"delay_ms": 5}], "stop": "end_turn"}
//! {"events": [{"tool_call": {"id": "1", "name": "ls", "arguments": "{}"}}], "stop": "tool_use"}
//! ```
//!
//! Each event is one delta; pieces of a tool call share its id. A tool call in one piece may have its arguments as an object and
//! omit its id. `{"error": "..."}` ends the reply with an error. Opening a script reads and validates the whole file.

use super::surrogates::{Joiner, Wtf8};
use super::{
    ErrorKind, Model, Outgoing, Provider, ProviderError, ProviderEvent, ProviderStream, Request, RequestMessage,
    cancellable,
};
use crate::message::StopReason;
use async_stream::stream;
use futures_util::StreamExt;
use pijs_environment::{Ambient, Wait};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Token limit of a scripted reply; a reply with stop reason `length` has reached it.
const MAX_REPLY_TOKENS: u64 = 8000;

/// A scripted model. All requests of a session share its position in the script.
pub struct Script {
    model: Model,
    replies: Vec<ScriptedReply>,
    next: AtomicUsize,
    ambient: Ambient,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptedReply {
    events: Vec<ScriptedEvent>,
    stop: Option<ScriptedStop>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ScriptedEvent {
    Text(Wtf8),
    Thinking(Wtf8),
    ToolCall(ScriptedCall),
    DelayMs(u64),
    Error(String),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptedCall {
    id: String,
    name: String,
    #[serde(default)]
    arguments: Wtf8,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ScriptedStop {
    EndTurn,
    ToolUse,
    Length,
}

impl Script {
    /// Reads and validates a script.
    pub fn open(path: &Path, ambient: Ambient) -> Result<Self, ProviderError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| {
            ProviderError::new(ErrorKind::Script, format!("cannot read the script {name}: {error}"))
                .with_help("--model script:FILE names a file of JSON lines")
        })?;
        Self::parse(&name, &text, ambient)
    }

    /// Validates the text of a script. Blank lines are skipped.
    pub fn parse(name: &str, text: &str, ambient: Ambient) -> Result<Self, ProviderError> {
        let mut replies = Vec::new();
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let reply = serde_json::from_str(line).or_else(|error| in_pieces(line, index).ok_or(error));
            replies.push(reply.map_err(|error| {
                ProviderError::new(ErrorKind::Script, format!("{name}, line {}: {error}", index + 1)).with_help(
                    concat!(
                        r#"a line is {"events": [{"text": "..."}]}, or one that calls a tool: "#,
                        r#"{"events": [{"tool_call": {"name": "bash", "arguments": {"command": "ls"}}}]}"#,
                    ),
                )
            })?);
        }
        let model = Model::new("script", name, "script").with("maxTokens", MAX_REPLY_TOKENS);
        Ok(Self { model, replies, next: AtomicUsize::new(0), ambient })
    }
}

impl Provider for Script {
    fn model(&self) -> &Model {
        &self.model
    }

    fn payload(&self, request: &Request) -> Value {
        let messages: Vec<Value> = request.messages.iter().map(RequestMessage::to_value).collect();
        let tools: Vec<&str> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
        json!({"model": self.model.id, "system": request.system, "tools": tools, "messages": messages})
    }

    fn send(&self, _outgoing: Outgoing, cancel: CancellationToken) -> ProviderStream {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let reply = self.replies.get(number).cloned();
        let (name, lines) = (self.model.id.clone(), self.replies.len());
        let timer = self.ambient.timer.clone();
        let replies = stream! {
            let Some(reply) = reply else {
                yield Err(ProviderError::new(
                    ErrorKind::Script,
                    format!("the script {name} has {lines} line{}, and this is request {}", if lines == 1 { "" } else { "s" }, number + 1),
                ).with_help("add a line for each request the session makes"));
                return;
            };
            yield Ok(ProviderEvent::Response { status: 200, headers: BTreeMap::new() });
            yield Ok(ProviderEvent::Begun);
            let mut text = Joiner::default();
            let mut thinking = Joiner::default();
            let mut calls: Vec<(String, Joiner)> = Vec::new();
            for event in reply.events {
                match event {
                    ScriptedEvent::Text(piece) => yield Ok(ProviderEvent::Text(text.push(&piece))),
                    ScriptedEvent::Thinking(piece) => yield Ok(ProviderEvent::Thinking(thinking.push(&piece))),
                    ScriptedEvent::ToolCall(piece) => yield Ok(tool_call(&mut calls, piece)),
                    ScriptedEvent::DelayMs(ms) => timer.sleep(Wait::Script, Duration::from_millis(ms)).await,
                    ScriptedEvent::Error(message) => {
                        yield Err(ProviderError::new(ErrorKind::Provider, message));
                        return;
                    }
                }
            }
            if let Some(rest) = thinking.finish() {
                yield Ok(ProviderEvent::Thinking(rest));
            }
            if let Some(rest) = text.finish() {
                yield Ok(ProviderEvent::Text(rest));
            }
            yield Ok(ProviderEvent::Done(match reply.stop {
                Some(ScriptedStop::EndTurn) => StopReason::Stop,
                Some(ScriptedStop::ToolUse) => StopReason::ToolUse,
                Some(ScriptedStop::Length) => StopReason::Length,
                None if calls.is_empty() => StopReason::Stop,
                None => StopReason::ToolUse,
            }));
        };
        cancellable(replies.boxed(), cancel)
    }
}

/// Parses a line with tool calls whose arguments are an object, or that have no id.
fn in_pieces(line: &str, index: usize) -> Option<ScriptedReply> {
    let mut reply: Value = serde_json::from_str(line).ok()?;
    let calls = reply.get_mut("events")?.as_array_mut()?.iter_mut().filter_map(|event| event.get_mut("tool_call"));
    for (number, call) in calls.filter_map(Value::as_object_mut).enumerate() {
        if let Some(arguments @ Value::Object(_)) = call.get_mut("arguments") {
            *arguments = arguments.to_string().into();
        }
        call.entry("id").or_insert_with(|| format!("call_{}_{}", index + 1, number + 1).into());
    }
    serde_json::from_value(reply).ok()
}

fn tool_call(calls: &mut Vec<(String, Joiner)>, piece: ScriptedCall) -> ProviderEvent {
    let known = calls.iter().position(|(id, _)| *id == piece.id);
    let index = known.unwrap_or_else(|| {
        calls.push((piece.id.clone(), Joiner::default()));
        calls.len() - 1
    });
    let arguments = calls[index].1.push(&piece.arguments);
    let first = known.is_none();
    ProviderEvent::ToolCall {
        index: u32::try_from(index).expect("a script line has fewer than 2^32 events"),
        id: first.then_some(piece.id),
        name: first.then_some(piece.name),
        arguments,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn run(script: &Script) -> Vec<Result<ProviderEvent, ProviderError>> {
        script.send(Value::Null.into(), CancellationToken::new()).collect().await
    }

    #[tokio::test]
    async fn the_second_line_answers_the_second_request_and_the_third_has_none() {
        let text = "{\"events\":[{\"text\":\"a\\ud83d\"},{\"text\":\"\\ude00\"}]}\n\n{\"events\":[{\"tool_call\":{\"id\":\"x\",\"name\":\"ls\",\"arguments\":\"{\"}},{\"tool_call\":{\"id\":\"x\",\"name\":\"ls\",\"arguments\":\"}\"}}]}\n";
        let script = Script::parse("s", text, Ambient::system()).unwrap();
        let first = run(&script).await;
        assert_eq!(first[2], Ok(ProviderEvent::Text("a".to_owned())));
        assert_eq!(first[3], Ok(ProviderEvent::Text("😀".to_owned())));
        assert_eq!(first[4], Ok(ProviderEvent::Done(StopReason::Stop)));
        let second = run(&script).await;
        assert_eq!(
            second[3],
            Ok(ProviderEvent::ToolCall { index: 0, id: None, name: None, arguments: "}".to_owned() })
        );
        assert_eq!(second[4], Ok(ProviderEvent::Done(StopReason::ToolUse)));
        let third = run(&script).await;
        let error = third[0].as_ref().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Script);
        assert!(error.to_string().contains("request 3"), "{error}");
    }

    #[tokio::test]
    async fn a_tool_call_may_omit_its_id_and_have_object_arguments() {
        let line = r#"{"events":[{"tool_call":{"name":"ls","arguments":{"path":"a"}}},{"tool_call":{"name":"ls"}}]}"#;
        let script = Script::parse("s", line, Ambient::system()).unwrap();
        let events = run(&script).await;
        let call = |index, id: &str, arguments: &str| ProviderEvent::ToolCall {
            index,
            id: Some(id.to_owned()),
            name: Some("ls".to_owned()),
            arguments: arguments.to_owned(),
        };
        assert_eq!(events[2], Ok(call(0, "call_1_1", r#"{"path":"a"}"#)));
        assert_eq!(events[3], Ok(call(1, "call_1_2", "")));
        assert_eq!(events[4], Ok(ProviderEvent::Done(StopReason::ToolUse)));
    }

    #[test]
    fn an_invalid_line_is_reported() {
        let error = Script::parse("s.jsonl", "{\"events\":[]}\n{\"event\":[]}", Ambient::system()).err().unwrap();
        assert!(error.to_string().starts_with("s.jsonl, line 2"), "{error}");
    }

    #[tokio::test]
    async fn a_cancelled_token_ends_a_reply_that_waits() {
        let script =
            Script::parse("s", r#"{"events":[{"text":"a"},{"delay_ms":3600000}]}"#, Ambient::system()).unwrap();
        let cancel = CancellationToken::new();
        let mut stream = script.send(Value::Null.into(), cancel.clone());
        assert!(stream.next().await.unwrap().is_ok());
        assert!(stream.next().await.unwrap().is_ok());
        cancel.cancel();
        assert_eq!(stream.next().await.unwrap().unwrap_err().kind(), ErrorKind::Cancelled);
        assert!(stream.next().await.is_none());
    }
}
