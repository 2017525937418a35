//! Writes records to stdout: one JSON object per line, terminated by LF.

use pijs_agent::{AgentEvent, FrontEnd};
use pijs_host::{ExtensionReport, Observer, ReportKind};
use serde_json::{Map, Value, json};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// Output for records; clones share the stream.
#[derive(Clone)]
pub(super) struct Wire(Arc<Mutex<Box<dyn Write + Send>>>);

impl Wire {
    pub(super) fn new(out: impl Write + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Box::new(out))))
    }

    /// Writes a record. The next event of the agent detects a client that no longer reads.
    pub(super) fn send(&self, record: &Value) -> io::Result<()> {
        let mut line = record.to_string();
        line.push('\n');
        let mut out = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        out.write_all(line.as_bytes())?;
        out.flush()
    }

    /// Writes the response to a command: data, or an error.
    pub(super) fn respond(&self, id: Option<&Value>, command: &str, outcome: Result<Option<Value>, String>) {
        self.respond_to(id, Some(&command.into()), outcome);
    }

    /// Writes a response to a record whose command may be missing or not a string.
    pub(super) fn respond_to(
        &self,
        id: Option<&Value>,
        command: Option<&Value>,
        outcome: Result<Option<Value>, String>,
    ) {
        let mut record = Map::new();
        if let Some(id) = id {
            record.insert("id".to_owned(), id.clone());
        }
        record.insert("type".to_owned(), "response".into());
        record.extend(command.map(|command| ("command".to_owned(), command.clone())));
        record.insert("success".to_owned(), outcome.is_ok().into());
        match outcome {
            Ok(None) => {}
            Ok(Some(data)) => drop(record.insert("data".to_owned(), data)),
            Err(error) => drop(record.insert("error".to_owned(), error.into())),
        }
        // The client has disconnected: the end of its input ends the session.
        let _ = self.send(&Value::Object(record));
    }
}

/// Writes session events in the form of pi's RPC mode: no header, deltas only.
pub(super) struct RpcEvents(pub(super) Wire);

impl FrontEnd for RpcEvents {
    fn event(&mut self, event: &AgentEvent<'_>) -> io::Result<()> {
        // The header is omitted, because clients request it.
        match event.record().filter(|_| !matches!(event, AgentEvent::Session(_))) {
            Some(record) => self.0.send(&record),
            None => Ok(()),
        }
    }
}

/// Writes errors of extensions as records; other reports go to stderr.
pub(super) struct RpcReports(pub(super) Wire);

impl Observer for RpcReports {
    fn report(&self, report: &ExtensionReport) {
        match &report.kind {
            // The response to the command reports this error.
            ReportKind::Error(error) if error.phase == "command" => {}
            ReportKind::Error(error) => {
                let record = json!({
                    "type": "extension_error", "extensionPath": report.path, "event": error.phase, "error": error.message,
                });
                let _ = self.0.send(&record);
            }
            _ => crate::output::stderr(&crate::output::clean(&report.to_string())),
        }
    }
}
