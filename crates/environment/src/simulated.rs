//! Deterministic time and randomness: for tests, for replay and for `pi ext drive`.

use crate::{Ambient, Randomness, Timer, Wait};
use futures_util::future::BoxFuture;
use pijs_protocol::Now;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Whether the wall clock follows the monotonic one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WallMode {
    Moves,
    StandsStill,
}

/// A clock that is advanced explicitly.
///
/// ```
/// use pijs_environment::simulated::VirtualClock;
///
/// let clock = VirtualClock::starting_at(1_767_323_045_000);
/// clock.advance_us(2_500);
/// assert_eq!(clock.now().elapsed_us, 2_500);
/// assert_eq!(clock.now().epoch_ms, 1_767_323_045_002);
/// ```
#[derive(Debug)]
pub struct VirtualClock {
    start_epoch_ms: u64,
    wall: WallMode,
    elapsed_us: AtomicU64,
}

impl VirtualClock {
    /// Creates a clock whose session begins at this wall time, in milliseconds since 1970.
    pub fn starting_at(epoch_ms: u64) -> Self {
        Self { start_epoch_ms: epoch_ms, wall: WallMode::Moves, elapsed_us: AtomicU64::new(0) }
    }

    /// Creates a clock with a constant wall time and running timers, for a scenario with the member `now`.
    pub fn standing_at(epoch_ms: u64) -> Self {
        Self { wall: WallMode::StandsStill, ..Self::starting_at(epoch_ms) }
    }

    /// Advances the clock by this many microseconds.
    pub fn advance_us(&self, by_us: u64) {
        self.elapsed_us.fetch_add(by_us, Ordering::SeqCst);
    }

    /// Advances to this many microseconds since the start; never goes back.
    pub fn advance_to_us(&self, elapsed_us: u64) {
        self.elapsed_us.fetch_max(elapsed_us, Ordering::SeqCst);
    }

    /// Returns the current time. `elapsed_us` never decreases.
    pub fn now(&self) -> Now {
        let elapsed_us = self.elapsed_us.load(Ordering::SeqCst);
        let passed_ms = match self.wall {
            WallMode::Moves => elapsed_us / 1_000,
            WallMode::StandsStill => 0,
        };
        Now { epoch_ms: self.start_epoch_ms.saturating_add(passed_ms), elapsed_us }
    }
}

/// A timer that advances by a fixed step at each reading. Waits take real time, so that programs and servers can run.
#[derive(Debug)]
pub struct CountingTimer {
    epoch_ms: u64,
    step_us: u64,
    elapsed_us: AtomicU64,
}

impl CountingTimer {
    /// Creates a timer with a constant wall time; each reading is `step_us` microseconds after the previous one.
    pub fn new(epoch_ms: u64, step_us: u64) -> Self {
        Self { epoch_ms, step_us, elapsed_us: AtomicU64::new(0) }
    }
}

impl Timer for CountingTimer {
    fn now(&self) -> Now {
        Now { epoch_ms: self.epoch_ms, elapsed_us: self.elapsed_us.fetch_add(self.step_us, Ordering::Relaxed) }
    }

    fn sleep(&self, _wait: Wait, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// A stopped timer, whose waits never complete.
#[derive(Debug, Clone, Copy)]
pub struct StandingTimer(pub Now);

impl Default for StandingTimer {
    /// Returns a timer that stands one microsecond after the start of a session of 14 November 2023.
    fn default() -> Self {
        Self(Now { epoch_ms: 1_700_000_000_000, elapsed_us: 1 })
    }
}

impl Timer for StandingTimer {
    fn now(&self) -> Now {
        self.0
    }

    fn sleep(&self, _wait: Wait, _duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

/// Randomness that returns consecutive numbers, so that ids are predictable.
#[derive(Debug)]
pub struct CountingRandomness(AtomicU32);

impl CountingRandomness {
    /// Creates randomness that counts from `first`.
    pub fn new(first: u32) -> Self {
        Self(AtomicU32::new(first))
    }
}

impl Randomness for CountingRandomness {
    fn fill(&self, out: &mut [u8]) {
        let count = self.0.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        for (slot, byte) in out.iter_mut().zip(count.iter().cycle()) {
            *slot = *byte;
        }
    }
}

/// Returns an environment with a stopped clock and with randomness that counts from `first`.
pub fn ambient(epoch_ms: u64, first: u32) -> Ambient {
    let timer = StandingTimer(Now { epoch_ms, elapsed_us: 0 });
    Ambient { timer: Arc::new(timer), random: Arc::new(CountingRandomness::new(first)) }
}
