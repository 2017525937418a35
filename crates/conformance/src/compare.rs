//! The differences between two documents of one kind, under the rules of `format.md`.
//!
//! ```
//! use pijs_conformance::compare::{Options, compare};
//! use serde_json::json;
//!
//! let document = |text: &str| json!({
//!     "format": "pi-ext-trace/1", "trace": [{"t": "ui", "method": "notify", "args": [text]}], "final": {},
//! });
//! assert!(compare(&document("a"), &document("a"), &Options::default()).is_empty());
//! assert_eq!(compare(&document("a"), &document("b"), &Options::default())[0].place, "trace[0]");
//! ```

use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Relaxations of the comparison, in addition to those that the expected document lists.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Whether order is significant only among items of the same type.
    pub lanes: bool,
    /// Item types, `ui.METHOD` or `final.KEY` to ignore; `system` also ignores the hash in `llm` items.
    pub ignore: Vec<String>,
}

/// One difference.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// The position: `trace[3]`, `final.files`, `extensions[0].tools`.
    pub place: String,
    /// The real pi's value.
    pub expected: Option<Value>,
    /// PiJS's value.
    pub actual: Option<Value>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: &Option<Value>| match value {
            None => "(nothing)".to_owned(),
            Some(value) => value.to_string().chars().take(600).collect(),
        };
        write!(f, "{}\n  expected {}\n  actual   {}", self.place, shown(&self.expected), shown(&self.actual))
    }
}

/// Returns all differences, in document order. For a list that is compared in order, only the first difference is returned.
pub fn compare(expected: &Value, actual: &Value, options: &Options) -> Vec<Difference> {
    let (expected, actual) = (canonical(expected), canonical(actual));
    let mut out = Differences::default();
    if expected["format"] != actual["format"] {
        out.differ("format".to_owned(), expected.get("format"), actual.get("format"));
        return out.0;
    }
    match expected["format"].as_str() {
        Some(format) if format.starts_with("pi-ext-snapshot") => snapshots(&expected, &actual, &mut out),
        _ => traces(&expected, &actual, options, &mut out),
    }
    out.0
}

#[derive(Default)]
struct Differences(Vec<Difference>);

impl Differences {
    fn differ(&mut self, place: String, expected: Option<&Value>, actual: Option<&Value>) {
        self.0.push(Difference { place, expected: expected.cloned(), actual: actual.cloned() });
    }

    fn same(&mut self, place: String, expected: Option<&Value>, actual: Option<&Value>) {
        if expected != actual {
            self.differ(place, expected, actual);
        }
    }

    /// Compares two lists item by item, up to the first difference.
    fn ordered(&mut self, place: &str, expected: &[&Value], actual: &[&Value]) {
        for index in 0..expected.len().max(actual.len()) {
            let (one, other) = (expected.get(index).copied(), actual.get(index).copied());
            if one != other {
                self.differ(format!("{place}[{index}]"), one, other);
                return;
            }
        }
    }
}

/// Returns the canonical form: keys are sorted, and numbers are written as in JavaScript (`1` for `1.0`).
fn canonical(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let sorted: BTreeMap<_, _> = members.iter().map(|(key, value)| (key, canonical(value))).collect();
            Value::Object(sorted.into_iter().map(|(key, value)| (key.clone(), value)).collect())
        }
        Value::Array(items) => items.iter().map(canonical).collect(),
        Value::Number(number) => match number.as_f64() {
            // Every integer below 2^53 is exact.
            Some(float) if float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0 => (float as i64).into(),
            _ => value.clone(),
        },
        other => other.clone(),
    }
}

