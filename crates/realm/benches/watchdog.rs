//! Measures how late a worker is killed during a built-in function that cannot be interrupted, with many runs of each of the
//! fourteen.
//!
//! `cargo bench -p pijs-realm --bench watchdog` prints percentiles of the time past the deadline, and fails past 50 ms at p99
//! (G3). It makes 1,000 runs, which take two minutes, or 10,000 with `PIJS_LONG`.

#![expect(clippy::print_stdout, reason = "a benchmark's output")]

#[path = "../tests/support/mod.rs"]
#[expect(dead_code, reason = "shared with the tests, which use all of it")]
mod support;

use pijs_protocol::wire::{Limits, RealmOptions};
use pijs_protocol::{Now, Termination};
use pijs_realm::{Patience, ProcessOptions, ProcessRealm, Progress, Realm};
use serde_json::json;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use support::{NoHost, deliver, host_modules, options};

/// Number of built-ins in the fixture.
const BUILTINS: usize = 14;

/// Deadline of each turn.
const DEADLINE: Duration = Duration::from_millis(100);

/// Maximum time from the deadline to the kill.
const CEILING: Duration = Duration::from_millis(50);

fn main() -> ExitCode {
    pijs_realm::worker::enter();
    let runs = if std::env::var_os("PIJS_LONG").is_some() { 10_000 } else { 1_000 };
    let modules = [host_modules()];
    let limits = Limits { fuel: u64::MAX, ..Limits::default() };
    let options = RealmOptions { limits, ..options() };
    let mut late = Vec::with_capacity(runs);
    let mut otherwise = 0;
    for run in 0..runs {
        let process = ProcessOptions { turn: DEADLINE, ..ProcessOptions::default() };
        let (mut realm, _) = ProcessRealm::open(&options, &modules, Now::default(), &mut NoHost, process)
            .unwrap_or_else(|error| panic!("{error}"));
        let begin = Instant::now();
        let mut progress = realm.start(deliver(1, "builtin", json!(run % BUILTINS)), &mut NoHost);
        while progress == Progress::Running {
            progress = realm.resume(&mut NoHost, Patience::AtMost(Duration::from_millis(50)));
        }
        match progress {
            Progress::Ended(Termination::Timeout { .. }) => late.push(begin.elapsed().saturating_sub(DEADLINE)),
            // The worker ran out of memory before its deadline.
            Progress::Ended(_) => otherwise += 1,
            other => panic!("built-in {} came back: {other:?}", run % BUILTINS),
        }
    }
    late.sort_unstable();
    let at = |percent: usize| late[late.len() * percent / 100];
    println!("past the deadline, {} runs: p50 {:?}, p99 {:?}; {otherwise} ended otherwise", late.len(), at(50), at(99));
    if at(99) <= CEILING { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
