//! One turn of one realm: the glue between its loop and its engine.
//!
//! [`Turn`] is the loop's guest. It builds the delivery for a macrotask, lets the realm run it to its
//! end, and answers synchronous hostcalls in between through the [`SyncDoor`], which knows the
//! dispatcher and nothing of the host: a turn cannot reach another realm.

use crate::extension::Arrival;
use crate::state::ReadableState;
use pijs_hostcall::{Caller, Dispatcher, Timer};
use pijs_protocol::message::Message;
use pijs_protocol::wire::{StreamAnswer, Task};
use pijs_protocol::{Delivery, HostCall, Now, Seq, StreamDelta, SyncReply, Termination, Yield};
use pijs_realm::{Patience, Progress, Realm, SyncHost};
use pijs_tick::{Guest, Macrotask};
use std::sync::Arc;
use std::time::Duration;

/// How long one wait for a process realm lasts before it is asked again.
const PATIENCE: Patience = Patience::AtMost(Duration::from_millis(50));

/// Answers synchronous hostcalls.
pub(crate) struct SyncDoor<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) dispatcher: &'a Dispatcher,
    pub(crate) timer: &'a dyn Timer,
    pub(crate) state: &'a ReadableState,
    /// Version of the state that the realm has; moves with what replies carry.
    pub(crate) seen_state: &'a mut u64,
    /// Inside a verdict: when the patience ends, and how to end the turn then.
    pub(crate) patience: Option<(u64, Arc<dyn Fn() + Send + Sync>)>,
}

impl SyncHost for SyncDoor<'_> {
    fn call(&mut self, mut call: HostCall) -> SyncReply {
        if let Some((until_us, _)) = &self.patience {
            let left_ms = until_us.saturating_sub(self.timer.now().elapsed_us).div_ceil(1000).max(1);
            call.timeout_ms = Some(call.timeout_ms.map_or(left_ms, |asked| asked.min(left_ms)));
        }
        let result = self.dispatcher.call_sync(self.caller, call);
        let now = self.timer.now();
        if let Some((until_us, stop)) = &self.patience
            && now.elapsed_us >= *until_us
        {
            // Fuel does not see time spent out here.
            stop();
        }
        let state = self.state.since(*self.seen_state);
        if let Some(delta) = &state {
            *self.seen_state = delta.version;
        }
        SyncReply { result, now, state }
    }
}

/// What a turn came to.
pub(crate) struct TurnOutput {
    pub(crate) result: Result<Yield, Termination>,
    /// Whether it was the delta's turn; its answer is in the yield.
    pub(crate) was_delta: bool,
}

impl TurnOutput {
    /// The realm's answer to the delta, if this was the delta's turn.
    pub(crate) fn answer(&mut self) -> Option<StreamAnswer> {
        match (&mut self.result, self.was_delta) {
            (Ok(done), true) => Some(std::mem::take(&mut done.stream)),
            _ => None,
        }
    }
}

/// Runs macrotasks in a realm.
pub(crate) struct Turn<'a> {
    pub(crate) realm: &'a mut dyn Realm,
    pub(crate) door: SyncDoor<'a>,
    /// The delta that `Host::stream` is asking about.
    pub(crate) delta: Option<&'a StreamDelta>,
}

impl Guest<Arrival> for Turn<'_> {
    type Output = TurnOutput;

    fn turn(&mut self, seq: Seq, now: Now, task: Macrotask<Arrival>) -> TurnOutput {
        let (task, was_delta) = match task {
            Macrotask::Arrival(Arrival::Message(message)) => (Task::Message(*message), false),
            Macrotask::Timer(timer) => (Task::Message(Message::TimerFired { timer }), false),
            Macrotask::Arrival(Arrival::Delta) => {
                let delta = self.delta.expect("a delta is only queued while `stream` runs its loop");
                if self.door.state.version() == *self.door.seen_state {
                    // Nothing to tell the realm first, so the delta crosses without being copied.
                    let result = self.realm.stream(seq, now, delta, &mut self.door);
                    return TurnOutput { result, was_delta: true };
                }
                (Task::Stream(delta.clone()), true)
            }
        };
        let state = self.door.state.since(*self.door.seen_state);
        if let Some(delta) = &state {
            *self.door.seen_state = delta.version;
        }
        let mut progress = self.realm.start(Delivery { seq, now, task, state }, &mut self.door);
        // A process realm ends by itself: its watchdog kills it when it does not answer.
        let result = loop {
            match progress {
                Progress::Yielded(done) => break Ok(done),
                Progress::Ended(reason) => break Err(reason),
                Progress::Running => progress = self.realm.resume(&mut self.door, PATIENCE),
            }
        };
        TurnOutput { result, was_delta }
    }
}
