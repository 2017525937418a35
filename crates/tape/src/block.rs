//! Encodes lines as blocks of a file.
//!
//! ```text
//! tape  = block*, index?                                                                     the index: `index.rs`
//! block = head, body
//! head  = a skippable zstd frame: "PIJSTAPE", version: u32, number of the first record: u64, records: u32,
//!         bytes of the lines: u32, bytes of the body: u32, digest: 32 bytes                numbers little-endian
//! body  = a zstd frame of whole lines
//! ```
//!
//! The digest is the SHA-256 of the previous block's digest (zeros for the first block), the fields, and the body, so that a
//! damaged, lost or moved block is detected. It uses no key, so it does not protect against forgery. Heads are skippable frames,
//! so `zstdcat` prints a tape as JSON lines. They contain lengths, so a reader finds any record without unpacking the blocks
//! before it.

use crate::error::{TapeError, TapeFault};
use crate::index::{self, TapeIndex};
use sha2::{Digest as _, Sha256};
use std::io::{self, Read, Write};

/// Version of the format that is written and read.
pub(crate) const VERSION: u32 = 1;

/// Maximum size of the lines of one block, in bytes.
pub(crate) const MAX_BYTES: usize = 384 << 20;

/// Magic number of the first kind of skippable frames.
const SKIPPABLE: u32 = 0x184D_2A50;
const MARK: &[u8; 8] = b"PIJSTAPE";
const DIGEST: usize = 32;
/// Length of the head in bytes, without the magic number, the length and the digest.
const FIELDS: usize = 8 + 4 + 8 + 4 + 4 + 4;
const HEAD: usize = 4 + 4 + FIELDS + DIGEST;
const LEVEL: i32 = 3;

/// Digest of a block, which includes the digest of the previous block.
pub(crate) type Chain = [u8; DIGEST];

/// Head of a block: number of its first record, and its sizes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    pub(crate) first: u64,
    pub(crate) records: u32,
    lines: u32,
    body: u32,
    digest: Chain,
}

fn fields(first: u64, records: u32, lines: u32, body: u32) -> [u8; FIELDS] {
    let mut fields = [0; FIELDS];
    fields[..8].copy_from_slice(MARK);
    fields[8..12].copy_from_slice(&VERSION.to_le_bytes());
    fields[12..20].copy_from_slice(&first.to_le_bytes());
    fields[20..24].copy_from_slice(&records.to_le_bytes());
    fields[24..28].copy_from_slice(&lines.to_le_bytes());
    fields[28..32].copy_from_slice(&body.to_le_bytes());
    fields
}

fn link(before: &Chain, fields: &[u8], body: &[u8]) -> Chain {
    Sha256::new().chain_update(before).chain_update(fields).chain_update(body).finalize().into()
}

/// Writes lines as one block.
pub(crate) fn write(
    out: &mut impl Write,
    chain: &mut Chain,
    first: u64,
    records: u32,
    lines: &[u8],
) -> io::Result<u64> {
    let too_large = || io::Error::other("a record is too large for a tape");
    if lines.len() > MAX_BYTES {
        return Err(too_large());
    }
    let body = zstd::bulk::compress(lines, LEVEL)?;
    let length = |bytes: usize| u32::try_from(bytes).map_err(|_| too_large());
    let fields = fields(first, records, length(lines.len())?, length(body.len())?);
    let digest = link(chain, &fields, &body);
    let mut block = Vec::with_capacity(HEAD + body.len());
    block.extend_from_slice(&SKIPPABLE.to_le_bytes());
    block.extend_from_slice(
        &u32::try_from(FIELDS + DIGEST).expect("the length of the header fits into 32 bits").to_le_bytes(),
    );
    block.extend_from_slice(&fields);
    block.extend_from_slice(&digest);
    block.extend_from_slice(&body);
    // Written in one piece, so that a kill leaves either a whole block or a part of the last one.
    out.write_all(&block)?;
    *chain = digest;
    Ok(block.len() as u64)
}

