//! Tests requests to model providers: gateways, proxies, retries and errors.

mod support;

use serde_json::json;
use support::{ModelServer, Reply, Run, World, anthropic, openai, run};

const KEY: &str = "hush-hush-and-then-some";

fn plain(status: u16, headers: &'static str, body: &str) -> Reply {
    Reply::Plain(status, headers, body.to_owned())
}

/// Returns a world with minimal waits between retries.
fn world() -> World {
    let world = World::new();
    world.write("home/.pi/agent/settings.json", r#"{"retry": {"baseDelayMs": 1, "maxRetries": 2}}"#);
    world
}

fn ask(world: &World, args: &[&str], variables: &[(&str, &str)]) -> Run {
    let mut command = world.command(&[&["-p", "hi", "-ne"], args].concat());
    command.envs(variables.iter().copied());
    run(command)
}

/// Configures a provider `mine` at an address, with a key.
fn configure(world: &World, url: &str) {
    let config = json!({"providers": {"mine": {"baseUrl": url, "api": "openai-completions", "apiKey": KEY,
        "models": [{"id": "small"}, {"id": "large"}]}}});
    world.write("home/.pi/agent/models.json", config.to_string());
}

#[test]
fn a_base_url_moves_the_model_that_is_chosen_without_naming_it() {
    let gateway = ModelServer::start(vec![
        Reply::Stream(anthropic(&["by default"])),
        Reply::Stream(anthropic(&["by a part"])),
        Reply::Stream(openai(&["by the settings"])),
        Reply::Stream(openai(&["by the session"])),
    ]);
    let world = world();
    let key = [("ANTHROPIC_API_KEY", KEY)];
    let at = ["--base-url", &gateway.url];
    assert_eq!(ask(&world, &at, &key).succeeded().stdout.trim(), "by default");
    let by_part = ask(&world, &[&at[..], &["--model", "opus"]].concat(), &key);
    assert_eq!(by_part.succeeded().stdout.trim(), "by a part");

    let elsewhere = ModelServer::start(vec![Reply::Stream(openai(&["past the gateway"]))]);
    configure(&world, &elsewhere.url);
    let settings = r#"{"retry": {"baseDelayMs": 1}, "defaultProvider": "mine", "defaultModel": "large"}"#;
    world.write("home/.pi/agent/settings.json", settings);
    let session = ["--session", "s.jsonl"];
    assert_eq!(ask(&world, &[&at[..], &session].concat(), &[]).succeeded().stdout.trim(), "by the settings");
    assert_eq!(ask(&world, &[&at[..], &session].concat(), &[]).succeeded().stdout.trim(), "by the session");
    assert!(elsewhere.requests().is_empty());
    assert!(gateway.heads()[3].contains(&format!("bearer {KEY}")), "{:?}", gateway.heads());
}

#[test]
fn an_unused_base_url_is_an_error() {
    let world = world();
    ask(&world, &["--base-url", "http://127.0.0.1:9"], &[]).failed(2, &["--base-url", "--model"]);
    let model = world.script(&[&["hi"]]);
    ask(&world, &["--base-url", "http://127.0.0.1:9", "--model", &model], &[]).failed(2, &["--base-url", "script:"]);
}

/// A gateway that supports only chat completions can be selected by name, because the default model of an OpenAI key uses the
/// Responses API.
#[test]
fn a_gateway_of_chat_completions_is_asked_for_by_name() {
    let gateway = ModelServer::start(vec![
        Reply::Stream(openai(&["by chat"])),
        plain(404, "", r#"{"error":{"message":"no such path"}}"#),
        Reply::Stream(openai(&["by chat"])),
    ]);
    let world = world();
    let key = [("OPENAI_API_KEY", KEY)];
    let at = ["--base-url", &gateway.url];
    for _ in 0..2 {
        let failed = ask(&world, &at, &key);
        failed.failed(1, &["/responses", "--model openai/NAME --base-url URL"]);
        assert_eq!(failed.stderr.lines().count(), 1, "{}", failed.stderr);
    }
    let named = ask(&world, &[&at[..], &["--model", "openai/NAME"]].concat(), &key);
    assert_eq!(named.succeeded().stdout.trim(), "by chat");
}

/// During retries, the terminal and stderr show the cause of `Connection error.`
#[test]
fn a_retry_names_the_address_that_did_not_respond() {
    let world = world();
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port();
    let url = format!("http://127.0.0.1:{port}");
    configure(&world, &url);
    world.write("home/.pi/agent/settings.json", r#"{"retry": {"baseDelayMs": 1, "maxRetries": 1}}"#);
    let failed = ask(&world, &["--model", "mine/small"], &[]);
    let retry = failed.stderr.lines().next().expect("a line");
    for part in [
        "retry 1 of 1 in 1 s: Connection error. (no response from ",
        &url,
        "connection refused; check that the server runs",
    ] {
        assert!(retry.contains(part), "{part}: {}", failed.stderr);
    }
}

#[test]
fn a_base_url_that_is_no_address_fails_at_once() {
    let world = world();
    for (url, said) in [
        ("localhost:8080/v1", "write http://localhost:8080/v1"),
        ("127.0.0.1:8080", "write http://127.0.0.1:8080"),
        ("192.168.1.5/v1", "write http://192.168.1.5/v1"),
        ("gateway:8080", "write http://gateway:8080"),
        ("8.8.8.8:8080", "write https://8.8.8.8:8080"),
        ("api.example.com/v1", "write https://api.example.com/v1"),
        ("ftp://example.com", "its scheme is ftp, and only http and https are supported"),
        ("file:///etc/passwd", "only http and https are supported"),
        ("http:/example.com", "write http://example.com"),
        ("HTTPS:example.com/v1", "write HTTPS://example.com/v1"),
        ("http://", "not a URL"),
        ("http://exa mple/", "not a URL"),
        ("", "does not begin with http:// or https://"),
        ("http://example.com/v1?key=1", "without ?"),
    ] {
        ask(&world, &["--base-url", url, "--model", "openai/m"], &[]).failed(2, &["--base-url", said]);
    }
    configure(&world, "no.such.scheme/v1");
    ask(&world, &["--model", "mine/small"], &[]).failed(1, &["no.such.scheme/v1", "models.json"]);
}

#[test]
fn requests_go_through_the_proxy_of_their_scheme() {
    let world = world();
    configure(&world, "http://model.example/v1");
    let proxy = ModelServer::start(vec![Reply::Stream(openai(&["through it"])); 3]);
    let address = proxy.url.replace("http://", "http://me:pass%20word@");
    for name in ["HTTP_PROXY", "http_proxy", "all_proxy"] {
        let answered = ask(&world, &["--model", "mine/small"], &[(name, &address)]);
        assert_eq!(answered.succeeded().stdout.trim(), "through it");
    }
    let (path, _) = &proxy.requests()[0];
    assert_eq!(path, "http://model.example/v1/chat/completions");
    // The base64 form of `me:pass word`.
    assert!(proxy.heads()[0].contains("proxy-authorization: basic bwu6cgfzcyb3b3jk"), "{}", proxy.heads()[0]);

    configure(&world, "https://model.example/v1");
    let proxy = ModelServer::start(vec![plain(403, "", "not for you"); 2]);
    let address = proxy.url.replace("http://", "http://me:secret-word@");
    let refused = ask(&world, &["--model", "mine/small"], &[("HTTPS_PROXY", &address)]);
    let said = "the proxy answered CONNECT with 403 Forbidden; set HTTPS_PROXY to a proxy that allows this host";
    refused.failed(1, &["https://model.example/v1", &proxy.url, said]);
    assert!(!refused.stderr.contains("secret-word"), "{}", refused.stderr);
    assert!(!refused.stderr.contains("retry"), "{}", refused.stderr);
    assert_eq!(proxy.requests()[0].0, "model.example:443");
    let heads = proxy.heads();
    assert!(heads.iter().all(|head| head.contains("proxy-authorization: basic bwu6c2vjcmv0lxdvcmq=")), "{heads:?}");
}

/// A reply that breaks off names the server and the next step at each attempt.
#[test]
fn a_broken_stream_names_the_address_and_the_next_step() {
    let world = world();
    let half = vec![format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": {"content": "half"}}]}))];
    let server = ModelServer::start(vec![Reply::Stream(half); 2]);
    configure(&world, &server.url);
    world.write("home/.pi/agent/settings.json", r#"{"retry": {"baseDelayMs": 1, "maxRetries": 1}}"#);
    let failed = ask(&world, &["--model", "mine/small"], &[]);
    let said = format!(
        "Stream ended without finish_reason (the reply of {}/chat/completions broke off: the connection was closed before the end of the reply; ask again",
        server.url
    );
    failed.failed(1, &[&format!("retry 1 of 1 in 1 s: {said}"), &format!("error: {said}")]);
}

#[test]
fn no_proxy_and_the_proxy_setting_apply() {
    let world = world();
    let direct = ModelServer::start(vec![Reply::Stream(openai(&["direct"])); 2]);
    configure(&world, &direct.url);
    let dead = ("ALL_PROXY", "http://127.0.0.1:9");
    for exempt in [("NO_PROXY", "example.com, 127.0.0.1"), ("no_proxy", "127.0.0.0/8")] {
        assert_eq!(ask(&world, &["--model", "mine/small"], &[dead, exempt]).succeeded().stdout.trim(), "direct");
    }
    let proxy = ModelServer::start(vec![Reply::Stream(openai(&["through it"]))]);
    let settings = json!({"retry": {"enabled": false}, "httpProxy": proxy.url});
    world.write("home/.pi/agent/settings.json", settings.to_string());
    assert_eq!(ask(&world, &["--model", "mine/small"], &[]).succeeded().stdout.trim(), "through it");
}

#[test]
fn a_proxy_that_cannot_be_used_is_named() {
    let world = world();
    configure(&world, "https://model.example/v1");
    let dead = ask(&world, &["--model", "mine/small"], &[("https_proxy", "http://me:secret-word@127.0.0.1:9")]);
    dead.failed(1, &["http://127.0.0.1:9 (https_proxy)", "https://model.example/v1"]);
    assert!(!dead.stderr.contains("secret-word"), "{}", dead.stderr);
    ask(&world, &["--model", "mine/small"], &[("ALL_PROXY", "socks5://127.0.0.1:9")])
        .failed(1, &["ALL_PROXY", "SOCKS", "http://HOST:PORT"]);
    // A recorded reply does not use a proxy.
    let model = world.script(&[&["hi"]]);
    ask(&world, &["--model", &model], &[("ALL_PROXY", "socks5://127.0.0.1:9")]).succeeded();
}

#[test]
fn each_retry_is_a_line_on_stderr() {
    let world = world();
    let server = ModelServer::start(vec![
        plain(503, "", "come\nback\nlater"),
        plain(503, "", "come\nback\nlater"),
        plain(429, "retry-after: 0\r\n", r#"{"error":{"message":"slow down"}}"#),
        Reply::Stream(openai(&["at last"])),
    ]);
    configure(&world, &server.url);
    world.write("home/.pi/agent/settings.json", r#"{"retry": {"baseDelayMs": 1}}"#);
    let answered = ask(&world, &["--model", "mine/small"], &[]);
    assert_eq!(answered.succeeded().stdout, "at last\n");
    assert_eq!(
        answered.stderr,
        format!(
            "retry 1 of 3 in 1 s: 503 Service Unavailable: come back later (from {0}/chat/completions)\nretry 2 of 3 in 1 s: the same error\nretry 3 of 3 in 1 s: 429 Too Many Requests: slow down (from {0}/chat/completions)\n",
            server.url
        )
    );
}

#[test]
fn a_server_that_asks_for_a_long_wait_is_not_waited_for() {
    let world = world();
    let server = ModelServer::start(vec![
        plain(429, "retry-after: 7200\r\n", r#"{"error":{"message":"slow down"}}"#),
        plain(503, "retry-after-ms: 61000\r\n", "busy"),
        Reply::Stream(openai(&["never"])),
    ]);
    configure(&world, &server.url);
    for (asked, status) in [("7200s", "429 Too Many Requests: slow down"), ("61s", "busy")] {
        let failed = ask(&world, &["--model", "mine/small"], &[]);
        failed.failed(1, &[asked, status, "maxRetryDelayMs", "--model"]);
        assert_eq!(failed.stderr.lines().count(), 1, "{}", failed.stderr);
    }
    assert_eq!(server.requests().len(), 2);
    let server = ModelServer::start(vec![plain(429, "retry-after: 2\r\n", "{}"), Reply::Stream(openai(&["ok"]))]);
    configure(&world, &server.url);
    world.write("home/.pi/agent/settings.json", r#"{"retry": {"provider": {"maxRetryDelayMs": 1000}}}"#);
    ask(&world, &["--model", "mine/small"], &[]).failed(1, &["2s", "max: 1s"]);
}

#[test]
fn errors_of_servers_are_one_line_without_keys_and_html() {
    let world = world();
    world.write("home/.pi/agent/settings.json", r#"{"retry": {"enabled": false}}"#);
    let html = "<!DOCTYPE html>\n<html><head><title>Oh no</title></head><body><h1>Nginx</h1></body></html>";
    let repeated = json!({"error": {"message": format!("Incorrect API key provided: {KEY}.\nSee the console.")}});
    let json = "content-type: application/json\r\n";
    for (reply, line) in [
        (
            plain(401, json, &repeated.to_string()),
            "401 Unauthorized: Incorrect API key provided: [REDACTED]. See the console.",
        ),
        (plain(502, "content-type: text/html\r\n", html), "502 Bad Gateway: (an HTML page, not shown)"),
        (plain(403, "", html), "403 Forbidden: (an HTML page, not shown)"),
        (
            plain(500, json, &json!({"error": {"message": html}}).to_string()),
            "500 Internal Server Error: (an HTML page, not shown)",
        ),
        (plain(529, "", ""), "529 status code (no body)"),
        (plain(400, json, r#"{"detail":"no such tool"}"#), "400 Bad Request"),
        (plain(200, "content-type: text/html\r\n", html), "responded with text/html instead of an event stream"),
    ] {
        let server = ModelServer::start(vec![reply.clone(), reply]);
        configure(&world, &server.url);
        let failed = ask(&world, &["--model", "mine/small"], &[]);
        failed.failed(1, &[line]);
        let errors = failed.stderr.lines().filter(|line| !line.trim_start().starts_with("help:")).count();
        assert_eq!(errors, 1, "{}", failed.stderr);
        let as_json = ask(&world, &["--model", "mine/small", "--mode", "json"], &[]);
        for text in [&failed.stderr, &as_json.stderr, &as_json.stdout] {
            assert!(!text.contains(KEY), "{text}");
        }
        assert!(!failed.stderr.contains("Nginx"), "{}", failed.stderr);
    }
}

#[test]
fn a_silent_stream_ends_after_the_idle_timeout() {
    let world = world();
    let half = vec![format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": {"content": "half"}}]}))];
    let server = ModelServer::start(vec![Reply::StreamThenStall(half)]);
    configure(&world, &server.url);
    let settings = r#"{"retry": {"enabled": false}, "httpIdleTimeoutMs": 200}"#;
    world.write("home/.pi/agent/settings.json", settings);
    ask(&world, &["--model", "mine/small"], &[]).failed(1, &["sent nothing for 200ms", "httpIdleTimeoutMs"]);
}

#[test]
fn a_part_of_a_name_means_a_provider_that_has_a_key() {
    let world = world();
    let named = |variables: &[(&str, &str)]| {
        let gateway = ModelServer::start(vec![Reply::Stream(anthropic(&["ok"]))]);
        let config = json!({"providers": {"anthropic": {"baseUrl": gateway.url}}});
        world.write("home/.pi/agent/models.json", config.to_string());
        ask(&world, &["--model", "opus"], variables).succeeded();
        gateway.bodies()[0]["model"].as_str().expect("a name").to_owned()
    };
    assert!(named(&[("ANTHROPIC_API_KEY", KEY)]).starts_with("claude-opus-"));
}
