//! Sends HTTP requests to vetted addresses.
//!
//! The connector resolves a name, and refuses it if any of its addresses is not public ([`address`]). A literal address that is
//! not public, and `localhost`, require a grant that names them with their port. The connector follows redirects itself and
//! checks each hop in the same way. There are no proxies and no cookies, and extensions do not share connections; TLS is rustls
//! with the platform's roots. With `decode`, the body is decoded by its content codings ([`coding`]), as by `fetch`; without it,
//! the body is delivered as sent.

use crate::connection_limits::{ConnectionLimits, too_many_names};
use crate::lookups::TooManyNames;
use address::{LOCALHOST, PublicResolver, Resolver, SystemResolver};
use bytes::Bytes;
use hyper::ext::ReasonPhrase;
use pijs_hostcall::connector::{cancelled, deadline};
use pijs_hostcall::derive::HttpTarget;
use pijs_hostcall::{BoxFuture, ChunkSink, Connector, Output, Permit, Reason, Request};
use pijs_protocol::call::{HeaderPairs, HttpCall};
use pijs_protocol::{ErrorCode, ExtensionId, HostcallError, TypedCall, guard};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, Response, Url};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub mod address;
mod coding;
mod upload;

use coding::{DecodeStep, Decoding};
use upload::{Upload, Uploads};

/// Headers that are kept on a redirect to another origin. Any other may contain a secret.
const CROSS_ORIGIN_HEADERS: &[&str] = &[
    "accept",
    "accept-encoding",
    "accept-language",
    "cache-control",
    "content-encoding",
    "content-language",
    "content-type",
    "if-modified-since",
    "if-none-match",
    "pragma",
    "range",
    "sec-fetch-mode",
    "user-agent",
];

/// Number of bytes at which a piece of a streamed body is delivered without waiting for more.
const PIECE: usize = 64 << 10;

/// Maximum number of header lines of a response. Node limits their size instead, which allows about as many.
const HEADERS: usize = 1024;

/// Status codes without a body, whatever the headers say.
const NO_BODY: &[u16] = &[101, 103, 204, 205, 304];

/// Limits of requests.
#[derive(Clone)]
pub struct HttpOptions {
    /// Resolves names. The returned addresses are vetted.
    pub resolver: Arc<dyn Resolver>,
    /// Time limit for connecting.
    pub connect_timeout: Duration,
    /// Time limit between two pieces of a response.
    pub idle_timeout: Duration,
    /// Time limit for the whole request, if the caller sets none.
    pub total_timeout: Duration,
    /// Maximum size of a body in bytes, as received and after decoding each content coding.
    pub body_bytes: usize,
    /// Maximum number of redirects that are followed.
    pub redirects: usize,
    /// `User-Agent` when the extension sets none.
    pub user_agent: String,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            resolver: Arc::new(SystemResolver),
            connect_timeout: Duration::from_secs(15),
            idle_timeout: Duration::from_secs(120),
            total_timeout: Duration::from_secs(600),
            body_bytes: 64 << 20,
            redirects: 5,
            user_agent: concat!("pijs/", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}

/// Serves the `http` method.
pub struct HttpConnector {
    inner: Arc<HttpState>,
}

struct HttpState {
    options: HttpOptions,
    /// A client for each extension, because extensions do not share connections.
    clients: Mutex<BTreeMap<ExtensionId, Client>>,
    uploads: Uploads,
    limits: Arc<ConnectionLimits>,
}

impl HttpConnector {
    /// Creates a connector with these limits.
    pub(crate) fn new(options: HttpOptions, limits: Arc<ConnectionLimits>) -> Self {
        let (clients, uploads) = (Mutex::default(), Uploads::default());
        Self { inner: Arc::new(HttpState { options, clients, uploads, limits }) }
    }
}

impl Connector for HttpConnector {
    fn call(&self, request: Request, sink: ChunkSink) -> BoxFuture<'static, Result<Output, HostcallError>> {
        let inner = Arc::clone(&self.inner);
        Box::pin(async move {
            let TypedCall::Http(call) = &request.call else { return Err(request.misdirected()) };
            match call {
                HttpCall::Send { upload, data } => inner.uploads.send(&request, upload, data).await,
                HttpCall::Lookup { url } => inner.look_up(&request, url).await,
                HttpCall::Finish { upload } => Ok(inner.uploads.finish(&request, upload)),
                HttpCall::Request { stream, .. } => {
                    let client = inner.client(request.caller.extension())?;
                    let hop = Hop::first(&request, call, &inner.uploads)?;
                    inner.bounded(&client, &request, hop, stream.then_some(sink)).await
                }
            }
        })
    }

