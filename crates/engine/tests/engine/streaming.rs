//! Tests streamed deltas and the answers of handlers.

use crate::support::{Guest, Sources, delta};
use pijs_protocol::stream::{Injection, InjectionRole};
use pijs_protocol::wire::{StreamAnswer, Task};
use pijs_protocol::{Delivery, EntryIndex, Handle, Seq, StreamDelta, StreamSource, StreamVerdict};
use serde_json::json;

const DELTAS: Sources<'static> = &[("main.js", include_str!("../fixtures/guests/deltas.js"))];

fn answer(guest: &mut Guest, chunk: &str) -> StreamAnswer {
    guest.stream(&delta(chunk)).expect("the realm is running").stream
}

fn abort(content: &str, role: InjectionRole) -> StreamAnswer {
    StreamAnswer::Abort(StreamVerdict {
        entry: EntryIndex(0),
        handler: Handle(1),
        retry: Some(Injection { content: content.to_owned(), role }),
    })
}

#[test]
fn a_delta_without_abort_continues() {
    let mut guest = Guest::new(DELTAS);
    for chunk in ["Grüße ", "🦀", ""] {
        assert_eq!(answer(&mut guest, chunk), StreamAnswer::Continue);
    }
    assert_eq!(guest.ask("text", &[]), "Grüße 🦀");
}

#[test]
fn a_handler_aborts_on_the_delta_it_was_shown() {
    let mut guest = Guest::new(DELTAS);
    answer(&mut guest, "1234");
    assert_eq!(answer(&mut guest, "abort"), abort("after 9", InjectionRole::User));
}

#[test]
fn a_promise_that_settles_without_io_counts() {
    let mut guest = Guest::new(DELTAS);
    assert_eq!(answer(&mut guest, "async"), abort("settled", InjectionRole::System));
}

#[test]
fn a_pending_promise_is_late() {
    assert_eq!(answer(&mut Guest::new(DELTAS), "never"), StreamAnswer::Late { handler: Handle(1) });
}

#[test]
fn a_throw_and_a_rejection_are_failures_with_their_message() {
    let mut guest = Guest::new(DELTAS);
    for (chunk, words) in [("throw", "no deltas today"), ("rejects", "later no")] {
        match answer(&mut guest, chunk) {
            StreamAnswer::Failed { handler: Handle(1), error } => {
                assert_eq!(error.message, words);
                assert!(error.stack.is_some_and(|stack| stack.contains(words)));
            }
            other => panic!("{chunk}: {other:?}"),
        }
    }
    let after = guest.stream(&delta("fine")).expect("the realm is running");
    assert_eq!((after.stream, after.messages.len()), (StreamAnswer::Continue, 0), "reported once, as an answer");
}

#[test]
fn a_handler_sees_everything_the_delta_says() {
    let mut guest = Guest::new(DELTAS);
    let whole = StreamDelta {
        attempt: 3,
        source: StreamSource::Tool,
        stream: 2,
        tool_name: Some("write".to_owned()),
        file_paths: vec!["a.txt".to_owned()],
        ..delta("describe")
    };
    let StreamAnswer::Abort(verdict) = guest.stream(&whole).expect("the realm is running").stream else {
        panic!("aborts")
    };
    let seen: serde_json::Value = serde_json::from_str(&verdict.retry.expect("a retry").content).expect("JSON");
    assert_eq!(seen, json!({"source": "tool", "stream": 2, "attempt": 3, "toolName": "write", "filePaths": ["a.txt"]}));
}

#[test]
fn a_delta_as_a_delivery_answers_the_same() {
    let mut guest = Guest::new(DELTAS);
    let delivery = Delivery { seq: Seq(9), now: crate::support::NOW, task: Task::Stream(delta("abort")), state: None };
    let done = guest.realm.turn(delivery, &mut guest.host).expect("the realm is running");
    assert_eq!(done.stream, abort("after 5", InjectionRole::User));
}
