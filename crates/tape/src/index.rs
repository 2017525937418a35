//! Reads and writes the index at the end of a tape, with which a reader of only some realms skips the blocks of the others.
//!
//! ```text
//! index = a skippable zstd frame: "PIJSINDX", digest: 32 bytes, body, bytes of the frame: u32, "PIJSINDX"
//! body  = a zstd frame of one JSON document
//! ```
//!
//! The index repeats information of the blocks, so a tape without an index, or with one that was cut off, is still valid. The
//! digest detects damage. A wrong index is detected after a seek, because each block names its first record.

use crate::block::{Chain, MAX_BYTES};
use crate::error::{TapeError, TapeFault};
use crate::record::{EventRef, RealmNumber};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;
use std::io::{self, Read, Seek, SeekFrom, Write};

/// Magic number of the second kind of skippable frames.
pub(crate) const SKIPPABLE: u32 = 0x184D_2A51;
pub(crate) const MARK: &[u8; 8] = b"PIJSINDX";
const LEVEL: i32 = 3;
/// Length in bytes of magic number, length, mark and digest.
const FRONT: usize = 4 + 4 + 8 + 32;
/// Length in bytes of the frame's length and the second mark, which a reader finds from the end.
const BACK: usize = 4 + 8;

/// Lists the blocks of a tape, with the realms of each.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TapeIndex {
    blocks: Vec<BlockEntry>,
    /// Realms that were terminated, with the tick of the termination.
    ended: Vec<(RealmNumber, u64)>,
    /// Names of the module sets whose sources are not on the tape.
    supplied: Vec<String>,
}

/// Index entry of a block.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BlockEntry {
    /// Offset of the block in the file.
    pub(crate) at: u64,
    /// Number of the block's first record.
    pub(crate) first: u64,
    /// Digest of the previous block.
    pub(crate) before: Chain,
    /// Number of ticks that began before the block.
    pub(crate) ticks: u64,
    /// Number of realms that were opened before the block.
    pub(crate) opened: u64,
    /// Realms with records in the block.
    realms: BTreeSet<RealmNumber>,
    /// Whether the block contains more than turns: payloads, the header, or the end.
    has_more: bool,
}

/// Consecutive blocks that a reader skips.
#[derive(Debug, Clone)]
pub(crate) struct Gap {
    pub(crate) from: BlockEntry,
    pub(crate) to: BlockEntry,
}

impl TapeIndex {
    /// Reads the index of a tape; `None` if it has none, for example because the recording was cut off. The position of the input
    /// is unspecified afterwards.
    ///
    /// # Errors
    ///
    /// Fails if the input cannot be read or the index is damaged.
    pub fn of(tape: &mut (impl Read + Seek)) -> Result<Option<Self>, TapeError> {
        let mut back = [0; BACK];
        let length = tape.seek(SeekFrom::End(0))?;
        if length < (FRONT + BACK) as u64 {
            return Ok(None);
        }
        tape.seek(SeekFrom::Start(length - BACK as u64))?;
        tape.read_exact(&mut back)?;
        let frame = u64::from(u32::from_le_bytes(back[..4].try_into().expect("the slice has four bytes")));
        if &back[4..] != MARK || frame > length || frame > MAX_BYTES as u64 {
            return Ok(None);
        }
        tape.seek(SeekFrom::Start(length - frame))?;
        let mut bytes = Vec::new();
        tape.take(frame).read_to_end(&mut bytes)?;
        match Self::parse(&bytes) {
            Ok(index) => Ok(Some(index)),
            // A tape that was cut off after the first mark of its index ends like one with an index.
            Err(TapeFault::Cut) => Ok(None),
            Err(what) => Err(TapeError::at(0, what)),
        }
    }

    /// Returns the realms that were terminated before a tick.
    pub fn ended_before(&self, tick: u64) -> BTreeSet<RealmNumber> {
        self.ended.iter().filter(|(_, at)| *at < tick).map(|(realm, _)| *realm).collect()
    }

    /// Returns the names of the module sets whose sources are not on the tape.
    pub fn supplied(&self) -> &[String] {
        &self.supplied
    }

