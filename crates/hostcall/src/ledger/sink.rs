//! The interface for storing a ledger.

use super::chain::ChainHead;
use std::io;

/// The destination of lines. One call appends whole lines, each with its line feed.
pub trait LedgerSink: Send + Sync {
    /// Appends lines. After an error none of `lines` counts as written, and the ledger passes them again.
    fn append(&self, lines: &[u8]) -> io::Result<()>;

    /// Makes the appended lines durable.
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    /// Returns lines that will be removed to free space. The ledger records them first, and the sink removes them after the next
    /// append. Each removal is returned once.
    fn pruning(&self) -> Option<Pruned> {
        None
    }

    /// Marks the ledger as complete.
    fn close(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Old lines that a sink removes to stay within its space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pruned {
    /// Number of the first removed line.
    pub first_seq: u64,
    /// The chain position at which the kept lines continue.
    pub until: ChainHead,
}
