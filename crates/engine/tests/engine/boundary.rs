//! Tests values, hostcalls, state and errors across the boundary of a realm.

use crate::support::{Guest, NOW, Sources, answer_of, call};
use pijs_engine::Trace;
use pijs_protocol::message::ErrorReport;
use pijs_protocol::wire::{EntriesDelta, Json, StateDelta};
use pijs_protocol::{CallId, Chunk, HostResult, HostcallError, Message, Termination};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const BOUNDARY: Sources<'static> = &[("main.js", include_str!("../fixtures/guests/boundary.js"))];

fn guest() -> Guest {
    Guest::new(BOUNDARY)
}

#[test]
fn a_synchronous_call_is_answered_in_place() {
    let mut guest = guest();
    assert_eq!(guest.ask("call", &[json!({"path": "a", "n": 1})]), json!({"output": {"answered": true}, "bytes": []}));
    let asked = &guest.host.calls[0];
    assert_eq!((asked.call_id.as_str(), asked.method.as_str(), asked.capability.as_str()), ("host-1", "fs", "read"));
    assert_eq!(Value::Object(asked.params.clone()), json!({"path": "a", "n": 1}));
}

#[test]
fn a_refusal_is_thrown_with_its_taxonomy() {
    assert_eq!(
        guest().ask("call", &[json!({"op": "deny"})]),
        json!({
            "name": "Error",
            "code": "denied",
            "message": "reading /etc/shadow is not granted",
            "retryable": false,
            "details": {"reason": "no_grant"},
        })
    );
}

#[test]
fn a_tried_call_returns_its_answer_or_its_failure() {
    let mut guest = guest();
    assert_eq!(guest.ask("tryCall", &[json!({"path": "a"})]), json!({"output": {"answered": true}, "bytes": []}));
    assert_eq!(
        guest.ask("tryCall", &[json!({"op": "deny"})]),
        json!({
            "error": {
                "code": "denied",
                "message": "reading /etc/shadow is not granted",
                "retryable": false,
                "details": {"reason": "no_grant"},
            },
        })
    );
    let refused = guest.ask("tryLoneSurrogate", &[]);
    assert_eq!(refused["error"]["code"], "invalid_request");
    assert_eq!(refused["error"]["details"], json!({"reason": "surrogate"}));
    assert_eq!(guest.host.calls.len(), 2, "the refused one did not reach the host");
    let thrown = guest.ask("tryThrowingGetter", &[]);
    assert_eq!((&thrown["name"], &thrown["message"]), (&json!("TypeError"), &json!("mine")));
}

#[test]
fn bytes_cross_both_ways_unchanged() {
    let mut guest = guest();
    let answer = guest.ask("echoBytes", &[]);
    assert_eq!(guest.host.calls[0].bytes, [vec![0, 255], vec![2, 3], vec![7, 8]]);
    assert_eq!(answer["output"]["inline"], json!({"$bytes": 2}));
    assert_eq!(answer["types"], json!(["Uint8Array", "Uint8Array", "Uint8Array"]));
    assert_eq!(answer["bytes"], json!([[0, 255], [2, 3], [7, 8]]));
}

/// Computations that would take too long are refused before they begin, because they cannot be interrupted.
#[test]
fn work_that_would_hold_up_the_session_is_refused() {
    assert_eq!(guest().ask("costly", &[]), json!(vec!["RangeError"; 6]));
}

#[test]
fn half_a_surrogate_pair_is_no_parameter() {
    let mut guest = guest();
    for export in ["loneSurrogate", "loneSurrogateKey", "loneSurrogateSent"] {
        let refused = guest.ask(export, &[]);
        assert_eq!(refused["code"], "invalid_request", "{export}");
        assert_eq!(refused["details"], json!({"reason": "surrogate"}), "{export}");
    }
    assert!(guest.host.calls.is_empty(), "nothing reached the host");
}

#[test]
fn half_a_surrogate_pair_in_other_text_is_replaced() {
    assert_eq!(guest().ask("loneSurrogateReturned", &[]), json!(["a\u{FFFD}b", "\u{FFFD}", "🦀"]));
}

#[test]
fn values_without_a_json_form_are_refused_by_name() {
    let mut guest = guest();
    for (export, words) in [("cyclic", "cyclic"), ("bigint", "BigInt"), ("notBytes", "Uint8Array")] {
        let refused = guest.ask(export, &[]);
        assert_eq!(refused["code"], "invalid_request", "{export}");
        assert!(refused["message"].as_str().is_some_and(|message| message.contains(words)), "{refused}");
    }
}

