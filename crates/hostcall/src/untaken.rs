//! What the results of an extension's calls weigh that its realm has not taken yet.
//!
//! A result waits in the host's memory until its realm comes to it, and an extension decides how many there are and how
//! large. Calls of one that has let too much pile up begin once its realm has taken some, and files are read a few at a
//! time: nothing is refused, and an honest extension, which has no more memory than its realm, never notices. What streams
//! (a response, a connection, a program's output) is read on once less waits, and fewer pieces: a server decides how small
//! they are, and the realm's timers have their turn behind all that came before.

use crate::connector::CancelToken;
use crate::derive::member;
use pijs_protocol::{ExtensionId, HostCall, HostResult, guard};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// File operations of one extension that are carried out side by side, twice as many as under Node. What they read is in
/// memory at the same time, and they share their threads with everybody else.
const SIDE_BY_SIDE: usize = 8;

/// Results that wait until streams do, too. A realm comes through them within a blink.
const PIECES: usize = 128;

/// What a result takes beside what is in it.
const RESULT: usize = 512;

/// The piles of all extensions.
#[derive(Default)]
pub(crate) struct Untaken {
    by_extension: Mutex<BTreeMap<ExtensionId, Arc<Pile>>>,
}

/// What waits for one extension.
pub(crate) struct Pile {
    bytes: AtomicUsize,
    results: AtomicUsize,
    /// How many calls and streams wait until there is less.
    waiting: AtomicUsize,
    eased: Notify,
    /// For what brings its result all at once.
    turns: Arc<Semaphore>,
}

impl Default for Pile {
    fn default() -> Self {
        let turns = Arc::new(Semaphore::new(SIDE_BY_SIDE));
        let [bytes, results, waiting] = [0; 3].map(AtomicUsize::new);
        Self { bytes, results, waiting, eased: Notify::new(), turns }
    }
}

/// A result that waits for its realm; dropping it says that the realm has it, or is gone.
pub struct Held {
    pile: Arc<Pile>,
    bytes: usize,
}

impl Drop for Held {
    fn drop(&mut self) {
        let Pile { bytes, results, waiting, eased, .. } = &*self.pile;
        // In one order with what `eased` does: who counts as waiting looks after that, and either it sees less or is woken.
        bytes.fetch_sub(self.bytes, Ordering::SeqCst);
        results.fetch_sub(1, Ordering::SeqCst);
        if waiting.load(Ordering::SeqCst) > 0 {
            eased.notify_waiters();
        }
    }
}

/// Somebody who waits.
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

/// That a call may begin; it ends with the answer.
pub(crate) struct Turn {
    _of_few: Option<OwnedSemaphorePermit>,
}

impl Untaken {
    /// What waits for an extension.
    pub(crate) fn of(&self, extension: &ExtensionId) -> Arc<Pile> {
        let mut all = self.by_extension.lock().unwrap_or_else(PoisonError::into_inner);
        match all.get(extension) {
            Some(pile) => Arc::clone(pile),
            None => Arc::clone(all.entry(extension.clone()).or_default()),
        }
    }
}

impl Pile {
    /// Takes note of a result.
    pub(crate) fn hold(self: &Arc<Self>, result: &HostResult) -> Held {
        let bytes = result.bytes.iter().map(Vec::len).sum::<usize>() + weight(&result.output) + RESULT;
        self.bytes.fetch_add(bytes, Ordering::AcqRel);
        self.results.fetch_add(1, Ordering::AcqRel);
        Held { pile: Arc::clone(self), bytes }
    }

    /// Lets a call begin that needs not wait.
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
                // It is never closed.
                turn = Arc::clone(&self.turns).acquire_owned() => turn.ok(),
            },
            false => None,
        };
        self.eased(limit, usize::MAX, cancel).await;
        Turn { _of_few: of_few }
    }

    /// Waits until little enough is untaken that a stream may go on, or until it is cancelled.
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
            // Before the look: what is taken between look and wait must not be missed.
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

/// Whether a call is one of those of which few are carried out side by side.
fn is_one_of_few(call: &HostCall) -> bool {
    call.method == "fs" && member(&call.params, "op").is_none_or(|op| op != "watch") && guard!(QuotaUndelivered)
}

/// Roughly what a value takes.
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
