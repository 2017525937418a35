//! One asynchronous call on its way: numbered chunks, one end.
//!
//! States: *open*, any number of chunks, *ended*. Whoever ends it first (the connector, the
//! deadline, a cancellation, the end of the extension, the drop of its future) is the one that
//! is recorded and answered; everybody later finds it ended.

use crate::completion_order::{InOrder, Release};
use crate::connector::{BoxFuture, Caller, CancelToken, ChunkSink, Connector, Output, Request, cancelled};
use crate::ledger::{CallEnd, CallFacts, Ledger};
use crate::quota::Quotas;
use crate::untaken::{Held, Pile, Turn};
use pijs_environment::Timer;
use pijs_protocol::{CallId, Chunk, ErrorCode, HostResult, HostcallError};
use std::io::{self, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// Where results of an asynchronous call go.
pub(crate) type Results = Box<dyn Fn(HostResult, Held) + Send + Sync>;

/// One call from its decision to its end. Its thirteen fields do not change; what does is its [`Progress`].
pub(crate) struct Flight {
    pub(crate) caller: Caller,
    pub(crate) call_id: CallId,
    /// As the ledger names the call.
    pub(crate) facts: CallFacts,
    pub(crate) cancel: CancelToken,
    pub(crate) cancel_token: Option<String>,
    pub(crate) started_us: u64,
    pub(crate) ledger: Ledger,
    pub(crate) timer: Arc<dyn Timer>,
    pub(crate) quotas: Quotas,
    /// Of what the call carries.
    pub(crate) size: usize,
    pub(crate) results: Results,
    pub(crate) progress: Mutex<Progress>,
    /// What its extension has not taken yet.
    pub(crate) pile: Arc<Pile>,
}

#[derive(Debug, Default)]
pub(crate) struct Progress {
    next_chunk: u32,
    sent_bytes: usize,
    ended: bool,
    /// Of a call whose successor waits for its end.
    release: Option<Release>,
}

impl Flight {
    /// Keeps what lets the next call end, until this one has.
    pub(crate) fn hold(&self, release: Release) {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).release = Some(release);
    }

    /// Sends a chunk that is not the last one.
    pub(crate) fn chunk(&self, chunk: Output) -> Result<(), HostcallError> {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        if progress.ended || self.cancel.is_cancelled() {
            return Err(cancelled(&self.facts.method));
        }
        progress.sent_bytes += self.quotas.check_answer(&chunk, progress.sent_bytes)?;
        let index = progress.next_chunk;
        progress.next_chunk += 1;
        // Sent under the lock: the order of chunks is the order of their numbers.
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

    /// Waits until its realm has taken enough of what came before.
    pub(crate) async fn ready(&self) {
        self.pile.streams(self.quotas.stream_bytes, &self.cancel).await;
    }

    fn send(&self, result: HostResult) {
        let held = self.pile.hold(&result);
        (self.results)(result, held);
    }

    /// Ends the call, unless it has ended: records the end and sends the last result.
    pub(crate) fn end(&self, outcome: Result<Output, HostcallError>) {
        self.end_with(|| outcome, |result| self.send(result));
    }

    /// Ends a call that came to its end before anybody could wait for it: the last result is returned and not sent.
    pub(crate) fn end_at_once(&self, outcome: Result<Output, HostcallError>) -> Option<(HostResult, Held)> {
        self.end_with(
            || outcome,
            |result| {
                let held = self.pile.hold(&result);
                (result, held)
            },
        )
    }

    /// `None` when it had ended before. What `pass_on` does is done under the lock: nothing comes after the last result.
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

/// `details.reason` of an error, for the ledger.
pub(crate) fn reason_of(error: &HostcallError) -> Option<Arc<str>> {
    error.details.get("reason").and_then(|reason| reason.as_str()).map(Arc::from)
}

/// What became of an asynchronous call when it was made.
#[expect(clippy::large_enum_variant, reason = "taken apart where it is made")]
pub enum Called {
    /// It has ended, with this result: `results` does not get it. It counts as untaken until the other part is dropped.
    Ended(HostResult, Held),
    /// The future goes on with it.
    Running(BoxFuture<'static, ()>),
}

impl Called {
    /// What is left of it. A result that is there already goes to `ended`.
    pub fn rest(self, ended: impl FnOnce(HostResult, Held)) -> BoxFuture<'static, ()> {
        match self {
            Self::Ended(result, held) => {
                ended(result, held);
                Box::pin(std::future::ready(()))
            }
            Self::Running(rest) => rest,
        }
    }
}

/// A call whose connector has begun.
pub(crate) struct Working {
    pub(crate) work: Work,
    pub(crate) timeout_ms: Option<u64>,
    /// Until it ends.
    pub(crate) turn: Turn,
}

impl Working {
    /// Whether it is done already. A call that ends in order never is: how soon a thread is done is chance.
    pub(crate) fn look(&mut self) -> Poll<Result<Output, HostcallError>> {
        let cx = &mut Context::from_waker(Waker::noop());
        match &mut self.work {
            Work::Unordered(work) => {
                let outcome = Pin::new(&mut *work).poll(cx);
                if outcome.is_ready() {
                    // As at the end of a wait.
                    work.flight.cancel.cancel();
                }
                outcome
            }
            Work::InOrder(work) => {
                work.begin(cx);
                Poll::Pending
            }
        }
    }
}

/// A connector at work.
pub(crate) enum Work {
    /// Its outcome is the call's as soon as it is there.
    Unordered(Contained),
    InOrder(InOrder),
}

impl Future for Work {
    type Output = Result<Output, HostcallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Unordered(work) => Pin::new(work).poll(cx),
            Self::InOrder(work) => Pin::new(work).poll(cx),
        }
    }
}

