//! The settings `ttsr.*`.

use crate::rule::{ContextMode, InterruptMode, Repeat};
use serde::{Deserialize, Serialize};

/// Settings of a session's rules. The names and the defaults of the first four are fixed by PiJS's requirements; the other names
/// and defaults are oh-my-pi's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RuleSettings {
    /// Whether rules are active at all.
    pub enabled: bool,
    /// Interrupt mode of rules that set none.
    pub interrupt_mode: InterruptMode,
    /// Whether built-in rules are active too.
    pub builtin_rules: bool,
    /// Maximum number of interrupts in one turn, over all rules. After that rules only remind.
    pub max_retries_per_turn: u32,
    /// Maximum number of interrupts in one session, over all rules. After that rules only remind.
    pub max_retries_per_session: u32,
    /// Treatment of an interrupted reply, for rules that set none.
    pub context_mode: ContextMode,
    /// Condition for firing again, for rules that set none.
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
    /// Returns the condition for firing again, for rules that set none.
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
