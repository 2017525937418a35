//! Decides whether a loop continues after a turn: consecutive strikes end the loop, and a terminal update without a strike
//! completes it.
//!
//! A turn is a strike if an error was logged in it, if an entry that it recorded failed, or if it completes a cycle of equal
//! turns. The outcomes `not_found` and `conflict`, which occur in ordinary work, are not strikes. A turn without a strike resets
//! the count.

use crate::entry::State;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Settings, with the names that rummy reads from its environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// `RUMMY_MAX_STRIKES`: number of consecutive strikes that end a loop.
    pub max_strikes: usize,
    /// `RUMMY_MIN_CYCLES`: minimum number of repetitions of a cycle.
    pub min_cycles: usize,
    /// `RUMMY_MAX_CYCLE_PERIOD`: maximum number of turns of a cycle.
    pub max_cycle_period: usize,
    /// `RUMMY_MAX_UPDATE_REPEATS`: maximum number of turns that only repeat the same text.
    pub max_update_repeats: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_strikes: 3, min_cycles: 3, max_cycle_period: 4, max_update_repeats: 3 }
    }
}

/// An entry that a turn recorded, after it was dispatched.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recorded {
    /// The action.
    pub scheme: String,
    /// Attributes of the tag.
    pub attributes: Map<String, Value>,
    /// State after the dispatch.
    pub state: Option<State>,
    /// Outcome after the dispatch.
    pub outcome: Option<String>,
}

/// A turn that has ended.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Turn {
    /// Entries that the turn recorded.
    pub recorded: Vec<Recorded>,
    /// Number of logged errors, except soft ones.
    pub errors: usize,
    /// Status of the update that ends the loop; `None` if the model continues.
    pub terminal: Option<i64>,
    /// Text of the update.
    pub update: Option<String>,
}

/// The decision about a loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The next turn begins.
    Continue {
        /// Reason of a strike, as text for the model.
        reason: Option<String>,
    },
    /// The loop ends.
    End {
        /// HTTP status of the loop.
        status: i64,
        /// Reason of a failure.
        reason: Option<String>,
    },
}

/// The history of one loop.
#[derive(Debug, Clone, Default)]
pub struct Judge {
    limits: Limits,
    streak: usize,
    history: Vec<String>,
    repeats: usize,
    last_update: Option<String>,
}

impl Judge {
    /// Creates the judge of a loop.
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Returns the decision after a turn.
    pub fn judge(&mut self, turn: &Turn) -> Verdict {
        let failed = turn.recorded.iter().find(|entry| is_hard(entry));
        let is_clean = turn.errors == 0 && failed.is_none();
        if let Some(status) = turn.terminal.filter(|_| is_clean) {
            self.streak = 0;
            return Verdict::End { status, reason: None };
        }
        let cycle = self.cycle(turn);
        let stall = self.stall(turn);
        let failure = failed
            .map(|entry| format!("<{}> failed: {}.", entry.scheme, entry.outcome.as_deref().unwrap_or("no outcome")));
        if is_clean && cycle.is_none() && stall.is_none() {
            self.streak = 0;
            return Verdict::Continue { reason: None };
        }
        self.streak += 1;
        let reason = cycle.clone().or(stall).or(failure);
        if self.streak >= self.limits.max_strikes {
            let reason = reason.unwrap_or_else(|| format!("Abandoned after {} consecutive strikes.", self.streak));
            return Verdict::End { status: 499, reason: Some(reason) };
        }
        // The model is not notified of a cycle, because it would only rephrase its reply.
        Verdict::Continue { reason: reason.filter(|_| cycle.is_none()) }
    }

    /// Adds the turn's fingerprint. Returns the reason of a strike if the latest turns repeat in a cycle.
    fn cycle(&mut self, turn: &Turn) -> Option<String> {
        if turn.recorded.is_empty() {
            return None;
        }
        let mut prints: Vec<String> = turn.recorded.iter().map(fingerprint).collect();
        prints.sort();
        self.history.push(prints.join("|"));
        let repeats = self.limits.min_cycles.max(2);
        let longest = self.limits.max_cycle_period * repeats;
        if self.history.len() > longest {
            self.history.drain(..self.history.len() - longest);
        }
        let is_cycle = |period: &usize| {
            let needed = period * repeats;
            let Some(start) = self.history.len().checked_sub(needed) else { return false };
            let tail = &self.history[start..];
            tail.iter().zip(&tail[*period..]).all(|(one, next)| one == next)
        };
        let period = (1..=self.limits.max_cycle_period).find(is_cycle)?;
        Some(format!("Cyclic tool pattern (period {period}, {repeats} repetitions)."))
    }

