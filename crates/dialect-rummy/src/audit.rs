//! Records one line for each operation, for the owner of the ledger.

use crate::writer::Writer;
use serde::Serialize;

/// Records the operations of a store.
pub trait Audit: Send {
    /// Records a verb that is about to be committed. The verb is rolled back when this fails.
    fn record(&mut self, line: &AuditLine) -> Result<(), AuditRefusal>;
}

/// Describes a verb that is about to be committed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditLine {
    /// The verb: set, get, rm, cp, mv or update.
    pub verb: &'static str,
    /// Writer of the call.
    pub writer: Writer,
    /// The realm whose code called it; `None` for the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// The run whose view changed.
    pub run_id: i64,
    /// Turn in the caller's arguments.
    pub turn: i64,
    /// The path, or the pattern.
    pub path: String,
    /// Number of rows that it changed.
    pub rows: usize,
    /// SHA-256 over the rows before the change; `None` without rows.
    pub before: Option<String>,
    /// SHA-256 over the rows after the change.
    pub after: Option<String>,
}

/// Reason why an audit refuses a line.
#[derive(Debug, thiserror::Error)]
#[error("audit: the line of {verb} was not kept, so it was not done: {reason}")]
pub struct AuditRefusal {
    /// The verb.
    pub verb: &'static str,
    /// The reason that the audit gives.
    pub reason: String,
}
