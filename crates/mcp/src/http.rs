//! Sends HTTP requests by `http` hostcalls, so that addresses are checked and redirects decided as for extensions.

use crate::calls::{Calls, StreamingCall, bytes_of, object};
use crate::flow::MAX_MESSAGE_BYTES;
use futures_util::stream::{BoxStream, StreamExt};
use pijs_protocol::HostcallError;
use rmcp::transport::streamable_http_client::{SseError, StreamableHttpError};
use serde_json::{Value, json};
use sse_stream::{Sse, SseStream};
use std::io;

/// Maximum size of one streamed response body, in bytes.
const MAX_STREAM_BYTES: usize = 128 << 20;

pub(crate) type HttpFailure = StreamableHttpError<HttpCallError>;

/// The failure of a request before its response.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub(crate) struct HttpCallError(pub(crate) String);

impl From<HostcallError> for HttpCallError {
    fn from(error: HostcallError) -> Self {
        Self(error.message)
    }
}

/// A request outside of the MCP transport.
pub(crate) struct HttpRequest<'a> {
    method: &'static str,
    url: &'a str,
    pub(crate) headers: Vec<(&'a str, String)>,
    body: Option<String>,
}

impl<'a> HttpRequest<'a> {
    pub(crate) fn get(url: &'a str) -> Self {
        Self { method: "GET", url, headers: Vec::new(), body: None }
    }

    pub(crate) fn post(url: &'a str, kind: &str, body: String) -> Self {
        Self { method: "POST", url, headers: vec![("content-type", kind.to_owned())], body: Some(body) }
    }
}

/// A complete response.
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl HttpResponse {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }
}

/// Sends a request and returns its response, whose body may have at most `limit` bytes. Does not follow redirects.
pub(crate) async fn fetch(calls: &Calls, request: HttpRequest<'_>, limit: usize) -> Result<HttpResponse, String> {
    let HttpRequest { method, url, headers, body } = request;
    let headers: Vec<[String; 2]> = headers.into_iter().map(|(name, value)| [name.to_owned(), value]).collect();
    let response = send(calls, method, url, headers, body).await.map_err(|error| error.to_string())?;
    let (status, headers) = (response.status, response.headers.clone());
    let body = response.text(limit).await.map_err(|error| error.to_string())?;
    Ok(HttpResponse { status, headers, body })
}

fn header<'h>(headers: &'h [(String, String)], name: &str) -> Option<&'h str> {
    let found = headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.as_str())
}

/// The head of a response, and the stream of its body.
pub(crate) struct StreamingResponse {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    call: StreamingCall,
}

impl StreamingResponse {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    pub(crate) fn is_kind(&self, kind: &str) -> bool {
        let found = self.header("content-type").and_then(|value| value.split(';').next());
        found.is_some_and(|value| value.trim().eq_ignore_ascii_case(kind))
    }

    /// Returns the body as a stream, limited to [`MAX_STREAM_BYTES`].
    fn body(self) -> BoxStream<'static, io::Result<bytes::Bytes>> {
        let state = (self.call, 0_usize, false);
        futures_util::stream::unfold(state, |(mut call, mut size, over)| async move {
            if over {
                return None;
            }
            let (mut result, _held) = call.results.recv().await?;
            if let Some(error) = result.error {
                return Some((Err(io::Error::other(error.message)), (call, size, true)));
            }
            let ends = result.chunk.as_ref().is_none_or(|chunk| chunk.is_last);
            let bytes = bytes_of(&mut result, "body").unwrap_or_default();
            size = size.saturating_add(bytes.len());
            if size > MAX_STREAM_BYTES {
                return Some((Err(io::Error::other("it sent more than 128 MiB in one answer")), (call, size, true)));
            }
            Some((Ok(bytes.into()), (call, size, ends)))
        })
        .boxed()
    }

    pub(crate) async fn text(self, limit: usize) -> Result<Vec<u8>, HttpFailure> {
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

    /// Returns the body as server-sent events, each limited to [`MAX_MESSAGE_BYTES`].
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
                        return Err(io::Error::other("it sent a message of more than 8 MiB"));
                    }
                }
                Ok(bytes)
            });
            std::future::ready(Some(piece))
        });
        SseStream::from_bytes_stream(bounded).boxed()
    }
}

/// Sends a request, and returns when the head of its response has arrived.
pub(crate) async fn send(
    calls: &Calls,
    method: &str,
    url: &str,
    headers: Vec<[String; 2]>,
    body: Option<String>,
) -> Result<StreamingResponse, HttpFailure> {
    let params = object([
        ("url", json!(url)),
        ("method", json!(method)),
        ("headers", json!(headers)),
        ("body", json!(body)),
        ("stream", json!(true)),
        // The user's headers may contain secrets, so they are sent to the configured URL only.
        ("redirect", json!("manual")),
    ]);
    let failed = |error: HostcallError| StreamableHttpError::Client(HttpCallError::from(error));
    let mut call = calls.stream("http", params, Vec::new()).map_err(failed)?;
    let Some((head, _held)) = call.results.recv().await else {
        return Err(StreamableHttpError::UnexpectedEndOfStream);
    };
    if let Some(error) = head.error {
        return Err(failed(error));
    }
    let status = head.output.get("status").and_then(Value::as_u64).and_then(|status| u16::try_from(status).ok());
    let headers = head.output.get("headers").cloned().unwrap_or_default();
    Ok(StreamingResponse { status: status.unwrap_or_default(), headers: serde_json::from_value(headers)?, call })
}
