//! Tests the completion queue under every interleaving of producers and consumer.
//!
//! Compiled with `--cfg loom`, which replaces the queue's lock by loom's. `.ci/run` runs this test; to run it manually:
//!
//! ```sh
//! RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom cargo test -p pijs-tick --test loom --release
//! ```

#![cfg(loom)]

use loom::future::block_on;
use loom::thread;
use pijs_tick::completion_queue;

/// Waits for `count` values. If a wake-up can be lost, loom finds a schedule in which this never ends, and reports a deadlock.
fn receive(queue: &mut pijs_tick::CompletionQueue<(u8, u8)>, count: usize) -> Vec<(u8, u8)> {
    let mut received = Vec::new();
    while received.len() < count {
        block_on(queue.ready());
        let drained = queue.drain();
        assert!(!drained.is_empty(), "ready, but nothing to drain");
        received.extend(drained);
    }
    received
}

/// Maximum number of preemptions per schedule: enough for any race between two locks, and done in seconds.
const PREEMPTIONS: usize = 3;

fn model(test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check(test);
}

#[test]
fn no_wakeup_is_lost_and_each_producer_keeps_its_order() {
    model(|| {
        let (sink, mut queue) = completion_queue();
        let producers: Vec<_> = (0..2)
            .map(|producer| {
                let sink = sink.clone();
                thread::spawn(move || {
                    for number in 0..2 - producer {
                        sink.push((producer, number));
                    }
                })
            })
            .collect();
        let received = receive(&mut queue, 3);
        for producer in 0..2 {
            let numbers: Vec<_> =
                received.iter().filter(|(by, _)| *by == producer).map(|(_, number)| *number).collect();
            assert_eq!(numbers, (0..2 - producer).collect::<Vec<_>>(), "of producer {producer}");
        }
        for producer in producers {
            producer.join().expect("a producer does not panic");
        }
        assert!(queue.drain().is_empty(), "each value is drained once");
    });
}

#[test]
fn a_producer_may_outlive_the_queue() {
    model(|| {
        let (sink, mut queue) = completion_queue();
        let producer = thread::spawn(move || {
            sink.push((0, 0));
            sink.push((0, 1));
        });
        assert_eq!(receive(&mut queue, 1)[0], (0, 0));
        drop(queue);
        producer.join().expect("pushing into a queue that is gone does nothing");
    });
}
