//! The state of the run: the working indicator, the delay before a retry, and shell commands of the user.

use crate::clip::{LONGEST_LINE, clipped};
use serde_json::Value;
use std::time::{Duration, Instant};

/// Maximum number of frames of a working indicator.
const MAX_FRAMES: usize = 100;

/// The working indicator.
#[derive(Debug, Clone)]
pub(crate) struct WorkingIndicator {
    pub(crate) message: Option<String>,
    pub(crate) is_visible: bool,
    frames: Vec<String>,
    interval: Duration,
}

impl Default for WorkingIndicator {
    fn default() -> Self {
        let frames = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"].map(str::to_owned).to_vec();
        Self { message: None, is_visible: true, frames, interval: Duration::from_millis(80) }
    }
}

impl WorkingIndicator {
    /// Applies `setWorkingIndicator`; missing options are reset.
    pub(crate) fn take_options(&mut self, options: &Value) {
        let standard = Self::default();
        let frames = options["frames"].as_array().map(|frames| {
            let frame = |frame: &Value| clipped(frame.as_str().unwrap_or_default(), LONGEST_LINE).to_owned();
            frames.iter().take(MAX_FRAMES).map(frame).collect()
        });
        self.frames = frames.unwrap_or(standard.frames);
        let interval = options["intervalMs"].as_u64().map(|ms| Duration::from_millis(ms.clamp(16, 60_000)));
        self.interval = interval.unwrap_or(standard.interval);
    }

    /// Returns the line of a run of this age.
    fn line(&self, age: Duration) -> String {
        let turn = age.as_millis() / self.interval.as_millis().max(1);
        let frame = match self.frames.len() {
            0 => "",
            count => &self.frames[usize::try_from(turn % count as u128).unwrap_or(0)],
        };
        let message = self.message.as_deref().unwrap_or("Working... (escape to interrupt)");
        pijs_terminal::line(&format!("{frame} {message}"))
    }
}

/// A delay before a retry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Retrying {
    /// Number of the retry, from 1.
    pub(crate) attempt: u32,
    pub(crate) max_attempts: u32,
    pub(crate) until: Instant,
}

impl Retrying {
    /// Returns the countdown line, in pi's format.
    fn line(&self, now: Instant) -> String {
        let Self { attempt, max_attempts, until } = self;
        let left = until.saturating_duration_since(now).as_millis().div_ceil(1000);
        format!("Retrying ({attempt}/{max_attempts}) in {left}s... (escape to cancel)")
    }
}

/// Everything that Escape aborts.
#[derive(Debug, Default)]
pub(crate) struct RunStatus {
    /// Start of the current run.
    started: Option<Instant>,
    /// Delay before a retry.
    pub(crate) retrying: Option<Retrying>,
    /// Running shell commands of the user.
    shells: usize,
    pub(crate) working: WorkingIndicator,
    /// Slow work of the program, such as loading an extension.
    pub(crate) progress: Option<String>,
}

impl RunStatus {
    /// Begins a run, or continues one after a delay.
    pub(crate) fn begin(&mut self) {
        self.retrying = None;
        self.started = Some(self.started.unwrap_or_else(Instant::now));
    }

    /// Ends the run.
    pub(crate) fn end(&mut self) {
        self.started = None;
    }

    pub(crate) fn begin_shell(&mut self) {
        self.shells += 1;
    }

    pub(crate) fn end_shell(&mut self) {
        self.shells = self.shells.saturating_sub(1);
    }

    /// Returns whether Escape has something to abort.
    pub(crate) fn is_busy(&self) -> bool {
        self.started.is_some() || self.retrying.is_some() || self.shells > 0
    }

    /// Returns the line of a retry, of slow work, or of the working indicator.
    pub(crate) fn line(&self, now: Instant) -> Option<String> {
        match (&self.retrying, self.started.filter(|_| self.working.is_visible)) {
            (Some(retrying), _) => Some(retrying.line(now)),
            (None, _) if self.progress.is_some() => self.progress.clone(),
            (None, Some(since)) => Some(self.working.line(now.duration_since(since))),
            (None, None) => None,
        }
    }

    /// Returns the time until the spinner changes.
    pub(crate) fn next_frame(&self) -> Option<Duration> {
        let spins = self.started.is_some() && self.working.is_visible && self.working.frames.len() > 1;
        spins.then_some(self.working.interval)
    }
}