    /// Returns the runs of blocks that contain only turns of these realms.
    pub(crate) fn gaps(&self, realms: &BTreeSet<RealmNumber>) -> Vec<Gap> {
        let mut gaps: Vec<Gap> = Vec::new();
        for (block, next) in self.blocks.iter().zip(self.blocks.iter().skip(1)) {
            if block.has_more || !block.realms.is_subset(realms) {
                continue;
            }
            match gaps.last_mut() {
                Some(gap) if gap.to.first == block.first => gap.to = next.clone(),
                _ => gaps.push(Gap { from: block.clone(), to: next.clone() }),
            }
        }
        gaps
    }

    /// Parses the frame of an index.
    pub(crate) fn parse(frame: &[u8]) -> Result<Self, TapeFault> {
        const DAMAGED: TapeFault = TapeFault::Block("the index is damaged");
        let length = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX).to_le_bytes();
        let is_whole = frame.len() >= FRONT + BACK
            && frame[..4] == SKIPPABLE.to_le_bytes()
            && frame[4..8] == length(frame.len() - 8)
            && &frame[8..16] == MARK
            && frame[frame.len() - BACK..frame.len() - 8] == length(frame.len())
            && &frame[frame.len() - 8..] == MARK;
        if !is_whole {
            return Err(if frame.len() < FRONT + BACK || frame[4..8] != length(frame.len() - 8) {
                TapeFault::Cut
            } else {
                DAMAGED
            });
        }
        let body = &frame[FRONT..frame.len() - BACK];
        if Sha256::digest(body)[..] != frame[16..FRONT] {
            return Err(DAMAGED);
        }
        let mut json = Vec::new();
        let decoder = zstd::stream::read::Decoder::with_buffer(body).map_err(|_| DAMAGED)?;
        decoder.take(MAX_BYTES as u64).read_to_end(&mut json).map_err(|_| DAMAGED)?;
        serde_json::from_slice(&json).map_err(|_| DAMAGED)
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let body = zstd::bulk::compress(&serde_json::to_vec(self)?, LEVEL)?;
        let whole = FRONT + body.len() + BACK;
        let length = |bytes: usize| {
            u32::try_from(bytes).map(u32::to_le_bytes).map_err(|_| io::Error::other("the index is too large"))
        };
        let mut frame = Vec::with_capacity(whole);
        frame.extend_from_slice(&SKIPPABLE.to_le_bytes());
        frame.extend_from_slice(&length(whole - 8)?);
        frame.extend_from_slice(MARK);
        frame.extend_from_slice(&Sha256::digest(&body));
        frame.extend_from_slice(&body);
        frame.extend_from_slice(&length(whole)?);
        frame.extend_from_slice(MARK);
        out.write_all(&frame)
    }
}

/// Subject of a line of a tape.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Subject<'a> {
    /// The header, a payload or the end, which every reader needs.
    All,
    /// A port of the agent, which belongs to no realm.
    Agent,
    /// The wire of a realm.
    Wire(RealmNumber, EventRef<'a>),
}

/// Builds the index of a tape while it is written.
#[derive(Debug, Default)]
pub(crate) struct Indexer {
    index: TapeIndex,
    /// Entry of the block that is being filled.
    block: BlockEntry,
    ticks: u64,
    opened: u64,
}

impl Indexer {
    /// Records a line.
    pub(crate) fn line(&mut self, subject: Subject<'_>) {
        let (realm, event) = match subject {
            Subject::All => return self.block.has_more = true,
            Subject::Agent => return,
            Subject::Wire(realm, event) => (realm, event),
        };
        self.block.realms.insert(realm);
        match event {
            EventRef::Open(opening) => {
                (self.ticks, self.opened) = (self.ticks + 1, self.opened + 1);
                for set in opening.modules.iter().filter(|set| set.source.is_none()) {
                    if !self.index.supplied.contains(&set.name) {
                        self.index.supplied.push(set.name.clone());
                    }
                }
            }
            EventRef::Delivery(_) => self.ticks += 1,
            EventRef::Termination(_) => self.index.ended.push((realm, self.ticks)),
            _ => {}
        }
    }

    /// Records that a block was written with the lines so far.
    pub(crate) fn block(&mut self, first: u64, before: Chain, bytes: u64) {
        let next =
            BlockEntry { at: self.block.at + bytes, ticks: self.ticks, opened: self.opened, ..BlockEntry::default() };
        let block = std::mem::replace(&mut self.block, next);
        self.index.blocks.push(BlockEntry { first, before, ..block });
    }

    /// Writes the index.
    pub(crate) fn finish(&self, out: &mut impl Write) -> io::Result<()> {
        self.index.write(out)
    }
}
