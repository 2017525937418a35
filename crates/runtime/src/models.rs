//! Selects the model of a session from the command line, the settings, the session and the catalogue.
//!
//! Extensions register models too, so the model is selected after they have loaded. Keys are looked up like in pi: `--api-key`,
//! `auth.json`, `models.json`, the environment ([`KeyPlaces`]).

use crate::config::ModelConfig;
use crate::environment::Environment;
use crate::text::clean;
use crate::user_error::{Result, UserError, is_missing};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use pijs_durable::Disk;
use pijs_environment::Ambient;
use pijs_llm::auth::file::AuthFile;
use pijs_llm::auth::{Auth, KeyEnvironment};
use pijs_llm::catalogue;
use pijs_llm::choose::{self, ChosenModel, ModelArguments};
use pijs_llm::known_models::KnownModels;
use pijs_llm::models::Models;
use pijs_llm::models_json::ModelsJson;
use pijs_llm::provider::openai::Retention;
use pijs_llm::provider::proxy::Proxies;
use pijs_llm::provider::{self, ErrorKind, Model, Provider, ProviderOptions, THINKING_LEVELS};
use pijs_redact::Redactor;
use pijs_terminal::similar_models;
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::Arc;

/// pi's default thinking level.
const THINKING: &str = "medium";

/// Sources of API keys, and the redactor that learns each key.
struct KeyPlaces {
    variables: BTreeMap<String, String>,
    redactor: Redactor,
}

impl KeyEnvironment for KeyPlaces {
    fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).cloned()
    }

    /// Runs the user's own command from the user's own file, with the user's rights, as in pi.
    fn command(&self, line: &str) -> BoxFuture<'static, Option<String>> {
        run_own_command(line)
    }

    fn learned(&self, secret: &str) {
        self.redactor.learn(secret);
    }
}

/// Runs a command line of the user's own file with the user's rights and returns its output.
pub(crate) fn run_own_command(line: &str) -> BoxFuture<'static, Option<String>> {
    let mut command = tokio::process::Command::new("/bin/sh");
    command.args(["-c", line]).stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    async move {
        let output = command.output().await.ok().filter(|output| output.status.success())?;
        String::from_utf8(output.stdout).ok()
    }
    .boxed()
}

/// Returns the models without extensions: the catalogue under `models.json`, and the sources of keys.
pub fn known(
    environment: &Environment,
    options: &ProviderOptions,
    ambient: &Ambient,
    redactor: &Redactor,
) -> Result<KnownModels> {
    let path = environment.dirs.agent_dir.join("models.json");
    let config = match crate::settings::read_text(&path) {
        Ok(text) => ModelsJson::parse(&text, &path.display().to_string()),
        Err(error) if is_missing(&error) => ModelsJson::default(),
        Err(error) => return Err(UserError::failed(format!("{} cannot be read: {error}", path.display()))),
    };
    for error in config.errors() {
        environment.notices.warn(error);
    }
    let around = KeyPlaces { variables: environment.variables.clone(), redactor: redactor.clone() };
    let file = AuthFile::new(Disk::system(), environment.dirs.agent_dir.join("auth.json"));
    let auth = Auth::new(Arc::new(around), ambient.clone(), options.http.clone()).with_file(file);
    Ok(KnownModels::new(config, Arc::new(auth)))
}

/// Settings of models in `settings.json`.
#[derive(Debug, Default)]
struct ModelSettings {
    default_provider: Option<String>,
    default_model: Option<String>,
    default_thinking_level: Option<String>,
    enabled_models: Option<Vec<String>>,
}

impl ModelSettings {
    /// Merges the user's settings with those of a trusted folder.
    fn read(environment: &Environment) -> Result<Self> {
        let all = crate::settings::merged(environment);
        // A setting of a wrong type does not invalidate the others.
        let text = |key: &str| all.get(key).and_then(Value::as_str).map(str::to_owned);
        Ok(Self {
            default_provider: text("defaultProvider"),
            default_model: text("defaultModel"),
            default_thinking_level: text("defaultThinkingLevel").filter(|level| is_level(level)),
            enabled_models: all.get("enabledModels").cloned().and_then(|list| serde_json::from_value(list).ok()),
        })
    }
}

/// Model that a session starts with.
#[derive(Debug)]
pub struct ModelChoice {
    /// Selected model.
    pub model: Model,
    /// Thinking level.
    pub thinking: String,
    /// Models that the next-model key cycles through; all usable ones when empty.
    pub scope: Vec<ChosenModel>,
    /// Whether a resumed session keeps its own model.
    pub session_first: bool,
    /// Whether the user named it, which overrides the session's own.
    pub is_named: bool,
}

