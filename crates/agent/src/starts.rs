//! The order in which tool calls that run side by side begin: each once the one before it has; and what follows them
//! once all have, in the order in which they ended.

use std::cell::{Cell, RefCell};
use tokio::sync::Notify;

/// The beginnings of the calls of one reply.
pub(crate) struct Starts {
    count: usize,
    /// How many have begun; they do so in their order.
    begun: Cell<usize>,
    ended: Cell<usize>,
    /// How many of those that ended have gone on.
    gone_on: Cell<usize>,
    /// Which of those that ended have settled, in the order of their ends.
    settled: RefCell<Vec<bool>>,
    moved: Notify,
}

/// The beginning of one call. Dropping it counts as having begun, so that one that failed holds up nobody.
pub(crate) struct Start<'a> {
    starts: &'a Starts,
    place: usize,
    /// Its place in the order of the ends, once it has ended.
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

    /// The beginning of the call at this place, from 0.
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
    /// Waits until the calls before it have begun.
    pub(crate) async fn turn(&self) {
        self.starts.until(|starts| starts.begun.get() >= self.place).await;
    }

    /// It has ended: waits until all calls have begun, and those that ended before it have gone on.
    pub(crate) async fn ended(&self) {
        let place = self.starts.ended.replace(self.starts.ended.get() + 1);
        self.end.set(Some(place));
        self.starts.until(|starts| starts.begun.get() >= starts.count && starts.gone_on.get() == place).await;
        self.starts.gone_on.set(place + 1);
        self.starts.moved.notify_waiters();
    }

    /// What it sent to extensions has run: waits until the same is true of the calls that ended before it.
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

    /// It has begun.
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
