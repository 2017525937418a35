//! Drives the state machine of inputs ([`Inputs`]): locks it, carries out its effects, and notifies waiters.

use super::{AgentControl, ControlState, VERDICT_TYPE};
use crate::mailbox::AgentTask;
use crate::outcome::ControlError;
use pijs_inputs::{Authored, DeliverAs, InputEffect, InputEvent, Inputs, Line, Queue, Stage};
use pijs_llm::message::{BashExecution, Content, CustomMessage, Message};
use pijs_protocol::{ExtensionId, HostcallError, guard};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tokio_util::sync::CancellationToken;

/// Maximum number of queued messages up to which extensions may add one. Each update reports all queued messages.
const MAX_WAITING: usize = 1000;
/// Maximum number of undelivered events about changes by extensions (session name, thinking level).
const MAX_UNANNOUNCED: usize = 1000;

/// Keeps an input in a stage until it is dropped.
pub(crate) struct StageGuard<'a> {
    control: &'a AgentControl,
    stage: Stage,
}

impl Drop for StageGuard<'_> {
    fn drop(&mut self) {
        self.control.advance(InputEvent::End(self.stage));
    }
}

/// Holds the first position of a line until it is dropped.
pub(crate) struct LineGuard<'a> {
    control: &'a AgentControl,
    line: Line,
    ticket: u64,
}

impl Drop for LineGuard<'_> {
    fn drop(&mut self) {
        self.control.advance(InputEvent::Leave(self.line, self.ticket));
    }
}

impl AgentControl {
    /// Reads the state of the inputs.
    pub(crate) fn inputs<R>(&self, read: impl FnOnce(&Inputs) -> R) -> R {
        read(&self.lock().inputs)
    }

    /// Applies an event and its effects. Returns the messages taken from a queue.
    pub(crate) fn apply(&self, event: InputEvent) -> Result<Vec<Message>, ControlError> {
        let releases = event.releases();
        let rest = self.apply_locked(&mut self.lock(), event);
        if releases {
            self.0.released.notify_waiters();
        }
        let mut given = Vec::new();
        for effect in rest {
            match effect {
                InputEffect::Append(message) => self.append_unanswered(message)?,
                InputEffect::AppendBash { authors, execution } => {
                    self.append_edited(authors, &Message::BashExecution(execution))?;
                }
                InputEffect::Refuse(refusal) => return Err(refusal.into()),
                InputEffect::Give(message) => given.push(message),
                _ => {}
            }
        }
        Ok(given)
    }

    /// Applies an event that cannot be refused and does not append.
    pub(crate) fn advance(&self, event: InputEvent) {
        let applied = self.apply(event);
        debug_assert!(applied.is_ok_and(|given| given.is_empty()), "no such effect of this event");
    }

    /// Applies an event under the lock. Returns the effects that the caller has to carry out.
    pub(super) fn apply_locked(&self, inner: &mut ControlState, event: InputEvent) -> Vec<InputEffect> {
        let effects = inner.inputs.apply(event);
        effects.into_iter().filter_map(|effect| self.carry_out_locked(inner, effect)).collect()
    }

    fn carry_out_locked(&self, inner: &ControlState, effect: InputEffect) -> Option<InputEffect> {
        match effect {
            InputEffect::PublishIdle(is_idle) => self.0.state.set("isIdle", is_idle.into()),
            InputEffect::PublishPending(has_waiting) => self.0.state.set("hasPendingMessages", has_waiting.into()),
            InputEffect::CancelRun => inner.cancels.run.iter().for_each(CancellationToken::cancel),
            InputEffect::CancelSummaries => inner.cancels.summaries.iter().for_each(CancellationToken::cancel),
            InputEffect::ScheduleRun { sender } => inner.mailbox.send(AgentTask::Run(sender)),
            InputEffect::HandleInput { content, deliver_as, expand } => {
                inner.mailbox.send(AgentTask::HandleInput(content, deliver_as, expand));
            }
            InputEffect::Contend { content, expand, sender } => {
                inner.mailbox.send(AgentTask::Contend(sender, content, expand));
            }
            InputEffect::ShowQueues { steering, follow_up, bytes } => {
                inner.mailbox.send(AgentTask::Waiting(json!({"steering": steering, "followUp": follow_up}), bytes));
            }
            rest => return Some(rest),
        }
        None
    }

    /// Appends a message that does not trigger a reply.
    fn append_unanswered(&self, message: CustomMessage) -> Result<(), ControlError> {
        let message = Message::Custom(message);
        self.append_message(&message)?;
        self.send(AgentTask::Shown(message));
        Ok(())
    }

