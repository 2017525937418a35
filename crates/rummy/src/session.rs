//! [`RummySession`]: a project's plugins, entries and model, for the command line and the server.
//!
//! | item | location |
//! |---|---|
//! | the user's plugins | `rummy/plugins` in pi's folder |
//! | the project's plugins | `.pi/rummy/plugins`, if the folder is trusted |
//! | entries | `pijs/rummy/` in pi's folder, which no extension can read or write |
//!
//! Plugins cannot write to these folders, nor to the staged package.

use crate::error::RummyError;
use crate::realm::{PluginRealm, RealmOptions};
use crate::run::{ModelSource, RunClient, RunDriver, RunLimits};
use crate::service::EntryConnector;
use crate::settings;
use crate::stage::PluginSet;
use futures_util::future::{FutureExt as _, LocalBoxFuture};
use pijs_dialect_rummy::{Audit, AuditLine, AuditRefusal, budget, verdict};
use pijs_environment::Ambient;
use pijs_hostcall::{Caller, Dispatcher, Profile};
use pijs_llm::models::{ModelBackend, open_http};
use pijs_llm::provider::Provider;
use pijs_packages::{DiscoverOptions, InstallScope, listed_folder};
use pijs_protocol::log::Level;
use pijs_runtime::rules::RuleSet;
use pijs_runtime::trust::Trust;
use pijs_runtime::{Environment, Interface, SessionConfig, UserError, models};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Settings of a session.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    /// Model, permissions, isolation.
    pub config: SessionConfig,
    /// Folders of plugins in addition to the user's and the project's.
    pub plugins: Vec<PathBuf>,
    /// Generation of rummy that the plugins are written for.
    pub profile: String,
    /// Whether the bundled plugins are loaded.
    pub bundled: bool,
    /// Whether an exception of a plugin ends the operation, as in rummy.
    pub faithful: bool,
    /// Whether entries are kept in memory only.
    pub in_memory: bool,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            config: SessionConfig::default(),
            plugins: Vec::new(),
            profile: "2.x".to_owned(),
            bundled: true,
            faithful: false,
            in_memory: false,
        }
    }
}

/// The open plugins and entries of a project.
pub struct RummySession {
    realm: PluginRealm,
    environment: Environment,
    config: SessionConfig,
    ambient: Ambient,
    models: RefCell<BTreeMap<String, Arc<dyn Provider>>>,
    rules: Option<RuleSet>,
    /// Runs whose loops a killed process left unfinished.
    unfinished_runs: Vec<i64>,
    /// Lock that marks this process as a user of the store.
    _at_work: Option<File>,
}

/// Returns the folder of a project's plugins.
pub fn project_plugins(environment: &Environment) -> PathBuf {
    environment.dirs.cwd.join(".pi/rummy/plugins")
}

/// Returns the folder of the user's plugins.
pub fn user_plugins(environment: &Environment) -> PathBuf {
    environment.dirs.agent_dir.join("rummy/plugins")
}

/// Returns the name of a project's files in pi's folder.
fn key(environment: &Environment) -> String {
    let digest = Sha256::digest(environment.dirs.cwd.as_os_str().as_encoded_bytes());
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the file of a project's entries.
pub fn database(environment: &Environment) -> PathBuf {
    environment.dirs.agent_dir.join("pijs/rummy").join(format!("{}.db", key(environment)))
}

/// Finds the plugins of a project, in the order in which they are constructed.
///
/// # Errors
///
/// Fails if a folder cannot be read, or if a variable names a plugin that does not exist.
pub fn find_plugins(environment: &Environment, more: &[PathBuf]) -> Result<PluginSet, RummyError> {
    let mut set = PluginSet::default();
    let own = project_plugins(environment);
    let trusted = Trust::read(environment)?.covers(&environment.dirs.cwd);
    if own.is_dir() && !trusted {
        let note = "note: this folder has plugins of rummy; they are not loaded until you run: pi trust";
        environment.notices.show(note);
    }
    let folders = [user_plugins(environment), own].into_iter().zip([true, trusted]);
    for (folder, counts) in folders {
        // The user trusts the project, but not code outside of it that a link names.
        let is_elsewhere = |set: &mut PluginSet| {
            folder == project_plugins(environment) && set.refuses_link(&folder, &environment.dirs.cwd)
        };
        if counts && folder.is_dir() && !is_elsewhere(&mut set) {
            set = set.folder(&folder)?;
        }
    }
    for folder in more {
        set = set.folder(folder)?;
    }
    // Like its plugins, a project's packages are searched only if the project is trusted.
    let of_project = [environment.dirs.cwd.join("node_modules"), environment.dirs.cwd.join(".pi/npm/node_modules")];
    let of_project = of_project.into_iter().filter(|_| trusted).map(|folder| (folder, InstallScope::Project));
    let installed = (environment.dirs.agent_dir.join("npm/node_modules"), InstallScope::User);
    let modules: Vec<(PathBuf, InstallScope)> = of_project.chain([installed]).collect();
    set.variables(&with_folders(environment, &modules, trusted), &modules)
}

/// Returns the environment's variables. For a plugin whose folder was installed in place, the name is replaced by the path.
fn with_folders(
    environment: &Environment,
    modules: &[(PathBuf, InstallScope)],
    trusted: bool,
) -> BTreeMap<String, String> {
    let named = Vec::new();
    let options = DiscoverOptions { dirs: environment.dirs.clone(), named, only_named: false, trusted };
    let mut variables = environment.variables.clone();
    for (name, value) in &mut variables {
        let is_plugin = name.starts_with("RUMMY_PLUGIN_") && !value.is_empty() && !Path::new(value).is_absolute();
        if is_plugin
            && !modules.iter().any(|(folder, _)| folder.join(&*value).is_dir())
            && let Some(folder) = listed_folder(&options, value)
        {
            *value = folder.display().to_string();
        }
    }
    variables
}

/// Opens the store of a project, or a store in memory.
///
/// # Errors
///
/// Fails when the folder of the database cannot be created, when the database belongs to another program or is damaged, and when
/// the profile is unknown.
pub fn open_store(
    environment: &Environment,
    profile: &str,
    in_memory: bool,
    ambient: &Ambient,
) -> Result<EntryConnector, RummyError> {
    let divisor = settings::number(environment, "RUMMY_TOKEN_DIVISOR").unwrap_or(2);
    if in_memory {
        return EntryConnector::open(None, profile, divisor, ambient.clone());
    }
    let path = database(environment);
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut maker = fs::DirBuilder::new();
    maker.recursive(true);
    // Only the user may read the conversation with the model, so the folder is private.
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut maker, 0o700);
    maker.create(folder).map_err(|source| RummyError::File { path: folder.to_owned(), source })?;
    EntryConnector::open(Some(&path), profile, divisor, ambient.clone())
}

