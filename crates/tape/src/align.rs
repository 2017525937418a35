//! Matches the outputs of two runs that may have more, fewer or different outputs.
//!
//! Ids of calls, timers and functions are issued in order, so one additional output shifts all later ids. Outputs are compared
//! without the ids that they introduce; [`Names`] then maps the ids of one run to those of the other.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use pijs_protocol::wire::StreamAnswer;
use pijs_protocol::{HostCall, Message};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Members of a registration that name a function.
const FUNCTIONS: [&str; 7] = ["handle", "handler", "completions", "credentials", "stream", "reply", "account"];

/// Member that refers to a function inside a value.
const HANDLE: &str = "$handle";

/// Maximum number of pairs that are compared to align the outputs of a turn; if there are more, outputs are paired by position.
const MAX_PAIRS: usize = 4_000_000;

/// Maps ids of one kind between recording and replay.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    /// Replayed id by recorded id; `None` if the replay has no counterpart.
    replayed: BTreeMap<String, Option<String>>,
    recorded: BTreeMap<String, String>,
}

/// Counterpart of a recorded id in the replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    /// The replayed id.
    As(String),
    /// The replay has no counterpart.
    Gone,
    /// The recording has not introduced the id.
    Unknown,
}

impl Pairs {
    pub(crate) fn pair(&mut self, recorded: &str, replayed: &str) {
        self.replayed.insert(recorded.to_owned(), Some(replayed.to_owned()));
        self.recorded.insert(replayed.to_owned(), recorded.to_owned());
    }

    pub(crate) fn gone(&mut self, recorded: &str) {
        self.replayed.entry(recorded.to_owned()).or_insert(None);
    }

    pub(crate) fn find(&self, recorded: &str) -> Found {
        match self.replayed.get(recorded) {
            Some(Some(replayed)) => Found::As(replayed.clone()),
            Some(None) => Found::Gone,
            None => Found::Unknown,
        }
    }

    fn recorded_for(&self, replayed: &str) -> Option<&str> {
        self.recorded.get(replayed).map(String::as_str)
    }
}

/// Maps replayed ids to recorded ones, by kind.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub(crate) calls: Pairs,
    pub(crate) timers: Pairs,
    pub(crate) functions: Pairs,
    /// Recorded calls and timers without a counterpart, by request: the replay may make the same request later.
    lost: Vec<(String, Output)>,
    /// Calls and timers of the replay that the recording has not requested yet.
    early: Vec<(String, Output)>,
}

/// An output, prepared for comparison.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Output {
    /// The message, or the answer to a delta, as JSON without the ids that it introduces.
    pub(crate) value: Value,
    /// Ids that the output introduces and functions that it names, with their kind and position.
    ids: Vec<(Kind, String, String)>,
    /// Ids of earlier outputs that the output refers to.
    references: Vec<(Kind, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Call,
    Timer,
    Function,
}

impl Output {
    pub(crate) fn of_call(call: &HostCall) -> Self {
        let mut output = Self::of_value(serde_json::to_value(call).unwrap_or_default(), "host_call");
        output.value["bytes"] = encoded(&call.bytes);
        output
    }

    pub(crate) fn of_message(message: &Message) -> Self {
        let mut written = serde_json::to_value(message).unwrap_or_default();
        let kind = written.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut output = Self::of_value(written.get_mut("payload").map(Value::take).unwrap_or_default(), &kind);
        if let Message::HostCall(call) = message {
            output.value["bytes"] = encoded(&call.bytes);
        }
        output.value =
            Value::Object(Map::from_iter([("type".to_owned(), kind.into()), ("payload".to_owned(), output.value)]));
        output
    }

    pub(crate) fn of_stream(answer: &StreamAnswer) -> Option<Self> {
        (*answer != StreamAnswer::Continue)
            .then(|| Self::of_value(serde_json::to_value(answer).unwrap_or_default(), "stream"))
    }