    /// Waits until a predicate of the inputs holds.
    pub(crate) async fn until(&self, holds: impl Fn(&Inputs) -> bool) {
        loop {
            let released = self.0.released.notified();
            tokio::pin!(released);
            released.as_mut().enable();
            if self.inputs(&holds) {
                return;
            }
            released.await;
        }
    }

    /// Joins a line and waits until it has the first position.
    pub(crate) async fn turn(&self, line: Line) -> LineGuard<'_> {
        let [InputEffect::Ticket(ticket)] = self.lock().inputs.apply(InputEvent::Enter(line))[..] else {
            unreachable!("a line gives a ticket");
        };
        let guard = LineGuard { control: self, line, ticket };
        self.until(|inputs| inputs.is_first(line, ticket)).await;
        guard
    }

    /// Moves an input into a stage until the guard is dropped.
    pub(crate) fn begin(&self, stage: Stage) -> StageGuard<'_> {
        self.advance(InputEvent::Begin(stage));
        self.begun(stage)
    }

    /// Returns the guard of an input that is already in a stage.
    pub(crate) fn begun(&self, stage: Stage) -> StageGuard<'_> {
        StageGuard { control: self, stage }
    }

    pub(crate) fn begin_run(&self, cancel: CancellationToken) {
        let mut inner = self.lock();
        inner.cancels.run = Some(cancel);
        self.apply_locked(&mut inner, InputEvent::RunBegan);
    }

    pub(crate) fn end_run(&self) {
        self.lock().cancels.run = None;
        self.advance(InputEvent::RunEnded);
    }

    pub(crate) fn begin_summary(&self, cancel: CancellationToken) {
        let mut inner = self.lock();
        inner.cancels.summaries.push(cancel);
        self.apply_locked(&mut inner, InputEvent::SummaryBegan);
    }

    pub(crate) fn end_summary(&self) {
        self.lock().cancels.summaries.pop();
        self.advance(InputEvent::SummaryEnded);
    }

    /// Aborts the current run, or the scheduled one that a message has triggered.
    pub fn abort(&self) {
        self.observe_act("abort", || Value::Null);
        self.advance(InputEvent::Abort);
    }

    /// Returns whether no run is active.
    pub fn is_idle(&self) -> bool {
        self.inputs(Inputs::is_idle)
    }

    /// Returns whether a summary is being written.
    pub fn is_summarising(&self) -> bool {
        self.inputs(Inputs::is_summarising)
    }

    /// Returns whether nothing is active or scheduled.
    pub fn is_settled(&self) -> bool {
        self.inputs(Inputs::is_settled)
    }

    /// Waits until [`AgentControl::is_settled`] returns `true`.
    pub async fn settled(&self) {
        self.until(Inputs::is_settled).await;
    }

    /// Waits until no run is active. Callers that arrive during a run also wait for its `agent_end` handlers, as in pi.
    pub async fn idle(&self) {
        if !self.is_idle() {
            self.until(Inputs::accepts_run).await;
        }
    }

    /// Waits until nothing is active (`ctx.waitForIdle()`), during a run also for its `agent_end` handlers.
    pub(crate) async fn quiescent(&self) {
        if !self.inputs(Inputs::has_come_to_rest) {
            self.until(Inputs::is_quiescent).await;
        }
    }

    /// Waits until all messages sent to a queue have arrived in it.
    pub async fn delivered(&self) {
        self.until(|inputs| inputs.is_over(Stage::Delivering)).await;
    }

    /// Sends a custom message of an extension (`sendMessage`); idle and without `trigger_turn`, appends it to the session.
    pub fn send_message(
        &self,
        message: CustomMessage,
        deliver_as: Option<DeliverAs>,
        trigger_turn: Option<bool>,
    ) -> Result<(), ControlError> {
        self.send_message_of(None, message, deliver_as, trigger_turn)
    }

    pub(crate) fn send_message_of(
        &self,
        sender: Option<&ExtensionId>,
        message: CustomMessage,
        deliver_as: Option<DeliverAs>,
        trigger_turn: Option<bool>,
    ) -> Result<(), ControlError> {
        if message.custom_type == VERDICT_TYPE {
            return Err(ControlError::Refused(format!("the custom type {VERDICT_TYPE:?} is reserved")));
        }
        let mut message = CustomMessage { timestamp: self.0.ambient.epoch_ms(), ..message };
        message.authors.extend(sender.filter(|_| guard!(AttributionAuthor)).map(ToString::to_string));
        self.apply(InputEvent::Message { message, deliver_as, trigger_turn, sender: sender.cloned() }).map(drop)
    }

    /// Sends a message as if the user had typed it (`sendUserMessage`). `expand` enables commands and templates.
    pub fn send_user_message(
        &self,
        content: Content,
        deliver_as: Option<DeliverAs>,
        expand: bool,
    ) -> Result<(), ControlError> {
        self.send_user_message_of(None, content, deliver_as, expand)
    }

    /// Sends a text that `author`, which is not an extension, wrote at the user's request. Later tool calls are judged as after a
    /// message of an extension with this name.
    pub fn send_text_of(&self, author: &ExtensionId, text: String) -> Result<(), ControlError> {
        let author = guard!(AttributionAuthor).then_some(author);
        let content = Authored::by(author, Content::Text(text).as_typed());
        self.apply(InputEvent::UserMessage { content, deliver_as: None, expand: false, sender: None }).map(drop)
    }

    pub(crate) fn send_user_message_of(
        &self,
        sender: Option<&ExtensionId>,
        content: Content,
        deliver_as: Option<DeliverAs>,
        expand: bool,
    ) -> Result<(), ControlError> {
        let author = sender.filter(|_| guard!(AttributionAuthor));
        let content = Authored::by(author, content.as_typed());
        self.apply(InputEvent::UserMessage { content, deliver_as, expand, sender: sender.cloned() }).map(drop)
    }

    /// Checks that an extension may queue another message.
    ///
    /// # Errors
    ///
    /// `denied`, quota `waiting_messages`.
    pub(crate) fn may_wait(&self) -> Result<(), HostcallError> {
        let waiting = self.inputs(Inputs::waiting_count);
        if waiting >= MAX_WAITING && guard!(QueuesPendingMessages) {
            let error = HostcallError::denied(
                "quota",
                format!("{waiting} messages are already queued for the model; wait until it has read some of them"),
            );
            return Err(error.with("quota", "waiting_messages").with("limit", MAX_WAITING));
        }
        Ok(())
    }

    /// Checks that an extension may cause another event.
    ///
    /// # Errors
    ///
    /// `denied`, quota `untold_events`: the handlers of earlier events have not run, because the extension has not yielded.
    pub(crate) fn may_announce(&self) -> Result<(), HostcallError> {
        let untold = self.inputs(Inputs::unannounced);
        if untold >= MAX_UNANNOUNCED && guard!(SessionUndeliveredEvents) {
            let error = HostcallError::denied(
                "quota",
                format!(
                    "{untold} events wait for handlers of extensions: return to the event loop (await) before the next \
                     change of the session"
                ),
            );
            return Err(error.with("quota", "untold_events").with("limit", MAX_UNANNOUNCED));
        }
        Ok(())
    }

    /// Appends the messages that were held back until the end of the turn.
    pub(crate) fn flush_after_turn(&self) -> Result<(), ControlError> {
        self.apply(InputEvent::Take(Queue::AfterTurn)).map(drop)
    }

    /// Appends the records of shell commands that waited for the end of the run.
    pub(crate) fn flush_after_run(&self) -> Result<(), ControlError> {
        self.apply(InputEvent::Take(Queue::AfterRun)).map(drop)
    }

    /// Records a shell command of the user, and the extensions that provided its result; during a run, at its end.
    pub(crate) fn record_bash(&self, authors: BTreeSet<String>, execution: BashExecution) -> Result<(), ControlError> {
        self.apply(InputEvent::Bash { authors, execution }).map(drop)
    }

    /// Queues a message of the user for the current run.
    pub(crate) fn queue_input(&self, content: Authored, deliver_as: DeliverAs) {
        let message = Message::User(content.message(self.0.ambient.epoch_ms()));
        self.advance(InputEvent::Queue { message, deliver_as });
    }

    /// Returns the texts of queued messages: steering, and follow-up.
    pub fn waiting(&self) -> (Vec<String>, Vec<String>) {
        self.inputs(Inputs::waiting)
    }

    /// Removes all queued messages and returns their texts, as [`AgentControl::waiting`] does. Always notifies front ends.
    pub fn clear_waiting(&self) -> (Vec<String>, Vec<String>) {
        self.observe_act("clear_waiting", || Value::Null);
        let texts = self.waiting();
        self.advance(InputEvent::Clear);
        texts
    }

    /// Returns whether messages of the user are queued.
    pub fn has_pending_messages(&self) -> bool {
        self.inputs(Inputs::has_waiting)
    }

    /// Takes the next message from a queue.
    pub(crate) fn take_next(&self, queue: Queue) -> Option<Message> {
        self.apply(InputEvent::Take(queue)).unwrap_or_default().pop()
    }

    pub(crate) fn take_next_turn(&self) -> Vec<Message> {
        self.apply(InputEvent::Take(Queue::NextTurn)).unwrap_or_default()
    }

    /// Records that the agent begins to process a message of the user. Returns whether the message was queued.
    pub(crate) fn note_spoken(&self, message: &Message) -> bool {
        let Message::User(message) = message else { return false };
        let text = message.content.text();
        let mut inner = self.lock();
        let was_taken = inner.inputs.has_taken(&text);
        if was_taken {
            self.apply_locked(&mut inner, InputEvent::Spoken { text });
        }
        was_taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extensions::NoState;
    use crate::testing;
    use pijs_inputs::Pending;
    use pijs_session_store::Session;
    use std::path::Path;
    use std::sync::Arc;

    fn control() -> AgentControl {
        let session = Session::in_memory(Path::new("/w"), testing::ambient());
        AgentControl::new(session, Arc::new(NoState), testing::ambient())
    }

    fn custom(custom_type: &str) -> CustomMessage {
        CustomMessage {
            custom_type: custom_type.into(),
            content: "c".into(),
            display: Some(true),
            details: None,
            timestamp: testing::NOW_MS,
            authors: Default::default(),
        }
    }

    #[test]
    fn an_idle_message_without_a_trigger_goes_straight_into_the_session() {
        let control = control();
        control.send_message(custom("x"), None, None).unwrap();
        control.send_message(custom("x"), Some(DeliverAs::Steer), None).unwrap();
        assert_eq!(control.with_session(|session| session.len()), 2);
        assert!(control.inputs(|inputs| inputs.scheduled().is_none()));
    }

    #[test]
    fn a_triggering_message_waits_as_a_run_when_idle_and_steers_when_running() {
        let control = control();
        control.send_message(custom("x"), None, Some(true)).unwrap();
        assert_eq!(control.inputs(|inputs| inputs.scheduled().cloned()), Some(Pending::Custom(custom("x"))));
        assert!(!control.is_settled());
        // The first run is active when the next message is sent.
        control.send_message(custom("w"), None, None).unwrap();
        control.send_message(custom("v"), None, Some(true)).unwrap();
        assert_eq!(control.with_session(|session| session.len()), 0);
        assert_eq!(control.take_next(Queue::Steering), Some(Message::Custom(custom("w"))));
        assert_eq!(control.take_next(Queue::Steering), Some(Message::Custom(custom("v"))));
        control.advance(InputEvent::TriggeredRunEnded);
        assert!(control.is_settled());
        control.begin_run(CancellationToken::new());
        control.send_message(custom("y"), None, Some(true)).unwrap();
        assert_eq!(control.take_next(Queue::Steering), Some(Message::Custom(custom("y"))));
        control.send_message(custom("z"), Some(DeliverAs::FollowUp), None).unwrap();
        assert_eq!(control.take_next(Queue::FollowUp), Some(Message::Custom(custom("z"))));
    }

    #[test]
    fn queue_updates_are_not_quadratic() {
        let control = control();
        let mut inbox = control.take_inbox().expect("nobody has it");
        control.begin_run(CancellationToken::new());
        let long = CustomMessage { content: "x".repeat(1 << 20).as_str().into(), ..custom("x") };
        (0..10).for_each(|_| control.send_message(long.clone(), Some(DeliverAs::FollowUp), None).unwrap());
        let mut told = Vec::new();
        while let Ok(work) = inbox.try_recv() {
            let AgentTask::Waiting(payload, bytes) = work else { continue };
            told.push(payload["followUp"].as_array().map(Vec::len));
            control.advance(InputEvent::Shown { bytes });
        }
        assert_eq!(told, [Some(1), Some(2), Some(3), Some(10)], "the last is how it is");
    }

    #[test]
    fn a_next_turn_message_stays_queued() {
        let control = control();
        control.send_message(custom("x"), Some(DeliverAs::NextTurn), Some(true)).unwrap();
        assert!(control.inputs(|inputs| inputs.scheduled().is_none()));
        assert_eq!(control.take_next_turn(), [Message::Custom(custom("x"))]);
    }

    #[test]
    fn user_messages_are_refused_as_pi_refuses_them() {
        let control = control();
        control.send_user_message("a".into(), None, false).unwrap();
        assert!(
            control
                .send_user_message("b".into(), None, false)
                .unwrap_err()
                .to_string()
                .starts_with("Agent is already processing a prompt.")
        );
        control.begin_run(CancellationToken::new());
        assert!(
            control
                .send_user_message("c".into(), None, false)
                .unwrap_err()
                .to_string()
                .starts_with("Agent is already processing. Specify")
        );
        control.queue_input(Content::from("d").into(), DeliverAs::Steer);
        assert!(control.has_pending_messages());
    }

    #[test]
    fn extensions_cannot_use_the_custom_type_of_verdicts() {
        assert!(control().send_message(custom(VERDICT_TYPE), None, None).is_err());
    }
}