    fn call_sync(&self, request: &Request) -> Result<Output, HostcallError> {
        let TypedCall::Http(call) = &request.call else { return Err(request.misdirected()) };
        if !matches!(call, HttpCall::Request { upload: None, .. }) {
            return Err(HostcallError::invalid(
                "sync",
                "http: an upload has no synchronous form; use the asynchronous one",
            ));
        }
        // A separate client: the shared one belongs to the runtime of the asynchronous calls.
        let client = self.inner.build(request.caller.extension())?;
        let hop = Hop::first(request, call, &self.inner.uploads)?;
        crate::blocking::block_on(self.inner.bounded(&client, request, hop, None))
    }

    fn end_extension(&self, extension: &ExtensionId) {
        self.inner.clients.lock().unwrap_or_else(PoisonError::into_inner).remove(extension);
        self.inner.uploads.end(extension);
        self.inner.limits.end(extension);
    }
}

/// One request of a chain of redirects.
struct Hop {
    url: Url,
    method: Method,
    headers: HeaderMap,
    body: Body,
}

/// Body of a request.
enum Body {
    None,
    Whole(Vec<u8>),
    Pieces(Upload),
}

impl Body {
    fn is_empty(&self) -> bool {
        match self {
            Self::None => true,
            Self::Whole(body) => body.is_empty(),
            Self::Pieces(_) => false,
        }
    }
}

impl Hop {
    fn first(request: &Request, call: &HttpCall, uploads: &Uploads) -> Result<Self, HostcallError> {
        let HttpCall::Request { url, method, headers: pairs, body, upload, .. } = call else {
            return Err(request.misdirected());
        };
        let url = Url::parse(url).map_err(|error| HostcallError::invalid("url", format!("http: {error}")))?;
        let method = method.as_deref().unwrap_or("GET");
        let method = match Method::from_bytes(method.to_ascii_uppercase().as_bytes()) {
            Ok(Method::CONNECT | Method::TRACE) | Err(_) => {
                return Err(HostcallError::invalid("schema", format!("http: the method {method:?} is not available")));
            }
            Ok(method) => method,
        };
        let body = match (body, upload) {
            (None, None) => Body::None,
            (Some(body), None) => Body::Whole(body.to_vec()),
            (None, Some(id)) => Body::Pieces(uploads.begin(request.caller.extension(), id)?),
            (Some(_), Some(_)) => {
                return Err(HostcallError::invalid("schema", "http: `body` and `upload` exclude each other"));
            }
        };
        Ok(Self { url, method, headers: headers(pairs)?, body })
    }

    /// Returns the request that follows a redirect.
    fn redirected(mut self, status: u16, to: Url) -> Self {
        let rewrites = match status {
            303 => self.method != Method::HEAD,
            301 | 302 => self.method == Method::POST,
            _ => false,
        };
        if rewrites {
            self.method = Method::GET;
            self.body = Body::None;
            for name in ["content-type", "content-length", "content-encoding", "content-language", "content-location"] {
                self.headers.remove(name);
            }
        }
        if self.url.origin() != to.origin() && guard!(HttpCredentials) {
            let stay: Vec<HeaderName> =
                self.headers.keys().filter(|name| !CROSS_ORIGIN_HEADERS.contains(&name.as_str())).cloned().collect();
            for name in stay {
                self.headers.remove(name);
            }
        }
        self.url = to;
        self
    }
}

