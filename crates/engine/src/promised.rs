//! Pending promises of hostcalls. Native code creates and settles them, so that a result runs no code but the promise's
//! reactions.

use pijs_protocol::CallId;
use rquickjs::{Ctx, Function, Persistent, Promise, Result, Value};
use std::cell::RefCell;
use std::collections::HashMap;

type Kept = Persistent<Function<'static>>;

#[derive(Default)]
pub(crate) struct Promised {
    /// Resolve and reject functions by call. The host bounds their number; nothing iterates over them.
    by_call: RefCell<HashMap<CallId, (Kept, Kept)>>,
}

/// The functions that settle a promise.
pub(crate) struct Settle<'js> {
    pub(crate) resolve: Function<'js>,
    pub(crate) reject: Function<'js>,
}

impl Promised {
    /// Creates the promise of a call that begins.
    pub(crate) fn promise<'js>(&self, ctx: &Ctx<'js>, call: &CallId) -> Result<Value<'js>> {
        let (promise, resolve, reject) = Promise::new(ctx)?;
        let kept = (Persistent::save(ctx, resolve), Persistent::save(ctx, reject));
        self.by_call.borrow_mut().insert(call.clone(), kept);
        Ok(promise.into_value())
    }

    /// Removes the functions that settle the promise of a call that ends; `None` when the call has no promise.
    pub(crate) fn take<'js>(&self, ctx: &Ctx<'js>, call: &CallId) -> Result<Option<Settle<'js>>> {
        let kept = self.by_call.borrow_mut().remove(call);
        kept.map(|(resolve, reject)| Ok(Settle { resolve: resolve.restore(ctx)?, reject: reject.restore(ctx)? }))
            .transpose()
    }

    pub(crate) fn has(&self, call: &CallId) -> bool {
        self.by_call.borrow().contains_key(call)
    }

    pub(crate) fn release(&self) {
        self.by_call.borrow_mut().clear();
    }
}
