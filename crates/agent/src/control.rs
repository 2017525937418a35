//! The part of a session that others may touch while the agent runs.
//!
//! [`AgentControl`] is `Send`, cheap to clone, and made before the agent: connectors hold it to
//! carry out what extensions ask for (`sendMessage`, `appendEntry`, `abort`, ...), the command line
//! holds it to interrupt. It owns the session and the state machine of inputs ([`Inputs`]); the agent's loop reads both.
//!
//! What needs the agent's thread (a run, an event for extensions, another session) is sent to it as
//! [`Work`](crate::work::Work) and carried out by [`crate::Agent::attend`].

mod inputs;
mod led;
mod prompts;
mod shown;
mod tools;

pub(crate) use inputs::StageGuard;
pub use prompts::UiPrompt;
pub(crate) use tools::ToolPrompt;

use crate::extensions::{Event, StateSink};
use crate::room::{Held, room_of};
use crate::summary::Summary;
use crate::transcript;
use crate::work::{Inbox, Mailbox, Work};
use led::Led;
use pijs_durable::without_links;
use pijs_environment::Ambient;
use pijs_hostcall::gate::SessionFiles;
use pijs_inputs::{InputEvent, Inputs, Refusal, Stage};
use pijs_llm::known::Known;
pub use pijs_llm::message::VERDICT_TYPE;
use pijs_llm::message::{Message, SystemMessage};
use pijs_llm::provider::Model;
use pijs_protocol::ExtensionId;
use pijs_session_store::context;
use pijs_session_store::{Body, Entry, EntryId, Session, SessionError, refs};
use serde_json::{Value, json};
use shown::{MOST_SHOWN, Shown};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;
use tools::Tools;

/// Events of what a call of an extension changes, whose first handler pi runs inside the call.
const BEGUN_BY_CALLS: [&str; 2] = ["session_info_changed", "thinking_level_select"];

/// Handle on a running session.
#[derive(Clone)]
pub struct AgentControl(Arc<Shared>);

struct Shared {
    state: Arc<dyn StateSink>,
    ambient: Ambient,
    inner: Mutex<Inner>,
    /// Notified after each event of the inputs that releases those who wait.
    released: Notify,
    /// Cancelled once an extension wants the program to end.
    left: CancellationToken,
    /// What a person is asked.
    prompts: Mutex<prompts::Prompts>,
    /// Told what the user does.
    acts: OnceLock<Box<ActObserver>>,
}

type ActObserver = dyn Fn(&'static str, Value) + Send + Sync;

struct Inner {
    session: Session,
    paths: SessionPaths,
    held: Held,
    shown: Shown,
    inputs: Inputs,
    cancels: Cancels,
    tools: Tools,
    model: ModelInUse,
    mailbox: Mailbox,
    /// Names the extension whose handler of an event comes first.
    first_handlers: BTreeMap<&'static str, ExtensionId>,
    exit: Exit,
    led: Led,
}

/// The files of the sessions of this run.
#[derive(Default)]
struct SessionPaths {
    /// The session's file and those of the sessions before it, each as it was named and with its links resolved.
    all: Vec<PathBuf>,
    /// The session's file, with its links resolved.
    current: Option<PathBuf>,
}

/// Tokens of what is on.
#[derive(Default)]
struct Cancels {
    run: Option<CancellationToken>,
    /// Compactions and summaries of a branch.
    summaries: Vec<CancellationToken>,
}

/// The model that answers.
#[derive(Default)]
struct ModelInUse {
    /// None before the agent started.
    model: Option<Model>,
    /// None before a level was chosen, which is `off`.
    thinking: Option<String>,
    /// Models that are known without extensions.
    known: Option<Known>,
}

/// How an extension ends the session.
#[derive(Default)]
struct Exit {
    on_shutdown: Option<Arc<dyn Fn() + Send + Sync>>,
    /// Holds the code with which an extension wants the program to end.
    code: Option<u8>,
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

impl From<Refusal> for ControlError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal.to_string())
    }
}

impl From<SessionError> for ControlError {
    fn from(error: SessionError) -> Self {
        Self::Session(error)
    }
}

/// Reports whether extensions may not write entries of a custom type: what verdicts and rules did is not for them to say.
pub(crate) fn is_reserved(custom_type: &str) -> bool {
    custom_type == VERDICT_TYPE || custom_type == crate::rules::FIRED_TYPE
}

