//! How workers are started, and why there is none.

use super::shelf::Shelf;
use pijs_protocol::message::{Message, START_EVENTS};
use pijs_protocol::wire::Task;
use pijs_protocol::{Termination, guard};
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The program that is running, also when its file has been replaced meanwhile.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// How worker processes are started and how long they may take.
#[derive(Debug, Clone)]
pub struct ProcessOptions {
    /// The program whose `main` calls [`worker::enter`](crate::worker::enter); the running one unless told otherwise.
    pub program: PathBuf,
    /// The variable `TZ` for the worker: local time inside the realm. Without it the machine's zone.
    pub time_zone: Option<OsString>,
    /// Where the modules lie that several workers need, those that are given this shelf; without it each gets a copy.
    pub shelf: Option<Arc<Shelf>>,
    /// Longest wait for the first word of a new worker.
    pub hello: Duration,
    /// How long [`Realm::start`](crate::Realm::start) waits before it answers
    /// [`Progress::Running`](crate::Progress::Running): short turns end at once, and long ones hold nobody up.
    pub first: Duration,
    /// Longest turn, time in hostcalls not counted.
    pub turn: Duration,
    /// The same for turns that a session waits for when it starts: loading an entry, and [`START_EVENTS`]. Never longer
    /// than [`ProcessOptions::turn`].
    pub start: Duration,
    /// Longest answer to a streamed delta; the host's own patience with verdicts is usually shorter.
    pub stream: Duration,
    /// From the end of the patience to the kill.
    pub grace: Duration,
}

impl ProcessOptions {
    /// Gives every turn this long, those at the start as well.
    #[must_use]
    pub fn turns_of(self, longest: Duration) -> Self {
        Self { turn: longest, start: longest, ..self }
    }

    /// How long the turn of a delivery may take.
    pub(super) fn longest(&self, task: &Task) -> Duration {
        let is_start = match task {
            Task::Message(message) => match &**message {
                Message::Load(_) => true,
                Message::EventHook(hook) => START_EVENTS.contains(&hook.event.as_str()),
                _ => false,
            },
            Task::Stream(_) => false,
        };
        if is_start && guard!(RealmSlowStart) { self.start.min(self.turn) } else { self.turn }
    }
}

impl Default for ProcessOptions {
    /// The running program, the machine's time zone, no shelf; 10 s for the first word, 1 ms before a turn goes on by
    /// itself, 30 s a turn (six times what its fuel lasts on a free core, for machines that are busy), 15 s a turn at
    /// the start (three times), 5 s a delta, 25 ms of grace.
    fn default() -> Self {
        Self {
            program: PathBuf::from(THIS_PROGRAM),
            time_zone: None,
            shelf: None,
            hello: Duration::from_secs(10),
            first: Duration::from_millis(1),
            turn: Duration::from_secs(30),
            start: Duration::from_secs(15),
            stream: Duration::from_secs(5),
            grace: Duration::from_millis(25),
        }
    }
}

/// A worker process could not be started or made no realm.
#[derive(Debug)]
pub enum ProcessError {
    /// The program could not be started.
    Spawn {
        /// Which program.
        program: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The program runs, and is no worker: its `main` does not begin with [`worker::enter`](crate::worker::enter).
    NoWorker {
        /// Which program.
        program: PathBuf,
        /// What it did instead.
        instead: String,
    },
    /// The worker could not make the realm.
    Failed(String),
    /// The realm ended before it was ready.
    Ended(Termination),
}

impl fmt::Display for ProcessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spawn { program, error } => {
                write!(f, "cannot start a worker process from {}: {error}", program.display())
            }
            Self::NoWorker { program, instead } => write!(
                f,
                "{} is no worker process: it {instead}; `main` must begin with pijs_realm::worker::enter()",
                program.display()
            ),
            Self::Failed(message) => write!(f, "the worker process cannot make the realm: {message}"),
            Self::Ended(reason) => write!(f, "the realm's runtime {reason}"),
        }
    }
}

impl std::error::Error for ProcessError {}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn task(message: serde_json::Value) -> Task {
        Task::Message(Box::new(serde_json::from_value(message).expect("a message")))
    }

    #[test]
    fn turns_of_the_start_have_less_time() {
        let options = ProcessOptions::default();
        let hook = |event: &str| {
            let payload = json!({ "event_id": "e", "entry": 0, "handle": 1, "event": event, "payload": {} });
            task(json!({ "type": "event_hook", "payload": payload }))
        };
        for event in START_EVENTS {
            assert_eq!(options.longest(&hook(event)), options.start, "{event}");
        }
        assert_eq!(options.longest(&hook("tool_call")), options.turn);
        let hasty = ProcessOptions { turn: Duration::from_secs(1), ..options.clone() };
        assert_eq!(hasty.longest(&hook("session_start")), hasty.turn, "never more than any turn");
        let patient = options.turns_of(Duration::from_secs(60));
        assert_eq!(patient.longest(&hook("session_start")), patient.turn, "where the user says so");
    }
}
