//! Tracks rejected promises without a handler.
//!
//! The engine reports a rejection at once and withdraws it when a handler is attached later. The rejections that are left when
//! the microtasks are drained are reported, once. Both operations take constant or logarithmic time, because no limit of a turn
//! is checked during them.

use rquickjs::{Ctx, Persistent, Promise, Value, qjs};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, HashSet};

type Kept = Persistent<Value<'static>>;

#[derive(Default)]
pub(crate) struct Rejections {
    /// Promise and reason, in the order of rejection.
    pending: RefCell<BTreeMap<u64, (Kept, Kept)>>,
    /// Key in `pending` of each promise, by address; the entry keeps the promise alive, so its address stays unique.
    places: RefCell<HashMap<usize, u64>>,
    next: Cell<u64>,
    /// Promises whose rejection is not reported: by-products of `importSync`.
    quiet: RefCell<Vec<Kept>>,
    /// Their addresses.
    quiet_places: RefCell<HashSet<usize>>,
}

/// Returns the identity of a live object.
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
        // After the borrow has ended: dropping the values may run arbitrary finalizers.
        drop(forgotten);
    }

    /// Suppresses reports of this promise.
    pub(crate) fn silence<'js>(&self, ctx: &Ctx<'js>, promise: &Promise<'js>) {
        let promise = promise.as_value().clone();
        let address = address(&promise);
        self.forget(address);
        if self.quiet_places.borrow_mut().insert(address) {
            self.quiet.borrow_mut().push(Persistent::save(ctx, promise));
        }
    }

    /// Removes all unhandled rejections; returns at most `most` reasons, and the number of the others.
    pub(crate) fn take<'js>(&self, ctx: &Ctx<'js>, most: usize) -> rquickjs::Result<(Vec<Value<'js>>, usize)> {
        self.places.borrow_mut().clear();
        let pending = std::mem::take(&mut *self.pending.borrow_mut());
        let more = pending.len().saturating_sub(most);
        let reasons = pending.into_values().take(most).map(|(_, reason)| reason.restore(ctx));
        Ok((reasons.collect::<rquickjs::Result<_>>()?, more))
    }

    /// Ends the turn: suppressed promises have settled or never will.
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
