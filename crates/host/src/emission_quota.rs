//! How much of what one extension emits may wait in the queues of others.
//!
//! An emission on the event bus lies in the queue of each other realm until that realm has run it. One that emits faster
//! than the others listen would fill the host's memory and keep them busy with nothing else, so past the limit its
//! emissions are left out, and it is told so once until they have caught up.

use std::cell::Cell;
use std::rc::Rc;

/// Emissions of one extension that somebody has not run yet: far more than a burst of an honest one.
const MOST: usize = 10_000;
/// Limits their total weight, copies for each listener included.
const MOST_BYTES: usize = 256 << 20;

/// The emissions of one extension that wait.
#[derive(Debug, Default)]
pub(crate) struct Backlog(Rc<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    emissions: Cell<usize>,
    bytes: Cell<usize>,
    /// It was told that some are left out.
    said: Cell<bool>,
}

/// One emission on its way; every queue that holds it holds this.
#[derive(Debug)]
pub(crate) struct Ticket {
    of: Rc<Waiting>,
    bytes: usize,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let waiting = &self.of;
        waiting.emissions.set(waiting.emissions.get() - 1);
        waiting.bytes.set(waiting.bytes.get() - self.bytes);
        if waiting.emissions.get() == 0 {
            waiting.said.set(false);
        }
    }
}

impl Backlog {
    /// A place for an emission that takes this much in all queues together; one is always taken, however large.
    pub(crate) fn admit(&self, bytes: usize) -> Option<Rc<Ticket>> {
        let Waiting { emissions, bytes: held, .. } = &*self.0;
        let fits = emissions.get() < MOST && held.get().saturating_add(bytes) <= MOST_BYTES;
        if !fits && emissions.get() > 0 && pijs_protocol::guard!(BusBacklog) {
            return None;
        }
        emissions.set(emissions.get() + 1);
        held.set(held.get() + bytes);
        Some(Rc::new(Ticket { of: Rc::clone(&self.0), bytes }))
    }

    /// Whether it is the first that is left out since all had caught up.
    pub(crate) fn is_first_refusal(&self) -> bool {
        !self.0.said.replace(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_counted_until_the_last_queue_has_run_it() {
        let backlog = Backlog::default();
        let many: Vec<_> = (0..MOST).map(|_| backlog.admit(1).expect("there is room")).collect();
        assert!(backlog.admit(1).is_none());
        assert!(backlog.is_first_refusal() && !backlog.is_first_refusal());
        let elsewhere = Rc::clone(&many[0]);
        drop(many);
        assert!(backlog.admit(MOST_BYTES).is_none(), "one queue still has an emission");
        drop(elsewhere);
        let large = backlog.admit(MOST_BYTES + 1);
        assert!(large.is_some() && backlog.admit(1).is_none() && backlog.is_first_refusal());
    }
}
