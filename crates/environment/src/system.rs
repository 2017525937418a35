//! The machine's time and randomness.

#![expect(clippy::disallowed_methods, reason = "the clock and the randomness of the machine come from here")]

use crate::{Randomness, Timer, Wait};
use futures_util::future::BoxFuture;
use pijs_protocol::Now;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The clock of the machine and tokio's timer. Microseconds are counted from the creation of the timer; clones share the origin.
#[derive(Debug, Clone)]
pub struct SystemTimer {
    start: Instant,
    wall: Arc<WallClock>,
}

/// The wall clock, read once per millisecond: a hostcall reads it several times, and each reading takes as long as the gate's
/// whole decision.
#[derive(Debug)]
struct WallClock {
    /// Time of the last reading, in milliseconds since the start.
    read_ms: AtomicU64,
    epoch_ms: AtomicU64,
}

impl WallClock {
    fn epoch_ms(&self, elapsed_ms: u64) -> u64 {
        if self.read_ms.load(Ordering::Acquire) == elapsed_ms {
            return self.epoch_ms.load(Ordering::Relaxed);
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let epoch_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        // Stored before the millisecond, so that a thread that sees the millisecond sees this time or a later one.
        self.epoch_ms.store(epoch_ms, Ordering::Relaxed);
        self.read_ms.store(elapsed_ms, Ordering::Release);
        epoch_ms
    }
}

impl SystemTimer {
    /// Creates a timer whose microseconds count from now.
    pub fn new() -> Self {
        let wall = WallClock { read_ms: AtomicU64::new(u64::MAX), epoch_ms: AtomicU64::new(0) };
        Self { start: Instant::now(), wall: Arc::new(wall) }
    }
}

impl Default for SystemTimer {
    fn default() -> Self {
        Self::new()
    }
}

impl Timer for SystemTimer {
    fn now(&self) -> Now {
        let elapsed_us = u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX);
        Now { epoch_ms: self.wall.epoch_ms(elapsed_us / 1000), elapsed_us }
    }

    fn sleep(&self, _wait: Wait, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// The machine's randomness, taken from version 4 UUIDs.
#[derive(Debug, Clone, Copy)]
pub struct SystemRandomness;

impl Randomness for SystemRandomness {
    /// Fills `out` from version 4 UUIDs, which have 122 random bits each. Their six fixed bits are in bytes 6 and 8, which are
    /// skipped.
    fn fill(&self, out: &mut [u8]) {
        let mut rest = out;
        while !rest.is_empty() {
            let uuid = uuid::Uuid::new_v4();
            let bytes = uuid.as_bytes();
            let random = bytes[..6].iter().chain(&bytes[9..]);
            let mut filled = 0;
            for (slot, byte) in rest.iter_mut().zip(random) {
                *slot = *byte;
                filled += 1;
            }
            rest = &mut rest[filled..];
        }
    }
}
