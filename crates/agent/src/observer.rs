//! The ports of an agent, as an observer sees them: a recording passes everything on, a replay answers in their place.

use crate::agent::Agent;
use futures_util::future::LocalBoxFuture;
use pijs_llm::provider::Provider;
use pijs_tools::ToolOutput;
use serde_json::Value;
use std::sync::Arc;

/// Takes the partial results of a built-in tool.
pub type ToolUpdates = Box<dyn FnMut(Value) + Send + Sync>;

/// Runs a built-in tool, which tells its partial results.
pub type RunTool<'a> = Box<dyn FnOnce(ToolUpdates) -> LocalBoxFuture<'a, Result<ToolOutput, String>> + 'a>;

/// Observes the ports of an agent. `Extensions`, front end and clock are handed to the agent, so that they need none.
pub trait PortObserver {
    /// Returns what is asked in the place of a provider that was opened.
    fn provider(&self, opened: Arc<dyn Provider>) -> Arc<dyn Provider>;

    /// Runs a built-in tool, or answers in its place.
    fn tool<'a>(
        &'a self,
        name: &'a str,
        input: &Value,
        updates: ToolUpdates,
        run: RunTool<'a>,
    ) -> LocalBoxFuture<'a, Result<ToolOutput, String>>;
}

impl Agent {
    /// Returns a provider that was opened as the observer has it.
    pub(crate) fn observed(&self, opened: Arc<dyn Provider>) -> Arc<dyn Provider> {
        match &self.options.observer {
            Some(observer) => observer.provider(opened),
            None => opened,
        }
    }
}
