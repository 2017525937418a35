//! Defines the options of worker processes, and the errors of starting them.

use super::shared_code::SharedCode;
use pijs_protocol::message::{Message, START_EVENTS};
use pijs_protocol::wire::Task;
use pijs_protocol::{Termination, guard};
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The running program, even if its file was replaced.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// Options and time limits of worker processes.
#[derive(Debug, Clone)]
pub struct ProcessOptions {
    /// The program whose `main` calls [`worker::enter`](crate::worker::enter); by default the running one.
    pub program: PathBuf,
    /// Variable `TZ` of the worker, which sets local time inside the realm. By default the machine's zone.
    pub time_zone: Option<OsString>,
    /// Shared memory for modules that several workers need. Without it each worker gets a copy.
    pub shared_code: Option<Arc<SharedCode>>,
    /// Maximum time until the first message of a new worker.
    pub hello: Duration,
    /// Time that [`Realm::start`](crate::Realm::start) blocks before it returns [`Progress::Running`](crate::Progress::Running):
    /// short turns end at once, and long ones do not block the host.
    pub first: Duration,
    /// Maximum time of a turn, without hostcalls.
    pub turn: Duration,
    /// Maximum time of turns at the start of a session: loading an entry, and [`START_EVENTS`]. At most [`ProcessOptions::turn`].
    pub start: Duration,
    /// Maximum time of a streamed delta; the host's limit for verdicts is usually shorter.
    pub stream: Duration,
    /// Time between the deadline and the kill.
    pub grace: Duration,
}

impl ProcessOptions {
    /// Sets the maximum time of every turn, including those at the start.
    #[must_use]
    pub fn turns_of(self, longest: Duration) -> Self {
        Self { turn: longest, start: longest, ..self }
    }

    /// Returns the maximum time of a delivery's turn.
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
    /// Returns the running program, the machine's time zone and no shared memory, with these limits: 10 s for the first message,
    /// 1 ms before a turn continues in the background, 30 s for a turn (six times the duration of its fuel on an idle core, to
    /// allow for busy machines), 15 s for a turn at the start, 5 s for a delta, and 25 ms of grace.
    fn default() -> Self {
        Self {
            program: PathBuf::from(THIS_PROGRAM),
            time_zone: None,
            shared_code: None,
            hello: Duration::from_secs(10),
            first: Duration::from_millis(1),
            turn: Duration::from_secs(30),
            start: Duration::from_secs(15),
            stream: Duration::from_secs(5),
            grace: Duration::from_millis(25),
        }
    }
}

/// An error that prevents the start of a worker process or its realm.
#[derive(Debug)]
pub enum ProcessError {
    /// The program could not be started.
    Spawn {
        /// The program.
        program: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// The program runs, but is not a worker: its `main` does not begin with [`worker::enter`](crate::worker::enter).
    NoWorker {
        /// The program.
        program: PathBuf,
        /// Description of its behaviour.
        instead: String,
    },
    /// The worker could not create the realm.
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
                "{} is not a worker process: it {instead}; `main` must begin with pijs_realm::worker::enter()",
                program.display()
            ),
            Self::Failed(message) => write!(f, "the worker process cannot create the realm: {message}"),
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
    fn turns_at_the_start_have_a_shorter_limit() {
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
