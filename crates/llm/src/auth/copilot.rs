//! Renews a GitHub Copilot login: exchanges the GitHub token for a token for the models.

use super::file::Login;
use crate::catalogue;
use crate::provider::http::{HttpOptions, address, client};
use serde_json::Value;
use std::time::Duration;

/// Timeout of a request to GitHub.
const TIME: Duration = Duration::from_secs(15);
/// Maximum size of a response in bytes.
const MAX_RESPONSE_BYTES: usize = 1 << 16;
/// Time by which a token expires earlier than GitHub reports, in milliseconds; pi's value.
const MARGIN_MS: f64 = 300_000.0;

/// Returns the base URL of the models, derived from the proxy host that a token names.
pub(super) fn base_url(login: &Login) -> String {
    let proxy = login.access.split(';').find_map(|part| part.trim().strip_prefix("proxy-ep="));
    match (proxy.and_then(|proxy| proxy.strip_prefix("proxy.")), enterprise(login)) {
        (Some(host), _) => format!("https://api.{host}"),
        (None, Some(domain)) => format!("https://copilot-api.{domain}"),
        (None, None) => "https://api.individual.githubcopilot.com".to_owned(),
    }
}

/// Returns the domain of a GitHub Enterprise login; `None` for github.com.
fn enterprise(login: &Login) -> Option<&str> {
    let given = login.rest.get("enterpriseUrl")?.as_str()?;
    let host = given.trim_start_matches("https://").trim_start_matches("http://");
    host.split('/').next().filter(|host| !host.is_empty())
}

/// Requests a new token.
pub(super) async fn renew(login: &Login, http: &HttpOptions) -> Result<Login, String> {
    let domain = enterprise(login).unwrap_or("github.com");
    renew_at(&format!("https://api.{domain}/copilot_internal/v2/token"), login, http).await
}

/// Requests a new token from a given address.
pub(super) async fn renew_at(url: &str, login: &Login, http: &HttpOptions) -> Result<Login, String> {
    let help = "log in again with the real pi, or set COPILOT_GITHUB_TOKEN";
    let failed = |what: String| format!("cannot renew the GitHub Copilot login: {what} ({help})");
    let parsed = address(url).map_err(&failed)?;
    let (client, _) = client(http, &parsed).map_err(|error| failed(error.to_string()))?;
    let mut request = client.get(url).timeout(TIME).bearer_auth(&login.refresh).header("Accept", "application/json");
    // GitHub expects the headers of the client for which it issues these tokens; the catalogue contains them.
    let model = catalogue::models("github-copilot").into_iter().next();
    let headers = model.as_ref().and_then(|model| model.facts.get("headers")?.as_object());
    for (name, value) in headers.into_iter().flatten() {
        request = request.header(name, value.as_str().unwrap_or_default());
    }
    let mut response = request.send().await.map_err(|error| failed(error.without_url().to_string()))?;
    let status = response.status();
    if !status.is_success() {
        return Err(failed(format!("GitHub answered {status}")));
    }
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(|error| failed(error.without_url().to_string()))? {
        body.extend_from_slice(&piece);
        if body.len() > MAX_RESPONSE_BYTES {
            return Err(failed("the response is too long".to_owned()));
        }
    }
    let answer: Value = serde_json::from_slice(&body).map_err(|_| failed("the response is not JSON".to_owned()))?;
    let (token, ends) = (answer.get("token").and_then(Value::as_str), answer.get("expires_at").and_then(Value::as_f64));
    let (Some(token), Some(ends)) = (token, ends) else {
        return Err(failed("the response has no token".to_owned()));
    };
    Ok(Login { access: token.to_owned(), expires: ends * 1000.0 - MARGIN_MS, ..login.clone() })
}
