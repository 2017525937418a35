//! Tests that deltas sent in one frame behave like deltas sent separately.

use crate::support::{NoHost, delta};
use crate::{ReversingHost, emitted, open, open_with, run, short_deadlines, timeout, unlimited_fuel};
use pijs_protocol::wire::StreamAnswer;
use pijs_protocol::{Message, Now, Seq, StreamDelta, Termination, Usage, Yield};
use pijs_realm::frame::{FromWorker, Passed};
use pijs_realm::{Patience, ProcessRealm, Progress, Realm, Streamed, SyncHost};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::time::Duration;

pub(crate) const TESTS: &[(&str, fn())] = &[
    ("batches::passed_deltas_cross_in_few_frames", passed_deltas_cross_in_few_frames),
    ("batches::the_first_abort_ends_it", the_first_abort_ends_it),
    ("batches::the_messages_of_a_delta_wait_for_its_turn", the_messages_of_a_delta_wait_for_its_turn),
    ("batches::a_hostcall_waits_for_its_turn", a_hostcall_waits_for_its_turn),
    ("batches::the_first_one_is_answered_as_ever", the_first_one_is_answered_as_ever),
    ("batches::each_has_its_own_fuel", each_has_its_own_fuel),
    ("batches::an_endless_delta_is_killed", an_endless_delta_is_killed),
    ("batches::a_slice_that_is_over_begins_no_other_turn", a_slice_that_is_over_begins_no_other_turn),
    ("batches::a_worker_that_dies_meanwhile_ends_the_realm", a_worker_that_dies_meanwhile_ends_the_realm),
    (
        "batches::an_impossible_count_of_passed_deltas_ends_the_realm",
        an_impossible_count_of_passed_deltas_ends_the_realm,
    ),
];

/// Too long to be reached even on a busy machine.
const SLICE: Duration = Duration::from_secs(3600);

fn deltas(chunks: &[&str]) -> Vec<StreamDelta> {
    chunks.iter().map(|chunk| delta(chunk)).collect()
}

fn try_ahead(realm: &mut ProcessRealm, chunks: &[&str], host: &mut dyn SyncHost) -> Result<Streamed, Termination> {
    realm.stream_ahead(Seq(1), Now::default(), &deltas(chunks), SLICE, host)
}

#[track_caller]
fn ahead(realm: &mut ProcessRealm, chunks: &[&str], host: &mut dyn SyncHost) -> Streamed {
    try_ahead(realm, chunks, host).expect("the realm is running")
}

/// Opens a realm that accepts several deltas per frame, because one has passed.
fn ready() -> ProcessRealm {
    warm(open())
}

fn warm(mut realm: ProcessRealm) -> ProcessRealm {
    assert_eq!(realm.lookahead(), 0, "nothing is known of its handlers");
    realm.stream(Seq(1), Now::default(), &delta("0"), &mut NoHost).expect("the realm is running");
    assert!(realm.lookahead() >= 3);
    realm
}

/// Finishes the running turn.
fn rest(realm: &mut ProcessRealm, host: &mut dyn SyncHost) -> Progress {
    let mut progress = realm.resume(host, Patience::Poll);
    // Bounded by the realm's deadline.
    while progress == Progress::Running {
        progress = realm.resume(host, Patience::AtMost(Duration::from_millis(50)));
    }
    progress
}

fn heard(realm: &mut ProcessRealm) -> Value {
    emitted(run(realm, 9, "heard", Value::Null, &mut NoHost))
}

fn passed_deltas_cross_in_few_frames() {
    let mut realm = open();
    let before = realm.frames();
    let reply = vec!["8 bytes "; 4096];
    let mut left = reply.as_slice();
    while !left.is_empty() {
        let Streamed { done, passed, goes_on } = ahead(&mut realm, left, &mut NoHost);
        assert!(done.stream == StreamAnswer::Continue && done.messages.is_empty() && !goes_on, "{done:?}");
        left = &left[1 + passed..];
    }
    let after = realm.frames();
    assert_eq!(heard(&mut realm).as_array().map(Vec::len), Some(reply.len()));
    // Batches of 1, 4, 16 and 64, and then the maximum.
    let (sent, received) = (after.sent - before.sent, after.received - before.received);
    assert_eq!(sent, received);
    assert!(sent <= 20, "{sent} frames for {} deltas", reply.len());
}

fn the_first_abort_ends_it() {
    let mut realm = ready();
    let streamed = ahead(&mut realm, &["a", "b", "stop", "c"], &mut NoHost);
    assert_eq!((streamed.done.stream, streamed.passed, streamed.goes_on), (StreamAnswer::Continue, 1, true));
    let Progress::Yielded(done) = rest(&mut realm, &mut NoHost) else { panic!("it lives") };
    assert!(matches!(done.stream, StreamAnswer::Abort(_)), "{done:?}");
    assert_eq!(heard(&mut realm), json!(["0", "a", "b", "stop"]), "what comes after it is seen by nobody");
    assert_eq!(realm.lookahead(), 0, "one that has something to say is given less");
}

