//! Determines the capabilities that an extension needs for the answer of its handler.
//!
//! For most events every answer needs the capability of the event's rule. At the end of a turn and of a run, and before
//! navigation in the session's tree, it depends on the content: a draft of the extension's own data needs none, text for the
//! model needs one.

use super::answer::is_truthy;
use pijs_node_compat::events::EventRule;
use pijs_protocol::message::EventResult;
use serde_json::{Map, Value};

/// Returns the required capabilities, in the order of the prompts; empty for an answer that changes nothing.
pub(super) fn of(rule: &EventRule, payload: &Map<String, Value>, result: &EventResult) -> Vec<&'static str> {
    let value = result.value.as_ref();
    match rule.name {
        "turn_end" | "agent_before_settle" => value.map(|value| at_boundary(payload, value)).unwrap_or_default(),
        "session_before_tree" => value.map(before_tree).unwrap_or_default(),
        "message_end" if payload.get("message").is_some_and(|message| message["role"] == "system") => {
            value.filter(|value| value.is_object()).map(|_| "prompt.modify").into_iter().collect()
        }
        _ => {
            let says_nothing = result.changed.is_empty()
                && result.error.is_none()
                && value.is_none_or(|value| value.is_null() || *value == Value::Bool(false));
            rule.capability.filter(|_| !says_nothing).into_iter().collect()
        }
    }
}

/// Returns whether the answer adds text of the extension for the model, or replaces text of the user, a tool or the model: a
/// message, a prompt, a context, a summary, another input of a tool call, the reason for a block, or the result of a user's
/// command.
pub(super) fn speaks(rule: &EventRule, result: &EventResult) -> bool {
    match rule.name {
        "tool_call" if result.changed.contains_key("input") || result.error.is_some() => return true,
        "context" | "context_with_system" if result.changed.contains_key("messages") => return true,
        "before_provider_request" if result.changed.contains_key("payload") => return true,
        "before_agent_start" if result.changed.contains_key("systemPromptOptions") => return true,
        "tool_result" if !result.changed.is_empty() => return true,
        _ => {}
    }
    let Some(value) = &result.value else { return false };
    match rule.name {
        "before_agent_start" if value.get("systemPrompt").is_some() => true,
        "before_agent_start" | "message_end" => value.get("message").is_some_and(Value::is_object),
        "context" | "context_with_system" => value.get("messages").is_some_and(Value::is_array),
        "before_provider_request" => !value.is_null(),
        "tool_result" => value.is_object(),
        "tool_call" => value.get("block").is_some_and(is_truthy) && value.get("reason").is_some_and(is_truthy),
        "user_bash" => ["result", "operations"].iter().any(|key| value.get(*key).is_some_and(Value::is_object)),
        "input" => value.get("action") == Some(&"transform".into()),
        "session_before_compact" => value.get("compaction").is_some_and(Value::is_object),
        "session_before_tree" => !before_tree(value).is_empty(),
        "turn_end" | "agent_before_settle" => {
            let entries = value.get("entries").and_then(Value::as_array);
            let is_heard = |entry: &Value| {
                let kind = entry.get("type").and_then(Value::as_str);
                matches!(kind, Some("custom_message" | "context_edit" | "compaction"))
            };
            entries.is_some_and(|entries| entries.iter().any(is_heard))
        }
        _ => false,
    }
}

/// Compares `{entries?, continue?}` with the result of earlier handlers: only new, missing or changed entries need a capability.
fn at_boundary(payload: &Map<String, Value>, value: &Value) -> Vec<&'static str> {
    let mut needs = Vec::new();
    let goes_on = |value: Option<&Value>| value == Some(&Value::Bool(true));
    let turned = value.get("continue").is_some_and(|asked| goes_on(Some(asked)) != goes_on(payload.get("continue")));
    let mut steers = turned;
    if let Some(entries) = value.get("entries") {
        let before = payload.get("entries").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let after = entries.as_array().map(Vec::as_slice).unwrap_or_default();
        steers |= before.iter().any(|entry| !after.contains(entry));
        for entry in after.iter().filter(|entry| !before.contains(entry)) {
            match entry.get("type").and_then(Value::as_str) {
                Some("custom") => {}
                Some("compaction") => needs.push("compaction"),
                Some("context_edit") => needs.push("context.modify"),
                _ => steers = true,
            }
        }
    }
    if steers {
        needs.push("verdict");
    }
    needs.sort_unstable();
    needs.dedup();
    needs
}

