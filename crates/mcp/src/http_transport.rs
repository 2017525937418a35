//! The Streamable HTTP transport, with the access token of a sign-in.

use crate::calls::Calls;
use crate::close_reason::CloseReason;
use crate::flow::MAX_MESSAGE_BYTES;
use crate::http::{HttpCallError, HttpFailure, StreamingResponse, send};
use crate::oauth::Bearer;
use futures_util::stream::BoxStream;
use http::{HeaderName, HeaderValue};
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, SseError, StreamableHttpClient, StreamableHttpClientTransport,
    StreamableHttpClientTransportConfig, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::Sse;
use std::collections::HashMap;
use std::sync::Arc;

const SESSION: &str = "mcp-session-id";

const LAST_EVENT: &str = "last-event-id";

/// Options of the transport to a remote server.
pub(crate) struct TransportOptions {
    pub(crate) calls: Calls,
    /// Headers of each request.
    pub(crate) headers: Vec<(String, String)>,
    /// Access token of a sign-in; `None` without a sign-in, or if `headers` contain an `Authorization` header.
    pub(crate) bearer: Option<Arc<Bearer>>,
    pub(crate) why: CloseReason,
    /// Name of the server, for messages.
    pub(crate) server: String,
}

/// An HTTP client that sends requests as hostcalls.
#[derive(Clone)]
pub(crate) struct GatedHttp(Arc<TransportOptions>);

/// Creates the transport to a URL.
pub(crate) fn transport(options: TransportOptions, url: &str) -> impl rmcp::transport::Transport<RoleClient> + use<> {
    let mut config = StreamableHttpClientTransportConfig::with_uri(url);
    config.allow_stateless = true;
    StreamableHttpClientTransport::with_client(GatedHttp(Arc::new(options)), config)
}

impl GatedHttp {
    /// Sends a request with the access token, if there is one. After a 401 the token is refreshed and the request retried once.
    async fn send(
        &self,
        method: &str,
        url: &str,
        more: Vec<(&str, String)>,
        body: Option<String>,
    ) -> Result<StreamingResponse, HttpFailure> {
        let TransportOptions { calls, bearer, .. } = &*self.0;
        let token = match bearer {
            Some(bearer) => bearer.current(calls).await,
            None => None,
        };
        let headers = self.headers(&more, token.as_deref());
        let response = send(calls, method, url, headers, body.clone()).await?;
        let (Some(bearer), Some(stale), 401) = (bearer, &token, response.status) else { return Ok(response) };
        match bearer.refreshed(calls, stale).await {
            Some(token) => send(calls, method, url, self.headers(&more, Some(&token)), body).await,
            None => Ok(response),
        }
    }

    fn headers(&self, more: &[(&str, String)], token: Option<&str>) -> Vec<[String; 2]> {
        let own = self.0.headers.iter().map(|(name, value)| [name.clone(), value.clone()]);
        let more = more.iter().map(|(name, value)| [(*name).to_owned(), value.clone()]);
        own.chain(more).chain(token.map(|token| ["authorization".to_owned(), format!("Bearer {token}")])).collect()
    }

    /// Returns the error of an unsuccessful status. If the server requires a sign-in, sets the reason that the user sees.
    fn status_error(&self, response: &StreamingResponse) -> Option<HttpFailure> {
        let TransportOptions { bearer, server, why, .. } = &*self.0;
        let challenge = response.header("www-authenticate").unwrap_or_default().to_owned();
        let wants_more = response.status == 403 && challenge.contains("insufficient_scope");
        match response.status {
            401 | 403 if response.status == 401 || wants_more => {
                bearer.iter().filter(|_| wants_more).for_each(|bearer| bearer.require_scope(&challenge));
                why.set(match bearer {
                    Some(_) => {
                        format!("it requires a sign-in; run: pi mcp login {server}, then: /mcp reconnect {server}")
                    }
                    None => format!(
                        "HTTP {}: it rejects the token in its entry, or the entry has no token",
                        response.status
                    ),
                });
                Some(StreamableHttpError::AuthRequired(AuthRequiredError::new(challenge)))
            }
            status if (200..300).contains(&status) => None,
            status if (300..400).contains(&status) => Some(StreamableHttpError::Client(HttpCallError(format!(
                "HTTP {status}: it redirects to {}; write that address into mcp.json",
                pijs_hostcall::prompt::shown(response.header("location").unwrap_or("another address"), 200)
            )))),
            status => Some(StreamableHttpError::Client(HttpCallError(format!("HTTP {status}")))),
        }
    }
}

fn header_pairs(custom: HashMap<HeaderName, HeaderValue>) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = custom
        .into_iter()
        .filter_map(|(name, value)| Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned())))
        .collect();
    all.sort();
    all
}

fn head<'a>(custom: &'a [(String, String)], session: Option<&Arc<str>>, accept: &'a str) -> Vec<(&'a str, String)> {
    let mut all: Vec<(&str, String)> = custom.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    all.push(("accept", accept.to_owned()));
    all.extend(session.map(|session| (SESSION, session.to_string())));
    all
}

impl StreamableHttpClient for GatedHttp {
    type Error = HttpCallError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, HttpFailure> {
        let body = serde_json::to_string(&message)?;
        let custom = header_pairs(custom_headers);
        let mut headers = head(&custom, session_id.as_ref(), "application/json, text/event-stream");
        headers.push(("content-type", "application/json".to_owned()));
        let response = self.send("POST", &uri, headers, Some(body)).await?;
        if matches!(response.status, 202 | 204) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if response.status == 404 && session_id.is_some() {
            return Err(StreamableHttpError::SessionExpired);
        }
        if let Some(error) = self.status_error(&response) {
            return Err(error);
        }
        let session = response.header(SESSION).map(str::to_owned);
        if response.is_kind("text/event-stream") {
            return Ok(StreamableHttpPostResponse::Sse(response.events(), session));
        }
        if response.is_kind("application/json") {
            let text = response.text(MAX_MESSAGE_BYTES).await?;
            let message: ServerJsonRpcMessage = serde_json::from_slice(&text)?;
            return Ok(StreamableHttpPostResponse::Json(message, session));
        }
        let is_request = matches!(message, ClientJsonRpcMessage::Request(_));
        if !is_request {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        Err(StreamableHttpError::UnexpectedContentType(response.header("content-type").map(str::to_owned)))
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), HttpFailure> {
        let custom = header_pairs(custom_headers);
        let response = self.send("DELETE", &uri, head(&custom, Some(&session_id), "*/*"), None).await?;
        match response.status {
            405 => Ok(()),
            _ => self.status_error(&response).map_or(Ok(()), Err),
        }
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, HttpFailure> {
        let custom = header_pairs(custom_headers);
        let mut headers = head(&custom, session_id.as_ref(), "text/event-stream");
        headers.extend(last_event_id.map(|id| (LAST_EVENT, id)));
        let response = self.send("GET", &uri, headers, None).await?;
        if response.status == 405 {
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        if let Some(error) = self.status_error(&response) {
            return Err(error);
        }
        match response.is_kind("text/event-stream") {
            true => Ok(response.events()),
            false => {
                Err(StreamableHttpError::UnexpectedContentType(response.header("content-type").map(str::to_owned)))
            }
        }
    }
}
