//! Tests of verdicts on streamed deltas.

use crate::lab::{Lab, delta, text};
use pijs_host::{Event, HostOptions, ReportKind, StreamOutcome};
use pijs_protocol::StreamSource;
use pijs_protocol::stream::InjectionRole;
use pijs_protocol::wire::Limits;

#[test]
fn the_abort_comes_on_the_delta_that_completes_the_match() {
    let lab = Lab::new();
    lab.run(async {
        lab.load(&["verdict-word"]).await;
        assert!(lab.host.has_stream_handler(StreamSource::Text) && !lab.host.has_stream_handler(StreamSource::Tool));
        assert_eq!(lab.host.stream(&text("this is for")), StreamOutcome::Continue);
        assert_eq!(lab.host.stream(&delta(1, StreamSource::Thinking, "bidden")), StreamOutcome::Continue);
        let outcome = lab.host.stream(&text("bidden"));
        let verdict = outcome.verdict().expect("the second half completes it");
        assert_eq!(verdict.path, "verdict-word/index.ts");
        let retry = verdict.retry.as_ref().expect("it injects");
        assert_eq!((retry.content.as_str(), retry.role), ("Do not say that.", InjectionRole::System));
        assert_eq!(
            lab.logs(),
            [r#"text "this is for" of "this is for""#, r#"text "bidden" of "this is forbidden""#],
            "thinking is not heard"
        );
        let lines = lab.ledger_lines("stream.verdict");
        assert_eq!(lines.len(), 1);
        assert_eq!((&lines[0]["data"]["verdict"], &lines[0]["data"]["allowed"]), (&"retry".into(), &true.into()));
    });
}

#[test]
fn a_new_attempt_starts_with_empty_text() {
    let lab = Lab::new();
    lab.run(async {
        lab.load(&["verdict-word"]).await;
        lab.host.stream(&text("for"));
        assert_eq!(lab.host.stream(&delta(2, StreamSource::Text, "bidden")), StreamOutcome::Continue);
        assert_eq!(lab.logs()[1], r#"text "bidden" of "bidden""#);
    });
}

#[test]
fn no_source_has_a_handler_before_a_registration() {
    let lab = Lab::new();
    lab.run(async {
        lab.load(&["registers"]).await;
        assert!(!lab.host.has_stream_handler(StreamSource::Text));
        assert_eq!(lab.host.stream(&text("x")), StreamOutcome::Continue);
    });
}

#[test]
fn the_first_abort_wins_in_load_order() {
    let lab = Lab::new();
    lab.run(async {
        lab.load(&["verdict-word", "verdict-always"]).await;
        let first = lab.host.stream(&text("forbidden"));
        assert_eq!(first.verdict().expect("an abort").path, "verdict-word/index.ts");
        assert_eq!(lab.logs().len(), 1, "the second extension is not asked");
        let second = lab.host.stream(&delta(2, StreamSource::Text, "fine"));
        let verdict = second.verdict().expect("an abort");
        assert_eq!(verdict.path, "verdict-always/index.ts");
        assert_eq!(verdict.retry.as_ref().expect("it injects").role, InjectionRole::User);
    });
}

#[test]
fn tool_arguments_come_with_the_tool_and_its_paths() {
    let lab = Lab::new();
    lab.run(async {
        lab.load(&["verdict-word", "verdict-always"]).await;
        let mut arguments = delta(1, StreamSource::Tool, "{\"path\":");
        arguments.tool_name = Some("write".into());
        arguments.file_paths = vec!["a.ts".into(), "b.ts".into()];
        assert!(lab.host.stream(&arguments).verdict().is_some());
        assert_eq!(lab.logs(), ["second tool write a.ts,b.ts"]);
    });
}

#[test]
fn an_abort_without_the_capability_is_ignored_and_recorded() {
    let lab = Lab::with(HostOptions::default(), &[]);
    lab.run(async {
        lab.load(&["verdict-word"]).await;
        assert_eq!(lab.host.stream(&text("forbidden")), StreamOutcome::Continue);
        assert!(lab.complaints()[0].contains("\"verdict\" is not granted"), "{:?}", lab.complaints());
        assert_eq!(lab.ledger_lines("stream.verdict")[0]["data"]["allowed"], false);
    });
}

#[test]
fn exceptions_and_invalid_answers_continue_and_three_strikes_mute() {
    let lab = Lab::new();
    lab.run(async {
        lab.load(&["verdict-throws"]).await;
        for chunk in ["1", "2", "3", "4", "5"] {
            assert_eq!(lab.host.stream(&text(chunk)), StreamOutcome::Continue);
        }
        assert_eq!(lab.logs(), ["third 1", "third 2", "third 3", "third 4", "third 5"], "the others are called");
        let strikes: Vec<(u32, bool)> = lab
            .reported()
            .into_iter()
            .filter_map(|report| match report.kind {
                ReportKind::Strike { count, muted } => Some((count, muted)),
                _ => None,
            })
            .collect();
        assert_eq!(strikes, [(1, false), (1, false), (2, false), (2, false), (3, true), (3, true)]);
        let complaint = &lab.complaints()[0];
        assert!(complaint.contains("cannot judge (verdict-throws/index.ts:4:"), "{complaint}");
    });
}

#[test]
fn a_handler_over_the_limit_is_not_called() {
    let lab = Lab::new();
    lab.run(async {
        lab.load(&["verdict-crowd"]).await;
        lab.host.stream(&text("1"));
        assert_eq!(lab.logs(), [10, 20, 30, 40, 50, 60].map(|number| format!("{number} heard 1")));
        assert!(lab.complaints()[0].contains("64 handlers of \"stream_text\""), "{:?}", lab.complaints());
    });
}

#[test]
fn a_handler_that_never_returns_is_stopped_and_the_session_continues() {
    let limits = Limits { stream_fuel: 200, ..Limits::default() };
    let lab = Lab::with(HostOptions { limits, ..HostOptions::default() }, &["verdict"]);
    lab.run(async {
        lab.load(&["verdict-hangs", "verdict-always"]).await;
        lab.host.emit(Event::new("session_start").with("reason", "startup")).await;
        for round in 1..=3 {
            let outcome = lab.host.stream(&text("hang"));
            assert_eq!(outcome.verdict().expect("the next extension is asked").path, "verdict-always/index.ts");
            lab.until(|report| report.kind == ReportKind::Strike { count: round, muted: round == 3 }).await;
            lab.until_log("start reload").await;
            lab.forget();
        }
        lab.host.stream(&text("hang"));
        assert_eq!(lab.logs(), ["second text  "], "after three strikes it is no longer asked");
    });
}

#[test]
fn a_promise_that_needs_only_microtasks_counts() {
    let lab = Lab::new();
    lab.run(async {
        lab.load(&["verdict-async"]).await;
        let outcome = lab.host.stream(&text("async"));
        assert_eq!(outcome.verdict().expect("it settled in the same turn").retry, None);
        assert!(lab.calls.lock().expect("no panic").is_empty(), "the second handler was not called");
    });
}

#[test]
fn a_promise_that_waits_for_the_host_is_reported_once_and_continues() {
    let lab = Lab::new();
    lab.run(async {
        lab.load(&["verdict-async"]).await;
        for _ in 0..5 {
            assert_eq!(lab.host.stream(&text("x")), StreamOutcome::Continue);
            tokio::task::yield_now().await;
        }
        let late = lab.reported().into_iter().filter(|report| report.kind == ReportKind::LateVerdict).count();
        assert_eq!(late, 1);
        assert!(!lab.reported().iter().any(|report| matches!(report.kind, ReportKind::Strike { .. })));
        assert!(lab.host.has_stream_handler(StreamSource::Text), "it goes on being asked");
    });
}

#[test]
fn what_was_queued_before_the_delta_runs_before_it() {
    let lab = Lab::new();
    lab.run(async {
        lab.load(&["verdict-queued", "bus-talks"]).await;
        lab.host.emit(Event::new("session_start").with("reason", "startup")).await;
        lab.forget();
        lab.clock.advance_us(10_000);
        // The timer is due, but gets its sequence number when the loop polls next: after the delta, which // is already
        // queued.
        lab.host.stream(&text("x"));
        assert_eq!(lab.logs(), ["delta"]);
        lab.until_log("timer").await;
    });
}

#[test]
fn a_slow_verdict_is_reported_once_and_takes_effect() {
    let lab = Lab::new();
    lab.run(async {
        lab.load(&["verdict-slow"]).await;
        assert!(lab.host.stream(&text("abort")).verdict().is_some());
        lab.host.stream(&text("abort"));
        let slow: Vec<_> = lab
            .reported()
            .into_iter()
            .filter(|report| matches!(report.kind, ReportKind::SlowVerdict { elapsed_us, .. } if elapsed_us >= 500_000))
            .collect();
        assert_eq!(slow.len(), 1);
    });
}

#[test]
fn synchronous_input_past_the_deadline_ends_the_realm() {
    let lab = Lab::new();
    lab.run(async {
        lab.load(&["verdict-slow"]).await;
        assert_eq!(lab.host.stream(&text("wait")), StreamOutcome::Continue);
        lab.until(|report| matches!(report.kind, ReportKind::Ended(_))).await;
        lab.until(|report| report.kind == ReportKind::Restarted).await;
        assert!(lab.host.has_stream_handler(StreamSource::Text));
    });
}
