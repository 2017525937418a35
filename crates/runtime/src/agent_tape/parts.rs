//! Defines the parts of an agent that a tape records.

use super::questions::read;
use pijs_agent::settings::{CompactionSettings, RetrySettings, Settings};
use pijs_agent::{AgentControl, AgentOptions, InitialModel, RuleSource, SessionRules, ToolChoice};
use pijs_host::PiProfile;
use pijs_llm::choose::ChosenModel;
use pijs_llm::provider::Model;
use pijs_resources::{ResourcePlaces, Resources};
use pijs_rules::engine::EngineOptions;
use pijs_rules::{Rule, RuleEngine, RuleSettings};
use pijs_session_store::{Entry, Header, Session, SessionOptions};
use pijs_tools::words::Words;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The parts of an agent. A tape has the members of all groups in one object.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Parts {
    #[serde(flatten)]
    front: FrontParts,
    #[serde(flatten)]
    prompt: PromptParts,
    tools: Tools,
    max_turns: u32,
    /// Extension that started the session's program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    starter: Option<String>,
    model: First,
    settings: Kept,
    #[serde(flatten)]
    rules: RuleParts,
    #[serde(flatten)]
    session: SessionParts,
}

/// The folder and the front end of a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct FrontParts {
    cwd: PathBuf,
    mode: String,
    has_ui: bool,
    profile: String,
}

/// Sources of the system prompt.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct PromptParts {
    system_prompt: Option<String>,
    append_system_prompt: Option<String>,
    resources: Resources,
    told_trusted: bool,
    words: Option<Words>,
    /// Folder of pi's documentation, which the texts mention.
    pi_folder: Option<String>,
}

/// Native rules.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct RuleParts {
    /// Whether native rules check the replies of the model.
    rules: bool,
    /// The native rules; `None` on a tape of an older version, which does not record them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    native_rules: Option<NativeRules>,
}

