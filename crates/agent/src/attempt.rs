//! An attempt at a reply: one request, its stream, and the verdict on every delta.
//!
//! The order of these steps is the main guarantee of the crate. For each delta: native rules ([`crate::rules`]); then
//! [`Extensions::has_stream_handlers`](crate::extensions::Extensions::has_stream_handlers), a single branch; with handlers,
//! [`Extensions::stream`](crate::extensions::Extensions::stream), while the provider's stream is not polled (deltas that have
//! already arrived may be passed along); then, unless aborted, the partial message, the `message_update` handlers and the front
//! end. On *abort* the attempt's token is cancelled and the provider's stream dropped before anything else happens.
//!
//! [`Agent::attempt`] is one long function: a loop with the checks in the order in which a delta passes them, each of which ends
//! the attempt, continues with the next event, or lets the delta pass.

use crate::agent::Agent;
use crate::events::{AgentEvent, VerdictAction, VerdictEvent};
use crate::extensions::{Event, StreamFate, VerdictAbort};
use crate::incoming::ReplyStream;
use crate::model_quota::RequestCharge;
use crate::outcome::AgentError;
use crate::rules::FiringContext;
use crate::transcript;
use crate::verdict_text;
use crate::verdicts::Injected;
use pijs_llm::conversation;
use pijs_llm::message::bytes_of;
use pijs_llm::message::{AssistantMessage, Message, StopReason};
use pijs_llm::partial::{Partial, Step};
use pijs_llm::provider::{ErrorKind, Outgoing, Provider, ProviderError, ProviderEvent, Request};
use pijs_protocol::{ExtensionId, StreamDelta, StreamSource};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashSet};
use tokio_util::sync::CancellationToken;

/// Outcomes of an attempt.
pub(crate) enum Attempt {
    /// A message: complete, failed, or aborted by the user.
    Reply(Reply),
    /// A verdict that discarded the reply.
    Discarded(VerdictAbort),
    /// A native rule that interrupted the reply.
    Stopped(StoppedByRule),
}

/// An attempt that native rules interrupted.
pub(crate) struct StoppedByRule {
    /// The message about the rules for the model.
    pub(crate) injected: Injected,
    /// The part of the reply that stays in the conversation.
    pub(crate) kept: Option<AssistantMessage>,
}

/// A reply of the model, with its errors.
pub(crate) struct Reply {
    pub(crate) message: AssistantMessage,
    /// Errors of calls whose arguments cannot be parsed, by call id.
    pub(crate) bad_arguments: BTreeMap<String, String>,
    /// Error of a failed reply.
    pub(crate) error: Option<ProviderError>,
}

/// A delta before its verdict.
struct Delta<'a> {
    attempt: u32,
    source: StreamSource,
    stream: u32,
    partial: &'a mut Partial,
}

