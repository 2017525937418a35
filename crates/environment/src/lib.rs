//! The environment of a session: time, waiting, randomness and files, passed in as values.
//!
//! No library of the project reads a clock, sleeps or draws randomness on its own: it uses the [`Timer`] and the [`Randomness`]
//! that it was given. [`SystemTimer`] and [`SystemRandomness`] use the machine's. [`simulated`] has those for tests, for replay
//! and for `pi ext drive`: clocks that are advanced explicitly, and randomness that counts.
//!
//! [`files`] has the file systems: the operating system's, and one in memory. [`addresses`] tells public addresses from others.
//!
//! `system.rs` is the only file of the libraries that uses the system's clock, tokio's timer and the system's randomness.

#![warn(missing_docs)]
#![warn(clippy::disallowed_methods)]

pub mod addresses;
pub mod files;
pub mod simulated;
mod system;

pub use system::{SystemRandomness, SystemTimer};

use futures_util::future::BoxFuture;
use pijs_protocol::Now;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The purpose of a wait. A test may skip one kind and keep the others real.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Delay before a request is retried.
    Backoff,
    /// Watchdog against a connection on which nothing arrives.
    Idle,
    /// Pause in a scripted model reply.
    Script,
    /// Time limit of a tool.
    Tool,
    /// Timer of an extension, or time limit of its call.
    Call,
}

/// A clock and its timers.
pub trait Timer: Send + Sync {
    /// Returns the current time: the wall clock for display, and monotonic microseconds for durations.
    fn now(&self) -> Now;

    /// Completes after `duration`.
    fn sleep(&self, wait: Wait, duration: Duration) -> BoxFuture<'static, ()>;
}

/// A source of randomness, for ids and for the jitter of a back-off.
pub trait Randomness: Send + Sync {
    /// Fills `out` with random bytes.
    fn fill(&self, out: &mut [u8]);
}

/// Time and randomness of a session. Cheap to clone.
#[derive(Clone)]
pub struct Ambient {
    /// Clock and timers.
    pub timer: Arc<dyn Timer>,
    /// Source of randomness.
    pub random: Arc<dyn Randomness>,
}

impl Ambient {
    /// Returns the environment of the machine.
    pub fn system() -> Self {
        Self { timer: Arc::new(SystemTimer::new()), random: Arc::new(SystemRandomness) }
    }

    /// Returns the wall clock in milliseconds since 1970.
    pub fn epoch_ms(&self) -> u64 {
        self.timer.now().epoch_ms
    }

    /// Returns the wall clock as ISO 8601 with milliseconds, as JavaScript writes it.
    pub fn now_iso(&self) -> String {
        iso(self.epoch_ms())
    }

    /// Returns a new version 7 UUID.
    pub fn uuid_v7(&self) -> String {
        let mut bytes = [0; 10];
        self.random.fill(&mut bytes);
        uuid::Builder::from_unix_timestamp_millis(self.epoch_ms(), &bytes).into_uuid().to_string()
    }

    /// Returns a random number in `0.0..1.0`.
    pub fn fraction(&self) -> f64 {
        let mut bytes = [0; 4];
        self.random.fill(&mut bytes);
        f64::from(u32::from_le_bytes(bytes)) / (f64::from(u32::MAX) + 1.0)
    }
}

impl fmt::Debug for Ambient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ambient")
    }
}

/// Formats milliseconds since 1970 as `2026-01-02T03:04:05.678Z`.
pub fn iso(epoch_ms: u64) -> String {
    let nanos = i128::from(epoch_ms) * 1_000_000;
    let time = time::OffsetDateTime::from_unix_timestamp_nanos(nanos).unwrap_or(time::OffsetDateTime::UNIX_EPOCH);
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
        time.year(),
        u8::from(time.month()),
        time.day(),
        time.hour(),
        time.minute(),
        time.second(),
        time.millisecond()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iso_time_is_written_as_javascript_does() {
        assert_eq!(iso(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(iso(1_767_323_045_678), "2026-01-02T03:04:05.678Z");
    }

    #[test]
    fn a_version_seven_uuid_carries_the_time() {
        let id = Ambient::system().uuid_v7();
        assert_eq!(id.len(), 36);
        assert_eq!(&id[14..15], "7");
    }
}
