//! The engine's result when rules fire.

use crate::rule::{ContextMode, RuleName, StreamKind};
use serde::{Deserialize, Serialize};

/// The rules that fired at one delta. Their texts are injected together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Firing {
    /// Action that the caller has to take.
    pub action: Action,
    /// The stream on which they fired.
    pub stream: StreamKind,
    /// Name of the tool, on [`StreamKind::Tool`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Id of the tool call, on [`StreamKind::Tool`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// The rules, each once, in the order of the session's rules.
    pub rules: Vec<FiredRule>,
}

impl Firing {
    /// Returns whether the reply is to be interrupted.
    pub fn interrupts(&self) -> bool {
        matches!(self.action, Action::Interrupt { .. })
    }
}

/// Action of the caller after a firing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", rename_all_fields = "camelCase")]
pub enum Action {
    /// Stops the reply, puts the rules into the conversation and requests another reply.
    Interrupt {
        /// The treatment of the partial reply.
        context_mode: ContextMode,
    },
    /// Lets the reply end, and puts the rules into the conversation then.
    Remind,
}

/// A rule that fired.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FiredRule {
    /// Name of the rule.
    pub name: RuleName,
    /// The text to put into the conversation.
    pub content: String,
    /// Description of the rule in one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether this rule requests an interrupt.
    pub interrupts: bool,
    /// Reason why the rule only reminds although its mode interrupts on this stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degraded: Option<Degraded>,
    /// Position of the match.
    pub site: MatchSite,
}

/// The cap that turned an interrupt into a reminder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "cap", content = "limit")]
pub enum Degraded {
    /// The rule has reached its limit of interrupts in this turn.
    RulePerTurn(u32),
    /// Rules have reached the limit of interrupts of this turn.
    PerTurn(u32),
    /// Rules have reached the limit of interrupts of this session.
    PerSession(u32),
    /// The session has discarded its maximum of replies or tokens, whether rules or extensions requested it.
    SessionNet,
}

fn interrupts(count: u32) -> String {
    format!("{count} {}", if count == 1 { "interrupt" } else { "interrupts" })
}

impl std::fmt::Display for Degraded {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::RulePerTurn(limit) => {
                write!(formatter, "the rule's limit of {} in a turn is reached", interrupts(*limit))
            }
            Self::PerTurn(limit) => write!(formatter, "the limit of {} in a turn is reached", interrupts(*limit)),
            Self::PerSession(limit) => write!(formatter, "the limit of {} in a session is reached", interrupts(*limit)),
            Self::SessionNet => formatter.write_str("the limit of discarded replies or tokens in a session is reached"),
        }
    }
}

/// The position at which a condition matched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MatchSite {
    /// Condition that matched.
    pub pattern: PatternIndex,
    /// Byte of the text at which the match ends; for an AST condition, at which it begins. The text of a tool call is the decoded
    /// value of one argument, or the new lines of a patch for one file.
    pub offset: usize,
    /// The line of that byte, counted from 1.
    pub line: usize,
    /// The column of that byte in characters, counted from 1.
    pub column: usize,
    /// The line as far as it is known, cut to [`MAX_EXCERPT`] characters around the match.
    pub excerpt: String,
    /// Path of the tool call that put the rule in scope, or the first known path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// Maximum number of characters of an excerpt.
pub const MAX_EXCERPT: usize = 200;

/// Index of a condition of a rule, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", content = "index")]
pub enum PatternIndex {
    /// Index in [`Rule::conditions`](crate::Rule::conditions).
    Regex(usize),
    /// Index in [`Rule::ast_conditions`](crate::Rule::ast_conditions).
    Ast(usize),
}
