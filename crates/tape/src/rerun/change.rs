//! The outputs of an extension that changed, and how they are printed.

use crate::compare::{brief, differences};
use crate::source_position::SourcePosition;
use pijs_protocol::{ExtensionId, Seq};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;

/// Characters that are shown before the first one that differs.
const CONTEXT: usize = 40;

/// Changed members of one output that are shown.
const MAX_MEMBERS: usize = 12;

/// The outputs that an extension no longer makes as recorded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Changes {
    /// In the order of the tape.
    pub changes: Vec<Change>,
    /// How many there are.
    pub count: u64,
    /// Turns of the extension.
    pub ticks: u64,
    /// Inputs that were left out, since nothing in the extension waits for them any more.
    pub left_out: u64,
    /// The recording was cut off.
    pub cut: bool,
}

/// One output that changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Number of the tick on the tape, over all realms.
    pub tick: u64,
    /// In whose realm.
    pub realm: ExtensionId,
    /// The turn in that realm's own order.
    pub seq: Seq,
    /// The input of the turn: `event_hook agent_start`, `timer_fired`, ...
    pub input: String,
    /// The recorded output; `Null` for a new one.
    pub recorded: Value,
    /// The output now; `Null` for one that is gone.
    pub replayed: Value,
    /// The position in the extension's source, where it is known.
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

/// Returns both sides; of two long texts that begin alike, what differs and a little before it.
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
