//! Records one line for each operation, for the owner of the ledger.

use crate::writer::Writer;
use serde::Serialize;

/// Keeps the lines of a store.
pub trait Audit: Send {
    /// Takes the line of a verb that is about to be committed; the verb is rolled back when this fails.
    fn record(&mut self, line: &AuditLine) -> Result<(), AuditRefusal>;
}

/// Describes a verb that is about to be committed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditLine {
    /// The verb: set, get, rm, cp, mv or update.
    pub verb: &'static str,
    /// As whom it was called.
    pub writer: Writer,
    /// The realm whose code called it; `None` for the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// The run whose view changed.
    pub run_id: i64,
    /// The turn that the caller gave.
    pub turn: i64,
    /// The path, or the pattern.
    pub path: String,
    /// Number of rows that it changed.
    pub rows: usize,
    /// SHA-256 over the rows as they were; none when there were none.
    pub before: Option<String>,
    /// SHA-256 over the rows as they are.
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
