//! The frames that carry deliveries and yields between a host and a worker process.
//!
//! ```text
//! frame   = length: u32, kind: u8, body                         all numbers little-endian
//! message = "J" or "F", length: u32, JSON header, attachments of each carrier in order
//! carrier = count: u32, then per attachment length: u32, bytes
//! delta   = "D", seq, epoch_ms, elapsed_us: u64, piece
//! deltas  = "B", seq, epoch_ms, elapsed_us, slice_us: u64, count: u32, pieces
//! piece   = attempt: u32, source: u8, stream: u32, chunk, tool name, paths
//! yield   = "C", usage
//! passed  = "P", usage, count: u32, goes on: u8
//! usage   = jobs: u32, fuel: u64, clock reads: u32, random draws: u32, heap bytes: u64
//! ```
//!
//! A carrier is a `HostCall` or `HostResult` inside the message: its raw bytes are not JSON. A state delta is a header without
//! values, followed by two more lists of attachments: the JSON of each member, and of each entry. A long one is split over
//! several frames before the frame of its message. Deltas and empty yields have separate encodings, because one of each is sent
//! for every token of a model. Deltas that arrived together are sent together: see [`ToWorker::Deltas`].
//!
//! In a header of kind "F" deeply nested values are folded into text (see [`fold`]): only hosts send it, for values that are
//! deeper than the JSON reader accepts.
//!
//! Invariants: decoding never panics, never reads past its input, and allocates at most the length of the input plus a constant;
//! trailing bytes are an error.

mod fold;
pub(crate) mod state;

use crate::seal::Sealed;
use pijs_protocol::message::Message;
use pijs_protocol::wire::{Json, RealmOptions, StateDelta, StreamAnswer, Task};
use pijs_protocol::{Delivery, HostCall, Now, Seq, StreamDelta, StreamSource, SyncReply, Termination, Usage, Yield};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Maximum length of a frame without its prefix, in both directions.
pub const MAX_FRAME: usize = 128 << 20;

/// Version of this format; a worker sends it first.
pub const WIRE_VERSION: u32 = 6;

/// Length of the prefix in bytes.
pub(crate) const PREFIX: usize = 4;

/// Maximum nesting of a header.
const MAX_DEPTH: usize = 512;

/// Size of a state delta in bytes after which it continues in another frame. A frame then still has room for any message.
const STATE_BYTES: usize = 16 << 20;

/// Maximum number of values in a header. Each costs its reader about a hundred bytes, even if its text is short.
const MAX_VALUES: usize = 2 << 20;

const MESSAGE: u8 = b'J';
const FOLDED: u8 = b'F';
const DELTA: u8 = b'D';
const DELTAS: u8 = b'B';
const CONTINUE: u8 = b'C';
const PASSED: u8 = b'P';

/// Minimum length of a piece in bytes, which bounds the allocation for a wrong count.
const PIECE: usize = 21;

/// A message from host to worker.
#[derive(Debug, Clone, PartialEq)]
pub enum ToWorker {
    /// Creates the realm. The first frame; exactly one.
    Open(Box<Open>),
    /// Evaluates the runtime without sealing the process, so that the process can be forked. Replaces [`ToWorker::Open`], which
    /// each copy receives.
    Raise(Box<Open>),
    /// A part of a state delta; the next delivery or reply completes it.
    State(Box<StateDelta>),
    /// Runs a macrotask.
    Deliver(Box<Delivery>),
    /// Answers the pending [`FromWorker::Call`].
    Reply(Box<SyncReply>),
    /// Runs a delta.
    Delta {
        /// Sequence number in the realm's order.
        seq: Seq,
        /// Time at the start of the turn.
        now: Now,
        /// The delta.
        delta: StreamDelta,
    },
    /// Runs deltas, each as a separate turn, until one has an effect. Later ones are not run.
    Deltas {
        /// Sequence number of the first delta; the following ones count up from it.
        seq: Seq,
        /// Time at the start of the first turn.
        now: Now,
        /// Time after the start of the first turn, in microseconds, from which no further turn starts.
        slice_us: u64,
        /// The deltas, at least one.
        deltas: Vec<StreamDelta>,
    },
}

