//! A built session: [`LoadedSession`] before its model is selected, [`AgentSession`] after.

use crate::agent_tape::{self, AgentTap, RecordedExtensions, RecordedFrontEnd, RecordedPorts, RecordedRules};
use crate::compile::Compiler;
use crate::compiled_package::CompiledPackage;
use crate::config::SessionConfig;
use crate::environment::Environment;
use crate::interface::Interface;
use crate::loading::{Loader, give_flags, places};
use crate::mcp::{McpSession, report_unhandled};
use crate::models::{self, ModelChoice};
use crate::pi_texts;
use crate::prompt_text::{appended, text_or_file, usual_tools};
use crate::reports::PrintedReports;
use crate::rules::RuleSet;
use crate::supply::Supplier;
use crate::text::clean;
use crate::trust::{self, Trust};
use crate::user_error::{Result, UserError};
use pijs_agent::host::HostExtensions;
use pijs_agent::settings::Settings;
use pijs_agent::{
    Agent, AgentControl, AgentError, AgentOptions, ControlError, Extensions, FrontEnd, InitialModel, ModelQuotaLimits,
};
use pijs_connectors::exec::{OwnShell, STARTED_BY};
use pijs_connectors::fs::FsConnector;
use pijs_environment::Ambient;
use pijs_host::{Host, ReadableState};
use pijs_hostcall::{Dispatcher, Evidence, Grant, Ledger};
use pijs_llm::models::Models;
use pijs_llm::provider::{Provider, UnopenedModel};
use pijs_resources::ResourcePlaces;
use pijs_tape::{AgentRecord, AgentWire, Recorder};
use pijs_terminal::similar_names;
use pijs_tools::Builtin;
use pijs_tools::system::OsToolSystem;
use pijs_tools::words::Words;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Maximum time that calls which no code awaits may take at the end of a session.
pub const WIND_DOWN: Duration = Duration::from_secs(2);

/// A session whose extensions have loaded and whose model is not selected yet.
///
/// [`SessionBuilder::load`](crate::SessionBuilder::load) creates it, and [`open`](Self::open) turns it into an [`AgentSession`].
pub struct LoadedSession {
    pub(crate) loader: Rc<Loader>,
    pub(crate) config: SessionConfig,
    pub(crate) interface: Interface,
    pub(crate) host: Host,
    pub(crate) extensions: Rc<HostExtensions>,
    pub(crate) control: AgentControl,
    pub(crate) state: ReadableState,
    pub(crate) model: ModelInputs,
    pub(crate) ports: SessionPorts,
    pub(crate) texts: ReplacedTexts,
    pub(crate) outputs: SessionOutputs,
}

/// Inputs of the choice of a model, and limits of its use.
pub(crate) struct ModelInputs {
    pub(crate) settings: Settings,
    pub(crate) quota: ModelQuotaLimits,
    /// A model that needs no selection: a script, or any name at a given address.
    pub(crate) ready: Option<Arc<dyn Provider>>,
    /// Provider and name of the model of a resumed session.
    pub(crate) resumed: Option<(String, String)>,
}

/// Connections of the agent to the system.
pub(crate) struct SessionPorts {
    pub(crate) ambient: Ambient,
    /// Records what crosses the ports of the agent.
    pub(crate) tap: Arc<AgentTap>,
    pub(crate) files: Arc<FsConnector>,
}

/// Texts that replace the usual ones.
pub(crate) struct ReplacedTexts {
    /// Texts of the prompt and the tools, in place of pi's.
    pub(crate) words: Option<Arc<Words>>,
    /// Folders of resources, in place of the configuration's.
    pub(crate) places: Option<ResourcePlaces>,
}

/// Parts that the end of a session closes.
pub(crate) struct SessionOutputs {
    pub(crate) ledger: Ledger,
    pub(crate) recorder: Option<Recorder>,
    /// Reports for the notices; an interface with an observer receives them itself.
    pub(crate) reports: Option<PrintedReports>,
    /// The servers of `mcp.json`, where there are any.
    pub(crate) mcp: Option<Rc<McpSession>>,
    /// Traces the session until it ends.
    pub(crate) _span: tracing::Span,
}

