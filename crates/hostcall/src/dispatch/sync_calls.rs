//! Synchronous calls, which block the realm.

use super::admission::{Admitted, DecidedCall};
use super::running::request;
use super::{Dispatcher, DispatcherInner, ReadCall};
use crate::caller::{Caller, Profile};
use crate::derive::ParsedCall;
use crate::gate::Judgement;
use crate::ledger::CallEnd;
use crate::output::{panicked, reason_of};
use crate::task::CancelToken;
use crate::traced;
use pijs_protocol::{HostCall, HostResult, Now};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// Methods whose synchronous form neither blocks nor computes for long, so that cancelling it is not needed. UI output is
/// immediate; a dialog's answer arrives through another call.
const IMMEDIATE: [&str; 6] = ["session", "env", "log", "events", "tools", "ui"];

/// A running synchronous call.
pub(super) struct RunningSyncCall {
    number: u64,
    pub(super) profile: Arc<Profile>,
    pub(super) cancel: CancelToken,
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

impl Dispatcher {
    /// Runs a synchronous call.
    pub fn call_sync(&self, caller: &Caller, call: HostCall) -> HostResult {
        self.call_sync_until(caller, self.read(call)).0
    }

    /// Runs a synchronous call; returns its result and the time of its end.
    pub fn call_sync_until(&self, caller: &Caller, call: ReadCall) -> (HostResult, Now) {
        let inner = &*self.inner;
        let (opened, required) = inner.open(caller, &call);
        // Cloned, because the span outlives `opened`.
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
    /// A host with other work runs such a call on a thread of its own.
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
            || (self.inner.gate.has_person() && call.parsed.as_ref().is_ok_and(is_asked))
    }
}

impl DispatcherInner {
    /// Registers a synchronous call until the guard is dropped.
    fn wait(&self, profile: &Arc<Profile>) -> SyncCallGuard<'_> {
        let cancel = CancelToken::new();
        let mut sync_calls = self.sync_calls();
        let number = sync_calls.iter().map(|running| running.number + 1).max().unwrap_or_default();
        sync_calls.push(RunningSyncCall { number, profile: Arc::clone(profile), cancel: cancel.clone() });
        SyncCallGuard { inner: self, number, cancel }
    }
}

/// Cancels a synchronous call at its deadline, unless this value is dropped earlier.
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
