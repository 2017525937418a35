//! Writes thinking levels into requests to chat completions servers, each of which has its own format.

use super::compat::Compat;
use crate::provider::Model;
use serde_json::{Map, Value, json};

/// Number of tokens left for the answer when thinking shares its limit.
const ANSWER: u64 = 1024;

/// Returns the number of thinking tokens of a level.
pub(in crate::provider) fn budget(level: &str) -> u64 {
    match level {
        "minimal" => 1024,
        "low" => 2048,
        "medium" => 8192,
        _ => 16_384,
    }
}

/// Adds the level, or its absence, to a request with a reply limit of `room` tokens.
pub(super) fn put(model: &Model, level: Option<&str>, room: Option<u64>, body: &mut Value) {
    if !model.reasoning() {
        return;
    }
    let compat = Compat::of(model);
    let level = level.map(|level| model.clamp_thinking(level)).filter(|level| *level != "off");
    let thinks = level.is_some();
    let named = level.map(|level| model.mapped_level(level).unwrap_or(level));
    let effort = named.filter(|_| compat.takes_effort());
    let off = model.mapped_level("off");
    let switched = json!({"type": if thinks { "enabled" } else { "disabled" }});
    let budget = level.map(budget).map(|budget| budget.min(room.unwrap_or(u64::MAX).saturating_sub(ANSWER)));
    let budget = budget.filter(|budget| *budget > 0);
    let template = ChatTemplate { model, level, budget };
    // A level that the map sets to null is not sent.
    let known = level.filter(|level| !is_null(model, level)).and(effort);
    let mut said = None;
    match compat.thinking_format() {
        "zai" => {
            body["thinking"] = if thinks { json!({"type": "enabled", "clear_thinking": false}) } else { switched };
            said = known;
        }
        "qwen" => {
            body["enable_thinking"] = json!(thinks);
            said = effort;
        }
        "qwen-chat-template" => {
            body["chat_template_kwargs"] = json!({"enable_thinking": thinks, "preserve_thinking": true});
        }
        "chat-template" => template.put("chatTemplateKwargs", "chat_template_kwargs", body),
        "baseten" => {
            template.put("chatTemplateArgs", "chat_template_args", body);
            said = known.or(off.filter(|_| !thinks && compat.takes_effort()));
        }
        "deepseek" => {
            if thinks || model.can_disable_thinking() {
                body["thinking"] = switched;
            }
            said = effort;
        }
        "openrouter" => {
            if let Some(effort) =
                named.or_else(|| (!thinks && model.can_disable_thinking()).then_some(off.unwrap_or("none")))
            {
                body["reasoning"] = json!({"effort": effort});
            }
        }
        "ant-ling" if thinks => {
            if let Some(effort) = level.and_then(|level| model.mapped_level(level)) {
                body["reasoning"] = json!({"effort": effort});
            }
        }
        "together" => {
            body["reasoning"] = json!({"enabled": thinks});
            said = effort;
        }
        "string-thinking" => {
            if let Some(named) =
                named.or_else(|| (!thinks && model.can_disable_thinking()).then_some(off.unwrap_or("none")))
            {
                body["thinking"] = json!(named);
            }
        }
        _ => said = effort.or(off.filter(|_| !thinks && compat.takes_effort())),
    }
    if let Some(effort) = said {
        body["reasoning_effort"] = json!(effort);
    }
    if let (Some(member), Some(budget)) = (compat.budget_member(), budget) {
        body[member] = json!(budget);
    }
}

fn is_null(model: &Model, level: &str) -> bool {
    model.facts.get("thinkingLevelMap").and_then(|map| map.get(level)).is_some_and(Value::is_null)
}

/// Request members for the server's chat template, some of them derived from the request.
struct ChatTemplate<'a> {
    model: &'a Model,
    level: Option<&'a str>,
    budget: Option<u64>,
}

impl ChatTemplate<'_> {
    fn put(&self, configured: &str, member: &str, body: &mut Value) {
        let values = self.model.compat(configured).and_then(Value::as_object).into_iter().flatten();
        let filled: Map<String, Value> =
            values.filter_map(|(key, value)| Some((key.clone(), self.fill(value)?))).collect();
        if !filled.is_empty() {
            body[member] = Value::Object(filled);
        }
    }

    fn fill(&self, value: &Value) -> Option<Value> {
        let Value::Object(variable) = value else { return Some(value.clone()) };
        if self.level.is_none() && variable.get("omitWhenOff").and_then(Value::as_bool) == Some(true) {
            return None;
        }
        match variable.get("$var").and_then(Value::as_str) {
            Some("thinking.enabled") => Some(json!(self.level.is_some())),
            Some("thinking.budget") => self.budget.map(Value::from),
            _ if is_null(self.model, self.level.unwrap_or("off")) => None,
            _ => self.model.mapped_level(self.level.unwrap_or("off")).or(self.level).map(Value::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_expresses_a_level_and_its_absence() {
        for (compat, thinks, rests) in [
            (json!({}), json!({"reasoning_effort": "high"}), json!({})),
            (json!({"supportsReasoningEffort": false}), json!({}), json!({})),
            (
                json!({"thinkingFormat": "openrouter"}),
                json!({"reasoning": {"effort": "high"}}),
                json!({"reasoning": {"effort": "none"}}),
            ),
            (
                json!({"thinkingFormat": "zai", "supportsReasoningEffort": false}),
                json!({"thinking": {"type": "enabled", "clear_thinking": false}}),
                json!({"thinking": {"type": "disabled"}}),
            ),
            (
                json!({"thinkingFormat": "deepseek"}),
                json!({"thinking": {"type": "enabled"}, "reasoning_effort": "high"}),
                json!({"thinking": {"type": "disabled"}}),
            ),
            (
                json!({"thinkingFormat": "qwen"}),
                json!({"enable_thinking": true, "reasoning_effort": "high"}),
                json!({"enable_thinking": false}),
            ),
            (
                json!({"thinkingFormat": "together"}),
                json!({"reasoning": {"enabled": true}, "reasoning_effort": "high"}),
                json!({"reasoning": {"enabled": false}}),
            ),
            (json!({"thinkingFormat": "string-thinking"}), json!({"thinking": "high"}), json!({"thinking": "none"})),
            (
                json!({"thinkingFormat": "chat-template", "chatTemplateKwargs":
                    {"a": 1, "on": {"$var": "thinking.enabled"}, "most": {"$var": "thinking.budget", "omitWhenOff": true}}}),
                json!({"chat_template_kwargs": {"a": 1, "on": true, "most": 3976}}),
                json!({"chat_template_kwargs": {"a": 1, "on": false}}),
            ),
            (
                json!({"thinkingTokenBudgetField": "budget"}),
                json!({"reasoning_effort": "high", "budget": 3976}),
                json!({}),
            ),
        ] {
            let model = Model::new("p", "m", "openai-completions").with("reasoning", true).with("compat", compat);
            for (level, expected) in [(Some("high"), &thinks), (None, &rests)] {
                let mut body = json!({});
                put(&model, level, Some(5000), &mut body);
                assert_eq!(body, *expected, "{:?} {level:?}", model.facts["compat"]);
            }
            let mut body = json!({});
            put(&model.with("reasoning", false), Some("high"), None, &mut body);
            assert_eq!(body, json!({}));
        }
    }
}
