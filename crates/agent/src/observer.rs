//! Observation of an agent's ports: a recording forwards all calls, a replay answers them.

use crate::agent::Agent;
use futures_util::future::LocalBoxFuture;
use pijs_llm::provider::Provider;
use pijs_tools::ToolOutput;
use serde_json::Value;
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
}

impl Agent {
    /// Returns an opened provider as wrapped by the observer.
    pub(crate) fn observed(&self, opened: Arc<dyn Provider>) -> Arc<dyn Provider> {
        match &self.options.observer {
            Some(observer) => observer.provider(opened),
            None => opened,
        }
    }
}
