//! [`RummySession`]: a project's plugins, entries and model, as the command line and the server open them.
//!
//! | what | where |
//! |---|---|
//! | the user's plugins | `rummy/plugins` in pi's folder |
//! | the project's | `.pi/rummy/plugins`, once the folder is trusted |
//! | entries | `pijs/rummy/` in pi's folder, which no extension reads or writes |
//!
//! No plugin writes to either folder of plugins, nor to the package that is made of them.

use crate::error::RummyError;
use crate::realm::{PluginRealm, RealmOptions};
use crate::run::{RunClient, RunDriver, RunLimits};
use crate::service::EntryConnector;
use crate::settings;
use crate::stage::PluginSet;
use crate::store::StoreService;
use pijs_dialect_rummy::verdict;
use pijs_environment::Ambient;
use pijs_llm::models::{Opening, open_http};
use pijs_llm::provider::Provider;
use pijs_runtime::trust::Trust;
use pijs_runtime::{Environment, Failure, Interface, SessionConfig, models};
use sha2::{Digest as _, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Settings of a session.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    /// Model, permissions, isolation.
    pub config: SessionConfig,
    /// Folders of plugins beside the user's and the project's.
    pub plugins: Vec<PathBuf>,
    /// The line of rummy that the plugins meet.
    pub profile: String,
    /// Whether the bundled plugins are loaded.
    pub bundled: bool,
    /// Whether errors of plugins end what they happen in, as under rummy.
    pub faithful: bool,
    /// Set to keep no entries.
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

/// A project's plugins and entries, open.
pub struct RummySession {
    realm: PluginRealm,
    environment: Environment,
    config: SessionConfig,
    ambient: Ambient,
}

/// Folder of the plugins that a project brings.
pub fn project_plugins(environment: &Environment) -> PathBuf {
    environment.dirs.cwd.join(".pi/rummy/plugins")
}

/// Folder of the user's own plugins.
pub fn user_plugins(environment: &Environment) -> PathBuf {
    environment.dirs.agent_dir.join("rummy/plugins")
}

/// Name of a project in pi's folder.
fn key(environment: &Environment) -> String {
    let digest = Sha256::digest(environment.dirs.cwd.as_os_str().as_encoded_bytes());
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// File of a project's entries.
pub fn database(environment: &Environment) -> PathBuf {
    environment.dirs.agent_dir.join("pijs/rummy").join(format!("{}.db", key(environment)))
}

/// Finds the plugins of a project, in the order in which they are constructed.
///
/// # Errors
///
/// A folder cannot be read, or what a variable names is nowhere.
pub fn find_plugins(environment: &Environment, more: &[PathBuf]) -> Result<PluginSet, RummyError> {
    let mut set = PluginSet::default();
    let own = project_plugins(environment);
    let trusted = Trust::read(environment)?.covers(&environment.dirs.cwd);
    if own.is_dir() && !trusted {
        let note = "note: this folder brings plugins of rummy; they are not loaded until you run: pi trust";
        environment.notices.show(note);
    }
    let folders = [user_plugins(environment), own].into_iter().zip([true, trusted]);
    for (folder, counts) in folders {
        if counts && folder.is_dir() {
            set = set.folder(&folder)?;
        }
    }
    for folder in more {
        set = set.folder(folder)?;
    }
    set.variables(&environment.variables, &environment.dirs.cwd)
}

/// Opens the store of a project.
///
/// # Errors
///
/// Its folder cannot be made, or the database is not ours or damaged.
pub fn open_store(
    environment: &Environment,
    profile: &str,
    in_memory: bool,
    ambient: &Ambient,
) -> Result<StoreService, RummyError> {
    let divisor = settings::number(environment, "RUMMY_TOKEN_DIVISOR").unwrap_or(2);
    if in_memory {
        return StoreService::open(None, profile, divisor, ambient.clone());
    }
    let path = database(environment);
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut maker = fs::DirBuilder::new();
    maker.recursive(true);
    // The words of a model and its user are nobody else's to read.
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut maker, 0o700);
    maker.create(folder).map_err(|source| RummyError::File { path: folder.to_owned(), source })?;
    StoreService::open(Some(&path), profile, divisor, ambient.clone())
}

/// Bounds of a run, as the user's settings have them.
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
        budget: settings::number(environment, "RUMMY_BUDGET_CEILING").unwrap_or(usual.budget),
        divisor: settings::number(environment, "RUMMY_TOKEN_DIVISOR").unwrap_or(usual.divisor),
        ..usual
    }
}

impl RummySession {
    /// Opens the plugins and entries of the working folder.
    ///
    /// # Errors
    ///
    /// The plugins cannot be staged or compiled, the store cannot be opened, or the session around them cannot be made.
    pub async fn open(
        environment: &Environment,
        options: SessionOptions,
        interface: Interface,
    ) -> Result<Self, RummyError> {
        let SessionOptions { config, plugins, profile, bundled, faithful, in_memory } = options;
        let ambient = Ambient::system();
        let plugins = find_plugins(environment, &plugins)?;
        let store = open_store(environment, &profile, in_memory, &ambient)?;
        let entries = EntryConnector::new(Box::new(store));
        let stage = environment.dirs.agent_dir.join("rummy/stage").join(key(environment));
        let options = RealmOptions { profile, bundled, faithful, stage, session: config.clone() };
        let realm = PluginRealm::open(environment, &plugins, entries, interface, options).await?;
        Ok(Self { realm, environment: environment.clone(), config, ambient })
    }

    /// The realm of the plugins.
    pub fn realm(&self) -> &PluginRealm {
        &self.realm
    }

    /// The surroundings it was opened in.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Its time and randomness.
    pub fn ambient(&self) -> &Ambient {
        &self.ambient
    }

    /// Makes a driver of runs. Call it inside [`PluginRealm::run`].
    ///
    /// # Errors
    ///
    /// No model can be asked, or the store or the plugins fail.
    pub async fn driver<'a>(&'a self, client: &'a dyn RunClient) -> Result<RunDriver<'a>, RummyError> {
        self.realm.initialise().await?;
        let model = self.model().await?;
        let root = self.environment.dirs.cwd.clone();
        let project = (root.display().to_string(), root);
        RunDriver::new(&self.realm, model, self.ambient.clone(), project, limits(&self.environment), client).await
    }

    /// Opens the model that the configuration chooses.
    async fn model(&self) -> Result<Arc<dyn Provider>, RummyError> {
        let (environment, config) = (&self.environment, &self.config.model);
        let options = models::provider_options(environment, config);
        if let Some(ready) = models::ready(config, &options, &self.ambient)? {
            return Ok(ready);
        }
        let (offered, _) = self.realm.session().models();
        let model = models::choose(environment, config, &offered, None, false)?.model;
        let said = |error: String| RummyError::Model(error);
        let no_key = || said(format!("there is no key for {}/{}", model.provider, model.id));
        match offered.opening(&model).map_err(|error| said(error.to_string()))? {
            Opening::Ready(provider) => Ok(provider),
            Opening::Known(model) => {
                let known = offered.known().ok_or_else(no_key)?;
                let credentials = known.credentials(&model).await.map_err(said)?.ok_or_else(no_key)?;
                open_http(model, credentials, &options, &self.ambient).map_err(|error| said(error.to_string()))
            }
            _ => Err(Failure::usage(format!("{}/{} is a model of an extension", model.provider, model.id))
                .help("choose one of the catalogue with --model: pi --list-models")
                .into()),
        }
    }

    /// Ends the session.
    pub fn close(self) {
        self.realm.close();
    }
}
