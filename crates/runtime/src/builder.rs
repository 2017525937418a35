//! Builds a session: [`SessionBuilder`].
//!
//! ```text
//! Environment, SessionConfig
//!    │  load()     find extensions, compile them, make gate, ledger and host, load
//!    v
//! LoadedSession    registrations are known: flags, models of extensions
//!    │  open()     choose the model, make the agent
//!    v
//! AgentSession     start, prompts, shutdown
//! ```
//!
//! `load` has four phases (`builder/phases.rs`) and then loads the extensions. An error before the first request to a model ends
//! the run with one [`UserError`](crate::UserError).

mod phases;

use crate::agent_tape::AgentTap;
use crate::compile::Compiler;
use crate::config::SessionConfig;
use crate::environment::Environment;
use crate::facts::facts;
use crate::grants::UserDecisions;
use crate::interface::Interface;
use crate::loading::{Failures, Loader, paths_of_code, paths_with_grants, provenance};
use crate::logging_no_ui::LoggingNoUi;
use crate::mcp::McpSession;
use crate::mcp_config::paths_of_programs;
use crate::named_by_settings;
use crate::notifying_ui::NotifyingUi;
use crate::open_session;
use crate::session::{AgentSession, LoadedSession, ModelInputs, ReplacedTexts, SessionOutputs, SessionPorts};
use crate::supply::Supplier;
use crate::user_error::Result;
use phases::{Boundary, Discovered, Hosting, SessionParts};
use pijs_agent::AgentControl;
use pijs_agent::host::HostExtensions;
use pijs_agent::tool_port::{HostTools, ToolRequests};
use pijs_connectors::exec::{self, ExecConnector, ExecOptions};
use pijs_connectors::fs::FsConnector;
use pijs_connectors::http::HttpOptions;
use pijs_connectors::http::address::SystemResolver;
use pijs_connectors::ports::UiPort;
use pijs_connectors::{Connectors, system::OsFileSystem};
use pijs_environment::{Ambient, Timer};
use pijs_host::{Host, HostOptions, ReadableState, SourceExcerpts};
use pijs_hostcall::grant_store::GrantStore;
use pijs_hostcall::places::Places;
use pijs_hostcall::spilled::SpilledResults;
use pijs_hostcall::vocabulary::PLAIN_ENV;
use pijs_hostcall::{BoxFuture, BuildRecord, Gate, Ledger, LedgerSink, Mode, Profile};
use pijs_llm::known_models::KnownModels;
use pijs_llm::provider::Provider;
use pijs_packages::{Discovery, InstallScope};
use pijs_protocol::wire::Limits;
use pijs_protocol::{ExtensionId, guard};
use pijs_resources::ResourcePlaces;
use pijs_session_store::Session;
use pijs_tape::Recorder;
use pijs_tools::words::Words;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

/// Builds a session. Nothing is read, started or written before [`load`](Self::load).
///
/// Runs on the session's thread, in a `tokio` [`LocalSet`](tokio::task::LocalSet).
pub struct SessionBuilder {
    environment: Environment,
    config: SessionConfig,
    interface: Interface,
    replaced: Replaced,
}

/// A package whose files were copied for this session.
#[derive(Debug)]
pub struct CopiedPackage {
    /// Folder of the copies.
    pub root: PathBuf,
    /// Files that were copied into the folder, and files that were left out.
    pub record: BuildRecord,
    /// Identity for grants and the ledger, with the scope that the package is installed in. `None` identifies it by its path.
    pub identity: Option<(ExtensionId, Option<InstallScope>)>,
}

impl CopiedPackage {
    fn is_at(&self, root: &Path) -> bool {
        root.canonicalize().ok() == self.root.canonicalize().ok()
    }
}

/// Parts of a session that a replacement of a connector can use or wrap.
pub struct ConnectorParts {
    /// The connector `exec`.
    pub exec: Arc<ExecConnector>,
    /// Control of the session.
    pub control: AgentControl,
    /// Ledger of the session.
    pub ledger: Ledger,
    /// Clock of the session.
    pub timer: Arc<dyn Timer>,
}

type AdaptConnectors = Box<dyn FnOnce(Connectors, ConnectorParts) -> Connectors>;
type AdaptHost = Box<dyn FnOnce(&mut HostOptions)>;

/// Replacements of the usual parts; one field for each setter of [`SessionBuilder`].
#[derive(Default)]
struct Replaced {
    ambient: Option<Ambient>,
    ledger: Option<Arc<dyn LedgerSink>>,
    session: Option<Session>,
    known: Option<KnownModels>,
    provider: Option<Arc<dyn Provider>>,
    child_environment: Option<BTreeMap<String, String>>,
    connectors: Option<AdaptConnectors>,
    host_options: Option<AdaptHost>,
    compiled_by: Option<(Compiler, Supplier)>,
    state: Option<ReadableState>,
    words: Option<Arc<Words>>,
    places: Option<ResourcePlaces>,
    copied: Vec<CopiedPackage>,
    loads_nothing: bool,
    probes_servers: bool,
    remembers_nothing: bool,
}

