//! Waiters for the resolution of proposals, keyed by run and path.
//!
//! The store does not wait: it reports at once whether there is anything to wait for, and returns the waiters to wake when an
//! operation sets an entry to a state other than proposed. The caller implements the waiting, for example by a pending promise or
//! a task.

use std::collections::BTreeMap;

/// Id of a waiter, assigned by its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WaiterId(pub u64);

/// A resolved entry and its waiters, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Woken {
    /// Id of the run.
    pub run_id: i64,
    /// The normalised path.
    pub path: String,
    /// The waiters to wake.
    pub waiters: Vec<WaiterId>,
}

/// All waiters of one store.
#[derive(Debug, Default)]
pub struct Waiters {
    waiting: BTreeMap<(i64, String), Vec<WaiterId>>,
}

impl Waiters {
    /// Adds a waiter; several may wait for the same entry.
    pub fn park(&mut self, run_id: i64, path: String, waiter: WaiterId) {
        self.waiting.entry((run_id, path)).or_default().push(waiter);
    }

    /// Removes and returns the waiters of an entry.
    pub fn take(&mut self, run_id: i64, path: &str) -> Option<Woken> {
        if self.waiting.is_empty() {
            return None;
        }
        let key = (run_id, path.to_owned());
        let waiters = self.waiting.remove(&key)?;
        Some(Woken { run_id, path: key.1, waiters })
    }

    /// Removes a waiter.
    pub fn leave(&mut self, waiter: WaiterId) {
        self.waiting.retain(|_, waiters| {
            waiters.retain(|one| *one != waiter);
            !waiters.is_empty()
        });
    }

    /// Returns the number of waiters.
    pub fn len(&self) -> usize {
        self.waiting.values().map(Vec::len).sum()
    }

    /// Returns whether there are no waiters.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}
