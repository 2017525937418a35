//! A cache of entries: all unwritten ones, and the most recently read ones within a size limit.

use super::entry::Entry;
use pijs_protocol::guard;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Total size in bytes of the lines whose entries are cached. A shorter session is cached completely; of a longer one, usually
/// the part that the model sees.
pub(super) const CACHE_BYTES: u64 = 32 << 20;

/// Cached entries by their index.
#[derive(Debug, Default)]
pub(super) struct EntryCache {
    entries: BTreeMap<usize, (Arc<Entry>, u64)>,
    /// Indices in order of insertion.
    order: VecDeque<usize>,
    bytes: u64,
}

impl EntryCache {
    pub(super) fn get(&self, at: usize) -> Option<Arc<Entry>> {
        self.entries.get(&at).map(|(entry, _)| Arc::clone(entry))
    }

    /// Adds an entry with the length of its line in bytes.
    pub(super) fn insert(&mut self, at: usize, entry: Arc<Entry>, bytes: u64) {
        if self.entries.insert(at, (entry, bytes)).is_none() {
            self.order.push_back(at);
            self.bytes += bytes;
        }
    }

    /// Evicts the oldest entries until the limit is met. Stops at an entry that is not written yet.
    pub(super) fn evict(&mut self, is_written: impl Fn(usize) -> bool) {
        while self.bytes > CACHE_BYTES
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
    fn the_oldest_written_entries_are_evicted_first() {
        let mut cache = EntryCache::default();
        for at in 0..3 {
            cache.insert(at, entry("e"), CACHE_BYTES / 2);
        }
        cache.evict(|at| at != 0);
        assert!((0..3).all(|at| cache.get(at).is_some()), "the first is not written");
        cache.evict(|_| true);
        assert_eq!((0..3).map(|at| cache.get(at).is_some()).collect::<Vec<_>>(), [false, true, true]);
        cache.insert(3, entry("large"), CACHE_BYTES * 2);
        cache.evict(|_| true);
        assert!((0..4).all(|at| cache.get(at).is_none()), "one that does not fit is not cached");
    }
}
