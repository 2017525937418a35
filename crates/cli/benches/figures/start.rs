//! Measures the start: from the start of the process to a registered extension, and the cost of a realm alone.

use crate::peers;
use crate::table::{Figure, Samples, nanoseconds};
use crate::world::host_modules;
use pijs_artifact::Verified;
use pijs_protocol::wire::{Limits, RealmOptions};
use pijs_protocol::{ExtensionId, HostCall, HostResult, Now, SyncReply};
use pijs_realm::{SyncHost, ThreadRealm};
use serde_json::{Map, Value, json};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

const EXTENSION: &str = r#"
import type { ExtensionAPI } from "@mariozechner/pi-coding-agent";

export default function (pi: ExtensionAPI) {
  pi.registerCommand("hello", { description: "Says hello", handler: async (_args, ctx) => ctx.ui.notify("hello", "info") });
  pi.on("stream_text", () => undefined);
}
"#;

const SCRIPT: &str = r#"{"events":[{"text":"hello"}],"stop":"end_turn"}"#;

/// Number of installed packages (Q35 of the security page).
const INSTALLED: usize = 1_000;
const RUNNING: usize = 50;

const COLD: usize = 9;
const CACHED: usize = 40;
const REALMS: usize = 500;

/// Measures the time until the command prints its first line, when all extensions are registered, and until it exits.
pub(crate) fn figures() -> Vec<Figure> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let project = directory.path();
    for number in 0..50 {
        let own = EXTENSION.replace("\"hello\"", &format!("\"hello-{number}\""));
        std::fs::write(project.join(format!("e{number}.ts")), own).expect("a file");
    }
    std::fs::write(project.join("model.jsonl"), SCRIPT).expect("a file");

    let named = |count: usize| (0..count).map(|number| format!("./e{number}.ts")).collect::<Vec<_>>();
    let cold = (0..COLD).map(|run| pi(project, &project.join(format!("cache-{run}")), &named(1)).0).collect();
    let cache = project.join("cache");
    pi(project, &cache, &named(50));
    let (registered, ended): (Vec<_>, Vec<_>) = (0..CACHED).map(|_| pi(project, &cache, &named(1))).unzip();
    let curve = |count| (0..CACHED).map(|_| pi(project, &cache, &named(count)).0).collect::<Vec<_>>();
    let (ten, fifty) = (curve(10), curve(50));
    install(project);
    pi(project, &cache, &[]);
    let installed = (0..CACHED).map(|_| pi(project, &cache, &[]).0).collect();
    let figure = |work: &'static str, times: Vec<Duration>, target: Option<f64>| Figure {
        work: work.into(),
        samples: Samples::of(times.into_iter().map(nanoseconds).collect()),
        peer: Some(peers::START),
        target: target.map(|target| (target, None)),
    };
    vec![
        figure("process start to registered, empty cache", cold, None),
        figure("process start to registered, cached", registered, Some(15e6)),
        figure("the whole process: start, one recorded reply, end", ended, None),
        Figure { peer: None, ..figure("start to registered, cached, 10 extensions", ten, None) },
        Figure { peer: None, ..figure("start to registered, cached, 50 extensions", fifty, None) },
        Figure { peer: None, ..figure("the same, with 950 more installed and switched off", installed, Some(2e9)) },
    ]
}

/// Writes packages into the user's settings, most of them with a filter that disables all their resources.
fn install(project: &Path) {
    let packages: Vec<Value> = (0..INSTALLED)
        .map(|number| {
            let name = format!("installed-{number}");
            let folder = project.join(&name);
            let manifest = json!({ "name": name, "version": "1.0.0", "pi": { "extensions": ["./index.ts"] } });
            std::fs::create_dir_all(&folder).expect("a folder");
            std::fs::write(folder.join("package.json"), manifest.to_string()).expect("a file");
            std::fs::write(folder.join("index.ts"), EXTENSION.replace("\"hello\"", &format!("\"{name}\"")))
                .expect("a file");
            if number < RUNNING { json!(folder) } else { json!({ "source": folder, "extensions": [] }) }
        })
        .collect();
    std::fs::create_dir_all(project.join(".pi/agent")).expect("a folder");
    std::fs::write(project.join(".pi/agent/settings.json"), json!({ "packages": packages }).to_string())
        .expect("a file");
}

/// Runs `pi -p` with these extensions; returns the time until its first line and until its exit.
fn pi(project: &Path, cache: &Path, extensions: &[String]) -> (Duration, Duration) {
    let begin = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_pi"))
        .args(["-p", "x", "--mode", "json", "--model", "script:model.jsonl", "--no-session"])
        .args(extensions.iter().flat_map(|path| ["-e", path]))
        .current_dir(project)
        .env_clear()
        .env("HOME", project)
        .env("XDG_CACHE_HOME", cache)
        .env("PIJS_WORDS", "own")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("pi starts");
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let first = lines.next().expect("a first line").expect("UTF-8");
    let registered = begin.elapsed();
    assert!(first.contains("\"type\":\"session\""), "the first line is the session: {first}");
    lines.for_each(drop);
    assert!(child.wait().expect("it ends").success(), "pi failed");
    (registered, begin.elapsed())
}

/// Returns the options of a measured realm.
pub(crate) fn options() -> RealmOptions {
    RealmOptions {
        extension: ExtensionId::from("path:bench"),
        limits: Limits::default(),
        seed: 1,
        clock_step_us: 1,
        time_zone: "UTC".to_owned(),
        facts: Map::new(),
    }
}

/// Creates a JavaScript realm that is ready for its first extension.
pub(crate) fn booted(modules: &Arc<Verified>) -> ThreadRealm {
    let mut realm = ThreadRealm::open(&options(), vec![Arc::clone(modules)]).expect("a realm");
    realm.boot(Now::default(), &mut Nobody).expect("it boots");
    realm
}

/// Measures the creation of a realm that is ready for its first extension (with the host modules and `pi:runtime` evaluated), and
/// its destruction.
pub(crate) fn realm() -> Vec<Figure> {
    let modules = host_modules();
    let samples = Samples::timed(REALMS, || drop(booted(&modules)));
    // A thousandth of the target of 2 s for 1,000 loaded realms.
    let target = Some((2e6, None));
    vec![Figure { work: "realm created, booted and dropped".into(), samples, peer: Some(peers::CONTEXT), target }]
}

pub(crate) struct Nobody;

impl SyncHost for Nobody {
    fn call(&mut self, call: HostCall) -> SyncReply {
        SyncReply { result: HostResult::ok(call.call_id, Value::Null), now: Now::default(), state: None }
    }
}
