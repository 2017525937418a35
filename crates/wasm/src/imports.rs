//! Implements the imports of the world as hostcalls. Each typed import states the capability that its method needs, and the gate
//! decides.

use crate::bindings::pi::extension::{
    answers, calls, env, events, exec, fs, http, log, session, timers, tools, types, ui,
};
use crate::state::{Awaited, State};
use pijs_protocol::hostcall::{ErrorCode, HostResult, HostcallError};
use pijs_protocol::log::Level;
use pijs_protocol::message::{BusEvent, ErrorReport, EventResult, SlashResult, ToolResult, ToolUpdate};
use pijs_protocol::{CallId, EventId, Message, TimerId};
use serde_json::{Map, Value, json};

/// Converts a hostcall error to the WIT `error` variant.
pub(crate) fn error_of(error: HostcallError) -> types::Error {
    let HostcallError { code, message, retryable, details } = error;
    let failure = types::Failure { message, retryable, details: Value::Object(details).to_string() };
    match code {
        ErrorCode::Timeout => types::Error::Timeout(failure),
        ErrorCode::Denied => types::Error::Denied(failure),
        ErrorCode::Io => types::Error::Io(failure),
        ErrorCode::InvalidRequest => types::Error::InvalidRequest(failure),
        ErrorCode::Internal => types::Error::Internal(failure),
    }
}

/// Converts an error that the component returned to a report.
pub(crate) fn report_of(error: types::Error, phase: &str) -> ErrorReport {
    let (types::Error::Timeout(failure)
    | types::Error::Denied(failure)
    | types::Error::Io(failure)
    | types::Error::InvalidRequest(failure)
    | types::Error::Internal(failure)) = error;
    report(phase, failure.message)
}

/// Creates an error report of the extension. It has no source position, because compiled code has none.
pub(crate) fn report(phase: &str, message: impl Into<String>) -> ErrorReport {
    ErrorReport {
        entry: None,
        phase: phase.to_owned(),
        name: None,
        message: message.into(),
        stack: None,
        position: None,
    }
}

/// Parses JSON text of the component.
pub(crate) fn json_of(what: &str, text: &str) -> Result<Value, HostcallError> {
    serde_json::from_str(text).map_err(|error| HostcallError::invalid("schema", format!("{what} is not JSON: {error}")))
}

/// Parses a JSON object of the component.
pub(crate) fn object_of(what: &str, text: &str) -> Result<Map<String, Value>, HostcallError> {
    match json_of(what, text)? {
        Value::Object(members) => Ok(members),
        _ => Err(HostcallError::invalid("schema", format!("{what} is not a JSON object"))),
    }
}

/// Converts the result of a hostcall to the WIT `reply` record.
pub(crate) fn reply_of(result: HostResult) -> types::Reply {
    types::Reply { output: result.output.to_string(), attachments: result.bytes }
}

/// Returns the attachment that a member of a result refers to.
fn bytes_of(result: &mut HostResult, member: &str) -> Vec<u8> {
    let index = result.output[member]["$bytes"].as_u64().and_then(|index| usize::try_from(index).ok());
    index.and_then(|index| result.bytes.get_mut(index)).map(std::mem::take).unwrap_or_default()
}

