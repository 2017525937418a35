//! Implements `pi.exec` for a scenario: calls are recorded in call order, answered from the script if it has an answer, and
//! otherwise run. Programs of `child_process` run as well, but are not items of the trace.

use super::scenario::ScriptedProgram;
use super::trace::{ItemIndex, Trace, present};
use pijs_connectors::exec::ExecConnector;
use pijs_hostcall::{BoxFuture, ChunkSink, Connector, Output, Request};
use pijs_protocol::call::ExecCall;
use pijs_protocol::{ExtensionId, HostcallError, TypedCall};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Records calls of `pi.exec`: first the call of the extension, then its result.
pub(super) struct ExecRecord {
    pub(super) scripted: Vec<ScriptedProgram>,
    pub(super) trace: Trace,
    /// Announced calls whose hostcalls have not arrived, each with its command line and its item.
    pub(super) announced: Mutex<VecDeque<(Value, ItemIndex)>>,
}

impl ExecRecord {
    /// Records that the extension has made this call; the hostcall itself arrives at the end of the turn.
    pub(super) fn announce(&self, params: &Value) {
        let item = json!({
            "command": params["command"], "args": params["args"], "cwd": params.get("cwd"),
            "timeout": params.get("timeout"), "stubbed": self.scripted_for(params).map(|_| true),
        });
        let item = self.trace.record("exec", present(item));
        self.announced.lock().unwrap_or_else(PoisonError::into_inner).push_back((words(params), item));
    }

    fn arrived(&self, params: &Value) -> Option<ItemIndex> {
        let mut announced = self.announced.lock().unwrap_or_else(PoisonError::into_inner);
        let words = words(params);
        let at = announced.iter().position(|(known, _)| *known == words)?;
        announced.remove(at).map(|(_, item)| item)
    }

    fn scripted_for(&self, params: &Value) -> Option<&ScriptedProgram> {
        let args = params["args"].as_array().into_iter().flatten();
        let words = [&params["command"]].into_iter().chain(args);
        let line = words.filter_map(Value::as_str).collect::<Vec<_>>().join(" ");
        self.scripted.iter().find(|known| line.contains(&known.part))
    }
}

fn words(params: &Value) -> Value {
    json!([params["command"], params["args"], params["cwd"]])
}

/// A running program. Records its result when it has ended or its call is dropped.
struct Program {
    trace: Trace,
    item: ItemIndex,
    result: Value,
}

impl Program {
    fn started(trace: Trace, item: ItemIndex) -> Self {
        trace.program_started();
        // The API's result after the abort signal, which drops the call.
        Self { trace, item, result: json!({"stdout": "", "stderr": "", "code": 0, "killed": true}) }
    }

    fn ended(mut self, result: Value) {
        self.result = result;
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.trace.set(self.item, "result", std::mem::take(&mut self.result));
        self.trace.program_ended();
    }
}

pub(super) struct RecordedExec {
    pub(super) record: Arc<ExecRecord>,
    pub(super) real: Arc<ExecConnector>,
}

impl Connector for RecordedExec {
    fn call(&self, request: Request, sink: ChunkSink) -> BoxFuture<'static, Result<Output, HostcallError>> {
        let params = match &request.call {
            TypedCall::Exec(ExecCall::Run { program, api: Some(api), .. }) if api == "pi.exec" => {
                json!({ "command": program.command, "args": program.args, "cwd": program.cwd })
            }
            _ => return self.real.call(request, sink),
        };
        let Some(item) = self.record.arrived(&params) else { return self.real.call(request, sink) };
        let trace = self.record.trace.clone();
        if let Some(known) = self.record.scripted_for(&params) {
            let result =
                json!({"stdout": known.stdout, "stderr": known.stderr, "code": known.code, "killed": known.killed});
            trace.set(item, "result", result.clone());
            return Box::pin(std::future::ready(Ok(Output::new(result))));
        }
        let running = self.real.call(request, sink);
        let program = Program::started(trace, item);
        Box::pin(async move {
            let outcome = running.await;
            program.ended(match &outcome {
                Ok(output) => ["stdout", "stderr", "code", "killed"]
                    .into_iter()
                    .map(|member| (member.to_owned(), output.value[member].clone()))
                    .collect(),
                // The API's result for the extension.
                Err(error) => json!({"stdout": "", "stderr": error.message, "code": 1, "killed": false}),
            });
            outcome
        })
    }

    fn call_sync(&self, request: &Request) -> Result<Output, HostcallError> {
        self.real.call_sync(request)
    }

    fn end_extension(&self, extension: &ExtensionId) {
        self.real.end_extension(extension);
    }
}
