//! One turn of one realm: the glue between its loop and its engine.
//!
//! [`Turn`] is the loop's guest. It builds the delivery for a macrotask and lets the realm begin with it. In a
//! thread the turn is over then; in a process it may go on by itself, and [`Host::tick`](crate::Host) resumes it when its
//! [`Bell`] has rung. Synchronous hostcalls in between are answered through the [`SyncDoor`], which knows the
//! dispatcher and nothing of the host: a turn cannot reach another realm.

use crate::attend::Bell;
use crate::extension::Arrival;
use crate::state::ReadableState;
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
pub(crate) struct SyncDoor<'a> {
    pub(crate) caller: &'a Caller,
    /// Tells realms of one extension apart.
    pub(crate) epoch: u32,
    pub(crate) dispatcher: &'a Dispatcher,
    pub(crate) timer: &'a dyn Timer,
    pub(crate) state: &'a ReadableState,
    /// Version of the state that the realm has; moves with what replies carry.
    pub(crate) seen_state: &'a mut u64,
    /// Inside a verdict: when the patience ends, and how to end the turn then.
    pub(crate) patience: Option<(u64, Arc<dyn Fn() + Send + Sync>)>,
    /// Brings answers that take their time; without it every call is answered before anything else happens.
    pub(crate) bell: Option<&'a Arc<Bell>>,
}

impl SyncDoor<'_> {
    /// A late answer as the realm gets it: with the time and what has changed.
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

impl SyncHost for SyncDoor<'_> {
    fn call(&mut self, mut call: HostCall) -> SyncReply {
        if let Some((until_us, _)) = &self.patience {
            let left_ms = until_us.saturating_sub(self.timer.now().elapsed_us).div_ceil(1000).max(1);
            call.timeout_ms = Some(call.timeout_ms.map_or(left_ms, |asked| asked.min(left_ms)));
        }
        self.answer(self.dispatcher.read(call))
    }

    fn begin(&mut self, call: HostCall) -> Option<SyncReply> {
        let Some(bell) = self.bell.filter(|_| self.patience.is_none()) else { return Some(self.call(call)) };
        let call = self.dispatcher.read(call);
        if !self.dispatcher.may_wait(self.caller, &call) {
            return Some(self.answer(call));
        }
        bell.ask(self.dispatcher, self.caller, call).err().map(|call| self.answer(*call))
    }
}

impl SyncDoor<'_> {
    fn answer(&mut self, call: ReadCall) -> SyncReply {
        let asked = call.call_id().clone();
        let call = call.with_id(crate::reload::call_id(self.epoch, asked.clone()));
        let (result, ended) = self.dispatcher.call_sync_until(self.caller, call);
        let reply = self.reply_at(ended, HostResult { call_id: asked, ..result });
        if let Some((until_us, stop)) = &self.patience
            && reply.now.elapsed_us >= *until_us
        {
            // Fuel does not see time spent out here.
            stop();
        }
        reply
    }
}

/// Result of a turn.
pub(crate) struct TurnOutput {
    /// `None`: it goes on by itself.
    pub(crate) result: Option<Result<Yield, Termination>>,
    /// Whether it is the delta's turn; its answer is in the yield.
    pub(crate) was_delta: bool,
    /// Number of deltas after it that passed, too.
    pub(crate) passed: usize,
    /// The turn of the delta after those is under way.
    pub(crate) goes_on: bool,
    /// Traces the turn, until it is over.
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

    /// The realm's answer to the delta, if this was the delta's turn.
    pub(crate) fn answer(&mut self) -> Option<StreamAnswer> {
        match (&mut self.result, self.was_delta) {
            (Some(Ok(done)), true) => Some(std::mem::take(&mut done.stream)),
            _ => None,
        }
    }
}

/// Runs macrotasks in a realm.
pub(crate) struct Turn<'a> {
    pub(crate) realm: &'a mut dyn Realm,
    pub(crate) door: SyncDoor<'a>,
    /// The delta that `Host::stream` is asking about, and those that it will ask about next.
    pub(crate) deltas: &'a [StreamDelta],
    /// Longest time from the first to the begin of the last of them.
    pub(crate) slice: Duration,
}

impl Guest<Arrival> for Turn<'_> {
    type Output = TurnOutput;

    fn turn(&mut self, seq: Seq, now: Now, task: Macrotask<Arrival>) -> TurnOutput {
        let span = tracing::debug_span!(
            "tick",
            extension_id = self.door.caller.extension().as_str(),
            event_id = self.door.caller.event_id.as_deref(),
            tool_call_id = self.door.caller.tool_call_id.as_deref(),
            seq = seq.0,
            task = name(&task),
        );
        let output = span.in_scope(|| self.run(seq, now, task));
        TurnOutput { span, ..output }
    }
}

impl Turn<'_> {
    fn run(&mut self, seq: Seq, now: Now, task: Macrotask<Arrival>) -> TurnOutput {
        let (task, was_delta) = match task {
            Macrotask::Arrival(
                Arrival::Message(message) | Arrival::Result { message, .. } | Arrival::Emission { message, .. },
            ) => (Task::Message(message), false),
            Macrotask::Timer(timer) => (Task::Message(Box::new(Message::TimerFired { timer })), false),
            Macrotask::Arrival(Arrival::Delta) => {
                let delta = self.deltas.first().expect("a delta is only queued while `stream` runs its loop");
                if self.door.state.version() == *self.door.seen_state {
                    // Nothing to tell the realm first, so the delta crosses without being copied.
                    return TurnOutput::streamed(match self.deltas {
                        [delta] => self.realm.stream(seq, now, delta, &mut self.door).map(Streamed::from),
                        deltas => self.realm.stream_ahead(seq, now, deltas, self.slice, &mut self.door),
                    });
                }
                (Task::Stream(delta.clone()), true)
            }
        };
        let state = self.door.state.since(*self.door.seen_state);
        if let Some(delta) = &state {
            *self.door.seen_state = delta.version;
        }
        TurnOutput::new(self.realm.start(Delivery { seq, now, task, state }, &mut self.door), was_delta)
    }
}

/// Names what a macrotask brings to a realm.
fn name(task: &Macrotask<Arrival>) -> &'static str {
    match task {
        Macrotask::Arrival(arrival) => arrival_name(arrival),
        Macrotask::Timer(_) => "timer",
    }
}

/// Names what arrives at a realm.
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
