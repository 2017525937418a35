//! Servers: addresses that are not public, redirects, secrets, sizes, and bodies in pieces.

mod support;

use pijs_connectors::http::address::Resolver;
use pijs_connectors::http::{HttpOptions, address};
use pijs_hostcall::BoxFuture;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{Setup, World, hosts, ok, op, why};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A server on a free port that does with each connection what it is told to.
async fn server<F: Future<Output = ()> + Send + 'static>(
    serve: impl Fn(TcpStream, Seen) -> F + Send + 'static,
) -> (u16, Seen) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let seen = Seen::default();
    let into = Arc::clone(&seen);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, Arc::clone(&into)));
        }
    });
    (port, seen)
}

/// What a server was sent, one string for each connection.
type Seen = Arc<Mutex<Vec<String>>>;

/// Reads one request's head and answers.
async fn answers(response: Vec<u8>) -> (u16, Seen) {
    server(move |mut stream, seen| {
        let response = response.clone();
        async move {
            let request = head(&mut stream).await;
            seen.lock().unwrap().push(request);
            let _ = stream.write_all(&response).await;
        }
    })
    .await
}

async fn head(stream: &mut TcpStream) -> String {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut piece = [0; 1024];
        match stream.read(&mut piece).await {
            Ok(0) | Err(_) => break,
            Ok(read) => request.extend_from_slice(&piece[..read]),
        }
    }
    String::from_utf8_lossy(&request).into_owned()
}

fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}/")
}

fn named(ports: &[u16]) -> Vec<String> {
    ports.iter().map(|port| format!("127.0.0.1:{port}")).collect()
}

fn world(ports: &[u16], change: impl FnOnce(&mut HttpOptions)) -> World {
    let mut http = HttpOptions::default();
    change(&mut http);
    let mut patterns = named(ports);
    patterns.push("*".to_owned());
    Setup { http, ..Setup::new(&[hosts(&patterns)]) }.build()
}

fn plain(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len()).into_bytes()
}

fn redirect(status: u16, to: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status} Go\r\nlocation: {to}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").into_bytes()
}

/// Answers in turn, the last one for ever.
struct Scripted(Mutex<VecDeque<Vec<IpAddr>>>);

impl Resolver for Scripted {
    fn resolve(&self, _name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let mut answers = self.0.lock().unwrap();
        let answer = if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() };
        Box::pin(std::future::ready(Ok(answer.unwrap_or_default())))
    }
}

fn scripted(answers: &[&[&str]]) -> Arc<dyn Resolver> {
    let parse = |answer: &&[&str]| answer.iter().map(|address| address.parse().unwrap()).collect();
    Arc::new(Scripted(Mutex::new(answers.iter().map(parse).collect())))
}

#[tokio::test]
async fn a_name_that_changes_its_address_leads_nowhere_inside() {
    let (port, seen) = answers(plain("canary")).await;
    for answers in [
        // First public, then this machine.
        &[&["192.0.2.1"][..], &["127.0.0.1"]][..],
        &[&["127.0.0.1"]],
        // One that is public does not save the others.
        &[&["93.184.216.34", "127.0.0.1"]],
        &[&["::ffff:127.0.0.1"]],
        &[&["64:ff9b::7f00:1"]],
        &[&["0.0.0.0"]],
    ] {
        let world = world(&[], |http| {
            http.resolver = scripted(answers);
            http.connect_timeout = Duration::from_millis(200);
        });
        for _ in 0..2 {
            let refused = world.run("http", json!({"url": format!("http://attacker.example:{port}/")})).await;
            assert_eq!(why(&refused), "denied:blocked_address", "{answers:?}");
        }
    }
    assert!(seen.lock().unwrap().is_empty());
}

