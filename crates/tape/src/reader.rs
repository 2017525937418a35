//! Reads a tape, record by record.

use crate::block::{self, Chain};
use crate::digest::TurnDigest;
use crate::error::{TapeError, TapeFault};
use crate::header::{TAPE_SCHEMA, TapeHeader};
use crate::index::{Gap, TapeIndex};
use crate::record::{self, Event, RealmNumber, Record};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use pijs_artifact::digest;
use pijs_protocol::PROTOCOL_VERSION;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, Read, Seek, SeekFrom};
use std::rc::Rc;

/// Maximum total size in bytes of the payloads that a reader keeps.
const MAX_BLOB_BYTES: usize = 1 << 30;

/// Maximum number of realms of a tape.
const MAX_REALMS: usize = 100_000;

/// Reads a tape: the header at once, then one record per call of `next`. Checks every digest.
///
/// After an error, and after the last record, `next` returns `None`.
#[derive(Debug)]
pub struct TapeReader<R> {
    input: R,
    header: TapeHeader,
    block: BlockLines,
    chain: Chain,
    /// Number of the last record that was read.
    number: u64,
    digests: BTreeMap<RealmNumber, TurnDigest>,
    blobs: Blobs,
    /// Canonical line of the last record that was read.
    canonical: Vec<u8>,
    /// Whether the end of the recording was read.
    is_complete: bool,
    is_over: bool,
    detour: SkippedBlocks<R>,
}

/// Lines of the current block.
#[derive(Debug)]
struct BlockLines {
    lines: Vec<u8>,
    /// Number of bytes that were read.
    at: usize,
    /// Number of records that were not read yet.
    left: u32,
}

impl BlockLines {
    /// Takes the next line; `None` if the block has no further complete line.
    fn next(&mut self) -> Option<Vec<u8>> {
        let length = self.lines[self.at..].iter().position(|byte| *byte == b'\n')?;
        let line = self.lines[self.at..self.at + length].to_vec();
        self.at += length + 1;
        self.left -= 1;
        Some(line)
    }
}

/// Blocks that a reader skips.
#[derive(Debug)]
struct SkippedBlocks<R> {
    gaps: VecDeque<Gap>,
    /// Realms of which some turns were skipped, so that their digests cannot be checked.
    realms: BTreeSet<RealmNumber>,
    seek: fn(&mut R, u64) -> io::Result<()>,
    passed: SkippedRecords,
}

/// Counts the records that a reader has skipped since the last call.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SkippedRecords {
    pub(crate) ticks: u64,
    pub(crate) realms: u64,
}

impl<R> Default for SkippedBlocks<R> {
    fn default() -> Self {
        let seek = |_: &mut R, _| Err(io::Error::from(io::ErrorKind::Unsupported));
        Self { gaps: VecDeque::new(), realms: BTreeSet::new(), seek, passed: SkippedRecords::default() }
    }
}

impl<R: Read + Seek> TapeReader<R> {
    /// Skips blocks that contain only turns of these realms. The realms' turns in other blocks are not checked.
    #[must_use]
    pub fn without(mut self, index: &TapeIndex, realms: BTreeSet<RealmNumber>) -> Self {
        let gaps =
            index.gaps(&realms).into_iter().filter(|gap| gap.from.first > self.number + u64::from(self.block.left));
        let seek = |input: &mut R, at| input.seek(SeekFrom::Start(at)).map(drop);
        self.detour = SkippedBlocks { gaps: gaps.collect(), realms, seek, passed: SkippedRecords::default() };
        self
    }
}

impl TapeReader<std::io::Empty> {
    /// Reads a tape that was unpacked to JSON lines, as `zstdcat` prints it.
    ///
    /// # Errors
    ///
    /// As [`TapeReader::new`].
    pub fn of_lines(lines: Vec<u8>) -> Result<Self, TapeError> {
        Self::of(std::io::empty(), lines)
    }
}

/// Payloads by digest.
#[derive(Debug, Default)]
struct Blobs {
    by_digest: BTreeMap<String, Rc<[u8]>>,
    bytes: usize,
}

impl<R: Read> TapeReader<R> {
    /// Reads and checks the header.
    ///
    /// # Errors
    ///
    /// Fails if there is no header, or if it has another version.
    pub fn new(input: R) -> Result<Self, TapeError> {
        Self::of(input, Vec::new())
    }

    fn of(input: R, lines: Vec<u8>) -> Result<Self, TapeError> {
        let records = lines.iter().filter(|byte| **byte == b'\n').count();
        let left = u32::try_from(records).map_err(|_| TapeError::at(1, TapeFault::NoTape))?;
        let mut reader = Self {
            input,
            header: TapeHeader::new("", pijs_engine::engine_build(), String::new()),
            block: BlockLines { lines, at: 0, left },
            chain: Chain::default(),
            number: 0,
            digests: BTreeMap::new(),
            blobs: Blobs::default(),
            canonical: Vec::new(),
            is_complete: false,
            is_over: false,
            detour: SkippedBlocks::default(),
        };
        let none = || TapeError::at(1, TapeFault::NoTape);
        let line = reader.next_line()?.ok_or_else(none)?;
        // The version is read first: a later header may have other members.
        let loose: serde_json::Value = serde_json::from_slice(&line).map_err(|_| none())?;
        for (what, expected) in [("schema", TAPE_SCHEMA), ("protocol", PROTOCOL_VERSION)] {
            let found = loose.pointer(&format!("/value/{what}")).and_then(|found| found.as_str()).unwrap_or_default();
            if found != expected {
                let (found, expected) = (format!("{found:?}"), format!("{expected:?}"));
                return Err(TapeError::at(1, TapeFault::Version { what, found, expected }));
            }
        }
        match record::decode(&line, 1, |_| None)?.event {
            Event::Header(header) => reader.header = *header,
            _ => return Err(none()),
        }
        Ok(reader)
    }

