//! Measures a hostcall to a connector that does nothing: JavaScript, gate, ledger, JavaScript.

use crate::peers;
use crate::table::{Figure, Samples, nanoseconds, time};
use crate::world::World;
use pijs_host::CommandOutcome;

/// Number of calls in one command, which makes the command's own cost negligible. The ledger's thread catches up with them
/// afterwards.
const CALLS: u32 = 1000;
const COMMANDS: u32 = 100;

const SOURCE: &str = "
    import { callSync, call } from 'pi:hostcall';
    const params = { op: 'set_label', label: 'x' };
    export default (pi) => {
      pi.registerCommand('sync', { handler() { for (let i = 0; i < 1000; i++) callSync('session', 'session', params); } });
      pi.registerCommand('awaited', { async handler() { for (let i = 0; i < 1000; i++) await call('session', 'session', params); } });
    };";

pub(crate) fn figures() -> Vec<Figure> {
    let world = World::with_source(SOURCE);
    let node = Some(peers::HOSTCALL_NODE);
    let rust = Some(peers::HOSTCALL_RUST);
    let figure = |work: &'static str, world: &World, command, peer, target| Figure {
        work: work.into(),
        samples: measure(world, command, Pause::Between),
        peer,
        target: Some(target),
    };
    let without_end = Figure {
        work: "the same, a hundred thousand without a pause".into(),
        samples: measure(&world, "sync", Pause::None),
        peer: node,
        target: None,
    };
    let thread = [
        figure("hostcall, gated and in the ledger, synchronous", &world, "sync", node, (1.6e3, None)),
        without_end,
        figure("hostcall, gated and in the ledger, awaited", &world, "awaited", rust, (3e3, None)),
    ];
    #[cfg(target_os = "linux")]
    let sealed = {
        let world = World::sealed(SOURCE);
        [
            figure("the same, sealed process, synchronous", &world, "sync", node, (15e3, Some(100e3))),
            figure("the same, sealed process, awaited", &world, "awaited", rust, (15e3, Some(100e3))),
        ]
    };
    #[cfg(not(target_os = "linux"))]
    let sealed = [];
    thread.into_iter().chain(sealed).collect()
}

/// Whether the next command waits, unmeasured, until the ledger's thread has caught up.
#[derive(PartialEq, Eq)]
enum Pause {
    Between,
    None,
}

/// Measures a command that makes [`CALLS`] calls, with pauses in which the ledger catches up.
pub(crate) fn measured(world: &World, command: &str) -> Samples {
    measure(world, command, Pause::Between)
}

fn measure(world: &World, command: &str, pause: Pause) -> Samples {
    let before = world.recorded("host_call.end");
    let run = || {
        let outcome = world.runtime.block_on(world.host.run(world.host.run_command(command, "")));
        assert!(matches!(outcome, CommandOutcome::Done), "{command}: {outcome:?}");
    };
    run();
    let measured = |_| {
        if pause == Pause::Between {
            world.catch_up();
        }
        nanoseconds(time(run)) / f64::from(CALLS)
    };
    let times = (0..COMMANDS).map(measured).collect();
    // The ledger writes the first calls of a kind in full, and counts the others.
    let calls = world.recorded("host_call.end") - before;
    let is_counting = world.recorded("ledger.counting") > 0;
    assert!(is_counting || calls > (CALLS * COMMANDS) as usize, "only {calls} calls are in the ledger");
    Samples::of(times)
}
