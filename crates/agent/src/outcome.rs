//! The origin of a prompt, its result, and the errors that end it.

use crate::extensions::CommandError;
use crate::verdicts::VerdictTotals;
use pijs_inputs::Refusal;
use pijs_llm::message::AssistantMessage;
use pijs_llm::provider::ProviderError;
use pijs_session_store::SessionError;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Outcome of a prompt.
#[derive(Debug)]
pub struct Outcome {
    /// Reason why the prompt ended.
    pub ending: Ending,
    /// Last message of the model.
    pub message: Option<AssistantMessage>,
    /// Effects of verdicts on the session so far.
    pub verdicts: VerdictTotals,
}

/// Reasons for the end of a prompt.
#[derive(Debug)]
pub enum Ending {
    /// The model is done.
    Done,
    /// A command or an `input` handler handled the prompt without a model request.
    Handled,
    /// A command failed with this error.
    CommandFailed(CommandError),
    /// A handler of this extension ended the run.
    Stopped {
        /// Name of the extension.
        extension: String,
    },
    /// The run was aborted.
    Aborted,
    /// The provider failed.
    Failed(ProviderError),
    /// The run reached its limit of turns.
    TooManyTurns(u32),
}

/// An error after which the session cannot continue. Neither the model nor an extension causes it.
#[derive(Debug)]
pub enum AgentError {
    /// The front end is closed.
    FrontEnd(std::io::Error),
    /// The session cannot be written, or a run is already active.
    Control(ControlError),
}

impl fmt::Display for AgentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FrontEnd(error) => write!(f, "cannot write events: {error}"),
            Self::Control(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for AgentError {}

impl From<std::io::Error> for AgentError {
    fn from(error: std::io::Error) -> Self {
        Self::FrontEnd(error)
    }
}

impl From<ControlError> for AgentError {
    fn from(error: ControlError) -> Self {
        Self::Control(error)
    }
}

/// Sources of input, for the `input` event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum InputSource {
    /// The command line or a terminal.
    Interactive,
    /// The RPC protocol.
    Rpc,
    /// An extension, with `sendUserMessage`.
    Extension,
    /// The extension that started this program with the prompt.
    Starter,
}

impl InputSource {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Interactive => "interactive",
            Self::Rpc => "rpc",
            Self::Extension | Self::Starter => "extension",
        }
    }
}

/// An error of an operation on the session.
#[derive(Debug)]
pub enum ControlError {
    /// The operation is not possible now. Contains pi's message.
    Refused(String),
    /// The session file cannot be read or written.
    Session(SessionError),
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(message) => f.write_str(message),
            Self::Session(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ControlError {}

impl From<Refusal> for ControlError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal.to_string())
    }
}

impl From<SessionError> for ControlError {
    fn from(error: SessionError) -> Self {
        Self::Session(error)
    }
}
