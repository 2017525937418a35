//! A cache of entries: all unwritten ones, and the most recently read ones within a size limit.

use super::entry::Entry;
use pijs_protocol::guard;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Bytes of lines whose entries are cached. A shorter session is cached completely; of a longer one, usually the part that the
/// model sees.
pub(super) const MOST_HELD: u64 = 32 << 20;

/// Cached entries by their index.
#[derive(Debug, Default)]
pub(super) struct Held {
    entries: BTreeMap<usize, (Arc<Entry>, u64)>,
    /// Indices in order of insertion.
    order: VecDeque<usize>,
    bytes: u64,
}

impl Held {
    pub(super) fn get(&self, at: usize) -> Option<Arc<Entry>> {
        self.entries.get(&at).map(|(entry, _)| Arc::clone(entry))
    }

    /// Adds an entry with the length of its line in bytes.
    pub(super) fn hold(&mut self, at: usize, entry: Arc<Entry>, bytes: u64) {
        if self.entries.insert(at, (entry, bytes)).is_none() {
            self.order.push_back(at);
            self.bytes += bytes;
        }
    }

    /// Evicts the oldest entries until the limit is met. Stops at an entry that is not written yet.
    pub(super) fn let_go(&mut self, is_written: impl Fn(usize) -> bool) {
        while self.bytes > MOST_HELD
            && guard!(SessionCachedBytes)
            && let Some(oldest) = self.order.front().copied().filter(|oldest| is_written(*oldest))
        {
            self.order.pop_front();
            self.bytes -= self.entries.remove(&oldest).map_or(0, |(_, bytes)| bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Body, EntryId};

    fn entry(id: &str) -> Arc<Entry> {
        let body = Body::SessionInfo { name: None };
        Arc::new(Entry {
            id: EntryId(id.to_owned()),
            parent: None,
            timestamp: String::new(),
            body,
            authors: Default::default(),
            is_edited: false,
        })
    }

    #[test]
    fn the_oldest_go_first_and_nothing_goes_that_is_written_nowhere() {
        let mut held = Held::default();
        for at in 0..3 {
            held.hold(at, entry("e"), MOST_HELD / 2);
        }
        held.let_go(|at| at != 0);
        assert!((0..3).all(|at| held.get(at).is_some()), "the first is not written");
        held.let_go(|_| true);
        assert_eq!((0..3).map(|at| held.get(at).is_some()).collect::<Vec<_>>(), [false, true, true]);
        held.hold(3, entry("large"), MOST_HELD * 2);
        held.let_go(|_| true);
        assert!((0..4).all(|at| held.get(at).is_none()), "one that does not fit is not held");
    }
}
