use super::discovery::Challenge;
use super::*;

#[test]
fn a_challenge_names_the_metadata_and_the_scope() {
    let parsed = Challenge::parse(
        r#"Bearer error="invalid_token", resource_metadata="https://e.com/.well-known/x?a=b", scope="a b""#,
    );
    assert_eq!(parsed.resource_metadata.as_deref(), Some("https://e.com/.well-known/x?a=b"));
    assert_eq!(parsed.scope.as_deref(), Some("a b"));
    assert_eq!(Challenge::parse("bearer scope=one").scope.as_deref(), Some("one"));
    for other in [
        "",
        "Basic realm=\"x\"",
        "Bearer",
        "Bearer scope=\"\"",
        "Bearer scope=\"never closed",
        "Bearer =",
        "Bearer \u{1f600}=\"",
    ] {
        assert_eq!(Challenge::parse(other), Challenge::default(), "{other}");
    }
}

#[test]
fn secrets_are_sent_over_https_or_loopback_only() {
    for (url, fits) in [
        ("https://e.com", true),
        ("http://127.0.0.1:1", true),
        ("http://localhost:1/x", true),
        ("http://[::1]:1", true),
        ("http://e.com", false),
        ("http://10.0.0.1", false),
        ("file:///etc/passwd", false),
    ] {
        assert_eq!(require_secure(&Url::parse(url).expect("a URL"), "it").is_ok(), fits, "{url}");
    }
}

#[test]
fn metadata_cannot_name_another_address_literal() {
    let hosts = |server: &str, other: &str| {
        let scope = authorization_server_grant(server, other)?.scope?;
        scope.hosts.map(|hosts| hosts.join(","))
    };
    assert_eq!(hosts("https://e.com/mcp", "https://auth.e.com/token").as_deref(), Some("auth.e.com:443"));
    assert_eq!(hosts("http://127.0.0.1:1/mcp", "http://127.0.0.1:2/token").as_deref(), Some("127.0.0.1:2"));
    for other in ["http://127.0.0.1:2/token", "https://169.254.169.254/token", "http://localhost:2", "http://[::1]/x"] {
        assert_eq!(hosts("https://e.com/mcp", other), None, "{other}");
    }
}

#[test]
fn newly_required_scopes_are_added_to_granted_ones() {
    let sign_in: SignIn = serde_json::from_value(json!({
        "tokens": {"access_token": "a", "token_type": "Bearer", "scope": "read list"}, "wantedScope": "write read", "of": "pi",
    }))
    .expect("a sign-in");
    let all = std::iter::once(Some("read")).chain(sign_in.step_up_scopes()).flatten();
    assert_eq!(join_scopes(all).as_deref(), Some("read list write"));
    assert_eq!(join_scopes(SignIn::default().step_up_scopes().into_iter().flatten()), None);
    assert_eq!(serde_json::to_value(&sign_in).expect("JSON")["of"], "pi", "what is pi's stays");
}
