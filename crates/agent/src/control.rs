//! The handle of a session for other threads.
//!
//! [`AgentControl`] is `Send`, cheap to clone, and created before the agent: connectors use it for the calls of extensions
//! (`sendMessage`, `appendEntry`, `abort`, ...), and the command line to interrupt. It owns the session and the state machine of
//! inputs ([`Inputs`]); the agent's loop reads both.
//!
//! Work that needs the agent's thread (a run, an event for extensions, another session) is sent to it as
//! [`crate::mailbox::AgentTask`] and carried out by [`crate::Agent::attend`].

mod attribution;
mod inputs;
mod prompts;
mod published_entries;
mod session_quota;
mod tools;

pub(crate) use inputs::StageGuard;
pub use prompts::UiPrompt;
pub use session_quota::SESSION_BYTES;
pub(crate) use session_quota::size_of_values;
pub(crate) use tools::ToolPrompt;

use crate::extensions::{Event, StateSink};
use crate::mailbox::{AgentTask, Mailbox, TaskInbox};
use crate::outcome::ControlError;

use crate::transcript;
use attribution::Attribution;
use pijs_durable::without_links;
use pijs_environment::Ambient;
use pijs_hostcall::gate::SessionFiles;
use pijs_inputs::{InputEvent, Inputs, Stage};
use pijs_llm::known_models::KnownModels;
pub use pijs_llm::message::VERDICT_TYPE;
use pijs_llm::message::{Message, SystemMessage};
use pijs_llm::provider::Model;
use pijs_protocol::ExtensionId;
use pijs_session_store::context;
use pijs_session_store::summary::ConversationSummary;
use pijs_session_store::{Body, Entry, EntryId, Session, SessionError, refs};
use published_entries::{MAX_PUBLISHED, PublishedEntries};
use serde_json::{Value, json};
use session_quota::SessionSizes;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;
use tools::PublishedTools;

/// Events caused by calls of extensions. In pi, the first handler of such an event runs inside the call.
const BEGUN_BY_CALLS: [&str; 2] = ["session_info_changed", "thinking_level_select"];

/// A handle to a running session.
#[derive(Clone)]
pub struct AgentControl(Arc<ControlShared>);

struct ControlShared {
    state: Arc<dyn StateSink>,
    ambient: Ambient,
    inner: Mutex<ControlState>,
    /// Notified after each input event that releases waiters.
    released: Notify,
    /// Cancelled when an extension calls `process.exit()`.
    left: CancellationToken,
    /// Open dialogs.
    prompts: Mutex<prompts::Prompts>,
    /// Observer of the user's actions.
    acts: OnceLock<Box<ActObserver>>,
}

