//! The clock of a realm, driven by the host.
//!
//! A turn starts at the time in its delivery. Each read advances the clock by a fixed step, so that a busy-wait ends, and ends at
//! the same read in a replay. The reply of a synchronous hostcall sets the time.

use pijs_protocol::Now;
use std::cell::Cell;

#[derive(Debug)]
pub(crate) struct RealmClock {
    now: Cell<Now>,
    /// Number of microseconds that reads have added to `now`.
    ahead_us: Cell<u64>,
    /// Latest monotonic time returned, in microseconds. A driver whose time is behind the steps must not turn it back.
    latest_us: Cell<u64>,
    step_us: u64,
    reads: Cell<u32>,
}

impl RealmClock {
    pub(crate) fn new(step_us: u32) -> Self {
        Self {
            now: Cell::new(Now::default()),
            ahead_us: Cell::new(0),
            latest_us: Cell::new(0),
            step_us: u64::from(step_us),
            reads: Cell::new(0),
        }
    }

    /// Starts a turn.
    pub(crate) fn begin(&self, now: Now) {
        self.reads.set(0);
        self.set(now);
    }

    /// Sets the time, as a hostcall's reply does.
    pub(crate) fn set(&self, now: Now) {
        self.now.set(now);
        self.ahead_us.set(0);
    }

    /// Returns the wall clock in whole milliseconds since 1970.
    pub(crate) fn epoch_ms(&self) -> f64 {
        let ahead_ms = self.step() / 1000;
        #[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 fit 53 bits for 285,000 years")]
        let epoch_ms = (self.now.get().epoch_ms + ahead_ms) as f64;
        epoch_ms
    }

    /// Returns the monotonic clock in milliseconds, with fractions.
    pub(crate) fn elapsed_ms(&self) -> f64 {
        let elapsed_us = (self.now.get().elapsed_us + self.step()).max(self.latest_us.get());
        self.latest_us.set(elapsed_us);
        #[expect(clippy::cast_precision_loss, reason = "microseconds of a session fit 53 bits for 285 years")]
        let elapsed_ms = elapsed_us as f64 / 1000.0;
        elapsed_ms
    }

    pub(crate) fn reads(&self) -> u32 {
        self.reads.get()
    }

    /// Counts a read and returns the number of microseconds by which earlier reads have advanced the clock.
    fn step(&self) -> u64 {
        self.reads.set(self.reads.get() + 1);
        let ahead = self.ahead_us.get();
        self.ahead_us.set(ahead + self.step_us);
        ahead
    }
}
