//! Dispatches every call to its connector.
//!
//! Synchronous and asynchronous calls pass through the steps in this order: shape and size, uniqueness of the id, derivation,
//! comparison with the claimed capability, the decision, the ledger, the connector, the end in the ledger. A refusal is an
//! ordinary result; no input of an extension causes a panic.

mod admission;
mod build_record;
mod read_call;
mod running;
mod sync_calls;

pub use build_record::BuildRecord;
pub use read_call::ReadCall;

use crate::backpressure::{Backpressure, ResultPermit};
use crate::caller::Caller;
use crate::completion_order::CompletionOrder;
use crate::connector::Connector;
use crate::gate::{Gate, Judgement};
use crate::in_flight::{EndOnDrop, InFlightCall, InFlightState, StartedCall};
use crate::ledger::Ledger;
use crate::output::panicked;
use crate::quota::{Quotas, used_up};
use crate::task::CancelToken;
use admission::DecidedCall;
use pijs_environment::Timer;
use pijs_protocol::{CallId, ExtensionId, HostCall, HostResult, HostcallError, Method, guard};
use running::{AwaitingPrompt, CallProgress};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use sync_calls::RunningSyncCall;

/// Dispatches calls of all extensions of a session. Cheap to clone.
#[derive(Clone)]
pub struct Dispatcher {
    inner: Arc<DispatcherInner>,
}

struct DispatcherInner {
    connectors: BTreeMap<Method, Arc<dyn Connector>>,
    gate: Gate,
    ledger: Ledger,
    quotas: Quotas,
    timer: Arc<dyn Timer>,
    /// Name that the ledger uses for a method without a connector.
    unknown: Method,
    in_flight: Mutex<BTreeMap<ExtensionId, BTreeMap<CallId, Arc<InFlightCall>>>>,
    /// Times of the latest dialogs of each extension, in microseconds.
    dialogs: Mutex<BTreeMap<ExtensionId, VecDeque<u64>>>,
    /// Running synchronous calls, which are cancelled when their extension ends.
    sync_calls: Mutex<Vec<RunningSyncCall>>,
    /// Token of calls that cannot be cancelled.
    never: CancelToken,
    undelivered: Backpressure,
    completion_order: CompletionOrder,
}

/// Builds a [`Dispatcher`]. Starts without connectors; a call of a method without a connector fails with `invalid_request`.
pub struct DispatcherBuilder {
    connectors: BTreeMap<Method, Arc<dyn Connector>>,
    gate: Gate,
    ledger: Ledger,
    quotas: Quotas,
    timer: Arc<dyn Timer>,
}

impl DispatcherBuilder {
    /// Registers a connector for a method; a later one replaces an earlier one.
    #[must_use]
    pub fn connector(mut self, method: impl Into<Method>, connector: Arc<dyn Connector>) -> Self {
        self.connectors.insert(method.into(), connector);
        self
    }

    /// Registers connectors for several methods.
    #[must_use]
    pub fn connectors(mut self, connectors: impl IntoIterator<Item = (String, Arc<dyn Connector>)>) -> Self {
        self.connectors.extend(connectors.into_iter().map(|(method, connector)| (method.into(), connector)));
        self
    }

    /// Sets the limits of each extension.
    #[must_use]
    pub fn quotas(mut self, quotas: Quotas) -> Self {
        self.quotas = quotas;
        self
    }

    /// Builds the dispatcher.
    pub fn build(self) -> Dispatcher {
        let Self { connectors, gate, ledger, quotas, timer } = self;
        let inner = DispatcherInner {
            connectors,
            gate,
            ledger,
            quotas,
            timer,
            unknown: "unknown".into(),
            in_flight: Mutex::default(),
            dialogs: Mutex::default(),
            sync_calls: Mutex::default(),
            never: CancelToken::new(),
            undelivered: Backpressure::default(),
            completion_order: CompletionOrder::default(),
        };
        Dispatcher { inner: Arc::new(inner) }
    }
}

impl Dispatcher {
    /// Returns a builder for the dispatcher of one session.
    pub fn builder(gate: Gate, ledger: Ledger, timer: Arc<dyn Timer>) -> DispatcherBuilder {
        DispatcherBuilder { connectors: BTreeMap::new(), gate, ledger, quotas: Quotas::default(), timer }
    }

