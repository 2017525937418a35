//! Readable state: session data that extensions read through `getEntries`, `isIdle`, `model` and similar members.
//!
//! A session has one versioned snapshot. Every realm has a copy; each delivery and each answer to a synchronous hostcall brings
//! the changes since the copy's version. Reading the copy costs no hostcall and no ledger line. [`ReadableState`] is `Send`, so
//! that a connector which appends a session entry can publish it before its call returns.
//!
//! Invariants: versions only grow; applying [`ReadableState::since`] to a copy of that version yields the current snapshot.
//!
//! `ctx` reads these members: `cwd`, `mode`, `hasUI`, `isIdle`, `hasPendingMessages`, `model`, `models` (`{all, asked, providers,
//! error?}`; models of the providers in `asked` are fetched by `session.list_models` when an extension needs them),
//! `scopedModels`, `thinkingLevel`, `systemPrompt`, `systemPromptOptions`, `commands`, `contextUsage`, `projectTrusted` and
//! `session` (`{id, file, dir, cwd, header, leafId, persisted, name, count, absent, partial}`). The host itself keeps `flags` and
//! `signal`. `pi.appendEntry` is a synchronous `session.append_entry`.

use pijs_protocol::wire::{EntriesDelta, Json, StateDelta};
use serde_json::{Map, Value};
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Session state that extensions read without a hostcall.
///
/// Members the pi dialect reads: `cwd`, `mode`, `hasUI`, `isIdle`, `hasPendingMessages`, `model`,
/// `scopedModels`, `thinkingLevel`, `systemPrompt`, `contextUsage`, `projectTrusted`, `session`
/// (`{id, file, dir, header, leafId}`), and `flags`, which the host keeps itself.
///
/// ```
/// use pijs_host::ReadableState;
/// let state = ReadableState::default();
/// let before = state.version();
/// state.set("isIdle", true);
/// let difference = state.since(before).expect("something changed");
/// assert_eq!(difference.set["isIdle"].text(), "true");
/// assert!(state.since(state.version()).is_none());
/// ```
#[derive(Debug, Clone, Default)]
pub struct ReadableState(Arc<SharedState>);

#[derive(Debug, Default)]
struct SharedState {
    /// Copy of `Snapshot::version`, so that an unchanged state costs one load per delta.
    version: AtomicU64,
    snapshot: Mutex<Snapshot>,
}

#[derive(Debug, Default)]
struct Snapshot {
    version: u64,
    members: BTreeMap<String, Member>,
    entries: Vec<Json>,
    /// Truncations and appends since the start: (version, number of entries kept from before).
    cuts: Vec<(u64, usize)>,
}

#[derive(Debug, Default)]
struct Member {
    /// Version of the member's last change.
    version: u64,
    value: Value,
    /// JSON text, created when the first realm gets it and shared by all realms.
    text: OnceCell<Json>,
}

impl Member {
    fn text(&self) -> Json {
        self.text.get_or_init(|| Json::from(&self.value)).clone()
    }
}

impl ReadableState {
    /// Returns the current version; the empty state has version 0.
    pub fn version(&self) -> u64 {
        self.0.version.load(Ordering::Acquire)
    }

    /// Replaces a member. Does nothing if the value is equal.
    pub fn set(&self, key: &str, value: impl Into<Value>) {
        let value = value.into();
        let mut snapshot = self.lock();
        if snapshot.members.get(key).is_some_and(|known| known.value == value) {
            return;
        }
        let version = self.advance(&mut snapshot);
        snapshot.members.insert(key.to_owned(), Member { version, value, text: OnceCell::new() });
    }

    /// Replaces one entry of a member that is an object, without copying its other entries. Does nothing if the value is equal.
    pub(crate) fn set_entry(&self, key: &str, entry: &str, value: Value) {
        let mut snapshot = self.lock();
        let known = snapshot.members.get(key).and_then(|member| member.value.get(entry));
        if known == Some(&value) {
            return;
        }
        let version = self.advance(&mut snapshot);
        let member = snapshot.members.entry(key.to_owned()).or_default();
        member.version = version;
        member.text.take();
        match &mut member.value {
            Value::Object(entries) => _ = entries.insert(entry.to_owned(), value),
            other => *other = Value::Object(Map::from_iter([(entry.to_owned(), value)])),
        }
    }

    /// Returns a member's value.
    pub fn get(&self, key: &str) -> Option<Value> {
        self.lock().members.get(key).map(|member| member.value.clone())
    }