impl SessionOutputs {
    fn print_reports(&self) {
        self.reports.iter().for_each(|reports| reports.print(self.ledger.redactor()));
    }

    /// Completes the recording and the ledger, which reports its own failure.
    fn close(&self) {
        self.recorder.iter().for_each(Recorder::finish);
        let _ = self.ledger.close();
    }
}

impl LoadedSession {
    /// Returns the host of the extensions.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Returns the dispatcher of hostcalls; its gate has the grants.
    pub fn dispatcher(&self) -> &Arc<Dispatcher> {
        &self.loader.dispatcher
    }

    /// Returns the compiler of this session.
    pub fn compiler(&self) -> &Compiler {
        &self.loader.compiler
    }

    /// Returns the supplier of pi's packages for extensions.
    pub fn supplier(&self) -> &Supplier {
        &self.loader.supplier
    }

    /// Returns the control of the session.
    pub fn control(&self) -> &AgentControl {
        &self.control
    }

    /// Returns the state that extensions read without a hostcall.
    pub fn state(&self) -> &ReadableState {
        &self.state
    }

    /// Sets the flags that extensions registered. Returns pi's errors about unknown flags.
    pub fn give_flags(&self, flags: impl IntoIterator<Item = (String, Option<String>)>) -> Vec<String> {
        give_flags(&self.host, flags)
    }

    /// Returns all models, and errors of those that extensions register: file and message.
    pub fn models(&self) -> (Models, Vec<(String, String)>) {
        let mut models = Models::default();
        if let Some(known) = self.control.known() {
            models.set_known(known);
        }
        let wrong = models.set_offers(self.extensions.offers());
        (models, wrong)
    }

    /// Ends an unopened session: shows the reports and closes the ledger.
    pub fn close(self) {
        self.outputs.print_reports();
        self.close_quietly();
    }

    /// Ends an unopened session without output.
    pub fn close_quietly(self) {
        self.outputs.close();
    }

