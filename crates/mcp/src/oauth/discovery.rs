//! Discovers the authorization server of an MCP server, and its metadata.

use super::sign_in::is_same_issuer;
use super::{MAX_ANSWER, authorization_server_grant, require_secure, text};
use crate::calls::Calls;
use crate::config::OauthSettings;
use crate::http::{HttpRequest, HttpResponse, fetch};
use pijs_hostcall::prompt::shown;
use pijs_protocol::guard;
use serde_json::{Value, json};
use url::Url;

/// Protocol version header of metadata requests.
const VERSION: (&str, &str) = ("mcp-protocol-version", "2025-11-25");

/// The parameters of a `WWW-Authenticate` challenge that a sign-in uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Challenge {
    pub(crate) resource_metadata: Option<String>,
    pub(crate) scope: Option<String>,
}

impl Challenge {
    /// Parses `WWW-Authenticate`; returns an empty challenge for schemes other than Bearer.
    pub(crate) fn parse(header: &str) -> Self {
        let (scheme, rest) = header.trim_start().split_once(char::is_whitespace).unwrap_or((header, ""));
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Self::default();
        }
        Self { resource_metadata: parameter(rest, "resource_metadata"), scope: parameter(rest, "scope") }
    }
}

/// Returns the value of a parameter `name="value"` or `name=value`.
fn parameter(text: &str, name: &str) -> Option<String> {
    let mut rest = text;
    while let Some((key, after)) = rest.split_once('=') {
        let key = key.trim_start_matches([',', ' ', '\t']).trim();
        let (value, left) = match after.trim_start().strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => after.split_once(',').unwrap_or((after, "")),
        };
        if key.eq_ignore_ascii_case(name) {
            return Some(value.trim().to_owned()).filter(|value| !value.is_empty());
        }
        rest = left;
    }
    None
}

/// The members of an authorization server's metadata that a sign-in uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AuthorizationServer {
    pub(crate) issuer: String,
    pub(crate) authorization_endpoint: String,
    pub(crate) token_endpoint: String,
    pub(crate) registration_endpoint: Option<String>,
    /// Whether redirects of this server contain `iss` (RFC 9207).
    pub(crate) names_itself: bool,
}

impl AuthorizationServer {
    /// Parses and checks the metadata.
    fn read(metadata: &Value) -> Result<Self, String> {
        let of = |key: &str| {
            let url = text(metadata, key).ok_or_else(|| format!("its metadata has no `{key}`"))?;
            let parsed = Url::parse(&url).map_err(|error| format!("`{key}` of its metadata: {error}"))?;
            require_secure(&parsed, "the authorization server")?;
            Ok::<_, String>(url)
        };
        let methods = metadata["code_challenge_methods_supported"].as_array();
        if methods.is_none_or(|methods| !methods.contains(&json!("S256"))) && guard!(OauthProof) {
            return Err("it does not support PKCE with S256, which is required".to_owned());
        }
        Ok(Self {
            issuer: of("issuer")?,
            authorization_endpoint: of("authorization_endpoint")?,
            token_endpoint: of("token_endpoint")?,
            registration_endpoint: text(metadata, "registration_endpoint")
                .map(|_| of("registration_endpoint"))
                .transpose()?,
            names_itself: metadata["authorization_response_iss_parameter_supported"] == json!(true),
        })
    }
}

/// The result of discovery.
pub(super) struct DiscoveredServer {
    pub(super) server: AuthorizationServer,
    pub(super) resource: Option<String>,
    pub(super) scope: Option<String>,
}

/// Sends an unauthenticated request to the MCP server, and returns its challenge.
pub(super) async fn challenge(calls: &Calls, url: &Url) -> Result<Challenge, String> {
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "ping"});
    let mut request = HttpRequest::post(url.as_str(), "application/json", hello.to_string());
    request.headers.push(("accept", "application/json, text/event-stream".to_owned()));
    let answer = fetch(calls, request, MAX_ANSWER).await?;
    Ok(answer.header("www-authenticate").map(Challenge::parse).unwrap_or_default())
}

