//! A queue through which other threads complete work for a loop (I4).
//!
//! A connector's future ends on some thread of the driver's runtime and pushes into a [`CompletionSink`]. The loop's
//! own thread awaits [`CompletionQueue::ready`], drains, and passes the values to `TickLoop::tick` as arrivals. Values
//! arrive in the order of their pushes, so those of one producer never overtake each other.
//!
//! Invariants: a value is drained exactly once, and a consumer that got *pending* is woken by the next
//! push after that. `tests/loom.rs` tests every interleaving of both sides.

#[cfg(loom)]
use loom::sync::{Arc, Mutex, MutexGuard};
#[cfg(not(loom))]
use std::sync::{Arc, Mutex, MutexGuard};

use std::fmt;
use std::sync::PoisonError;
use std::task::{Context, Poll, Waker};

/// Values and waker under one lock, so that no wake-up is lost between the check for values and the registration of the waker.
struct QueueShared<T> {
    values: Vec<T>,
    waker: Option<Waker>,
}

/// Creates a queue: a sink that producers clone, and the queue for the loop.
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
    let shared = Arc::new(Mutex::new(QueueShared { values: Vec::new(), waker: None }));
    (CompletionSink { shared: Arc::clone(&shared) }, CompletionQueue { shared })
}

/// The producers' end of the queue.
pub struct CompletionSink<T> {
    shared: Arc<Mutex<QueueShared<T>>>,
}

impl<T> CompletionSink<T> {
    /// Adds a value and wakes the loop. Blocks for at most the time of another push or a drain.
    ///
    /// If the queue was dropped, because its realm has ended, the value is dropped.
    pub fn push(&self, value: T) {
        let waker = {
            let mut shared = lock(&self.shared);
            shared.values.push(value);
            shared.waker.take()
        };
        // Called outside the lock, because waking may run the consumer on this thread.
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

/// The loop's end of the queue.
pub struct CompletionQueue<T> {
    shared: Arc<Mutex<QueueShared<T>>>,
}

impl<T> CompletionQueue<T> {
    /// Removes all values, oldest first.
    pub fn drain(&mut self) -> Vec<T> {
        std::mem::take(&mut lock(&self.shared).values)
    }

    /// Returns ready if there is a value; otherwise the next push wakes the task.
    ///
    /// Stays pending even if every sink was dropped: a loop without hostcalls in flight still has timers and events.
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

    /// Waits until there is a value. Cancel safe.
    pub async fn ready(&mut self) {
        std::future::poll_fn(|cx| self.poll_ready(cx)).await;
    }
}

impl<T> fmt::Debug for CompletionQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompletionQueue").finish_non_exhaustive()
    }
}

/// No foreign code runs under the lock, so the state is consistent even if it is poisoned.
fn lock<T>(shared: &Mutex<QueueShared<T>>) -> MutexGuard<'_, QueueShared<T>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
