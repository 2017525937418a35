//! Decides whether a rule may fire again, and whether it may interrupt.

use super::firing::Degraded;
use crate::rule::{Repeat, RuleName};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Record of a rule that fired. It survives compaction and the end of the process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InjectedRecord {
    /// The rule.
    pub name: RuleName,
    /// The turn in which it last fired.
    pub turn: u64,
    /// The time at which it last fired, in milliseconds of the caller's clock.
    #[serde(default)]
    pub at_ms: u64,
    /// Number of firings in the session.
    #[serde(default = "once")]
    pub count: u32,
}

fn once() -> u32 {
    1
}

/// Reason why a rule that matched did not fire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "gate", rename_all_fields = "camelCase")]
pub enum Blocked {
    /// The rule fires once in a session and has already fired.
    Once {
        /// The turn in which it fired.
        turn: u64,
    },
    /// Too few turns have ended since it fired.
    Gap {
        /// Number of turns that still have to end.
        turns_left: u64,
    },
    /// Too little time has passed since it fired.
    Cooldown {
        /// Milliseconds that still have to pass.
        ms_left: u64,
    },
    /// The rule has reached its limit of firings in a session.
    MaxFirings {
        /// The limit.
        limit: u32,
    },
}

/// The firing records of a session. Entries stay when a rule file disappears: an editor that saves in two steps removes it for a
/// moment.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    slots: BTreeMap<RuleName, usize>,
    states: Vec<RuleState>,
    turn: u64,
    interrupts_of_turn: u32,
}

#[derive(Debug)]
struct RuleState {
    name: RuleName,
    record: Option<InjectedRecord>,
    /// Record before the last firing, which undoing it restores.
    before: Option<InjectedRecord>,
    interrupts_of_turn: u32,
}

/// The limits of a rule.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caps {
    pub(crate) rule_per_turn: u32,
    pub(crate) per_turn: u32,
    pub(crate) per_session: u32,
    /// Whether the session must discard no more replies.
    pub(crate) is_exhausted: bool,
}

impl Gate {
    /// Returns the index of a rule's entry, which stays the same for the session.
    pub(crate) fn slot(&mut self, name: &RuleName) -> usize {
        if let Some(&slot) = self.slots.get(name) {
            return slot;
        }
        let slot = self.states.len();
        self.states.push(RuleState { name: name.clone(), record: None, before: None, interrupts_of_turn: 0 });
        self.slots.insert(name.clone(), slot);
        slot
    }

    pub(crate) fn turn(&self) -> u64 {
        self.turn
    }

    pub(crate) fn set_turn(&mut self, turn: u64) {
        self.turn = turn;
    }

    pub(crate) fn begin_turn(&mut self) {
        self.interrupts_of_turn = 0;
        for state in &mut self.states {
            state.interrupts_of_turn = 0;
        }
    }

    pub(crate) fn end_turn(&mut self) {
        self.turn += 1;
    }

    /// Returns the reason why a rule may not fire now, if any.
    pub(crate) fn blocked(
        &self,
        slot: usize,
        repeat: Repeat,
        max_firings: Option<u32>,
        now_ms: u64,
    ) -> Option<Blocked> {
        let record = self.states[slot].record.as_ref()?;
        if let Some(limit) = max_firings
            && record.count >= limit
        {
            return Some(Blocked::MaxFirings { limit });
        }
        match repeat {
            Repeat::Once => Some(Blocked::Once { turn: record.turn }),
            Repeat::AfterGap { turns } => {
                let turns_left = turns.saturating_sub(self.turn.saturating_sub(record.turn));
                (turns_left > 0).then_some(Blocked::Gap { turns_left })
            }
            Repeat::Cooldown { seconds } => {
                let passed = now_ms.saturating_sub(record.at_ms);
                let ms_left = seconds.saturating_mul(1000).saturating_sub(passed);
                (ms_left > 0).then_some(Blocked::Cooldown { ms_left })
            }
        }
    }

    /// Returns the cap that keeps a rule from interrupting now; `None` if it may interrupt.
    pub(crate) fn degraded(&self, slot: usize, caps: Caps, interrupts_of_session: u32) -> Option<Degraded> {
        if caps.is_exhausted {
            Some(Degraded::SessionNet)
        } else if interrupts_of_session >= caps.per_session {
            Some(Degraded::PerSession(caps.per_session))
        } else if self.interrupts_of_turn >= caps.per_turn {
            Some(Degraded::PerTurn(caps.per_turn))
        } else if self.states[slot].interrupts_of_turn >= caps.rule_per_turn {
            Some(Degraded::RulePerTurn(caps.rule_per_turn))
        } else {
            None
        }
    }

    /// Records that a rule fired now.
    pub(crate) fn fire(&mut self, slot: usize, interrupts: bool, now_ms: u64) {
        let turn = self.turn;
        let state = &mut self.states[slot];
        state.interrupts_of_turn += u32::from(interrupts);
        state.before.clone_from(&state.record);
        let count = state.record.as_ref().map_or(0, |record| record.count).saturating_add(1);
        state.record = Some(InjectedRecord { name: state.name.clone(), turn, at_ms: now_ms, count });
    }

    /// Records that the reply was interrupted.
    pub(crate) fn interrupt(&mut self) {
        self.interrupts_of_turn += 1;
    }

    /// Undoes the last firing of a rule.
    pub(crate) fn retract(&mut self, name: &RuleName) {
        if let Some(&slot) = self.slots.get(name) {
            let state = &mut self.states[slot];
            state.record = state.before.take();
        }
    }

    /// Records that a rule was injected in a turn at an unknown time.
    pub(crate) fn mark(&mut self, name: &RuleName, turn: u64) {
        let slot = self.slot(name);
        let state = &mut self.states[slot];
        let before = state.record.take();
        let (at_ms, count) = before.map_or((0, 0), |record| (record.at_ms, record.count));
        state.record = Some(InjectedRecord { name: name.clone(), turn, at_ms, count: count.saturating_add(1) });
    }

    pub(crate) fn records(&self) -> Vec<InjectedRecord> {
        // Sorted by name, so that the order does not depend on the run.
        self.slots.values().filter_map(|&slot| self.states[slot].record.clone()).collect()
    }

    /// Restores records. The current turn becomes at least the latest recorded one, so that no gap is shortened.
    pub(crate) fn restore(&mut self, records: impl IntoIterator<Item = InjectedRecord>) {
        for record in records {
            self.turn = self.turn.max(record.turn);
            let slot = self.slot(&record.name);
            self.states[slot].record = Some(record);
        }
    }
}
