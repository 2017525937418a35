//! The clock of a scenario's session.

use super::scenario::{self, Scenario};
use pijs_environment::{SystemTimer, Timer, Wait};
use pijs_hostcall::BoxFuture;
use pijs_protocol::Now;
use pijs_runtime::{Result, UserError};
use std::time::Duration;

/// A wall clock that shows the scenario's fixed time, if it has one; timers use real time.
pub(super) struct StillTimer {
    system: SystemTimer,
    epoch_ms: Option<u64>,
}

impl StillTimer {
    pub(super) fn new(scenario: &Scenario) -> Result<Self> {
        let text = match &scenario.now {
            Some(None) => return Ok(Self { system: SystemTimer::new(), epoch_ms: None }),
            Some(Some(text)) => text.as_str(),
            None => scenario::NOW,
        };
        let moment = time::OffsetDateTime::parse(text, &time::format_description::well_known::Rfc3339)
            .map_err(|error| UserError::failed(format!("now: {text:?}: {error}")))?;
        let epoch_ms = u64::try_from(moment.unix_timestamp_nanos() / 1_000_000)
            .map_err(|_| UserError::failed(format!("now: {text:?} is before 1970")))?;
        Ok(Self { system: SystemTimer::new(), epoch_ms: Some(epoch_ms) })
    }
}

impl Timer for StillTimer {
    fn now(&self) -> Now {
        let now = self.system.now();
        Now { epoch_ms: self.epoch_ms.unwrap_or(now.epoch_ms), ..now }
    }

    fn sleep(&self, wait: Wait, duration: Duration) -> BoxFuture<'static, ()> {
        self.system.sleep(wait, duration)
    }
}
