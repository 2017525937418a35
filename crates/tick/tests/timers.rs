//! Tests the timer behaviour that extensions for Node rely on.

use pijs_protocol::{Now, Seq, TimerId};
use pijs_tick::{Guest, Macrotask, Tick, TickLoop, TickOptions, TimerQuota};

fn at(elapsed_us: u64) -> Now {
    Now { epoch_ms: 0, elapsed_us }
}

#[derive(Default)]
struct Fired(Vec<(u64, u32)>);

impl Guest<()> for Fired {
    type Output = ();

    fn turn(&mut self, _: Seq, now: Now, task: Macrotask<()>) {
        if let Macrotask::Timer(TimerId(id)) = task {
            self.0.push((now.elapsed_us, id));
        }
    }
}

fn tick_loop() -> TickLoop<()> {
    TickLoop::new(TickOptions::default())
}

#[test]
fn a_delay_that_node_cannot_use_counts_as_one_millisecond() {
    let two_to_53 = 9_007_199_254_740_992.0;
    for odd in [f64::NAN, -1.0, -0.5, 0.5, f64::INFINITY, f64::NEG_INFINITY, 2_147_483_648.0, two_to_53, f64::MAX] {
        let mut tick_loop = tick_loop();
        tick_loop.set_timer(TimerId(1), odd, false, at(10)).expect("one timer");
        assert_eq!(tick_loop.next_deadline_us(), Some(1_010), "delay {odd}");
    }
}

#[test]
fn other_delays_are_cut_to_whole_milliseconds() {
    for (delay_ms, deadline_us) in
        [(0.0, 10), (-0.0, 10), (1.0, 1_010), (1.999, 1_010), (2_147_483_647.0, 2_147_483_647_010)]
    {
        let mut tick_loop = tick_loop();
        tick_loop.set_timer(TimerId(1), delay_ms, false, at(10)).expect("one timer");
        assert_eq!(tick_loop.next_deadline_us(), Some(deadline_us), "delay {delay_ms}");
    }
}

#[test]
fn a_deadline_beyond_time_never_comes_and_does_not_wrap() {
    let mut tick_loop = tick_loop();
    tick_loop.set_timer(TimerId(1), 5.0, true, at(u64::MAX - 10)).expect("one timer");
    assert_eq!(tick_loop.next_deadline_us(), Some(u64::MAX));
}

#[test]
fn an_interval_repeats_until_it_is_cleared() {
    let (mut tick_loop, mut fired) = (tick_loop(), Fired::default());
    tick_loop.set_timer(TimerId(1), 10.0, true, at(0)).expect("one timer");
    for elapsed_ms in 0..=35 {
        tick_loop.tick(at(elapsed_ms * 1_000), [], &mut fired);
    }
    assert_eq!(fired.0, [(10_000, 1), (20_000, 1), (30_000, 1)]);
    assert!(tick_loop.clear_timer(TimerId(1)));
    tick_loop.tick(at(60_000), [], &mut fired);
    assert_eq!(fired.0.len(), 3);
    assert_eq!(tick_loop.next_deadline_us(), None);
}

#[test]
fn an_interval_can_be_cleared_by_its_own_turn() {
    let (mut tick_loop, mut fired) = (tick_loop(), Fired::default());
    tick_loop.set_timer(TimerId(1), 10.0, true, at(0)).expect("one timer");
    tick_loop.tick(at(10_000), [], &mut fired);
    assert_eq!(tick_loop.next_deadline_us(), Some(20_000), "a driver must know when to come back");
    assert!(tick_loop.clear_timer(TimerId(1)));
    assert_eq!(tick_loop.next_deadline_us(), None);
    assert_eq!(tick_loop.tick(at(90_000), [], &mut fired), Tick::Idle);
}

#[test]
fn an_interval_of_zero_lets_the_loop_become_idle() {
    let (mut tick_loop, mut fired) = (tick_loop(), Fired::default());
    tick_loop.set_timer(TimerId(1), 0.0, true, at(0)).expect("one timer");
    tick_loop.tick(at(1_000), [], &mut fired);
    assert_eq!(tick_loop.tick(at(1_000), [], &mut fired), Tick::Idle);
}

#[test]
fn an_interval_does_not_make_up_for_missed_periods() {
    let (mut tick_loop, mut fired) = (tick_loop(), Fired::default());
    tick_loop.set_timer(TimerId(1), 10.0, true, at(0)).expect("one timer");
    tick_loop.tick(at(1_000_000), [], &mut fired);
    assert_eq!(tick_loop.tick(at(1_000_000), [], &mut fired), Tick::Idle);
    assert_eq!(tick_loop.next_deadline_us(), Some(1_010_000));
}

#[test]
fn timers_that_an_interval_sets_come_before_its_next_round() {
    let (mut tick_loop, mut fired) = (tick_loop(), Fired::default());
    tick_loop.set_timer(TimerId(1), 10.0, true, at(0)).expect("one timer");
    tick_loop.tick(at(10_000), [], &mut fired);
    tick_loop.set_timer(TimerId(2), 10.0, false, at(10_000)).expect("two timers");
    tick_loop.tick(at(20_000), [], &mut fired);
    tick_loop.tick(at(20_000), [], &mut fired);
    assert_eq!(fired.0, [(10_000, 1), (20_000, 2), (20_000, 1)]);
}

#[test]
fn a_due_timer_can_still_be_cleared() {
    let (mut tick_loop, mut fired) = (tick_loop(), Fired::default());
    for id in 1..=3 {
        tick_loop.set_timer(TimerId(id), 1.0, false, at(0)).expect("three timers");
    }
    tick_loop.tick(at(1_000), [()], &mut fired); // the arrival runs, all three are queued
    assert_eq!(tick_loop.queued(), 3);
    assert!(tick_loop.clear_timer(TimerId(2)));
    assert!(!tick_loop.clear_timer(TimerId(2)), "it is gone");
    while tick_loop.tick(at(1_000), [], &mut fired) != Tick::Idle {}
    assert_eq!(fired.0, [(1_000, 1), (1_000, 3)]);
}

#[test]
fn one_timer_too_many_is_refused_and_changes_nothing() {
    let (mut tick_loop, mut fired) = (TickLoop::<()>::new(TickOptions { max_timers: 2 }), Fired::default());
    tick_loop.set_timer(TimerId(1), 1.0, false, at(0)).expect("first");
    tick_loop.set_timer(TimerId(2), 1.0, true, at(0)).expect("second");
    assert_eq!(tick_loop.set_timer(TimerId(3), 1.0, false, at(0)), Err(TimerQuota { max_timers: 2 }));
    tick_loop.set_timer(TimerId(1), 2.0, false, at(0)).expect("setting a live one anew needs no room");
    while tick_loop.tick(at(2_000), [], &mut fired) != Tick::Idle {}
    assert_eq!(fired.0, [(2_000, 2), (2_000, 1)]);
    assert_eq!(tick_loop.live_timers(), 1, "the timeout is over, the interval lives");
    tick_loop.set_timer(TimerId(3), 1.0, false, at(0)).expect("there is room again");
}

#[test]
fn a_clock_that_goes_backwards_does_not_turn_time_back() {
    let (mut tick_loop, mut fired) = (tick_loop(), Fired::default());
    tick_loop.set_timer(TimerId(1), 5.0, false, at(0)).expect("one timer");
    tick_loop.tick(at(4_000), [()], &mut fired);
    tick_loop.set_timer(TimerId(2), 0.0, false, at(4_000)).expect("two timers");
    tick_loop.tick(at(1_000), [], &mut fired);
    assert_eq!(fired.0, [(4_000, 2)]);
}
