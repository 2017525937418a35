//! Tests requests to servers: private addresses, redirects, secrets, sizes, and streamed bodies.

mod support;

use pijs_connectors::http::address::Resolver;
use pijs_connectors::http::{HttpOptions, address};
use pijs_hostcall::BoxFuture;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{Setup, World, hosts, ok, op, why};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Starts a server on a free port, which handles each connection with the given function.
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

/// The data that a server received: one string per connection.
type Seen = Arc<Mutex<Vec<String>>>;

/// Starts a server that reads the head of one request per connection and sends `response`.
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

/// A resolver that returns these answers one after the other, and then repeats the last one.
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
        // First a public address, then one of this machine.
        &[&["192.0.2.1"][..], &["127.0.0.1"]][..],
        &[&["127.0.0.1"]],
        // A public address does not permit the other addresses.
        &[&["93.184.216.34", "127.0.0.1"]],
        &[&["::ffff:127.0.0.1"]],
        &[&["64:ff9b::7f00:1"]],
        &[&["64:ff9b::a9fe:a9fe"]],
        &[&["2002:c0a8:101::1"]],
        &[&["2600:1:2:3:0:5efe:a00:1"]],
        &[&["fe80::1"]],
        &[&["169.254.169.254"]],
        &[&["fd00:ec2::254"]],
        &[&["2606:4700::1111", "::ffff:10.0.0.1"]],
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
async fn lookups_need_a_grant_and_refuse_private_addresses() {
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
    // The name of this machine is resolved without a name server.
    let own = ok(look(&[&["10.0.0.5"]], "https://localhost").await);
    assert_eq!(own["addresses"], json!([{"address": "127.0.0.1", "family": 4}]));
}

#[test]
fn documentation_and_shared_networks_are_not_public() {
    for address in ["100.127.255.255", "198.19.0.1", "2001:db8::1", "fe80::1", "ff0e::1", "2001:0:53aa:64c:0:0:0:0"] {
        assert!(!address::is_public(address.parse().unwrap()), "{address}");
    }
}

/// `localhost` is this machine, regardless of what a name server returns, and a grant must name it with its port.
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

/// An extension may connect to its own server by any method while the server listens; other extensions may not.
#[tokio::test]
async fn an_extension_reaches_its_own_listening_server() {
    let world = World::new(&[hosts(&["127.0.0.1:0".to_owned()])]);
    let listen = json!({"server": "s", "host": "127.0.0.1", "port": 0, "token": "t"});
    let mut listening = world.start("http", "net", op("listen", listen), Vec::new());
    let port = listening.next().await.output["listening"]["port"].clone();
    let request = json!({"url": format!("http://127.0.0.1:{port}/")});
    assert_eq!(why(&world.stranger("http", "http", request.clone())), "denied:no_grant");
    let asked = world.start("http", "http", request.clone(), Vec::new());
    let connection = listening.next().await.output["connection"].clone();
    ok(world.start("http", "net", op("refuse", json!({"socket": connection})), Vec::new()).next().await);
    // The request reached the server, which closed the connection.
    assert_eq!(asked.all().await.pop().unwrap().error.unwrap().code.as_str(), "io");
    world.cancel("t");
    listening.all().await;
    assert_eq!(why(&world.run("http", request).await), "denied:scope");
}

