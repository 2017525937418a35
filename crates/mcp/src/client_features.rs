//! Handles requests of a server to the client: elicitation asks the user, sampling asks the session's model. Both are hostcalls
//! of the server's own caller: dialogs by `ui`, model requests by `session`, which requires `session.inject`.

use crate::calls::Calls;
use crate::names::visible;
use pijs_hostcall::prompt::shown;
use pijs_protocol::HostcallError;
use rmcp::model::{
    CreateMessageRequestParams, CreateMessageResult, Role, SamplingMessage, SamplingMessageContentBlock,
};
use serde_json::{Map, Value, json};

/// Maximum number of fields of one elicitation.
const MAX_FIELDS: usize = 16;
/// Maximum number of tokens of a sampled reply.
const MAX_TOKENS: u32 = 8192;

/// The result of an elicitation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ElicitationOutcome {
    /// The user entered these values.
    Accepted(Value),
    /// The user refused to answer.
    Declined,
    /// The user closed a dialog for a required field.
    Cancelled,
}

/// Asks the user for the fields of a flat schema, after a confirmation that names the server.
pub(crate) async fn elicit(calls: &Calls, server: &str, message: &str, schema: &Value) -> ElicitationOutcome {
    let title = format!("MCP server {server} asks");
    let confirm = json!({"op": "confirm", "title": title, "message": format!("{message} - answer it?")});
    if dialog(calls, confirm).await != Ok(Some(json!(true))) {
        return ElicitationOutcome::Declined;
    }
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut given = Map::new();
    for (name, field) in schema["properties"].as_object().into_iter().flatten().take(MAX_FIELDS) {
        match dialog(calls, question(name, field)).await.ok().flatten().and_then(|answer| parse_answer(field, answer)) {
            Some(value) => drop(given.insert(name.clone(), value)),
            None if required.contains(&name.as_str()) => return ElicitationOutcome::Cancelled,
            None => {}
        }
    }
    ElicitationOutcome::Accepted(Value::Object(given))
}

/// Opens a dialog and waits for its answer. Returns `None` if the user gives no answer.
async fn dialog(calls: &Calls, params: Value) -> Result<Option<Value>, HostcallError> {
    let mut answer = calls.call("ui", params, Vec::new()).await?.output;
    if let Some(number) = answer.get("dialog").cloned() {
        answer = calls.call("ui", json!({"op": "answer", "dialog": number}), Vec::new()).await?.output;
    }
    Ok(answer.get("value").filter(|value| !value.is_null()).cloned())
}

/// Returns the dialog for one field.
fn question(name: &str, field: &Value) -> Value {
    let text = |key: &str| field.get(key).and_then(Value::as_str);
    let title = visible(text("title").unwrap_or(name), 200);
    let title = text("description").map_or(title.clone(), |more| format!("{title}: {}", visible(more, 400)));
    let options: Vec<String> = choices(field);
    match (options.is_empty(), text("type")) {
        (false, _) => json!({"op": "select", "title": title, "options": options}),
        (true, Some("boolean")) => json!({"op": "select", "title": title, "options": ["yes", "no"]}),
        (true, _) => json!({"op": "input", "title": title, "placeholder": text("default").unwrap_or_default()}),
    }
}

/// Returns the values of an enumeration, limited to a list that a user can read.
fn choices(field: &Value) -> Vec<String> {
    let plain = field["enum"].as_array().into_iter().flatten();
    let titled = field["oneOf"].as_array().into_iter().flatten().map(|one| &one["const"]);
    plain.chain(titled).filter_map(Value::as_str).map(|text| visible(text, 200)).take(64).collect()
}

/// Converts a dialog's answer to the type of the field. Returns `None` if the answer does not have that type.
fn parse_answer(field: &Value, answer: Value) -> Option<Value> {
    let text = answer.as_str()?.trim().to_owned();
    match field.get("type").and_then(Value::as_str) {
        Some("boolean") => Some(json!(text == "yes")),
        Some("integer") => text.parse::<i64>().ok().map(Value::from),
        Some("number") => text.parse::<f64>().ok().map(Value::from),
        _ if text.is_empty() => None,
        _ => Some(json!(text)),
    }
}

/// Requests a reply from the session's model. The request does not contain the conversation, and the reply is not added to it.
pub(crate) async fn sample(
    calls: &Calls,
    (provider, id): (String, String),
    params: CreateMessageRequestParams,
) -> Result<CreateMessageResult, String> {
    let said = |message: SamplingMessage| {
        let text: Vec<String> = message
            .content
            .into_vec()
            .into_iter()
            .filter_map(|block| match block {
                SamplingMessageContentBlock::Text(text) => Some(text.text),
                _ => None,
            })
            .collect();
        let block = json!([{"type": "text", "text": text.join("\n")}]);
        let role = if message.role == Role::Assistant { "assistant" } else { "user" };
        json!({"role": role, "content": block, "timestamp": 0})
    };
    let messages: Vec<Value> = params.messages.into_iter().map(said).collect();
    let question = json!({
        "op": "ask_model",
        "model": {"provider": provider, "id": id},
        "context": {"systemPrompt": params.system_prompt.unwrap_or_default(), "messages": messages},
        "options": {"maxTokens": params.max_tokens.min(MAX_TOKENS)},
    });
    let reply = calls.call("session", question, Vec::new()).await.map_err(|error| error.message)?.output;
    if let Some(problem) = reply.get("errorMessage").and_then(Value::as_str) {
        return Err(shown(problem, 300));
    }
    let blocks = reply["content"].as_array().into_iter().flatten();
    let text: String = blocks.filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("");
    let message = SamplingMessage::new(Role::Assistant, SamplingMessageContentBlock::text(text));
    Ok(CreateMessageResult::new(message, id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_member_has_its_dialog_and_reads_its_answer() {
        for (field, op, answer, value) in [
            (json!({"type": "string", "enum": ["a", "b"]}), "select", json!("b"), Some(json!("b"))),
            (json!({"type": "boolean"}), "select", json!("no"), Some(json!(false))),
            (json!({"type": "integer"}), "input", json!(" 7 "), Some(json!(7))),
            (json!({"type": "integer"}), "input", json!("seven"), None),
            (json!({"type": "number"}), "input", json!("1.5"), Some(json!(1.5))),
            (json!({"type": "string"}), "input", json!(""), None),
        ] {
            assert_eq!(question("x", &field)["op"], op, "{field}");
            assert_eq!(parse_answer(&field, answer), value, "{field}");
        }
        let asked = question("x", &json!({"title": "Port", "description": "where it\u{1b}[2K listens"}));
        assert_eq!(asked["title"], "Port: where it[2K listens");
    }
}
