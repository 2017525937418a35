//! The records of a tape about the agent: everything that crossed its ports. They complement the wires of the realms.
//!
//! The loop of the agent is a function of its ports, as a realm is of its wire. An [`AgentRecord`] is an input of the loop (an
//! act of the user or of an extension, an answer of a port, a fact, a reading of the clock) or an output of it (a question to a
//! port, an entry of the session, an event for front ends). A replay delivers the inputs, each when everything before it on the
//! tape has happened, and compares the outputs.
//!
//! Outputs repeat content that is already on the tape, such as the conversation in every request. So the tape has only their
//! [`outline`], in which digests replace long parts.

use pijs_artifact::digest;
use pijs_redact::Redactor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Maximum length in bytes of an output's text that is written unabridged.
const LONGEST_TEXT: usize = 256;

/// Maximum number of items of an output's list that are written.
const MAX_ITEMS: usize = 8;

/// Number of items at the end of a longer list that are written.
const LAST_ITEMS: usize = 3;

/// A message that crossed a port of the agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum AgentRecord {
    /// The agent's first record. Describes its parts: options, model, resources, and the session so far.
    Begin {
        /// Parts from which a replay creates the agent.
        parts: Value,
    },
    /// Input: an act of the user or of an extension, such as `prompt`, `abort` or `session send_message`.
    Act {
        /// Name of the act.
        act: String,
        /// Arguments of the act.
        value: Value,
    },
    /// Output: a question of the agent to a port, such as `request`, `event` or `tool`.
    Ask {
        /// Number of the question.
        id: u64,
        /// Name of the port.
        port: String,
        /// Outline of the question.
        value: Value,
    },
    /// Input: a part of an answer, which is an event of a provider or a partial result of a tool.
    Part {
        /// Number of the question.
        id: u64,
        /// Content of the part.
        value: Value,
    },
    /// Input: the end of the answer.
    Answer {
        /// Number of the question.
        id: u64,
        /// The answer, or its last part.
        value: Value,
    },
    /// Input: a value that the agent reads without waiting. Recorded when it is first read, and whenever it has changed.
    Fact {
        /// Name of the fact.
        fact: String,
        /// Value of the fact from this record on.
        value: Value,
    },
    /// Output: `entries` of the session, or an `event` for front ends.
    Shown {
        /// Receiver: `entries` or `event`.
        to: String,
        /// Outline of the entries or the event.
        value: Value,
    },
    /// Input: a reading of the clock.
    Clock {
        /// Milliseconds since 1970.
        epoch_ms: u64,
    },
    /// Input: random bytes that were drawn.
    Random {
        /// The bytes in hexadecimal.
        hex: String,
    },
}

impl AgentRecord {
    /// Returns whether the record is an output of the agent.
    pub fn is_output(&self) -> bool {
        matches!(self, Self::Ask { .. } | Self::Shown { .. })
    }

    /// Returns a readable name of the record: `ask request`, `shown entries`, `act prompt`.
    pub fn name(&self) -> String {
        match self {
            Self::Begin { .. } => "begin".to_owned(),
            Self::Act { act, .. } => format!("act {act}"),
            Self::Ask { port, .. } => format!("ask {port}"),
            Self::Part { id, .. } => format!("part of answer {id}"),
            Self::Answer { id, .. } => format!("answer {id}"),
            Self::Fact { fact, .. } => format!("fact {fact}"),
            Self::Shown { to, .. } => format!("shown {to}"),
            Self::Clock { .. } => "clock".to_owned(),
            Self::Random { .. } => "random".to_owned(),
        }
    }

    /// Returns the record in the form that is written, in which an output is abridged to its outline.
    #[must_use]
    pub fn outlined(mut self) -> Self {
        if let Self::Ask { value, .. } | Self::Shown { value, .. } = &mut self {
            *value = outline(value);
        }
        self
    }

    /// Returns the record with placeholders for values that look like credentials.
    #[must_use]
    pub fn without_secrets(&self) -> Self {
        let mut record = self.clone();
        if let Some(value) = record.value_mut() {
            *value = Redactor::default().substitutes().value(value.take());
        }
        record
    }

    /// Returns the member with the content; `None` for clock readings and random bytes.
    pub(crate) fn value_mut(&mut self) -> Option<&mut Value> {
        match self {
            Self::Begin { parts } => Some(parts),
            Self::Act { value, .. }
            | Self::Ask { value, .. }
            | Self::Part { value, .. }
            | Self::Answer { value, .. }
            | Self::Fact { value, .. }
            | Self::Shown { value, .. } => Some(value),
            Self::Clock { .. } | Self::Random { .. } => None,
        }
    }
}

/// Returns a value in which digests replace long texts and most of a long list.
pub fn outline(value: &Value) -> Value {
    match value {
        Value::String(text) if text.len() > LONGEST_TEXT => {
            json!({ "bytes": text.len(), "digest": digest(text.as_bytes()) })
        }
        Value::Array(items) if items.len() > MAX_ITEMS => {
            let all = serde_json::to_vec(items).unwrap_or_default();
            let last: Vec<Value> = items[items.len() - LAST_ITEMS..].iter().map(outline).collect();
            json!({ "items": items.len(), "digest": digest(&all), "last": last })
        }
        Value::Array(items) => items.iter().map(outline).collect(),
        Value::Object(members) => members.iter().map(|(name, member)| (name.clone(), outline(member))).collect(),
        value => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outline_keeps_short_values_and_distinguishes_long_ones() {
        let value = |end: &str| json!({"a": [1, "short"], "long": format!("{}{end}", "x".repeat(LONGEST_TEXT))});
        assert_eq!(outline(&value("a"))["a"], json!([1, "short"]));
        assert_eq!(outline(&value("a")), outline(&value("a")));
        assert_ne!(outline(&value("a")), outline(&value("b")));
        let list = |first: u64| json!((first..first + 20).collect::<Vec<_>>());
        assert_eq!(outline(&list(1))["items"], 20);
        assert_ne!(outline(&list(1)), outline(&list(2)));
    }
}
