//! Events of the agent: to extensions, whose handlers may change them, and to the front end.

use crate::agent::Agent;
use crate::events::AgentEvent;
use crate::extensions::{Event, EventOutcome};
use crate::outcome::AgentError;
use crate::{transcript, verdict_text};
use pijs_inputs::Stage;
use pijs_llm::message::{AssistantMessage, Block, Message, StopReason};
use pijs_llm::partial::PartialMessage;
use pijs_llm::update::Update;
use pijs_protocol::guard;
use pijs_session_store::Body;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

impl Agent {
    /// Sends an event to extensions, then to the front end.
    pub(crate) async fn emit(&self, event: AgentEvent<'_>) -> Result<(), AgentError> {
        self.emit_to_extensions(&event).await;
        self.emit_to_front_end(&event)
    }

    /// Sends an event to the front end only.
    pub(crate) fn emit_to_front_end(&self, event: &AgentEvent<'_>) -> Result<(), AgentError> {
        self.front_end.borrow_mut().event(event).map_err(AgentError::FrontEnd)
    }

    /// Sends an event to extensions. Returns the event as changed by their handlers, if there are any.
    async fn emit_to_extensions(&self, event: &AgentEvent<'_>) -> Option<EventOutcome> {
        let name = event.extension_event().filter(|name| self.extensions.has_handlers(name))?;
        let mut payload = match event {
            AgentEvent::MessageUpdate { message, update } if !self.extensions.profile().queues(name) => {
                self.growth(name, *message, *update)
            }
            event => event.payload(),
        };
        if !self.extensions.profile().hears_system_messages() {
            let is_system = |message: &Value| message["role"] == "system";
            if payload.get("message").is_some_and(is_system) {
                return None;
            }
            if let Some(Value::Array(messages)) = payload.get_mut("messages") {
                messages.retain(|message| !is_system(message));
            }
        }
        let outcome = self.extensions.emit(Event { name, payload, cancel: None }).await;
        self.messages_read().await;
        Some(outcome)
    }

    /// Returns a message update for extensions: only the change, unless a listener missed the previous update.
    fn growth(&self, name: &str, message: PartialMessage<'_>, update: Update<'_>) -> Map<String, Value> {
        let number = self.updates.sent.get() + 1;
        self.updates.sent.set(number);
        let listeners = Some(self.extensions.listeners(name));
        let is_known = self.updates.told.replace(listeners) == listeners;
        AgentEvent::growth(message, update, number, is_known)
    }

    /// Forgets which updates were sent, because another message begins.
    pub(crate) fn forget_updates(&self) {
        self.updates.told.set(None);
    }

    /// Waits until messages that handlers sent are processed or refused, so that they precede later messages.
    pub(crate) async fn messages_read(&self) {
        let is_in = |stage| self.control.inputs(|inputs| !inputs.is_over(stage));
        if is_in(Stage::Unread) {
            self.control.barrier().await;
        }
        if is_in(Stage::Rejecting) {
            self.deliveries_done().await;
        }
    }

    /// Emits `message_end`, whose handlers may replace the message before it is stored or shown. Returns the message and the
    /// extensions that replaced it; these are authors if they changed text that the model reads.
    pub(crate) async fn end_message(&self, message: Message) -> Result<(Message, Vec<String>), AgentError> {
        self.end_message_of(BTreeSet::new(), message).await
    }

    /// Emits `message_end` for a reply. An extension is its author if the user did not choose the extension's provider.
    pub(crate) async fn end_reply(&self, reply: AssistantMessage) -> Result<(Message, Vec<String>), AgentError> {
        let author = self.answers_as(&reply.provider);
        self.end_message_of(author.into_iter().collect(), Message::Assistant(reply)).await
    }

    /// Returns the extension to which the replies of a provider are attributed, if any.
    pub(crate) fn answers_as(&self, provider: &str) -> Option<String> {
        let by = self.model.offered.borrow().unchosen_extension(provider).map(str::to_owned);
        by.filter(|by| self.extensions.answers_unasked(by) && guard!(AttributionAuthor))
    }

    /// Emits `message_end` for a message that these extensions wrote or changed.
    pub(crate) async fn end_message_of(
        &self,
        mut editors: BTreeSet<String>,
        mut message: Message,
    ) -> Result<(Message, Vec<String>), AgentError> {
        let mut replied = editors.is_empty() || !matches!(message, Message::Assistant(_));
        let outcome = self.emit_to_extensions(&AgentEvent::MessageEnd { message: &message }).await.unwrap_or_default();
        let replaced = outcome.field("message").and_then(|given| replacement(&message, given));
        if let Some(replaced) = replaced {
            let mut authors = message.authors_mut().map(std::mem::take).unwrap_or_default();
            let before = std::mem::replace(&mut message, transcript::neutralised(replaced));
            let is_new = guard!(AttributionAuthor) && adds_text(&before, &message);
            let new = outcome.authors.iter().filter(|_| is_new).cloned();
            match message.authors_mut() {
                Some(noted) => {
                    authors.extend(new);
                    *noted = authors;
                }
                None => editors.extend(new),
            }
            replied &= !matches!(&before, Message::Assistant(reply) if !is_whole(reply));
        }
        self.emit_to_front_end(&AgentEvent::MessageEnd { message: &message })?;
        if editors.is_empty() || replied {
            self.control.append_edited(editors, &message)?;
        } else {
            self.control.append_by(editors, Body::Message { message: message.clone() })?;
        }
        self.publish_usage();
        Ok((message, outcome.authors))
    }

    /// Emits an event and ignores the handlers' answers. `build` is called only when there are handlers.
    pub(crate) async fn notify(&self, name: &str, build: impl FnOnce() -> Event) {
        if self.extensions.has_handlers(name) {
            self.extensions.emit(build()).await;
        }
    }
}

/// Returns whether a message contains text for the model that the earlier version does not. Removed text is ignored, unless a
/// failed reply becomes a successful one.
fn adds_text(before: &Message, after: &Message) -> bool {
    match (before, after) {
        (Message::Assistant(before), Message::Assistant(after)) => {
            let is_new = |block: &Block| !before.content.contains(block);
            after.content.iter().any(is_new) || (is_whole(after) && !is_whole(before))
        }
        (Message::ToolResult(before), Message::ToolResult(after)) => {
            before.content != after.content || before.is_error != after.is_error
        }
        _ => true,
    }
}

/// Returns whether a reply neither failed nor was aborted.
fn is_whole(reply: &AssistantMessage) -> bool {
    !matches!(reply.stop_reason, StopReason::Error | StopReason::Aborted)
}

/// Returns a handler's replacement of a message, if it has the same role and required members.
fn replacement(message: &Message, given: &Value) -> Option<Message> {
    let read = |value: Value| serde_json::from_value::<Message>(value).ok();
    let is_like = |other: &Message| std::mem::discriminant(other) == std::mem::discriminant(message);
    let fits = |other: &Message| {
        is_like(other) && other.role() == message.role() && verdict_text::keeps_verdict(message, other)
    };
    if let Some(whole) = read(given.clone()).filter(fits) {
        return Some(whole);
    }
    let mut merged = message.to_value();
    merged.as_object_mut()?.extend(given.as_object()?.clone());
    read(merged).filter(fits)
}
