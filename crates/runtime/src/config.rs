//! Settings of one run: plain data from a command line or an embedding program.
//!
//! Defaults are replaced by `settings.json`, the environment and pi's own defaults, in this order.

use crate::rules::RuleProgram;
use pijs_agent::ToolChoice;
use pijs_host::PiProfile;
use pijs_hostcall::Mode;
use pijs_packages::ResourceOptions;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Configuration of a session.
#[derive(Debug, Clone, Default)]
pub struct SessionConfig {
    /// Extensions to load.
    pub extensions: ExtensionConfig,
    /// Skills, prompt templates and themes.
    pub resources: ResourceOptions,
    /// Set to read no `AGENTS.md` or `CLAUDE.md`.
    pub no_context_files: bool,
    /// Permissions of extensions.
    pub permissions: Permissions,
    /// Isolation of the realms.
    pub isolation: Isolation,
    /// File to which the realms of extensions are recorded, for `pi replay`. It must not exist yet.
    pub tape: Option<PathBuf>,
    /// Version of pi that extensions see.
    pub profile: Option<PiProfile>,
    /// Session to resume, and the folder of sessions.
    pub store: StoreConfig,
    /// Model of the session.
    pub model: ModelConfig,
    /// A text, or the name of its file, in place of the built-in system prompt.
    pub system_prompt: Option<String>,
    /// Texts, or names of their files, after the system prompt.
    pub append_system_prompt: Vec<String>,
    /// Tools; without `builtin` the setting `defaultTools` selects the active built-in ones.
    pub tools: ToolChoice,
    /// Streamed rules.
    pub rules: RulesConfig,
    /// Set to use no server of `mcp.json`.
    pub no_mcp: bool,
}

/// Extensions that a session loads.
#[derive(Debug, Clone, Default)]
pub struct ExtensionConfig {
    /// Paths and package sources, in load order. Each has to exist and to load.
    pub named: Vec<String>,
    /// Set to load only these; otherwise installed extensions follow.
    pub only_named: bool,
    /// Set to end the session when an installed extension cannot be loaded, instead of continuing without it.
    pub fail_on_error: bool,
}

/// Permissions of this run. They override the settings.
#[derive(Debug, Clone, Default)]
pub struct Permissions {
    /// Policy for capabilities that were not granted.
    pub mode: Option<Mode>,
    /// Grants to every extension, as `CAP[:SCOPE]`: `read:docs/**`, `exec:git`.
    pub allow: Vec<String>,
    /// Capabilities that are denied to every extension.
    pub deny: Vec<String>,
    /// Set to run extensions under the strict policy even where the system cannot seal them.
    pub accept_unsealed: bool,
}

/// Isolation of the realms of extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// In a sealed worker process for each package; needs Linux.
    Process,
    /// In the host's own thread, under the same limits and the same gate.
    Thread,
}

impl Isolation {
    /// All variants, by name.
    pub const ALL: [(&'static str, Self); 2] = [("process", Self::Process), ("thread", Self::Thread)];
}

impl Default for Isolation {
    /// Returns the sealed process where the system supports it.
    fn default() -> Self {
        if cfg!(target_os = "linux") { Self::Process } else { Self::Thread }
    }
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Process => "process",
            Self::Thread => "thread",
        })
    }
}

impl FromStr for Isolation {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|(known, _)| *known == name);
        found.map(|(_, isolation)| isolation).ok_or_else(|| format!("`{name}` is neither process nor thread"))
    }
}

/// Session to resume, and the folder of sessions.
#[derive(Debug, Clone, Default)]
pub struct StoreConfig {
    /// Conversation to start from.
    pub choice: SessionChoice,
    /// Id of an existing session of this folder, or the id for a new session.
    pub id: Option<String>,
    /// Folder of the session files.
    pub dir: Option<String>,
    /// New name of the session.
    pub name: Option<String>,
}

/// Conversation that a session starts from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SessionChoice {
    /// A new conversation.
    #[default]
    New,
    /// A new conversation, in memory only.
    InMemory,
    /// The latest session of this folder, if there is one.
    Latest,
    /// A session by its file, id, or id prefix.
    Named(String),
    /// A copy of a session, which is named by its file, id, or id prefix.
    ForkOf(String),
}

/// Model of a session.
#[derive(Debug, Clone, Default)]
pub struct ModelConfig {
    /// `PROVIDER/ID[:THINKING]`, an id or a part of one, or `script:FILE` for a recorded reply.
    pub name: Option<String>,
    /// The provider of `name`.
    pub provider: Option<String>,
    /// Thinking level: one of [`THINKING_LEVELS`](pijs_llm::provider::THINKING_LEVELS).
    pub thinking: Option<String>,
    /// API key for the model's provider, for this run.
    pub api_key: Option<String>,
    /// Comma-separated patterns of the models that the user can switch between.
    pub scope: Option<String>,
    /// Base URL of the provider's API.
    pub base_url: Option<String>,
}

/// Options of streamed rules. They override the settings `ttsr.*`.
#[derive(Debug, Clone, Default)]
pub struct RulesConfig {
    /// Turns rules on or off; `None` leaves that to the settings.
    pub enabled: Option<bool>,
    /// Additional sources of rules: other programs, or the built-in rules. Naming a source turns rules on.
    pub from: Vec<RuleProgram>,
}
