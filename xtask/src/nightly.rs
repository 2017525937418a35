//! Long runs: tests that take a sample by day take everything when `PIJS_NIGHTLY` is set.

use anyhow::{Context, Result, bail};
use std::process::Command;

/// Cargo's arguments for each part, with what it covers.
const PARTS: &[(&str, &[&str])] = &[
    ("every fault at every operation on durable files", &["test", "-p", "pijs-durable"]),
    ("the ledger's files", &["test", "-p", "pijs-hostcall", "--lib"]),
    ("install, update, remove", &["test", "-p", "pijs-packages", "--test", "faults", "--test", "install"]),
    ("sessions", &["test", "-p", "pijs-agent", "--lib"]),
    ("the artifact cache", &["test", "-p", "pijs-extc", "--lib"]),
    ("the real program, killed at every point", &["test", "-p", "pijs-tests", "--test", "crash"]),
    ("attacks", &["test", "-p", "pijs-tests", "--test", "attacks"]),
];

/// Runs all parts, also after one has failed.
pub fn run() -> Result<()> {
    let mut failed = Vec::new();
    for (what, arguments) in PARTS {
        let status = Command::new(env!("CARGO"))
            .args(*arguments)
            .args(["--locked", "--", "--nocapture"])
            .current_dir(crate::root())
            .env("PIJS_NIGHTLY", "1")
            .status()
            .with_context(|| format!("cargo {}", arguments.join(" ")))?;
        if !status.success() {
            failed.push(*what);
        }
    }
    if !failed.is_empty() {
        bail!("failed: {}", failed.join("; "));
    }
    Ok(())
}
