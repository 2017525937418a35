//! Caches the Rust text of JavaScript strings that the runtime passes at every call: names of methods and capabilities.

use rquickjs::{Ctx, Persistent, Value, qjs};
use smol_str::SmolStr;
use std::cell::RefCell;

/// Maximum number of entries: more than there are methods and capabilities.
const MOST: usize = 64;
/// Longest cached string, in bytes.
const LONGEST: usize = 32;

/// Cached strings, found by their address, because converting a string takes longer than the search.
#[derive(Default)]
pub(crate) struct Words(RefCell<Vec<Word>>);

struct Word {
    place: usize,
    text: SmolStr,
    /// Keeps the string alive, so that its address stays unique.
    _kept: Persistent<Value<'static>>,
}

impl Words {
    pub(crate) fn known(&self, value: &Value<'_>) -> Option<SmolStr> {
        let place = place(value)?;
        self.0.borrow().iter().find(|word| word.place == place).map(|word| word.text.clone())
    }

    pub(crate) fn learn<'js>(&self, ctx: &Ctx<'js>, value: Value<'js>, text: &SmolStr) {
        let mut words = self.0.borrow_mut();
        if let Some(place) = place(&value).filter(|_| words.len() < MOST && text.len() <= LONGEST) {
            words.push(Word { place, text: text.clone(), _kept: Persistent::save(ctx, value) });
        }
    }

    pub(crate) fn release(&self) {
        self.0.borrow_mut().clear();
    }
}

/// Returns the address of a string; strings are immutable.
fn place(value: &Value<'_>) -> Option<usize> {
    // SAFETY: a string's value holds a pointer, which is only compared.
    value.is_string().then(|| unsafe { qjs::JS_VALUE_GET_PTR(value.as_raw()) }.addr())
}