#[test]
fn other_values_follow_json_stringify() {
    assert_eq!(
        guest().ask("jsonRules", &[]),
        json!({
            "date": "1970-01-01T00:00:00.000Z",
            "holes": [null, null, null, 0, 1.5, 1_099_511_627_776_i64, 1e21],
            "__proto__": {"own": true},
            "nested": {"toJSON": "data"},
        })
    );
}

#[test]
fn members_called_proto_stay_data_on_the_way_in() {
    let mut guest = Guest::new(&[(
        "main.js",
        "export const look = (value) => [Object.keys(value), Object.getPrototypeOf(value) === Object.prototype];",
    )]);
    let value: Value = serde_json::from_str(r#"{"__proto__": {"polluted": true}}"#).expect("valid JSON");
    assert_eq!(guest.ask("look", &[value]), json!([["__proto__"], true]));
}

#[test]
fn a_panic_in_the_host_ends_the_realm_and_nothing_else() {
    let mut broken = guest();
    let ended = broken.turn("panic", &[]).expect_err("a panic is not survivable");
    assert!(matches!(&ended, Termination::HostBug { detail } if detail.contains("broke a promise")), "{ended}");
    assert_eq!(broken.turn("call", &[json!({})]), Err(ended));
    assert_eq!(guest().ask("call", &[json!({})])["output"], json!({"answered": true}), "other realms live on");
}

#[test]
fn an_exception_that_leaves_the_runtime_is_a_host_bug() {
    let ended = guest().deliver(Message::SignalAborted { signal: 1 }).expect_err("the fixture runtime throws");
    let Termination::HostBug { detail } = &ended else { panic!("{ended}") };
    assert!(detail.contains("this runtime knows no signals") && detail.contains("pi:runtime:"), "{detail}");
}

#[test]
fn an_awaited_call_is_a_message_and_so_is_its_result() {
    let mut guest = guest();
    let done = guest.turn("awaited", &[]).expect("the realm is running");
    let [Message::HostCall(asked), Message::HostCall(_), _] = done.messages.as_slice() else {
        panic!("{:?}", done.messages)
    };
    assert_eq!(asked.call_id, CallId::from("host-1"));
    assert_eq!((asked.timeout_ms, &asked.bytes), (Some(5), &vec![vec![9]]));
    assert_eq!(Value::Object(asked.params.clone()), json!({"body": {"$bytes": 0}}));
    assert_eq!(answer_of("awaited", &done.messages), json!(["host-1", "host-2"]));

    let result = HostResult::ok_with_bytes(asked.call_id.clone(), json!({"status": 200}), vec![vec![1, 2]]);
    let done = guest.deliver(Message::HostResult(result)).expect("the realm is running");
    assert_eq!(answer_of("host-1", &done.messages), json!({"output": {"status": 200}, "bytes": [[1, 2]]}));
}

#[test]
fn the_list_that_answers_share_cannot_be_changed() {
    assert_eq!(guest().ask("nothing", &[]), json!([true, true, 0]));
}

#[test]
fn a_promised_call_is_settled_once_by_its_end() {
    let mut guest = guest();
    let done = guest.turn("promised", &[]).expect("the realm is running");
    let [Message::HostCall(one), Message::HostCall(two), _] = done.messages.as_slice() else {
        panic!("{:?}", done.messages)
    };
    assert_eq!((one.timeout_ms, &one.bytes), (Some(5), &vec![vec![9]]));
    let refused = answer_of("promised", &done.messages);
    assert_eq!((&refused["code"], &refused["details"]["reason"]), (&json!("invalid_request"), &json!("surrogate")));

    let ok = |value: Value| HostResult::ok_with_bytes(one.call_id.clone(), value, vec![vec![1, 2]]);
    let mut piece = ok(json!("a piece"));
    piece.chunk = Some(Chunk { index: 0, is_last: false, backpressure: None });
    let mut told =
        |result: HostResult| guest.deliver(Message::HostResult(result)).expect("the realm is running").messages;
    assert_eq!(told(piece), []);
    let error = HostcallError::denied("policy", "not you");
    let refused = told(HostResult::failed(two.call_id.clone(), error));
    assert_eq!(answer_of("two", &refused), json!({"code": "denied", "message": "not you"}));
    let settled = told(ok(json!({"status": 200})));
    assert_eq!(answer_of("one", &settled), json!({"output": {"status": 200}, "bytes": [[1, 2]]}));
}

#[test]
fn a_guest_whose_error_constructor_throws_gets_that_exception() {
    let mut guest = guest();
    let done = guest.turn("poisoned", &[]).expect("the realm is running");
    let [Message::HostCall(asked), ..] = done.messages.as_slice() else { panic!("{:?}", done.messages) };
    let failed = HostResult::failed(asked.call_id.clone(), HostcallError::denied("policy", "not you"));
    let rejected = guest.deliver(Message::HostResult(failed)).expect("the realm is running");
    assert_eq!(answer_of("three", &rejected.messages), json!("poisoned"));
}

#[test]
fn a_message_outside_the_protocol_is_refused() {
    let refused = guest().ask("sendNonsense", &[]);
    assert_eq!(refused["name"], "TypeError");
    assert!(refused["message"].as_str().is_some_and(|text| text.contains("no_such_message")), "{refused}");
}

fn members(value: &Value) -> BTreeMap<String, Json> {
    let members = value.as_object().expect("an object").iter();
    members.map(|(name, value)| (name.clone(), value.into())).collect()
}

#[test]
fn the_state_changes_by_difference() {
    let mut guest = guest();
    let entries =
        |keep, append: &[Value]| Some(EntriesDelta { keep, append: append.iter().cloned().map(Json::from).collect() });
    let set = |value: Value| members(&value);
    let mut ask = |delta: StateDelta| {
        let done = guest.deliver_with(call("readState", &[]), Some(delta)).expect("the realm is running");
        answer_of("readState", &done.messages)
    };
    let first = StateDelta {
        version: 1,
        set: set(json!({"idle": true, "model": "a"})),
        entries: entries(0, &[json!({"id": 1}), json!({"id": 2})]),
    };
    assert_eq!(
        ask(first),
        json!({"same": true, "version": 1, "set": {"idle": true, "model": "a"}, "entries": [{"id": 1}, {"id": 2}]})
    );
    let second = StateDelta { version: 2, set: set(json!({"idle": false})), entries: entries(1, &[json!({"id": 3})]) };
    assert_eq!(
        ask(second),
        json!({"same": true, "version": 2, "set": {"idle": false, "model": "a"}, "entries": [{"id": 1}, {"id": 3}]})
    );
    assert_eq!(guest.ask("changeState", &[]), 9, "a reply changes it within the turn");
    assert_eq!(guest.ask("readState", &[])["entries"], json!([{"id": 1}, {"id": "new"}]));
}

/// A long member of the state is parsed at the first read and then returns the same value.
#[test]
fn a_long_member_of_the_state_is_made_once() {
    let mut guest = guest();
    let mut ask = |version, tools: &Value| {
        let set = members(&json!({"idle": true, "tools": tools}));
        let delta = StateDelta { version, set, entries: None };
        let done = guest.deliver_with(call("readLongState", &[]), Some(delta)).expect("the realm is running");
        answer_of("readLongState", &done.messages)
    };
    let answer = |before: bool, tools: &Value| json!({"before": before, "after": true, "isSame": true, "names": ["idle", "tools"], "tools": tools});
    let tool = json!({"__proto__": 1, "constructor": {"a": [null, -0.5, 0.1, 1e300, 9_007_199_254_740_991_u64]}, "ü\u{2028}": "\u{1F600}\n"});
    let long = |count| Value::Array(vec![tool.clone(); count]);
    assert_eq!(ask(1, &long(20)), answer(false, &long(20)));
    assert_eq!(ask(2, &long(30)), answer(false, &long(30)), "another in its place");
    assert_eq!(ask(3, &long(1)), answer(true, &long(1)), "a short one is there at once");
    assert_eq!(ask(4, &long(40)), answer(false, &long(40)), "and a long one after it is not");
}

#[test]
fn a_hostcall_takes_the_time_that_its_reply_says() {
    let started_ms = NOW.elapsed_us / 1000;
    let expected = json!([started_ms, started_ms + 2000, NOW.epoch_ms + 2001]);
    let answered = guest().ask("timeAfterCall", &[]);
    let whole = |value: &Value| value.as_f64().map(f64::round);
    for index in 0..3 {
        assert_eq!(whole(&answered[index]), whole(&expected[index]), "{answered}");
    }
}

#[test]
fn text_is_coded_as_the_encoding_standard_says() {
    assert_eq!(
        guest().ask("text", &[]),
        json!({
            "encoded": [195, 188, 239, 191, 189],
            "decoded": "ü",
            "kept": 2,
            "replaced": "\u{FFFD}a",
            "fatal": "TypeError",
            "latin": "é",
            "unknown": "RangeError",
            "wellFormed": "a\u{FFFD}",
        })
    );
}

#[test]
fn urls_are_parsed_as_the_url_standard_says() {
    let urls = guest().ask("urls", &[]);
    assert_eq!(
        urls["parts"],
        json!({
            "href": "https://user:pw@example.org:8443/a/x?q=1#h",
            "origin": "https://example.org:8443",
            "protocol": "https:",
            "username": "user",
            "password": "pw",
            "host": "example.org:8443",
            "hostname": "example.org",
            "port": "8443",
            "pathname": "/a/x",
            "search": "?q=1",
            "hash": "#h",
        })
    );
    assert_eq!(urls["bad"], Value::Null);
    assert_eq!(urls["port"], "http://example.org:81/");
    assert_eq!(urls["ignored"], "http://example.org/");
}

#[test]
fn facts_cannot_be_changed() {
    assert_eq!(guest().ask("factsAreFrozen", &[]), json!(["TypeError", "TypeError", "/project"]));
}

#[test]
fn random_bytes_are_seeded() {
    assert_eq!(guest().ask("randomBytes", &[]), guest().ask("randomBytes", &[]));
}

#[test]
fn promises_can_be_inspected() {
    assert_eq!(guest().ask("promises", &[]), json!([{"state": "fulfilled", "value": 1}, "pending", "no", 5]));
}

#[test]
fn jobs_run_in_the_order_they_were_made() {
    assert_eq!(guest().ask("jobOrder", &[]), json!(["job", "then"]));
}

#[test]
fn modules_can_be_imported_synchronously() {
    let answers = guest().ask("synchronousImport", &[]);
    assert_eq!(answers[0], "a/b");
    assert_eq!(answers[1], true, "one instance under both names");
    assert!(answers[2].as_str().is_some_and(|text| text.contains("awaits at top level")), "{answers}");
    assert_eq!(answers[3], "not today");
    assert_eq!(answers[4], "ERR_MODULE_NOT_FOUND");
}

#[test]
fn unhandled_rejections_are_reported_once() {
    let mut guest = guest();
    let done = guest.turn("rejections", &[]).expect("the realm is running");
    let reports: Vec<&ErrorReport> = done
        .messages
        .iter()
        .filter_map(|message| if let Message::Error(report) = message { Some(report) } else { None })
        .collect();
    let said: Vec<&str> = reports.iter().map(|report| report.message.as_str()).collect();
    assert_eq!(said, ["thrown by a microtask", "never handled"]);
    assert!(reports.iter().all(|report| report.phase == "unhandled_rejection"));
    assert!(
        guest.turn("jobOrder", &[]).expect("the realm is running").messages.len() == 1,
        "not again in the next turn"
    );
}

#[test]
fn stacks_of_outputs_are_recorded_on_request() {
    let source = "import { callSync, send } from \"test:bridge\";\n\
        function ask() {\n  callSync(\"fs\", \"read\", {});\n}\n\
        export function run() {\n  ask();\n  send({ type: \"timer_clear\", payload: { timer: 1 } });\n}\n";
    let mut guest = Guest::new(&[("main.js", source)]);
    guest.ask("run", &[]);
    assert_eq!(guest.realm.take_trace(), Trace::default(), "nobody asked");
    guest.realm.trace();
    guest.ask("run", &[]);
    let Trace { calls, messages, .. } = guest.realm.take_trace();
    let line_of = |stack: &str| stack.lines().find(|line| line.contains("main.js")).map(str::to_owned);
    assert!(line_of(&calls[0]).is_some_and(|line| line.contains("ask") && line.contains("main.js:3:")), "{calls:?}");
    assert!(line_of(&messages[0]).is_some_and(|line| line.contains("main.js:7:")), "{messages:?}");
    assert_eq!((calls.len(), messages.len()), (1, 2), "the answer of the callback is the second message");
}