    /// Truncates the session's entry list to `delta.keep` entries and appends new ones.
    pub fn change_entries(&self, delta: EntriesDelta) {
        let mut snapshot = self.lock();
        let keep = delta.keep.min(snapshot.entries.len());
        if keep == snapshot.entries.len() && delta.append.is_empty() {
            return;
        }
        let version = self.advance(&mut snapshot);
        snapshot.entries.truncate(keep);
        snapshot.entries.extend(delta.append);
        // A deeper truncation makes earlier, shallower ones redundant, so the list stays short: appends leave one record per
        // version only while nothing reads the state.
        while snapshot.cuts.last().is_some_and(|(_, earlier)| *earlier >= keep) {
            snapshot.cuts.pop();
        }
        snapshot.cuts.push((version, keep));
    }

    /// Returns the changes since version `seen`; `None` if that is the current version.
    pub fn since(&self, seen: u64) -> Option<StateDelta> {
        if self.version() == seen {
            return None;
        }
        let snapshot = self.lock();
        let changed = snapshot.members.iter().filter(|(_, member)| member.version > seen);
        let set = changed.map(|(key, member)| (key.clone(), member.text())).collect();
        // The copy keeps the entries that no later change has touched. Both numbers of a pair in `cuts` rise along the list.
        let first = snapshot.cuts.partition_point(|(version, _)| *version <= seen);
        let entries = snapshot
            .cuts
            .get(first)
            .map(|(_, keep)| EntriesDelta { keep: *keep, append: snapshot.entries[*keep..].to_vec() });
        Some(StateDelta { version: snapshot.version, set, entries })
    }

    fn advance(&self, snapshot: &mut Snapshot) -> u64 {
        snapshot.version += 1;
        self.0.version.store(snapshot.version, Ordering::Release);
        snapshot.version
    }

    fn lock(&self) -> MutexGuard<'_, Snapshot> {
        // A panic while holding the lock leaves no partial change that matters: each change is one insertion after the version
        // was increased.
        self.0.snapshot.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn apply(copy: &mut (u64, Vec<Json>), state: &ReadableState) {
        if let Some(delta) = state.since(copy.0) {
            copy.0 = delta.version;
            if let Some(entries) = delta.entries {
                copy.1.truncate(entries.keep);
                copy.1.extend(entries.append);
            }
        }
    }

    fn change(keep: usize, append: &[u32]) -> EntriesDelta {
        EntriesDelta { keep, append: append.iter().map(|n| json!(n).into()).collect() }
    }

    #[test]
    fn a_copy_is_brought_up_to_date_from_any_version() {
        let changes =
            [change(0, &[1, 2]), change(2, &[3]), change(1, &[4, 5]), change(3, &[6]), change(0, &[]), change(0, &[7])];
        for start in 0..=changes.len() {
            let state = ReadableState::default();
            let mut copy = (0, Vec::new());
            for (index, delta) in changes.iter().enumerate() {
                if index == start {
                    apply(&mut copy, &state);
                }
                state.change_entries(delta.clone());
            }
            apply(&mut copy, &state);
            assert_eq!(copy.1, [json!(7).into()], "copy taken before change {start}");
        }
    }

    #[test]
    fn appends_send_only_what_is_new() {
        let state = ReadableState::default();
        state.change_entries(change(0, &[1, 2, 3]));
        let seen = state.version();
        state.change_entries(change(3, &[4]));
        let delta = state.since(seen).expect("changed");
        assert_eq!(delta.entries, Some(change(3, &[4])));
    }

    #[test]
    fn an_equal_value_is_no_change() {
        let state = ReadableState::default();
        state.set("mode", "print");
        let seen = state.version();
        state.set("mode", "print");
        assert!(state.since(seen).is_none());
    }

    #[test]
    fn entries_of_a_member_change_one_by_one() {
        let state = ReadableState::default();
        state.set_entry("flags", "a", json!(1));
        state.set_entry("flags", "b", json!(2));
        assert_eq!(state.get("flags"), Some(json!({ "a": 1, "b": 2 })));
        let seen = state.version();
        state.set_entry("flags", "b", json!(2));
        assert!(state.since(seen).is_none());
        state.set_entry("flags", "b", json!(null));
        assert_eq!(state.since(seen).expect("changed").set["flags"], json!({ "a": 1, "b": null }).into());
    }
}
