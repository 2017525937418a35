//! Encodes and decodes text for the realm, and searches it. Decoding uses `encoding_rs`.

use crate::native_call::{NativeCall, closure};
use crate::strings;
use pijs_matcher::{Group, Prefilter};
use rquickjs::{Exception, IntoJs as _, Object, Result, TypedArray, Value};
use std::cell::RefCell;
use std::rc::Rc;

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

/// `prefilters()`: creates a group of automata that read one growing text. Returns three functions: `add(source, flags)` adds an
/// automaton and returns its number, or `undefined` if the expression has none; `begin()` starts a text; `read(piece)` continues
/// the text and returns the numbers of the expressions that may match, or `undefined` if all may match.
pub(crate) fn prefilters<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let ctx = call.ctx();
    let group = Rc::new(RefCell::new(Group::default()));
    let functions = Object::new(ctx.clone())?;
    let add = Rc::clone(&group);
    functions.set(
        "add",
        closure(ctx, "add", move |call| {
            let filter = Prefilter::new(&call.text(0)?, &call.text(1)?);
            let number = filter.and_then(|filter| add.borrow_mut().add(filter));
            number.into_js(call.ctx())
        })?,
    )?;
    let begin = Rc::clone(&group);
    functions.set(
        "begin",
        closure(ctx, "begin", move |call| {
            begin.borrow_mut().begin();
            Ok(Value::new_undefined(call.ctx().clone()))
        })?,
    )?;
    let read = move |call: &NativeCall<'_, 'js>| {
        let mut group = group.borrow_mut();
        let piece = call.arg(0).as_string().and_then(strings::strict);
        // A lone surrogate cannot be passed to the automata, so all expressions may match from there on.
        let piece = piece.unwrap_or_else(|| {
            group.abandon();
            String::new()
        });
        let numbers: Vec<usize> = group.may_match(&piece).collect();
        if numbers.is_empty() { Ok(Value::new_undefined(call.ctx().clone())) } else { numbers.into_js(call.ctx()) }
    };
    functions.set("read", closure(ctx, "read", read)?)?;
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
