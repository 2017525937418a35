//! The hostcall ABI (`docs/spec/hostcalls.md`).
//!
//! Hostcalls are the only way for an extension to have external effects. The realm states the capability that it expects; the
//! core derives the required capability from method and params, and refuses a difference with `invalid_request`.

use crate::ids::{CallId, string_id};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use smol_str::SmolStr;
use std::fmt;

string_id! {
    /// A key of policy and grants: `read`, `exec`, `session.inject`, ...
    ///
    /// The vocabulary is open: an unknown tool requires the capability `tool`, and the table in `pijs-hostcall` lists all
    /// capabilities that can be derived.
    Capability
}
string_id! {
    /// Name of a method: `fs`, `exec`, `http`, and others. One connector serves it.
    Method
}

/// `host_call.payload`: one request of an extension to the core.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostCall {
    /// Correlates this request with its results.
    pub call_id: CallId,
    /// Capability that the caller expects; compared with the derived capability, never trusted.
    pub capability: Capability,
    /// Connector: `fs`, `exec`, `http`, `env`, `session`, `ui`, `tool`, `log`, `module`.
    #[schemars(with = "String")]
    pub method: Method,
    /// Method-specific parameters. A byte value is `{"$bytes": i}`, an index into `bytes`.
    pub params: Map<String, Value>,
    /// Wall-clock limit for the host operation, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Token that names the call for a later `cancel`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel_token: Option<String>,
    /// Free-form metadata for logs; decisions ignore it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Map<String, Value>>,
    /// Raw attachments, outside of the JSON head of a frame.
    #[serde(skip)]
    #[schemars(skip)]
    pub bytes: Vec<Vec<u8>>,
}

/// `host_result.payload`: an answer, or one chunk of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostResult {
    /// Id of the call that this answers.
    pub call_id: CallId,
    /// Method-specific result; `{}` on error. A byte value is `{"$bytes": i}`.
    pub output: Value,
    /// Whether `error` is present.
    pub is_error: bool,
    /// Present if and only if `is_error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<HostcallError>,
    /// Present when the answer is streamed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk: Option<Chunk>,
    /// Raw attachments, outside of the JSON head of a frame.
    #[serde(skip)]
    #[schemars(skip)]
    pub bytes: Vec<Vec<u8>>,
}

impl HostResult {
    /// Creates a complete, successful answer.
    pub fn ok(call_id: CallId, output: Value) -> Self {
        Self { call_id, output, is_error: false, error: None, chunk: None, bytes: Vec::new() }
    }

    /// Creates a complete answer with raw bytes; `output` refers to them as `{"$bytes": i}`.
    pub fn ok_with_bytes(call_id: CallId, output: Value, bytes: Vec<Vec<u8>>) -> Self {
        Self { call_id, output, is_error: false, error: None, chunk: None, bytes }
    }

    /// Creates the answer of a refused or failed call.
    pub fn failed(call_id: CallId, error: HostcallError) -> Self {
        Self {
            call_id,
            output: Value::Object(Map::new()),
            is_error: true,
            error: Some(error),
            chunk: None,
            bytes: Vec::new(),
        }
    }

    /// Returns whether no further result with this id follows.
    pub fn is_final(&self) -> bool {
        self.is_error || self.chunk.as_ref().is_none_or(|chunk| chunk.is_last)
    }
}

/// Streaming metadata of one result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Chunk {
    /// Index of the chunk, from 0.
    pub index: u32,
    /// Whether this is the last chunk.
    pub is_last: bool,
    /// Reserved for flow-control hints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backpressure: Option<Value>,
}

/// The error taxonomy. Code strings appear nowhere else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// A deadline was reached, or the call was cancelled.
    Timeout,
    /// The capability is not granted, is out of scope, or a quota is used up.
    Denied,
    /// File system, network or process failure.
    Io,
    /// Malformed method or params, or a capability that differs from the derived one.
    InvalidRequest,
    /// A host bug.
    Internal,
}

impl ErrorCode {
    /// Returns the code as it is written on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Denied => "denied",
            Self::Io => "io",
            Self::InvalidRequest => "invalid_request",
            Self::Internal => "internal",
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The error of a hostcall: an ordinary rejection for the extension.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostcallError {
    /// Kind of error.
    pub code: ErrorCode,
    /// One sentence that names the subject.
    pub message: String,
    /// Whether the same call may succeed later.
    #[serde(default)]
    pub retryable: bool,
    /// `reason` of the situation table in `docs/security.md`, and its details: `errno`, `syscall`, `path`, `capability`, `quota`,
    /// ...
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub details: Map<String, Value>,
}

impl HostcallError {
    /// Creates an error with a code and a message.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retryable: false, details: Map::new() }
    }

    /// Creates a refusal with its reason (`no_grant`, `scope`, `policy`, `user`, `non_interactive`, ...).
    pub fn denied(reason: &str, message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Denied, message).with("reason", reason)
    }

    /// Creates the error of a malformed call (`schema`, `capability_mismatch`, `path`, `url`, `too_large`, ...).
    pub fn invalid(reason: &str, message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidRequest, message).with("reason", reason)
    }

    /// Creates the error of a failed system call. `errno` is the name (`ENOENT`), `syscall` is Node's name for it.
    pub fn io(errno: &str, syscall: &str, message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Io, message).with("reason", errno).with("errno", errno).with("syscall", syscall)
    }

    /// Adds one detail.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }

    /// Marks the error as retryable.
    #[must_use]
    pub fn retryable(mut self) -> Self {
        self.retryable = true;
        self
    }
}

impl fmt::Display for HostcallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for HostcallError {}
/// Returns the index in `{"$bytes": index}`, if `value` has exactly this form.
pub fn bytes_index(value: &Value) -> Option<usize> {
    let members = value.as_object()?;
    if members.len() != 1 {
        return None;
    }
    usize::try_from(members.get("$bytes")?.as_u64()?).ok()
}
