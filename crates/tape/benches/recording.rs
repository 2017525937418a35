//! Measures the cost of recording: a macrotask with one synchronous hostcall, and a streamed delta that passes, with and without
//! a recorder around the realm. The written tape is discarded.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use pijs_protocol::artifact::EngineBuild;
use pijs_protocol::wire::{Limits, RealmOptions, Task};
use pijs_protocol::{
    CallId, Capability, Delivery, HostCall, HostResult, Message, Now, Seq, StreamDelta, StreamSource, SyncReply,
    Termination, TimerId, Yield,
};
use pijs_realm::{Patience, Progress, Realm, SyncHost};
use pijs_redact::Redactor;
use pijs_tape::{RecordedRealm, Recorder, TapeHeader};
use serde_json::json;
use std::hint::black_box;

/// Number of turns of one measurement.
const TURNS: u64 = 400;

/// A realm that makes one call per turn and computes nothing.
struct Calls;

impl Realm for Calls {
    fn start(&mut self, delivery: Delivery, host: &mut dyn SyncHost) -> Progress {
        let call = HostCall {
            call_id: CallId::new(format!("host-{}", delivery.seq.0)),
            capability: Capability::new("read"),
            method: "fs".into(),
            params: [("op".to_owned(), json!("stat")), ("path".to_owned(), json!("/project/src/index.ts"))]
                .into_iter()
                .collect(),
            timeout_ms: None,
            cancel_token: None,
            context: None,
            bytes: Vec::new(),
        };
        black_box(host.call(call));
        Progress::Yielded(Yield::default())
    }

    fn resume(&mut self, _: &mut dyn SyncHost, _: Patience) -> Progress {
        Progress::Yielded(Yield::default())
    }

    fn stream(&mut self, _: Seq, _: Now, _: &StreamDelta, _: &mut dyn SyncHost) -> Result<Yield, Termination> {
        Ok(Yield::default())
    }

    fn interrupt(&self) {}
}

struct Answers;

impl SyncHost for Answers {
    fn call(&mut self, call: HostCall) -> SyncReply {
        let output = json!({ "size": 1024, "is_file": true, "modified_ms": 1_764_230_400_000_u64 });
        SyncReply { result: HostResult::ok(call.call_id, output), now: Now::default(), state: None }
    }
}

fn recorded() -> (Recorder, RecordedRealm) {
    let engine = EngineBuild { name: "q".into(), version: "1".into(), bytecode: 1, target: "x".into() };
    let header = TapeHeader::new("0.1.0", engine, "sha256:00".to_owned());
    let substitutes = Redactor::new(["a-secret-of-this-session".to_owned()]).substitutes();
    let recorder = Recorder::new(std::io::sink(), &header, substitutes, Box::new(|_| ())).expect("a sink takes it");
    let options = RealmOptions {
        extension: "npm:a".into(),
        limits: Limits::default(),
        seed: 1,
        clock_step_us: 1,
        time_zone: "UTC".to_owned(),
        facts: serde_json::Map::new(),
    };
    let mut wire = recorder.begin(&options, &[], Now::default());
    wire.opened(Ok(&Yield::default()));
    (recorder, RecordedRealm::new(Box::new(Calls), wire))
}

fn turn(realm: &mut dyn Realm, seq: u64) {
    let task = Task::Message(Box::new(Message::TimerFired { timer: TimerId(1) }));
    black_box(realm.start(Delivery { seq: Seq(seq), now: Now::default(), task, state: None }, &mut Answers));
}

fn delta(realm: &mut dyn Realm, seq: u64, delta: &StreamDelta) {
    let _ = black_box(realm.stream(Seq(seq), Now::default(), delta, &mut Answers));
}

fn recording(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("recording");
    let said = StreamDelta {
        attempt: 1,
        source: StreamSource::Text,
        stream: 0,
        chunk: " tokens".to_owned(),
        tool_name: None,
        file_paths: Vec::new(),
    };
    // As many turns as can wait for the writing thread, so that only the session's own time is measured.
    let mut without = Calls;
    group.throughput(Throughput::Elements(TURNS));
    group.bench_function("turns with a hostcall, not recorded", |bench| {
        bench.iter(|| (0..TURNS).for_each(|seq| turn(&mut without, seq)));
    });
    group.bench_function("turns with a hostcall, recorded", |bench| {
        let turns = |(recorder, mut realm): (Recorder, RecordedRealm)| {
            (0..TURNS).for_each(|seq| turn(&mut realm, seq));
            (recorder, realm)
        };
        bench.iter_batched(recorded, turns, BatchSize::PerIteration);
    });
    group.bench_function("deltas, recorded", |bench| {
        let deltas = |(recorder, mut realm): (Recorder, RecordedRealm)| {
            (0..TURNS).for_each(|seq| delta(&mut realm, seq, &said));
            (recorder, realm)
        };
        bench.iter_batched(recorded, deltas, BatchSize::PerIteration);
    });
    group.bench_function("turns with a hostcall, recorded and written", |bench| {
        let turns = |(recorder, mut realm): (Recorder, RecordedRealm)| {
            (0..TURNS).for_each(|seq| turn(&mut realm, seq));
            recorder.finish();
            realm
        };
        bench.iter_batched(recorded, turns, BatchSize::PerIteration);
    });
    group.finish();
}

criterion_group!(benches, recording);
criterion_main!(benches);
