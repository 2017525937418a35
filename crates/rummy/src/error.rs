//! Errors of a rummy session.

use pijs_dialect_rummy::StoreError;
use pijs_protocol::Termination;
use pijs_protocol::message::ErrorReport;
use pijs_runtime::UserError;
use std::path::PathBuf;

/// Error of a rummy session, or of a single delivery to its plugins.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RummyError {
    /// A plugin folder or file cannot be read, or the plugin package cannot be written.
    #[error("{}: {source}", path.display())]
    File {
        /// The folder or file.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The plugins exceed a limit of a session.
    #[error("{what} (the limit is {most}): {help}")]
    TooMuch {
        /// The problem, such as `too many plugins`.
        what: &'static str,
        /// The limit.
        most: usize,
        /// Advice on how to stay within the limit.
        help: &'static str,
    },
    /// A variable names a plugin that does not exist.
    #[error("{variable}={value}: there is no such file, folder or installed package")]
    Missing {
        /// The variable.
        variable: String,
        /// Value of the variable.
        value: String,
    },
    /// The session could not be assembled.
    #[error(transparent)]
    Session(#[from] UserError),
    /// The package of plugins did not register the functions that the host calls.
    #[error("the plugins did not load: {0}")]
    NotLoaded(String),
    /// Code of a plugin threw an exception.
    #[error("{}", .0.message)]
    Threw(Box<ErrorReport>),
    /// The realm of the plugins was stopped.
    #[error("the realm of the plugins was {0}")]
    Ended(Termination),
    /// The realm returned an invalid answer to a delivery.
    #[error("the plugins answered {op} with an invalid answer: {detail}")]
    Answer {
        /// The operation of the delivery.
        op: String,
        /// Description of the problem.
        detail: String,
    },
    /// No plugin assigned the function, or registered the method, that was called.
    #[error("there is no {0}")]
    Absent(String),
    /// The entry store rejected an operation or failed.
    #[error("{0}")]
    Store(String),
    /// An extension ended the run instead of letting the model try again.
    #[error("{0}")]
    Stopped(String),
    /// The model rejected a request that is longer than its context.
    #[error("the model: {0}")]
    TooLong(String),
    /// The request to the model failed, or its reply was incomplete.
    #[error("the model: {0}")]
    Model(String),
}

impl From<StoreError> for RummyError {
    fn from(error: StoreError) -> Self {
        Self::Store(error.to_string())
    }
}
