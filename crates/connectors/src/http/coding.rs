//! Decodes the content codings of responses, as Node's `fetch` does.
//!
//! The server chooses the codings and thereby the size of the output. So a body is decoded in bounded steps, the output of each
//! coding is limited (each of several codings may be a decompression bomb), and memory for decoders is acquired before it is
//! used. As in Node, a body with an unknown coding is not decoded, and a truncated body ends early without an error.

use brotli::enc::StandardAlloc;
use brotli::{BrotliDecompressStream, BrotliResult, BrotliState};
use bytes::{Buf as _, Bytes};
use flate2::{Decompress, FlushDecompress, Status};
use pijs_protocol::{HostcallError, guard};
use reqwest::header::{ACCEPT_ENCODING, CONTENT_ENCODING, HeaderMap, HeaderValue, RANGE};
use tokio::sync::OwnedSemaphorePermit;

/// Maximum number of codings of one response, as in Node.
const MAX_CODINGS: usize = 5;

/// Maximum number of output bytes of one step.
const PIECE: usize = 64 << 10;

/// Base-2 logarithm of the maximum window size of deflate.
const DEFLATE_WINDOW: u8 = 15;

/// Number of bytes that each member of a gzip body adds to the counted output: an empty member takes 20 bytes of input and
/// creates a decoder.
const MEMBER_COST: usize = 1 << 10;

/// Memory in bytes of a deflate decoder, and of a brotli decoder without its window.
const DEFLATE_BYTES: usize = 64 << 10;
const BROTLI_BYTES: usize = 4 << 20;

/// Sets `Accept-Encoding` to the codings that `fetch` supports, unless the caller has set it.
pub(super) fn set_accept_encoding(headers: &mut HeaderMap, scheme: &str) {
    let given: Vec<&[u8]> = headers.get_all(ACCEPT_ENCODING).iter().map(HeaderValue::as_bytes).collect();
    let value = match (headers.contains_key(RANGE), given.is_empty()) {
        // A range of a coded body cannot be decoded.
        (true, _) => {
            let all = [given.as_slice(), &[b"identity"]].concat().join(&b", "[..]);
            HeaderValue::from_bytes(&all).expect("valid values joined by commas are a valid value")
        }
        (false, false) => return,
        (false, true) if scheme == "https" => HeaderValue::from_static("br, gzip, deflate"),
        (false, true) => HeaderValue::from_static("gzip, deflate"),
    };
    headers.insert(ACCEPT_ENCODING, value);
}

/// Decodes a body.
pub(super) struct Decoding {
    /// Decoders, for the outermost coding first.
    decoders: Vec<ContentDecoder>,
    /// The last received piece, if the body is not decoded.
    plain: Option<Bytes>,
    /// Maximum number of output bytes of each coding.
    most: usize,
}

/// Result of one step.
#[derive(Debug)]
pub(super) enum DecodeStep {
    /// A piece of the body.
    Piece(Bytes),
    /// No output yet; call [`Decoding::step`] again.
    Progress,
    /// A decoder needs this many bytes of memory to begin: call [`Decoding::begin`].
    NeedsMemory(usize),
    /// All input is decoded.
    NeedsInput,
}

/// Reason why a body cannot be decoded.
#[derive(Debug)]
pub(super) enum DecodeError {
    /// Invalid data, with Node's code, number and message.
    Broken(String, i32, String),
    /// More output than allowed.
    TooLarge,
}

impl Decoding {
    /// Creates a decoder that returns the body unchanged.
    pub(super) fn none() -> Self {
        Self { decoders: Vec::new(), plain: None, most: usize::MAX }
    }

    /// Creates the decoders for these response headers; each may produce at most `most` bytes.
    pub(super) fn of(headers: &HeaderMap, most: usize) -> Result<Self, HostcallError> {
        let lists = headers.get_all(CONTENT_ENCODING).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
        let all = lists.collect::<Vec<_>>().join(",").to_ascii_lowercase();
        let names: Vec<&str> = if all.is_empty() { Vec::new() } else { all.split(',').map(str::trim).collect() };
        if names.len() > MAX_CODINGS && guard!(HttpCodings) {
            let words =
                format!("too many content-encodings in response: {}, maximum allowed is {MAX_CODINGS}", names.len());
            return Err(super::io("EPROTO", &words).with("words", words));
        }
        let decoders: Option<Vec<ContentDecoder>> =
            names.iter().rev().map(|name| ContentDecoder::named(name)).collect();
        Ok(Self { decoders: decoders.unwrap_or_default(), plain: None, most })
    }

