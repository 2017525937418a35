//! Options of an agent.
//!
//! The caller fills [`AgentOptions`]; the agent copies the values that change later.

use crate::model_quota::ModelQuotaLimits;
use crate::observer::PortObserver;
use crate::settings::Settings;
use crate::tool_set::ToolChoice;
use crate::verdicts::VerdictCaps;
use pijs_connectors::fs::FsConnector;
use pijs_environment::Ambient;
use pijs_llm::choose::ChosenModel;
use pijs_llm::provider::Model;
use pijs_resources::ResourcePlaces;
use pijs_rules::session::SessionRules;
use pijs_tools::system::ToolSystem;
use pijs_tools::words::Words;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

/// Maximum number of turns in one run, far more than real work takes.
pub const MAX_TURNS: u32 = 10_000;

/// Options of an agent.
pub struct AgentOptions {
    /// Working directory of the session and its tools.
    pub cwd: PathBuf,
    /// Text in place of the built-in system prompt and of `SYSTEM.md`.
    pub system_prompt: Option<String>,
    /// Text in place of `APPEND_SYSTEM.md`; `None` reads the file.
    pub append_system_prompt: Option<String>,
    /// Available and active tools.
    pub tools: ToolChoice,
    /// Value of `ctx.mode`, such as `print`, `json` or `rpc`.
    pub mode: String,
    /// Whether dialogs are shown to a user; value of `ctx.hasUI`.
    pub has_ui: bool,
    /// Caps of verdicts.
    pub caps: VerdictCaps,
    /// Limits of model requests by extensions.
    pub asks: ModelQuotaLimits,
    /// Maximum number of turns in one run; [`MAX_TURNS`] in an interactive session.
    pub max_turns: u32,
    /// Files and shell for the built-in tools.
    pub system: Arc<dyn ToolSystem>,
    /// Files for tool calls that extensions influenced.
    pub files: Arc<FsConnector>,
    /// Clock and randomness.
    pub ambient: Ambient,
    /// Model of new sessions.
    pub model: InitialModel,
    /// Settings of compaction, retries, queues and providers.
    pub settings: Settings,
    /// Locations of skills, prompt templates and context files; none by default. [`Agent::start`](crate::Agent::start) reads
    /// them.
    pub places: ResourcePlaces,
    /// Texts of the prompt and of the built-in tools; `None` for PiJS's own texts.
    pub words: Option<Arc<Words>>,
    /// Native rules for replies.
    pub rules: Option<SessionRules>,
    /// Whether prompts come from an extension that started this program. They run no commands, which have grants of their own.
    pub is_prompted_by_extension: bool,
    /// Extension that started this program. Calls of pi's own tools then access no protected paths, and a model that was named
    /// for the agent or stored in its session is not the user's choice.
    pub starter: Option<String>,
    /// Observer of the agent's ports: a recording, or a replay that replaces them.
    pub observer: Option<Rc<dyn PortObserver>>,
    /// Clock and randomness of providers, when they differ from the agent's.
    pub provider_ambient: Option<Ambient>,
}

impl AgentOptions {
    /// Returns the options of an interactive session in `cwd`: all tools, and no rules, resources or dialogs.
    pub fn new(cwd: PathBuf, system: Arc<dyn ToolSystem>, files: Arc<FsConnector>, ambient: Ambient) -> Self {
        Self {
            cwd,
            system_prompt: None,
            append_system_prompt: None,
            tools: ToolChoice::default(),
            mode: "print".to_owned(),
            has_ui: false,
            caps: VerdictCaps::default(),
            asks: ModelQuotaLimits::default(),
            max_turns: MAX_TURNS,
            system,
            files,
            ambient,
            model: InitialModel::default(),
            settings: Settings::default(),
            places: ResourcePlaces::default(),
            words: None,
            rules: None,
            is_prompted_by_extension: false,
            starter: None,
            observer: None,
            provider_ambient: None,
        }
    }

    pub(crate) fn provider_ambient(&self) -> &Ambient {
        self.provider_ambient.as_ref().unwrap_or(&self.ambient)
    }
}

/// Model and thinking level of new sessions.
#[derive(Debug, Clone, Default)]
pub struct InitialModel {
    /// Model of new sessions; `None` for the model of the agent's provider.
    pub model: Option<Model>,
    /// Thinking level of new sessions; `None` means `off`.
    pub thinking: Option<String>,
    /// Whether a resumed session keeps its own model.
    pub keeps_that_of_session: bool,
    /// Whether the model overrides that of all sessions opened later, because the user named it.
    pub insists: bool,
    /// Whether the thinking level overrides the level stored in a resumed session.
    pub insists_on_thinking: bool,
    /// Models for [`Agent::cycle_model`](crate::Agent::cycle_model); empty for all available ones.
    pub scope: Vec<ChosenModel>,
    /// Whether providers of extensions may use the network to list their models.
    pub network: bool,
}
