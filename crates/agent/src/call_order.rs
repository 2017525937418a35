//! Orders concurrent tool calls: they start one after the other, and continue in the order in which they ended after all of them
//! have started.

use std::cell::{Cell, RefCell};
use tokio::sync::Notify;

/// Progress of the calls of one reply.
pub(crate) struct Starts {
    count: usize,
    /// Number of calls that have started; they do so in order.
    begun: Cell<usize>,
    ended: Cell<usize>,
    /// Number of ended calls that have continued.
    gone_on: Cell<usize>,
    /// Whether each ended call has settled, in the order of their ends.
    settled: RefCell<Vec<bool>>,
    moved: Notify,
}

/// Progress of one call. Dropping it counts as started, so that a failed call does not block others.
pub(crate) struct Start<'a> {
    starts: &'a Starts,
    place: usize,
    /// Position in the order of ends, once the call has ended.
    end: Cell<Option<usize>>,
}

impl Starts {
    pub(crate) fn new(count: usize) -> Self {
        Self {
            count,
            begun: Cell::new(0),
            ended: Cell::new(0),
            gone_on: Cell::new(0),
            settled: RefCell::new(vec![false; count]),
            moved: Notify::new(),
        }
    }

    /// Returns the progress of the call at this index.
    pub(crate) fn of(&self, place: usize) -> Start<'_> {
        Start { starts: self, place, end: Cell::new(None) }
    }

    async fn until(&self, is_so: impl Fn(&Self) -> bool) {
        loop {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            if is_so(self) {
                return;
            }
            moved.await;
        }
    }
}

impl Start<'_> {
    /// Waits until all earlier calls have started.
    pub(crate) async fn turn(&self) {
        self.starts.until(|starts| starts.begun.get() >= self.place).await;
    }

    /// Records that the call has ended; waits until all calls have started and those that ended before have continued.
    pub(crate) async fn ended(&self) {
        let place = self.starts.ended.replace(self.starts.ended.get() + 1);
        self.end.set(Some(place));
        self.starts.until(|starts| starts.begun.get() >= starts.count && starts.gone_on.get() == place).await;
        self.starts.gone_on.set(place + 1);
        self.starts.moved.notify_waiters();
    }

    /// Records that the call has settled: its messages to extensions are handled. Waits for the calls that ended before.
    pub(crate) async fn settled(&self) {
        let Some(end) = self.end.get() else { return };
        self.starts.until(|starts| starts.settled.borrow()[..end].iter().all(|settled| *settled)).await;
        self.settle();
    }

    fn settle(&self) {
        if let Some(end) = self.end.get() {
            self.starts.settled.borrow_mut()[end] = true;
            self.starts.moved.notify_waiters();
        }
    }

    /// Records that the call has started.
    pub(crate) fn begun(&self) {
        self.starts.begun.set(self.starts.begun.get().max(self.place + 1));
        self.starts.moved.notify_waiters();
    }
}

impl Drop for Start<'_> {
    fn drop(&mut self) {
        self.begun();
        self.settle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn calls_begin_in_their_order_and_what_follows_waits_for_all() {
        let starts = Starts::new(2);
        let (first, second) = (starts.of(0), starts.of(1));
        assert!(first.turn().now_or_never().is_some() && second.turn().now_or_never().is_none());
        first.begun();
        assert!(second.turn().now_or_never().is_some());
        let (later, earlier) = (second.ended(), first.ended());
        tokio::pin!(later, earlier);
        assert!(later.as_mut().now_or_never().is_none() && earlier.as_mut().now_or_never().is_none());
        second.begun();
        assert!(earlier.as_mut().now_or_never().is_none(), "the other ended before it");
        assert!(later.now_or_never().is_some() && earlier.now_or_never().is_some());
    }

    #[test]
    fn calls_settle_in_the_order_of_their_ends() {
        let starts = Starts::new(3);
        let calls = [starts.of(0), starts.of(1), starts.of(2)];
        calls.iter().for_each(Start::begun);
        for at in [1, 0, 2] {
            assert!(calls[at].ended().now_or_never().is_some());
        }
        let [first, second, third] = calls;
        assert!(first.settled().now_or_never().is_none(), "the second ended before it");
        drop(second);
        assert!(third.settled().now_or_never().is_none());
        assert!(first.settled().now_or_never().is_some());
        assert!(third.settled().now_or_never().is_some());
    }

    #[test]
    fn a_call_that_failed_before_it_began_holds_up_nobody() {
        let starts = Starts::new(2);
        drop(starts.of(1));
        assert!(starts.of(0).ended().now_or_never().is_some());
    }
}