fn snapshots(expected: &Value, actual: &Value, out: &mut Differences) {
    let clean = |document: &Value| -> Map<String, Value> {
        let mut members = document.as_object().cloned().unwrap_or_default();
        members.retain(|key, _| key != "pi" && key != "timing");
        if let Some(Value::Array(errors)) = members.get_mut("errors") {
            // The messages of errors may differ; the paths and the number of errors may not.
            errors.iter_mut().for_each(|error| *error = error.get("path").cloned().unwrap_or_default());
        }
        members
    };
    let (expected, actual) = (clean(expected), clean(actual));
    for key in expected.keys().chain(actual.keys()).collect::<BTreeSet<_>>() {
        let (one, other) = (expected.get(key), actual.get(key));
        let (Some(Value::Array(ones)), "extensions") = (one, key.as_str()) else {
            out.same(key.clone(), one, other);
            continue;
        };
        let others = other.and_then(Value::as_array).cloned().unwrap_or_default();
        for index in 0..ones.len().max(others.len()) {
            let none = Map::new();
            let members = |list: &[Value]| list.get(index).and_then(Value::as_object).cloned();
            let (one, other) = (members(ones), members(&others));
            let (one, other) = (one.as_ref().unwrap_or(&none), other.as_ref().unwrap_or(&none));
            for field in one.keys().chain(other.keys()).collect::<BTreeSet<_>>() {
                out.same(format!("extensions[{index}].{field}"), one.get(field), other.get(field));
            }
        }
    }
}

/// Rules of the comparison from the expected document and the options: members that are ignored or compared without order.
struct Rules {
    skip: BTreeSet<String>,
    sets: BTreeSet<String>,
    lanes: bool,
}

impl Rules {
    fn of(expected: &Value, options: &Options) -> Self {
        let list = |key: &str| -> BTreeSet<String> {
            let listed = expected["compare"][key].as_array().into_iter().flatten();
            listed.filter_map(|name| name.as_str().map(str::to_owned)).collect()
        };
        let mut skip = list("ignore");
        skip.extend(options.ignore.iter().cloned());
        let lanes = options.lanes || expected["compare"]["order"] == "lanes";
        Self { skip, sets: list("sets"), lanes }
    }

    fn is_in(set: &BTreeSet<String>, item: &Value) -> bool {
        set.contains(kind(item)) || set.contains(&lane(item))
    }

    fn items(&self, document: &Value) -> Vec<Value> {
        let items = document["trace"].as_array().into_iter().flatten();
        let kept = items.filter(|item| {
            let is_stderr = kind(item) == "output" && item["stream"] == "stderr";
            let is_system = kind(item) == "entry" && item["entry"]["message"]["role"] == "system";
            !is_stderr && !is_system && !Self::is_in(&self.skip, item)
        });
        kept.map(|item| {
            let mut item = item.clone();
            if kind(&item) == "llm" && self.skip.contains("system") {
                item["system"] = 0.into();
            }
            item
        })
        .collect()
    }
}

fn kind(item: &Value) -> &str {
    item["t"].as_str().unwrap_or_default()
}

fn lane(item: &Value) -> String {
    match kind(item) {
        "ui" => format!("ui.{}", item["method"].as_str().unwrap_or_default()),
        other => other.to_owned(),
    }
}

