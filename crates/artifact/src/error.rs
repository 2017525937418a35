//! The error for a refused artifact. Callers query it by methods instead of variants, so that kinds can be added.

use pijs_protocol::artifact::EngineBuild;
use std::fmt;

/// The reason why an artifact was refused.
///
/// The message names the expected and the actual value. Callers that depend on the reason query it: a cache rebuilds in every
/// case, an inspector distinguishes a foreign engine build from damage.
///
/// ```
/// let error = pijs_artifact::decode(b"not an artifact").unwrap_err();
/// assert!(error.is_foreign());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactError {
    kind: ErrorKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ErrorKind {
    Magic { found: Vec<u8> },
    Format { expected: u32, found: u32 },
    Engine { expected: Box<EngineBuild>, found: Box<EngineBuild> },
    Digest { section: String },
    Truncated { what: &'static str, needed: u64, left: u64 },
    Trailing { bytes: usize },
    Malformed { what: &'static str, detail: String },
    Mac { id: String },
    NoBytecode { specifier: String },
}

impl ArtifactError {
    pub(crate) fn new(kind: ErrorKind) -> Self {
        Self { kind }
    }

    /// Returns whether the bytes are not an artifact, or have a version that this program does not support.
    pub fn is_foreign(&self) -> bool {
        matches!(self.kind, ErrorKind::Magic { .. } | ErrorKind::Format { .. })
    }

    /// Returns whether the artifact is complete, but its bytecode belongs to another engine build. Its sources can be compiled
    /// again.
    pub fn is_other_engine(&self) -> bool {
        matches!(self.kind, ErrorKind::Engine { .. })
    }

    /// Returns whether bytes were lost, added or changed.
    pub fn is_damaged(&self) -> bool {
        matches!(
            self.kind,
            ErrorKind::Digest { .. }
                | ErrorKind::Truncated { .. }
                | ErrorKind::Trailing { .. }
                | ErrorKind::Malformed { .. }
        )
    }

    /// Returns whether the MAC does not match: the bytes were written by another installation, or for another package or engine
    /// build.
    pub fn is_unauthenticated(&self) -> bool {
        matches!(self.kind, ErrorKind::Mac { .. })
    }
}

impl fmt::Display for ArtifactError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ErrorKind::Magic { found } => {
                write!(f, "not an extension artifact: it starts with `{}`", found.escape_ascii())
            }
            ErrorKind::Format { expected, found } => {
                write!(f, "artifact format {found}, but this program reads format {expected}")
            }
            ErrorKind::Engine { expected, found } => {
                write!(f, "compiled for {found}, but this program runs {expected}")
            }
            ErrorKind::Digest { section } => write!(f, "{section} does not match its SHA-256"),
            ErrorKind::Truncated { what, needed, left } => {
                write!(f, "cut off in {what}: {needed} bytes announced, {left} left")
            }
            ErrorKind::Trailing { bytes } => write!(f, "{bytes} bytes after the end"),
            ErrorKind::Malformed { what, detail } => write!(f, "malformed {what}: {detail}"),
            ErrorKind::Mac { id } => {
                write!(f, "not authenticated by this installation's key for `{id}`")
            }
            ErrorKind::NoBytecode { specifier } => write!(f, "module `{specifier}` has no bytecode"),
        }
    }
}

impl std::error::Error for ArtifactError {}
