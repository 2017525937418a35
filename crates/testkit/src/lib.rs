//! Helpers that the tests of several crates share; crates use it as a development dependency only.
//!
//! - [`fixture`] names a file or folder of `fixtures/`.
//! - [`arguments`] are those of a test binary without the usual harness.
//! - [`updates_expected`] returns whether a run writes expected output instead of comparing with it.
//! - [`registry`] is an npm registry on loopback.
//! - `rule_oracle` (feature `rule-oracle`) compares streamed rules with oh-my-pi's answers.
//!
//! A helper moves here when the tests of a second crate need it; until then it stays in the first crate's `tests/support`.

pub mod registry;
#[cfg(feature = "rule-oracle")]
pub mod rule_oracle;

use libtest_mimic::Arguments;
use std::path::{Path, PathBuf};

/// Returns the arguments of a test binary that runs its tests with `libtest-mimic`, which does not read `RUST_TEST_THREADS`.
pub fn arguments() -> Arguments {
    let mut arguments = Arguments::from_args();
    if arguments.test_threads.is_none() {
        arguments.test_threads = std::env::var("RUST_TEST_THREADS").ok().and_then(|count| count.parse().ok());
    }
    arguments
}

/// Returns the real path of a file or folder of `fixtures/`.
///
/// # Panics
///
/// Panics if it does not exist; `fixtures/README.md` lists the folders.
pub fn fixture(path: &str) -> PathBuf {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    fixtures.join(path).canonicalize().unwrap_or_else(|error| panic!("fixtures/{path}: {error}"))
}

/// Returns whether `INSTA_UPDATE=always` is set: tests then write the expected output that PiJS generates, like insta's
/// snapshots.
///
/// Output that was captured from another program (`fixtures/README.md` lists it) is never written by a test.
pub fn updates_expected() -> bool {
    std::env::var("INSTA_UPDATE").is_ok_and(|value| value == "always")
}
