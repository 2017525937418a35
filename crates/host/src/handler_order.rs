//! Keeps concurrent events in their order between two handlers.
//!
//! Several tool calls run at once, and the events of each go from handler to handler. An event waits between two handlers until
//! the extensions have run what was sent to them. How long that takes depends on the machine, so an event leaves the wait in
//! the order in which it entered it, whatever is ready first: on pi's one thread it would not overtake either.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use tokio::sync::Notify;

/// The events that wait between two handlers, oldest first.
#[derive(Debug, Default)]
pub(crate) struct HandlerOrder {
    waiting: RefCell<VecDeque<u64>>,
    next: Cell<u64>,
    left: Notify,
}

/// One event that waits. Dropping it lets the next one leave.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    order: &'a HandlerOrder,
    number: u64,
}

impl HandlerOrder {
    /// Appends an event.
    pub(crate) fn enter(&self) -> Place<'_> {
        let number = self.next.replace(self.next.get() + 1);
        self.waiting.borrow_mut().push_back(number);
        Place { order: self, number }
    }
}

impl Place<'_> {
    /// Waits until every event that entered before has left.
    pub(crate) async fn is_first(&self) {
        loop {
            let left = self.order.left.notified();
            tokio::pin!(left);
            left.as_mut().enable();
            if self.order.waiting.borrow().front() == Some(&self.number) {
                return;
            }
            left.await;
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.order.waiting.borrow_mut().retain(|number| *number != self.number);
        self.order.left.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn events_leave_in_the_order_in_which_they_entered() {
        let order = HandlerOrder::default();
        let (first, second, third) = (order.enter(), order.enter(), order.enter());
        assert!(second.is_first().now_or_never().is_none());
        drop(first);
        assert!(third.is_first().now_or_never().is_none());
        assert!(second.is_first().now_or_never().is_some());
        drop(second);
        assert!(third.is_first().now_or_never().is_some());
    }

    #[test]
    fn an_event_that_is_given_up_holds_up_nobody() {
        let order = HandlerOrder::default();
        let (first, second) = (order.enter(), order.enter());
        drop(second);
        let third = order.enter();
        drop(first);
        assert!(third.is_first().now_or_never().is_some());
    }
}
