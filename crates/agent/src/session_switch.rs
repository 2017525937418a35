//! Replaces the session, or reloads the extensions of the current one.
//!
//! The steps have pi's order: handlers may cancel; the run is aborted; `session_shutdown` is emitted; the old extensions are
//! discarded, and their running handlers finish; the new session and extensions are loaded; `session_start` is emitted. A command
//! that caused the replacement continues in its old extension, where `pi` and its context no longer work, with the context passed
//! to `withSession`.

use crate::agent::{Agent, DeferredStart};
use crate::events::AgentEvent;
use crate::extensions::Event;
use crate::outcome::{AgentError, ControlError};
use pijs_llm::message::Message;
use pijs_session_store::{Body, EntryId, Session, SessionError, SessionOptions};
use serde_json::{Value, json};
use std::path::Path;

/// Result of a fork.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ForkResult {
    /// Whether a handler cancelled the fork.
    pub cancelled: bool,
    /// Text of the user message at the fork, to be placed in the editor.
    pub selected_text: Option<String>,
}

impl Agent {
    /// Reloads extensions, skills, prompts and context files, but not flags, session and model. Returns failed extensions.
    pub async fn reload(&self) -> Result<Vec<String>, AgentError> {
        self.control.observe_act("reload", || json!({}));
        self.attend(async {
            self.notify("session_shutdown", || Event::new("session_shutdown").with("reason", "reload")).await;
            let active = self.tools.borrow().active_names(&*self.extensions);
            let missing = self.load_again(true).await;
            self.tools.borrow_mut().after_reload(active);
            let resources = self.read_resources();
            *self.prompt.resources.borrow_mut() = resources;
            self.take_offers();
            self.publish_tools();
            self.announce("reload", None).await?;
            Ok(missing)
        })
        .await
    }

    async fn load_again(&self, in_session: bool) -> Vec<String> {
        self.front_end.borrow_mut().unloading();
        self.control.forget_prompts();
        let mut missing = Vec::new();
        for (path, message) in self.extensions.reload(in_session).await {
            self.extensions.report(&path, "load", &message);
            missing.push(path);
        }
        missing
    }

    /// Begins an empty session. Returns whether a handler cancelled it. With `hold`, `session_start` is deferred until
    /// [`Agent::start_deferred`], so that entries can be added first.
    pub async fn new_session(&self, parent: Option<String>, hold: bool) -> Result<bool, AgentError> {
        self.control.observe_act("new_session", || json!({"parent": parent, "hold": hold}));
        self.attend(async {
            if self.cancelled(Event::new("session_before_switch").with("reason", "new")).await {
                return Ok(true);
            }
            let session = self.control.with_session(|session| session.sibling(parent));
            self.replace(Some(session), "new", hold).await?;
            Ok(false)
        })
        .await
    }

    /// Opens a session file. Returns whether a handler cancelled it.
    ///
    /// # Errors
    ///
    /// Fails when the file cannot be read. The current session then stays open.
    pub async fn switch_session(&self, path: &Path) -> Result<bool, AgentError> {
        self.control.observe_act("switch_session", || json!({"path": path}));
        self.switch_session_to(path, Session::open).await
    }

    /// Opens a session file for an extension. The permission covers this path and not the target of a symbolic link.
    pub(crate) async fn switch_session_for_extension(&self, path: &Path) -> Result<bool, AgentError> {
        self.control.observe_act("switch_session", || json!({"path": path}));
        self.switch_session_to(path, Session::open_without_links).await
    }

    async fn switch_session_to(
        &self,
        path: &Path,
        open: impl FnOnce(&Path, &Path, SessionOptions) -> Result<Session, SessionError>,
    ) -> Result<bool, AgentError> {
        self.attend(async {
            let event =
                Event::new("session_before_switch").with("reason", "resume").with("targetSessionFile", json!(path));
            if self.cancelled(event).await {
                return Ok(true);
            }
            let path = self.options.cwd.join(path);
            // The file of the current session is already open with all of its entries.
            let session = if self.control.session_file().is_some_and(|own| is_same_file(&own, &path)) {
                None
            } else {
                let options = self.control.with_session(|session| session.options().clone());
                let session = self.open_session(&path, Box::new(|| open(&path, &self.options.cwd, options)))?;
                for notice in session.notices() {
                    self.extensions.report("<session>", "session_switch", notice);
                }
                Some(session)
            };
            self.replace(session, "resume", false).await?;
            Ok(false)
        })
        .await
    }

