//! Tests workers whose engine an attacker controls: they die in every possible way and send arbitrary data.

use crate::support::{NoHost, deliver};
use crate::{open, open_with, run, short_deadlines, timeout, unlimited_fuel};
use pijs_engine::hooks;
use pijs_protocol::{HostCall, Termination, Yield};
use pijs_realm::frame::FromWorker;
use pijs_realm::{Patience, ProcessOptions, ProcessRealm, Progress, Realm};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

pub(crate) const TESTS: &[(&str, fn())] = &[
    ("every_death_of_a_worker_ends_the_realm_with_a_reason", every_death_of_a_worker_ends_the_realm_with_a_reason),
    (
        "a_panic_in_native_code_is_a_host_bug_and_ends_the_realm",
        a_panic_in_native_code_is_a_host_bug_and_ends_the_realm,
    ),
    ("no_worker_gets_a_forbidden_operation_through", no_worker_gets_a_forbidden_operation_through),
    ("bytes_that_are_no_frame_end_the_realm", bytes_that_are_no_frame_end_the_realm),
    ("a_message_between_turns_ends_the_realm", a_message_between_turns_ends_the_realm),
    ("endless_frames_end_at_the_deadline_in_small_slices", endless_frames_end_at_the_deadline_in_small_slices),
    ("a_worker_that_never_reads_does_not_block_the_host", a_worker_that_never_reads_does_not_block_the_host),
    ("deep_values_cross_both_ways_or_are_refused", deep_values_cross_both_ways_or_are_refused),
    (
        "a_head_of_many_small_values_is_refused_before_it_is_read",
        a_head_of_many_small_values_is_refused_before_it_is_read,
    ),
];

fn misbehave(realm: &mut ProcessRealm, what: &str, bytes: &[u8]) -> Progress {
    run(realm, 1, "misbehave", json!({ "what": what, "bytes": bytes }), &mut NoHost)
}

fn every_death_of_a_worker_ends_the_realm_with_a_reason() {
    let cases = [
        ("SIGSEGV", Some("killed by SIGSEGV")),
        ("SIGABRT", Some("killed by SIGABRT")),
        ("SIGBUS", Some(if cfg!(target_arch = "x86_64") { "killed by SIGBUS" } else { "killed by SIGSEGV" })),
        ("exit", Some("exit status 0")),
        // The filter kills the process while Rust's handler for stack overflow reports.
        ("stack", None),
    ];
    for (what, words) in cases {
        let mut realm = open();
        let ended = misbehave(&mut realm, what, &[]);
        let Progress::Ended(Termination::Crashed { detail }) = &ended else { panic!("{what}: {ended:?}") };
        assert!(words.is_none_or(|words| words == detail), "{what}: {detail}");
        assert_eq!(run(&mut realm, 2, "a", Value::Null, &mut NoHost), ended, "and stays so");
    }
}

fn a_panic_in_native_code_is_a_host_bug_and_ends_the_realm() {
    let ended = misbehave(&mut open(), "panic", &[]);
    let Progress::Ended(Termination::HostBug { detail }) = &ended else { panic!("{ended:?}") };
    assert!(detail.contains("a panic in native code"), "{detail}");
}

fn no_worker_gets_a_forbidden_operation_through() {
    for what in hooks::FORBIDDEN {
        let ended = misbehave(&mut open(), what, &[]);
        let sys = "killed by SIGSYS: it made a forbidden system call".to_owned();
        assert_eq!(ended, Progress::Ended(Termination::Crashed { detail: sys }), "{what}");
    }
}

fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(1 + body.len()).expect("short");
    [&length.to_le_bytes(), [kind].as_slice(), body].concat()
}

fn message(head: &[u8]) -> Vec<u8> {
    let length = u32::try_from(head.len()).expect("short");
    frame(b'J', &[&length.to_le_bytes(), head].concat())
}

/// Returns a frame with a hostcall without attachments.
fn call() -> Vec<u8> {
    let call = json!({ "call_id": "host-1", "capability": "read", "method": "fs", "params": {} });
    let call: HostCall = serde_json::from_value(call).expect("a call");
    let mut bytes = Vec::new();
    FromWorker::Call(call).encode(&mut bytes).expect("a frame");
    bytes
}

