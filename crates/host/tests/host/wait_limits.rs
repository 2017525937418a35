//! Tests of promises that do not settle, and of callers that do not wait for them forever.

use crate::lab::Lab;
use pijs_host::{CommandOutcome, Event, ReportKind, ToolOutcome};
use pijs_protocol::Termination;
use serde_json::json;

fn unsettled() -> Termination {
    Termination::Timeout { quota: Termination::UNSETTLED.to_owned() }
}

fn seconds(lab: &Lab) -> u64 {
    lab.clock.now().elapsed_us / 1_000_000
}

#[test]
fn a_hook_without_pending_work_times_out_after_five_seconds() {
    let lab = Lab::new();
    lab.run(async {
        lab.load(&["never-settles"]).await;
        let outcome = lab.host.emit(Event::new("tool_call").with("toolName", "read").with("input", json!({}))).await;
        assert_eq!(seconds(&lab), 5);
        assert_eq!(outcome.answer_field("block"), Some(&json!(true)), "what decides about a call fails closed");
        assert!(lab.reported().iter().any(|report| report.kind == ReportKind::Ended(unsettled())));
        let [ended] = lab.ledger_lines("realm.terminated").try_into().expect("one line");
        assert_eq!(ended["data"]["error"]["code"], "timeout");
        assert_eq!(ended["data"]["error"]["details"], json!({ "reason": "deadline", "quota": "settle" }));
    });
}

#[test]
fn a_hook_with_an_armed_timer_times_out_after_two_minutes() {
    let lab = Lab::new();
    lab.run(async {
        lab.load(&["never-settles"]).await;
        lab.host.emit(Event::new("turn_start")).await;
        assert_eq!(seconds(&lab), 120);
    });
}

#[test]
fn pending_work_has_no_time_limit() {
    let lab = Lab::new();
    lab.run(async {
        lab.load(&["never-settles"]).await;
        lab.host.emit(Event::new("turn_end")).await;
        assert_eq!(seconds(&lab), 300);
        assert_eq!(lab.logs(), ["worked for five minutes"]);
        let outcome = lab.host.call_tool("patient", "call_1", json!({}), None, |_| {}).await;
        assert!(matches!(outcome, ToolOutcome::Returned(_)), "{outcome:?}");
        assert_eq!(seconds(&lab), 900);
    });
}

#[test]
fn tools_and_commands_time_out_after_a_minute() {
    let lab = Lab::new();
    lab.run(async {
        lab.load(&["never-settles"]).await;
        let outcome = lab.host.call_tool("never", "call_1", json!({}), None, |_| {}).await;
        assert_eq!((outcome, seconds(&lab)), (ToolOutcome::Ended(unsettled()), 60));
        lab.until(|report| report.kind == ReportKind::Restarted).await;
        let outcome = lab.host.run_command("never", "").await;
        assert_eq!(outcome, CommandOutcome::Ended(unsettled()));
    });
}

#[test]
fn a_wait_for_user_input_ends_only_after_the_abort() {
    let lab = Lab::new();
    lab.run(async {
        lab.load(&["never-settles"]).await;
        lab.host.set_state("hasUI", true);
        let hook = lab.host.emit(Event::new("tool_call").with("toolName", "read").with("input", json!({})));
        let tool = lab.host.call_tool("never", "call_1", json!({}), None, |_| {});
        let command = lab.host.run_command("never", "");
        let abort = async {
            lab.host.turn_over(&"path:never-settles".into()).await;
            lab.host.limit_waits_after_abort();
        };
        let (hook, tool, command, ()) = tokio::join!(hook, tool, command, abort);
        assert_eq!(seconds(&lab), 2, "the grace after an abort");
        assert_eq!(hook.answer_field("block"), Some(&json!(true)));
        let ToolOutcome::Threw(error) = tool else { panic!("{tool:?}") };
        assert_eq!(error.message, "Operation aborted");
        assert!(matches!(command, CommandOutcome::Threw(_)), "{command:?}");
        assert!(lab.ledger_lines("realm.terminated").is_empty(), "the realm lives");
    });
}

#[test]
fn after_an_abort_a_running_program_does_not_extend_the_wait() {
    let lab = Lab::new();
    lab.run(async {
        lab.load(&["never-settles"]).await;
        let (_, ()) =
            tokio::join!(lab.host.emit(Event::new("agent_end")), async { lab.host.limit_waits_after_abort() });
        assert_eq!(seconds(&lab), 2);
        assert!(lab.ledger_lines("realm.terminated").is_empty(), "the realm lives");
    });
}
