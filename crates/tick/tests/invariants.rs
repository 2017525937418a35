//! Tests the invariants I1 to I5 of `docs/spec/tick-loop.md`, each as a property over random schedules.
//!
//! A schedule is a list of [`Op`]s: the driver's actions between ticks. The last property compares whole runs with a model that
//! keeps everything in plain lists and searches for the smallest item.

use pijs_protocol::{Now, Seq, TimerId};
use pijs_tick::microtasks::{OutOfJobs, drain};
use pijs_tick::{CompletionSink, Guest, Macrotask, Tick, TickLoop, TickOptions, completion_queue};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::VecDeque;

#[derive(Debug, Clone)]
enum Op {
    Enqueue(u8),
    SetTimer { id: u32, delay_ms: f64, repeat: bool },
    ClearTimer { id: u32 },
    Tick { pass_us: u64, arrivals: Vec<u8> },
}

/// Delays that often collide, and typical mistakes.
fn delays() -> impl Strategy<Value = f64> {
    prop_oneof![
        6 => prop::sample::select(vec![0.0, 1.0, 1.9, 2.0, 3.0, 5.0]),
        1 => prop::sample::select(vec![
            -0.0, -1.0, 0.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 2_147_483_648.0, 9_007_199_254_740_992.0,
        ]),
    ]
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        2 => any::<u8>().prop_map(Op::Enqueue),
        4 => (0..6_u32, delays(), prop::bool::weighted(0.2))
            .prop_map(|(id, delay_ms, repeat)| Op::SetTimer { id, delay_ms, repeat }),
        1 => (0..6_u32).prop_map(|id| Op::ClearTimer { id }),
        6 => (prop::sample::select(vec![0, 0, 500, 1_000, 2_000, 7_000]), vec(any::<u8>(), 0..3))
            .prop_map(|(pass_us, arrivals)| Op::Tick { pass_us, arrivals }),
    ];
    vec(op, 0..60)
}

fn at(elapsed_us: u64) -> Now {
    Now { epoch_ms: 0, elapsed_us }
}

/// A guest that records its turns.
#[derive(Default)]
struct Recorder {
    turns: Vec<(Seq, Now, Macrotask<u8>)>,
}

impl Guest<u8> for Recorder {
    type Output = ();

    fn turn(&mut self, seq: Seq, now: Now, task: Macrotask<u8>) {
        self.turns.push((seq, now, task));
    }
}

/// Runs a schedule; calls `after_tick` with the result of each tick.
fn run(ops: &[Op], mut after_tick: impl FnMut(&Tick<()>, &[(Seq, Now, Macrotask<u8>)])) -> Recorder {
    let mut guest = Recorder::default();
    let mut tick_loop = TickLoop::new(TickOptions { max_timers: 6 });
    let mut elapsed_us = 0;
    for op in ops {
        match op {
            Op::Enqueue(value) => {
                tick_loop.enqueue(*value);
            }
            Op::SetTimer { id, delay_ms, repeat } => {
                tick_loop
                    .set_timer(TimerId(*id), *delay_ms, *repeat, at(elapsed_us))
                    .expect("the number of timers is small");
            }
            Op::ClearTimer { id } => {
                tick_loop.clear_timer(TimerId(*id));
            }
            Op::Tick { pass_us, arrivals } => {
                elapsed_us += pass_us;
                let before = guest.turns.len();
                let did = tick_loop.tick(at(elapsed_us), arrivals.iter().copied(), &mut guest);
                after_tick(&did, &guest.turns[before..]);
            }
        }
    }
    guest
}