    /// Adds input. All previous input must have been decoded.
    pub(super) fn feed(&mut self, piece: Bytes) {
        match self.decoders.first_mut() {
            Some(decoder) => decoder.input = piece,
            None => self.plain = Some(piece),
        }
    }

    /// Starts the decoder that reported [`DecodeStep::NeedsMemory`]; it keeps the permit for its memory.
    pub(super) fn begin(&mut self, memory: Option<OwnedSemaphorePermit>) {
        if let Some(decoder) = self.decoders.iter_mut().find(|decoder| decoder.needed_memory().is_some()) {
            decoder.begin(memory);
        }
    }

    /// Performs one step of decoding.
    pub(super) fn step(&mut self) -> Result<DecodeStep, DecodeError> {
        if let Some(piece) = self.plain.take() {
            return Ok(DecodeStep::Piece(piece));
        }
        // The innermost decoder with work goes first, so that no decoder keeps more than one piece.
        let Some(at) = self.decoders.iter().rposition(ContentDecoder::has_work) else {
            return Ok(DecodeStep::NeedsInput);
        };
        let decoder = &mut self.decoders[at];
        if let Some(bytes) = decoder.needed_memory() {
            return Ok(DecodeStep::NeedsMemory(bytes));
        }
        let piece = Bytes::from(decoder.step()?);
        decoder.produced += piece.len();
        if decoder.produced > self.most && guard!(HttpSize) {
            return Err(DecodeError::TooLarge);
        }
        Ok(match self.decoders.get_mut(at + 1) {
            _ if piece.is_empty() => DecodeStep::Progress,
            Some(next) => {
                next.input = piece;
                DecodeStep::Progress
            }
            None => DecodeStep::Piece(piece),
        })
    }
}

/// Decoder of one coding of a body.
struct ContentDecoder {
    codec: Codec,
    input: Bytes,
    /// Whether the last step filled its piece, so that there may be more output without input.
    is_full: bool,
    produced: usize,
    _memory: Option<OwnedSemaphorePermit>,
}

enum Codec {
    /// Not started; the first byte of input determines how to start.
    Unstarted(CodingName),
    Gzip(Decompress),
    /// Between two members.
    GzipEnd,
    Deflate(Decompress),
    Brotli(Box<BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>>),
    /// Finished; further input is ignored.
    Over,
}

#[derive(Clone, Copy)]
enum CodingName {
    Gzip,
    Deflate,
    Brotli,
}

impl ContentDecoder {
    fn named(name: &str) -> Option<Self> {
        let name = match name {
            "gzip" | "x-gzip" => CodingName::Gzip,
            "deflate" => CodingName::Deflate,
            "br" => CodingName::Brotli,
            _ => return None,
        };
        Some(Self { codec: Codec::Unstarted(name), input: Bytes::new(), is_full: false, produced: 0, _memory: None })
    }

    fn has_work(&self) -> bool {
        !self.input.is_empty() || self.is_full
    }

    /// Returns the memory that a decoder needs to begin, if it has not begun.
    fn needed_memory(&self) -> Option<usize> {
        let (Codec::Unstarted(name), Some(first)) = (&self.codec, self.input.first()) else { return None };
        Some(match name {
            CodingName::Gzip | CodingName::Deflate => DEFLATE_BYTES,
            CodingName::Brotli => BROTLI_BYTES + brotli_window(*first),
        })
    }