/// State of the session when the agent was created.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct SessionParts {
    session: Header,
    /// Path of the session's file; `None` for a session in memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session_file: Option<PathBuf>,
    entries: Vec<Value>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct NativeRules {
    rules: Vec<Rule>,
    settings: RuleSettings,
    prompt_section: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Tools {
    only: Option<Vec<String>>,
    without: Vec<String>,
    builtin: Option<Vec<String>>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct First {
    model: Option<Value>,
    thinking: Option<String>,
    keeps_that_of_session: bool,
    insists: bool,
    insists_on_thinking: bool,
    scope: Vec<(Value, Option<String>)>,
}

/// Settings of the loop.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Kept {
    compacts: bool,
    reserve_tokens: u64,
    keep_recent_tokens: u64,
    retries: bool,
    max_retries: u32,
    base_delay_ms: u64,
    max_delay_ms: u64,
    steer_all: bool,
    follow_up_all: bool,
}

/// Describes an agent before it is created. Returns `None` if its session cannot be read.
pub(crate) fn describe(options: &AgentOptions, control: &AgentControl, profile: PiProfile) -> Option<Value> {
    let (session, session_file, entries) = control.with_session(|session| {
        let entries: Result<Vec<Value>, _> =
            session.entries().map(|entry| entry.map(|entry| entry.written())).collect();
        Some((session.header().clone(), session.path().map(Path::to_owned), entries.ok()?))
    })?;
    let InitialModel { model, thinking, keeps_that_of_session, insists, insists_on_thinking, scope, .. } =
        &options.model;
    let Settings { compaction, retry, steer_all, follow_up_all, .. } = &options.settings;
    let parts = Parts {
        front: FrontParts {
            cwd: options.cwd.clone(),
            mode: options.mode.clone(),
            has_ui: options.has_ui,
            profile: profile.version().to_owned(),
        },
        prompt: PromptParts {
            system_prompt: options.system_prompt.clone(),
            append_system_prompt: options.append_system_prompt.clone(),
            resources: Resources::load(&options.places),
            told_trusted: options.places.told_trusted,
            words: options.words.as_ref().map(|words| Words::clone(words)),
            pi_folder: options.words.as_ref().and_then(|words| words.pi_folder.clone()),
        },
        tools: Tools {
            only: options.tools.only.clone(),
            without: options.tools.without.clone(),
            builtin: options.tools.builtin.clone(),
        },
        max_turns: options.max_turns,
        starter: options.starter.clone(),
        model: First {
            model: model.as_ref().map(written),
            thinking: thinking.clone(),
            keeps_that_of_session: *keeps_that_of_session,
            insists: *insists,
            insists_on_thinking: *insists_on_thinking,
            scope: scope.iter().map(|chosen| (written(&chosen.model), chosen.thinking.clone())).collect(),
        },
        settings: Kept {
            compacts: compaction.enabled,
            reserve_tokens: compaction.reserve_tokens,
            keep_recent_tokens: compaction.keep_recent_tokens,
            retries: retry.enabled,
            max_retries: retry.max_retries,
            base_delay_ms: retry.base_delay_ms,
            max_delay_ms: retry.max_delay_ms,
            steer_all: *steer_all,
            follow_up_all: *follow_up_all,
        },
        rules: RuleParts {
            rules: options.rules.is_some(),
            native_rules: options.rules.as_ref().map(|rules| NativeRules {
                rules: rules.engine().rules().cloned().collect(),
                settings: rules.engine().settings().clone(),
                prompt_section: rules.prompt_section().map(str::to_owned),
            }),
        },
        session: SessionParts { session, session_file, entries },
    };
    Some(json!(parts))
}

impl Parts {
    pub(super) fn profile(&self) -> PiProfile {
        self.front.profile.parse().unwrap_or_default()
    }

    /// Returns the session in its state when the agent was created. It has the name of its file, but is never written.
    pub(super) fn session(&self, options: SessionOptions) -> Session {
        let SessionParts { session, session_file, entries } = &self.session;
        let entries = entries.iter().filter_map(|entry| Entry::from_value(entry.clone())).collect();
        let session = Session::in_memory_with(session.clone(), entries, options);
        match session_file {
            Some(path) => session.at_path(path.clone()),
            None => session,
        }
    }

    /// Returns the native rules; `None` if the tape does not have them. `source` reports their changes.
    pub(super) fn native_rules(&self, source: Box<dyn RuleSource>) -> Option<SessionRules> {
        let NativeRules { rules, settings, prompt_section } = self.rules.native_rules.clone()?;
        let options = EngineOptions { cwd: self.front.cwd.display().to_string(), ..EngineOptions::default() };
        let rules = SessionRules::new(RuleEngine::new(rules, settings, options), Some(source));
        Some(rules.with_prompt_section(prompt_section))
    }

    /// Returns whether the session has native rules that the tape does not record.
    pub(super) fn lacks_rules(&self) -> bool {
        self.rules.rules && self.rules.native_rules.is_none()
    }

    /// Returns the resources that the session started with.
    pub(super) fn resources(&self) -> Resources {
        self.prompt.resources.clone()
    }

    /// Returns the model that the session started with.
    pub(super) fn model(&self) -> Option<Model> {
        self.model.model.clone().map(read_model)
    }

    /// Returns the models that the user could switch to.
    pub(super) fn scope(&self) -> Vec<ChosenModel> {
        let scope = self.model.scope.iter().cloned();
        scope.map(|(model, thinking)| ChosenModel { model: read_model(model), thinking, warning: None }).collect()
    }

    /// Sets the options of an agent from these parts.
    pub(super) fn fill(&self, options: &mut AgentOptions) {
        let Self { front, prompt, model, settings, tools, .. } = self;
        options.system_prompt.clone_from(&prompt.system_prompt);
        options.append_system_prompt.clone_from(&prompt.append_system_prompt);
        options.tools =
            ToolChoice { only: tools.only.clone(), without: tools.without.clone(), builtin: tools.builtin.clone() };
        options.mode.clone_from(&front.mode);
        options.has_ui = front.has_ui;
        options.max_turns = self.max_turns;
        options.starter.clone_from(&self.starter);
        options.model = InitialModel {
            model: self.model(),
            thinking: model.thinking.clone(),
            keeps_that_of_session: model.keeps_that_of_session,
            insists: model.insists,
            insists_on_thinking: model.insists_on_thinking,
            scope: self.scope(),
            network: false,
        };
        options.settings = Settings {
            compaction: CompactionSettings {
                enabled: settings.compacts,
                reserve_tokens: settings.reserve_tokens,
                keep_recent_tokens: settings.keep_recent_tokens,
            },
            retry: RetrySettings {
                enabled: settings.retries,
                max_retries: settings.max_retries,
                base_delay_ms: settings.base_delay_ms,
                max_delay_ms: settings.max_delay_ms,
            },
            steer_all: settings.steer_all,
            follow_up_all: settings.follow_up_all,
            ..Settings::default()
        };
        options.places = ResourcePlaces {
            told_trusted: prompt.told_trusted,
            read: Some(Box::new(prompt.resources.clone())),
            ..ResourcePlaces::default()
        };
        let pi_folder = prompt.pi_folder.clone();
        options.words = prompt.words.clone().map(|words| Arc::new(Words { pi_folder, ..words }));
    }

    /// Returns the working folder.
    pub(super) fn cwd(&self) -> PathBuf {
        self.front.cwd.clone()
    }

    /// Parses the parts that a tape records.
    pub(super) fn read(value: Value) -> Result<Self, String> {
        serde_json::from_value(value).map_err(|error| error.to_string())
    }
}

/// Encodes a model with exactly the members it has, because a missing member changes its requests. Headers are left out: they may
/// contain secrets.
fn written(model: &Model) -> Value {
    let mut facts = model.facts.clone();
    facts.shift_remove("headers");
    if let Some(address) = facts.get_mut("baseUrl") {
        // Removes a password from the address.
        *address = model.to_value()["baseUrl"].take();
    }
    json!({"provider": model.provider, "id": model.id, "api": model.api, "facts": facts})
}

fn read_model(mut value: Value) -> Model {
    let mut member = |name: &str| value.get_mut(name).map(Value::take).unwrap_or_default();
    let (provider, id, api) =
        (read::<String>(member("provider")), read::<String>(member("id")), read::<String>(member("api")));
    let mut model = Model::new(provider, id, api);
    model.system_anywhere = model.api != "anthropic-messages";
    model.facts = read(member("facts"));
    model
}

/// Returns provider and id of the model in a recorded request; `None` if the tape does not name them.
pub(super) fn model_of_request(value: &Value) -> Option<(String, String)> {
    let text = |name: &str| value.get(name).cloned().map(read::<String>);
    Some((text("provider")?, text("model")?))
}
