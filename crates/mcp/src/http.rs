//! Requests of HTTP by hostcalls `http`, so that addresses are vetted and redirects decided as for extensions.

use crate::calls::{Calls, Pieces, bytes_of, object};
use crate::flow::MAX_MESSAGE_BYTES;
use futures_util::stream::{BoxStream, StreamExt};
use pijs_protocol::HostcallError;
use rmcp::transport::streamable_http_client::{SseError, StreamableHttpError};
use serde_json::{Value, json};
use sse_stream::{Sse, SseStream};
use std::io;

/// Bytes of one answer that comes as events.
const MAX_STREAM_BYTES: usize = 128 << 20;

pub(crate) type Failed = StreamableHttpError<Refused>;

/// A request that was not carried out.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Refused(pub(crate) String);

impl From<HostcallError> for Refused {
    fn from(error: HostcallError) -> Self {
        Self(error.message)
    }
}

/// A request outside of the transport.
pub(crate) struct Exchange<'a> {
    method: &'static str,
    url: &'a str,
    pub(crate) headers: Vec<(&'a str, String)>,
    body: Option<String>,
}

impl<'a> Exchange<'a> {
    pub(crate) fn get(url: &'a str) -> Self {
        Self { method: "GET", url, headers: Vec::new(), body: None }
    }

    pub(crate) fn post(url: &'a str, kind: &str, body: String) -> Self {
        Self { method: "POST", url, headers: vec![("content-type", kind.to_owned())], body: Some(body) }
    }
}

/// The whole answer to one.
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }
}

/// Sends a request and takes its answer, of at most `limit` bytes. A redirect is an answer.
pub(crate) async fn exchange(calls: &Calls, request: Exchange<'_>, limit: usize) -> Result<Answer, String> {
    let Exchange { method, url, headers, body } = request;
    let headers: Vec<[String; 2]> = headers.into_iter().map(|(name, value)| [name.to_owned(), value]).collect();
    let answered = send(calls, method, url, headers, body).await.map_err(|error| error.to_string())?;
    let (status, headers) = (answered.status, answered.headers.clone());
    let body = answered.text(limit).await.map_err(|error| error.to_string())?;
    Ok(Answer { status, headers, body })
}

fn header<'h>(headers: &'h [(String, String)], name: &str) -> Option<&'h str> {
    let found = headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.as_str())
}

/// The head of an answer, and what follows it.
pub(crate) struct Answered {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pieces: Pieces,
}

impl Answered {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    pub(crate) fn is_kind(&self, kind: &str) -> bool {
        let found = self.header("content-type").and_then(|value| value.split(';').next());
        found.is_some_and(|value| value.trim().eq_ignore_ascii_case(kind))
    }

    /// The pieces of the body.
    fn body(self) -> BoxStream<'static, io::Result<bytes::Bytes>> {
        let state = (self.pieces, 0_usize, false);
        futures_util::stream::unfold(state, |(mut pieces, mut size, over)| async move {
            if over {
                return None;
            }
            let (mut result, _held) = pieces.results.recv().await?;
            if let Some(error) = result.error {
                return Some((Err(io::Error::other(error.message)), (pieces, size, true)));
            }
            let ends = result.chunk.as_ref().is_none_or(|chunk| chunk.is_last);
            let bytes = bytes_of(&mut result, "body").unwrap_or_default();
            size = size.saturating_add(bytes.len());
            if size > MAX_STREAM_BYTES {
                return Some((Err(io::Error::other("it sent more than 128 MiB in one answer")), (pieces, size, true)));
            }
            Some((Ok(bytes.into()), (pieces, size, ends)))
        })
        .boxed()
    }

    pub(crate) async fn text(self, limit: usize) -> Result<Vec<u8>, Failed> {
        let mut body = self.body();
        let mut text = Vec::new();
        while let Some(piece) = body.next().await {
            text.extend_from_slice(&piece?);
            if text.len() > limit {
                return Err(StreamableHttpError::ResponseBodyTooLarge { max_size: limit });
            }
        }
        Ok(text)
    }

    /// Server-sent events, none longer than a message may be.
    pub(crate) fn events(self) -> BoxStream<'static, Result<Sse, SseError>> {
        let bounded = self.body().scan((0_usize, b'\n'), |(since, last), piece| {
            let piece = piece.and_then(|bytes| {
                for byte in &bytes {
                    // A blank line ends an event.
                    *since = if *byte == b'\n' && *last == b'\n' { 0 } else { *since + 1 };
                    if *byte != b'\r' {
                        *last = *byte;
                    }
                    if *since > MAX_MESSAGE_BYTES {
                        return Err(io::Error::other("it sent a message that is too long"));
                    }
                }
                Ok(bytes)
            });
            std::future::ready(Some(piece))
        });
        SseStream::from_bytes_stream(bounded).boxed()
    }
}

/// Sends a request, and returns the head of its answer.
pub(crate) async fn send(
    calls: &Calls,
    method: &str,
    url: &str,
    headers: Vec<[String; 2]>,
    body: Option<String>,
) -> Result<Answered, Failed> {
    let params = object([
        ("url", json!(url)),
        ("method", json!(method)),
        ("headers", json!(headers)),
        ("body", json!(body)),
        ("stream", json!(true)),
        // Headers of the user go to the address that the user named.
        ("redirect", json!("manual")),
    ]);
    let failed = |error: HostcallError| StreamableHttpError::Client(Refused::from(error));
    let mut pieces = calls.pieces("http", params, Vec::new()).map_err(failed)?;
    let Some((head, _held)) = pieces.results.recv().await else {
        return Err(StreamableHttpError::UnexpectedEndOfStream);
    };
    if let Some(error) = head.error {
        return Err(failed(error));
    }
    let status = head.output.get("status").and_then(Value::as_u64).and_then(|status| u16::try_from(status).ok());
    let headers = head.output.get("headers").cloned().unwrap_or_default();
    Ok(Answered { status: status.unwrap_or_default(), headers: serde_json::from_value(headers)?, pieces })
}