fn the_messages_of_a_delta_wait_for_its_turn() {
    let mut realm = ready();
    let streamed = ahead(&mut realm, &["a", "say", "b"], &mut NoHost);
    assert_eq!((streamed.done.messages, streamed.passed, streamed.goes_on), (Vec::new(), 0, true));
    let Progress::Yielded(done) = rest(&mut realm, &mut NoHost) else { panic!("it lives") };
    assert!(matches!(done.messages.as_slice(), [Message::BusEmit(event)] if event.channel == "said"), "{done:?}");
    assert_eq!(heard(&mut realm), json!(["0", "a", "say"]));
}

fn a_hostcall_waits_for_its_turn() {
    let mut realm = ready();
    let mut mirror = ReversingHost { calls: 0 };
    let streamed = ahead(&mut realm, &["a", "b", "ask", "c"], &mut mirror);
    assert_eq!((mirror.calls, streamed.passed, streamed.goes_on), (0, 1, true));
    assert!(matches!(rest(&mut realm, &mut mirror), Progress::Yielded(_)));
    assert_eq!(mirror.calls, 1);
    assert_eq!(heard(&mut realm), json!(["0", "a", "b", "ask"]));
}

fn the_first_one_is_answered_as_ever() {
    for chunk in ["say", "ask", "stop"] {
        let mut realm = ready();
        let mut mirror = ReversingHost { calls: 0 };
        let streamed = ahead(&mut realm, &[chunk, "b"], &mut mirror);
        assert_eq!((streamed.passed, streamed.goes_on), (0, false), "{chunk}");
        assert_eq!(streamed.done.messages.len(), usize::from(chunk == "say"));
        assert_eq!(mirror.calls, usize::from(chunk == "ask"));
        assert_eq!(streamed.done.stream != StreamAnswer::Continue, chunk == "stop");
        assert_eq!(heard(&mut realm), json!(["0", chunk]));
    }
}

fn each_has_its_own_fuel() {
    let mut realm = ready();
    let streamed = ahead(&mut realm, &["a", "b", "spin", "c"], &mut NoHost);
    assert_eq!((streamed.passed, streamed.goes_on), (1, true), "what was spent before counts for nothing");
    assert_eq!(rest(&mut realm, &mut NoHost), Progress::Ended(timeout("fuel")));
}

fn an_endless_delta_is_killed() {
    let mut realm = warm(open_with(&unlimited_fuel(), short_deadlines()).0);
    let deltas = deltas(&["a", "stuck", "b"]);
    let ended = realm.stream_ahead(Seq(2), Now::default(), &deltas, Duration::ZERO, &mut NoHost);
    // Without time for a second turn, only the first one ran.
    assert_eq!(ended.expect("the realm is running").passed, 0);
    let ended = realm.stream_ahead(Seq(2), Now::default(), &deltas, Duration::from_millis(100), &mut NoHost);
    match ended {
        Err(reason) => assert_eq!(reason, timeout("deadline")),
        // The first turn used the whole slice.
        Ok(streamed) => assert_eq!((streamed.passed, streamed.goes_on), (0, false)),
    }
}

fn a_slice_that_is_over_begins_no_other_turn() {
    let mut realm = ready();
    let streamed = realm.stream_ahead(Seq(1), Now::default(), &deltas(&["a", "b"]), Duration::ZERO, &mut NoHost);
    let streamed = streamed.expect("the realm is running");
    assert_eq!((streamed.passed, streamed.goes_on), (0, false));
    assert_eq!(heard(&mut realm), json!(["0", "a"]));
}

fn a_worker_that_dies_meanwhile_ends_the_realm() {
    let mut realm = ready();
    let mut mirror = ReversingHost { calls: 0 };
    assert!(ahead(&mut realm, &["a", "ask"], &mut mirror).goes_on);
    let id = i32::try_from(realm.id()).expect("a process id");
    kill_process(Pid::from_raw(id).expect("it has one"), Signal::KILL).expect("it was alive");
    let ended = rest(&mut realm, &mut mirror);
    // Either the call was received and answered, or the socket was closed first.
    assert!(matches!(ended, Progress::Ended(Termination::Crashed { .. })), "{ended:?}");
    assert!(try_ahead(&mut realm, &["b", "c"], &mut NoHost).is_err(), "and stays so");
}

fn an_impossible_count_of_passed_deltas_ends_the_realm() {
    let frame = |count, goes_on| {
        let mut bytes = Vec::new();
        FromWorker::Passed(Passed { usage: Usage::default(), count, goes_on }).encode(&mut bytes).expect("a frame");
        format!("frame {bytes:?}")
    };
    let of_protocol = |ended: Result<Streamed, Termination>| {
        let Err(Termination::Protocol { detail }) = ended else { panic!("{ended:?}") };
        assert!(detail.contains("unexpected message: passed"), "{detail}");
    };
    for (count, goes_on) in [(3, false), (2, true), (0, false), (0, true)] {
        of_protocol(try_ahead(&mut ready(), &[&frame(count, goes_on), "b"], &mut NoHost));
    }
    // A single delta cannot report others that passed.
    of_protocol(try_ahead(&mut ready(), &[&frame(1, false)], &mut NoHost));
    // A worker must report passed deltas only once.
    let mut realm = ready();
    let twice = frame(1, true);
    let streamed = ahead(&mut realm, &[&twice, "b", "c"], &mut NoHost);
    assert_eq!((streamed.done, streamed.goes_on), (Yield::default(), true));
    let ended = rest(&mut realm, &mut NoHost);
    assert!(matches!(ended, Progress::Ended(Termination::Protocol { .. })), "{ended:?}");
}
