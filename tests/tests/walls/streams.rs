//! Scenarios about endless senders: output that a server or program sends in the smallest pieces waits outside of the host.

use pijs_connectors::Connectors;
use pijs_connectors::exec::ExecOptions;
use pijs_connectors::http::HttpOptions;
use pijs_connectors::http::address::SystemResolver;
use pijs_environment::simulated::StandingTimer;
use pijs_hostcall::{
    Caller, Dispatcher, Gate, Grant, Ledger, LedgerOptions, MemorySink, Mode, Places, Policy, Profile, ResultPermit,
};
use pijs_protocol::manifest::Scope;
use pijs_protocol::{Capability, HostCall, HostResult};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Payload limit in bytes at which a stream waits.
const ENOUGH: usize = 32 << 10;
const TOO_MUCH: usize = 96 << 20;
/// Number of pieces that far exceeds those that a stream sends before it waits, however small they are.
const TOO_MANY: usize = 1024;
/// Minimum accounted size of a piece in bytes, including the host's overhead.
const PIECE: usize = 512;

/// D05: the host does not buffer streams for an extension that takes nothing.
pub(crate) fn streams_wait_for_who_takes_them() -> bool {
    // `asked` answers after a request; `unasked` sends at once, since its client only connects.
    let [asked, unasked] = [true, false].map(server);
    let url = format!("http://127.0.0.1:{asked}/");
    let streams = [
        (asked, "http", "http", json!({ "url": url, "stream": true })),
        (unasked, "http", "net", json!({ "op": "connect", "host": "127.0.0.1", "port": unasked, "socket": "s" })),
        (asked, "exec", "exec", json!({ "command": "yes", "args": [], "stream": true })),
    ];
    streams.into_iter().all(|(port, capability, method, params)| waits(port, capability, method, params))
}

/// Returns the port of a server that sends endlessly to each connection.
fn server(is_asked: bool) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("it has one").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || flood(stream, is_asked));
        }
    });
    port
}

/// Sends bodies in pieces of one byte, also to a client that only connects.
fn flood(mut stream: std::net::TcpStream, is_asked: bool) {
    if is_asked {
        let _ = stream.read(&mut [0; 4096]);
    }
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    let pieces = b"1\r\na\r\n".repeat(4096);
    while stream.write_all(&pieces).is_ok() {}
}

fn waits(port: u16, capability: &str, method: &str, params: Value) -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let places = Places::new(folder.path(), "/home/me", "/home/me/.pi/agent", "/tmp/none");
    let gate = Gate::builder(Policy { mode: Mode::Strict, ..Policy::default() }, places).build();
    let profile = Arc::new(Profile::new("path:/x"));
    let hosts = Scope { hosts: Some(vec![format!("127.0.0.1:{port}")]), ..Scope::default() };
    let grants = [Grant::scoped("h", "http", hosts), Grant::any("e", "exec")];
    gate.set_grants(&profile, &grants, Default::default()).expect("grants");
    let ledger = Ledger::new(LedgerOptions::default(), MemorySink::new());
    let env = BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]);
    let connectors = Connectors::new()
        .http(HttpOptions::default())
        .net(Arc::new(SystemResolver), Arc::new(|_| Vec::new()))
        .exec(ExecOptions::new(env));
    let dispatcher = Dispatcher::builder(gate, ledger, Arc::new(StandingTimer::default()))
        .connectors(connectors.into_methods())
        .build();
    let caller = Caller::new(profile);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let (answers, answered) = mpsc::channel::<(usize, ResultPermit)>();
    let Value::Object(params) = params else { unreachable!("an object") };
    let call = HostCall {
        capability: Capability::new(capability),
        method: method.into(),
        params,
        ..super::super::call(0, "")
    };
    let take = move |result: HostResult, held| {
        assert!(!result.is_error, "{:?}", result.error);
        let size = PIECE + result.bytes.iter().map(Vec::len).sum::<usize>();
        // The test may have dropped the receiver.
        let _ = answers.send((size, held));
    };
    let _entered = runtime.enter();
    runtime.spawn(dispatcher.call(&caller, call, take.clone()).rest(take));
    let (mut size, mut untaken) = (0, Vec::new());
    while size <= TOO_MUCH && untaken.len() <= TOO_MANY {
        // A stream that waits sends nothing.
        match answered.recv_timeout(Duration::from_secs(if size < ENOUGH { 120 } else { 10 })) {
            Ok((piece, held)) => {
                size += piece;
                untaken.push(held);
            }
            Err(_) => break,
        }
    }
    assert!(size >= ENOUGH, "{method}: that much may wait");
    let waited = size <= TOO_MUCH && untaken.len() <= TOO_MANY;
    // The stream continues once results are taken.
    drop(untaken);
    assert!(answered.recv_timeout(Duration::from_secs(120)).is_ok(), "{method}: nothing is lost");
    waited
}
