//! The part of a session that others may touch while the agent runs.
//!
//! [`AgentControl`] is `Send`, cheap to clone, and made before the agent: connectors hold it to
//! carry out what extensions ask for (`sendMessage`, `appendEntry`, `abort`, ...), the command line
//! holds it to interrupt. It owns the session and the message queues; the agent's loop reads both.
//!
//! Nothing here waits. What starts a run while the agent is idle is left as a [`Pending`] run, which
//! the agent carries out when it is next asked to ([`crate::Agent::settle`]).

use crate::ambient::Ambient;
use crate::extensions::StateSink;
use crate::message::{Block, Content, CustomMessage, Message, UserMessage};
use crate::session::{Body, EntryId, Session, SessionError};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Custom type of what a verdict injects. Reserved: its role may be `system`.
pub const VERDICT_TYPE: &str = "stream_verdict";

/// Handle on a running session.
#[derive(Clone)]
pub struct AgentControl(Arc<Shared>);

struct Shared {
    state: Arc<dyn StateSink>,
    ambient: Ambient,
    inner: Mutex<Inner>,
    /// A run was asked for while none was on.
    wanted: Notify,
}

struct Inner {
    session: Session,
    queues: Queues,
    /// The run's token while one is on.
    run: Option<CancellationToken>,
    tools: Tools,
}

/// What extensions are told about tools.
#[derive(Default)]
struct Tools {
    all: Vec<Value>,
    active: Vec<String>,
    /// `setActiveTools` since the agent last looked.
    wanted: Option<Vec<String>>,
}

#[derive(Default)]
struct Queues {
    steering: VecDeque<Message>,
    follow_up: VecDeque<Message>,
    next_turn: Vec<CustomMessage>,
    runs: VecDeque<Pending>,
}

/// A run that was asked for while the agent was idle.
#[derive(Debug, Clone, PartialEq)]
pub enum Pending {
    /// `sendUserMessage`.
    User(Content),
    /// `sendMessage` with `triggerTurn`.
    Custom(CustomMessage),
}

/// When a message of an extension reaches the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliverAs {
    /// Before the next request of the run.
    Steer,
    /// When the run would end.
    FollowUp,
    /// With the next prompt.
    NextTurn,
}

