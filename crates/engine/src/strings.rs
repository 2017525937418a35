//! Converts text between JavaScript, whose UTF-16 strings may contain lone surrogates, and Rust.
//!
//! The engine encodes a lone surrogate as three bytes (`ED A0 80`), which is not UTF-8; viewing them as `str` would be undefined
//! behaviour, so this module never does.

use rquickjs::{Ctx, Error, Result, qjs};

/// Returns the text, if it does not contain a lone surrogate.
pub(crate) fn strict(string: &rquickjs::String<'_>) -> Option<String> {
    string.to_string().ok()
}

/// Returns the text with each lone surrogate replaced by U+FFFD, as `toWellFormed` does.
pub(crate) fn lossy(string: &rquickjs::String<'_>) -> String {
    if let Some(text) = strict(string) {
        return text;
    }
    let Ok(raw) = string.clone().to_cstring() else { return String::new() };
    // SAFETY: `raw` owns `len` bytes at `as_ptr` until it is dropped at the end of this function;
    // they are read as bytes, never as `str`.
    let bytes = unsafe { std::slice::from_raw_parts(raw.as_ptr().cast::<u8>(), raw.len()) };
    well_formed(bytes)
}

/// Returns the text of a property name; `None` if it contains a lone surrogate and `replaces` is `false`.
pub(crate) fn of_atom(ctx: &Ctx<'_>, atom: qjs::JSAtom, replaces: bool) -> Result<Option<String>> {
    let (ctx, mut length) = (ctx.as_raw().as_ptr(), 0);
    // SAFETY: a live context and a live atom. A non-null result has `length` bytes, which are read as bytes and freed once.
    unsafe {
        let raw = qjs::JS_AtomToCStringLen(ctx, &mut length, atom);
        if raw.is_null() {
            return Err(Error::Exception);
        }
        let bytes = std::slice::from_raw_parts(raw.cast::<u8>(), length as usize);
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => Some(text.to_owned()),
            Err(_) => replaces.then(|| well_formed(bytes)),
        };
        qjs::JS_FreeCString(ctx, raw);
        Ok(text)
    }
}

/// Replaces each surrogate (`ED A0..BF xx`) in otherwise valid UTF-8.
fn well_formed(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    let mut rest = bytes;
    loop {
        match std::str::from_utf8(rest) {
            Ok(tail) => {
                text.push_str(tail);
                return text;
            }
            Err(error) => {
                let (valid, bad) = rest.split_at(error.valid_up_to());
                text.push_str(&String::from_utf8_lossy(valid));
                text.push('\u{FFFD}');
                rest = bad.get(3..).unwrap_or_default();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::well_formed;

    #[test]
    fn one_replacement_per_lone_surrogate() {
        assert_eq!(well_formed(b"a\xED\xA0\x80b\xED\xBF\xBFc"), "a\u{FFFD}b\u{FFFD}c");
        assert_eq!(well_formed("grüße 🦀".as_bytes()), "grüße 🦀");
    }
}
