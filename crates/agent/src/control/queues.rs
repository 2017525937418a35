//! What waits for the model: messages that steer a run, follow it, or begin one.

use super::{AgentControl, ControlError, Inner, VERDICT_TYPE};
use crate::authored::Authored;
use crate::work::Work;
use pijs_llm::message::{BashExecution, Content, CustomMessage, Message};
use pijs_protocol::{ExtensionId, HostcallError, guard};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeSet, VecDeque};

/// Bytes of what front ends are told of the queues before they have heard it. Each change says all that waits: what is told
/// of many messages grows with their square.
const MOST_ON_THE_WAY: usize = 4 << 20;
/// Messages that may wait when an extension adds one; each that is added is told with those before it.
const MOST_WAITING: usize = 1000;
/// Events of what extensions change (a name, a level of thinking) that wait until they are told.
const MOST_UNTOLD: usize = 1000;

#[derive(Default)]
pub(super) struct Queues {
    steering: VecDeque<Message>,
    follow_up: VecDeque<Message>,
    next_turn: Vec<CustomMessage>,
    /// Messages without a turn of their own that came while the model was at work.
    after_turn: Vec<CustomMessage>,
    /// Shell commands of the person that ended while the model was at work.
    after_run: Vec<(BTreeSet<String>, BashExecution)>,
    runs: VecDeque<Pending>,
    /// Texts of what people said that a run has taken and not begun to say: it still counts as waiting.
    taken: Vec<(DeliverAs, String)>,
}

/// A run that was asked for while the agent was idle.
#[derive(Debug, Clone, PartialEq)]
pub enum Pending {
    /// `sendUserMessage`, and whether commands and templates count in it.
    User(Authored, bool),
    /// `sendMessage` with `triggerTurn`.
    Custom(CustomMessage),
}

/// When a message of an extension reaches the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeliverAs {
    /// Before the next request of the run.
    Steer,
    /// When the run would end.
    FollowUp,
    /// With the next prompt.
    NextTurn,
}

impl DeliverAs {
    /// pi's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Steer => "steer",
            Self::FollowUp => "followUp",
            Self::NextTurn => "nextTurn",
        }
    }
}

