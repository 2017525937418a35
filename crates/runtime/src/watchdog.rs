//! Watches the deadlines of verdicts in a thread.

use pijs_host::{Watch, Watchdog};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// Polling interval of the thread: a verdict is stopped at most this late.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Number of polls without an armed watch after which the thread sleeps.
const LOOKS_BEFORE_SLEEP: u32 = 50;

/// Stands for "not armed" in [`WatchSlot::deadline_us`].
const DISARMED: u64 = u64::MAX;

/// A thread that stops realms which exceed the deadline of a delta.
///
/// Arming is one store and one load; the thread sleeps while nothing streams.
pub struct WatchThread {
    shared: Arc<WatchTable>,
    thread: Thread,
}

struct WatchTable {
    start: Instant,
    watches: Mutex<Vec<Weak<WatchSlot>>>,
    asleep: AtomicBool,
    closing: AtomicBool,
}

struct WatchSlot {
    deadline_us: AtomicU64,
    stop: Arc<dyn Fn() + Send + Sync>,
}

impl WatchThread {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// Fails if the thread cannot be started.
    pub fn start() -> std::io::Result<Self> {
        let shared = Arc::new(WatchTable {
            start: Instant::now(),
            watches: Mutex::new(Vec::new()),
            asleep: AtomicBool::new(false),
            closing: AtomicBool::new(false),
        });
        let theirs = Arc::clone(&shared);
        let handle = thread::Builder::new().name("verdict-watch".to_owned()).spawn(move || theirs.run())?;
        Ok(Self { shared, thread: handle.thread().clone() })
    }
}

impl Drop for WatchThread {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

impl WatchTable {
    fn now_us(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(DISARMED - 1)
    }

    fn run(&self) {
        let mut quiet = 0;
        while !self.closing.load(Ordering::Acquire) {
            quiet = if self.look() { 0 } else { quiet + 1 };
            if quiet < LOOKS_BEFORE_SLEEP {
                thread::park_timeout(LOOK_EVERY);
                continue;
            }
            self.asleep.store(true, Ordering::SeqCst);
            // A watch armed after this poll sees the sleeping state and wakes the thread. An idle session uses no time.
            if !self.look() {
                thread::park();
            }
            self.asleep.store(false, Ordering::SeqCst);
            quiet = 0;
        }
    }

    /// Stops realms past their deadlines. Returns whether any watch is armed.
    fn look(&self) -> bool {
        let now = self.now_us();
        let mut armed = false;
        self.watches.lock().unwrap_or_else(PoisonError::into_inner).retain(|watch| {
            let Some(watch) = watch.upgrade() else { return false };
            let deadline = watch.deadline_us.load(Ordering::SeqCst);
            armed |= deadline != DISARMED;
            // Only the thread that clears the deadline calls `stop`: a turn that has ended meanwhile is disarmed, and its realm
            // must not be stopped.
            if deadline <= now
                && watch.deadline_us.compare_exchange(deadline, DISARMED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            {
                (watch.stop)();
            }
            true
        });
        armed
    }
}

impl Watchdog for WatchThread {
    fn watch(&self, stop: Arc<dyn Fn() + Send + Sync>) -> Box<dyn Watch> {
        let watched = Arc::new(WatchSlot { deadline_us: AtomicU64::new(DISARMED), stop });
        self.shared.watches.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&watched));
        Box::new(ThreadWatch { watched, shared: Arc::clone(&self.shared), thread: self.thread.clone() })
    }
}

struct ThreadWatch {
    watched: Arc<WatchSlot>,
    shared: Arc<WatchTable>,
    thread: Thread,
}

impl Watch for ThreadWatch {
    fn arm(&self, within_us: u64) {
        self.watched.deadline_us.store(self.shared.now_us().saturating_add(within_us), Ordering::SeqCst);
        if self.shared.asleep.load(Ordering::SeqCst) {
            self.thread.unpark();
        }
    }

    fn disarm(&self) {
        self.watched.deadline_us.store(DISARMED, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn an_armed_watch_stops_the_realm_and_a_disarmed_one_does_not() {
        let thread = WatchThread::start().expect("a thread");
        let (sender, stopped) = mpsc::channel();
        let other = sender.clone();
        let late = thread.watch(Arc::new(move || sender.send("late").expect("the test listens")));
        let in_time = thread.watch(Arc::new(move || other.send("in time").expect("the test listens")));
        in_time.arm(600_000_000);
        late.arm(1_000);
        assert_eq!(stopped.recv_timeout(Duration::from_secs(120)), Ok("late"));
        in_time.disarm();
        in_time.arm(600_000_000);
        late.arm(1_000);
        assert_eq!(stopped.recv_timeout(Duration::from_secs(120)), Ok("late"), "a watch can be used again");
        assert!(stopped.try_recv().is_err());
    }
}
