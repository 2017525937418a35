//! A realm with a guest in it, and a host that answers its calls.

use pijs_artifact::{Artifact, Module, Verified};
use pijs_engine::{EngineRealm, ModuleSource, SyncHost, compile, engine_build};
use pijs_protocol::artifact::ArtifactMetadata;
use pijs_protocol::message::{Callback, Load};
use pijs_protocol::wire::{EntriesDelta, Limits, RealmOptions, StateDelta, Task};
use pijs_protocol::{
    Delivery, EntryIndex, ExtensionId, Handle, HostCall, HostResult, Message, Now, Seq, StreamDelta, StreamSource,
    SyncReply, Termination, Yield,
};
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) const NOW: Now = Now { epoch_ms: 1_700_000_000_000, elapsed_us: 5_000_000 };

/// Source files of a test artifact: specifier and text.
pub(crate) type Sources<'a> = &'a [(&'a str, &'a str)];

pub(crate) const HOST_MODULES: Sources<'static> = &[
    ("pi:runtime", include_str!("../fixtures/runtime.js")),
    ("test:bridge", include_str!("../fixtures/bridge.js")),
    ("node:path", include_str!("../fixtures/path.js")),
    ("test:tla", "await new Promise(() => {});"),
    ("test:throws", "throw new Error('not today');"),
];

/// Compiles sources into an artifact that may be loaded.
pub(crate) fn artifact(sources: Sources<'_>) -> Arc<Verified> {
    let modules: Vec<_> = sources.iter().map(|(specifier, source)| ModuleSource { specifier, source }).collect();
    let bytecode = compile(&modules).expect("fixtures parse").into_iter().map(Some);
    verified(sources.iter().zip(bytecode).map(|((specifier, _), bytecode)| ((*specifier).to_owned(), bytecode)))
}

/// Returns a verified artifact with this bytecode.
pub(crate) fn verified(modules: impl IntoIterator<Item = (String, Option<Vec<u8>>)>) -> Arc<Verified> {
    let modules = modules
        .into_iter()
        .map(|(specifier, bytecode)| Module {
            specifier,
            source: String::new(),
            source_map: None,
            bytecode: bytecode.map(Into::into),
        })
        .collect();
    Arc::new(Verified::compiled_here(Artifact { metadata: metadata(), modules }))
}

fn metadata() -> ArtifactMetadata {
    ArtifactMetadata::new("guest", "0.0.0", engine_build())
}

pub(crate) fn options(limits: Limits) -> RealmOptions {
    RealmOptions {
        extension: ExtensionId::from("path:/guest"),
        limits,
        seed: 42,
        clock_step_us: 1000,
        time_zone: "UTC".to_owned(),
        facts: json!({"cwd": "/project", "env": {"HOME": "/home/guest"}}).as_object().expect("an object").clone(),
    }
}

/// Replies to calls according to their `op`, and records them.
#[derive(Default)]
pub(crate) struct Answers {
    pub(crate) calls: Vec<HostCall>,
    /// Whether the host allows text to be compiled.
    pub(crate) compiles: bool,
}

impl SyncHost for Answers {
    fn call(&mut self, call: HostCall) -> SyncReply {
        let mut reply = SyncReply { result: HostResult::ok(call.call_id.clone(), Value::Null), now: NOW, state: None };
        match call.params.get("op").and_then(Value::as_str) {
            Some("panic") => panic!("the host broke a promise"),
            Some("echo") => {
                reply.result.output = Value::Object(call.params.clone());
                reply.result.bytes.clone_from(&call.bytes);
            }
            Some("wait") => reply.now = Now { epoch_ms: NOW.epoch_ms + 2000, elapsed_us: NOW.elapsed_us + 2_000_000 },
            Some("append") => {
                let entries = EntriesDelta { keep: 1, append: vec![json!({"id": "new"}).into()] };
                reply.state = Some(StateDelta { version: 9, entries: Some(entries), ..StateDelta::default() });
            }
            Some("compile") if !self.compiles => {
                let error = pijs_protocol::HostcallError::denied("no_grant", "compiling is not granted");
                reply.result = HostResult::failed(call.call_id.clone(), error);
            }
            Some("deny") => {
                let error = pijs_protocol::HostcallError::denied("no_grant", "reading /etc/shadow is not granted");
                reply.result = HostResult::failed(call.call_id.clone(), error);
            }
            _ => reply.result.output = json!({"answered": true}),
        }
        self.calls.push(call);
        reply
    }
}

