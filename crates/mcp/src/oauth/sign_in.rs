//! A stored sign-in: a client, its tokens, and the endpoint that refreshes them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::fmt;

/// Time before its expiry at which a token is refreshed, in milliseconds.
const REFRESH_BEFORE_MS: f64 = 60_000.0;

/// A client that is registered at an authorization server.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Client {
    /// Client id.
    pub client_id: String,
    /// Client secret of a confidential client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<String>,
    /// Other members of the registration.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl Client {
    pub(super) fn new(client_id: String) -> Self {
        Self { client_id, client_secret: None, rest: Map::new() }
    }

    /// Returns whether the client was registered with a redirect URI.
    pub(super) fn has_redirect(&self, redirect: &str) -> bool {
        self.rest.get("redirect_uris").and_then(Value::as_array).is_some_and(|all| all.contains(&json!(redirect)))
    }
}

/// The response of a token endpoint.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Tokens {
    /// Access token.
    pub access_token: String,
    /// Token type, `Bearer`.
    #[serde(default)]
    pub token_type: String,
    /// Refresh token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh_token: Option<String>,
    /// Other members of the response.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A sign-in in pi's format of `mcp-auth.json`. Members that PiJS does not use are kept.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SignIn {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) client_information: Option<Client>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) tokens: Option<Tokens>,
    /// Expiry of the access token in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tokens_expire_at: Option<f64>,
    /// The authorization server that issued the tokens. Tokens are refreshed only at its `token_endpoint`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    issuer: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) token_endpoint: Option<String>,
    /// The resource of the tokens (RFC 8707).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) resource: Option<String>,
    /// Scopes that the server has required since the sign-in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) wanted_scope: Option<String>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client({})", self.client_id)
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tokens")
    }
}

impl fmt::Debug for SignIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SignIn")
    }
}

impl SignIn {
    pub(super) fn new(client: Client, issuer: &str, token_endpoint: &str) -> Self {
        Self {
            client_information: Some(client),
            issuer: Some(issuer.to_owned()),
            token_endpoint: Some(token_endpoint.to_owned()),
            ..Self::default()
        }
    }

    pub(super) fn client(&self) -> Option<&Client> {
        self.client_information.as_ref()
    }

    pub(super) fn is_issued_by(&self, issuer: &str) -> bool {
        self.issuer.as_deref().is_some_and(|known| is_same_issuer(known, issuer))
    }

    /// Returns the scopes that the next sign-in requests in addition: the granted scopes and the newly required ones; nothing if
    /// the server has required no new scopes.
    pub(super) fn step_up_scopes(&self) -> [Option<&str>; 2] {
        let granted = self.tokens.as_ref().and_then(|tokens| tokens.rest.get("scope")).and_then(Value::as_str);
        let wanted = self.wanted_scope.as_deref();
        [granted.filter(|_| wanted.is_some()), wanted]
    }

    /// Returns the access token.
    pub fn access_token(&self) -> Option<&str> {
        self.tokens.as_ref().map(|tokens| tokens.access_token.as_str())
    }

    /// Stores new tokens. Keeps the refresh token if the response has none.
    pub(super) fn set_tokens(&mut self, mut tokens: Tokens, scope: Option<&str>, now_ms: u64) {
        let seconds = tokens
            .rest
            .get("expires_in")
            .and_then(|given| given.as_f64().or_else(|| given.as_str().and_then(|text| text.parse().ok())));
        #[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 are far below 2^53")]
        let now = now_ms as f64;
        self.tokens_expire_at = seconds.filter(|seconds| seconds.is_finite()).map(|seconds| now + seconds * 1000.0);
        if tokens.refresh_token.is_none() {
            tokens.refresh_token = self.tokens.take().and_then(|earlier| earlier.refresh_token);
        }
        if let Some(scope) = scope {
            tokens.rest.entry("scope").or_insert_with(|| json!(scope));
        }
        self.tokens = Some(tokens);
    }

    pub(super) fn expires_soon(&self, now_ms: u64) -> bool {
        #[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 are far below 2^53")]
        let now = now_ms as f64;
        self.tokens_expire_at.is_some_and(|end| end - REFRESH_BEFORE_MS <= now)
    }
}

/// Returns whether two issuers are equal, apart from a trailing slash.
pub(super) fn is_same_issuer(one: &str, other: &str) -> bool {
    one.strip_suffix('/').unwrap_or(one) == other.strip_suffix('/').unwrap_or(other)
}
