//! The engine's result when rules fire.

use crate::rule::{ContextMode, RuleName, StreamKind};
use serde::{Deserialize, Serialize};

/// The rules that fired at one delta. They are injected together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Firing {
    /// The action for the caller.
    pub action: Action,
    /// The stream on which they fired.
    pub stream: StreamKind,
    /// The tool, on [`StreamKind::Tool`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The id of the tool call, on [`StreamKind::Tool`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// Each rule once, in the order of the session's rules.
    pub rules: Vec<FiredRule>,
}

impl Firing {
    /// Reports whether the reply is to be interrupted.
    pub fn interrupts(&self) -> bool {
        matches!(self.action, Action::Interrupt { .. })
    }
}

/// The caller's reaction to a firing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", rename_all_fields = "camelCase")]
pub enum Action {
    /// Stops the reply, puts the rules into the conversation and asks again.
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
    /// Whether this rule asks for an interrupt.
    pub interrupts: bool,
    /// The reason why it only reminds although its mode interrupts on this stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degraded: Option<Degraded>,
    /// The match.
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
    /// The session has discarded as many replies, or tokens, as it may, whether rules or extensions requested it.
    SessionNet,
}

impl std::fmt::Display for Degraded {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::RulePerTurn(limit) => {
                write!(formatter, "the rule's limit of {limit} interrupts in a turn is reached")
            }
            Self::PerTurn(limit) => write!(formatter, "the limit of {limit} interrupts in a turn is reached"),
            Self::PerSession(limit) => write!(formatter, "the limit of {limit} interrupts in a session is reached"),
            Self::SessionNet => formatter.write_str("the limit of discarded replies or tokens in a session is reached"),
        }
    }
}

/// The position at which a condition matched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MatchSite {
    /// The condition that matched.
    pub pattern: PatternIndex,
    /// The byte of the text at which the match ends (of an AST condition: begins). The text of a tool call is the decoded
    /// value of one argument, or the new lines of a patch for one file.
    pub offset: usize,
    /// The line of that byte, counted from 1.
    pub line: usize,
    /// The column of that byte in characters, counted from 1.
    pub column: usize,
    /// The line as far as it was known, cut at [`MAX_EXCERPT`] characters around the match.
    pub excerpt: String,
    /// The path of the tool call by which the rule was in scope, or the first one known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// Characters of an excerpt.
pub const MAX_EXCERPT: usize = 200;

/// A condition of a rule, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", content = "index")]
pub enum PatternIndex {
    /// One of [`Rule::conditions`](crate::Rule::conditions).
    Regex(usize),
    /// One of [`Rule::ast_conditions`](crate::Rule::ast_conditions).
    Ast(usize),
}
