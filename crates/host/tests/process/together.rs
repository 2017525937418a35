//! Tests that effects of deltas delivered together come in the same order as with deltas delivered alone.

use crate::lab::{Lab, delta, text};
use crate::wire::Checked;
use pijs_host::{HostOptions, InProcess, StreamOutcome, VerdictBudget};
use pijs_protocol::wire::Limits;
use pijs_protocol::{StreamDelta, StreamSource};
use pijs_realm::ProcessOptions;

pub(crate) const TESTS: &[(&str, fn())] = &[
    ("together::effects_of_deltas_keep_their_order", effects_of_deltas_keep_their_order),
    ("together::the_verdict_on_an_unasked_delta_is_ignored", the_verdict_on_an_unasked_delta_is_ignored),
    ("together::two_listeners_get_each_delta_in_turn", two_listeners_get_each_delta_in_turn),
    ("together::a_realm_that_ends_on_a_delta_gets_a_strike", a_realm_that_ends_on_a_delta_gets_a_strike),
];

/// Deltas without any effect.
const SILENT: [&str; 2] = ["so ", "on "];

/// Creates a lab in which no turn starts too late for its slice, and no worker is slow.
fn lab() -> Lab {
    let verdict = VerdictBudget { slice_us: u64::MAX, ..VerdictBudget::default() };
    // Ends an endless loop soon.
    let limits = Limits { stream_fuel: 200, ..Limits::default() };
    let options = HostOptions { verdict, limits, ..HostOptions::default() };
    Lab::over(options, &["verdict", "exec", "session"], Checked::new(InProcess::new(ProcessOptions::default())))
}

/// Returns the state of an extension at the time of its answer for a delta.
fn seen(lab: &Lab, chunk: &str, outcome: &StreamOutcome) -> String {
    let retry = outcome.verdict().map(|verdict| verdict.retry.clone().map(|retry| retry.content));
    let calls = lab.calls.lock().expect("no test panics here").len();
    format!(
        "{chunk}: {retry:?}, logs {:?}, complaints {:?}, {calls} calls, {} verdicts",
        lab.logs(),
        lab.complaints(),
        lab.ledger_lines("stream.verdict").len(),
    )
}

/// Asks about every delta, with at most `at_once` of them at a time, and returns the states and the number of calls.
async fn judge(lab: &Lab, chunks: &[&str], at_once: usize) -> (Vec<String>, usize) {
    let deltas: Vec<StreamDelta> = chunks.iter().map(|chunk| text(chunk)).collect();
    let (mut told, mut asked, mut left) = (Vec::new(), 0, deltas.as_slice());
    while !left.is_empty() {
        let most = lab.host.lookahead(StreamSource::Text).min(at_once - 1);
        let (outcome, passed) = lab.host.stream_ahead(&left[..left.len().min(most + 1)]);
        asked += 1;
        told.push(seen(lab, &left[0].chunk, &outcome));
        told.extend(left[1..=passed].iter().map(|delta| seen(lab, &delta.chunk, &StreamOutcome::Continue)));
        if SILENT.iter().all(|silent| left[0].chunk != *silent) {
            // Its requests are answered before the next delta.
            assert_eq!(passed, 0);
            lab.host.at_rest().await;
        }
        left = &left[1 + passed..];
    }
    lab.host.stream_over();
    (told, asked)
}

fn effects_of_deltas_keep_their_order() {
    let mut chunks = Vec::new();
    for (number, deed) in
        ["log", "call", "soon", "late", "throw", "stop", "call", "log", "stop"].into_iter().enumerate()
    {
        chunks.extend(std::iter::repeat_n(SILENT[0], 3 * number));
        chunks.push(deed);
        chunks.push(SILENT[1]);
    }
    let run = |at_once| {
        let lab = lab();
        lab.run(async {
            lab.load(&["verdict-mixed"]).await;
            judge(&lab, &chunks, at_once).await
        })
    };
    let (alone, asked) = run(1);
    assert_eq!(asked, chunks.len());
    let (together, asked) = run(usize::MAX);
    assert_eq!(together, alone);
    assert!(asked < chunks.len() * 2 / 3, "{asked} questions about {} deltas", chunks.len());
}

fn the_verdict_on_an_unasked_delta_is_ignored() {
    let lab = lab();
    lab.run(async {
        lab.load(&["verdict-mixed"]).await;
        lab.host.stream(&text("a"));
        assert!(lab.host.lookahead(StreamSource::Text) >= 2);
        let begun = [text("b"), text("call"), text("c")];
        assert_eq!(lab.host.stream_ahead(&begun), (StreamOutcome::Continue, 0));
        assert_eq!(lab.calls.lock().expect("no test panics here").len(), 0, "its call waits");
        // The attempt ends here.
        lab.host.stream_over();
        assert_eq!(lab.calls.lock().expect("no test panics here").len(), 1, "what has begun comes to its end");

        lab.host.stream(&text("d"));
        assert_eq!(lab.host.stream_ahead(&[text("e"), text("stop")]), (StreamOutcome::Continue, 0));
        // `stream_over` is not called: the next delta is of another attempt.
        let outcome = lab.host.stream(&delta(2, StreamSource::Text, "f"));
        assert_eq!(outcome, StreamOutcome::Continue, "an abort of another delta is none of this one");
        assert_eq!(lab.ledger_lines("stream.verdict").len(), 0);
    });
}

fn two_listeners_get_each_delta_in_turn() {
    let lab = lab();
    lab.run(async {
        lab.load(&["verdict-mixed", "verdict-word"]).await;
        for _ in 0..3 {
            assert_eq!(lab.host.lookahead(StreamSource::Text), 0);
            let (outcome, passed) = lab.host.stream_ahead(&[text("a"), text("stop")]);
            assert_eq!((outcome, passed), (StreamOutcome::Continue, 0));
        }
        assert_eq!(lab.logs().len(), 3, "the second delta reaches nobody");
    });
}

fn a_realm_that_ends_on_a_delta_gets_a_strike() {
    let lab = lab();
    lab.run(async {
        lab.load(&["verdict-mixed"]).await;
        lab.host.stream(&text("a"));
        assert_eq!(lab.host.stream_ahead(&[text("b"), text("c"), text("hang")]), (StreamOutcome::Continue, 1));
        assert!(lab.complaints().is_empty(), "{:?}", lab.complaints());
        assert_eq!(lab.host.stream(&text("hang")), StreamOutcome::Continue);
        assert!(lab.complaints().iter().any(|line| line.contains("strike")), "{:?}", lab.complaints());
    });
}
