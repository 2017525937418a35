//! Tests that a tape returns the records that were written, and that a bad tape is reported with the record up to which it is
//! valid.

use pijs_protocol::artifact::EngineBuild;
use pijs_protocol::wire::{Limits, RealmOptions, StreamAnswer, Task};
use pijs_protocol::{
    CallId, Capability, Delivery, ErrorCode, Handle, HostCall, HostResult, Message, Now, Seq, StreamDelta,
    StreamSource, SyncReply, Termination, TimerId, Usage, Yield,
};
use pijs_tape::{
    Event, Opening, RealmNumber, Record, Summary, TapeError, TapeHeader, TapeIndex, TapeReader, TapeWriter,
};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{self, Cursor, Read, Seek, SeekFrom};

fn header() -> TapeHeader {
    let engine = EngineBuild {
        name: "quickjs-ng".to_owned(),
        version: "1".to_owned(),
        bytecode: 1,
        target: "x86_64-le-64".to_owned(),
    };
    TapeHeader { seed: u64::MAX, epoch_ms: 1, ..TapeHeader::new("0.1.0", engine, "sha256:00".to_owned()) }
}

const REALMS: [RealmNumber; 2] = [RealmNumber(1), RealmNumber(2)];

fn opened(realm: RealmNumber) -> [(RealmNumber, Event); 2] {
    let options = RealmOptions {
        extension: format!("npm:{}", realm.0).as_str().into(),
        limits: Limits::default(),
        seed: 7,
        clock_step_us: 1,
        time_zone: "UTC".to_owned(),
        facts: serde_json::Map::new(),
    };
    let opening = Opening { options, now: Now::default(), modules: Vec::new() };
    [(realm, Event::Open(Box::new(opening))), (realm, Event::Yield(Yield::default()))]
}

/// Returns a tape with these events, on which two realms are open.
fn write(events: &[(RealmNumber, Event)]) -> Vec<u8> {
    write_blocks(events, usize::MAX)
}

fn write_blocks(events: &[(RealmNumber, Event)], records: usize) -> Vec<u8> {
    let mut tape = TapeWriter::new(Vec::new(), &header()).expect("writing to memory cannot fail");
    let opened = REALMS.into_iter().flat_map(opened);
    for (index, (realm, event)) in opened.chain(events.iter().cloned()).enumerate() {
        tape.append(realm, event.as_ref().expect("a valid wire event")).expect("writing to memory cannot fail");
        if index % records == records - 1 {
            tape.flush().expect("writing to memory cannot fail");
        }
    }
    tape.finish().expect("writing to memory cannot fail")
}

/// Returns the records of a tape after the opening of its realms, without payloads and the end record.
fn read(bytes: &[u8]) -> Result<Vec<(RealmNumber, Event)>, TapeError> {
    let records: Vec<Record> = TapeReader::new(bytes)?.collect::<Result<_, _>>()?;
    let of_wire = |record: &Record| record.event.as_ref().is_some();
    Ok(records.into_iter().filter(of_wire).skip(4).map(|record| (record.realm, record.event)).collect())
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
    vec(prop_oneof![vec(any::<u8>(), 0..20), Just(vec![7; 3_000])], 0..3)
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
        (any::<u32>(), -1e300..1e300_f64).prop_map(|(timer, delay_ms)| timer_set(timer, delay_ms)),
    ]
}

fn timer_set(timer: u32, delay_ms: f64) -> Message {
    Message::TimerSet { timer: TimerId(timer), delay_ms, repeat: false }
}

fn delivery(seq: u64, now: Now, task: Task) -> Event {
    Event::Delivery(Box::new(Delivery { seq: Seq(seq), now, task, state: None }))
}

fn events() -> impl Strategy<Value = (RealmNumber, Event)> {
    let now = || (any::<u64>(), any::<u64>()).prop_map(|(epoch_ms, elapsed_us)| Now { epoch_ms, elapsed_us });
    let delta = |chunk| StreamDelta {
        attempt: 1,
        source: StreamSource::Text,
        stream: 0,
        chunk,
        tool_name: None,
        file_paths: Vec::new(),
    };
    let event = prop_oneof![
        (any::<u64>(), now(), messages()).prop_map(|(seq, now, message)| delivery(
            seq,
            now,
            Task::Message(Box::new(message))
        )),
        (any::<u64>(), now(), any::<String>()).prop_map(move |(seq, now, chunk)| delivery(
            seq,
            now,
            Task::Stream(delta(chunk))
        )),
        calls().prop_map(Event::Call),
        (results(), now()).prop_map(|(result, now)| Event::Reply(SyncReply { result, now, state: None })),
        (vec(messages(), 0..4), any::<u64>()).prop_map(|(messages, heap_bytes)| Event::Yield(Yield {
            messages,
            stream: StreamAnswer::Late { handler: Handle(1) },
            usage: Usage { heap_bytes, ..Usage::default() }
        })),
        Just(Event::Termination(Termination::Timeout { quota: "fuel".to_owned() })),
    ];
    (prop::sample::select(REALMS.to_vec()), event)
}

