//! Models that an extension asks by itself: `complete` and `stream` of pi-ai, `ctx.modelRegistry`.
//!
//! The reply is no part of the conversation; it goes to the extension, piece by piece when it wants that.
//! The key is the session's own; it is never shown to an extension, which gets a name for it instead
//! ([`KEY_NAME`]) and hands that back. A model that the session does not know is a server of the extension's
//! choice: that is another op, which needs what registering a provider needs.

use crate::agent::Agent;
use crate::message::{AssistantMessage, Block, Content, Message};
use crate::models::{self, Credentials};
use crate::one_reply::Listener;
use crate::partial::{Partial, Step};
use crate::provider::{ErrorKind, Model, Provider, ProviderError, Request, RequestMessage, ToolDescription};
use crate::room::bytes_of;
use crate::{context, control::VERDICT_TYPE};
use pijs_hostcall::{CancelToken, ChunkSink, Output};
use pijs_protocol::{ExtensionId, HostcallError};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// What stands for a key of the session's in an extension: this, and the provider's name.
const KEY_NAME: &str = "pijs-session-key:";

/// Headers that stand for a key.
const LETTING_IN: [&str; 3] = ["authorization", "x-api-key", "cf-aig-authorization"];

/// A question on its way to the agent's thread.
pub(crate) struct Question {
    pub(crate) extension: ExtensionId,
    pub(crate) params: Map<String, Value>,
    /// It may be a model of the extension's own, at an address of its own.
    pub(crate) elsewhere: bool,
    /// Takes the reply as it arrives, for who wants it so.
    pub(crate) pieces: Option<ChunkSink>,
    /// Fires when nobody waits for the reply any more.
    pub(crate) cancel: CancelToken,
    pub(crate) done: oneshot::Sender<Result<Value, HostcallError>>,
}

/// Passes a reply on to the extension. It is done when the call has ended or its quota is used up: then the rest
/// comes with the whole message, or not at all.
impl Listener for ChunkSink {
    fn response(&self, status: u16, headers: &BTreeMap<String, String>) {
        let _ = self.send(Output::new(json!({"type": "response", "status": status, "headers": headers})));
    }

    fn step(&self, partial: &Partial, step: &Step) {
        let mut update = partial.update(step).to_map();
        if let Step::Start(index) = step
            && let Block::ToolCall(call) = &partial.message.content[*index]
        {
            update.insert("toolCall".to_owned(), json!({"id": call.id, "name": call.name}));
        }
        if let Step::Delta(index, _) = step
            && let Some(arguments) = partial.shown().arguments(*index)
        {
            update.insert("arguments".to_owned(), arguments);
        }
        let _ = self.send(Output::new(Value::Object(update)));
    }
}

impl Agent {
    /// One reply of a model, as pi's `AssistantMessage`; a failure is one too. The request ends with whoever waited.
    pub(crate) async fn ask_model(&self, question: Question) {
        let Question { extension, params, elsewhere, pieces, cancel, done } = question;
        let stop = CancellationToken::new();
        // However this ends, the provider's connection goes.
        let _guard = stop.clone().drop_guard();
        let answer = tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            answer = self.answer(&extension, &params, elsewhere, pieces, stop) => answer,
        };
        // Whoever asked may be gone.
        let _ = done.send(answer);
    }

    async fn answer(
        &self,
        extension: &ExtensionId,
        params: &Map<String, Value>,
        elsewhere: bool,
        pieces: Option<ChunkSink>,
        stop: CancellationToken,
    ) -> Result<Value, HostcallError> {
        let model = params
            .get("model")
            .and_then(Model::from_value)
            .ok_or_else(|| HostcallError::invalid("schema", "session.ask_model: a model has an id and a provider"))?;
        let asking = self.asked.begin(extension, bytes_of(params.values()))?;
        let options = params.get("options").cloned().unwrap_or_default();
        let request = request(params.get("context").unwrap_or(&Value::Null), &options);
        let nobody: &dyn Listener = &();
        let listener = pieces.as_ref().map_or(nobody, |pieces| pieces);
        let message = match self.model_for(extension, &model, &options, elsewhere).await {
            Ok(provider) => self.ask_once_in_pieces(&*provider, &request, stop, listener).await,
            Err(error) => self.failed(&model, &error),
        };
        asking.end(&message.usage);
        Ok(Message::Assistant(message).to_value())
    }

    /// The model as the session knows it, with what lets requests to it in; `elsewhere` is one of the extension's own, which
    /// may speak to any server, with the key that it gave.
    async fn model_for(
        &self,
        extension: &ExtensionId,
        model: &Model,
        options: &Value,
        elsewhere: bool,
    ) -> Result<Arc<dyn Provider>, ProviderError> {
        if !elsewhere {
            let known = self.models.borrow().find(&model.provider, &model.id);
            return self.open_model_for_extension(known.as_ref().unwrap_or(model)).await;
        }
        let key = options.get("apiKey").and_then(Value::as_str).filter(|key| !key.starts_with(KEY_NAME));
        let headers = options.get("headers").cloned().and_then(|headers| serde_json::from_value(headers).ok());
        let headers: BTreeMap<String, String> = headers.unwrap_or_default();
        let lets_in = |name: &String| LETTING_IN.iter().any(|known| name.eq_ignore_ascii_case(known));
        if key.is_none() && !headers.keys().any(lets_in) {
            let message = format!("No API key for provider: {}", model.provider);
            return Err(ProviderError::new(ErrorKind::Auth, message));
        }
        let reached = self.extensions.reaches(extension.as_str(), models::address_of(model)).await;
        reached.map_err(|message| ProviderError::new(ErrorKind::Auth, message))?;
        let credentials = Credentials { key: key.map(str::to_owned), headers, ..Credentials::default() };
        let limits = self.settings.borrow().provider.clone();
        models::open_http(model.clone(), credentials, &limits, &self.options.ambient)
    }

    fn failed(&self, model: &Model, error: &ProviderError) -> AssistantMessage {
        let mut message = crate::partial::Partial::new(model, self.now()).message;
        message.stop_reason = crate::message::StopReason::Error;
        message.error_message = Some(error.to_string());
        message
    }
}