#[tokio::test]
async fn names_are_looked_up_where_requests_may_go_and_lead_nowhere_inside() {
    let look = |answers: &'static [&'static [&'static str]], url: &'static str| async move {
        let http = HttpOptions { resolver: scripted(answers), ..HttpOptions::default() };
        let world = Setup { http, ..Setup::new(&[hosts(&["*.example".into(), "localhost".into()])]) }.build();
        world.run("http", json!({"op": "lookup", "url": url})).await
    };
    let found = ok(look(&[&["93.184.216.34", "2606:4700::1111"]], "https://a.example/x").await);
    let expected = json!([{"address": "93.184.216.34", "family": 4}, {"address": "2606:4700::1111", "family": 6}]);
    assert_eq!(found["addresses"], expected);
    assert_eq!(why(&look(&[&["93.184.216.34", "10.0.0.5"]], "https://a.example").await), "denied:blocked_address");
    assert_eq!(why(&look(&[&["93.184.216.34"]], "https://c2VjcmV0.evil.test").await), "denied:scope");
    assert_eq!(why(&look(&[&["93.184.216.34"]], "https://u:p@a.example").await), "invalid_request:url");
    // The machine's own name asks nobody.
    let own = ok(look(&[&["10.0.0.5"]], "https://localhost").await);
    assert_eq!(own["addresses"], json!([{"address": "127.0.0.1", "family": 4}]));
}

#[test]
fn documentation_and_shared_networks_are_not_public() {
    for address in ["100.127.255.255", "198.19.0.1", "2001:db8::1", "fe80::1", "ff0e::1", "2001:0:53aa:64c:0:0:0:0"] {
        assert!(!address::is_public(address.parse().unwrap()), "{address}");
    }
}

/// `localhost` is this machine whatever a name server says, and needs to be named with its port.
#[tokio::test]
async fn localhost_is_reached_when_it_is_named_with_its_port() {
    let (port, seen) = answers(plain("here")).await;
    let url = format!("http://localhost:{port}/");
    for (names, expected) in [
        (vec![format!("localhost:{port}")], None),
        (vec!["localhost".to_owned()], Some("denied:scope")),
        (vec!["*".to_owned()], Some("denied:blocked_address")),
        (vec![format!("127.0.0.1:{port}")], Some("denied:scope")),
    ] {
        let world = World::new(&[hosts(&names)]);
        let answer = world.run("http", json!({"url": url})).await;
        match expected {
            Some(expected) => assert_eq!(why(&answer), expected, "{names:?}"),
            None => assert_eq!(answer.output["status"], 200, "{names:?}: {:?}", answer.error),
        }
    }
    assert_eq!(seen.lock().unwrap().len(), 1);
}

/// Who listens may ask there by whichever way, as long as it listens, and nobody else may.
#[tokio::test]
async fn a_server_of_ones_own_is_reached_without_a_name() {
    let world = World::new(&[hosts(&["127.0.0.1:0".to_owned()])]);
    let listen = json!({"server": "s", "host": "127.0.0.1", "port": 0, "token": "t"});
    let mut listening = world.start("http", "net", op("listen", listen), Vec::new());
    let port = listening.next().await.output["listening"]["port"].clone();
    let request = json!({"url": format!("http://127.0.0.1:{port}/")});
    assert_eq!(why(&world.stranger("http", "http", request.clone())), "denied:no_grant");
    let asked = world.start("http", "http", request.clone(), Vec::new());
    let connection = listening.next().await.output["connection"].clone();
    ok(world.start("http", "net", op("refuse", json!({"socket": connection})), Vec::new()).next().await);
    // It came to the server, which hung up.
    assert_eq!(asked.all().await.pop().unwrap().error.unwrap().code.as_str(), "io");
    world.cancel("t");
    listening.all().await;
    assert_eq!(why(&world.run("http", request).await), "denied:scope");
}

#[tokio::test]
async fn each_redirect_is_decided_anew() {
    let (inside, seen) = answers(plain("canary")).await;
    for to in [
        format!("http://127.0.0.1:{inside}/"),
        format!("http://localhost:{inside}/"),
        format!("//127.0.0.1:{inside}/x"),
        format!("http://2130706433:{inside}/"),
        format!("http://[::ffff:127.0.0.1]:{inside}/"),
    ] {
        let (outer, _) = answers(redirect(302, &to)).await;
        let world = world(&[outer], |_| {});
        assert_eq!(why(&world.run("http", json!({"url": url(outer)})).await), "denied:blocked_address", "{to}");
    }
    for to in ["file:///etc/passwd", "ftp://x.example/", "http://user:secret@x.example/"] {
        let (outer, _) = answers(redirect(302, to)).await;
        let world = world(&[outer], |_| {});
        assert_eq!(why(&world.run("http", json!({"url": url(outer)})).await), "invalid_request:url", "{to}");
    }
    // A host that the grant does not name.
    let (outer, _) = answers(redirect(302, "http://elsewhere.example/")).await;
    let world = World::new(&[hosts(&named(&[outer]))]);
    assert_eq!(why(&world.run("http", json!({"url": url(outer)})).await), "denied:scope");
    assert!(seen.lock().unwrap().is_empty());
}

#[tokio::test]
async fn nothing_that_could_be_a_secret_goes_to_another_origin() {
    let (other, other_seen) = answers(plain("there")).await;
    let (first, first_seen) = answers(redirect(307, &url(other))).await;
    let world = world(&[first, other], |_| {});
    let headers = json!({
        "Authorization": "Bearer canary", "Cookie": "canary=1", "X-Api-Key": "canary", "X-Own": "canary",
        "Accept": "text/plain", "Content-Type": "text/plain",
    });
    let there =
        world.run("http", json!({"url": url(first), "method": "POST", "body": "hello", "headers": headers})).await;
    assert_eq!(there.bytes[0], b"there");
    let (first_seen, other_seen) = (first_seen.lock().unwrap()[0].clone(), other_seen.lock().unwrap()[0].clone());
    assert_eq!(first_seen.matches("canary").count(), 4);
    assert!(!other_seen.contains("canary") && other_seen.contains("accept: text/plain"), "{other_seen}");
}

#[tokio::test]
async fn a_body_that_unpacks_to_too_much_is_cut_off() {
    use io::Write as _;
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let zeros = vec![0; 1 << 20];
    for _ in 0..64 {
        packed.write_all(&zeros).unwrap();
    }
    let packed = packed.finish().unwrap();
    assert!(packed.len() < 100_000);
    let mut response = format!(
        "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        packed.len()
    )
    .into_bytes();
    response.extend(packed);
    let (bomb, _) = answers(response).await;
    let (endless, _) = server(|mut stream, _| async move {
        head(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
        while stream.write_all(b"400\r\n").await.is_ok() {
            if stream.write_all(&[b'x'; 0x400]).await.is_err() || stream.write_all(b"\r\n").await.is_err() {
                return;
            }
        }
    })
    .await;
    let world = world(&[bomb, endless], |http| http.body_bytes = 1 << 20);
    for port in [bomb, endless] {
        assert_eq!(why(&world.run("http", json!({"url": url(port)})).await), "io:EFBIG");
        let streamed = world.start("http", "http", json!({"url": url(port), "stream": true}), vec![]).all().await;
        assert_eq!(why(streamed.last().unwrap()), "io:EFBIG");
        let received: usize = streamed.iter().flat_map(|result| &result.bytes).map(Vec::len).sum();
        assert!(received <= 1 << 20);
    }
}

#[tokio::test]
async fn a_server_that_drips_stalls_or_lies_is_given_up() {
    let (stalls, _) = server(|mut stream, _| async move {
        head(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc").await;
        std::future::pending::<()>().await;
    })
    .await;
    let (drips, _) = server(|mut stream, _| async move {
        head(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
        while stream.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    let (cuts, _) = answers(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\nconnection: close\r\n\r\nabc".to_vec()).await;
    let (garbage, _) = answers(b"\0\0\0\0hello\r\n\r\n".to_vec()).await;
    // A flood of frames of a protocol that was never agreed on.
    let (frames, _) =
        server(|mut stream, _| async move { while stream.write_all(b"\0\0\0\x04\0\0\0\0\0").await.is_ok() {} }).await;
    let world = world(&[stalls, drips, cuts, garbage, frames], |http| {
        http.idle_timeout = Duration::from_millis(300);
        http.total_timeout = Duration::from_millis(900);
    });
    for (port, expected) in [
        (stalls, "timeout:deadline"),
        (drips, "timeout:deadline"),
        (cuts, "io:EPROTO"),
        (garbage, "io:EPROTO"),
        (frames, "io:EPROTO"),
    ] {
        assert_eq!(why(&world.run("http", json!({"url": url(port)})).await), expected);
    }
}

#[tokio::test]
async fn a_response_comes_in_pieces_as_the_server_sends_them() {
    let (go, wait) = tokio::sync::watch::channel(false);
    let (port, _) = server(move |mut stream, _| {
        let mut wait = wait.clone();
        async move {
            head(&mut stream).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nx-y: z\r\nconnection: close\r\n\r\none").await;
            let _ = wait.wait_for(|go| *go).await;
            let _ = stream.write_all(b"two").await;
        }
    })
    .await;
    let world = world(&[port], |_| {});
    let mut call = world.start("http", "http", json!({"url": url(port), "stream": true}), vec![]);
    let first = call.next().await;
    assert_eq!((&first.output["status"], &first.output["headers"][0]), (&json!(200), &json!(["x-y", "z"])));
    assert_eq!(call.next().await.bytes[0], b"one");
    // Only what was received makes the server go on.
    go.send(true).unwrap();
    assert_eq!(call.next().await.bytes[0], b"two");
    assert!(!call.next().await.is_error);
}

#[tokio::test]
async fn a_request_goes_out_in_pieces_as_they_are_given() {
    let (port, _) = server(|mut stream, seen| async move {
        let mut all = Vec::new();
        while !all.ends_with(b"0\r\n\r\n") {
            let mut piece = [0; 1024];
            let Ok(read @ 1..) = stream.read(&mut piece).await else { break };
            all.extend_from_slice(&piece[..read]);
            seen.lock().unwrap().push(String::from_utf8_lossy(&piece[..read]).into_owned());
        }
        let _ = stream.write_all(&plain("taken")).await;
    })
    .await;
    let world = world(&[port], |_| {});
    let call = world.start("http", "http", json!({"url": url(port), "method": "PUT", "upload": "u"}), vec![]);
    tokio::task::yield_now().await;
    let send = |data: &str| world.run("http", op("send", json!({"upload": "u", "data": data})));
    ok(send("one").await);
    ok(send("two").await);
    let twice = world.run("http", json!({"url": url(port), "method": "PUT", "upload": "u"})).await;
    assert_eq!(why(&twice), "invalid_request:duplicate_id");
    ok(world.run("http", op("finish", json!({"upload": "u"}))).await);
    let answer = call.all().await.pop().unwrap();
    assert_eq!((&answer.output["status"], answer.bytes[0].as_slice()), (&json!(200), b"taken".as_slice()));
    assert_eq!(why(&send("three").await), "io:EPIPE");
    // A server that asks for the body again cannot have it.
    let (moved, _) = answers(redirect(307, "/again")).await;
    let world = self::world(&[moved], |_| {});
    let call = world.start("http", "http", json!({"url": url(moved), "method": "PUT", "upload": "u"}), vec![]);
    assert_eq!(why(&call.all().await.pop().unwrap()), "io:EREDIRECT");
}

#[tokio::test]
async fn headers_of_the_connection_are_not_the_callers() {
    let (port, seen) = answers(plain("x")).await;
    let world = world(&[port], |_| {});
    for (name, value) in [
        ("Host", "evil"),
        ("Transfer-Encoding", "chunked"),
        ("TE", "trailers"),
        ("Proxy-Authorization", "x"),
        ("Upgrade", "h2c"),
        ("x\r\nhost", "evil"),
        ("x", "a\r\nhost: evil"),
    ] {
        let refused = world.run("http", json!({"url": url(port), "headers": {name: value}})).await;
        assert_eq!(why(&refused), "invalid_request:schema", "{name:?}");
    }
    for address in ["http://user:pass@127.0.0.1/", "ftp://127.0.0.1/", "unix:/run/x.sock"] {
        let refused: Value = json!({"url": address});
        assert_eq!(why(&world.run("http", refused).await), "invalid_request:url", "{address}");
    }
    assert!(seen.lock().unwrap().is_empty());
}
