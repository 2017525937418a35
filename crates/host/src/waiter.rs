//! Tracks the callers that wait for an extension, and how long they have waited.

use pijs_protocol::manifest::CapabilityManifest;
use pijs_protocol::message::ErrorReport;
use pijs_protocol::{CallId, EntryIndex, Termination};
use std::collections::BTreeSet;
use tokio::sync::oneshot;

/// Kind of pending work that could settle a promise of an extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PendingWork {
    /// A turn, a queued macrotask, or a call that ends by itself.
    InFlight,
    /// Input of the user (a key or a command), who can also abort.
    User,
    /// A timer, a connection, or another extension, any of which may never finish.
    Indefinite,
    Nothing,
}

/// Start of the time without progress of an extension.
#[derive(Debug, Default)]
pub(crate) struct IdleTime {
    /// Time in microseconds since when nothing has been pending.
    pub(crate) nothing: Option<u64>,
    /// Time in microseconds since when at most indefinite work has been pending.
    pub(crate) waits: Option<u64>,
}

impl IdleTime {
    /// Resets the time without any pending work after a turn; the other time goes on, because a turn does not end a wait.
    pub(crate) fn turns(&mut self) {
        self.nothing = None;
    }

    /// Resets both times when a call that ends by itself starts or ends.
    pub(crate) fn calls(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn note(&mut self, prospect: PendingWork, now_us: u64) {
        match prospect {
            PendingWork::InFlight | PendingWork::User => *self = Self::default(),
            PendingWork::Indefinite => {
                self.nothing = None;
                self.waits.get_or_insert(now_us);
            }
            PendingWork::Nothing => {
                self.nothing.get_or_insert(now_us);
                self.waits.get_or_insert(now_us);
            }
        }
    }
}

/// A caller that waits for an answer.
pub(crate) struct Waiter<T> {
    pub(crate) done: oneshot::Sender<Result<T, Termination>>,
    pub(crate) since_us: u64,
    /// Whether the wait is for a handler of an event that starts the session.
    pub(crate) is_start: bool,
}

impl<T> Waiter<T> {
    pub(crate) fn new(done: oneshot::Sender<Result<T, Termination>>, since_us: u64) -> Self {
        Self { done, since_us, is_start: false }
    }

    /// Marks the wait as one for a handler of an event that starts the session.
    pub(crate) fn of_start(self, is_start: bool) -> Self {
        Self { is_start, ..self }
    }

    /// Answers the caller. A dropped receiver is not an error.
    pub(crate) fn answer(self, value: Result<T, Termination>) {
        let _ = self.done.send(value);
    }
}

/// Calls of an extension that wait for outside events.
pub(crate) type Listening = BTreeSet<CallId>;

/// Caller that waits for an entry to load.
pub(crate) struct LoadWaiter {
    pub(crate) entry: EntryIndex,
    pub(crate) done: oneshot::Sender<EntryLoaded>,
    pub(crate) since_us: u64,
}

/// Result of loading an entry.
pub(crate) enum EntryLoaded {
    Ready(Option<CapabilityManifest>),
    Failed(ErrorReport),
    Ended(Termination),
}
