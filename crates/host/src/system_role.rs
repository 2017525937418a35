//! Decides whether text of an extension may reach the model with the system role.
//!
//! | the extension | its text |
//! |---|---|
//! | has `prompt.modify` | system role, unchanged |
//! | was neither granted nor denied it | system role with the extension's name for text that a verdict injects, else user role |
//! | was denied it | user role |
//!
//! In each case chat-template markers and control characters are neutralised ([`chat_markup`]).

use crate::extension::Slot;
use crate::host::Host;
use pijs_hostcall::{Caller, Rule};
use pijs_protocol::message::EventResult;
use pijs_protocol::{ExtensionId, chat_markup, guard};
use serde_json::{Map, Value, json};

/// Capability to write system messages.
const CAPABILITY: &str = "prompt.modify";

/// Events whose answer is a list of messages for the model.
const WITH_MESSAGES: [&str; 2] = ["context", "context_with_system"];

/// Decision about an extension's system messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SystemRole {
    /// `prompt.modify` is granted.
    Granted,
    /// `prompt.modify` is neither granted nor denied.
    NotGranted,
    /// The user or the policy denied `prompt.modify`.
    Denied,
}

impl Host {
    /// Returns whether an extension may use the system role. The extension need not be loaded.
    pub fn system_role(&self, extension: &ExtensionId) -> SystemRole {
        self.system_role_of(&self.caller_of(extension))
    }

    fn system_role_of(&self, caller: &Caller) -> SystemRole {
        let decision = self.0.services.dispatcher.gate().holds(caller, CAPABILITY);
        match decision.rule {
            _ if decision.allowed || !guard!(SystemRole) => SystemRole::Granted,
            Rule::DenyList => SystemRole::Denied,
            _ => SystemRole::NotGranted,
        }
    }

    /// Restricts an answer that is a list of messages: without `prompt.modify` the extension's system messages become user
    /// messages, and system messages that it removed are restored.
    pub(crate) fn restrict_system_messages(
        &self,
        event: &str,
        slot: &Slot,
        payload: &Map<String, Value>,
        result: &mut EventResult,
    ) {
        if !WITH_MESSAGES.contains(&event) {
            return;
        }
        let before = payload.get("messages").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let answers = result.value.iter_mut().filter_map(|value| value.get_mut("messages"));
        let lists = answers.chain(result.changed.get_mut("messages")).filter_map(Value::as_array_mut);
        for list in lists {
            let is_new = |message: &Value| is_system(message) && !before.contains(message);
            let is_cut = before.iter().any(|message| is_system(message) && !list.contains(message));
            if !is_cut && !list.iter().any(is_new) {
                continue;
            }
            let is_granted = self.system_role_of(&slot.cell.borrow().caller) == SystemRole::Granted;
            for message in list.iter_mut().filter(|message| is_new(message)) {
                neutralise_system(message);
                if !is_granted {
                    *message = as_user(message);
                }
            }
            if is_cut && !is_granted {
                let kept: Vec<Value> =
                    before.iter().filter(|message| is_system(message) && !list.contains(message)).cloned().collect();
                list.splice(0..0, kept);
            }
        }
    }
}

fn is_system(message: &Value) -> bool {
    message["role"] == "system"
}

/// Neutralises every text of a system message.
fn neutralise_system(message: &mut Value) {
    if !guard!(SystemMarkup) {
        return;
    }
    for key in ["content", "sections"] {
        if let Some(said) = message.get_mut(key) {
            chat_markup::neutralise_all(said);
        }
    }
}

/// Converts a system message to the user role.
fn as_user(message: &Value) -> Value {
    let mut texts = Vec::new();
    match &message["content"] {
        Value::String(text) => texts.push(text.clone()),
        Value::Array(blocks) => {
            texts.extend(blocks.iter().filter_map(|block| block["text"].as_str().map(str::to_owned)))
        }
        _ => {}
    }
    let sections = message["sections"].as_object().into_iter().flat_map(Map::values);
    texts.extend(sections.filter_map(Value::as_str).map(str::to_owned));
    let timestamp = message.get("timestamp").filter(|at| at.is_u64()).cloned().unwrap_or(json!(0));
    json!({"role": "user", "content": [{"type": "text", "text": texts.join("\n\n")}], "timestamp": timestamp})
}
