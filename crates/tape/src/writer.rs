//! Encodes messages on wires as lines, and writes lines as blocks.

use crate::agent_record::AgentRecord;
use crate::block::{self, Chain};
use crate::digest::TurnDigest;
use crate::header::TapeHeader;
use crate::index::{Indexer, Subject};
use crate::record::{self, Blob, Encoded, End, Event, EventRef, RealmNumber};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use pijs_protocol::wire::Usage;
use pijs_redact::Substitutes;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

/// Size in bytes of the lines of a block. Large enough for compression to find repetitions, and small enough that a reader that
/// seeks unpacks little in vain.
const BLOCK_BYTES: usize = 256 << 10;

/// Encodes the messages on the wires of all realms of a session as lines.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    /// Placeholders for secrets; `None` writes texts unchanged.
    substitutes: Option<Substitutes>,
    digests: BTreeMap<RealmNumber, TurnDigest>,
    /// Digests of the payloads that are already on the tape.
    blobs: BTreeSet<String>,
    turns: u64,
}

impl Encoder {
    pub(crate) fn new(substitutes: Option<Substitutes>) -> Self {
        Self { substitutes, ..Self::default() }
    }

    /// Encodes a message on a wire. Returns the lines of new payloads that it refers to, then its own line.
    pub(crate) fn encode(&mut self, realm: RealmNumber, event: EventRef<'_>) -> io::Result<Vec<Vec<u8>>> {
        if let Some(substitutes) = &mut self.substitutes {
            substitutes.refresh();
        }
        let Encoded { mut line, blobs } = self.canonical(realm, event)?;
        let mut lines = Vec::with_capacity(blobs.len() + 1);
        for (digest, bytes) in blobs {
            lines.extend(self.blob(digest, &bytes)?);
        }
        let digest = self.digests.entry(realm).or_default();
        digest.add(&line);
        if event.ends_turn() {
            self.turns += 1;
            let heap = match event {
                EventRef::Yield(output) => output.usage.heap_bytes,
                _ => Usage::default().heap_bytes,
            };
            record::append_end(&mut line, heap, &digest.end_turn());
        }
        lines.push(line);
        Ok(lines)
    }

    /// Encodes the canonical line of a message on a wire, without secrets.
    pub(crate) fn canonical(&self, realm: RealmNumber, event: EventRef<'_>) -> io::Result<Encoded> {
        let change = |bytes: &[u8]| self.substitutes.as_ref().and_then(|known| known.bytes(bytes));
        let Encoded { line, blobs } = record::encode(realm, event, change)?;
        Ok(Encoded { line: self.without_secrets(line)?, blobs })
    }

    /// Encodes a message on a port of the agent.
    pub(crate) fn agent(&mut self, mut record: AgentRecord) -> io::Result<Vec<u8>> {
        if let (Some(substitutes), Some(value)) = (&mut self.substitutes, record.value_mut()) {
            substitutes.refresh();
            if substitutes.may_be_in(&serde_json::to_vec(value)?) {
                *value = substitutes.value(value.take());
            }
        }
        Ok(record::encode_own(&Event::Agent(Box::new(record.outlined())))?)
    }

    /// Encodes a payload; `None` if it is already on the tape.
    pub(crate) fn blob(&mut self, digest: String, bytes: &[u8]) -> io::Result<Option<Vec<u8>>> {
        if !self.blobs.insert(digest.clone()) {
            return Ok(None);
        }
        let blob = Blob { digest, base64: BASE64.encode(bytes) };
        Ok(Some(record::encode_own(&Event::Blob(blob))?))
    }

    /// Returns a text in which placeholders replace secrets; `None` if it has none.
    pub(crate) fn text_without_secrets(&self, text: &[u8]) -> Option<Vec<u8>> {
        self.substitutes.as_ref()?.bytes(text)
    }

    pub(crate) fn header(&self, header: &TapeHeader) -> io::Result<Vec<u8>> {
        Ok(record::encode_own(&Event::Header(Box::new(header.clone())))?)
    }

    pub(crate) fn end(&self) -> io::Result<Vec<u8>> {
        Ok(record::encode_own(&Event::End(End { turns: self.turns }))?)
    }

    fn without_secrets(&self, line: Vec<u8>) -> io::Result<Vec<u8>> {
        let Some(known) = self.substitutes.as_ref().filter(|known| known.may_be_in(&line)) else { return Ok(line) };
        let mut value: Value = record::read_json(&line)?;
        for member in ["value", "bytes"] {
            if let Some(member) = value.get_mut(member) {
                *member = known.value(member.take());
            }
        }
        let changed = serde_json::to_vec(&value)?;
        // A secret may equal a word of the format. Then the write fails, because the line would contain the secret or be invalid.
        let readable = record::decode(&changed, 0, |_| Some(Vec::new()));
        readable.map_err(|_| io::Error::other("a secret of this session spells a word of the format"))?;
        Ok(changed)
    }
}

/// Collects lines and writes them as blocks.
#[derive(Debug)]
pub(crate) struct BlockWriter<W> {
    out: W,
    chain: Chain,
    lines: Vec<u8>,
    records: u32,
    first: u64,
    indexer: Indexer,
}

impl<W: Write> BlockWriter<W> {
    pub(crate) fn new(out: W) -> Self {
        Self { out, chain: Chain::default(), lines: Vec::new(), records: 0, first: 1, indexer: Indexer::default() }
    }

