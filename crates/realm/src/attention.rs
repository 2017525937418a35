//! What a realm in another process needs its host to watch.

use std::os::fd::OwnedFd;
use std::time::Instant;

/// What a turn that runs in another process waits for: when any of it happens, [`Realm::resume`] has something to do.
///
/// [`Realm::resume`]: crate::Realm::resume
#[derive(Debug)]
pub struct Attention {
    /// The worker wrote, took what was written to it, or died: readable or writable. `None` when there was no
    /// file descriptor left for it; look every few milliseconds then.
    pub socket: Option<OwnedFd>,
    /// Time is up. `None` while the host owes the realm an answer.
    pub by: Option<Instant>,
}
