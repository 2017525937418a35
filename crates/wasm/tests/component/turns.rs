//! Tests of single turns: deliveries and their yields.

use crate::support::Guest;
use pijs_protocol::message::EventHook;
use pijs_protocol::registration::Registration;
use pijs_protocol::stream::{Injection, InjectionRole};
use pijs_protocol::wire::{Limits, StreamAnswer};
use pijs_protocol::{EntryIndex, Handle, HostResult, HostcallError, Message, StreamSource, TimerId};
use pijs_wasm::text;
use serde_json::{Map, json};

const VERDICT: &str = include_str!("../../../../fixtures/guests/text/verdict.wat");

/// Returns the data segments of an answer with JSON text: `value(text)` at address 512, the text at 1024.
fn value_at_512(text: &str) -> String {
    let length = text.len();
    let text = text.replace('"', "\\22");
    format!(
        r#"(data (i32.const 512) "\00\00\00\00\00\00\00\00\00\04\00\00\{length:02x}\00\00\00") (data (i32.const 1024) "{text}")"#
    )
}

#[test]
fn a_verdict_stops_the_reply_and_says_what_to_do_instead() {
    let mut guest = Guest::of(&text::core_module(VERDICT), Limits::default());
    let done = guest.load().expect("loads");
    let [Message::Register(register)] = done.messages.as_slice() else { panic!("{:?}", done.messages) };
    assert!(register.ready);
    let [Registration::Command(command), Registration::Handler(handler)] = register.registrations.as_slice() else {
        panic!("{:?}", register.registrations)
    };
    assert_eq!((command.name.as_str(), command.description.as_deref()), ("verdicts", Some("Tells what is forbidden.")));
    assert_eq!((handler.event.as_str(), handler.sources.as_slice()), ("stream_text", &[StreamSource::Text][..]));

    for _ in 0..100_000 {
        let done = guest.delta("nothing to object to").expect("the realm continues");
        assert_eq!((done.stream, done.messages.len()), (StreamAnswer::Continue, 0));
    }
    let done = guest.delta("# A heading").expect("the realm continues");
    let StreamAnswer::Abort(verdict) = done.stream else { panic!("{:?}", done.stream) };
    assert_eq!(verdict.handler, handler.handle);
    let content = "Write it without #.".to_owned();
    assert_eq!(verdict.retry, Some(Injection { content, role: InjectionRole::System }));

    guest.deliver(Message::HandlerMuted { handler: verdict.handler }).expect("the realm continues");
    assert_eq!(guest.delta("#").expect("the realm continues").stream, StreamAnswer::Continue);
}