/// pi's `Context`: `systemPrompt`, or system messages in front, and tools in either place.
pub(crate) fn request(given: &Value, options: &Value) -> Request {
    let mut system: Vec<String> =
        given.get("systemPrompt").and_then(Value::as_str).map(str::to_owned).into_iter().collect();
    let mut tools: Vec<ToolDescription> = tools_of(given.get("tools"));
    let mut messages = Vec::new();
    for value in given.get("messages").and_then(Value::as_array).into_iter().flatten() {
        if value.get("role").and_then(Value::as_str) == Some("system") {
            let content =
                value.get("content").cloned().and_then(|content| serde_json::from_value::<Content>(content).ok());
            system.extend(content.map(|content| content.text()).filter(|text| !text.is_empty()));
            let sections = value.get("sections").and_then(Value::as_object).into_iter().flatten();
            system.extend(sections.filter_map(|(_, text)| text.as_str().map(str::to_owned)));
            tools.extend(tools_of(value.get("toolsAdded")));
            continue;
        }
        if let Ok(message) = serde_json::from_value::<Message>(value.clone()) {
            // Only a verdict speaks as the system.
            if !matches!(&message, Message::Custom(custom) if custom.custom_type == VERDICT_TYPE) {
                messages.push(message);
            }
        }
    }
    let conversation = context::conversation(&messages);
    let messages = context::request_messages(&messages);
    let messages = messages.into_iter().filter(|message| !is_empty(message)).collect();
    Request {
        system: system.join("\n\n"),
        messages,
        conversation,
        transcript: Vec::new(),
        tools,
        thinking: options.get("reasoning").and_then(Value::as_str).filter(|level| *level != "off").map(str::to_owned),
        max_tokens: options.get("maxTokens").and_then(Value::as_u64),
        session: options.get("sessionId").and_then(Value::as_str).map(str::to_owned),
    }
}

fn is_empty(message: &RequestMessage) -> bool {
    let RequestMessage::User(said) = message else { return false };
    said.blocks().iter().all(|block| matches!(block, Block::Text(text) if text.text.is_empty()))
}

fn tools_of(listed: Option<&Value>) -> Vec<ToolDescription> {
    let text = |tool: &Value, key: &str| tool.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let listed = listed.and_then(Value::as_array).into_iter().flatten();
    listed
        .map(|tool| ToolDescription {
            name: text(tool, "name"),
            description: text(tool, "description"),
            parameters: tool.get("parameters").cloned().unwrap_or_else(|| json!({"type": "object"})),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompt_and_tools_are_found_in_either_place() {
        let tool = json!([{"name": "t", "description": "d", "parameters": {"type": "object"}}]);
        let user = json!({"role": "user", "content": "hi", "timestamp": 1});
        for given in [
            json!({"systemPrompt": "S", "tools": tool, "messages": [user]}),
            json!({"messages": [{"role": "system", "content": "S", "toolsAdded": tool}, user]}),
        ] {
            let request = request(&given, &json!({"reasoning": "high", "maxTokens": 7}));
            assert_eq!((request.system.as_str(), request.tools[0].name.as_str()), ("S", "t"));
            assert_eq!(request.messages, [RequestMessage::User("hi".into())]);
            assert_eq!((request.thinking.as_deref(), request.max_tokens), (Some("high"), Some(7)));
        }
    }
}
