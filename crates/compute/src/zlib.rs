//! Compression in bounded steps: deflate (raw, zlib and gzip), brotli, and CRC-32.

use crate::brotli;
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use std::fmt;

/// The result of one step.
#[derive(Debug)]
pub struct Step {
    /// Output bytes.
    pub output: Vec<u8>,
    /// Number of consumed input bytes.
    pub read: usize,
    /// Whether the stream has ended; input after the first `read` bytes does not belong to it.
    pub end: bool,
    /// Error in the data, if any.
    pub failure: Option<CodecFailure>,
}

/// An error in compressed data.
#[derive(Debug)]
pub struct CodecFailure {
    /// Message of the library.
    pub words: String,
    /// Node's error code and number, if Node has one.
    pub code: Option<(String, i32)>,
}

impl From<&str> for CodecFailure {
    fn from(words: &str) -> Self {
        Self { words: words.to_owned(), code: None }
    }
}

/// Processes input with a flush mode (Node's constants) into output of a limited size.
pub(crate) type StepFn = Box<dyn FnMut(&[u8], u64, usize) -> Step>;

/// A compressor or a decompressor in progress.
pub struct Codec(StepFn);

impl Codec {
    /// Creates a codec of one of the kinds `gzip`, `deflate`, `deflateRaw`, `gunzip`, `inflate`, `inflateRaw`, `brotliCompress`
    /// (`level` is the quality, `dictionary` is unused) and `brotliDecompress`; `None` for any other. Numbers out of range are
    /// clamped, or replaced by the default.
    pub fn new(kind: &str, level: u64, window_bits: u64, dictionary: Option<Vec<u8>>) -> Option<Self> {
        let level = u32::try_from(level).unwrap_or(6);
        let bits = u8::try_from(window_bits).unwrap_or(15).clamp(9, 15);
        let compression = Compression::new(level.min(9));
        Some(Self(match kind {
            "gzip" => compress(Compress::new_gzip(compression, bits), None),
            "deflate" => compress(Compress::new_with_window_bits(compression, true, bits), dictionary),
            "deflateRaw" => compress(Compress::new_with_window_bits(compression, false, bits), dictionary),
            "gunzip" => decompress(Decompress::new_gzip(bits), None, true),
            "inflate" => decompress(Decompress::new_with_window_bits(true, bits), dictionary, true),
            "inflateRaw" => decompress(Decompress::new_with_window_bits(false, bits), dictionary, false),
            "brotliCompress" => brotli::compress(level, u32::try_from(window_bits).unwrap_or(22)),
            "brotliDecompress" => brotli::decompress(),
            _ => return None,
        }))
    }

    /// Consumes input and returns at most `room` bytes. `flush` is one of Node's constants for the kind.
    pub fn step(&mut self, input: &[u8], flush: u64, room: usize) -> Step {
        (self.0)(input, flush, room)
    }
}

impl fmt::Debug for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Codec").finish_non_exhaustive()
    }
}

fn compress(mut state: Compress, dictionary: Option<Vec<u8>>) -> StepFn {
    let mut failure =
        dictionary.and_then(|bytes| state.set_dictionary(&bytes).err()).map(|_| CodecFailure::from("Bad dictionary"));
    Box::new(move |input, flush, room| {
        let mode = match flush {
            1 => FlushCompress::Partial,
            2 => FlushCompress::Sync,
            3 => FlushCompress::Full,
            4 => FlushCompress::Finish,
            _ => FlushCompress::None,
        };
        let mut output = Vec::with_capacity(room);
        let before = state.total_in();
        let status = state.compress_vec(input, &mut output, mode);
        let read = usize::try_from(state.total_in() - before).unwrap_or(input.len());
        let failure = failure.take().or_else(|| status.as_ref().err().map(|error| error.to_string().as_str().into()));
        Step { output, read, end: matches!(status, Ok(Status::StreamEnd)), failure }
    })
}

fn decompress(mut state: Decompress, dictionary: Option<Vec<u8>>, wrapped: bool) -> StepFn {
    // A raw stream does not announce its dictionary.
    if let (Some(bytes), false) = (&dictionary, wrapped) {
        let _ = state.set_dictionary(bytes);
    }
    Box::new(move |input, flush, room| {
        let mode = if flush == 4 { FlushDecompress::Finish } else { FlushDecompress::None };
        let mut output = Vec::with_capacity(room);
        let before = state.total_in();
        let mut status = state.decompress_vec(input, &mut output, mode);
        if let (Err(error), Some(bytes)) = (&status, &dictionary)
            && error.needs_dictionary().is_some()
        {
            if state.set_dictionary(bytes).is_err() {
                let read = usize::try_from(state.total_in() - before).unwrap_or(0);
                return Step { output, read, end: false, failure: Some("Bad dictionary".into()) };
            }
            let read = usize::try_from(state.total_in() - before).unwrap_or(0);
            status = state.decompress_vec(&input[read..], &mut output, mode);
        }
        let read = usize::try_from(state.total_in() - before).unwrap_or(input.len());
        let failure = status.as_ref().err().map(|error| match error.needs_dictionary() {
            Some(_) => "Missing dictionary".into(),
            None => error.message().unwrap_or("invalid data").into(),
        });
        Step { output, read, end: matches!(status, Ok(Status::StreamEnd)), failure }
    })
}

/// Continues the CRC-32 `start` with more bytes; a `start` of 0 begins a new one.
pub fn crc32(bytes: &[u8], start: u32) -> u32 {
    let mut sum = crc32fast::Hasher::new_with_initial(start);
    sum.update(bytes);
    sum.finalize()
}
