//! Tests of tools, commands, callbacks, timers and hostcalls.

use crate::lab::Lab;
use pijs_host::{CallbackOutcome, CommandOutcome, Event, ReportKind, Signal, ToolOutcome};
use serde_json::json;

#[test]
fn a_tool_runs_with_updates_before_its_result() {
    let lab = Lab::new();
    lab.run(async {
        lab.load(&["registers"]).await;
        let mut updates = Vec::new();
        let signal = Signal::new();
        let outcome = lab
            .host
            .call_tool("greet", "call_1", json!({ "name": "you" }), Some(&signal), |partial| {
                updates.push(partial["content"][0]["text"].as_str().unwrap_or("").to_owned());
            })
            .await;
        let wanted = json!({
            "content": [{ "type": "text", "text": "hello you" }],
            "details": { "id": "call_1", "cwd": "/project", "aborted": false },
        });
        assert_eq!(outcome, ToolOutcome::Returned(wanted));
        assert_eq!(updates, ["half", "most"]);
        let unknown = lab.host.call_tool("nope", "call_2", json!({}), None, |_| {}).await;
        assert_eq!(unknown, ToolOutcome::Unknown);
    });
}

#[test]
fn aborting_the_signal_reaches_a_running_tool() {
    let lab = Lab::new();
    lab.run(async {
        lab.load(&["watches-signal"]).await;
        let signal = Signal::new();
        let call = lab.host.call_tool("wait", "call_1", json!({}), Some(&signal), |_| {});
        let (outcome, ()) = tokio::join!(call, async { signal.abort() });
        let ToolOutcome::Threw(error) = outcome else { panic!("{outcome:?}") };
        assert_eq!(error.message, "aborted: AbortError");

        let late = lab.host.call_tool("wait", "call_2", json!({}), Some(&signal), |_| {}).await;
        let ToolOutcome::Threw(error) = late else { panic!("{late:?}") };
        assert_eq!(error.message, "was aborted", "a signal that has fired arrives fired");
    });
}

#[test]
fn a_command_gets_its_arguments_as_they_were_typed() {
    let lab = Lab::new();
    lab.run(async {
        lab.load(&["registers"]).await;
        lab.host.set_state("mode", "rpc");
        assert_eq!(lab.host.run_command("hi", "  a b ").await, CommandOutcome::Done);
        assert_eq!(lab.logs(), ["hi|  a b |rpc"]);
        let CommandOutcome::Threw(error) = lab.host.run_command("bad", "").await else { panic!("it throws") };
        assert_eq!((error.name.as_deref(), error.message.as_str()), (Some("TypeError"), "no such luck"));
        assert_eq!(lab.host.run_command("nope", "").await, CommandOutcome::Unknown);
    });
}

#[test]
fn completions_call_a_function_in_the_realm() {
    let lab = Lab::new();
    lab.run(async {
        lab.load(&["registers"]).await;
        let command = lab.host.commands().into_iter().next().expect("a command");
        let completions = command.spec.completions.expect("it completes");
        let answer =
            lab.host.call_back(&command.owner.extension, command.owner.entry, completions, vec!["x".into()]).await;
        assert_eq!(answer, CallbackOutcome::Returned(Some(json!([{ "value": "x!" }]))));
    });
}

#[test]
fn timers_fire_in_order_and_programs_run_through_the_gate() {
    let lab = Lab::new();
    lab.run(async {
        lab.load(&["timers-and-exec"]).await;
        lab.host.emit(Event::new("session_start").with("reason", "startup")).await;
        lab.until(|report| matches!(&report.kind, ReportKind::Error(error) if error.message == "late trouble")).await;
        assert_eq!(
            lab.logs(),
            ["10 ms", "20 ms", r#"exec {"stdout":"ran report","stderr":"","code":0,"killed":false}"#]
        );
        assert_eq!(
            *lab.calls.lock().expect("no panic"),
            [r#"exec {"command":"report","args":["status"],"cwd":"/project/sub","api":"pi.exec"}"#]
        );
        assert_eq!(lab.ledger_lines("host_call.start").len(), 1);
    });
}

#[test]
fn a_program_without_a_grant_does_not_run() {
    let lab = Lab::with(Default::default(), &["verdict"]);
    lab.run(async {
        lab.load(&["timers-and-exec"]).await;
        lab.host.emit(Event::new("session_start").with("reason", "startup")).await;
        let refused = lab.logs().into_iter().find(|line| line.starts_with("exec ")).expect("pi.exec never rejects");
        assert!(refused.contains(r#""code":1"#) && refused.contains("exec"), "{refused}");
        assert!(lab.calls.lock().expect("no panic").is_empty());
    });
}
