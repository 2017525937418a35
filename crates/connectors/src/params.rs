//! Reads members of an untyped call. Errors have the code `invalid_request` and name the method and the member.

use pijs_hostcall::Request;
use pijs_protocol::HostcallError;
use serde_json::Value;

fn wrong(request: &Request, key: &str, expected: &str) -> HostcallError {
    HostcallError::invalid("schema", format!("{}: `{key}` is not {expected}", request.method))
}

fn present<'a>(request: &'a Request, key: &str) -> Option<&'a Value> {
    request.params.get(key).filter(|value| !value.is_null())
}

/// Reads a required string.
pub(crate) fn text<'a>(request: &'a Request, key: &str) -> Result<&'a str, HostcallError> {
    present(request, key).and_then(Value::as_str).ok_or_else(|| wrong(request, key, "a string"))
}

/// Reads an optional string.
pub(crate) fn text_or_none<'a>(request: &'a Request, key: &str) -> Result<Option<&'a str>, HostcallError> {
    present(request, key).map(|value| value.as_str().ok_or_else(|| wrong(request, key, "a string"))).transpose()
}
