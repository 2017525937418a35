//! Orders concurrent tool calls: they start one after the other, and continue in the order in which they ended after all of them
//! have started.

use std::cell::{Cell, RefCell};
use tokio::sync::Notify;

/// Progress of the calls of one reply.
pub struct CallOrder {
    count: usize,
    /// Number of calls that have started; calls start in order.
    begun: Cell<usize>,
    ended: Cell<usize>,
    /// Number of ended calls that have continued.
    continued: Cell<usize>,
    /// Whether each ended call has settled, in the order of their ends.
    settled: RefCell<Vec<bool>>,
    moved: Notify,
}

/// Progress of a single call. Dropping it marks the call as started, so that a failed call does not block others.
pub struct CallTurn<'a> {
    order: &'a CallOrder,
    place: usize,
    /// Position in the order in which calls ended; `None` until the call has ended.
    end: Cell<Option<usize>>,
}

impl CallOrder {
    /// Creates the progress of `count` calls.
    pub fn new(count: usize) -> Self {
        Self {
            count,
            begun: Cell::new(0),
            ended: Cell::new(0),
            continued: Cell::new(0),
            settled: RefCell::new(vec![false; count]),
            moved: Notify::new(),
        }
    }

    /// Returns the progress of the call at this index.
    pub fn of(&self, place: usize) -> CallTurn<'_> {
        CallTurn { order: self, place, end: Cell::new(None) }
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

impl CallTurn<'_> {
    /// Waits until all earlier calls have started.
    pub async fn turn(&self) {
        self.order.until(|order| order.begun.get() >= self.place).await;
    }

    /// Records that the call has ended. Waits until all calls have started, and those that ended earlier have continued.
    pub async fn ended(&self) {
        let place = self.order.ended.replace(self.order.ended.get() + 1);
        self.end.set(Some(place));
        self.order.until(|order| order.begun.get() >= order.count && order.continued.get() == place).await;
        self.order.continued.set(place + 1);
        self.order.moved.notify_waiters();
    }

    /// Records that the call has settled, which means that its messages to extensions were handled. Waits for the calls that
    /// ended earlier.
    pub async fn settled(&self) {
        let Some(end) = self.end.get() else { return };
        self.order.until(|order| order.settled.borrow()[..end].iter().all(|settled| *settled)).await;
        self.settle();
    }

    fn settle(&self) {
        if let Some(end) = self.end.get() {
            self.order.settled.borrow_mut()[end] = true;
            self.order.moved.notify_waiters();
        }
    }

    /// Records that the call has started.
    pub fn begun(&self) {
        self.order.begun.set(self.order.begun.get().max(self.place + 1));
        self.order.moved.notify_waiters();
    }
}

impl Drop for CallTurn<'_> {
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
    fn calls_start_in_order_and_continue_after_all_have_started() {
        let order = CallOrder::new(2);
        let (first, second) = (order.of(0), order.of(1));
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
        let order = CallOrder::new(3);
        let calls = [order.of(0), order.of(1), order.of(2)];
        calls.iter().for_each(CallTurn::begun);
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
    fn a_call_that_failed_before_its_start_does_not_block_others() {
        let order = CallOrder::new(2);
        drop(order.of(1));
        assert!(order.of(0).ended().now_or_never().is_some());
    }
}