/// Locks a project's store for shared use by this process. If no other process uses it, recovers the state that a killed process
/// left. Returns the lock, and the runs with queued loops.
fn at_work(environment: &Environment, entries: &EntryConnector) -> Result<(File, Vec<i64>), RummyError> {
    let path = database(environment).with_extension("lock");
    let failed = |source| RummyError::File { path: path.clone(), source };
    let mark = File::options().create(true).truncate(false).write(true).open(&path).map_err(failed)?;
    let left = match mark.try_lock() {
        Ok(()) => {
            let left = entries.with(pijs_dialect_rummy::Store::recover)?;
            mark.unlock().map_err(failed)?;
            left
        }
        Err(_) => Vec::new(),
    };
    mark.lock_shared().map_err(failed)?;
    Ok((mark, left))
}

/// Returns the limits of a run from the user's settings.
pub fn limits(environment: &Environment) -> RunLimits {
    let usual = RunLimits::default();
    let number = |name: &str, usual: usize| settings::number(environment, name).unwrap_or(usual);
    RunLimits {
        turns: settings::number(environment, "RUMMY_MAX_TURNS").unwrap_or(usual.turns),
        commands: number("RUMMY_MAX_COMMANDS", usual.commands),
        verdict: verdict::Limits {
            min_cycles: number("RUMMY_MIN_CYCLES", usual.verdict.min_cycles),
            max_cycle_period: number("RUMMY_MAX_CYCLE_PERIOD", usual.verdict.max_cycle_period),
            max_update_repeats: number("RUMMY_MAX_UPDATE_REPEATS", usual.verdict.max_update_repeats),
            ..usual.verdict
        },
        budget: settings::number(environment, "RUMMY_BUDGET_CEILING").map_or(usual.budget, share),
        ..usual
    }
}

/// Converts a share of the context to thousandths.
fn share(ceiling: f64) -> budget::Limits {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is between 0 and 1000")]
    let ceiling_per_mille = (ceiling.clamp(0.0, 1.0) * 1000.0).round() as u32;
    budget::Limits { ceiling_per_mille }
}

/// Records each verb of the store in the ledger.
struct LedgerAudit {
    dispatcher: Arc<Dispatcher>,
    store: Caller,
    ambient: Ambient,
}

impl Audit for LedgerAudit {
    fn record(&mut self, line: &AuditLine) -> Result<(), AuditRefusal> {
        let data = match serde_json::to_value(line) {
            Ok(Value::Object(data)) => data,
            _ => Map::new(),
        };
        let message = format!("{} {} as {}", line.verb, line.path, line.writer);
        let now = self.ambient.timer.now();
        self.dispatcher.ledger().event(now, &self.store, Level::Info, "rummy.verb", &message, data);
        Ok(())
    }
}