/// Why a message was not taken.
#[derive(Debug)]
pub enum ControlError {
    /// The request makes no sense now; pi's words.
    Refused(String),
    /// The session file cannot be written.
    Session(SessionError),
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(message) => f.write_str(message),
            Self::Session(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ControlError {}

impl From<SessionError> for ControlError {
    fn from(error: SessionError) -> Self {
        Self::Session(error)
    }
}

impl AgentControl {
    /// Takes over a session. What it holds already is published to `state`.
    pub fn new(session: Session, state: Arc<dyn StateSink>, ambient: Ambient) -> Self {
        let entries = session.entries().iter().map(crate::session::Entry::to_value).collect();
        state.change_entries(0, entries);
        state.set("isIdle", true.into());
        state.set("hasPendingMessages", false.into());
        let inner = Inner { session, queues: Queues::default(), run: None, tools: Tools::default() };
        let control = Self(Arc::new(Shared { state, ambient, inner: Mutex::new(inner), wanted: Notify::new() }));
        control.publish_session(&control.lock());
        control
    }

    /// Reads the session. Do not keep the closure long: extensions wait for it.
    pub fn with_session<R>(&self, read: impl FnOnce(&Session) -> R) -> R {
        read(&self.lock().session)
    }

    /// The session's file, also before anything is in it.
    pub fn session_file(&self) -> Option<PathBuf> {
        self.with_session(|session| session.path().map(ToOwned::to_owned))
    }

    /// `appendEntry`: data of an extension that the model does not see.
    pub fn append_custom(&self, custom_type: &str, data: Option<Value>) -> Result<EntryId, ControlError> {
        self.append(Body::Custom { custom_type: custom_type.to_owned(), data })
    }

    /// `setSessionName`.
    pub fn set_session_name(&self, name: &str) -> Result<(), ControlError> {
        self.append(Body::SessionInfo { name: Some(name.trim().to_owned()) }).map(|_| ())
    }

    /// `setLabel`. Without a label, takes one away.
    pub fn set_label(&self, entry: &str, label: Option<String>) -> Result<(), ControlError> {
        let target_id = EntryId(entry.to_owned());
        if self.lock().session.entry(&target_id).is_none() {
            return Err(ControlError::Refused(format!("Entry {entry} not found")));
        }
        self.append(Body::Label { target_id, label }).map(|_| ())
    }

    /// `setActiveTools`, from the next prompt on. Names of no tool are left out.
    pub fn set_active_tools(&self, names: &[String]) {
        let mut inner = self.lock();
        let known = |name: &String| inner.tools.all.iter().any(|tool| tool["name"] == name.as_str());
        let active: Vec<String> = names.iter().filter(|name| known(name)).cloned().collect();
        inner.tools.wanted = Some(active.clone());
        inner.tools.active = active;
        self.0.state.set("activeTools", json!(inner.tools.active));
    }

    /// All tools as `{name, description, parameters, sourceInfo}`, and the names of the active ones.
    pub fn tools(&self) -> (Vec<Value>, Vec<String>) {
        let tools = &self.lock().tools;
        (tools.all.clone(), tools.active.clone())
    }

    pub(crate) fn take_active_tools(&self) -> Option<Vec<String>> {
        self.lock().tools.wanted.take()
    }

    pub(crate) fn publish_tools(&self, all: Vec<Value>, active: Vec<String>) {
        let mut inner = self.lock();
        if inner.tools.all != all {
            self.0.state.set("tools", json!(all));
            inner.tools.all = all;
        }
        if inner.tools.active != active {
            self.0.state.set("activeTools", json!(active));
            inner.tools.active = active;
        }
    }

    /// `sendMessage`. Idle and without `trigger_turn` it goes straight into the session.
    pub fn send_message(
        &self,
        message: CustomMessage,
        deliver_as: Option<DeliverAs>,
        trigger_turn: bool,
    ) -> Result<(), ControlError> {
        if message.custom_type == VERDICT_TYPE {
            return Err(ControlError::Refused(format!("the custom type {VERDICT_TYPE:?} is reserved")));
        }
        let message = CustomMessage { timestamp: self.0.ambient.clock.epoch_ms(), ..message };
        let mut inner = self.lock();
        match deliver_as {
            Some(DeliverAs::NextTurn) => inner.queues.next_turn.push(message),
            Some(DeliverAs::FollowUp) if inner.run.is_some() => {
                inner.queues.follow_up.push_back(Message::Custom(message));
            }
            _ if inner.run.is_some() => inner.queues.steering.push_back(Message::Custom(message)),
            _ if trigger_turn => {
                inner.queues.runs.push_back(Pending::Custom(message));
                self.0.wanted.notify_one();
            }
            _ => {
                drop(inner);
                self.append_message(&Message::Custom(message))?;
                return Ok(());
            }
        }
        self.publish_pending(&inner);
        Ok(())
    }

    /// `sendUserMessage`: as if the person had typed it.
    pub fn send_user_message(&self, content: Content, deliver_as: Option<DeliverAs>) -> Result<(), ControlError> {
        let mut inner = self.lock();
        let running = inner.run.is_some();
        match deliver_as {
            Some(DeliverAs::Steer) if running => inner.queues.steering.push_back(self.user(content)),
            Some(DeliverAs::FollowUp) if running => inner.queues.follow_up.push_back(self.user(content)),
            Some(DeliverAs::NextTurn) => {
                return Err(ControlError::Refused("sendUserMessage takes \"steer\" or \"followUp\"".to_owned()));
            }
            None if running => {
                return Err(ControlError::Refused(
                    "Agent is already processing. Specify streamingBehavior ('steer' or 'followUp') to queue the message."
                        .to_owned(),
                ));
            }
            _ if inner.queues.runs.iter().any(|run| matches!(run, Pending::User(_))) => {
                return Err(ControlError::Refused(
                    "Agent is already processing a prompt. Use steer() or followUp() to queue messages, or wait for completion."
                        .to_owned(),
                ));
            }
            _ => {
                inner.queues.runs.push_back(Pending::User(content));
                self.0.wanted.notify_one();
            }
        }
        self.publish_pending(&inner);
        Ok(())
    }

    /// Ends the run that is on, if there is one.
    pub fn abort(&self) {
        if let Some(run) = &self.lock().run {
            run.cancel();
        }
    }

    /// Waits until an extension asks for a run while none is on; [`crate::Agent::settle`] carries it out.
    pub async fn run_wanted(&self) {
        self.0.wanted.notified().await;
    }

    /// Texts of the messages that wait: to steer, and to follow.
    pub fn waiting(&self) -> (Vec<String>, Vec<String>) {
        let inner = self.lock();
        let texts = |queue: &VecDeque<Message>| {
            let text = |message: &Message| match message {
                Message::User(user) => Some(user.content.text()),
                Message::Custom(custom) => Some(custom.content.text()),
                _ => None,
            };
            queue.iter().filter_map(text).collect()
        };
        (texts(&inner.queues.steering), texts(&inner.queues.follow_up))
    }

    /// Takes all waiting messages away and gives their texts, as [`AgentControl::waiting`] does.
    pub fn clear_waiting(&self) -> (Vec<String>, Vec<String>) {
        let texts = self.waiting();
        let mut inner = self.lock();
        inner.queues.steering.clear();
        inner.queues.follow_up.clear();
        self.publish_pending(&inner);
        texts
    }

    /// Whether no run is on.
    pub fn is_idle(&self) -> bool {
        self.lock().run.is_none()
    }

    /// Whether messages wait in a queue.
    pub fn has_pending_messages(&self) -> bool {
        self.lock().queues.waiting()
    }

    /// Publishes a member of what extensions read without asking.
    pub fn publish(&self, key: &str, value: Value) {
        self.0.state.set(key, value);
    }

    pub(crate) fn append(&self, body: Body) -> Result<EntryId, ControlError> {
        let mut inner = self.lock();
        let entry = inner.session.append(body)?;
        let (id, value) = (entry.id.clone(), entry.to_value());
        self.0.state.change_entries(inner.session.entries().len() - 1, vec![value]);
        self.publish_session(&inner);
        Ok(id)
    }

    pub(crate) fn append_message(&self, message: &Message) -> Result<EntryId, ControlError> {
        let mut inner = self.lock();
        let entry = inner.session.append_message(message)?;
        let (id, value) = (entry.id.clone(), entry.to_value());
        self.0.state.change_entries(inner.session.entries().len() - 1, vec![value]);
        self.publish_session(&inner);
        Ok(id)
    }

    pub(crate) fn begin_run(&self, cancel: CancellationToken) {
        self.lock().run = Some(cancel);
        self.publish("isIdle", false.into());
    }

    pub(crate) fn end_run(&self) {
        self.lock().run = None;
        self.publish("isIdle", true.into());
    }

    pub(crate) fn take_steering(&self) -> Option<Message> {
        let mut inner = self.lock();
        let message = inner.queues.steering.pop_front();
        self.publish_pending(&inner);
        message
    }

    pub(crate) fn take_follow_up(&self) -> Option<Message> {
        let mut inner = self.lock();
        let message = inner.queues.follow_up.pop_front();
        self.publish_pending(&inner);
        message
    }

    pub(crate) fn take_next_turn(&self) -> Vec<CustomMessage> {
        std::mem::take(&mut self.lock().queues.next_turn)
    }

    pub(crate) fn take_run(&self) -> Option<Pending> {
        self.lock().queues.runs.pop_front()
    }

    fn user(&self, content: Content) -> Message {
        let blocks: Vec<Block> = content.blocks();
        Message::User(UserMessage { content: blocks.into(), timestamp: self.0.ambient.clock.epoch_ms() })
    }

    fn publish_pending(&self, inner: &Inner) {
        self.0.state.set("hasPendingMessages", inner.queues.waiting().into());
    }

    fn publish_session(&self, inner: &Inner) {
        let session = &inner.session;
        let directory = session.path().and_then(|path| path.parent());
        self.0.state.set(
            "session",
            json!({
                "id": session.header().id,
                "file": session.path(),
                "dir": directory,
                "header": session.header(),
                "leafId": session.leaf(),
            }),
        );
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Each change is complete before anything in it can panic.
        self.0.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for AgentControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentControl").field("idle", &self.is_idle()).finish_non_exhaustive()
    }
}

impl Queues {
    fn waiting(&self) -> bool {
        !self.steering.is_empty() || !self.follow_up.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extensions::NoState;
    use crate::testing;
    use std::path::Path;

    fn control() -> AgentControl {
        let session = Session::in_memory(Path::new("/w"), testing::ambient());
        AgentControl::new(session, Arc::new(NoState), testing::ambient())
    }

    fn custom(custom_type: &str) -> CustomMessage {
        CustomMessage {
            custom_type: custom_type.into(),
            content: "c".into(),
            display: true,
            details: None,
            timestamp: testing::NOW_MS,
        }
    }

    #[test]
    fn an_idle_message_without_a_trigger_goes_straight_into_the_session() {
        let control = control();
        control.send_message(custom("x"), None, false).unwrap();
        control.send_message(custom("x"), Some(DeliverAs::Steer), false).unwrap();
        assert_eq!(control.with_session(|session| session.entries().len()), 2);
        assert!(control.take_run().is_none());
    }

    #[test]
    fn a_triggering_message_waits_as_a_run_when_idle_and_steers_when_running() {
        let control = control();
        control.send_message(custom("x"), None, true).unwrap();
        assert_eq!(control.take_run(), Some(Pending::Custom(custom("x"))));
        control.begin_run(CancellationToken::new());
        control.send_message(custom("y"), None, true).unwrap();
        assert_eq!(control.take_steering(), Some(Message::Custom(custom("y"))));
        control.send_message(custom("z"), Some(DeliverAs::FollowUp), false).unwrap();
        assert_eq!(control.take_follow_up(), Some(Message::Custom(custom("z"))));
    }

    #[test]
    fn the_next_turn_holds_a_message_whatever_the_agent_does() {
        let control = control();
        control.send_message(custom("x"), Some(DeliverAs::NextTurn), true).unwrap();
        assert!(control.take_run().is_none());
        assert_eq!(control.take_next_turn(), [custom("x")]);
    }

    #[test]
    fn user_messages_are_refused_as_pi_refuses_them() {
        let control = control();
        control.send_user_message("a".into(), None).unwrap();
        assert!(
            control
                .send_user_message("b".into(), None)
                .unwrap_err()
                .to_string()
                .starts_with("Agent is already processing a prompt.")
        );
        control.begin_run(CancellationToken::new());
        assert!(
            control
                .send_user_message("c".into(), None)
                .unwrap_err()
                .to_string()
                .starts_with("Agent is already processing. Specify")
        );
        control.send_user_message("d".into(), Some(DeliverAs::Steer)).unwrap();
        assert!(control.has_pending_messages());
    }

    #[test]
    fn the_custom_type_of_verdicts_cannot_be_borrowed() {
        assert!(control().send_message(custom(VERDICT_TYPE), None, false).is_err());
    }

    #[test]
    fn a_label_needs_its_entry() {
        let control = control();
        assert_eq!(control.set_label("nope", None).unwrap_err().to_string(), "Entry nope not found");
        let id = control.append_custom("x", None).unwrap();
        control.set_label(&id.0, Some("l".into())).unwrap();
    }
}
