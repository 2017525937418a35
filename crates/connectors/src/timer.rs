//! Serves `timer.sleep`, for code that sleeps with `Atomics.wait`.

use pijs_environment::{Timer, Wait};
use pijs_hostcall::connector::cancelled;
use pijs_hostcall::{BoxFuture, ChunkSink, Connector, Output, Request};
use pijs_protocol::call::TimerCall;
use pijs_protocol::{HostcallError, TypedCall};
use std::sync::Arc;
use std::time::Duration;

/// Maximum wait of one call in milliseconds: a synchronous wait blocks its whole realm.
const LONGEST_MS: u64 = 10 * 60 * 1000;

/// Serves the `timer.sleep` method.
pub struct TimerConnector {
    timer: Arc<dyn Timer>,
}

impl TimerConnector {
    /// Creates a connector that waits with this timer.
    pub fn new(timer: Arc<dyn Timer>) -> Self {
        Self { timer }
    }
}

fn duration(request: &Request) -> Result<Duration, HostcallError> {
    let TypedCall::Timer(TimerCall::Sleep { ms }) = request.call else { return Err(request.misdirected()) };
    if ms > LONGEST_MS {
        return Err(HostcallError::invalid("too_large", format!("timer: more than {LONGEST_MS} ms")));
    }
    Ok(Duration::from_millis(ms))
}

impl Connector for TimerConnector {
    fn call(&self, request: Request, _sink: ChunkSink) -> BoxFuture<'static, Result<Output, HostcallError>> {
        let wait = duration(&request).map(|duration| self.timer.sleep(Wait::Call, duration));
        Box::pin(async move {
            wait?.await;
            Ok(Output::empty())
        })
    }

    /// Waits; blocks the realm and its thread.
    fn call_sync(&self, request: &Request) -> Result<Output, HostcallError> {
        let duration = duration(request)?;
        if request.cancel.is_cancelled() {
            return Err(cancelled("timer"));
        }
        std::thread::sleep(duration);
        Ok(Output::empty())
    }
}
