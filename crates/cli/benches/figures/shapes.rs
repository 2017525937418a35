//! Measures handlers with shapes other than pi-ttsr's, and the same handlers under Node: 20 rules over a reply of 32 KB in deltas
//! of 8 bytes that does not break any rule.
//!
//! `shapes/shapes.mjs` contains the handlers; Node runs this file, and an extension imports it. Without `node` in `PATH`, there
//! are no figures of Node. Both sides are measured in CPU time, which other load on the machine does not change much.

use crate::table::{Figure, Peer, Samples, nanoseconds};
use crate::ttsr::reply;
use crate::world::{World, text};
use pijs_extc::{BuildOptions, Input, build};
use pijs_host::{Package, StreamOutcome};
use pijs_hostcall::Profile;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

const SHAPES: &[&str] = &[
    "lines, some",
    "lines, for-of",
    "lines, for-of, then rules",
    "accumulated, test",
    "accumulated, exec",
    "accumulated, match",
    "accumulated, search",
    "accumulated, matchAll",
    "accumulated, includes",
    "accumulated, rules in a Map",
    "chunk, no question",
    "chunk, test",
];

pub(crate) fn figures() -> Vec<Figure> {
    let reply = reply();
    let node = node(&reply).unwrap_or_default();
    let figure = |name: &&'static str| Figure {
        work: format!("stream_text, {name}, on a core").into(),
        samples: Samples::of(vec![ours(name, &reply)]),
        peer: node.get(*name).map(|ns| Peer { name: "Node, same run", ns: *ns }),
        target: node.get(*name).map(|ns| (*ns / 2.0, None)),
    };
    SHAPES.iter().map(figure).collect()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/figures/shapes")
}

fn ours(name: &str, reply: &[String]) -> f64 {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let package = directory.path().join("extension");
    std::fs::create_dir(&package).expect("a folder");
    std::fs::copy(folder().join("shapes.mjs"), package.join("shapes.mjs")).expect("a file");
    let entry = format!(
        "import {{ shapes }} from \"./shapes.mjs\";\nexport default (pi) => {{ pi.on(\"stream_text\", shapes[{name:?}]); }};\n"
    );
    std::fs::write(package.join("index.mjs"), entry).expect("a file");
    let built = build(&Input::at(package.join("index.mjs")), &BuildOptions::default()).expect("it compiles");
    let world = World::load(directory, Package::new(Profile::new("path:shapes"), Arc::new(built.artifact)));
    let begin = on_core();
    for chunk in reply {
        let outcome = world.host.stream(&text(1, chunk));
        assert!(matches!(outcome, StreamOutcome::Continue), "{name}: the reply breaks no rule");
    }
    let took = on_core() - begin;
    world.host.stream(&text(1, "\n"));
    let outcome = world.host.stream(&text(1, "forbidden_19(1)"));
    assert!(matches!(outcome, StreamOutcome::Abort(_)), "{name}: a rule that is broken is noticed: {outcome:?}");
    took
}

/// Returns the CPU time of this thread in nanoseconds, or the elapsed time if the system does not report it.
fn on_core() -> f64 {
    static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
    let schedule = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let spent = schedule.split(' ').next().and_then(|spent| spent.parse().ok());
    spent.unwrap_or_else(|| nanoseconds(BEGIN.elapsed()))
}

/// Returns the nanoseconds of each shape under Node, if it is installed.
fn node(reply: &[String]) -> Option<BTreeMap<String, f64>> {
    let mut node = Command::new("node")
        .arg(folder().join("node.mjs"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    let chunks = serde_json::to_vec(reply).expect("strings are JSON");
    node.stdin.take()?.write_all(&chunks).ok()?;
    serde_json::from_slice(&node.wait_with_output().ok()?.stdout).ok()
}
