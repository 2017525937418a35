//! The hash chain of a ledger.

/// Maximum length of a line in bytes; data that would make it longer is left out.
pub const LONGEST_LINE: usize = 64 << 10;

/// A position in a hash chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChainHead {
    /// Number of the next line.
    pub next_seq: u64,
    /// Hash of the last line; zeros before the first line.
    pub hash: [u8; 32],
}
