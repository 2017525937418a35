//! Scenarios about connections: their number, the duration of name lookups, and unsolicited data. One extension must not exhaust
//! the resources of others.

use pijs_connectors::http::HttpOptions;
use pijs_connectors::http::address::{Resolver, SystemResolver};
use pijs_connectors::{Connectors, LOOKUPS};
use pijs_environment::simulated::StandingTimer;
use pijs_hostcall::{
    BoxFuture, Caller, Dispatcher, Gate, Grant, Ledger, LedgerOptions, MemorySink, Mode, Places, Policy, Profile,
};
use pijs_protocol::manifest::Scope;
use pijs_protocol::{Capability, HostCall, HostResult};
use serde_json::{Value, json};
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tokio_tungstenite::tungstenite::accept;

/// Limit on open files of the process, and the share that one extension may use for connections.
const FILES: u64 = 64;
const ROOM: usize = 8;
/// Maximum number of concurrent name lookups of one extension.
const LOOK_UPS: usize = 8;
/// Number of concurrent calls, far above both limits.
const CALLS: usize = 40;
/// Time without an event that shows that no more events arrive.
const QUIET: Duration = Duration::from_secs(3);
/// Time limit; only a hang reaches it.
const CEILING: Duration = Duration::from_secs(120);

/// Returns how long to wait for the next event. `count` events are expected; after them, a short wait only shows that no more
/// arrive.
fn patience(come: usize, count: usize) -> Duration {
    if come < count { CEILING } else { QUIET }
}

/// One extension that may connect to these hosts, and its calls.
struct Host {
    runtime: tokio::runtime::Runtime,
    dispatcher: Dispatcher,
    caller: Caller,
}

impl Host {
    fn new(hosts: &[String], resolver: Arc<dyn Resolver>) -> Self {
        let places = Places::new("/projects/app", "/home/me", "/home/me/.pi/agent", "/tmp/none");
        let gate = Gate::builder(Policy { mode: Mode::Strict, ..Policy::default() }, places).build();
        let profile = Arc::new(Profile::new("path:/x"));
        let scope = Scope { hosts: Some(hosts.to_vec()), ..Scope::default() };
        gate.set_grants(&profile, &[Grant::scoped("h", "http", scope)], Default::default()).expect("grants");
        let ledger = Ledger::new(LedgerOptions::default(), MemorySink::new());
        let http = HttpOptions { resolver: Arc::clone(&resolver), ..HttpOptions::default() };
        let connectors = Connectors::new().http(http).net(resolver, Arc::new(|_| Vec::new()));
        let dispatcher = Dispatcher::builder(gate, ledger, Arc::new(StandingTimer::default()))
            .connectors(connectors.into_methods())
            .build();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        Self { runtime: runtime.expect("a runtime"), dispatcher, caller: Caller::new(profile) }
    }

    /// Starts a call whose answer arrives on the channel.
    fn call(&self, number: usize, method: &str, params: Value, answers: &mpsc::Sender<HostResult>) {
        let Value::Object(params) = params else { unreachable!("an object") };
        let call = HostCall {
            capability: Capability::new("http"),
            method: method.into(),
            params,
            ..super::super::call(number, "")
        };
        let answers = answers.clone();
        let _entered = self.runtime.enter();
        // The test may have dropped the receiver.
        let take = move |result, _| drop(answers.send(result));
        self.runtime.spawn(self.dispatcher.call(&self.caller, call, take.clone()).rest(take));
    }
}

fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("it has one").port();
    (listener, port)
}

/// Q14: requests that a server delays do not exhaust the files of the process, and no request is lost.
pub(crate) fn connections_of_one_leave_room_for_others() -> bool {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let (listener, port) = listener();
    setrlimit(Resource::Nofile, Rlimit { current: Some(FILES), maximum: Some(FILES) }).expect("a lower limit");
    let host = Host::new(&[format!("127.0.0.1:{port}")], Arc::new(SystemResolver));
    let (answers, answered) = mpsc::channel();
    for number in 0..CALLS {
        host.call(number, "http", json!({ "url": format!("http://127.0.0.1:{port}/") }), &answers);
    }
    let (accept, accepted) = mpsc::channel();
    std::thread::spawn(move || listener.incoming().flatten().try_for_each(|stream| accept.send(stream)));
    let (mut most, mut served) = (0, 0);
    while served < CALLS {
        // Connections that arrive before a quiet period are open concurrently.
        let mut standing: Vec<TcpStream> = Vec::new();
        while let Ok(stream) = accepted.recv_timeout(patience(standing.len(), ROOM.min(CALLS - served))) {
            standing.push(stream);
            if standing.len() > ROOM {
                return false;
            }
        }
        most = most.max(standing.len());
        served += standing.len();
        assert!(!standing.is_empty(), "{served} of {CALLS} requests came");
        for mut stream in standing {
            let _ = stream.read(&mut [0; 4096]);
            stream.write_all(b"HTTP/1.1 204 Fine\r\nconnection: close\r\n\r\n").expect("somebody waits");
        }
    }
    for _ in 0..CALLS {
        let result = answered.recv_timeout(CEILING).expect("every request is answered");
        assert!(!result.is_error, "{:?}", result.error);
    }
    most == ROOM
}