impl SessionBuilder {
    /// Starts with the defaults of [`SessionConfig`] and [`Interface`].
    pub fn new(environment: &Environment) -> Self {
        Self {
            environment: environment.clone(),
            config: SessionConfig::default(),
            interface: Interface::default(),
            replaced: Replaced::default(),
        }
    }

    /// Sets the configuration of the session.
    #[must_use]
    pub fn config(mut self, config: SessionConfig) -> Self {
        self.config = config;
        self
    }

    /// Sets the user interface.
    #[must_use]
    pub fn interface(mut self, interface: Interface) -> Self {
        self.interface = interface;
        self
    }

    /// Writes the ledger to `sink` instead of its file.
    #[must_use]
    pub fn ledger(mut self, sink: Arc<dyn LedgerSink>) -> Self {
        self.replaced.ledger = Some(sink);
        self
    }

    /// Takes time and randomness from `ambient` instead of the machine.
    #[must_use]
    pub fn ambient(mut self, ambient: Ambient) -> Self {
        self.replaced.ambient = Some(ambient);
        self
    }

    /// Uses this session instead of the one that the configuration chooses.
    #[must_use]
    pub fn session(mut self, session: Session) -> Self {
        self.replaced.session = Some(session);
        self
    }

    /// Uses this catalogue and these keys instead of the user's.
    #[must_use]
    pub fn models(mut self, known: KnownModels) -> Self {
        self.replaced.known = Some(known);
        self
    }

    /// Uses this provider's model instead of the one that the configuration selects.
    #[must_use]
    pub fn provider(mut self, provider: Arc<dyn Provider>) -> Self {
        self.replaced.provider = Some(provider);
        self
    }

    /// Gives programs of extensions these variables instead of the plain ones of the environment.
    #[must_use]
    pub fn child_environment(mut self, variables: BTreeMap<String, String>) -> Self {
        self.replaced.child_environment = Some(variables);
        self
    }

    /// Adapts the connectors with `adapt`; a connector that it sets again replaces the default.
    #[must_use]
    pub fn connectors(mut self, adapt: impl FnOnce(Connectors, ConnectorParts) -> Connectors + 'static) -> Self {
        self.replaced.connectors = Some(Box::new(adapt));
        self
    }

    /// Changes the options of the host.
    #[must_use]
    pub fn host_options(mut self, adapt: impl FnOnce(&mut HostOptions) + 'static) -> Self {
        self.replaced.host_options = Some(Box::new(adapt));
        self
    }

    /// Compiles extensions with this compiler and supplier instead of those of the environment.
    #[must_use]
    pub fn build_with(mut self, compiler: Compiler, supplier: Supplier) -> Self {
        self.replaced.compiled_by = Some((compiler, supplier));
        self
    }

    /// Publishes the state that extensions read without a hostcall to `state`.
    #[must_use]
    pub fn state(mut self, state: ReadableState) -> Self {
        self.replaced.state = Some(state);
        self
    }

    /// Searches these folders for skills, prompt templates and context files, instead of those of the configuration.
    #[must_use]
    pub fn resources(mut self, places: ResourcePlaces) -> Self {
        self.replaced.places = Some(places);
        self
    }

    /// Declares the files that were copied into a package before its build, which reads only these, and its identity.
    #[must_use]
    pub fn copied(mut self, package: CopiedPackage) -> Self {
        self.replaced.copied.push(package);
        self
    }

    /// Uses these texts in the system prompt and the built-in tools instead of pi's own.
    #[must_use]
    pub fn words(mut self, words: Arc<Words>) -> Self {
        self.replaced.words = Some(words);
        self
    }

    /// Loads no extension: the caller does, by [`LoadedSession::host`].
    #[must_use]
    pub fn without_discovery(mut self) -> Self {
        self.replaced.loads_nothing = true;
        self
    }

    /// Loads no extension but starts the servers of `mcp.json`, to probe them.
    #[must_use]
    pub(crate) fn servers_only(mut self) -> Self {
        (self.replaced.loads_nothing, self.replaced.probes_servers) = (true, true);
        self
    }

    /// Keeps answers to permission questions, and the record of files that extensions created, out of this session: they are
    /// neither read nor stored.
    #[must_use]
    pub fn without_memory(mut self) -> Self {
        self.replaced.remembers_nothing = true;
        self
    }

    /// Builds the parts, loads the extensions, selects the model and creates the agent.
    ///
    /// # Errors
    ///
    /// Returns the first error, with the user's next step.
    pub async fn build(self) -> Result<AgentSession> {
        self.load().await?.open().await
    }

