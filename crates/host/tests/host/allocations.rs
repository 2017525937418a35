//! Counts the allocations of this thread for a streamed delta, a count that is equal on every machine.

use crate::lab::{Lab, text};
use allocation_counter::measure;
use pijs_host::StreamOutcome;

#[test]
fn a_delta_without_handlers_allocates_nothing() {
    let lab = Lab::unchecked();
    lab.run(async {
        lab.load(&["registers"]).await;
        let delta = text("x");
        let counted = measure(|| {
            for _ in 0..1000 {
                assert!(!lab.host.has_stream_handler(delta.source));
                assert_eq!(lab.host.stream(&delta), StreamOutcome::Continue);
            }
        });
        assert_eq!(counted.count_total, 0);
    });
}

/// The engine's values (the chunk, the text so far, the event) are allocations too, so the count is not zero. It must not grow
/// with the reply, as it would if text, state or handlers were copied.
#[test]
fn a_delta_costs_the_same_at_the_end_of_a_reply_as_at_its_beginning() {
    let lab = Lab::unchecked();
    lab.run(async {
        lab.load(&["verdict-ignores"]).await;
        let delta = text("8 bytes ");
        let thousand = || {
            let counted = measure(|| {
                for _ in 0..1000 {
                    assert_eq!(lab.host.stream(&delta), StreamOutcome::Continue);
                }
            });
            (counted.count_total, counted.bytes_total)
        };
        thousand();
        let (early_count, early_bytes) = thousand();
        for _ in 0..10 {
            thousand();
        }
        let (late_count, late_bytes) = thousand();
        assert!(early_count > 0, "the engine allocates, so nothing was counted");
        assert!(early_count <= 1000 * MAX_PER_DELTA, "{early_count} allocations for 1,000 deltas");
        // Allows 10 % more, because the engine's collector and its ropes do some work now and then.
        assert!(late_count <= early_count + early_count / 10, "{early_count} allocations, later {late_count}");
        assert!(late_bytes <= early_bytes * 2, "{early_bytes} bytes, later {late_bytes}");
    });
}

/// Maximum number of allocations for one delta: chunk, event, its members and the rope.
const MAX_PER_DELTA: u64 = 16;
