//! Streamed rules: reads a model's reply while it streams and says at which delta a rule is broken.
//!
//! ```text
//! rule files ──file──▶ Rule ──engine──▶ Engine::check_delta(delta) ──▶ Firing { rule, action, excerpt }
//! settings ───────────▶ RuleSettings ─┘
//! ```
//!
//! | module | idea |
//! |---|---|
//! | [`rule`] | a rule: conditions, scope, and the action when it fires |
//! | [`settings`] | the settings `ttsr.*` |
//!
//! The crate does no I/O and reads no clock: the caller reads the files, and passes the time of each delta.

pub mod rule;
pub mod settings;

pub use rule::{
    Condition, ContextMode, InterruptMode, Origin, Region, Repeat, Rule, RuleName, ScopeToken, Settle, StreamKind,
};
pub use settings::RuleSettings;
