//! Observation of an agent's ports: a recording forwards all calls, a replay answers them.

use crate::agent::Agent;
use crate::control::ControlError;
use futures_util::future::LocalBoxFuture;
use pijs_llm::provider::Provider;
use pijs_resources::{ResourcePlaces, Resources};
use pijs_session_store::{Session, SessionError};
use pijs_tools::ToolOutput;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;

/// Receives the partial results of a built-in tool.
pub type ToolUpdates = Box<dyn FnMut(Value) + Send + Sync>;

/// Runs a built-in tool with a receiver of its partial results.
pub type RunTool<'a> = Box<dyn FnOnce(ToolUpdates) -> LocalBoxFuture<'a, Result<ToolOutput, String>> + 'a>;

/// Observes the ports of an agent. `Extensions`, front end and clock are passed to the agent and can be wrapped by the caller.
pub trait PortObserver {
    /// Wraps or replaces an opened provider.
    fn provider(&self, opened: Arc<dyn Provider>) -> Arc<dyn Provider>;

    /// Runs a built-in tool, or returns its recorded result.
    fn tool<'a>(
        &'a self,
        name: &'a str,
        input: &Value,
        updates: ToolUpdates,
        run: RunTool<'a>,
    ) -> LocalBoxFuture<'a, Result<ToolOutput, String>>;

    /// Reads skills, prompts and context files.
    fn resources(&self, places: &ResourcePlaces) -> Resources;

    /// Opens the file of another session, or answers in its place.
    fn session(&self, path: &Path, open: OpenSession<'_>) -> Result<Session, SessionFault>;
}

/// Opens the file of a session.
pub type OpenSession<'a> = Box<dyn FnOnce() -> Result<Session, SessionError> + 'a>;

/// Why another session cannot be opened.
#[derive(Debug)]
pub enum SessionFault {
    /// Its file cannot be read.
    File(SessionError),
    /// The words of a recorded one.
    Recorded(String),
}

impl Agent {
    /// Reads skills, prompts and context files as the observer has them.
    pub(crate) fn read_resources(&self) -> Resources {
        match &self.options.observer {
            Some(observer) => observer.resources(&self.prompt.places),
            None => Resources::load(&self.prompt.places),
        }
    }

    /// Opens the file of another session as the observer has it.
    pub(crate) fn open_session(&self, path: &Path, open: OpenSession<'_>) -> Result<Session, ControlError> {
        let opened = match &self.options.observer {
            Some(observer) => observer.session(path, open),
            None => open().map_err(SessionFault::File),
        };
        opened.map_err(|fault| match fault {
            SessionFault::File(error) => error.into(),
            SessionFault::Recorded(words) => ControlError::Refused(words),
        })
    }

    /// Returns an opened provider as wrapped by the observer.
    pub(crate) fn observed(&self, opened: Arc<dyn Provider>) -> Arc<dyn Provider> {
        match &self.options.observer {
            Some(observer) => observer.provider(opened),
            None => opened,
        }
    }
}
