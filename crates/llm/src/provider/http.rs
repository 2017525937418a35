//! Sends requests over HTTP: retries, limits, and decoding into provider events.
//!
//! [`Endpoint::send`] makes one request with its retries. A request is retried only before the first byte of its reply: after a
//! failed connection, and after a status of [`is_retriable`]. A later failure ends the reply, so no event is delivered twice. A
//! rejected key is not retried.
//!
//! [`HttpOptions`] bounds the effect of a server: idle time, duration, line and body size, and requested delays.

use super::connection_errors::{ConnectionFailure, chain, explain, is_refused_tunnel};
use super::error_messages::{self, ErrorFormat};
use super::openai::Retention;
use super::proxy::{Proxies, Proxy};
use super::sse::{self, SseLimits};
use super::tunnel_status::tunnel_status;
use super::{ErrorKind, Model, Outgoing, ProviderError, ProviderEvent, ProviderStream, cancellable};
use async_stream::stream;
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use pijs_environment::{Ambient, Wait};
use pijs_redact::Redactor;
use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;
use tokio_util::sync::CancellationToken;
use url::Url;

/// Limits of a request.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// Idle time after which a reply is treated as stalled; pi's `httpIdleTimeoutMs`.
    pub idle: Duration,
    /// Time after which a reply is cut off.
    pub total: Duration,
    /// Size limits in bytes.
    pub sse: SseLimits,
    /// Number of retries after the first attempt; pi's `retry.provider.maxRetries`. 0 by default, because the agent also retries
    /// (`RetrySettings`), and the two numbers would multiply.
    pub retries: u32,
    /// First delay between attempts. It doubles with each retry up to 32 times, minus a random part of up to a half.
    pub backoff: Duration,
    /// Maximum delay that a server may request; beyond it the request fails at once. pi's `retry.provider.maxRetryDelayMs`.
    pub retry_after_cap: Duration,
    /// Proxies of the user, from the caller; the environment is not read.
    pub proxies: Proxies,
    /// Additional certificate authority in PEM.
    pub certificate: Option<Vec<u8>>,
    /// Requested cache retention of the conversation; pi's `PI_CACHE_RETENTION`.
    pub retention: Retention,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(300),
            total: Duration::from_secs(3600),
            sse: SseLimits::default(),
            retries: 0,
            backoff: Duration::from_secs(1),
            retry_after_cap: Duration::from_secs(60),
            proxies: Proxies::default(),
            certificate: None,
            retention: Retention::Short,
        }
    }
}

/// Credentials of a request.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// API key.
    pub key: Option<String>,
    /// Additional headers. Secret ones are marked sensitive.
    pub headers: HeaderMap,
}

impl Access {
    /// Returns the headers with the key in the header `name`, after the prefix `scheme`.
    ///
    /// # Errors
    ///
    /// Fails when the key is not a valid header value.
    pub(super) fn into_headers(
        self,
        name: HeaderName,
        scheme: &str,
        model: &Model,
    ) -> Result<HeaderMap, ProviderError> {
        let mut headers = self.headers;
        if let Some(key) = &self.key {
            headers.insert(name, secret(&format!("{scheme}{key}"), model)?);
        }
        Ok(headers)
    }
}