/// Options and code of a realm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Open {
    /// Limits and facts.
    pub options: RealmOptions,
    /// Time at which the runtime is evaluated.
    pub now: Now,
    /// Artifacts in load order: host modules first.
    pub artifacts: Vec<ArtifactCode>,
}

/// The executable part of an artifact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArtifactCode {
    /// Package name.
    pub name: String,
    /// Package version.
    pub version: String,
    /// Names of the modules.
    pub specifiers: Vec<String>,
    /// Location of the bytecode in shared memory; `None` if it is in `bytecode`.
    #[serde(rename = "shelved", default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<SharedBytecode>,
    /// Bytecode of the modules, in the same order; empty if it is in shared memory.
    #[serde(skip)]
    pub bytecode: Vec<Vec<u8>>,
}

/// Bytecode in a file that was passed before the first frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedBytecode {
    /// Index of the file.
    pub file: usize,
    /// Lengths of the modules' bytecode, which is stored contiguously.
    pub lengths: Vec<usize>,
}

/// A message from worker to host.
#[derive(Debug, Clone, PartialEq)]
pub enum FromWorker {
    /// The process entered its worker loop. The first frame.
    Hello {
        /// [`WIRE_VERSION`].
        wire: u32,
    },
    /// The realm exists and the process is sealed; the runtime is evaluated next.
    Ready(Sealed),
    /// The realm could not be created.
    Failed {
        /// The reason.
        message: String,
    },
    /// A synchronous hostcall; the turn continues with its reply.
    Call(HostCall),
    /// The end of a turn.
    Yielded(Yield),
    /// The end of the realm; the process exits.
    Ended(Termination),
    /// The first of [`ToWorker::Deltas`] passed without an effect.
    Passed(Passed),
    /// This process was forked. Answers the socket that was sent for the copy.
    Forked {
        /// Process id of the copy.
        process: i32,
    },
}

/// A number of deltas whose turns ended with *continue*, without a message or a hostcall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passed {
    /// Resource usage of their turns.
    pub usage: Usage,
    /// Number of the deltas, at least one.
    pub count: usize,
    /// Whether the frames of the next delta's turn follow. If not, that turn has not begun.
    pub goes_on: bool,
}

/// An error in the encoding of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FrameError {
    /// Longer than [`MAX_FRAME`].
    TooLarge {
        /// Length of the frame.
        bytes: usize,
    },
    /// The frame ends inside a field.
    Truncated,
    /// Bytes follow the end of the frame.
    Trailing {
        /// Number of bytes.
        bytes: usize,
    },
    /// A kind that is unknown in this direction.
    Kind(u8),
    /// An unknown stream source.
    Source(u8),
    /// Text that is not UTF-8.
    Text,
    /// A header that is nested too deeply.
    TooDeep,
    /// A header with too many values.
    TooMany,
    /// The JSON header is malformed or does not match the types.
    Head(String),
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { bytes } => write!(f, "a frame of {bytes} bytes exceeds the limit of {MAX_FRAME}"),
            Self::Truncated => f.write_str("a frame that ends inside a field"),
            Self::Trailing { bytes } => write!(f, "{bytes} bytes after the content of a frame"),
            Self::Kind(kind) => write!(f, "a frame of unexpected kind {kind}"),
            Self::Source(source) => write!(f, "a delta of unknown source {source}"),
            Self::Text => f.write_str("text that is not UTF-8"),
            Self::TooDeep => write!(f, "a header nested more than {MAX_DEPTH} levels deep"),
            Self::TooMany => write!(f, "a header with more than {MAX_VALUES} values"),
            Self::Head(error) => write!(f, "an invalid header: {error}"),
        }
    }
}

impl std::error::Error for FrameError {}

