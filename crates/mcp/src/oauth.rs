//! Signs in to a remote server by OAuth 2.1 with PKCE, as MCP's authorization specification requires.
//!
//! ```text
//! begin    server's metadata (RFC 9728) -> authorization server's metadata (RFC 8414) -> client (RFC 7591) -> page for the user
//! the user's browser is redirected to a loopback address with a code
//! complete code -> tokens -> mcp-auth.json
//! ```
//!
//! Only the user starts a sign-in: a connection sends the stored access token, refreshes it after its expiry, and otherwise asks
//! the user to run `pi mcp login NAME`. All requests are `http` hostcalls of the server's caller. A server's metadata cannot
//! direct requests to private addresses: the authorization server is contacted by https, or on the loopback interface if the
//! server itself is there ([`authorization_server_grant`]), and has to be the issuer that its metadata names. Tokens are
//! refreshed at the endpoint that issued them, even if the metadata has changed.

mod discovery;
mod sign_in;
mod token;

pub use self::sign_in::{Client, SignIn, Tokens};
pub(crate) use self::token::Bearer;

use self::discovery::AuthorizationServer;
use self::sign_in::is_same_issuer;
use crate::calls::Calls;
use crate::config::{OauthSettings, Reach, ServerConfig};
use crate::http::{HttpRequest, fetch};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use pijs_environment::Randomness;
use pijs_hostcall::Grant;
use pijs_hostcall::prompt::shown;
use pijs_protocol::guard;
use pijs_protocol::manifest::Scope;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::net::IpAddr;
use url::{Host, Url};

/// Maximum size of a response of an authorization server, in bytes.
const MAX_ANSWER: usize = 256 << 10;

/// A sign-in that waits for the redirect of the user's browser.
pub struct PendingSignIn {
    /// The authorization URL, which the user opens in a browser.
    pub page: Url,
    /// Issuer of the authorization server, for display.
    pub issuer: String,
    /// The OAuth `state`, which links the redirect to this sign-in.
    state: String,
    verifier: String,
    redirect: String,
    server: AuthorizationServer,
    client: Client,
    resource: Option<String>,
    scope: Option<String>,
}

/// Discovers the authorization server, registers a client if necessary, and builds the authorization URL.
///
/// # Errors
///
/// Fails when the server has no sign-in, or its metadata is invalid.
pub(crate) async fn begin(
    calls: &Calls,
    config: &ServerConfig,
    (redirect, earlier): (&str, Option<&SignIn>),
    random: &dyn Randomness,
) -> Result<PendingSignIn, String> {
    let Reach::Http { url, .. } = &config.reach else {
        return Err("it is a local program; only servers with a `url` have a sign-in".to_owned());
    };
    let url = Url::parse(url).map_err(|error| error.to_string())?;
    require_secure(&url, "the server")?;
    let settings = config.oauth.clone().unwrap_or_default();
    let challenge = discovery::challenge(calls, &url).await?;
    let found = discovery::discover(calls, &url, &challenge, &settings).await?;
    let server = found.server;
    let usual = settings.scope.clone().or(challenge.scope).or(found.scope);
    let more = earlier.map(SignIn::step_up_scopes).unwrap_or_default();
    let scope = join_scopes(std::iter::once(usual.as_deref()).chain(more).flatten());
    let client = client(calls, (&server, &url), &settings, (redirect, earlier)).await?;
    let (state, verifier) = (random_text(random), random_text(random));
    let proof = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(&verifier));
    let mut page = Url::parse(&server.authorization_endpoint).map_err(|error| error.to_string())?;
    {
        let mut query = page.query_pairs_mut();
        query.append_pair("response_type", "code").append_pair("client_id", &client.client_id);
        query.append_pair("redirect_uri", redirect).append_pair("state", &state);
        query.append_pair("code_challenge", &proof).append_pair("code_challenge_method", "S256");
        if let Some(scope) = &scope {
            query.append_pair("scope", scope);
        }
        if let Some(resource) = &found.resource {
            query.append_pair("resource", resource);
        }
    }
    let issuer = server.issuer.clone();
    Ok(PendingSignIn {
        page,
        issuer,
        state,
        verifier,
        redirect: redirect.to_owned(),
        server,
        client,
        resource: found.resource,
        scope,
    })
}

impl PendingSignIn {
    /// Returns the authorization code in a redirect URL; `None` if the redirect belongs to another sign-in.
    ///
    /// # Errors
    ///
    /// Fails when the authorization server reports an error, or is not the one that this sign-in used.
    pub fn code(&self, returned: &Url) -> Result<Option<String>, String> {
        let of = |name: &str| returned.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned());
        if of("state").as_deref() != Some(self.state.as_str()) && guard!(OauthState) {
            return Ok(None);
        }
        let issuer = of("iss");
        let is_other = match &issuer {
            Some(issuer) => !is_same_issuer(issuer, &self.server.issuer),
            None => self.server.names_itself,
        };
        if is_other && guard!(OauthAnswerIssuer) {
            return Err(
                "the redirect is from another authorization server than this sign-in used; start the sign-in again"
                    .to_owned(),
            );
        }
        if let Some(error) = of("error") {
            let more = of("error_description").map(|more| format!(": {more}")).unwrap_or_default();
            return Err(format!("the authorization server refused: {}", shown(&format!("{error}{more}"), 300)));
        }
        of("code").map(Some).ok_or_else(|| "the redirect has no authorization code; start the sign-in again".to_owned())
    }
}

