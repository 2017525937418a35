//! How servers of chat completions are told how much to think: the catalogue says which form a model's server takes.

use super::Model;
use serde_json::{Value, json};

/// Adds the level, or its absence, to a request.
pub(super) fn put(model: &Model, level: Option<&str>, body: &mut Value) {
    if !model.reasoning() {
        return;
    }
    let effort = level.map(|level| model.thinking_value(level));
    let takes_effort = model.compat("supportsReasoningEffort").and_then(Value::as_bool);
    let switched = || json!({"type": if level.is_some() { "enabled" } else { "disabled" }});
    let can_rest = model.thinking_levels().contains(&"off");
    let usual = match model.compat("thinkingFormat").and_then(Value::as_str).unwrap_or("openai") {
        "openrouter" => {
            match effort {
                Some(effort) => body["reasoning"] = json!({"effort": effort}),
                None if can_rest => body["reasoning"] = json!({"effort": "none"}),
                None => {}
            }
            return;
        }
        "zai" => {
            body["thinking"] = switched();
            false
        }
        "deepseek" => {
            if level.is_some() || can_rest {
                body["thinking"] = switched();
            }
            false
        }
        "qwen" => {
            body["enable_thinking"] = json!(level.is_some());
            false
        }
        "qwen-chat-template" => {
            body["chat_template_kwargs"] = json!({"enable_thinking": level.is_some(), "preserve_thinking": true});
            return;
        }
        _ => true,
    };
    if let Some(effort) = effort.filter(|_| takes_effort.unwrap_or(usual)) {
        body["reasoning_effort"] = json!(effort);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_says_both_a_level_and_none() {
        for (compat, thinks, rests) in [
            (json!({}), json!({"reasoning_effort": "high"}), json!({})),
            (json!({"supportsReasoningEffort": false}), json!({}), json!({})),
            (
                json!({"thinkingFormat": "openrouter"}),
                json!({"reasoning": {"effort": "high"}}),
                json!({"reasoning": {"effort": "none"}}),
            ),
            (
                json!({"thinkingFormat": "zai"}),
                json!({"thinking": {"type": "enabled"}}),
                json!({"thinking": {"type": "disabled"}}),
            ),
            (
                json!({"thinkingFormat": "deepseek", "supportsReasoningEffort": true}),
                json!({"thinking": {"type": "enabled"}, "reasoning_effort": "high"}),
                json!({"thinking": {"type": "disabled"}}),
            ),
            (json!({"thinkingFormat": "qwen"}), json!({"enable_thinking": true}), json!({"enable_thinking": false})),
        ] {
            let model = Model::new("p", "m", "openai-completions").with("reasoning", true).with("compat", compat);
            for (level, expected) in [(Some("high"), &thinks), (None, &rests)] {
                let mut body = json!({});
                put(&model, level, &mut body);
                assert_eq!(body, *expected, "{:?} {level:?}", model.facts["compat"]);
            }
            let mut body = json!({});
            put(&model.with("reasoning", false), Some("high"), &mut body);
            assert_eq!(body, json!({}));
        }
    }
}
