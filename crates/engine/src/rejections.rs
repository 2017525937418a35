//! Promises that were rejected and that nobody handles.
//!
//! The engine tells about a rejection at once and takes it back when a handler is attached later. What
//! is still there when the microtasks are drained is reported, once. Both are quick however many there are: no limit
//! of a turn is looked at in between.

use rquickjs::{Ctx, Persistent, Promise, Value, qjs};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, HashSet};

type Kept = Persistent<Value<'static>>;

#[derive(Default)]
pub(crate) struct Rejections {
    /// Promise and reason, in the order of rejection.
    pending: RefCell<BTreeMap<u64, (Kept, Kept)>>,
    /// Where a promise stands in `pending`, by its address: it lives as long as it stands there.
    places: RefCell<HashMap<usize, u64>>,
    next: Cell<u64>,
    /// Promises whose rejection is nobody's business: by-products of `importSync`.
    quiet: RefCell<Vec<Kept>>,
    /// Their addresses.
    quiet_places: RefCell<HashSet<usize>>,
}

/// Tells live objects apart.
fn address(value: &Value<'_>) -> usize {
    // SAFETY: a promise is an object, whose value holds a pointer; it is only compared.
    unsafe { qjs::JS_VALUE_GET_PTR(value.as_raw()) }.addr()
}

impl Rejections {
    /// The engine's rejection tracker.
    pub(crate) fn track<'js>(&self, ctx: &Ctx<'js>, promise: Value<'js>, reason: Value<'js>, is_handled: bool) {
        let address = address(&promise);
        if is_handled {
            self.forget(address);
        } else if !self.quiet_places.borrow().contains(&address) {
            let place = self.next.replace(self.next.get() + 1);
            self.places.borrow_mut().insert(address, place);
            let kept = (Persistent::save(ctx, promise), Persistent::save(ctx, reason));
            self.pending.borrow_mut().insert(place, kept);
        }
    }

    fn forget(&self, address: usize) {
        let place = self.places.borrow_mut().remove(&address);
        let forgotten = place.and_then(|place| self.pending.borrow_mut().remove(&place));
        // Not while it is borrowed: what goes with it may be anything.
        drop(forgotten);
    }

    /// Never reports this promise, whenever it is rejected.
    pub(crate) fn silence<'js>(&self, ctx: &Ctx<'js>, promise: &Promise<'js>) {
        let promise = promise.as_value().clone();
        let address = address(&promise);
        self.forget(address);
        if self.quiet_places.borrow_mut().insert(address) {
            self.quiet.borrow_mut().push(Persistent::save(ctx, promise));
        }
    }

    /// The reasons of everything still unhandled, at most so many, and how many more there are.
    pub(crate) fn take<'js>(&self, ctx: &Ctx<'js>, most: usize) -> rquickjs::Result<(Vec<Value<'js>>, usize)> {
        self.places.borrow_mut().clear();
        let pending = std::mem::take(&mut *self.pending.borrow_mut());
        let more = pending.len().saturating_sub(most);
        let reasons = pending.into_values().take(most).map(|(_, reason)| reason.restore(ctx));
        Ok((reasons.collect::<rquickjs::Result<_>>()?, more))
    }

    /// Ends the turn: silenced promises have settled or never will.
    pub(crate) fn settle(&self) {
        self.quiet_places.borrow_mut().clear();
        let quiet = std::mem::take(&mut *self.quiet.borrow_mut());
        drop(quiet);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pending.borrow().is_empty()
    }

    pub(crate) fn release(&self) {
        self.places.borrow_mut().clear();
        self.pending.borrow_mut().clear();
        self.settle();
    }
}