    /// Returns the gate, for grants and for capabilities without a hostcall.
    pub fn gate(&self) -> &Gate {
        &self.inner.gate
    }

    /// Returns the ledger, for events that are not hostcalls and for [`Ledger::flush`] at the end of a turn.
    pub fn ledger(&self) -> &Ledger {
        &self.inner.ledger
    }

    /// Starts an asynchronous call, and runs it until it would block: a call that needs no prompt is decided and recorded before
    /// this returns, and its connector has started or finished. The end is recorded and answered exactly once, even if the future
    /// is dropped; `results` takes chunks of the answer, and the result if it is not immediate.
    pub fn call(
        &self,
        caller: &Caller,
        call: HostCall,
        results: impl Fn(HostResult, ResultPermit) + Send + Sync + 'static,
    ) -> StartedCall {
        let inner = &self.inner;
        let mut call = self.read(call);
        let (opened, required) = inner.open(caller, &call);
        let judged = inner.admit(caller, &call, &opened, required).and_then(|(connector, required)| {
            Ok(match inner.gate.judge_call(caller, &opened.facts.method, &required)? {
                (Judgement::Settled(decision), permit) => {
                    Ok(DecidedCall { connector, required, decision, permit, at: opened.now })
                }
                (Judgement::Ask(..), _) => Err(connector),
            })
        });
        let decided = match judged {
            Ok(Ok(judged)) => inner.begin(caller, &call, &opened, Ok(judged)).map(Ok),
            // The future waits for the prompt, and the call is recorded after the answer.
            Ok(Err(connector)) => Ok(Err(connector)),
            Err(error) => inner.begin(caller, &call, &opened, Err(error)).map(Ok),
        };
        let in_flight_call = Arc::new(InFlightCall {
            caller: caller.clone(),
            call_id: call.head.call_id.clone(),
            facts: opened.facts.clone(),
            cancel: CancelToken::new(),
            cancel_token: call.head.cancel_token.take(),
            started_us: opened.now.elapsed_us,
            ledger: inner.ledger.clone(),
            timer: Arc::clone(&inner.timer),
            quotas: inner.quotas,
            size: call.size.as_ref().copied().unwrap_or_default(),
            results: Box::new(results),
            progress: Mutex::new(InFlightState::in_span(opened.span.clone())),
            undelivered: inner.undelivered.of(caller.extension()),
        });
        let ended = |outcome| {
            let (result, held) = in_flight_call.end_immediately(outcome).expect("the call has no other owner");
            StartedCall::Ended(result, held)
        };
        match decided {
            Err(error) => ended(Err(error)),
            Ok(Err(connector)) => match inner.has_room(&in_flight_call) {
                Ok(()) => self.continue_call(
                    &in_flight_call,
                    CallProgress::Prompt(Box::new(AwaitingPrompt { connector, call, opened })),
                ),
                Err(error) => {
                    ended(inner.begin(caller, &call, &opened, Err(error)).and(Err(panicked(&call.head.method))))
                }
            },
            Ok(Ok(admitted)) => {
                if let Err(error) = inner.has_room(&in_flight_call) {
                    return ended(Err(error));
                }
                let parsed = match &call.parsed {
                    Ok(parsed) => &parsed.call,
                    Err(error) => return ended(Err(error.clone())),
                };
                let Some(slot) = in_flight_call.undelivered.try_slot(parsed, inner.quotas.untaken_bytes) else {
                    return self.continue_call(&in_flight_call, CallProgress::AwaitRealm(Box::new((call, admitted))));
                };
                match inner.start_connector(&in_flight_call, call, admitted, slot) {
                    Err(error) => ended(Err(error)),
                    Ok(mut working) => match working.poll_once() {
                        Poll::Ready(outcome) => ended(outcome),
                        Poll::Pending => self.continue_call(&in_flight_call, CallProgress::Running(working)),
                    },
                }
            }
        }
    }

