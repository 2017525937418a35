//! A clock that stands still, for tests of what no time decides.

use pijs_hostcall::{BoxFuture, Timer};
use pijs_protocol::Now;
use std::time::Duration;

pub(crate) struct Still;

impl Timer for Still {
    fn now(&self) -> Now {
        Now { epoch_ms: 1_700_000_000_000, elapsed_us: 1 }
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}
