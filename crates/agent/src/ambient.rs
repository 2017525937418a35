//! Time, waiting and randomness, handed in.
//!
//! Nothing in this crate reads a clock, sleeps or rolls dice on its own: it asks the
//! [`Ambient`] it was given. [`Ambient::system`] is the machine's; tests build one whose
//! clock stands still, whose waits are recorded and whose ids count upwards.
//!
//! This is the only file of the crate that touches the system clock, tokio's timer and the
//! system's randomness.

use crate::session::SessionRecords;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use pijs_durable::Disk;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What a wait is for. A test may let one kind pass at once and keep the other real.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Before a request is tried again.
    Backoff,
    /// A watchdog: the wait that ends when nothing arrived for too long.
    Idle,
    /// A pause that a script asks for.
    Script,
    /// The time limit of a tool.
    Tool,
}

/// Tells the time.
pub trait Clock: Send + Sync {
    /// Wall clock, milliseconds since 1970.
    fn epoch_ms(&self) -> u64;
    /// Monotonic microseconds since some fixed moment.
    fn elapsed_us(&self) -> u64;
}

/// Waits.
pub trait Sleeper: Send + Sync {
    /// Completes after `duration`.
    fn sleep(&self, wait: Wait, duration: Duration) -> BoxFuture<'static, ()>;
}

/// Rolls dice, for ids and for the jitter of a back-off.
pub trait Randomness: Send + Sync {
    /// Fills `out`.
    fn fill(&self, out: &mut [u8]);
}

/// The three together, and the disk that sessions are kept on, with the notes about them. Cheap to clone.
#[derive(Clone)]
pub struct Ambient {
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Waits.
    pub sleeper: Arc<dyn Sleeper>,
    /// Rolls dice.
    pub random: Arc<dyn Randomness>,
    /// Keeps sessions.
    pub disk: Disk,
    /// Notes who wrote what in a session; without it every line counts as written here.
    pub records: Option<Arc<SessionRecords>>,
}

impl Ambient {
    /// The machine's own.
    pub fn system() -> Self {
        Self {
            clock: Arc::new(SystemClock { start: Instant::now() }),
            sleeper: Arc::new(TokioSleeper),
            random: Arc::new(SystemRandomness),
            disk: Disk::system(),
            records: None,
        }
    }

    /// The wall clock as ISO 8601 with milliseconds, as JavaScript writes it.
    pub fn now_iso(&self) -> String {
        iso(self.clock.epoch_ms())
    }

    /// A new version 7 UUID.
    pub fn uuid_v7(&self) -> String {
        let mut bytes = [0; 10];
        self.random.fill(&mut bytes);
        uuid::Builder::from_unix_timestamp_millis(self.clock.epoch_ms(), &bytes).into_uuid().to_string()
    }

    /// A number in `0.0..1.0`.
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

/// Milliseconds since 1970 as `2026-01-02T03:04:05.678Z`.
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

struct SystemClock {
    start: Instant,
}

impl Clock for SystemClock {
    fn epoch_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    fn elapsed_us(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

struct TokioSleeper;

impl Sleeper for TokioSleeper {
    fn sleep(&self, _wait: Wait, duration: Duration) -> BoxFuture<'static, ()> {
        async move { tokio::time::sleep(duration).await }.boxed()
    }
}

struct SystemRandomness;

impl Randomness for SystemRandomness {
    /// A version 4 UUID has 122 random bits; the six fixed ones are in bytes 6 and 8, which are skipped.
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
