//! Where other threads leave finished work for a loop (I4).
//!
//! A connector's future ends on some thread of the driver's runtime and pushes into a [`CompletionSink`]. The loop's
//! own thread awaits [`CompletionQueue::ready`], drains, and hands the values to `TickLoop::tick` as arrivals. The
//! order of pushes is the order of arrivals: values of one producer never overtake each other, values of several
//! interleave as their pushes did.
//!
//! What always holds: a value is drained exactly once, and a consumer that was told *pending* is woken by the first
//! push after that. `tests/loom.rs` goes through every interleaving of both sides.

#[cfg(loom)]
use loom::sync::{Arc, Mutex, MutexGuard};
#[cfg(not(loom))]
use std::sync::{Arc, Mutex, MutexGuard};

use std::fmt;
use std::sync::PoisonError;
use std::task::{Context, Poll, Waker};

/// Values and waker under one lock: whoever looks at one sees the other as it was at that moment, so a wake-up
/// cannot fall between "nothing there" and "wake me".
struct Shared<T> {
    values: Vec<T>,
    waker: Option<Waker>,
}

/// Opens a queue: a sink to clone to producers, and the queue itself for the loop.
///
/// ```
/// let (sink, mut queue) = pijs_tick::completion_queue();
/// let other = sink.clone();
/// std::thread::scope(|threads| {
///     threads.spawn(move || other.push("read 12 bytes"));
/// });
/// sink.push("exited with 0");
/// assert_eq!(queue.drain(), ["read 12 bytes", "exited with 0"]);
/// ```
pub fn completion_queue<T: Send>() -> (CompletionSink<T>, CompletionQueue<T>) {
    let shared = Arc::new(Mutex::new(Shared { values: Vec::new(), waker: None }));
    (CompletionSink { shared: Arc::clone(&shared) }, CompletionQueue { shared })
}

/// The producers' end.
pub struct CompletionSink<T> {
    shared: Arc<Mutex<Shared<T>>>,
}

impl<T> CompletionSink<T> {
    /// Leaves a value for the loop and wakes it. Never blocks for longer than another push or a drain takes.
    ///
    /// When the queue is gone (its realm has ended) the value goes with it.
    pub fn push(&self, value: T) {
        let waker = {
            let mut shared = lock(&self.shared);
            shared.values.push(value);
            shared.waker.take()
        };
        // Outside the lock: waking may run the consumer on this very thread.
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Clone for CompletionSink<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<T> fmt::Debug for CompletionSink<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompletionSink").finish_non_exhaustive()
    }
}

/// The loop's end.
pub struct CompletionQueue<T> {
    shared: Arc<Mutex<Shared<T>>>,
}

impl<T> CompletionQueue<T> {
    /// Takes everything that was pushed, oldest first.
    pub fn drain(&mut self) -> Vec<T> {
        std::mem::take(&mut lock(&self.shared).values)
    }

    /// Ready when there is something to drain; otherwise the task is woken by the next push.
    ///
    /// Stays pending when every sink is gone: a loop without hostcalls in flight still has timers and events.
    pub fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut shared = lock(&self.shared);
        if !shared.values.is_empty() {
            return Poll::Ready(());
        }
        match &mut shared.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// Waits until there is something to drain. Dropping the future loses nothing.
    pub async fn ready(&mut self) {
        std::future::poll_fn(|cx| self.poll_ready(cx)).await;
    }
}

impl<T> fmt::Debug for CompletionQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompletionQueue").finish_non_exhaustive()
    }
}

/// No code of others runs under the lock, so a poisoned one still holds a consistent state.
fn lock<T>(shared: &Mutex<Shared<T>>) -> MutexGuard<'_, Shared<T>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
