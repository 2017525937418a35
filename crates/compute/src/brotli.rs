//! Brotli compression in bounded steps.

use crate::zlib::{CodecFailure, Step, StepFn};
use brotli::enc::StandardAlloc;
use brotli::enc::encode::{BrotliEncoderOperation, BrotliEncoderParameter, BrotliEncoderStateStruct};
use brotli::{BrotliDecompressStream, BrotliResult, BrotliState};

/// Creates an encoder. Flush values are Node's `BROTLI_OPERATION_*`: process, flush, finish.
pub(crate) fn compress(quality: u32, window: u32) -> StepFn {
    let mut state = BrotliEncoderStateStruct::new(StandardAlloc::default());
    state.set_parameter(BrotliEncoderParameter::BROTLI_PARAM_QUALITY, quality.min(11));
    state.set_parameter(BrotliEncoderParameter::BROTLI_PARAM_LGWIN, window.clamp(10, 24));
    Box::new(move |input, flush, room| {
        let operation = match flush {
            1 => BrotliEncoderOperation::BROTLI_OPERATION_FLUSH,
            2 => BrotliEncoderOperation::BROTLI_OPERATION_FINISH,
            _ => BrotliEncoderOperation::BROTLI_OPERATION_PROCESS,
        };
        let mut output = vec![0; room];
        let (mut left, mut read, mut free, mut written) = (input.len(), 0, room, 0);
        let done = state.compress_stream(
            operation,
            &mut left,
            input,
            &mut read,
            &mut free,
            &mut output,
            &mut written,
            &mut None,
            &mut |_, _, _, _| (),
        );
        output.truncate(written);
        let failure = (!done).then(|| "Compression failed".into());
        Step { output, read, end: state.is_finished(), failure }
    })
}

/// Creates a decoder. It refuses large windows, as Node's does by default, because they take up to a gigabyte.
pub(crate) fn decompress() -> StepFn {
    let mut state =
        BrotliState::new_strict(StandardAlloc::default(), StandardAlloc::default(), StandardAlloc::default());
    Box::new(move |input, _, room| {
        let mut output = vec![0; room];
        let (mut left, mut read, mut free, mut written, mut total) = (input.len(), 0, room, 0, 0);
        let result = BrotliDecompressStream(
            &mut left,
            &mut read,
            input,
            &mut free,
            &mut written,
            &mut output,
            &mut total,
            &mut state,
        );
        output.truncate(written);
        let failure = matches!(result, BrotliResult::ResultFailure).then(|| {
            let name = format!("{:?}", state.error_code);
            let code = format!("ERR_{}", name.strip_prefix("BROTLI_DECODER").unwrap_or(&name));
            CodecFailure { words: "Decompression failed".to_owned(), code: Some((code, state.error_code as i32)) }
        });
        Step { output, read, end: matches!(result, BrotliResult::ResultSuccess), failure }
    })
}