/// The attachments of one carrier.
type Attachments = Vec<Vec<u8>>;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum HeadToWorker {
    Open(Box<Open>),
    Raise(Box<Open>),
    State(Box<StateDelta>),
    Deliver(Box<Delivery>),
    Reply(Box<SyncReply>),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum HeadFromWorker {
    Hello { wire: u32 },
    Ready(Sealed),
    Failed { message: String },
    Call(HostCall),
    Yielded(Yield),
    Ended(Termination),
    Forked { process: i32 },
}

/// A header with carriers, in the same order on both sides.
trait Head: Serialize + DeserializeOwned {
    fn carriers(&mut self) -> Vec<&mut Attachments>;

    /// Returns the state delta, if the message has one. Its JSON texts follow the header unparsed.
    fn state(&mut self) -> Option<&mut StateDelta> {
        None
    }
}

impl Head for HeadToWorker {
    fn carriers(&mut self) -> Vec<&mut Attachments> {
        match self {
            Self::Open(open) | Self::Raise(open) => open.artifacts.iter_mut().map(|code| &mut code.bytecode).collect(),
            Self::Deliver(delivery) => match &mut delivery.task {
                Task::Message(message) => carrier(message).into_iter().collect(),
                Task::Stream(_) => Vec::new(),
            },
            Self::Reply(reply) => vec![&mut reply.result.bytes],
            Self::State(_) => Vec::new(),
        }
    }

    fn state(&mut self) -> Option<&mut StateDelta> {
        match self {
            Self::Open(_) | Self::Raise(_) => None,
            Self::State(state) => Some(state),
            Self::Deliver(delivery) => delivery.state.as_mut(),
            Self::Reply(reply) => reply.state.as_mut(),
        }
    }
}

impl Head for HeadFromWorker {
    fn carriers(&mut self) -> Vec<&mut Attachments> {
        match self {
            Self::Call(call) => vec![&mut call.bytes],
            Self::Yielded(done) => done.messages.iter_mut().filter_map(carrier).collect(),
            Self::Hello { .. } | Self::Ready(_) | Self::Failed { .. } | Self::Ended(_) | Self::Forked { .. } => {
                Vec::new()
            }
        }
    }
}

fn carrier(message: &mut Message) -> Option<&mut Attachments> {
    match message {
        Message::HostCall(call) => Some(&mut call.bytes),
        Message::HostResult(result) => Some(&mut result.bytes),
        _ => None,
    }
}

impl ToWorker {
    /// Appends the frame with its prefix to `out`, after the frames of a long state delta. On an error `out` is unchanged.
    pub fn encode(self, out: &mut Vec<u8>) -> Result<(), FrameError> {
        let mut head = match self {
            Self::Open(open) => HeadToWorker::Open(open),
            Self::Raise(open) => HeadToWorker::Raise(open),
            Self::State(state) => HeadToWorker::State(state),
            Self::Deliver(delivery) => HeadToWorker::Deliver(delivery),
            Self::Reply(reply) => HeadToWorker::Reply(reply),
            Self::Delta { seq, now, delta } => return encode_delta(seq, now, &delta, out),
            Self::Deltas { seq, now, slice_us, deltas } => return encode_deltas(seq, now, slice_us, &deltas, out),
        };
        let before = out.len();
        let parts = head.state().map(state::first_parts).unwrap_or_default();
        let mut frames = parts.into_iter().map(|part| HeadToWorker::State(Box::new(part))).chain([head]);
        frames.try_for_each(|mut head| encode_message(&mut head, out)).inspect_err(|_| out.truncate(before))
    }

    /// Decodes a frame without its prefix.
    pub fn decode(frame: &[u8]) -> Result<Self, FrameError> {
        let mut cursor = Cursor(frame);
        match cursor.u8()? {
            kind @ (MESSAGE | FOLDED) => Ok(match decode_message(cursor, kind == FOLDED)? {
                HeadToWorker::Open(open) => Self::Open(open),
                HeadToWorker::Raise(open) => Self::Raise(open),
                HeadToWorker::State(state) => Self::State(state),
                HeadToWorker::Deliver(delivery) => Self::Deliver(delivery),
                HeadToWorker::Reply(reply) => Self::Reply(reply),
            }),
            DELTA => decode_delta(cursor),
            DELTAS => decode_deltas(cursor),
            kind => Err(FrameError::Kind(kind)),
        }
    }
}

impl FromWorker {
    /// Appends the frame with its prefix to `out`. On an error `out` is unchanged.
    pub fn encode(self, out: &mut Vec<u8>) -> Result<(), FrameError> {
        let mut head = match self {
            Self::Yielded(Yield { messages, stream: StreamAnswer::Continue, usage }) if messages.is_empty() => {
                return encode_continue(usage, out);
            }
            Self::Passed(passed) => return encode_passed(passed, out),
            Self::Yielded(done) => HeadFromWorker::Yielded(done),
            Self::Hello { wire } => HeadFromWorker::Hello { wire },
            Self::Ready(sealed) => HeadFromWorker::Ready(sealed),
            Self::Failed { message } => HeadFromWorker::Failed { message },
            Self::Call(call) => HeadFromWorker::Call(call),
            Self::Ended(termination) => HeadFromWorker::Ended(termination),
            Self::Forked { process } => HeadFromWorker::Forked { process },
        };
        encode_message(&mut head, out)
    }

    /// Decodes a frame without its prefix.
    pub fn decode(frame: &[u8]) -> Result<Self, FrameError> {
        let mut cursor = Cursor(frame);
        match cursor.u8()? {
            MESSAGE => Ok(match decode_message(cursor, false)? {
                HeadFromWorker::Hello { wire } => Self::Hello { wire },
                HeadFromWorker::Ready(sealed) => Self::Ready(sealed),
                HeadFromWorker::Failed { message } => Self::Failed { message },
                HeadFromWorker::Call(call) => Self::Call(call),
                HeadFromWorker::Yielded(done) => Self::Yielded(done),
                HeadFromWorker::Ended(termination) => Self::Ended(termination),
                HeadFromWorker::Forked { process } => Self::Forked { process },
            }),
            CONTINUE => decode_continue(cursor),
            PASSED => decode_passed(cursor),
            kind => Err(FrameError::Kind(kind)),
        }
    }
}

/// Reads the length of the frame at the start of `bytes`, without the prefix; `None` while the prefix is incomplete.
///
/// # Errors
///
/// Returns [`FrameError::TooLarge`] for a length beyond the limit.
pub fn frame_length(bytes: &[u8]) -> Result<Option<usize>, FrameError> {
    let Some(prefix) = bytes.first_chunk::<PREFIX>() else { return Ok(None) };
    let length = u32::from_le_bytes(*prefix) as usize;
    if length > MAX_FRAME {
        return Err(FrameError::TooLarge { bytes: length });
    }
    Ok(Some(length))
}

/// Encodes a delta by reference.
pub(crate) fn encode_delta(seq: Seq, now: Now, delta: &StreamDelta, out: &mut Vec<u8>) -> Result<(), FrameError> {
    framed(out, DELTA, |out| {
        put_turn(out, seq, now);
        put_piece(out, delta)
    })
}

/// Encodes deltas by reference.
pub(crate) fn encode_deltas(
    seq: Seq,
    now: Now,
    slice_us: u64,
    deltas: &[StreamDelta],
    out: &mut Vec<u8>,
) -> Result<(), FrameError> {
    framed(out, DELTAS, |out| {
        put_turn(out, seq, now);
        out.extend_from_slice(&slice_us.to_le_bytes());
        out.extend_from_slice(&length_of(deltas.len())?.to_le_bytes());
        deltas.iter().try_for_each(|delta| put_piece(out, delta))
    })
}

fn put_turn(out: &mut Vec<u8>, seq: Seq, now: Now) {
    out.extend_from_slice(&seq.0.to_le_bytes());
    out.extend_from_slice(&now.epoch_ms.to_le_bytes());
    out.extend_from_slice(&now.elapsed_us.to_le_bytes());
}

fn put_piece(out: &mut Vec<u8>, delta: &StreamDelta) -> Result<(), FrameError> {
    out.extend_from_slice(&delta.attempt.to_le_bytes());
    out.push(match delta.source {
        StreamSource::Text => 0,
        StreamSource::Thinking => 1,
        StreamSource::Tool => 2,
    });
    out.extend_from_slice(&delta.stream.to_le_bytes());
    put(out, delta.chunk.as_bytes())?;
    // A count of 0 or 1 encodes an optional text.
    put_all(out, delta.tool_name.as_ref().map(String::as_bytes).into_iter())?;
    put_all(out, delta.file_paths.iter().map(String::as_bytes))
}

fn decode_delta(mut cursor: Cursor<'_>) -> Result<ToWorker, FrameError> {
    let (seq, now) = cursor.turn()?;
    let delta = cursor.piece()?;
    cursor.end()?;
    Ok(ToWorker::Delta { seq, now, delta })
}

fn decode_deltas(mut cursor: Cursor<'_>) -> Result<ToWorker, FrameError> {
    let (seq, now) = cursor.turn()?;
    let slice_us = cursor.u64()?;
    let count = cursor.u32()? as usize;
    let mut deltas = Vec::with_capacity(count.min(cursor.0.len() / PIECE));
    for _ in 0..count {
        deltas.push(cursor.piece()?);
    }
    cursor.end()?;
    if deltas.is_empty() {
        return Err(FrameError::Head("an empty list of deltas".to_owned()));
    }
    Ok(ToWorker::Deltas { seq, now, slice_us, deltas })
}

fn encode_continue(usage: Usage, out: &mut Vec<u8>) -> Result<(), FrameError> {
    framed(out, CONTINUE, |out| {
        put_usage(out, usage);
        Ok(())
    })
}

fn encode_passed(passed: Passed, out: &mut Vec<u8>) -> Result<(), FrameError> {
    framed(out, PASSED, |out| {
        put_usage(out, passed.usage);
        out.extend_from_slice(&length_of(passed.count)?.to_le_bytes());
        out.push(u8::from(passed.goes_on));
        Ok(())
    })
}

fn put_usage(out: &mut Vec<u8>, usage: Usage) {
    out.extend_from_slice(&usage.jobs.to_le_bytes());
    out.extend_from_slice(&usage.fuel.to_le_bytes());
    out.extend_from_slice(&usage.clock_reads.to_le_bytes());
    out.extend_from_slice(&usage.random_draws.to_le_bytes());
    out.extend_from_slice(&usage.heap_bytes.to_le_bytes());
}

fn decode_continue(mut cursor: Cursor<'_>) -> Result<FromWorker, FrameError> {
    let usage = cursor.usage()?;
    cursor.end()?;
    Ok(FromWorker::Yielded(Yield { usage, ..Yield::default() }))
}

fn decode_passed(mut cursor: Cursor<'_>) -> Result<FromWorker, FrameError> {
    let usage = cursor.usage()?;
    let count = cursor.u32()? as usize;
    let goes_on = cursor.u8()? != 0;
    cursor.end()?;
    Ok(FromWorker::Passed(Passed { usage, count, goes_on }))
}

fn encode_message(head: &mut impl Head, out: &mut Vec<u8>) -> Result<(), FrameError> {
    let kind_at = out.len() + PREFIX;
    let texts = head.state().map(state::take_texts);
    framed(out, MESSAGE, |out| {
        let at = out.len();
        out.extend_from_slice(&[0; 4]);
        serde_json::to_writer(&mut *out, head).map_err(|error| FrameError::Head(error.to_string()))?;
        if fold::is_deep(&out[at + 4..])? {
            out.truncate(at + 4);
            fold::write(out, head)?;
            out[kind_at] = FOLDED;
        }
        let length = length_of(out.len() - at - 4)?;
        out[at..at + 4].copy_from_slice(&length.to_le_bytes());
        for attachments in head.carriers() {
            put_all(out, attachments.iter().map(Vec::as_slice))?;
        }
        for list in texts.iter().flatten() {
            put_all(out, list.iter().map(|json| json.text().as_bytes()))?;
        }
        Ok(())
    })
}

fn decode_message<H: Head>(mut cursor: Cursor<'_>, is_folded: bool) -> Result<H, FrameError> {
    let head = cursor.bytes()?;
    fold::is_deep(head)?;
    let mut head: H = if is_folded {
        fold::read(head)?
    } else {
        serde_json::from_slice(head).map_err(|error| FrameError::Head(error.to_string()))?
    };
    for attachments in head.carriers() {
        *attachments = cursor.list()?.into_iter().map(<[u8]>::to_vec).collect();
    }
    if let Some(state) = head.state() {
        state::put_texts(state, [cursor.jsons()?, cursor.jsons()?])?;
    }
    cursor.end()?;
    Ok(head)
}

/// Writes prefix, kind and body. Restores `out` if the body fails or is too long.
fn framed(
    out: &mut Vec<u8>,
    kind: u8,
    body: impl FnOnce(&mut Vec<u8>) -> Result<(), FrameError>,
) -> Result<(), FrameError> {
    let at = out.len();
    out.extend_from_slice(&[0; PREFIX]);
    out.push(kind);
    let written = body(out).and_then(|()| length_of(out.len() - at - PREFIX));
    match written {
        Ok(length) => {
            out[at..at + PREFIX].copy_from_slice(&length.to_le_bytes());
            Ok(())
        }
        Err(error) => {
            out.truncate(at);
            Err(error)
        }
    }
}

fn length_of(bytes: usize) -> Result<u32, FrameError> {
    match u32::try_from(bytes) {
        Ok(length) if bytes <= MAX_FRAME => Ok(length),
        _ => Err(FrameError::TooLarge { bytes }),
    }
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) -> Result<(), FrameError> {
    out.extend_from_slice(&length_of(bytes.len())?.to_le_bytes());
    out.extend_from_slice(bytes);
    Ok(())
}

fn put_all<'a>(out: &mut Vec<u8>, all: impl ExactSizeIterator<Item = &'a [u8]>) -> Result<(), FrameError> {
    out.extend_from_slice(&length_of(all.len())?.to_le_bytes());
    for bytes in all {
        put(out, bytes)?;
    }
    Ok(())
}