/// Returns a header value marked sensitive.
fn secret(value: &str, model: &Model) -> Result<HeaderValue, ProviderError> {
    let mut value = HeaderValue::from_str(value).map_err(|_| {
        let message = format!("the key for {} contains a character that is not allowed in a header", model.provider);
        ProviderError::new(ErrorKind::Auth, message)
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// Decodes the stream of one reply into provider events.
pub(super) trait Decode: Send + 'static {
    /// Decodes one event. Not called again after it has produced [`ProviderEvent::Done`].
    fn event(&mut self, data: &str, out: &mut Vec<ProviderEvent>) -> Result<(), ProviderError>;
    /// Returns the message format of a rejected request.
    fn wording(&self) -> ErrorFormat;
    /// Handles the end of the body.
    fn end(&mut self, out: &mut Vec<ProviderEvent>) -> Result<(), ProviderError>;
}

/// The URL and headers of one provider's requests.
#[derive(Debug, Clone)]
pub(super) struct Endpoint {
    client: reqwest::Client,
    proxy: Option<Proxy>,
    url: String,
    headers: HeaderMap,
    options: HttpOptions,
    ambient: Ambient,
}

/// Timeout of asking a proxy for the status of a refusal.
const TUNNEL: Duration = Duration::from_secs(5);

/// Timeout of connecting to a server.
const CONNECT: Duration = Duration::from_secs(60);

/// Returns the client for an address, and the proxy that it uses.
pub fn client(options: &HttpOptions, url: &Url) -> Result<(reqwest::Client, Option<Proxy>), ProviderError> {
    // A redirect would send the key to another server.
    let mut builder = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(options.idle.min(CONNECT))
        .no_proxy();
    let bad = |what: &str, error: reqwest::Error| {
        ProviderError::new(ErrorKind::Network, format!("{what}: {}", chain(&error)))
    };
    let proxy = options.proxies.for_url(url)?;
    if let Some(proxy) = &proxy {
        let through = proxy.to_reqwest().map_err(|error| bad(&format!("the proxy {proxy}"), error))?;
        builder = builder.proxy(through);
    }
    if let Some(pem) = &options.certificate {
        let certificate = reqwest::Certificate::from_pem(pem).map_err(|error| bad("the extra certificate", error))?;
        builder = builder.add_root_certificate(certificate);
    } else if url.scheme() == "http" && proxy.as_ref().is_none_or(|proxy| proxy.url().scheme() != "https") {
        // Reading the system's certificates takes milliseconds, and a plain connection checks none: redirects are not followed.
        builder = builder.tls_certs_only([]);
    }
    let client = builder.build().map_err(|error| bad("cannot set up HTTP", error))?;
    Ok((client, proxy))
}

/// Parses the address of an API: http or https with a host.
///
/// # Errors
///
/// Fails with a message that states the problem, but not the address.
pub fn address(text: &str) -> Result<Url, String> {
    // The URL parser accepts a single slash after the scheme.
    if let Some((scheme, rest)) = text.split_once(':')
        && matches!(scheme.to_ascii_lowercase().as_str(), "http" | "https")
        && !rest.starts_with("//")
    {
        return Err(format!(
            "it lacks the two slashes after {scheme}:; write {scheme}://{}",
            rest.trim_start_matches('/')
        ));
    }
    match Url::parse(text) {
        Ok(url) if !matches!(url.scheme(), "http" | "https") => Err(match text.contains("://") {
            true => format!("its scheme is {}, and only http and https are supported", url.scheme()),
            false => format!("it does not begin with http:// or https://; write {}://{text}", usual_scheme(text)),
        }),
        Ok(url) => Ok(url),
        Err(url::ParseError::RelativeUrlWithoutBase) => {
            Err(format!("it does not begin with http:// or https://; write {}://{text}", usual_scheme(text)))
        }
        Err(error) => Err(format!("it is not a URL: {error}")),
    }
}

/// Returns the likely scheme of an address without one: servers of this machine and of its network rarely have a certificate.
fn usual_scheme(text: &str) -> &'static str {
    use std::net::IpAddr;
    let url = Url::parse(&format!("http://{text}"));
    let is_near = match url.as_ref().ok().and_then(Url::host) {
        Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost") || !name.contains('.'),
        Some(url::Host::Ipv4(address)) => is_private(IpAddr::V4(address)),
        Some(url::Host::Ipv6(address)) => is_private(IpAddr::V6(address)),
        None => false,
    };
    if is_near && !text.is_empty() { "http" } else { "https" }
}

fn is_private(address: std::net::IpAddr) -> bool {
    use std::net::IpAddr;
    match address {
        IpAddr::V4(address) => {
            address.is_loopback() || address.is_private() || address.is_link_local() || address.is_unspecified()
        }
        IpAddr::V6(address) => {
            address.is_loopback()
                || address.is_unspecified()
                || address.is_unique_local()
                || address.is_unicast_link_local()
        }
    }
}

/// Help text for an endpoint that has chat completions but no Responses API.
const CHAT_ONLY: &str = "for an endpoint with chat completions only: --model openai/NAME --base-url URL";

impl Endpoint {
    pub(super) fn new(
        url: String,
        headers: HeaderMap,
        options: &HttpOptions,
        ambient: &Ambient,
    ) -> Result<Self, ProviderError> {
        let parsed = address(&url).map_err(|problem| {
            ProviderError::new(ErrorKind::Rejected, format!("{url:?} is not a valid address: {problem}"))
                .with_help("check --base-url, or baseUrl of the provider in models.json or in its extension")
        })?;
        let (client, proxy) = client(options, &parsed)?;
        Ok(Self { client, proxy, url, headers, options: options.clone(), ambient: ambient.clone() })
    }

    /// Returns the requested cache retention.
    pub(super) fn retention(&self) -> Retention {
        self.options.retention
    }

    /// Returns an endpoint below this one.
    pub(super) fn under(&self, path: &str) -> Self {
        Self { url: format!("{}{path}", self.url), ..self.clone() }
    }

    /// Returns the endpoint with an additional header.
    pub(super) fn with_header(&self, name: &'static str, value: HeaderValue) -> Self {
        let mut endpoint = self.clone();
        endpoint.headers.insert(name, value);
        endpoint
    }

    /// Returns the value of a header, unless it is not text.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Returns the headers without sensitive ones.
    pub(super) fn shown_headers(&self) -> BTreeMap<String, String> {
        let shown = self.headers.iter().filter(|(_, value)| !value.is_sensitive());
        shown
            .map(|(name, value)| (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
            .collect()
    }

    /// Sends a request. The connection lives as long as the stream.
    pub(super) fn send<D: Decode>(
        &self,
        outgoing: Outgoing,
        mut decoder: D,
        cancel: CancellationToken,
    ) -> ProviderStream {
        let mut endpoint = self.clone();
        match with_changes(&self.headers, &outgoing.headers) {
            Ok(headers) => endpoint.headers = headers,
            Err(error) => return futures_util::stream::once(async move { Err(error) }).boxed(),
        }
        let payload = outgoing.payload;
        let wording = decoder.wording();
        let asked = payload.get("model").and_then(Value::as_str).unwrap_or_default().to_owned();
        let reply = stream! {
            let mut tries = 0;
            let response = loop {
                let failure = match endpoint.post(&payload, &decoder.wording()).await {
                    Ok(response) if response.status().is_success() => break response,
                    Ok(response) => endpoint.refused(response, &decoder.wording()).await,
                    Err(failure) => failure,
                };
                if failure.retry.is_none() || tries == endpoint.options.retries {
                    yield Err(failure.error);
                    return;
                }
                tries += 1;
                let delay = failure.retry.flatten().unwrap_or_else(|| endpoint.backoff(tries));
                yield Ok(ProviderEvent::Retrying { attempt: tries, max_attempts: endpoint.options.retries, delay, reason: failure.error.message().to_owned() });
                endpoint.ambient.timer.sleep(Wait::Backoff, delay).await;
            };
            yield Ok(ProviderEvent::Response { status: response.status().as_u16(), headers: header_map(response.headers()) });
            if let Err(error) = endpoint.check_type(response.headers()) {
                yield Err(endpoint.of_other_api(error, &wording, &asked));
                return;
            }
            yield Ok(ProviderEvent::Begun);
            let body = endpoint.body(response).boxed();
            let mut events = sse::events(body, endpoint.options.sse);
            let mut out = Vec::new();
            loop {
                let event = events.next().await;
                let ended = event.is_none();
                let decoded = match event {
                    Some(Ok(event)) => decoder.event(&event.data, &mut out),
                    Some(Err(error)) => Err(error),
                    None => decoder.end(&mut out),
                };
                for event in out.drain(..) {
                    let done = matches!(event, ProviderEvent::Done(_));
                    yield Ok(event);
                    if done {
                        return;
                    }
                }
                if let Err(error) = decoded {
                    yield Err(endpoint.of_other_api(endpoint.with_place(error), &wording, &asked));
                    return;
                }
                if ended {
                    return;
                }
            }
        };
        let endpoint = self.clone();
        let reply = reply.map(move |event| match event {
            Err(error) => Err(error.reworded(|text| endpoint.without_keys(text))),
            Ok(ProviderEvent::Retrying { attempt, max_attempts, delay, reason }) => {
                let reason = endpoint.without_keys(&reason);
                Ok(ProviderEvent::Retrying { attempt, max_attempts, delay, reason })
            }
            event => event,
        });
        cancellable(reply.boxed(), cancel)
    }

    /// Adds help to the error of a response in another API's format: the endpoint may only have chat completions.
    fn of_other_api(&self, error: ProviderError, wording: &ErrorFormat, model: &str) -> ProviderError {
        if !matches!(wording, ErrorFormat::Responses(_)) || error.kind() != ErrorKind::Malformed {
            return error;
        }
        let asked = format!("{model} was requested from {} through the Responses API", self.url);
        error.reworded(|text| format!("{asked}: {text}")).with_help(CHAT_ONLY).and_final()
    }

    /// Removes the keys of the request from a server's text, since some servers repeat them in errors.
    fn without_keys(&self, text: &str) -> String {
        let secrets = self.headers.values().filter(|value| value.is_sensitive());
        let secrets = secrets.filter_map(|value| Some(value.to_str().ok()?.to_owned()));
        let keys = secrets.flat_map(|value| {
            let key = value.split_once(' ').map(|(_, key)| key.to_owned());
            key.into_iter().chain([value])
        });
        Redactor::new(keys).text(text)
    }

    /// Returns the address of requests and the proxy, for messages.
    fn place(&self) -> String {
        match &self.proxy {
            Some(proxy) => format!("{} through the proxy {proxy}", self.url),
            None => self.url.clone(),
        }
    }

    fn explain(&self, failure: &ConnectionFailure<'_>) -> String {
        explain(&self.url, self.proxy.as_ref(), failure)
    }

    /// Adds the address to an error that a reply's content caused.
    fn with_place(&self, error: ProviderError) -> ProviderError {
        match error.kind() {
            _ if error.help().is_some() => error,
            ErrorKind::Network => error.with_help(self.explain(&ConnectionFailure::ShortReply)),
            _ => error.with_help(format!("from {}", self.place())),
        }
    }

    /// Converts a request without a response to a failure.
    async fn unreached(&self, error: reqwest::Error, wording: &ErrorFormat) -> AttemptFailure {
        let status = match &self.proxy {
            Some(proxy) if is_refused_tunnel(&error) => self.tunnel_status(proxy).await,
            _ => None,
        };
        let failure = status.map_or(ConnectionFailure::NoResponse(&error), ConnectionFailure::RefusedTunnel);
        let explained = ProviderError::new(ErrorKind::Network, wording.unreached()).with_help(self.explain(&failure));
        let is_permanent =
            status.and_then(|status| StatusCode::from_u16(status).ok()).is_some_and(|it| !is_retriable(it));
        match is_permanent {
            true => AttemptFailure { error: explained.and_final(), retry: None },
            false => AttemptFailure { error: explained, retry: (!error.is_builder()).then_some(None) },
        }
    }

    /// Returns the status with which the proxy refuses a tunnel, if it answers soon.
    async fn tunnel_status(&self, proxy: &Proxy) -> Option<u16> {
        let url = Url::parse(&self.url).ok()?;
        tokio::select! {
            status = tunnel_status(proxy, &url) => status,
            () = self.ambient.timer.sleep(Wait::Idle, self.options.idle.min(TUNNEL)) => None,
        }
    }

    async fn post(&self, payload: &Value, wording: &ErrorFormat) -> Result<reqwest::Response, AttemptFailure> {
        let request = self.client.post(&self.url).headers(self.headers.clone()).json(payload).send();
        let idle = self.ambient.timer.sleep(Wait::Idle, self.options.idle);
        tokio::select! {
            response = request => match response {
                Ok(response) => Ok(response),
                Err(error) => Err(self.unreached(error, wording).await),
            },
            () = idle => Err(AttemptFailure { error: self.stalled(), retry: None }),
        }
    }

    /// Converts an unsuccessful status to a failure, with an excerpt of the body in its message.
    async fn refused(&self, response: reqwest::Response, wording: &ErrorFormat) -> AttemptFailure {
        let status = response.status();
        let asked = retry_after(response.headers(), self.ambient.epoch_ms());
        let media = media_type(response.headers()).to_owned();
        let body = error_messages::without_html(&media, self.excerpt(response).await);
        let message = wording.refused(status.as_u16(), status.canonical_reason().unwrap_or_default(), &body);
        let variable = self.proxy.as_ref().map_or("HTTP_PROXY", Proxy::variable);
        let (kind, help) = match status.as_u16() {
            401 | 403 => (ErrorKind::Auth, Some("check the API key".to_owned())),
            404 if matches!(wording, ErrorFormat::Responses(_)) => {
                (ErrorKind::NotFound, Some(format!("check the model's name and --base-url; {CHAT_ONLY}")))
            }
            404 => (ErrorKind::NotFound, Some("check the model's name and --base-url".to_owned())),
            407 => (ErrorKind::Rejected, Some(format!("write {variable} as http://USER:PASSWORD@HOST:PORT"))),
            429 => (ErrorKind::RateLimited, None),
            300..=399 => {
                (ErrorKind::Rejected, Some("redirects are not followed; give the final --base-url".to_owned()))
            }
            408 | 409 | 500.. => (ErrorKind::Unavailable, None),
            _ => (ErrorKind::Rejected, None),
        };
        let from = format!("from {}", self.place());
        let error = ProviderError::new(kind, message).with_status(status.as_u16());
        if !is_retriable(status) {
            let help = help.map_or_else(|| from.clone(), |help| format!("{from}; {help}"));
            return AttemptFailure { error: error.with_help(help), retry: None };
        }
        match asked {
            Some(delay) if delay > self.options.retry_after_cap => {
                AttemptFailure { error: too_long(error, delay, self.options.retry_after_cap, &from), retry: None }
            }
            Some(delay) => {
                AttemptFailure { error: error.with_retry_after(delay).with_help(from), retry: Some(Some(delay)) }
            }
            None => AttemptFailure { error: error.with_help(from), retry: Some(None) },
        }
    }

    /// Reads the first part of an error body.
    async fn excerpt(&self, response: reqwest::Response) -> String {
        const TAKEN: usize = 64 << 10;
        let mut bytes = Vec::new();
        let mut body = self.body(response).boxed();
        while let Some(Ok(chunk)) = body.next().await {
            bytes.extend_from_slice(&chunk);
            if bytes.len() >= TAKEN {
                break;
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn check_type(&self, headers: &HeaderMap) -> Result<(), ProviderError> {
        let media = media_type(headers);
        if media.starts_with("text/html") || media.starts_with("application/json") {
            let message = format!("{} responded with {media} instead of an event stream", self.url);
            return Err(ProviderError::new(ErrorKind::Malformed, message).with_help("check --base-url"));
        }
        Ok(())
    }

    /// Streams the body with the idle and total timeouts.
    fn body(&self, response: reqwest::Response) -> impl Stream<Item = Result<Bytes, ProviderError>> + Send + use<> {
        let endpoint = self.clone();
        stream! {
            let mut chunks = response.bytes_stream();
            let mut total = endpoint.ambient.timer.sleep(Wait::Idle, endpoint.options.total);
            loop {
                let idle = endpoint.ambient.timer.sleep(Wait::Idle, endpoint.options.idle);
                tokio::select! {
                    biased;
                    chunk = chunks.next() => match chunk {
                        None => return,
                        Some(Ok(chunk)) => yield Ok(chunk),
                        Some(Err(error)) => {
                            let help = endpoint.explain(&ConnectionFailure::BrokenReply(&error));
                            yield Err(ProviderError::new(ErrorKind::Network, "terminated").with_help(help));
                            return;
                        }
                    },
                    () = idle => {
                        yield Err(endpoint.stalled());
                        return;
                    }
                    () = &mut total => {
                        let total = endpoint.options.total;
                        let help = endpoint.explain(&ConnectionFailure::LongReply(total));
                        yield Err(ProviderError::new(ErrorKind::Stalled, "Request timed out.").with_help(help));
                        return;
                    }
                }
            }
        }
    }

    fn stalled(&self) -> ProviderError {
        let help = self.explain(&ConnectionFailure::Silence(self.options.idle));
        ProviderError::new(ErrorKind::Stalled, "Request timed out.").with_help(help)
    }

    fn backoff(&self, tries: u32) -> Duration {
        let full = self.options.backoff * 2u32.pow((tries - 1).min(5));
        full.mul_f64(1.0 - self.ambient.fraction() / 2.0)
    }
}

/// A failed attempt, and whether it is retried: not at all, after the default delay, or after the delay that the server requests.
struct AttemptFailure {
    error: ProviderError,
    retry: Option<Option<Duration>>,
}

/// Returns whether a request that failed with this status may be repeated, because the model has not begun to answer.
pub fn is_retriable(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 409 | 429 | 500 | 502 | 503 | 504 | 529)
}

/// Returns the failure of a request whose server requests too long a delay. The message begins with pi's text.
fn too_long(error: ProviderError, delay: Duration, cap: Duration, from: &str) -> ProviderError {
    let seconds = |duration: Duration| duration.as_millis().div_ceil(1000);
    let help = format!(
        "{from}; ask again after that time, choose another model with --model, or raise retry.provider.maxRetryDelayMs in settings.json to wait that long"
    );
    let said = format!("Server requested {}s retry delay (max: {}s).", seconds(delay), seconds(cap));
    error.reworded(|message| format!("{said} {message}")).with_help(help).and_final()
}

fn media_type(headers: &HeaderMap) -> &str {
    headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Parses `Retry-After-Ms`, or `Retry-After` in seconds or as a date; an invalid value is treated as absent.
fn retry_after(headers: &HeaderMap, now_ms: u64) -> Option<Duration> {
    let seconds = |text: &str| Duration::try_from_secs_f64(text.parse().ok()?).ok();
    let in_ms = headers.get("retry-after-ms").and_then(|value| value.to_str().ok()?.trim().parse().ok());
    if let Some(delay) = in_ms {
        return Some(Duration::from_millis(delay));
    }
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Some(delay) = seconds(value) {
        return Some(delay);
    }
    let date = OffsetDateTime::parse(value, &Rfc2822).ok()?;
    let at_ms = u64::try_from(date.unix_timestamp()).ok()?.saturating_mul(1000);
    Some(Duration::from_millis(at_ms.saturating_sub(now_ms)))
}

fn header_map(headers: &HeaderMap) -> BTreeMap<String, String> {
    headers
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .collect()
}

/// Applies the header changes of handlers. Sensitive headers stay unchanged.
fn with_changes(headers: &HeaderMap, changes: &BTreeMap<String, Option<String>>) -> Result<HeaderMap, ProviderError> {
    let mut headers = headers.clone();
    for (name, value) in changes {
        let bad =
            |what: &str| ProviderError::new(ErrorKind::Rejected, format!("before_provider_headers: {name:?} {what}"));
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad("is not a header name"))?;
        if headers.get(&name).is_some_and(HeaderValue::is_sensitive) || is_of_connection(&name) {
            continue;
        }
        match value {
            Some(value) => {
                let value = HeaderValue::from_str(value)
                    .map_err(|_| bad("contains a character that is not allowed in a header"))?;
                headers.insert(name, value);
            }
            None => {
                headers.remove(name);
            }
        }
    }
    Ok(headers)
}

/// Returns whether a header controls the connection or the framing, which handlers must not change.
fn is_of_connection(name: &HeaderName) -> bool {
    use reqwest::header::{CONNECTION, CONTENT_LENGTH, EXPECT, HOST, TE, TRAILER, TRANSFER_ENCODING, UPGRADE};
    let listed = [CONNECTION, CONTENT_LENGTH, EXPECT, HOST, TE, TRAILER, TRANSFER_ENCODING, UPGRADE].contains(name);
    listed || name == "keep-alive" || name.as_str().starts_with("proxy-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handlers_cannot_change_connection_headers() {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
        let names = ["Host", "content-length", "Transfer-Encoding", "connection", "proxy-authorization", "x-mine"];
        let changes = names.iter().map(|name| ((*name).to_owned(), Some("1".to_owned()))).collect();
        let changed = with_changes(&headers, &changes).expect("they are headers");
        let left: Vec<&str> = changed.keys().map(HeaderName::as_str).collect();
        assert_eq!(left, ["content-type", "x-mine"]);
    }

    #[test]
    fn retry_after_is_seconds_or_a_date_and_garbage_is_ignored() {
        let at = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, value.parse().unwrap());
            retry_after(&headers, 1_445_412_470_000)
        };
        assert_eq!(at("0"), Some(Duration::ZERO));
        assert_eq!(at("1000000000"), Some(Duration::from_secs(1_000_000_000)));
        assert_eq!(at("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::from_secs(10)));
        assert_eq!(at("Wed, 21 Oct 2005 07:28:00 GMT"), Some(Duration::ZERO));
        assert_eq!(at("1.5"), Some(Duration::from_millis(1500)));
        assert_eq!(at("soon"), None);
        assert_eq!(at("-1"), None);
    }
}
