//! The loop of a run: turns until the model is done.
//!
//! A turn is one reply and the tools it calls. A reply that a verdict stops is not a turn: the turn continues with the injected
//! text and another attempt. Steering messages are inserted between turns, follow-up messages at the end of the run.
//!
//! A run consists of one or more loops: after a transient failure, after a compaction, or when a handler asks for it, the loop
//! begins again without a new message.

use crate::agent::Agent;
use crate::attempt::{Attempt, Reply};
use crate::compaction::AfterCompaction;
use crate::control::VERDICT_TYPE;
use crate::events::AgentEvent;
use crate::extensions::{Event, SystemRole, VerdictAbort};
use crate::outcome::{AgentError, ControlError, Ending, Outcome};
use crate::tool::Tool;
use crate::tool_calls::Batch;
use crate::verdict_text;
use crate::verdicts::Injected;
use pijs_environment::Wait;
use pijs_inputs::{InputEvent, Inputs, Queue, Stage};
use pijs_llm::message::{AssistantMessage, Content, CustomMessage, Message, StopReason, ToolCall};
use pijs_llm::provider::{ErrorKind, ProviderError};
use pijs_protocol::guard;
use pijs_protocol::stream::InjectionRole;
use pijs_session_store::{Body, EntryId};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use tracing::field::Empty;

/// Maximum number of loops in one run. Extensions may continue a run for hours on purpose; more loops than this indicate an
/// endless run.
const MAX_LOOPS: u32 = 10_000;

/// State of a run.
pub(crate) struct Run {
    pub(crate) cancel: CancellationToken,
    /// Messages that the run added to the conversation.
    pub(crate) messages: Vec<Message>,
    /// The last reply.
    reply: Option<AssistantMessage>,
    /// Whether the run began with steering messages, so that the first turn takes no others.
    steered: bool,
    /// Names of the tools that were active when the request of this turn was made.
    pub(crate) callable: Vec<String>,
    /// Number of retries of a failed reply so far; a successful reply resets it.
    retries: u32,
    /// Entries of the last turn: its reply, then the results of its tools.
    pub(crate) last_turn: Vec<EntryId>,
}

impl Run {
    pub(crate) fn reply(&self) -> Option<&AssistantMessage> {
        self.reply.as_ref()
    }
}

/// The messages with which a loop begins.
#[derive(Default)]
struct LoopStart {
    messages: Vec<Message>,
    steered: bool,
}

impl Agent {
    /// Runs turns that begin with these messages, then retries, compaction, and messages queued at the end.
    pub(crate) async fn run(&self, prompts: Vec<Message>) -> Result<Outcome, AgentError> {
        if !self.control.is_idle() {
            let message = "Agent is already processing a prompt. Use steer() or followUp() to queue messages, or wait for completion.";
            // As in pi, beginning a second run resets the prompt of the active run, and handlers see that run end.
            self.prompt.of_run.take();
            self.publish_prompt();
            self.notify("agent_settled", || Event::new("agent_settled")).await;
            return Err(ControlError::Refused(message.to_owned()).into());
        }
        let cancel = CancellationToken::new();
        self.control.begin_run(cancel.clone());
        let result = self.loops(&cancel, prompts).await;
        self.prompt.of_run.take();
        self.publish_tools();
        let flushed = self.control.flush_after_run().and_then(|()| self.control.flush_after_turn());
        let _settling = self.control.begin(Stage::Settling);
        self.control.end_run();
        let (ending, reply) = result?;
        flushed?;
        self.notify("agent_settled", || Event::new("agent_settled")).await;
        self.emit_to_front_end(&AgentEvent::Notice { name: "agent_settled", payload: &json!({}) })?;
        Ok(self.outcome(ending, reply))
    }

