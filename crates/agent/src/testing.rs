//! Test helpers: an environment with a fixed time and ascending ids.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use pijs_environment::simulated::CountingRandomness;
use pijs_environment::{Ambient, Timer, Wait};
use pijs_protocol::Now;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// 2026-01-02T03:04:05.678Z.
pub(crate) const NOW_MS: u64 = 1_767_323_045_678;

/// The start of a session.
pub(crate) const NOW: Now = Now { epoch_ms: NOW_MS, elapsed_us: 0 };

/// A timer that records backoff delays without waiting; other waits use real time.
#[derive(Default)]
pub(crate) struct SkippedWaits(pub(crate) Mutex<Vec<Duration>>);

impl Timer for SkippedWaits {
    fn now(&self) -> Now {
        NOW
    }

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

/// Returns an environment whose ids count from `first`.
pub(crate) fn ambient_from(first: u32) -> Ambient {
    ambient_with(Arc::new(SkippedWaits::default()), first)
}

pub(crate) fn ambient_with(timer: Arc<dyn Timer>, first: u32) -> Ambient {
    Ambient { timer, random: Arc::new(CountingRandomness::new(first)) }
}