    /// Creates a session with the branch up to an entry. If `at` is set, the entry is included; otherwise the branch ends before
    /// the entry, which must be a user message.
    pub async fn fork(&self, entry: &str, at: bool) -> Result<ForkResult, AgentError> {
        self.control.observe_act("fork", || json!({"entry": entry, "at": at}));
        self.attend(async {
            let position = if at { "at" } else { "before" };
            let event = Event::new("session_before_fork").with("entryId", entry).with("position", position);
            if self.cancelled(event).await {
                return Ok(ForkResult { cancelled: true, selected_text: None });
            }
            let invalid = || AgentError::from(ControlError::Refused("Invalid entry ID for forking".to_owned()));
            let id = EntryId(entry.to_owned());
            let found = self.control.with_session(|session| session.entry(&id)).map_err(ControlError::from)?;
            let found = found.ok_or_else(invalid)?;
            let (leaf, selected_text) = match (&found.body, at) {
                (_, true) => (Some(found.id.clone()), None),
                (Body::Message { message: Message::User(user) }, false) => {
                    let text = user.content.blocks().iter().filter_map(|block| block.as_text()).collect::<String>();
                    (found.parent.clone(), Some(text))
                }
                _ => return Err(invalid()),
            };
            let session = self.control.with_session(|session| {
                let file = session.path().map(|path| path.display().to_string());
                match &leaf {
                    None => Ok(session.sibling(file)),
                    Some(_) if !session.is_saved() => {
                        Err(ControlError::Refused(
                            "This session has not been saved yet. Wait for the first assistant response before cloning or forking it.".to_owned(),
                        ))
                    }
                    Some(leaf) => session.branched(leaf).map_err(ControlError::from),
                }
            })?;
            self.replace(Some(session), "fork", false).await?;
            Ok(ForkResult { cancelled: false, selected_text })
        })
        .await
    }

    /// Emits the `session_start` that [`Agent::new_session`] deferred.
    ///
    /// # Errors
    ///
    /// Fails when the session cannot be written.
    pub async fn start_deferred(&self) -> Result<(), AgentError> {
        self.control.observe_act("start_session", || json!({}));
        match self.runs.deferred.take() {
            Some(start) => self.announce(start.reason, start.previous).await,
            None => Ok(()),
        }
    }

    async fn cancelled(&self, event: Event) -> bool {
        if !self.extensions.has_handlers(event.name) {
            return false;
        }
        self.extensions.emit(event).await.field("cancel").is_some_and(|cancel| *cancel == Value::Bool(true))
    }

    /// Replaces the session; `None` continues the current one.
    async fn replace(&self, session: Option<Session>, reason: &'static str, hold: bool) -> Result<(), AgentError> {
        // Entries of the aborted turn belong to the old session.
        self.control.abort();
        self.control.idle().await;
        let previous = self.control.session_file();
        let target = match &session {
            Some(session) => session.path().map(Path::to_owned),
            None => previous.clone(),
        };
        self.notify("session_shutdown", || {
            let event = Event::new("session_shutdown").with("reason", reason);
            match target {
                Some(file) => event.with("targetSessionFile", json!(file)),
                None => event,
            }
        })
        .await;
        self.control.replace_session(session);
        tracing::info!(event = "session.replaced", session_id = self.control.session_id(), reason, "another session");
        self.tools.borrow_mut().reset();
        self.prompt.of_run.take();
        self.model.keeps_that_of_session.set(true);
        self.load_again(false).await;
        self.begin_session().await?;
        self.emit_to_front_end(&AgentEvent::Notice { name: "session_replaced", payload: &json!({"reason": reason}) })?;
        if hold {
            *self.runs.deferred.borrow_mut() = Some(DeferredStart { reason, previous });
            return Ok(());
        }
        self.announce(reason, previous).await
    }
}

/// Returns whether both paths refer to the same existing file.
fn is_same_file(one: &Path, other: &Path) -> bool {
    one == other || matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}
