//! Reads the agent's records of a tape and compares its outputs.
//!
//! A replay of the agent delivers the inputs of its [records](AgentRecord), each when everything before it on the tape has
//! happened, and compares the outputs.

use crate::agent_record::AgentRecord;
use crate::compare::{brief, differences};
use crate::error::TapeError;
use crate::reader::TapeReader;
use crate::record::Event;
use serde::Serialize;
use serde_json::Value;
use std::fmt;
use std::io::Read;

/// The first output of the agent that differs from the recording.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AgentDivergence {
    /// Number of the record on the tape; 0 if the tape has no more outputs.
    pub record: u64,
    /// Kind of the output, and a JSON pointer into it: `shown entries /append/0/message/content`.
    pub at: String,
    /// Recorded value; `Null` if there was none.
    pub recorded: Value,
    /// Replayed value; `Null` if there is none.
    pub replayed: Value,
}

impl AgentDivergence {
    /// Compares an output with the recorded one; `None` if they are equal.
    pub fn between(record: u64, recorded: Option<&AgentRecord>, replayed: Option<&AgentRecord>) -> Option<Self> {
        let written = |record: Option<&AgentRecord>| serde_json::to_value(record).unwrap_or_default();
        let name = |record: &AgentRecord| record.name();
        match (recorded, replayed) {
            (Some(left), Some(right)) if left.name() == right.name() => {
                let (mut left, mut right) = (left.clone(), right.clone());
                let name = left.name();
                let (left, right) = (left.value_mut().map(Value::take), right.value_mut().map(Value::take));
                let found = differences(&left.unwrap_or_default(), &right.unwrap_or_default());
                let (at, recorded, replayed) = found.into_iter().next()?;
                let (recorded, replayed) = (recorded.unwrap_or_default(), replayed.unwrap_or_default());
                Some(Self { record, at: format!("{name} {at}"), recorded, replayed })
            }
            (left, right) => {
                let at = left.or(right).map(name).unwrap_or_default();
                Some(Self { record, at, recorded: written(left), replayed: written(right) })
            }
        }
    }
}

impl fmt::Display for AgentDivergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { record, at, recorded, replayed } = self;
        writeln!(f, "the agent's loop (record {record}): {at} differs")?;
        writeln!(f, "- recorded: {}", brief(recorded))?;
        write!(f, "+ replayed: {}", brief(replayed))
    }
}

/// Reads the agent's records of a tape, each with its number. A tape that was cut off is read as far as it is valid.
///
/// # Errors
///
/// Fails if the tape is damaged in any other way.
pub fn agent_records(tape: &mut TapeReader<impl Read>) -> Result<Vec<(u64, AgentRecord)>, TapeError> {
    let mut records = Vec::new();
    loop {
        match tape.next() {
            None => return Ok(records),
            Some(Err(error)) if error.is_cut() => return Ok(records),
            Some(record) => {
                if let Event::Agent(record) = record?.event {
                    records.push((tape.number(), *record));
                }
            }
        }
    }
}

/// Returns the number of the latest turn of the realms when a record was written; 0 before the first turn.
///
/// # Errors
///
/// Fails if the tape is damaged before the record.
pub fn tick_of_record(tape: &mut TapeReader<impl Read>, number: u64) -> Result<u64, TapeError> {
    let mut tick = 0;
    while tape.number() < number {
        let Some(record) = tape.next() else { break };
        tick += u64::from(record?.event.begins_tick());
    }
    Ok(tick)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_divergence_points_into_the_output() {
        let shown =
            |text: &str| AgentRecord::Shown { to: "entries".to_owned(), value: json!({"append": [{"text": text}]}) };
        assert_eq!(AgentDivergence::between(7, Some(&shown("a")), Some(&shown("a"))), None);
        let divergence = AgentDivergence::between(7, Some(&shown("a")), Some(&shown("b"))).expect("they differ");
        assert_eq!(divergence.at, "shown entries /append/0/text");
        assert!(AgentDivergence::between(0, None, Some(&shown("b"))).is_some());
    }
}
