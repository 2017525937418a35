//! Makes hostcalls for a server, with the caller `mcp:NAME`.

use pijs_hostcall::ParsedCall;
use pijs_hostcall::{Caller, CancelToken, Dispatcher, ResultPermit};
use pijs_protocol::{Capability, HostCall, HostResult, HostcallError};
use serde_json::{Map, Value};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use tokio::sync::mpsc;

/// The dispatcher of the session, available from the assembly of the session until its end. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct SessionDispatcher(Arc<DispatcherSlot>);

#[derive(Default)]
struct DispatcherSlot {
    dispatcher: OnceLock<Arc<Dispatcher>>,
    /// Whether the session has ended. Read-locked while a call starts, so that no call starts after [`SessionDispatcher::close`].
    is_closed: RwLock<bool>,
}

impl SessionDispatcher {
    pub(crate) fn set(&self, dispatcher: Arc<Dispatcher>) {
        let _ = self.0.dispatcher.set(dispatcher);
    }

    /// Prevents further calls from starting.
    pub(crate) fn close(&self) {
        *self.0.is_closed.write().unwrap_or_else(PoisonError::into_inner) = true;
    }

    pub(crate) fn get(&self) -> Option<&Arc<Dispatcher>> {
        self.0.dispatcher.get()
    }
}

/// Makes hostcalls for one caller. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Calls {
    session: SessionDispatcher,
    pub(crate) caller: Caller,
    /// Prefix of call ids, which keeps the ids unique if several servers share a caller.
    server: Arc<str>,
    next: Arc<AtomicU64>,
}

/// A call with a streaming answer. Dropping it cancels the call.
pub(crate) struct StreamingCall {
    pub(crate) results: mpsc::UnboundedReceiver<(HostResult, ResultPermit)>,
    _cancel: CancelOnDrop,
}

/// Cancels a call when its receiver is dropped.
struct CancelOnDrop {
    calls: Calls,
    id: pijs_protocol::CallId,
    stop: CancelToken,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(dispatcher) = self.calls.session.get() {
            dispatcher.cancel(self.calls.caller.extension(), &self.id);
        }
        self.stop.cancel();
    }
}

impl Calls {
    pub(crate) fn new(session: SessionDispatcher, caller: Caller, server: &str) -> Self {
        Self { session, caller, server: server.into(), next: Arc::default() }
    }

    pub(crate) fn dispatcher(&self) -> Result<&Arc<Dispatcher>, HostcallError> {
        self.session.get().ok_or_else(|| {
            HostcallError::io("EPIPE", "mcp", "mcp: the session has not started; try again after its start")
        })
    }

    /// Builds a call of a method, with the capability that it requires.
    fn hostcall(&self, method: &str, params: Value, bytes: Vec<Vec<u8>>) -> Result<HostCall, HostcallError> {
        let Value::Object(params) = params else { unreachable!("parameters are written here, as objects") };
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut call = HostCall {
            call_id: format!("mcp-{}-{number}", self.server).as_str().into(),
            capability: Capability::new(""),
            method: method.into(),
            params,
            timeout_ms: None,
            cancel_token: None,
            context: None,
            bytes,
        };
        let parsed = ParsedCall::parse(method, call.params.clone(), call.bytes.clone())?;
        call.capability = parsed.required()?.capability();
        Ok(call)
    }

    /// Starts a call with a streaming answer.
    pub(crate) fn stream(
        &self,
        method: &str,
        params: Value,
        bytes: Vec<Vec<u8>>,
    ) -> Result<StreamingCall, HostcallError> {
        let call = self.hostcall(method, params, bytes)?;
        let id = call.call_id.clone();
        let (sender, results) = mpsc::unbounded_channel();
        let chunk_sender = sender.clone();
        let is_closed = self.session.0.is_closed.read().unwrap_or_else(PoisonError::into_inner);
        if *is_closed {
            return Err(HostcallError::io("EPIPE", "mcp", "mcp: the session has ended"));
        }
        let called = self.dispatcher()?.call(&self.caller, call, move |result, held| {
            let _ = chunk_sender.send((result, held));
        });
        let rest = called.rest(move |result, held| {
            let _ = sender.send((result, held));
        });
        drop(is_closed);
        let stop = CancelToken::new();
        let stopped = stop.clone();
        tokio::spawn(async move {
            let mut rest = rest;
            tokio::select! {
                () = &mut rest => {}
                // The connector is notified of the cancellation and still needs polling to clean up.
                () = stopped.cancelled() => rest.await,
            }
        });
        Ok(StreamingCall { results, _cancel: CancelOnDrop { calls: self.clone(), id, stop } })
    }

    /// Makes a call and waits for its result. Dropping the future cancels the call.
    pub(crate) async fn call(
        &self,
        method: &str,
        params: Value,
        bytes: Vec<Vec<u8>>,
    ) -> Result<HostResult, HostcallError> {
        let mut streaming = self.stream(method, params, bytes)?;
        let mut last = None;
        while let Some((result, _)) = streaming.results.recv().await {
            if result.chunk.as_ref().is_none_or(|chunk| chunk.is_last) {
                last = Some(result);
                break;
            }
        }
        match last {
            Some(HostResult { error: Some(error), .. }) => Err(error),
            Some(result) => Ok(result),
            None => Err(HostcallError::io("EPIPE", "mcp", "mcp: the call ended without a result; try again")),
        }
    }
}

/// Takes the bytes that a member of a result refers to.
pub(crate) fn bytes_of(result: &mut HostResult, key: &str) -> Option<Vec<u8>> {
    let index = pijs_hostcall::connector::bytes_index(result.output.get(key)?)?;
    result.bytes.get_mut(index).map(std::mem::take)
}

/// Keeps the last bytes of a stream of any length. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Tail(Arc<Mutex<Vec<u8>>>);

impl Tail {
    const MAX_BYTES: usize = 2000;

    pub(crate) fn add(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(&bytes[bytes.len().saturating_sub(Self::MAX_BYTES)..]);
        let over = kept.len().saturating_sub(Self::MAX_BYTES);
        kept.drain(..over);
    }

    /// Returns the last three lines, joined to one.
    pub(crate) fn last_lines(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&kept);
        let mut lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).rev().take(3).collect();
        lines.reverse();
        crate::names::visible(&lines.join(" | "), 400)
    }
}

/// Builds an object of parameters, leaving out null members.
pub(crate) fn object(members: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    let members = members.into_iter().filter(|(_, value)| !value.is_null());
    Value::Object(members.map(|(key, value)| (key.to_owned(), value)).collect::<Map<_, _>>())
}
