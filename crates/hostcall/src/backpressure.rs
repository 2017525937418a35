//! Backpressure: limits completed hostcall results not yet delivered to the realm.
//!
//! A result waits in the host's memory until its realm takes it, and the extension determines their number and size. When too
//! many bytes wait, further calls of that extension begin only after its realm has taken some, and few files are read at a time.
//! No call is refused, and an honest extension, which has no more memory than its realm, never waits. Streams (a response, a
//! connection, a program's output) pause at a lower limit of bytes and of chunks, because a server determines the size of its
//! chunks, and the realm's timers queue behind all of them.

use crate::task::CancelToken;
use pijs_protocol::call::FsCall;
use pijs_protocol::{ExtensionId, HostResult, TypedCall, guard};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Maximum number of concurrent file operations of one extension, twice as many as in Node. Their data is in memory at the same
/// time, and they share the threads with all other work.
const MAX_FILE_OPS: usize = 8;

/// Number of undelivered results at which streams pause. A realm takes that many in a few milliseconds.
const STREAM_RESULTS: usize = 128;

/// Memory of a result in addition to its content, in bytes.
const RESULT_OVERHEAD: usize = 512;

/// The undelivered results of all extensions.
#[derive(Default)]
pub(crate) struct Backpressure {
    by_extension: Mutex<BTreeMap<ExtensionId, Arc<UndeliveredResults>>>,
}

/// The undelivered results of one extension.
pub(crate) struct UndeliveredResults {
    bytes: AtomicUsize,
    results: AtomicUsize,
    /// Number of waiting calls and streams.
    waiting: AtomicUsize,
    until_below: Notify,
    /// Limits concurrent file operations.
    file_ops: Arc<Semaphore>,
}

impl Default for UndeliveredResults {
    fn default() -> Self {
        let file_ops = Arc::new(Semaphore::new(MAX_FILE_OPS));
        let [bytes, results, waiting] = [0; 3].map(AtomicUsize::new);
        Self { bytes, results, waiting, until_below: Notify::new(), file_ops }
    }
}

/// Accounts for one undelivered result; dropping it marks the result as delivered, or as void because its realm has ended.
pub struct ResultPermit {
    undelivered: Arc<UndeliveredResults>,
    bytes: usize,
}

impl Drop for ResultPermit {
    fn drop(&mut self) {
        let UndeliveredResults { bytes, results, waiting, until_below, .. } = &*self.undelivered;
        // SeqCst with the loads in `until_below`: a waiter registers before it reads, so it either sees the lower value or is
        // woken.
        bytes.fetch_sub(self.bytes, Ordering::SeqCst);
        results.fetch_sub(1, Ordering::SeqCst);
        if waiting.load(Ordering::SeqCst) > 0 {
            until_below.notify_waiters();
        }
    }
}

/// Registers a waiter.
struct WaiterGuard<'a>(&'a AtomicUsize);

impl<'a> WaiterGuard<'a> {
    fn of(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::SeqCst);
        Self(waiting)
    }
}

impl Drop for WaiterGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Permission for a call to begin; kept until the call has a result.
pub(crate) struct CallSlot {
    _file_op: Option<OwnedSemaphorePermit>,
}

impl Backpressure {
    /// Returns the undelivered results of an extension.
    pub(crate) fn of(&self, extension: &ExtensionId) -> Arc<UndeliveredResults> {
        let mut all = self.by_extension.lock().unwrap_or_else(PoisonError::into_inner);
        match all.get(extension) {
            Some(undelivered) => Arc::clone(undelivered),
            None => Arc::clone(all.entry(extension.clone()).or_default()),
        }
    }
}

impl UndeliveredResults {
    /// Accounts for a result.
    pub(crate) fn permit(self: &Arc<Self>, result: &HostResult) -> ResultPermit {
        let bytes = result.bytes.iter().map(Vec::len).sum::<usize>() + weight(&result.output) + RESULT_OVERHEAD;
        self.bytes.fetch_add(bytes, Ordering::AcqRel);
        self.results.fetch_add(1, Ordering::AcqRel);
        ResultPermit { undelivered: Arc::clone(self), bytes }
    }