impl AgentControl {
    /// `sendMessage`. Idle and without `trigger_turn` it goes straight into the session.
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
        asker: Option<&ExtensionId>,
        message: CustomMessage,
        deliver_as: Option<DeliverAs>,
        trigger_turn: Option<bool>,
    ) -> Result<(), ControlError> {
        if message.custom_type == VERDICT_TYPE {
            return Err(ControlError::Refused(format!("the custom type {VERDICT_TYPE:?} is reserved")));
        }
        let mut message = CustomMessage { timestamp: self.0.ambient.epoch_ms(), ..message };
        message.authors.extend(asker.filter(|_| guard!(AttributionAuthor)).map(ToString::to_string));
        let mut inner = self.lock();
        let running = inner.is_running();
        match deliver_as {
            Some(DeliverAs::NextTurn) => inner.queues.next_turn.push(message),
            // Between a tool call and its result there is no place for it.
            _ if running && trigger_turn == Some(false) => inner.queues.after_turn.push(message),
            Some(DeliverAs::FollowUp) if running => inner.queues.follow_up.push_back(Message::Custom(message)),
            _ if running => inner.queues.steering.push_back(Message::Custom(message)),
            _ if trigger_turn == Some(true) => {
                inner.queues.runs.push_back(Pending::Custom(message));
                let _ = inner.work.send(Work::Run(asker.cloned()));
                self.0.state.set("isIdle", inner.is_idle().into());
            }
            _ => {
                drop(inner);
                return self.put_custom(message);
            }
        }
        self.publish_pending(&inner);
        Ok(())
    }

    /// Whether an extension may add a message to those that wait.
    ///
    /// # Errors
    ///
    /// `denied`, quota `waiting_messages`.
    pub(crate) fn may_wait(&self) -> Result<(), HostcallError> {
        let inner = self.lock();
        let waiting = inner.queues.count() + inner.unseen;
        if waiting >= MOST_WAITING && guard!(QueuesPendingMessages) {
            let error = HostcallError::denied("quota", format!("{waiting} messages wait for the model already"));
            return Err(error.with("quota", "waiting_messages").with("limit", MOST_WAITING));
        }
        Ok(())
    }

    /// Whether an extension may cause an event beside whatever goes on.
    ///
    /// # Errors
    ///
    /// `denied`, quota `untold_events`: those before it have not been told yet, since it goes on without a pause.
    pub(crate) fn may_tell(&self) -> Result<(), HostcallError> {
        let untold = self.lock().telling;
        if untold >= MOST_UNTOLD && guard!(SessionUndeliveredEvents) {
            let error = HostcallError::denied("quota", format!("{untold} events have not been told yet"));
            return Err(error.with("quota", "untold_events").with("limit", MOST_UNTOLD));
        }
        Ok(())
    }

    /// A message that nobody answers: straight into the session.
    fn put_custom(&self, message: CustomMessage) -> Result<(), ControlError> {
        let message = Message::Custom(message);
        self.append_message(&message)?;
        self.send(Work::Shown(message));
        Ok(())
    }

    /// Messages that waited for the end of the turn.
    pub(crate) fn flush_after_turn(&self) -> Result<(), ControlError> {
        let waiting = std::mem::take(&mut self.lock().queues.after_turn);
        waiting.into_iter().try_for_each(|message| self.put_custom(message))
    }

    /// Shell commands that waited for the end of the run.
    pub(crate) fn flush_after_run(&self) -> Result<(), ControlError> {
        let waiting = std::mem::take(&mut self.lock().queues.after_run);
        waiting
            .into_iter()
            .try_for_each(|(authors, run)| self.append_edited(authors, &Message::BashExecution(run)).map(|_| ()))
    }

    /// Writes down a shell command of the person, and the extensions that answered in the place of the shell; during a run,
    /// when that has ended.
    pub(crate) fn record_bash(&self, authors: BTreeSet<String>, run: BashExecution) -> Result<(), ControlError> {
        let mut inner = self.lock();
        if inner.run.is_some() {
            inner.queues.after_run.push((authors, run));
            return Ok(());
        }
        drop(inner);
        self.append_edited(authors, &Message::BashExecution(run)).map(|_| ())
    }

    /// Queues what a person said during a run. Answers whether there is one.
    pub(crate) fn queue_input(&self, content: Authored, deliver_as: DeliverAs) {
        let message = Message::User(content.message(self.0.ambient.epoch_ms()));
        let mut inner = self.lock();
        match deliver_as {
            DeliverAs::FollowUp => inner.queues.follow_up.push_back(message),
            _ => inner.queues.steering.push_back(message),
        }
        self.publish_pending(&inner);
    }

    /// One message that was on its way to a queue is in it, or dropped.
    pub(crate) fn arrived(&self) {
        self.lock().arriving -= 1;
        self.0.quieter.notify_waiters();
    }

    /// An event that was caused by the way has been told.
    pub(crate) fn told(&self) {
        self.lock().telling -= 1;
        self.0.quieter.notify_waiters();
    }

    /// Waits until no message is on its way to a queue.
    pub async fn all_arrived(&self) {
        self.until(|inner| inner.arriving == 0).await;
    }

    /// The same, and until extensions have been told what was caused by the way.
    pub(crate) async fn all_told(&self) {
        self.until(|inner| inner.arriving == 0 && inner.telling == 0).await;
    }

    pub(super) async fn until(&self, is_so: impl Fn(&Inner) -> bool) {
        loop {
            let quieter = self.0.quieter.notified();
            tokio::pin!(quieter);
            quieter.as_mut().enable();
            if is_so(&self.lock()) {
                return;
            }
            quieter.await;
        }
    }

    /// `sendUserMessage`: as if the person had typed it. With `expand`, commands and templates count.
    pub fn send_user_message(
        &self,
        content: Content,
        deliver_as: Option<DeliverAs>,
        expand: bool,
    ) -> Result<(), ControlError> {
        self.send_user_message_of(None, content, deliver_as, expand)
    }

    pub(crate) fn send_user_message_of(
        &self,
        asker: Option<&ExtensionId>,
        content: Content,
        deliver_as: Option<DeliverAs>,
        expand: bool,
    ) -> Result<(), ControlError> {
        let author = asker.filter(|_| guard!(AttributionAuthor));
        let content = Authored::by(author, content.as_typed());
        let mut inner = self.lock();
        let running = inner.is_running();
        match deliver_as {
            Some(how @ (DeliverAs::Steer | DeliverAs::FollowUp)) if running => {
                // One that may run a command takes as long as the command does.
                inner.arriving += usize::from(!expand);
                inner.unseen += 1;
                let _ = inner.work.send(Work::Queue(content, Some(how), expand));
            }
            Some(DeliverAs::NextTurn) => {
                return Err(ControlError::Refused("sendUserMessage takes \"steer\" or \"followUp\"".to_owned()));
            }
            None if running && !inner.ending && asker.is_some() => {
                inner.arriving += usize::from(!expand);
                inner.unseen += 1;
                inner.refusing += 1;
                let _ = inner.work.send(Work::Queue(content, None, expand));
            }
            None if running && !inner.ending => {
                return Err(ControlError::undelivered());
            }
            _ if asker.is_some()
                && (inner.starting > 0 || inner.queues.runs.iter().any(|run| matches!(run, Pending::User(..)))) =>
            {
                inner.unseen += 1;
                inner.beside += 1;
                let _ = inner.work.send(Work::Beside(asker.cloned(), content, expand));
            }
            _ if inner.queues.runs.iter().any(|run| matches!(run, Pending::User(..))) => {
                return Err(ControlError::Refused(
                    "Agent is already processing a prompt. Use steer() or followUp() to queue messages, or wait for completion."
                        .to_owned(),
                ));
            }
            _ => {
                inner.queues.runs.push_back(Pending::User(content, expand));
                let _ = inner.work.send(Work::Run(asker.cloned()));
            }
        }
        self.publish_pending(&inner);
        Ok(())
    }

    /// Texts of the messages that wait: to steer, and to follow.
    pub fn waiting(&self) -> (Vec<String>, Vec<String>) {
        self.lock().queues.texts()
    }

    /// Takes all waiting messages away and gives their texts, as [`AgentControl::waiting`] does. Front ends are told, also
    /// where nothing waited.
    pub fn clear_waiting(&self) -> (Vec<String>, Vec<String>) {
        let texts = self.waiting();
        let mut inner = self.lock();
        inner.queues.steering.clear();
        inner.queues.follow_up.clear();
        inner.queues.taken.clear();
        self.publish_waiting(&inner, true);
        texts
    }

    /// Whether messages wait in a queue.
    pub fn has_pending_messages(&self) -> bool {
        self.lock().queues.waiting()
    }

    /// Whether messages wait that a run would take up.
    pub(crate) fn has_queued(&self) -> bool {
        let inner = self.lock();
        !inner.queues.steering.is_empty() || !inner.queues.follow_up.is_empty()
    }

    /// What the next request would take of what waits, and what was said without a request of its own. The arguments say
    /// whether all of a queue go at a time.
    pub(crate) fn next_queued(&self, steer_all: bool, follow_up_all: bool) -> (Vec<Message>, Vec<Message>) {
        let queues = &self.lock().queues;
        let next = |queue: &VecDeque<Message>, all: bool| -> Vec<Message> {
            queue.iter().take(if all { usize::MAX } else { 1 }).cloned().collect()
        };
        let steering = next(&queues.steering, steer_all);
        let taken = if steering.is_empty() { next(&queues.follow_up, follow_up_all) } else { steering };
        (taken, queues.after_turn.iter().cloned().map(Message::Custom).collect())
    }

    pub(crate) fn take_steering(&self) -> Option<Message> {
        let mut inner = self.lock();
        let message = inner.queues.steering.pop_front();
        inner.queues.note_taken(DeliverAs::Steer, message.as_ref());
        self.publish_pending(&inner);
        message
    }

    pub(crate) fn take_follow_up(&self) -> Option<Message> {
        let mut inner = self.lock();
        let message = inner.queues.follow_up.pop_front();
        inner.queues.note_taken(DeliverAs::FollowUp, message.as_ref());
        self.publish_pending(&inner);
        message
    }

    /// A message of a person begins: it waits no longer. Answers whether it did.
    pub(crate) fn said(&self, message: &Message) -> bool {
        let Message::User(message) = message else { return false };
        let text = message.content.text();
        let mut inner = self.lock();
        let Some(at) = inner.queues.taken.iter().position(|(_, known)| *known == text) else { return false };
        inner.queues.taken.remove(at);
        self.publish_pending(&inner);
        true
    }

    /// What was taken and never said waits for nothing: the run is over.
    pub(crate) fn forget_taken(&self) {
        let mut inner = self.lock();
        if !inner.queues.taken.is_empty() {
            inner.queues.taken.clear();
            self.publish_pending(&inner);
        }
    }

    pub(crate) fn take_next_turn(&self) -> Vec<CustomMessage> {
        std::mem::take(&mut self.lock().queues.next_turn)
    }

    /// The next run that was asked for. It counts as waiting until [`AgentControl::run_taken`].
    pub(crate) fn take_run(&self) -> Option<Pending> {
        self.lock().queues.runs.front().cloned()
    }

    pub(crate) fn run_taken(&self) {
        let mut inner = self.lock();
        inner.queues.runs.pop_front();
        // A run that was never begun has nothing to abort.
        inner.aborts_next = false;
        self.0.state.set("isIdle", inner.is_idle().into());
        drop(inner);
        self.0.quieter.notify_waiters();
    }

    pub(super) fn publish_pending(&self, inner: &Inner) {
        self.publish_waiting(inner, false);
    }

    fn publish_waiting(&self, inner: &Inner, always: bool) {
        self.0.state.set("hasPendingMessages", inner.queues.waiting().into());
        let mut told = inner.told.borrow_mut();
        if told.on_the_way > MOST_ON_THE_WAY {
            told.is_behind = true;
            return;
        }
        let waiting = inner.queues.texts();
        if always || told.waiting != waiting {
            let texts = waiting.0.iter().chain(&waiting.1);
            let bytes = texts.map(|text| text.len() + size_of::<Value>()).sum();
            let payload = json!({"steering": waiting.0, "followUp": waiting.1});
            // Without an agent nobody is left to be told.
            let _ = inner.work.send(Work::Waiting(payload, bytes));
            told.on_the_way += bytes;
            told.waiting = waiting;
        }
    }

    /// Front ends were told of the queues, in so many bytes. What they were not told meanwhile is made up for.
    pub(crate) fn told_waiting(&self, bytes: usize) {
        let inner = self.lock();
        let mut told = inner.told.borrow_mut();
        told.on_the_way -= bytes;
        if told.on_the_way == 0 && std::mem::take(&mut told.is_behind) {
            drop(told);
            self.publish_waiting(&inner, true);
        }
    }
}

