//! Abort signals that cross into realms.
//!
//! [`Signal`] is the host side: the agent keeps it, passes it to an event, a tool call or
//! [`Host::set_signal`](crate::Host::set_signal), and calls [`Signal::abort`] when the run is cancelled. In a realm it is an
//! `AbortSignal`; the abort arrives as a separate macrotask, never inside a running turn.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::{Rc, Weak};

/// The host side of an `AbortSignal`.
///
/// Clones share one signal.
///
/// ```
/// let signal = pijs_host::Signal::new();
/// let seen_by_the_tool = signal.clone();
/// signal.abort();
/// assert!(seen_by_the_tool.is_aborted());
/// ```
#[derive(Clone, Default)]
pub struct Signal(Rc<SignalState>);

#[derive(Default)]
struct SignalState {
    aborted: Cell<bool>,
    /// Callbacks of the realms that know the signal, in the order in which they learned of it.
    watchers: RefCell<Vec<Box<dyn FnOnce()>>>,
}

impl Signal {
    /// Creates a signal that has not fired.
    pub fn new() -> Self {
        Self::default()
    }

    /// Fires the signal. Further calls do nothing.
    pub fn abort(&self) {
        if self.0.aborted.replace(true) {
            return;
        }
        for watcher in self.0.watchers.take() {
            watcher();
        }
    }

    /// Returns whether the signal has fired.
    pub fn is_aborted(&self) -> bool {
        self.0.aborted.get()
    }

    /// Calls `watcher` when the signal fires; at once if it already has.
    pub(crate) fn on_abort(&self, watcher: impl FnOnce() + 'static) {
        if self.is_aborted() {
            watcher();
        } else {
            self.0.watchers.borrow_mut().push(Box::new(watcher));
        }
    }

    pub(crate) fn downgrade(&self) -> WeakSignal {
        WeakSignal(Rc::downgrade(&self.0))
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signal").field("aborted", &self.is_aborted()).finish()
    }
}

/// Weak reference to a signal that a realm knows.
pub(crate) struct WeakSignal(Weak<SignalState>);

impl WeakSignal {
    pub(crate) fn is(&self, signal: &Signal) -> bool {
        std::ptr::eq(self.0.as_ptr(), Rc::as_ptr(&signal.0))
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.0.strong_count() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_abort_tells_every_watcher_once() {
        let told = Rc::new(Cell::new(0));
        let signal = Signal::new();
        for _ in 0..2 {
            let told = Rc::clone(&told);
            signal.on_abort(move || told.set(told.get() + 1));
        }
        signal.abort();
        signal.abort();
        assert_eq!(told.get(), 2);
        let late = Rc::clone(&told);
        signal.on_abort(move || late.set(late.get() + 1));
        assert_eq!(told.get(), 3, "a watcher that comes late is told at once");
    }

    #[test]
    fn a_weak_signal_knows_its_own() {
        let signal = Signal::new();
        let weak = signal.downgrade();
        assert!(weak.is(&signal.clone()));
        assert!(!weak.is(&Signal::new()));
        drop(signal);
        assert!(weak.is_dead());
    }
}