    /// Returns the permission for a call if it need not wait.
    pub(crate) fn try_slot(&self, call: &TypedCall, limit: usize) -> Option<CallSlot> {
        if !self.is_below(limit, usize::MAX) {
            return None;
        }
        let file_op = match is_limited(call) {
            true => Some(Arc::clone(&self.file_ops).try_acquire_owned().ok()?),
            false => None,
        };
        Some(CallSlot { _file_op: file_op })
    }

    /// Waits until a call may begin, or until it is cancelled.
    pub(crate) async fn slot(&self, call: &TypedCall, limit: usize, cancel: &CancelToken) -> CallSlot {
        let file_op = match is_limited(call) {
            true => tokio::select! {
                () = cancel.cancelled() => None,
                // The semaphore is never closed.
                slot = Arc::clone(&self.file_ops).acquire_owned() => slot.ok(),
            },
            false => None,
        };
        self.until_below(limit, usize::MAX, cancel).await;
        CallSlot { _file_op: file_op }
    }

    /// Waits until a stream may continue, or until it is cancelled.
    pub(crate) async fn until_stream_continues(&self, limit: usize, cancel: &CancelToken) {
        if guard!(QuotaStreams) {
            self.until_below(limit, STREAM_RESULTS, cancel).await;
        }
    }

    async fn until_below(&self, bytes: usize, results: usize, cancel: &CancelToken) {
        if self.is_below(bytes, results) {
            return;
        }
        let _waits = WaiterGuard::of(&self.waiting);
        loop {
            let until_below = self.until_below.notified();
            tokio::pin!(until_below);
            // Enabled before the check, so that no notification between check and wait is lost.
            until_below.as_mut().enable();
            if self.is_below(bytes, results) {
                return;
            }
            tokio::select! {
                () = cancel.cancelled() => return,
                () = until_below => {}
            }
        }
    }

    fn is_below(&self, bytes: usize, results: usize) -> bool {
        self.bytes.load(Ordering::SeqCst) < bytes && self.results.load(Ordering::SeqCst) < results
            || !guard!(QuotaUndelivered)
    }
}

/// Returns whether a call counts toward the limit of concurrent file operations.
fn is_limited(call: &TypedCall) -> bool {
    matches!(call, TypedCall::Fs(call) if !matches!(call, FsCall::Watch { .. })) && guard!(QuotaUndelivered)
}

/// Estimates the memory of a value in bytes.
fn weight(value: &Value) -> usize {
    const NODE: usize = 32;
    NODE + match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(members) => members.iter().map(|(key, value)| key.len() + weight(value)).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::pin::{Pin, pin};
    use std::task::{Context, Waker};

    #[test]
    fn calls_wait_for_the_realm_of_their_own_extension() {
        let undelivered = Backpressure::default();
        let [one, two] = ["path:/one", "path:/two"].map(|name| undelivered.of(&name.into()));
        let (go_on, stop) = (CancelToken::new(), CancelToken::new());
        let held = one.permit(&HostResult::ok("c".into(), json!({ "text": "y".repeat(100) })));
        assert!(is_ready(&mut pin!(one.until_below(1000, 2, &go_on))));
        assert!(is_ready(&mut pin!(two.until_below(1, 1, &go_on))));
        let mut waits = pin!(one.until_below(100, 2, &go_on));
        let mut stopped = pin!(one.until_below(100, 2, &stop));
        assert!(!is_ready(&mut waits) && !is_ready(&mut stopped));
        stop.cancel();
        assert!(!is_ready(&mut waits) && is_ready(&mut stopped));
        drop(held);
        assert!(is_ready(&mut waits));
    }

    #[test]
    fn many_small_results_pause_streams_but_not_calls() {
        let undelivered = Backpressure::default();
        let (one, go_on) = (undelivered.of(&"path:/one".into()), CancelToken::new());
        let mut held: Vec<ResultPermit> =
            (0..STREAM_RESULTS).map(|_| one.permit(&HostResult::ok("c".into(), json!({})))).collect();
        let mut stream = pin!(one.until_stream_continues(1 << 20, &go_on));
        assert!(!is_ready(&mut stream));
        assert!(is_ready(&mut pin!(one.until_below(1 << 20, usize::MAX, &go_on))));
        held.pop();
        assert!(is_ready(&mut stream));
    }

    fn is_ready(work: &mut Pin<&mut impl Future<Output = ()>>) -> bool {
        work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }
}
