//! Combines the answers of several handlers by the rule of their event.

use super::RoundStep;
use pijs_node_compat::events::{Combine, EventRule};
use pijs_protocol::guard;
use pijs_protocol::message::ErrorReport;
use serde_json::{Map, Value, json};

/// Combined answer of the handlers so far.
pub(crate) struct CombinedAnswer {
    value: Option<Value>,
    messages: Vec<Value>,
}

impl CombinedAnswer {
    pub(crate) fn new() -> Self {
        Self { value: None, messages: Vec::new() }
    }

    /// Adds one handler's answer; returns whether the next handler is called, and an error of the answer.
    pub(crate) fn take(
        &mut self,
        rule: &EventRule,
        payload: &mut Map<String, Value>,
        value: Value,
        path: &str,
    ) -> (RoundStep, Option<String>) {
        match rule.combine {
            Combine::Ignore => {}
            Combine::LastUntil(member) => {
                if is_truthy(&value) {
                    let stop = value.get(member).is_some_and(is_truthy);
                    self.value = Some(value);
                    if stop {
                        return (RoundStep::Stop, None);
                    }
                }
            }
            Combine::First => {
                self.value = Some(value);
                return (RoundStep::Stop, None);
            }
            Combine::FirstDecided => {
                if matches!(value.get("trusted").and_then(Value::as_str), Some("yes" | "no")) {
                    let mut value = value;
                    // Only an answer of the user is remembered.
                    if let Some(members) = value.as_object_mut().filter(|_| guard!(TrustRemembered)) {
                        members.remove("remember");
                    }
                    self.value = Some(value);
                    return (RoundStep::Stop, None);
                }
            }
            Combine::Replace(member) => {
                if let Some(new) = defined(&value, member) {
                    payload.insert(member.to_owned(), new.clone());
                    self.value = Some(Value::Null);
                }
            }
            Combine::ReplaceMessage => return self.replace_message(payload, &value),
            Combine::ReplaceWhole(member) => {
                payload.insert(member.to_owned(), value);
                self.value = Some(Value::Null);
            }
            Combine::Fields(members) | Combine::Chain(members) => {
                for member in members {
                    if let Some(new) = value.get(member) {
                        payload.insert((*member).to_owned(), new.clone());
                        self.value = Some(Value::Null);
                    }
                }
            }
            Combine::Collect(members) => self.collect(members, &value, path),
            Combine::AgentStart => {
                if let Some(message) = value.get("message").filter(|message| is_truthy(message)) {
                    self.messages.push(message.clone());
                }
                if let Some(prompt) = value.get("systemPrompt") {
                    payload.insert("systemPrompt".to_owned(), prompt.clone());
                    self.value = Some(Value::Null);
                }
            }
            Combine::Input => return self.input(payload, value),
        }
        (RoundStep::Next, None)
    }

    fn replace_message(&mut self, payload: &mut Map<String, Value>, value: &Value) -> (RoundStep, Option<String>) {
        let Some(message) = value.get("message").filter(|message| is_truthy(message)) else {
            return (RoundStep::Next, None);
        };
        if message.get("role") != payload.get("message").and_then(|current| current.get("role")) {
            return (RoundStep::Next, Some("message_end handlers must return a message with the same role".to_owned()));
        }
        payload.insert("message".to_owned(), message.clone());
        self.value = Some(Value::Null);
        (RoundStep::Next, None)
    }

    fn collect(&mut self, members: &[&str], value: &Value, path: &str) {
        for member in members {
            let Some(items) = value.get(member).and_then(Value::as_array).filter(|items| !items.is_empty()) else {
                continue;
            };
            let sum = self.value.get_or_insert_with(|| Value::Object(Map::new()));
            if let Some(list) = sum[*member].as_array_mut() {
                list.extend(items.iter().map(|item| json!({ "path": item, "extensionPath": path })));
            } else {
                sum[*member] = items.iter().map(|item| json!({ "path": item, "extensionPath": path })).collect();
            }
        }
    }

    fn input(&mut self, payload: &mut Map<String, Value>, value: Value) -> (RoundStep, Option<String>) {
        match value.get("action").and_then(Value::as_str) {
            Some("handled") => {
                self.value = Some(value);
                (RoundStep::Stop, None)
            }
            Some("transform") => {
                // pi passes `undefined` on if the answer has no text.
                payload.insert("text".to_owned(), value.get("text").cloned().unwrap_or(Value::Null));
                if let Some(images) = defined(&value, "images") {
                    payload.insert("images".to_owned(), images.clone());
                }
                self.value = Some(Value::Null);
                (RoundStep::Next, None)
            }
            _ => (RoundStep::Next, None),
        }
    }

    /// Blocks the event because a handler threw.
    pub(crate) fn block(&mut self, error: &ErrorReport) {
        // pi's message for a thrown value that is not an Error.
        let reason = match error.name {
            Some(_) => error.message.clone(),
            None => format!("Extension failed, blocking execution: {}", error.message),
        };
        self.value = Some(json!({ "block": true, "reason": reason }));
    }