fn traces(expected: &Value, actual: &Value, options: &Options, out: &mut Differences) {
    let rules = Rules::of(expected, options);
    let (ones, others) = (rules.items(expected), rules.items(actual));
    let together = together(&ones);
    let is_concurrent = |item: &&Value| {
        kind(item).starts_with("tool_") && item["id"].as_str().is_some_and(|id| together.iter().any(|call| call == id))
    };
    let in_order = |items: &[Value]| -> Vec<Value> {
        items.iter().filter(|item| !Rules::is_in(&rules.sets, item) && !is_concurrent(item)).cloned().collect()
    };
    let (one, other) = (in_order(&ones), in_order(&others));
    if rules.lanes {
        let mut seen = BTreeSet::new();
        for kind_of in one.iter().chain(&other).map(kind).filter(|name| seen.insert(name.to_owned())) {
            let of_kind = |items: &[Value]| -> Vec<Value> {
                items.iter().filter(|item| kind(item) == kind_of).cloned().collect()
            };
            let (one, other) = (of_kind(&one), of_kind(&other));
            out.ordered(&format!("trace:{kind_of}"), &refs(&one), &refs(&other));
        }
    } else {
        out.ordered("trace", &refs(&one), &refs(&other));
    }
    for id in &together {
        let of_call = |items: &[Value]| -> Vec<Value> {
            let of_call = items.iter().filter(|item| is_concurrent(item) && item["id"] == id.as_str());
            of_call.filter(|item| !Rules::is_in(&rules.sets, item)).cloned().collect()
        };
        let (one, other) = (of_call(&ones), of_call(&others));
        out.ordered(&format!("tool call {id}"), &refs(&one), &refs(&other));
    }
    let bag = |items: &[Value]| -> Vec<Value> {
        let mut bag: Vec<_> = items.iter().filter(|item| Rules::is_in(&rules.sets, item)).cloned().collect();
        bag.sort_by_cached_key(Value::to_string);
        bag
    };
    let (one, other) = (bag(&ones), bag(&others));
    out.ordered("set", &refs(&one), &refs(&other));
    let (one, other) = (without_system(&expected["final"]), without_system(&actual["final"]));
    for key in one.keys().chain(other.keys()).collect::<BTreeSet<_>>() {
        if !rules.skip.contains(&format!("final.{key}")) {
            out.same(format!("final.{key}"), one.get(key), other.get(key));
        }
    }
}

/// Returns the ids of tool calls that share a message of the model with other calls, and so run concurrently.
fn together(items: &[Value]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for item in items.iter().filter(|item| kind(item) == "entry") {
        let message = &item["entry"]["message"];
        if message["role"] != "assistant" {
            continue;
        }
        let blocks = message["content"].as_array().into_iter().flatten();
        let calls: Vec<_> = blocks.filter(|block| block["type"] == "toolCall").collect();
        if calls.len() > 1 {
            for id in calls.iter().filter_map(|call| call["id"].as_str()) {
                if !found.iter().any(|known| known == id) {
                    found.push(id.to_owned());
                }
            }
        }
    }
    found
}

/// Removes system messages from the tree of entries; the children of a removed message become children of its parent.
fn without_system(last: &Value) -> Map<String, Value> {
    let mut last = last.as_object().cloned().unwrap_or_default();
    let entries = last.get("entries").and_then(Value::as_array).cloned().unwrap_or_default();
    let is_system = |index: usize| entries.get(index).is_some_and(|entry| entry["role"] == "system");
    let kept: Vec<usize> = (0..entries.len()).filter(|index| !is_system(*index)).collect();
    let place = |parent: Option<&Value>| -> Option<Value> {
        let mut parent = parent?.clone();
        // Bounds the loop for a file whose entries do not form a tree.
        for _ in 0..=entries.len() {
            let Some(index) = parent.as_u64().and_then(|index| usize::try_from(index).ok()) else { break };
            if !is_system(index) {
                return kept.iter().position(|known| *known == index).map(Value::from);
            }
            parent = entries[index].get("parent").cloned().unwrap_or_default();
        }
        Some(parent)
    };
    let shown = kept.iter().map(|index| {
        let mut entry = entries[*index].as_object().cloned().unwrap_or_default();
        let parent = place(entry.get("parent"));
        set(&mut entry, "parent", parent);
        Value::Object(entry)
    });
    let shown = shown.collect();
    let leaf = place(last.get("leaf"));
    set(&mut last, "leaf", leaf);
    last.insert("entries".to_owned(), shown);
    last
}

fn set(members: &mut Map<String, Value>, key: &str, value: Option<Value>) {
    match value {
        Some(value) => drop(members.insert(key.to_owned(), value)),
        None => drop(members.remove(key)),
    }
}

fn refs(items: &[Value]) -> Vec<&Value> {
    items.iter().collect()
}