    /// Returns the header, whose settings a replay has to use.
    pub fn header(&self) -> &TapeHeader {
        &self.header
    }

    /// Returns the number of the last record that was read, from 1; the header is record 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns whether the recording ended by itself instead of being cut off. Valid after everything was read.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Returns the payload with a digest, if it has been read.
    pub fn blob(&self, digest: &str) -> Option<Rc<[u8]>> {
        self.blobs.by_digest.get(digest).cloned()
    }

    /// Returns the canonical line of the last record that was read.
    pub(crate) fn canonical(&self) -> &[u8] {
        &self.canonical
    }

    /// Returns the counts of records that were skipped since the last call.
    pub(crate) fn take_passed(&mut self) -> SkippedRecords {
        std::mem::take(&mut self.detour.passed)
    }

    /// Seeks over the blocks that begin with record `next`, if they are to be skipped. Returns the number of the next record.
    fn pass_gap(&mut self, next: u64) -> Result<u64, TapeError> {
        let Some(Gap { from, to }) = self.detour.gaps.pop_front_if(|gap| gap.from.first == next) else {
            return Ok(next);
        };
        (self.detour.seek)(&mut self.input, to.at)
            .map_err(|error| TapeError::at(next, TapeFault::Io(error.to_string())))?;
        self.chain = to.before;
        self.number = to.first.saturating_sub(1);
        self.detour.passed.ticks += to.ticks.saturating_sub(from.ticks);
        self.detour.passed.realms += to.opened.saturating_sub(from.opened);
        Ok(to.first)
    }

    fn next_line(&mut self) -> Result<Option<Vec<u8>>, TapeError> {
        let next = self.number + 1;
        let bad = |what| Err(TapeError::at(next, what));
        if self.block.left == 0 {
            if self.block.at < self.block.lines.len() {
                return bad(TapeFault::Block("a block has more records than its head says"));
            }
            let next = self.pass_gap(next)?;
            let Some(head) = block::read_head(&mut self.input, next)? else { return Ok(None) };
            let lines = head.read_lines(&mut self.input, &mut self.chain)?;
            self.block = BlockLines { lines, at: 0, left: head.records };
        }
        let Some(line) = self.block.next() else {
            return bad(TapeFault::Block("a block has fewer records than its head says"));
        };
        self.number += 1;
        Ok(Some(line))
    }

    fn read(&mut self) -> Result<Option<Record>, TapeError> {
        let Some(line) = self.next_line()? else { return Ok(None) };
        let number = self.number;
        let bad = |what| Err(TapeError::at(number, what));
        if self.is_complete {
            return bad(TapeFault::Order("something follows the end of the recording"));
        }
        let blobs = &self.blobs.by_digest;
        let record = record::decode(&line, number, |digest| Some(blobs.get(digest)?.to_vec()))?;
        match &record.event {
            Event::Header(_) => return bad(TapeFault::Order("a second header")),
            Event::Blob(blob) => self.blobs.keep(number, &blob.digest, &blob.base64)?,
            Event::Agent(_) if record.realm.0 == 0 => {}
            Event::End(_) => self.is_complete = true,
            _ => self.check(&line, &record)?,
        }
        Ok(Some(record))
    }

    /// Checks the order of records, and the digest at the end of a turn.
    fn check(&mut self, line: &[u8], record: &Record) -> Result<(), TapeError> {
        let number = self.number;
        let bad = |what| Err(TapeError::at(number, what));
        if self.detour.realms.contains(&record.realm) {
            return Ok(());
        }
        let is_new = matches!(record.event, Event::Open(_));
        if is_new == self.digests.contains_key(&record.realm) || record.realm.0 == 0 {
            let what = if is_new { "its realm was already opened" } else { "its realm was not opened" };
            return bad(TapeFault::Order(what));
        }
        if self.digests.len() >= MAX_REALMS {
            return bad(TapeFault::TooLarge { what: "realms", most: MAX_REALMS });
        }
        let ends_turn = record.event.as_ref().is_some_and(|event| event.ends_turn());
        self.canonical = match ends_turn.then(|| canonical_length(line)).flatten() {
            Some(length) => [&line[..length], b"}"].concat(),
            None => line.to_vec(),
        };
        let digest = self.digests.entry(record.realm).or_default();
        digest.add(&self.canonical);
        if ends_turn && record.digest.as_deref() != Some(digest.end_turn().as_str()) {
            return bad(TapeFault::Digest);
        }
        Ok(())
    }
}

/// Finds the end of the canonical part of a turn's last line.
fn canonical_length(line: &[u8]) -> Option<usize> {
    const BEHIND: &[u8] = b",\"heap\":";
    line.windows(BEHIND.len()).rposition(|window| window == BEHIND)
}

impl Blobs {
    fn keep(&mut self, record: u64, name: &str, base64: &str) -> Result<(), TapeError> {
        let bad = |what: &str| TapeError::at(record, TapeFault::Attachment(what.to_owned()));
        let bytes = BASE64.decode(base64).map_err(|error| bad(&error.to_string()))?;
        if digest(&bytes) != name {
            return Err(bad("its digest does not match"));
        }
        self.bytes += bytes.len();
        if self.bytes > MAX_BLOB_BYTES {
            return Err(TapeError::at(record, TapeFault::TooLarge { what: "payloads", most: MAX_BLOB_BYTES }));
        }
        self.by_digest.insert(name.to_owned(), bytes.into());
        Ok(())
    }
}

impl<R: Read> Iterator for TapeReader<R> {
    type Item = Result<Record, TapeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let read = self.read();
        self.is_over = !matches!(read, Ok(Some(_)));
        read.transpose()
    }
}
