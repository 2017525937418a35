//! Reports conditions that do not run, or not as they should.

use super::fallback::GiveUp;
use super::firing::PatternIndex;
use crate::rule::{Rule, RuleName};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A condition that does not run as it should. The other conditions and rules are not affected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleReport {
    /// The rule.
    pub rule: RuleName,
    /// The condition.
    pub pattern: PatternIndex,
    /// Source of the condition.
    pub source: String,
    /// The problem, worded as the end of a sentence about the condition.
    pub reason: String,
    /// Whether the condition itself is a mistake, which [`parse`](crate::file::parse) reports with its line and column.
    #[serde(default)]
    pub is_mistake: bool,
}

impl RuleReport {
    pub(crate) fn regex(rule: &Rule, condition: usize, reason: String) -> Self {
        let source = rule.conditions.get(condition).map_or_else(String::new, |condition| condition.source.clone());
        let pattern = PatternIndex::Regex(condition);
        Self { rule: rule.name.clone(), pattern, source, reason, is_mistake: false }
    }

    /// Marks the condition itself as a mistake.
    pub(crate) fn mistake(self) -> Self {
        Self { is_mistake: true, ..self }
    }

    pub(crate) fn gave_up(rule: &Rule, condition: usize, why: GiveUp) -> Self {
        Self::regex(rule, condition, why.to_string())
    }

    pub(crate) fn ast(rule: &Rule, condition: usize, reason: String) -> Self {
        let source = rule.ast_conditions.get(condition).cloned().unwrap_or_default();
        let pattern = PatternIndex::Ast(condition);
        Self { rule: rule.name.clone(), pattern, source, reason, is_mistake: false }
    }
}

impl fmt::Display for RuleReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "rule {}, condition `{}`: {}", self.rule, self.source, self.reason)
    }
}

/// Maximum number of reports of a session.
const MAX_REPORTS: usize = 256;

/// The reports of a session, each once.
#[derive(Debug, Default)]
pub(crate) struct RuleReports {
    all: Vec<RuleReport>,
    /// Number of reports already taken.
    taken: usize,
}

impl RuleReports {
    pub(crate) fn add(&mut self, report: RuleReport) {
        if self.all.len() < MAX_REPORTS && !self.all.contains(&report) {
            self.all.push(report);
        }
    }

    /// Returns the reports that were added since the last call.
    pub(crate) fn take_new(&mut self) -> Vec<RuleReport> {
        let new = self.all[self.taken..].to_vec();
        self.taken = self.all.len();
        new
    }
}
