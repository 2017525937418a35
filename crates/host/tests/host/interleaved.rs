//! Tests that concurrent events keep their order, however long turns take.
//!
//! [`Unsteady`] realms end each turn at once or after a while, like worker processes on a busy machine. A seed decides which, so
//! every run of these tests sees the same schedules.

use crate::lab::Lab;
use crate::wire::Checked;
use pijs_artifact::Verified;
use pijs_host::{Event, HostOptions, InThread, OpenError, OpenRealm, OpenedRealm};
use pijs_protocol::wire::RealmOptions;
use pijs_protocol::{Delivery, Now, Seq, StreamDelta, Termination, Yield};
use pijs_realm::{Patience, Progress, Realm, SyncHost};
use serde_json::json;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// Number of seeds to try.
const SEEDS: u64 = 40;

/// Maximum number of polls of a turn before it is over.
const MAX_LOOKS: u64 = 6;

/// Opens realms whose turns take a duration that a seed decides.
struct Unsteady {
    random: Rc<Cell<u64>>,
}

impl Unsteady {
    fn new(seed: u64) -> Self {
        Self { random: Rc::new(Cell::new(seed)) }
    }
}

impl OpenRealm for Unsteady {
    fn open(
        &self,
        options: &RealmOptions,
        modules: Vec<Arc<Verified>>,
        now: Now,
        host: &mut dyn SyncHost,
    ) -> Result<OpenedRealm, OpenError> {
        let opened = InThread.open(options, modules, now, host)?;
        let realm = UnsteadyRealm { realm: opened.realm, random: Rc::clone(&self.random), running: None };
        Ok(OpenedRealm { realm: Box::new(realm), ..opened })
    }
}

struct UnsteadyRealm {
    realm: Box<dyn Realm>,
    random: Rc<Cell<u64>>,
    /// Result of the turn that runs, and the number of polls until it is ready.
    running: Option<(u64, Progress)>,
}

impl UnsteadyRealm {
    /// Returns the next number of SplitMix64.
    fn random(&self) -> u64 {
        let state = self.random.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.random.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn look(&mut self) -> Progress {
        match self.running.take().expect("a turn is under way") {
            (0, progress) => progress,
            (looks, progress) => {
                self.running = Some((looks - 1, progress));
                Progress::Running
            }
        }
    }
}

impl Realm for UnsteadyRealm {
    fn start(&mut self, delivery: Delivery, host: &mut dyn SyncHost) -> Progress {
        let progress = self.realm.start(delivery, host);
        // Half of the turns end at once.
        let looks = (self.random() % (2 * MAX_LOOKS)).saturating_sub(MAX_LOOKS);
        self.running = Some((looks, progress));
        self.look()
    }

    fn resume(&mut self, _host: &mut dyn SyncHost, _patience: Patience) -> Progress {
        self.look()
    }

    fn stream(
        &mut self,
        seq: Seq,
        now: Now,
        delta: &StreamDelta,
        host: &mut dyn SyncHost,
    ) -> Result<Yield, Termination> {
        self.realm.stream(seq, now, delta, host)
    }

    fn interrupt(&self) {
        self.realm.interrupt();
    }

    fn attention(&self) -> Option<pijs_realm::Attention> {
        self.running.as_ref().map(|_| pijs_realm::Attention::AtOnce)
    }
}

fn event(name: &'static str, call: &str) -> Event {
    Event::new(name).with("toolCallId", call)
}

#[test]
fn events_of_concurrent_calls_keep_their_order_from_handler_to_handler() {
    const CALLS: [&str; 3] = ["call_1", "call_2", "call_3"];
    let of_all = |what: &str| CALLS.map(|call| format!("{what} {call}"));
    let expected = [of_all("first handler: result of"), of_all("second handler: result of"), of_all("end of")].concat();
    for seed in 0..SEEDS {
        let lab = Lab::over(HostOptions::default(), &[], Checked::new(Unsteady::new(seed)));
        lab.run(async {
            lab.load(&["concurrent-events"]).await;
            let reported = CALLS.map(|call| {
                let host = &lab.host;
                async move {
                    host.emit(event("tool_result", call)).await;
                    host.emit(event("tool_execution_end", call)).await;
                }
            });
            futures_util::future::join_all(reported).await;
        });
        assert_eq!(lab.logs(), expected, "seed {seed}");
    }
}

/// Calls two tools in this order and returns the order in which they ended. `meanwhile` runs once both have begun.
fn ends(lab: &Lab, calls: [&'static str; 2], meanwhile: impl FnOnce()) -> Vec<&'static str> {
    let ended = RefCell::new(Vec::new());
    lab.run(async {
        lab.load(&["concurrent-tools"]).await;
        let running = calls.map(|name| {
            let ended = &ended;
            async move {
                lab.host.call_tool(name, name, json!({}), None, |_| {}).await;
                ended.borrow_mut().push(name);
            }
        });
        tokio::join!(futures_util::future::join_all(running), async { meanwhile() });
    });
    ended.into_inner()
}

#[test]
fn tools_end_in_the_order_of_their_timers_on_a_busy_machine_too() {
    let lab = Lab::new();
    // Both timers are due when the host polls next.
    let late = || lab.clock.advance_to_us(lab.clock.now().elapsed_us + 10_000);
    assert_eq!(ends(&lab, ["long", "short"], late), ["short", "long"]);
}

#[test]
fn tools_that_end_in_one_turn_keep_the_order_of_their_results() {
    for seed in 0..SEEDS {
        let lab = Lab::over(HostOptions::default(), &[], Checked::new(Unsteady::new(seed)));
        assert_eq!(ends(&lab, ["waits", "lets-go"], || ()), ["lets-go", "waits"], "seed {seed}");
    }
}