    async fn loops(
        &self,
        cancel: &CancellationToken,
        prompts: Vec<Message>,
    ) -> Result<(Ending, Option<AssistantMessage>), AgentError> {
        let mut beginning = LoopStart { messages: prompts, steered: false };
        let mut retries = 0;
        let mut overflowed = false;
        for index in 0..MAX_LOOPS {
            if index > 0 {
                // An `agent_end` handler may have changed the tools.
                self.publish_tools();
                self.refresh_run_prompt();
            }
            let LoopStart { messages, steered } = std::mem::take(&mut beginning);
            let mut run = Run {
                cancel: cancel.clone(),
                messages: Vec::new(),
                reply: None,
                steered,
                callable: Vec::new(),
                retries,
                last_turn: Vec::new(),
            };
            let ending = self.one_loop(&mut run, messages).await?;
            if cancel.is_cancelled() || matches!(ending, Ending::Stopped { .. } | Ending::TooManyTurns(_)) {
                self.end_retries(&mut run, Some("Retry cancelled"))?;
                return Ok((ending, run.reply));
            }
            let is_retried = self.retry(&ending, &mut run).await?;
            retries = run.retries;
            if is_retried {
                continue;
            }
            let after = self.compact_after(&ending, &run, &mut overflowed).await?;
            let again = match after {
                AfterCompaction::Retry => true,
                AfterCompaction::Done => {
                    self.deliveries_done().await;
                    self.control.inputs(Inputs::has_queued) || self.before_settle(&ending).await?
                }
            };
            if !again || cancel.is_cancelled() {
                return Ok((ending, run.reply));
            }
            if after == AfterCompaction::Done {
                self.control.charge_last_speaker();
                beginning = self.continuation();
            }
        }
        tracing::warn!(loops = MAX_LOOPS, "the run was continued too often and ends here");
        Ok((Ending::Done, None))
    }

    /// Returns the messages with which a run continues. If the conversation ends with a reply, these are the messages queued
    /// while the end of the loop was reported.
    fn continuation(&self) -> LoopStart {
        let replied = self.messages().is_ok_and(|messages| matches!(messages.last(), Some(Message::Assistant(_))));
        if !replied {
            return LoopStart::default();
        }
        let steering = self.steering();
        if steering.is_empty() {
            return LoopStart { messages: self.follow_up(), steered: false };
        }
        LoopStart { messages: steering, steered: true }
    }

    async fn one_loop(&self, run: &mut Run, prompts: Vec<Message>) -> Result<Ending, AgentError> {
        self.extensions.run_began();
        let cancel = run.cancel.clone();
        let ending = {
            let turns = self.turns(run, prompts);
            tokio::pin!(turns);
            tokio::select! {
                biased;
                () = cancel.cancelled() => {
                    self.extensions.run_aborted();
                    turns.await
                }
                ending = &mut turns => ending,
            }
        };
        if cancel.is_cancelled() {
            // The cancellation may have ended the turns before the signal was aborted; aborting it twice has no effect.
            self.extensions.run_aborted();
        }
        if self.extensions.profile().queues("agent_end") {
            self.control.advance(InputEvent::AgentEndBegan);
        }
        let told = match &ending {
            Ok(ending) => {
                let will_retry = !cancel.is_cancelled() && self.retried(ending, run.retries).is_some();
                self.emit(AgentEvent::AgentEnd { messages: &run.messages, will_retry }).await
            }
            Err(_) => Ok(()),
        };
        self.control.advance(InputEvent::AgentEndEnded);
        self.extensions.run_ended();
        let ending = ending?;
        told?;
        Ok(ending)
    }

