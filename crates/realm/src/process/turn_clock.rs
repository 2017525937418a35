//! Tracks the deadline of one turn, and the request to end it.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

/// A request to end the running turn, which any thread can make.
#[derive(Debug, Clone)]
pub(super) struct StopRequest(Arc<AtomicU8>);

const IDLE: u8 = 0;
const RUNNING: u8 = 1;
const STOPPED: u8 = 2;

impl StopRequest {
    pub(super) fn new() -> Self {
        Self(Arc::new(AtomicU8::new(IDLE)))
    }

    /// Allows stop requests from now on, at the start of a turn.
    pub(super) fn arm(&self) {
        self.0.store(RUNNING, Ordering::Relaxed);
    }

    pub(super) fn disarm(&self) {
        self.0.store(IDLE, Ordering::Relaxed);
    }

    pub(super) fn request(&self) {
        // Only a running turn can be stopped: a late watchdog must not stop the next one.
        let _ = self.0.compare_exchange(RUNNING, STOPPED, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn is_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed) == STOPPED
    }
}

/// The deadline of one turn.
#[derive(Debug, Clone, Copy)]
pub(super) struct TurnClock {
    /// Deadline; extended by the time that the host takes for its replies.
    deadline: Instant,
    /// Time at which the worker is killed, after the deadline; `None` before the deadline has passed.
    kill: Option<Instant>,
    /// Start of the pending hostcall; `None` if there is none.
    pending_call: Option<Instant>,
}

impl TurnClock {
    pub(super) fn new(patience: Duration) -> Self {
        Self { deadline: Instant::now() + patience, kill: None, pending_call: None }
    }

    /// Pauses the clock during a hostcall.
    pub(super) fn pause(&mut self) {
        self.pending_call = Some(Instant::now());
    }

    /// Resumes the clock after a reply. Returns `false` if no hostcall was pending.
    pub(super) fn resume_clock(&mut self) -> bool {
        let Some(since) = self.pending_call.take() else { return false };
        self.deadline += since.elapsed();
        true
    }

    /// Returns whether the host still has to answer a hostcall.
    pub(super) fn is_call_pending(&self) -> bool {
        self.pending_call.is_some()
    }

    /// Checks the clock. Returns `Break` if the worker has to be killed.
    pub(super) fn check(&mut self, stop: &StopRequest, grace: Duration) -> ControlFlow<()> {
        let now = Instant::now();
        let late = self.pending_call.is_none() && now >= self.deadline && pijs_protocol::guard!(RealmDeadline);
        if self.kill.is_none() && (late || stop.is_requested()) {
            self.kill = Some(now + grace);
        }
        match self.kill {
            Some(kill) if now >= kill => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }

    /// Returns the time at which the clock has to be checked again; `None` while the turn waits for a reply.
    pub(super) fn next_check(&self) -> Option<Instant> {
        match (self.kill, self.pending_call) {
            (Some(kill), _) => Some(kill),
            (None, Some(_)) => None,
            (None, None) => Some(self.deadline),
        }
    }
}
