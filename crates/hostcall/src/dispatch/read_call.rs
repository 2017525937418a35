//! A call that the dispatcher has measured, hashed and parsed, before any decision.

use super::Dispatcher;
use crate::derive::{ParsedCall, member};
use crate::ledger::ParamsHash;
use pijs_protocol::call::FsCall;
use pijs_protocol::{CallId, HostCall, HostcallError, TypedCall};
use serde_json::Value;

/// A call that was measured, hashed and parsed. Synchronous and asynchronous calls begin with it.
#[derive(Clone)]
pub struct ReadCall {
    /// Envelope of the call; its parameters and attachments have moved into `parsed`.
    pub(super) head: HostCall,
    pub(super) parsed: Result<ParsedCall, HostcallError>,
    /// Size of parameters and attachments, in bytes.
    pub(super) size: Result<usize, HostcallError>,
    pub(super) params_hash: Option<ParamsHash>,
}

impl Dispatcher {
    /// Measures, hashes and parses a call.
    pub fn read(&self, mut call: HostCall) -> ReadCall {
        let size = self.inner.quotas.check(&call.params, &call.bytes);
        let params_hash = size.is_ok().then(|| self.inner.ledger.hash_params(&call));
        let (params, bytes) = (std::mem::take(&mut call.params), std::mem::take(&mut call.bytes));
        let parsed = ParsedCall::parse(call.method.clone(), params, bytes);
        ReadCall { head: call, parsed, size, params_hash }
    }
}

impl ReadCall {
    /// Returns the id of the call.
    pub fn call_id(&self) -> &CallId {
        &self.head.call_id
    }

    /// Sets the id of the call.
    #[must_use]
    pub fn with_id(mut self, call_id: CallId) -> Self {
        self.head.call_id = call_id;
        self
    }

    fn file_op(&self) -> Option<&FsCall> {
        match &self.parsed {
            Ok(ParsedCall { call: TypedCall::Fs(call), .. }) => Some(call),
            _ => None,
        }
    }

    /// Returns the `op` of an untyped call; empty if it has none.
    pub(super) fn untyped_op(&self) -> &str {
        let params = self.parsed.as_ref().ok().map(|parsed| &parsed.params);
        params.and_then(|params| member(params, "op")).and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns whether the duration of the call depends on the size of a file or a folder tree. Such calls check their cancel
    /// token.
    pub(super) fn depends_on_size(&self) -> bool {
        self.file_op().is_some_and(FsCall::depends_on_size)
    }

    /// Returns whether the result is withheld until earlier file-system calls of the extension have ended.
    pub(super) fn ends_in_order(&self) -> bool {
        self.file_op().is_some_and(|call| !matches!(call, FsCall::Watch { .. }) && !call.depends_on_size())
    }
}