/// An address is free again as soon as its server has been closed; accepted connections stay open.
#[tokio::test]
async fn a_server_that_is_closed_is_gone_when_its_call_ends() {
    let world = World::new(&[hosts(&["127.0.0.1:*".to_owned()])]);
    let listen = |name: &str, port: u64| op("listen", json!({"server": name, "host": "127.0.0.1", "port": port}));
    let missing = op("close", json!({"server": "none"}));
    let missing = world.start("http", "net", missing, Vec::new()).next().await;
    assert_eq!(missing.error.unwrap().code.as_str(), "io");
    let mut first = world.start("http", "net", listen("a", 0), Vec::new());
    let port = first.next().await.output["listening"]["port"].as_u64().unwrap();
    let connect = op("connect", json!({"socket": "s", "host": "127.0.0.1", "port": port}));
    let mut asked = world.start("http", "net", connect, Vec::new());
    let ends = asked.next().await.output["connected"].clone();
    let came = first.next().await.output.clone();
    assert_eq!(came["about"]["remotePort"], ends["localPort"]);
    assert_eq!((&came["about"]["localPort"], &came["about"]["family"]), (&ends["remotePort"], &json!("IPv4")));
    let stranger = world.start_as("path:/other", "http", "net", op("close", json!({"server": "a"})), Vec::new());
    assert_eq!(why(&stranger.all().await.pop().unwrap()), "io:EBADF");
    ok(world.start("http", "net", op("close", json!({"server": "a"})), Vec::new()).next().await);
    assert!(first.all().await.pop().unwrap().error.is_none());
    let mut second = world.start("http", "net", listen("b", port), Vec::new());
    assert_eq!(second.next().await.output["listening"]["port"].as_u64(), Some(port));
    let mut read = world.start("http", "net", op("accept", json!({"socket": came["connection"]})), Vec::new());
    assert!(read.next().await.output["connected"].is_object());
}

