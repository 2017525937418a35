//! The ledger's writer thread, which the driver starts.

use super::LedgerInner;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::Duration;

/// Time that the thread stays awake after a write. Waking it costs the turn a system call, so it is woken once within a burst.
const LINGER: Duration = Duration::from_millis(2);

/// Time for which the busy thread lets records accumulate. Without this pause it would take each record at once: both threads
/// would contend for the same memory, and the file would be written for every call.
const GATHER: Duration = Duration::from_micros(100);

/// Wakes the writer.
#[derive(Debug, Default)]
pub(super) struct WriterSignal {
    state: Mutex<WriterState>,
    condition: Condvar,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum WriterState {
    /// No writer thread exists.
    #[default]
    Absent,
    /// The thread waits to be woken.
    Asleep,
    /// The thread checks the queue again within [`LINGER`].
    Awake,
    /// The ledger is dropped.
    Closed,
}

impl WriterSignal {
    /// Wakes the writer; returns `false` if there is none.
    pub(super) fn wake(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match *state {
            WriterState::Absent | WriterState::Closed => return false,
            WriterState::Awake => return true,
            WriterState::Asleep => *state = WriterState::Awake,
        }
        drop(state);
        self.condition.notify_one();
        true
    }

    pub(super) fn close(&self) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = WriterState::Closed;
        self.condition.notify_all();
    }
}

/// Formats records as lines and writes them.
///
/// ```
/// # use pijs_hostcall::ledger::{Ledger, LedgerOptions, MemorySink};
/// let ledger = Ledger::new(LedgerOptions::default(), MemorySink::new());
/// let writer = ledger.writer();
/// let thread = std::thread::spawn(move || writer.run());
/// drop(ledger);
/// thread.join().expect("it ends with the ledger");
/// ```
#[derive(Debug)]
pub struct LedgerWriter {
    ledger: Weak<LedgerInner>,
    signal: Arc<WriterSignal>,
}

impl std::fmt::Debug for LedgerInner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner").field("scenario_id", &self.scenario_id).finish_non_exhaustive()
    }
}

impl LedgerWriter {
    pub(super) fn new(ledger: Weak<LedgerInner>, signal: Arc<WriterSignal>) -> Self {
        let mut state = signal.state.lock().unwrap_or_else(PoisonError::into_inner);
        if *state == WriterState::Absent {
            *state = WriterState::Asleep;
        }
        drop(state);
        Self { ledger, signal }
    }

    /// Writes until the ledger is dropped. Errors are kept for the next flush. If the thread panics, the turns write the ledger
    /// themselves.
    pub fn run(self) {
        let _leaves = AbsentOnDrop(Arc::clone(&self.signal));
        let mut state = self.signal.state.lock().unwrap_or_else(PoisonError::into_inner);
        while *state != WriterState::Closed {
            match *state {
                WriterState::Asleep => {
                    state = self.signal.condition.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                _ => {
                    drop(state);
                    let Some(inner) = self.ledger.upgrade() else { return };
                    let _ = inner.write();
                    let idle = inner.queue().records.is_empty();
                    // This may be the last handle, whose drop locks the state.
                    drop(inner);
                    state = self.signal.state.lock().unwrap_or_else(PoisonError::into_inner);
                    if *state == WriterState::Awake {
                        let pause = if idle { LINGER } else { GATHER };
                        state =
                            self.signal.condition.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner).0;
                        let inner = self.ledger.upgrade();
                        let empty = inner.as_ref().is_none_or(|inner| inner.queue().records.is_empty());
                        if empty && *state == WriterState::Awake {
                            *state = WriterState::Asleep;
                        }
                        drop(state);
                        drop(inner);
                        state = self.signal.state.lock().unwrap_or_else(PoisonError::into_inner);
                    }
                }
            }
        }
    }
}

/// Marks the writer as absent when its thread ends for any reason.
struct AbsentOnDrop(Arc<WriterSignal>);

impl Drop for AbsentOnDrop {
    fn drop(&mut self) {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        if *state != WriterState::Closed {
            *state = WriterState::Absent;
        }
    }
}
