//! Model requests of extensions: `complete` and `stream` of pi-ai, and `ctx.modelRegistry`.
//!
//! The reply is not a part of the conversation; it goes to the extension, optionally in pieces. The request uses the session's
//! key, which is never passed to the extension; the extension gets a name that stands for the key ([`SESSION_KEY`]) and passes it
//! back. A request to a model that the session does not know goes to a server of the extension's choice. This is a separate
//! operation, which requires the capability to register providers.
//!
//! Sub-agents of an extension (`createAgentSession`, `Agent`) are pi's own code in the extension's realm: their loop, tools and
//! session files are vendored packages on the Node layer, so each of their effects is a hostcall of that extension.

use crate::agent::Agent;
use crate::mailbox::ModelRequest;
use pijs_hostcall::{ChunkSink, Output};
use pijs_llm::message::bytes_of;
use pijs_llm::message::{AssistantMessage, Block, Message};
use pijs_llm::models::{self, Credentials};
use pijs_llm::one_reply::Listener;
use pijs_llm::partial::{Partial, Step};
use pijs_llm::pi_context::request;
use pijs_llm::provider::{ErrorKind, Model, Provider, ProviderError};
use pijs_protocol::{ExtensionId, HostcallError};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Prefix of the name that stands for a key of the session; the name of the provider follows.
const SESSION_KEY: &str = "pijs-session-key:";

/// Headers that contain a key.
const KEY_HEADERS: [&str; 3] = ["authorization", "x-api-key", "cf-aig-authorization"];

/// Streams a reply to the extension. Stops when the call ends or its chunk quota is exhausted. The extension still gets the
/// complete message as the result.
struct ReplyChunks(ChunkSink);

impl Listener for ReplyChunks {
    fn response(&self, status: u16, headers: &BTreeMap<String, String>) {
        let _ = self.0.send(Output::new(json!({"type": "response", "status": status, "headers": headers})));
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
        let _ = self.0.send(Output::new(Value::Object(update)));
    }
}

impl Agent {
    /// Requests a reply and returns pi's `AssistantMessage`, which also represents a failure. The request is cancelled when the
    /// caller stops waiting.
    pub(crate) async fn request_model(&self, question: ModelRequest) {
        let ModelRequest { extension, params, elsewhere, pieces, cancel, done } = question;
        let stop = CancellationToken::new();
        // Drops the provider's connection on return.
        let _guard = stop.clone().drop_guard();
        let answer = tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            answer = self.answer(&extension, &params, elsewhere, pieces, stop) => answer,
        };
        // The caller may have stopped waiting.
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
        let model = params.get("model").and_then(Model::from_value).ok_or_else(|| {
            HostcallError::invalid("schema", "session.ask_model: the model needs an id and a provider")
        })?;
        let asking = self.model.quota.begin(extension, bytes_of(params.values()))?;
        let options = params.get("options").cloned().unwrap_or_default();
        let request = request(params.get("context").unwrap_or(&Value::Null), &options);
        let (nobody, pieces): (&dyn Listener, _) = (&(), pieces.map(ReplyChunks));
        let listener = pieces.as_ref().map_or(nobody, |pieces| pieces);
        let message = match self.model_for(extension, &model, &options, elsewhere).await {
            Ok(provider) => self.request_once_observed(&*provider, &request, stop, listener).await,
            Err(error) => self.failed(&model, &error),
        };
        asking.end(&message.usage);
        Ok(Message::Assistant(message).to_value())
    }

    /// Returns the session's model with its credentials. If `elsewhere` is set, returns the model that the extension described,
    /// for any server and with the key that the extension passed.
    async fn model_for(
        &self,
        extension: &ExtensionId,
        model: &Model,
        options: &Value,
        elsewhere: bool,
    ) -> Result<Arc<dyn Provider>, ProviderError> {
        if !elsewhere {
            let known = self.model.offered.borrow().find(&model.provider, &model.id);
            return self.open_model_for_extension(known.as_ref().unwrap_or(model)).await;
        }
        let key = options.get("apiKey").and_then(Value::as_str).filter(|key| !key.starts_with(SESSION_KEY));
        let headers = options.get("headers").cloned().and_then(|headers| serde_json::from_value(headers).ok());
        let headers: BTreeMap<String, String> = headers.unwrap_or_default();
        let lets_in = |name: &String| KEY_HEADERS.iter().any(|known| name.eq_ignore_ascii_case(known));
        if key.is_none() && !headers.keys().any(lets_in) {
            let message = format!("No API key for provider: {}", model.provider);
            return Err(ProviderError::new(ErrorKind::Auth, message));
        }
        let reached = self.extensions.reaches(extension.as_str(), models::address_of(model)).await;
        reached.map_err(|message| ProviderError::new(ErrorKind::Auth, message))?;
        let credentials = Credentials { key: key.map(str::to_owned), headers, ..Credentials::default() };
        let limits = self.settings.borrow().provider.clone();
        let opened = models::open_http(model.clone(), credentials, &limits, self.options.provider_ambient())?;
        Ok(self.observed(opened))
    }

    fn failed(&self, model: &Model, error: &ProviderError) -> AssistantMessage {
        let mut message = pijs_llm::partial::Partial::new(model, self.now()).message;
        message.stop_reason = pijs_llm::message::StopReason::Error;
        message.error_message = Some(error.to_string());
        message
    }
}
