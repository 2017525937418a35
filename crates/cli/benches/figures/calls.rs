//! A hostcall to a connector that has nothing to do and back: JavaScript, gate, ledger, JavaScript.

use crate::peers;
use crate::table::{Figure, Samples, nanoseconds, time};
use crate::world::World;
use pijs_host::CommandOutcome;

/// Calls in one command, so that the command itself does not count.
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
    let figure = |work, world: &World, command, peer, target| Figure {
        work,
        samples: measure(world, command),
        peer,
        target: Some(target),
    };
    let thread = [
        figure("hostcall, gated and in the ledger, synchronous", &world, "sync", node, (1.6e3, None)),
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

fn measure(world: &World, command: &str) -> Samples {
    let before = world.recorded("host_call.end");
    let run = || {
        let outcome = world.runtime.block_on(world.host.run(world.host.run_command(command, "")));
        assert!(matches!(outcome, CommandOutcome::Done), "{command}: {outcome:?}");
    };
    run();
    let times = (0..COMMANDS).map(|_| nanoseconds(time(run)) / f64::from(CALLS)).collect();
    let calls = world.recorded("host_call.end") - before;
    assert!(calls > (CALLS * COMMANDS) as usize, "only {calls} calls are in the ledger");
    Samples::of(times)
}
