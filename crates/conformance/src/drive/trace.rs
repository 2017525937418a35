//! The trace of a run: its events in order. Every observer records its events here immediately.

use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The trace of one run; clones share the items.
#[derive(Clone)]
pub(super) struct Trace(Arc<Mutex<TraceState>>);

struct TraceState {
    items: Vec<Item>,
    /// Item types that are not recorded.
    dropped: BTreeSet<String>,
    /// Time of the latest item.
    latest: Instant,
    /// Ids of session entries, in the order they were appended.
    entry_ids: Vec<String>,
    /// Number of running programs of `pi.exec`.
    running: usize,
    is_closed: bool,
}

struct Item {
    members: Map<String, Value>,
    is_kept: bool,
}

/// Index of an item, for adding members later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ItemIndex(usize);

impl Trace {
    pub(super) fn new(dropped: &[String]) -> Self {
        Self(Arc::new(Mutex::new(TraceState {
            items: Vec::new(),
            dropped: dropped.iter().cloned().collect(),
            latest: Instant::now(),
            entry_ids: Vec::new(),
            running: 0,
            is_closed: false,
        })))
    }

    /// Adds an item of type `t`; members that are null are kept.
    pub(super) fn record(&self, t: &str, members: Value) -> ItemIndex {
        let mut inner = self.lock();
        let mut item = Map::from_iter([("t".to_owned(), json!(t))]);
        if let Value::Object(members) = members {
            item.extend(members);
        }
        let is_kept = !inner.dropped.contains(t) && !inner.is_closed;
        inner.items.push(Item { members: item, is_kept });
        inner.latest = Instant::now();
        ItemIndex(inner.items.len() - 1)
    }

    /// Sets a member of an item.
    pub(super) fn set(&self, index: ItemIndex, member: &str, value: Value) {
        let mut inner = self.lock();
        if !inner.is_closed {
            inner.items[index.0].members.insert(member.to_owned(), value);
        }
    }

    /// Appends to a member of an item that is a list.
    pub(super) fn push(&self, index: ItemIndex, member: &str, value: Value) {
        let mut inner = self.lock();
        let list = inner.items[index.0].members.entry(member).or_insert_with(|| json!([]));
        if let Value::Array(list) = list {
            list.push(value);
        }
    }

    pub(super) fn entry_appended(&self, id: &str) {
        self.lock().entry_ids.push(id.to_owned());
    }

    pub(super) fn entry_ids(&self) -> Vec<String> {
        self.lock().entry_ids.clone()
    }

    pub(super) fn program_started(&self) {
        self.lock().running += 1;
    }

    pub(super) fn program_ended(&self) {
        let mut inner = self.lock();
        inner.running = inner.running.saturating_sub(1);
        inner.latest = Instant::now();
    }

    pub(super) fn runs_programs(&self) -> bool {
        self.lock().running > 0
    }

    /// Resets the time since the latest item without recording one.
    pub(super) fn touch(&self) {
        self.lock().latest = Instant::now();
    }

    /// Returns the time since the latest item.
    pub(super) fn quiet_for(&self) -> Duration {
        self.lock().latest.elapsed()
    }

    /// Takes the items. Nothing is recorded afterwards.
    pub(super) fn close(&self) -> Vec<Value> {
        let mut inner = self.lock();
        inner.is_closed = true;
        let items = std::mem::take(&mut inner.items);
        items.into_iter().filter(|item| item.is_kept).map(|item| Value::Object(item.members)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, TraceState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns an object without the members that are null.
pub(super) fn present(mut object: Value) -> Value {
    if let Value::Object(members) = &mut object {
        members.retain(|_, value| !value.is_null());
    }
    object
}

/// Returns the first line of a text, the form in which errors are recorded.
pub(super) fn first_line(text: &str) -> &str {
    text.split('\n').next().unwrap_or_default()
}

/// Returns a message in its compared form: without time, usage and provider; large images as hashes, and system messages as
/// names.
pub(super) fn message(message: &Value) -> Value {
    const LEFT_OUT: [&str; 11] = [
        "timestamp",
        "usage",
        "api",
        "provider",
        "model",
        "diagnostics",
        "responseId",
        "responseModel",
        "sections",
        "toolsAdded",
        "toolsRemoved",
    ];
    let Value::Object(members) = message else { return message.clone() };
    let kept = members.iter().filter(|(key, _)| !LEFT_OUT.contains(&key.as_str()));
    let mut shown: Map<String, Value> =
        kept.map(|(key, value)| (key.clone(), if key == "content" { content(value) } else { value.clone() })).collect();
    if message["role"] == "system" {
        let listed = ["sections", "toolsAdded", "toolsRemoved"];
        shown.extend(listed.iter().filter_map(|key| Some(((*key).to_owned(), names(members.get(*key)?)))));
    }
    Value::Object(shown)
}

/// Returns the names in a member of a system message: its keys, or the `name` of each item.
fn names(value: &Value) -> Value {
    match value {
        Value::Object(sections) => sections.keys().cloned().collect(),
        Value::Array(tools) => tools.iter().map(|tool| tool["name"].clone()).collect(),
        other => other.clone(),
    }
}

/// Returns content blocks with large images as hashes.
pub(super) fn content(content: &Value) -> Value {
    let Value::Array(blocks) = content else { return content.clone() };
    blocks
        .iter()
        .map(|block| match (block["type"].as_str(), block["data"].as_str()) {
            (Some("image"), Some(data)) => {
                let data = if data.len() > 200 { format!("<base64:{}>", short_hash(data)) } else { data.to_owned() };
                present(json!({"type": "image", "mimeType": block["mimeType"], "data": data}))
            }
            _ => block.clone(),
        })
        .collect()
}

/// Returns the first 16 hexadecimal digits of the SHA-256.
pub(super) fn short_hash(text: &str) -> String {
    use sha2::{Digest, Sha256};
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}
