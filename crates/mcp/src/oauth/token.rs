//! Requests and refreshes tokens.

use super::discovery::{self, Challenge};
use super::sign_in::{Client, Tokens};
use super::{MAX_ANSWER, authorization_server_grant};
use crate::calls::Calls;
use crate::http::{HttpRequest, fetch};
use crate::session_port::SessionPort;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use pijs_environment::Timer;
use serde_json::json;
use std::sync::Arc;
use url::form_urlencoded;

/// Requests tokens from a token endpoint.
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
    let mut request = HttpRequest::post(endpoint, "application/x-www-form-urlencoded", body);
    request.headers.push(("accept", "application/json".to_owned()));
    if let Some(secret) = secret.filter(|_| !by_post) {
        let part = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
        let pair = BASE64_STANDARD.encode(format!("{}:{}", part(&client.client_id), part(secret)));
        request.headers.push(("authorization", format!("Basic {pair}")));
    }
    let answer = fetch(calls, request, MAX_ANSWER).await?;
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

/// The stored access token of one server.
pub(crate) struct Bearer {
    /// Key of the stored sign-in.
    pub(crate) key: String,
    /// URL of the server.
    pub(crate) url: String,
    pub(crate) session: Arc<dyn SessionPort>,
    pub(crate) timer: Arc<dyn Timer>,
    /// Locked while the token is refreshed, so that concurrent requests use the same new token.
    pub(crate) refreshing: tokio::sync::Mutex<()>,
}

impl Bearer {
    /// Returns the access token, refreshed if it is about to expire; `None` without a sign-in.
    pub(crate) async fn current(&self, calls: &Calls) -> Option<String> {
        let sign_in = self.session.sign_in(&self.key)?;
        let token = sign_in.access_token()?.to_owned();
        if sign_in.expires_soon(self.timer.now().epoch_ms)
            && let Some(renewed) = self.refreshed(calls, &token).await
        {
            return Some(renewed);
        }
        self.session.learn(&token);
        Some(token)
    }

    /// Records a scope that the server requires in addition; the next sign-in requests it.
    pub(crate) fn require_scope(&self, challenge: &str) {
        let scope = Challenge::parse(challenge).scope;
        if let (Some(scope), Some(mut sign_in)) = (scope, self.session.sign_in(&self.key))
            && sign_in.wanted_scope.as_ref() != Some(&scope)
        {
            sign_in.wanted_scope = Some(scope);
            self.session.keep_sign_in(&self.key, &sign_in);
        }
    }

    /// Refreshes an expired token. Returns `None` when that requires a new sign-in.
    pub(crate) async fn refreshed(&self, calls: &Calls, stale: &str) -> Option<String> {
        let _alone = self.refreshing.lock().await;
        let mut sign_in = self.session.sign_in(&self.key)?;
        // Another request or process may have refreshed the token in the meantime.
        if let Some(token) = sign_in.access_token().filter(|token| *token != stale) {
            self.session.learn(token);
            return Some(token.to_owned());
        }
        let (client, endpoint) = (sign_in.client_information.clone()?, sign_in.token_endpoint.clone()?);
        let refresh = sign_in.tokens.as_ref()?.refresh_token.clone()?;
        self.session.learn(&refresh);
        if let Some(grant) = authorization_server_grant(&self.url, &endpoint) {
            let dispatcher = calls.dispatcher().ok()?;
            dispatcher.gate().add_grants(&calls.caller.profile, &[grant]).ok()?;
        }
        let resource = sign_in.resource.clone();
        let mut form = vec![("grant_type", "refresh_token"), ("refresh_token", refresh.as_str())];
        form.extend(resource.as_deref().map(|resource| ("resource", resource)));
        let tokens = request(calls, &endpoint, &client, form).await.ok()?;
        sign_in.set_tokens(tokens, None, self.timer.now().epoch_ms);
        self.session.keep_sign_in(&self.key, &sign_in);
        let token = sign_in.access_token()?.to_owned();
        self.session.learn(&token);
        Some(token)
    }
}
