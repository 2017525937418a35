//! The events that a host watches on behalf of a realm in another process.

use std::os::fd::OwnedFd;
use std::time::Instant;

/// The event that a turn in another process waits for: when any of these happens, call [`Realm::resume`].
///
/// [`Realm::resume`]: crate::Realm::resume
#[derive(Debug)]
pub enum Attention {
    /// The worker makes calls in quick succession: resume after other realms had their turn.
    AtOnce,
    /// The turn takes longer.
    When {
        /// Readable or writable when the worker sent data, accepted data, or died. `None` without a free file descriptor; poll
        /// every few milliseconds then.
        socket: Option<OwnedFd>,
        /// Deadline of the turn. `None` while the host owes the realm an answer.
        by: Option<Instant>,
    },
}
