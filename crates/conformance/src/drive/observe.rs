//! Records items of the trace: reports of the host, session entries, events of the agent, console output and the event bus.

use super::exec::ExecRecord;
use super::trace::{Trace, content, first_line, message, present};
use pijs_agent::{AgentEvent, FrontEnd, StateSink, ToolCheck};
use pijs_connectors::ports::{EventsCall, EventsPort, PortAnswer};
use pijs_host::{ExtensionReport, Observer, ReportKind};
use pijs_hostcall::{BoxFuture, Caller, CancelToken, ChunkSink, Connector, Output, Request};
use pijs_llm::message::ToolCall;
use pijs_protocol::HostcallError;
use pijs_runtime::Notices;
use serde_json::{Value, json};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Records errors of extensions.
pub(super) struct Errors {
    pub(super) trace: Trace,
    pub(super) notices: Notices,
}

impl Observer for Errors {
    fn report(&self, report: &ExtensionReport) {
        match &report.kind {
            ReportKind::Error(error) if error.phase == "unhandled_rejection" => {
                self.trace.record("unhandled", json!({"error": first_line(&error.message)}));
            }
            // pi registers providers after loading, and reports their errors with the load errors.
            ReportKind::Error(error) if error.phase == "register_provider" => {
                let message = format!("Extension \"{}\" error: {}", report.path, error.message);
                self.trace.record("diagnostic", json!({"level": "error", "message": message}));
            }
            // The step that ran the command knows its name and records the item.
            ReportKind::Error(error) if error.phase == "command" => {}
            // pi reports load errors at the start; later ones go to the user, which the trace does not include.
            ReportKind::Error(error) if error.phase == "load" => self.notices.show(&report.to_string()),
            ReportKind::Error(error) => {
                let item = json!({"extension": report.path, "event": error.phase, "error": first_line(&error.message)});
                self.trace.record("error", item);
            }
            // Reports without a counterpart in pi go to the user who runs the scenario.
            ReportKind::Ended(_) | ReportKind::Disabled { .. } => self.notices.show(&report.to_string()),
            _ => {}
        }
    }
}

/// Records session entries when they are appended; forwards everything to the state that extensions read.
pub(super) struct Entries {
    trace: Trace,
    state: Arc<dyn StateSink>,
    /// Number of entries of the open session that were already recorded or existed at its start.
    known: AtomicUsize,
}

impl Entries {
    pub(super) fn new(trace: Trace, state: Arc<dyn StateSink>) -> Self {
        Self { trace, state, known: AtomicUsize::new(0) }
    }
}

impl StateSink for Entries {
    fn set(&self, key: &str, value: Value) {
        self.state.set(key, value);
    }

    fn change_entries(&self, keep: usize, append: Vec<Value>) {
        // Entries of a session that was just opened are not new.
        let is_appended = keep == self.known.load(Ordering::Relaxed);
        self.known.store(keep + append.len(), Ordering::Relaxed);
        for entry in &append {
            if let Some(id) = entry["id"].as_str() {
                self.trace.entry_appended(id);
            }
            if is_appended {
                self.trace.record("entry", json!({"entry": shown_entry(entry)}));
            }
        }
        self.state.change_entries(keep, append);
    }
}

/// Returns an entry in its compared form.
fn shown_entry(entry: &Value) -> Value {
    let Value::Object(members) = entry else { return Value::Null };
    members
        .iter()
        .filter(|(key, _)| !["id", "parentId", "timestamp", "systemMessage", "usage"].contains(&key.as_str()))
        .map(|(key, value)| {
            let shown = match key.as_str() {
                "message" => message(value),
                "content" => content(value),
                _ => value.clone(),
            };
            (key.clone(), shown)
        })
        .collect()
}

/// Copies members from a source to an item, if the source has them, including `null`. Images are replaced by their hash.
fn add(item: &mut Value, from: &Value, names: &[&str]) {
    for name in names {
        if let Some(value) = from.get(name) {
            item[*name] = content(value);
        }
    }
}