    /// Returns the combined answer. Replaced members are read from the event, which has the values of the last handler.
    pub(crate) fn finish(self, rule: &EventRule, payload: &Map<String, Value>) -> Option<Value> {
        let pick = |members: &[&str]| -> Value {
            members.iter().filter_map(|member| Some(((*member).to_owned(), payload.get(*member)?.clone()))).collect()
        };
        match rule.combine {
            Combine::Ignore => None,
            Combine::LastUntil(_) | Combine::First | Combine::FirstDecided | Combine::Collect(_) => self.value,
            Combine::Replace(member) => self.value.map(|_| pick(&[member])),
            Combine::ReplaceMessage => self.value.map(|_| pick(&["message"])),
            Combine::ReplaceWhole(member) => self.value.and_then(|_| payload.get(member).cloned()),
            Combine::Fields(members) => self.value.map(|_| pick(members)),
            Combine::Chain(members) => Some(pick(members)),
            Combine::AgentStart => {
                let mut answer = json!({ "messages": self.messages });
                if self.value.is_some()
                    && let Some(prompt) = payload.get("systemPrompt")
                {
                    answer["systemPrompt"] = prompt.clone();
                }
                Some(answer)
            }
            Combine::Input => Some(match self.value {
                None => json!({ "action": "continue" }),
                Some(Value::Null) => {
                    let mut answer = pick(&["text", "images"]);
                    answer["action"] = "transform".into();
                    answer
                }
                Some(handled) => handled,
            }),
        }
    }
}

/// Returns a member that is present and not `null`: `??` in pi's code.
fn defined<'a>(value: &'a Value, member: &str) -> Option<&'a Value> {
    value.get(member).filter(|member| !member.is_null())
}

/// Returns whether JavaScript treats the value as true.
pub(super) fn is_truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64().is_some_and(|number| number != 0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(_) | Value::Object(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pijs_node_compat::events::rule_for;

    #[test]
    fn what_is_remembered_about_trust_is_never_an_extension_s_word() {
        let (answer, _) = round("project_trust", json!({}), &[json!({ "trusted": "yes", "remember": true })]);
        assert_eq!(answer, Some(json!({ "trusted": "yes" })));
    }

    fn round(event: &str, payload: Value, answers: &[Value]) -> (Option<Value>, Map<String, Value>) {
        let rule = rule_for(event);
        let mut payload = payload.as_object().cloned().unwrap_or_default();
        let mut answer = CombinedAnswer::new();
        for value in answers {
            if answer.take(rule, &mut payload, value.clone(), "x.ts").0 == RoundStep::Stop {
                break;
            }
        }
        (answer.finish(rule, &payload), payload)
    }

    #[test]
    fn the_last_truthy_answer_wins_until_one_cancels() {
        let (answer, _) = round("session_before_switch", json!({}), &[json!({ "a": 1 }), json!(null), json!(false)]);
        assert_eq!(answer, Some(json!({ "a": 1 })));
        let (answer, _) =
            round("session_before_fork", json!({}), &[json!({ "cancel": true }), json!({ "cancel": false })]);
        assert_eq!(answer, Some(json!({ "cancel": true })));
    }

    #[test]
    fn fields_of_a_result_are_replaced_one_by_one_and_null_is_a_value() {
        let event = json!({ "content": [1], "details": { "a": 1 }, "isError": false });
        let (answer, _) =
            round("tool_result", event.clone(), &[json!({ "isError": true }), json!({ "details": null })]);
        assert_eq!(answer, Some(json!({ "content": [1], "details": null, "isError": true })));
        assert_eq!(round("tool_result", event, &[json!({ "other": 1 })]).0, None);
    }

    #[test]
    fn lists_are_collected_with_where_they_come_from() {
        let answers = [json!({ "skillPaths": ["a"] }), json!({ "skillPaths": [], "themePaths": ["b"] })];
        let (answer, _) = round("resources_discover", json!({}), &answers);
        let item = |path: &str| json!({ "path": path, "extensionPath": "x.ts" });
        assert_eq!(answer, Some(json!({ "skillPaths": [item("a")], "themePaths": [item("b")] })));
    }

    #[test]
    fn a_whole_payload_is_replaced_and_the_next_handler_sees_it() {
        let (answer, payload) = round("before_provider_request", json!({ "payload": 1 }), &[json!({ "b": 2 })]);
        assert_eq!((answer, &payload["payload"]), (Some(json!({ "b": 2 })), &json!({ "b": 2 })));
    }

    #[test]
    fn trust_is_decided_by_the_first_who_decides() {
        let answers = [json!({ "trusted": "undecided" }), json!({ "trusted": "no" }), json!({ "trusted": "yes" })];
        assert_eq!(round("project_trust", json!({}), &answers).0, Some(json!({ "trusted": "no" })));
    }
}