impl AgentControl {
    /// Takes over a session. What it holds already is published to `state`.
    pub fn new(session: Session, state: Arc<dyn StateSink>, ambient: Ambient) -> Self {
        state.set("isIdle", true.into());
        state.set("hasPendingMessages", false.into());
        let inner = Inner {
            session,
            paths: SessionPaths::default(),
            held: Held::default(),
            shown: Shown::default(),
            inputs: Inputs::default(),
            cancels: Cancels::default(),
            tools: Tools::default(),
            model: ModelInUse::default(),
            mailbox: Mailbox::default(),
            first_handlers: BTreeMap::new(),
            exit: Exit::default(),
            led: Led::default(),
        };
        let control = Self(Arc::new(Shared {
            state,
            ambient,
            inner: Mutex::new(inner),
            released: Notify::new(),
            left: CancellationToken::new(),
            prompts: Mutex::default(),
            acts: OnceLock::new(),
        }));
        let mut inner = control.lock();
        note_paths(&mut inner);
        control.show_entries(&mut inner);
        control.publish_session(&inner);
        drop(inner);
        control
    }

    /// Has an observer told what the user does, for a recording: once, before anything is done.
    pub fn observe_acts(&self, observer: impl Fn(&'static str, Value) + Send + Sync + 'static) {
        // A second observer is not told.
        let _ = self.0.acts.set(Box::new(observer));
    }

    pub(crate) fn observe_act(&self, act: &'static str, value: impl FnOnce() -> Value) {
        if let Some(observer) = self.0.acts.get() {
            observer(act, value());
        }
    }

    /// Reads the session. Do not keep the closure long: extensions wait for it.
    pub fn with_session<R>(&self, read: impl FnOnce(&Session) -> R) -> R {
        read(&self.lock().session)
    }

    /// Which session it is.
    pub(crate) fn session_id(&self) -> String {
        self.with_session(|session| session.header().id.clone())
    }

    pub(crate) fn with_held<R>(&self, count: impl FnOnce(&mut Held) -> R) -> R {
        count(&mut self.lock().held)
    }

    /// Makes what is in the session durable: at the end of a turn, and before tools run.
    pub fn sync_session(&self) -> Result<(), ControlError> {
        Ok(self.lock().session.sync()?)
    }

    /// The session's file, also before anything is in it.
    pub fn session_file(&self) -> Option<PathBuf> {
        self.with_session(|session| session.path().map(ToOwned::to_owned))
    }

    /// `appendEntry`: data of an extension that the model does not see.
    pub fn append_custom(&self, custom_type: &str, data: Option<Value>) -> Result<EntryId, ControlError> {
        let id = self.append(Body::Custom { custom_type: custom_type.to_owned(), data })?;
        if let Some(entry) = self.with_session(|session| session.entry(&id))? {
            self.send(Work::Notice("entry_appended", json!({"entry": entry.to_value()})));
        }
        Ok(id)
    }

    /// `setSessionName`: one line, trimmed. Extensions are told.
    pub fn set_session_name(&self, name: &str) -> Result<(), ControlError> {
        self.observe_act("set_session_name", || json!(name));
        self.set_session_name_of(None, name).map(drop)
    }

    /// Sets the name for an extension; answers what [`AgentControl::tell_of`] does.
    pub(crate) fn set_session_name_of(
        &self,
        caller: Option<&ExtensionId>,
        name: &str,
    ) -> Result<Option<Value>, ControlError> {
        let mut line = String::with_capacity(name.len());
        for part in name.split_inclusive(['\r', '\n']) {
            let text = part.trim_end_matches(['\r', '\n']);
            line.push_str(text);
            // A break, however long, is one space.
            if text.len() < part.len() && !(text.is_empty() && line.ends_with(' ')) {
                line.push(' ');
            }
        }
        let name = line.trim().to_owned();
        self.append(Body::SessionInfo { name: Some(name) })?;
        let mut event = Event::new("session_info_changed");
        let mut notice = json!({});
        if let Some(name) = self.with_session(|session| session.name().map(str::to_owned)) {
            notice["name"] = json!(name);
            event = event.with("name", name);
        }
        self.send(Work::Notice("session_info_changed", notice));
        Ok(self.tell_of(caller, event))
    }

    /// The model that is spoken to; `None` before the agent started.
    pub fn model(&self) -> Option<Model> {
        self.lock().model.model.clone()
    }

    /// Refuses what needs a model while none was chosen.
    pub(crate) fn expect_model(&self) -> Result<(), ControlError> {
        match self.model() {
            Some(model) if model.is_unknown() => {
                let message = "No API key found for the selected model.\n\nUse /login to store one, or set the variable of a provider: pi --list-models names them.";
                Err(ControlError::Refused(message.to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// Says which models are known without extensions; an agent that is made afterwards knows them.
    pub fn set_known(&self, known: Known) {
        self.lock().model.known = Some(known);
    }

    /// The models that are known without extensions.
    pub fn known(&self) -> Option<Known> {
        self.lock().model.known.clone()
    }

    /// The thinking level.
    pub fn thinking(&self) -> String {
        self.lock().model.thinking().to_owned()
    }

    /// Takes over a model. The entry and the events are the agent's.
    pub(crate) fn take_model(&self, model: Model) {
        self.0.state.set("model", model.to_value());
        self.lock().model.model = Some(model);
    }

    /// `setThinkingLevel`: the nearest level the model takes. Extensions are told when it changes.
    pub fn set_thinking(&self, level: &str) -> Result<(), ControlError> {
        self.observe_act("set_thinking", || json!(level));
        self.set_thinking_of(None, level).map(drop)
    }

    /// Sets the level for an extension; answers what [`AgentControl::tell_of`] does.
    pub(crate) fn set_thinking_of(
        &self,
        caller: Option<&ExtensionId>,
        level: &str,
    ) -> Result<Option<Value>, ControlError> {
        let (level, previous) = {
            let mut inner = self.lock();
            let previous = inner.model.thinking().to_owned();
            (inner.model.clamp_thinking(level), previous)
        };
        self.0.state.set("thinkingLevel", json!(level));
        if level == previous {
            return Ok(None);
        }
        self.append(Body::ThinkingLevelChange { thinking_level: level.clone() })?;
        self.send(Work::Notice("thinking_level_changed", json!({"level": level})));
        let event = Event::new("thinking_level_select").with("level", level).with("previousLevel", previous);
        Ok(self.tell_of(caller, event))
    }

    /// Takes over a level without an entry and without telling anybody: at the start of a session.
    pub(crate) fn restore_thinking(&self, level: &str) -> String {
        let mut inner = self.lock();
        let level = inner.model.clamp_thinking(level);
        self.0.state.set("thinkingLevel", json!(level));
        level
    }

    /// What `ctx.shutdown()` does. Without it nothing happens, as in pi's print mode.
    pub fn on_shutdown(&self, shutdown: impl Fn() + Send + Sync + 'static) {
        self.lock().exit.on_shutdown = Some(Arc::new(shutdown));
    }

    /// `ctx.shutdown()`.
    pub fn shutdown(&self) {
        let shutdown = self.lock().exit.on_shutdown.clone();
        if let Some(shutdown) = shutdown {
            shutdown();
        }
    }

    /// Ends the session in order and the program with this code: an extension called `process.exit()`.
    pub fn leave(&self, code: u8) {
        self.lock().exit.code.get_or_insert(code);
        self.0.left.cancel();
        self.shutdown();
    }

    /// Waits until an extension wants the program to end; with which code.
    pub async fn left(&self) -> u8 {
        self.0.left.cancelled().await;
        self.lock().exit.code.unwrap_or_default()
    }

    /// The code with which an extension wants the program to end, if one does.
    pub fn exit_code(&self) -> Option<u8> {
        self.lock().exit.code
    }

    /// Puts another session in place of this one, or goes on with it from its end; queues are emptied.
    pub(crate) fn replace_session(&self, next: Option<Session>) {
        let mut inner = self.lock();
        inner.held = Held::default();
        if next.is_some() {
            inner.led = Led::default();
        }
        inner.tools = inner.tools.emptied();
        match next {
            Some(session) => {
                inner.session = session;
                note_paths(&mut inner);
            }
            None => inner.session.go_to_end(),
        }
        self.show_entries(&mut inner);
        self.publish_session(&inner);
        self.apply_locked(&mut inner, InputEvent::SessionReplaced);
    }

    /// Moves in the session's tree, or changes it in another way that leaves its entries as they are.
    pub(crate) fn change_session<R>(&self, change: impl FnOnce(&mut Session) -> R) -> R {
        let mut inner = self.lock();
        let before = inner.session.len();
        let result = change(&mut inner.session);
        self.show_new(&mut inner, before);
        if inner.shown.absent > 0 {
            // What the model sees may be another part of the session now.
            self.show_entries(&mut inner);
        }
        self.publish_session(&inner);
        result
    }

    /// Tells extensions of something beside whatever else goes on.
    pub(crate) fn tell(&self, event: Event) {
        self.tell_of(None, event);
    }

    /// Tells extensions of what a call of one changed. Under pi the first handler begins inside the call: where it is the
    /// caller's own, the answer is the event, which the caller tells its handlers.
    fn tell_of(&self, caller: Option<&ExtensionId>, event: Event) -> Option<Value> {
        let mut inner = self.lock();
        let teller = caller.filter(|caller| inner.first_handlers.get(event.name) == Some(caller));
        let begins = teller.map(|_| json!({"event": event.name, "payload": event.payload}));
        let teller = teller.cloned();
        self.apply_locked(&mut inner, InputEvent::Begin(Stage::Announcing));
        inner.mailbox.send(Work::Emit(event, teller));
        begins
    }

    /// Says whose handlers come first of the events that [`AgentControl::tell_of`] is about.
    pub(crate) fn set_first_handlers(&self, first: impl Fn(&str) -> Option<ExtensionId>) {
        let known = BEGUN_BY_CALLS.iter().filter_map(|event| Some((*event, first(event)?)));
        self.lock().first_handlers = known.collect();
    }

    /// Gives the agent something to do.
    pub(crate) fn send(&self, work: Work) {
        self.lock().mailbox.send(work);
    }

    /// Waits until the agent has begun what was sent to it up to now; front ends are told by then.
    pub async fn barrier(&self) {
        let (sender, reached) = oneshot::channel();
        self.send(Work::Barrier(sender));
        // An agent that is gone begins nothing.
        let _ = reached.await;
    }

    pub(crate) fn take_inbox(&self) -> Option<Inbox> {
        self.lock().mailbox.take_inbox()
    }

    /// `setLabel`. Without a label, takes one away.
    pub fn set_label(&self, entry: &str, label: Option<String>) -> Result<(), ControlError> {
        let target_id = EntryId(entry.to_owned());
        if self.lock().session.place(&target_id).is_none() {
            return Err(ControlError::Refused(format!("Entry {entry} not found")));
        }
        self.append(Body::Label { target_id, label }).map(|_| ())
    }

    /// Publishes a member of what extensions read without asking.
    pub fn publish(&self, key: &str, value: Value) {
        self.0.state.set(key, value);
    }

    pub(crate) fn append(&self, body: Body) -> Result<EntryId, ControlError> {
        self.appended(|session| session.append(body))
    }

    /// The same of an extension.
    pub(crate) fn append_of(&self, extension: &str, body: Body) -> Result<EntryId, ControlError> {
        self.appended(|session| session.append_of(extension, body))
    }

    /// Appends an entry of several extensions, which may be none.
    pub(crate) fn append_by(&self, authors: BTreeSet<String>, body: Body) -> Result<EntryId, ControlError> {
        self.appended(|session| session.append_by(authors, body))
    }

    /// A compaction. Without an entry to keep it keeps none before itself.
    pub(crate) fn append_compaction(
        &self,
        summary: Summary,
        from_hook: bool,
        authors: BTreeSet<String>,
    ) -> Result<EntryId, ControlError> {
        let seen = self.with_session(Session::seen)?;
        self.appended(|session| {
            session.append_named_by(authors, |own| {
                let first_kept = summary.first_kept.clone().or_else(|| Some(own.clone()));
                self.compaction(Summary { first_kept, ..summary }, from_hook, &refs(&seen))
            })
        })
    }

    /// An entry that was drafted under another name.
    pub(crate) fn append_drafted(&self, drafted: Entry) -> Result<EntryId, ControlError> {
        let Entry { id, mut body, authors, .. } = drafted;
        self.appended(|session| {
            session.append_named_by(authors, |own| {
                if let Body::Compaction { first_kept_entry_id, .. } = &mut body
                    && *first_kept_entry_id == id
                {
                    first_kept_entry_id.clone_from(own);
                }
                body
            })
        })
    }

    /// What a compaction of a branch says, with what models were told of prompt and tools.
    pub(crate) fn compaction(&self, summary: Summary, from_hook: bool, branch: &[&Entry]) -> Body {
        let Summary { text, details, usage, first_kept, tokens_before } = summary;
        let mut extra = crate::summary::rest(details, usage, from_hook);
        if let Some(told) = transcript::holds(&context::told(branch)) {
            let told = SystemMessage { timestamp: self.0.ambient.epoch_ms(), ..told };
            extra.insert("systemMessage".to_owned(), Message::System(told).to_value());
        }
        let first_kept_entry_id = first_kept.unwrap_or_else(|| EntryId(String::new()));
        Body::Compaction { summary: text, first_kept_entry_id, tokens_before, extra }
    }

    pub(crate) fn append_message(&self, message: &Message) -> Result<EntryId, ControlError> {
        self.appended(|session| session.append_message(message))
    }

    /// A reply of the model, or what a tool or a command came to, that these extensions changed, if any did.
    pub(crate) fn append_edited(&self, authors: BTreeSet<String>, message: &Message) -> Result<EntryId, ControlError> {
        self.appended(|session| session.append_edited(authors, message))
    }

    fn appended(
        &self,
        append: impl FnOnce(&mut Session) -> Result<Arc<Entry>, SessionError>,
    ) -> Result<EntryId, ControlError> {
        let mut inner = self.lock();
        let entry = append(&mut inner.session)?;
        let value = entry.to_value();
        inner.held.entries += room_of([&value]);
        self.0.state.change_entries(inner.shown.count, vec![value]);
        inner.shown.count += 1;
        if matches!(entry.body, Body::Compaction { .. }) && inner.session.bytes() > MOST_SHOWN {
            self.show_entries(&mut inner);
        }
        self.publish_session(&inner);
        Ok(entry.id.clone())
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
                "persisted": session.path().is_some(),
                "leafId": session.leaf(),
                "name": session.name(),
                "absent": inner.shown.absent,
                "partial": inner.shown.is_partial,
                "count": session.len(),
            }),
        );
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Each change is complete before anything in it can panic.
        self.0.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ModelInUse {
    fn thinking(&self) -> &str {
        self.thinking.as_deref().unwrap_or("off")
    }

    /// Takes over the nearest level that the model takes, and returns it.
    fn clamp_thinking(&mut self, level: &str) -> String {
        let level = self.model.as_ref().map_or("off", |model| model.clamp_thinking(level)).to_owned();
        self.thinking = Some(level.clone());
        level
    }
}

/// Notes where the session's file is.
fn note_paths(Inner { session, paths, .. }: &mut Inner) {
    let file = session.path().map(Path::to_owned);
    paths.current = file.as_deref().map(without_links);
    paths.all.extend(file);
    paths.all.extend(paths.current.clone());
    paths.all.dedup();
}

impl SessionFiles for AgentControl {
    fn now(&self) -> Option<PathBuf> {
        self.lock().paths.current.clone()
    }

    fn was(&self, file: &Path) -> bool {
        let is_same = |known: &PathBuf| known.as_os_str().eq_ignore_ascii_case(file);
        self.lock().paths.all.iter().any(is_same)
    }

    fn lies_in(&self, folder: &Path) -> bool {
        self.lock().paths.all.iter().any(|known| known.parent() == Some(folder))
    }
}

impl fmt::Debug for AgentControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentControl").field("idle", &self.is_idle()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extensions::NoState;
    use crate::testing;

    #[test]
    fn a_label_needs_its_entry() {
        let session = Session::in_memory(Path::new("/w"), testing::ambient());
        let control = AgentControl::new(session, Arc::new(NoState), testing::ambient());
        assert_eq!(control.set_label("nope", None).unwrap_err().to_string(), "Entry nope not found");
        let id = control.append_custom("x", None).unwrap();
        control.set_label(&id.0, Some("l".into())).unwrap();
    }
}
