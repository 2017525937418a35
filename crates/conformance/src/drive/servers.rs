//! Stub servers on 127.0.0.1. They run on a separate thread, so that they respond while an extension blocks in a synchronous
//! call.

use super::scenario::{Route, Server};
use super::trace::{Trace, present};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use pijs_runtime::{Result, UserError};
use serde_json::json;
use std::convert::Infallible;
use std::net::TcpListener;
use std::sync::Arc;

/// A listening server.
#[derive(Debug, Clone)]
pub(super) struct Listening {
    /// `127.0.0.1:PORT`.
    pub(super) host: String,
    /// `http://127.0.0.1:PORT`.
    pub(super) url: String,
}

/// Starts all servers, which run until the process exits.
pub(super) fn start(servers: &[Server], trace: &Trace) -> Result<Vec<Listening>> {
    let mut listening = Vec::new();
    for (index, server) in servers.iter().enumerate() {
        let failed = |error: std::io::Error| UserError::failed(format!("scripted server {index}: {error}"));
        let listener = TcpListener::bind(("127.0.0.1", server.port)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let host = listener.local_addr().map_err(failed)?.to_string();
        listening.push(Listening { url: format!("http://{host}"), host });
        let (routes, trace) = (Arc::new(server.routes.clone()), trace.clone());
        let thread = std::thread::Builder::new().name(format!("scripted-server-{index}"));
        thread.spawn(move || serve(listener, index, &routes, &trace)).map_err(failed)?;
    }
    Ok(listening)
}

fn serve(listener: TcpListener, index: usize, routes: &Arc<Vec<Route>>, trace: &Trace) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    runtime.block_on(async {
        let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
        while let Ok((stream, _)) = listener.accept().await {
            let (routes, trace) = (Arc::clone(routes), trace.clone());
            let service = service_fn(move |request| answer(request, index, Arc::clone(&routes), trace.clone()));
            // A client may close its connection at any time.
            tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
}

async fn answer(
    request: Request<Incoming>,
    index: usize,
    routes: Arc<Vec<Route>>,
    trace: Trace,
) -> std::result::Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let (method, path) = (head.method.as_str(), head.uri.path());
    let route = routes.iter().find(|route| route.method.as_deref().unwrap_or("GET") == method && route.path == path);
    let status = route.map_or(404, |route| route.status.unwrap_or(200));
    let url = head.uri.path_and_query().map_or(path, |url| url.as_str());
    let sent = (!body.is_empty()).then(|| String::from_utf8_lossy(&body).into_owned());
    let item = json!({"server": index, "method": method, "url": url, "body": sent, "status": status});
    trace.record("http", present(item));
    let (kind, text) = match route {
        Some(Route { json: Some(value), .. }) => ("application/json", value.to_string()),
        Some(route) => ("text/plain", route.body.clone().unwrap_or_default()),
        None => ("text/plain", "not found".to_owned()),
    };
    let mut response = Response::builder().status(status).header("connection", "close");
    let own = route.map(|route| &route.headers).into_iter().flatten();
    if !own.clone().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
        response = response.header("content-type", kind);
    }
    for (name, value) in own {
        response = response.header(name, value);
    }
    Ok(response.body(Full::new(text.into())).unwrap_or_else(|error| {
        let mut broken = Response::new(Full::new(error.to_string().into()));
        *broken.status_mut() = hyper::StatusCode::INTERNAL_SERVER_ERROR;
        broken
    }))
}
