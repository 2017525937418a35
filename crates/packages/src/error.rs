//! Errors of package operations.
//!
//! [`PackageError`] contains the rule that was broken ([`InstallCode`]), the affected file or package
//! ([`PackageError::subject`]), and the next step for the user ([`PackageError::help`]). Every fallible function of this crate
//! returns it; the command line prints it, and tests compare its code.

use pijs_durable::LinkInTheWay;
use std::error::Error;
use std::fmt;
use std::io;
use std::path::Path;

/// Rule that was broken. The names are stable: scripts and the security corpus compare them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InstallCode {
    /// A path inside an archive or manifest leaves its root, is ambiguous, or cannot be written everywhere.
    Path,
    /// A symbolic or hard link where none is accepted.
    Link,
    /// A limit on bytes, files, depth or ratio was exceeded.
    Size,
    /// Bytes that are not a well-formed archive, JSON or response of a registry.
    Format,
    /// A digest that is missing, too weak, or does not match.
    Integrity,
    /// A source that does not exist, is not supported, or may not be contacted.
    Source,
    /// An invalid package name.
    Name,
    /// A `package.json`, settings file or lock file that cannot be used.
    Manifest,
    /// A version that requests more capabilities than the user granted, in a session that cannot prompt.
    Consent,
    /// An install script of a package. Scripts never run; this is a warning.
    Script,
    /// The package does not build.
    Build,
    /// The operating system or the network failed.
    Io,
    /// A server did not answer in time.
    Timeout,
    /// The policy or the user denied the operation.
    Denied,
}

impl InstallCode {
    /// Returns the code as it is printed and compared: `IN_PATH`, `IN_LINK`, ..., `io`, `timeout`, `denied`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Path => "IN_PATH",
            Self::Link => "IN_LINK",
            Self::Size => "IN_SIZE",
            Self::Format => "IN_FORMAT",
            Self::Integrity => "IN_INTEGRITY",
            Self::Source => "IN_SOURCE",
            Self::Name => "IN_NAME",
            Self::Manifest => "IN_MANIFEST",
            Self::Consent => "IN_CONSENT",
            Self::Script => "IN_SCRIPT",
            Self::Build => "BD_SYNTAX",
            Self::Io => "io",
            Self::Timeout => "timeout",
            Self::Denied => "denied",
        }
    }
}

impl fmt::Display for InstallCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A refused or failed operation on a package. Installed packages are unchanged.
#[derive(Debug)]
pub struct PackageError {
    /// Rule that was broken.
    pub code: InstallCode,
    /// Affected package, file, URL or setting.
    pub subject: String,
    /// Description of the problem: one sentence without a full stop.
    pub message: String,
    /// Next step for the user.
    pub help: Option<String>,
    pub(crate) source: Option<Box<dyn Error + Send + Sync>>,
}

impl PackageError {
    /// Creates an error about `subject`.
    pub fn new(code: InstallCode, subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code, subject: subject.into(), message: message.into(), help: None, source: None }
    }

    /// Adds the next step for the user.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Adds the cause.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Creates the error for a link in the package store.
    pub(crate) fn link(path: &Path) -> Self {
        Self::new(InstallCode::Link, path.display().to_string(), "a symbolic link where packages are stored")
            .help("remove the link")
    }

    /// Creates the error for a failure of the operating system during `action` on `path`.
    pub(crate) fn io(action: &str, path: &Path, error: io::Error) -> Self {
        if let Some(link) = LinkInTheWay::of(&error) {
            return Self::link(link).caused_by(error);
        }
        let help = match error.kind() {
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
                Some("make the folder writable, or set PI_CODING_AGENT_DIR to another one")
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Some("free some space and try again"),
            _ => None,
        };
        let mut this = Self::new(InstallCode::Io, path.display().to_string(), format!("cannot {action}: {error}"));
        this.help = help.map(str::to_owned);
        this.caused_by(error)
    }

    /// Returns whether another process holds the lock.
    pub(crate) fn is_busy(&self) -> bool {
        let cause = self.source.as_deref().and_then(|source| source.downcast_ref::<io::Error>());
        cause.is_some_and(|error| error.kind() == io::ErrorKind::ResourceBusy)
    }

    /// Prefixes the subject with the package.
    pub(crate) fn within(mut self, package: &str) -> Self {
        if !self.subject.starts_with(package) {
            self.subject = format!("{package}: {}", self.subject);
        }
        self
    }
}

impl fmt::Display for PackageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.code, self.subject, self.message)?;
        match &self.help {
            Some(help) => write!(f, "\n  help: {help}"),
            None => Ok(()),
        }
    }
}

impl Error for PackageError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}

/// Result type of this crate.
pub type Result<T, E = PackageError> = std::result::Result<T, E>;
