//! Limits how much of an extension's emissions may wait in the queues of others.
//!
//! An emission on the event bus stays in the queue of each other realm until that realm has run it. An extension that emits
//! faster than the others run would fill the host's memory, so emissions past the limit are dropped. The host reports this once,
//! and again only after the others have caught up.

use std::cell::Cell;
use std::rc::Rc;

/// Maximum number of pending emissions of one extension; far more than a burst of a well-behaved extension.
const MOST: usize = 10_000;
/// Maximum total weight of these emissions, in bytes; an emission counts once for each listener.
const MAX_BYTES: usize = 256 << 20;

/// Counts the pending emissions of one extension.
#[derive(Debug, Default)]
pub(crate) struct EmissionQuota(Rc<Outstanding>);

#[derive(Debug, Default)]
struct Outstanding {
    emissions: Cell<usize>,
    bytes: Cell<usize>,
    /// Whether the extension has been warned about dropped emissions.
    said: Cell<bool>,
}

/// Permit of one queued emission, shared by all queues that hold it.
#[derive(Debug)]
pub(crate) struct EmissionPermit {
    of: Rc<Outstanding>,
    bytes: usize,
}

impl Drop for EmissionPermit {
    fn drop(&mut self) {
        let waiting = &self.of;
        waiting.emissions.set(waiting.emissions.get() - 1);
        waiting.bytes.set(waiting.bytes.get() - self.bytes);
        if waiting.emissions.get() == 0 {
            waiting.said.set(false);
        }
    }
}

impl EmissionQuota {
    /// Admits an emission of this weight, summed over all queues. A single emission is always admitted, however large.
    pub(crate) fn admit(&self, bytes: usize) -> Option<Rc<EmissionPermit>> {
        let Outstanding { emissions, bytes: held, .. } = &*self.0;
        let fits = emissions.get() < MOST && held.get().saturating_add(bytes) <= MAX_BYTES;
        if !fits && emissions.get() > 0 && pijs_protocol::guard!(BusBacklog) {
            return None;
        }
        emissions.set(emissions.get() + 1);
        held.set(held.get() + bytes);
        Some(Rc::new(EmissionPermit { of: Rc::clone(&self.0), bytes }))
    }

    /// Returns whether this is the first refusal since the listeners last caught up.
    pub(crate) fn is_first_refusal(&self) -> bool {
        !self.0.said.replace(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_counted_until_the_last_queue_has_run_it() {
        let emissions = EmissionQuota::default();
        let many: Vec<_> = (0..MOST).map(|_| emissions.admit(1).expect("there is room")).collect();
        assert!(emissions.admit(1).is_none());
        assert!(emissions.is_first_refusal() && !emissions.is_first_refusal());
        let elsewhere = Rc::clone(&many[0]);
        drop(many);
        assert!(emissions.admit(MAX_BYTES).is_none(), "one queue still has an emission");
        drop(elsewhere);
        let large = emissions.admit(MAX_BYTES + 1);
        assert!(large.is_some() && emissions.admit(1).is_none() && emissions.is_first_refusal());
    }
}
