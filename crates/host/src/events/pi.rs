//! The pi dialect: which events exist, what their handlers may change, how answers combine.
//!
//! [`EVENTS`] is the whole table, sorted by name; the shapes are those of pi 0.87.1. An event that is
//! not in it registers with a warning and never fires.

use super::Step;
use pijs_protocol::guard;
use pijs_protocol::message::ErrorReport;
use serde_json::{Map, Value, json};

/// What holds for one event.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its name.
    pub name: &'static str,
    /// Members of the event object whose changes in place count.
    pub mutable: &'static [&'static str],
    /// How answers combine.
    pub combine: Combine,
    /// What an exception does.
    pub on_throw: OnThrow,
    /// What an extension must hold for its answers and changes to count; `None` where they are
    /// ignored anyway, only steer the extension's own session commands, or need what `needs` says.
    pub capability: Option<&'static str>,
}

/// How the answers of several handlers become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Combine {
    /// Answers are ignored.
    Ignore,
    /// The last truthy answer wins; one whose named member is truthy ends the round.
    LastUntil(&'static str),
    /// The first answer wins, `null` included.
    First,
    /// The first answer whose `trusted` is `yes` or `no` wins.
    FirstDecided,
    /// The named member of the answer replaces that of the event; the round's answer is `{member}`
    /// when somebody replaced it.
    Replace(&'static str),
    /// As `Replace("message")`, and only by a message of the same role.
    ReplaceMessage,
    /// The answer itself replaces the named member.
    ReplaceWhole(&'static str),
    /// Each of the named members of an answer replaces that of the event; the round's answer has all
    /// of them once somebody replaced one.
    Fields(&'static [&'static str]),
    /// As `Fields`, and the round always has an answer.
    Chain(&'static [&'static str]),
    /// Lists under the named members are concatenated, each item with the extension it is from.
    Collect(&'static [&'static str]),
    /// `message`s are collected, `systemPrompt` is chained.
    AgentStart,
    /// `transform` chains, `handled` ends the round.
    Input,
}

/// What an exception in a handler does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnThrow {
    /// It is reported; the next handler runs.
    Report,
    /// It blocks what the event is about, with its message as the reason; nothing is reported.
    Block,
    /// It is reported and ends the round; the caller fails.
    Fail,
}

const fn quiet(name: &'static str) -> Rule {
    rule(name, &[], Combine::Ignore)
}

const fn rule(name: &'static str, mutable: &'static [&'static str], combine: Combine) -> Rule {
    Rule { name, mutable, combine, on_throw: OnThrow::Report, capability: None }
}

impl Rule {
    /// The same, for extensions that hold a capability.
    const fn held_by(self, capability: &'static str) -> Self {
        Self { capability: Some(capability), ..self }
    }

    const fn on_throw(self, on_throw: OnThrow) -> Self {
        Self { on_throw, ..self }
    }
}

/// Fields of a tool's result that handlers may replace one by one.
const RESULT_FIELDS: &[&str] = &["content", "details", "isError", "usage"];

/// All events of the dialect but `stream_text`, sorted by name.
pub const EVENTS: &[Rule] = &[
    quiet("after_provider_response"),
    rule("agent_before_settle", &[], Combine::Chain(&["entries", "continue"])),
    quiet("agent_end"),
    quiet("agent_settled"),
    quiet("agent_start"),
    rule("before_agent_start", &["systemPromptOptions"], Combine::AgentStart).held_by("prompt.modify"),
    rule("before_provider_headers", &["headers"], Combine::Ignore).held_by("provider"),
    rule("before_provider_request", &["payload"], Combine::ReplaceWhole("payload")).held_by("provider"),
    rule("cache_warming_decision", &[], Combine::Chain(&["action"])),
    rule("context", &["messages"], Combine::Replace("messages")).held_by("context.modify"),
    rule("context_with_system", &["messages"], Combine::Replace("messages")).held_by("context.modify"),
    rule("input", &[], Combine::Input).held_by("context.modify"),
    quiet("mcp_servers_change"),
    rule("message_end", &[], Combine::ReplaceMessage).held_by("context.modify"),
    quiet("message_start"),
    quiet("message_update"),
    quiet("model_select"),
    rule("project_trust", &[], Combine::FirstDecided).held_by("trust"),
    quiet("provider_stream_event"),
    rule("resources_discover", &[], Combine::Collect(&["skillPaths", "promptPaths", "themePaths"]))
        .held_by("resources"),
    quiet("rule_fired"),
    rule("session_before_compact", &[], Combine::LastUntil("cancel")).held_by("compaction"),
    rule("session_before_fork", &[], Combine::LastUntil("cancel")),
    rule("session_before_switch", &[], Combine::LastUntil("cancel")),
    rule("session_before_tree", &[], Combine::LastUntil("cancel")),
    quiet("session_compact"),
    quiet("session_compact_failed"),
    quiet("session_info_changed"),
    quiet("session_shutdown"),
    quiet("session_start"),
    quiet("session_tree"),
    quiet("thinking_level_select"),
    rule("tool_call", &["input"], Combine::LastUntil("block")).on_throw(OnThrow::Block).held_by("tool.modify"),
    quiet("tool_execution_end"),
    quiet("tool_execution_start"),
    quiet("tool_execution_update"),
    rule("tool_result", RESULT_FIELDS, Combine::Fields(RESULT_FIELDS)).held_by("tool.modify"),
    rule("turn_end", &[], Combine::Chain(&["entries", "continue"])),
    quiet("turn_start"),
    quiet("ui_prompt_end"),
    quiet("ui_prompt_start"),
    rule("user_bash", &[], Combine::First).on_throw(OnThrow::Fail).held_by("tool.modify"),
];

/// The event that only [`Host::stream`](crate::Host::stream) fires.
pub const STREAM_TEXT: &str = "stream_text";

/// For names outside the table, which an embedder may emit all the same.
static UNKNOWN: Rule = quiet("");

/// Whether handlers of this name can ever be called.
pub fn is_known(name: &str) -> bool {
    name == STREAM_TEXT || find(name).is_some()
}

/// The rule of an event; a name that is not in the table has the quietest one.
pub(crate) fn rule_for(name: &str) -> &'static Rule {
    find(name).unwrap_or(&UNKNOWN)
}

