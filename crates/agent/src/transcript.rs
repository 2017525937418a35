//! Combines the system messages of a conversation, which declare the sections of the prompt and the tools.
//!
//! As in pi, prompt and tools are declared by messages of the conversation, each with the changes since the previous one. These
//! messages are ordinary session entries and events; a provider gets the combined state:
//!
//! ```text
//! system   sections {preamble, tools, rules, cwd}   toolsAdded [read, bash]
//! user     ...
//! system   sections {rules}                         toolsRemoved [bash]
//!
//! combined sections {preamble, tools, rules, cwd}   toolsAdded [read]
//! ```
//!
//! A prompt that a `before_agent_start` handler forces applies to one run and is not declared.

use pijs_llm::message::{Content, Message, SystemMessage};
use pijs_protocol::{chat_markup, guard};
use serde_json::{Map, Value, json};

/// Combines system messages into one; returns `None` if there are none.
pub(crate) fn combined<'a>(messages: impl IntoIterator<Item = &'a SystemMessage>) -> Option<SystemMessage> {
    let mut texts: Vec<String> = Vec::new();
    let mut sections = Map::new();
    let mut tools: Vec<Value> = Vec::new();
    let mut timestamp = None;
    for message in messages {
        timestamp.get_or_insert(message.timestamp);
        texts.extend(Some(message.content.text()).filter(|text| !text.is_empty()));
        for (name, section) in message.sections.iter().flatten() {
            match section {
                Value::Null => drop(sections.shift_remove(name)),
                section => drop(sections.insert(name.clone(), section.clone())),
            }
        }
        tools.retain(|tool| !message.tools_removed.iter().any(|gone| gone["name"] == tool["name"]));
        for tool in &message.tools_added {
            match tools.iter_mut().find(|known| known["name"] == tool["name"]) {
                Some(known) => *known = tool.clone(),
                None => tools.push(tool.clone()),
            }
        }
    }
    Some(SystemMessage {
        content: Content::Text(texts.join("\n\n")),
        sections: Some(sections).filter(|sections| !sections.is_empty()),
        timestamp: timestamp?,
        tools_added: tools,
        ..SystemMessage::default()
    })
}

/// Combines the system messages among other messages.
pub(crate) fn combined_of(messages: &[Message]) -> Option<SystemMessage> {
    combined(messages.iter().filter_map(system))
}

/// Replaces the system messages by one that contains the prompt forced for this run and the current tools. Returns the messages
/// unchanged if no prompt is forced.
pub(crate) fn projected(messages: Vec<Message>, told: &SystemMessage, forced: Option<&str>) -> Vec<Message> {
    let Some(forced) = forced else { return messages };
    let head = SystemMessage {
        content: Content::Text(forced.to_owned()),
        timestamp: told.timestamp,
        tools_added: told.tools_added.clone(),
        ..SystemMessage::default()
    };
    let said = messages.into_iter().filter(|message| system(message).is_none());
    std::iter::once(Message::System(head)).chain(said).collect()
}

/// Returns the message as a system message, if it is one.
pub(crate) fn system(message: &Message) -> Option<&SystemMessage> {
    match message {
        Message::System(system) => Some(system),
        _ => None,
    }
}

/// Neutralises chat-template markers in a system message that an extension wrote.
pub(crate) fn neutralised(message: Message) -> Message {
    if system(&message).is_none() || !guard!(SystemMarkup) {
        return message;
    }
    let mut value = message.to_value();
    for key in ["content", "sections"] {
        if let Some(said) = value.get_mut(key) {
            chat_markup::neutralise_all(said);
        }
    }
    serde_json::from_value(value).unwrap_or(message)
}

/// Returns the prompt of a system message.
pub(crate) fn text(system: &SystemMessage) -> String {
    let sections = system.sections.iter().flat_map(Map::values).filter_map(Value::as_str);
    let all = std::iter::once(system.content.text()).chain(sections.map(str::to_owned));
    all.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n")
}

/// Returns the changed sections, if there are any.
pub(crate) fn changed_sections(has: &Map<String, Value>, wanted: &Map<String, Value>) -> Option<Map<String, Value>> {
    let mut changes: Map<String, Value> = wanted
        .iter()
        .filter(|(name, text)| has.get(*name) != Some(text))
        .map(|(n, t)| (n.clone(), t.clone()))
        .collect();
    let gone = has.keys().filter(|name| !wanted.contains_key(*name));
    changes.extend(gone.map(|name| (name.clone(), Value::Null)));
    (!changes.is_empty()).then_some(changes)
}

/// Returns the added and removed tools. A tool with a changed definition is in both.
pub(crate) fn changed_tools(has: &[Value], wanted: Vec<Value>) -> (Vec<Value>, Vec<Value>) {
    let gone: Vec<Value> =
        has.iter().filter(|tool| !wanted.contains(tool)).map(|tool| json!({"name": tool["name"]})).collect();
    let come = wanted.into_iter().filter(|tool| !has.contains(tool)).collect();
    (come, gone)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(value: Value) -> SystemMessage {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn later_system_messages_override_earlier_ones() {
        let all = [
            message(json!({"content": "", "sections": {"a": "1", "b": "2"}, "timestamp": 5,
                "toolsAdded": [{"name": "x", "description": "old"}, {"name": "y"}]})),
            message(json!({"content": "more", "sections": {"b": null, "c": "3"}, "timestamp": 6,
                "toolsRemoved": [{"name": "y"}], "toolsAdded": [{"name": "x", "description": "new"}]})),
            message(json!({"content": "", "sections": {"b": "4"}})),
        ];
        let held = combined(&all).unwrap();
        assert_eq!(text(&held), "more\n\n1\n\n3\n\n4");
        assert_eq!(held.tools_added, [json!({"name": "x", "description": "new"})]);
        assert_eq!(held.timestamp, 5);
        assert_eq!(combined(&[]), None);
    }

    #[test]
    fn only_changed_sections_and_tools_are_declared() {
        let map = |value: Value| value.as_object().cloned().unwrap();
        let (has, wanted) = (map(json!({"a": "1", "b": "2"})), map(json!({"a": "1", "c": "3"})));
        assert_eq!(changed_sections(&has, &wanted), Some(map(json!({"c": "3", "b": null}))));
        assert_eq!(changed_sections(&has, &has), None);
        let tool = |name: &str, description: &str| json!({"name": name, "description": description});
        let (come, gone) = changed_tools(&[tool("x", "1"), tool("y", "1")], vec![tool("x", "2"), tool("z", "1")]);
        assert_eq!(come, [tool("x", "2"), tool("z", "1")]);
        assert_eq!(gone, [json!({"name": "x"}), json!({"name": "y"})]);
    }
}