/// The queues as front ends know them.
#[derive(Default)]
pub(super) struct Told {
    waiting: (Vec<String>, Vec<String>),
    /// Bytes that front ends have not taken yet.
    on_the_way: usize,
    /// Something changed after that.
    is_behind: bool,
}

impl Queues {
    /// Texts of what waits to steer, and to follow.
    fn texts(&self) -> (Vec<String>, Vec<String>) {
        let texts = |how: DeliverAs, queue: &VecDeque<Message>| {
            let text = |message: &Message| match message {
                Message::User(user) => Some(user.content.text()),
                Message::Custom(custom) => Some(custom.content.text()),
                _ => None,
            };
            let taken = self.taken.iter().filter(|(kind, _)| *kind == how).map(|(_, text)| text.clone());
            taken.chain(queue.iter().filter_map(text)).collect()
        };
        (texts(DeliverAs::Steer, &self.steering), texts(DeliverAs::FollowUp, &self.follow_up))
    }

    fn note_taken(&mut self, how: DeliverAs, message: Option<&Message>) {
        if let Some(Message::User(user)) = message {
            self.taken.push((how, user.content.text()));
        }
    }

    /// Messages that wait, of whatever kind.
    fn count(&self) -> usize {
        let queued = self.steering.len() + self.follow_up.len() + self.runs.len();
        queued + self.next_turn.len() + self.after_turn.len()
    }

