//! The settings `ttsr.*`.

use crate::rule::{ContextMode, InterruptMode, Repeat};
use serde::{Deserialize, Serialize};

/// Settings of a session's rules. The names and the defaults of the first four are fixed by PiJS's requirements; the others are
/// oh-my-pi's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RuleSettings {
    /// Whether rules run at all.
    pub enabled: bool,
    /// The mode of rules that have none.
    pub interrupt_mode: InterruptMode,
    /// Whether built-in rules are active too.
    pub builtin_rules: bool,
    /// Interrupts of one turn, over all rules, past which rules only remind.
    pub max_retries_per_turn: u32,
    /// Interrupts of one session, over all rules, past which rules only remind.
    pub max_retries_per_session: u32,
    /// The treatment of an interrupted reply, for rules without one.
    pub context_mode: ContextMode,
    /// When a rule may fire again, for rules without a repetition.
    pub repeat_mode: RepeatMode,
    /// Turns between two firings under [`RepeatMode::AfterGap`].
    pub repeat_gap: u64,
    /// Names of disabled rules.
    pub disabled_rules: Vec<String>,
}

/// The setting `ttsr.repeatMode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RepeatMode {
    /// A rule fires once in a session.
    #[default]
    Once,
    /// A rule fires again after [`RuleSettings::repeat_gap`] turns.
    AfterGap,
}

impl RuleSettings {
    /// Returns when a rule without a repetition of its own may fire again.
    pub fn repeat(&self) -> Repeat {
        match self.repeat_mode {
            RepeatMode::Once => Repeat::Once,
            RepeatMode::AfterGap => Repeat::AfterGap { turns: self.repeat_gap },
        }
    }
}

impl Default for RuleSettings {
    fn default() -> Self {
        Self {
            enabled: false,
            interrupt_mode: InterruptMode::ProseOnly,
            builtin_rules: true,
            max_retries_per_turn: 3,
            max_retries_per_session: 50,
            context_mode: ContextMode::Discard,
            repeat_mode: RepeatMode::Once,
            repeat_gap: 10,
            disabled_rules: Vec::new(),
        }
    }
}