    /// Returns the failure of the last request, if it may be retried.
    fn retried<'a>(&self, ending: &'a Ending, retries: u32) -> Option<&'a ProviderError> {
        let settings = self.settings.borrow().retry;
        let Ending::Failed(error) = ending else { return None };
        let is_allowed = settings.enabled && retries < settings.max_retries;
        (is_allowed && !self.was_too_long(error) && is_transient(error)).then_some(error)
    }

    /// Reports a retry and waits for its delay, if the failure is transient. The failed reply stays in the session and is hidden
    /// from the model. Returns whether to retry.
    async fn retry(&self, ending: &Ending, run: &mut Run) -> Result<bool, AgentError> {
        let Some(error) = self.retried(ending, run.retries) else {
            let failure = match ending {
                Ending::Failed(error) => Some(error.message()),
                _ => None,
            };
            self.end_retries(run, failure)?;
            return Ok(false);
        };
        let settings = self.settings.borrow().retry;
        run.retries += 1;
        let wait = settings.base_delay_ms.saturating_mul(1 << (run.retries - 1).min(16)).min(settings.max_delay_ms);
        let asked = error.retry_after().map_or(0, |delay| u64::try_from(delay.as_millis()).unwrap_or(u64::MAX));
        let delay_ms = wait.max(asked);
        let (message, max_attempts) = (error.message().to_owned(), settings.max_retries);
        self.emit_to_front_end(&AgentEvent::AutoRetryStart {
            attempt: run.retries,
            max_attempts,
            delay_ms,
            error_message: &message,
            cause: error.help(),
        })?;
        self.omit(&run.last_turn)?;
        let pause = self.options.ambient.timer.sleep(Wait::Backoff, Duration::from_millis(delay_ms));
        self.control.advance(InputEvent::RetryBegan);
        let is_stopped = tokio::select! {
            biased;
            () = run.cancel.cancelled() => true,
            () = self.control.until(|inputs| !inputs.is_retrying()) => true,
            () = pause => false,
        };
        self.control.advance(InputEvent::RetryEnded);
        if is_stopped {
            self.end_retries(run, Some("Retry cancelled"))?;
        }
        Ok(!is_stopped)
    }

    /// Reports the end of retries, if there were any: success, or `failure`.
    fn end_retries(&self, run: &mut Run, failure: Option<&str>) -> Result<(), AgentError> {
        let attempt = std::mem::take(&mut run.retries);
        if attempt == 0 {
            return Ok(());
        }
        let mut payload = json!({"success": failure.is_none(), "attempt": attempt});
        if let Some(failure) = failure {
            payload["finalError"] = failure.into();
        }
        self.emit_to_front_end(&AgentEvent::Notice { name: "auto_retry_end", payload: &payload })
    }

    /// Hides entries of a failed attempt from the model; they stay in the session.
    pub(crate) fn omit(&self, attempt: &[EntryId]) -> Result<(), AgentError> {
        for target_id in attempt.iter().cloned() {
            let id = self.control.append(Body::ContextEdit { target_id, replacement: Value::Null })?;
            self.show_appended(&id)?;
        }
        self.publish_usage();
        Ok(())
    }

    /// Waits for extensions that are restarting, unless the run is aborted.
    pub(crate) async fn restarts_done(&self, cancel: &CancellationToken) {
        if guard!(AgentAwaitRestart) {
            tokio::select! {
                biased;
                () = cancel.cancelled() => {}
                () = self.extensions.restarts_done() => {}
            }
        }
    }

    async fn turns(&self, run: &mut Run, prompts: Vec<Message>) -> Result<Ending, AgentError> {
        let mut incoming = prompts;
        for index in 0..self.options.max_turns {
            let span = tracing::debug_span!("model_turn", turn = index);
            // The request lists the tools of all extensions.
            self.restarts_done(&run.cancel).await;
            if index > 0 {
                self.compact_before_turn(&run.cancel).await?;
                if incoming.is_empty() {
                    incoming = self.steering();
                }
                self.publish_tools();
                self.refresh_run_prompt();
                if let Some(update) = self.prompt_update() {
                    incoming.insert(0, update);
                }
            }
            let loadout = self.active_tools();
            self.declare_tools(&loadout, &mut incoming);
            if index == 0 {
                self.emit(AgentEvent::AgentStart).await?;
                self.contenders_refused().await;
            }
            self.emit(AgentEvent::TurnStart { index, timestamp: self.now() }).await?;
            for message in std::mem::take(&mut incoming) {
                self.add_message(run, message).await?;
            }
            if index == 0 && !run.steered {
                self.add_first_steering(run, &loadout).await?;
            }
            // Tools selected until now may be called, even though the request was built earlier.
            self.publish_tools();
            run.callable = self.active_tools().iter().map(|tool| tool.name().to_owned()).collect();
            self.judging.verdicts.borrow_mut().begin_turn();
            self.begin_rules_of_turn()?;
            let reply = match self.reply(run).instrument(span.clone()).await? {
                ControlFlow::Continue(reply) => reply,
                ControlFlow::Break(ending) => return Ok(ending),
            };
            let error = reply.error;
            let wanted: Vec<ToolCall> = reply.message.tool_calls().cloned().collect();
            let (message, authors) = self.end_reply(reply.message).await?;
            let reply_entry = self.control.with_session(|session| session.leaf().cloned());
            run.messages.push(message.clone());
            let Message::Assistant(assistant) = &message else { unreachable!("message_end keeps the role") };
            run.reply = Some(assistant.clone());
            run.last_turn = reply_entry.iter().cloned().collect();
            if assistant.stop_reason != StopReason::Error {
                self.end_retries(run, None)?;
            }
            if let Some(error) = error {
                self.end_turn(index, &message, reply_entry, &[], Vec::new()).await?;
                let aborted = error.kind() == ErrorKind::Cancelled;
                return Ok(if aborted { Ending::Aborted } else { Ending::Failed(error) });
            }
            // Effects of tools cannot be undone, so the reply is durable before they run.
            self.control.sync_session()?;
            let tools = self.run_tools(run, assistant, &reply.bad_arguments, (&wanted, authors));
            let Batch { results, entries, terminate } = tools.instrument(span).await?;
            run.last_turn.extend(entries.iter().cloned());
            let charge_last_speaker = self.end_turn(index, &message, reply_entry, &results, entries).await?;
            self.deliveries_done().await;
            incoming = self.steering();
            let more = !results.is_empty() && !terminate;
            if !more && incoming.is_empty() {
                incoming = self.follow_up();
                if incoming.is_empty() && !charge_last_speaker {
                    return Ok(if run.cancel.is_cancelled() { Ending::Aborted } else { Ending::Done });
                }
            }
            if !more {
                self.control.charge_last_speaker();
            }
            // After an abort the next turn still begins, so that queued messages are reported.
        }
        Ok(Ending::TooManyTurns(self.options.max_turns))
    }

    /// Adds messages sent before the first request to it.
    async fn add_first_steering(&self, run: &mut Run, loadout: &[Tool]) -> Result<(), AgentError> {
        self.deliveries_done().await;
        let mut steering = self.steering();
        if !steering.is_empty() {
            self.declare_tools(loadout, &mut steering);
        }
        for message in steering {
            self.add_message(run, message).await?;
        }
        Ok(())
    }

    /// Waits for messages sent before the end of a turn or a run. `input` handlers may take long or wait for this run, so the
    /// wait ends once all extensions are idle; messages that are still held back then are handled later.
    pub(crate) async fn deliveries_done(&self) {
        let handled = self.extensions.has_handlers("input");
        let rest = async {
            match handled {
                true => self.extensions.at_rest().await,
                false => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.control.delivered() => {}
            () = rest => {}
        }
    }

    /// Returns the steering messages for the next request: one or all, depending on the settings.
    fn steering(&self) -> Vec<Message> {
        let all = self.settings.borrow().steer_all;
        let mut taken: Vec<Message> = self.control.take_next(Queue::Steering).into_iter().collect();
        while all && let Some(message) = self.control.take_next(Queue::Steering) {
            taken.push(message);
        }
        taken
    }

    fn follow_up(&self) -> Vec<Message> {
        let all = self.settings.borrow().follow_up_all;
        let mut taken: Vec<Message> = self.control.take_next(Queue::FollowUp).into_iter().collect();
        while all && let Some(message) = self.control.take_next(Queue::FollowUp) {
            taken.push(message);
        }
        taken
    }

    /// Returns the reply of this turn, after all attempts that verdicts request and caps allow.
    async fn reply(&self, run: &mut Run) -> Result<ControlFlow<Ending, Reply>, AgentError> {
        loop {
            let reminders = self.judging.verdicts.borrow_mut().take_reminders();
            for reminder in reminders {
                self.inject(run, reminder).await?;
            }
            self.control.attribute_request()?;
            let span = tracing::debug_span!("model_request", attempt = Empty, model = Empty, outcome = Empty);
            match self.attempt(&run.cancel).instrument(span).await? {
                Attempt::Reply(reply) => return Ok(ControlFlow::Continue(reply)),
                Attempt::Discarded(abort) => match abort.retry {
                    Some(injection) => {
                        let VerdictAbort { extension, .. } = abort;
                        self.inject(run, Injected { extension, injection, reminder: false, details: None }).await?;
                    }
                    None => return Ok(ControlFlow::Break(Ending::Stopped { extension: abort.extension })),
                },
                Attempt::Stopped(stopped) => {
                    if let Some(message) = stopped.kept {
                        run.messages.push(self.end_reply(message).await?.0);
                    }
                    self.inject(run, stopped.injected).await?;
                }
            }
        }
    }

    /// Adds the text of a verdict to the conversation, as an entry that the real pi can read.
    async fn inject(&self, run: &mut Run, injected: Injected) -> Result<(), AgentError> {
        let is_of_rules = injected.extension.starts_with(pijs_rules::session::PREFIX);
        if !is_of_rules {
            self.control.note_verdict(&injected.extension);
        }
        let role = match injected.injection.role {
            InjectionRole::System => "system",
            InjectionRole::User => "user",
        };
        // Rules are written by the user.
        let may = if is_of_rules { SystemRole::Granted } else { self.extensions.system_role(&injected.extension) };
        let mut details = verdict_text::details(&injected.extension, role, may, injected.reminder);
        if let (Value::Object(details), Some(Value::Object(more))) = (&mut details, injected.details) {
            details.extend(more);
        }
        let mut authors = BTreeSet::new();
        if !is_of_rules && guard!(AttributionAuthor) {
            authors.insert(injected.extension.clone());
        }
        let message = Message::Custom(CustomMessage {
            custom_type: VERDICT_TYPE.to_owned(),
            content: Content::Text(injected.injection.content),
            display: Some(true),
            details: Some(details),
            timestamp: self.now(),
            authors,
        });
        self.add_message(run, message).await
    }

    /// Adds a message that is complete from the start, unlike a streamed reply.
    async fn add_message(&self, run: &mut Run, message: Message) -> Result<(), AgentError> {
        if self.control.note_spoken(&message) {
            self.control.barrier().await;
        }
        self.emit(AgentEvent::MessageStart { message: &message }).await?;
        run.messages.push(self.end_message(message).await?.0);
        Ok(())
    }
}

