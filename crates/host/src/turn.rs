//! Runs one turn of one realm: connects its loop and its engine.
//!
//! [`RealmTurn`] is the loop's guest. It builds the delivery for a macrotask and starts it in the realm. In a thread the turn is
//! then over; in a process it may continue, and [`Host::tick`](crate::Host) resumes it once its [`RealmWaker`] was woken.
//! Synchronous hostcalls are answered through [`SyncHostcalls`], which can access the dispatcher but not the host, so a turn
//! cannot reach another realm.

use crate::extension::{Arrival, call_id};
use crate::state::ReadableState;
use crate::wakeup::RealmWaker;
use pijs_environment::Timer;
use pijs_hostcall::{Caller, Dispatcher, ReadCall};
use pijs_protocol::message::Message;
use pijs_protocol::wire::{StreamAnswer, Task};
use pijs_protocol::{Delivery, HostCall, HostResult, Now, Seq, StreamDelta, SyncReply, Termination, Yield};
use pijs_realm::{Progress, Realm, Streamed, SyncHost};
use pijs_tick::{Guest, Macrotask};
use std::sync::Arc;
use std::time::Duration;

/// Answers synchronous hostcalls.
pub(crate) struct SyncHostcalls<'a> {
    pub(crate) caller: &'a Caller,
    /// Number of the reload, which distinguishes concurrent realms of one extension.
    pub(crate) epoch: u32,
    pub(crate) dispatcher: &'a Dispatcher,
    pub(crate) timer: &'a dyn Timer,
    pub(crate) state: &'a ReadableState,
    /// Version of the realm's copy of the readable state; each reply updates it.
    pub(crate) seen_state: &'a mut u64,
    /// Deadline of a verdict in microseconds, and the function that stops the turn; `None` outside of verdicts.
    pub(crate) deadline: Option<(u64, Arc<dyn Fn() + Send + Sync>)>,
    /// Delivers slow answers; `None` if every call is answered synchronously.
    pub(crate) waker: Option<&'a Arc<RealmWaker>>,
}

impl SyncHostcalls<'_> {
    /// Adds the time and the changes of the state to a late answer.
    pub(crate) fn reply(&mut self, result: HostResult) -> SyncReply {
        self.reply_at(self.timer.now(), result)
    }

    fn reply_at(&mut self, now: Now, result: HostResult) -> SyncReply {
        let state = self.state.since(*self.seen_state);
        if let Some(delta) = &state {
            *self.seen_state = delta.version;
        }
        SyncReply { result, now, state }
    }
}

impl SyncHost for SyncHostcalls<'_> {
    fn call(&mut self, mut call: HostCall) -> SyncReply {
        if let Some((until_us, _)) = &self.deadline {
            let left_ms = until_us.saturating_sub(self.timer.now().elapsed_us).div_ceil(1000).max(1);
            call.timeout_ms = Some(call.timeout_ms.map_or(left_ms, |asked| asked.min(left_ms)));
        }
        self.answer(self.dispatcher.read(call))
    }

    fn begin(&mut self, call: HostCall) -> Option<SyncReply> {
        let Some(waker) = self.waker.filter(|_| self.deadline.is_none()) else { return Some(self.call(call)) };
        let call = self.dispatcher.read(call);
        if !self.dispatcher.may_wait(self.caller, &call) {
            return Some(self.answer(call));
        }
        waker.ask(self.dispatcher, self.caller, call).err().map(|call| self.answer(*call))
    }
}

impl SyncHostcalls<'_> {
    fn answer(&mut self, call: ReadCall) -> SyncReply {
        let asked = call.call_id().clone();
        let call = call.with_id(call_id(self.epoch, asked.clone()));
        let (result, ended) = self.dispatcher.call_sync_until(self.caller, call);
        let reply = self.reply_at(ended, HostResult { call_id: asked, ..result });
        if let Some((until_us, stop)) = &self.deadline
            && reply.now.elapsed_us >= *until_us
        {
            // Fuel does not count time outside the interpreter.
            stop();
        }
        reply
    }
}

/// Result of a turn.
pub(crate) struct TurnOutput {
    /// Result of the turn; `None` while it is running.
    pub(crate) result: Option<Result<Yield, Termination>>,
    /// Whether this is the turn of the delta; the answer is then in the yield.
    pub(crate) was_delta: bool,
    /// Number of further deltas that passed.
    pub(crate) passed: usize,
    /// Whether the turn of the next delta is running.
    pub(crate) goes_on: bool,
    /// Tracing span of the turn.
    pub(crate) span: tracing::Span,
}

