//! Benchmarks the loop itself: enqueue and tick, and timers of a busy extension.

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use pijs_protocol::{Now, Seq, TimerId};
use pijs_tick::{Guest, Macrotask, Tick, TickLoop, TickOptions, completion_queue};
use std::hint::black_box;

/// A guest whose turns do nothing.
struct Nothing;

impl Guest<u64> for Nothing {
    type Output = ();

    fn turn(&mut self, seq: Seq, _: Now, task: Macrotask<u64>) {
        black_box((seq, task));
    }
}

fn at(elapsed_us: u64) -> Now {
    Now { epoch_ms: 0, elapsed_us }
}

fn arrivals(c: &mut Criterion) {
    let mut tick_loop = TickLoop::new(TickOptions::default());
    c.bench_function("enqueue_and_tick", |b| {
        b.iter(|| {
            tick_loop.enqueue(black_box(7));
            tick_loop.tick(at(0), [], &mut Nothing)
        });
    });

    // A delta or a completion usually arrives while timers are armed.
    let mut armed = TickLoop::new(TickOptions::default());
    for id in 0..1_000 {
        armed.set_timer(TimerId(id), 1e6, false, at(0)).expect("below the limit");
    }
    c.bench_function("enqueue_and_tick_beside_1000_timers", |b| {
        b.iter(|| {
            armed.enqueue(black_box(7));
            armed.tick(at(0), [], &mut Nothing)
        });
    });

    let (sink, mut queue) = completion_queue();
    let mut tick_loop = TickLoop::new(TickOptions::default());
    c.bench_function("completion_push_drain_tick", |b| {
        b.iter(|| {
            sink.push(black_box(7));
            tick_loop.tick(at(0), queue.drain(), &mut Nothing)
        });
    });
}

fn timers(c: &mut Criterion) {
    c.bench_function("set_and_clear_beside_1000_timers", |b| {
        let mut tick_loop: TickLoop<u64> = TickLoop::new(TickOptions::default());
        for id in 0..1_000 {
            tick_loop.set_timer(TimerId(id), f64::from(id % 50 + 1), false, at(0)).expect("below the limit");
        }
        b.iter(|| {
            tick_loop.set_timer(TimerId(5_000), 25.0, false, at(0)).expect("below the limit");
            tick_loop.clear_timer(TimerId(5_000))
        });
    });

    c.bench_function("fire_1000_timers", |b| {
        b.iter_batched(
            || {
                let mut tick_loop: TickLoop<u64> = TickLoop::new(TickOptions::default());
                for id in 0..1_000 {
                    tick_loop.set_timer(TimerId(id), f64::from(id % 50 + 1), false, at(0)).expect("below the limit");
                }
                tick_loop
            },
            |mut tick_loop| while tick_loop.tick(at(100_000), [], &mut Nothing) != Tick::Idle {},
            BatchSize::SmallInput,
        );
    });
}

criterion_group!(benches, arrivals, timers);
criterion_main!(benches);
