//! Server-sent events with size limits.
//!
//! The parser is the `sse-stream` crate, which implements the WHATWG algorithm (CR, LF, CRLF, BOM, comments). A guard before the
//! parser limits the length of a line and of the whole body. As the standard requires, an event without its final empty line is
//! dropped, so truncated JSON is never mistaken for complete JSON.

use super::{ErrorKind, ProviderError};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use sse_stream::SseByteStream;

/// Size limits of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SseLimits {
    /// Maximum length of a line in bytes. A data URL of an image fits.
    pub line: usize,
    /// Maximum size of the body in bytes.
    pub body: usize,
}

impl Default for SseLimits {
    fn default() -> Self {
        Self { line: 8 << 20, body: 256 << 20 }
    }
}

/// An event with data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent {
    /// Value of the `event` field.
    pub name: Option<String>,
    /// Values of the `data` fields, joined.
    pub data: String,
}

/// Parses the events of a body. Skips blocks without data, and ends after the first error.
pub fn events(
    body: impl Stream<Item = Result<Bytes, ProviderError>> + Unpin,
    limits: SseLimits,
) -> impl Stream<Item = Result<SseEvent, ProviderError>> + Unpin {
    let mut guard = SizeGuard { limits, line: 0, body: 0 };
    let guarded = body.map(move |chunk| chunk.and_then(|chunk| guard.pass(chunk)));
    SseByteStream::new(guarded).filter_map(|block| {
        std::future::ready(match block {
            Ok(block) => block.data.map(|data| Ok(SseEvent { name: block.event, data })),
            Err(error) => Some(Err(refusal(error))),
        })
    })
}

struct SizeGuard {
    limits: SseLimits,
    line: usize,
    body: usize,
}

impl SizeGuard {
    fn pass(&mut self, chunk: Bytes) -> Result<Bytes, ProviderError> {
        self.body += chunk.len();
        if self.body > self.limits.body {
            return Err(too_large("the reply", self.limits.body));
        }
        for part in chunk.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            self.line += part.len();
            if self.line > self.limits.line {
                return Err(too_large("one line of the reply", self.limits.line));
            }
            if matches!(part.last(), Some(b'\n' | b'\r')) {
                self.line = 0;
            }
        }
        Ok(chunk)
    }
}

fn too_large(what: &str, limit: usize) -> ProviderError {
    ProviderError::new(ErrorKind::TooLarge, format!("{what} is longer than {limit} bytes"))
}

/// Unwraps an error of the guard or of the connection; any other error is a format error.
fn refusal(error: sse_stream::Error) -> ProviderError {
    match error {
        sse_stream::Error::Body(source) => match source.downcast::<ProviderError>() {
            Ok(error) => *error,
            Err(other) => ProviderError::new(ErrorKind::Network, format!("the reply broke off: {other}")),
        },
        other => ProviderError::new(ErrorKind::Malformed, format!("the reply is not an event stream: {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::{FutureExt, stream};

    fn parse(chunks: Vec<&[u8]>, limits: SseLimits) -> Vec<Result<SseEvent, ErrorKind>> {
        let chunks: Vec<_> = chunks.into_iter().map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
        events(stream::iter(chunks), limits)
            .map(|event| event.map_err(|error| error.kind()))
            .collect()
            .now_or_never()
            .expect("an iterator is never pending")
    }

    fn event(name: Option<&str>, data: &str) -> Result<SseEvent, ErrorKind> {
        Ok(SseEvent { name: name.map(str::to_owned), data: data.to_owned() })
    }

    #[test]
    fn every_line_ending_comment_and_byte_order_mark_is_understood() {
        let body = "\u{feff}: hello\r\ndata: a\r\n\r\nevent: x\rdata:b\rdata: c\r\rdata\n\nid: 7\n\ndata: unfinished";
        let expected = vec![event(None, "a"), event(Some("x"), "b\nc"), event(None, "")];
        assert_eq!(parse(vec![body.as_bytes()], SseLimits::default()), expected);
    }

    #[test]
    fn a_line_or_a_body_that_is_too_long_is_an_error() {
        let limits = SseLimits { line: 10, body: 30 };
        assert_eq!(parse(vec![b"data: 0123456789\n\n"], limits), [Err(ErrorKind::TooLarge)]);
        assert_eq!(parse(vec![b"data: 0", b"123456789"], limits), [Err(ErrorKind::TooLarge)]);
        let flood: Vec<&[u8]> = vec![b": comment\n"; 4];
        assert_eq!(parse(flood, limits), [Err(ErrorKind::TooLarge)]);
    }

    #[test]
    fn bytes_that_are_not_utf8_are_an_error() {
        assert_eq!(parse(vec![b"data: \xff\n\n"], SseLimits::default()), [Err(ErrorKind::Malformed)]);
    }

    proptest::proptest! {
        /// Checks that the events do not depend on how the body is split.
        #[test]
        fn every_chunking_gives_the_same_events(
            lines in proptest::collection::vec("(data: ?[a-zé😀{}]{0,6}|data|event: [a-z]{1,3}|: [a-z]{0,4}|id: 1|)", 0..12),
            endings in proptest::collection::vec(proptest::sample::select(vec!["\n", "\r\n", "\r"]), 12),
            bom in proptest::bool::ANY,
            cuts in proptest::collection::vec(0usize..160, 0..8),
        ) {
            let mut body = String::from(if bom { "\u{feff}" } else { "" });
            for (line, ending) in lines.iter().zip(endings) {
                body += line;
                body += ending;
            }
            let whole = parse(vec![body.as_bytes()], SseLimits::default());
            let mut bounds: Vec<usize> = cuts.into_iter().map(|cut| cut.min(body.len())).collect();
            bounds.extend([0, body.len()]);
            bounds.sort_unstable();
            let chunks = bounds.windows(2).map(|range| &body.as_bytes()[range[0]..range[1]]).collect();
            proptest::prop_assert_eq!(parse(chunks, SseLimits::default()), whole);
            let bytes = body.as_bytes().chunks(1).collect();
            proptest::prop_assert_eq!(parse(bytes, SseLimits::default()), parse(vec![body.as_bytes()], SseLimits::default()));
        }
    }
}
