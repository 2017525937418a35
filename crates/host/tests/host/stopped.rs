//! Tests of realms that are stopped: their callers are answered, and the extension restarts.

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
        // Both entries are in one realm, so a stop caused by one ends the call of the other.
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
fn an_extension_that_is_stopped_too_often_is_disabled() {
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

#[test]
fn an_extension_that_spends_the_time_of_the_start_is_stopped_once() {
    let lab = Lab::with(impatient(), &["session"]);
    lab.run(async {
        lab.load(&["start-hangs", "handlers-b"]).await;
        lab.host.emit(Event::new("session_start").with("reason", "startup")).await;
        lab.host.emit(Event::new("agent_start")).await;
        assert!(lab.logs().contains(&"b1".to_owned()), "the others go on");
        assert_eq!(lab.ledger_lines("realm.terminated").len(), 1, "one attempt");
        assert!(!lab.reported().iter().any(|report| report.kind == ReportKind::Restarted));
        let told: Vec<String> = lab.complaints().into_iter().filter(|line| line.contains("quarantine")).collect();
        let [told] = told.as_slice() else { panic!("once: {told:?}") };
        assert!(told.contains("was stopped while it started"), "{told}");
    });
}

#[test]
fn a_factory_that_never_returns_is_run_once() {
    let lab = Lab::with(impatient(), &[]);
    lab.run(async {
        let error = lab.try_load(&["factory-hangs"]).await.expect_err("it is stopped");
        assert!(matches!(error, pijs_host::LoadError::Ended { .. }), "{error}");
        assert_eq!(lab.ledger_lines("realm.terminated").len(), 1, "one attempt");
        lab.load(&["handlers-b"]).await;
        assert!(!lab.reported().iter().any(|report| report.kind == ReportKind::Restarted));
    });
}

#[test]
fn names_of_a_stopped_extension_stay_reserved_and_a_missing_decider_refuses() {
    let lab = Lab::with(impatient(), &["tool.modify"]);
    lab.run(async {
        // The extension shares a package with an entry that always loads again.
        lab.try_load(&["guards-and-hangs", "handlers-b"]).await.expect("loads");
        lab.load(&["guards-instead"]).await;
        let call = || Event::new("tool_call").with("toolName", "x").with("input", json!({"seen": []}));
        let owners = || lab.host.tools().into_iter().map(|tool| tool.owner.path).collect::<Vec<_>>();
        let own = owners();
        assert_eq!(own.len(), 1, "the first has it: {own:?}");
        assert!(lab.host.missed_tools().is_empty() && !lab.host.misses_command("guarded"));

        // Restarted as before.
        lab.host.emit(Event::new("agent_start")).await;
        lab.host.restarts_done().await;
        let outcome = lab.host.emit(call()).await;
        assert!(outcome.thrown.is_none(), "{:?}", outcome.thrown);
        assert_eq!((owners(), lab.host.missed_tools()), (own, vec![]));

        // Restarted without the entry that decided.
        lab.clock.advance_us(2 * 3_600_000_000);
        lab.host.emit(Event::new("agent_start")).await;
        let outcome = lab.host.emit(call()).await;
        let thrown = outcome.thrown.unwrap_or_else(|| panic!("it is missed: {:?}", lab.complaints())).message;
        assert!(thrown.contains("which has to decide about this, was stopped"), "{thrown}");
        assert_eq!((owners(), lab.host.missed_tools()), (vec![], vec!["guarded".to_owned()]));
        assert!(lab.host.misses_command("guarded:2") && !lab.host.misses_command("other"));
    });
}
