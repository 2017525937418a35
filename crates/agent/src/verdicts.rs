//! Caps of verdicts, and their cost.
//!
//! A handler that always aborts would make the model start over forever at the user's cost. [`Verdicts`] counts discarded replies
//! for each rule and for each extension, so that a rule that fires constantly does not affect others. A rule is identified by its
//! injected text, since one handler may implement many rules. A session-wide limit bounds the total cost. Beyond a cap the reply
//! continues, and the text is kept as a reminder for the next request.

use crate::events::VerdictAction;
use crate::extensions::VerdictAbort;
use pijs_protocol::guard;
use pijs_protocol::stream::Injection;
use serde_json::Value;
use std::collections::BTreeMap;

/// Maximum numbers of discarded replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cap {
    /// Maximum number of discarded replies in one turn.
    pub per_turn: u32,
    /// Maximum number of discarded replies in a session.
    pub per_session: u32,
}

/// Caps of aborts with retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerdictCaps {
    /// Cap for one injected text of one extension.
    pub rule: Cap,
    /// Cap for all injected texts of one extension, each of which may be new.
    pub extension: Cap,
    /// Maximum number of discarded replies in a session, for all extensions together.
    pub discarded: u32,
    /// Maximum number of discarded output tokens in a session.
    pub burned_tokens: u64,
}

impl Default for VerdictCaps {
    /// Returns the default caps. A model follows a rule after a retry or two, or never; an extension may have dozens of rules, of
    /// which several may match in one reply; the session-wide limits equal a few long replies, or many replies that were stopped
    /// early.
    fn default() -> Self {
        Self {
            rule: Cap { per_turn: 3, per_session: 10 },
            extension: Cap { per_turn: 10, per_session: 50 },
            discarded: 200,
            burned_tokens: 200_000,
        }
    }
}

/// Effects of verdicts on a session so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VerdictTotals {
    /// Number of discarded attempts.
    pub discarded: u32,
    /// Number of verdicts beyond a cap, which did not discard the reply.
    pub let_through: u32,
    /// Output tokens of discarded attempts.
    pub tokens_burned: u64,
}

/// A text that a verdict adds to the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Injected {
    pub(crate) extension: String,
    pub(crate) injection: Injection,
    /// Whether a cap was reached, so that no reply was discarded.
    pub(crate) reminder: bool,
    /// Additional members of the message's details.
    pub(crate) details: Option<Value>,
}

/// Counts the discarded replies of one rule or one extension.
#[derive(Debug, Clone, Copy, Default)]
struct DiscardCount {
    turn: u32,
    session: u32,
}

impl DiscardCount {
    fn is_within(self, cap: Cap) -> bool {
        self.turn < cap.per_turn && self.session < cap.per_session
    }

    fn add(&mut self) {
        self.turn += 1;
        self.session += 1;
    }
}

/// Counts the discarded replies of one extension.
#[derive(Debug, Default)]
struct ExtensionCounts {
    all: DiscardCount,
    /// Counts by injected text; the extension's cap bounds their number.
    rules: BTreeMap<String, DiscardCount>,
}

#[derive(Debug, Default)]
pub(crate) struct Verdicts {
    caps: VerdictCaps,
    extensions: BTreeMap<String, ExtensionCounts>,
    totals: VerdictTotals,
    reminders: Vec<Injected>,
}

impl Verdicts {
    pub(crate) fn new(caps: VerdictCaps) -> Self {
        Self { caps, ..Self::default() }
    }

    pub(crate) fn begin_turn(&mut self) {
        for extension in self.extensions.values_mut() {
            extension.all.turn = 0;
            extension.rules.values_mut().for_each(|count| count.turn = 0);
        }
    }

    /// Counts a retry unless a cap is reached; returns whether it was counted.
    fn allow(&mut self, extension: &str, content: &str) -> bool {
        let caps = self.caps;
        let is_within_net = self.is_within_net();
        let counts = self.extensions.entry(extension.to_owned()).or_default();
        let rule = counts.rules.get(content).copied().unwrap_or_default();
        let within = is_within_net && counts.all.is_within(caps.extension) && rule.is_within(caps.rule);
        if within || !guard!(VerdictCaps) {
            counts.all.add();
            counts.rules.entry(content.to_owned()).or_default().add();
            return true;
        }
        false
    }

    /// Returns the action for an abort; `None` for a repeated text beyond the cap, because it was already reported and queued as
    /// a reminder.
    pub(crate) fn decide(&mut self, abort: &VerdictAbort) -> Option<VerdictAction> {
        let Some(injection) = &abort.retry else { return Some(VerdictAction::Stop) };
        if self.allow(&abort.extension, &injection.content) {
            return Some(VerdictAction::Retry);
        }
        let reminder = Injected {
            extension: abort.extension.clone(),
            injection: injection.clone(),
            reminder: true,
            details: None,
        };
        if self.reminders.contains(&reminder) {
            return None;
        }
        self.totals.let_through += 1;
        self.remind(reminder);
        Some(VerdictAction::Remind)
    }