/// The part of a frame that was not read yet.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], FrameError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(FrameError::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], FrameError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(FrameError::Truncated)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn u8(&mut self) -> Result<u8, FrameError> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u32(&mut self) -> Result<u32, FrameError> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, FrameError> {
        self.array().map(u64::from_le_bytes)
    }

    fn bytes(&mut self) -> Result<&'a [u8], FrameError> {
        let length = self.u32()? as usize;
        self.take(length)
    }

    fn turn(&mut self) -> Result<(Seq, Now), FrameError> {
        Ok((Seq(self.u64()?), Now { epoch_ms: self.u64()?, elapsed_us: self.u64()? }))
    }

    fn piece(&mut self) -> Result<StreamDelta, FrameError> {
        let attempt = self.u32()?;
        let source = match self.u8()? {
            0 => StreamSource::Text,
            1 => StreamSource::Thinking,
            2 => StreamSource::Tool,
            other => return Err(FrameError::Source(other)),
        };
        let stream = self.u32()?;
        let chunk = self.text()?;
        let mut names = self.texts()?;
        if names.len() > 1 {
            return Err(FrameError::Head("a delta with two tool names".to_owned()));
        }
        let file_paths = self.texts()?;
        Ok(StreamDelta { attempt, source, stream, chunk, tool_name: names.pop(), file_paths })
    }

    fn usage(&mut self) -> Result<Usage, FrameError> {
        Ok(Usage {
            jobs: self.u32()?,
            fuel: self.u64()?,
            clock_reads: self.u32()?,
            random_draws: self.u32()?,
            heap_bytes: self.u64()?,
        })
    }

    fn text(&mut self) -> Result<String, FrameError> {
        std::str::from_utf8(self.bytes()?).map(str::to_owned).map_err(|_| FrameError::Text)
    }

    fn list(&mut self) -> Result<Vec<&'a [u8]>, FrameError> {
        let count = self.u32()? as usize;
        // Each item has a length prefix, so a wrong count does not cause a large allocation.
        let mut list = Vec::with_capacity(count.min(self.0.len() / 4));
        for _ in 0..count {
            list.push(self.bytes()?);
        }
        Ok(list)
    }

    fn texts(&mut self) -> Result<Vec<String>, FrameError> {
        let text = |bytes| std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| FrameError::Text);
        self.list()?.into_iter().map(text).collect()
    }

    fn jsons(&mut self) -> Result<Vec<Json>, FrameError> {
        let text = |bytes| std::str::from_utf8(bytes).map(Json::from_text).map_err(|_| FrameError::Text);
        self.list()?.into_iter().map(text).collect()
    }

    fn end(self) -> Result<(), FrameError> {
        match self.0.len() {
            0 => Ok(()),
            bytes => Err(FrameError::Trailing { bytes }),
        }
    }
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