#[test]
fn tools_and_events_are_answered_at_once() {
    let answer = value_at_512(r#"{"content":[]}"#);
    let items = format!(
        r#"{answer}
        (func (export "call-tool") (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32) (i32.const 512))
        (data (i32.const 600) "\00\00\00\00\02\00\00\00\00\08\00\00\09\00\00\00") (data (i32.const 2048) "{{\22x\22: 1 }}")
        (func (export "on-event") (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32) (i32.const 600))"#
    );
    let mut guest = Guest::loaded("", &items);
    let done = guest.tool().expect("the realm continues");
    let [Message::ToolResult(result)] = done.messages.as_slice() else { panic!("{:?}", done.messages) };
    assert_eq!((result.tool_call_id.as_str(), &result.output), ("call-1", &json!({ "content": [] })));

    let hook = |mutable: &[&str]| {
        Message::EventHook(EventHook {
            event_id: "evt-1".into(),
            entry: EntryIndex(0),
            handle: Handle(1),
            event: "context".to_owned(),
            payload: Map::new(),
            mutable: mutable.iter().map(|name| (*name).to_owned()).collect(),
        })
    };
    let done = guest.deliver(hook(&["x"])).expect("the realm continues");
    let [Message::EventResult(result)] = done.messages.as_slice() else { panic!("{:?}", done.messages) };
    assert_eq!(result.changed.get("x"), Some(&json!(1)));
    let done = guest.deliver(hook(&[])).expect("the realm continues");
    let [Message::EventResult(result)] = done.messages.as_slice() else { panic!("{:?}", done.messages) };
    assert!(result.changed.is_empty());
    assert_eq!(result.error.as_ref().expect("an error").message, "context: `x` cannot be changed");

    let done = guest.command().expect("the realm continues");
    let [Message::SlashResult(result)] = done.messages.as_slice() else { panic!("{:?}", done.messages) };
    assert_eq!((result.slash_command_id.as_str(), &result.error), ("slash-1", &None));
}

/// A call of `calls.call` with a request at address 2048, which refers to texts for method, capability and parameters.
const CALL: &str = r#"
  (import "pi:extension/calls@1.0.0" "call" (func $call (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i64 i32)))
  (import "pi:extension/answers@1.0.0" "finish" (func $finish (param i32 i32 i32 i32 i32 i32 i32 i32 i32)))
"#;

#[test]
fn a_tool_that_waits_is_answered_in_a_later_turn() {
    // `call-tool` begins `ui.select` and answers `later`; `complete` finishes the call `call-1` with `{"ok":1}`.
    let items = r#"
      (data (i32.const 2048) "uiui{\22op\22:\22select\22}call-1{\22ok\22:1}")
      (data (i32.const 512) "\00\00\00\00\01\00\00\00")
      (func (export "call-tool") (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
        (call $call (i32.const 2048) (i32.const 2) (i32.const 2050) (i32.const 2) (i32.const 2052) (i32.const 15)
          (i32.const 0) (i32.const 0) (i32.const 0) (i64.const 0) (i32.const 3000))
        (i32.const 512))
      (func (export "complete") (param i32 i64 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
        ;; Only the reply to ticket 1.
        (if (i32.and (i32.eqz (local.get 0)) (i64.eq (local.get 1) (i64.const 1)))
          (then (call $finish (i32.const 2067) (i32.const 6) (i32.const 0) (i32.const 1) (i32.const 2073) (i32.const 8)
            (i32.const 0) (i32.const 0) (i32.const 0))))
        (i32.const 0))"#;
    let mut guest = Guest::loaded(CALL, items);
    let done = guest.tool().expect("the realm continues");
    let [Message::HostCall(call)] = done.messages.as_slice() else { panic!("{:?}", done.messages) };
    assert_eq!((call.call_id.as_str(), call.method.as_str(), &call.params["op"]), ("host-1", "ui", &json!("select")));
    assert!(guest.deliver(Message::TimerFired { timer: TimerId(1) }).expect("the realm continues").messages.is_empty());
    let result = HostResult::ok("host-1".into(), json!({ "index": 0 }));
    let done = guest.deliver(Message::HostResult(result)).expect("the realm continues");
    let [Message::ToolResult(result)] = done.messages.as_slice() else { panic!("{:?}", done.messages) };
    assert_eq!((result.tool_call_id.as_str(), &result.output), ("call-1", &json!({ "ok": 1 })));
}

#[test]
fn a_refusal_reaches_the_component_as_a_case_of_the_taxonomy() {
    // `register` reads a file and fails with the error of that call: the result of `read-file` has its error at the same address
    // as the result of `register`.
    let imports = r#"(import "pi:extension/fs@1.0.0" "read-file" (func $read (param i32 i32 i32)))"#;
    let items = r#"
      (data (i32.const 2048) "/etc/passwd")
      (func (export "register") (result i32)
        (call $read (i32.const 2048) (i32.const 11) (i32.const 3000))
        ;; The case of the taxonomy: 1 is `denied`.
        (if (i32.ne (i32.load8_u (i32.const 3004)) (i32.const 1)) (then unreachable))
        (i32.const 3000))"#;
    let mut guest = Guest::new(imports, items);
    guest.host.answers.push_back(Err(HostcallError::denied("no_grant", "read /etc/passwd is not granted")));
    let done = guest.load().expect("the realm continues");
    let [call] = guest.host.calls.as_slice() else { panic!("{:?}", guest.host.calls) };
    assert_eq!((call.method.as_str(), call.capability.as_str()), ("fs", "read"));
    assert_eq!(call.params["path"], json!("/etc/passwd"));
    let [Message::Error(error)] = done.messages.as_slice() else { panic!("{:?}", done.messages) };
    assert_eq!(error.phase, "load");
    assert_eq!(error.message, "Failed to load extension: read /etc/passwd is not granted");
}