/// Converts the headers of a call. Drops headers of the connection, because the client sets them.
pub(crate) fn headers(HeaderPairs(pairs): &HeaderPairs) -> Result<HeaderMap, HostcallError> {
    const DROPPED: &[&str] = &["connection", "content-length", "keep-alive"];
    const FORBIDDEN: &[&str] = &["expect", "host", "te", "trailer", "transfer-encoding", "upgrade"];
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let lower = name.to_ascii_lowercase();
        // `content-length: 0` is kept, because it declares an empty body.
        if DROPPED.contains(&&*lower) && !(lower == "content-length" && value == "0") {
            continue;
        }
        if FORBIDDEN.contains(&&*lower) || lower.starts_with("proxy-") {
            return Err(HostcallError::invalid("schema", format!("http: only the host sets the header {name:?}")));
        }
        let bad = || {
            HostcallError::invalid("schema", format!("http: the name or the value of the header {name:?} is invalid"))
        };
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
        headers.append(name, HeaderValue::from_bytes(&bytes_of(value)).map_err(|_| bad())?);
    }
    Ok(headers)
}

/// Encodes a header value as Latin-1, as in `fetch`; a text with other characters is encoded as UTF-8.
fn bytes_of(value: &str) -> Cow<'_, [u8]> {
    let bytes: Result<Vec<u8>, _> = value.chars().map(u8::try_from).collect();
    bytes.map_or(Cow::Borrowed(value.as_bytes()), Cow::Owned)
}

/// Returns the reason phrase of the response.
fn reason_of(response: &Response) -> String {
    match response.extensions().get::<ReasonPhrase>() {
        Some(reason) => reason.as_bytes().iter().copied().map(char::from).collect(),
        None => response.status().canonical_reason().unwrap_or_default().to_owned(),
    }
}

