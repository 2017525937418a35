//! Tests that encoded values of the protocol's types conform to the schemas in `schema/`, and that wrong values do not.

use pijs_protocol::artifact::{ARTIFACT_SCHEMA, ArtifactMetadata, EngineBuild, Finding, Verdict};
use pijs_protocol::log::{Component, Correlation, LOG_SCHEMA, Level, LogEntry, Source};
use pijs_protocol::manifest::{CAPABILITY_SCHEMA, CapabilityManifest, CapabilityRequest, Scope};
use pijs_protocol::message::{BusEvent, ErrorReport, EventHook, EventResult, Load, SlashCommand, ToolCall, ToolResult};
use pijs_protocol::wire::{EntriesDelta, StateDelta, StreamAnswer, Task};
use pijs_protocol::{
    CallId, Capability, Chunk, Delivery, EntryIndex, Envelope, ErrorCode, EventId, ExtensionId, Handle, HostCall,
    HostResult, HostcallError, Message, Now, Seq, StreamDelta, StreamSource, SyncReply, TimerId, Usage, Yield,
};
use pijs_tape::TapeHeader;
use pijs_tests::validate;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

fn pass(schema: &str, value: &impl serde::Serialize) {
    let value = serde_json::to_value(value).expect("protocol values are JSON");
    validate(schema, &value).unwrap_or_else(|wrong| panic!("{wrong}\n{value:#}"));
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        other => panic!("{other} is no object"),
    }
}

fn log_entry() -> LogEntry {
    LogEntry {
        schema: LOG_SCHEMA.to_owned(),
        ts: "2026-02-03T03:01:02.123Z".to_owned(),
        level: Level::Info,
        event: "host_call.end".to_owned(),
        message: "read notes.md".to_owned(),
        correlation: Correlation {
            extension_id: "npm:pi-ttsr".to_owned(),
            scenario_id: "session:1".to_owned(),
            host_call_id: Some("host-1".to_owned()),
            ..Correlation::default()
        },
        source: Some(Source { component: Component::Runtime, host: None, pid: Some(42) }),
        data: object(json!({ "chain": { "prev": "sha256:00" }, "duration_ms": 1.5 })),
    }
}

fn error_report() -> ErrorReport {
    ErrorReport {
        entry: Some(EntryIndex(0)),
        phase: "tool".to_owned(),
        name: Some("TypeError".to_owned()),
        message: "x is undefined".to_owned(),
        stack: None,
        position: Some(pijs_protocol::message::Position { file: "index.ts".to_owned(), line: 3, column: 7 }),
    }
}

fn host_call(params: Value) -> HostCall {
    HostCall {
        call_id: CallId::from("host-1"),
        capability: Capability::new("read"),
        method: "fs".into(),
        params: object(params),
        timeout_ms: Some(1_000),
        cancel_token: None,
        context: None,
        bytes: vec![vec![1, 2, 3]],
    }
}

/// Returns one message of most kinds, in both directions.
fn messages(text: &str, number: f64, data: Value) -> Vec<Message> {
    vec![
        Message::Load(Load {
            entry: EntryIndex(0),
            module: "index.js".to_owned(),
            path: text.to_owned(),
            extension: ExtensionId::new("ext"),
            root: Some(text.to_owned()),
        }),
        Message::ToolCall(ToolCall {
            tool_call_id: "call_1".to_owned(),
            entry: EntryIndex(1),
            handle: Handle(2),
            name: text.to_owned(),
            input: data.clone(),
            signal: Some(1),
        }),
        Message::ToolResult(ToolResult {
            tool_call_id: "call_1".to_owned(),
            output: Value::Null,
            is_error: true,
            error: Some(error_report()),
        }),
        Message::SlashCommand(SlashCommand {
            slash_command_id: "slash-1".to_owned(),
            entry: EntryIndex(0),
            handle: Handle(0),
            name: "todo".to_owned(),
            args: text.to_owned(),
        }),
        Message::EventHook(EventHook {
            event_id: EventId::from("evt-1"),
            entry: EntryIndex(0),
            handle: Handle(3),
            event: "tool_call".to_owned(),
            payload: object(json!({ "input": data })),
            mutable: vec!["input".to_owned()],
        }),
        Message::EventResult(EventResult {
            event_id: EventId::from("evt-1"),
            value: Some(data.clone()),
            changed: Map::new(),
            error: None,
        }),
        Message::HostCall(host_call(json!({ "path": text, "data": { "$bytes": 0 } }))),
        Message::HostCallCancel { call_id: CallId::from("host-1") },
        Message::HostResult(HostResult {
            chunk: Some(Chunk { index: 0, is_last: false, backpressure: None }),
            ..HostResult::ok(CallId::from("host-1"), data.clone())
        }),
        Message::HostResult(HostResult::failed(
            CallId::from("host-2"),
            HostcallError::io("ENOENT", "open", text).retryable(),
        )),
        Message::SignalAborted { signal: 1 },
        Message::TimerSet { timer: TimerId(1), delay_ms: number, repeat: true },
        Message::TimerClear { timer: TimerId(1) },
        Message::TimerFired { timer: TimerId(1) },
        Message::BusEmit(BusEvent { channel: text.to_owned(), data }),
        Message::Log(log_entry()),
        Message::Error(error_report()),
    ]
}

