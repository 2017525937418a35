//! Questions of the agent to its ports, and answers, as a tape has them: the recording and the replay write them alike.

use pijs_agent::{Event, EventOutcome};
use pijs_llm::provider::{Outgoing, Provider};
use pijs_protocol::StreamDelta;
use pijs_tools::ToolOutput;
use serde_json::{Map, Value, json};

/// Acts of extensions begin so; the rest is the operation.
pub(super) const OF_EXTENSION: &str = "session ";

/// A wait of the agent is over.
pub(super) const SLEPT: &str = "slept";

/// A request to a model.
pub(super) fn request(provider: &dyn Provider, outgoing: &Outgoing) -> Value {
    let model = provider.model();
    json!({
        "provider": model.provider, "model": model.id, "payload": outgoing.payload, "headers": outgoing.headers,
    })
}

/// An event for handlers.
pub(super) fn event(event: &Event) -> Value {
    json!({"event": event.name, "payload": event.payload})
}

/// Writes the outcome of an event. An event that handlers left as it was is not repeated.
pub(super) fn outcome(outcome: &EventOutcome, given: &Map<String, Value>) -> Value {
    let mut value = json!({});
    if outcome.payload != *given {
        value["payload"] = json!(outcome.payload);
    }
    if let Some(answer) = &outcome.answer {
        // An answer of `null` is one.
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

/// Reads the outcome of an event.
pub(super) fn read_outcome(value: &Value, given: Map<String, Value>) -> EventOutcome {
    EventOutcome {
        payload: value.get("payload").and_then(Value::as_object).cloned().unwrap_or(given),
        answer: value.pointer("/answer/0").cloned(),
        thrown: value.get("thrown").and_then(Value::as_str).map(str::to_owned),
        authors: value.get("authors").map(|authors| read(authors.clone())).unwrap_or_default(),
    }
}

/// Deltas for handlers.
pub(super) fn deltas(deltas: &[StreamDelta]) -> Value {
    json!(deltas)
}

/// The result of a built-in tool.
pub(super) fn tool_result(result: &Result<ToolOutput, String>) -> Value {
    match result {
        Err(message) => json!({"error": message}),
        Ok(ToolOutput { content, details, terminate, usage, rest, unread }) => json!({
            "content": content, "details": details.as_ref().map(|details| [details]), "terminate": terminate,
            "usage": usage, "rest": rest, "unread": unread,
        }),
    }
}

/// Reads the result of a built-in tool.
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

/// Reads a value that a recording wrote; of a tape that says something else, the default.
pub(super) fn read<T: serde::de::DeserializeOwned + Default>(value: Value) -> T {
    serde_json::from_value(value).unwrap_or_default()
}

/// Reads a result that a recording wrote.
pub(super) fn read_result(value: Value) -> Result<Value, String> {
    serde_json::from_value(value).unwrap_or(Ok(Value::Null))
}
