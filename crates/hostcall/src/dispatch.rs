//! The dispatcher, which takes every call to its connector.
//!
//! Synchronous and asynchronous calls pass through the steps in this order: shape and size, uniqueness of the id, derivation,
//! comparison with the claimed capability, the decision, the ledger, the connector, the end in the ledger. A refusal is an
//! ordinary result; no input of an extension causes a panic.

mod build_record;
mod read_call;

pub use build_record::BuildRecord;
pub use read_call::ReadCall;

use crate::backpressure::{Backpressure, CallSlot, ResultPermit};
use crate::completion_order::{CompletionOrder, InOrder};
use crate::connector::{Caller, CancelToken, ChunkSink, Connector, Output, Profile, Request, cancelled, deadline};
use crate::derive::{ParsedCall, Required, Subject};
use crate::gate::{Decision, Gate, Judgement, Permit, Reason};
use crate::in_flight::{
    CallState, CatchPanic, ConnectorTask, EndOnDrop, InFlightCall, RunningCall, StartedCall, panicked, reason_of,
    unrecorded,
};
use crate::ledger::{CallEnd, CallFacts, CallStart, Ledger};
use crate::policy::Mode;
use crate::quota::{Quotas, used_up};
use crate::risk::Signal;
use crate::traced;
use crate::vocabulary::FREE;
use pijs_environment::{Timer, Wait};
use pijs_protocol::{CallId, ExtensionId, HostCall, HostResult, HostcallError, Method, Now, guard};
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

/// Ops of `ui` that wait for the user.
const DIALOGS: &[&str] = &["select", "confirm", "input", "editor", "custom"];
/// Period of the limit on dialogs.
const DIALOG_PERIOD_US: u64 = 60_000_000;

/// Methods whose synchronous form neither blocks nor computes for long, so there is nothing to cancel. UI output is immediate; a
/// dialog's answer arrives through another call.
const IMMEDIATE: [&str; 6] = ["session", "env", "log", "events", "tools", "ui"];

/// Longest call id and cancel token, in bytes.
const MAX_ID_BYTES: usize = 128;

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
    /// Name in the ledger of a method without a connector.
    unknown: Method,
    in_flight: Mutex<BTreeMap<ExtensionId, BTreeMap<CallId, Arc<InFlightCall>>>>,
    /// Times of the latest dialogs of each extension.
    dialogs: Mutex<BTreeMap<ExtensionId, VecDeque<u64>>>,
    /// Running synchronous calls, which are cancelled when their extension ends.
    sync_calls: Mutex<Vec<RunningSyncCall>>,
    /// Token of calls that cannot be cancelled.
    never: CancelToken,
    undelivered: Backpressure,
    completion_order: CompletionOrder,
}

/// A running synchronous call.
struct RunningSyncCall {
    number: u64,
    profile: Arc<Profile>,
    cancel: CancelToken,
}

/// Registers a synchronous call while it runs.
struct SyncCallGuard<'a> {
    inner: &'a DispatcherInner,
    number: u64,
    cancel: CancelToken,
}

impl Drop for SyncCallGuard<'_> {
    fn drop(&mut self) {
        self.inner.sync_calls().retain(|running| running.number != self.number);
    }
}

/// Builds a [`Dispatcher`]. Starts without connectors: a method without a connector is `invalid_request`.
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

/// A call that passed every check before the connector.
struct Admitted {
    connector: Arc<dyn Connector>,
    decision: Decision,
    permit: Permit,
}

impl Dispatcher {
    /// Returns a builder for the dispatcher of one session.
    pub fn builder(gate: Gate, ledger: Ledger, timer: Arc<dyn Timer>) -> DispatcherBuilder {
        DispatcherBuilder { connectors: BTreeMap::new(), gate, ledger, quotas: Quotas::default(), timer }
    }

    /// Returns the gate, for grants and for capabilities that are no hostcalls.
    pub fn gate(&self) -> &Gate {
        &self.inner.gate
    }

    /// Returns the ledger, for events that are no hostcalls and for [`Ledger::flush`] at the end of a turn.
    pub fn ledger(&self) -> &Ledger {
        &self.inner.ledger
    }

    /// Runs a synchronous call.
    pub fn call_sync(&self, caller: &Caller, call: HostCall) -> HostResult {
        self.call_sync_until(caller, self.read(call)).0
    }

