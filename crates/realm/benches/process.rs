//! What a sealed process costs: until it is ready, per delta, and in memory while it waits.
//!
//! `cargo bench -p pijs-realm` prints percentiles, the same delta through a thread realm beside them.

#![expect(clippy::print_stdout, reason = "a benchmark's output")]

#[path = "../tests/support/mod.rs"]
#[expect(dead_code, reason = "shared with the tests, which use all of it")]
mod support;

use pijs_protocol::{Now, Seq};
use pijs_realm::{ProcessOptions, ProcessRealm, Realm, ThreadRealm};
use std::time::{Duration, Instant};
use support::{NoHost, delta, host_modules, options};

/// Deltas per sample series.
const DELTAS: u64 = 100_000;

/// Workers started.
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
    let pss: u64 = idle.iter().map(|realm| proportional_kb(realm.id())).sum();
    println!("memory per idle worker, of {WORKERS}: {} KB PSS; {}", pss / WORKERS as u64, idle[0].sealed());
    drop(idle);

    let mut process = open();
    report("delta, sealed process", &mut deltas(&mut process), [50, 99]);
    let mut thread = ThreadRealm::open(&options(), modules.to_vec()).expect("a realm");
    report("delta, thread", &mut deltas(&mut thread), [50, 99]);
}

fn deltas(realm: &mut dyn Realm) -> Vec<Duration> {
    let delta = delta("eight by");
    let sample = |seq| {
        let begin = Instant::now();
        realm.stream(Seq(seq), Now::default(), &delta, &mut NoHost).expect("it lives");
        begin.elapsed()
    };
    (1..=DELTAS).map(sample).collect()
}

fn report(what: &str, samples: &mut [Duration], percentiles: [usize; 2]) {
    samples.sort_unstable();
    let at = |percent: usize| samples[samples.len() * percent / 100];
    println!("{what}: {}", percentiles.map(|percent| format!("p{percent} {:?}", at(percent))).join(", "));
}

/// Proportional set size of a process.
fn proportional_kb(id: u32) -> u64 {
    let rollup = std::fs::read_to_string(format!("/proc/{id}/smaps_rollup")).expect("the worker lives");
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:")).expect("the kernel tells");
    line.trim().trim_end_matches(" kB").trim().parse().expect("a number")
}
