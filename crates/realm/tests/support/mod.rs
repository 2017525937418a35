//! A runtime that echoes its input, and helpers for the tests of both kinds of realm.

use pijs_artifact::{Artifact, Module, Verified};
use pijs_engine::{ModuleSource, compile, engine_build};
use pijs_protocol::artifact::ArtifactMetadata;
use pijs_protocol::message::BusEvent;
use pijs_protocol::wire::{Limits, RealmOptions, Task};
use pijs_protocol::{
    Delivery, ExtensionId, HostCall, HostResult, HostcallError, Message, Now, Seq, StreamDelta, StreamSource, SyncReply,
};
use pijs_realm::{Progress, SyncHost};
use serde_json::{Map, Value};
use std::sync::Arc;

pub(crate) struct NoHost;

impl SyncHost for NoHost {
    fn call(&mut self, call: HostCall) -> SyncReply {
        assert_eq!(call.capability.as_str(), "eval", "this runtime makes no other synchronous call: {call:?}");
        let refused = HostcallError::denied("grant", "nobody granted it");
        SyncReply { result: HostResult::failed(call.call_id, refused), now: Now::default(), state: None }
    }
}

pub(crate) fn host_modules() -> Arc<Verified> {
    let sources = [
        ModuleSource { specifier: "pi:builtins", source: include_str!("../fixtures/builtins.js") },
        ModuleSource { specifier: "pi:runtime", source: include_str!("../fixtures/runtime.js") },
    ];
    let bytecode = compile(&sources).expect("the fixtures parse");
    let module = |(source, bytecode): (&ModuleSource<'_>, Vec<u8>)| Module {
        specifier: source.specifier.to_owned(),
        source: String::new(),
        source_map: None,
        bytecode: Some(bytecode.into()),
    };
    let modules = sources.iter().zip(bytecode).map(module).collect();
    let metadata = ArtifactMetadata::new("host", "0.0.0", engine_build());
    Arc::new(Verified::compiled_here(Artifact { metadata, modules }))
}

pub(crate) fn delivery(seq: u64, channel: &str) -> Delivery {
    deliver(seq, channel, Value::Null)
}

pub(crate) fn deliver(seq: u64, channel: &str, data: Value) -> Delivery {
    let message = Message::BusEvent(BusEvent { channel: channel.to_owned(), data });
    Delivery { seq: Seq(seq), now: Now::default(), task: Task::Message(Box::new(message)), state: None }
}

pub(crate) fn channels(progress: &Progress) -> Vec<&str> {
    let Progress::Yielded(done) = progress else { panic!("{progress:?}") };
    let emitted = done.messages.iter().map(|message| match message {
        Message::BusEmit(event) => event.channel.as_str(),
        other => panic!("{other:?}"),
    });
    emitted.collect()
}

pub(crate) fn delta(chunk: &str) -> StreamDelta {
    StreamDelta {
        attempt: 1,
        source: StreamSource::Text,
        stream: 0,
        chunk: chunk.to_owned(),
        tool_name: None,
        file_paths: Vec::new(),
    }
}

/// Options with enough fuel for everything except an endless loop.
pub(crate) fn options() -> RealmOptions {
    RealmOptions {
        extension: ExtensionId::from("path:/guest"),
        limits: Limits { fuel: 2_000, ..Limits::default() },
        seed: 1,
        clock_step_us: 0,
        time_zone: "UTC".to_owned(),
        facts: Map::new(),
    }
}
