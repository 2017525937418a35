//! A failed run: what to tell the user, and the exit code.

use pijs_extc::BuildFailure;
use pijs_packages::{InstallCode, PackageError};
use std::fmt;

/// Result of the command.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// Whether a file is simply not there, as one below a home that is no folder.
pub fn is_missing(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

/// One message for people. It is printed once, to stderr, at the end of `main`.
#[derive(Debug)]
pub struct Failure {
    /// Which kind of failure it is.
    pub exit: Exit,
    message: String,
    help: Option<String>,
    /// The first thing that is wrong, where the message lists them all.
    brief: Option<String>,
}

/// Exit codes of `pi`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The thing asked for failed.
    Failed,
    /// The command line is wrong.
    Usage,
    /// The policy says no.
    Refused,
    /// Stopped by Ctrl-C.
    Interrupted,
    /// An extension ended the program with this code; there is nothing to say.
    Left(u8),
}

impl Exit {
    /// The number for the system.
    pub fn code(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Refused => 3,
            Self::Interrupted => 130,
            Self::Left(code) => code,
        }
    }
}

impl Failure {
    /// Something that was asked for failed.
    pub fn failed(message: impl Into<String>) -> Self {
        Self { exit: Exit::Failed, message: message.into(), help: None, brief: None }
    }

    /// The request itself is wrong.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, message: message.into(), help: None, brief: None }
    }

    /// The policy says no.
    pub fn refused(message: impl Into<String>) -> Self {
        Self { exit: Exit::Refused, message: message.into(), help: None, brief: None }
    }

    /// A signal ended the run.
    pub fn interrupted() -> Self {
        Self { exit: Exit::Interrupted, message: "interrupted".to_owned(), help: None, brief: None }
    }

    /// The end that an extension asked for, which is no failure if its code is 0.
    pub fn left(code: u8) -> Result<()> {
        match code {
            0 => Ok(()),
            code => Err(Self { exit: Exit::Left(code), message: String::new(), help: None, brief: None }),
        }
    }

    /// Says what it happened in.
    #[must_use]
    pub fn within(mut self, what: &str) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }

    /// What is wrong, in one line where there is one.
    pub fn brief(&self) -> &str {
        self.brief.as_deref().unwrap_or(&self.message)
    }

    /// The message and what to do next, for a report that says itself that it is an error.
    pub fn said(&self) -> String {
        let help = self.help.as_ref().map(|help| format!("\n  help: {help}"));
        format!("{}{}", self.message, help.unwrap_or_default())
    }

    /// The message and what to do next.
    pub fn into_parts(self) -> (String, Option<String>) {
        (self.message, self.help)
    }

    /// Says what to do next.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.message)?;
        match &self.help {
            Some(help) => write!(f, "\n  help: {help}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}

impl From<PackageError> for Failure {
    fn from(error: PackageError) -> Self {
        match error.code {
            InstallCode::Denied => Self::refused(error.to_string()),
            _ => Self::failed(error.to_string()),
        }
    }
}

impl From<BuildFailure> for Failure {
    fn from(failure: BuildFailure) -> Self {
        let colour = std::io::IsTerminal::is_terminal(&std::io::stderr());
        let brief = Some(failure.first().message().to_owned());
        Self { brief, ..Self::failed(format!("it does not build\n\n{}", failure.render(colour))) }
    }
}