    /// Builds the parts and loads the extensions.
    ///
    /// # Errors
    ///
    /// Returns the first error, with the user's next step.
    pub async fn load(self) -> Result<LoadedSession> {
        let Self { environment, mut config, mut interface, mut replaced } = self;
        config.extensions.named = environment.checked_extensions(config.extensions.named)?;
        let (found, session) = phases::find(environment, &config, &mut replaced)?;
        let span = tracing::info_span!("session", session_id = session.header().id.as_str());
        let kept = phases::keep(&found, session, &config, &mut interface, &mut replaced)?;
        let boundary = phases::enclose(&found, &kept, &config, &mut interface, &mut replaced)?;
        let hosting = phases::host(&found, &kept, &boundary, &config, &interface, &mut replaced)?;

        let Discovered { environment, ambient, tap, settings, ready, compiler, supplier, discovery } = found;
        let SessionParts { state, control, left_model, decided, ledger, answers, book } = kept;
        let Boundary { dispatcher, files, mcp, tool_requests, .. } = boundary;
        let Hosting { host, recorder, reports } = hosting;
        let quota = decided.asks;
        let loader = Rc::new(Loader {
            environment,
            config: config.clone(),
            compiler,
            supplier,
            host: host.clone(),
            dispatcher,
            decided,
            answers,
            book: RefCell::new(book),
            first: RefCell::default(),
        });
        for copied in &replaced.copied {
            for package in discovery.packages.iter().filter(|found| copied.is_at(&found.root)) {
                loader.dispatcher.record_build(&Profile::new(package.id.as_str()).at(&copied.root), &copied.record);
            }
        }
        let failures = Failures {
            observer: interface.observer.as_deref(),
            notices: &loader.environment.notices,
            redactor: ledger.redactor(),
            are_fatal: config.extensions.fail_on_error,
        };
        let loaded = loader.load_all(&discovery.packages, &failures).await;
        // Completes the ledger and the recording, so that a failed load can be inspected.
        loaded.inspect_err(|_| {
            recorder.iter().for_each(Recorder::finish);
            drop(ledger.close());
        })?;
        if let Some(mcp) = &mcp {
            mcp.set_manifests(&discovery.packages);
        }
        let reloads = !replaced.loads_nothing;
        let servers = (mcp.as_ref(), loader.dispatcher.gate().results().cloned());
        let extensions = Rc::new(extensions(&host, &control, servers, reloads.then_some(&loader)));
        tokio::task::spawn_local(tool_requests.serve(extensions.clone()));
        extensions.set_provenance(provenance(&discovery));
        Ok(LoadedSession {
            loader,
            config,
            interface,
            host,
            extensions,
            control,
            state,
            model: ModelInputs { settings, quota, ready, resumed: left_model },
            ports: SessionPorts { ambient, tap, files },
            texts: ReplacedTexts { words: replaced.words, places: replaced.places },
            outputs: SessionOutputs { ledger, recorder, reports, mcp, _span: span },
        })
    }
}

/// Creates the agent's view of the extensions. Without a loader a reload restarts them unchanged: the caller loaded them.
fn extensions(
    host: &Host,
    control: &AgentControl,
    (mcp, results): (Option<&Rc<McpSession>>, Option<SpilledResults>),
    loader: Option<&Rc<Loader>>,
) -> HostExtensions {
    let extensions = HostExtensions::new(host.clone());
    let extensions = match mcp {
        Some(mcp) => extensions.with_tools(mcp.tools(control.clone(), results)),
        None => extensions,
    };
    let Some(loader) = loader.cloned() else { return extensions };
    let mcp = mcp.cloned();
    extensions.with_source(Box::new(move || {
        let (loader, mcp) = (Rc::clone(&loader), mcp.clone());
        Box::pin(async move {
            let (mut again, found) = loader.again().await;
            for (mcp, found) in mcp.iter().zip(&found) {
                mcp.set_manifests(found);
            }
            let problems = mcp.iter().flat_map(|mcp| mcp.reload());
            again.problems.extend(problems.map(|problem| ("mcp.json".to_owned(), problem)));
            again
        })
    }))
}

/// Creates the connector that runs programs; in strict mode, and for an extension that is only inspected, they can write to the
/// project and the temporary folder only.
fn exec_connector(environment: &Environment, decided: &UserDecisions, replaced: &mut Replaced) -> Arc<ExecConnector> {
    let child = replaced.child_environment.take();
    let mut options = ExecOptions::new(child.unwrap_or_else(|| plain_environment(environment))).supervised();
    if (decided.policy.mode == Mode::Strict || environment.inspected_by.is_some()) && guard!(ExecWritable) {
        options.writable = Some(vec![environment.dirs.cwd.clone(), environment.temp.clone()]);
    }
    Arc::new(ExecConnector::new(options))
}

