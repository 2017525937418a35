//! Compares the verdict of `extc` on each extension with its behaviour in the real pi.
//!
//! An extension that does not load in the real pi must be *blocked* by `extc`. A blocked extension that loads must use something
//! that PiJS refuses at run time; `fixtures/conformance/verdicts.json` names it.

use crate::corpus::{Case, Kind, Laid};
use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use tokio::process::Command;

/// Entries that are blocked although they load, with the feature that is refused at run time.
pub type Known = BTreeMap<String, String>;

/// Runs `pi`'s `extc` on every entry; returns a sentence for each contradiction between verdict and behaviour.
///
/// # Errors
///
/// Fails if `pi` cannot be started or prints nothing, or an expected document cannot be read.
pub async fn surprises(pi: &Path, laid: &Laid, cases: &[Case], known: &Known) -> Result<Vec<String>> {
    let mut surprises = Vec::new();
    for case in cases.iter().filter(|case| case.kind == Kind::Snapshot) {
        let verdict = verdict(pi, laid, &case.name).await.with_context(|| case.name.clone())?;
        let expected: Value = serde_json::from_str(&std::fs::read_to_string(&case.expected)?)?;
        let loads = expected["errors"].as_array().is_none_or(Vec::is_empty);
        surprises.extend(surprise(&case.name, &verdict, loads, known.contains_key(&case.name)));
    }
    Ok(surprises)
}

fn surprise(entry: &str, verdict: &str, loads: bool, is_known: bool) -> Option<String> {
    match (verdict == "blocked", loads) {
        (false, false) => Some(format!("{entry}: does not load, but extc says {verdict}")),
        (true, true) if !is_known => Some(format!("{entry}: loads, but extc says blocked")),
        (false, true) if is_known => Some(format!("{entry}: is listed as blocked in part, but extc says {verdict}")),
        _ => None,
    }
}

async fn verdict(pi: &Path, laid: &Laid, entry: &str) -> Result<String> {
    let output = Command::new(pi)
        .args(["ext", "show", "--json"])
        .arg(laid.path_of(entry)?)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await?;
    let document: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).trim().to_owned())?;
    document["artifact"]["verdict"].as_str().map(str::to_owned).context("there is no verdict")
}

#[cfg(test)]
mod tests {
    use super::surprise;

    #[test]
    fn extensions_that_fail_to_load_are_blocked_and_others_are_listed() {
        let cases = [
            ("blocked", false, false),
            ("warning", true, false),
            ("blocked", true, true),
            ("warning", false, false),
            ("blocked", true, false),
            ("compatible", true, true),
        ];
        let surprised = cases.map(|(verdict, loads, is_known)| surprise("a", verdict, loads, is_known).is_some());
        assert_eq!(surprised, [false, false, false, true, true, true]);
    }
}
