//! A realm in this thread, through the trait that a process will implement too.

use pijs_artifact::{Artifact, Module, Verified};
use pijs_engine::{ModuleSource, compile, engine_build};
use pijs_protocol::artifact::{ARTIFACT_SCHEMA, ArtifactMetadata, Verdict};
use pijs_protocol::manifest::{CAPABILITY_SCHEMA, CapabilityManifest};
use pijs_protocol::message::BusEvent;
use pijs_protocol::wire::{Limits, RealmOptions, StreamAnswer, Task};
use pijs_protocol::{
    Delivery, ExtensionId, HostCall, Message, Now, Seq, StreamDelta, StreamSource, SyncReply, Termination,
};
use pijs_realm::{Patience, Progress, Realm, SyncHost, ThreadRealm};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

struct NoHost;

impl SyncHost for NoHost {
    fn call(&mut self, call: HostCall) -> SyncReply {
        panic!("this runtime makes no synchronous call: {call:?}")
    }
}

fn host_modules() -> Arc<Verified> {
    let source = ModuleSource { specifier: "pi:runtime", source: include_str!("fixtures/runtime.js") };
    let bytecode = compile(&[source]).expect("the fixture parses").pop();
    let module = Module { specifier: "pi:runtime".to_owned(), source: String::new(), source_map: None, bytecode };
    let metadata = ArtifactMetadata {
        schema: ARTIFACT_SCHEMA.to_owned(),
        name: "host".to_owned(),
        version: "0.0.0".to_owned(),
        engine: engine_build(),
        artifact: String::new(),
        cache_key: String::new(),
        entries: Vec::new(),
        inputs: BTreeMap::new(),
        capabilities: CapabilityManifest { schema: CAPABILITY_SCHEMA.to_owned(), capabilities: Vec::new() },
        host_imports: BTreeMap::new(),
        verdict: Verdict::Compatible,
        findings: Vec::new(),
    };
    Arc::new(Verified::compiled_here(Artifact { metadata, modules: vec![module] }))
}

fn open(modules: Vec<Arc<Verified>>) -> ThreadRealm {
    let options = RealmOptions {
        extension: ExtensionId::from("path:/guest"),
        limits: Limits { fuel: 100, ..Limits::default() },
        seed: 1,
        clock_step_us: 0,
        time_zone: "UTC".to_owned(),
        facts: Map::new(),
    };
    ThreadRealm::open(&options, modules).expect("a realm")
}

fn delivery(seq: u64, channel: &str) -> Delivery {
    let message = Message::BusEvent(BusEvent { channel: channel.to_owned(), data: Value::Null });
    Delivery { seq: Seq(seq), now: Now::default(), task: Task::Message(message), state: None }
}

fn channels(progress: &Progress) -> Vec<&str> {
    let Progress::Yielded(done) = progress else { panic!("{progress:?}") };
    let emitted = done.messages.iter().map(|message| match message {
        Message::BusEmit(event) => event.channel.as_str(),
        other => panic!("{other:?}"),
    });
    emitted.collect()
}

fn delta(chunk: &str) -> StreamDelta {
    StreamDelta {
        attempt: 1,
        source: StreamSource::Text,
        stream: 0,
        chunk: chunk.to_owned(),
        tool_name: None,
        file_paths: Vec::new(),
    }
}

#[test]
fn the_first_turn_also_evaluates_the_runtime() {
    let mut realm = open(vec![host_modules()]);
    assert_eq!(channels(&realm.start(delivery(1, "a"), &mut NoHost)), ["boot", "bus_event"]);
    let second = realm.start(delivery(2, "b"), &mut NoHost);
    assert_eq!(channels(&second), ["bus_event"]);
    let Progress::Yielded(done) = second else { panic!("yields") };
    let Message::BusEmit(event) = &done.messages[0] else { panic!("emits") };
    assert_eq!(event.data, json!({"channel": "b", "data": null}));
}

#[test]
fn a_delta_may_come_first() {
    let mut realm = open(vec![host_modules()]);
    let done = realm.stream(Seq(1), Now::default(), &delta("stop"), &mut NoHost).expect("it lives");
    assert!(matches!(done.stream, StreamAnswer::Abort(_)));
    assert_eq!(done.messages.len(), 1, "what the boot said");
}

#[test]
fn a_realm_that_ended_stays_ended() {
    let mut realm = open(vec![host_modules()]);
    let ended = Progress::Ended(Termination::Timeout { quota: "fuel".to_owned() });
    assert_eq!(realm.start(delivery(1, "spin"), &mut NoHost), ended);
    assert_eq!(realm.start(delivery(2, "a"), &mut NoHost), ended);
}

#[test]
fn a_missing_runtime_ends_the_realm_with_its_name() {
    match open(Vec::new()).start(delivery(1, "a"), &mut NoHost) {
        Progress::Ended(Termination::HostBug { detail }) => assert!(detail.contains("pi:runtime"), "{detail}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_thread_realm_has_nothing_to_resume() {
    let mut realm = open(vec![host_modules()]);
    let resumed = realm.resume(&mut NoHost, Patience::Poll);
    assert!(matches!(resumed, Progress::Ended(Termination::Protocol { .. })), "{resumed:?}");
}