impl ModelChoice {
    /// Selects `model` as if the user had named it.
    pub fn ready(environment: &Environment, args: &ModelConfig, model: Model) -> Result<Self> {
        let thinking = level(environment, args).unwrap_or(THINKING).to_owned();
        Ok(Self { model, thinking, scope: Vec::new(), session_first: false, is_named: true })
    }

    /// Creates a choice without a model, which the user selects later.
    fn none(session_first: bool) -> Self {
        let (model, thinking) = (Model::unknown(), "off".to_owned());
        Self { model, thinking, scope: Vec::new(), session_first, is_named: false }
    }
}

/// Returns the level of `--thinking`.
fn level<'a>(environment: &Environment, args: &'a ModelConfig) -> Option<&'a str> {
    let level = args.thinking.as_deref()?;
    if !is_level(level) {
        let levels = THINKING_LEVELS.join(", ");
        environment.notices.warn(format!("Invalid thinking level {level:?}. Valid values: {levels}"));
        return None;
    }
    Some(level)
}

/// Selects the model of a session with pi's precedence: the command line, the patterns, the session's own, the settings, the
/// first usable one. `left` is the model of a resumed session. If no model is usable, an interactive session starts without one.
pub fn choose(
    environment: &Environment,
    args: &ModelConfig,
    models: &Models,
    left: Option<(String, String)>,
    stays: bool,
) -> Result<ModelChoice> {
    let settings = ModelSettings::read(environment)?;
    let level = level(environment, args).map(str::to_owned);
    let (scope, warnings) = scope(args, &settings, models);
    let named = match &args.name {
        Some(name) => Some(named(args, name, models)?),
        None if args.provider.is_some() => {
            return Err(UserError::usage("--provider needs a --model").help("pi --list-models lists both"));
        }
        None => None,
    };
    let default = || models.find(settings.default_provider.as_ref()?, settings.default_model.as_ref()?);
    let in_scope = || {
        let saved = default().and_then(|model| scope.iter().find(|chosen| chosen.model.is(&model)));
        saved.or_else(|| scope.first()).cloned().filter(|_| left.is_none())
    };
    let own = || models.find(&left.as_ref()?.0, &left.as_ref()?.1).filter(|model| models.is_available(model));
    let usable = || default().filter(|model| models.is_available(model));
    let plain = |model: Model| ChosenModel { model, thinking: None, warning: None };
    let is_named = named.is_some();
    let session_first = !is_named && left.is_some();
    let chosen = named.or_else(in_scope).or_else(|| own().or_else(usable).map(plain)).or_else(|| {
        let (spoken, other): (Vec<_>, Vec<_>) = models.available().into_iter().partition(|model| models.speaks(model));
        // If the model is unsupported, the error states why.
        choose::any(&spoken).or_else(|| choose::any(&other)).cloned().map(plain)
    });
    for warning in warnings.iter().chain(chosen.iter().filter_map(|chosen| chosen.warning.as_ref())) {
        environment.notices.warn(warning);
    }
    let Some(chosen) = chosen else {
        if args.base_url.is_some() {
            return Err(UserError::usage("--base-url needs a model, but no model is available").help(HOW));
        }
        if stays && args.api_key.is_none() {
            return Ok(ModelChoice::none(session_first));
        }
        let usage = if args.api_key.is_some() { "--api-key needs a --model" } else { "no model" };
        return Err(UserError::usage(usage).help(HOW));
    };
    let ChosenModel { mut model, thinking, .. } = chosen;
    if let (Some(address), Some(known)) = (&args.base_url, models.known()) {
        known.move_provider(&model.provider, address);
        model = model.with("baseUrl", address.as_str());
    }
    if let (Some(key), Some(known)) = (&args.api_key, models.known()) {
        known.auth().give(&model.provider, key);
    }
    if !models.is_available(&model) {
        return Err(no_key(&model));
    }
    let thinking = level.or(thinking).or(settings.default_thinking_level);
    Ok(ModelChoice { model, thinking: thinking.unwrap_or_else(|| THINKING.to_owned()), scope, session_first, is_named })
}

/// Returns the models that `--models`, or the setting, lets the next-model key cycle through.
fn scope(args: &ModelConfig, settings: &ModelSettings, models: &Models) -> (Vec<ChosenModel>, Vec<String>) {
    let patterns = match &args.scope {
        Some(patterns) => patterns.split(',').map(|pattern| pattern.trim().to_owned()).collect(),
        None => settings.enabled_models.clone().unwrap_or_default(),
    };
    if patterns.is_empty() {
        return Default::default();
    }
    choose::scope(&patterns, &models.available())
}