    /// Whether a message waits that asked for a turn.
    pub(super) fn has_turns(&self) -> bool {
        self.runs.iter().any(|run| matches!(run, Pending::Custom(_)))
    }

    /// Whether a run waits to begin.
    pub(super) fn has_runs(&self) -> bool {
        !self.runs.is_empty()
    }

    /// pi counts what people said, and not what extensions put in.
    fn waiting(&self) -> bool {
        let said = |message: &Message| matches!(message, Message::User(_));
        !self.taken.is_empty() || self.steering.iter().chain(&self.follow_up).any(said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extensions::NoState;
    use crate::testing;
    use pijs_session_store::Session;
    use std::path::Path;
    use std::sync::Arc;
    use tokio_util::sync::CancellationToken;

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
        assert!(control.take_run().is_none());
    }

    #[test]
    fn a_triggering_message_waits_as_a_run_when_idle_and_steers_when_running() {
        let control = control();
        control.send_message(custom("x"), None, Some(true)).unwrap();
        assert_eq!(control.take_run(), Some(Pending::Custom(custom("x"))));
        assert!(!control.is_settled());
        // It has begun, for whoever sends the next.
        control.send_message(custom("w"), None, None).unwrap();
        control.send_message(custom("v"), None, Some(true)).unwrap();
        assert_eq!(control.with_session(|session| session.len()), 0);
        assert_eq!(control.take_steering(), Some(Message::Custom(custom("w"))));
        assert_eq!(control.take_steering(), Some(Message::Custom(custom("v"))));
        control.run_taken();
        assert!(control.is_settled());
        control.begin_run(CancellationToken::new());
        control.send_message(custom("y"), None, Some(true)).unwrap();
        assert_eq!(control.take_steering(), Some(Message::Custom(custom("y"))));
        control.send_message(custom("z"), Some(DeliverAs::FollowUp), None).unwrap();
        assert_eq!(control.take_follow_up(), Some(Message::Custom(custom("z"))));
    }

    #[test]
    fn what_is_told_of_the_queues_does_not_grow_with_their_square() {
        let control = control();
        let mut inbox = control.take_inbox().expect("nobody has it");
        control.begin_run(CancellationToken::new());
        let long = CustomMessage { content: "x".repeat(1 << 20).as_str().into(), ..custom("x") };
        (0..10).for_each(|_| control.send_message(long.clone(), Some(DeliverAs::FollowUp), None).unwrap());
        let mut told = Vec::new();
        while let Ok(work) = inbox.try_recv() {
            let Work::Waiting(payload, bytes) = work else { continue };
            told.push(payload["followUp"].as_array().map(Vec::len));
            control.told_waiting(bytes);
        }
        assert_eq!(told, [Some(1), Some(2), Some(3), Some(10)], "the last is how it is");
    }

    #[test]
    fn the_next_turn_holds_a_message_whatever_the_agent_does() {
        let control = control();
        control.send_message(custom("x"), Some(DeliverAs::NextTurn), Some(true)).unwrap();
        assert!(control.take_run().is_none());
        assert_eq!(control.take_next_turn(), [custom("x")]);
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
    fn the_custom_type_of_verdicts_cannot_be_borrowed() {
        assert!(control().send_message(custom(VERDICT_TYPE), None, None).is_err());
    }
}
