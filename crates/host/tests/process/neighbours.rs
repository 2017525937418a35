//! Tests that extensions answer while another one is running.

use crate::lab::{Lab, text};
use crate::wire::Checked;
use pijs_host::{CommandOutcome, Event, HostOptions, InProcess, StreamOutcome, ToolOutcome, Watch, Watchdog};
use pijs_protocol::Termination;
use pijs_protocol::wire::Limits;
use pijs_realm::ProcessOptions;
use serde_json::json;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

pub(crate) const TESTS: &[(&str, fn())] = &[
    ("neighbours_answer_while_fourteen_extensions_are_stuck", neighbours_answer_while_fourteen_extensions_are_stuck),
    ("a_verdict_is_asked_for_while_a_neighbour_is_stuck", a_verdict_is_asked_for_while_a_neighbour_is_stuck),
    ("a_verdict_does_not_wait_for_ever_for_its_own_realm", a_verdict_does_not_wait_for_ever_for_its_own_realm),
    ("a_synchronous_program_blocks_only_its_caller", a_synchronous_program_blocks_only_its_caller),
];

/// Built-in functions that an interrupt does not stop.
const STUCK: [&str; 14] = [
    "array-to-string",
    "join",
    "reverse",
    "copy-within",
    "concat",
    "sort",
    "unshift",
    "shift",
    "splice",
    "slice",
    "to-locale-string",
    "index-of",
    "includes",
    "join-with",
];

/// Number of calls to the neighbour, of each kind.
const ROUNDS: usize = 3;

/// Creates a lab with unlimited fuel, so that only the deadline ends a turn.
pub(crate) fn lab(turn: Duration) -> Lab {
    let limits = Limits { fuel: u64::MAX, stream_fuel: u64::MAX, ..Limits::default() };
    let process = ProcessOptions::default().turns_of(turn);
    let options = HostOptions { limits, ..HostOptions::default() };
    Lab::watched(options, &["verdict", "exec"], Checked::new(InProcess::new(process)), Impatient)
}

/// Ends every verdict after 10 s of real time, because the lab's clock does not advance meanwhile.
struct Impatient;

struct Fuse {
    stop: Arc<dyn Fn() + Send + Sync>,
    armed: Arc<AtomicU32>,
}

impl Watchdog for Impatient {
    fn watch(&self, stop: Arc<dyn Fn() + Send + Sync>) -> Box<dyn Watch> {
        Box::new(Fuse { stop, armed: Arc::default() })
    }
}

impl Watch for Fuse {
    fn arm(&self, _within_us: u64) {
        let this = self.armed.fetch_add(1, Ordering::SeqCst) + 1;
        let (stop, armed) = (Arc::clone(&self.stop), Arc::clone(&self.armed));
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_secs(10));
            if armed.load(Ordering::SeqCst) == this {
                stop();
            }
        });
    }

    fn disarm(&self) {
        self.armed.fetch_add(1, Ordering::SeqCst);
    }
}

fn neighbours_answer_while_fourteen_extensions_are_stuck() {
    // Longer than the answers take while fourteen workers compute on a busy machine.
    let lab = lab(Duration::from_secs(30));
    let order = RefCell::new(Vec::new());
    lab.run(async {
        lab.load(&["neighbour"]).await;
        for name in STUCK {
            lab.load_as(name, &["stuck"]).await.expect("it loads");
        }
        // Commands of one name are numbered in load order.
        let stuck = STUCK.iter().enumerate().map(|(index, name)| {
            let (host, order) = (&lab.host, &order);
            async move {
                let outcome = host.run_command(&format!("{name}:{}", index + 1), "").await;
                // Some of them exceed the memory limit first.
                if outcome != CommandOutcome::Ended(Termination::OutOfMemory) {
                    assert_eq!(outcome, CommandOutcome::Ended(deadline()), "{name}");
                    order.borrow_mut().push("killed");
                }
            }
        });
        let answers = async {
            for round in 0..ROUNDS {
                assert_eq!(lab.host.run_command("ping", &round.to_string()).await, CommandOutcome::Done);
                assert_eq!(lab.host.run_command("later", "").await, CommandOutcome::Done);
                let told = lab.host.call_tool("echo", "call", json!({ "text": "hi" }), None, |_| {}).await;
                assert!(matches!(told, ToolOutcome::Returned(_)), "{told:?}");
                lab.host.emit(Event::new("agent_start")).await;
                order.borrow_mut().push("answered");
            }
            lab.until_log("timer").await;
        };
        tokio::join!(join_all(stuck), answers);
    });
    let order = order.into_inner();
    assert_eq!(order[..ROUNDS], ["answered"; ROUNDS], "{order:?}");
    assert!(order.len() > ROUNDS + 3, "most are killed: {order:?}");
    assert_eq!(lab.logs().iter().filter(|line| *line == "event").count(), ROUNDS);
}

fn deadline() -> Termination {
    Termination::Timeout { quota: "deadline".to_owned() }
}

fn a_verdict_is_asked_for_while_a_neighbour_is_stuck() {
    let lab = lab(Duration::from_secs(600));
    lab.run(async {
        lab.load(&["stuck", "neighbour"]).await;
        let stuck = lab.host.run_command("reverse", "");
        let verdicts = async {
            tokio::task::yield_now().await;
            assert_eq!(lab.host.stream(&text("go on")), StreamOutcome::Continue);
            assert!(lab.host.stream(&text("stop")).verdict().is_some());
            "verdicts"
        };
        let first = tokio::select! {
            biased;
            _ = stuck => "killed",
            first = verdicts => first,
        };
        assert_eq!(first, "verdicts");
    });
}

fn a_verdict_does_not_wait_for_ever_for_its_own_realm() {
    let lab = lab(Duration::from_secs(600));
    lab.run(async {
        lab.try_load(&["stuck", "neighbour"]).await.expect("one realm for both");
        let stuck = lab.host.run_command("reverse", "");
        let verdict = async {
            tokio::task::yield_now().await;
            lab.host.stream(&text("stop"))
        };
        let (ended, outcome) = tokio::join!(stuck, verdict);
        assert_eq!(ended, CommandOutcome::Ended(deadline()));
        assert_eq!(outcome, StreamOutcome::Continue, "a realm that does not answer stops nothing");
    });
}

fn a_synchronous_program_blocks_only_its_caller() {
    let lab = lab(Duration::from_secs(600));
    let order = RefCell::new(Vec::new());
    lab.run(async {
        lab.load(&["stuck", "neighbour"]).await;
        let waits = async {
            let outcome = lab.host.run_command("run", "held").await;
            order.borrow_mut().push("run");
            outcome
        };
        let answers = async {
            tokio::task::yield_now().await;
            for _ in 0..3 {
                assert_eq!(lab.host.run_command("ping", "").await, CommandOutcome::Done);
                order.borrow_mut().push("ping");
            }
            assert_eq!(lab.host.run_command("release", "").await, CommandOutcome::Done);
        };
        let (outcome, ()) = tokio::join!(waits, answers);
        assert_eq!(outcome, CommandOutcome::Done);
    });
    assert_eq!(order.into_inner(), ["ping", "ping", "ping", "run"]);
}

/// Runs all futures concurrently.
async fn join_all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut pending: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|cx| {
        for (future, output) in &mut pending {
            if output.is_none()
                && let std::task::Poll::Ready(done) = future.as_mut().poll(cx)
            {
                *output = Some(done);
            }
        }
        if pending.iter().all(|(_, output)| output.is_some()) {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    pending.into_iter().filter_map(|(_, output)| output).collect()
}