fn named(args: &ModelConfig, name: &str, models: &Models) -> Result<ChosenModel> {
    let provider = args.provider.as_deref();
    // The whole catalogue is read only when the name is not exact.
    let exact = match (provider, name.split_once('/')) {
        (Some(provider), _) => models.find(provider, name),
        (None, Some((provider, id))) => models.find(provider, id),
        (None, None) => None,
    };
    if let Some(model) = exact.filter(|model| models.is_available(model)) {
        return Ok(ChosenModel { model, thinking: None, warning: None });
    }
    let has_key = |provider: &str| args.api_key.is_some() || models.is_configured(provider);
    let wanted = ModelArguments { provider, model: name, thinking: args.thinking.as_deref() };
    let can_ask = |model: &Model| has_key(&model.provider) && models.speaks(model);
    let all = models.all();
    choose::named(wanted, &all, &has_key, &can_ask, &|model| models.speaks(model)).map_err(|message| {
        let usable: Vec<&Model> = all.iter().filter(|model| can_ask(model)).collect();
        let near = |models: Vec<&Model>| {
            similar_models(name, models.into_iter().map(|model| (model.provider.as_str(), model.id.as_str())))
        };
        let near = Some(near(usable)).filter(|near| !near.is_empty()).unwrap_or_else(|| near(all.iter().collect()));
        let meant =
            if near.is_empty() { String::new() } else { format!("did you mean {}?\n        ", near.join(", ")) };
        UserError::usage(message).help(format!("{meant}{HOW}"))
    })
}

fn no_key(model: &Model) -> UserError {
    let name = catalogue::provider(&model.provider).and_then(|known| known.env.last());
    let help = match (name, model.api.as_str()) {
        (Some(name), _) => format!("set {name}, give one with --api-key, or store it in auth.json"),
        (None, "openai-completions" | "anthropic-messages") => {
            "give one with --api-key, or store it in auth.json".to_owned()
        }
        (None, api) => {
            format!("its API, {api}, is not supported; pi --list-models lists models that can be used")
        }
    };
    UserError::failed(format!("no key for {}/{}", clean(&model.provider), clean(&model.id))).help(help)
}

/// Describes where the key of a model's provider can be set.
pub fn places_of_key(model: Option<&Model>) -> String {
    let name = model.and_then(|model| catalogue::provider(&model.provider)?.env.last());
    match name {
        Some(name) => format!("{name}, auth.json, --api-key"),
        None => "auth.json, models.json, --api-key".to_owned(),
    }
}

fn is_level(level: &str) -> bool {
    THINKING_LEVELS.contains(&level)
}

/// Help about names of models.
pub const HOW: &str = "choose one with --model:\n        PROVIDER/ID       anthropic/claude-opus-4-8, ...; pi --list-models lists those that there is a key for\n        script:FILE       a recorded reply, offline\n        openai/NAME       with --base-url: any compatible endpoint\n      a key comes from /login at the terminal, ~/.pi/agent/auth.json or a variable such as ANTHROPIC_API_KEY";

/// Opens a model that needs no selection: a recorded reply, or any name at a given address.
pub fn ready(config: &ModelConfig, options: &ProviderOptions, ambient: &Ambient) -> Result<Option<Arc<dyn Provider>>> {
    let Some(model) = config.name.as_deref() else { return Ok(None) };
    let script = model.starts_with("script:");
    let name = match &config.provider {
        Some(provider) if !script && !model.starts_with(&format!("{provider}/")) => format!("{provider}/{model}"),
        _ => model.to_owned(),
    };
    if script && config.base_url.is_some() {
        return Err(UserError::usage("--base-url: a recorded reply (script:FILE) needs no server")
            .help("leave out --base-url, or choose another --model"));
    }
    // The address of another provider's model is changed once it is selected.
    let is_any_name = config.base_url.is_some() && (name.starts_with("openai/") || name.starts_with("anthropic/"));
    if !script && !is_any_name {
        return Ok(None);
    }
    let opened = provider::open(&name, options, ambient).map_err(|error| {
        let unknown = error.kind() == ErrorKind::NotFound && !script;
        if unknown { UserError::usage(error.to_string()).help(HOW) } else { UserError::failed(error.to_string()) }
    })?;
    Ok(Some(opened))
}

/// Returns the options of providers: address, keys, proxies.
pub fn provider_options(environment: &Environment, config: &ModelConfig) -> ProviderOptions {
    let key = |name: &str| environment.variable(name).map(str::to_owned);
    let mut options = ProviderOptions {
        base_url: config.base_url.clone(),
        openai_key: config.api_key.clone().or_else(|| key("OPENAI_API_KEY")),
        anthropic_key: config.api_key.clone().or_else(|| key("ANTHROPIC_API_KEY")),
        ..ProviderOptions::default()
    };
    options.http.proxies = Proxies::from_variables(|name| crate::proxies::variable(environment, name));
    if environment.variable("PI_CACHE_RETENTION") == Some("long") {
        options.http.retention = Retention::Long;
    }
    options
}
