//! Records on stdout: one JSON object a line, ended by LF and nothing else.

use pijs_agent::message::Message;
use pijs_agent::{AgentEvent, FrontEnd};
use pijs_host::{Observer, Report, ReportKind};
use serde_json::{Map, Value, json};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// Where records go; clones write to the same place.
#[derive(Clone)]
pub(super) struct Wire(Arc<Mutex<Box<dyn Write + Send>>>);

impl Wire {
    pub(super) fn new(out: impl Write + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Box::new(out))))
    }

    /// Writes a record. A client that reads no more is seen by the next event of the agent.
    pub(super) fn send(&self, record: &Value) -> io::Result<()> {
        let mut line = record.to_string();
        line.push('\n');
        let mut out = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        out.write_all(line.as_bytes())?;
        out.flush()
    }

    /// The response to a command: with data, or with what went wrong.
    pub(super) fn respond(&self, id: Option<&Value>, command: &str, outcome: Result<Option<Value>, String>) {
        self.respond_to(id, Some(&command.into()), outcome);
    }

    /// The same where the command is no text, or absent.
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
        // The client is gone: its end of input ends the session.
        let _ = self.send(&Value::Object(record));
    }
}

/// Session events as pi's RPC mode writes them: no header, deltas only.
pub(super) struct RpcEvents(pub(super) Wire);

impl FrontEnd for RpcEvents {
    fn event(&mut self, event: &AgentEvent<'_>) -> io::Result<()> {
        match record(event) {
            Some(record) => self.0.send(&record),
            None => Ok(()),
        }
    }
}

/// An event on the wire; the header is none.
pub(super) fn record(event: &AgentEvent<'_>) -> Option<Value> {
    let mut members = match event {
        // What takes a session's place is the answer to the command that asked for it.
        AgentEvent::Session(_) | AgentEvent::Notice { name: "session_replaced", .. } => return None,
        AgentEvent::TurnStart { .. } => Map::new(),
        AgentEvent::MessageUpdate { message, .. } => {
            let mut update = event.payload().remove("assistantMessageEvent").unwrap_or_default();
            if let Value::Object(update) = &mut update {
                update.shift_remove("partial");
                if update.get("type").is_some_and(|kind| kind == "toolcall_start") {
                    let index = update.get("contentIndex").and_then(Value::as_u64).unwrap_or(0);
                    let said = Message::Assistant(message.so_far()).to_value();
                    let call = &said["content"][usize::try_from(index).unwrap_or(usize::MAX)];
                    update.insert("id".to_owned(), call["id"].clone());
                    update.insert("toolName".to_owned(), call["name"].clone());
                }
            }
            Map::from_iter([("usage".to_owned(), json!(message.usage())), ("assistantMessageEvent".to_owned(), update)])
        }
        AgentEvent::AgentEnd { .. } => {
            let mut members = event.payload();
            members.entry("willRetry").or_insert(false.into());
            members
        }
        other => other.payload(),
    };
    members.shift_remove("turnIndex");
    let mut record = Map::from_iter([("type".to_owned(), Value::from(event.name()))]);
    record.extend(members);
    Some(Value::Object(record))
}

/// Errors of extensions as records; what else is reported goes to stderr.
pub(super) struct RpcReports(pub(super) Wire);

impl Observer for RpcReports {
    fn report(&self, report: &Report) {
        match &report.kind {
            // Whoever ran the command knows its name and says so.
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
