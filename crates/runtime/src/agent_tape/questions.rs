//! Encodes and decodes the agent's questions to its ports and their answers. Recording and replay share these functions.

use pijs_agent::{ChangedRules, Event, EventOutcome, SessionFault};
use pijs_llm::provider::{Outgoing, Provider};
use pijs_protocol::StreamDelta;
use pijs_resources::ResourceProblem;
use pijs_session_store::{Entry, Header, Session, SessionError, SessionOptions};
use pijs_tools::ToolOutput;
use pijs_tools::system::ShellOutcome;
use serde_json::{Map, Value, json};
use std::path::Path;

/// Prefix of an act of an extension; the operation follows.
pub(super) const OF_EXTENSION: &str = "session ";

/// Act that marks the end of a wait of the agent.
pub(super) const SLEPT: &str = "slept";

/// Encodes a request to a model.
pub(super) fn request(provider: &dyn Provider, outgoing: &Outgoing) -> Value {
    let model = provider.model();
    json!({
        "provider": model.provider, "model": model.id, "payload": outgoing.payload, "headers": outgoing.headers,
    })
}

/// Encodes an event for handlers.
pub(super) fn event(event: &Event) -> Value {
    json!({"event": event.name, "payload": event.payload})
}

/// Encodes the outcome of an event. The payload is left out if handlers did not change it.
pub(super) fn outcome(outcome: &EventOutcome, given: &Map<String, Value>) -> Value {
    let mut value = json!({});
    if outcome.payload != *given {
        value["payload"] = json!(outcome.payload);
    }
    if let Some(answer) = &outcome.answer {
        // Wrapped in a list, because `null` is an answer too.
        value["answer"] = json!([answer]);
    }
    if let Some(thrown) = &outcome.thrown {
        value["thrown"] = json!(thrown);
    }
    if !outcome.authors.is_empty() {
        value["authors"] = json!(outcome.authors);
    }
    value
}

/// Decodes the outcome of an event.
pub(super) fn read_outcome(value: &Value, given: Map<String, Value>) -> EventOutcome {
    EventOutcome {
        payload: value.get("payload").and_then(Value::as_object).cloned().unwrap_or(given),
        answer: value.pointer("/answer/0").cloned(),
        thrown: value.get("thrown").and_then(Value::as_str).map(str::to_owned),
        authors: value.get("authors").map(|authors| read(authors.clone())).unwrap_or_default(),
    }
}

/// Encodes deltas for handlers.
pub(super) fn deltas(deltas: &[StreamDelta]) -> Value {
    json!(deltas)
}

/// Encodes the result of a built-in tool.
pub(super) fn tool_result(result: &Result<ToolOutput, String>) -> Value {
    match result {
        Err(message) => json!({"error": message}),
        Ok(ToolOutput { content, details, terminate, usage, rest, unread }) => json!({
            "content": content, "details": details.as_ref().map(|details| [details]), "terminate": terminate,
            "usage": usage, "rest": rest, "unread": unread,
        }),
    }
}

/// Decodes the result of a built-in tool.
pub(super) fn read_tool_result(mut value: Value) -> Result<ToolOutput, String> {
    if let Some(message) = value.get("error").and_then(Value::as_str) {
        return Err(message.to_owned());
    }
    let mut member = |name: &str| value.get_mut(name).map(Value::take).unwrap_or_default();
    Ok(ToolOutput {
        content: member("content"),
        details: member("details").get_mut(0).map(Value::take),
        terminate: read(member("terminate")),
        usage: Some(member("usage")).filter(|usage| !usage.is_null()),
        rest: read(member("rest")),
        unread: read(member("unread")),
    })
}

/// Encodes the outcome of the user's shell command: its exit code in a list, or the reason why it has none.
pub(super) fn shell_outcome(outcome: &Result<ShellOutcome, String>) -> Value {
    match outcome {
        Ok(ShellOutcome::Exited(code)) => json!({"exited": [code]}),
        Ok(ShellOutcome::TimedOut) => json!({"timed_out": true}),
        Ok(ShellOutcome::Cancelled) => json!({"cancelled": true}),
        Err(message) => json!({"error": message}),
    }
}

