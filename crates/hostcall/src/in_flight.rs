//! An asynchronous call in flight: numbered chunks, one end.
//!
//! States: *open*, with any number of chunks, then *ended*. Of all events that can end it (the connector, the deadline, a
//! cancellation, the end of the extension, the drop of its future) the first is recorded and answered; later ones have no effect.

use crate::backpressure::{CallSlot, ResultPermit, UndeliveredResults};
use crate::completion_order::{InOrder, Release};
use crate::connector::{BoxFuture, Caller, CancelToken, ChunkSink, Connector, Output, Request, cancelled};
use crate::ledger::{CallEnd, CallFacts, Ledger};
use crate::quota::Quotas;
use crate::traced;
use pijs_environment::Timer;
use pijs_protocol::{CallId, Chunk, ErrorCode, HostResult, HostcallError};
use std::io::{self, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// Receives the results of an asynchronous call.
pub(crate) type Results = Box<dyn Fn(HostResult, ResultPermit) + Send + Sync>;

/// One call from its decision to its end. Its thirteen fields do not change; its [`CallState`] does.
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
    pub(crate) progress: Mutex<CallState>,
    /// Results that its extension has not taken yet.
    pub(crate) undelivered: Arc<UndeliveredResults>,
}

#[derive(Debug, Default)]
pub(crate) struct CallState {
    next_chunk: u32,
    sent_bytes: usize,
    ended: bool,
    /// Set for a call whose successor waits for its end.
    release: Option<Release>,
    /// Closed by the end.
    span: Option<tracing::Span>,
}

impl CallState {
    /// Creates the state of a call that is traced by `span`.
    pub(crate) fn in_span(span: tracing::Span) -> Self {
        Self { span: Some(span), ..Self::default() }
    }
}

impl InFlightCall {
    /// Stores the release of the next call until this one ends.
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

    /// Ends the call; returns `None` when it had ended before. Runs `pass_on` under the lock, so that nothing follows the last
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

/// Returns `details.reason` of an error, for the ledger.
pub(crate) fn reason_of(error: &HostcallError) -> Option<Arc<str>> {
    error.details.get("reason").and_then(|reason| reason.as_str()).map(Arc::from)
}

/// The state of an asynchronous call after its start.
#[expect(clippy::large_enum_variant, reason = "taken apart where it is made")]
pub enum StartedCall {
    /// The call has ended with this result, which `results` does not get. The result counts as undelivered until the permit is
    /// dropped.
    Ended(HostResult, ResultPermit),
    /// The future completes the call.
    Running(BoxFuture<'static, ()>),
}

impl StartedCall {
    /// Returns the future that completes the call; passes a result that exists already to `ended`.
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

/// A call whose connector has started.
pub(crate) struct RunningCall {
    pub(crate) work: ConnectorTask,
    pub(crate) timeout_ms: Option<u64>,
    /// Held until the call ends.
    pub(crate) slot: CallSlot,
}

impl RunningCall {
    /// Polls for an outcome once. A call that ends in order is never ready here, because the time at which a thread finishes is
    /// not deterministic.
    pub(crate) fn poll_once(&mut self) -> Poll<Result<Output, HostcallError>> {
        let cx = &mut Context::from_waker(Waker::noop());
        match &mut self.work {
            ConnectorTask::Unordered(work) => {
                let outcome = Pin::new(&mut *work).poll(cx);
                if outcome.is_ready() {
                    // Cancelled as at the end of a wait.
                    work.in_flight_call.cancel.cancel();
                }
                outcome
            }
            ConnectorTask::InOrder(work) => {
                work.begin(cx);
                Poll::Pending
            }
        }
    }
}

/// A running connector.
pub(crate) enum ConnectorTask {
    /// Its outcome ends the call at once.
    Unordered(CatchPanic),
    InOrder(InOrder),
}

impl Future for ConnectorTask {
    type Output = Result<Output, HostcallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Unordered(work) => Pin::new(work).poll(cx),
            Self::InOrder(work) => Pin::new(work).poll(cx),
        }
    }
}

/// A running connector whose panic becomes an `internal` result of this call.
pub(crate) struct CatchPanic {
    /// `None` when it panicked at its start.
    work: Option<BoxFuture<'static, Result<Output, HostcallError>>>,
    in_flight_call: Arc<InFlightCall>,
}

impl CatchPanic {
    pub(crate) fn start(connector: &dyn Connector, request: Request, sink: ChunkSink) -> Self {
        let in_flight_call = Arc::clone(&sink.in_flight_call);
        let work = catch_unwind(AssertUnwindSafe(|| connector.call(request, sink)));
        Self { work: work.ok(), in_flight_call }
    }
}

impl Future for CatchPanic {
    type Output = Result<Output, HostcallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { work, in_flight_call } = &mut *self;
        let bug = || Poll::Ready(Err(panicked(&in_flight_call.facts.method)));
        match work {
            Some(work) => catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))).unwrap_or_else(|_| bug()),
            None => bug(),
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

/// Returns the error of a call that could not be recorded. A full disk is a resource limit, which strict mode enforces; any other
/// failure is a system error.
pub(crate) fn unrecorded(error: &io::Error) -> HostcallError {
    let message =
        format!("the ledger cannot be written ({error}), and strict mode refuses calls that cannot be recorded");
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => HostcallError::denied("policy", message),
        _ => HostcallError::io("EIO", "write", message),
    }
}

/// Returns the error of a call during which host code panicked.
pub(crate) fn panicked(method: &str) -> HostcallError {
    HostcallError::new(ErrorCode::Internal, format!("{method}: the connector panicked; this is a bug in the host"))
        .with("reason", "invariant")
}
