//! The retry ledger: counts firings of rules, and their cost.

use super::firing::{Degraded, FiredRule, Firing};
use crate::rule::RuleName;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Counts of one turn or one session.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RetryLedger {
    /// Number of deltas at which the reply was interrupted.
    pub interrupts: u32,
    /// Number of deltas at which only rules that remind fired.
    pub reminders: u32,
    /// Tokens of interrupted replies.
    pub tokens_burned: u64,
    /// Counts of each rule that fired.
    pub rules: BTreeMap<RuleName, RuleCounts>,
}

/// Counts of one rule.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RuleCounts {
    /// Number of firings.
    pub firings: u32,
    /// Number of interrupts.
    pub interrupts: u32,
    /// Number of reminders.
    pub reminders: u32,
    /// Tokens of the replies that the rule interrupted. A reply that several rules interrupted together is added to each.
    pub tokens_burned: u64,
    /// Caps that turned interrupts into reminders, with the number of times.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub degraded: Vec<(Degraded, u32)>,
}

impl RetryLedger {
    /// Returns whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Adds the counts of another ledger, for example of an earlier part of the session.
    pub fn add(&mut self, other: &Self) {
        self.interrupts = self.interrupts.saturating_add(other.interrupts);
        self.reminders = self.reminders.saturating_add(other.reminders);
        self.tokens_burned = self.tokens_burned.saturating_add(other.tokens_burned);
        for (name, counts) in &other.rules {
            let mine = self.rules.entry(name.clone()).or_default();
            mine.firings = mine.firings.saturating_add(counts.firings);
            mine.interrupts = mine.interrupts.saturating_add(counts.interrupts);
            mine.reminders = mine.reminders.saturating_add(counts.reminders);
            mine.tokens_burned = mine.tokens_burned.saturating_add(counts.tokens_burned);
            for &(reason, times) in &counts.degraded {
                mine.degrade(reason, times);
            }
        }
    }

    /// Returns the counts of one firing that a session file records. `tokens_burned` is the number of tokens of the interrupted
    /// reply.
    pub fn of_firing(rules: &[FiredRule], interrupts: bool, tokens_burned: u64) -> Self {
        let counts = |fired: &FiredRule| {
            let interrupts = interrupts && fired.interrupts;
            RuleCounts {
                firings: 1,
                interrupts: interrupts.into(),
                reminders: (!interrupts).into(),
                tokens_burned: if interrupts { tokens_burned } else { 0 },
                degraded: fired.degraded.into_iter().map(|reason| (reason, 1)).collect(),
            }
        };
        Self {
            interrupts: interrupts.into(),
            reminders: (!interrupts).into(),
            tokens_burned,
            rules: rules.iter().map(|fired| (fired.name.clone(), counts(fired))).collect(),
        }
    }

    fn record(&mut self, firing: &Firing) {
        self.add(&Self::of_firing(&firing.rules, firing.interrupts(), 0));
    }

    fn burn<'a>(&mut self, tokens: u64, rules: impl Iterator<Item = &'a RuleName>) {
        self.tokens_burned = self.tokens_burned.saturating_add(tokens);
        for name in rules {
            let counts = self.rules.entry(name.clone()).or_default();
            counts.tokens_burned = counts.tokens_burned.saturating_add(tokens);
        }
    }
}

impl RuleCounts {
    fn degrade(&mut self, reason: Degraded, times: u32) {
        match self.degraded.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, count)) => *count = count.saturating_add(times),
            None => self.degraded.push((reason, times)),
        }
    }
}

/// The ledgers of a session and of its current turn.
#[derive(Debug, Default)]
pub(crate) struct SessionLedgers {
    pub(crate) session: RetryLedger,
    pub(crate) turn: RetryLedger,
    /// Rules of the last interrupt, which its tokens are charged to.
    interrupted: Vec<RuleName>,
}

impl SessionLedgers {
    /// Counts a firing.
    pub(crate) fn record(&mut self, firing: &Firing) {
        if firing.interrupts() {
            let interrupting = firing.rules.iter().filter(|rule| rule.interrupts);
            self.interrupted = interrupting.map(|rule| rule.name.clone()).collect();
        }
        self.session.record(firing);
        self.turn.record(firing);
    }

    /// Adds the tokens of the reply that was interrupted last.
    pub(crate) fn burn(&mut self, tokens: u64) {
        if self.interrupted.is_empty() {
            return;
        }
        self.session.burn(tokens, self.interrupted.iter());
        self.turn.burn(tokens, self.interrupted.iter());
        self.interrupted.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_a_hostile_file_do_not_overflow() {
        let most = RuleCounts { firings: u32::MAX, tokens_burned: u64::MAX, ..RuleCounts::default() };
        let mut ledger = RetryLedger {
            interrupts: u32::MAX,
            tokens_burned: u64::MAX,
            rules: BTreeMap::from([(RuleName::new("r"), most)]),
            ..RetryLedger::default()
        };
        let other = ledger.clone();
        ledger.add(&other);
        ledger.burn(1, other.rules.keys());
        assert_eq!(ledger, other);
    }
}
