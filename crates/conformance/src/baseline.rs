//! Lists the cases that are known to differ from the real pi, each with the reason.
//!
//! A run fails on a surprise in either direction: a case that differs and is not listed, or a listed case that does not differ.
//! `fixtures/conformance/baseline.json` is committed.

use crate::corpus::Kind;
use crate::run::Outcome;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// The committed baseline.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    /// Number of cases that match the real pi, by kind.
    pub same: Counts,
    /// Known mismatches by case key, with the reason.
    pub known: BTreeMap<String, String>,
}

/// Numbers of cases.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Number of snapshots of registrations.
    pub snapshots: usize,
    /// Number of traces of behaviour.
    pub traces: usize,
}

/// A deviation from the baseline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Surprise {
    /// A case that differs and is not listed.
    Worse(String),
    /// A listed case that does not differ.
    Better(String),
    /// A listed case that does not exist.
    Unknown(String),
}

impl std::fmt::Display for Surprise {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Worse(case) => write!(f, "{case}: differs from the real pi and is not in the baseline"),
            Self::Better(case) => write!(f, "{case}: is in the baseline, but no longer differs; remove it"),
            Self::Unknown(case) => write!(f, "{case}: is in the baseline, but there is no such case; remove it"),
        }
    }
}

impl Counts {
    /// Counts the cases that pass.
    pub fn passing(outcomes: &[Outcome]) -> Self {
        let count = |kind| outcomes.iter().filter(|outcome| outcome.case.kind == kind && outcome.passes()).count();
        Self { snapshots: count(Kind::Snapshot), traces: count(Kind::Trace) }
    }
}

impl Baseline {
    /// Reads the committed file.
    ///
    /// # Errors
    ///
    /// Fails if the file is missing or malformed.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        serde_json::from_str(&text).with_context(|| path.display().to_string())
    }

    /// Returns the deviations of a run from the baseline. If the run covered only some of the cases (`is_whole` is false), only
    /// those are compared.
    pub fn surprises(&self, outcomes: &[Outcome], is_whole: bool) -> Vec<Surprise> {
        let mut surprises = Vec::new();
        for outcome in outcomes {
            let key = outcome.case.key();
            match (outcome.passes(), self.known.contains_key(&key)) {
                (false, false) => surprises.push(Surprise::Worse(key)),
                (true, true) => surprises.push(Surprise::Better(key)),
                _ => {}
            }
        }
        if is_whole {
            let exists = |key: &str| outcomes.iter().any(|outcome| outcome.case.key() == key);
            surprises.extend(self.known.keys().filter(|key| !exists(key)).cloned().map(Surprise::Unknown));
        }
        surprises
    }

    /// Returns the baseline of a whole run: known reasons are kept, and the reasons of new mismatches are left to fill in.
    #[must_use]
    pub fn updated(&self, outcomes: &[Outcome]) -> Self {
        let known = outcomes.iter().filter(|outcome| !outcome.passes()).map(|outcome| {
            let key = outcome.case.key();
            let reason = self.known.get(&key).cloned().unwrap_or_else(|| "no reason written down yet".to_owned());
            (key, reason)
        });
        Self { same: Counts::passing(outcomes), known: known.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::Case;
    use crate::run::Verdict;

    fn outcome(name: &str, passes: bool) -> Outcome {
        let case = Case {
            kind: Kind::Trace,
            name: name.to_owned(),
            argument: String::new(),
            expected: "x".into(),
            packages: Vec::new(),
        };
        let verdict = if passes { Verdict::Same } else { Verdict::Broken("no document".to_owned()) };
        Outcome { case, verdict }
    }

    #[test]
    fn better_worse_and_unknown_results_are_surprises() {
        let known = ["trace known", "trace mended", "trace gone"];
        let baseline = Baseline {
            same: Counts::default(),
            known: known.iter().map(|key| ((*key).to_owned(), "because".to_owned())).collect(),
        };
        let outcomes = [outcome("known", false), outcome("mended", true), outcome("new", false), outcome("fine", true)];
        let (worse, better, unknown) = ("trace new".into(), "trace mended".into(), "trace gone".into());
        let expected = [Surprise::Better(better), Surprise::Worse(worse), Surprise::Unknown(unknown)];
        assert_eq!(baseline.surprises(&outcomes, true), expected);
        assert_eq!(baseline.surprises(&outcomes, false), expected[..2]);
        let updated = baseline.updated(&outcomes);
        assert_eq!(updated.same, Counts { snapshots: 0, traces: 2 });
        assert_eq!(updated.known["trace known"], "because");
        assert!(updated.surprises(&outcomes, true).is_empty());
    }
}