    /// Returns whether the session-wide limits allow another reply to be discarded.
    pub(crate) fn is_within_net(&self) -> bool {
        self.totals.discarded < self.caps.discarded && self.totals.tokens_burned < self.caps.burned_tokens
    }

    /// Queues a text for the next request.
    pub(crate) fn remind(&mut self, reminder: Injected) {
        self.reminders.push(reminder);
    }

    /// Counts a discarded attempt.
    pub(crate) fn burned(&mut self, tokens: u64) {
        self.totals.discarded += 1;
        self.totals.tokens_burned = self.totals.tokens_burned.saturating_add(tokens);
    }

    /// Takes the texts for the next request.
    pub(crate) fn take_reminders(&mut self) -> Vec<Injected> {
        std::mem::take(&mut self.reminders)
    }

    pub(crate) fn totals(&self) -> VerdictTotals {
        self.totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use VerdictAction::{Remind, Retry, Stop};
    use pijs_protocol::stream::InjectionRole;

    fn abort(extension: &str, content: Option<&str>) -> VerdictAbort {
        let retry = content.map(|content| Injection { content: content.into(), role: InjectionRole::System });
        VerdictAbort { extension: extension.into(), retry, latency_us: 1 }
    }

    /// Returns the action for each of several aborts in one turn.
    fn turn(verdicts: &mut Verdicts, extension: &str, contents: &[&str]) -> Vec<VerdictAction> {
        verdicts.begin_turn();
        let decided = contents.iter().filter_map(|content| verdicts.decide(&abort(extension, Some(content)))).collect();
        verdicts.take_reminders();
        decided
    }

    #[test]
    fn the_fourth_abort_of_a_rule_in_a_turn_and_the_eleventh_in_a_session_become_reminders() {
        let mut verdicts = Verdicts::new(VerdictCaps::default());
        for _ in 0..3 {
            assert_eq!(turn(&mut verdicts, "e", &["a"; 4]), [Retry, Retry, Retry, Remind]);
        }
        assert_eq!(turn(&mut verdicts, "e", &["a"; 4]), [Retry, Remind]);
        assert_eq!(turn(&mut verdicts, "e", &["a"; 4]), [Remind]);
        assert_eq!(verdicts.decide(&abort("e", None)), Some(Stop), "ending a run needs no allowance");
    }

    #[test]
    fn a_rule_at_its_cap_does_not_affect_others() {
        let mut verdicts = Verdicts::new(VerdictCaps::default());
        for _ in 0..20 {
            turn(&mut verdicts, "noisy", &["style"]);
        }
        assert_eq!(turn(&mut verdicts, "noisy", &["style", "style", "keys"]), [Remind, Retry]);
        assert_eq!(turn(&mut verdicts, "guard", &["style", "keys"]), [Retry, Retry]);
    }

    #[test]
    fn varying_texts_of_an_extension_reach_its_own_cap() {
        let mut verdicts = Verdicts::new(VerdictCaps::default());
        let mut said = 0;
        let mut turns = Vec::new();
        for _ in 0..6 {
            let words: Vec<String> = (0..12)
                .map(|_| {
                    said += 1;
                    said.to_string()
                })
                .collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let decided = turn(&mut verdicts, "endless", &words);
            turns.push(decided.iter().filter(|action| **action == Retry).count());
        }
        assert_eq!(turns, [10, 10, 10, 10, 10, 0]);
        assert_eq!(turn(&mut verdicts, "guard", &["keys"]), [Retry]);
    }

    #[test]
    fn discarded_tokens_of_a_session_are_bounded() {
        let mut verdicts = Verdicts::new(VerdictCaps { burned_tokens: 100, ..VerdictCaps::default() });
        verdicts.burned(99);
        assert_eq!(turn(&mut verdicts, "a", &["x"]), [Retry]);
        verdicts.burned(1);
        assert_eq!(turn(&mut verdicts, "b", &["x"]), [Remind]);
        let mut verdicts = Verdicts::new(VerdictCaps { discarded: 2, ..VerdictCaps::default() });
        verdicts.burned(0);
        assert_eq!(turn(&mut verdicts, "a", &["x"]), [Retry]);
        verdicts.burned(0);
        assert_eq!(turn(&mut verdicts, "b", &["x"]), [Remind]);
    }

    #[test]
    fn a_repeated_reminder_is_reported_once() {
        let none = Cap { per_turn: 0, per_session: 0 };
        let mut verdicts = Verdicts::new(VerdictCaps { rule: none, ..VerdictCaps::default() });
        assert_eq!(verdicts.decide(&abort("e", Some("a"))), Some(Remind));
        assert_eq!(verdicts.decide(&abort("e", Some("a"))), None);
        assert_eq!(verdicts.decide(&abort("e", Some("b"))), Some(Remind));
        assert_eq!(verdicts.take_reminders().len(), 2);
    }
}
