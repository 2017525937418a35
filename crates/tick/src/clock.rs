//! Where [`Now`] comes from.
//!
//! The loop never asks: the driver does, and passes the answer in. The system's clock lives in the driver; the
//! [`VirtualClock`] here moves only when it is told to, for tests, for replay and for `pi ext drive`.

use pijs_protocol::Now;
use std::sync::atomic::{AtomicU64, Ordering};

/// A source of time for a driver.
pub trait Clock {
    /// The time at this moment. `elapsed_us` never decreases.
    fn now(&self) -> Now;
}

impl<C: Clock + ?Sized> Clock for &C {
    fn now(&self) -> Now {
        (**self).now()
    }
}

impl<C: Clock + ?Sized> Clock for std::sync::Arc<C> {
    fn now(&self) -> Now {
        (**self).now()
    }
}

/// Whether the wall clock follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wall {
    Moves,
    StandsStill,
}

/// A clock that moves when it is told to.
///
/// ```
/// use pijs_tick::{Clock, VirtualClock};
///
/// let clock = VirtualClock::starting_at(1_767_323_045_000);
/// clock.advance_us(2_500);
/// assert_eq!(clock.now().elapsed_us, 2_500);
/// assert_eq!(clock.now().epoch_ms, 1_767_323_045_002);
/// ```
#[derive(Debug)]
pub struct VirtualClock {
    start_epoch_ms: u64,
    wall: Wall,
    elapsed_us: AtomicU64,
}

impl VirtualClock {
    /// A clock whose session begins at this wall time, milliseconds since 1970.
    pub fn starting_at(epoch_ms: u64) -> Self {
        Self { start_epoch_ms: epoch_ms, wall: Wall::Moves, elapsed_us: AtomicU64::new(0) }
    }

    /// A clock whose wall time stands still while timers go on: what a scenario's `now` asks for.
    pub fn standing_at(epoch_ms: u64) -> Self {
        Self { wall: Wall::StandsStill, ..Self::starting_at(epoch_ms) }
    }

    /// Moves forward by so many microseconds.
    pub fn advance_us(&self, by_us: u64) {
        self.elapsed_us.fetch_add(by_us, Ordering::SeqCst);
    }

    /// Moves forward to this many microseconds since the start; never back.
    pub fn advance_to_us(&self, elapsed_us: u64) {
        self.elapsed_us.fetch_max(elapsed_us, Ordering::SeqCst);
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Now {
        let elapsed_us = self.elapsed_us.load(Ordering::SeqCst);
        let passed_ms = match self.wall {
            Wall::Moves => elapsed_us / 1_000,
            Wall::StandsStill => 0,
        };
        Now { epoch_ms: self.start_epoch_ms.saturating_add(passed_ms), elapsed_us }
    }
}