impl HttpState {
    fn client(&self, extension: &ExtensionId) -> Result<Client, HostcallError> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(extension) {
            return Ok(client.clone());
        }
        let client = self.build(extension)?;
        clients.insert(extension.clone(), client.clone());
        Ok(client)
    }

    fn build(&self, extension: &ExtensionId) -> Result<Client, HostcallError> {
        let (resolver, limits) = (Arc::clone(&self.options.resolver), Arc::clone(&self.limits));
        Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            // The caller decides whether the body is decoded.
            .no_gzip()
            .http1_max_headers(HEADERS)
            .dns_resolver(Arc::new(PublicResolver { resolver, limits, extension: extension.clone() }))
            .pool_max_idle_per_host(self.limits.max_idle())
            .connect_timeout(self.options.connect_timeout)
            .read_timeout(self.options.idle_timeout)
            .user_agent(&self.options.user_agent)
            .build()
            .map_err(|error| failure(&error, "client"))
    }

    async fn bounded(
        &self,
        client: &Client,
        request: &Request,
        hop: Hop,
        sink: Option<ChunkSink>,
    ) -> Result<Output, HostcallError> {
        let limit = request.timeout_ms.map_or(self.options.total_timeout, Duration::from_millis);
        tokio::select! {
            biased;
            () = request.cancel.cancelled() => Err(cancelled("http")),
            outcome = tokio::time::timeout(limit, self.exchange(client, request, hop, sink)) => outcome
                .unwrap_or_else(|_| Err(deadline("http", u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)))),
        }
    }

    async fn exchange(
        &self,
        client: &Client,
        request: &Request,
        mut hop: Hop,
        sink: Option<ChunkSink>,
    ) -> Result<Output, HostcallError> {
        let _permit = self.limits.acquire(request.caller.extension()).await;
        let TypedCall::Http(HttpCall::Request { redirect, decode, .. }) = &request.call else {
            return Err(request.misdirected());
        };
        let (mode, decode) = (redirect.as_deref().unwrap_or("follow"), *decode);
        let mut followed = 0;
        let response = loop {
            if followed == 0 || guard!(HttpRedirect) {
                self.check(request, &hop.url)?;
            }
            let mut headers = hop.headers.clone();
            if decode {
                coding::set_accept_encoding(&mut headers, hop.url.scheme());
            }
            if !hop.body.is_empty() {
                headers.remove("content-length");
            }
            let mut sending = client.request(hop.method.clone(), hop.url.clone()).headers(headers);
            match &mut hop.body {
                Body::None => {}
                Body::Whole(body) => sending = sending.body(body.clone()),
                Body::Pieces(upload) => match upload.body() {
                    Some(body) => sending = sending.body(body),
                    None => {
                        return Err(io(
                            "EREDIRECT",
                            &format!(
                                "a redirect to {} needs the body again, which was streamed and cannot be repeated",
                                hop.url
                            ),
                        ));
                    }
                },
            }
            let response = sending.send().await.map_err(|error| failure(&error, hop.url.as_str()))?;
            let status = response.status().as_u16();
            let location = response.headers().get("location").and_then(|value| value.to_str().ok());
            let (true, Some(location)) = (matches!(status, 301 | 302 | 303 | 307 | 308), location) else {
                break response;
            };
            match mode {
                "manual" => break response,
                "follow" => {}
                _ => return Err(io("EREDIRECT", &format!("{} redirects to {location}", hop.url))),
            }
            if followed == self.options.redirects {
                return Err(io("ETOOMANYREDIRECTS", &format!("more than {} redirects", self.options.redirects)));
            }
            followed += 1;
            let to = hop
                .url
                .join(location)
                .map_err(|error| io("EREDIRECT", &format!("{} redirects to {location:?}: {error}", hop.url)))?;
            if hop.url.scheme() == "https" && to.scheme() == "http" && guard!(HttpRedirect) {
                return Err(Reason::Scope.refusal("http", "http", &format!("a redirect from https to {to}")));
            }
            hop = hop.redirected(status, to);
        };
        let is_coded = decode && hop.method != Method::HEAD && !NO_BODY.contains(&response.status().as_u16());
        let decoding = match is_coded {
            true => Decoding::of(response.headers(), self.options.body_bytes)?,
            false => Decoding::none(),
        };
        let incoming = IncomingBody { inner: self, request, response, decoding, url: hop.url, received: 0 };
        self.receive(incoming, followed > 0, sink).await
    }

    /// Returns whether an address is blocked: it is not public, no grant names it, and no server of the extension itself listens
    /// there.
    fn is_blocked(&self, permit: &Permit, address: IpAddr, port: u16) -> bool {
        !self.options.resolver.is_elsewhere(address)
            && !permit.names_address(address, port)
            && !permit.is_own_server(SocketAddr::new(address, port))
    }

    /// Checks one hop: the scheme, the host, and the address if it is literal.
    fn check(&self, request: &Request, url: &Url) -> Result<(), HostcallError> {
        let target = HttpTarget::of(url)?;
        let subject = || format!("{}://{}:{}", target.scheme, target.host, target.port);
        let permit = &request.permit;
        let allowed = permit.host(target.scheme, &target.host, target.port);
        allowed.map_err(|reason| reason.refusal("http", "http", &subject()))?;
        let blocked = match url.host() {
            Some(url::Host::Ipv4(address)) => self.is_blocked(permit, address.into(), target.port),
            Some(url::Host::Ipv6(address)) => self.is_blocked(permit, address.into(), target.port),
            // The resolver maps it to this machine, without a name server.
            Some(url::Host::Domain(LOCALHOST)) => !permit.names_localhost(target.port),
            _ => false,
        };
        if blocked && guard!(HttpAddress) {
            return Err(Reason::BlockedAddress.refusal("http", "http", &subject()));
        }
        Ok(())
    }

    async fn receive(
        &self,
        mut incoming: IncomingBody<'_>,
        redirected: bool,
        sink: Option<ChunkSink>,
    ) -> Result<Output, HostcallError> {
        let (request, response) = (incoming.request, &incoming.response);
        let head = json!({
            "status": response.status().as_u16(),
            "statusText": reason_of(response),
            "headers": response
                .headers()
                .iter()
                // Decoded as Latin-1, as in `fetch`.
                .map(|(name, value)| json!([name.as_str(), value.as_bytes().iter().copied().map(char::from).collect::<String>()]))
                .collect::<Vec<_>>(),
            "url": incoming.url.as_str(),
            "redirected": redirected,
        });
        if let Some(sink) = &sink {
            sink.send(Output::new(head.clone()))?;
        }
        let (mut body, mut size) = (Vec::new(), 0_usize);
        loop {
            let next = tokio::select! {
                biased;
                // Data that arrives while the sink is busy is sent as one piece.
                () = ready(sink.as_ref()), if sink.is_some() && !body.is_empty() => None,
                next = incoming.next(), if sink.is_none() || body.len() < PIECE => Some(next),
            };
            if request.cancel.is_cancelled() {
                return Err(cancelled("http"));
            }
            if let Some(Ok(Some(piece))) = &next {
                size += piece.len();
                if size > self.options.body_bytes && guard!(HttpSize) {
                    return Err(incoming.too_large());
                }
                body.extend_from_slice(piece);
                continue;
            }
            if let Some(sink) = sink.as_ref().filter(|_| !body.is_empty()) {
                sink.send(Output::default().with_bytes("body", std::mem::take(&mut body)))?;
            }
            if let Some(end) = next {
                end?;
                break;
            }
        }
        Ok(match sink {
            Some(_) => Output::empty(),
            None => Output::new(head).with_bytes("body", body),
        })
    }

    /// Resolves a URL's host, for code that checks addresses before a request. As with requests, the lookup is refused if any
    /// address is not public; `localhost` is allowed.
    async fn look_up(&self, request: &Request, url: &str) -> Result<Output, HostcallError> {
        let target = HttpTarget::parse(url)?;
        let found: Vec<IpAddr> = match target.host.trim_start_matches('[').trim_end_matches(']').parse() {
            Ok(literal) => vec![literal],
            Err(_) if target.host == "localhost" => vec![Ipv4Addr::LOCALHOST.into()],
            Err(_) => {
                let extension = request.caller.extension();
                let finding = self.limits.look_up(extension, &self.options.resolver, &target.host);
                let finding = tokio::time::timeout(self.options.connect_timeout, finding);
                let found = tokio::select! {
                    biased;
                    () = request.cancel.cancelled() => return Err(cancelled("http")),
                    found = finding => found,
                };
                let missing = |errno: &str| {
                    let message = format!("net: getaddrinfo {errno} {}", target.host);
                    HostcallError::io(errno, "getaddrinfo", message).with("hostname", target.host.as_str())
                };
                let found = found.map_err(|_| missing("EAI_AGAIN"))?.map_err(|error| match too_many_names(&error) {
                    Some(refused) => refused.refusal("http"),
                    None => missing("ENOTFOUND"),
                })?;
                if guard!(HttpAddress) && found.iter().any(|address| !self.options.resolver.is_elsewhere(*address)) {
                    return Err(Reason::BlockedAddress.refusal("http", "http", url));
                }
                found
            }
        };
        let addresses: Vec<Value> = found
            .iter()
            .map(|address| json!({ "address": address.to_string(), "family": if address.is_ipv4() { 4 } else { 6 } }))
            .collect();
        Ok(Output::new(json!({ "addresses": addresses })))
    }
}

