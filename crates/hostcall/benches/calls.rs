//! Benchmarks gated and recorded calls: a read, whose ledger lines are buffered, and a command, whose first line is written
//! before it starts. Each runs with the ledger's lines made in the turn and on a thread of their own.

#[path = "../tests/null_connector/mod.rs"]
mod null_connector;

use criterion::{Criterion, criterion_group, criterion_main};
use null_connector::NullConnector;
use pijs_durable::Disk;
use pijs_environment::simulated::CountingTimer;
use pijs_hostcall::ledger::FileSink;
use pijs_hostcall::{Caller, Connector, Dispatcher, Gate, Grant, Ledger, LedgerOptions, Mode, Places, Policy, Profile};
use pijs_protocol::{Capability, HostCall};
use serde_json::{Value, json};
use std::sync::Arc;

fn dispatcher(folder: &std::path::Path, caller: &Caller, aside: bool) -> Dispatcher {
    let places = Places::new("/projects/app", "/home/me", "/home/me/.pi/agent", "/tmp");
    let gate = Gate::builder(Policy { mode: Mode::Strict, ..Policy::default() }, places).build();
    let grants = [Grant::any("g", "exec"), Grant::any("h", "read")];
    gate.set_grants(&caller.profile, &grants, Default::default()).expect("well-formed");
    let sink = Arc::new(FileSink::new(Disk::system(), folder.join(format!("{aside}.jsonl"))));
    let options = LedgerOptions { session_id: "s1".into(), hash_key: Some([1; 32]), ..LedgerOptions::default() };
    let ledger = Ledger::new(options, sink);
    if aside {
        let writer = ledger.writer();
        std::thread::spawn(move || writer.run());
    }
    let nothing: Arc<dyn Connector> = Arc::new(NullConnector);
    let connectors = ["fs", "exec"].map(|name| (name.to_owned(), Arc::clone(&nothing)));
    Dispatcher::builder(gate, ledger, Arc::new(CountingTimer::new(1_700_000_000_000, 1))).connectors(connectors).build()
}

fn calls(c: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder");
    let caller = Caller::new(Arc::new(Profile::new("path:/x")));
    let call = |capability: &str, method: &str, params: Value| HostCall {
        call_id: "host-1".into(),
        capability: Capability::new(capability),
        method: method.into(),
        params: params.as_object().expect("an object").clone(),
        timeout_ms: None,
        cancel_token: None,
        context: None,
        bytes: Vec::new(),
    };
    let read = call("read", "fs", json!({"op": "readFile", "path": "/projects/app/src/main.rs"}));
    let run = call("exec", "exec", json!({"command": "true", "args": []}));
    for aside in [false, true] {
        let dispatcher = dispatcher(folder.path(), &caller, aside);
        let place = if aside { "lines aside" } else { "lines in the turn" };
        for (name, call) in [("read", &read), ("exec", &run)] {
            let first = dispatcher.call_sync(&caller, call.clone());
            assert!(!first.is_error, "{:?}", first.error);
            c.bench_function(&format!("{name}, {place}"), |b| {
                b.iter(|| dispatcher.call_sync(&caller, call.clone()));
            });
        }
    }
}

criterion_group!(benches, calls);
criterion_main!(benches);
