//! An asynchronous call in flight: numbered chunks, one end.
//!
//! States: *open*, with any number of chunks, then *ended*. Several events can end a call: the connector, the deadline, a
//! cancellation, the end of the extension, the drop of its future. The first one is recorded and answered; later ones have no
//! effect.

use crate::backpressure::{ResultPermit, UndeliveredResults};
use crate::caller::Caller;
use crate::completion_order::Release;
use crate::ledger::{CallEnd, CallFacts, Ledger};
use crate::output::{Output, cancelled, panicked, reason_of};
use crate::quota::Quotas;
use crate::task::{BoxFuture, CancelToken};
use crate::traced;
use pijs_environment::Timer;
use pijs_protocol::{CallId, Chunk, HostResult, HostcallError};
use std::sync::{Arc, Mutex, PoisonError};

/// Receives the results of an asynchronous call.
pub(crate) type Results = Box<dyn Fn(HostResult, ResultPermit) + Send + Sync>;

/// One call from its decision to its end. Its thirteen fields do not change; only the [`InFlightState`] does.
pub(crate) struct InFlightCall {
    pub(crate) caller: Caller,
    pub(crate) call_id: CallId,
    /// Facts about the call for the ledger.
    pub(crate) facts: CallFacts,
    pub(crate) cancel: CancelToken,
    pub(crate) cancel_token: Option<String>,
    pub(crate) started_us: u64,
    pub(crate) ledger: Ledger,
    pub(crate) timer: Arc<dyn Timer>,
    pub(crate) quotas: Quotas,
    /// Size of parameters and attachments, in bytes.
    pub(crate) size: usize,
    pub(crate) results: Results,
    pub(crate) progress: Mutex<InFlightState>,
    /// Results that the extension has not taken yet.
    pub(crate) undelivered: Arc<UndeliveredResults>,
}

#[derive(Debug, Default)]
pub(crate) struct InFlightState {
    next_chunk: u32,
    sent_bytes: usize,
    ended: bool,
    /// Releases the next ordered call; set if that call waits for this one.
    release: Option<Release>,
    /// Tracing span, closed at the end of the call.
    span: Option<tracing::Span>,
}

impl InFlightState {
    /// Creates the state of a call that is traced by `span`.
    pub(crate) fn in_span(span: tracing::Span) -> Self {
        Self { span: Some(span), ..Self::default() }
    }
}

