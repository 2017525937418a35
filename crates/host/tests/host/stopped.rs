//! Realms that are stopped: who is answered, what comes back.

use crate::lab::Lab;
use pijs_host::{Event, HostOptions, ReportKind};
use pijs_protocol::wire::Limits;
use serde_json::json;

fn impatient() -> HostOptions {
    HostOptions { limits: Limits { fuel: 2_000, ..Limits::default() }, ..HostOptions::default() }
}

#[test]
fn a_handler_that_never_returns_is_an_error_and_the_next_extension_is_asked() {
    let lab = Lab::with(impatient(), &[]);
    lab.run(async {
        lab.load(&["verdict-hangs", "handlers-b"]).await;
        lab.host.emit(Event::new("session_start").with("reason", "startup")).await;
        lab.host.emit(Event::new("agent_start")).await;
        assert!(lab.logs().contains(&"b1".to_owned()));
        assert!(lab.complaints().iter().any(|line| line.contains("used up")), "{:?}", lab.complaints());
        lab.until_log("start reload").await;
        assert_eq!(lab.ledger_lines("realm.terminated").len(), 1);
    });
}

#[test]
fn every_call_in_flight_is_answered_when_the_realm_ends() {
    let lab = Lab::with(impatient(), &[]);
    lab.run(async {
        // Both entries live in one realm: what one does ends the other one's call.
        lab.try_load(&["watches-signal", "verdict-hangs"]).await.expect("loads");
        let signal = pijs_host::Signal::new();
        let waiting = lab.host.call_tool("wait", "call_1", json!({}), Some(&signal), |_| {});
        let hanging = lab.host.emit(Event::new("agent_start"));
        let (outcome, _) = tokio::join!(waiting, hanging);
        assert!(matches!(outcome, pijs_host::ToolOutcome::Ended(_)), "{outcome:?}");
        lab.until(|report| report.kind == ReportKind::Restarted).await;
        let again = lab.host.call_tool("wait", "call_1", json!({}), Some(&signal), |_| {});
        let (outcome, ()) = tokio::join!(again, async { signal.abort() });
        assert!(matches!(outcome, pijs_host::ToolOutcome::Threw(_)), "the new realm answers: {outcome:?}");
    });
}

#[test]
fn an_extension_that_is_stopped_too_often_is_switched_off() {
    let lab = Lab::with(impatient(), &[]);
    lab.run(async {
        lab.load(&["verdict-hangs", "handlers-b"]).await;
        for _ in 0..4 {
            lab.host.emit(Event::new("agent_start")).await;
        }
        let ended = lab.reported().iter().filter(|report| matches!(report.kind, ReportKind::Ended(_))).count();
        assert_eq!(ended, 3, "two restarts, then it is left out");
        assert!(lab.reported().iter().any(|report| matches!(report.kind, ReportKind::Disabled { .. })));
        assert_eq!(lab.logs().iter().filter(|line| *line == "b1").count(), 4);
        let told: Vec<String> = lab.complaints().into_iter().filter(|line| line.contains("quarantine")).collect();
        let [told] = told.as_slice() else { panic!("once: {told:?}") };
        assert!(told.contains("\"verdict-hangs\"") && told.contains("pi remove path:verdict-hangs"), "{told}");

        let id = pijs_protocol::ExtensionId::from("path:verdict-hangs");
        assert!(!lab.host.release(&pijs_protocol::ExtensionId::from("path:handlers-b")));
        assert!(lab.host.release(&id) && !lab.host.release(&id));
        lab.forget();
        lab.until(|report| report.kind == ReportKind::Restarted).await;
    });
}
