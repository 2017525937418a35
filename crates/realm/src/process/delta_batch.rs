//! Decides how many deltas to send in a frame, and tracks the frame that the worker has not answered.

use crate::frame::Passed;
use pijs_protocol::Yield;
use pijs_protocol::wire::StreamAnswer;

/// Maximum number of deltas in one frame: the delay of a wake-up, divided by this number, is negligible.
const MAX_DELTAS_PER_FRAME: usize = 256;

/// The deltas that are sent together.
#[derive(Debug)]
pub(super) struct DeltaBatch {
    /// Number of deltas per frame. It grows while deltas pass, so that few are repeated for a handler that often has an effect.
    most: usize,
    /// Number of deltas in the unanswered frame.
    sent: Option<usize>,
    /// Report on the latest deltas that passed.
    passed: Option<Passed>,
    /// Whether the worker made a hostcall in the latest turn.
    has_called: bool,
}

impl DeltaBatch {
    pub(super) fn new() -> Self {
        Self { most: 1, sent: None, passed: None, has_called: false }
    }

    /// Returns the number of deltas for the next frame.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    pub(super) fn begin_turn(&mut self) {
        self.has_called = false;
    }

    /// Begins a frame of `count` deltas.
    pub(super) fn begin(&mut self, count: usize) {
        self.sent = Some(count);
    }

    /// Records a hostcall. After it the worker cannot report several deltas at once.
    pub(super) fn note_call(&mut self) {
        (self.sent, self.has_called) = (None, true);
    }

    /// Returns whether a report is plausible: whether that many of the sent deltas can have passed.
    pub(super) fn accepts(&self, passed: Passed) -> bool {
        self.sent.is_some_and(|sent| (1..=sent - usize::from(passed.goes_on)).contains(&passed.count))
    }

    pub(super) fn take_report(&mut self, passed: Passed) {
        self.passed = Some(passed);
    }

    /// Ends the frame. Returns the report on its deltas, unless the first one had an effect.
    pub(super) fn end(&mut self) -> Option<Passed> {
        self.sent = None;
        self.passed.take()
    }

    /// Adapts the number of deltas per frame to the outcome of a turn.
    pub(super) fn adapt(&mut self, done: &Yield) {
        let is_silent = done.messages.is_empty() && done.stream == StreamAnswer::Continue && !self.has_called;
        self.most = if is_silent { (self.most * 4).min(MAX_DELTAS_PER_FRAME) } else { 1 };
    }

    /// Limits the following frames to one delta.
    pub(super) fn shrink(&mut self) {
        self.most = 1;
    }
}
