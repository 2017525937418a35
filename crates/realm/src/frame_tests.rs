//! Tests that frames survive a round trip and that other bytes are rejected.

use super::*;
use pijs_protocol::wire::{EntriesDelta, Json, Limits, MESSAGE_BYTES, MESSAGE_VALUES, Size, StateDelta};
use pijs_protocol::{CallId, Capability, ExtensionId, HostResult, TimerId};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Map, json};
use std::collections::BTreeMap;

fn frame(encode: impl FnOnce(&mut Vec<u8>) -> Result<(), FrameError>) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut out).expect("it fits");
    assert_eq!(frame_length(&out), Ok(Some(out.len() - PREFIX)), "the prefix says how long it is");
    out.split_off(PREFIX)
}

fn there(message: ToWorker) {
    let bytes = frame(|out| message.clone().encode(out));
    assert_eq!(ToWorker::decode(&bytes), Ok(message));
}

fn back(message: FromWorker) {
    let bytes = frame(|out| message.clone().encode(out));
    assert_eq!(FromWorker::decode(&bytes), Ok(message));
}

fn call(bytes: Vec<Vec<u8>>) -> HostCall {
    HostCall {
        call_id: CallId::from("host-1"),
        capability: Capability::new("write"),
        method: "fs".into(),
        params: Map::from_iter([("data".to_owned(), json!({"$bytes": 0}))]),
        timeout_ms: Some(3),
        cancel_token: None,
        context: None,
        bytes,
    }
}

fn result(bytes: Vec<Vec<u8>>) -> HostResult {
    HostResult::ok_with_bytes(CallId::from("host-1"), json!({"$bytes": 0}), bytes)
}

fn deliver(message: Message) -> ToWorker {
    let task = Task::Message(Box::new(message));
    ToWorker::Deliver(Box::new(Delivery { seq: Seq(7), now: Now::default(), task, state: None }))
}

#[test]
fn every_message_arrives_as_it_was_sent() {
    let options = RealmOptions {
        extension: ExtensionId::from("npm:x"),
        limits: Limits::default(),
        seed: u64::MAX,
        clock_step_us: 1,
        time_zone: "UTC".to_owned(),
        facts: Map::new(),
    };
    let code = ArtifactCode {
        name: "x".to_owned(),
        version: "1.0.0".to_owned(),
        specifiers: vec!["a".to_owned(), "b".to_owned()],
        shared: None,
        bytecode: vec![vec![1, 2, 3], Vec::new()],
    };
    let shared = ArtifactCode {
        shared: Some(SharedBytecode { file: 1, lengths: vec![70_000, 0] }),
        bytecode: Vec::new(),
        ..code.clone()
    };
    there(ToWorker::Open(Box::new(Open { options, now: Now::default(), artifacts: vec![shared, code] })));
    let piece = |source, chunk: &str, tool: Option<&str>| StreamDelta {
        attempt: 3,
        source,
        stream: 1,
        chunk: chunk.to_owned(),
        tool_name: tool.map(str::to_owned),
        file_paths: tool.into_iter().map(str::to_owned).collect(),
    };
    there(ToWorker::Deltas {
        seq: Seq(8),
        now: Now { epoch_ms: 1, elapsed_us: 2 },
        slice_us: u64::MAX,
        deltas: vec![piece(StreamSource::Text, "ü", None), piece(StreamSource::Tool, "", Some("write"))],
    });
    there(deliver(Message::TimerFired { timer: TimerId(3) }));
    there(deliver(Message::HostResult(result(vec![vec![0; 70_000], vec![255]]))));
    there(ToWorker::Reply(Box::new(SyncReply {
        result: result(vec![b"x".to_vec()]),
        now: Now::default(),
        state: None,
    })));
    let entries = EntriesDelta { keep: 2, append: vec![json!({"id": "ü"}).into(), json!([]).into()] };
    let set =
        BTreeMap::from([("isIdle".to_owned(), json!(true).into()), ("model".to_owned(), json!({"id": "ü"}).into())]);
    let state = StateDelta { version: 9, set, entries: Some(entries) };
    let task = Task::Message(Box::new(Message::HostResult(result(vec![vec![7]]))));
    there(ToWorker::State(Box::new(state.clone())));
    let state = Some(state);
    there(ToWorker::Deliver(Box::new(Delivery { seq: Seq(7), now: Now::default(), task, state: state.clone() })));
    there(ToWorker::Reply(Box::new(SyncReply { result: result(vec![vec![7]]), now: Now::default(), state })));
    let usage = Usage { jobs: 1, fuel: 2, clock_reads: 3, random_draws: 4, heap_bytes: 5 };
    back(FromWorker::Passed(Passed { usage, count: 256, goes_on: true }));
    back(FromWorker::Hello { wire: WIRE_VERSION });
    back(FromWorker::Failed { message: "no".to_owned() });
    back(FromWorker::Call(call(vec![vec![0, 159, 146, 150]])));
    back(FromWorker::Ended(Termination::OutOfMemory));
    back(FromWorker::Ended(Termination::Timeout { quota: "fuel".to_owned() }));
}

