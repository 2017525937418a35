//! Keeps the order in which extensions answered.
//!
//! Several tool calls run at once, and the events of each go from handler to handler. Their callers go on in the order of the
//! answers, as on pi's one thread, however many answers one look at an extension brings: sending a message to an extension runs
//! whatever is ready in it, so one poll of a later caller may bring the answers of earlier ones together with its own. A
//! [`Place`] is therefore taken when an answer arrives, in `Host::carry_out`, and not when its caller is polled next.
//!
//! An event waits between two handlers until the extensions have run what was sent to them ([`Place::is_first`]). How long that
//! takes depends on the machine; an event leaves the wait in the order of the answers, whatever is ready first. A tool call
//! waits only for callers that are about to be polled ([`Place::after_earlier_answers`]).

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use tokio::sync::Notify;

/// The answers that were given and not left behind, oldest first.
#[derive(Debug, Default)]
pub(crate) struct AnswerOrder {
    waiting: RefCell<VecDeque<u64>>,
    next: Cell<u64>,
    left: Notify,
}

/// One answer. Dropping it lets the next one leave.
#[derive(Debug)]
pub(crate) struct Place {
    order: Rc<AnswerOrder>,
    number: u64,
}

/// Turns that others get before an answer overtakes one whose caller does something else meanwhile.
const MOST_TURNS: usize = 4;

impl AnswerOrder {
    /// Appends an answer.
    pub(crate) fn enter(self: &Rc<Self>) -> Place {
        let number = self.next.replace(self.next.get() + 1);
        self.waiting.borrow_mut().push_back(number);
        Place { order: Rc::clone(self), number }
    }
}

impl Place {
    fn comes_first(&self) -> bool {
        self.order.waiting.borrow().front() == Some(&self.number)
    }

    /// Waits until every answer that was given before has left.
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

    /// Lets callers go on that were answered before, if they do so at once; one that is busy holds up nobody.
    pub(crate) async fn after_earlier_answers(self) {
        for _ in 0..MOST_TURNS {
            if self.comes_first() {
                return;
            }
            tokio::task::yield_now().await;
        }
    }
}

impl Drop for Place {
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
