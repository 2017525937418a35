//! Runs `pi` over cases and compares the results.

use crate::compare::{Difference, Options, compare};
use crate::corpus::{Case, Kind, Laid};
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::process::Command;
use tokio::sync::Semaphore;

/// The result of a case.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// The document equals the real pi's.
    Same,
    /// The document differs from the real pi's.
    Differs(Vec<Difference>),
    /// `pi` printed no document; contains its error.
    Broken(String),
}

/// A case and its result.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The case.
    pub case: Case,
    /// The result.
    pub verdict: Verdict,
}

impl Outcome {
    /// Returns whether the document equals the real pi's.
    pub fn passes(&self) -> bool {
        self.verdict == Verdict::Same
    }
}

/// Settings for running cases.
#[derive(Debug, Clone)]
pub struct Runner {
    /// The `pi` to run.
    pub pi: PathBuf,
    /// The folders of examples and packages.
    pub laid: Laid,
    /// Number of concurrent cases.
    pub jobs: usize,
    /// Time limit of one case.
    pub limit: Duration,
    /// Arguments added to `pi ext snapshot` and `pi ext drive`.
    pub args: Vec<String>,
    /// Relaxations of the comparison.
    pub options: Options,
}

impl Runner {
    /// Runs all cases; the outcomes are in the order of the cases. Calls `done` after each.
    ///
    /// # Errors
    ///
    /// Fails if `pi` cannot be started, or an expected document cannot be read.
    pub async fn run(&self, cases: &[Case], done: impl Fn(&Outcome)) -> Result<Vec<Outcome>> {
        let slots = Arc::new(Semaphore::new(self.jobs.max(1)));
        let running: Vec<_> = cases
            .iter()
            .cloned()
            .map(|case| {
                let (runner, slots) = (self.clone(), Arc::clone(&slots));
                tokio::spawn(async move {
                    let _slot = slots.acquire_owned().await.context("the semaphore lives as long as the run")?;
                    let verdict = runner.one(&case).await?;
                    Ok::<_, anyhow::Error>(Outcome { case, verdict })
                })
            })
            .collect();
        let mut outcomes = Vec::new();
        for outcome in running {
            let outcome = outcome.await.context("a case panicked")??;
            done(&outcome);
            outcomes.push(outcome);
        }
        Ok(outcomes)
    }

    async fn one(&self, case: &Case) -> Result<Verdict> {
        let mut command = Command::new(&self.pi);
        command.args(["ext", if case.kind == Kind::Snapshot { "snapshot" } else { "drive" }]);
        command.arg("--examples").arg(&self.laid.examples).arg("--packages").arg(&self.laid.packages);
        command.args(&self.args).arg(&case.argument).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child =
            command.kill_on_drop(true).spawn().with_context(|| format!("{} cannot be started", self.pi.display()))?;
        let Ok(output) = tokio::time::timeout(self.limit, child.wait_with_output()).await else {
            return Ok(Verdict::Broken(format!("not through after {} s", self.limit.as_secs())));
        };
        let output = output?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            let last = stderr.lines().last().unwrap_or_default();
            return Ok(Verdict::Broken(format!("{}: {last}", output.status)));
        }
        let actual: Value = match serde_json::from_slice(&output.stdout) {
            Ok(actual) => actual,
            Err(error) => return Ok(Verdict::Broken(format!("stdout is not a JSON document: {error}"))),
        };
        let expected = read(&case.expected)?;
        let differences = compare(&expected, &actual, &self.options);
        Ok(if differences.is_empty() { Verdict::Same } else { Verdict::Differs(differences) })
    }
}

fn read(path: &Path) -> Result<Value> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}