    /// Selects the model and creates the agent.
    ///
    /// One function, because each part of a loaded session becomes an option of the agent.
    ///
    /// # Errors
    ///
    /// Fails if no model can be used, or if a rule file, a prompt or a setting cannot be read.
    pub async fn open(self) -> Result<AgentSession> {
        if let Some(reports) = self.outputs.reports.clone() {
            tokio::task::spawn_local(reports.watch(self.outputs.ledger.redactor().clone()));
        }
        let environment = &self.loader.environment.clone();
        let choice = self.choose(environment)?;
        let Self { loader, config, interface, host, extensions, control, model, ports, texts, outputs, .. } = self;
        let ModelInputs { settings, quota: asks, ready, .. } = model;
        let SessionPorts { ambient, tap, files } = ports;
        let Interface { mode, has_ui, front_end, is_interactive: stays, .. } = interface;
        let rules = RuleSet::of_session(environment, &config.rules)?;
        let provider = ready.unwrap_or_else(|| Arc::new(UnopenedModel::new(choice.model.clone())));
        let shell = OwnShell::supervised(environment.variables.clone());
        let results = loader.dispatcher.gate().results().cloned();
        let system = OsToolSystem::new(ambient.clone(), environment.temp.clone(), shell).with_results(results);
        let mut tools = config.tools.clone();
        tools.builtin = tools.builtin.or_else(|| usual_tools(environment));
        warn_of_unknown_tools(environment, tools.only.as_deref().unwrap_or_default(), &host);
        let system_prompt = config.system_prompt.as_deref().map(|text| text_or_file(environment, text)).transpose()?;
        let words = match texts.words {
            Some(words) => words,
            None => {
                let has_extensions = !host.packages().is_empty();
                pi_texts::of_session(environment, &loader.compiler, &choice.model, has_extensions).await
            }
        };
        let trusted = Trust::read(environment)?.covers(&environment.dirs.cwd);
        let system = Arc::new(system.at_home(environment.dirs.home.clone()));
        let agent_ambient = outputs.recorder.as_ref().map_or_else(|| ambient.clone(), |_| tap.ambient());
        let mut options = AgentOptions {
            system_prompt,
            append_system_prompt: appended(environment, &config.append_system_prompt)?,
            tools,
            mode: mode.to_owned(),
            has_ui,
            asks,
            model: InitialModel {
                model: Some(choice.model),
                thinking: Some(choice.thinking),
                keeps_that_of_session: choice.session_first,
                insists: choice.is_named,
                insists_on_thinking: config.model.thinking.is_some(),
                scope: choice.scope,
                network: environment.variable("PI_OFFLINE").is_none(),
            },
            settings,
            places: texts.places.unwrap_or_else(|| ResourcePlaces {
                agent_dir: Some(environment.dirs.agent_dir.clone()),
                project: Some(environment.dirs.cwd.clone()),
                context_files: !config.no_context_files,
                trusted,
                told_trusted: environment.trusts.unwrap_or_else(|| trusted || !trust::is_asked_for(environment)),
                protected: Some(environment.places()),
                found_by: Some((places(environment, &config, trusted), config.resources.clone())),
                checked: environment.started_with.clone(),
                read: None,
            }),
            words: Some(words),
            rules: rules.map(|rules| rules.into_session(&environment.notices)),
            // Files are checked unless every use of `pi`, or this command line, was granted.
            is_prompted_by_extension: environment.started_with.is_some(),
            starter: environment.variable(STARTED_BY).map(str::to_owned),
            provider_ambient: Some(ambient),
            ..AgentOptions::new(environment.dirs.cwd.clone(), system, files, agent_ambient)
        };
        let mut agent_ports = AgentPorts { extensions, front_end };
        if let Some(recorder) = &outputs.recorder
            && let Some(parts) = agent_tape::describe(&options, &control, agent_ports.extensions.profile())
        {
            let wire = recorder.agent();
            options.observer = Some(Rc::new(RecordedPorts::new(wire.clone(), &parts)));
            tap.begin(wire.clone(), parts);
            agent_ports = agent_ports.recorded(&mut options, &control, wire);
        }
        let AgentPorts { extensions, front_end } = agent_ports;
        let agent = Agent::new(options, extensions, provider, control, front_end);
        let cwd = environment.dirs.cwd.clone();
        Ok(AgentSession { host, agent, cwd, loader, outputs, stays })
    }

    fn choose(&self, environment: &Environment) -> Result<ModelChoice> {
        let config = &self.config.model;
        let Some(ready) = &self.model.ready else {
            // Errors of registered models are reported when the session starts.
            let (models, _) = self.models();
            let stays = self.interface.is_interactive;
            return models::choose(environment, config, &models, self.model.resumed.clone(), stays);
        };
        let model = ready.model().clone();
        // Other models of the provider use the address too, when they are selected later.
        if let (Some(address), Some(known)) = (&config.base_url, self.control.known()) {
            known.move_provider(&model.provider, address);
        }
        ModelChoice::ready(environment, config, model)
    }
}

/// Ports of the agent that a recording observes.
struct AgentPorts {
    extensions: Rc<dyn Extensions>,
    front_end: Box<dyn FrontEnd>,
}

impl AgentPorts {
    /// Wraps the ports so that everything that crosses them is recorded, and records the rules and the acts of the session.
    fn recorded(self, options: &mut AgentOptions, control: &AgentControl, wire: AgentWire) -> Self {
        let Self { extensions, front_end } = self;
        let changes = wire.clone();
        options.rules = options
            .rules
            .take()
            .map(|rules| rules.with_source(|source| Box::new(RecordedRules { source, wire: changes })));
        let acts = wire.clone();
        control.observe_acts(move |act, value| acts.record(AgentRecord::Act { act: act.to_owned(), value }));
        Self {
            extensions: Rc::new(RecordedExtensions::new(extensions, wire.clone())),
            front_end: Box::new(RecordedFrontEnd { front_end, wire }),
        }
    }
}

