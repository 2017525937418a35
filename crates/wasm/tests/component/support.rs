//! A realm of a component in text, and a host that records the calls.

use pijs_artifact::{Artifact, COMPONENT_SCHEME, Module, Verified};
use pijs_protocol::artifact::{ArtifactMetadata, EngineBuild};
use pijs_protocol::message::{Load, SlashCommand, ToolCall};
use pijs_protocol::wire::{Limits, RealmOptions, Task};
use pijs_protocol::{
    Delivery, EntryIndex, Handle, HostCall, HostResult, HostcallError, Message, Now, Seq, StreamDelta, StreamSource,
    SyncReply, Termination, Yield,
};
use pijs_wasm::{ComponentRealm, Hostcalls, compile, text};
use serde_json::{Map, Value, json};
use std::collections::VecDeque;

/// A value with its attachments, or an error.
pub(crate) type Answer = Result<(Value, Vec<Vec<u8>>), HostcallError>;

/// Replies to calls in order. A call without a prepared reply is denied.
#[derive(Default)]
pub(crate) struct Host {
    pub(crate) calls: Vec<HostCall>,
    pub(crate) answers: VecDeque<Answer>,
}

impl Hostcalls for Host {
    fn call(&mut self, call: HostCall) -> SyncReply {
        let id = call.call_id.clone();
        self.calls.push(call);
        let denied = || Err(HostcallError::denied("no_grant", "not granted"));
        let result = match self.answers.pop_front().unwrap_or_else(denied) {
            Ok((output, bytes)) => HostResult::ok_with_bytes(id, output, bytes),
            Err(error) => HostResult::failed(id, error),
        };
        SyncReply { result, now: Now { epoch_ms: 5_000, elapsed_us: 7_000_000 }, state: None }
    }
}

pub(crate) fn options(limits: Limits) -> RealmOptions {
    RealmOptions {
        extension: "path:/guest".into(),
        limits,
        seed: 7,
        clock_step_us: 1,
        time_zone: "UTC".to_owned(),
        facts: Map::from_iter([("cwd".to_owned(), json!("/project"))]),
    }
}

/// Compiles bytes and creates a realm for the component.
pub(crate) fn realm_of(bytes: &[u8], limits: Limits) -> ComponentRealm {
    let compiled = compile(bytes).unwrap_or_else(|refusal| panic!("{refusal}"));
    let engine = EngineBuild { name: "test".into(), version: "0".into(), bytecode: 0, target: "test".into() };
    let module = Module {
        specifier: format!("{COMPONENT_SCHEME}0/guest.wasm"),
        source: String::new(),
        source_map: None,
        bytecode: Some(compiled.code.into()),
    };
    let artifact = Artifact { metadata: ArtifactMetadata::new("guest", "1.0.0", engine), modules: vec![module] };
    ComponentRealm::new(&options(limits), &Verified::compiled_here(artifact)).unwrap_or_else(|error| panic!("{error}"))
}

/// A realm of a component in text, with its host.
pub(crate) struct Guest {
    pub(crate) realm: ComponentRealm,
    pub(crate) host: Host,
    seq: u64,
}

impl Guest {
    pub(crate) fn new(imports: &str, items: &str) -> Self {
        Self::with(imports, items, Limits::default())
    }

    pub(crate) fn with(imports: &str, items: &str, limits: Limits) -> Self {
        Self::of(&text::core_module(&text::module(imports, items)), limits)
    }

    pub(crate) fn of(bytes: &[u8], limits: Limits) -> Self {
        Self { realm: realm_of(bytes, limits), host: Host::default(), seq: 0 }
    }

    /// Creates a realm and loads the component.
    pub(crate) fn loaded(imports: &str, items: &str) -> Self {
        let mut guest = Self::new(imports, items);
        guest.load().unwrap_or_else(|ended| panic!("{ended}"));
        guest
    }

    pub(crate) fn load(&mut self) -> Result<Yield, Termination> {
        self.deliver(Message::Load(Load {
            entry: EntryIndex(0),
            module: "wasm:/0/guest.wasm".to_owned(),
            path: "guest.wasm".to_owned(),
            extension: "path:/guest".into(),
            root: None,
        }))
    }

    pub(crate) fn deliver(&mut self, message: Message) -> Result<Yield, Termination> {
        self.seq += 1;
        let now = Now { epoch_ms: 1_000, elapsed_us: self.seq * 1_000 };
        let delivery = Delivery { seq: Seq(self.seq), now, task: Task::Message(Box::new(message)), state: None };
        self.realm.turn(delivery, &mut self.host)
    }

    pub(crate) fn delta(&mut self, chunk: &str) -> Result<Yield, Termination> {
        let delta = StreamDelta {
            attempt: 1,
            source: StreamSource::Text,
            stream: 0,
            chunk: chunk.to_owned(),
            tool_name: None,
            file_paths: Vec::new(),
        };
        self.seq += 1;
        self.realm.stream(Seq(self.seq), Now::default(), &delta, &mut self.host)
    }

    pub(crate) fn tool(&mut self) -> Result<Yield, Termination> {
        self.deliver(Message::ToolCall(ToolCall {
            tool_call_id: "call-1".to_owned(),
            entry: EntryIndex(0),
            handle: Handle(1),
            name: "demo".to_owned(),
            input: json!({ "x": 1 }),
            signal: None,
        }))
    }

    pub(crate) fn command(&mut self) -> Result<Yield, Termination> {
        self.deliver(Message::SlashCommand(SlashCommand {
            slash_command_id: "slash-1".to_owned(),
            entry: EntryIndex(0),
            handle: Handle(2),
            name: "demo".to_owned(),
            args: "a b".to_owned(),
        }))
    }
}