    fn of_value(mut value: Value, kind: &str) -> Self {
        let (mut ids, mut references) = (Vec::new(), Vec::new());
        let take = |value: &mut Value, member: &str| -> Option<String> {
            let id = value.get_mut(member)?.take();
            Some(id.as_str().map_or_else(|| id.to_string(), str::to_owned))
        };
        match kind {
            "host_call" => ids.extend(take(&mut value, "call_id").map(|id| (Kind::Call, String::new(), id))),
            "timer_set" => ids.extend(take(&mut value, "timer").map(|id| (Kind::Timer, String::new(), id))),
            "host_call_cancel" => references.extend(take(&mut value, "call_id").map(|id| (Kind::Call, id))),
            "timer_clear" => references.extend(take(&mut value, "timer").map(|id| (Kind::Timer, id))),
            "stream" | "stream_fault" => {
                let inside = ["abort", "late", "failed"].into_iter().find(|name| value.get(name).is_some());
                let holder = match inside {
                    Some(name) => &mut value[name],
                    None => &mut value,
                };
                references.extend(take(holder, "handler").map(|id| (Kind::Function, id)));
            }
            "register" => {
                let mut seen: BTreeMap<String, usize> = BTreeMap::new();
                for registration in value.get_mut("registrations").and_then(Value::as_array_mut).into_iter().flatten() {
                    let text = |member: &str| registration.get(member).and_then(Value::as_str).unwrap_or_default();
                    let name = [text("kind"), text("name"), text("event"), text("key"), text("custom_type")].join("/");
                    let nth = seen.entry(name.clone()).and_modify(|nth| *nth += 1).or_default();
                    let name = format!("{name}#{nth}");
                    for member in FUNCTIONS {
                        if registration.get(member).is_some_and(Value::is_u64) {
                            let id = take(registration, member);
                            ids.extend(id.map(|id| (Kind::Function, format!("{name}/{member}"), id)));
                        }
                    }
                    for function in
                        registration.get_mut("functions").and_then(Value::as_array_mut).into_iter().flatten()
                    {
                        let of = function.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
                        let id = take(function, "handle");
                        ids.extend(id.map(|id| (Kind::Function, format!("{name}/functions/{of}"), id)));
                    }
                }
            }
            _ => {}
        }
        // A position in a bundle changes with every line before it.
        let error = if kind == "error" { Some(&mut value) } else { None };
        if let Some(error) = error.and_then(Value::as_object_mut) {
            without_positions(error);
        }
        for holder in ["/error", "/failed/error"] {
            if let Some(Value::Object(error)) = value.pointer_mut(holder) {
                without_positions(error);
            }
        }
        take_functions(&mut value, &mut String::new(), &mut ids);
        Self { value, ids, references }
    }

    /// Returns the kind of the output. Only outputs of the same kind can be counterparts.
    fn kind(&self) -> String {
        let text = |at: &str| self.value.pointer(at).and_then(Value::as_str).unwrap_or_default();
        let (of_message, of_call) = ("/payload/params/op", "/params/op");
        [text("/type"), text("/payload/method"), text(of_message), text("/method"), text(of_call)].join("/")
    }

    pub(crate) fn is_of_kind(&self, other: &Self) -> bool {
        self.kind() == other.kind()
    }

    /// Returns the text that equal outputs share.
    pub(crate) fn key(&self) -> String {
        self.value.to_string()
    }
}

fn without_positions(error: &mut Map<String, Value>) {
    error.remove("stack");
    error.remove("position");
}

fn encoded(bytes: &[Vec<u8>]) -> Value {
    bytes.iter().map(|bytes| Value::from(BASE64.encode(bytes))).collect()
}

/// Removes the numbers of functions that are passed inside values.
fn take_functions(value: &mut Value, path: &mut String, ids: &mut Vec<(Kind, String, String)>) {
    let length = path.len();
    match value {
        Value::Object(members) => {
            if let Some(number) = members.get_mut(HANDLE).filter(|number| number.is_u64()) {
                ids.push((Kind::Function, path.clone(), number.take().to_string()));
            }
            for (name, member) in members {
                path.push('/');
                path.push_str(name);
                take_functions(member, path, ids);
                path.truncate(length);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                path.push_str(&format!("/{index}"));
                take_functions(item, path, ids);
                path.truncate(length);
            }
        }
        _ => {}
    }
}

impl Names {
    fn of(&mut self, kind: Kind) -> &mut Pairs {
        match kind {
            Kind::Call => &mut self.calls,
            Kind::Timer => &mut self.timers,
            Kind::Function => &mut self.functions,
        }
    }

    /// Records that two outputs are counterparts.
    pub(crate) fn pair(&mut self, recorded: &Output, replayed: &Output) {
        for (kind, place, id) in &recorded.ids {
            let other = replayed.ids.iter().find(|(other, at, _)| other == kind && at == place);
            match other {
                Some((_, _, other)) => self.of(*kind).pair(id, other),
                None => self.of(*kind).gone(id),
            }
        }
    }

    /// Records that a recorded output has no counterpart, unless the replay has made the same request earlier.
    pub(crate) fn lose(&mut self, recorded: &Output) {
        if recorded.ids.is_empty() {
            return;
        }
        let key = recorded.key();
        if let Some(at) = self.early.iter().position(|(early, _)| *early == key) {
            let (_, replayed) = self.early.remove(at);
            self.pair(recorded, &replayed);
            return;
        }
        for (kind, _, id) in &recorded.ids {
            self.of(*kind).gone(id);
        }
        self.lost.push((key, recorded.clone()));
    }

