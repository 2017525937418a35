//! Tests that the lab explores every order of completions and timers, and that its schedules can be replayed.

use pijs_protocol::{Now, Seq, TimerId};
use pijs_tick::lab::{Chooser, Effects, Exploration, Explored, Lab, Step, explore, replay, shrink};
use pijs_tick::{Guest, Macrotask, TickOptions};
use std::collections::BTreeSet;

/// A guest that records its turns; the first one also sets a timer.
#[derive(Default)]
struct NameRecorder(Vec<String>);

impl Guest<&'static str> for NameRecorder {
    type Output = Effects<&'static str>;

    fn turn(&mut self, _: Seq, _: Now, task: Macrotask<&'static str>) -> Self::Output {
        self.0.push(match task {
            Macrotask::Arrival(name) => name.to_owned(),
            Macrotask::Timer(TimerId(id)) => format!("timer {id}"),
        });
        let timers = if self.0.len() == 1 { vec![(TimerId(1), 5.0, false)] } else { Vec::new() };
        Effects { timers, ..Effects::default() }
    }
}

fn run(chooser: &mut Chooser) -> Vec<String> {
    let mut lab = Lab::new(chooser, TickOptions::default());
    let mut guest = NameRecorder::default();
    for name in ["read", "exec", "http"] {
        lab.begin(name);
    }
    lab.run(&mut guest, 100).expect("four macrotasks and a timer");
    guest.0
}

#[test]
fn every_order_is_tried() {
    let mut orders = BTreeSet::new();
    let explored = explore(Exploration::default(), |chooser| {
        orders.insert(run(chooser));
        Ok(())
    })
    .expect("nothing fails");
    assert!(explored.complete, "{explored:?}");
    // Three completions in any order, and the timer anywhere after the first of them.
    assert_eq!(orders.len(), 6 * 3);
    assert!(orders.iter().all(|order| order.len() == 4), "{orders:?}");
}

#[test]
fn a_failing_schedule_is_a_string_that_fails_again() {
    let test = |chooser: &mut Chooser| {
        let order = run(chooser);
        if order == ["http", "timer 1", "exec", "read"] { Err(format!("bad order {order:?}")) } else { Ok(()) }
    };
    let failure = explore(Exploration::default(), test).expect_err("one order fails");
    let text = failure.schedule.to_string();
    assert!(failure.to_string().contains(&text), "{failure}");
    assert_eq!(replay(&text, test), Err(failure.message));
    assert_eq!(replay("lab1:", test), Ok(()), "the first of all schedules is another one");
}

#[test]
fn a_panic_counts_as_a_failure() {
    let failure = explore(Exploration::default(), |chooser| {
        assert_eq!(chooser.choose(3), 0, "a belief");
        Ok(())
    })
    .expect_err("the second schedule differs");
    assert_eq!(failure.schedule.to_string(), "lab1:1");
    assert!(failure.message.contains("a belief"), "{}", failure.message);
}

#[test]
fn too_many_schedules_are_drawn_from_the_seed() {
    let options = Exploration { exhaustive: 5, seeded: 50, seed: 3 };
    let mut first = Vec::new();
    let mut second = Vec::new();
    for runs in [&mut first, &mut second] {
        let explored = explore(options, |chooser| {
            runs.push(run(chooser));
            Ok(())
        });
        assert_eq!(explored, Ok(Explored { schedules: 55, complete: false }));
    }
    assert_eq!(first, second, "the same seed draws the same schedules");
    assert!(first[5..].iter().collect::<BTreeSet<_>>().len() > 5, "the draws differ from one another");
}

#[test]
fn a_schedule_of_another_test_is_refused() {
    let message = replay("lab1:9", |chooser| {
        run(chooser);
        Ok(())
    });
    assert!(message.as_ref().is_err_and(|message| message.contains("another test")), "{message:?}");
    assert!(replay("1.2", |_| Ok(())).is_err_and(|message| message.contains("not a schedule")));
}

#[test]
fn time_advances_only_by_decision_of_the_schedule() {
    explore(Exploration::default(), |chooser| {
        let mut lab = Lab::new(chooser, TickOptions::default());
        lab.begin("read");
        let steps = lab.run(&mut NameRecorder::default(), 100).expect("it ends");
        let advances: Vec<_> = steps.iter().filter(|step| matches!(step, Step::Advanced { .. })).collect();
        assert_eq!(advances, [&Step::Advanced { elapsed_us: 5_000 }]);
        Ok(())
    })
    .expect("one operation and one timer");
}

#[test]
fn a_failing_schedule_is_shrunk_to_the_decisions_that_matter() {
    let test = |chooser: &mut Chooser| {
        let picked: Vec<usize> = (0..6).map(|_| chooser.choose(4)).collect();
        if picked[2] >= 2 { Err(format!("picked {}", picked[2])) } else { Ok(()) }
    };
    let options = Exploration { exhaustive: 0, seeded: 50, seed: 3 };
    let failure = explore(options, test).expect_err("a failing schedule is found");
    let shrunk = shrink(failure, 1000, test);
    assert_eq!((shrunk.schedule.to_string().as_str(), shrunk.message.as_str()), ("lab1:0.0.2", "picked 2"));
}

#[test]
fn priorities_run_one_operation_after_all_others() {
    // Fails if the first operation to begin is the last to end, which is one order of twenty operations in about twenty.
    let test = |chooser: &mut Chooser| {
        let mut operations: Vec<u64> = (0..20).collect();
        while operations.len() > 1 {
            let picked = chooser.choose_operation(&operations);
            operations.remove(picked);
        }
        if operations == [0] { Err("the first one is the last".to_owned()) } else { Ok(()) }
    };
    let options = Exploration { exhaustive: 0, seeded: 400, seed: 1 };
    let failure = explore(options, test).expect_err("it is found");
    assert!(replay(&failure.schedule.to_string(), test).is_err());
}
