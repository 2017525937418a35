//! Lends the host of the running turn to the imports of a component.

use pijs_protocol::{HostCall, SyncReply};
use std::mem;
use std::ptr::NonNull;

/// Executes the synchronous hostcalls of a running turn.
pub trait Hostcalls {
    /// Executes a single call. The component waits for the reply.
    fn call(&mut self, call: HostCall) -> SyncReply;
}

/// Holds the host of the running turn; empty between turns.
#[derive(Default)]
pub(crate) struct HostSlot {
    lent: Option<NonNull<dyn Hostcalls>>,
}

// SAFETY: the pointer exists only while the turn that lent it runs, on the thread of that turn, because an entered store stays
// on its thread. Between turns there is nothing to send.
unsafe impl Send for HostSlot {}

impl HostSlot {
    /// Puts `host` into the slot.
    ///
    /// # Safety
    ///
    /// The caller must take the host back with [`HostSlot::clear`] before the borrow of `host` ends, even if the turn unwinds.
    pub(crate) unsafe fn lend(&mut self, host: &mut dyn Hostcalls) {
        let host: NonNull<dyn Hostcalls + '_> = NonNull::from(host);
        // SAFETY: only the lifetime changes; the caller clears the slot before the borrow ends.
        self.lent =
            Some(unsafe { mem::transmute::<NonNull<dyn Hostcalls + '_>, NonNull<dyn Hostcalls + 'static>>(host) });
    }

    /// Takes the host back.
    pub(crate) fn clear(&mut self) {
        self.lent = None;
    }

    /// Calls the lent host; `None` outside a turn.
    pub(crate) fn call(&mut self, call: HostCall) -> Option<SyncReply> {
        let mut host = self.lent.take()?;
        // SAFETY: the pointer is live by the contract of `lend`. It is unique, because it was taken out of the slot, the only
        // place that contains it.
        let reply = unsafe { host.as_mut() }.call(call);
        self.lent = Some(host);
        Some(reply)
    }
}
