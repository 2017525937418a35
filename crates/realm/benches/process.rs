//! Benchmarks a sealed process: time until it is ready, per delta and per hostcall, and memory of an idle one.
//!
//! `cargo bench -p pijs-realm` prints percentiles, with those of a thread realm for comparison.

#![expect(clippy::print_stdout, reason = "a benchmark's output")]

#[path = "../tests/support/mod.rs"]
#[expect(dead_code, reason = "shared with the tests, which use all of it")]
mod support;

use pijs_artifact::Verified;
use pijs_protocol::{HostCall, HostResult, Now, Seq, SyncReply};
use pijs_realm::{Patience, ProcessOptions, ProcessRealm, Progress, Realm, Spare, SyncHost, ThreadRealm, Zygote};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::{NoHost, deliver, delta, host_modules, options};

/// Deltas per sample series.
const DELTAS: u64 = 100_000;

/// Synchronous hostcalls per sample series.
const ASKS: u64 = 20_000;

/// Number of pauses in a series: long ones, after which a worker is idle, and shorter ones for comparison.
const PAUSES: u64 = 50;
const REST: Duration = Duration::from_millis(150);
const NO_REST: Duration = Duration::from_millis(50);

/// Number of workers that receive the same reply.
const SEVERAL: usize = 8;

/// Number of workers that are started.
const WORKERS: usize = 100;

fn main() {
    pijs_realm::worker::enter();
    let modules = [host_modules()];
    let open = || {
        ProcessRealm::open(&options(), &modules, Now::default(), &mut NoHost, ProcessOptions::default())
            .unwrap_or_else(|error| panic!("{error}"))
            .0
    };

    let mut ready = Vec::new();
    let mut idle = Vec::new();
    for _ in 0..WORKERS {
        let begin = Instant::now();
        idle.push(open());
        ready.push(begin.elapsed());
    }
    report("worker ready", &mut ready, [50, 95]);
    std::thread::sleep(2 * REST);
    let pss: u64 = idle.iter().map(|realm| proportional_kb(realm.id())).sum();
    println!("memory per idle worker, of {WORKERS}: {} KB PSS; {}", pss / WORKERS as u64, idle[0].sealed());
    drop(idle);
    copies(&modules);

    let mut process = open();
    report("delta, sealed process", &mut deltas(&mut process, Duration::ZERO), [50, 99]);
    report("the same, a delta each 5 ms", &mut deltas(&mut process, Duration::from_millis(5)), [50, 99]);
    report("turn with a synchronous hostcall, sealed process", &mut asks(&mut process), [50, 99]);
    let mut several: Vec<_> = (0..SEVERAL).map(|_| open()).collect();
    report(&format!("a delta to each of {SEVERAL} processes"), &mut in_turn(&mut several), [50, 99]);
    let mut thread = ThreadRealm::open(&options(), modules.to_vec()).expect("a realm");
    report("delta, thread", &mut deltas(&mut thread, Duration::ZERO), [50, 99]);
    report("turn with a synchronous hostcall, thread", &mut asks(&mut thread), [50, 99]);
}

/// Benchmarks workers that are forked from a zygote.
fn copies(modules: &[Arc<Verified>; 1]) {
    let begin = Instant::now();
    let spare = Spare::start(ProcessOptions::default()).expect("a process");
    let mut zygote = Zygote::of(spare, &options(), &modules[0], Now::default()).expect("it takes the modules");
    let mut ready = Vec::new();
    let mut idle = Vec::new();
    for _ in 0..WORKERS {
        let begin = Instant::now();
        let opening = zygote.fork().and_then(|copy| copy.open(&options(), modules, Now::default()));
        let opened = opening.and_then(|opening| opening.finish(&mut NoHost));
        idle.push(opened.unwrap_or_else(|error| panic!("{error}")).0);
        ready.push(begin.elapsed());
    }
    let all = begin.elapsed();
    drop(zygote);
    report("the same, copied from a zygote", &mut ready, [50, 95]);
    let memory =
        |idle: &[ProcessRealm]| idle.iter().map(|realm| proportional_kb(realm.id())).sum::<u64>() / WORKERS as u64;
    println!("memory per copy, of {WORKERS}: {} KB PSS; {all:?} for all of them", memory(&idle));
    std::thread::sleep(2 * REST);
    println!("memory per copy at rest: {} KB PSS", memory(&idle));
    report("turn, 50 ms after the one before", &mut turns(&mut idle[0], NO_REST), [50, 95]);
    report("turn of a copy that rested", &mut turns(&mut idle[0], REST), [50, 95]);
}

/// Measures turns with a pause before each.
fn turns(realm: &mut dyn Realm, pause: Duration) -> Vec<Duration> {
    let sample = |seq| {
        std::thread::sleep(pause);
        turn(realm, seq, "count")
    };
    (1..=PAUSES).map(sample).collect()
}

/// Measures a single turn.
fn turn(realm: &mut dyn Realm, seq: u64, channel: &str) -> Duration {
    let begin = Instant::now();
    let mut progress = realm.start(deliver(seq, channel, json!(null)), &mut Mirror);
    while progress == Progress::Running {
        progress = realm.resume(&mut Mirror, Patience::AtMost(Duration::from_millis(50)));
    }
    assert!(matches!(progress, Progress::Yielded(_)), "{progress:?}");
    begin.elapsed()
}

/// Answers each call at once with its own parameters.
struct Mirror;

impl SyncHost for Mirror {
    fn call(&mut self, call: HostCall) -> SyncReply {
        let result = HostResult::ok_with_bytes(call.call_id, json!({}), call.bytes);
        SyncReply { result, now: Now::default(), state: None }
    }
}

/// Measures a delivery with a synchronous hostcall.
fn asks(realm: &mut dyn Realm) -> Vec<Duration> {
    (1..=ASKS).map(|seq| turn(realm, seq, "ask")).collect()
}

/// Measures deltas that several realms receive in sequence.
fn in_turn(realms: &mut [ProcessRealm]) -> Vec<Duration> {
    let delta = delta("eight by");
    let sample = |seq| {
        let begin = Instant::now();
        for realm in &mut *realms {
            realm.stream(Seq(seq), Now::default(), &delta, &mut NoHost).expect("the realm is running");
        }
        begin.elapsed()
    };
    (1..=ASKS).map(sample).collect()
}

/// Measures deltas with a pause before each.
fn deltas(realm: &mut dyn Realm, pause: Duration) -> Vec<Duration> {
    let delta = delta("eight by");
    let sample = |seq| {
        std::thread::sleep(pause);
        let begin = Instant::now();
        realm.stream(Seq(seq), Now::default(), &delta, &mut NoHost).expect("the realm is running");
        begin.elapsed()
    };
    let count = if pause.is_zero() { DELTAS } else { DELTAS / 100 };
    (1..=count).map(sample).collect()
}

fn report(what: &str, samples: &mut [Duration], percentiles: [usize; 2]) {
    samples.sort_unstable();
    let at = |percent: usize| samples[samples.len() * percent / 100];
    println!("{what}: {}", percentiles.map(|percent| format!("p{percent} {:?}", at(percent))).join(", "));
}

/// Returns the proportional set size of a process in KiB.
fn proportional_kb(id: u32) -> u64 {
    let rollup = std::fs::read_to_string(format!("/proc/{id}/smaps_rollup")).expect("the worker is running");
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:")).expect("the kernel tells");
    line.trim().trim_end_matches(" kB").trim().parse().expect("a number")
}
