//! Runs asynchronous calls that have to wait: for a prompt, for the realm, or for their connector.

use super::admission::{Admitted, DecidedCall, ReceivedCall};
use super::{DispatcherInner, ReadCall};
use crate::backpressure::CallSlot;
use crate::caller::Caller;
use crate::completion_order::InOrder;
use crate::connector::{Connector, Request};
use crate::decision::Decision;
use crate::derive::ParsedCall;
use crate::gate::Permit;
use crate::in_flight::{ChunkSink, InFlightCall};
use crate::output::{Output, cancelled, deadline, panicked};
use crate::task::{BoxFuture, CancelToken};
use pijs_environment::Wait;
use pijs_protocol::HostcallError;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// The progress of a call that has to wait.
pub(super) enum CallProgress {
    /// The user has to be prompted.
    Prompt(Box<AwaitingPrompt>),
    /// The extension has to take earlier results first.
    AwaitRealm(Box<(ReadCall, Admitted)>),
    Running(RunningCall),
}

/// A call that waits for a prompt.
pub(super) struct AwaitingPrompt {
    pub(super) connector: Arc<dyn Connector>,
    pub(super) call: ReadCall,
    pub(super) opened: ReceivedCall,
}

impl DispatcherInner {
    /// Starts the connector.
    pub(super) fn start_connector(
        &self,
        in_flight_call: &Arc<InFlightCall>,
        call: ReadCall,
        admitted: Admitted,
        slot: CallSlot,
    ) -> Result<RunningCall, HostcallError> {
        let Admitted { connector, decision, permit } = admitted;
        self.ledger_first(&decision)?;
        let timeout_ms = call.head.timeout_ms;
        let is_ordered = call.ends_in_order();
        let request = request(&in_flight_call.caller, call, decision, permit, in_flight_call.cancel.clone())?;
        let contained =
            CatchPanic::start(&*connector, request, ChunkSink { in_flight_call: Arc::clone(in_flight_call) });
        let work = if is_ordered {
            let (predecessor, release) = self.completion_order.enter(in_flight_call.caller.extension());
            in_flight_call.set_release(release);
            ConnectorTask::InOrder(InOrder::new(contained, predecessor))
        } else {
            ConnectorTask::Unordered(contained)
        };
        Ok(RunningCall { work, timeout_ms, slot })
    }

    pub(super) async fn run(
        &self,
        in_flight_call: &Arc<InFlightCall>,
        begun: CallProgress,
    ) -> Result<Output, HostcallError> {
        let caller = &in_flight_call.caller;
        let (call, admitted) = match begun {
            CallProgress::Running(working) => return self.wait_for_end(in_flight_call, working).await,
            CallProgress::AwaitRealm(waits) => *waits,
            CallProgress::Prompt(asking) => {
                let AwaitingPrompt { connector, call, opened } = *asking;
                let required = self.gate.derive(call.parsed.as_ref().map_err(Clone::clone)?)?;
                let asked = tokio::select! {
                    biased;
                    () = in_flight_call.cancel.cancelled() => Err(cancelled(&call.head.method)),
                    found = self.gate.ask(caller, &call.head.method, &required) => found,
                };
                let at = self.timer.now();
                let judged = asked.map(|(decision, permit)| DecidedCall { connector, required, decision, permit, at });
                let admitted = self.begin(caller, &call, &opened, judged)?;
                (call, admitted)
            }
        };
        let parsed = call.parsed.as_ref().map_err(Clone::clone)?;
        let limit = self.quotas.untaken_bytes;
        let slot = in_flight_call.undelivered.slot(&parsed.call, limit, &in_flight_call.cancel).await;
        if in_flight_call.cancel.is_cancelled() {
            return Err(cancelled(&call.head.method));
        }
        let working = self.start_connector(in_flight_call, call, admitted, slot)?;
        self.wait_for_end(in_flight_call, working).await
    }

    /// Waits for the connector, the deadline or a cancellation.
    async fn wait_for_end(&self, in_flight_call: &InFlightCall, working: RunningCall) -> Result<Output, HostcallError> {
        let RunningCall { work, timeout_ms, slot: _slot } = working;
        let expiry = async {
            match timeout_ms {
                Some(timeout_ms) => self.timer.sleep(Wait::Call, Duration::from_millis(timeout_ms)).await,
                None => std::future::pending().await,
            }
        };
        let outcome = tokio::select! {
            biased;
            () = in_flight_call.cancel.cancelled() => Err(cancelled(&in_flight_call.facts.method)),
            outcome = work => outcome,
            () = expiry => Err(deadline(&in_flight_call.facts.method, timeout_ms.unwrap_or_default())),
        };
        // Tells work that continues on another thread that its result is not needed.
        in_flight_call.cancel.cancel();
        outcome
    }
}

/// A call whose connector has started.
pub(super) struct RunningCall {
    pub(super) work: ConnectorTask,
    pub(super) timeout_ms: Option<u64>,
    /// Occupied until the call ends.
    pub(super) slot: CallSlot,
}

impl RunningCall {
    /// Polls once for an outcome. A call that ends in order is never ready here, because the time at which a thread finishes is
    /// not deterministic.
    pub(super) fn poll_once(&mut self) -> Poll<Result<Output, HostcallError>> {
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
pub(super) enum ConnectorTask {
    /// The outcome ends the call at once.
    Unordered(CatchPanic),
    InOrder(InOrder<CatchPanic>),
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
pub(super) struct CatchPanic {
    /// The connector's future; `None` if it panicked at its start.
    work: Option<BoxFuture<'static, Result<Output, HostcallError>>>,
    in_flight_call: Arc<InFlightCall>,
}

impl CatchPanic {
    pub(super) fn start(connector: &dyn Connector, request: Request, sink: ChunkSink) -> Self {
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

/// Builds the request of a decided call.
pub(super) fn request(
    caller: &Caller,
    call: ReadCall,
    decision: Decision,
    permit: Permit,
    cancel: CancelToken,
) -> Result<Request, HostcallError> {
    let ReadCall { head, parsed, .. } = call;
    let ParsedCall { method, call, params, bytes } = parsed?;
    Ok(Request {
        caller: caller.clone(),
        call_id: head.call_id,
        method,
        call,
        params,
        bytes,
        decision,
        permit,
        timeout_ms: head.timeout_ms,
        cancel,
    })
}
