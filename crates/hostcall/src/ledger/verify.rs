//! Checks a ledger: every line parses, every hash fits, nothing is missing in between.

use super::ChainHead;
use sha2::{Digest, Sha256};
use std::fmt;
use std::io::{BufRead, Read};

/// Longest line that is read before the file is called broken.
const LONGEST: u64 = 4 * super::LONGEST_LINE as u64;

/// A ledger that holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verified {
    /// Lines that hold.
    pub lines: u64,
    /// Where the chain stands; compare it with what was noted elsewhere to see cut-off lines.
    pub head: ChainHead,
    /// The last line has no line feed: its write was interrupted. It is not counted.
    pub torn: bool,
}

/// The first line that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenLine {
    /// 1-based.
    pub line: u64,
    /// What is wrong with it.
    pub problem: String,
}

impl fmt::Display for BrokenLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ledger line {}: {}", self.line, self.problem)
    }
}

impl std::error::Error for BrokenLine {}

/// Reads a ledger from its first line and names the first that does not hold.
pub fn verify(mut reader: impl BufRead) -> Result<Verified, BrokenLine> {
    let mut head = ChainHead::default();
    let mut lines = 0;
    let mut line = Vec::new();
    loop {
        line.clear();
        let broken = |problem: String| BrokenLine { line: lines + 1, problem };
        let read = (&mut reader)
            .take(LONGEST)
            .read_until(b'\n', &mut line)
            .map_err(|error| broken(format!("cannot be read: {error}")))?;
        if read == 0 {
            return Ok(Verified { lines, head, torn: false });
        }
        if line.last() != Some(&b'\n') {
            if line.len() as u64 >= LONGEST {
                return Err(broken("is longer than a line can be".to_owned()));
            }
            return Ok(Verified { lines, head, torn: true });
        }
        line.pop();
        check(&line, &mut head).map_err(broken)?;
        lines += 1;
    }
}

fn check(line: &[u8], head: &mut ChainHead) -> Result<(), String> {
    const TAIL: usize = ",\"hash\":\"".len() + 64 + "\"}}}".len();
    let entry: serde_json::Value = serde_json::from_slice(line).map_err(|error| format!("is not JSON: {error}"))?;
    let chain = &entry["data"]["chain"];
    let text = |key: &str| chain[key].as_str().ok_or_else(|| format!("has no `data.chain.{key}`"));
    if chain["seq"].as_u64() != Some(head.next_seq) {
        return Err(format!("should be number {} of the chain, but says {}", head.next_seq, chain["seq"]));
    }
    if text("prev")? != hex::encode(head.hash) {
        return Err("does not follow the line before it".to_owned());
    }
    let hash = text("hash")?;
    // The hash covers the bytes before itself, and it stands at the very end of the line.
    let Some((covered, tail)) = line.len().checked_sub(TAIL).map(|at| line.split_at(at)) else {
        return Err("is too short".to_owned());
    };
    if tail != format!(",\"hash\":\"{hash}\"}}}}}}").as_bytes() {
        return Err("does not end with its hash".to_owned());
    }
    let digest: [u8; 32] = Sha256::digest(covered).into();
    if hex::encode(digest) != hash {
        return Err("was changed: its hash does not fit".to_owned());
    }
    *head = ChainHead { next_seq: head.next_seq + 1, hash: digest };
    Ok(())
}
