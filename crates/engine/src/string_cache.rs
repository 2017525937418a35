//! Caches the Rust text of JavaScript strings that the runtime passes in every call: names of methods and capabilities.

use rquickjs::{Ctx, Persistent, Value, qjs};
use smol_str::SmolStr;
use std::cell::RefCell;

/// Maximum number of entries: more than there are methods and capabilities.
const MAX_ENTRIES: usize = 64;
/// Maximum length of a cached string, in bytes.
const MAX_BYTES: usize = 32;

/// Cached strings. They are found by a search for the address, which is faster than converting a string.
#[derive(Default)]
pub(crate) struct StringCache(RefCell<Vec<CachedString>>);

struct CachedString {
    address: usize,
    text: SmolStr,
    /// Keeps the string alive, so that its address stays unique.
    _kept: Persistent<Value<'static>>,
}

impl StringCache {
    pub(crate) fn get(&self, value: &Value<'_>) -> Option<SmolStr> {
        let address = address(value)?;
        self.0.borrow().iter().find(|entry| entry.address == address).map(|entry| entry.text.clone())
    }

    pub(crate) fn insert<'js>(&self, ctx: &Ctx<'js>, value: Value<'js>, text: &SmolStr) {
        let mut entries = self.0.borrow_mut();
        if let Some(address) = address(&value).filter(|_| entries.len() < MAX_ENTRIES && text.len() <= MAX_BYTES) {
            entries.push(CachedString { address, text: text.clone(), _kept: Persistent::save(ctx, value) });
        }
    }

    pub(crate) fn release(&self) {
        self.0.borrow_mut().clear();
    }
}

/// Returns the address of a string; strings are immutable.
fn address(value: &Value<'_>) -> Option<usize> {
    // SAFETY: a string's value holds a pointer, which is only compared.
    value.is_string().then(|| unsafe { qjs::JS_VALUE_GET_PTR(value.as_raw()) }.addr())
}
