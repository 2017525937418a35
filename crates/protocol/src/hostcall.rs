//! The hostcall ABI (`docs/spec/hostcalls.md`).
//!
//! A hostcall is the only way an extension reaches the world. The realm states the
//! capability it believes it needs; the core derives the required one from method and
//! params, and a difference is `invalid_request`.

use crate::ids::{CallId, string_id};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use smol_str::SmolStr;
use std::fmt;

string_id! {
    /// The key that policy and grants speak about: `read`, `exec`, `session.inject`, ...
    ///
    /// An open vocabulary: an unknown tool requires the capability `tool`,
    /// and the table in `pijs-hostcall` is the list of those that can be derived.
    Capability
}
string_id! {
    /// Which connector a call goes to.
    Method
}

/// `host_call.payload`: one request of an extension to the core.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostCall {
    /// Correlates this request with its results.
    pub call_id: CallId,
    /// What the caller believes it needs; compared with the derived one, never trusted.
    pub capability: Capability,
    /// Connector: `fs`, `exec`, `http`, `env`, `session`, `ui`, `tool`, `log`, `module`.
    #[schemars(with = "String")]
    pub method: Method,
    /// Method-specific parameters. A byte value is `{"$bytes": i}`, an index into `bytes`.
    pub params: Map<String, Value>,
    /// Wall-clock limit for the host operation, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Names the call for a later `cancel`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel_token: Option<String>,
    /// Free-form metadata for logs; never used for a decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Map<String, Value>>,
    /// Raw attachments, carried beside the JSON head of a frame.
    #[serde(skip)]
    #[schemars(skip)]
    pub bytes: Vec<Vec<u8>>,
}

/// `host_result.payload`: an answer, or one chunk of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostResult {
    /// The call this answers.
    pub call_id: CallId,
    /// Method-specific result; `{}` on error. A byte value is `{"$bytes": i}`.
    pub output: Value,
    /// Whether `error` is present.
    pub is_error: bool,
    /// Present exactly when `is_error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<HostcallError>,
    /// Present when the answer comes in pieces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk: Option<Chunk>,
    /// Raw attachments, carried beside the JSON head of a frame.
    #[serde(skip)]
    #[schemars(skip)]
    pub bytes: Vec<Vec<u8>>,
}

impl HostResult {
    /// A complete, successful answer.
    pub fn ok(call_id: CallId, output: Value) -> Self {
        Self { call_id, output, is_error: false, error: None, chunk: None, bytes: Vec::new() }
    }

    /// A complete answer that carries raw bytes; `output` refers to them as `{"$bytes": i}`.
    pub fn ok_with_bytes(call_id: CallId, output: Value, bytes: Vec<Vec<u8>>) -> Self {
        Self { call_id, output, is_error: false, error: None, chunk: None, bytes }
    }

    /// A refusal or a failure.
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

    /// Whether no further result with this id follows.
    pub fn is_final(&self) -> bool {
        self.is_error || self.chunk.as_ref().is_none_or(|chunk| chunk.is_last)
    }
}

/// Streaming metadata of one result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Chunk {
    /// 0 for the first chunk, then one more each.
    pub index: u32,
    /// Whether this is the final one.
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
    /// A bug or a broken invariant of the host.
    Internal,
}

impl ErrorCode {
    /// The code as it is written on the wire.
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

/// Why a hostcall failed: an ordinary rejection for the extension.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostcallError {
    /// Which of the five kinds.
    pub code: ErrorCode,
    /// One sentence that names the thing.
    pub message: String,
    /// Whether the same call may succeed later.
    #[serde(default)]
    pub retryable: bool,
    /// `reason` of the situation table in `docs/security.md`, and what belongs to it:
    /// `errno`, `syscall`, `path`, `capability`, `quota`, ...
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub details: Map<String, Value>,
}

impl HostcallError {
    /// An error with a code and a sentence.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retryable: false, details: Map::new() }
    }

    /// A refusal with its reason (`no_grant`, `scope`, `policy`, `user`, `non_interactive`, ...).
    pub fn denied(reason: &str, message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Denied, message).with("reason", reason)
    }

    /// Bad shape or bad value (`schema`, `capability_mismatch`, `path`, `url`, `too_large`, ...).
    pub fn invalid(reason: &str, message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidRequest, message).with("reason", reason)
    }

    /// An operating system failure. `errno` is the name (`ENOENT`), `syscall` Node's name for it.
    pub fn io(errno: &str, syscall: &str, message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Io, message).with("reason", errno).with("errno", errno).with("syscall", syscall)
    }

    /// Adds one detail.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }

    /// Says that the same call may succeed later.
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
/// The index in `{"$bytes": index}`, if `value` is that and nothing else.
pub fn bytes_index(value: &Value) -> Option<usize> {
    let members = value.as_object()?;
    if members.len() != 1 {
        return None;
    }
    usize::try_from(members.get("$bytes")?.as_u64()?).ok()
}
