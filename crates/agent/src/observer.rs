//! The interface for observing an agent's ports: a recording forwards all calls, a replay returns the recorded results.

use futures_util::future::LocalBoxFuture;
use pijs_llm::provider::Provider;
use pijs_resources::{ResourcePlaces, ResourceProblem, Resources};
use pijs_session_store::{Session, SessionError};
use pijs_tools::ToolOutput;
use pijs_tools::system::ShellOutcome;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Receives the partial results of a built-in tool.
pub type ToolUpdates = Box<dyn FnMut(Value) + Send + Sync>;

/// Runs a built-in tool with a receiver of its partial results.
pub type RunTool<'a> = Box<dyn FnOnce(ToolUpdates) -> LocalBoxFuture<'a, Result<ToolOutput, String>> + 'a>;

/// Receives decoded output of a shell command.
pub type ShellOutput<'a> = Box<dyn FnMut(&str) + 'a>;

/// Runs a shell command with a receiver of its output.
pub type RunShell<'a> = Box<dyn FnOnce(ShellOutput<'a>) -> LocalBoxFuture<'a, Result<ShellOutcome, String>> + 'a>;

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

    /// Runs a shell command of the user, or returns its recorded output and outcome.
    fn shell<'a>(
        &'a self,
        command: &'a str,
        output: ShellOutput<'a>,
        run: RunShell<'a>,
    ) -> LocalBoxFuture<'a, Result<ShellOutcome, String>>;

    /// Stores the complete output of a command as `name`, or returns its recorded path.
    fn store_output<'a>(
        &'a self,
        name: &'a str,
        store: LocalBoxFuture<'a, Option<PathBuf>>,
    ) -> LocalBoxFuture<'a, Option<PathBuf>>;

    /// Reads skills, prompts and context files.
    fn resources(&self, places: &ResourcePlaces) -> Resources;

    /// Fills in a skill or template that a prompt names, or returns the recorded text.
    fn expand(&self, text: &str, resources: &Resources) -> Result<String, ResourceProblem>;

    /// Opens the file of another session, or returns the recorded result.
    fn session(&self, path: &Path, open: OpenSession<'_>) -> Result<Session, SessionFault>;
}

/// Opens the file of a session.
pub type OpenSession<'a> = Box<dyn FnOnce() -> Result<Session, SessionError> + 'a>;

/// Why another session cannot be opened.
#[derive(Debug)]
pub enum SessionFault {
    /// The session file cannot be read.
    File(SessionError),
    /// The message of a recorded error.
    Recorded(String),
}
