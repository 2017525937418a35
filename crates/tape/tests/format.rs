//! A tape gives back what was written, says what is wrong with a bad one, and names the first divergence.

use pijs_protocol::artifact::EngineBuild;
use pijs_protocol::wire::{StreamAnswer, Task};
use pijs_protocol::{
    CallId, Capability, Delivery, ExtensionId, Handle, HostCall, HostResult, Message, Now, Seq, StreamDelta,
    StreamSource, SyncReply, Termination, TimerId, Usage, Yield,
};
use pijs_tick::tape::{Drift, Event, Record, TapeError, TapeHeader, TapeReader, TapeWriter, compare};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

fn header() -> TapeHeader {
    TapeHeader {
        schema: "pi.ext.tape.v1".to_owned(),
        protocol: "1.0".to_owned(),
        engine: EngineBuild {
            name: "quickjs-ng".to_owned(),
            version: "1".to_owned(),
            bytecode: 1,
            target: "x86_64-le-64".to_owned(),
        },
        artifacts: [("npm:a".to_owned(), "sha256:00".to_owned())].into(),
        seed: u64::MAX,
        epoch_ms: 1,
        clock_step_us: 1,
        time_zone: "UTC".to_owned(),
    }
}

fn write(records: &[Record]) -> Vec<u8> {
    let mut tape = TapeWriter::new(Vec::new(), &header()).expect("memory takes everything");
    for Record { realm, event } in records {
        tape.append(realm, event.as_ref()).expect("memory takes everything");
    }
    tape.into_inner()
}

fn read(bytes: &[u8]) -> Result<Vec<Record>, TapeError> {
    TapeReader::new(bytes)?.collect()
}

fn json_values() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from), // not finite: null
        any::<String>().prop_map(Value::from),
        vec(any::<String>(), 0..3).prop_map(Value::from),
    ]
}

fn attachments() -> impl Strategy<Value = Vec<Vec<u8>>> {
    vec(vec(any::<u8>(), 0..20), 0..3)
}

prop_compose! {
    fn calls()(call in 0..9_u32, params in json_values(), bytes in attachments()) -> HostCall {
        HostCall {
            call_id: CallId::new(format!("host-{call}")),
            capability: Capability::new("read"),
            method: "fs".into(),
            params: [("value".to_owned(), params)].into_iter().collect(),
            timeout_ms: None,
            cancel_token: None,
            context: None,
            bytes,
        }
    }
}

fn results() -> impl Strategy<Value = HostResult> {
    (0..9_u32, json_values(), attachments())
        .prop_map(|(call, output, bytes)| HostResult::ok_with_bytes(CallId::new(format!("host-{call}")), output, bytes))
}

fn messages() -> impl Strategy<Value = Message> {
    prop_oneof![
        calls().prop_map(Message::HostCall),
        results().prop_map(Message::HostResult),
        (any::<u32>(), -1e300..1e300_f64).prop_map(|(timer, delay_ms)| Message::TimerSet {
            timer: TimerId(timer),
            delay_ms,
            repeat: false
        }),
    ]
}

fn records() -> impl Strategy<Value = Record> {
    let now = || (any::<u64>(), any::<u64>()).prop_map(|(epoch_ms, elapsed_us)| Now { epoch_ms, elapsed_us });
    let event = prop_oneof![
        (any::<u64>(), now(), messages()).prop_map(|(seq, now, message)| Event::Delivery(Box::new(Delivery {
            seq: Seq(seq),
            now,
            task: Task::Message(Box::new(message)),
            state: None
        }))),
        (any::<u64>(), now(), any::<String>()).prop_map(|(seq, now, chunk)| Event::Delivery(Box::new(Delivery {
            seq: Seq(seq),
            now,
            task: Task::Stream(StreamDelta {
                attempt: 1,
                source: StreamSource::Text,
                stream: 0,
                chunk,
                tool_name: None,
                file_paths: Vec::new()
            }),
            state: None
        }))),
        calls().prop_map(Event::Call),
        (results(), now()).prop_map(|(result, now)| Event::Reply(SyncReply { result, now, state: None })),
        (vec(messages(), 0..4), any::<u64>()).prop_map(|(messages, heap_bytes)| Event::Yield(Yield {
            messages,
            stream: StreamAnswer::Late { handler: Handle(1) },
            usage: Usage { heap_bytes, ..Usage::default() }
        })),
        Just(Event::Termination(Termination::Timeout { quota: "fuel".to_owned() })),
    ];
    (prop::sample::select(vec!["npm:a", "npm:b"]), event)
        .prop_map(|(realm, event)| Record { realm: ExtensionId::from(realm), event })
}

