//! What the tests share: a world whose time stands still and whose ids count upwards.

use crate::ambient::{Ambient, Clock, Randomness, Sleeper, Wait};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use pijs_durable::Disk;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// 2026-01-02T03:04:05.678Z.
pub(crate) const NOW_MS: u64 = 1_767_323_045_678;

struct StillClock;

impl Clock for StillClock {
    fn epoch_ms(&self) -> u64 {
        NOW_MS
    }
    fn elapsed_us(&self) -> u64 {
        0
    }
}

struct Counter(AtomicU32);

impl Randomness for Counter {
    fn fill(&self, out: &mut [u8]) {
        let count = self.0.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        for (slot, byte) in out.iter_mut().zip(count.iter().cycle()) {
            *slot = *byte;
        }
    }
}

/// Back-offs pass at once and are written down; other waits are real.
#[derive(Default)]
pub(crate) struct Waits(pub(crate) Mutex<Vec<Duration>>);

impl Sleeper for Waits {
    fn sleep(&self, wait: Wait, duration: Duration) -> BoxFuture<'static, ()> {
        if wait == Wait::Backoff {
            self.0.lock().unwrap().push(duration);
            return std::future::ready(()).boxed();
        }
        async move { tokio::time::sleep(duration).await }.boxed()
    }
}

pub(crate) fn ambient() -> Ambient {
    ambient_from(1)
}

/// Ids count from `first`.
pub(crate) fn ambient_from(first: u32) -> Ambient {
    ambient_with(Arc::new(Waits::default()), first)
}

pub(crate) fn ambient_with(sleeper: Arc<dyn Sleeper>, first: u32) -> Ambient {
    Ambient {
        clock: Arc::new(StillClock),
        sleeper,
        random: Arc::new(Counter(AtomicU32::new(first))),
        disk: Disk::system(),
        records: None,
    }
}
