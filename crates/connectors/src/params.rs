//! Reading members of a call. Errors are `invalid_request` and name method and member.

use pijs_hostcall::Request;
use pijs_hostcall::connector::bytes_index;
use pijs_protocol::HostcallError;
use serde_json::Value;
use std::borrow::Cow;

fn wrong(request: &Request, key: &str, expected: &str) -> HostcallError {
    HostcallError::invalid("schema", format!("{}: `{key}` is not {expected}", request.method))
}

fn present<'a>(request: &'a Request, key: &str) -> Option<&'a Value> {
    request.params.get(key).filter(|value| !value.is_null())
}

/// A string that must be there.
pub(crate) fn text<'a>(request: &'a Request, key: &str) -> Result<&'a str, HostcallError> {
    present(request, key).and_then(Value::as_str).ok_or_else(|| wrong(request, key, "a string"))
}

/// A string that may be absent.
pub(crate) fn text_or_none<'a>(request: &'a Request, key: &str) -> Result<Option<&'a str>, HostcallError> {
    present(request, key).map(|value| value.as_str().ok_or_else(|| wrong(request, key, "a string"))).transpose()
}

/// A flag; absent means false.
pub(crate) fn flag(request: &Request, key: &str) -> Result<bool, HostcallError> {
    present(request, key).map_or(Ok(false), |value| value.as_bool().ok_or_else(|| wrong(request, key, "a boolean")))
}

/// A whole number that may be absent. JavaScript's numbers may arrive with a fraction of zero.
pub(crate) fn whole_or_none(request: &Request, key: &str) -> Result<Option<u64>, HostcallError> {
    present(request, key)
        .map(|value| {
            let float = || value.as_f64().filter(|f| f.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(f));
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked just above")]
            value.as_u64().or_else(|| float().map(|f| f as u64)).ok_or_else(|| wrong(request, key, "a whole number"))
        })
        .transpose()
}

/// A whole number that must be there.
pub(crate) fn whole(request: &Request, key: &str) -> Result<u64, HostcallError> {
    whole_or_none(request, key)?.ok_or_else(|| wrong(request, key, "a whole number"))
}

/// Bytes: an attachment, or text that stands for its UTF-8.
pub(crate) fn bytes_or_none<'a>(request: &'a Request, key: &str) -> Result<Option<Cow<'a, [u8]>>, HostcallError> {
    let Some(value) = present(request, key) else { return Ok(None) };
    if let Value::String(text) = value {
        return Ok(Some(Cow::Borrowed(text.as_bytes())));
    }
    match bytes_index(value).and_then(|index| request.bytes.get(index)) {
        Some(bytes) => Ok(Some(Cow::Borrowed(bytes))),
        None => Err(wrong(request, key, "text or attached bytes")),
    }
}

/// Bytes that must be there.
pub(crate) fn bytes<'a>(request: &'a Request, key: &str) -> Result<Cow<'a, [u8]>, HostcallError> {
    bytes_or_none(request, key)?.ok_or_else(|| wrong(request, key, "text or attached bytes"))
}
