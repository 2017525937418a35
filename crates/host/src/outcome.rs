//! Results for callers: answers of events, tools, commands and verdicts.

use crate::package::ExtensionEntry;
use pijs_protocol::message::ErrorReport;
use pijs_protocol::registration::{CommandSpec, FlagSpec, ToolSpec};
use pijs_protocol::stream::Injection;
use pijs_protocol::{EntryIndex, ExtensionId, Handle, Termination};
use serde_json::{Map, Value};

/// Result of an event after all its handlers.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Event object after the last handler, with accepted in-place changes.
    pub payload: Map<String, Value>,
    /// Combined answer of the handlers, by the event's rule; `None` if no answer has an effect.
    pub answer: Option<Value>,
    /// Whether a handler ended the round: with `block`, `cancel` or `handled`, or by throwing where that blocks.
    pub stopped: bool,
    /// Error that a handler threw, for events whose errors reach the caller (`tool_call`, `user_bash`).
    pub thrown: Option<ErrorReport>,
    /// Extensions whose answers add or replace text that the model reads, in the order of their handlers.
    pub authors: Vec<ExtensionId>,
}

impl Outcome {
    /// Returns a member of the answer.
    pub fn answer_field(&self, key: &str) -> Option<&Value> {
        self.answer.as_ref()?.get(key)
    }
}

/// Result of a streamed delta.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamOutcome {
    /// The delta is passed on to screen, session and listeners.
    Continue,
    /// The attempt is over; the delta and everything before it in this attempt are discarded.
    Abort(Verdict),
}

impl StreamOutcome {
    /// Returns the verdict of an abort; `None` for *continue*.
    pub fn verdict(&self) -> Option<&Verdict> {
        match self {
            Self::Continue => None,
            Self::Abort(verdict) => Some(verdict),
        }
    }
}

/// An effective abort: requested by a handler, granted by the gate, written to the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The extension.
    pub extension: ExtensionId,
    /// Entry of the handler in the extension.
    pub entry: EntryIndex,
    /// Displayed path of the entry.
    pub path: String,
    /// Handle of the handler, for the ledger.
    pub handler: Handle,
    /// Text to inject before the retry; `None` ends the run.
    pub retry: Option<Injection>,
    /// Time spent on this delta, all handlers together.
    pub latency_us: u64,
}

/// Time that verdicts delayed the session's stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VerdictTime {
    /// Number of deltas with a handler.
    pub deltas: u64,
    /// Time spent on these deltas, in microseconds.
    pub elapsed_us: u64,
}

/// Result of a tool call.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolOutcome {
    /// `{content, details, terminate?}` as the tool returned it.
    Returned(Value),
    /// The tool threw.
    Threw(ErrorReport),
    /// No extension has a tool of this name.
    Unknown,
    /// The realm was stopped meanwhile.
    Ended(Termination),
}

/// Result of a slash command.
#[derive(Debug, Clone, PartialEq)]
pub enum CommandOutcome {
    /// The handler has finished.
    Done,
    /// The handler threw.
    Threw(ErrorReport),
    /// No extension has a command of this name.
    Unknown,
    /// The realm was stopped meanwhile.
    Ended(Termination),
}

/// Result of a call of a function in a realm.
#[derive(Debug, Clone, PartialEq)]
pub enum CallbackOutcome {
    /// The value it returned; `None` for `undefined`.
    Returned(Option<Value>),
    /// The function threw.
    Threw(ErrorReport),
    /// The realm that made the function was replaced.
    Gone,
    /// The realm was stopped meanwhile.
    Ended(Termination),
}

/// The extension and entry of a registration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistrationOwner {
    /// The package.
    pub extension: ExtensionId,
    /// Entry of the package.
    pub entry: EntryIndex,
    /// Displayed path of the entry.
    pub path: String,
}

impl RegistrationOwner {
    pub(crate) fn new(extension: &ExtensionId, entry: EntryIndex, known: &[ExtensionEntry]) -> Self {
        let path = known.get(entry.0 as usize).map_or_else(String::new, |entry| entry.path.clone());
        Self { extension: extension.clone(), entry, path }
    }
}

/// A tool the model may call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolInfo {
    /// The extension and entry that registered it.
    pub owner: RegistrationOwner,
    /// The registration.
    pub spec: ToolSpec,
}

/// A slash command.
#[derive(Debug, Clone, PartialEq)]
pub struct CommandInfo {
    /// Name to type; `name:1`, `name:2`, ... if several extensions chose the same name.
    pub invocation: String,
    /// Extension and entry that registered it.
    pub owner: RegistrationOwner,
    /// Registration of the command.
    pub spec: CommandSpec,
}

/// A command line flag.
#[derive(Debug, Clone, PartialEq)]
pub struct FlagInfo {
    /// Extension and entry that registered it.
    pub owner: RegistrationOwner,
    /// Registration of the flag.
    pub spec: FlagSpec,
    /// Current value of the flag.
    pub value: Option<Value>,
}
