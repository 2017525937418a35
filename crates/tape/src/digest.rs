//! Computes the running digest of a realm's turns.

use sha2::{Digest as _, Sha256};

/// Number of bytes of a digest that are written: enough that two turns do not match by chance.
const WRITTEN: usize = 16;

/// Digests the canonical lines of one realm, turn after turn.
#[derive(Debug, Clone, Default)]
pub(crate) struct TurnDigest {
    before: [u8; 32],
    turn: Sha256,
}

impl TurnDigest {
    /// Adds a line of the current turn.
    pub(crate) fn add(&mut self, line: &[u8]) {
        self.turn.update(line);
        self.turn.update(b"\n");
    }

    /// Ends the turn. Returns the digest of all turns so far.
    pub(crate) fn end_turn(&mut self) -> String {
        let turn = std::mem::take(&mut self.turn).chain_update(self.before);
        self.before = turn.finalize().into();
        hex::encode(&self.before[..WRITTEN])
    }
}