fn find(name: &str) -> Option<&'static Rule> {
    let at = EVENTS.binary_search_by(|rule| rule.name.cmp(name)).ok()?;
    EVENTS.get(at)
}

/// The answer of a round so far.
pub(crate) struct Answer {
    value: Option<Value>,
    messages: Vec<Value>,
}

impl Answer {
    pub(crate) fn new() -> Self {
        Self { value: None, messages: Vec::new() }
    }

    /// Takes one handler's answer; says whether the round goes on, and what is wrong with the answer.
    pub(crate) fn take(
        &mut self,
        rule: &Rule,
        payload: &mut Map<String, Value>,
        value: Value,
        path: &str,
    ) -> (Step, Option<String>) {
        match rule.combine {
            Combine::Ignore => {}
            Combine::LastUntil(member) => {
                if is_truthy(&value) {
                    let stop = value.get(member).is_some_and(is_truthy);
                    self.value = Some(value);
                    if stop {
                        return (Step::Stop, None);
                    }
                }
            }
            Combine::First => {
                self.value = Some(value);
                return (Step::Stop, None);
            }
            Combine::FirstDecided => {
                if matches!(value.get("trusted").and_then(Value::as_str), Some("yes" | "no")) {
                    let mut value = value;
                    // What is remembered is the person's word alone.
                    if let Some(members) = value.as_object_mut().filter(|_| guard::is_up("trust.remembered")) {
                        members.remove("remember");
                    }
                    self.value = Some(value);
                    return (Step::Stop, None);
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
        (Step::Next, None)
    }

    fn replace_message(&mut self, payload: &mut Map<String, Value>, value: &Value) -> (Step, Option<String>) {
        let Some(message) = value.get("message").filter(|message| is_truthy(message)) else {
            return (Step::Next, None);
        };
        if message.get("role") != payload.get("message").and_then(|current| current.get("role")) {
            return (Step::Next, Some("message_end handlers must return a message with the same role".to_owned()));
        }
        payload.insert("message".to_owned(), message.clone());
        self.value = Some(Value::Null);
        (Step::Next, None)
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

    fn input(&mut self, payload: &mut Map<String, Value>, value: Value) -> (Step, Option<String>) {
        match value.get("action").and_then(Value::as_str) {
            Some("handled") => {
                self.value = Some(value);
                (Step::Stop, None)
            }
            Some("transform") => {
                // Without a text the input would be no text at all; pi hands `undefined` on.
                payload.insert("text".to_owned(), value.get("text").cloned().unwrap_or(Value::Null));
                if let Some(images) = defined(&value, "images") {
                    payload.insert("images".to_owned(), images.clone());
                }
                self.value = Some(Value::Null);
                (Step::Next, None)
            }
            _ => (Step::Next, None),
        }
    }

    /// A handler threw where that blocks.
    pub(crate) fn block(&mut self, error: &ErrorReport) {
        // pi's words for a thrown value that is no Error.
        let reason = match error.name {
            Some(_) => error.message.clone(),
            None => format!("Extension failed, blocking execution: {}", error.message),
        };
        self.value = Some(json!({ "block": true, "reason": reason }));
    }

    /// The combined answer. Where members of the event were replaced it is read from the event, so
    /// that it holds what the last handler left.
    pub(crate) fn finish(self, rule: &Rule, payload: &Map<String, Value>) -> Option<Value> {
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

/// A member that is there and not `null`: `??` in pi's code.
fn defined<'a>(value: &'a Value, member: &str) -> Option<&'a Value> {
    value.get(member).filter(|member| !member.is_null())
}

/// Whether JavaScript would take it for true.
fn is_truthy(value: &Value) -> bool {
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

    #[test]
    fn the_table_is_sorted_so_that_it_can_be_searched() {
        assert!(EVENTS.is_sorted_by(|a, b| a.name < b.name));
        for rule in EVENTS {
            assert_eq!(rule_for(rule.name), rule);
        }
        assert!(is_known("stream_text") && !is_known("nonsense"));
    }

    #[test]
    fn what_is_remembered_about_trust_is_never_an_extension_s_word() {
        let (answer, _) = round("project_trust", json!({}), &[json!({ "trusted": "yes", "remember": true })]);
        assert_eq!(answer, Some(json!({ "trusted": "yes" })));
    }

    fn round(event: &str, payload: Value, answers: &[Value]) -> (Option<Value>, Map<String, Value>) {
        let rule = rule_for(event);
        let mut payload = payload.as_object().cloned().unwrap_or_default();
        let mut answer = Answer::new();
        for value in answers {
            if answer.take(rule, &mut payload, value.clone(), "x.ts").0 == Step::Stop {
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