/// Discovers the authorization server.
pub(super) async fn discover(
    calls: &Calls,
    url: &Url,
    challenge: &Challenge,
    settings: &OauthSettings,
) -> Result<DiscoveredServer, String> {
    let own = protected_resource(calls, url, challenge).await?;
    let resource = own.as_ref().and_then(|own| text(own, "resource"));
    if let Some(resource) = &resource {
        check_resource(url, resource)?;
    }
    let named = own.as_ref().and_then(|own| own["authorization_servers"].get(0)).and_then(Value::as_str);
    let scopes = own.as_ref().and_then(|own| own["scopes_supported"].as_array());
    let scope = scopes.map(|scopes| scopes.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "));
    let scope = scope.filter(|scope| !scope.is_empty());
    if let Some(document) = &settings.auth_server_metadata_url {
        let document = Url::parse(document).map_err(|error| format!("`authServerMetadataUrl`: {error}"))?;
        allow(calls, url, &document)?;
        let metadata =
            metadata(calls, &document).await?.ok_or_else(|| format!("there is no metadata at {document}"))?;
        let server = AuthorizationServer::read(&metadata)?;
        allow_endpoints(calls, url, &server)?;
        return Ok(DiscoveredServer { server, resource, scope });
    }
    let issuer = named.map_or_else(|| url.origin().ascii_serialization(), str::to_owned);
    let base = Url::parse(&issuer).map_err(|error| {
        format!("the server names an authorization server with an invalid URL, {issuer:?}: {error}")
    })?;
    allow(calls, url, &base)?;
    for place in metadata_urls(&base) {
        let Some(metadata) = metadata(calls, &place).await? else { continue };
        let server = AuthorizationServer::read(&metadata).map_err(|problem| format!("{issuer}: {problem}"))?;
        if !is_same_issuer(&server.issuer, &issuer) && guard!(OauthIssuer) {
            return Err(format!(
                "the metadata at {place} is of another authorization server, {}",
                shown(&server.issuer, 200)
            ));
        }
        allow_endpoints(calls, url, &server)?;
        return Ok(DiscoveredServer { server, resource, scope });
    }
    Err(match own {
        Some(_) => format!("there is no metadata of the authorization server {issuer}"),
        None => "it does not say how to sign in; give it a token with: pi mcp add NAME --url URL --bearer-token-env-var NAME".to_owned(),
    })
}

/// Grants the MCP server's caller requests to an authorization server.
fn allow(calls: &Calls, server: &Url, other: &Url) -> Result<(), String> {
    require_secure(other, "the authorization server")?;
    // Without this grant, the user is prompted as for any address.
    if let Some(grant) = authorization_server_grant(server.as_str(), other.as_str()) {
        let dispatcher = calls.dispatcher().map_err(|error| error.message)?;
        let added = dispatcher.gate().add_grants(&calls.caller.profile, &[grant]);
        return added.map_err(|error| error.to_string());
    }
    Ok(())
}

fn allow_endpoints(calls: &Calls, url: &Url, server: &AuthorizationServer) -> Result<(), String> {
    let endpoints = std::iter::once(&server.token_endpoint).chain(&server.registration_endpoint);
    for endpoint in endpoints {
        let endpoint = Url::parse(endpoint).map_err(|error| error.to_string())?;
        allow(calls, url, &endpoint)?;
    }
    Ok(())
}

/// Fetches the protected resource metadata (RFC 9728) of the MCP server; returns `None` if there is none.
async fn protected_resource(calls: &Calls, url: &Url, challenge: &Challenge) -> Result<Option<Value>, String> {
    let mut places: Vec<Url> = Vec::new();
    // Metadata at another origin could claim any resource.
    let named = challenge.resource_metadata.as_deref().and_then(|place| Url::parse(place).ok());
    places.extend(named.filter(|place| place.origin() == url.origin()));
    let path = url.path().trim_end_matches('/');
    let root = url.origin().ascii_serialization();
    for place in [
        format!("{root}/.well-known/oauth-protected-resource{path}"),
        format!("{root}/.well-known/oauth-protected-resource"),
    ] {
        places.extend(Url::parse(&place).ok());
    }
    for place in places {
        if let Some(metadata) = metadata(calls, &place).await? {
            return Ok(Some(metadata));
        }
    }
    Ok(None)
}

/// Checks that the resource in the metadata contains the URL of the MCP server.
fn check_resource(url: &Url, resource: &str) -> Result<(), String> {
    let about = Url::parse(resource)
        .map_err(|error| format!("its metadata names an invalid resource URL, {resource:?}: {error}"))?;
    let folder = |url: &Url| format!("{}/", url.path().trim_end_matches('/'));
    let covers = about.origin() == url.origin() && folder(url).starts_with(&folder(&about));
    match covers || !guard!(OauthResource) {
        true => Ok(()),
        false => Err(format!("its metadata is about another server, {}", shown(resource, 200))),
    }
}

/// Returns the metadata URLs of RFC 8414 and OpenID Connect Discovery, in the order of MCP's specification.
fn metadata_urls(issuer: &Url) -> Vec<Url> {
    let root = issuer.origin().ascii_serialization();
    let path = issuer.path().trim_end_matches('/');
    let mut places = vec![
        format!("{root}/.well-known/oauth-authorization-server{path}"),
        format!("{root}/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        places.push(format!("{root}{path}/.well-known/openid-configuration"));
    }
    places.iter().filter_map(|place| Url::parse(place).ok()).collect()
}

/// Fetches a metadata document; returns `None` if there is none.
async fn metadata(calls: &Calls, place: &Url) -> Result<Option<Value>, String> {
    let mut request = HttpRequest::get(place.as_str());
    request.headers.extend([("accept", "application/json".to_owned()), (VERSION.0, VERSION.1.to_owned())]);
    let HttpResponse { status, body, .. } = fetch(calls, request, MAX_ANSWER).await?;
    match status {
        200..300 => Ok(serde_json::from_slice(&body).ok().filter(Value::is_object)),
        400..500 | 502 => Ok(None),
        status => Err(format!("{place}: HTTP {status}")),
    }
}

/// Returns the error in an OAuth response, for display.
pub(super) fn error_in(body: &[u8]) -> String {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let parts = [text(&value, "error"), text(&value, "error_description")];
    shown(&parts.into_iter().flatten().collect::<Vec<_>>().join(": "), 300)
}
