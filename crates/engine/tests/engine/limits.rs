//! Tests the limits of a realm with code that does not terminate.

use crate::support::{Guest, Sources, call, delta};
use pijs_engine::EngineRealm;
use pijs_protocol::Termination;
use pijs_protocol::wire::Limits;
use std::thread;
use std::time::Duration;

const HOSTILE: Sources<'static> = &[("main.js", include_str!("../fixtures/guests/hostile.js"))];

/// Returns limits that tests can exceed quickly, but that an ordinary turn does not exceed.
fn tight() -> Limits {
    Limits { memory_bytes: 8 << 20, fuel: 200, stream_fuel: 50, jobs: 1000, ..Limits::default() }
}

fn end_of(export: &str) -> Termination {
    let mut guest = Guest::with(HOSTILE, tight());
    guest.turn(export, &[]).expect_err("the limit ends the realm")
}

fn timeout(quota: &str) -> Termination {
    Termination::Timeout { quota: quota.to_owned() }
}

const GARBAGE: Sources<'static> =
    &[("main.js", include_str!("../fixtures/guests/garbage.js")), ("lazy.js", "export const loaded = true;")];

/// Returns the size of the heap after each of these turns, in bytes.
fn heaps_after(exports: &[&str]) -> Vec<u64> {
    let mut guest = Guest::new(GARBAGE);
    exports.iter().map(|export| guest.turn(export, &[]).expect("the realm is running").usage.heap_bytes).collect()
}

/// Collecting while modules are evaluated would traverse what stays alive, again and again.
#[test]
fn a_turn_that_loads_a_module_collects_garbage_later_than_others() {
    const FEW: u64 = 4 << 20;
    let heaps = heaps_after(&["litter", "litter"]);
    assert!(heaps.iter().all(|heap| *heap <= FEW), "{heaps:?}");
    let heaps = heaps_after(&["litterWhileLoading", "litterWhileLoading", "litterWhileLoading"]);
    assert!(heaps[0] >= 8 << 20, "nothing was collected while the module was loaded: {heaps:?}");
    assert!(heaps[1] <= heaps[0] + heaps[0] / 2, "the heap grows by half at most: {heaps:?}");
    assert!(heaps[2] <= FEW, "collections are not postponed again: {heaps:?}");
}

#[test]
fn an_endless_loop_runs_out_of_fuel() {
    assert_eq!(end_of("loop"), timeout("fuel"));
}

#[test]
fn an_interrupt_is_not_catchable() {
    assert_eq!(end_of("catchLoop"), timeout("fuel"));
}

#[test]
fn a_microtask_flood_runs_out_of_jobs() {
    assert_eq!(end_of("microtasks"), timeout("jobs"));
}

#[test]
fn a_catastrophic_regexp_runs_out_of_fuel() {
    assert_eq!(end_of("regexp"), timeout("fuel"));
}

#[test]
fn exhausted_memory_ends_the_realm() {
    assert_eq!(end_of("memory"), Termination::OutOfMemory);
}

#[test]
fn exhausted_memory_ends_the_realm_even_when_the_exception_was_swallowed() {
    assert_eq!(end_of("memorySwallowed"), Termination::OutOfMemory);
    assert_eq!(end_of("oneHugeString"), Termination::OutOfMemory);
}

#[test]
fn runaway_recursion_is_an_ordinary_error_of_the_guest() {
    let mut guest = Guest::with(HOSTILE, tight());
    assert_eq!(guest.ask("recursion", &[]), "RangeError");
}

#[test]
fn a_realm_that_ended_answers_every_entry_with_its_end() {
    let mut guest = Guest::with(HOSTILE, tight());
    let ended = guest.turn("loop", &[]).expect_err("out of fuel");
    assert_eq!(guest.turn("recursion", &[]), Err(ended.clone()));
    assert_eq!(guest.stream(&delta("x")), Err(ended));
}

#[test]
fn fuel_is_counted_per_turn_and_the_same_each_time() {
    let used = || {
        let mut guest = Guest::new(&[("main.js", "export const spin = (n) => { for (let i = 0; i < n; i++); };")]);
        [1_000_000, 1_000_000].map(|n| guest.turn("spin", &[n.into()]).expect("within its fuel").usage.fuel)
    };
    let [first, second] = used();
    assert!(first > 50, "a million rounds are about a hundred polls, not {first}");
    assert!(second.abs_diff(first) <= 1, "the counter starts anew: {first}, {second}");
    assert_eq!(used(), [first, second]);
}

#[test]
fn another_thread_can_stop_a_running_turn() {
    let mut guest = Guest::with(HOSTILE, Limits { fuel: u64::MAX, ..Limits::default() });
    let interrupter = guest.realm.interrupter();
    let watchdog = thread::spawn(move || {
        // The turn begins at an unknown moment, and an interrupt before it has no effect, so the interrupt is repeated until the
        // realm has ended.
        while !interrupter_done(&interrupter) {
            interrupter.interrupt();
            thread::sleep(Duration::from_millis(1));
        }
    });
    assert_eq!(guest.turn("interrupted", &[]), Err(timeout("deadline")));
    drop(guest);
    watchdog.join().expect("the watchdog sees the end");
}

/// Returns whether the realm of this handle was dropped; the realm has the only other reference.
fn interrupter_done(interrupter: &pijs_engine::Interrupter) -> bool {
    interrupter.is_orphaned()
}

#[test]
fn an_interrupt_between_turns_does_nothing() {
    let mut guest = Guest::with(HOSTILE, tight());
    guest.realm.interrupter().interrupt();
    assert_eq!(guest.ask("recursion", &[]), "RangeError");
}

#[test]
fn a_realm_needs_memory_for_an_empty_context() {
    let options = crate::support::options(Limits { memory_bytes: 10_000, ..Limits::default() });
    let refused = EngineRealm::new(&options).err().expect("the heap is too small");
    assert!(refused.to_string().contains("cannot create a realm"), "{refused}");
}

/// Padding the heap does not end a realm that has little memory left.
#[test]
#[cfg(target_os = "linux")]
fn padding_the_heap_does_not_end_a_realm_with_little_memory() {
    let heap_of = |guest: &mut Guest| guest.turn("recursion", &[]).expect("the realm is running").usage.heap_bytes;
    let used = heap_of(&mut Guest::with(HOSTILE, tight()));
    let mut guest = Guest::with(HOSTILE, Limits { memory_bytes: used + (64 << 10), ..tight() });
    guest.realm.prepare_for_copies();
    assert_eq!(guest.ask("recursion", &[]), "RangeError");
}

#[test]
fn a_delta_has_fuel_of_its_own() {
    let mut guest = Guest::with(
        &[("main.js", include_str!("../fixtures/guests/deltas.js"))],
        Limits { fuel: u64::MAX, stream_fuel: 20, ..Limits::default() },
    );
    assert_eq!(guest.stream(&delta("spin")), Err(timeout("fuel")));
}

#[test]
fn an_unstarted_realm_refuses_a_delivery_as_a_host_bug() {
    let mut realm = EngineRealm::new(&crate::support::options(Limits::default())).expect("a realm");
    let delivery = pijs_protocol::Delivery {
        seq: pijs_protocol::Seq(1),
        now: crate::support::NOW,
        task: pijs_protocol::wire::Task::Message(Box::new(call("x", &[]))),
        state: None,
    };
    let ended = realm.turn(delivery, &mut crate::support::Answers::default()).expect_err("not started");
    assert!(matches!(&ended, Termination::HostBug { detail } if detail.contains("before it was started")), "{ended}");
}
