//! Verifies a ledger: every line parses, every hash matches, and no line is missing.

use super::chain::{ChainHead, LONGEST_LINE};
use super::resume::{OpenCall, OpenCallTracker};
use pijs_protocol::log::{LOG_SCHEMA, LogEntry};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, BufRead, Read};

/// Maximum length of a line in bytes; a file with a longer line counts as broken.
const MAX_LINE_BYTES: u64 = 4 * LONGEST_LINE as u64;
/// Event at the start of a ledger whose first lines were removed to free space.
pub(super) const PRUNED: &str = "ledger.pruned";
/// Event that begins counting records of one kind.
pub(super) const COUNTING: &str = "ledger.counting";
/// Event with the number of counted records.
pub(super) const COUNTED: &str = "ledger.counted";

/// A ledger whose chain is intact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verified {
    /// Number of verified lines.
    pub lines: u64,
    /// End of the chain; compare it with a recorded position to detect a truncated end.
    pub head: ChainHead,
    /// Whether the last line has no line feed, because its write was interrupted. It is not counted.
    pub torn: bool,
    /// Number of the first line; more than 0 if older lines were removed to free space and the ledger records the removal.
    pub first: u64,
}

/// The first invalid line of a ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenLine {
    /// Index of the file, from 0.
    pub part: usize,
    /// 1-based line number in its file.
    pub line: u64,
    /// Description of the problem.
    pub problem: String,
}

impl fmt::Display for BrokenLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ledger line {}: {}", self.line, self.problem)
    }
}

impl std::error::Error for BrokenLine {}

/// A verified ledger and statistics of its calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audit {
    /// Result of the verification.
    pub verified: Verified,
    /// Number of started calls.
    pub calls: u64,
    /// Calls without an end.
    pub open: Vec<OpenCall>,
    /// Number of records beyond a rate limit, which have no line.
    pub counted: u64,
    /// Number of kinds whose count was never written, because the host was killed.
    pub uncounted: u64,
}

/// Verifies a ledger from its first line; reports the first invalid one.
pub fn verify(reader: impl BufRead) -> Result<Verified, BrokenLine> {
    verify_parts([Ok(reader)])
}

/// Verifies a ledger of several files, oldest first.
pub fn verify_parts(readers: impl IntoIterator<Item = io::Result<impl BufRead>>) -> Result<Verified, BrokenLine> {
    read(readers, &mut |_| Ok(()))
}

/// Verifies a ledger, and matches the lines of each call (invariant N2): every end has a start and occurs once, and no line
/// contains parameters.
pub fn audit(readers: impl IntoIterator<Item = io::Result<impl BufRead>>) -> Result<Audit, BrokenLine> {
    let mut calls = OpenCallTracker::default();
    let (mut began, mut counted) = (0, 0);
    let mut counting = BTreeSet::new();
    let verified = read(readers, &mut |entry| {
        if entry.data.contains_key("params") {
            return Err("holds parameters".to_owned());
        }
        began += u64::from(entry.event == "host_call.start");
        match entry.event.as_str() {
            COUNTING => drop(counting.insert(counted_kind(entry))),
            COUNTED => {
                counting.remove(&counted_kind(entry));
                counted += entry.data.get("records").and_then(Value::as_u64).unwrap_or(0);
            }
            _ => {}
        }
        calls.take(entry)
    })?;
    Ok(Audit { verified, calls: began, open: calls.open(), counted, uncounted: counting.len() as u64 })
}

/// Returns the members that the first and the last line of a count share.
fn counted_kind(entry: &LogEntry) -> Vec<String> {
    let facts = ["counts", "method", "capability", "rule", "reason"].into_iter();
    let said = facts.map(|key| entry.data.get(key).and_then(Value::as_str).unwrap_or_default().to_owned());
    std::iter::once(entry.correlation.extension_id.clone()).chain(said).collect()
}

/// Reads one line into `line`, including its line feed if there is one; returns 0 at the end.
pub(super) fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<usize> {
    line.clear();
    reader.take(MAX_LINE_BYTES).read_until(b'\n', line)
}

