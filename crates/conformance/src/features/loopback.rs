//! Servers on loopback: the model, a package's servers, and its registry.

use anyhow::{Context, Result};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

/// A request to a server.
pub(super) struct ServerRequest {
    pub(super) method: String,
    /// The `Host` header.
    pub(super) host: String,
    /// URL with its query.
    pub(super) url: String,
    pub(super) body: Bytes,
}

impl ServerRequest {
    /// Returns the path without the query.
    pub(super) fn path(&self) -> &str {
        self.url.split('?').next().unwrap_or_default()
    }
}

/// The response of a server.
pub(super) struct ServerResponse {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl ServerResponse {
    pub(super) fn new(kind: &str, body: impl Into<Vec<u8>>) -> Self {
        Self { status: 200, headers: vec![(CONTENT_TYPE.to_string(), kind.to_owned())], body: body.into() }
    }

    pub(super) fn missing() -> Self {
        Self { status: 404, ..Self::new("text/plain", "not found") }
    }
}

/// A server that listens until it is dropped.
pub(super) struct Server {
    /// `127.0.0.1:PORT`.
    pub(super) address: SocketAddr,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Starts a server on loopback; port 0 selects a free port.
pub(super) async fn serve(
    port: u16,
    answer: impl Fn(&ServerRequest) -> ServerResponse + Send + Sync + 'static,
) -> Result<Server> {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await;
    let listener = listener.with_context(|| format!("cannot listen on port {port}"))?;
    let address = listener.local_addr()?;
    let answer = Arc::new(answer);
    let task = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answer = Arc::clone(&answer);
            let service = service_fn(move |request| respond(request, Arc::clone(&answer)));
            // A client may close its connection at any time.
            tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    Ok(Server { address, task })
}

async fn respond(
    request: Request<Incoming>,
    answer: Arc<impl Fn(&ServerRequest) -> ServerResponse + Send + Sync>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let url = head.uri.path_and_query().map_or("/", |url| url.as_str()).to_owned();
    let host = head.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default().to_owned();
    let answer = answer(&ServerRequest { method: head.method.to_string(), host, url, body });
    let mut response = Response::new(Full::new(Bytes::from(answer.body)));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in answer.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            response.headers_mut().insert(name, value);
        }
    }
    Ok(response)
}