/// Returns the capabilities for a summary of the abandoned branch, or for instructions for it.
fn before_tree(value: &Value) -> Vec<&'static str> {
    let says = |key: &str| value.get(key).is_some_and(|said| !said.is_null() && *said != Value::Bool(false));
    let writes = ["summary", "customInstructions", "replaceInstructions"].into_iter().any(says);
    if writes { vec!["compaction"] } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pijs_node_compat::events::rule_for;
    use pijs_protocol::EventId;
    use pijs_protocol::message::ErrorReport;
    use serde_json::json;

    fn said(value: Value) -> EventResult {
        EventResult { event_id: EventId::new("1"), value: Some(value), changed: Map::new(), error: None }
    }

    #[test]
    fn an_answer_speaks_where_the_model_reads_something_of_it() {
        let table = [
            ("tool_call", json!(null), false),
            ("tool_call", json!({"block": true}), false),
            ("tool_call", json!({"block": true, "reason": ""}), false),
            ("tool_call", json!({"block": false, "reason": "allowed"}), false),
            ("tool_call", json!({"block": true, "reason": "do"}), true),
            ("user_bash", json!(null), false),
            ("user_bash", json!({"result": null}), false),
            ("user_bash", json!({"result": {"output": "do"}}), true),
            ("user_bash", json!({"operations": {"exec": {}}}), true),
            ("message_end", json!({"message": {"role": "assistant"}}), true),
            ("session_before_fork", json!({"cancel": true}), false),
        ];
        for (event, value, expected) in table {
            assert_eq!(speaks(rule_for(event), &said(value.clone())), expected, "{event}: {value}");
        }
        let error: ErrorReport = serde_json::from_value(json!({"phase": "tool_call", "message": "do"})).unwrap();
        let thrown = EventResult { value: None, error: Some(error), ..said(Value::Null) };
        assert!(speaks(rule_for("tool_call"), &thrown));
        assert!(!speaks(rule_for("user_bash"), &thrown), "the user reads it");
        assert!(!speaks(rule_for("input"), &thrown));
    }

    #[test]
    fn what_is_said_decides_what_it_needs() {
        let custom = json!({"type": "custom", "customType": "x"});
        let message = json!({"type": "custom_message", "customType": "x", "content": "do", "display": true});
        let edit = json!({"type": "context_edit", "targetId": "1", "replacement": {}});
        let compaction = json!({"type": "compaction", "summary": "s"});
        let nothing = json!({});
        let table = [
            ("turn_end", &nothing, json!(null), vec![]),
            ("turn_end", &nothing, json!({"entries": [custom], "continue": false}), vec![]),
            ("turn_end", &nothing, json!({"continue": true}), vec!["verdict"]),
            ("agent_before_settle", &nothing, json!({"continue": true}), vec!["verdict"]),
            ("turn_end", &nothing, json!({"entries": [message]}), vec!["verdict"]),
            ("turn_end", &nothing, json!({"entries": [{"type": "newer"}]}), vec!["verdict"]),
            ("turn_end", &nothing, json!({"entries": [edit, compaction]}), vec!["compaction", "context.modify"]),
            // Drafts of another extension may be passed on, but not dropped or changed.
            (
                "turn_end",
                &json!({"entries": [message], "continue": true}),
                json!({"entries": [message, custom]}),
                vec![],
            ),
            ("turn_end", &json!({"entries": [message]}), json!({"entries": []}), vec!["verdict"]),
            ("turn_end", &json!({"entries": [message]}), json!({"entries": "broken"}), vec!["verdict"]),
            ("turn_end", &json!({"continue": true}), json!({"continue": false}), vec!["verdict"]),
            ("session_before_tree", &nothing, json!({"cancel": true}), vec![]),
            ("session_before_tree", &nothing, json!({"summary": {"summary": "s"}}), vec!["compaction"]),
            ("session_before_tree", &nothing, json!({"customInstructions": "lie"}), vec!["compaction"]),
            ("tool_call", &nothing, json!(null), vec![]),
            ("tool_call", &nothing, json!({"block": true}), vec!["tool.modify"]),
            ("session_start", &nothing, json!({"x": 1}), vec![]),
        ];
        for (event, payload, value, expected) in table {
            let payload = payload.as_object().cloned().unwrap_or_default();
            assert_eq!(of(rule_for(event), &payload, &said(value.clone())), expected, "{event}: {value}");
        }
    }
}
