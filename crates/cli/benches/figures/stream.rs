//! Measures a streamed delta with an empty handler, and without one.

use crate::table::{Figure, Samples, nanoseconds, time};
use crate::world::{World, text};
use pijs_host::StreamOutcome;
use pijs_protocol::StreamDelta;
use std::hint::black_box;

const NO_OP: &str = "export default (pi) => { pi.on('stream_text', () => undefined); };";
const SILENT: &str = "export default () => {};";

/// Number of deltas: a reply of 32 KB in deltas of 8 bytes.
const DELTAS: usize = 4096;
const REPLIES: u32 = 50;

pub(crate) fn figures() -> Vec<Figure> {
    let thread =
        no_op("stream_text, no-op handler, host to realm and back", &World::with_source(NO_OP), (1e3, Some(5e3)));
    #[cfg(target_os = "linux")]
    let sealed = [no_op("the same, sealed process", &World::sealed(NO_OP), (6e3, Some(50e3)))];
    #[cfg(not(target_os = "linux"))]
    let sealed = [];
    [thread].into_iter().chain(sealed).chain([nobody()]).collect()
}

pub(crate) fn no_op(work: &'static str, world: &World, target: (f64, Option<f64>)) -> Figure {
    let mut times = Vec::new();
    for reply in 0..=REPLIES {
        let delta = text(reply, "8 bytes ");
        for _ in 0..DELTAS {
            let took = time(|| assert!(goes_on(world, black_box(&delta))));
            // The first reply warms up the caches.
            if reply > 0 {
                times.push(nanoseconds(took));
            }
        }
    }
    Figure { work: work.into(), samples: Samples::of(times), peer: None, target: Some(target) }
}

fn nobody() -> Figure {
    let world = World::with_source(SILENT);
    let delta = text(1, "8 bytes ");
    // As in the agent: the verdict precedes the display.
    let samples = Samples::batched(100, 100_000, || {
        if world.host.has_stream_handler(black_box(&delta).source) {
            world.host.stream(&delta);
        }
    });
    assert!(!world.host.has_stream_handler(delta.source), "nobody was to listen");
    Figure {
        work: "stream_text, no handler (0 allocations: a test counts)".into(),
        samples,
        peer: None,
        target: Some((5.0, None)),
    }
}

fn goes_on(world: &World, delta: &StreamDelta) -> bool {
    matches!(world.host.stream(delta), StreamOutcome::Continue)
}