fn read(
    readers: impl IntoIterator<Item = io::Result<impl BufRead>>,
    each: &mut dyn FnMut(&LogEntry) -> Result<(), String>,
) -> Result<Verified, BrokenLine> {
    let mut head: Option<ChainHead> = None;
    // Set if the ledger does not begin with line 0, until the line that explains it.
    let mut expected_prune: Option<ChainHead> = None;
    let mut verified = Verified { lines: 0, head: ChainHead::default(), torn: false, first: 0 };
    let mut place = (0, 0);
    for (part, reader) in readers.into_iter().enumerate() {
        let mut reader =
            reader.map_err(|error| BrokenLine { part, line: 0, problem: format!("cannot be read: {error}") })?;
        if verified.torn {
            return Err(BrokenLine {
                part: place.0,
                line: place.1 + 1,
                problem: "is incomplete, but more lines follow".to_owned(),
            });
        }
        place = (part, 0);
        let mut line = Vec::new();
        loop {
            let broken = |problem: String| BrokenLine { part, line: place.1 + 1, problem };
            let read = read_line(&mut reader, &mut line);
            if read.map_err(|error| broken(format!("cannot be read: {error}")))? == 0 {
                break;
            }
            if line.last() != Some(&b'\n') {
                if line.len() as u64 >= MAX_LINE_BYTES {
                    return Err(broken("exceeds the maximum length of a line".to_owned()));
                }
                verified.torn = true;
                break;
            }
            line.pop();
            let (entry, link) = ChainLink::read(&line).map_err(broken)?;
            let expected = *head.get_or_insert_with(|| {
                if link.before.next_seq > 0 {
                    expected_prune = Some(link.before);
                    verified.first = link.before.next_seq;
                    link.before
                } else {
                    ChainHead::default()
                }
            });
            link.follows(&expected).map_err(broken)?;
            if entry.event == PRUNED && expected_prune.is_some_and(|expected_prune| says(&entry, &expected_prune)) {
                expected_prune = None;
            }
            each(&entry).map_err(broken)?;
            head = Some(link.after);
            verified.head = link.after;
            verified.lines += 1;
            place.1 += 1;
        }
    }
    match expected_prune.filter(|_| pijs_protocol::guard!(LedgerChain)) {
        None => Ok(verified),
        Some(expected_prune) => Err(BrokenLine {
            part: 0,
            line: 1,
            problem: format!("is number {} of the chain; the lines before it are missing", expected_prune.next_seq),
        }),
    }
}

fn says(entry: &LogEntry, expected_prune: &ChainHead) -> bool {
    entry.correlation.extension_id == "host"
        && entry.data.get("next_seq").and_then(Value::as_u64) == Some(expected_prune.next_seq)
        && entry.data.get("hash").and_then(Value::as_str) == Some(hex::encode(expected_prune.hash).as_str())
}

/// The position of a line in the chain.
pub(super) struct ChainLink {
    before: ChainHead,
    pub(super) after: ChainHead,
}

impl ChainLink {
    /// Parses a line without its line feed. Checks the line's own hash but not its position.
    pub(super) fn read(line: &[u8]) -> Result<(LogEntry, Self), String> {
        const TAIL: usize = ",\"hash\":\"".len() + 64 + "\"}}}".len();
        let entry: LogEntry = serde_json::from_slice(line).map_err(|error| format!("is not a ledger line: {error}"))?;
        if entry.schema != LOG_SCHEMA {
            return Err(format!("is of the schema {:?}, not {LOG_SCHEMA}", entry.schema));
        }
        let chain = entry.data.get("chain").cloned().unwrap_or_default();
        let text = |key: &str| chain[key].as_str().ok_or_else(|| format!("has no `data.chain.{key}`"));
        let seq = chain["seq"].as_u64().ok_or("has no `data.chain.seq`")?;
        let mut prev = [0; 32];
        hex::decode_to_slice(text("prev")?, &mut prev).map_err(|_| "has a `prev` that is not a hash")?;
        let hash = text("hash")?;
        // The hash covers the bytes before it, and is at the very end of the line.
        let Some((covered, tail)) = line.len().checked_sub(TAIL).map(|at| line.split_at(at)) else {
            return Err("is too short".to_owned());
        };
        if tail != format!(",\"hash\":\"{hash}\"}}}}}}").as_bytes() {
            return Err("does not end with its hash".to_owned());
        }
        let digest: [u8; 32] = Sha256::digest(covered).into();
        if hex::encode(digest) != hash && pijs_protocol::guard!(LedgerHash) {
            return Err("was changed: its hash does not match".to_owned());
        }
        let before = ChainHead { next_seq: seq, hash: prev };
        Ok((entry, Self { before, after: ChainHead { next_seq: seq.saturating_add(1), hash: digest } }))
    }

    fn follows(&self, expected: &ChainHead) -> Result<(), String> {
        if !pijs_protocol::guard!(LedgerChain) {
            return Ok(());
        }
        if self.before.next_seq != expected.next_seq {
            return Err(format!(
                "should be number {} of the chain, but says {}",
                expected.next_seq, self.before.next_seq
            ));
        }
        if self.before.hash != expected.hash {
            return Err("does not follow the line before it".to_owned());
        }
        Ok(())
    }
}
