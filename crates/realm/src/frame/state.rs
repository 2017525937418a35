//! Encodes state deltas as the JSON texts they consist of, in as many frames as necessary.

use super::{FrameError, STATE_BYTES};
use pijs_protocol::wire::{EntriesDelta, Json, StateDelta};
use std::mem;

/// Takes the texts of members and entries out of a state delta.
pub(super) fn take_texts(state: &mut StateDelta) -> [Vec<Json>; 2] {
    let members = state.set.values_mut().map(|member| mem::replace(member, Json::from_text("0"))).collect();
    let entries = state.entries.as_mut().map(|entries| mem::take(&mut entries.append));
    [members, entries.unwrap_or_default()]
}

/// Restores the texts of a state delta.
pub(super) fn put_texts(state: &mut StateDelta, [members, entries]: [Vec<Json>; 2]) -> Result<(), FrameError> {
    if members.len() != state.set.len() || state.entries.is_none() && !entries.is_empty() {
        return Err(FrameError::Head("a state delta with more or fewer texts than members".to_owned()));
    }
    for (member, text) in state.set.values_mut().zip(members) {
        *member = text;
    }
    if let Some(known) = &mut state.entries {
        known.append = entries;
    }
    Ok(())
}

/// Splits a state delta that is too long for one frame, and returns all parts except the last. [`joined`] combines the parts.
pub(super) fn first_parts(state: &mut StateDelta) -> Vec<StateDelta> {
    let members = state.set.values().map(|member| member.text().len());
    let entries = state.entries.iter().flat_map(|entries| &entries.append).map(|entry| entry.text().len());
    if members.chain(entries).sum::<usize>() <= STATE_BYTES {
        return Vec::new();
    }
    let mut parts =
        DeltaParts { version: state.version, whole: Vec::new(), last: StateDelta::default(), room: STATE_BYTES };
    for (name, member) in mem::take(&mut state.set) {
        parts.part_with_room(member.text().len()).set.insert(name, member);
    }
    if let Some(EntriesDelta { mut keep, append }) = state.entries.take() {
        // Set even if no entry follows the kept ones.
        parts.part_with_room(0).entries = Some(EntriesDelta { keep, append: Vec::new() });
        for entry in append {
            let part = parts.part_with_room(entry.text().len());
            part.entries.get_or_insert(EntriesDelta { keep, append: Vec::new() }).append.push(entry);
            keep += 1;
        }
    }
    *state = StateDelta { version: parts.version, ..parts.last };
    parts.whole
}

/// Collects the parts of a state delta.
struct DeltaParts {
    version: u64,
    whole: Vec<StateDelta>,
    last: StateDelta,
    /// Remaining size of the last part, in bytes.
    room: usize,
}

impl DeltaParts {
    /// Returns the last part, or a new one if the last part has no room for `bytes` bytes.
    fn part_with_room(&mut self, bytes: usize) -> &mut StateDelta {
        let is_begun = self.room < STATE_BYTES;
        if bytes > self.room && is_begun {
            let part = mem::take(&mut self.last);
            self.whole.push(StateDelta { version: self.version, ..part });
            self.room = STATE_BYTES;
        }
        self.room = self.room.saturating_sub(bytes);
        &mut self.last
    }
}

/// Combines two consecutive state deltas.
#[cfg(target_os = "linux")]
pub(crate) fn joined(mut first: StateDelta, next: StateDelta) -> StateDelta {
    first.version = next.version;
    first.set.extend(next.set);
    first.entries = match (first.entries, next.entries) {
        (Some(mut known), Some(change)) if change.keep >= known.keep => {
            known.append.truncate(change.keep - known.keep);
            known.append.extend(change.append);
            Some(known)
        }
        (known, None) => known,
        (_, change) => change,
    };
    first
}
