//! Settings of one run: plain data, as a command line or an embedding program gives them.
//!
//! What is left at its default is decided by `settings.json`, the environment and pi's own defaults, in this order.

use crate::rules::Peer;
use pijs_agent::ToolChoice;
use pijs_host::PiProfile;
use pijs_hostcall::Mode;
use pijs_packages::ResourceOptions;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Everything that can be said of a session before it begins.
#[derive(Debug, Clone, Default)]
pub struct SessionConfig {
    /// Which extensions are loaded.
    pub extensions: ExtensionConfig,
    /// Skills, prompt templates and themes.
    pub resources: ResourceOptions,
    /// Set to read no `AGENTS.md` or `CLAUDE.md`.
    pub no_context_files: bool,
    /// What extensions may do.
    pub permissions: Permissions,
    /// Where the realms of extensions run.
    pub isolation: Isolation,
    /// File to which the realms of extensions are recorded, for `pi replay`. It must not exist yet.
    pub tape: Option<PathBuf>,
    /// The version of pi that extensions meet.
    pub profile: Option<PiProfile>,
    /// Which session goes on, and where it is kept.
    pub store: StoreConfig,
    /// Which model answers.
    pub model: ModelConfig,
    /// A text, or the name of its file, in place of the built-in system prompt.
    pub system_prompt: Option<String>,
    /// Texts, or names of their files, after the system prompt.
    pub append_system_prompt: Vec<String>,
    /// Which tools there are; without `builtin` the setting `defaultTools` says which built-in ones are active.
    pub tools: ToolChoice,
    /// Streamed rules.
    pub rules: RulesConfig,
    /// Set to use no server of `mcp.json`.
    pub no_mcp: bool,
}

/// Which extensions a session loads.
#[derive(Debug, Clone, Default)]
pub struct ExtensionConfig {
    /// Paths and package sources, in load order. Each one has to be there and to load.
    pub named: Vec<String>,
    /// Set to load only these; otherwise those that are installed follow.
    pub only_named: bool,
    /// Set to end the session when an installed extension cannot be loaded, instead of going on without it.
    pub fail_on_error: bool,
}

/// What the user allows and refuses for this run, over the settings.
#[derive(Debug, Clone, Default)]
pub struct Permissions {
    /// What happens to a capability that was not granted.
    pub mode: Option<Mode>,
    /// Grants to every extension, as `CAP[:SCOPE]`: `read:docs/**`, `exec:git`.
    pub allow: Vec<String>,
    /// Capabilities that every extension is refused.
    pub deny: Vec<String>,
    /// Set to let extensions run under the strict policy where the system cannot seal them.
    pub accept_unsealed: bool,
}

/// Where the realms of extensions run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// In a sealed worker process for each package; needs Linux.
    Process,
    /// In the host's own thread, under the same limits and the same gate.
    Thread,
}

impl Isolation {
    /// All of them, by name.
    pub const ALL: [(&'static str, Self); 2] = [("process", Self::Process), ("thread", Self::Thread)];
}

impl Default for Isolation {
    /// Sealed wherever that exists.
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

/// Which session goes on, and where sessions are kept.
#[derive(Debug, Clone, Default)]
pub struct StoreConfig {
    /// Where the conversation comes from.
    pub choice: SessionChoice,
    /// Id of the session: found in this folder and gone on with, or given to a new one.
    pub id: Option<String>,
    /// Folder of the session files.
    pub dir: Option<String>,
    /// What the session is called from now on.
    pub name: Option<String>,
}

/// Where the conversation of a session comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SessionChoice {
    /// It begins empty.
    #[default]
    New,
    /// It begins empty and is kept in memory alone.
    InMemory,
    /// It goes on with the latest one of this folder, if there is one.
    Latest,
    /// It goes on with one: a file, an id, or the first characters of an id.
    Named(String),
    /// It begins with a copy of one, named likewise.
    ForkOf(String),
}

/// Which model answers.
#[derive(Debug, Clone, Default)]
pub struct ModelConfig {
    /// `PROVIDER/ID[:THINKING]`, an id or a part of one, or `script:FILE` for a recorded reply.
    pub name: Option<String>,
    /// The provider of `name`.
    pub provider: Option<String>,
    /// How much it thinks: one of [`THINKING_LEVELS`](pijs_llm::provider::THINKING_LEVELS).
    pub thinking: Option<String>,
    /// The key of its provider, for this run.
    pub api_key: Option<String>,
    /// Patterns of the models that a person can switch between, with commas between them.
    pub scope: Option<String>,
    /// The address of its provider's API.
    pub base_url: Option<String>,
}

/// Streamed rules of a run, over the settings `ttsr.*`.
#[derive(Debug, Clone, Default)]
pub struct RulesConfig {
    /// Turns them on or off.
    pub enabled: Option<bool>,
    /// Rules of other programs that are read too, or the built-in ones; these turn rules on.
    pub from: Vec<Peer>,
}