proptest! {
    #[test]
    fn a_tape_gives_back_what_was_written(events in vec(events(), 0..12), records in 1..4_usize) {
        let bytes = write_blocks(&events, records);
        let reader = TapeReader::new(bytes.as_slice()).expect("a tape");
        prop_assert_eq!(reader.header(), &header());
        prop_assert_eq!(&read(&bytes).expect("a tape"), &events);
        prop_assert_eq!(write_blocks(&events, records), bytes, "the same records are the same bytes");
    }

    #[test]
    fn a_flipped_byte_is_an_error(events in vec(events(), 1..6), at in any::<prop::sample::Index>(), bit in 0..8_u8) {
        let mut bytes = write_blocks(&events, 2);
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        prop_assert!(read(&bytes).is_err());
    }
}

/// Returns a tape of ten records, several with attachments, in blocks of two.
fn small() -> Vec<u8> {
    let result = HostResult::ok_with_bytes(CallId::from("host-1"), json!({ "$bytes": 0 }), vec![vec![1; 2_000]]);
    let message = |message| Task::Message(Box::new(message));
    let events = [
        delivery(1, Now::default(), message(Message::TimerFired { timer: TimerId(1) })),
        Event::Yield(Yield { messages: vec![timer_set(2, 5.0)], ..Yield::default() }),
        delivery(2, Now::default(), message(Message::HostResult(result))),
        Event::Yield(Yield::default()),
    ];
    write_blocks(&events.map(|event| (REALMS[0], event)), 2)
}

#[test]
fn a_truncated_tape_is_valid_up_to_its_last_complete_block() {
    let bytes = small();
    let whole: Vec<Record> = TapeReader::new(bytes.as_slice()).expect("a tape").map(Result::unwrap).collect();
    let mut most = 0;
    for cut in 0..bytes.len() {
        let mut tape = match TapeReader::new(&bytes[..cut]) {
            Ok(tape) => tape,
            Err(error) => {
                assert_eq!(error.record(), 1, "{error}");
                continue;
            }
        };
        let mut read = 0;
        for record in tape.by_ref() {
            match record {
                Ok(record) => assert_eq!(record, whole[read], "cut at {cut}"),
                Err(error) => {
                    assert!(error.is_cut(), "cut at {cut}: {error}");
                    assert_eq!((error.code(), error.record()), (ErrorCode::Io, read as u64 + 2));
                    break;
                }
            }
            read += 1;
        }
        // After the end of the recording there is only the index.
        let is_complete = read == whole.len();
        assert_eq!(tape.is_complete(), is_complete, "cut at {cut}");
        assert!(read >= most);
        most = read;
        let summary =
            Summary::of(&mut TapeReader::new(&bytes[..cut]).expect("a tape")).expect("the readable part is counted");
        assert_eq!((summary.records, summary.complete), (read as u64 + 1, is_complete));
    }
    assert!(most >= 8, "{most}");
}

#[test]
fn invalid_tapes_are_rejected_with_the_record() {
    let error = |bytes: &[u8]| TapeReader::new(bytes).expect_err("no tape");
    for foreign in [&b""[..], b"{}", b"PIJSXART", &[0; 500]] {
        assert_eq!(error(foreign).to_string(), "this is not a tape");
        assert_eq!(error(foreign).code(), ErrorCode::InvalidRequest);
    }
    let mut later = small();
    later[16] = 2;
    assert!(error(&later).to_string().contains("version of its container is 2, expected 1"), "{}", error(&later));
    let header = TapeHeader { protocol: "2.0".to_owned(), ..header() };
    let other =
        TapeWriter::new(Vec::new(), &header).and_then(TapeWriter::finish).expect("writing to memory cannot fail");
    assert!(error(&other).to_string().contains("protocol is \"2.0\""), "{}", error(&other));
}

#[test]
fn a_missing_or_moved_block_is_detected() {
    let bytes = small();
    let starts: Vec<usize> =
        (0..bytes.len() - 16).filter(|at| &bytes[at + 8..at + 16] == b"PIJSTAPE").chain([bytes.len()]).collect();
    let blocks: Vec<&[u8]> = starts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
    assert!(blocks.len() > 4, "{}", blocks.len());
    for missing in 1..blocks.len() - 1 {
        let rest: Vec<u8> =
            blocks.iter().enumerate().filter(|(at, _)| *at != missing).flat_map(|(_, b)| *b).copied().collect();
        let error = read(&rest).expect_err("a block is missing");
        assert_eq!(error.code(), ErrorCode::InvalidRequest, "{error}");
    }
}

#[test]
fn a_delay_that_json_cannot_represent_is_written_as_the_loop_treats_it() {
    let turn = |delay_ms| {
        let done = Yield { messages: vec![timer_set(1, delay_ms)], ..Yield::default() };
        vec![(REALMS[0], Event::Yield(done))]
    };
    for odd in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
        assert_eq!(read(&write(&turn(odd))).expect("a tape"), turn(1.0));
    }
}

