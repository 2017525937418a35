//! Refusals and failures of the store.

use crate::audit::AuditRefusal;
use crate::pattern::PatternError;
use crate::writer::Writer;
use serde_json::{Value, json};

/// The error of a call to the store. A failed call does not change anything.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The scheme does not allow the writer. Rummy's plugins search for this text.
    #[error("403: writer \"{writer}\" not permitted for scheme \"{scheme}\" (allowed: {})", allowed.join(", "))]
    Permission {
        /// Scheme of the path; `file` for bare paths.
        scheme: String,
        /// The writer.
        writer: Writer,
        /// The writers that are allowed.
        allowed: Vec<String>,
    },
    /// The call requests a writer above the ceiling of the call's path.
    #[error("403: writer \"{writer}\" is above \"{ceiling}\", the highest that this call can use; omit the writer")]
    Ceiling {
        /// The requested writer.
        writer: Writer,
        /// The highest writer that the path allows.
        ceiling: Writer,
    },
    /// A plugin ran a statement that is reserved for the host.
    #[error("403: db.{0} is reserved for the host: change runs through entries, such as set run://ALIAS")]
    Statement(String),
    /// The body of an entry would be too large.
    #[error("413: the body of {path} would have {size} bytes (the limit is {limit}); split it into several entries")]
    Overflow {
        /// Path of the entry.
        path: String,
        /// Size of the body in bytes.
        size: usize,
        /// Maximum size of a body in bytes.
        limit: usize,
    },
    /// An argument is missing or wrong.
    #[error("{0}")]
    Invalid(String),
    /// A pattern is invalid, or its evaluation exceeded its limit of steps.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// The audit refused the operation.
    #[error(transparent)]
    Audit(#[from] AuditRefusal),
    /// The database belongs to another version or is damaged.
    #[error("{0}")]
    Unusable(String),
    /// SQLite failed because of a constraint, a trigger, or the disk.
    #[error("database: {0}")]
    Database(#[from] rusqlite::Error),
}

impl StoreError {
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid(message.into())
    }

    /// Returns the name of the error class that plugins test with `error.name`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Permission { .. } | Self::Ceiling { .. } | Self::Statement(_) => "PermissionError",
            Self::Overflow { .. } => "EntryOverflowError",
            Self::Pattern(_) => "PatternError",
            _ => "Error",
        }
    }

    /// Returns the HTTP status of the error.
    pub fn status(&self) -> u16 {
        match self {
            Self::Permission { .. } | Self::Ceiling { .. } | Self::Statement(_) => 403,
            Self::Overflow { .. } => 413,
            Self::Invalid(_) | Self::Pattern(_) => 400,
            Self::Audit(_) | Self::Unusable(_) | Self::Database(_) => 500,
        }
    }

    /// Returns the outcome of an entry whose handler fails with this error, such as `permission:403`.
    pub fn outcome(&self) -> String {
        let reason = match self {
            Self::Permission { .. } | Self::Ceiling { .. } | Self::Statement(_) => "permission",
            Self::Overflow { .. } => "overflow",
            Self::Invalid(_) | Self::Pattern(_) => "validation",
            Self::Audit(_) | Self::Unusable(_) | Self::Database(_) => "error",
        };
        format!("{reason}:{}", self.status())
    }

    /// Returns the data from which the plugin runtime creates the thrown error.
    pub fn to_json(&self) -> Value {
        let mut value = json!({
            "name": self.name(), "message": self.to_string(), "status": self.status(), "outcome": self.outcome(),
        });
        match self {
            Self::Permission { scheme, writer, allowed } => {
                value["scheme"] = json!(scheme);
                value["writer"] = json!(writer);
                value["allowed"] = json!(allowed);
            }
            Self::Ceiling { writer, ceiling } => {
                value["writer"] = json!(writer);
                value["allowed"] = json!([ceiling]);
            }
            Self::Overflow { path, size, limit } => {
                value["path"] = json!(path);
                value["size"] = json!(size);
                value["limit"] = json!(limit);
            }
            _ => {}
        }
        value
    }
}