/// Waits until the sink accepts data.
async fn ready(sink: Option<&ChunkSink>) {
    if let Some(sink) = sink {
        sink.ready().await;
    }
}

/// A response body that is being received.
struct IncomingBody<'a> {
    inner: &'a HttpState,
    request: &'a Request,
    response: Response,
    decoding: Decoding,
    url: Url,
    /// Bytes received before decoding.
    received: usize,
}

impl IncomingBody<'_> {
    /// Returns the next decoded piece of the body; `None` at its end.
    async fn next(&mut self) -> Result<Option<Bytes>, HostcallError> {
        loop {
            match self.decoding.step().map_err(|failure| self.decode_error(failure))? {
                DecodeStep::Piece(piece) => return Ok(Some(piece)),
                // A decoder never yields by itself, so this lets other tasks run.
                DecodeStep::Progress => tokio::task::yield_now().await,
                DecodeStep::NeedsMemory(bytes) => {
                    let extension = self.request.caller.extension();
                    self.decoding.begin(self.inner.limits.acquire_decoder(extension, bytes).await);
                }
                DecodeStep::NeedsInput => {
                    let piece = self.response.chunk().await.map_err(|error| failure(&error, self.url.as_str()))?;
                    let Some(piece) = piece else { return Ok(None) };
                    // A coding may produce no output for any amount of input, so the input is limited as well.
                    self.received += piece.len();
                    if self.received > self.inner.options.body_bytes && guard!(HttpSize) {
                        return Err(self.too_large());
                    }
                    self.decoding.feed(piece);
                }
            }
        }
    }

    fn too_large(&self) -> HostcallError {
        io("EFBIG", &format!("the response of {} has more than {} bytes", self.url, self.inner.options.body_bytes))
    }

    fn decode_error(&self, failure: coding::DecodeError) -> HostcallError {
        match failure {
            coding::DecodeError::TooLarge => self.too_large(),
            coding::DecodeError::Broken(code, number, words) => {
                let error = io(&code, &format!("the body cannot be decoded: {words}: {}", self.url));
                error.with("number", number).with("words", words)
            }
        }
    }
}

