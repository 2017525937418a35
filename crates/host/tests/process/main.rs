//! Tests of a host whose realms are sealed processes: no realm blocks another one. Has its own `main`, because workers are this
//! program started again.

#![cfg(target_os = "linux")]

mod deaths;
#[path = "../host/lab.rs"]
#[expect(dead_code, reason = "shared with the tests of realms in the thread, which use all of it")]
mod lab;
mod load_order;
mod neighbours;
mod soak;
mod together;
#[path = "../host/wire.rs"]
mod wire;

use libtest_mimic::{Arguments, Trial};
use std::process::ExitCode;

fn main() -> ExitCode {
    pijs_realm::worker::enter();
    let trials = neighbours::TESTS
        .iter()
        .chain(deaths::TESTS)
        .chain(soak::TESTS)
        .chain(together::TESTS)
        .chain(load_order::TESTS)
        .map(|(name, test)| {
            Trial::test(*name, move || {
                test();
                Ok(())
            })
        });
    // The tests run one after the other, because each has workers that need a whole core.
    libtest_mimic::run(&Arguments { test_threads: Some(1), ..Arguments::from_args() }, trials.collect()).exit_code()
}