    /// Runs a synchronous call; returns its result and the time of its end.
    pub fn call_sync_until(&self, caller: &Caller, call: ReadCall) -> (HostResult, Now) {
        let inner = &*self.inner;
        let (opened, required) = inner.open(caller, &call);
        // A reference of its own: the call outlives what was known of it before.
        let span = opened.span.clone();
        let _entered = span.enter();
        let judged = inner.admit(caller, &call, &opened, required).and_then(|(connector, required)| {
            let method = &opened.facts.method;
            Ok(match inner.gate.judge_call(caller, method, &required)? {
                (Judgement::Settled(decision), permit) => {
                    DecidedCall { connector, required, decision, permit, at: opened.now }
                }
                (Judgement::Ask(..), _) => {
                    let (decision, permit) = inner.gate.ask_blocking(caller, &call.head.method, &required)?;
                    DecidedCall { connector, required, decision, permit, at: inner.timer.now() }
                }
            })
        });
        let admitted = inner.begin(caller, &call, &opened, judged);
        let call_id = call.head.call_id.clone();
        let outcome = admitted.and_then(|Admitted { connector, decision, permit }| {
            inner.ledger_first(&decision)?;
            let sync_calls = (!IMMEDIATE.contains(&call.head.method.as_str())).then(|| inner.wait(&caller.profile));
            let cancel = sync_calls.as_ref().map_or(&inner.never, |sync_calls| &sync_calls.cancel);
            let limit = call.head.timeout_ms.filter(|_| call.depends_on_size());
            let _limit = limit.map(|ms| SyncDeadline::start(cancel, ms));
            let request = request(caller, call, decision, permit, cancel.clone())?;
            let outcome = catch_unwind(AssertUnwindSafe(|| connector.call_sync(&request)));
            let output = outcome.unwrap_or_else(|_| Err(panicked(&request.method)))?;
            inner.quotas.check_answer(&output, 0).map(|_| output)
        });
        let ended = inner.timer.now();
        traced::ended(&opened.span, outcome.as_ref().err());
        inner.ledger.call_end(
            ended,
            caller,
            CallEnd {
                call: opened.facts,
                duration_us: ended.elapsed_us.saturating_sub(opened.now.elapsed_us),
                error: outcome.as_ref().err().map(|error| (error.code, reason_of(error))),
            },
        );
        let result = match outcome {
            Ok(output) => HostResult::ok_with_bytes(call_id, output.value, output.bytes),
            Err(error) => HostResult::failed(call_id, error),
        };
        (result, ended)
    }

    /// Returns whether a synchronous call may block for longer than a disk access: on a program, a server, the user, or a timer.
    /// A host with other work gives such a call a thread of its own.
    pub fn may_wait(&self, caller: &Caller, call: &ReadCall) -> bool {
        let method = &call.head.method;
        let is_asked = |parsed: &ParsedCall| {
            let required = parsed.required();
            required.is_ok_and(|required| {
                matches!(self.inner.gate.judge(caller, method, &required), Ok(Judgement::Ask(..)))
            })
        };
        method != "fs" && !IMMEDIATE.contains(&method.as_str())
            || call.depends_on_size()
            || call.parsed.as_ref().is_ok_and(is_asked)
    }