fn pairs_of(value: &Value) -> Vec<(String, String)> {
    let pair = |pair: &Value| Some((pair[0].as_str()?.to_owned(), pair[1].as_str()?.to_owned()));
    value.as_array().into_iter().flatten().filter_map(pair).collect()
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl types::Host for State {}

impl calls::Host for State {
    fn call_sync(&mut self, request: calls::Request) -> Result<types::Reply, types::Error> {
        let params = object_of("params", &request.params).map_err(error_of)?;
        let (_, call) =
            self.request(&request.method, &request.capability, params, request.attachments, request.timeout_ms);
        self.answer_now(call).map(reply_of).map_err(error_of)
    }

    fn call(&mut self, request: calls::Request) -> Result<u64, types::Error> {
        let params = object_of("params", &request.params).map_err(error_of)?;
        let (ticket, call) =
            self.request(&request.method, &request.capability, params, request.attachments, request.timeout_ms);
        self.outbox.push(Message::HostCall(call));
        Ok(ticket)
    }

    fn cancel(&mut self, ticket: u64) {
        self.outbox.push(Message::HostCallCancel { call_id: CallId::new(format!("host-{ticket}")) });
    }
}

impl answers::Host for State {
    fn update(&mut self, id: String, partial: String) {
        if self.awaited.get(&id) == Some(&Awaited::Tool)
            && let Ok(partial) = json_of("partial", &partial)
        {
            self.outbox.push(Message::ToolUpdate(ToolUpdate { tool_call_id: id, partial }));
        }
    }

    fn finish(&mut self, id: String, outcome: Result<Option<String>, types::Error>) {
        let Some(kind) = self.awaited.remove(&id) else { return };
        let phase = match kind {
            Awaited::Event => "event",
            Awaited::Tool => "tool",
            Awaited::Command => "command",
        };
        let outcome = match outcome {
            Ok(value) => {
                value.map(|text| json_of("outcome", &text)).transpose().map_err(|error| report(phase, error.message))
            }
            Err(error) => Err(report_of(error, phase)),
        };
        self.finished(kind, id, outcome);
    }
}

impl State {
    /// Sends the result of an event, a tool call or a command.
    pub(crate) fn finished(&mut self, kind: Awaited, id: String, outcome: Result<Option<Value>, ErrorReport>) {
        let (value, error) = match outcome {
            Ok(value) => (value, None),
            Err(error) => (None, Some(error)),
        };
        self.outbox.push(match kind {
            Awaited::Event => {
                Message::EventResult(EventResult { event_id: EventId::new(id), value, changed: Map::new(), error })
            }
            Awaited::Tool => Message::ToolResult(ToolResult {
                tool_call_id: id,
                output: value.unwrap_or_default(),
                is_error: error.is_some(),
                error,
            }),
            Awaited::Command => Message::SlashResult(SlashResult { slash_command_id: id, error }),
        });
    }
}

impl tools::Host for State {
    fn list(&mut self) -> Result<String, types::Error> {
        let result = self.call_now("tools", "tools", json!({ "op": "list" }), Vec::new()).map_err(error_of)?;
        Ok(result.output["tools"].to_string())
    }

    fn run(&mut self, name: String, capability: String, input: String) -> Result<String, types::Error> {
        let input = json_of("input", &input).map_err(error_of)?;
        let params = json!({ "name": name, "input": input });
        let result = self.call_now("tool", &capability, params, Vec::new()).map_err(error_of)?;
        Ok(result.output.to_string())
    }
}

impl exec::Host for State {
    fn run(&mut self, program: exec::Program) -> Result<exec::Output, types::Error> {
        let mut params = json!({ "command": program.command, "args": program.args });
        if let Some(cwd) = program.cwd {
            params["cwd"] = cwd.into();
        }
        if let Some(input) = program.input {
            params["input"] = input.into();
        }
        if let Some(timeout) = program.timeout_ms {
            params["timeout"] = timeout.into();
        }
        let HostResult { output, .. } = self.call_now("exec", "exec", params, Vec::new()).map_err(error_of)?;
        if let Some(failed) = output.get("error").filter(|error| !error.is_null()) {
            let text = |member: &str| failed[member].as_str().unwrap_or_default();
            return Err(error_of(HostcallError::io(text("errno"), text("syscall"), text("message"))));
        }
        Ok(exec::Output {
            stdout: text_of(&output["stdout"]),
            stderr: text_of(&output["stderr"]),
            code: output["code"].as_i64().and_then(|code| i32::try_from(code).ok()),
            killed: output["killed"].as_bool().unwrap_or_default(),
        })
    }
}

impl State {
    fn file(&mut self, capability: &str, params: Value, bytes: Vec<Vec<u8>>) -> Result<HostResult, types::Error> {
        self.call_now("fs", capability, params, bytes).map_err(error_of)
    }
}

fn kind_of(value: &Value) -> fs::Kind {
    match value.as_str() {
        Some("file") => fs::Kind::File,
        Some("dir") => fs::Kind::Dir,
        Some("symlink") => fs::Kind::Symlink,
        _ => fs::Kind::Other,
    }
}

impl fs::Host for State {
    fn read_file(&mut self, path: String) -> Result<Vec<u8>, types::Error> {
        let mut result = self.file("read", json!({ "op": "readFile", "path": path }), Vec::new())?;
        Ok(bytes_of(&mut result, "data"))
    }

    fn write_file(&mut self, path: String, data: Vec<u8>) -> Result<(), types::Error> {
        let params = json!({ "op": "writeFile", "path": path, "data": { "$bytes": 0 } });
        self.file("write", params, vec![data]).map(drop)
    }

    fn read_dir(&mut self, path: String) -> Result<Vec<fs::Entry>, types::Error> {
        let result = self.file("read", json!({ "op": "readdir", "path": path }), Vec::new())?;
        let entry = |entry: &Value| fs::Entry { name: text_of(&entry["name"]), kind: kind_of(&entry["kind"]) };
        Ok(result.output["entries"].as_array().into_iter().flatten().map(entry).collect())
    }

    fn stat(&mut self, path: String) -> Result<fs::Status, types::Error> {
        let HostResult { output, .. } = self.file("read", json!({ "op": "stat", "path": path }), Vec::new())?;
        Ok(fs::Status {
            kind: kind_of(&output["kind"]),
            size: output["size"].as_u64().unwrap_or_default(),
            modified_ms: output["mtimeMs"].as_f64().unwrap_or_default(),
        })
    }

    fn make_dir(&mut self, path: String) -> Result<(), types::Error> {
        self.file("write", json!({ "op": "mkdir", "path": path, "recursive": true }), Vec::new()).map(drop)
    }

    fn remove(&mut self, path: String, recursive: bool) -> Result<(), types::Error> {
        self.file("write", json!({ "op": "rm", "path": path, "recursive": recursive }), Vec::new()).map(drop)
    }
}

impl http::Host for State {
    fn fetch(&mut self, request: http::Request) -> Result<http::Response, types::Error> {
        let headers: Vec<Value> = request.headers.into_iter().map(|(name, value)| json!([name, value])).collect();
        let mut params = json!({ "url": request.url, "method": request.method, "headers": headers });
        if request.body.is_some() {
            params["body"] = json!({ "$bytes": 0 });
        }
        let Value::Object(params) = params else { unreachable!("parameters are an object") };
        let bytes = request.body.into_iter().collect();
        let (_, call) = self.request("http", "http", params, bytes, request.timeout_ms);
        let mut result = self.answer_now(call).map_err(error_of)?;
        let body = bytes_of(&mut result, "body");
        Ok(http::Response {
            status: result.output["status"].as_u64().and_then(|status| u16::try_from(status).ok()).unwrap_or_default(),
            headers: pairs_of(&result.output["headers"]),
            url: text_of(&result.output["url"]),
            body,
        })
    }
}

impl session::Host for State {
    fn state(&mut self, name: String) -> Option<String> {
        self.readable.get(&name).map(|json| json.text().to_owned())
    }

    fn entry_count(&mut self) -> u32 {
        u32::try_from(self.entries.len()).unwrap_or(u32::MAX)
    }

    fn entry(&mut self, index: u32) -> Option<String> {
        self.entries.get(index as usize).map(|json| json.text().to_owned())
    }

    fn append_entry(&mut self, custom_type: String, data: String) -> Result<(), types::Error> {
        let data = json_of("data", &data).map_err(error_of)?;
        let params = json!({ "op": "append_entry", "customType": custom_type, "data": data });
        self.call_now("session", "session", params, Vec::new()).map(drop).map_err(error_of)
    }

    fn send_message(&mut self, message: String, options: String) -> Result<(), types::Error> {
        let message = object_of("message", &message).map_err(error_of)?;
        let options = object_of("options", &options).map_err(error_of)?;
        let params = json!({ "op": "send_message", "message": message, "options": options });
        self.call_now("session", "session.inject", params, Vec::new()).map(drop).map_err(error_of)
    }

    fn send_user_message(&mut self, content: String) -> Result<(), types::Error> {
        let params = json!({ "op": "send_user_message", "content": content, "options": {} });
        self.call_now("session", "session.inject", params, Vec::new()).map(drop).map_err(error_of)
    }
}

impl ui::Host for State {
    fn notify(&mut self, message: String, level: ui::Level) -> Result<(), types::Error> {
        let level = match level {
            ui::Level::Info => "info",
            ui::Level::Warning => "warning",
            ui::Level::Error => "error",
        };
        let params = json!({ "op": "notify", "message": message, "type": level });
        self.call_now("ui", "ui", params, Vec::new()).map(drop).map_err(error_of)
    }

    fn set_status(&mut self, key: String, text: Option<String>) -> Result<(), types::Error> {
        let mut params = json!({ "op": "set_status", "key": key });
        if let Some(text) = text {
            params["text"] = text.into();
        }
        self.call_now("ui", "ui", params, Vec::new()).map(drop).map_err(error_of)
    }
}

impl env::Host for State {
    fn get(&mut self, name: String) -> Result<Option<String>, types::Error> {
        let params = json!({ "op": "get", "names": [name] });
        let result = self.call_now("env", "env", params, Vec::new()).map_err(error_of)?;
        Ok(result.output["values"][&name].as_str().map(str::to_owned))
    }

    fn facts(&mut self) -> String {
        Value::Object(self.facts.clone()).to_string()
    }
}

impl log::Host for State {
    fn write(&mut self, level: log::Level, message: String) {
        let level = match level {
            log::Level::Debug => Level::Debug,
            log::Level::Info => Level::Info,
            log::Level::Warn => Level::Warn,
            log::Level::Error => Level::Error,
        };
        self.log(level, "console", message);
    }
}

impl events::Host for State {
    fn emit(&mut self, channel: String, data: String) {
        match json_of("data", &data) {
            Ok(data) => self.outbox.push(Message::BusEmit(BusEvent { channel, data })),
            Err(error) => self.outbox.push(Message::Error(report("events.emit", error.message))),
        }
    }
}

impl timers::Host for State {
    fn set(&mut self, delay_ms: f64, repeat: bool) -> u32 {
        self.timers += 1;
        let delay_ms = if delay_ms.is_finite() { delay_ms } else { 0.0 };
        self.outbox.push(Message::TimerSet { timer: TimerId(self.timers), delay_ms, repeat });
        self.timers
    }

    fn clear(&mut self, timer: u32) {
        self.outbox.push(Message::TimerClear { timer: TimerId(timer) });
    }
}
