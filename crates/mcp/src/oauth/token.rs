//! Requests tokens, and renews them.

use super::discovery::{self, Challenge};
use super::sign_in::{Client, Tokens};
use super::{MAX_ANSWER, reach_of};
use crate::calls::Calls;
use crate::http::{Exchange, exchange};
use crate::session_port::SessionPort;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use pijs_environment::Timer;
use serde_json::json;
use std::sync::Arc;
use url::form_urlencoded;

/// Requests tokens of a token endpoint.
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
    let answer = exchange(calls, request, MAX_ANSWER).await?;
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