proptest! {
    #[test]
    fn i1_a_tick_runs_at_most_one_macrotask(ops in ops()) {
        run(&ops, |did, turns| match did {
            Tick::Idle => assert!(turns.is_empty(), "idle, but {turns:?} ran"),
            Tick::Ran { seq, .. } => assert!(matches!(turns, [(ran, ..)] if ran == seq), "{seq:?} ran {turns:?}"),
        });
    }

    #[test]
    fn i2_no_microtask_outlives_its_turn(arrivals in vec(0..8_u8, 1..20), budget in 0..40_u32) {
        let mut guest = Jobs { budget, ..Jobs::default() };
        let mut tick_loop = TickLoop::new(TickOptions::default());
        for arrival in &arrivals {
            tick_loop.enqueue(*arrival);
        }
        for arrival in &arrivals {
            let Tick::Ran { output, .. } = tick_loop.tick(at(0), [], &mut guest) else { panic!("work is queued") };
            // `n` roots, and each job of generation g > 0 leaves one of generation g - 1.
            let jobs: u32 = (1..=u32::from(*arrival)).sum();
            if jobs <= budget {
                prop_assert_eq!(output, Ok(jobs));
                prop_assert!(guest.pending.is_empty(), "left over: {:?}", guest.pending);
            } else {
                // An exhausted budget is final: the driver discards the realm.
                prop_assert_eq!(output, Err(OutOfJobs { budget }));
                break;
            }
        }
    }

    #[test]
    fn i3_timers_fire_by_deadline_and_then_by_age(delays in vec(prop::sample::select(vec![1.0, 2.0, 3.0]), 1..30)) {
        let mut guest = Recorder::default();
        let mut tick_loop = TickLoop::new(TickOptions::default());
        for (id, delay_ms) in (0..).zip(&delays) {
            tick_loop.set_timer(TimerId(id), *delay_ms, false, at(0)).expect("the number of timers is small");
        }
        while tick_loop.tick(at(5_000), [], &mut guest) != Tick::Idle {}
        let mut expected: Vec<u32> = (0..).zip(&delays).map(|(id, _)| id).collect();
        expected.sort_by(|one, other| delays[*one as usize].total_cmp(&delays[*other as usize])); // stable
        let fired: Vec<_> = guest.turns.iter().map(|(_, _, task)| task.clone()).collect();
        prop_assert_eq!(fired, expected.into_iter().map(|id| Macrotask::Timer(TimerId(id))).collect::<Vec<_>>());
    }

    #[test]
    fn i4_a_completion_that_comes_in_during_a_turn_waits_for_a_later_tick(
        first in vec(0..4_u8, 1..6),
        batches in vec(any::<bool>(), 100),
    ) {
        let (sink, mut queue) = completion_queue();
        let mut guest = Reentrant { sink, turn: 0, inside: false, pushed: VecDeque::new() };
        for fanout in first {
            guest.push(fanout);
        }
        let mut tick_loop = TickLoop::new(TickOptions::default());
        for batch in batches {
            // The driver may drain completions at any time between ticks; here the schedule decides.
            let arrivals = if batch { queue.drain() } else { Vec::new() };
            tick_loop.tick(at(0), arrivals, &mut guest);
        }
    }

    #[test]
    fn i5_macrotasks_run_in_the_order_of_their_numbers(ops in ops()) {
        let mut last = Seq(0);
        run(&ops, |_, turns| {
            for (seq, ..) in turns {
                assert!(*seq > last, "{seq:?} ran after {last:?}");
                last = *seq;
            }
        });
    }

    #[test]
    fn i5_arrivals_keep_their_order_and_go_before_timers_that_are_due_with_them(
        arrivals in vec(any::<u8>(), 1..10),
        timers in 1..5_u32,
    ) {
        let mut guest = Recorder::default();
        let mut tick_loop = TickLoop::new(TickOptions::default());
        for id in 0..timers {
            tick_loop.set_timer(TimerId(id), 1.0, false, at(0)).expect("the number of timers is small");
        }
        tick_loop.tick(at(1_000), arrivals.iter().copied(), &mut guest);
        while tick_loop.tick(at(1_000), [], &mut guest) != Tick::Idle {}
        let expected: Vec<_> = arrivals
            .into_iter()
            .map(Macrotask::Arrival)
            .chain((0..timers).map(|id| Macrotask::Timer(TimerId(id))))
            .collect();
        prop_assert_eq!(guest.turns.into_iter().map(|(_, _, task)| task).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_run_is_the_one_the_model_predicts(ops in ops()) {
        let expected = ReferenceLoop::run(&ops);
        let ran: Vec<_> = run(&ops, |_, _| {}).turns.into_iter().map(|(seq, now, task)| (seq.0, now.elapsed_us, task)).collect();
        prop_assert_eq!(ran, expected);
    }

    #[test]
    fn the_same_schedule_gives_the_same_run(ops in ops()) {
        prop_assert_eq!(run(&ops, |_, _| {}).turns, run(&ops, |_, _| {}).turns);
    }
}

/// A guest with a job queue like an engine's: arrival `n` adds `n` jobs of generations 0 to n-1, and a job of generation g > 0
/// adds one of generation g - 1.
#[derive(Default)]
struct Jobs {
    budget: u32,
    pending: VecDeque<u8>,
}

impl Guest<u8> for Jobs {
    type Output = Result<u32, OutOfJobs>;

    fn turn(&mut self, _: Seq, _: Now, task: Macrotask<u8>) -> Self::Output {
        assert!(self.pending.is_empty(), "a turn began with microtasks of an earlier one");
        let Macrotask::Arrival(roots) = task else { panic!("no timers here") };
        self.pending.extend(0..roots);
        drain(self.budget, || {
            let Some(generation) = self.pending.pop_front() else { return Ok(false) };
            self.pending.extend(generation.checked_sub(1));
            Ok(true)
        })
    }
}

/// A guest that completes operations during its turn: arrival `n` pushes `n` arrivals of `n - 1`.
struct Reentrant {
    sink: CompletionSink<(usize, u8)>,
    turn: usize,
    inside: bool,
    /// Pushed values that have not arrived, each with the turn that pushed it.
    pushed: VecDeque<(usize, u8)>,
}

impl Reentrant {
    fn push(&mut self, fanout: u8) {
        self.pushed.push_back((self.turn, fanout));
        self.sink.push((self.turn, fanout));
    }
}

impl Guest<(usize, u8)> for Reentrant {
    type Output = ();

    fn turn(&mut self, _: Seq, _: Now, task: Macrotask<(usize, u8)>) {
        assert!(!self.inside, "a turn inside a turn");
        self.inside = true;
        self.turn += 1;
        let Macrotask::Arrival(arrival) = task else { panic!("no timers here") };
        assert_eq!(Some(arrival), self.pushed.pop_front(), "completions run in the order they came");
        assert!(arrival.0 < self.turn, "pushed in turn {} and run in it", arrival.0);
        for _ in 0..arrival.1 {
            self.push(arrival.1 - 1);
        }
        self.inside = false;
    }
}

/// A reference model of the loop: one list, searched for the smallest item.
#[derive(Default)]
struct ReferenceLoop {
    seq: u64,
    now_us: u64,
    queue: Vec<(u64, Macrotask<u8>)>,
    /// Deadline, number, id, period.
    timers: Vec<(u64, u64, u32, Option<u64>)>,
    rearm: Option<(u64, u32, u64)>,
}

impl ReferenceLoop {
    fn run(ops: &[Op]) -> Vec<(u64, u64, Macrotask<u8>)> {
        let mut model = Self::default();
        // Periods of intervals by id, while their macrotask waits.
        let mut ran = Vec::new();
        let mut periods: Vec<(u32, Option<u64>)> = Vec::new();
        for op in ops {
            match op {
                Op::Enqueue(value) => {
                    let seq = model.number();
                    model.queue.push((seq, Macrotask::Arrival(*value)));
                }
                Op::ClearTimer { id } => model.clear(*id),
                Op::SetTimer { id, delay_ms, repeat } => {
                    model.clear(*id);
                    let delay_us = if *delay_ms == 0.0 {
                        0
                    } else if *delay_ms >= 1.0 && *delay_ms <= 2_147_483_647.0 {
                        delay_ms.trunc() as u64 * 1_000
                    } else {
                        1_000
                    };
                    let period = repeat.then_some(delay_us.max(1_000));
                    periods.retain(|(other, _)| other != id);
                    periods.push((*id, period));
                    let seq = model.number();
                    model.timers.push((model.now_us + period.unwrap_or(delay_us), seq, *id, period));
                }
                Op::Tick { pass_us, arrivals } => {
                    if let Some((deadline, id, period)) = model.rearm.take() {
                        let seq = model.number();
                        model.timers.push((deadline, seq, id, Some(period)));
                    }
                    model.now_us += pass_us;
                    for value in arrivals {
                        let seq = model.number();
                        model.queue.push((seq, Macrotask::Arrival(*value)));
                    }
                    while let Some(due) = model.timers.iter().filter(|timer| timer.0 <= model.now_us).min().copied() {
                        model.timers.retain(|timer| *timer != due);
                        let seq = model.number();
                        model.queue.push((seq, Macrotask::Timer(TimerId(due.2))));
                    }
                    let Some(next) = model.queue.iter().map(|(seq, _)| *seq).min() else { continue };
                    let at = model.queue.iter().position(|(seq, _)| *seq == next).expect("it is there");
                    let (seq, task) = model.queue.remove(at);
                    if let Macrotask::Timer(TimerId(id)) = task
                        && let Some((_, Some(period))) = periods.iter().find(|(other, _)| *other == id)
                    {
                        model.rearm = Some((model.now_us + period, id, *period));
                    }
                    ran.push((seq, model.now_us, task));
                }
            }
        }
        ran
    }

    fn number(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    fn clear(&mut self, id: u32) {
        self.timers.retain(|timer| timer.2 != id);
        self.queue.retain(|(_, task)| *task != Macrotask::Timer(TimerId(id)));
        self.rearm = self.rearm.filter(|(_, other, _)| *other != id);
    }
}
