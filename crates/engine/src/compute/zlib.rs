//! Deflate in its three wrappings, a bounded step at a time.

use super::brotli;
use crate::natives::{self, Call};
use crate::values;
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use rquickjs::{Ctx, Exception, Object, Result, TypedArray, Value};
use std::cell::RefCell;

/// Most output of one step.
const MAX_STEP: u64 = 1 << 20;

/// What one step did.
pub(super) struct Step {
    pub(super) output: Vec<u8>,
    pub(super) read: usize,
    /// The stream has ended; input after `read` belongs to something else.
    pub(super) end: bool,
    /// What is wrong with the data.
    pub(super) failure: Option<Failure>,
}

/// What is wrong with the data: the library's words, and for brotli Node's code and number.
pub(super) struct Failure {
    pub(super) words: String,
    pub(super) code: Option<(String, i32)>,
}

impl From<&str> for Failure {
    fn from(words: &str) -> Self {
        Self { words: words.to_owned(), code: None }
    }
}

/// A codec in progress: some input, how to flush (Node's constants), the room for output.
pub(super) type Codec = Box<dyn FnMut(&[u8], u64, usize) -> Step>;

/// `compressor(kind, level, windowBits, dictionary?)`: a function `(input, flush, room)` that gives
/// `{output, read, end, failure?, code?, number?}`. Kinds: `gzip`, `deflate`, `deflateRaw`, `gunzip`, `inflate`, `inflateRaw`,
/// `brotliCompress` (*level* is the quality, *windowBits* its window, *dictionary* unused) and `brotliDecompress`.
pub(crate) fn create<'js>(call: &Call<'_, 'js>) -> Result<Value<'js>> {
    let ctx = call.ctx();
    let kind = call.text(0)?;
    let level = u32::try_from(call.whole(1)?).unwrap_or(6);
    let bits = u8::try_from(call.whole(2)?).unwrap_or(15);
    let dictionary = if call.arg(3).is_undefined() { None } else { Some(call.bytes(3)?) };
    let compression = Compression::new(level.min(9));
    let bits = bits.clamp(9, 15);
    let codec = match kind.as_str() {
        "gzip" => compress(Compress::new_gzip(compression, bits), None),
        "deflate" => compress(Compress::new_with_window_bits(compression, true, bits), dictionary),
        "deflateRaw" => compress(Compress::new_with_window_bits(compression, false, bits), dictionary),
        "gunzip" => decompress(Decompress::new_gzip(bits), None, true),
        "inflate" => decompress(Decompress::new_with_window_bits(true, bits), dictionary, true),
        "inflateRaw" => decompress(Decompress::new_with_window_bits(false, bits), dictionary, false),
        "brotliCompress" => brotli::compress(level, u32::try_from(call.whole(2)?).unwrap_or(22)),
        "brotliDecompress" => brotli::decompress(),
        other => return Err(Exception::throw_type(ctx, &format!("unknown codec {other}"))),
    };
    let state = RefCell::new(codec);
    natives::closure(ctx, "compressor", move |call| {
        let input = call.bytes(0)?;
        let room = usize::try_from(call.whole(2)?.clamp(1, MAX_STEP)).unwrap_or(1);
        report(call.ctx(), (state.borrow_mut())(&input, call.whole(1)?, room))
    })
}

fn report<'js>(ctx: &Ctx<'js>, step: Step) -> Result<Value<'js>> {
    let answer = Object::new(ctx.clone())?;
    values::put(&answer, "output", TypedArray::<u8>::new_copy(ctx.clone(), step.output)?)?;
    values::put(&answer, "read", step.read)?;
    values::put(&answer, "end", step.end)?;
    if let Some(failure) = step.failure {
        values::put(&answer, "failure", failure.words)?;
        if let Some((code, number)) = failure.code {
            values::put(&answer, "code", code)?;
            values::put(&answer, "number", number)?;
        }
    }
    Ok(answer.into_value())
}

fn compress(mut state: Compress, dictionary: Option<Vec<u8>>) -> Codec {
    let mut failure =
        dictionary.and_then(|bytes| state.set_dictionary(&bytes).err()).map(|_| Failure::from("Bad dictionary"));
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

fn decompress(mut state: Decompress, dictionary: Option<Vec<u8>>, wrapped: bool) -> Codec {
    // A raw stream does not say that it wants one.
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

/// `crc32(bytes, start)`.
pub(crate) fn crc32<'js>(call: &Call<'_, 'js>) -> Result<Value<'js>> {
    let start = u32::try_from(call.whole(1)? & u64::from(u32::MAX)).unwrap_or_default();
    let mut sum = crc32fast::Hasher::new_with_initial(start);
    sum.update(&call.bytes(0)?);
    Ok(Value::new_float(call.ctx().clone(), f64::from(sum.finalize())))
}
