//! What a realm in another process needs its host to watch.

use std::os::fd::OwnedFd;
use std::time::Instant;

/// What a turn that runs in another process waits for: when any of it happens, [`Realm::resume`] has something to do.
///
/// [`Realm::resume`]: crate::Realm::resume
#[derive(Debug)]
pub enum Attention {
    /// It asks and is answered without a pause: look again as soon as others had their turn.
    AtOnce,
    /// It takes its time.
    When {
        /// The worker wrote, took what was written to it, or died: readable or writable. `None` when there was no
        /// file descriptor left for it; look every few milliseconds then.
        socket: Option<OwnedFd>,
        /// Time is up. `None` while the host owes the realm an answer.
        by: Option<Instant>,
    },
}
