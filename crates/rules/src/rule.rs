//! A streamed rule: its conditions, the text it reads, and the action when it fires.
//!
//! The model is that of oh-my-pi's rule files (`condition`, `scope`, `globs`, `interruptMode`, ...), with members of our own:
//! `where`, `settle`, `contextMode`, `repeat` and caps for each rule.
//!
//! [`Rule`] is a record with one member per key of a file. It holds no state of a session, so it is not split.

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

/// The origin of a rule. Of two rules with one name, the later variant wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// A rule of our own, compiled into the program.
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

/// One alternative of a rule's scope: a stream, and for tools which calls of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "stream")]
pub enum ScopeToken {
    /// Assistant prose.
    Text,
    /// Model reasoning.
    Thinking,
    /// Arguments of tool calls.
    Tool {
        /// Name of the tool; `None` stands for every tool.
        name: Option<String>,
        /// A glob that a path of the call has to match, by its whole path or its last component; `None` asks for no path.
        glob: Option<String>,
    },
    /// A token that could not be read. It reaches no stream; a rule of only such tokens never fires.
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

/// The streams on which a firing rule interrupts the reply; on the others it leaves a reminder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InterruptMode {
    /// On none: the rule only informs.
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

/// The treatment of a partial reply that a rule interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ContextMode {
    /// The retry does not see it.
    #[default]
    Discard,
    /// The stopped reply stays in the conversation, marked as aborted.
    Keep,
}

/// The condition under which a rule that fired may fire again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "mode")]
pub enum Repeat {
    /// Never again in the session.
    #[default]
    Once,
    /// After so many turns.
    AfterGap {
        /// Turns that end between two firings; 0 means no limit.
        turns: u64,
    },
    /// After so much time.
    Cooldown {
        /// Seconds between two firings.
        seconds: u64,
    },
}

/// The part of prose that a rule reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Region {
    /// All of it.
    #[default]
    Any,
    /// Fenced code blocks, each as a text of its own. Tool arguments are code.
    Code,
    /// Outside of fenced code blocks.
    Prose,
}

/// The text that one test of a condition sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Window {
    /// All of the stream so far.
    #[default]
    Accumulated,
    /// Each line so far on its own, without its LF. `$` without the flag `m` also holds before a CR at the end of the line.
    Line,
    /// Each delta on its own.
    Chunk,
}

/// The completeness of the text that a match requires.
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

/// One regular expression of a rule, of ECMAScript's syntax.
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
    /// The origin of the rule.
    pub origin: Origin,
    /// The provider of its format, for `list`: `pi`, `pi-ttsr`, `omp`, `cursor`, `built-in`.
    pub provider: String,
    /// The file it was read from; `None` for a built-in rule.
    pub path: Option<PathBuf>,
    /// Description of the rule in one line.
    pub description: Option<String>,
    /// The text that is put into the conversation when it fires.
    pub content: String,
    /// Regular expressions; one that matches is enough.
    pub conditions: Vec<Condition>,
    /// Patterns of ast-grep, in addition to or instead of `conditions`; one match is enough.
    pub ast_conditions: Vec<String>,
    /// A question for a model to judge. A rule with one is listed and never fires while the reply streams.
    pub question: Option<String>,
    /// The streams it reads. Empty stands for text and every tool.
    pub scope: Vec<ScopeToken>,
    /// Globs of which a path of the tool call has to match one. Empty asks for no path.
    pub globs: Vec<String>,
    /// Names of agents (globs, lower case) in which it is active. Empty stands for every agent.
    pub agents: Vec<String>,
    /// Whether its content is part of the system prompt, if it has no condition.
    pub always_apply: bool,
    /// Whether the rule interrupts; `None` selects the setting.
    pub interrupt_mode: Option<InterruptMode>,
    /// The treatment of an interrupted reply; `None` takes the setting.
    pub context_mode: Option<ContextMode>,
    /// When it may fire again; `None` takes the setting.
    pub repeat: Option<Repeat>,
    /// Maximum number of firings in a session; `None` means that the rule has no limit of its own.
    pub max_firings: Option<u32>,
    /// Interrupts in one turn past which it only reminds; `None` takes the setting.
    pub max_retries_per_turn: Option<u32>,
    /// The part of prose that it reads.
    pub region: Region,
    /// How complete the text has to be.
    pub settle: Settle,
    /// The text that one test of a condition sees.
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
