//! `pi.exec`: recorded in call order, answered from the script where a stub fits, and really run otherwise.
//! What `child_process` starts runs too, and is no item of a trace.

use super::scenario::ExecStub;
use super::trace::{Trace, present};
use pijs_connectors::exec::ExecConnector;
use pijs_hostcall::{BoxFuture, ChunkSink, Connector, Output, Request};
use pijs_protocol::{ExtensionId, HostcallError};
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) struct RecordedExec {
    pub(super) stubs: Vec<ExecStub>,
    pub(super) trace: Trace,
    pub(super) real: Arc<ExecConnector>,
}

impl Connector for RecordedExec {
    fn call(&self, request: Request, sink: ChunkSink) -> BoxFuture<'static, Result<Output, HostcallError>> {
        if request.params.get("api").and_then(Value::as_str) != Some("pi.exec") {
            return self.real.call(request, sink);
        }
        let params = &request.params;
        let command = params.get("command").cloned().unwrap_or_default();
        let args = params.get("args").cloned().unwrap_or_else(|| json!([]));
        let words = [&command].into_iter().chain(args.as_array().into_iter().flatten());
        let line = words.filter_map(Value::as_str).collect::<Vec<_>>().join(" ");
        let stub = self.stubs.iter().find(|stub| line.contains(&stub.part));
        let item = self.trace.record(
            "exec",
            present(json!({
                "command": command, "args": args, "cwd": params.get("cwd"), "timeout": params.get("timeout"),
                "stubbed": stub.map(|_| true),
            })),
        );
        if let Some(stub) = stub {
            let result =
                json!({"stdout": stub.stdout, "stderr": stub.stderr, "code": stub.code, "killed": stub.killed});
            self.trace.set(item, "result", result.clone());
            return Box::pin(std::future::ready(Ok(Output::new(result))));
        }
        let (trace, running) = (self.trace.clone(), self.real.call(request, sink));
        trace.program_started();
        Box::pin(async move {
            let outcome = running.await;
            let result = match &outcome {
                Ok(output) => ["stdout", "stderr", "code", "killed"]
                    .into_iter()
                    .map(|member| (member.to_owned(), output.value[member].clone()))
                    .collect(),
                // As the API tells the extension.
                Err(error) => json!({"stdout": "", "stderr": error.message, "code": 1, "killed": false}),
            };
            trace.set(item, "result", result);
            trace.program_ended();
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