proptest! {
    #[test]
    fn a_tape_gives_back_what_was_written(records in vec(records(), 0..12)) {
        let bytes = write(&records);
        let reader = TapeReader::new(bytes.as_slice()).expect("a tape");
        prop_assert_eq!(reader.header(), &header());
        prop_assert_eq!(&read(&bytes).expect("a tape"), &records);
        prop_assert_eq!(write(&records), bytes, "the same records are the same bytes");
    }

    #[test]
    fn equal_runs_have_no_drift_and_a_changed_one_has(
        records in vec(records(), 1..12),
        other in records(),
        at in any::<prop::sample::Index>(),
    ) {
        prop_assert_eq!(differ(&records, &records), None);
        let at = at.index(records.len());
        prop_assume!(without_heap(&records[at]) != without_heap(&other));
        let mut changed = records.clone();
        changed[at] = other;
        let drift = differ(&records, &changed).expect("one record differs");
        prop_assert_ne!(&drift.expected, &drift.actual);
        let tick = records[..=at].iter().rev().find_map(|record| match &record.event {
            Event::Delivery(delivery) if record.realm == records[at].realm => Some(delivery.seq),
            _ => None,
        });
        prop_assert_eq!((&drift.realm, drift.tick), (&records[at].realm, tick.unwrap_or_default()));
    }

    #[test]
    fn a_tape_that_was_cut_off_keeps_its_whole_records(records in vec(records(), 1..6), cut in 1..400_usize) {
        let bytes = write(&records);
        let first_line = bytes.iter().position(|byte| *byte == b'\n').expect("a header line") + 1;
        let kept = &bytes[..first_line.max(bytes.len().saturating_sub(cut))];
        let mut whole = 0;
        for read in TapeReader::new(kept).expect("the header is whole") {
            match read {
                Ok(record) => prop_assert_eq!(&record, &records[whole]),
                Err(error) => {
                    prop_assert!(matches!(error, TapeError::Truncated { line } if line == whole + 2), "{}", error);
                    break;
                }
            }
            whole += 1;
        }
        prop_assert_eq!(whole, kept[first_line..].iter().filter(|byte| **byte == b'\n').count());
    }
}

fn without_heap(record: &Record) -> Record {
    let mut record = record.clone();
    if let Event::Yield(output) = &mut record.event {
        output.usage.heap_bytes = 0;
    }
    record
}

fn differ(expected: &[Record], actual: &[Record]) -> Option<Drift> {
    compare(expected.iter().cloned().map(Ok), actual.iter().cloned().map(Ok)).expect("nothing is read")
}

fn turn(seq: u64, messages: Vec<Message>) -> [Record; 2] {
    let record = |event| Record { realm: ExtensionId::from("npm:a"), event };
    [
        record(Event::Delivery(Box::new(Delivery {
            seq: Seq(seq),
            now: Now::default(),
            task: Task::Message(Box::new(Message::TimerFired { timer: TimerId(1) })),
            state: None,
        }))),
        record(Event::Yield(Yield { messages, ..Yield::default() })),
    ]
}

fn timer(delay_ms: f64) -> Message {
    Message::TimerSet { timer: TimerId(1), delay_ms, repeat: false }
}

#[test]
fn the_first_divergence_is_named() {
    let expected = [turn(1, vec![]), turn(4, vec![timer(5.0), timer(6.0)])].concat();
    let actual = [turn(1, vec![]), turn(4, vec![timer(5.0), timer(7.0)])].concat();
    let drift = differ(&expected, &actual).expect("a delay differs");
    assert_eq!((drift.tick, drift.what.as_str()), (Seq(4), "yield /messages/1/payload/delay_ms"));
    assert_eq!((&drift.expected, &drift.actual), (&json!(6.0), &json!(7.0)));
    assert_eq!(drift.to_string(), "npm:a, tick 4: yield /messages/1/payload/delay_ms is 7.0, recorded was 6.0");

    let shorter = differ(&expected, &actual[..2]).expect("two records are missing");
    assert_eq!((shorter.tick, shorter.what.as_str(), shorter.actual), (Seq(4), "end of the run", Value::Null));
}

#[test]
fn how_much_an_allocator_took_is_no_divergence() {
    let expected = turn(1, vec![]);
    let mut actual = expected.clone();
    let Event::Yield(output) = &mut actual[1].event else { panic!("a turn ends in a yield") };
    output.usage.heap_bytes = 4_096;
    assert_eq!(differ(&expected, &actual), None);
    let Event::Yield(output) = &mut actual[1].event else { panic!("a turn ends in a yield") };
    output.usage.jobs = 1;
    assert_eq!(differ(&expected, &actual).expect("jobs count").what, "yield /usage/jobs");
}

#[test]
fn an_attachment_that_differs_by_a_byte_is_a_divergence() {
    let reply = |byte| Record {
        realm: ExtensionId::from("npm:a"),
        event: Event::Reply(SyncReply {
            result: HostResult::ok_with_bytes(CallId::from("host-1"), json!({ "$bytes": 0 }), vec![vec![byte]]),
            now: Now::default(),
            state: None,
        }),
    };
    let drift = differ(&[reply(0)], &[reply(1)]).expect("a byte differs");
    assert_eq!(drift.what, "reply /$attachments/0/0");
}

#[test]
fn a_delay_that_json_cannot_hold_is_written_as_what_the_loop_makes_of_it() {
    for odd in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
        let written = turn(1, vec![timer(odd)]);
        assert_eq!(read(&write(&written)).expect("a tape"), turn(1, vec![timer(1.0)]));
    }
}

#[test]
fn what_is_no_tape_is_refused_with_the_place() {
    let good = String::from_utf8(write(&turn(1, vec![]))).expect("JSON is UTF-8");
    let error = |text: &str| read(text.as_bytes()).expect_err("no tape").to_string();
    assert!(error("").contains("empty"));
    assert!(error("{}\n").contains("schema is \"\""), "{}", error("{}\n"));
    let later = good.replacen("pi.ext.tape.v1", "pi.ext.tape.v2", 1);
    assert!(error(&later).contains("pi.ext.tape.v2"), "{}", error(&later));
    let later = good.replacen("\"protocol\":\"1.0\"", "\"protocol\":\"2.0\"", 1);
    assert!(error(&later).contains("protocol is \"2.0\""), "{}", error(&later));
    let odd = good.replacen("\"kind\":\"yield\"", "\"kind\":\"shrug\"", 1);
    assert!(error(&odd).starts_with("tape line 3 "), "{}", error(&odd));
    let odd = good.replacen("\"kind\":\"delivery\"", "\"bytes\":[[]],\"kind\":\"delivery\"", 1);
    assert!(error(&odd).starts_with("tape line 2: attachments"), "{}", error(&odd));
}
