//! What the results of an extension's calls weigh that its realm has not taken yet.
//!
//! A result waits in the host's memory until its realm comes to it, and an extension decides how many there are and how
//! large. Calls of one that has let too much pile up begin once its realm has taken some, and files are read a few at a
//! time: nothing is refused, and an honest extension, which has no more memory than its realm, never notices. What streams
//! (a response, a connection, a program's output) is read on once less waits, and fewer pieces: a server decides how small
//! they are, and the realm's timers have their turn behind all that came before.

use crate::connector::CancelToken;
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
struct Pile {
    bytes: AtomicUsize,
    results: AtomicUsize,
    eased: Notify,
    /// For what brings its result all at once.
    turns: Arc<Semaphore>,
}

impl Default for Pile {
    fn default() -> Self {
        let turns = Arc::new(Semaphore::new(SIDE_BY_SIDE));
        Self { bytes: AtomicUsize::new(0), results: AtomicUsize::new(0), eased: Notify::new(), turns }
    }
}

/// A result that waits for its realm; dropping it says that the realm has it, or is gone.
pub struct Held {
    pile: Arc<Pile>,
    bytes: usize,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.pile.bytes.fetch_sub(self.bytes, Ordering::AcqRel);
        self.pile.results.fetch_sub(1, Ordering::AcqRel);
        self.pile.eased.notify_waiters();
    }
}

impl Untaken {
    fn of(&self, extension: &ExtensionId) -> Arc<Pile> {
        let mut all = self.by_extension.lock().unwrap_or_else(PoisonError::into_inner);
        match all.get(extension) {
            Some(pile) => Arc::clone(pile),
            None => Arc::clone(all.entry(extension.clone()).or_default()),
        }
    }

    pub(crate) fn hold(&self, extension: &ExtensionId, result: &HostResult) -> Held {
        let pile = self.of(extension);
        let bytes = result.bytes.iter().map(Vec::len).sum::<usize>() + weight(&result.output) + RESULT;
        pile.bytes.fetch_add(bytes, Ordering::AcqRel);
        pile.results.fetch_add(1, Ordering::AcqRel);
        Held { pile, bytes }
    }

    /// Waits until a call may begin, or until it is cancelled; its turn ends with the answer.
    pub(crate) async fn turn(
        &self,
        extension: &ExtensionId,
        call: &HostCall,
        limit: usize,
        cancel: &CancelToken,
    ) -> Option<OwnedSemaphorePermit> {
        let is_brief = call.method == "fs" && call.params.get("op").is_none_or(|op| op != "watch");
        let turns = Arc::clone(&self.of(extension).turns);
        let turn = match is_brief && guard::is_up("quota.untaken") {
            true => tokio::select! {
                () = cancel.cancelled() => None,
                // It is never closed.
                turn = turns.acquire_owned() => turn.ok(),
            },
            false => None,
        };
        self.eased(extension, limit, usize::MAX, cancel).await;
        turn
    }

    /// Waits until little enough is untaken that a stream may go on, or until it is cancelled.
    pub(crate) async fn streams(&self, extension: &ExtensionId, limit: usize, cancel: &CancelToken) {
        if guard::is_up("quota.streams") {
            self.eased(extension, limit, PIECES, cancel).await;
        }
    }

    async fn eased(&self, extension: &ExtensionId, bytes: usize, results: usize, cancel: &CancelToken) {
        let pile = self.of(extension);
        loop {
            let eased = pile.eased.notified();
            tokio::pin!(eased);
            // Before the look: what is taken between look and wait must not be missed.
            eased.as_mut().enable();
            let is_little =
                pile.bytes.load(Ordering::Acquire) < bytes && pile.results.load(Ordering::Acquire) < results;
            if is_little || !guard::is_up("quota.untaken") {
                return;
            }
            tokio::select! {
                () = cancel.cancelled() => return,
                () = eased => {}
            }
        }
    }
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
        let (one, two) = (ExtensionId::from("path:/one"), ExtensionId::from("path:/two"));
        let (go_on, stop) = (CancelToken::new(), CancelToken::new());
        let held = untaken.hold(&one, &HostResult::ok("c".into(), json!({ "text": "y".repeat(100) })));
        assert!(is_ready(&mut pin!(untaken.eased(&one, 1000, 2, &go_on))));
        assert!(is_ready(&mut pin!(untaken.eased(&two, 1, 1, &go_on))));
        let mut waits = pin!(untaken.eased(&one, 100, 2, &go_on));
        let mut stopped = pin!(untaken.eased(&one, 100, 2, &stop));
        assert!(!is_ready(&mut waits) && !is_ready(&mut stopped));
        stop.cancel();
        assert!(!is_ready(&mut waits) && is_ready(&mut stopped));
        drop(held);
        assert!(is_ready(&mut waits));
    }

    #[test]
    fn many_small_pieces_hold_up_streams_and_no_calls() {
        let untaken = Untaken::default();
        let (one, go_on) = (ExtensionId::from("path:/one"), CancelToken::new());
        let mut held: Vec<Held> =
            (0..PIECES).map(|_| untaken.hold(&one, &HostResult::ok("c".into(), json!({})))).collect();
        let mut stream = pin!(untaken.streams(&one, 1 << 20, &go_on));
        assert!(!is_ready(&mut stream));
        assert!(is_ready(&mut pin!(untaken.eased(&one, 1 << 20, usize::MAX, &go_on))));
        held.pop();
        assert!(is_ready(&mut stream));
    }

    fn is_ready(work: &mut Pin<&mut impl Future<Output = ()>>) -> bool {
        work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }
}