    /// Starts an asynchronous call, and runs it until it would block: a call that needs no prompt is decided and recorded before
    /// this returns, and its connector has started or finished. The end is recorded and answered exactly once, also when the
    /// future is dropped; `results` takes chunks of the answer, and the result if it is not immediate.
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
            // The prompt runs with the future, and the call is recorded after the answer.
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
            progress: Mutex::new(CallState::in_span(opened.span.clone())),
            undelivered: inner.undelivered.of(caller.extension()),
        });
        let ended = |outcome| {
            let (result, held) = in_flight_call.end_immediately(outcome).expect("nobody else knows of it");
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

    /// Cancels a call by its id or its cancel token; ignores unknown ones.
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
            // Ended before it is cancelled: the first end is the recorded one.
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

    /// Registers a synchronous call until the guard is dropped.
    fn wait(&self, profile: &Arc<Profile>) -> SyncCallGuard<'_> {
        let cancel = CancelToken::new();
        let mut sync_calls = self.sync_calls();
        let number = sync_calls.iter().map(|running| running.number + 1).max().unwrap_or_default();
        sync_calls.push(RunningSyncCall { number, profile: Arc::clone(profile), cancel: cancel.clone() });
        SyncCallGuard { inner: self, number, cancel }
    }

    /// Determines time, id and hash of a call, and the capability it needs, before any decision.
    fn open<'a>(&self, caller: &Caller, call: &'a ReadCall) -> (ReceivedCall, Result<Required<'a>, HostcallError>) {
        let now = self.timer.now();
        let ReadCall { head, parsed, params_hash, .. } = call;
        let id = head.call_id.as_str();
        // Truncated to the limit, because the id goes into every line.
        let call_id = if id.len() <= MAX_ID_BYTES {
            head.call_id.clone()
        } else {
            id[..id.floor_char_boundary(MAX_ID_BYTES)].into()
        };
        let served = self.connectors.get_key_value(head.method.as_str());
        let required = parsed.as_ref().map_err(Clone::clone).and_then(|parsed| self.gate.derive(parsed));
        let facts = CallFacts {
            call_id,
            method: served.map_or(&self.unknown, |(name, _)| name).clone(),
            capability: required.as_ref().map_or("unknown", |required| required.capability),
            params_hash: params_hash.clone(),
        };
        let span = traced::call(caller, &facts);
        let connector = served.map(|(_, connector)| Arc::clone(connector));
        (ReceivedCall { now, facts, connector, span }, required)
    }

    /// Checks that a call is well-formed and within its quotas.
    fn admit<'a>(
        &self,
        caller: &Caller,
        call: &ReadCall,
        opened: &ReceivedCall,
        required: Result<Required<'a>, HostcallError>,
    ) -> Result<(Arc<dyn Connector>, Required<'a>), HostcallError> {
        call.size.as_ref().map_err(Clone::clone)?;
        let is_dialog = call.head.method == "ui" && DIALOGS.contains(&call.untyped_op());
        let call = &call.head;
        let id = call.call_id.as_str();
        if id.is_empty() || id.len() > MAX_ID_BYTES || id.chars().any(char::is_control) {
            return Err(HostcallError::invalid("schema", format!("a call id has 1 to {MAX_ID_BYTES} characters")));
        }
        if call.cancel_token.as_ref().is_some_and(|token| token.is_empty() || token.len() > MAX_ID_BYTES) {
            return Err(HostcallError::invalid("schema", format!("a cancel token has 1 to {MAX_ID_BYTES} characters")));
        }
        let required = required?;
        if call.capability.as_str() != required.capability && guard!(GateClaimed) {
            return Err(HostcallError::invalid(
                "capability_mismatch",
                format!(
                    "{}: this call needs the capability `{}`, but names {:?}",
                    call.method,
                    required.capability,
                    crate::prompt::shown(call.capability.as_str(), MAX_ID_BYTES)
                ),
            )
            .with("capability", required.capability));
        }
        let connector = opened.connector.clone().ok_or_else(|| {
            HostcallError::invalid("schema", format!("`{}` is not available in this host", call.method))
                .with("method", call.method.as_str())
        })?;
        if is_dialog {
            self.dialog(caller, opened.now)?;
        }
        Ok((connector, required))
    }

    /// Counts dialogs, so that an extension cannot exhaust the user with them.
    fn dialog(&self, caller: &Caller, now: Now) -> Result<(), HostcallError> {
        if !guard!(QuotaDialogs) {
            return Ok(());
        }
        let mut dialogs = self.dialogs.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = dialogs.entry(caller.extension().clone()).or_default();
        opened.retain(|at| now.elapsed_us.saturating_sub(*at) < DIALOG_PERIOD_US);
        if opened.len() >= self.quotas.dialogs_per_minute {
            return Err(used_up("dialogs_per_minute", self.quotas.dialogs_per_minute));
        }
        opened.push_back(now.elapsed_us);
        Ok(())
    }

    /// Records the decision and the start of the call; turns a refusal into the error for the extension.
    fn begin(
        &self,
        caller: &Caller,
        call: &ReadCall,
        opened: &ReceivedCall,
        judged: Result<DecidedCall<'_>, HostcallError>,
    ) -> Result<Admitted, HostcallError> {
        let ReadCall { head, parsed, .. } = call;
        let decided = judged.as_ref().ok().map(|judged| (judged.at, &judged.required, &judged.decision));
        if let Some((_, _, decision)) = &decided {
            traced::decided(&opened.span, decision);
        }
        let is_refused = decided.is_none_or(|(_, _, decision)| !decision.allowed);
        let derived = opened.facts.capability;
        let is_mismatch = is_refused && derived != "unknown" && derived != head.capability.as_str();
        if is_mismatch {
            self.gate.observe(&caller.profile, Signal::Spoofed);
        }
        let start = CallStart {
            call: opened.facts.clone(),
            claimed: is_mismatch.then(|| crate::prompt::shown(head.capability.as_str(), MAX_ID_BYTES)),
            timeout_ms: head.timeout_ms,
        };
        self.ledger.call_start(opened.now, caller, decided, start);
        let DecidedCall { connector, required, decision, permit, .. } = judged?;
        let content_read = parsed.as_ref().ok().and_then(ParsedCall::content_read);
        self.observe(caller, content_read, &required, &decision);
        if decision.allowed {
            Ok(Admitted { connector, decision, permit })
        } else {
            let refusal = decision.refusal(&head.method, &required.subject);
            self.gate.note_refused(caller, &required, decision.reason, &refusal);
            Err(refusal)
        }
    }

    /// Records the evidence that a decided call gives about its extension.
    fn observe(&self, caller: &Caller, content_read: Option<&str>, required: &Required<'_>, decision: &Decision) {
        if let Some(path) = content_read.filter(|_| decision.allowed) {
            self.gate.note_read(caller.extension(), path);
        }
        if decision.allowed && matches!(required.capability, "exec" | "http") {
            self.gate.note_outside(caller.extension());
        }
        if let (Subject::Code { path, .. }, true) = (&required.subject, decision.allowed) {
            // From now on the file is code of the extension, which others may not change.
            let file = std::fs::canonicalize(path).ok().filter(|file| file.is_file());
            self.gate.add_code(caller.extension(), file);
        }
        if decision.reason == Some(Reason::ProtectedPath) {
            self.gate.observe(&caller.profile, Signal::TriedProtected);
        }
        let is_text_probe = matches!(required.subject, Subject::Code { .. }) && required.is_probe;
        let privileged = !is_text_probe
            && matches!(required.capability, "write" | "exec" | "http" | "eval")
            && required.subject != Subject::Handle;
        if privileged && self.gate.was_unforeseen(&caller.profile, required.capability) {
            self.gate.observe(&caller.profile, Signal::Unforeseen);
        }
    }

    /// Writes a call with external effects to the ledger's sink before it begins; in strict mode, a ledger failure refuses the
    /// call.
    fn ledger_first(&self, decision: &Decision) -> Result<(), HostcallError> {
        if FREE.contains(&decision.capability) || matches!(decision.capability, "read" | "env") {
            return Ok(());
        }
        match self.ledger.flush() {
            Err(error) if self.gate.policy().mode == Mode::Strict && guard!(LedgerFirst) => Err(unrecorded(&error)),
            _ => Ok(()),
        }
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

    /// Starts the connector.
    fn start_connector(
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

    async fn run(&self, in_flight_call: &Arc<InFlightCall>, begun: CallProgress) -> Result<Output, HostcallError> {
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
        // Work that continues on another thread learns that its result is not needed.
        in_flight_call.cancel.cancel();
        outcome
    }
}

/// Facts about a call before its decision.
struct ReceivedCall {
    now: Now,
    facts: CallFacts,
    /// The connector of the method.
    connector: Option<Arc<dyn Connector>>,
    span: tracing::Span,
}

/// A call that the gate, or the user, has decided.
struct DecidedCall<'a> {
    connector: Arc<dyn Connector>,
    required: Required<'a>,
    decision: Decision,
    permit: Permit,
    /// Time of the decision.
    at: Now,
}

/// The progress of a call that has to wait.
enum CallProgress {
    /// The user has to be prompted.
    Prompt(Box<AwaitingPrompt>),
    /// The extension has to take earlier results first.
    AwaitRealm(Box<(ReadCall, Admitted)>),
    Running(RunningCall),
}

/// A call that waits for a prompt.
struct AwaitingPrompt {
    connector: Arc<dyn Connector>,
    call: ReadCall,
    opened: ReceivedCall,
}

/// Cancels a synchronous call at its deadline, unless it is dropped before.
struct SyncDeadline {
    _ends: std::sync::mpsc::Sender<()>,
}

impl SyncDeadline {
    #[expect(clippy::disallowed_methods, reason = "a synchronous call blocks its own thread and cannot time itself")]
    fn start(cancel: &CancelToken, ms: u64) -> Self {
        let (ends, ended) = std::sync::mpsc::channel();
        let cancel = cancel.clone();
        std::thread::spawn(move || {
            if ended.recv_timeout(Duration::from_millis(ms)) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                cancel.cancel();
            }
        });
        Self { _ends: ends }
    }
}

fn request(
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

#[cfg(test)]
#[path = "dispatch_tests.rs"]
mod tests;
