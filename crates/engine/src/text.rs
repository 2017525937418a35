//! Converts text between JavaScript, whose UTF-16 strings may hold lone surrogates, and Rust.
//!
//! The engine encodes a lone surrogate as three bytes (`ED A0 80`), which is not UTF-8; viewing them as `str` would be undefined
//! behaviour, so nothing here does. The decoders of the realm are here, too; they are those of `encoding_rs`.

use crate::natives::{self, NativeCall};
use pijs_matcher::{Group, Prefilter};
use rquickjs::{Ctx, Error, Exception, IntoJs as _, Object, Result, TypedArray, Value, qjs};
use std::cell::RefCell;
use std::rc::Rc;

/// Returns the text, if it holds no lone surrogate.
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

/// Returns the text of a property name; `None` when it holds a lone surrogate and `replaces` is false.
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

/// `encodeUtf8(string)`: returns a `Uint8Array`; lone surrogates become U+FFFD, as in `TextEncoder`.
pub(crate) fn encode_utf8<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let text = call.text(0)?;
    Ok(TypedArray::<u8>::new_copy(call.ctx().clone(), text.as_bytes())?.into_value())
}

/// `decodeUtf8(bytes, fatal, ignoreBOM)`: returns the text.
pub(crate) fn decode_utf8<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let bytes = call.bytes(0)?;
    decode_with(call, encoding_rs::UTF_8, &bytes, call.flag(1), call.flag(2))
}

/// `decode(label, bytes, fatal, ignoreBOM)`; a label that the Encoding Standard does not know is a `RangeError`.
pub(crate) fn decode<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let label = call.text(0)?;
    let Some(encoding) = encoding_rs::Encoding::for_label_no_replacement(label.as_bytes()) else {
        return Err(Exception::throw_range(call.ctx(), &format!("The \"{label}\" encoding is not supported")));
    };
    let bytes = call.bytes(1)?;
    decode_with(call, encoding, &bytes, call.flag(2), call.flag(3))
}

fn decode_with<'js>(
    call: &NativeCall<'_, 'js>,
    encoding: &'static encoding_rs::Encoding,
    bytes: &[u8],
    fatal: bool,
    keep_bom: bool,
) -> Result<Value<'js>> {
    let ctx = call.ctx();
    let bom = if keep_bom { 0 } else { bom_length(encoding, bytes) };
    let body = &bytes[bom..];
    let text = if fatal {
        match encoding.decode_without_bom_handling_and_without_replacement(body) {
            Some(text) => text,
            None => {
                let message = format!("The encoded data was not valid for encoding {}", name_of(encoding));
                return Err(Exception::throw_type(ctx, &message));
            }
        }
    } else {
        encoding.decode_without_bom_handling(body).0
    };
    Ok(rquickjs::String::from_str(ctx.clone(), &text)?.into_value())
}

/// `prefilters()`: creates a group of automata that read one growing text, as three functions: `add(source, flags)` returns the
/// number of a new automaton, or `undefined` for an expression without one; `begin()` starts a text; `read(piece)` continues it
/// and returns the numbers of the expressions that may match, or `undefined` when all may.
pub(crate) fn prefilters<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let ctx = call.ctx();
    let group = Rc::new(RefCell::new(Group::default()));
    let functions = Object::new(ctx.clone())?;
    let add = Rc::clone(&group);
    functions.set(
        "add",
        natives::closure(ctx, "add", move |call| {
            let filter = Prefilter::new(&call.text(0)?, &call.text(1)?);
            let number = filter.and_then(|filter| add.borrow_mut().add(filter));
            number.into_js(call.ctx())
        })?,
    )?;
    let begin = Rc::clone(&group);
    functions.set(
        "begin",
        natives::closure(ctx, "begin", move |call| {
            begin.borrow_mut().begin();
            Ok(Value::new_undefined(call.ctx().clone()))
        })?,
    )?;
    let read = move |call: &NativeCall<'_, 'js>| {
        let mut group = group.borrow_mut();
        let piece = call.arg(0).as_string().and_then(strict);
        // A lone surrogate is not text: all expressions may match from there on.
        let piece = piece.unwrap_or_else(|| {
            group.abandon();
            String::new()
        });
        let numbers: Vec<usize> = group.may_match(&piece).collect();
        if numbers.is_empty() { Ok(Value::new_undefined(call.ctx().clone())) } else { numbers.into_js(call.ctx()) }
    };
    functions.set("read", natives::closure(ctx, "read", read)?)?;
    Ok(functions.into_value())
}

fn name_of(encoding: &'static encoding_rs::Encoding) -> String {
    encoding.name().to_ascii_lowercase()
}

/// Returns the length of a byte order mark of `encoding` at the start of the bytes.
fn bom_length(encoding: &'static encoding_rs::Encoding, bytes: &[u8]) -> usize {
    match encoding_rs::Encoding::for_bom(bytes) {
        Some((found, length)) if found == encoding => length,
        _ => 0,
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