/// Records tool calls.
pub(super) struct Events {
    pub(super) trace: Trace,
    /// Whether partial results are recorded.
    pub(super) updates: bool,
}

impl FrontEnd for Events {
    fn event(&mut self, event: &AgentEvent<'_>) -> io::Result<()> {
        match event {
            AgentEvent::ToolExecutionEnd { tool_call_id, tool_name, result, is_error } => {
                let mut item = json!({"id": tool_call_id, "name": tool_name, "isError": is_error});
                add(&mut item, result, &["content", "details", "terminate"]);
                self.trace.record("tool_end", item);
            }
            AgentEvent::Notice { name: "compaction_end", payload } => {
                let item = json!({"aborted": payload["aborted"], "error": payload.get("errorMessage")});
                self.trace.record("compaction", present(item));
            }
            AgentEvent::ToolExecutionUpdate { tool_call_id, tool_name, partial_result, .. } if self.updates => {
                let mut item = json!({"id": tool_call_id, "name": tool_name});
                add(&mut item, partial_result, &["content", "details"]);
                self.trace.record("tool_update", item);
            }
            _ => self.trace.touch(),
        }
        Ok(())
    }

    fn tool_checked(&mut self, call: &ToolCall, check: &ToolCheck<'_>) -> io::Result<()> {
        match *check {
            ToolCheck::Runs { input } => {
                self.trace.record("tool_exec", json!({"id": call.id, "name": call.name, "args": input}));
            }
            ToolCheck::Blocked { input, reason, thrown } => {
                let item = json!({
                    "id": call.id, "name": call.name, "args": input, "reason": reason, "thrown": thrown.then_some(true),
                });
                self.trace.record("tool_blocked", present(item));
            }
        }
        Ok(())
    }
}

/// Records the event bus: extensions report an emission before its listeners run.
pub(super) struct Bus(pub(super) Trace);

impl EventsPort for Bus {
    fn call(&self, caller: &Caller, call: EventsCall, _cancel: CancelToken) -> PortAnswer {
        Box::pin(std::future::ready(self.call_sync(caller, call)))
    }

    fn call_sync(&self, _caller: &Caller, call: EventsCall) -> Result<Value, HostcallError> {
        self.0.record("bus", present(json!({"channel": call.channel, "data": call.data})));
        Ok(json!({}))
    }
}

/// Records console output, standard output and standard error, and forwards them to the log.
pub(super) struct Console {
    pub(super) trace: Trace,
    pub(super) exec: Arc<ExecRecord>,
    pub(super) log: Arc<dyn Connector>,
}

impl Console {
    /// Handles a request if it is a note for the driver; returns whether it is.
    fn note(&self, request: &Request) -> bool {
        let text = |key: &str| request.params.get(key).and_then(Value::as_str).unwrap_or_default();
        let is_error = matches!(text("level"), "warn" | "error");
        let message = text("message");
        let (stream, text) = match text("event") {
            "console" => (if is_error { "stderr" } else { "stdout" }, format!("{message}\n")),
            "stdout" => ("stdout", message.to_owned()),
            "stderr" => ("stderr", message.to_owned()),
            "pi.exec" => {
                self.exec.announce(request.params.get("data").unwrap_or(&Value::Null));
                return true;
            }
            // Other `pi.log` calls are not recorded, because the real pi has no `pi.log`.
            _ => return false,
        };
        self.trace.record("output", json!({"stream": stream, "text": text}));
        false
    }
}

impl Connector for Console {
    fn call(&self, request: Request, sink: ChunkSink) -> BoxFuture<'static, Result<Output, HostcallError>> {
        if self.note(&request) {
            return Box::pin(std::future::ready(Ok(Output::new(json!({})))));
        }
        self.log.call(request, sink)
    }

    fn call_sync(&self, request: &Request) -> Result<Output, HostcallError> {
        if self.note(request) {
            return Ok(Output::new(json!({})));
        }
        self.log.call_sync(request)
    }
}