    /// Records an output that the recording does not have here; it may have it earlier or later.
    pub(crate) fn add(&mut self, replayed: &Output) {
        if replayed.ids.is_empty() {
            return;
        }
        let key = replayed.key();
        if let Some(at) = self.lost.iter().position(|(lost, _)| *lost == key) {
            let (_, recorded) = self.lost.remove(at);
            self.pair(&recorded, replayed);
            return;
        }
        self.early.push((key, replayed.clone()));
    }

    /// Returns whether both outputs refer to the same earlier outputs.
    pub(crate) fn refer_alike(&mut self, recorded: &Output, replayed: &Output) -> bool {
        recorded.references.len() == replayed.references.len()
            && recorded.references.iter().zip(&replayed.references).all(|((kind, left), (other, right))| {
                let known = self.of(*other).recorded_for(right).map(str::to_owned);
                kind == other && known.as_deref().unwrap_or(right) == left
            })
    }
}

/// A pair of counterparts, or an output that only one side has. Numbers are indexes of the recorded and the replayed output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aligned {
    /// The outputs are equal.
    Equal(usize, usize),
    /// The outputs are counterparts but differ.
    Changed(usize, usize),
    /// Only the recording has the output.
    Removed(usize),
    /// Only the replay has the output.
    Added(usize),
}

/// Aligns the outputs of a turn by their longest common subsequence; in the gaps, pairs outputs of the same kind.
pub(crate) fn align(recorded: &[Output], replayed: &[Output]) -> Vec<Aligned> {
    let (left, right): (Vec<String>, Vec<String>) =
        (recorded.iter().map(Output::key).collect(), replayed.iter().map(Output::key).collect());
    let mut aligned = Vec::new();
    let (mut from, mut at) = (0, 0);
    for (i, j) in common(&left, &right).into_iter().chain([(left.len(), right.len())]) {
        gap(recorded, replayed, (from, i), (at, j), &mut aligned);
        if i < left.len() {
            aligned.push(Aligned::Equal(i, j));
        }
        (from, at) = (i + 1, j + 1);
    }
    aligned
}

fn gap(
    recorded: &[Output],
    replayed: &[Output],
    (from, to): (usize, usize),
    (at, end): (usize, usize),
    aligned: &mut Vec<Aligned>,
) {
    let mut free: Vec<usize> = (at..end).collect();
    for (i, output) in recorded.iter().enumerate().take(to).skip(from) {
        let of_kind = free.iter().position(|j| replayed[*j].kind() == output.kind());
        match of_kind {
            Some(found) => {
                let j = free.remove(found);
                aligned.push(Aligned::Changed(i, j));
            }
            None => aligned.push(Aligned::Removed(i)),
        }
    }
    aligned.extend(free.into_iter().map(Aligned::Added));
}

