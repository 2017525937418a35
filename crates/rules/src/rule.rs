//! A streamed rule: its conditions, the text it reads, and the action when it fires.
//!
//! The model is that of oh-my-pi's rule files (`condition`, `scope`, `globs`, `interruptMode`, ...), with members that PiJS adds:
//! `where`, `settle`, `contextMode`, `repeat` and caps for each rule.
//!
//! [`Rule`] is a record with one member per key of a file. It has no session state, so it is not split.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// The name of a rule, unique in a session: the name of its file without the extension.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RuleName(String);

impl RuleName {
    /// Wraps a name.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RuleName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The origin of a rule. Of two rules with the same name, the one with the later variant takes precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// Compiled into the program.
    BuiltIn,
    /// A folder of the user's home.
    User,
    /// A folder of the project.
    Project,
}

/// A stream that a rule may read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StreamKind {
    /// Assistant prose.
    Text,
    /// Model reasoning.
    Thinking,
    /// The arguments of a tool call.
    Tool,
}

/// One alternative of a rule's scope: a stream, and for tools the calls that are in scope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "stream")]
pub enum ScopeToken {
    /// Assistant prose.
    Text,
    /// Model reasoning.
    Thinking,
    /// Arguments of tool calls.
    Tool {
        /// Name of the tool; `None` means every tool.
        name: Option<String>,
        /// A glob that a path of the call has to match, as a whole or by its last component; `None` requires no path.
        glob: Option<String>,
    },
    /// A token that could not be parsed. It covers no stream; a rule with only such tokens never fires.
    Unreadable {
        /// The token as it is written.
        token: String,
    },
}

impl fmt::Display for ScopeToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text => formatter.write_str("text"),
            Self::Thinking => formatter.write_str("thinking"),
            Self::Tool { name, glob } => {
                formatter.write_str("tool")?;
                if let Some(name) = name {
                    write!(formatter, ":{name}")?;
                }
                glob.as_ref().map_or(Ok(()), |glob| write!(formatter, "({glob})"))
            }
            Self::Unreadable { token } => formatter.write_str(token),
        }
    }
}

/// Streams on which a firing rule interrupts the reply; on other streams it leaves a reminder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InterruptMode {
    /// On no stream: the rule only reminds.
    Never,
    /// On text and thinking.
    #[default]
    ProseOnly,
    /// On tool arguments.
    ToolOnly,
    /// On every stream.
    Always,
}

impl InterruptMode {
    /// Reports whether a match on this stream interrupts the reply.
    pub fn interrupts(self, stream: StreamKind) -> bool {
        match self {
            Self::Never => false,
            Self::ProseOnly => stream != StreamKind::Tool,
            Self::ToolOnly => stream == StreamKind::Tool,
            Self::Always => true,
        }
    }
}

/// Treatment of a partial reply that a rule interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ContextMode {
    /// The retry does not see the partial reply.
    #[default]
    Discard,
    /// The partial reply stays in the conversation, marked as aborted.
    Keep,
}

/// The condition under which a rule that fired may fire again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "mode")]
pub enum Repeat {
    /// Never again in the session.
    #[default]
    Once,
    /// Again after a number of turns.
    AfterGap {
        /// Number of turns that have to end between two firings; 0 means no limit.
        turns: u64,
    },
    /// Again after some time.
    Cooldown {
        /// Seconds between two firings.
        seconds: u64,
    },
}

/// Part of prose that a rule reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Region {
    /// All text.
    #[default]
    Any,
    /// Fenced code blocks, each as a separate text. Tool arguments count as code.
    Code,
    /// Text outside of fenced code blocks.
    Prose,
}

/// The text that one test of a condition sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Window {
    /// The whole stream so far.
    #[default]
    Accumulated,
    /// Each line so far, without its LF. `$` without the flag `m` also matches before a CR at the end of the line.
    Line,
    /// Each delta separately.
    Chunk,
}

/// Required completeness of the text for a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Settle {
    /// At once, as if the reply ended there: `\bTODO\b` fires on `TODO` before an `S` can follow.
    #[default]
    Now,
    /// At the end of the word in which the match ends.
    Word,
    /// At the end of the line in which the match ends.
    Line,
}

/// A regular expression of a rule, in ECMAScript syntax.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Condition {
    /// The expression, without the leading `(?ims)` group that oh-my-pi reads as flags.
    pub source: String,
    /// Flags among `i`, `m`, `s`, `u` and `v`.
    pub flags: String,
}

/// A streamed rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// Name of the rule.
    pub name: RuleName,
    /// Origin of the rule.
    pub origin: Origin,
    /// Provider of the format, for `list`: `pi`, `pi-ttsr`, `omp`, `cursor`, `built-in`.
    pub provider: String,
    /// File that the rule was read from; `None` for a built-in rule.
    pub path: Option<PathBuf>,
    /// Description of the rule in one line.
    pub description: Option<String>,
    /// Text that is put into the conversation when the rule fires.
    pub content: String,
    /// Regular expressions; one match is enough.
    pub conditions: Vec<Condition>,
    /// Patterns of ast-grep, in addition to or instead of `conditions`; one match is enough.
    pub ast_conditions: Vec<String>,
    /// A question for a model to judge. A rule with a question is listed and never fires while the reply streams.
    pub question: Option<String>,
    /// Streams that the rule reads. Empty means text and every tool.
    pub scope: Vec<ScopeToken>,
    /// Globs, one of which a path of the tool call has to match. Empty requires no path.
    pub globs: Vec<String>,
    /// Names of agents (globs, lower case) in which the rule is active. Empty means every agent.
    pub agents: Vec<String>,
    /// Whether the content is part of the system prompt, if the rule has no condition.
    pub always_apply: bool,
    /// Whether the rule interrupts; `None` selects the setting.
    pub interrupt_mode: Option<InterruptMode>,
    /// Treatment of an interrupted reply; `None` selects the setting.
    pub context_mode: Option<ContextMode>,
    /// Condition for firing again; `None` selects the setting.
    pub repeat: Option<Repeat>,
    /// Maximum number of firings in a session; `None` means no limit.
    pub max_firings: Option<u32>,
    /// Maximum number of interrupts in one turn, after which the rule only reminds; `None` selects the setting.
    pub max_retries_per_turn: Option<u32>,
    /// Part of prose that the rule reads.
    pub region: Region,
    /// Required completeness of the text for a match.
    pub settle: Settle,
    /// Text that one test of a condition sees.
    pub window: Window,
}

impl Rule {
    /// Creates a rule with a name and a text that has no condition yet.
    pub fn new(name: impl Into<String>, origin: Origin, content: impl Into<String>) -> Self {
        Self {
            name: RuleName::new(name),
            origin,
            provider: "pi".to_owned(),
            path: None,
            description: None,
            content: content.into(),
            conditions: Vec::new(),
            ast_conditions: Vec::new(),
            question: None,
            scope: Vec::new(),
            globs: Vec::new(),
            agents: Vec::new(),
            always_apply: false,
            interrupt_mode: None,
            context_mode: None,
            repeat: None,
            max_firings: None,
            max_retries_per_turn: None,
            region: Region::default(),
            settle: Settle::default(),
            window: Window::default(),
        }
    }
}