    /// Counts turns that only repeat the same text. Returns the reason of a strike if there are too many.
    fn stall(&mut self, turn: &Turn) -> Option<String> {
        let works = turn.recorded.iter().any(|entry| !matches!(entry.scheme.as_str(), "update" | "think"));
        let says_the_same = turn.update.is_some() && turn.update == self.last_update;
        self.repeats = if works || !says_the_same { usize::from(turn.update.is_some()) } else { self.repeats + 1 };
        self.last_update.clone_from(&turn.update);
        (!works && self.repeats >= self.limits.max_update_repeats)
            .then(|| format!("The same update was sent {} times without any work.", self.repeats))
    }
}

/// Returns whether an entry's failure is a strike.
fn is_hard(entry: &Recorded) -> bool {
    let outcome = entry.outcome.as_deref().unwrap_or_default();
    entry.state == Some(State::Failed) && !["not_found", "conflict"].iter().any(|soft| outcome.starts_with(soft))
}

/// Returns the part of an entry that identifies equal turns: the action and its attributes, in a fixed order, without bodies.
fn fingerprint(entry: &Recorded) -> String {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let parts: BTreeSet<String> = entry
        .attributes
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(key, value)| format!("{key}={}", text(value)))
        .collect();
    format!("{}:{}", entry.scheme, parts.into_iter().collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(scheme: &str, path: &str, outcome: Option<&str>) -> Recorded {
        let attributes = [("path".to_owned(), path.into())].into_iter().collect();
        let state = Some(if outcome.is_some() { State::Failed } else { State::Resolved });
        Recorded { scheme: scheme.to_owned(), attributes, state, outcome: outcome.map(str::to_owned) }
    }

    fn turn(recorded: Vec<Recorded>) -> Turn {
        Turn { recorded, ..Turn::default() }
    }

    fn goes_on(verdict: &Verdict) -> bool {
        matches!(verdict, Verdict::Continue { .. })
    }

    /// A terminal update without a strike ends the loop: rummy's specification, "Response Healing" (termination protocol).
    #[test]
    fn a_clean_terminal_update_ends_the_loop() {
        let mut judge = Judge::new(Limits::default());
        assert!(goes_on(&judge.judge(&turn(vec![entry("get", "a", None)]))));
        let end = Turn { terminal: Some(204), ..turn(vec![entry("get", "b", None)]) };
        assert_eq!(judge.judge(&end), Verdict::End { status: 204, reason: None });
        let refuted = Turn { terminal: Some(200), ..turn(vec![entry("sh", "b", Some("exit:1"))]) };
        assert!(goes_on(&judge.judge(&refuted)));
    }

    /// A failed entry counts as a strike: rummy's plugin guide, "Reporting outcomes".
    #[test]
    fn three_strikes_end_the_loop_and_a_clean_turn_forgives() {
        let mut judge = Judge::new(Limits::default());
        let strike = |number: usize| turn(vec![entry("sh", &number.to_string(), Some("exit:1"))]);
        assert!(goes_on(&judge.judge(&strike(1))));
        assert!(goes_on(&judge.judge(&strike(2))));
        assert!(goes_on(&judge.judge(&turn(vec![entry("get", "x", Some("not_found"))]))));
        assert!(goes_on(&judge.judge(&strike(3))));
        assert!(goes_on(&judge.judge(&Turn { errors: 1, ..Turn::default() })));
        let verdict = judge.judge(&strike(4));
        assert_eq!(verdict, Verdict::End { status: 499, reason: Some("<sh> failed: exit:1.".to_owned()) });
    }

    /// Repeated commands are strikes: rummy's specification, "Response Healing".
    #[test]
    fn cycles_strike_silently() {
        let mut judge = Judge::new(Limits::default());
        let mut verdicts = Vec::new();
        for number in 0..8 {
            verdicts.push(judge.judge(&turn(vec![entry("get", ["a", "b"][number % 2], None)])));
        }
        assert!(verdicts[..5].iter().all(|one| *one == Verdict::Continue { reason: None }));
        assert_eq!(verdicts[6], Verdict::Continue { reason: None });
        let reason = "Cyclic tool pattern (period 2, 3 repetitions).".to_owned();
        assert_eq!(verdicts[7], Verdict::End { status: 499, reason: Some(reason) });
    }

    /// Repeated update text without other work is a strike: rummy's specification, "Response Healing".
    #[test]
    fn saying_the_same_without_work_strikes() {
        let mut judge = Judge::new(Limits::default());
        let say = || Turn { update: Some("working".to_owned()), ..Turn::default() };
        let verdicts: Vec<Verdict> = (0..5).map(|_| judge.judge(&say())).collect();
        assert!(goes_on(&verdicts[3]));
        assert!(matches!(&verdicts[4], Verdict::End { status: 499, .. }));
    }
}
