//! Models that an extension asks by itself: `complete` and `stream` of pi-ai, `ctx.modelRegistry`.
//!
//! The reply is no part of the conversation. The key is the session's own, unless the extension brings
//! one; the session's keys are never shown to an extension, which gets a name for them instead
//! ([`KEY_NAME`]) and hands that back.

use crate::agent::Agent;
use crate::message::{AssistantMessage, Block, Content, Message};
use crate::models::{self, Credentials, Offer};
use crate::provider::{Model, Provider, ProviderError, Request, RequestMessage, ToolDescription};
use crate::{context, control::VERDICT_TYPE};
use pijs_protocol::HostcallError;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// What stands for a key of the session's in an extension: this, and the provider's name.
const KEY_NAME: &str = "pijs-session-key:";

impl Agent {
    /// One reply of a model, as pi's `AssistantMessage`; a failure is one too.
    pub(crate) async fn ask_model(&self, params: &Map<String, Value>) -> Result<Value, HostcallError> {
        let model = params
            .get("model")
            .and_then(Model::from_value)
            .ok_or_else(|| HostcallError::invalid("schema", "session.ask_model: a model has an id and a provider"))?;
        let options = params.get("options").cloned().unwrap_or_default();
        let request = request(params.get("context").unwrap_or(&Value::Null), &options);
        let message = match self.model_for(&model, &options).await {
            Ok(provider) => self.ask_once(&*provider, &request, CancellationToken::new()).await,
            Err(error) => self.failed(&model, &error),
        };
        Ok(Message::Assistant(message).to_value())
    }

    /// The model as the session knows it, or with the key that the extension gave.
    async fn model_for(&self, model: &Model, options: &Value) -> Result<Arc<dyn Provider>, ProviderError> {
        let key = options.get("apiKey").and_then(Value::as_str).filter(|key| !key.starts_with(KEY_NAME));
        let known = self.models.borrow().find(&model.provider, &model.id);
        match (key, known) {
            (Some(key), None) => {
                let headers = options.get("headers").cloned().and_then(|headers| serde_json::from_value(headers).ok());
                let credentials = Credentials { key: Some(key.to_owned()), headers: headers.unwrap_or_default() };
                let offer = Offer {
                    name: model.provider.clone(),
                    path: String::new(),
                    config: json!({}),
                    streams: false,
                    configured: true,
                };
                let limits = self.settings.borrow().provider.clone();
                models::open_http(&offer, model.clone(), credentials, &limits, &self.options.ambient)
            }
            (_, known) => self.open_model(known.as_ref().unwrap_or(model)).await,
        }
    }

    fn failed(&self, model: &Model, error: &ProviderError) -> AssistantMessage {
        let mut message = crate::partial::Partial::new(model, self.now()).message;
        message.stop_reason = crate::message::StopReason::Error;
        message.error_message = Some(error.to_string());
        message
    }
}

/// pi's `Context`: `systemPrompt`, or system messages in front, and tools in either place.
fn request(given: &Value, options: &Value) -> Request {
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
            // Only a verdict speaks as the system.
            if !matches!(&message, Message::Custom(custom) if custom.custom_type == VERDICT_TYPE) {
                messages.push(message);
            }
        }
    }
    let conversation = context::conversation(&messages);
    let messages = context::request_messages(&messages);
    let messages = messages.into_iter().filter(|message| !is_empty(message)).collect();
    Request {
        system: system.join("\n\n"),
        messages,
        conversation,
        tools,
        thinking: options.get("reasoning").and_then(Value::as_str).filter(|level| *level != "off").map(str::to_owned),
        max_tokens: options.get("maxTokens").and_then(Value::as_u64),
    }
}

fn is_empty(message: &RequestMessage) -> bool {
    matches!(message, RequestMessage::User(blocks) if blocks.iter().all(|block| matches!(block, Block::Text(text) if text.text.is_empty())))
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
            assert_eq!(request.messages, [RequestMessage::User(vec![Block::text("hi")])]);
            assert_eq!((request.thinking.as_deref(), request.max_tokens), (Some("high"), Some(7)));
        }
    }
}