/// Reads the next head; `None` at the end of the tape. `next` is the expected number of the first record.
pub(crate) fn read_head(input: &mut impl Read, next: u64) -> Result<Option<Head>, TapeError> {
    let bad = |what| TapeError::at(next, what);
    let mut head = [0; HEAD];
    let read = fill(input, &mut head).map_err(|error| bad(TapeFault::Io(error.to_string())))?;
    if read > 0 && next > 1 && head[..read.min(4)] == index::SKIPPABLE.to_le_bytes()[..read.min(4)] {
        let mut frame = head[..read].to_vec();
        input.take(MAX_BYTES as u64).read_to_end(&mut frame).map_err(|error| bad(TapeFault::Io(error.to_string())))?;
        return TapeIndex::parse(&frame).map(|_| None).map_err(bad);
    }
    let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("the slice has four bytes"));
    let is_begin = |bytes: &[u8], of: &[u8]| of.starts_with(bytes);
    let fits = is_begin(&head[..read.min(4)], &SKIPPABLE.to_le_bytes())
        && (read < 8 || is_begin(&head[8..read.min(16)], MARK));
    if !fits {
        return Err(bad(if next == 1 { TapeFault::NoTape } else { TapeFault::Block("a block has no valid head") }));
    }
    match read {
        0 if next == 1 => return Err(bad(TapeFault::NoTape)),
        0 => return Ok(None),
        HEAD => {}
        _ => return Err(bad(TapeFault::Cut)),
    }
    if word(16) != VERSION {
        let (found, expected) = (word(16).to_string(), VERSION.to_string());
        return Err(bad(TapeFault::Version { what: "the version of its container", found, expected }));
    }
    let first = u64::from_le_bytes(head[20..28].try_into().expect("the slice has eight bytes"));
    let digest = head[HEAD - DIGEST..].try_into().expect("the slice has the length of a digest");
    let head = Head { first, records: word(28), lines: word(32), body: word(36), digest };
    if word(4) as usize != FIELDS + DIGEST || first != next || head.records == 0 {
        return Err(bad(TapeFault::Block("the head of a block is inconsistent")));
    }
    if head.lines as usize > MAX_BYTES || head.body as usize > MAX_BYTES {
        return Err(bad(TapeFault::TooLarge { what: "a block", most: MAX_BYTES }));
    }
    Ok(Some(head))
}

impl Head {
    /// Reads the lines of this block.
    pub(crate) fn read_lines(&self, input: &mut impl Read, chain: &mut Chain) -> Result<Vec<u8>, TapeError> {
        let bad = |what| TapeError::at(self.first, what);
        let io = |error: io::Error| bad(TapeFault::Io(error.to_string()));
        let mut body = Vec::new();
        // The buffer grows with the received bytes, so that a wrong length allocates nothing.
        input.take(u64::from(self.body)).read_to_end(&mut body).map_err(io)?;
        if body.len() < self.body as usize {
            return Err(bad(TapeFault::Cut));
        }
        let fields = fields(self.first, self.records, self.lines, self.body);
        let digest = link(chain, &fields, &body);
        if digest != self.digest {
            return Err(bad(TapeFault::Block("a block's digest does not match")));
        }
        let damaged = |_| bad(TapeFault::Block("a block cannot be unpacked"));
        let mut lines = Vec::new();
        let mut decoder = zstd::stream::read::Decoder::with_buffer(body.as_slice()).map_err(damaged)?.single_frame();
        decoder.by_ref().take(u64::from(self.lines) + 1).read_to_end(&mut lines).map_err(damaged)?;
        if lines.len() != self.lines as usize {
            return Err(bad(TapeFault::Block("the length of a block does not match its head")));
        }
        *chain = digest;
        Ok(lines)
    }
}

/// Reads until `buffer` is full or the input ends. Returns the number of bytes.
fn fill(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut read = 0;
    while read < buffer.len() {
        match input.read(&mut buffer[read..]) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}
