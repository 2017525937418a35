//! The interface of connectors, which perform allowed calls.
//!
//! A [`Connector`] performs one kind of call (`fs`, `exec`, `http`, ...) after the gate has allowed it. The [`Request`] describes
//! the call as it was decided; where a connector resolves a name further (a symbolic link, a redirect), it asks
//! [`Request::permit`] about the result.

pub use crate::output::{bytes_ref, cancelled, deadline};
pub use pijs_protocol::hostcall::bytes_index;

use crate::caller::Caller;
use crate::decision::Decision;
use crate::derive::required;
use crate::gate::Permit;
use crate::in_flight::ChunkSink;
use crate::output::Output;
use crate::subject::Required;
use crate::task::{BoxFuture, CancelToken};
use pijs_protocol::{CallId, ErrorCode, ExtensionId, HostcallError, Method, TypedCall};
use serde_json::{Map, Value};

/// Performs allowed calls of one method.
pub trait Connector: Send + Sync {
    /// Performs an allowed call. `sink` takes chunks of a streaming answer; the returned output is then the last chunk.
    ///
    /// Deadline and cancellation drop the future; a connector that left something behind (a process, a temporary file) cleans up
    /// on drop or watches [`Request::cancel`].
    fn call(&self, request: Request, sink: ChunkSink) -> BoxFuture<'static, Result<Output, HostcallError>>;

    /// Performs a synchronous call. It blocks the realm, so the connector itself enforces [`Request::timeout_ms`] and
    /// [`Request::cancel`].
    ///
    /// The default refuses with `invalid_request`.
    fn call_sync(&self, request: &Request) -> Result<Output, HostcallError> {
        Err(HostcallError::invalid(
            "sync",
            format!("`{}` has no synchronous form; use the asynchronous one", request.method),
        ))
    }

    /// Releases resources of an extension whose realm has ended (file handles, processes).
    fn end_extension(&self, extension: &ExtensionId) {
        let _ = extension;
    }
}

/// An allowed call.
#[derive(Debug, Clone)]
pub struct Request {
    /// The calling extension.
    pub caller: Caller,
    /// Id of the call, for messages and logs.
    pub call_id: CallId,
    /// The method, as in [`crate::vocabulary`].
    pub method: Method,
    /// Op and parameters of the call.
    pub call: TypedCall,
    /// Parameters of an untyped method; bytes are `{"$bytes": i}`, an index into `bytes`.
    pub params: Map<String, Value>,
    /// Attachments of an untyped method.
    pub bytes: Vec<Vec<u8>>,
    /// The gate's decision.
    pub decision: Decision,
    /// Permit that decides about everything that the connector resolves further.
    pub permit: Permit,
    /// Wall-clock limit in milliseconds. The dispatcher enforces it for [`Connector::call`].
    pub timeout_ms: Option<u64>,
    /// Signalled when the call is cancelled.
    pub cancel: CancelToken,
}

impl Request {
    /// Returns the capability and the subject that were decided.
    pub fn required(&self) -> Result<Required<'_>, HostcallError> {
        required(&self.method, &self.call, &self.params)
    }

    /// Returns the error for a request that reached the connector of another method.
    pub fn misdirected(&self) -> HostcallError {
        HostcallError::new(
            ErrorCode::Internal,
            format!("`{}` was sent to the connector of another method", self.method),
        )
        .with("reason", "invariant")
    }
}