/// A connector at work, whose panic is an `internal` result of this call and nothing else.
pub(crate) struct Contained {
    /// `None` when it panicked before it began.
    work: Option<BoxFuture<'static, Result<Output, HostcallError>>>,
    flight: Arc<Flight>,
}

impl Contained {
    pub(crate) fn start(connector: &dyn Connector, request: Request, sink: ChunkSink) -> Self {
        let flight = Arc::clone(&sink.flight);
        let work = catch_unwind(AssertUnwindSafe(|| connector.call(request, sink)));
        Self { work: work.ok(), flight }
    }
}

impl Future for Contained {
    type Output = Result<Output, HostcallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { work, flight } = &mut *self;
        let bug = || Poll::Ready(Err(broken(&flight.facts.method)));
        match work {
            Some(work) => catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))).unwrap_or_else(|_| bug()),
            None => bug(),
        }
    }
}

/// Ends a call when its future goes away before it came to an end.
pub(crate) struct EndOnDrop {
    pub(crate) flight: Arc<Flight>,
    pub(crate) forget: Box<dyn Fn(&Flight) + Send + Sync>,
}

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        let flight = &*self.flight;
        flight.cancel.cancel();
        let why = if std::thread::panicking() { broken } else { cancelled };
        flight.end_with(|| Err(why(&flight.facts.method)), |result| flight.send(result));
        (self.forget)(flight);
    }
}

/// The error of a call that could not be written down. A ledger without room is a limit of this machine that the strict
/// policy keeps to; anything else is a failure of the system.
pub(crate) fn unrecorded(error: &io::Error) -> HostcallError {
    let message = format!("the ledger cannot be written ({error}), and strict mode does nothing unrecorded");
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => HostcallError::denied("policy", message),
        _ => HostcallError::io("EIO", "write", message),
    }
}

/// The error of a call during which our own code panicked.
pub(crate) fn broken(method: &str) -> HostcallError {
    HostcallError::new(ErrorCode::Internal, format!("{method}: the connector failed; this is a bug of the host"))
        .with("reason", "invariant")
}
