//! The interface to front ends, and the json mode.

use crate::events::AgentEvent;
use pijs_llm::message::ToolCall;
use serde_json::Value;
use std::io::{self, Write};

/// A front end of a session.
pub trait FrontEnd {
    /// Receives an event. An error means that the front end is closed, and ends the run.
    fn event(&mut self, event: &AgentEvent<'_>) -> io::Result<()>;

    /// Notifies the front end before all extensions are reloaded, so that it removes the widgets of extensions. The default does
    /// nothing, because most front ends have no widgets.
    fn unloading(&mut self) {}

    /// Notifies the front end that the `tool_call` handlers have finished with a call whose arguments are valid.
    fn tool_checked(&mut self, call: &ToolCall, check: &ToolCheck<'_>) -> io::Result<()> {
        let _ = (call, check);
        Ok(())
    }
}

/// Result of the `tool_call` handlers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ToolCheck<'a> {
    /// The call runs with this input.
    Runs {
        /// Input after changes by handlers.
        input: &'a Value,
    },
    /// The call is blocked.
    Blocked {
        /// Input after changes by handlers.
        input: &'a Value,
        /// Reason given by the handler; if `None`, the model gets a default message.
        reason: Option<&'a str>,
        /// Whether a handler threw an exception.
        thrown: bool,
    },
}

/// Implements json mode: writes each event in pi's format as a line, and flushes it.
#[derive(Debug)]
pub struct JsonFrontEnd<W> {
    out: W,
}

impl<W: Write> JsonFrontEnd<W> {
    /// Creates a front end that writes to `out`.
    pub fn new(out: W) -> Self {
        Self { out }
    }
}

impl<W: Write> FrontEnd for JsonFrontEnd<W> {
    fn event(&mut self, event: &AgentEvent<'_>) -> io::Result<()> {
        let Some(record) = event.record() else { return Ok(()) };
        let mut line = record.to_string();
        line.push('\n');
        self.out.write_all(line.as_bytes())?;
        self.out.flush()
    }
}

/// Discards all events.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoFrontEnd;

impl FrontEnd for NoFrontEnd {
    fn event(&mut self, _event: &AgentEvent<'_>) -> io::Result<()> {
        Ok(())
    }
}
