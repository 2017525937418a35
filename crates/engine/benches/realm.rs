//! Benchmarks realm creation, a streamed delta without an abort, a synchronous hostcall and a message delivery.
//!
//! `cargo bench -p pijs-engine` runs them; the design's table of targets has the figures for comparison.

use criterion::{Criterion, criterion_group, criterion_main};
use pijs_artifact::{Artifact, Module, Verified};
use pijs_engine::{EngineRealm, ModuleSource, SyncHost, compile, engine_build};
use pijs_protocol::artifact::ArtifactMetadata;
use pijs_protocol::message::BusEvent;
use pijs_protocol::wire::{Limits, RealmOptions, Task};
use pijs_protocol::{
    Delivery, ExtensionId, HostCall, HostResult, Message, Now, Seq, StreamDelta, StreamSource, SyncReply,
};
use serde_json::{Map, Value, json};
use std::hint::black_box;
use std::sync::Arc;

/// Synchronous calls in one turn, enough to make the cost of the turn itself negligible.
const CALLS: u32 = 1000;

struct Answers;

impl SyncHost for Answers {
    fn call(&mut self, call: HostCall) -> SyncReply {
        SyncReply { result: HostResult::ok(call.call_id, Value::Null), now: Now::default(), state: None }
    }
}

fn modules() -> Arc<Verified> {
    let source = include_str!("runtime.js");
    let bytecode = compile(&[ModuleSource { specifier: "pi:runtime", source }]).expect("the fixture parses").pop();
    let module = Module {
        specifier: "pi:runtime".to_owned(),
        source: String::new(),
        source_map: None,
        bytecode: bytecode.map(Into::into),
    };
    let metadata = ArtifactMetadata::new("bench", "0.0.0", engine_build());
    Arc::new(Verified::compiled_here(Artifact { metadata, modules: vec![module] }))
}

fn started(modules: &Arc<Verified>) -> EngineRealm {
    let options = RealmOptions {
        extension: ExtensionId::from("path:/bench"),
        limits: Limits::default(),
        seed: 1,
        clock_step_us: 0,
        time_zone: "UTC".to_owned(),
        facts: Map::new(),
    };
    let mut realm = EngineRealm::new(&options).expect("a realm");
    realm.add_modules(Arc::clone(modules));
    realm.start(Now::default(), &mut Answers).expect("it starts");
    realm
}

fn message(channel: &str, data: Value) -> Delivery {
    let message = Message::BusEvent(BusEvent { channel: channel.to_owned(), data });
    Delivery { seq: Seq(1), now: Now::default(), task: Task::Message(Box::new(message)), state: None }
}

fn realm(criterion: &mut Criterion) {
    let modules = modules();
    criterion.bench_function("realm: create, start, drop", |bencher| bencher.iter(|| started(&modules)));

    let mut realm = started(&modules);
    let delta = StreamDelta {
        attempt: 1,
        source: StreamSource::Text,
        stream: 0,
        chunk: "8 bytes ".to_owned(),
        tool_name: None,
        file_paths: Vec::new(),
    };
    criterion.bench_function("stream: no-op handler, one delta (target p50 1 us)", |bencher| {
        bencher.iter(|| {
            realm.stream(Seq(1), Now::default(), black_box(&delta), &mut Answers).expect("the realm is running")
        });
    });
    criterion.bench_function("turn: an empty message", |bencher| {
        bencher.iter(|| realm.turn(message("nothing", Value::Null), &mut Answers).expect("the realm is running"));
    });
    criterion.bench_function("turn: 1,000 synchronous hostcalls, no gate (Node: 1.6 us each)", |bencher| {
        bencher.iter(|| realm.turn(message("calls", json!(CALLS)), &mut Answers).expect("the realm is running"));
    });
}

criterion_group!(benches, realm);
criterion_main!(benches);
