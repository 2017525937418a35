//! The output of a connector, and the errors that end a call without one.

use pijs_protocol::{ErrorCode, HostcallError};
use serde_json::{Map, Value};
use std::io::{self, ErrorKind};
use std::sync::Arc;

/// The output of a connector.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Output {
    /// Method-specific value; bytes are `{"$bytes": i}`.
    pub value: Value,
    /// Raw attachments.
    pub bytes: Vec<Vec<u8>>,
}

impl Output {
    /// Creates an output without attachments.
    pub fn new(value: Value) -> Self {
        Self { value, bytes: Vec::new() }
    }

    /// Creates the empty output `{}`.
    pub fn empty() -> Self {
        Self::new(Value::Object(Map::new()))
    }

    /// Adds a member `key` with raw bytes.
    pub fn with_bytes(mut self, key: &str, bytes: Vec<u8>) -> Self {
        if !self.value.is_object() {
            self.value = Value::Object(Map::new());
        }
        if let Value::Object(members) = &mut self.value {
            members.insert(key.to_owned(), bytes_ref(self.bytes.len()));
        }
        self.bytes.push(bytes);
        self
    }
}

/// Returns `{"$bytes": index}`.
pub fn bytes_ref(index: usize) -> Value {
    let mut members = Map::new();
    members.insert("$bytes".to_owned(), Value::from(index));
    Value::Object(members)
}

/// Returns the error of a cancelled call.
pub fn cancelled(method: &str) -> HostcallError {
    HostcallError::new(ErrorCode::Timeout, format!("{method}: cancelled")).with("reason", "cancelled")
}

/// Returns the error of a call that exceeded its deadline.
pub fn deadline(method: &str, timeout_ms: u64) -> HostcallError {
    HostcallError::new(ErrorCode::Timeout, format!("{method}: no answer within {timeout_ms} ms"))
        .with("reason", "deadline")
        .with("timeout_ms", timeout_ms)
        .retryable()
}

/// Returns the error of a call that could not be recorded. A full disk counts as a resource limit, which strict mode enforces;
/// any other failure is a system error.
pub(crate) fn unrecorded(error: &io::Error) -> HostcallError {
    let message =
        format!("the ledger cannot be written ({error}), and strict mode refuses calls that cannot be recorded");
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => HostcallError::denied("policy", message),
        _ => HostcallError::io("EIO", "write", message),
    }
}

/// Returns the error of a call during which host code panicked.
pub(crate) fn panicked(method: &str) -> HostcallError {
    HostcallError::new(ErrorCode::Internal, format!("{method}: the connector panicked; this is a bug in the host"))
        .with("reason", "invariant")
}

/// Returns `details.reason` of an error, for the ledger.
pub(crate) fn reason_of(error: &HostcallError) -> Option<Arc<str>> {
    error.details.get("reason").and_then(|reason| reason.as_str()).map(Arc::from)
}