    /// Continues a call that has to wait.
    fn continue_call(&self, in_flight_call: &Arc<InFlightCall>, begun: CallProgress) -> StartedCall {
        self.inner.register(in_flight_call);
        let forget = Arc::downgrade(&self.inner);
        let guard = EndOnDrop {
            in_flight_call: Arc::clone(in_flight_call),
            forget: Box::new(move |in_flight_call| {
                if let Some(inner) = forget.upgrade() {
                    inner.forget(in_flight_call);
                }
            }),
        };
        let inner = Arc::clone(&self.inner);
        StartedCall::Running(Box::pin(async move {
            let guard = guard;
            let outcome = inner.run(&guard.in_flight_call, begun).await;
            guard.in_flight_call.end(outcome);
        }))
    }

    /// Cancels a call by its id or its cancel token; ignores an unknown one.
    pub fn cancel(&self, extension: &ExtensionId, call_id: &CallId) {
        let in_flight = self.inner.in_flight();
        let Some(calls) = in_flight.get(extension) else { return };
        for (id, in_flight_call) in calls {
            if id == call_id || in_flight_call.cancel_token.as_deref() == Some(call_id.as_str()) {
                in_flight_call.cancel.cancel();
            }
        }
    }

    /// Ends all calls of an extension whose realm has ended: each call in flight is cancelled and answered once, with `why`, and
    /// connectors release its resources.
    pub fn end_extension(&self, extension: &ExtensionId, why: &HostcallError) {
        let calls = self.inner.in_flight().remove(extension).unwrap_or_default();
        for in_flight_call in calls.into_values() {
            // Ended before it is cancelled, because the first end is the recorded one.
            in_flight_call.end(Err(why.clone()));
            in_flight_call.cancel.cancel();
        }
        for running in self.inner.sync_calls().iter().filter(|running| running.profile.extension == *extension) {
            running.cancel.cancel();
        }
        self.inner.completion_order.forget(extension);
        for connector in self.inner.connectors.values() {
            connector.end_extension(extension);
        }
    }

    /// Returns the number of calls of an extension that are in flight.
    pub fn in_flight(&self, extension: &ExtensionId) -> usize {
        self.inner.in_flight().get(extension).map_or(0, BTreeMap::len)
    }
}

impl DispatcherInner {
    fn in_flight(&self) -> std::sync::MutexGuard<'_, BTreeMap<ExtensionId, BTreeMap<CallId, Arc<InFlightCall>>>> {
        self.in_flight.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sync_calls(&self) -> std::sync::MutexGuard<'_, Vec<RunningSyncCall>> {
        self.sync_calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks that the extension may have another call in flight.
    fn has_room(&self, in_flight_call: &InFlightCall) -> Result<(), HostcallError> {
        let in_flight = self.in_flight();
        let Some(calls) = in_flight.get(in_flight_call.caller.extension()) else { return Ok(()) };
        if calls.len() >= self.quotas.in_flight && guard!(QuotaInFlight) {
            return Err(used_up("in_flight", self.quotas.in_flight));
        }
        let bytes = calls.values().fold(in_flight_call.size, |sum, call| sum.saturating_add(call.size));
        if bytes > self.quotas.in_flight_bytes && guard!(QuotaInFlight) {
            return Err(used_up("in_flight_bytes", self.quotas.in_flight_bytes));
        }
        if calls.contains_key(&in_flight_call.call_id) {
            return Err(HostcallError::invalid(
                "duplicate_id",
                format!("a call {:?} is in flight", in_flight_call.call_id.as_str()),
            ));
        }
        Ok(())
    }

    fn register(&self, in_flight_call: &Arc<InFlightCall>) {
        let mut in_flight = self.in_flight();
        let calls = in_flight.entry(in_flight_call.caller.extension().clone()).or_default();
        calls.insert(in_flight_call.call_id.clone(), Arc::clone(in_flight_call));
    }

    fn forget(&self, in_flight_call: &InFlightCall) {
        let mut in_flight = self.in_flight();
        let extension = in_flight_call.caller.extension();
        if let Some(calls) = in_flight.get_mut(extension) {
            // A refused duplicate must not remove the original.
            if calls.get(&in_flight_call.call_id).is_some_and(|known| std::ptr::eq(&**known, in_flight_call)) {
                calls.remove(&in_flight_call.call_id);
            }
            if calls.is_empty() {
                in_flight.remove(extension);
            }
        }
    }
}

#[cfg(test)]
#[path = "dispatch_tests.rs"]
mod tests;
