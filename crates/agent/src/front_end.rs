//! Where events go: json lines, or the final text.

use crate::events::AgentEvent;
use pijs_llm::message::ToolCall;
use serde_json::Value;
use std::io::{self, Write};

/// Shows a session to somebody.
pub trait FrontEnd {
    /// Takes an event. An error ends the run: nobody is looking any more.
    fn event(&mut self, event: &AgentEvent<'_>) -> io::Result<()>;

    /// All extensions are about to be loaded again: what they show goes. Most front ends have nothing of them.
    fn unloading(&mut self) {}

    /// The handlers of `tool_call` are through with a call whose arguments are sound. For observers; most
    /// front ends leave it out.
    fn tool_checked(&mut self, call: &ToolCall, check: &ToolCheck<'_>) -> io::Result<()> {
        let _ = (call, check);
        Ok(())
    }
}

/// What the handlers of `tool_call` made of a call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ToolCheck<'a> {
    /// It runs, with this input.
    Runs {
        /// As the handlers left it.
        input: &'a Value,
    },
    /// It does not.
    Blocked {
        /// As the handlers left it.
        input: &'a Value,
        /// As whoever blocked it gave it; the model is told something in any case.
        reason: Option<&'a str>,
        /// Whether a handler threw.
        thrown: bool,
    },
}

/// Json mode: one event a line, flushed, with pi's names.
#[derive(Debug)]
pub struct JsonFrontEnd<W> {
    out: W,
}

impl<W: Write> JsonFrontEnd<W> {
    /// Writes to `out`.
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

/// Shows nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoFrontEnd;

impl FrontEnd for NoFrontEnd {
    fn event(&mut self, _event: &AgentEvent<'_>) -> io::Result<()> {
        Ok(())
    }
}