    /// Adds a line without a line break. Writes a block when enough lines were collected.
    pub(crate) fn append(&mut self, line: &[u8], subject: Subject<'_>) -> io::Result<()> {
        if self.lines.len() + line.len() >= block::MAX_BYTES {
            self.flush()?;
        }
        self.indexer.line(subject);
        self.lines.extend_from_slice(line);
        self.lines.push(b'\n');
        self.records += 1;
        if self.lines.len() >= BLOCK_BYTES { self.flush() } else { Ok(()) }
    }

    /// Writes the collected lines.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if self.records == 0 {
            return Ok(());
        }
        let before = self.chain;
        let bytes = block::write(&mut self.out, &mut self.chain, self.first, self.records, &self.lines)?;
        self.indexer.block(self.first, before, bytes);
        self.first += u64::from(self.records);
        self.records = 0;
        self.lines.clear();
        self.lines.shrink_to(4 * BLOCK_BYTES);
        self.out.flush()
    }

    /// Adds the lines that encode a message on the wire of a realm.
    pub(crate) fn append_wire(&mut self, realm: RealmNumber, event: EventRef<'_>, lines: &[Vec<u8>]) -> io::Result<()> {
        let Some((line, payloads)) = lines.split_last() else { return Ok(()) };
        payloads.iter().try_for_each(|payload| self.append(payload, Subject::All))?;
        self.append(line, Subject::Wire(realm, event))
    }

    /// Writes the collected lines and the index.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.flush()?;
        self.indexer.finish(&mut self.out)?;
        self.out.flush()
    }
}

/// Writes a tape to any byte stream, on the calling thread. A session records with a [`Recorder`](crate::Recorder), which writes
/// on a separate thread.
///
/// ```
/// use pijs_protocol::Yield;
/// use pijs_protocol::artifact::EngineBuild;
/// use pijs_tape::{EventRef, RealmNumber, TapeHeader, TapeReader, TapeWriter};
/// # use pijs_protocol::{Now, wire::{Limits, RealmOptions}};
/// # let options = RealmOptions { extension: "npm:a".into(), limits: Limits::default(), seed: 7, clock_step_us: 1,
/// #     time_zone: "UTC".into(), facts: Default::default() };
/// # let opening = pijs_tape::Opening { options, now: Now::default(), modules: Vec::new() };
///
/// let engine = EngineBuild { name: "quickjs-ng".into(), version: "0".into(), bytecode: 1, target: "x86_64-le-64".into() };
/// let mut tape = TapeWriter::new(Vec::new(), &TapeHeader::new("0.1.0", engine, "sha256:00".into()))?;
/// tape.append(RealmNumber(1), EventRef::Open(&opening))?;
/// tape.append(RealmNumber(1), EventRef::Yield(&Yield::default()))?;
/// let bytes = tape.finish()?;
///
/// let mut reader = TapeReader::new(bytes.as_slice())?;
/// assert_eq!(reader.header().pi, "0.1.0");
/// assert_eq!(reader.next().expect("a record")?.event.kind(), "open");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TapeWriter<W> {
    encoder: Encoder,
    blocks: BlockWriter<W>,
}

impl<W: Write> TapeWriter<W> {
    /// Begins a tape by writing the header.
    ///
    /// # Errors
    ///
    /// Fails if `out` cannot be written.
    pub fn new(out: W, header: &TapeHeader) -> io::Result<Self> {
        let (encoder, mut blocks) = (Encoder::default(), BlockWriter::new(out));
        blocks.append(&encoder.header(header)?, Subject::All)?;
        blocks.flush()?;
        Ok(Self { encoder, blocks })
    }

    /// Begins a tape with placeholders in place of secrets.
    ///
    /// # Errors
    ///
    /// Fails if `out` cannot be written.
    pub fn redacting(out: W, header: &TapeHeader, substitutes: Substitutes) -> io::Result<Self> {
        let mut tape = Self::new(out, header)?;
        tape.encoder.substitutes = Some(substitutes);
        Ok(tape)
    }

    /// Returns a text in which placeholders replace secrets; `None` if it has none.
    pub(crate) fn without_secrets(&self, text: &[u8]) -> Option<Vec<u8>> {
        self.encoder.text_without_secrets(text)
    }

    /// Adds a message that just crossed the wire of a realm.
    ///
    /// # Errors
    ///
    /// Fails if `out` cannot be written.
    pub fn append(&mut self, realm: RealmNumber, event: EventRef<'_>) -> io::Result<()> {
        let lines = self.encoder.encode(realm, event)?;
        self.blocks.append_wire(realm, event, &lines)
    }

    /// Adds a message that just crossed a port of the agent.
    ///
    /// # Errors
    ///
    /// Fails if `out` cannot be written.
    pub fn append_agent(&mut self, record: AgentRecord) -> io::Result<()> {
        let line = self.encoder.agent(record)?;
        self.blocks.append(&line, Subject::Agent)
    }

    /// Adds a payload of another tape, before the records that refer to it.
    ///
    /// # Errors
    ///
    /// Fails if `out` cannot be written.
    pub fn append_blob(&mut self, blob: &Blob) -> io::Result<()> {
        match self.encoder.blobs.insert(blob.digest.clone()) {
            true => self.blocks.append(&record::encode_own(&Event::Blob(blob.clone()))?, Subject::All),
            false => Ok(()),
        }
    }

    /// Writes everything that was added so far.
    ///
    /// # Errors
    ///
    /// Fails if `out` cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.blocks.flush()
    }

    /// Ends the tape and returns `out`.
    ///
    /// # Errors
    ///
    /// Fails if `out` cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.blocks.append(&self.encoder.end()?, Subject::All)?;
        self.blocks.finish()?;
        Ok(self.blocks.out)
    }
}