/// Returns the variables that every program of an extension gets.
pub(crate) fn plain_environment(environment: &Environment) -> BTreeMap<String, String> {
    let plain = PLAIN_ENV.iter();
    plain.filter_map(|name| Some(((*name).to_owned(), environment.variables.get(*name)?.clone()))).collect()
}

/// Creates the gate between extensions and their user.
fn gate(
    environment: &Environment,
    config: &SessionConfig,
    discovery: &Discovery,
    (decided, stored): (&UserDecisions, &GrantStore),
    interface: &Interface,
    parts: &ConnectorParts,
) -> pijs_hostcall::GateBuilder {
    let dirs = &environment.dirs;
    let loaded = paths_of_code(environment, config, discovery).into_iter().chain(paths_of_programs(environment));
    let loaded = loaded.chain(named_by_settings::paths(environment, config)).chain(paths_with_grants(stored));
    let places: Places = environment.places().with_loaded(loaded);
    let sessions = pijs_durable::without_links(&open_session::folder(environment, config.store.dir.as_deref()));
    let mut gate = Gate::builder(decided.policy.clone(), places)
        .environment(environment.variables.clone())
        .sessions(sessions, Arc::new(parts.control.clone()))
        .results(SpilledResults::of(&dirs.agent_dir));
    if let Some(prompter) = &interface.prompter {
        gate = gate.prompter(environment.notices.counting(Arc::clone(prompter))).block_on(Arc::new(block_on));
    }
    let reach: Vec<PathBuf> = vec![dirs.cwd.clone(), environment.temp.clone(), dirs.agent_dir.clone()];
    let (variables, project) = (plain_environment(environment), dirs.cwd.clone());
    gate.exists(Arc::new(|path| path.symlink_metadata().is_ok())).programs(Arc::new(move |command, cwd| {
        let cwd = cwd.map_or_else(|| project.clone(), |cwd| project.join(cwd));
        exec::locate(command, &cwd, &variables, &reach)
    }))
}

/// Creates the connectors behind the gate.
fn connectors(
    environment: &Environment,
    base_url: Option<&str>,
    interface: &mut Interface,
    replaced: &mut Replaced,
    source_excerpts: &SourceExcerpts,
    (files, tap): (&Arc<FsConnector>, &Arc<AgentTap>),
    parts: ConnectorParts,
) -> (Connectors, ToolRequests) {
    let ConnectorParts { exec, control, ledger, timer } = &parts;
    let ui: Arc<dyn UiPort> = match interface.ui.take() {
        Some(ui) if interface.announces_dialogs => Arc::new(NotifyingUi::new(ui, control.clone())),
        Some(ui) => ui,
        None => Arc::new(LoggingNoUi { ledger: ledger.clone(), timer: Arc::clone(timer) }),
    };
    let (tools, tool_requests) = HostTools::new(Arc::clone(files), Arc::clone(exec), environment.dirs.cwd.clone());
    let connectors = Connectors::new()
        .with("fs", Arc::clone(files) as _)
        .with("exec", Arc::clone(exec) as _)
        .tool(Arc::new(tools))
        .tools(Arc::new(control.clone()))
        .http(HttpOptions::default())
        .net(Arc::new(SystemResolver), crate::proxies::user_servers(environment, base_url))
        .sqlite(Arc::new(OsFileSystem::new()))
        .env(environment.variables.clone())
        .log(ledger.clone(), Arc::clone(timer))
        .timer(Arc::clone(timer))
        .with("module", Arc::new(source_excerpts.clone()))
        .ui(ui)
        .session(tap.session(control.clone()));
    let connectors = match replaced.connectors.take() {
        Some(adapt) => adapt(connectors, parts),
        None => connectors,
    };
    (connectors, tool_requests)
}

/// Waits for the user's answer while a synchronous call blocks the realm, outside of the runtime's own threads.
fn block_on(asking: BoxFuture<'_, ()>) {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    std::thread::scope(|threads| {
        // A panic leaves the question unanswered.
        let _ = threads.spawn(|| runtime.block_on(asking)).join();
    });
}

fn host_options(environment: &Environment, decided: &UserDecisions, ambient: &Ambient) -> HostOptions {
    let mut options = HostOptions { facts: facts(environment), ..HostOptions::default() };
    let mut seed = [0; 8];
    ambient.random.fill(&mut seed);
    options.seed = u64::from_le_bytes(seed);
    options.limits = realm_limits(decided);
    options.profile = decided.profile;
    options
}

/// Returns the limits of each extension from the settings.
pub fn realm_limits(decided: &UserDecisions) -> Limits {
    let mut limits = Limits::default();
    if let Some(megabytes) = decided.max_memory_mb {
        limits.memory_bytes = megabytes << 20;
    }
    limits
}