impl RummySession {
    /// Opens the plugins and entries of the working folder.
    ///
    /// # Errors
    ///
    /// Fails when the plugins cannot be staged or compiled, the store cannot be opened, or the session cannot be assembled.
    pub async fn open(
        environment: &Environment,
        options: SessionOptions,
        interface: Interface,
    ) -> Result<Self, RummyError> {
        let SessionOptions { config, plugins, profile, bundled, faithful, in_memory } = options;
        let ambient = Ambient::system();
        let plugins = find_plugins(environment, &plugins)?;
        let entries = open_store(environment, &profile, in_memory, &ambient)?;
        let (mark, left) = match in_memory {
            true => (None, Vec::new()),
            false => {
                let (mark, left) = at_work(environment, &entries)?;
                (Some(mark), left)
            }
        };
        let stage = environment.dirs.agent_dir.join("rummy/stage").join(key(environment));
        let options = RealmOptions { profile, bundled, faithful, stage, session: config.clone() };
        let realm = PluginRealm::open(environment, &plugins, entries, interface, options).await?;
        realm.entries().set_audit(Box::new(LedgerAudit {
            dispatcher: Arc::clone(realm.session().dispatcher()),
            store: Caller::new(Arc::new(Profile::new("rummy"))),
            ambient: ambient.clone(),
        }));
        let rules = RuleSet::of_session(environment, &config.rules)?.filter(|rules| !rules.files.is_empty());
        let (environment, models) = (environment.clone(), RefCell::default());
        Ok(Self { realm, environment, config, ambient, models, rules, unfinished_runs: left, _at_work: mark })
    }

    /// Returns the runs whose loops a killed process left unfinished.
    pub fn unfinished_runs(&self) -> &[i64] {
        &self.unfinished_runs
    }

    /// Returns the plugins' realms.
    pub fn realm(&self) -> &PluginRealm {
        &self.realm
    }

    /// Returns the environment.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Returns the session's clock and randomness.
    pub fn ambient(&self) -> &Ambient {
        &self.ambient
    }

    /// Creates a driver of runs. Call it inside of [`PluginRealm::run`].
    ///
    /// # Errors
    ///
    /// Fails when no model is available, and when the store or the plugins fail.
    pub async fn driver<'a>(&'a self, client: &'a dyn RunClient) -> Result<RunDriver<'a>, RummyError> {
        self.realm.initialise().await?;
        let model = ModelSource::open(self, None).await?;
        let known = model.model();
        let size = known.context_window();
        let named = self.config.model.name.clone();
        let actual = named.unwrap_or_else(|| format!("{}/{}", known.provider, known.id));
        let row = serde_json::json!({ "alias": known.id, "actual": actual, "context_length": size });
        self.realm.entries().with(|store| store.statement("upsert_model", "get", &row))?;
        let driver = RunDriver::new(&self.realm, self, self.ambient.clone(), limits(&self.environment), client);
        Ok(driver.with_rules(self.rules.as_ref()))
    }

    /// Opens the model with this name, or the configured one.
    async fn model(&self, name: Option<&str>) -> Result<Arc<dyn Provider>, RummyError> {
        let environment = &self.environment;
        let mut config = self.config.model.clone();
        if let Some(name) = name {
            config.name = Some(name.to_owned());
        }
        let options = models::provider_options(environment, &config);
        if let Some(ready) = models::ready(&config, &options, &self.ambient)? {
            return Ok(ready);
        }
        let (offered, _) = self.realm.session().models();
        let model = models::choose(environment, &config, &offered, None, false)?.model;
        let said = |error: String| RummyError::Model(error);
        let no_key = || said(format!("there is no key for {}/{}", model.provider, model.id));
        match offered.opening(&model).map_err(|error| said(error.to_string()))? {
            ModelBackend::Ready(provider) => Ok(provider),
            ModelBackend::Known(model) => {
                let known = offered.known().ok_or_else(no_key)?;
                let credentials = known.credentials(&model).await.map_err(said)?.ok_or_else(no_key)?;
                open_http(model, credentials, &options, &self.ambient).map_err(|error| said(error.to_string()))
            }
            _ => Err(UserError::usage(format!("{}/{} comes from an extension", model.provider, model.id))
                .help("choose a built-in model with --model; pi --list-models lists them")
                .into()),
        }
    }

    /// Ends the session.
    pub fn close(self) {
        self.realm.close();
    }
}

impl ModelSource for RummySession {
    /// Opens the model of a client's alias, or of a name in the catalogue. Each model is opened once.
    fn open<'m>(&'m self, alias: Option<&'m str>) -> LocalBoxFuture<'m, Result<Arc<dyn Provider>, RummyError>> {
        async move {
            let usual = self.models.borrow().get("").map(Arc::clone);
            let key = match (alias, &usual) {
                (Some(alias), Some(usual)) if alias != usual.model().id => alias,
                (Some(alias), None) => alias,
                _ => "",
            };
            if let Some(open) = self.models.borrow().get(key) {
                return Ok(Arc::clone(open));
            }
            let about = serde_json::json!({ "alias": key });
            let row = self.realm.entries().with(|store| store.statement("get_model_by_alias", "get", &about))?;
            let name = (!key.is_empty()).then(|| row["actual"].as_str().unwrap_or(key));
            let model = self.model(name).await;
            let model = model.map_err(|error| match error {
                // An unknown model fails only its run, not the session.
                RummyError::Session(failure) if name.is_some() => RummyError::Model(failure.to_string()),
                error => error,
            })?;
            self.models.borrow_mut().insert(key.to_owned(), Arc::clone(&model));
            Ok(model)
        }
        .boxed_local()
    }
}