/// The port may be one that the system chose. A name is looked up, and one of another machine does not count.
#[tokio::test]
async fn nobody_listens_as_a_server_of_the_user() {
    for (host, refused) in [
        ("localhost", true),
        ("127.9.9.9", true),
        ("::ffff:7f00:1", true),
        ("::", true),
        ("this.example", true),
        ("93.184.216.34", false),
    ] {
        let http = HttpOptions { resolver: scripted(&[&["93.184.216.34", "127.0.1.1"]]), ..HttpOptions::default() };
        let user_servers = Arc::new(move |_| vec![(host.to_owned(), "models.json".to_owned())]);
        let world = Setup { http, user_servers, ..Setup::new(&[hosts(&["127.0.0.1:0".to_owned()])]) }.build();
        let listen = op("listen", json!({"server": "s", "host": "127.0.0.1", "port": 0}));
        let first = world.start("http", "net", listen, Vec::new()).next().await;
        assert_eq!(first.error.is_some(), refused, "{host}");
        if refused {
            assert!(first.error.as_ref().unwrap().message.contains("models.json"), "{host}");
            assert_eq!(why(&first), "denied:blocked_address");
        }
    }
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
    // A redirect to a host that the grant does not name.
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

fn gzip(bytes: &[u8]) -> Vec<u8> {
    use io::Write as _;
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

fn brotli(bytes: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    let options = brotli::enc::BrotliEncoderParams { quality: 5, ..Default::default() };
    brotli::BrotliCompress(&mut &*bytes, &mut packed, &options).unwrap();
    packed
}

fn coded(codings: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-encoding: {codings}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// Starts a server that repeatedly sends a piece while the client reads; the counter contains the number of sent bytes.
async fn endless(piece: Vec<u8>, head: &'static str) -> (u16, Arc<AtomicUsize>) {
    let sent = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&sent);
    let (port, _) = server(move |mut stream, _| {
        let (piece, sent) = (piece.clone(), Arc::clone(&counts));
        async move {
            self::head(&mut stream).await;
            let _ = stream.write_all(head.as_bytes()).await;
            while stream.write_all(&piece).await.is_ok() {
                sent.fetch_add(piece.len(), Ordering::Relaxed);
            }
        }
    })
    .await;
    (port, sent)
}

fn chunk(bytes: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

#[tokio::test]
async fn a_body_that_unpacks_to_too_much_is_cut_off() {
    let zeros = vec![0; 64 << 20];
    let small = [gzip(&zeros), brotli(&zeros)];
    assert!(small.iter().all(|packed| packed.len() < 100_000));
    let nothing = gzip(b"");
    let (gzipped, _) = answers(coded("gzip", &small[0])).await;
    let (brotlied, _) = answers(coded("br", &small[1])).await;
    // The inner coding is small; the outer one is a decompression bomb.
    let (around, _) = answers(coded("gzip, gzip", &gzip(&nothing.repeat(1 << 20)))).await;
    let (in_one_another, _) = answers(coded("gzip, br, gzip", &gzip(&brotli(&small[0])))).await;
    // With empty members, any amount of input produces no output.
    let chunked = "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n";
    let (members, sent) = endless(chunk(&nothing.repeat(50)), chunked).await;
    let (plain, _) = endless(chunk(&[b'x'; 0x400]), "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
    let ports = [gzipped, brotlied, around, in_one_another, members, plain];
    let world = world(&ports, |http| http.body_bytes = 1 << 20);
    for port in ports {
        let request = json!({"url": url(port), "decode": true});
        assert_eq!(why(&world.run("http", request).await), "io:EFBIG");
        let streamed = json!({"url": url(port), "decode": true, "stream": true});
        let streamed = world.start("http", "http", streamed, vec![]).all().await;
        assert_eq!(why(streamed.last().unwrap()), "io:EFBIG");
        let received: usize = streamed.iter().flat_map(|result| &result.bytes).map(Vec::len).sum();
        assert!(received <= 1 << 20);
    }
    // An empty member counts toward the limit; otherwise decoding would take longer than sending.
    assert!(sent.load(Ordering::Relaxed) < 16 << 20);
    // Without `decode`, the body is not decoded.
    let as_sent = world.run("http", json!({"url": url(gzipped)})).await;
    assert_eq!(as_sent.bytes[0], small[0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_comes_as_it_was_sent_unless_it_is_to_be_decoded() {
    let (port, seen) = answers(coded("gzip", &gzip(b"hello"))).await;
    let (many, _) = answers(coded("gzip, gzip, gzip, gzip, gzip, gzip", b"")).await;
    let (moved, moved_seen) = answers(redirect(302, &url(port))).await;
    let world = world(&[port, many, moved], |_| {});
    let accepted = |seen: &Seen| {
        let request = seen.lock().unwrap().pop().unwrap();
        let line = request.lines().find_map(|line| line.strip_prefix("accept-encoding: ").map(str::to_owned));
        line.unwrap_or_default()
    };
    let as_sent = world.run("http", json!({"url": url(port)})).await;
    assert_eq!((as_sent.bytes[0].as_slice(), accepted(&seen)), (gzip(b"hello").as_slice(), String::new()));
    let decoded = world.run("http", json!({"url": url(moved), "decode": true})).await;
    assert_eq!(decoded.bytes[0], b"hello");
    let headers = decoded.output["headers"].as_array().unwrap();
    assert!(headers.contains(&json!(["content-encoding", "gzip"])));
    assert!(headers.contains(&json!(["content-length", gzip(b"hello").len().to_string()])));
    assert_eq!((accepted(&moved_seen), accepted(&seen)), ("gzip, deflate".to_owned(), "gzip, deflate".to_owned()));
    let told = json!({"url": url(port), "decode": true, "headers": {"Accept-Encoding": "x"}});
    assert_eq!((world.run("http", told).await.bytes[0].as_slice(), accepted(&seen)), (&b"hello"[..], "x".to_owned()));
    let synchronous = world.sync("http", "http", json!({"url": url(port), "decode": true}));
    assert_eq!(synchronous.bytes[0], b"hello");
    let many = |decode: bool, method: &str| json!({"url": url(many), "decode": decode, "method": method});
    assert_eq!(why(&world.run("http", many(true, "GET")).await), "io:EPROTO");
    ok(world.run("http", many(false, "GET")).await);
    ok(world.run("http", many(true, "HEAD")).await);
}

/// An endless head fails without a response, and is not kept in memory.
#[tokio::test]
async fn a_head_that_never_ends_is_given_up() {
    const NOTHING: &str = "";
    let (early, _) = endless(b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n".repeat(100), NOTHING).await;
    let (empty_lines, empty_sent) = endless(b"\r\n".repeat(1000), NOTHING).await;
    let (lines, lines_sent) = endless(b"x-a: b\r\n".repeat(1000), "HTTP/1.1 200 OK\r\n").await;
    let (line, line_sent) = endless(vec![b'x'; 8192], "HTTP/1.1 200 OK\r\nx-a: ").await;
    let (name, name_sent) = endless(vec![b'x'; 8192], "HTTP/1.1 200 OK\r\n").await;
    let (reason, reason_sent) = endless(vec![b'x'; 8192], "HTTP/1.1 200 ").await;
    let (preface, _) = answers(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec()).await;
    let (old, _) = answers(b"HTTP/0.9 200 OK\r\n\r\n".to_vec()).await;
    let (mute, _) = server(|mut stream, _| async move {
        head(&mut stream).await;
        // The server closes its sending side and keeps the connection open.
        let _ = stream.shutdown().await;
        std::future::pending::<()>().await;
    })
    .await;
    let (stays, _) = server(|mut stream, _| async move {
        head(&mut stream).await;
        std::future::pending::<()>().await;
    })
    .await;
    let ports = [early, empty_lines, lines, line, name, reason, preface, old, mute, stays];
    // Only endless servers get a short deadline; the others could exceed it on a busy machine.
    let short = |http: &mut HttpOptions| {
        http.idle_timeout = Duration::from_millis(600);
        http.total_timeout = Duration::from_secs(2);
    };
    let (world, impatient) = (world(&ports, |_| {}), world(&ports, short));
    for (port, expected) in [
        (early, "timeout:deadline"),
        (empty_lines, "io:EPROTO"),
        (lines, "io:EPROTO"),
        (line, "io:EPROTO"),
        (name, "io:EPROTO"),
        (reason, "io:EPROTO"),
        (preface, "io:EPROTO"),
        (old, "io:EPROTO"),
        (mute, "io:EPROTO"),
        (stays, "timeout:deadline"),
    ] {
        let number = ports.iter().position(|at| *at == port);
        let world = if expected == "timeout:deadline" { &impatient } else { &world };
        assert_eq!(why(&world.run("http", json!({"url": url(port)})).await), expected, "{number:?}");
    }
    // The server can send at most the kernel's socket buffers and the limit of a head.
    for sent in [empty_sent, lines_sent, line_sent, name_sent, reason_sent] {
        assert!(sent.load(Ordering::Relaxed) < 16 << 20);
    }
}

/// A head that arrives byte by byte is parsed in linear time: twice the length takes twice the time, not four times.
#[tokio::test]
async fn a_head_that_drips_is_read_in_passing() {
    const LINES: usize = 300;
    let head_of =
        |lines: usize| [b"HTTP/1.1 204 Fine\r\n", b"x-long-name: y\r\n".repeat(lines).as_slice(), b"\r\n"].concat();
    let (port, _) = server(move |mut stream, _| async move {
        head(&mut stream).await;
        let _ = stream.set_nodelay(true);
        for byte in head_of(LINES) {
            if stream.write_all(&[byte]).await.is_err() {
                return;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    let world = world(&[port], |_| {});
    let answer = ok(world.run("http", json!({"url": url(port)})).await);
    // More lines than the HTTP client accepts by default: Node accepts as many as fit into its limit for a head.
    assert_eq!(answer["headers"].as_array().map(Vec::len), Some(LINES));
}

/// A body with a wrong length, and an endless body, fail.
#[tokio::test]
async fn a_body_that_lies_about_itself_is_given_up() {
    const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let (extension, extension_sent) =
        endless(vec![b'x'; 8192], "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;").await;
    let (extensions, extensions_sent) = endless(format!("1;{}\r\na\r\n", "x".repeat(4000)).into_bytes(), CHUNKED).await;
    let (trailer, trailer_sent) =
        endless(vec![b'x'; 8192], "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx-a: ").await;
    let (trailers, trailers_sent) =
        endless(b"x-a: b\r\n".repeat(1000), "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n").await;
    let (size, _) = endless(vec![b'0'; 8192], CHUNKED).await;
    let says = |head: &str| answers(format!("HTTP/1.1 200 OK\r\n{head}").into_bytes());
    let (more, _) = says("content-length: 1000000000000000\r\n\r\nabc").await;
    let (far_more, _) = says("content-length: 99999999999999999999999\r\n\r\nabc").await;
    let (negative, _) = says("content-length: -1\r\n\r\nabc").await;
    let (two, _) = says("content-length: 1\r\ncontent-length: 2\r\n\r\nabc").await;
    let (huge, _) = says("transfer-encoding: chunked\r\n\r\nfffffffffffffff\r\nabc").await;
    let (wide, _) = says("transfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\nabc").await;
    let (less, _) = says("content-length: 2\r\n\r\nabcdef").await;
    let ports = [extension, extensions, trailer, trailers, size, more, far_more, negative, two, huge, wide, less];
    let short = |http: &mut HttpOptions| http.total_timeout = Duration::from_secs(5);
    let (world, impatient) = (world(&ports, |_| {}), world(&ports, short));
    for (number, port) in ports.into_iter().enumerate() {
        let world = if port == size { &impatient } else { &world };
        let answer = world.run("http", json!({"url": url(port)})).await;
        match port == less {
            // Bytes after the end of the body are ignored.
            true => assert_eq!(answer.bytes[0], b"ab"),
            // A chunk size may have any number of leading zeros, which are not kept in memory.
            false if port == size => assert_eq!(why(&answer), "timeout:deadline"),
            false => assert_eq!(why(&answer), "io:EPROTO", "{number}"),
        }
    }
    for sent in [extension_sent, extensions_sent, trailer_sent, trailers_sent] {
        assert!(sent.load(Ordering::Relaxed) < 16 << 20);
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
    // A server that sends many frames of a protocol that was not negotiated.
    let (frames, _) =
        server(|mut stream, _| async move { while stream.write_all(b"\0\0\0\x04\0\0\0\0\0").await.is_ok() {} }).await;
    let ports = [stalls, drips, cuts, garbage, frames];
    let short = |http: &mut HttpOptions| {
        http.idle_timeout = Duration::from_millis(300);
        http.total_timeout = Duration::from_millis(900);
    };
    let (world, impatient) = (world(&ports, |_| {}), world(&ports, short));
    for (port, expected) in [
        (stalls, "timeout:deadline"),
        (drips, "timeout:deadline"),
        (cuts, "io:EPROTO"),
        (garbage, "io:EPROTO"),
        (frames, "io:EPROTO"),
    ] {
        let world = if expected == "timeout:deadline" { &impatient } else { &world };
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
    // The server continues when it has received the data.
    go.send(true).unwrap();
    assert_eq!(call.next().await.bytes[0], b"two");
    assert!(!call.next().await.is_error);
}

#[tokio::test]
async fn a_coded_response_comes_in_pieces_as_the_server_sends_them() {
    use flate2::{Compress, Compression, FlushCompress};
    let mut packs = Compress::new_gzip(Compression::best(), 15);
    let mut pack = |text: &str| {
        let mut packed = Vec::with_capacity(100);
        packs.compress_vec(text.as_bytes(), &mut packed, FlushCompress::Sync).unwrap();
        packed
    };
    let (one, two) = (pack("one"), pack("two"));
    let (go, wait) = tokio::sync::watch::channel(false);
    let (port, _) = server(move |mut stream, _| {
        let (mut wait, one, two) = (wait.clone(), one.clone(), two.clone());
        async move {
            head(&mut stream).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\nconnection: close\r\n\r\n").await;
            let _ = stream.write_all(&one).await;
            let _ = wait.wait_for(|go| *go).await;
            let _ = stream.write_all(&two).await;
        }
    })
    .await;
    let world = world(&[port], |_| {});
    let mut call = world.start("http", "http", json!({"url": url(port), "stream": true, "decode": true}), vec![]);
    assert_eq!(call.next().await.output["status"], 200);
    assert_eq!(call.next().await.bytes[0], b"one");
    // The server continues when it has received the data.
    go.send(true).unwrap();
    assert_eq!(call.next().await.bytes[0], b"two");
    // The connection was closed, which ends the call normally.
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
    // A streamed body cannot be sent again after a redirect.
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
