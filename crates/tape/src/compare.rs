//! Two tapes side by side: the first place where they part.

use super::{Event, Record, TapeError};
use pijs_protocol::{ExtensionId, Seq};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// Longest text of a value in a [`Drift`]'s sentence, in characters.
const SHOWN: usize = 200;

/// The first divergence of two runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Drift {
    /// In which realm, as the expected run has it (the actual one, when the expected run was over).
    pub realm: ExtensionId,
    /// In which turn of that realm; 0 before its first.
    pub tick: Seq,
    /// Where: the kind of record, and a JSON pointer into it: `yield /messages/0/payload/delay_ms`.
    pub what: String,
    /// What the first tape has there; `Null` where it has nothing.
    pub expected: Value,
    /// What the second one has there.
    pub actual: Value,
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { realm, tick, what, expected, actual } = self;
        write!(f, "{realm}, tick {}: {what} is {}, recorded was {}", tick.0, brief(actual), brief(expected))
    }
}

fn brief(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// Compares two runs record by record; `None` when they are equal.
///
/// Everything counts but [`Usage::heap_bytes`](pijs_protocol::Usage): how much an allocator hands out says nothing
/// about what an extension did.
///
/// # Errors
///
/// The first record that cannot be read. Readers of tapes fit as they are; records in memory go in as
/// `records.into_iter().map(Ok)`.
pub fn compare(
    expected: impl IntoIterator<Item = Result<Record, TapeError>>,
    actual: impl IntoIterator<Item = Result<Record, TapeError>>,
) -> Result<Option<Drift>, TapeError> {
    let (mut expected, mut actual) = (expected.into_iter(), actual.into_iter());
    let mut comparison = Comparison::default();
    loop {
        let pair = (expected.next().transpose()?, actual.next().transpose()?);
        if pair == (None, None) {
            return Ok(None);
        }
        if let Some(drift) = comparison.step(pair.0.as_ref(), pair.1.as_ref()) {
            return Ok(Some(drift));
        }
    }
}

/// The same one step at a time, for a replay that compares as it goes.
#[derive(Debug, Default)]
pub struct Comparison {
    /// The turn each realm is in.
    ticks: BTreeMap<ExtensionId, Seq>,
}

impl Comparison {
    /// Compares the next record of both runs; `None` stands for the end of a run.
    pub fn step(&mut self, expected: Option<&Record>, actual: Option<&Record>) -> Option<Drift> {
        let realm = &expected.or(actual)?.realm;
        if let Some(Record { event: Event::Delivery(delivery), .. }) = expected.or(actual) {
            self.ticks.insert(realm.clone(), delivery.seq);
        }
        let tick = self.ticks.get(realm).copied().unwrap_or_default();
        let drift = |what: String, expected, actual| Some(Drift { realm: realm.clone(), tick, what, expected, actual });
        let (expected, actual) = match (expected, actual) {
            (Some(expected), Some(actual)) => (expected, actual),
            (Some(expected), None) => return drift("end of the run".to_owned(), summary(expected), Value::Null),
            (None, Some(actual)) => return drift("end of the run".to_owned(), Value::Null, summary(actual)),
            (None, None) => return None,
        };
        if behaves_equally(expected, actual) {
            return None;
        }
        if expected.realm != actual.realm || expected.event.as_ref().kind() != actual.event.as_ref().kind() {
            return drift("order of records".to_owned(), summary(expected), summary(actual));
        }
        let (left, right) = (comparable(expected), comparable(actual));
        if left == right {
            return None; // a NaN differs from itself; its line does not
        }
        let mut pointer = String::new();
        let (left, right) = first_difference(&left, &right, &mut pointer);
        drift(format!("{} {pointer}", expected.event.as_ref().kind()), left, right)
    }
}

fn behaves_equally(expected: &Record, actual: &Record) -> bool {
    match (&expected.event, &actual.event) {
        (Event::Yield(left), Event::Yield(right)) => {
            let mut usage = right.usage;
            usage.heap_bytes = left.usage.heap_bytes;
            expected.realm == actual.realm
                && left.messages == right.messages
                && left.stream == right.stream
                && left.usage == usage
        }
        _ => expected == actual,
    }
}

/// A record as JSON, with its attachments, without what does not count.
fn comparable(record: &Record) -> Value {
    let line = super::record::encode(&record.realm, record.event.as_ref())
        .and_then(|line| Ok(serde_json::from_slice::<Value>(&line)?))
        .expect("protocol values are JSON values");
    let Value::Object(mut line) = line else { unreachable!("a record is an object") };
    let mut value = line.remove("value").unwrap_or_default();
    if let Some(usage) = value.get_mut("usage").and_then(Value::as_object_mut) {
        usage.remove("heap_bytes");
    }
    if let (Some(bytes), Some(value)) = (line.remove("bytes"), value.as_object_mut()) {
        value.insert("$attachments".to_owned(), bytes);
    }
    value
}

/// Kind and the members that name a record, for records that cannot be compared member by member.
fn summary(record: &Record) -> Value {
    let what = match &record.event {
        Event::Delivery(delivery) => Some(("seq", Value::from(delivery.seq.0))),
        Event::Call(call) => Some(("method", Value::from(call.method.as_str()))),
        Event::Reply(reply) => Some(("call_id", Value::from(reply.result.call_id.as_str()))),
        Event::Yield(output) => Some(("messages", Value::from(output.messages.len()))),
        Event::Termination(termination) => Some(("reason", Value::from(termination.to_string()))),
    };
    let mut members = serde_json::Map::new();
    members.insert("realm".to_owned(), record.realm.as_str().into());
    members.insert("kind".to_owned(), record.event.as_ref().kind().into());
    members.extend(what.map(|(key, value)| (key.to_owned(), value)));
    Value::Object(members)
}

/// Goes down into the first member that differs, in document order, and leaves its path in `pointer`.
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
