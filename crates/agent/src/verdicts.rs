//! How many verdicts count, and what they cost.
//!
//! A handler that always says *abort* would have the model start over for ever, and its user pay for
//! it. [`Verdicts`] counts per turn and per session; past a cap the text is let through and the
//! content is kept as a reminder for the next request.

use crate::events::VerdictAction;
use crate::extensions::Abort;
use pijs_protocol::guard;
use pijs_protocol::stream::Injection;

/// Caps on aborts with retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerdictCaps {
    /// In one turn.
    pub per_turn: u32,
    /// In a session.
    pub per_session: u32,
}

impl Default for VerdictCaps {
    fn default() -> Self {
        Self { per_turn: 3, per_session: 10 }
    }
}

/// What verdicts did to a session so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VerdictTotals {
    /// Attempts that were discarded.
    pub discarded: u32,
    /// Verdicts past a cap.
    pub let_through: u32,
    /// Output tokens that were paid for and thrown away.
    pub tokens_burned: u64,
}

/// A text that goes into the conversation because of a verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Injected {
    pub(crate) extension: String,
    pub(crate) injection: Injection,
    /// Whether the cap was reached, so that nothing was discarded.
    pub(crate) reminder: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Verdicts {
    caps: VerdictCaps,
    this_turn: u32,
    retries: u32,
    totals: VerdictTotals,
    reminders: Vec<Injected>,
}

impl Verdicts {
    pub(crate) fn new(caps: VerdictCaps) -> Self {
        Self { caps, ..Self::default() }
    }

    pub(crate) fn begin_turn(&mut self) {
        self.this_turn = 0;
    }

    /// What is to be done about an abort. `None`: it says the same again past the cap, so it was
    /// reported before and waits as a reminder already.
    pub(crate) fn decide(&mut self, abort: &Abort) -> Option<VerdictAction> {
        let Some(injection) = &abort.retry else { return Some(VerdictAction::Stop) };
        let within = self.this_turn < self.caps.per_turn && self.retries < self.caps.per_session;
        if within || !guard::is_up("verdict.caps") {
            self.this_turn += 1;
            self.retries += 1;
            return Some(VerdictAction::Retry);
        }
        let reminder = Injected { extension: abort.extension.clone(), injection: injection.clone(), reminder: true };
        if self.reminders.contains(&reminder) {
            return None;
        }
        self.totals.let_through += 1;
        self.reminders.push(reminder);
        Some(VerdictAction::Remind)
    }

    /// An attempt was discarded.
    pub(crate) fn burned(&mut self, tokens: u64) {
        self.totals.discarded += 1;
        self.totals.tokens_burned = self.totals.tokens_burned.saturating_add(tokens);
    }

    /// What goes with the next request.
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

    fn abort(content: Option<&str>) -> Abort {
        let retry = content.map(|content| Injection { content: content.into(), role: InjectionRole::System });
        Abort { extension: "e".into(), retry, latency_us: 1 }
    }

    #[test]
    fn the_fourth_abort_of_a_turn_and_the_eleventh_of_a_session_become_reminders() {
        let mut verdicts = Verdicts::new(VerdictCaps::default());
        let mut actions = Vec::new();
        for _ in 0..5 {
            verdicts.begin_turn();
            actions.push((0..4).map(|n| verdicts.decide(&abort(Some(&n.to_string()))).unwrap()).collect::<Vec<_>>());
            verdicts.take_reminders();
        }
        assert_eq!(actions[..3], vec![vec![Retry, Retry, Retry, Remind]; 3]);
        assert_eq!(actions[3], [Retry, Remind, Remind, Remind]);
        assert_eq!(actions[4], [Remind; 4]);
        assert_eq!(verdicts.decide(&abort(None)), Some(Stop), "ending a run needs no allowance");
    }

    #[test]
    fn the_same_reminder_is_kept_and_reported_once() {
        let mut verdicts = Verdicts::new(VerdictCaps { per_turn: 0, per_session: 0 });
        assert_eq!(verdicts.decide(&abort(Some("a"))), Some(Remind));
        assert_eq!(verdicts.decide(&abort(Some("a"))), None);
        assert_eq!(verdicts.decide(&abort(Some("b"))), Some(Remind));
        assert_eq!(verdicts.take_reminders().len(), 2);
    }
}