fn json_values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e9..1e9_f64).prop_map(Value::from),
        ".*".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(".*", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn messages_deliveries_and_yields_pass(text in ".*", number in 0.0..1e9_f64, data in json_values(), seq in any::<u64>()) {
        let now = Now { epoch_ms: 1_767_323_045_000, elapsed_us: seq };
        let all = messages(&text, number, data.clone());
        for message in &all {
            pass("extension_protocol.json", &Envelope::from(message.clone()));
        }
        let state = StateDelta {
            version: 2,
            set: BTreeMap::from([("isIdle".to_owned(), json!(true).into())]),
            entries: Some(EntriesDelta { keep: 1, append: vec![data.into()] }),
        };
        let task = Task::Message(Box::new(all[0].clone()));
        pass("delivery", &Delivery { seq: Seq(seq), now, task, state: Some(state.clone()) });
        let delta = StreamDelta {
            attempt: 1,
            source: StreamSource::Tool,
            stream: 0,
            chunk: text,
            tool_name: Some("edit".to_owned()),
            file_paths: vec!["a.ts".to_owned()],
        };
        pass("delivery", &Delivery { seq: Seq(seq), now, task: Task::Stream(delta), state: None });
        pass("yield", &Yield { messages: all, stream: StreamAnswer::Late { handler: Handle(1) }, usage: Usage::default() });
        let result = HostResult::failed(CallId::from("host-1"), HostcallError::new(ErrorCode::Timeout, "late"));
        pass("sync_reply", &SyncReply { result, now, state: Some(state) });
    }
}

#[test]
fn a_message_of_another_version_or_kind_does_not_pass() {
    let message = serde_json::to_value(Envelope::from(Message::TimerClear { timer: TimerId(1) })).expect("JSON");
    validate("extension_protocol.json", &message).expect("the unchanged value is valid");
    for (member, wrong) in
        [("version", json!("2.0")), ("type", json!("timer_burn")), ("payload", json!({ "timer": -1 }))]
    {
        let mut message = message.clone();
        message[member] = wrong;
        assert!(validate("extension_protocol.json", &message).is_err(), "{message}");
    }
}

#[test]
fn a_ledger_line_passes_and_one_without_its_ids_does_not() {
    let line = serde_json::to_value(log_entry()).expect("JSON");
    validate("pi.ext.log.v1", &line).expect("the unchanged value is valid");
    for (pointer, wrong) in
        [("/schema", json!("pi.ext.log.v2")), ("/level", json!("loud")), ("/correlation", json!({}))]
    {
        let mut line = line.clone();
        *line.pointer_mut(pointer).expect("the member is there") = wrong;
        assert!(validate("pi.ext.log.v1", &line).is_err(), "{line}");
    }
}

fn engine() -> EngineBuild {
    EngineBuild {
        name: "quickjs-ng".to_owned(),
        version: "0.11.0".to_owned(),
        bytecode: 24,
        target: "x86_64-le-64".to_owned(),
    }
}

fn capabilities() -> CapabilityManifest {
    CapabilityManifest {
        schema: CAPABILITY_SCHEMA.to_owned(),
        capabilities: vec![CapabilityRequest {
            capability: Capability::new("exec"),
            methods: Some(vec!["exec".to_owned()]),
            scope: Some(Scope { commands: Some(vec!["git status".to_owned()]), ..Scope::default() }),
        }],
    }
}

#[test]
fn manifest_artifact_and_tape_header_pass() {
    pass("pi.ext.cap.v1", &capabilities());
    pass(
        "pi.ext.artifact.v1",
        &ArtifactMetadata {
            schema: ARTIFACT_SCHEMA.to_owned(),
            name: "pi-ttsr".to_owned(),
            version: "1.0.0".to_owned(),
            engine: engine(),
            artifact: "sha256:00".to_owned(),
            cache_key: "sha256:01".to_owned(),
            entries: vec!["extensions/ttsr/index.ts".to_owned()],
            inputs: [("package.json".to_owned(), "sha256:02".to_owned())].into(),
            capabilities: capabilities(),
            offers: Default::default(),
            host_imports: [("node:fs".to_owned(), vec!["readFileSync".to_owned()])].into(),
            verdict: Verdict::Warning,
            findings: vec![Finding {
                code: "BD_EVAL".to_owned(),
                class: Verdict::Blocked,
                file: "index.ts".to_owned(),
                line: 1,
                column: 1,
                message: "eval".to_owned(),
                help: None,
                ends_load: false,
            }],
        },
    );
    pass(
        "pi.ext.tape.v1",
        &TapeHeader { seed: u64::MAX, ..TapeHeader::new("0.1.0", engine(), "sha256:00".to_owned()) },
    );
}