impl InFlightCall {
    /// Stores the release of the next call; it is dropped when this call ends.
    pub(crate) fn set_release(&self, release: Release) {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).release = Some(release);
    }

    /// Sends a chunk other than the last one.
    pub(crate) fn chunk(&self, chunk: Output) -> Result<(), HostcallError> {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        if progress.ended || self.cancel.is_cancelled() {
            return Err(cancelled(&self.facts.method));
        }
        progress.sent_bytes += self.quotas.check_answer(&chunk, progress.sent_bytes)?;
        let index = progress.next_chunk;
        progress.next_chunk += 1;
        // Sent under the lock, so that chunks arrive in the order of their numbers.
        self.send(HostResult {
            call_id: self.call_id.clone(),
            output: chunk.value,
            is_error: false,
            error: None,
            chunk: Some(Chunk { index, is_last: false, backpressure: None }),
            bytes: chunk.bytes,
        });
        Ok(())
    }

    /// Waits until the realm has taken enough of the earlier results.
    pub(crate) async fn ready(&self) {
        self.undelivered.until_stream_continues(self.quotas.stream_bytes, &self.cancel).await;
    }

    fn send(&self, result: HostResult) {
        let held = self.undelivered.permit(&result);
        (self.results)(result, held);
    }

    /// Ends the call, unless it has ended: records the end and sends the last result.
    pub(crate) fn end(&self, outcome: Result<Output, HostcallError>) {
        self.end_with(|| outcome, |result| self.send(result));
    }

    /// Ends a call that finished before its future was polled: returns the last result instead of sending it.
    pub(crate) fn end_immediately(&self, outcome: Result<Output, HostcallError>) -> Option<(HostResult, ResultPermit)> {
        self.end_with(
            || outcome,
            |result| {
                let held = self.undelivered.permit(&result);
                (result, held)
            },
        )
    }

    /// Ends the call; returns `None` if it had already ended. Runs `pass_on` under the lock, so that nothing follows the last
    /// result.
    fn end_with<T>(
        &self,
        outcome: impl FnOnce() -> Result<Output, HostcallError>,
        pass_on: impl FnOnce(HostResult) -> T,
    ) -> Option<T> {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut progress.ended, true) {
            return None;
        }
        let outcome = outcome();
        let sent = progress.sent_bytes;
        let outcome = outcome.and_then(|output| self.quotas.check_answer(&output, sent).map(|_| output));
        let now = self.timer.now();
        if let Some(span) = progress.span.take() {
            traced::ended(&span, outcome.as_ref().err());
        }
        self.ledger.call_end(
            now,
            &self.caller,
            CallEnd {
                call: self.facts.clone(),
                duration_us: now.elapsed_us.saturating_sub(self.started_us),
                error: outcome.as_ref().err().map(|error| (error.code, reason_of(error))),
            },
        );
        let mut result = match outcome {
            Ok(output) => HostResult::ok_with_bytes(self.call_id.clone(), output.value, output.bytes),
            Err(error) => HostResult::failed(self.call_id.clone(), error),
        };
        if progress.next_chunk > 0 {
            result.chunk = Some(Chunk { index: progress.next_chunk, is_last: true, backpressure: None });
        }
        let passed = pass_on(result);
        progress.release = None;
        Some(passed)
    }
}

/// Sends the chunks of a streaming answer, numbered.
#[derive(Clone)]
pub struct ChunkSink {
    pub(crate) in_flight_call: Arc<InFlightCall>,
}

impl ChunkSink {
    /// Sends one chunk. Fails when the call has ended or its result quota is used up; the connector stops then.
    pub fn send(&self, chunk: Output) -> Result<(), HostcallError> {
        self.in_flight_call.chunk(chunk)
    }

    /// Waits until the realm has taken enough earlier results that there is room for another. A connector that reads from an
    /// unbounded source waits before each chunk, which leaves unread data with the sender.
    pub async fn ready(&self) {
        self.in_flight_call.ready().await;
    }
}

impl std::fmt::Debug for ChunkSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChunkSink").finish_non_exhaustive()
    }
}

/// The state of an asynchronous call after its start.
#[expect(clippy::large_enum_variant, reason = "taken apart where it is made")]
pub enum StartedCall {
    /// The call has ended with this result, which was not passed to `results`. The result counts as undelivered until the permit
    /// is dropped.
    Ended(HostResult, ResultPermit),
    /// The future completes the call.
    Running(BoxFuture<'static, ()>),
}

impl StartedCall {
    /// Returns the future that completes the call; passes an immediate result to `ended`.
    pub fn rest(self, ended: impl FnOnce(HostResult, ResultPermit)) -> BoxFuture<'static, ()> {
        match self {
            Self::Ended(result, held) => {
                ended(result, held);
                Box::pin(std::future::ready(()))
            }
            Self::Running(rest) => rest,
        }
    }
}

/// Ends a call whose future is dropped early.
pub(crate) struct EndOnDrop {
    pub(crate) in_flight_call: Arc<InFlightCall>,
    pub(crate) forget: Box<dyn Fn(&InFlightCall) + Send + Sync>,
}

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        let in_flight_call = &*self.in_flight_call;
        in_flight_call.cancel.cancel();
        let why = if std::thread::panicking() { panicked } else { cancelled };
        in_flight_call.end_with(|| Err(why(&in_flight_call.facts.method)), |result| in_flight_call.send(result));
        (self.forget)(in_flight_call);
    }
}