fn io(errno: &str, message: &str) -> HostcallError {
    HostcallError::io(errno, "fetch", format!("http: {message}"))
}

/// Converts an error by its most specific cause: a blocked address, a system error, a timeout.
fn failure(error: &reqwest::Error, url: &str) -> HostcallError {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    let mut deepest = error.to_string();
    while let Some(at) = cause {
        if at.is::<address::Blocked>() {
            return Reason::BlockedAddress.refusal("http", "http", url);
        }
        if let Some(refused) = at.downcast_ref::<TooManyNames>() {
            return refused.refusal("http");
        }
        if at.is::<address::Unresolved>() {
            return io("ENOTFOUND", &format!("{at}: {url}")).retryable();
        }
        if let Some(system) = at.downcast_ref::<std::io::Error>()
            && system.raw_os_error().is_some()
        {
            let (name, words) = network_words(system);
            return io(name, &format!("{name}: {words}, {url}")).retryable();
        }
        deepest = at.to_string();
        cause = at.source();
    }
    if error.is_timeout() {
        return HostcallError::new(ErrorCode::Timeout, format!("http: no answer in time: {url}"))
            .with("reason", "deadline")
            .retryable();
    }
    let errno = if error.is_connect() { "ECONNFAILED" } else { "EPROTO" };
    io(errno, &format!("{deepest}: {url}"))
}

fn network_words(error: &std::io::Error) -> (&'static str, &'static str) {
    use rustix::io::Errno;
    match Errno::from_io_error(error) {
        Some(Errno::CONNREFUSED) => ("ECONNREFUSED", "connection refused"),
        Some(Errno::CONNRESET) => ("ECONNRESET", "connection reset by peer"),
        Some(Errno::CONNABORTED) => ("ECONNABORTED", "connection aborted"),
        Some(Errno::HOSTUNREACH) => ("EHOSTUNREACH", "host is unreachable"),
        Some(Errno::NETUNREACH) => ("ENETUNREACH", "network is unreachable"),
        Some(Errno::TIMEDOUT) => ("ETIMEDOUT", "connection timed out"),
        _ => crate::fs::system_error(error),
    }
}
