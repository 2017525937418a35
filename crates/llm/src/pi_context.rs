//! Converts pi's `Context`, with which extensions call a model, to a request.

use crate::conversation;
use crate::message::{Block, Content, Message, VERDICT_TYPE};
use crate::provider::{Request, RequestMessage, ToolDescription};
use serde_json::{Value, json};

/// Converts pi's `Context`: `systemPrompt` or leading system messages, and tools in either position.
pub fn request(given: &Value, options: &Value) -> Request {
    let mut system: Vec<String> =
        given.get("systemPrompt").and_then(Value::as_str).map(str::to_owned).into_iter().collect();
    let mut tools: Vec<ToolDescription> = tools_of(given.get("tools"));
    let mut messages = Vec::new();
    for value in given.get("messages").and_then(Value::as_array).into_iter().flatten() {
        if value.get("role").and_then(Value::as_str) == Some("system") {
            let content =
                value.get("content").cloned().and_then(|content| serde_json::from_value::<Content>(content).ok());
            system.extend(content.map(|content| content.text()).filter(|text| !text.is_empty()));
            let sections = value.get("sections").and_then(Value::as_object).into_iter().flatten();
            system.extend(sections.filter_map(|(_, text)| text.as_str().map(str::to_owned)));
            tools.extend(tools_of(value.get("toolsAdded")));
            continue;
        }
        if let Ok(message) = serde_json::from_value::<Message>(value.clone()) {
            // Only a verdict may have the system role.
            if !matches!(&message, Message::Custom(custom) if custom.custom_type == VERDICT_TYPE) {
                messages.push(message);
            }
        }
    }
    let conversation = conversation::conversation(&messages);
    let messages = conversation::request_messages(&messages);
    let messages = messages.into_iter().filter(|message| !is_empty(message)).collect();
    Request {
        system: system.join("\n\n"),
        messages,
        conversation,
        transcript: Vec::new(),
        tools,
        thinking: options.get("reasoning").and_then(Value::as_str).filter(|level| *level != "off").map(str::to_owned),
        max_tokens: options.get("maxTokens").and_then(Value::as_u64),
        session: options.get("sessionId").and_then(Value::as_str).map(str::to_owned),
    }
}

fn is_empty(message: &RequestMessage) -> bool {
    let RequestMessage::User(said) = message else { return false };
    said.blocks().iter().all(|block| matches!(block, Block::Text(text) if text.text.is_empty()))
}

fn tools_of(listed: Option<&Value>) -> Vec<ToolDescription> {
    let text = |tool: &Value, key: &str| tool.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let listed = listed.and_then(Value::as_array).into_iter().flatten();
    listed
        .map(|tool| ToolDescription {
            name: text(tool, "name"),
            description: text(tool, "description"),
            parameters: tool.get("parameters").cloned().unwrap_or_else(|| json!({"type": "object"})),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompt_and_tools_are_found_in_either_place() {
        let tool = json!([{"name": "t", "description": "d", "parameters": {"type": "object"}}]);
        let user = json!({"role": "user", "content": "hi", "timestamp": 1});
        for given in [
            json!({"systemPrompt": "S", "tools": tool, "messages": [user]}),
            json!({"messages": [{"role": "system", "content": "S", "toolsAdded": tool}, user]}),
        ] {
            let request = request(&given, &json!({"reasoning": "high", "maxTokens": 7}));
            assert_eq!((request.system.as_str(), request.tools[0].name.as_str()), ("S", "t"));
            assert_eq!(request.messages, [RequestMessage::User("hi".into())]);
            assert_eq!((request.thinking.as_deref(), request.max_tokens), (Some("high"), Some(7)));
        }
    }
}
