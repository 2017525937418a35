//! Describes the events that a host watches on behalf of a realm in another process.

use std::os::fd::OwnedFd;
use std::time::Instant;

/// The event that a turn in another process waits for. When it happens, call [`Realm::resume`].
///
/// [`Realm::resume`]: crate::Realm::resume
#[derive(Debug)]
pub enum Attention {
    /// The worker makes calls in quick succession: resume after the other realms have had their turn.
    AtOnce,
    /// The turn takes longer: wait for the first of these.
    When {
        /// Becomes readable or writable when the worker sent data, accepted data, or died. `None` if no file descriptor was free;
        /// then poll every few milliseconds.
        socket: Option<OwnedFd>,
        /// Deadline of the turn. `None` while the host still has to answer a call of the realm.
        by: Option<Instant>,
    },
}
