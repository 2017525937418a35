//! Resumes callers in the order in which extensions answered them.
//!
//! Several tool calls run concurrently, and each of their events passes from handler to handler. Callers continue in the order of
//! the answers, as on pi's one thread, even if one poll delivers several answers: sending a message to an extension runs all its
//! ready work, so the poll of a later caller may deliver the answers of earlier callers together with its own. An
//! [`AnswerTicket`] is therefore issued when an answer arrives, in `Host::carry_out`, and not when its caller is polled next.
//!
//! An event waits between two handlers until the extensions have run the messages sent to them ([`AnswerTicket::is_first`]). The
//! duration of this wait depends on the machine; events always leave it in the order of the answers. A tool call waits only for
//! callers that are about to be polled ([`AnswerTicket::after_earlier_answers`]).

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use tokio::sync::Notify;

/// Answers whose callers have not continued yet, oldest first.
#[derive(Debug, Default)]
pub(crate) struct AnswerOrder {
    waiting: RefCell<VecDeque<u64>>,
    next: Cell<u64>,
    left: Notify,
}

/// Position of one answer in the order. Dropping the ticket lets the next caller continue.
#[derive(Debug)]
pub(crate) struct AnswerTicket {
    order: Rc<AnswerOrder>,
    number: u64,
}

/// Number of times the thread yields to other tasks before an answer overtakes an earlier one with a busy caller.
const MAX_TURNS: usize = 4;

impl AnswerOrder {
    /// Appends an answer to the order and returns its ticket.
    pub(crate) fn enter(self: &Rc<Self>) -> AnswerTicket {
        let number = self.next.replace(self.next.get() + 1);
        self.waiting.borrow_mut().push_back(number);
        AnswerTicket { order: Rc::clone(self), number }
    }
}

impl AnswerTicket {
    fn comes_first(&self) -> bool {
        self.order.waiting.borrow().front() == Some(&self.number)
    }

    /// Waits until the callers of all earlier answers have continued.
    pub(crate) async fn is_first(&self) {
        loop {
            let left = self.order.left.notified();
            tokio::pin!(left);
            left.as_mut().enable();
            if self.comes_first() {
                return;
            }
            left.await;
        }
    }

    /// Yields to callers that were answered earlier and can continue at once; a busy caller delays no other.
    pub(crate) async fn after_earlier_answers(self) {
        for _ in 0..MAX_TURNS {
            if self.comes_first() {
                return;
            }
            tokio::task::yield_now().await;
        }
    }
}

impl Drop for AnswerTicket {
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
    fn answers_leave_in_the_order_in_which_they_were_given() {
        let order = Rc::new(AnswerOrder::default());
        let (first, second, third) = (order.enter(), order.enter(), order.enter());
        assert!(second.is_first().now_or_never().is_none());
        drop(first);
        assert!(third.is_first().now_or_never().is_none());
        assert!(second.is_first().now_or_never().is_some());
        drop(second);
        assert!(third.is_first().now_or_never().is_some());
    }

    #[test]
    fn an_answer_that_is_given_up_holds_up_nobody() {
        let order = Rc::new(AnswerOrder::default());
        let (first, second) = (order.enter(), order.enter());
        drop(second);
        let third = order.enter();
        drop(first);
        assert!(third.is_first().now_or_never().is_some());
    }

    #[tokio::test]
    async fn an_answer_that_nobody_takes_holds_up_no_tool() {
        let order = Rc::new(AnswerOrder::default());
        let (_busy, free) = (order.enter(), order.enter());
        free.after_earlier_answers().await;
    }
}
