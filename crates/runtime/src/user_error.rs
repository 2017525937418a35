//! Error of a run: a message for the user, and the exit code.

use pijs_extc::BuildFailure;
use pijs_packages::{InstallCode, PackageError};
use std::fmt;

/// A result whose error is a [`UserError`] by default.
pub type Result<T, E = UserError> = std::result::Result<T, E>;

/// Returns whether the error means that a file does not exist. A path below something that is not a folder counts as missing.
pub fn is_missing(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

/// A message for the user. `main` prints it once, to stderr.
#[derive(Debug)]
pub struct UserError {
    /// Exit code.
    pub exit: Exit,
    message: String,
    help: Option<String>,
    /// First error, where the message lists all of them.
    brief: Option<String>,
}

/// Exit codes of `pi`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The operation failed.
    Failed,
    /// The command line is wrong.
    Usage,
    /// The policy denies the operation.
    Refused,
    /// Stopped by Ctrl-C.
    Interrupted,
    /// An extension ended the program with this code; nothing is printed.
    Left(u8),
}

impl Exit {
    /// Returns the number for the system.
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

impl UserError {
    /// Creates the error of an operation that failed.
    pub fn failed(message: impl Into<String>) -> Self {
        Self { exit: Exit::Failed, message: message.into(), help: None, brief: None }
    }

    /// Creates the error of a wrong command line.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, message: message.into(), help: None, brief: None }
    }

    /// Creates the error of an operation that the policy denies.
    pub fn refused(message: impl Into<String>) -> Self {
        Self { exit: Exit::Refused, message: message.into(), help: None, brief: None }
    }

    /// Creates the error of a run that a signal ended.
    pub fn interrupted() -> Self {
        Self { exit: Exit::Interrupted, message: "interrupted".to_owned(), help: None, brief: None }
    }

    /// Returns the result of a run that an extension ended: code 0 is a success.
    pub fn left(code: u8) -> Result<()> {
        match code {
            0 => Ok(()),
            code => Err(Self { exit: Exit::Left(code), message: String::new(), help: None, brief: None }),
        }
    }

    /// Prefixes the message with the context.
    #[must_use]
    pub fn within(mut self, what: &str) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }

    /// Adds the name of the extension to the error of a failed build, whose message names only files; keeps other errors.
    #[must_use]
    pub(crate) fn of_build(self, extension: &str) -> Self {
        if self.brief.is_some() { self.within(extension) } else { self }
    }

    /// Returns the first of several errors in one line; the message if there is only one.
    pub fn brief(&self) -> &str {
        self.brief.as_deref().unwrap_or(&self.message)
    }

    /// Formats the message and the next step, for a report that labels itself as an error.
    pub fn said(&self) -> String {
        let help = self.help.as_ref().map(|help| format!("\n  help: {help}"));
        format!("{}{}", self.message, help.unwrap_or_default())
    }

    /// Returns the message and the next step.
    pub fn into_parts(self) -> (String, Option<String>) {
        (self.message, self.help)
    }

    /// Sets the next step of the user.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl fmt::Display for UserError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.message)?;
        match &self.help {
            Some(help) => write!(f, "\n  help: {help}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for UserError {}

impl From<PackageError> for UserError {
    fn from(error: PackageError) -> Self {
        match error.code {
            InstallCode::Denied => Self::refused(error.to_string()),
            _ => Self::failed(error.to_string()),
        }
    }
}

impl From<BuildFailure> for UserError {
    fn from(failure: BuildFailure) -> Self {
        let colour = std::io::IsTerminal::is_terminal(&std::io::stderr());
        let brief = Some(failure.first().message().to_owned());
        Self { brief, ..Self::failed(format!("it does not build\n\n{}", failure.render(colour))) }
    }
}