#[test]
fn attachments_return_to_the_message_they_came_with() {
    let messages = vec![
        Message::HostCall(call(vec![b"one".to_vec()])),
        Message::TimerClear { timer: TimerId(1) },
        Message::HostCall(call(Vec::new())),
        Message::HostCall(call(vec![b"two".to_vec(), b"three".to_vec()])),
    ];
    back(FromWorker::Yielded(Yield { messages, ..Yield::default() }));
}

/// State texts are transferred unparsed, at any depth and with any number of values.
#[test]
fn the_state_is_not_parsed_on_the_way() {
    let long = Json::from(json!({ "many": vec![0; MAX_VALUES + 1] }));
    let entries = EntriesDelta { keep: 0, append: vec![long.clone()] };
    let state = StateDelta { version: 1, set: BTreeMap::from([("tools".to_owned(), long)]), entries: Some(entries) };
    let task = Task::Message(Box::new(Message::TimerFired { timer: TimerId(3) }));
    there(ToWorker::Deliver(Box::new(Delivery { seq: Seq(7), now: Now::default(), task, state: Some(state) })));
}

/// Each part of a long state delta fits into a frame, and the joined parts equal the original.
#[test]
fn a_long_change_of_the_state_comes_in_parts() {
    let text = |bytes: usize| Json::from(json!("y".repeat(bytes - 2)));
    let change = |members: &[usize], entries: Option<(usize, &[usize])>| StateDelta {
        version: 7,
        set: members.iter().enumerate().map(|(at, bytes)| (format!("m{at}"), text(*bytes))).collect(),
        entries: entries.map(|(keep, list)| EntriesDelta { keep, append: list.iter().map(|b| text(*b)).collect() }),
    };
    let most = STATE_BYTES;
    for (whole, frames) in [
        (change(&[most / 2, 10], Some((3, &[most / 4]))), 1),
        (change(&[most, 10], None), 2),
        (change(&[most, most], Some((5, &[]))), 2),
        (change(&[10], Some((0, &[most / 2, most / 2, most, 3]))), 4),
        (change(&[], Some((2, &[most / 2; 7]))), 4),
    ] {
        let reply = SyncReply { result: result(Vec::new()), now: Now::default(), state: Some(whole.clone()) };
        let mut bytes = Vec::new();
        ToWorker::Reply(Box::new(reply.clone())).encode(&mut bytes).expect("it fits");
        let (mut rest, mut count, mut joint) = (bytes.as_slice(), 0, StateDelta::default());
        let answered = loop {
            let length = frame_length(rest).expect("a frame").expect("whole");
            let (frame, after) = rest[PREFIX..].split_at(length);
            (rest, count) = (after, count + 1);
            assert!(length <= 2 * STATE_BYTES + 1000, "{length}");
            match ToWorker::decode(frame).expect("it was encoded") {
                ToWorker::State(part) => joint = state::joined(joint, *part),
                ToWorker::Reply(reply) => break reply,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!((rest.len(), count), (0, frames));
        assert_eq!(state::joined(joint, answered.state.clone().expect("the last part")), whole);
        assert_eq!((answered.result, answered.now), (reply.result, reply.now));
    }
}

#[test]
fn a_change_of_the_state_with_other_texts_than_members_is_refused() {
    let state = StateDelta { version: 1, set: BTreeMap::from([("a".to_owned(), json!(1).into())]), entries: None };
    let whole = frame(|out| ToWorker::State(Box::new(state)).encode(out));
    let one_member = whole.len() - 4 - 1 - 4 - 4;
    for (at, count) in [(one_member, 0), (one_member, 2), (whole.len() - 4, 1)] {
        let mut other = whole.clone();
        other[at] = count;
        assert!(ToWorker::decode(&other).is_err(), "{count} at {at}");
    }
}

/// The message limit leaves room for a state part in the same frame.
#[test]
fn a_message_with_a_part_of_the_state_beside_it_fits() {
    const { assert!(MESSAGE_BYTES + STATE_BYTES < MAX_FRAME && MESSAGE_VALUES + 10_000 < MAX_VALUES) };
    let output = json!([vec![0; MESSAGE_VALUES - 3], "\u{1}".repeat(1000)]);
    assert!(!Size::of(&output).is_too_large());
    let many = HostResult::ok("c".into(), output);
    there(ToWorker::Reply(Box::new(SyncReply { result: many, now: Now::default(), state: None })));
}

#[test]
fn an_empty_yield_is_short() {
    let usage = Usage { jobs: 1, fuel: u64::MAX, clock_reads: 2, random_draws: 3, heap_bytes: 4 };
    let message = FromWorker::Yielded(Yield { usage, ..Yield::default() });
    assert_eq!(frame(|out| message.clone().encode(out)).len(), 29);
    back(message);
}

#[test]
fn a_length_past_the_limit_is_refused_before_the_content_arrives() {
    assert_eq!(frame_length(&[0xff; 4]), Err(FrameError::TooLarge { bytes: u32::MAX as usize }));
    assert_eq!(frame_length(&[1, 0, 0]), Ok(None));
}

#[test]
fn a_message_past_the_limit_leaves_nothing_in_the_buffer() {
    let mut out = vec![1];
    let huge = FromWorker::Call(call(vec![vec![0; MAX_FRAME]]));
    assert!(matches!(huge.encode(&mut out), Err(FrameError::TooLarge { .. })));
    assert_eq!(out, [1]);
}

#[test]
fn truncated_and_extended_frames_are_refused() {
    let bytes = frame(|out| deliver(Message::HostResult(result(vec![b"abc".to_vec()]))).encode(out));
    for end in 0..bytes.len() {
        assert!(ToWorker::decode(&bytes[..end]).is_err(), "cut at {end}");
    }
    let mut longer = bytes;
    longer.push(0);
    assert_eq!(ToWorker::decode(&longer), Err(FrameError::Trailing { bytes: 1 }));
}

#[test]
fn each_direction_refuses_the_frames_of_the_other() {
    let bytes = frame(|out| FromWorker::Yielded(Yield::default()).encode(out));
    assert_eq!(ToWorker::decode(&bytes), Err(FrameError::Kind(CONTINUE)));
    let bytes = frame(|out| FromWorker::Hello { wire: 1 }.encode(out));
    assert!(matches!(ToWorker::decode(&bytes), Err(FrameError::Head(_))));
}

#[test]
fn a_wrong_count_is_refused_without_allocating_for_it() {
    let mut bytes = vec![MESSAGE];
    let head = br#"{"call":{"call_id":"host-1","capability":"read","method":"fs","params":{}}}"#;
    bytes.extend_from_slice(&u32::try_from(head.len()).expect("short").to_le_bytes());
    bytes.extend_from_slice(head);
    bytes.extend_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(FromWorker::decode(&bytes), Err(FrameError::Truncated));
}

proptest! {
    #[test]
    fn any_delta_arrives_as_it_was_sent(
        seq: u64, epoch_ms: u64, elapsed_us: u64, attempt: u32, stream: u32, source in 0..3usize,
        chunk: String, tool_name: Option<String>, file_paths in vec(any::<String>(), 0..4),
    ) {
        let source = [StreamSource::Text, StreamSource::Thinking, StreamSource::Tool][source];
        let delta = StreamDelta { attempt, source, stream, chunk, tool_name, file_paths };
        there(ToWorker::Delta { seq: Seq(seq), now: Now { epoch_ms, elapsed_us }, delta });
    }

    #[test]
    fn any_bytes_decode_without_a_panic(bytes in vec(any::<u8>(), 0..200), kind in 0..4usize) {
        let mut bytes = bytes;
        if let (Some(first), Some(kind)) = (bytes.first_mut(), [MESSAGE, DELTA, CONTINUE].get(kind)) {
            *first = *kind;
        }
        let _ = ToWorker::decode(&bytes);
        let _ = FromWorker::decode(&bytes);
        let _ = frame_length(&bytes);
    }

    #[test]
    fn a_changed_byte_never_panics(at: prop::sample::Index, byte: u8) {
        let mut bytes = frame(|out| FromWorker::Call(call(vec![b"abc".to_vec()])).encode(out));
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = FromWorker::decode(&bytes);
    }
}

#[test]
fn a_wrong_count_of_deltas_takes_no_memory() {
    let mut bytes = frame(|out| encode_deltas(Seq(1), Now::default(), 0, &[], out));
    assert!(matches!(ToWorker::decode(&bytes), Err(FrameError::Head(_))), "none at all");
    let at = bytes.len() - 4;
    bytes[at..].fill(0xff);
    assert_eq!(ToWorker::decode(&bytes), Err(FrameError::Truncated));
}
