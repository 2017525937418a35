//! Tracks rejected promises without a handler.
//!
//! The engine reports a rejection at once and withdraws it if a handler is attached later. The rejections that are left when the
//! microtasks are drained are reported once. Both operations take constant or logarithmic time, because no limit of a turn is
//! checked during them.

use rquickjs::{Ctx, Persistent, Promise, Value, qjs};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, HashSet};

type SavedValue = Persistent<Value<'static>>;

#[derive(Default)]
pub(crate) struct Rejections {
    /// Rejected promises with their reasons, in the order of rejection.
    pending: RefCell<BTreeMap<u64, (SavedValue, SavedValue)>>,
    /// Key in `pending` of each promise, by address; the entry keeps the promise alive, so its address stays unique.
    keys_by_address: RefCell<HashMap<usize, u64>>,
    next: Cell<u64>,
    /// Promises whose rejection is not reported: by-products of `importSync`.
    suppressed: RefCell<Vec<SavedValue>>,
    /// Addresses of the suppressed promises.
    suppressed_addresses: RefCell<HashSet<usize>>,
}

/// Returns the identity of a live object.
fn address(value: &Value<'_>) -> usize {
    // SAFETY: a promise is an object, whose value holds a pointer; it is only compared.
    unsafe { qjs::JS_VALUE_GET_PTR(value.as_raw()) }.addr()
}

impl Rejections {
    /// Records a rejection, or withdraws it when a handler is attached. The engine calls it as its rejection tracker.
    pub(crate) fn track<'js>(&self, ctx: &Ctx<'js>, promise: Value<'js>, reason: Value<'js>, is_handled: bool) {
        let address = address(&promise);
        if is_handled {
            self.forget(address);
        } else if !self.suppressed_addresses.borrow().contains(&address) {
            let key = self.next.replace(self.next.get() + 1);
            self.keys_by_address.borrow_mut().insert(address, key);
            let saved = (Persistent::save(ctx, promise), Persistent::save(ctx, reason));
            self.pending.borrow_mut().insert(key, saved);
        }
    }

    fn forget(&self, address: usize) {
        let key = self.keys_by_address.borrow_mut().remove(&address);
        let forgotten = key.and_then(|key| self.pending.borrow_mut().remove(&key));
        // Dropped after the borrow has ended, because dropping the values may run arbitrary finalizers.
        drop(forgotten);
    }

    /// Suppresses reports of this promise.
    pub(crate) fn suppress<'js>(&self, ctx: &Ctx<'js>, promise: &Promise<'js>) {
        let promise = promise.as_value().clone();
        let address = address(&promise);
        self.forget(address);
        if self.suppressed_addresses.borrow_mut().insert(address) {
            self.suppressed.borrow_mut().push(Persistent::save(ctx, promise));
        }
    }

    /// Removes all unhandled rejections; returns at most `most` reasons, and the number of the remaining ones.
    pub(crate) fn take<'js>(&self, ctx: &Ctx<'js>, most: usize) -> rquickjs::Result<(Vec<Value<'js>>, usize)> {
        self.keys_by_address.borrow_mut().clear();
        let pending = std::mem::take(&mut *self.pending.borrow_mut());
        let more = pending.len().saturating_sub(most);
        let reasons = pending.into_values().take(most).map(|(_, reason)| reason.restore(ctx));
        Ok((reasons.collect::<rquickjs::Result<_>>()?, more))
    }

    /// Ends the turn: forgets suppressed promises, which have settled or never will.
    pub(crate) fn end_turn(&self) {
        self.suppressed_addresses.borrow_mut().clear();
        let suppressed = std::mem::take(&mut *self.suppressed.borrow_mut());
        drop(suppressed);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pending.borrow().is_empty()
    }

    pub(crate) fn release(&self) {
        self.keys_by_address.borrow_mut().clear();
        self.pending.borrow_mut().clear();
        self.end_turn();
    }
}
