//! The retry ledger: counts what rules did, and what it cost.

use super::firing::{Degraded, Firing};
use crate::rule::RuleName;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Counts of one turn or one session.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RetryLedger {
    /// Deltas at which the reply was interrupted.
    pub interrupts: u32,
    /// Deltas at which rules fired that only remind.
    pub reminders: u32,
    /// Tokens of interrupted replies.
    pub tokens_burned: u64,
    /// Each rule that fired.
    pub rules: BTreeMap<RuleName, RuleCounts>,
}

/// Counts of one rule.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RuleCounts {
    /// How often it fired.
    pub firings: u32,
    /// How often it interrupted.
    pub interrupts: u32,
    /// How often it only reminded.
    pub reminders: u32,
    /// Tokens of the replies that it interrupted. A reply that several rules interrupted together counts for each.
    pub tokens_burned: u64,
    /// The caps that turned an interrupt into a reminder, and how often each did.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub degraded: Vec<(Degraded, u32)>,
}

impl RetryLedger {
    /// Reports whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Adds the counts of another ledger, such as that of a session before.
    pub fn add(&mut self, other: &Self) {
        self.interrupts += other.interrupts;
        self.reminders += other.reminders;
        self.tokens_burned += other.tokens_burned;
        for (name, counts) in &other.rules {
            let mine = self.rules.entry(name.clone()).or_default();
            mine.firings += counts.firings;
            mine.interrupts += counts.interrupts;
            mine.reminders += counts.reminders;
            mine.tokens_burned += counts.tokens_burned;
            for &(reason, times) in &counts.degraded {
                mine.degrade(reason, times);
            }
        }
    }

    pub(crate) fn record(&mut self, firing: &Firing) {
        if firing.interrupts() {
            self.interrupts += 1;
        } else {
            self.reminders += 1;
        }
        for fired in &firing.rules {
            let counts = self.rules.entry(fired.name.clone()).or_default();
            counts.firings += 1;
            if fired.interrupts {
                counts.interrupts += 1;
            } else {
                counts.reminders += 1;
            }
            if let Some(reason) = fired.degraded {
                counts.degrade(reason, 1);
            }
        }
    }

    pub(crate) fn burn<'a>(&mut self, tokens: u64, rules: impl Iterator<Item = &'a RuleName>) {
        self.tokens_burned += tokens;
        for name in rules {
            self.rules.entry(name.clone()).or_default().tokens_burned += tokens;
        }
    }
}

impl RuleCounts {
    fn degrade(&mut self, reason: Degraded, times: u32) {
        match self.degraded.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, count)) => *count += times,
            None => self.degraded.push((reason, times)),
        }
    }
}