impl Agent {
    /// Sends the conversation to the model and returns its reply.
    ///
    /// One function, because each event of the stream changes the partial reply that its loop holds.
    pub(crate) async fn attempt(&self, run: &CancellationToken) -> Result<Attempt, AgentError> {
        let attempt = self.next_attempt();
        self.forget_updates();
        self.begin_rules_of_attempt();
        let cancel = run.child_token();
        self.renew_login().await;
        // A model or level that a `context` handler chooses applies to the next request.
        let (provider, thinking) = (self.provider(), self.control.thinking());
        let span = tracing::Span::current();
        span.record("attempt", attempt).record("model", provider.model().id.as_str());
        let mut partial = Partial::new(provider.model(), self.now());
        let Some(outgoing) = self.build_request(&*provider, thinking, run).await? else {
            let aborted = ProviderError::new(ErrorKind::Cancelled, "the run was aborted before the request");
            return self.unsent_reply(partial, "This operation was aborted".to_owned(), aborted).await;
        };
        let asking = match self.control.payer().map(|payer| self.charge_request(&payer, &outgoing)).transpose() {
            Ok(asking) => asking,
            Err(used_up) => return self.unsent_reply(partial, used_up.message().to_owned(), used_up).await,
        };
        // A reply of an extension's model that the user did not choose is attributed to the extension.
        let is_imposed = provider.has_own_payload()
            && self.model.offered.borrow().unchosen_extension(&provider.model().provider).is_some();
        let mut started = false;
        let mut incoming = ReplyStream::new(provider.send(outgoing, cancel.clone()), cancel.clone(), &*self.extensions);
        let ending = loop {
            let Some(event) = incoming.next().await else {
                break Err(ProviderError::new(ErrorKind::Network, "the reply ended before it was complete"));
            };
            let event = match event {
                Ok(event) => event,
                Err(error) => break Err(error),
            };
            let bytes = match partial.has_room_for(&event) {
                Ok(bytes) => bytes,
                Err(error) => break Err(error),
            };
            if is_imposed && let Err(full) = self.control.charge_session(bytes) {
                break Err(ProviderError::new(ErrorKind::TooLarge, full.message));
            }
            let (event, told) = match event {
                ProviderEvent::RulesOnly(event) => (*event, false),
                event => (event, started),
            };
            let (source, index, chunk) = match event {
                ProviderEvent::Retrying { attempt, max_attempts, delay, reason } => {
                    let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
                    let (error_message, cause) = (reason.as_str(), None);
                    self.emit(AgentEvent::AutoRetryStart { attempt, max_attempts, delay_ms, error_message, cause })
                        .await?;
                    continue;
                }
                ProviderEvent::Response { .. } if !provider.tells_of_response() => continue,
                ProviderEvent::Response { status, headers } => {
                    self.notify("after_provider_response", || {
                        Event::new("after_provider_response")
                            .with("status", status)
                            .with("headers", serde_json::to_value(&headers).expect("string keys"))
                    })
                    .await;
                    continue;
                }
                ProviderEvent::Begun => {
                    if !std::mem::replace(&mut started, true) {
                        let message = Message::Assistant(partial.message.clone());
                        self.emit(AgentEvent::MessageStart { message: &message }).await?;
                    }
                    continue;
                }
                ProviderEvent::Note(note) => {
                    partial.note(note);
                    continue;
                }
                ProviderEvent::Open(block) => {
                    let steps = partial.begin(block);
                    self.show(&partial, told, &steps).await?;
                    continue;
                }
                ProviderEvent::Text(chunk) => (StreamSource::Text, 0, chunk),
                ProviderEvent::Thinking(chunk) => (StreamSource::Thinking, 0, chunk),
                ProviderEvent::ToolCall { index, id, name, arguments } => {
                    let is_known = partial.knows_call(index);
                    if !is_known {
                        let steps = partial.close();
                        self.show(&partial, started, &steps).await?;
                    } else if arguments.is_empty() {
                        let steps = partial.push_arguments(index, arguments);
                        self.show(&partial, told, &steps).await?;
                        continue;
                    }
                    match partial.begin_call(index, id, name) {
                        Ok(steps) => self.show(&partial, told, &steps).await?,
                        Err(error) => break Err(error),
                    }
                    (StreamSource::Tool, index, arguments)
                }
                ProviderEvent::BlockEnd => {
                    let steps = partial.end();
                    let at = FiringContext { attempt, dropped: 0, began: started, partial: &partial };
                    if let Some(firing) = self.first_stopping(self.rules_at_end_of_calls(&partial, &steps), &at).await?
                    {
                        cancel.cancel();
                        drop(incoming);
                        return self.stop(firing, at).await;
                    }
                    self.show(&partial, told, &steps).await?;
                    continue;
                }
                ProviderEvent::Done(stop) => {
                    let at = FiringContext { attempt, dropped: 0, began: started, partial: &partial };
                    if let Some(firing) = self.first_stopping(self.rules_at_end_of_message(), &at).await? {
                        cancel.cancel();
                        drop(incoming);
                        return self.stop(firing, at).await;
                    }
                    break Ok(stop);
                }
                ProviderEvent::RulesOnly(_) => unreachable!("only a piece stands in it"),
            };
            if chunk.is_empty() {
                continue;
            }
            if let Some(firing) = self.rules_at_delta(&partial, source, index, &chunk) {
                let at = FiringContext { attempt, dropped: chunk.len(), began: started, partial: &partial };
                if let Some(firing) = self.first_stopping(vec![firing], &at).await? {
                    cancel.cancel();
                    drop(incoming);
                    return self.stop(firing, at).await;
                }
            }
            let delta = Delta { attempt, source, stream: index, partial: &mut partial };
            let (chunk, verdict) =
                if incoming.has_passed() { (chunk, None) } else { self.judge(delta, chunk, &mut incoming) };
            if let Some((verdict, abort)) = verdict {
                if verdict.action == VerdictAction::Remind {
                    self.emit(AgentEvent::StreamVerdict(&verdict)).await?;
                } else {
                    cancel.cancel();
                    drop(incoming);
                    span.record("outcome", "discarded");
                    let tokens_burned = partial.tokens(chunk.len());
                    drop((partial, chunk));
                    self.judging.verdicts.borrow_mut().burned(tokens_burned);
                    self.emit(AgentEvent::StreamVerdict(&verdict)).await?;
                    self.emit(AgentEvent::MessageDiscarded {
                        attempt,
                        reason: "stream_verdict",
                        extension: &verdict.extension,
                        tokens_burned,
                    })
                    .await?;
                    return Ok(Attempt::Discarded(abort));
                }
            }
            let steps = match source {
                StreamSource::Text => partial.push_text(chunk),
                StreamSource::Thinking => partial.push_thinking(chunk),
                StreamSource::Tool => partial.push_arguments(index, chunk),
            };
            self.show(&partial, told, &steps).await?;
        };
        drop(incoming);
        let reply = self.finish(partial, started, ending).await?;
        span.record("outcome", tracing::field::debug(reply.message.stop_reason));
        if let Some(asking) = asking {
            asking.end(&reply.message.usage);
        }
        if !started {
            let message = Message::Assistant(reply.message.clone());
            self.emit(AgentEvent::MessageStart { message: &message }).await?;
        }
        Ok(Attempt::Reply(reply))
    }