/// A started realm with one guest.
pub(crate) struct Guest {
    pub(crate) realm: EngineRealm,
    pub(crate) host: Answers,
    seq: u64,
}

impl Guest {
    /// Starts a guest with the default limits.
    pub(crate) fn new(sources: Sources<'_>) -> Self {
        Self::with(sources, Limits::default())
    }

    /// Starts a guest; the first source is the entry.
    pub(crate) fn with(sources: Sources<'_>, limits: Limits) -> Self {
        Self::of(artifact(sources), sources[0].0, limits)
    }

    pub(crate) fn of(modules: Arc<Verified>, entry: &str, limits: Limits) -> Self {
        let mut realm = EngineRealm::new(&options(limits)).expect("a realm");
        realm.add_modules(artifact(HOST_MODULES));
        realm.add_modules(modules);
        let mut host = Answers::default();
        realm.start(NOW, &mut host).expect("the fixture runtime starts");
        let mut guest = Self { realm, host, seq: 0 };
        let load = Load {
            entry: EntryIndex(0),
            module: entry.to_owned(),
            path: entry.to_owned(),
            extension: ExtensionId::new("guest"),
            root: None,
        };
        let loaded = guest.deliver(Message::Load(load)).expect("the guest loads");
        match loaded.messages.as_slice() {
            [Message::Register(register)] if register.ready => guest,
            other => panic!("the guest did not load: {other:?}"),
        }
    }

    pub(crate) fn deliver(&mut self, message: Message) -> Result<Yield, Termination> {
        self.deliver_with(message, None)
    }

    pub(crate) fn deliver_with(&mut self, message: Message, state: Option<StateDelta>) -> Result<Yield, Termination> {
        self.seq += 1;
        let delivery = Delivery { seq: Seq(self.seq), now: NOW, task: Task::Message(Box::new(message)), state };
        self.realm.turn(delivery, &mut self.host)
    }

    /// Calls an export.
    pub(crate) fn turn(&mut self, export: &str, args: &[Value]) -> Result<Yield, Termination> {
        self.deliver(call(export, args))
    }

    /// Calls an export that must answer within the turn, and returns its result.
    pub(crate) fn ask(&mut self, export: &str, args: &[Value]) -> Value {
        let done = self.turn(export, args).expect("the realm is still running");
        answer_of(export, &done.messages)
    }

    pub(crate) fn stream(&mut self, delta: &StreamDelta) -> Result<Yield, Termination> {
        self.seq += 1;
        self.realm.stream(Seq(self.seq), NOW, delta, &mut self.host)
    }
}

pub(crate) fn call(export: &str, args: &[Value]) -> Message {
    Message::Callback(Callback {
        callback_id: export.to_owned(),
        entry: EntryIndex(0),
        handle: Handle(0),
        args: args.to_vec(),
    })
}

/// Returns the value in the `callback_result` of a call.
pub(crate) fn answer_of(export: &str, messages: &[Message]) -> Value {
    let answer = messages.iter().find_map(|message| match message {
        Message::CallbackResult(result) if result.callback_id == export => Some(result),
        _ => None,
    });
    let answer = answer.unwrap_or_else(|| panic!("{export} did not answer: {messages:?}"));
    assert_eq!(answer.error, None, "{export} threw");
    answer.value.clone().unwrap_or_default()
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
