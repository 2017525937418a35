//! Delivers events asynchronously, as in pi 0.73.1: in order, while the loop continues. A barrier event waits until all earlier
//! ones are delivered.

use pijs_host::{Event, Host};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use tokio::sync::Notify;

/// Events to deliver.
pub(crate) struct EventQueue {
    host: Host,
    waiting: RefCell<VecDeque<Event>>,
    is_delivering: Cell<bool>,
    delivered: Notify,
}

impl EventQueue {
    pub(crate) fn new(host: Host) -> Rc<Self> {
        Rc::new(Self { host, waiting: RefCell::default(), is_delivering: Cell::new(false), delivered: Notify::new() })
    }

    /// Queues an event. Must be called inside a `tokio::task::LocalSet`.
    pub(crate) fn push(self: &Rc<Self>, event: Event) {
        self.waiting.borrow_mut().push_back(event);
        if !self.is_delivering.replace(true) {
            tokio::task::spawn_local(Rc::clone(self).deliver());
        }
    }

    async fn deliver(self: Rc<Self>) {
        loop {
            let next = self.waiting.borrow_mut().pop_front();
            match next {
                Some(event) => drop(self.host.emit(event).await),
                None => break,
            }
        }
        self.is_delivering.set(false);
        self.delivered.notify_waiters();
    }

    /// Waits until the queue is empty.
    pub(crate) async fn settled(&self) {
        while self.is_delivering.get() {
            self.delivered.notified().await;
        }
    }
}
