//! Finds the first difference between a replay and its recording.

use crate::record::read_json;
use crate::source_position::SourcePosition;
use pijs_protocol::{ExtensionId, Seq};
use serde::Serialize;
use serde_json::Value;
use std::fmt;

/// Maximum length of a value's text in a [`Divergence`]'s sentence, in characters.
const SHOWN: usize = 400;

/// The first record at which a replay differs from its recording.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Divergence {
    /// Number of the tick on the tape, over all realms.
    pub tick: u64,
    /// Number of the record on the tape at which the difference is visible.
    pub record: u64,
    /// Extension of the realm.
    pub realm: ExtensionId,
    /// Sequence number of the turn in its realm; 0 before the first delivery.
    pub seq: Seq,
    /// The kind of record, and a JSON pointer into it: `yield /messages/0/payload/delay_ms`.
    pub at: String,
    /// Recorded value; `Null` if there was none.
    pub recorded: Value,
    /// Replayed value.
    pub replayed: Value,
    /// Position in the extension's source; `None` unless [`locate`](crate::locate) found one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<SourcePosition>,
    /// Number of macrotasks of the turn: several streamed deltas may share one turn.
    #[serde(skip)]
    pub(crate) deliveries: usize,
    /// Output of the turn that differs.
    #[serde(skip)]
    pub(crate) output: OutputSite,
}

/// An output of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputSite {
    /// The synchronous hostcall with this index.
    Call(usize),
    /// The message with this index, and the index of the registration in it.
    Message(usize, Option<usize>),
    /// The answer to a streamed delta.
    Stream,
    /// No particular output.
    Turn,
}

impl OutputSite {
    /// Parses the position of a difference in the end of a turn.
    pub(crate) fn in_yield(at: &str) -> Self {
        let mut members = at.strip_prefix("yield /").unwrap_or_default().split('/');
        match members.next() {
            Some("stream") => Self::Stream,
            Some("messages") => match members.next().and_then(|index| index.parse().ok()) {
                Some(index) => {
                    let mut members = members.skip_while(|member| *member != "registrations").skip(1);
                    Self::Message(index, members.next().and_then(|index| index.parse().ok()))
                }
                None => Self::Turn,
            },
            _ => Self::Turn,
        }
    }
}

/// Prefix of the position of a difference in the resources that a turn consumed.
pub(crate) const USAGE: &str = "yield /usage";

impl Divergence {
    /// Returns whether another replay found the same difference. Consumed resources are ignored, because tracing changes them.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let place = |divergence: &Self| (divergence.tick, divergence.record, divergence.realm.clone(), divergence.seq);
        let is_usage = |divergence: &Self| divergence.at.starts_with(USAGE);
        place(self) == place(other)
            && ((is_usage(self) && is_usage(other)) || (&self.at, &self.replayed) == (&other.at, &other.replayed))
    }
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tick, record, realm, seq, at, recorded, replayed, source, .. } = self;
        writeln!(f, "tick {tick} (record {record}), {realm}, turn {} of its realm: {at} differs", seq.0)?;
        writeln!(f, "- recorded: {}", brief(recorded))?;
        write!(f, "+ replayed: {}", brief(replayed))?;
        match source {
            Some(source) => write!(f, "\n  {source}"),
            None => Ok(()),
        }
    }
}

pub(crate) fn brief(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// Position at which two records differ (kind of record and JSON pointer), and both values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Difference {
    pub(crate) at: String,
    pub(crate) recorded: Value,
    pub(crate) replayed: Value,
}

/// Compares two canonical lines; `None` if they are equal. A missing line means the end of the turn.
pub(crate) fn compare(recorded: Option<&[u8]>, replayed: Option<&[u8]>) -> Option<Difference> {
    if recorded == replayed {
        return None;
    }
    let read = |line: Option<&[u8]>| -> Value { line.and_then(|line| read_json(line).ok()).unwrap_or_default() };
    let (recorded, replayed) = (read(recorded), read(replayed));
    let kind = |value: &Value| value.get("kind").and_then(Value::as_str).unwrap_or("nothing").to_owned();
    let (left, right) = (kind(&recorded), kind(&replayed));
    if left != right {
        return Some(Difference { at: "the next record".to_owned(), recorded, replayed });
    }
    for member in ["value", "bytes"] {
        let member = |value: &Value| value.get(member).cloned().unwrap_or_default();
        if member(&recorded) != member(&replayed) {
            let mut pointer = String::new();
            let (recorded, replayed) = first_difference(&member(&recorded), &member(&replayed), &mut pointer);
            return Some(Difference { at: format!("{left} {pointer}"), recorded, replayed });
        }
    }
    // The records differ only in the order of members, or in a NaN.
    Some(Difference { at: left, recorded, replayed })
}

/// Descends into the first member that differs, in document order, and leaves its path in `pointer`.
fn first_difference(left: &Value, right: &Value, pointer: &mut String) -> (Value, Value) {
    let mut go_down = |key: &str, left: Option<&Value>, right: Option<&Value>| {
        pointer.push('/');
        pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
        match (left, right) {
            (Some(left), Some(right)) => first_difference(left, right, pointer),
            (left, right) => (left.cloned().unwrap_or_default(), right.cloned().unwrap_or_default()),
        }
    };
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            let only_right = right.iter().filter(|(key, _)| !left.contains_key(*key));
            for (key, _) in left.iter().chain(only_right) {
                if left.get(key) != right.get(key) {
                    return go_down(key, left.get(key), right.get(key));
                }
            }
        }
        (Value::Array(left), Value::Array(right)) => {
            for at in 0..left.len().max(right.len()) {
                if left.get(at) != right.get(at) {
                    return go_down(&at.to_string(), left.get(at), right.get(at));
                }
            }
        }
        _ => {}
    }
    (left.clone(), right.clone())
}

/// Returns the members in which two values differ, in document order: a pointer and both values, `None` for a missing one.
pub(crate) fn differences(left: &Value, right: &Value) -> Vec<(String, Option<Value>, Option<Value>)> {
    fn collect(
        left: Option<&Value>,
        right: Option<&Value>,
        pointer: &str,
        found: &mut Vec<(String, Option<Value>, Option<Value>)>,
    ) {
        if left == right {
            return;
        }
        match (left, right) {
            (Some(Value::Object(before)), Some(Value::Object(after))) => {
                let only_after = after.keys().filter(|key| !before.contains_key(*key));
                for key in before.keys().chain(only_after) {
                    collect(before.get(key), after.get(key), &format!("{pointer}/{key}"), found);
                }
            }
            (Some(Value::Array(before)), Some(Value::Array(after))) => {
                for at in 0..before.len().max(after.len()) {
                    collect(before.get(at), after.get(at), &format!("{pointer}/{at}"), found);
                }
            }
            _ => found.push((pointer.to_owned(), left.cloned(), right.cloned())),
        }
    }
    let mut found = Vec::new();
    collect(Some(left), Some(right), "", &mut found);
    found
}
