//! Backpressure: limits completed hostcall results not yet delivered to the realm.
//!
//! A result waits in the host's memory until its realm takes it, and the extension determines their number and size. When too
//! many bytes wait, further calls of that extension begin after its realm has taken some, and files are read a few at a time; no
//! call is refused, and an honest extension, which has no more memory than its realm, never waits. Streams (a response, a
//! connection, a program's output) pause at a lower limit of bytes and of chunks, because a server determines the size of its
//! chunks, and the realm's timers queue behind all of them.

use crate::connector::CancelToken;
use crate::derive::member;
use pijs_protocol::{ExtensionId, HostCall, HostResult, guard};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Concurrent file operations of one extension, twice as many as in Node. Their data is in memory at the same time, and they
/// share the threads with all other work.
const SIDE_BY_SIDE: usize = 8;

/// Undelivered results at which streams pause. A realm takes so many in a few milliseconds.
const PIECES: usize = 128;

/// Bytes that a result takes besides its content.
const RESULT: usize = 512;

/// The undelivered results of all extensions.
#[derive(Default)]
pub(crate) struct Untaken {
    by_extension: Mutex<BTreeMap<ExtensionId, Arc<Pile>>>,
}

/// The undelivered results of one extension.
pub(crate) struct Pile {
    bytes: AtomicUsize,
    results: AtomicUsize,
    /// Number of waiting calls and streams.
    waiting: AtomicUsize,
    eased: Notify,
    /// Limits concurrent file operations.
    turns: Arc<Semaphore>,
}

impl Default for Pile {
    fn default() -> Self {
        let turns = Arc::new(Semaphore::new(SIDE_BY_SIDE));
        let [bytes, results, waiting] = [0; 3].map(AtomicUsize::new);
        Self { bytes, results, waiting, eased: Notify::new(), turns }
    }
}

/// Accounts for one undelivered result; dropping it marks the result as delivered, or its realm as ended.
pub struct Held {
    pile: Arc<Pile>,
    bytes: usize,
}

impl Drop for Held {
    fn drop(&mut self) {
        let Pile { bytes, results, waiting, eased, .. } = &*self.pile;
        // SeqCst with the loads in `eased`: a waiter registers before it reads, so it either sees the lower value or is woken.
        bytes.fetch_sub(self.bytes, Ordering::SeqCst);
        results.fetch_sub(1, Ordering::SeqCst);
        if waiting.load(Ordering::SeqCst) > 0 {
            eased.notify_waiters();
        }
    }
}

/// Registers a waiter.
struct Waits<'a>(&'a AtomicUsize);

impl<'a> Waits<'a> {
    fn of(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::SeqCst);
        Self(waiting)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Permission for a call to begin, held until its result.
pub(crate) struct Turn {
    _of_few: Option<OwnedSemaphorePermit>,
}

impl Untaken {
    /// Returns the undelivered results of an extension.
    pub(crate) fn of(&self, extension: &ExtensionId) -> Arc<Pile> {
        let mut all = self.by_extension.lock().unwrap_or_else(PoisonError::into_inner);
        match all.get(extension) {
            Some(pile) => Arc::clone(pile),
            None => Arc::clone(all.entry(extension.clone()).or_default()),
        }
    }
}

impl Pile {
    /// Accounts for a result.
    pub(crate) fn hold(self: &Arc<Self>, result: &HostResult) -> Held {
        let bytes = result.bytes.iter().map(Vec::len).sum::<usize>() + weight(&result.output) + RESULT;
        self.bytes.fetch_add(bytes, Ordering::AcqRel);
        self.results.fetch_add(1, Ordering::AcqRel);
        Held { pile: Arc::clone(self), bytes }
    }

    /// Returns the permission for a call if it need not wait.
    pub(crate) fn turn_now(&self, call: &HostCall, limit: usize) -> Option<Turn> {
        if !self.is_little(limit, usize::MAX) {
            return None;
        }
        let of_few = match is_one_of_few(call) {
            true => Some(Arc::clone(&self.turns).try_acquire_owned().ok()?),
            false => None,
        };
        Some(Turn { _of_few: of_few })
    }

    /// Waits until a call may begin, or until it is cancelled.
    pub(crate) async fn turn(&self, call: &HostCall, limit: usize, cancel: &CancelToken) -> Turn {
        let of_few = match is_one_of_few(call) {
            true => tokio::select! {
                () = cancel.cancelled() => None,
                // The semaphore is never closed.
                turn = Arc::clone(&self.turns).acquire_owned() => turn.ok(),
            },
            false => None,
        };
        self.eased(limit, usize::MAX, cancel).await;
        Turn { _of_few: of_few }
    }

    /// Waits until a stream may continue, or until it is cancelled.
    pub(crate) async fn streams(&self, limit: usize, cancel: &CancelToken) {
        if guard!(QuotaStreams) {
            self.eased(limit, PIECES, cancel).await;
        }
    }

    async fn eased(&self, bytes: usize, results: usize, cancel: &CancelToken) {
        if self.is_little(bytes, results) {
            return;
        }
        let _waits = Waits::of(&self.waiting);
        loop {
            let eased = self.eased.notified();
            tokio::pin!(eased);
            // Enabled before the check, so that no notification between check and wait is lost.
            eased.as_mut().enable();
            if self.is_little(bytes, results) {
                return;
            }
            tokio::select! {
                () = cancel.cancelled() => return,
                () = eased => {}
            }
        }
    }

    fn is_little(&self, bytes: usize, results: usize) -> bool {
        self.bytes.load(Ordering::SeqCst) < bytes && self.results.load(Ordering::SeqCst) < results
            || !guard!(QuotaUndelivered)
    }
}

/// Returns whether a call counts toward the limit of concurrent file operations.
fn is_one_of_few(call: &HostCall) -> bool {
    call.method == "fs" && member(&call.params, "op").is_none_or(|op| op != "watch") && guard!(QuotaUndelivered)
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
    fn who_has_not_taken_enough_waits_and_nobody_else_does() {
        let untaken = Untaken::default();
        let [one, two] = ["path:/one", "path:/two"].map(|name| untaken.of(&name.into()));
        let (go_on, stop) = (CancelToken::new(), CancelToken::new());
        let held = one.hold(&HostResult::ok("c".into(), json!({ "text": "y".repeat(100) })));
        assert!(is_ready(&mut pin!(one.eased(1000, 2, &go_on))));
        assert!(is_ready(&mut pin!(two.eased(1, 1, &go_on))));
        let mut waits = pin!(one.eased(100, 2, &go_on));
        let mut stopped = pin!(one.eased(100, 2, &stop));
        assert!(!is_ready(&mut waits) && !is_ready(&mut stopped));
        stop.cancel();
        assert!(!is_ready(&mut waits) && is_ready(&mut stopped));
        drop(held);
        assert!(is_ready(&mut waits));
    }

    #[test]
    fn many_small_pieces_hold_up_streams_and_no_calls() {
        let untaken = Untaken::default();
        let (one, go_on) = (untaken.of(&"path:/one".into()), CancelToken::new());
        let mut held: Vec<Held> = (0..PIECES).map(|_| one.hold(&HostResult::ok("c".into(), json!({})))).collect();
        let mut stream = pin!(one.streams(1 << 20, &go_on));
        assert!(!is_ready(&mut stream));
        assert!(is_ready(&mut pin!(one.eased(1 << 20, usize::MAX, &go_on))));
        held.pop();
        assert!(is_ready(&mut stream));
    }

    fn is_ready(work: &mut Pin<&mut impl Future<Output = ()>>) -> bool {
        work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }
}