fn bytes_that_are_no_frame_end_the_realm() {
    let a_yield = {
        let mut bytes = Vec::new();
        FromWorker::Yielded(Yield::default()).encode(&mut bytes).expect("a frame");
        bytes
    };
    let cases: [(&str, Vec<u8>, &str); 9] = [
        ("a prefix of 4 GB", vec![0xff; 4], "a frame of 4294967295 bytes"),
        ("an unknown kind", frame(b'Z', b"?"), "unexpected kind 90"),
        ("nothing", vec![0; 4], "ends inside a field"),
        ("text that is not UTF-8", message(&[b'"', 0xff, 0xfe, b'"']), "an invalid header"),
        ("an unknown message", message(br#"{"surprise":1}"#), "unknown variant"),
        ("a key twice", message(br#"{"hello":{"wire":1},"hello":{"wire":1}}"#), "an invalid header"),
        ("a host's message", message(br#"{"open":{}}"#), "unknown variant"),
        ("a greeting in a turn", message(br#"{"hello":{"wire":1}}"#), "unexpected message: hello"),
        ("two yields", [a_yield.clone(), a_yield].concat(), "sent data after the end"),
    ];
    for (name, bytes, words) in cases {
        let ended = misbehave(&mut open(), "say", &bytes);
        let Progress::Ended(Termination::Protocol { detail }) = &ended else { panic!("{name}: {ended:?}") };
        assert!(detail.contains(words), "{name}: {detail}");
    }
    // An incomplete frame followed by silence: only the deadline ends the turn.
    let (mut realm, _) = open_with(&unlimited_fuel(), short_deadlines());
    let ended = misbehave(&mut realm, "say", &[100, 0, 0, 0, b'J']);
    assert!(matches!(ended, Progress::Ended(Termination::Protocol { .. } | Termination::Timeout { .. })), "{ended:?}");
}

fn a_message_between_turns_ends_the_realm() {
    let mut bytes = Vec::new();
    FromWorker::Yielded(Yield::default()).encode(&mut bytes).expect("a frame");
    let mut realm = open();
    // The forged frame counts as the end of its turn. The real end then arrives unrequested, or has already arrived.
    let said = misbehave(&mut realm, "say", &bytes);
    if matches!(&said, Progress::Ended(Termination::Protocol { detail }) if detail.contains("sent data after the end"))
    {
        return;
    }
    assert_eq!(said, Progress::Yielded(Yield::default()));
    let until = Instant::now() + Duration::from_secs(120);
    while realm.pulse().is_none() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    let ended = run(&mut realm, 2, "a", Value::Null, &mut NoHost);
    assert!(matches!(ended, Progress::Ended(Termination::Protocol { .. } | Termination::Crashed { .. })), "{ended:?}");
}

fn endless_frames_end_at_the_deadline_in_small_slices() {
    let (mut realm, _) =
        open_with(&unlimited_fuel(), ProcessOptions { turn: Duration::from_secs(3), ..short_deadlines() });
    let mut host = crate::ReversingHost { calls: 0 };
    let mut progress = realm.start(deliver(1, "misbehave", json!({ "what": "flood", "bytes": call() })), &mut host);
    let mut slices = 0;
    while progress == Progress::Running {
        slices += 1;
        progress = realm.resume(&mut host, Patience::Poll);
    }
    assert_eq!(progress, Progress::Ended(timeout("deadline")));
    assert!(slices > 10 && host.calls > 1, "{slices} slices, {} calls", host.calls);
}

fn a_worker_that_never_reads_does_not_block_the_host() {
    let mut bytes = Vec::new();
    FromWorker::Yielded(Yield::default()).encode(&mut bytes).expect("a frame");
    // Enough time for a busy machine to run the previous turn and to poll several times.
    let (mut realm, _) =
        open_with(&unlimited_fuel(), ProcessOptions { turn: Duration::from_secs(4), ..short_deadlines() });
    let data = json!({ "what": "say-and-deaf", "bytes": bytes });
    assert_eq!(run(&mut realm, 1, "misbehave", data, &mut NoHost), Progress::Yielded(Yield::default()));
    // More bytes than any socket buffer holds.
    let mut progress = realm.start(deliver(2, "x", json!("y".repeat(8 << 20))), &mut NoHost);
    assert_eq!(progress, Progress::Running);
    let mut looks = 0;
    while progress == Progress::Running {
        looks += 1;
        progress = realm.resume(&mut NoHost, Patience::Poll);
    }
    assert_eq!(progress, Progress::Ended(timeout("deadline")));
    assert!(looks > 10, "each look comes back at once: {looks}");
}

fn nested(depth: usize) -> Value {
    (0..depth).fold(Value::Null, |inner, _| Value::Array(vec![inner]))
}

fn deep_values_cross_both_ways_or_are_refused() {
    // Deeper than `serde_json` reads: a provider's JSON inside members that the host adds.
    let mut realm = open();
    for depth in [100, 118, 127, 200] {
        let progress = run(&mut realm, 1, "depth", nested(depth), &mut NoHost);
        assert_eq!(crate::emitted(progress), json!(depth));
    }
    // No provider sends such JSON, so it is a host bug, which is detected before the message is sent.
    let progress = realm.start(deliver(1, "depth", nested(1000)), &mut NoHost);
    let Progress::Ended(Termination::Protocol { detail }) = &progress else { panic!("{progress:?}") };
    assert!(detail.contains("to send it") && detail.contains("levels"), "{detail}");

    let deep = format!(r#"{{"yielded":{}{}}}"#, "[".repeat(1000), "]".repeat(1000));
    let ended = misbehave(&mut open(), "say", &message(deep.as_bytes()));
    let Progress::Ended(Termination::Protocol { detail }) = &ended else { panic!("{ended:?}") };
    assert!(detail.contains("levels"), "{detail}");
}

fn a_head_of_many_small_values_is_refused_before_it_is_read() {
    let many = format!(r#"{{"yielded":{{"messages":[{}0]}}}}"#, "0,".repeat(5_000_000));
    let error = FromWorker::decode(&message(many.as_bytes())[4..]).expect_err("the decoded size is too large");
    assert!(error.to_string().contains("values"), "{error}");
}