    fn begin(&mut self, memory: Option<OwnedSemaphorePermit>) {
        let (Codec::Unstarted(name), Some(first)) = (&self.codec, self.input.first()) else { return };
        self.codec = match name {
            CodingName::Gzip => Codec::Gzip(Decompress::new_gzip(DEFLATE_WINDOW)),
            // Some servers send raw deflate without zlib's header and checksum. A zlib header begins with the number of the
            // method (8).
            CodingName::Deflate => Codec::Deflate(Decompress::new_with_window_bits(first & 0x0f == 8, DEFLATE_WINDOW)),
            // Strict mode refuses large windows (up to 1 GiB), which the `br` coding does not have.
            CodingName::Brotli => Codec::Brotli(Box::new(BrotliState::new_strict(
                StandardAlloc::default(),
                StandardAlloc::default(),
                StandardAlloc::default(),
            ))),
        };
        self._memory = memory;
    }

    /// Performs one step: produces at most one piece of output, and consumes the input for it.
    fn step(&mut self) -> Result<Vec<u8>, DecodeError> {
        if matches!(self.codec, Codec::GzipEnd) {
            // A member cannot begin with zero, so a zero is padding after the last member.
            self.codec = match self.input.first() {
                Some(0) | None => Codec::Over,
                Some(_) => {
                    self.produced += MEMBER_COST;
                    Codec::Gzip(Decompress::new_gzip(DEFLATE_WINDOW))
                }
            };
        }
        let (output, read, ended) = match &mut self.codec {
            Codec::Unstarted(_) | Codec::GzipEnd | Codec::Over => (Vec::new(), self.input.len(), true),
            Codec::Gzip(state) => {
                let done = inflate(state, &self.input)?;
                if done.2 {
                    self.codec = Codec::GzipEnd;
                }
                done
            }
            Codec::Deflate(state) => {
                let done = inflate(state, &self.input)?;
                if done.2 {
                    self.codec = Codec::Over;
                }
                done
            }
            Codec::Brotli(state) => {
                let done = unbrotli(state, &self.input)?;
                if done.2 {
                    self.codec = Codec::Over;
                }
                done
            }
        };
        self.input.advance(read);
        self.is_full = !ended && output.len() == PIECE;
        // The decoder makes no progress on this input, and never would.
        if read == 0 && output.is_empty() && !ended {
            self.input.clear();
        }
        Ok(output)
    }
}

/// Returns the window size in bytes, as encoded in the first byte of a brotli stream (RFC 7932, 9.1).
fn brotli_window(first: u8) -> usize {
    let bits = match (first & 1, (first >> 1) & 7, (first >> 4) & 7) {
        (0, ..) => 16,
        (_, more @ 1.., _) => 17 + more,
        (_, _, 0) => 17,
        // The code 1 means a large window, which is refused.
        (_, _, less) => 8 + less,
    };
    1 << bits
}

/// Output, consumed bytes of input, and whether the stream has ended.
type Decoded = (Vec<u8>, usize, bool);

fn inflate(state: &mut Decompress, input: &[u8]) -> Result<Decoded, DecodeError> {
    let mut output = Vec::with_capacity(PIECE);
    let before = state.total_in();
    let status = state.decompress_vec(input, &mut output, FlushDecompress::Sync).map_err(|error| {
        let broken = |code: &str, number, words: &str| DecodeError::Broken(code.to_owned(), number, words.to_owned());
        match error.needs_dictionary() {
            Some(_) => broken("Z_NEED_DICT", 2, "Missing dictionary"),
            None => broken("Z_DATA_ERROR", -3, error.message().unwrap_or("invalid data")),
        }
    })?;
    let read = usize::try_from(state.total_in() - before).expect("at most the whole input is consumed");
    Ok((output, read, status == Status::StreamEnd))
}

fn unbrotli(
    state: &mut BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>,
    input: &[u8],
) -> Result<Decoded, DecodeError> {
    let mut output = vec![0; PIECE];
    let (mut left, mut read, mut free, mut written, mut total) = (input.len(), 0, PIECE, 0, 0);
    let result =
        BrotliDecompressStream(&mut left, &mut read, input, &mut free, &mut written, &mut output, &mut total, state);
    if matches!(result, BrotliResult::ResultFailure) {
        let name = format!("{:?}", state.error_code);
        let code = format!("ERR_{}", name.strip_prefix("BROTLI_DECODER").unwrap_or(&name));
        return Err(DecodeError::Broken(code, state.error_code as i32, "Decompression failed".to_owned()));
    }
    output.truncate(written);
    Ok((output, read, matches!(result, BrotliResult::ResultSuccess)))
}
