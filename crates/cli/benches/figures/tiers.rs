//! Compares components with JavaScript realms in one run: starting one, judging a delta, making a hostcall, and keeping many.

use crate::table::{Figure, Samples, nanoseconds, time};
use crate::world::{World, host_modules};
use crate::{calls, start, stream};
use pijs_artifact::Verified;
use pijs_extc::{BuildOptions, Input};
use pijs_host::Package;
use pijs_hostcall::Profile;
use pijs_protocol::message::Load;
use pijs_protocol::wire::Task;
use pijs_protocol::{Delivery, EntryIndex, Message, Now, Seq};
use pijs_realm::{Progress, Realm, ThreadRealm};
use pijs_wasm::text;
use std::sync::Arc;

/// The registration, at address 128: the sources of deltas, and one command, `sync`.
const REGISTERS: &str = r#"
  (data (i32.const 128) "\00\00\00\00" "\00\00\00\00\00\00\00\00" "\50\01\00\00\01\00\00\00"
                        "\00\00\00\00\00\00\00\00" "\00\00\00\00\01\00\00\00" "\00\00\00\00\00\00\00\00")
  (data (i32.const 288) "sync")
  (data (i32.const 336) "\20\01\00\00\04\00\00\00" "\20\01\00\00\04\00\00\00")
  (func (export "register") (result i32) (i32.const 128))
  (func (export "stream-text") (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (global.set $next (i32.const 65536))
    (i32.const 0))"#;

/// Makes the same hostcalls as the JavaScript extension of [`calls`], the same number of times.
const CALLS: &str = r#"
  (data (i32.const 1024) "session")
  (data (i32.const 1040) "{\"op\":\"set_label\",\"label\":\"x\"}")
  (func (export "run-command") (param i32 i32 i32 i32 i32 i32) (result i32)
    (local $left i32)
    (local.set $left (i32.const 1000))
    (loop $again
      (global.set $next (i32.const 65536))
      (call $call
        (i32.const 1024) (i32.const 7) (i32.const 1024) (i32.const 7) (i32.const 1040) (i32.const 30)
        (i32.const 0) (i32.const 0) (i32.const 0) (i64.const 0) (i32.const 3000))
      (if (i32.load8_u (i32.const 3000)) (then (return (i32.const 3000))))
      (local.set $left (i32.sub (local.get $left) (i32.const 1)))
      (br_if $again (local.get $left)))
    (i32.const 0))"#;

const IMPORT: &str = r#"(import "pi:extension/calls@1.0.0" "call-sync"
  (func $call (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i64 i32)))"#;

/// Number of components that are kept at once. There are fewer JavaScript realms, because each is larger.
const COMPONENTS: usize = 1_000;
const SCRIPTS: usize = 100;

const STARTS: usize = 500;

pub(crate) fn figures() -> Vec<Figure> {
    let component = compiled();
    let mut figures = vec![Figure {
        work: "component instantiated and registered, compiled before".into(),
        samples: Samples::timed(STARTS, || drop(started(&component))),
        peer: None,
        target: Some((1e6, None)),
    }];
    figures.extend(start::realm());
    figures.push(kept(COMPONENTS, "components", || started(&component)));
    let modules = host_modules();
    figures.push(kept(SCRIPTS, "JavaScript realms", || start::booted(&modules)));

    let world = || World::load(folder(), package(&component));
    figures.push(stream::no_op("stream-text of a component, no-op, host to realm and back", &world(), (2e3, None)));
    #[cfg(target_os = "linux")]
    {
        let sealed = World::load_sealed(folder(), package(&component));
        figures.push(stream::no_op("the same, sealed process", &sealed, (6e3, None)));
    }
    figures.extend(stream::figures());
    figures.push(Figure {
        work: "hostcall of a component, gated and in the ledger".into(),
        samples: calls::measured(&world(), "sync"),
        peer: None,
        target: Some((1.6e3, None)),
    });
    #[cfg(target_os = "linux")]
    figures.push(Figure {
        work: "the same, sealed process".into(),
        samples: calls::measured(&World::load_sealed(folder(), package(&component)), "sync"),
        peer: None,
        target: Some((15e3, None)),
    });
    figures.extend(calls::figures());
    figures
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

fn package(component: &Arc<Verified>) -> Package {
    Package::new(Profile::new("path:bench"), Arc::clone(component))
}

/// Returns the compiled component.
fn compiled() -> Arc<Verified> {
    let folder = folder();
    let file = folder.path().join("guest.wasm");
    let module = text::module(IMPORT, &format!("{REGISTERS}{CALLS}"));
    std::fs::write(&file, text::core_module(&module)).expect("a file");
    let built = pijs_extc::build(&Input::at(file), &BuildOptions::default()).expect("it builds");
    Arc::new(built.artifact)
}

/// Starts a realm of the component and waits for its registration.
fn started(component: &Arc<Verified>) -> ThreadRealm {
    let mut realm = ThreadRealm::open(&start::options(), vec![Arc::clone(component)]).expect("a realm");
    let module = component.artifact().component().expect("a component").specifier.clone();
    let load = Load {
        entry: EntryIndex(0),
        module,
        path: "guest.wasm".to_owned(),
        extension: "path:bench".into(),
        root: None,
    };
    let task = Task::Message(Box::new(Message::Load(load)));
    let progress = realm.start(Delivery { seq: Seq(1), now: Now::default(), task, state: None }, &mut start::Nobody);
    assert!(matches!(progress, Progress::Yielded(_)), "it did not load");
    realm
}

/// Keeps `count` realms at once. Measures the time of creating each, and the memory of all together.
fn kept(count: usize, what: &str, make: impl Fn() -> ThreadRealm) -> Figure {
    let before = resident();
    let mut realms = Vec::with_capacity(count);
    let took = (0..count).map(|_| nanoseconds(time(|| realms.push(make())))).collect();
    let more = resident().saturating_sub(before);
    let work = format!("{count} {what} at once: {} MiB, {} KiB each", more >> 20, (more / count as u64) >> 10);
    Figure { work: work.into(), samples: Samples::of(took), peer: None, target: None }
}

/// Returns the resident memory of this process in bytes; 0 if the system does not report it.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or_default() << 10
}