/// Never resolves a name.
#[derive(Default)]
struct Endless {
    under_way: Arc<AtomicUsize>,
}

impl Resolver for Endless {
    fn resolve(&self, _: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        self.under_way.fetch_add(1, Ordering::AcqRel);
        Box::pin(std::future::pending())
    }
}

/// D05: unanswered lookups occupy only a few threads, whichever API starts them.
pub(crate) fn look_ups_of_one_leave_threads_for_others() -> bool {
    let resolver = Endless::default();
    let under_way = Arc::clone(&resolver.under_way);
    let host = Host::new(&["*".to_owned()], Arc::new(resolver));
    let (answers, _answered) = mpsc::channel();
    for number in 0..CALLS {
        let name = format!("n{number}.example");
        let (method, params) = match number % 3 {
            0 => ("http", json!({ "op": "lookup", "url": format!("http://{name}/") })),
            1 => ("net", json!({ "op": "connect", "host": name, "port": 443, "socket": name })),
            _ => ("websocket", json!({ "op": "open", "url": format!("ws://{name}/"), "socket": name })),
        };
        host.call(number, method, params, &answers);
    }
    // The permitted number of lookups starts eventually; a further wait shows that no more start.
    for _ in 0..CEILING.as_millis() / 10 {
        if under_way.load(Ordering::Acquire) >= LOOK_UPS {
            std::thread::sleep(QUIET);
            return under_way.load(Ordering::Acquire) == LOOK_UPS;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{} look-ups are under way", under_way.load(Ordering::Acquire));
}

/// Resolves every name to one public address, and records the caller.
#[derive(Clone, Copy)]
struct Public {
    is_own: bool,
    is_neighbour: bool,
}

impl Resolver for Public {
    fn resolve(&self, _: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        Box::pin(std::future::ready(Ok(vec![IpAddr::from([93, 184, 216, 34])])))
    }

    fn is_own(&self, _: IpAddr) -> bool {
        self.is_own
    }

    fn is_neighbour(&self, _: IpAddr) -> bool {
        self.is_neighbour
    }
}

/// H12: the number of different names that a wildcard grant lets an extension look up is limited.
pub(crate) fn names_of_one_are_counted() -> bool {
    let host = Host::new(&["*".to_owned()], Arc::new(Public { is_own: false, is_neighbour: false }));
    let (answers, answered) = mpsc::channel();
    for number in 0..=LOOKUPS {
        let url = format!("http://n{number}.example/");
        host.call(number, "http", json!({ "op": "lookup", "url": url }), &answers);
    }
    let results = (0..=LOOKUPS).map(|_| answered.recv_timeout(CEILING).expect("every call is answered"));
    let refused: Vec<HostResult> = results.filter(|result| result.is_error).collect();
    refused.len() == 1 && refused[0].error.as_ref().is_some_and(|error| error.details["quota"] == "lookups")
}

/// H02: a server that listens on all addresses of this machine is not reachable by its public address.
pub(crate) fn own_public_addresses_are_not_elsewhere() -> bool {
    are_not_elsewhere(Public { is_own: true, is_neighbour: false })
}

/// H02: another machine in this machine's networks is not reachable either.
pub(crate) fn neighbours_are_not_elsewhere() -> bool {
    are_not_elsewhere(Public { is_own: false, is_neighbour: true })
}

fn are_not_elsewhere(public: Public) -> bool {
    let host = Host::new(&["*".to_owned()], Arc::new(public));
    let (answers, answered) = mpsc::channel();
    // The first way, a lookup, never connects.
    let ways = [
        ("http", json!({ "op": "lookup", "url": "http://own.example/" })),
        ("http", json!({ "url": "http://own.example/" })),
        ("http", json!({ "url": "http://93.184.216.34/" })),
        ("net", json!({ "op": "connect", "host": "own.example", "port": 80, "socket": "s" })),
        ("net", json!({ "op": "connect", "host": "93.184.216.34", "port": 80, "socket": "t" })),
        ("websocket", json!({ "op": "open", "url": "ws://own.example/", "socket": "u" })),
    ];
    ways.into_iter().enumerate().all(|(number, (method, params))| {
        host.call(number, method, params, &answers);
        let refused = answered.recv_timeout(CEILING).expect("an answer").error;
        refused.is_some_and(|error| error.details["reason"] == "blocked_address")
    })
}

/// H08: responses with the most memory-intensive encoding are decoded only as far as memory permits.
pub(crate) fn decoders_of_one_are_limited() -> bool {
    /// Number of bodies decoded concurrently: 16 MB each for the window and 4 for other data, of 256 in total.
    const DECODED: usize = 12;
    /// The largest window, then five literal bytes, and no end (RFC 7932, 9).
    const BEGUN: &[u8] = b"\x0f\x02\x80hello";
    let (listener, port) = listener();
    let host = Host::new(&[format!("127.0.0.1:{port}")], Arc::new(SystemResolver));
    let (answers, answered) = mpsc::channel();
    let mut standing = Vec::new();
    for number in 0..CALLS {
        let url = format!("http://127.0.0.1:{port}/");
        host.call(number, "http", json!({ "url": url, "stream": true, "decode": true }), &answers);
        let mut stream = listener.accept().expect("a connection").0;
        let _ = stream.read(&mut [0; 4096]);
        stream
            .write_all(b"HTTP/1.1 200 Fine\r\ncontent-encoding: br\r\nconnection: close\r\n\r\n")
            .expect("it is read");
        stream.write_all(BEGUN).expect("it is read");
        standing.push(stream);
    }
    let mut decoded = 0;
    while let Ok(result) = answered.recv_timeout(patience(decoded, DECODED)) {
        assert!(!result.is_error, "{:?}", result.error);
        decoded += usize::from(result.bytes.iter().any(|bytes| bytes == b"hello"));
    }
    // Each finished body frees its memory.
    let is_limited = decoded == DECODED;
    drop(standing);
    while decoded < CALLS {
        let result = answered.recv_timeout(CEILING).expect("every response is decoded");
        decoded += usize::from(result.bytes.iter().any(|bytes| bytes == b"hello"));
    }
    is_limited
}

/// H08: the host stops reading from a server that sends pings without reading the answers.
pub(crate) fn pings_are_answered_one_by_one() -> bool {
    /// Number of bytes that far exceeds the system's buffers of a connection, in both directions.
    const TOO_MUCH: usize = 256 << 20;
    let (listener, port) = listener();
    let host = Host::new(&[format!("127.0.0.1:{port}")], Arc::new(SystemResolver));
    let (answers, answered) = mpsc::channel();
    let url = format!("ws://127.0.0.1:{port}/");
    host.call(0, "websocket", json!({ "op": "open", "url": url, "socket": "s" }), &answers);
    let stream = listener.accept().expect("a connection").0;
    let socket = accept(stream.try_clone().expect("a second name")).expect("a handshake");
    assert!(!answered.recv_timeout(CEILING).expect("it is open").is_error);
    let mut pings = Vec::new();
    for _ in 0..4096 {
        pings.extend_from_slice(&[0x89, 125]);
        pings.extend_from_slice(&[b'p'; 125]);
    }
    let mut stream = stream;
    stream.set_write_timeout(Some(3 * QUIET)).expect("a socket");
    let mut written = 0;
    while written < TOO_MUCH {
        match stream.write(&pings[written % pings.len()..]) {
            Ok(more) => written += more,
            // The other side has stopped reading.
            Err(_) => break,
        }
    }
    drop(socket);
    written < TOO_MUCH
}

/// H08: messages that never end do not fill the host's memory.
pub(crate) fn unfinished_messages_are_limited() -> bool {
    const CONNECTIONS: usize = 7;
    const HALF: usize = 24 << 20;
    let (listener, port) = listener();
    let host = Host::new(&[format!("127.0.0.1:{port}")], Arc::new(SystemResolver));
    let (answers, answered) = mpsc::channel();
    let mut sockets = Vec::new();
    for number in 0..CONNECTIONS {
        let (url, socket) = (format!("ws://127.0.0.1:{port}/"), format!("s{number}"));
        host.call(number, "websocket", json!({ "op": "open", "url": url, "socket": socket }), &answers);
        sockets.push(accept(listener.accept().expect("a connection").0).expect("a handshake"));
        assert!(!answered.recv_timeout(CEILING).expect("it is open").is_error);
    }
    // The first frame of a binary message, whose last frame is sent when all other messages have begun.
    let mut half = vec![0x02, 127];
    half.extend_from_slice(&(HALF as u64).to_be_bytes());
    half.resize(half.len() + HALF, b'x');
    let begun = sockets.iter_mut().map(|socket| socket.get_mut().write_all(&half).is_ok());
    let begun = begun.collect::<Vec<_>>();
    for socket in &mut sockets {
        // The client has been notified of the close.
        let _ = socket.get_mut().write_all(&[0x80, 0]);
    }
    let (mut whole, mut refused) = (0, 0);
    while whole + refused < CONNECTIONS {
        let result = answered.recv_timeout(CEILING).expect("every message arrives or is refused");
        match &result.error {
            Some(error) => {
                assert_eq!(error.details.get("reason"), Some(&json!("too_large")), "{error:?}");
                refused += 1;
            }
            None => whole += 1,
        }
    }
    assert!(whole >= 4 && begun.contains(&true), "that much may be under way");
    refused > 0
}
