//! Tests the sign-in to a remote server, with an authorization server on the loopback interface.

use crate::{Ran, World, answer, echo, request};
use serde_json::{Value, json};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};

/// A server that requires a sign-in, and its authorization server.
#[derive(Default)]
struct Authority {
    /// The valid access token.
    access: String,
    refresh: String,
    /// Members that replace those of the authorization server's metadata, and, in `about`, of the server's.
    metadata: Value,
    about: Value,
    /// Challenges by code.
    codes: std::collections::BTreeMap<String, String>,
    log: Vec<String>,
}

type Shared = std::sync::Arc<std::sync::Mutex<Authority>>;

fn authority() -> (u16, Shared) {
    let shared = Shared::default();
    {
        let mut state = shared.lock().expect("the lock is not poisoned");
        (state.access, state.refresh) = ("first-token".to_owned(), "refresh-1".to_owned());
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let of_thread = std::sync::Arc::clone(&shared);
    std::thread::spawn(move || {
        for connection in listener.incoming().map_while(Result::ok) {
            let (mut connection, shared) = (connection, std::sync::Arc::clone(&of_thread));
            std::thread::spawn(move || {
                while let Some((head, body)) = request(&mut connection) {
                    let (status, more, text) = authorized(&shared, port, &head, &body);
                    let reply = format!(
                        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{more}content-length: {}\r\n\r\n{text}",
                        text.len()
                    );
                    if connection.write_all(reply.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (port, shared)
}

/// Returns the response to a request: status, additional headers, body.
fn authorized(shared: &Shared, port: u16, head: &str, body: &[u8]) -> (&'static str, String, String) {
    let mut state = shared.lock().expect("the lock is not poisoned");
    let origin = format!("http://127.0.0.1:{port}");
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let text = String::from_utf8_lossy(body).into_owned();
    state.log.push(format!("{path} {text}"));
    let found = |value: Value| ("200 OK", String::new(), value.to_string());
    match path.as_str() {
        "/mcp" if !head.contains(&format!("authorization: bearer {}\r\n", state.access)) => {
            let place = format!("{origin}/.well-known/oauth-protected-resource/mcp");
            let header = format!("www-authenticate: Bearer resource_metadata=\"{place}\", scope=\"tools\"\r\n");
            ("401 Unauthorized", header, String::new())
        }
        "/mcp" if head.starts_with("GET") => ("405 Method Not Allowed", String::new(), String::new()),
        "/mcp" => match answer(&serde_json::from_slice(body).unwrap_or_default(), head) {
            Some(value) => found(value),
            None => ("202 Accepted", String::new(), String::new()),
        },
        "/.well-known/oauth-protected-resource/mcp" => {
            found(merged(json!({"resource": format!("{origin}/mcp"), "authorization_servers": [origin]}), &state.about))
        }
        "/.well-known/oauth-authorization-server" => {
            let honest = json!({
                "issuer": origin, "authorization_endpoint": format!("{origin}/authorize"),
                "token_endpoint": format!("{origin}/token"), "registration_endpoint": format!("{origin}/register"),
                "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
            });
            found(merged(honest, &state.metadata))
        }
        "/register" => found(json!({"client_id": "client-1"})),
        "/token" => {
            let proof = |verifier: String| {
                use base64::Engine as _;
                use sha2::Digest as _;
                base64::prelude::BASE64_URL_SAFE_NO_PAD.encode(sha2::Sha256::digest(verifier))
            };
            let code = query(&text, "code").and_then(|code| state.codes.remove(&code));
            let is_code = code.is_some() && code == query(&text, "code_verifier").map(proof);
            let is_refresh = query(&text, "refresh_token").is_some_and(|token| token == state.refresh);
            match is_code || is_refresh {
                true => {
                    if is_refresh {
                        state.refresh = "refresh-2".to_owned();
                    }
                    let (access, refresh) = (&state.access, &state.refresh);
                    found(
                        json!({"access_token": access, "token_type": "Bearer", "expires_in": 3600, "refresh_token": refresh}),
                    )
                }
                false => ("400 Bad Request", String::new(), json!({"error": "invalid_grant"}).to_string()),
            }
        }
        _ => ("404 Not Found", String::new(), String::new()),
    }
}

/// Replaces members of one object with those of another.
fn merged(mut honest: Value, other: &Value) -> Value {
    for (key, value) in other.as_object().into_iter().flatten() {
        honest[key] = value.clone();
    }
    honest
}

/// Returns a decoded member of a query.
fn query(text: &str, name: &str) -> Option<String> {
    let pairs = text.rsplit('?').next()?.split('&');
    let value = pairs.filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name)?.1;
    let mut decoded = Vec::new();
    let mut bytes = value.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                u8::from_str_radix(&format!("{}{}", char::from(bytes.next()?), char::from(bytes.next()?)), 16).ok()?
            }
            b'+' => b' ',
            byte => byte,
        });
    }
    String::from_utf8(decoded).ok()
}

/// Requests an address of this machine as a browser does, and returns the response.
fn browse(url: &str) -> String {
    let (host, path) = url.trim_start_matches("http://").split_once('/').expect("a path");
    let mut stream = std::net::TcpStream::connect(host).expect("it listens");
    stream.write_all(format!("GET /{path} HTTP/1.1\r\nhost: {host}\r\n\r\n").as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

impl World {
    /// Runs `pi mcp login s` and returns the output. `user` receives the address of the page.
    fn login(&self, user: impl FnOnce(&str)) -> Ran {
        self.login_without(None, user)
    }

    fn login_without(&self, guard: Option<&str>, user: impl FnOnce(&str)) -> Ran {
        use std::io::BufRead as _;
        let mut command = Command::new(env!("CARGO_BIN_EXE_pi-attacked"));
        command.args(["mcp", "login", "s"]).current_dir(self.at("project")).env_clear().env("PATH", "/usr/bin:/bin");
        command.env("HOME", self.at("home")).env("PIJS_WORDS", "own").stdin(Stdio::null()).stderr(Stdio::piped());
        guard.map(|guard| command.env(pijs_protocol::guard::VARIABLE, guard));
        let mut child = command.spawn().expect("pi starts");
        let mut lines = std::io::BufReader::new(child.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
        let mut said = Vec::new();
        for line in lines.by_ref() {
            said.push(line.clone());
            if line.contains("/authorize?") {
                user(line.trim());
                break;
            }
        }
        said.extend(lines);
        let code = child.wait().expect("it ends").code();
        Ran { code, stdout: String::new(), stderr: said.join("\n") }
    }
}

/// Grants consent on the page: the browser is redirected with a code.
fn agrees(shared: &Shared, page: &str) -> String {
    let of = |name: &str| query(page, name).unwrap_or_default();
    assert_eq!(
        (of("code_challenge_method").as_str(), of("response_type").as_str(), of("scope").as_str()),
        ("S256", "code", "tools")
    );
    shared.lock().expect("the lock is not poisoned").codes.insert("code-1".to_owned(), of("code_challenge"));
    format!("{}?code=code-1&state={}", of("redirect_uri"), of("state"))
}

#[test]
fn a_user_signs_in_to_a_server_and_out_again() {
    let (port, shared) = authority();
    let world = World::new();
    world.servers(json!({"s": {"url": format!("http://127.0.0.1:{port}/mcp")}}));
    let allowed = ["--allow", "mcp"];
    let (ran, texts) = world.session(&[echo("x")], &allowed);
    assert!(texts[0].contains("not found") && ran.stderr.contains("pi mcp login s"), "{texts:?} {}", ran.stderr);

    let ran = world.login(|page| {
        let back = agrees(&shared, page);
        // Another page on this machine can neither end the sign-in nor inject its own code.
        let forged = browse(&format!("{}?code=stolen&state=x", back.split('?').next().expect("an address")));
        assert!(forged.starts_with("HTTP/1.1 400"), "{forged}");
        assert!(browse(&back.replace("/callback", "/other")).starts_with("HTTP/1.1 404"));
        assert!(browse(&back).contains("Signed in"));
    });
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(!shared.lock().expect("the lock is not poisoned").log.iter().any(|line| line.contains("stolen")));
    let file = world.at("home/.pi/agent/mcp-auth.json");
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&file).expect("a file").permissions()) & 0o777;
    assert_eq!(mode, 0o600);
    let (ran, texts) = world.session(&[echo("x")], &allowed);
    assert_eq!(texts, ["over http with none: \"x\""], "{}", ran.stderr);
    assert!(!world.ledger().contains("first-token") && !world.ledger().contains("refresh-1"));

    // The token expires: another one is fetched, once, from the same server.
    shared.lock().expect("the lock is not poisoned").access = "second-token".to_owned();
    let (ran, texts) = world.session(&[echo("x")], &allowed);
    assert_eq!(texts, ["over http with none: \"x\""], "{}", ran.stderr);
    let kept = fs::read_to_string(&file).expect("a file");
    assert!(kept.contains("second-token") && kept.contains("refresh-2") && !kept.contains("refresh-1"), "{kept}");

    // The authorization server revokes all tokens.
    {
        let mut state = shared.lock().expect("the lock is not poisoned");
        (state.access, state.refresh) = ("third-token".to_owned(), "none".to_owned());
    }
    let (ran, texts) = world.session(&[echo("x")], &allowed);
    assert!(texts[0].contains("not found") && ran.stderr.contains("pi mcp login s"), "{texts:?} {}", ran.stderr);
    assert!(world.pi(&["mcp", "logout", "s"]).stderr.contains("signed out of s"));
    assert!(!fs::read_to_string(&file).expect("a file").contains("second-token"));
    assert!(world.pi(&["mcp", "logout", "s"]).stderr.contains("not signed in"));
}

/// Signs in as a user who grants consent on the displayed page.
fn signs_in(world: &World, shared: &Shared, guard: Option<&str>) -> Ran {
    world.login_without(guard, |page| drop(browse(&agrees(shared, page))))
}

#[test]
fn a_sign_in_takes_no_metadata_that_it_was_not_asked_for() {
    let elsewhere = "http://auth.example/authorize";
    for (guard, about, metadata, words) in [
        ("oauth.issuer", json!({}), json!({"issuer": "https://other.example"}), "of another authorization server"),
        ("oauth.resource", json!({"resource": "https://other.example/mcp"}), json!({}), "about another server"),
        ("oauth.proof", json!({}), json!({"code_challenge_methods_supported": ["plain"]}), "does not support PKCE"),
        ("oauth.transport", json!({}), json!({"authorization_endpoint": elsewhere}), "which is not https"),
    ] {
        let (port, shared) = authority();
        let world = World::new();
        world.servers(json!({"s": {"url": format!("http://127.0.0.1:{port}/mcp")}}));
        {
            let mut state = shared.lock().expect("the lock is not poisoned");
            (state.about, state.metadata) = (about, metadata);
        }
        let ran = world.login(|page| panic!("{guard}: no page is shown: {page}"));
        assert!(ran.code == Some(1) && ran.stderr.contains(words), "{guard}: {}", ran.stderr);
        let ran = signs_in(&world, &shared, Some(guard));
        assert_eq!(ran.code, Some(0), "{guard} is needed: {}", ran.stderr);
    }
}

#[test]
fn a_sign_in_takes_no_answer_that_it_does_not_wait_for() {
    let start = || {
        let (port, shared) = authority();
        let world = World::new();
        world.servers(json!({"s": {"url": format!("http://127.0.0.1:{port}/mcp")}}));
        (world, shared)
    };
    let answers = |guard: Option<&str>, changed: fn(&str) -> String| {
        let (world, shared) = start();
        let ran = world.login_without(guard, |page| {
            let back = agrees(&shared, page);
            let first = browse(&changed(&back));
            // If the first answer has no effect, the honest one ends the sign-in.
            if first.starts_with("HTTP/1.1 400") && changed(&back).contains("state=x") {
                browse(&back);
            }
        });
        let is_stolen = shared.lock().expect("the lock is not poisoned").log.iter().any(|line| line.contains("stolen"));
        (ran, is_stolen)
    };
    let stolen = |back: &str| format!("{}?code=stolen&state=x", back.split('?').next().unwrap_or_default());
    let (ran, is_stolen) = answers(None, stolen);
    assert!(ran.code == Some(0) && !is_stolen, "{}", ran.stderr);
    let (ran, is_stolen) = answers(Some("oauth.state"), stolen);
    assert!(ran.code == Some(1) && is_stolen, "oauth.state is needed: {}", ran.stderr);
    let foreign = |back: &str| format!("{back}&iss=https%3A%2F%2Fother.example");
    let (ran, _) = answers(None, foreign);
    assert!(ran.code == Some(1) && ran.stderr.contains("from another authorization server"), "{}", ran.stderr);
    let (ran, _) = answers(Some("oauth.answer-issuer"), foreign);
    assert_eq!(ran.code, Some(0), "oauth.answer-issuer is needed: {}", ran.stderr);
}