/// Decodes the outcome of the user's shell command.
pub(super) fn read_shell_outcome(value: &Value) -> Result<ShellOutcome, String> {
    if let Some(message) = value.get("error").and_then(Value::as_str) {
        return Err(message.to_owned());
    }
    Ok(match value.get("exited") {
        Some(exited) => ShellOutcome::Exited(read(exited.get(0).cloned().unwrap_or_default())),
        None if value.get("timed_out").is_some() => ShellOutcome::TimedOut,
        None => ShellOutcome::Cancelled,
    })
}

/// Decodes a recorded value; returns the default if the tape has a value of another type.
pub(super) fn read<T: serde::de::DeserializeOwned + Default>(value: Value) -> T {
    serde_json::from_value(value).unwrap_or_default()
}

/// Decodes a recorded result.
pub(super) fn read_result(value: Value) -> Result<Value, String> {
    serde_json::from_value(value).unwrap_or(Ok(Value::Null))
}

/// Encodes the header and entries of another session that was opened, or the error of opening it.
pub(super) fn session(opened: &Result<Session, SessionError>) -> Value {
    let written = |session: &Session| -> Result<Value, SessionError> {
        let entries: Result<Vec<Value>, _> =
            session.entries().map(|entry| entry.map(|entry| entry.written())).collect();
        Ok(json!({"header": session.header(), "entries": entries?}))
    };
    let session = match opened {
        Ok(session) => written(session).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    session.unwrap_or_else(|error| json!({"error": error}))
}

/// Decodes such a session. It is kept in memory only.
pub(super) fn read_session(value: Value, path: &Path, options: SessionOptions) -> Result<Session, SessionFault> {
    let words = value.get("error").and_then(Value::as_str).unwrap_or("the tape does not have the session").to_owned();
    let header = value.get("header").and_then(|header| serde_json::from_value::<Header>(header.clone()).ok());
    let entries = value.get("entries").and_then(Value::as_array).cloned();
    let (Some(header), Some(entries)) = (header, entries) else { return Err(SessionFault::Recorded(words)) };
    let entries = entries.into_iter().filter_map(Entry::from_value).collect();
    // Opening a file draws an id and reads the clock before it takes those of the file, so the replay does the same.
    drop(Session::in_memory(Path::new(&header.cwd), options.clone()));
    Ok(Session::in_memory_with(header, entries, options).at_path(path.to_owned()))
}

/// Encodes a prompt with its skill filled in.
pub(super) fn expanded(expanded: &Result<String, ResourceProblem>) -> Value {
    match expanded {
        Ok(text) => json!({"text": text}),
        Err(ResourceProblem { path, message }) => json!({"path": path, "error": message}),
    }
}

/// Decodes such a prompt.
pub(super) fn read_expanded(mut value: Value) -> Result<String, ResourceProblem> {
    let mut member = |name: &str| value.get_mut(name).map(Value::take).unwrap_or_default();
    match member("text") {
        Value::String(text) => Ok(text),
        _ => Err(ResourceProblem { path: read(member("path")), message: read(member("error")) }),
    }
}

/// Encodes the rules of changed files.
pub(super) fn changed_rules(changed: &ChangedRules) -> Value {
    let ChangedRules { rules, prompt_section, warnings } = changed;
    json!({"rules": rules, "prompt_section": prompt_section, "warnings": warnings})
}

/// Decodes the rules of changed files.
pub(super) fn read_changed_rules(value: &Value) -> ChangedRules {
    let member = |name: &str| value.get(name).cloned().unwrap_or_default();
    ChangedRules {
        rules: read(member("rules")),
        prompt_section: read(member("prompt_section")),
        warnings: read(member("warnings")),
    }
}