/// Returns the index pairs of a longest common subsequence.
fn common(left: &[String], right: &[String]) -> Vec<(usize, usize)> {
    let begin = left.iter().zip(right).take_while(|(left, right)| left == right).count();
    let most = left.len().min(right.len()) - begin;
    let end = left.iter().rev().zip(right.iter().rev()).take(most).take_while(|(left, right)| left == right).count();
    let (rows, columns) = (left.len() - begin - end, right.len() - begin - end);
    let mut pairs: Vec<(usize, usize)> = (0..begin).map(|at| (at, at)).collect();
    if rows > 0 && columns > 0 && rows.saturating_mul(columns) <= MAX_PAIRS {
        let width = columns + 1;
        let mut lengths = vec![0_u32; (rows + 1) * width];
        for i in (0..rows).rev() {
            for j in (0..columns).rev() {
                lengths[i * width + j] = if left[begin + i] == right[begin + j] {
                    lengths[(i + 1) * width + j + 1] + 1
                } else {
                    lengths[(i + 1) * width + j].max(lengths[i * width + j + 1])
                };
            }
        }
        let (mut i, mut j) = (0, 0);
        while i < rows && j < columns {
            if left[begin + i] == right[begin + j] {
                pairs.push((begin + i, begin + j));
                (i, j) = (i + 1, j + 1);
            } else if lengths[(i + 1) * width + j] >= lengths[i * width + j + 1] {
                i += 1;
            } else {
                j += 1;
            }
        }
    }
    pairs.extend((0..end).rev().map(|back| (left.len() - 1 - back, right.len() - 1 - back)));
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use serde_json::json;

    fn outputs(messages: &[Value]) -> Vec<Output> {
        let read = |message: &Value| serde_json::from_value(message.clone()).expect("a message");
        messages.iter().map(read).map(|message: Message| Output::of_message(&message)).collect()
    }

    fn timer(id: u32, delay: u32) -> Value {
        json!({ "type": "timer_set", "payload": { "timer": id, "delay_ms": delay, "repeat": false } })
    }

    fn clear(id: u32) -> Value {
        json!({ "type": "timer_clear", "payload": { "timer": id } })
    }

    #[test]
    fn one_additional_output_shifts_no_others() {
        let recorded = outputs(&[timer(1, 10), timer(2, 20), clear(2)]);
        let replayed = outputs(&[timer(1, 5), timer(2, 10), timer(3, 20), clear(3)]);
        let aligned = align(&recorded, &replayed);
        assert_eq!(aligned, [Aligned::Added(0), Aligned::Equal(0, 1), Aligned::Equal(1, 2), Aligned::Equal(2, 3)]);
        let mut names = Names::default();
        names.add(&replayed[0]);
        names.pair(&recorded[0], &replayed[1]);
        names.pair(&recorded[1], &replayed[2]);
        assert!(names.refer_alike(&recorded[2], &replayed[3]));
        assert_eq!(names.timers.find("2"), Found::As("3".to_owned()));
        assert_eq!(names.timers.find("7"), Found::Unknown);
    }

    proptest! {
        #[test]
        fn every_output_is_aligned_once(left in vec(0_u32..6, 0..24), right in vec(0_u32..6, 0..24)) {
            let outputs = |delays: &[u32]| outputs(&delays.iter().map(|delay| timer(*delay, *delay)).collect::<Vec<_>>());
            let (mut recorded, mut replayed, mut equal) = (Vec::new(), Vec::new(), Vec::new());
            for aligned in align(&outputs(&left), &outputs(&right)) {
                let (i, j) = match aligned {
                    Aligned::Equal(i, j) => {
                        prop_assert_eq!(left[i], right[j]);
                        equal.push((i, j));
                        (Some(i), Some(j))
                    }
                    Aligned::Changed(i, j) => (Some(i), Some(j)),
                    Aligned::Removed(i) => (Some(i), None),
                    Aligned::Added(j) => (None, Some(j)),
                };
                recorded.extend(i);
                replayed.extend(j);
            }
            prop_assert!(equal.is_sorted_by(|before, after| before.0 < after.0 && before.1 < after.1));
            recorded.sort_unstable();
            replayed.sort_unstable();
            prop_assert_eq!(recorded, (0..left.len()).collect::<Vec<_>>());
            prop_assert_eq!(replayed, (0..right.len()).collect::<Vec<_>>());
        }
    }

    #[test]
    fn outputs_of_the_same_kind_are_paired() {
        let recorded = outputs(&[timer(1, 10), clear(1)]);
        let replayed = outputs(&[timer(1, 11)]);
        assert_eq!(align(&recorded, &replayed), [Aligned::Changed(0, 0), Aligned::Removed(1)]);
    }

    #[test]
    fn a_call_that_moved_to_another_turn_is_found_again() {
        let call = |id: &str| {
            let payload = json!({ "call_id": id, "capability": "read", "method": "fs", "params": { "path": "a" } });
            outputs(&[json!({ "type": "host_call", "payload": payload })]).remove(0)
        };
        let (mut later, mut before) = (Names::default(), Names::default());
        later.lose(&call("host-1"));
        later.add(&call("host-4"));
        before.add(&call("host-4"));
        before.lose(&call("host-1"));
        for names in [later, before] {
            assert_eq!(names.calls.find("host-1"), Found::As("host-4".to_owned()));
        }
    }

    #[test]
    fn functions_are_matched_by_their_registration() {
        let register = |handles: &[(&str, u32)]| {
            let handlers =
                handles.iter().map(|(event, handle)| json!({ "kind": "handler", "event": event, "handle": handle }));
            let registrations: Vec<Value> = handlers.collect();
            let payload = json!({ "entry": 0, "ready": true, "registrations": registrations });
            outputs(&[json!({ "type": "register", "payload": payload })]).remove(0)
        };
        let mut names = Names::default();
        names.pair(
            &register(&[("input", 0), ("agent_end", 1), ("context", 2)]),
            &register(&[("agent_end", 0), ("input", 1)]),
        );
        let found = |handle: &str| names.functions.find(handle);
        assert_eq!((found("0"), found("1"), found("2")), (Found::As("1".into()), Found::As("0".into()), Found::Gone));
    }
}
