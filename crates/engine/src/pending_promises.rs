//! Pending promises of hostcalls. Native code creates and settles them, so that a result runs only the promise's reactions.

use pijs_protocol::CallId;
use rquickjs::{Ctx, Function, Persistent, Promise, Result, Value};
use std::cell::RefCell;
use std::collections::HashMap;

type SavedFunction = Persistent<Function<'static>>;

#[derive(Default)]
pub(crate) struct PendingPromises {
    /// Resolve and reject functions by call id. The host limits their number; nothing iterates over them.
    by_call: RefCell<HashMap<CallId, (SavedFunction, SavedFunction)>>,
}

/// The functions that settle a promise.
pub(crate) struct SettleFunctions<'js> {
    pub(crate) resolve: Function<'js>,
    pub(crate) reject: Function<'js>,
}

impl PendingPromises {
    /// Creates the promise for a call that begins.
    pub(crate) fn promise<'js>(&self, ctx: &Ctx<'js>, call: &CallId) -> Result<Value<'js>> {
        let (promise, resolve, reject) = Promise::new(ctx)?;
        let functions = (Persistent::save(ctx, resolve), Persistent::save(ctx, reject));
        self.by_call.borrow_mut().insert(call.clone(), functions);
        Ok(promise.into_value())
    }

    /// Removes the functions that settle the promise of a call that ends; `None` when the call has no promise.
    pub(crate) fn take<'js>(&self, ctx: &Ctx<'js>, call: &CallId) -> Result<Option<SettleFunctions<'js>>> {
        let functions = self.by_call.borrow_mut().remove(call);
        functions
            .map(|(resolve, reject)| {
                Ok(SettleFunctions { resolve: resolve.restore(ctx)?, reject: reject.restore(ctx)? })
            })
            .transpose()
    }

    pub(crate) fn has(&self, call: &CallId) -> bool {
        self.by_call.borrow().contains_key(call)
    }

    pub(crate) fn release(&self) {
        self.by_call.borrow_mut().clear();
    }
}
