//! Promises that were rejected and that nobody handles.
//!
//! The engine tells about a rejection at once and takes it back when a handler is attached later. What
//! is still there when the microtasks are drained is reported, once.

use rquickjs::{Ctx, Persistent, Promise, Value};
use std::cell::RefCell;

#[derive(Default)]
pub(crate) struct Rejections {
    /// In the order of rejection.
    pending: RefCell<Vec<(Persistent<Value<'static>>, Persistent<Value<'static>>)>>,
    /// Promises whose rejection is nobody's business: by-products of `importSync`.
    quiet: RefCell<Vec<Persistent<Value<'static>>>>,
}

impl Rejections {
    /// The engine's rejection tracker.
    pub(crate) fn track<'js>(&self, ctx: &Ctx<'js>, promise: Value<'js>, reason: Value<'js>, is_handled: bool) {
        let promise = Persistent::save(ctx, promise);
        if is_handled {
            self.pending.borrow_mut().retain(|(known, _)| *known != promise);
        } else if !self.quiet.borrow().contains(&promise) {
            self.pending.borrow_mut().push((promise, Persistent::save(ctx, reason)));
        }
    }

    /// Never reports this promise, whenever it is rejected.
    pub(crate) fn silence<'js>(&self, ctx: &Ctx<'js>, promise: &Promise<'js>) {
        let promise = Persistent::save(ctx, promise.as_value().clone());
        self.pending.borrow_mut().retain(|(known, _)| *known != promise);
        self.quiet.borrow_mut().push(promise);
    }

    /// The reasons of everything still unhandled.
    pub(crate) fn take<'js>(&self, ctx: &Ctx<'js>) -> rquickjs::Result<Vec<Value<'js>>> {
        let pending = std::mem::take(&mut *self.pending.borrow_mut());
        pending.into_iter().map(|(_, reason)| reason.restore(ctx)).collect()
    }

    /// Ends the turn: silenced promises have settled or never will.
    pub(crate) fn settle(&self) {
        self.quiet.borrow_mut().clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pending.borrow().is_empty()
    }

    pub(crate) fn release(&self) {
        self.pending.borrow_mut().clear();
        self.quiet.borrow_mut().clear();
    }
}
