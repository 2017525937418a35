//! The deadline of one turn, and the request to end it.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

/// A request to end the running turn, from any thread.
#[derive(Debug, Clone)]
pub(super) struct Stop(Arc<AtomicU8>);

const IDLE: u8 = 0;
const RUNNING: u8 = 1;
const STOPPED: u8 = 2;

impl Stop {
    pub(super) fn new() -> Self {
        Self(Arc::new(AtomicU8::new(IDLE)))
    }

    /// Allows a stop from here on, at the start of a turn.
    pub(super) fn arm(&self) {
        self.0.store(RUNNING, Ordering::Relaxed);
    }

    pub(super) fn disarm(&self) {
        self.0.store(IDLE, Ordering::Relaxed);
    }

    pub(super) fn request(&self) {
        // Only a running turn can be stopped: a late watchdog must not end the next one.
        let _ = self.0.compare_exchange(RUNNING, STOPPED, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn is_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed) == STOPPED
    }
}

/// The deadline of one turn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    /// Deadline; extended by the time that the host takes for its replies.
    deadline: Instant,
    /// Time of the kill, after the deadline.
    kill: Option<Instant>,
    /// Start of a pending hostcall.
    owing: Option<Instant>,
}

impl Turn {
    pub(super) fn new(patience: Duration) -> Self {
        Self { deadline: Instant::now() + patience, kill: None, owing: None }
    }

    /// Pauses the clock during a hostcall.
    pub(super) fn ask(&mut self) {
        self.owing = Some(Instant::now());
    }

    /// Resumes the clock after a reply; returns `false` without a pending hostcall.
    pub(super) fn answered(&mut self) -> bool {
        let Some(since) = self.owing.take() else { return false };
        self.deadline += since.elapsed();
        true
    }

    /// Returns whether the host owes the worker a reply.
    pub(super) fn is_owing(&self) -> bool {
        self.owing.is_some()
    }

    /// Checks the clock; `Break` when the worker has to be killed.
    pub(super) fn look(&mut self, stop: &Stop, grace: Duration) -> ControlFlow<()> {
        let now = Instant::now();
        let late = self.owing.is_none() && now >= self.deadline && pijs_protocol::guard!(RealmDeadline);
        if self.kill.is_none() && (late || stop.is_requested()) {
            self.kill = Some(now + grace);
        }
        match self.kill {
            Some(kill) if now >= kill => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }

    /// Returns the latest time of the next check; `None` while the turn waits for a reply.
    pub(super) fn next_look(&self) -> Option<Instant> {
        match (self.kill, self.owing) {
            (Some(kill), _) => Some(kill),
            (None, Some(_)) => None,
            (None, None) => Some(self.deadline),
        }
    }
}