/// Exchanges the authorization code for tokens.
///
/// # Errors
///
/// Fails when the authorization server issues no tokens.
pub(crate) async fn complete(
    calls: &Calls,
    pending: &PendingSignIn,
    code: &str,
    now_ms: u64,
) -> Result<SignIn, String> {
    let mut form = vec![
        ("grant_type", "authorization_code"),
        ("code", code),
        ("redirect_uri", &pending.redirect),
        ("code_verifier", &pending.verifier),
    ];
    form.extend(pending.resource.as_deref().map(|resource| ("resource", resource)));
    let endpoint = &pending.server.token_endpoint;
    let tokens = token::request(calls, endpoint, &pending.client, form).await?;
    let mut sign_in = SignIn::new(pending.client.clone(), &pending.server.issuer, endpoint);
    sign_in.resource.clone_from(&pending.resource);
    sign_in.set_tokens(tokens, pending.scope.as_deref(), now_ms);
    Ok(sign_in)
}

/// Returns the configured OAuth client, the client registered earlier for this redirect URI, or a newly registered client.
async fn client(
    calls: &Calls,
    (server, resource): (&AuthorizationServer, &Url),
    settings: &OauthSettings,
    (redirect, earlier): (&str, Option<&SignIn>),
) -> Result<Client, String> {
    if let Some(id) = &settings.client_id {
        let mut client = Client::new(id.clone());
        client.client_secret.clone_from(&settings.client_secret);
        return Ok(client);
    }
    let same = earlier.filter(|earlier| earlier.is_issued_by(&server.issuer));
    if let Some(client) = same.and_then(|earlier| earlier.client()).filter(|client| client.has_redirect(redirect)) {
        return Ok(client.clone());
    }
    let Some(endpoint) = &server.registration_endpoint else {
        return Err(format!(
            "{} registers no clients; register one there for {redirect}, and write `oauth: {{clientId}}` into the entry of {resource}",
            server.issuer
        ));
    };
    let body = json!({
        "client_name": settings.client_name.as_deref().unwrap_or("pi"),
        "redirect_uris": [redirect],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "application_type": "native",
    });
    let request = HttpRequest::post(endpoint, "application/json", body.to_string());
    let answer = fetch(calls, request, MAX_ANSWER).await?;
    let failed = |what: &str| format!("{} does not register a client: {what}", server.issuer);
    if !(200..300).contains(&answer.status) {
        return Err(failed(&format!("HTTP {} {}", answer.status, discovery::error_in(&answer.body))));
    }
    let mut client: Client =
        serde_json::from_slice(&answer.body).map_err(|_| failed("its response is not a client registration"))?;
    client.rest.entry("redirect_uris").or_insert_with(|| json!([redirect]));
    Ok(client)
}

/// Returns the grant for requests to an authorization server; `None` if the metadata of the MCP server is not enough to allow
/// contact. Its host has to be a domain name, which the connector resolves to public addresses only, or the server's own host:
/// metadata must not lead to an address literal or `localhost`.
pub fn authorization_server_grant(server: &str, endpoint: &str) -> Option<Grant> {
    let (server, endpoint) = (Url::parse(server).ok()?, Url::parse(endpoint).ok()?);
    let is_own = server.host() == endpoint.host();
    let is_name = matches!(endpoint.host()?, Host::Domain(name) if name != "localhost");
    if !is_own && !is_name {
        return None;
    }
    let host = format!("{}:{}", endpoint.host_str()?, endpoint.port_or_known_default()?);
    let scope = Scope { hosts: Some(vec![host.clone()]), ..Scope::default() };
    Some(Grant::scoped(format!("mcp-auth.json:{host}"), "http", scope))
}

/// Fails unless secrets may be sent to a URL: by https, or over the loopback interface.
fn require_secure(url: &Url, what: &str) -> Result<(), String> {
    let is_loopback = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => IpAddr::from(address).is_loopback(),
        Some(Host::Ipv6(address)) => IpAddr::from(address).is_loopback(),
        None => false,
    };
    match url.scheme() {
        "https" => Ok(()),
        "http" if is_loopback || !guard!(OauthTransport) => Ok(()),
        _ => Err(format!("{what} is at {url}, which is not https; no tokens are sent there")),
    }
}

/// Joins lists of scopes without duplicates.
fn join_scopes<'s>(lists: impl Iterator<Item = &'s str>) -> Option<String> {
    let mut all: Vec<&str> = Vec::new();
    for scope in lists.flat_map(str::split_whitespace) {
        if !all.contains(&scope) {
            all.push(scope);
        }
    }
    (!all.is_empty()).then(|| all.join(" "))
}

/// Returns 32 random bytes in base64url.
fn random_text(random: &dyn Randomness) -> String {
    let mut bytes = [0; 32];
    random.fill(&mut bytes);
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

/// Returns a text member, unless it is missing or empty.
fn text(value: &Value, key: &str) -> Option<String> {
    value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests;