/// Returns whether a request may succeed later. Excludes rejections, and failures that the HTTP client has retried.
fn is_transient(error: &ProviderError) -> bool {
    let said = error.message().to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| said.contains(word));
    match error.kind() {
        _ if error.is_final() => false,
        ErrorKind::Network | ErrorKind::Stalled => true,
        // A retry does not help against a limit of the account.
        ErrorKind::RateLimited => !says(ACCOUNT_LIMITS),
        ErrorKind::Provider | ErrorKind::Unavailable => says(TRANSIENT) && !says(ACCOUNT_LIMITS),
        _ => false,
    }
}

/// Phrases in providers' messages about load and about connections that break within a stream.
const TRANSIENT: &[&str] = &[
    "overloaded",
    "high demand",
    "rate limit",
    "rate_limit",
    "ratelimit",
    "too many requests",
    "429",
    "500",
    "502",
    "503",
    "504",
    "520",
    "524",
    "unavailable",
    "server error",
    "server_error",
    "internal error",
    "internal_error",
    "returned error",
    "network",
    "connection",
    "fetch failed",
    "socket hang up",
    "timed out",
    "timeout",
    "terminated",
    "ended without",
    "try again",
    "try your request again",
    "retry your request",
    "resourceexhausted",
];
/// Phrases in providers' messages about limits of an account.
const ACCOUNT_LIMITS: &[&str] = &[
    "usagelimiterror",
    "usage limit reached",
    "available balance",
    "insufficient_quota",
    "out of budget",
    "quota exceeded",
    "billing",
];

/// Returns whether the tool calls of a reply may run.
pub(crate) fn may_call_tools(message: &AssistantMessage) -> bool {
    !matches!(message.stop_reason, StopReason::Error | StopReason::Aborted)
}
