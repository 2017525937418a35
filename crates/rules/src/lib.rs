//! Streamed rules: reads a model's reply while it streams and returns the delta at which a rule is broken.
//!
//! ```text
//! rule files ──file──▶ Rule ──engine──▶ RuleEngine::check_delta(delta) ──▶ Firing { rule, action, excerpt }
//! settings ───────────▶ RuleSettings ─┘
//! ```
//!
//! | module | idea |
//! |---|---|
//! | [`activity`] | decides which rules are active, with the reason for each inactive one |
//! | [`ast`] | structural conditions: patterns of ast-grep over the syntax tree of a finished text |
//! | [`built_in`] | rules that come with the program |
//! | [`diagnostic`] | findings in a rule file, with their positions |
//! | [`engine`] | the rules of a session: reads deltas, and decides which rules fire and interrupt |
//! | [`mod@file`] | rule files of pi, pi-ttsr, oh-my-pi and Cursor |
//! | [`lint`] | finds rules that do not work as written |
//! | [`pattern`] | regular expressions: flags, syntax, and the engine that runs them |
//! | [`rule`] | a rule: conditions, scope, and the action when it fires |
//! | [`scope`] | which streams, tools and paths a rule reads |
//! | [`session`] | the rules of a session, and the source that reports changes of their files |
//! | [`settings`] | the settings `ttsr.*` |
//!
//! The crate does no I/O and reads no clock: the caller reads the files, and passes the time of each delta.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod activity;
pub mod ast;
pub mod built_in;
pub mod diagnostic;
pub mod engine;
pub mod file;
pub mod lint;
pub mod pattern;
pub mod rule;
pub mod scope;
pub mod session;
pub mod settings;

pub use activity::{Activity, Bucket, Reason};
pub use diagnostic::{Diagnostic, Severity};
pub use engine::{
    Action, Degraded, EngineOptions, EngineStats, FiredRule, Firing, InjectedRecord, MatchContext, MatchSite,
    RetryLedger, RuleEngine, RuleReport,
};
pub use file::{Format, ParsedFile};
pub use rule::{
    Condition, ContextMode, InterruptMode, Origin, Region, Repeat, Rule, RuleName, ScopeToken, Settle, StreamKind,
    Window,
};
pub use scope::{CompiledScope, Match};
pub use settings::RuleSettings;
