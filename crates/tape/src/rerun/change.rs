//! Represents the changed outputs of an extension, and formats them.

use crate::compare::{brief, differences};
use crate::source_position::SourcePosition;
use pijs_protocol::{ExtensionId, Seq};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;

/// Number of characters shown before the first one that differs.
const CONTEXT: usize = 40;

/// Maximum number of changed members shown per output.
const MAX_MEMBERS: usize = 12;

/// Outputs of an extension that differ from the recording.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Changes {
    /// The changes, in the order of the tape.
    pub changes: Vec<Change>,
    /// Total number of changes, including those not kept.
    pub count: u64,
    /// Number of turns of the extension.
    pub ticks: u64,
    /// Number of inputs that were left out because nothing in the extension waits for them.
    pub left_out: u64,
    /// Whether the recording was cut off.
    pub cut: bool,
}

/// A changed output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Number of the tick on the tape, over all realms.
    pub tick: u64,
    /// Extension of the realm.
    pub realm: ExtensionId,
    /// Sequence number of the turn in its realm.
    pub seq: Seq,
    /// Input of the turn: `event_hook agent_start`, `timer_fired`, ...
    pub input: String,
    /// Recorded output; `Null` if the output is new.
    pub recorded: Value,
    /// Current output; `Null` if it no longer exists.
    pub replayed: Value,
    /// Position in the extension's source, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<SourcePosition>,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tick, seq, input, recorded, replayed, source, .. } = self;
        write!(f, "tick {tick}, turn {} ({input})", seq.0)?;
        if let Some(source) = source {
            write!(f, ", {source}")?;
        }
        match (recorded.is_null(), replayed.is_null()) {
            (true, _) => write!(f, "\n+ {}", brief(replayed)),
            (_, true) => write!(f, "\n- {}", brief(recorded)),
            _ => {
                let members = differences(recorded, replayed);
                for (at, left, right) in members.iter().take(MAX_MEMBERS) {
                    let (left, right) = &excerpts(left.as_ref(), right.as_ref());
                    let sign = |value: &Option<Value>, sign: char| match value {
                        Some(value) => format!("\n{sign} {at}: {}", brief(value)),
                        None => String::new(),
                    };
                    write!(f, "{}{}", sign(left, '-'), sign(right, '+'))?;
                }
                match members.len().saturating_sub(MAX_MEMBERS) {
                    0 => Ok(()),
                    more => write!(f, "\n  and {more} more"),
                }
            }
        }
    }
}

/// Returns both values. Of two long texts with a common beginning, returns the differing part and a little text before it.
fn excerpts(left: Option<&Value>, right: Option<&Value>) -> (Option<Value>, Option<Value>) {
    if let (Some(Value::String(left)), Some(Value::String(right))) = (left, right) {
        let alike = left.chars().zip(right.chars()).take_while(|(left, right)| left == right).count();
        if alike > 2 * CONTEXT {
            let rest =
                |text: &str| Value::from(format!("...{}", text.chars().skip(alike - CONTEXT).collect::<String>()));
            return (Some(rest(left)), Some(rest(right)));
        }
    }
    (left.cloned(), right.cloned())
}
