//! Measures the unchanged pi-ttsr with 20 line rules, on a reply of 32 KB in deltas of 8 bytes that does not break any rule.
//!
//! For every delta, its handler splits the text so far into lines and applies each rule to each line, so the work grows with the
//! square of the reply's length. One whole reply is measured.

use crate::peers;
use crate::table::{Figure, Peer, Samples, nanoseconds, time};
use crate::world::{World, fixture, text};
use pijs_extc::{BuildOptions, Input, SourceMaps, build};
use pijs_host::{Package, StreamOutcome};
use pijs_hostcall::Profile;
use pijs_protocol::StreamDelta;
use std::rc::Rc;
use std::sync::Arc;
use tempfile::TempDir;

const RULES: usize = 20;
const DELTAS: usize = 4096;
const DELTA: usize = 8;
const ATTEMPT: u32 = 1;

pub(crate) fn figures() -> Vec<Figure> {
    let figure = |work: &'static str, ns, peer: Peer, target| Figure {
        work: work.into(),
        samples: Samples::of(vec![ns]),
        peer: Some(peer),
        target,
    };
    let reply = reply();
    let thread = whole(&world(World::load), &reply);
    let mut figures = vec![
        figure(
            "unchanged pi-ttsr, 20 line rules, 32 KB in 8-byte deltas",
            thread,
            peers::TTSR_NODE,
            Some((100e6, None)),
        ),
        figure("the same figure", thread, peers::TTSR_QUICKJS, None),
    ];
    #[cfg(target_os = "linux")]
    {
        let beside = Peer { name: "in the thread, same run", ns: thread };
        let sealed = whole(&world(World::load_sealed), &reply);
        figures.push(figure(
            "the same, sealed process, all deltas there already",
            sealed,
            beside,
            Some((1.5 * thread, None)),
        ));
        let alone = one_by_one(&world(World::load_sealed), &reply);
        figures.push(figure("the same, sealed process, one delta after the other", alone, beside, None));
    }
    figures
}

/// Returns the nanoseconds that the reply takes, streamed as by the agent.
fn whole(world: &World, reply: &[String]) -> f64 {
    let deltas: Vec<StreamDelta> = reply.iter().map(|chunk| text(ATTEMPT, chunk)).collect();
    measured(world, || {
        let mut left = deltas.as_slice();
        while let [first, ..] = left {
            let most = world.host.lookahead(first.source);
            let (outcome, passed) = world.host.stream_ahead(&left[..left.len().min(most + 1)]);
            assert!(matches!(outcome, StreamOutcome::Continue), "the reply breaks no rule");
            left = &left[1 + passed..];
        }
    })
}

#[cfg(target_os = "linux")]
fn one_by_one(world: &World, reply: &[String]) -> f64 {
    measured(world, || {
        for chunk in reply {
            let outcome = world.host.stream(&text(ATTEMPT, chunk));
            assert!(matches!(outcome, StreamOutcome::Continue), "the reply breaks no rule");
        }
    })
}

fn measured(world: &World, work: impl FnOnce()) -> f64 {
    let took = time(work);
    // Checks that the rules were active during the measurement.
    let outcome = world.host.stream(&text(ATTEMPT, "\nforbidden_19(1)"));
    assert!(matches!(outcome, StreamOutcome::Abort(_)), "a rule that is broken is noticed: {outcome:?}");
    nanoseconds(took)
}

fn world(load: fn(TempDir, Package) -> World) -> World {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let rules = directory.path().join(".pi/rules");
    std::fs::create_dir_all(&rules).expect("a folder");
    for rule in 0..RULES {
        let text = format!("---\ntrigger: \"\\\\bforbidden_{rule}\\\\s*\\\\(\"\n---\nDo not call forbidden_{rule}.\n");
        std::fs::write(rules.join(format!("rule-{rule:02}.md")), text).expect("a rule");
    }
    let input = Input::at(fixture("packages/pi-ttsr"));
    let artifact = Arc::new(build(&input, &BuildOptions::default()).expect("it compiles").artifact);
    let maps = Rc::new(SourceMaps::new(artifact.artifact()));
    load(directory, Package::new(Profile::new("path:pi-ttsr"), artifact).with_positions(maps))
}

/// Returns code with lines of ordinary length, cut into deltas.
pub(crate) fn reply() -> Vec<String> {
    let lines = [
        "export function total(items: readonly Item[]): number {",
        "  let sum = 0;",
        "  for (const item of items) sum += item.price * item.count;",
        "  return Math.round(sum * 100) / 100;",
        "}",
        "",
    ];
    let text: String =
        lines.iter().cycle().flat_map(|line| [line, "\n"]).flat_map(str::chars).take(DELTAS * DELTA).collect();
    text.as_bytes().chunks(DELTA).map(|chunk| String::from_utf8_lossy(chunk).into_owned()).collect()
}
