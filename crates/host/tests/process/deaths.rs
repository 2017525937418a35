//! Tests of workers that die: every caller gets one answer, and the extension restarts.

use crate::lab::Lab;
use crate::neighbours::lab;
use pijs_host::{CommandOutcome, Event, ReportKind, ToolOutcome};
use pijs_protocol::Termination;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::fs;
use std::time::Duration;

pub(crate) const TESTS: &[(&str, fn())] = &[
    ("a_death_between_turns_is_noticed_at_once", a_death_between_turns_is_noticed_at_once),
    ("every_call_in_flight_is_answered_once_with_its_code", every_call_in_flight_is_answered_once_with_its_code),
    ("a_death_during_a_turn_ends_the_waiting_program", a_death_during_a_turn_ends_the_waiting_program),
    ("the_third_death_leads_to_quarantine_with_one_report", the_third_death_leads_to_quarantine_with_one_report),
    (
        "a_death_during_a_restart_is_followed_by_another_restart",
        a_death_during_a_restart_is_followed_by_another_restart,
    ),
    ("loading_again_and_again_grows_nothing", loading_again_and_again_grows_nothing),
];

pub(crate) fn crashed() -> Termination {
    Termination::Crashed { detail: "killed by SIGKILL".to_owned() }
}

/// Returns the workers of this process, oldest first.
pub(crate) fn workers() -> Vec<Pid> {
    let me = std::process::id().to_string();
    let mut found: Vec<i32> = fs::read_dir("/proc")
        .expect("a /proc")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid: &i32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            // `PID (NAME) STATE PPID ...`; dead ones are not counted.
            let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
            fields.first().is_some_and(|state| *state != "Z") && fields.get(1) == Some(&me.as_str())
        })
        .collect();
    found.sort_unstable();
    found.into_iter().filter_map(Pid::from_raw).collect()
}

fn kill_the_only_worker() {
    let workers = workers();
    let [worker] = workers.as_slice() else { panic!("one worker, not {workers:?}") };
    kill_process(*worker, Signal::KILL).expect("the realm is running");
}

/// Waits until the program was called.
async fn called(lab: &Lab, program: &str) {
    while !lab.calls.lock().expect("no panic").iter().any(|call| call.contains(program)) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn started(lab: &Lab) {
    lab.load(&["stuck"]).await;
    lab.host.emit(Event::new("session_start").with("reason", "startup")).await;
    lab.until_log("stuck: startup").await;
}

fn a_death_between_turns_is_noticed_at_once() {
    let lab = lab(Duration::from_secs(600));
    lab.run(async {
        started(&lab).await;
        kill_the_only_worker();
        // No call is sent to the dead worker.
        lab.until_log("stuck: reload").await;
        let ends: Vec<_> =
            lab.reported().into_iter().filter(|report| matches!(report.kind, ReportKind::Ended(_))).collect();
        let [end] = ends.as_slice() else { panic!("{ends:?}") };
        assert_eq!(end.kind, ReportKind::Ended(crashed()));
        let line = &lab.ledger_lines("realm.terminated")[0];
        assert_eq!(line["data"]["error"], json!({ "code": "internal", "details": { "reason": "worker_crash" } }));
    });
}

fn every_call_in_flight_is_answered_once_with_its_code() {
    let lab = lab(Duration::from_secs(600));
    lab.run(async {
        lab.try_load(&["watches-signal", "neighbour"]).await.expect("one realm for both");
        let signal = pijs_host::Signal::new();
        let first = lab.host.call_tool("wait", "call_1", json!({}), Some(&signal), |_| {});
        let second = lab.host.call_tool("wait", "call_2", json!({}), Some(&signal), |_| {});
        let program = lab.host.run_command("hang", "");
        let death = async {
            called(&lab, "forever").await;
            kill_the_only_worker();
        };
        let (first, second, program, ()) = tokio::join!(first, second, program, death);
        assert_eq!([first, second], [ToolOutcome::Ended(crashed()), ToolOutcome::Ended(crashed())]);
        assert_eq!(program, CommandOutcome::Ended(crashed()));
        let ends = lab.ledger_lines("host_call.end");
        let exec: Vec<_> = ends.iter().filter(|line| line["data"]["capability"] == "exec").collect();
        let [exec] = exec.as_slice() else { panic!("one end: {ends:#?}") };
        assert_eq!(exec["data"]["error"]["code"], "internal", "{exec:#}");
    });
}

fn a_death_during_a_turn_ends_the_waiting_program() {
    let lab = lab(Duration::from_secs(600));
    lab.run(async {
        lab.load(&["stuck"]).await;
        // The program ends only if its call is cancelled.
        let waits = lab.host.run_command("run", "cancellable");
        let death = async {
            called(&lab, "cancellable").await;
            kill_the_only_worker();
        };
        let (outcome, ()) = tokio::join!(waits, death);
        assert_eq!(outcome, CommandOutcome::Ended(crashed()));
        called(&lab, "cancelled").await;
    });
}

fn the_third_death_leads_to_quarantine_with_one_report() {
    let lab = lab(Duration::from_secs(600));
    lab.run(async {
        started(&lab).await;
        for _ in 0..2 {
            lab.forget();
            kill_the_only_worker();
            lab.until_log("stuck: reload").await;
        }
        lab.forget();
        kill_the_only_worker();
        lab.until(|report| matches!(report.kind, ReportKind::Disabled { ends: 3, within_s: 60 })).await;
        assert_eq!(workers(), []);
        assert_eq!(lab.host.run_command("reverse", "").await, CommandOutcome::Unknown);
    });
}

fn a_death_during_a_restart_is_followed_by_another_restart() {
    let lab = lab(Duration::from_secs(600));
    let runs = || lab.calls.lock().expect("no panic").iter().filter(|call| call.contains("second")).count();
    lab.run(async {
        lab.load(&["comes-slowly"]).await;
        lab.host.emit(Event::new("session_start").with("reason", "startup")).await;
        lab.until_log("comes-slowly: startup").await;
        kill_the_only_worker();
        while runs() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // Kills the successor, in the middle of its factory.
        kill_the_only_worker();
        lab.until_log("comes-slowly: reload").await;
        assert_eq!(runs(), 3);
    });
}

/// Number of reloads in CI; the long run does 10,000.
const RELOADS: u32 = 40;

fn loading_again_and_again_grows_nothing() {
    let rounds = std::env::var("PIJS_LONG").map_or(RELOADS, |_| 10_000);
    let lab = lab(Duration::from_secs(600));
    let files = || fs::read_dir("/proc/self/fd").expect("a /proc").count();
    lab.run(async {
        started(&lab).await;
        let id = pijs_protocol::ExtensionId::from("path:stuck");
        let mut before = 0;
        for round in 0..rounds {
            // The first rounds fill caches.
            if round == RELOADS / 2 {
                before = files();
            }
            if round % RELOADS == 0 {
                // Its output is limited per turn of the agent, so a new turn begins.
                lab.host.emit(Event::new("agent_start")).await;
            }
            lab.forget();
            kill_the_only_worker();
            lab.until(|report| matches!(report.kind, ReportKind::Restarted | ReportKind::Disabled { .. })).await;
            if lab.reported().iter().any(|report| matches!(report.kind, ReportKind::Disabled { .. })) {
                assert!(lab.host.release(&id));
                lab.until(|report| report.kind == ReportKind::Restarted).await;
            }
            lab.until_log("stuck: reload").await;
        }
        assert!(files() <= before + 4, "{} files, {before} before", files());
    });
}
