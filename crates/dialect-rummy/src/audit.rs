//! The interface for recording one line per operation in the host's ledger.

use crate::writer::Writer;
use serde::Serialize;

/// Records the operations of a store.
pub trait Audit: Send {
    /// Records a verb that is about to be committed. The verb is rolled back if this fails.
    fn record(&mut self, line: &AuditLine) -> Result<(), AuditRefusal>;
}

/// Describes a verb that is about to be committed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditLine {
    /// The verb: set, get, rm, cp, mv or update.
    pub verb: &'static str,
    /// The writer that the call acts as.
    pub writer: Writer,
    /// The plugin's realm that called the verb; `None` for the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// The run whose view changed.
    pub run_id: i64,
    /// The turn that the caller passed.
    pub turn: i64,
    /// Path of the entry, or pattern of paths.
    pub path: String,
    /// Number of rows that the verb changed.
    pub rows: usize,
    /// SHA-256 over the rows before the change; `None` if there were no rows.
    pub before: Option<String>,
    /// SHA-256 over the rows after the change.
    pub after: Option<String>,
}

/// The error of an audit that refuses a line.
#[derive(Debug, thiserror::Error)]
#[error("audit: the line of {verb} was not recorded, so the verb was not performed: {reason}")]
pub struct AuditRefusal {
    /// The verb.
    pub verb: &'static str,
    /// The reason that the audit gives.
    pub reason: String,
}