#[test]
fn equal_payloads_are_on_a_tape_once() {
    let reply = |byte: u8| {
        let bytes: Vec<u8> = (0..50_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8 ^ byte).collect();
        let result = HostResult::ok_with_bytes(CallId::from("host-1"), json!({ "$bytes": 0 }), vec![bytes]);
        (REALMS[0], Event::Reply(SyncReply { result, now: Now::default(), state: None }))
    };
    let (one, ten) = (write_blocks(&[reply(0)], 1), write_blocks(&vec![reply(0); 10], 1));
    assert!(ten.len() < one.len() + 9_000, "{} and {}", one.len(), ten.len());
    assert_eq!(read(&ten).expect("a tape").len(), 10);
}

#[test]
fn a_record_may_be_as_deep_as_a_host_message_and_no_deeper() {
    let call = |levels: usize| {
        let deep = (0..levels).fold(json!(1), |value, _| json!({ "x": value }));
        let call = HostCall {
            call_id: CallId::from("host-1"),
            capability: Capability::new("read"),
            method: "fs".into(),
            params: [("value".to_owned(), deep)].into_iter().collect(),
            timeout_ms: None,
            cancel_token: None,
            context: None,
            bytes: Vec::new(),
        };
        (REALMS[0], Event::Call(call))
    };
    assert_eq!(read(&write(&[call(250)])).expect("a tape"), [call(250)]);
    let error = read(&write(&[call(300)])).expect_err("the record is nested too deeply");
    assert!(error.to_string().contains("levels deep") && error.code() == ErrorCode::InvalidRequest, "{error}");
}

/// A reader that counts the bytes that are read.
struct Counted<'a> {
    bytes: Cursor<&'a [u8]>,
    read: u64,
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.bytes.read(buffer)?;
        self.read += read as u64;
        Ok(read)
    }
}

impl Seek for Counted<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.bytes.seek(to)
    }
}

/// Returns a tape with turns of one realm, the end of that realm, then a turn of the other realm.
fn long() -> Vec<u8> {
    let mut events = Vec::new();
    for seq in 1..400_u32 {
        let letter = |at: u32| char::from(b'a' + (at.wrapping_mul(seq).wrapping_mul(2_654_435_761) >> 9) as u8 % 23);
        let noise: String = (0..200).map(letter).collect();
        let call = HostCall { call_id: CallId::new(noise), ..call() };
        events.push((REALMS[0], delivery(seq.into(), Now::default(), Task::Message(Box::new(timer_set(1, 1.0))))));
        events.push((REALMS[0], Event::Call(call)));
        events.push((REALMS[0], Event::Yield(Yield::default())));
    }
    events.push((REALMS[0], Event::Termination(Termination::Timeout { quota: "fuel".to_owned() })));
    events.push((REALMS[1], delivery(1, Now::default(), Task::Message(Box::new(timer_set(1, 1.0))))));
    events.push((REALMS[1], Event::Yield(Yield::default())));
    write_blocks(&events, 10)
}

fn call() -> HostCall {
    HostCall {
        call_id: CallId::from("host-1"),
        capability: Capability::new("read"),
        method: "fs".into(),
        params: serde_json::Map::new(),
        timeout_ms: None,
        cancel_token: None,
        context: None,
        bytes: Vec::new(),
    }
}

#[test]
fn an_index_skips_the_turns_of_unwanted_realms() {
    let bytes = long();
    let index = TapeIndex::of(&mut Cursor::new(&bytes)).expect("an index").expect("there");
    assert_eq!(index.ended_before(401), BTreeSet::new(), "two realms were opened, so its end is in tick 401");
    let ended = index.ended_before(402);
    assert_eq!(ended, BTreeSet::from([REALMS[0]]));

    let all: Vec<Record> =
        TapeReader::new(bytes.as_slice()).expect("a tape").map(|record| record.expect("good")).collect();
    let mut counted = Counted { bytes: Cursor::new(&bytes), read: 0 };
    let mut tape = TapeReader::new(&mut counted).expect("a tape").without(&index, ended);
    let some: Vec<Record> = tape.by_ref().map(|record| record.expect("good")).collect();
    assert!(tape.is_complete());
    assert_eq!(tape.number(), all.len() as u64 + 1, "records keep their numbers");
    let of_other =
        |records: &[Record]| records.iter().filter(|record| record.realm == REALMS[1]).cloned().collect::<Vec<_>>();
    assert_eq!(of_other(&some), of_other(&all));
    drop(tape);
    assert!(counted.read < bytes.len() as u64 / 4, "{} of {} bytes were read", counted.read, bytes.len());
}

#[test]
fn a_truncated_tape_has_no_index_and_a_damaged_one_is_rejected() {
    let bytes = small();
    let of = |bytes: &[u8]| TapeIndex::of(&mut Cursor::new(bytes));
    assert!(of(&bytes).expect("good").is_some());
    for cut in 0..bytes.len() {
        assert_eq!(of(&bytes[..cut]).expect("none"), None, "cut at {cut}");
    }
    let mut damaged = bytes.clone();
    let at = bytes.windows(8).position(|window| window == b"PIJSINDX").expect("an index") + 20;
    damaged[at] ^= 1;
    let error = of(&damaged).expect_err("damaged");
    assert_eq!(error.code(), ErrorCode::InvalidRequest, "{error}");
}