impl CompiledPackage {
    /// Loads the package with the grants `granted`, without questions. Returns the entries that failed, with their errors.
    pub async fn load_granted(self, session: &LoadedSession, granted: &[Grant]) -> Result<Vec<(String, String)>> {
        let gate = session.dispatcher().gate();
        gate.set_grants(&self.profile, granted, Evidence::default())
            .map_err(|error| UserError::failed(format!("{}: {error}", self.profile.extension)))?;
        let package = self.package(session.supplier()).await?;
        let report = session.host().load(package).await.map_err(|error| UserError::failed(error.to_string()))?;
        Ok(report.failures().map(|(path, error)| (path.to_owned(), error.message.clone())).collect())
    }
}

/// Warns about unknown names in `--tools`. An extension may register them later, so they are not an error.
fn warn_of_unknown_tools(environment: &Environment, names: &[String], host: &Host) {
    let of_extensions: Vec<String> = host.tools().into_iter().map(|tool| tool.spec.name).collect();
    let known: Vec<&str> =
        Builtin::ALL.iter().map(|tool| tool.name()).chain(of_extensions.iter().map(String::as_str)).collect();
    let is_server_s = |name: &&String| name.starts_with("mcp__");
    for name in names.iter().filter(|name| !known.contains(&name.as_str()) && !is_server_s(name)) {
        let meant = similar_names(name, known.iter().copied(), str::to_owned);
        let advice =
            meant.map_or_else(|| format!("there are {}", known.join(", ")), |meant| format!("did you mean {meant}?"));
        environment.notices.warn(format!("--tools: no tool is called {name}; {advice}"));
    }
}

/// A running session, on its thread.
pub struct AgentSession {
    /// Host of all extensions.
    pub host: Host,
    /// The agent: model, tools, session.
    pub agent: Agent,
    /// The working folder.
    pub cwd: PathBuf,
    pub(crate) loader: Rc<Loader>,
    pub(crate) outputs: SessionOutputs,
    /// Whether the session is interactive, so that the user can wait for a server later.
    stays: bool,
}

impl AgentSession {
    /// Returns the ledger of the extensions' calls.
    pub fn ledger(&self) -> &Ledger {
        &self.outputs.ledger
    }

    /// Starts the session. The tools of extensions are final before the first request to the model.
    ///
    /// # Errors
    ///
    /// Fails if the session cannot be written.
    pub async fn start(&self) -> Result<(), AgentError> {
        match &self.outputs.mcp {
            Some(mcp) => mcp.begin(&self.loader, !self.stays).await,
            None => report_unhandled(&self.host),
        }
        self.agent.start("startup").await?;
        let notices = &self.loader.environment.notices;
        self.agent.skipped_context().iter().for_each(|problem| notices.warn(problem));
        let agreed = self.host.settle_tools().await;
        self.loader.first.borrow_mut().extend(agreed);
        // Turns need little of the code and memory that building and loading extensions used.
        #[cfg(target_os = "linux")]
        {
            pijs_engine::return_free_memory();
            pijs_engine::release_program_pages();
        }
        Ok(())
    }

    /// Starts extensions' lookups of their providers' models in the background.
    pub fn look_up_models(self: &Rc<Self>) {
        let session = Rc::clone(self);
        tokio::task::spawn_local(async move { session.agent.look_up_models().await });
    }

    /// Stores the digests of tools that extensions registered in their first session, and those that the user agreed to in this
    /// one.
    pub fn keep_tools(&self) {
        self.loader.keep_tools();
    }

    /// Shows the reports and writes the queued lines of the ledger, which reports its own failure.
    pub fn finish(&self) {
        self.outputs.print_reports();
        if let Some(mcp) = &self.outputs.mcp {
            mcp.end();
        }
        // Every started call gets an end record.
        self.host.end_calls();
        self.outputs.close();
    }
}

impl From<AgentError> for UserError {
    /// Converts an error that ends the session.
    fn from(error: AgentError) -> Self {
        let failure = Self::failed(clean(&error.to_string()));
        match error {
            AgentError::Control(ControlError::Session(_)) => {
                failure.help("make its folder writable, set PI_CODING_AGENT_DIR to another one, or use --no-session")
            }
            _ => failure,
        }
    }
}
