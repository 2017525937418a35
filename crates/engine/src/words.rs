//! Strings of the guest that are the same ones at every call: names of methods and capabilities, which stand in our code.

use rquickjs::{Ctx, Persistent, Value, qjs};
use smol_str::SmolStr;
use std::cell::RefCell;

/// More than there are methods and capabilities.
const MOST: usize = 64;
/// Longer ones are none.
const LONGEST: usize = 32;

/// Such strings and their text, found by their place: to read one takes longer.
#[derive(Default)]
pub(crate) struct Words(RefCell<Vec<Word>>);

struct Word {
    place: usize,
    text: SmolStr,
    /// As long as it is kept, nothing else has its place.
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

/// Where a string lies; the language cannot change one.
fn place(value: &Value<'_>) -> Option<usize> {
    // SAFETY: a string's value holds a pointer, which is only compared.
    value.is_string().then(|| unsafe { qjs::JS_VALUE_GET_PTR(value.as_raw()) }.addr())
}