    /// Charges the request to the extension that triggered it.
    fn charge_request(&self, payer: &ExtensionId, outgoing: &Outgoing) -> Result<RequestCharge<'_>, ProviderError> {
        let counted = self.model.quota.begin(payer, bytes_of(std::iter::once(&outgoing.payload)));
        counted.map_err(|refused| {
            ProviderError::new(
                ErrorKind::Rejected,
                format!("the request of extension {payer} was not sent: {}", refused.message),
            )
        })
    }

    /// Returns a failed reply in place of a request that was not sent.
    async fn unsent_reply(&self, partial: Partial, said: String, error: ProviderError) -> Result<Attempt, AgentError> {
        let mut message = partial.message;
        message.stop_reason = StopReason::Error;
        message.error_message = Some(said);
        self.emit(AgentEvent::MessageStart { message: &Message::Assistant(message.clone()) }).await?;
        Ok(Attempt::Reply(Reply { message, bad_arguments: BTreeMap::new(), error: Some(error) }))
    }

    /// Returns body and headers of the request after the events `context`, `before_provider_request` and
    /// `before_provider_headers`; `None` when the run was aborted before them.
    async fn build_request(
        &self,
        provider: &dyn Provider,
        thinking: String,
        run: &CancellationToken,
    ) -> Result<Option<Outgoing>, AgentError> {
        let mut messages = self.messages()?;
        // A handler of the reply's deltas must see all of them, so restarts finish first.
        self.restarts_done(run).await;
        if self.extensions.has_handlers("context") {
            messages = self.context(messages).await;
        }
        if self.extensions.has_handlers("context_with_system") {
            messages = self.changed("context_with_system", &messages).await.unwrap_or(messages);
        }
        if run.is_cancelled() {
            return Ok(None);
        }
        let messages = self.with_verdict_texts(messages);
        let told = transcript::combined_of(&messages).unwrap_or_default();
        let forced = self.prompt.of_run.borrow().as_ref().and_then(|options| options.force_system_prompt.clone());
        let transcript = transcript::projected(conversation::for_models(&messages), &told, forced.as_deref());
        let request = Request {
            system: forced.unwrap_or_else(|| transcript::text(&told)),
            messages: conversation::request_messages(&messages),
            conversation: conversation::conversation(&messages),
            transcript,
            tools: told.tools_added.into_iter().filter_map(|tool| serde_json::from_value(tool).ok()).collect(),
            thinking: Some(thinking).filter(|level| level != "off"),
            max_tokens: None,
            session: Some(self.control.session_id()),
        };
        let headers = self.transform_headers(provider.headers()).await;
        let mut payload = provider.payload(&request);
        if provider.is_open() && !provider.has_own_payload() {
            payload = self.transform_payload(payload).await;
        }
        Ok(Some(Outgoing { payload, headers }))
    }

    /// Emits `context` with the conversation. A changed result begins with the system messages so far.
    async fn context(&self, messages: Vec<Message>) -> Vec<Message> {
        let said: Vec<Message> =
            messages.iter().filter(|message| transcript::system(message).is_none()).cloned().collect();
        match self.changed("context", &said).await {
            Some(changed) if changed != said => {
                transcript::combined_of(&messages).map(Message::System).into_iter().chain(changed).collect()
            }
            _ => messages,
        }
    }

    /// Emits an event and returns the messages as changed by its handlers.
    async fn changed(&self, event: &'static str, messages: &[Message]) -> Option<Vec<Message>> {
        let outcome = self.extensions.emit(Event::new(event).with("messages", json!(messages))).await;
        self.messages_read().await;
        let changed = outcome.field("messages").or(outcome.payload.get("messages")).cloned();
        let changed = serde_json::from_value(changed?).ok()?;
        let changed = verdict_text::without_forged(messages, changed);
        self.attribute_context(messages, &changed, &outcome.authors);
        Some(changed)
    }

    /// Attributes the messages that handlers added or changed to their extensions; removed messages are ignored. Later tool calls
    /// need consent when an added message has the form of a conversation message.
    fn attribute_context(&self, before: &[Message], after: &[Message], authors: &[String]) {
        if authors.is_empty() {
            return;
        }
        let known: HashSet<String> = before.iter().map(|message| message.to_value().to_string()).collect();
        let mut added = after.iter().filter(|message| !known.contains(&message.to_value().to_string())).peekable();
        if added.peek().is_none() {
            return;
        }
        let asks = added.any(|message| matches!(message, Message::User(_) | Message::Custom(_)));
        authors.iter().for_each(|author| self.control.note_message(author, asks));
    }

    /// Emits `before_provider_request`.
    pub(crate) async fn transform_payload(&self, payload: Value) -> Value {
        if !self.extensions.has_handlers("before_provider_request") {
            return payload;
        }
        let event = Event::new("before_provider_request").with("payload", payload.clone());
        let outcome = self.extensions.emit(event).await;
        let sent =
            outcome.answer.or_else(|| outcome.payload.get("payload").cloned()).unwrap_or_else(|| payload.clone());
        // Scalars are request settings; the model reads lists, objects and these two members.
        let reads = |payload: &Value, key: &str| {
            let value = payload
                .get(key)
                .filter(|value| value.is_array() || value.is_object() || matches!(key, "system" | "instructions"));
            value.cloned()
        };
        let keys =
            |payload: &Value| payload.as_object().map(|members| members.keys().cloned().collect()).unwrap_or_default();
        let mut all: Vec<String> = keys(&payload);
        all.extend(keys(&sent));
        if all.iter().any(|key| reads(&payload, key) != reads(&sent, key)) {
            outcome.authors.iter().for_each(|author| self.control.note_message(author, false));
        }
        sent
    }

    /// Emits `before_provider_headers`. Returns the changes, `null` for removed headers. Headers with keys are not shown.
    pub(crate) async fn transform_headers(
        &self,
        headers: BTreeMap<String, String>,
    ) -> BTreeMap<String, Option<String>> {
        let mut changes = BTreeMap::new();
        if !self.extensions.has_handlers("before_provider_headers") {
            return changes;
        }
        let event = Event::new("before_provider_headers").with("headers", json!(headers));
        let outcome = self.extensions.emit(event).await;
        let Some(Value::Object(after)) = outcome.payload.get("headers") else { return changes };
        for name in headers.keys().filter(|name| !after.contains_key(*name)) {
            changes.insert(name.clone(), None);
        }
        for (name, value) in after {
            match value.as_str() {
                Some(value) if headers.get(name).is_none_or(|known| known != value) => {
                    changes.insert(name.clone(), Some(value.to_owned()));
                }
                None if value.is_null() => {
                    changes.insert(name.clone(), None);
                }
                _ => {}
            }
        }
        changes
    }

    /// Passes a delta to the handlers, together with deltas that have already arrived. The chunk is moved to them and back.
    fn judge(
        &self,
        delta: Delta<'_>,
        chunk: String,
        incoming: &mut ReplyStream<'_>,
    ) -> (String, Option<(VerdictEvent, VerdictAbort)>) {
        if !self.extensions.has_stream_handlers(delta.source) {
            return (chunk, None);
        }
        let (tool_name, file_paths) = match delta.source {
            StreamSource::Tool => delta.partial.tool_facts(delta.stream, &chunk),
            _ => (None, Vec::new()),
        };
        let mut shown = StreamDelta {
            attempt: delta.attempt,
            source: delta.source,
            stream: delta.stream,
            chunk,
            tool_name,
            file_paths,
        };
        // With native rules, which read each delta first, there is no lookahead.
        let most = if self.has_rules() { 0 } else { self.extensions.lookahead(delta.source) };
        let fate = match most {
            0 => self.extensions.stream(&shown),
            _ => {
                let mut deltas = vec![shown];
                incoming.follow(&mut deltas, most, delta.partial.paths_of(delta.stream));
                let (fate, passed) = self.extensions.stream_ahead(&deltas);
                incoming.pass(passed);
                shown = deltas.swap_remove(0);
                fate
            }
        };
        let StreamFate::Abort(abort) = fate else { return (shown.chunk, None) };
        let Some(action) = self.judging.verdicts.borrow_mut().decide(&abort) else { return (shown.chunk, None) };
        let verdict = VerdictEvent {
            extension: abort.extension.clone(),
            source: delta.source,
            offset: delta.partial.offset(delta.source, delta.stream),
            latency_us: abort.latency_us,
            attempt: delta.attempt,
            action,
        };
        (shown.chunk, Some((verdict, abort)))
    }

    async fn finish(
        &self,
        mut partial: Partial,
        started: bool,
        ending: Result<StopReason, ProviderError>,
    ) -> Result<Reply, AgentError> {
        let (message, bad_arguments, error) = match ending {
            Ok(stop) => {
                let (steps, bad) = partial.finish();
                self.show(&partial, started, &steps).await?;
                let mut message = partial.message;
                message.stop_reason = stop;
                (message, bad, None)
            }
            Err(error) => {
                // The received part of the reply is kept and marked as incomplete; its tool calls never run.
                let mut message = partial.shown().so_far();
                let cancelled = error.kind() == ErrorKind::Cancelled;
                message.stop_reason = if cancelled { StopReason::Aborted } else { StopReason::Error };
                message.error_message =
                    Some(if cancelled { "Request was aborted".to_owned() } else { error.message().to_owned() });
                (message, BTreeMap::new(), Some(error))
            }
        };
        Ok(Reply { message, bad_arguments, error })
    }

    /// Emits updates. If the beginning of the reply was not reported, the reply is shown only at its end.
    async fn show(&self, partial: &Partial, told: bool, steps: &[Step]) -> Result<(), AgentError> {
        for step in steps.iter().filter(|_| told) {
            self.emit(AgentEvent::MessageUpdate { message: partial.shown(), update: partial.update(step) }).await?;
        }
        Ok(())
    }
}
