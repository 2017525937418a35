//! Runs `pi ext drive` on scenarios, and compares traces.

use pijs_conformance::compare::{Options, compare};
use pijs_conformance::corpus::OFFLINE;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The isolations that this system supports.
pub(crate) const ISOLATIONS: &[&str] = if cfg!(target_os = "linux") { &["process", "thread"] } else { &["thread"] };

/// Returns whether to skip tests that need packages of pi, since the registry cannot be reached.
pub(crate) fn is_offline() -> bool {
    std::env::var_os(OFFLINE).is_some_and(|value| !value.is_empty())
}

/// Returns a folder of scenarios.
pub(crate) fn fixtures(folder: &str) -> PathBuf {
    pijs_testkit::fixture(folder)
}

/// Plays a scenario and returns its trace. The prompt uses PiJS's own texts; tests that can fetch pi's package compare pi's
/// texts.
#[track_caller]
pub(crate) fn drive(scenario: &Path, isolation: &str, options: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_pi-attacked"))
        .args(["ext", "drive", "--isolation", isolation])
        .args(options)
        .arg(scenario)
        .env("PIJS_WORDS", "own")
        // The user's environment must not reach a scenario.
        .env("PLAYER_KEY", "sk-of-the-player")
        .output()
        .expect("pi starts");
    let (scenario, stderr) = (scenario.display(), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{scenario}: {stderr}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{scenario}: {error}\n{stderr}"))
}

/// Describes the differences between two traces.
pub(crate) fn differences(expected: &Value, actual: &Value) -> Vec<String> {
    compare(expected, actual, &Options::default()).iter().map(ToString::to_string).collect()
}
