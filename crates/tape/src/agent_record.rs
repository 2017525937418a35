//! The agent's level of a tape: what crossed the ports of the agent, in addition to the wires of the realms.
//!
//! The loop of the agent is a function of its ports, as a realm is of its wire. An [`AgentRecord`] is an input of the loop (an
//! act of the user or of an extension, an answer of a port, a fact, a reading of the clock) or an output of it (a question to a
//! port, an entry of the session, an event for front ends). A replay hands the inputs in, each when all that comes before it on
//! the tape has happened, and compares the outputs.
//!
//! Outputs repeat what is on the tape already: the conversation is in every request. So the tape has their [`outline`], in which
//! a digest stands for what is long.

use pijs_artifact::digest;
use pijs_redact::Redactor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Maximum length of a text of an output that is written unabridged, in bytes.
const LONGEST_TEXT: usize = 256;

/// Maximum number of items of a list of an output that are written.
const MAX_ITEMS: usize = 8;

/// Items at the end of a longer list that are written.
const LAST_ITEMS: usize = 3;

/// Something that crossed a port of the agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum AgentRecord {
    /// The parts of the agent: options, model, resources, the session so far. Its first record.
    Begin {
        /// Members that a replay makes an agent of.
        parts: Value,
    },
    /// Input: the user or an extension did something: `prompt`, `abort`, `session send_message`, ...
    Act {
        /// Name of the act.
        act: String,
        /// Arguments of the act.
        value: Value,
    },
    /// Output: the agent asks a port: `request`, `event`, `tool`, ...
    Ask {
        /// Its number.
        id: u64,
        /// The port.
        port: String,
        /// Outline of the question.
        value: Value,
    },
    /// Input: a part of the answer: an event of a provider, a partial result of a tool.
    Part {
        /// The question.
        id: u64,
        /// The part.
        value: Value,
    },
    /// Input: the end of the answer.
    Answer {
        /// The question.
        id: u64,
        /// The answer, or its last part.
        value: Value,
    },
    /// Input: something that the agent read without waiting, when it was read first and whenever it had changed.
    Fact {
        /// Name of the fact.
        fact: String,
        /// Value of the fact from here on.
        value: Value,
    },
    /// Output: `entries` of the session, or an `event` for front ends.
    Shown {
        /// The receiver: `entries` or `event`.
        to: String,
        /// Outline of it.
        value: Value,
    },
    /// Input: the clock was read.
    Clock {
        /// Milliseconds since 1970.
        epoch_ms: u64,
    },
    /// Input: random bytes were drawn.
    Random {
        /// The bytes in hexadecimal.
        hex: String,
    },
}

impl AgentRecord {
    /// Returns whether the agent made it.
    pub fn is_output(&self) -> bool {
        matches!(self, Self::Ask { .. } | Self::Shown { .. })
    }

    /// Names it for people: `ask request`, `shown entries`, `act prompt`.
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

    /// Returns the record as it is written: with the outline of an output.
    #[must_use]
    pub fn outlined(mut self) -> Self {
        if let Self::Ask { value, .. } | Self::Shown { value, .. } = &mut self {
            *value = outline(value);
        }
        self
    }

    /// Returns the record with stand-ins in the place of what looks like a credential.
    #[must_use]
    pub fn without_secrets(&self) -> Self {
        let mut record = self.clone();
        if let Some(value) = record.value_mut() {
            *value = Redactor::default().substitutes().value(value.take());
        }
        record
    }

    /// Returns the member that holds the content.
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

/// Returns a value with digests in the place of long texts and of most of a long list.
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
    fn an_outline_keeps_what_is_short_and_tells_long_values_apart() {
        let value = |end: &str| json!({"a": [1, "short"], "long": format!("{}{end}", "x".repeat(LONGEST_TEXT))});
        assert_eq!(outline(&value("a"))["a"], json!([1, "short"]));
        assert_eq!(outline(&value("a")), outline(&value("a")));
        assert_ne!(outline(&value("a")), outline(&value("b")));
        let list = |first: u64| json!((first..first + 20).collect::<Vec<_>>());
        assert_eq!(outline(&list(1))["items"], 20);
        assert_ne!(outline(&list(1)), outline(&list(2)));
    }
}
