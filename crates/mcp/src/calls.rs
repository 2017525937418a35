//! Hostcalls of a server's own caller, `mcp:NAME`.

use pijs_hostcall::ParsedCall;
use pijs_hostcall::{Caller, CancelToken, Dispatcher, ResultPermit};
use pijs_protocol::{Capability, HostCall, HostResult, HostcallError};
use serde_json::{Map, Value};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use tokio::sync::mpsc;

/// The door that hostcalls go through. It is open from when the session is put together until it ends.
#[derive(Clone, Default)]
pub(crate) struct Door(Arc<Opening>);

#[derive(Default)]
struct Opening {
    dispatcher: OnceLock<Arc<Dispatcher>>,
    /// Held while a call begins: none begins once this says that the session has ended.
    is_closed: RwLock<bool>,
}

impl Door {
    pub(crate) fn open(&self, dispatcher: Arc<Dispatcher>) {
        let _ = self.0.dispatcher.set(dispatcher);
    }

    /// Lets no call begin any more.
    pub(crate) fn close(&self) {
        *self.0.is_closed.write().unwrap_or_else(PoisonError::into_inner) = true;
    }

    pub(crate) fn dispatcher(&self) -> Option<&Arc<Dispatcher>> {
        self.0.dispatcher.get()
    }
}

/// Makes hostcalls for one caller. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Calls {
    door: Door,
    pub(crate) caller: Caller,
    /// Begins the ids of its calls: several servers may have one caller.
    server: Arc<str>,
    next: Arc<AtomicU64>,
}

/// A call that answers in pieces.
pub(crate) struct Pieces {
    pub(crate) results: mpsc::UnboundedReceiver<(HostResult, ResultPermit)>,
    _cancel: CancelOnDrop,
}

/// Cancels a call when nobody waits for it any more.
struct CancelOnDrop {
    calls: Calls,
    id: pijs_protocol::CallId,
    stop: CancelToken,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(dispatcher) = self.calls.door.dispatcher() {
            dispatcher.cancel(self.calls.caller.extension(), &self.id);
        }
        self.stop.cancel();
    }
}

impl Calls {
    pub(crate) fn new(door: Door, caller: Caller, server: &str) -> Self {
        Self { door, caller, server: server.into(), next: Arc::default() }
    }

    pub(crate) fn dispatcher(&self) -> Result<&Arc<Dispatcher>, HostcallError> {
        self.door.dispatcher().ok_or_else(|| HostcallError::io("EPIPE", "mcp", "mcp: the session has not begun"))
    }

    /// A call of this method; its capability is the one that it needs.
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

    /// Begins a call whose answer comes in pieces; dropping them cancels it.
    pub(crate) fn pieces(&self, method: &str, params: Value, bytes: Vec<Vec<u8>>) -> Result<Pieces, HostcallError> {
        let call = self.hostcall(method, params, bytes)?;
        let id = call.call_id.clone();
        let (sender, results) = mpsc::unbounded_channel();
        let of_chunks = sender.clone();
        let is_closed = self.door.0.is_closed.read().unwrap_or_else(PoisonError::into_inner);
        if *is_closed {
            return Err(HostcallError::io("EPIPE", "mcp", "mcp: the session has ended"));
        }
        let called = self.dispatcher()?.call(&self.caller, call, move |result, held| {
            let _ = of_chunks.send((result, held));
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
                // Its connector has been told, and gets the time to end what it has begun.
                () = stopped.cancelled() => rest.await,
            }
        });
        Ok(Pieces { results, _cancel: CancelOnDrop { calls: self.clone(), id, stop } })
    }

    /// Makes a call and waits for its end. Dropping the future cancels it.
    pub(crate) async fn call(
        &self,
        method: &str,
        params: Value,
        bytes: Vec<Vec<u8>>,
    ) -> Result<HostResult, HostcallError> {
        let mut pieces = self.pieces(method, params, bytes)?;
        let mut last = None;
        while let Some((result, _)) = pieces.results.recv().await {
            if result.chunk.as_ref().is_none_or(|chunk| chunk.is_last) {
                last = Some(result);
                break;
            }
        }
        match last {
            Some(HostResult { error: Some(error), .. }) => Err(error),
            Some(result) => Ok(result),
            None => Err(HostcallError::io("EPIPE", "mcp", "mcp: the call was lost")),
        }
    }
}

/// A member of an answer that holds bytes.
pub(crate) fn bytes_of(result: &mut HostResult, key: &str) -> Option<Vec<u8>> {
    let index = pijs_hostcall::connector::bytes_index(result.output.get(key)?)?;
    result.bytes.get_mut(index).map(std::mem::take)
}

/// The last bytes of a text that never ends.
#[derive(Clone, Default)]
pub(crate) struct Tail(Arc<Mutex<Vec<u8>>>);

impl Tail {
    const MOST: usize = 2000;

    pub(crate) fn add(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(&bytes[bytes.len().saturating_sub(Self::MOST)..]);
        let over = kept.len().saturating_sub(Self::MOST);
        kept.drain(..over);
    }

    /// Its last lines, on one.
    pub(crate) fn words(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&kept);
        let mut lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).rev().take(3).collect();
        lines.reverse();
        crate::names::visible(&lines.join(" | "), 400)
    }
}

/// An object of parameters without the members that are null.
pub(crate) fn object(members: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    let members = members.into_iter().filter(|(_, value)| !value.is_null());
    Value::Object(members.map(|(key, value)| (key.to_owned(), value)).collect::<Map<_, _>>())
}
