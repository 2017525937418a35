//! Tokens: as they are stored, asked for, and renewed.

use super::discovery::{self, Challenge};
use super::{MOST_ANSWER, reach_of};
use crate::calls::Calls;
use crate::http::{Exchange, exchange};
use crate::servers::SessionPort;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use pijs_environment::Timer;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::fmt;
use std::sync::Arc;
use url::form_urlencoded;

/// A token that ends within this time is renewed first.
const SOON_MS: f64 = 60_000.0;

/// A client of an authorization server.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Client {
    /// Its name there.
    pub client_id: String,
    /// Its secret, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<String>,
    /// Further members of the registration.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl Client {
    pub(super) fn new(client_id: String) -> Self {
        Self { client_id, client_secret: None, rest: Map::new() }
    }

    /// Whether it was registered for a redirect.
    pub(super) fn has_redirect(&self, redirect: &str) -> bool {
        self.rest.get("redirect_uris").and_then(Value::as_array).is_some_and(|all| all.contains(&json!(redirect)))
    }
}

/// An answer of a token endpoint.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Tokens {
    /// Lets requests in.
    pub access_token: String,
    /// `Bearer`.
    #[serde(default)]
    pub token_type: String,
    /// Gets a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh_token: Option<String>,
    /// Further members of it.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A sign-in as `mcp-auth.json` keeps it, in pi's form; members of pi's that are not used here stay as they are.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SignIn {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client_information: Option<Client>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tokens: Option<Tokens>,
    /// When the access token ends, milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tokens_expire_at: Option<f64>,
    /// The authorization server that the tokens are of, and where it gives them: renewing goes there and nowhere else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    issuer: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token_endpoint: Option<String>,
    /// The resource that they are for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) resource: Option<String>,
    /// Scopes that the server asked for since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wanted_scope: Option<String>,
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

    pub(super) fn is_of(&self, issuer: &str) -> bool {
        self.issuer.as_deref().is_some_and(|known| discovery::is_same_issuer(known, issuer))
    }

    /// Scopes that the next sign-in asks for beyond the usual: those that the server wants and those that were granted.
    pub(super) fn step_up(&self) -> [Option<&str>; 2] {
        let granted = self.tokens.as_ref().and_then(|tokens| tokens.rest.get("scope")).and_then(Value::as_str);
        let wanted = self.wanted_scope.as_deref();
        [granted.filter(|_| wanted.is_some()), wanted]
    }

    /// The token that lets requests in.
    pub fn access_token(&self) -> Option<&str> {
        self.tokens.as_ref().map(|tokens| tokens.access_token.as_str())
    }

    /// Takes new tokens over. A refresh token stays until there is another one.
    pub(super) fn take(&mut self, mut tokens: Tokens, scope: Option<&str>, now_ms: u64) {
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

    fn ends_soon(&self, now_ms: u64) -> bool {
        #[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 are far below 2^53")]
        let now = now_ms as f64;
        self.tokens_expire_at.is_some_and(|end| end - SOON_MS <= now)
    }
}

/// Asks a token endpoint.
pub(super) async fn request(
    calls: &Calls,
    endpoint: &str,
    client: &Client,
    mut form: Vec<(&str, &str)>,
) -> Result<Tokens, String> {
    form.push(("client_id", &client.client_id));
    let by_post = client.rest.get("token_endpoint_auth_method") == Some(&json!("client_secret_post"));
    let secret = client.client_secret.as_deref();
    form.extend(secret.filter(|_| by_post).map(|secret| ("client_secret", secret)));
    let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
    let mut request = Exchange::post(endpoint, "application/x-www-form-urlencoded", body);
    request.headers.push(("accept", "application/json".to_owned()));
    if let Some(secret) = secret.filter(|_| !by_post) {
        let part = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
        let pair = BASE64_STANDARD.encode(format!("{}:{}", part(&client.client_id), part(secret)));
        request.headers.push(("authorization", format!("Basic {pair}")));
    }
    let answer = exchange(calls, request, MOST_ANSWER).await?;
    if !(200..300).contains(&answer.status) {
        return Err(format!("{endpoint}: HTTP {} {}", answer.status, discovery::error_in(&answer.body)));
    }
    let tokens: Tokens =
        serde_json::from_slice(&answer.body).map_err(|_| format!("{endpoint} did not return tokens"))?;
    match tokens.token_type.eq_ignore_ascii_case("bearer") && !tokens.access_token.is_empty() {
        true => Ok(tokens),
        false => Err(format!("{endpoint} returned an unsupported kind of token")),
    }
}

/// The stored token of one server, for the requests to it.
pub(crate) struct Bearer {
    /// The key that the sign-in is kept under.
    pub(crate) key: String,
    /// The server's address.
    pub(crate) url: String,
    pub(crate) session: Arc<dyn SessionPort>,
    pub(crate) timer: Arc<dyn Timer>,
    /// Held while a token is renewed: others wait for the same one.
    pub(crate) renewing: tokio::sync::Mutex<()>,
}

impl Bearer {
    /// The token to send, renewed when it ends soon; `None` when nobody has signed in.
    pub(crate) async fn current(&self, calls: &Calls) -> Option<String> {
        let sign_in = self.session.sign_in(&self.key)?;
        let token = sign_in.access_token()?.to_owned();
        if sign_in.ends_soon(self.timer.now().epoch_ms)
            && let Some(renewed) = self.renewed(calls, &token).await
        {
            return Some(renewed);
        }
        self.session.learn(&token);
        Some(token)
    }

    /// Notes that the server wants more than the user agreed to: the next sign-in asks for it.
    pub(crate) fn wants(&self, challenge: &str) {
        let scope = Challenge::parse(challenge).scope;
        if let (Some(scope), Some(mut sign_in)) = (scope, self.session.sign_in(&self.key))
            && sign_in.wanted_scope.as_ref() != Some(&scope)
        {
            sign_in.wanted_scope = Some(scope);
            self.session.keep_sign_in(&self.key, &sign_in);
        }
    }

    /// Another token in the place of one that has ended; `None` when there is none without the user.
    pub(crate) async fn renewed(&self, calls: &Calls, stale: &str) -> Option<String> {
        let _alone = self.renewing.lock().await;
        let mut sign_in = self.session.sign_in(&self.key)?;
        // Somebody else, maybe another process, has renewed it meanwhile.
        if let Some(token) = sign_in.access_token().filter(|token| *token != stale) {
            self.session.learn(token);
            return Some(token.to_owned());
        }
        let (client, endpoint) = (sign_in.client_information.clone()?, sign_in.token_endpoint.clone()?);
        let refresh = sign_in.tokens.as_ref()?.refresh_token.clone()?;
        self.session.learn(&refresh);
        if let Some(grant) = reach_of(&self.url, &endpoint) {
            let dispatcher = calls.dispatcher().ok()?;
            dispatcher.gate().add_grants(&calls.caller.profile, &[grant]).ok()?;
        }
        let resource = sign_in.resource.clone();
        let mut form = vec![("grant_type", "refresh_token"), ("refresh_token", refresh.as_str())];
        form.extend(resource.as_deref().map(|resource| ("resource", resource)));
        let tokens = request(calls, &endpoint, &client, form).await.ok()?;
        sign_in.take(tokens, None, self.timer.now().epoch_ms);
        self.session.keep_sign_in(&self.key, &sign_in);
        let token = sign_in.access_token()?.to_owned();
        self.session.learn(&token);
        Some(token)
    }
}