impl TurnOutput {
    pub(crate) fn new(progress: Progress, was_delta: bool) -> Self {
        let result = match progress {
            Progress::Yielded(done) => Some(Ok(done)),
            Progress::Ended(reason) => Some(Err(reason)),
            Progress::Running => None,
        };
        Self { result, was_delta, passed: 0, goes_on: false, span: tracing::Span::none() }
    }

    fn streamed(streamed: Result<Streamed, Termination>) -> Self {
        let (passed, goes_on) = streamed.as_ref().map_or((0, false), |streamed| (streamed.passed, streamed.goes_on));
        let result = Some(streamed.map(|streamed| streamed.done));
        Self { result, was_delta: true, passed, goes_on, span: tracing::Span::none() }
    }

    /// Returns the realm's answer to the delta, if this was the delta's turn.
    pub(crate) fn answer(&mut self) -> Option<StreamAnswer> {
        match (&mut self.result, self.was_delta) {
            (Some(Ok(done)), true) => Some(std::mem::take(&mut done.stream)),
            _ => None,
        }
    }
}

/// Runs macrotasks in a realm.
pub(crate) struct RealmTurn<'a> {
    pub(crate) realm: &'a mut dyn Realm,
    pub(crate) hostcalls: SyncHostcalls<'a>,
    /// The delta that `Host::stream` asks about, followed by deltas to run ahead.
    pub(crate) deltas: &'a [StreamDelta],
    /// Maximum time from the start of the first delta's turn to the start of the last one's.
    pub(crate) slice: Duration,
}

impl Guest<Arrival> for RealmTurn<'_> {
    type Output = TurnOutput;

    fn turn(&mut self, seq: Seq, now: Now, task: Macrotask<Arrival>) -> TurnOutput {
        let span = tracing::debug_span!(
            "tick",
            extension_id = self.hostcalls.caller.extension().as_str(),
            event_id = self.hostcalls.caller.event_id.as_deref(),
            tool_call_id = self.hostcalls.caller.tool_call_id.as_deref(),
            seq = seq.0,
            task = name(&task),
        );
        let output = span.in_scope(|| self.run(seq, now, task));
        TurnOutput { span, ..output }
    }
}

impl RealmTurn<'_> {
    fn run(&mut self, seq: Seq, now: Now, task: Macrotask<Arrival>) -> TurnOutput {
        let (task, was_delta) = match task {
            Macrotask::Arrival(
                Arrival::Message(message) | Arrival::Result { message, .. } | Arrival::Emission { message, .. },
            ) => (Task::Message(message), false),
            Macrotask::Timer(timer) => (Task::Message(Box::new(Message::TimerFired { timer })), false),
            Macrotask::Arrival(Arrival::Delta) => {
                let delta = self.deltas.first().expect("deltas are queued only while `stream` runs");
                if self.hostcalls.state.version() == *self.hostcalls.seen_state {
                    // No message precedes the delta in the queue, so it is delivered without a copy.
                    return TurnOutput::streamed(match self.deltas {
                        [delta] => self.realm.stream(seq, now, delta, &mut self.hostcalls).map(Streamed::from),
                        deltas => self.realm.stream_ahead(seq, now, deltas, self.slice, &mut self.hostcalls),
                    });
                }
                (Task::Stream(delta.clone()), true)
            }
        };
        let state = self.hostcalls.state.since(*self.hostcalls.seen_state);
        if let Some(delta) = &state {
            *self.hostcalls.seen_state = delta.version;
        }
        TurnOutput::new(self.realm.start(Delivery { seq, now, task, state }, &mut self.hostcalls), was_delta)
    }
}

/// Returns the name of a macrotask.
fn name(task: &Macrotask<Arrival>) -> &'static str {
    match task {
        Macrotask::Arrival(arrival) => arrival_name(arrival),
        Macrotask::Timer(_) => "timer",
    }
}

/// Returns the name of an arrival.
pub(crate) fn arrival_name(arrival: &Arrival) -> &'static str {
    match arrival {
        Arrival::Message(message) => match **message {
            Message::Load(_) => "load",
            Message::ToolCall(_) => "tool_call",
            Message::SlashCommand(_) => "slash_command",
            Message::EventHook(_) => "event_hook",
            Message::Callback(_) => "callback",
            Message::SignalAborted { .. } => "signal_aborted",
            Message::HandlerMuted { .. } => "handler_muted",
            Message::BusEvent(_) => "bus_event",
            Message::Retired {} => "retired",
            _ => "message",
        },
        Arrival::Result { .. } => "host_result",
        Arrival::Emission { .. } => "bus_event",
        Arrival::Delta => "delta",
    }
}