type ActObserver = dyn Fn(&'static str, Value) + Send + Sync;

struct ControlState {
    session: Session,
    paths: SessionPaths,
    sizes: SessionSizes,
    shown: PublishedEntries,
    inputs: Inputs,
    cancels: CancelTokens,
    tools: PublishedTools,
    model: ModelInUse,
    mailbox: Mailbox,
    /// Extension of the first handler of each event in [`BEGUN_BY_CALLS`].
    first_handlers: BTreeMap<&'static str, ExtensionId>,
    exit: ExitState,
    attribution: Attribution,
}

/// Files of the sessions of this run.
#[derive(Default)]
struct SessionPaths {
    /// Paths of this session and the ones before it, both as given and canonical.
    all: Vec<PathBuf>,
    /// Canonical path of the current session.
    current: Option<PathBuf>,
}

/// Cancellation tokens of running operations.
#[derive(Default)]
struct CancelTokens {
    run: Option<CancellationToken>,
    /// Compactions and branch summaries.
    summaries: Vec<CancellationToken>,
}

/// The current model.
#[derive(Default)]
struct ModelInUse {
    /// The model; `None` before the agent starts.
    model: Option<Model>,
    /// The thinking level; `None` for `off`.
    thinking: Option<String>,
    /// Built-in and configured models, without those of extensions.
    known: Option<KnownModels>,
}

/// State of a shutdown that an extension requests.
#[derive(Default)]
struct ExitState {
    on_shutdown: Option<Arc<dyn Fn() + Send + Sync>>,
    /// Exit code that an extension requested.
    code: Option<u8>,
}

/// Returns whether a custom type is reserved: extensions may not forge records of verdicts and rules.
pub(crate) fn is_reserved(custom_type: &str) -> bool {
    custom_type == VERDICT_TYPE || custom_type == pijs_rules::session::FIRED_TYPE
}

impl AgentControl {
    /// Creates the handle of a session, and publishes the session's state to `state`.
    pub fn new(session: Session, state: Arc<dyn StateSink>, ambient: Ambient) -> Self {
        state.set("isIdle", true.into());
        state.set("hasPendingMessages", false.into());
        let inner = ControlState {
            session,
            paths: SessionPaths::default(),
            sizes: SessionSizes::default(),
            shown: PublishedEntries::default(),
            inputs: Inputs::default(),
            cancels: CancelTokens::default(),
            tools: PublishedTools::default(),
            model: ModelInUse::default(),
            mailbox: Mailbox::default(),
            first_handlers: BTreeMap::new(),
            exit: ExitState::default(),
            attribution: Attribution::default(),
        };
        let control = Self(Arc::new(ControlShared {
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

    /// Sets an observer of the user's actions, for a recording. It is called before each action.
    pub fn observe_acts(&self, observer: impl Fn(&'static str, Value) + Send + Sync + 'static) {
        // Only the first observer is set.
        let _ = self.0.acts.set(Box::new(observer));
    }

    pub(crate) fn observe_act(&self, act: &'static str, value: impl FnOnce() -> Value) {
        if let Some(observer) = self.0.acts.get() {
            observer(act, value());
        }
    }

    /// Reads the session. Extensions are blocked during the call.
    pub fn with_session<R>(&self, read: impl FnOnce(&Session) -> R) -> R {
        read(&self.lock().session)
    }

    /// Returns the id of the session.
    pub(crate) fn session_id(&self) -> String {
        self.with_session(|session| session.header().id.clone())
    }

    pub(crate) fn with_sizes<R>(&self, count: impl FnOnce(&mut SessionSizes) -> R) -> R {
        count(&mut self.lock().sizes)
    }

    /// Makes the session durable: at the end of a turn, and before tools run.
    pub fn sync_session(&self) -> Result<(), ControlError> {
        Ok(self.lock().session.sync()?)
    }

    /// Returns the path of the session file, even before it is written.
    pub fn session_file(&self) -> Option<PathBuf> {
        self.with_session(|session| session.path().map(ToOwned::to_owned))
    }

    /// Appends data of an extension that the model does not see (`appendEntry`).
    pub fn append_custom(&self, custom_type: &str, data: Option<Value>) -> Result<EntryId, ControlError> {
        let id = self.append(Body::Custom { custom_type: custom_type.to_owned(), data })?;
        if let Some(entry) = self.with_session(|session| session.entry(&id))? {
            self.send(AgentTask::Notice("entry_appended", json!({"entry": entry.to_value()})));
        }
        Ok(id)
    }

    /// Sets the name of the session as one trimmed line, and notifies extensions (`setSessionName`).
    pub fn set_session_name(&self, name: &str) -> Result<(), ControlError> {
        self.observe_act("set_session_name", || json!(name));
        self.set_session_name_of(None, name).map(drop)
    }

    /// Sets the name for an extension; returns the result of [`AgentControl::send_event_of`].
    pub(crate) fn set_session_name_of(
        &self,
        caller: Option<&ExtensionId>,
        name: &str,
    ) -> Result<Option<Value>, ControlError> {
        let mut line = String::with_capacity(name.len());
        for part in name.split_inclusive(['\r', '\n']) {
            let text = part.trim_end_matches(['\r', '\n']);
            line.push_str(text);
            // A sequence of line breaks becomes one space.
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
        self.send(AgentTask::Notice("session_info_changed", notice));
        Ok(self.send_event_of(caller, event))
    }

    /// Returns the current model; `None` before the agent starts.
    pub fn model(&self) -> Option<Model> {
        self.lock().model.model.clone()
    }

    /// Refuses an operation that needs a model when none is chosen.
    pub(crate) fn expect_model(&self) -> Result<(), ControlError> {
        match self.model() {
            Some(model) if model.is_unknown() => {
                let message = "No API key found for the selected model.\n\nUse /login to store one, or set the variable of a provider: pi --list-models names them.";
                Err(ControlError::Refused(message.to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// Sets the models that exist without extensions, for an agent created later.
    pub fn set_known(&self, known: KnownModels) {
        self.lock().model.known = Some(known);
    }

    /// Returns the models that exist without extensions.
    pub fn known(&self) -> Option<KnownModels> {
        self.lock().model.known.clone()
    }

    /// Returns the thinking level.
    pub fn thinking(&self) -> String {
        self.lock().model.thinking().to_owned()
    }

    /// Sets the model. The agent writes the entry and emits the events.
    pub(crate) fn take_model(&self, model: Model) {
        self.0.state.set("model", model.to_value());
        self.lock().model.model = Some(model);
    }

    /// Sets the nearest thinking level of the model, and notifies extensions of a change (`setThinkingLevel`).
    pub fn set_thinking(&self, level: &str) -> Result<(), ControlError> {
        self.observe_act("set_thinking", || json!(level));
        self.set_thinking_of(None, level).map(drop)
    }

    /// Sets the level for an extension; returns the result of [`AgentControl::send_event_of`].
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
        self.send(AgentTask::Notice("thinking_level_changed", json!({"level": level})));
        let event = Event::new("thinking_level_select").with("level", level).with("previousLevel", previous);
        Ok(self.send_event_of(caller, event))
    }

    /// Sets the level at the start of a session, without an entry or an event.
    pub(crate) fn restore_thinking(&self, level: &str) -> String {
        let mut inner = self.lock();
        let level = inner.model.clamp_thinking(level);
        self.0.state.set("thinkingLevel", json!(level));
        level
    }

    /// Sets the action of `ctx.shutdown()`. Without one the call has no effect, as in pi's print mode.
    pub fn on_shutdown(&self, shutdown: impl Fn() + Send + Sync + 'static) {
        self.lock().exit.on_shutdown = Some(Arc::new(shutdown));
    }

    /// Handles `ctx.shutdown()`.
    pub fn shutdown(&self) {
        let shutdown = self.lock().exit.on_shutdown.clone();
        if let Some(shutdown) = shutdown {
            shutdown();
        }
    }

    /// Shuts down the session and exits the program with this code (`process.exit()` in an extension).
    pub fn leave(&self, code: u8) {
        self.lock().exit.code.get_or_insert(code);
        self.0.left.cancel();
        self.shutdown();
    }

    /// Waits until an extension calls `process.exit()`; returns the exit code.
    pub async fn left(&self) -> u8 {
        self.0.left.cancelled().await;
        self.lock().exit.code.unwrap_or_default()
    }

    /// Returns the exit code that an extension passed to `process.exit()`.
    pub fn exit_code(&self) -> Option<u8> {
        self.lock().exit.code
    }

    /// Replaces the session, or continues the current one from its end. Empties the queues.
    pub(crate) fn replace_session(&self, next: Option<Session>) {
        let mut inner = self.lock();
        inner.sizes = SessionSizes::default();
        if next.is_some() {
            inner.attribution = Attribution::default();
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

    /// Moves in the session's tree, or changes other state than its entries.
    pub(crate) fn change_session<R>(&self, change: impl FnOnce(&mut Session) -> R) -> R {
        let mut inner = self.lock();
        let before = inner.session.len();
        let result = change(&mut inner.session);
        self.show_new(&mut inner, before);
        if inner.shown.absent > 0 {
            // Another part of the session may be visible to the model now.
            self.show_entries(&mut inner);
        }
        self.publish_session(&inner);
        result
    }

    /// Sends an event to extensions; the handlers run concurrently with the run.
    pub(crate) fn send_event(&self, event: Event) {
        self.send_event_of(None, event);
    }

    /// Sends the event of a change that `caller` made. In pi, the first handler runs inside the call: when it belongs to the
    /// caller, the event is returned, and the caller runs its own handlers.
    fn send_event_of(&self, caller: Option<&ExtensionId>, event: Event) -> Option<Value> {
        let mut inner = self.lock();
        let teller = caller.filter(|caller| inner.first_handlers.get(event.name) == Some(caller));
        let begins = teller.map(|_| json!({"event": event.name, "payload": event.payload}));
        let teller = teller.cloned();
        self.apply_locked(&mut inner, InputEvent::Begin(Stage::Announcing));
        inner.mailbox.send(AgentTask::Emit(event, teller));
        begins
    }

    /// Sets the extensions whose handlers come first, for [`AgentControl::send_event_of`].
    pub(crate) fn set_first_handlers(&self, first: impl Fn(&str) -> Option<ExtensionId>) {
        let known = BEGUN_BY_CALLS.iter().filter_map(|event| Some((*event, first(event)?)));
        self.lock().first_handlers = known.collect();
    }

    /// Sends work to the agent's thread.
    pub(crate) fn send(&self, work: AgentTask) {
        self.lock().mailbox.send(work);
    }

    /// Waits until the agent has begun all work sent so far and has notified the front ends.
    pub async fn barrier(&self) {
        let (sender, reached) = oneshot::channel();
        self.send(AgentTask::Barrier(sender));
        // Without an agent the sender is dropped, and there is nothing to wait for.
        let _ = reached.await;
    }

    pub(crate) fn take_inbox(&self) -> Option<TaskInbox> {
        self.lock().mailbox.take_inbox()
    }

    /// Sets the label of an entry, or removes it (`setLabel`).
    pub fn set_label(&self, entry: &str, label: Option<String>) -> Result<(), ControlError> {
        let target_id = EntryId(entry.to_owned());
        if self.lock().session.index_of(&target_id).is_none() {
            return Err(ControlError::Refused(format!("Entry {entry} not found")));
        }
        self.append(Body::Label { target_id, label }).map(|_| ())
    }

    /// Publishes a member of the state that extensions read without a call.
    pub fn publish(&self, key: &str, value: Value) {
        self.0.state.set(key, value);
    }

    pub(crate) fn append(&self, body: Body) -> Result<EntryId, ControlError> {
        self.appended(|session| session.append(body))
    }

    /// Appends an entry of an extension.
    pub(crate) fn append_of(&self, extension: &str, body: Body) -> Result<EntryId, ControlError> {
        self.appended(|session| session.append_of(extension, body))
    }

    /// Appends an entry written by these extensions; the set may be empty.
    pub(crate) fn append_by(&self, authors: BTreeSet<String>, body: Body) -> Result<EntryId, ControlError> {
        self.appended(|session| session.append_by(authors, body))
    }

    /// Appends a compaction. If its first kept entry is `None`, no earlier entry is kept.
    pub(crate) fn append_compaction(
        &self,
        summary: ConversationSummary,
        from_hook: bool,
        authors: BTreeSet<String>,
    ) -> Result<EntryId, ControlError> {
        let seen = self.with_session(Session::seen)?;
        self.appended(|session| {
            session.append_named_by(authors, |own| {
                let first_kept = summary.first_kept.clone().or_else(|| Some(own.clone()));
                self.compaction(ConversationSummary { first_kept, ..summary }, from_hook, &refs(&seen))
            })
        })
    }

    /// Appends an entry that was drafted with a temporary id.
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

    /// Returns the body of a compaction, with the system message that applies to the branch.
    pub(crate) fn compaction(&self, summary: ConversationSummary, from_hook: bool, branch: &[&Entry]) -> Body {
        let ConversationSummary { text, details, usage, first_kept, tokens_before } = summary;
        let mut extra = pijs_session_store::summary::rest(details, usage, from_hook);
        if let Some(told) = transcript::combined(&context::system_messages(branch)) {
            let told = SystemMessage { timestamp: self.0.ambient.epoch_ms(), ..told };
            extra.insert("systemMessage".to_owned(), Message::System(told).to_value());
        }
        let first_kept_entry_id = first_kept.unwrap_or_else(|| EntryId(String::new()));
        Body::Compaction { summary: text, first_kept_entry_id, tokens_before, extra }
    }

    pub(crate) fn append_message(&self, message: &Message) -> Result<EntryId, ControlError> {
        self.appended(|session| session.append_message(message))
    }

    /// Appends a reply of the model, or a result of a tool or command, with the extensions that changed it.
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
        inner.sizes.entries += size_of_values([&value]);
        self.0.state.change_entries(inner.shown.count, vec![value]);
        inner.shown.count += 1;
        if matches!(entry.body, Body::Compaction { .. }) && inner.session.bytes() > MAX_PUBLISHED {
            self.show_entries(&mut inner);
        }
        self.publish_session(&inner);
        Ok(entry.id.clone())
    }

    fn publish_session(&self, inner: &ControlState) {
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

    fn lock(&self) -> MutexGuard<'_, ControlState> {
        // Updates leave the state consistent even when a panic poisons the lock.
        self.0.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ModelInUse {
    fn thinking(&self) -> &str {
        self.thinking.as_deref().unwrap_or("off")
    }

    /// Sets the nearest thinking level that the model supports, and returns it.
    fn clamp_thinking(&mut self, level: &str) -> String {
        let level = self.model.as_ref().map_or("off", |model| model.clamp_thinking(level)).to_owned();
        self.thinking = Some(level.clone());
        level
    }
}

/// Records the given and the canonical path of the session file.
fn note_paths(ControlState { session, paths, .. }: &mut ControlState) {
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
    fn a_label_for_an_unknown_entry_is_an_error() {
        let session = Session::in_memory(Path::new("/w"), testing::ambient());
        let control = AgentControl::new(session, Arc::new(NoState), testing::ambient());
        assert_eq!(control.set_label("nope", None).unwrap_err().to_string(), "Entry nope not found");
        let id = control.append_custom("x", None).unwrap();
        control.set_label(&id.0, Some("l".into())).unwrap();
    }
}
