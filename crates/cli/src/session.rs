//! Puts a session together.
//!
//! The order: find extensions, compile them, make the gate and the host, load, open the model, run.
//! Whatever goes wrong before the model is asked ends the run with one message.

use crate::announced::Announced;
use crate::args::{ExtensionFlag, Mode, RunArgs, SessionArgs};
use crate::compile::Compiler;
use crate::environment::Environment;
use crate::facts::facts;
use crate::failure::{Failure, Result};
use crate::grant_file::{Answers, GrantFile};
use crate::grants::Decided;
use crate::isolation;
use crate::ledger;
use crate::loading::{Failures, Loader, discover, paths_of_code, places, preparing, provenance, set_flags};
use crate::made_files::MadeFolder;
use crate::models::{self, Choice, HOW};
use crate::opening;
use crate::output::{clean, indented, stderr};
use crate::prompt_text::{appended, text_or_file, usual_tools};
use crate::repeated::Repeated;
use crate::rules::RuleSet;
use crate::supply::Supplier;
use crate::system::WatchThread;
use crate::terminal::{self, Terminal};
use crate::trust::{self, Trust};
use crate::unanswered::Unanswered;
use pijs_agent::host::HostExtensions;
use pijs_agent::resources::ResourcePlaces;
use pijs_agent::settings::Settings;
use pijs_agent::tool_port::{HostTools, ToolRequests};
use pijs_agent::{
    Agent, AgentControl, AgentError, AgentOptions, AskLimits, ControlError, Extensions, FrontEnd, MOST_TURNS,
    NoFrontEnd, StateSink,
};
use pijs_connectors::exec::{self, ExecConnector, ExecOptions, OwnShell};
use pijs_connectors::fs::FsConnector;
use pijs_connectors::http::HttpOptions;
use pijs_connectors::http::address::SystemResolver;
use pijs_connectors::ports::UiPort;
use pijs_connectors::{Connectors, system::OsFileSystem};
use pijs_durable::Disk;
use pijs_environment::{Ambient, SystemTimer, Timer};
use pijs_host::{FlagInfo, Host, HostOptions, Observer, Quotes, ReadableState, Report, ReportKind, Reports};
use pijs_hostcall::ledger::Redactor;
use pijs_hostcall::places::Places;
use pijs_hostcall::vocabulary::PLAIN_ENV;
use pijs_hostcall::{Dispatcher, Gate, Ledger, LedgerOptions, LedgerSink, Mode as GateMode, Prompter};
use pijs_llm::models::Models;
use pijs_llm::provider::openai::Retention;
use pijs_llm::provider::proxy::Proxies;
use pijs_llm::provider::{self, ErrorKind, Provider, ProviderOptions, Unopened};
use pijs_protocol::guard;
use pijs_protocol::wire::Limits;
use pijs_session_store::{SessionOptions, SessionRecords, file};
use pijs_tools::system::OsToolSystem;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

/// How long calls that nobody waits for may take at the end of a session.
pub(crate) const WIND_DOWN: std::time::Duration = std::time::Duration::from_secs(2);

/// Everything of one session. Made by [`assemble`], on the thread that runs it.
pub(crate) struct Assembled {
    pub(crate) loader: Rc<Loader>,
    pub(crate) host: Host,
    pub(crate) agent: Agent,
    pub(crate) ledger: Ledger,
    /// The working folder.
    pub(crate) cwd: PathBuf,
    /// For stderr; a partner hears of them by itself.
    reports: Option<Printed>,
}

/// What a session is made of, apart from the surroundings.
pub(crate) struct Setup {
    pub(crate) args: RunArgs,
    pub(crate) flags: Vec<ExtensionFlag>,
    pub(crate) front_end: Box<dyn FrontEnd>,
    /// In place of the ledger's file.
    pub(crate) ledger: Option<Arc<dyn LedgerSink>>,
    /// Somebody who stays: an RPC client or a person. Without, dialogs go to the terminal where there is one.
    pub(crate) partner: Option<Partner>,
}

/// Who answers extensions, and what the session is called for it.
pub(crate) struct Partner {
    /// `ctx.mode`.
    pub(crate) mode: &'static str,
    pub(crate) ui: Arc<dyn UiPort>,
    pub(crate) prompter: Arc<dyn Prompter>,
    /// Hears of reports instead of stderr.
    pub(crate) observer: Rc<dyn Observer>,
    /// Stands between the session and what extensions read of it.
    pub(crate) entries: Option<Between>,
}

/// Wraps what the session publishes its state to.
pub(crate) type Between = Box<dyn FnOnce(Arc<dyn StateSink>) -> Arc<dyn StateSink>>;

/// `pi --list-models`: extensions are loaded for what they register.
pub(crate) async fn list_models(environment: &Environment, args: RunArgs, flags: Vec<ExtensionFlag>) -> Result<()> {
    let search = args.list_models.clone().unwrap_or_default();
    let args = RunArgs { session: SessionArgs { no_session: true, ..SessionArgs::default() }, ..args };
    let front_end = Box::new(NoFrontEnd);
    let loaded = loaded(environment, Setup { args, flags, front_end, ledger: None, partner: None }).await?;
    let (models, wrong) = loaded.models();
    for (path, message) in wrong {
        stderr(&clean(&format!("warning: {path}: {message}")));
    }
    models::list(&models, &search);
    loaded.reports.iter().for_each(|reports| reports.print(loaded.ledger.redactor()));
    let _ = loaded.ledger.close();
    Ok(())
}

/// The flags that extensions register, for `pi --help`.
pub(crate) async fn registered_flags(
    environment: &Environment,
    args: RunArgs,
    flags: Vec<ExtensionFlag>,
) -> Result<Vec<FlagInfo>> {
    let args = RunArgs { session: SessionArgs { no_session: true, ..SessionArgs::default() }, ..args };
    let front_end = Box::new(NoFrontEnd);
    let loaded = loaded(environment, Setup { args, flags, front_end, ledger: None, partner: None }).await?;
    let _ = loaded.ledger.close();
    Ok(loaded.host.flags())
}

/// A session before its model is chosen: extensions have loaded.
struct Loaded {
    loader: Rc<Loader>,
    args: RunArgs,
    ambient: Ambient,
    settings: Settings,
    asks: AskLimits,
    /// A model that needs no choice: a script, or any name at `--base-url`.
    ready: Option<Arc<dyn Provider>>,
    /// The model of a session that goes on.
    left: Option<(String, String)>,
    control: AgentControl,
    extensions: Rc<HostExtensions>,
    front_end: Box<dyn FrontEnd>,
    has_ui: bool,
    /// Somebody can choose a model later.
    stays: bool,
    /// `ctx.mode`.
    mode: &'static str,
    host: Host,
    ledger: Ledger,
    reports: Option<Printed>,
}

impl Loaded {
    /// All models there are, and what is wrong with those that extensions offer: file and message.
    fn models(&self) -> (Models, Vec<(String, String)>) {
        let mut models = Models::default();
        if let Some(known) = self.control.known() {
            models.set_known(known);
        }
        let wrong = models.set_offers(self.extensions.offers());
        (models, wrong)
    }
}

/// Opens what needs no choice.
fn ready(args: &RunArgs, options: &ProviderOptions, ambient: &Ambient) -> Result<Option<Arc<dyn Provider>>> {
    let Some(model) = args.model.as_deref() else { return Ok(None) };
    let script = model.starts_with("script:");
    let name = match &args.provider {
        Some(provider) if !script && !model.starts_with(&format!("{provider}/")) => format!("{provider}/{model}"),
        _ => model.to_owned(),
    };
    if script && args.base_url.is_some() {
        return Err(Failure::usage("--base-url: a recorded reply (script:FILE) needs no server")
            .help("leave out --base-url, or choose another --model"));
    }
    // A model of another provider is moved once it is chosen.
    let is_any_name = args.base_url.is_some() && (name.starts_with("openai/") || name.starts_with("anthropic/"));
    if !script && !is_any_name {
        return Ok(None);
    }
    let opened = provider::open(&name, options, ambient).map_err(|error| {
        let unknown = error.kind() == ErrorKind::NotFound && !script;
        if unknown { Failure::usage(error.to_string()).help(HOW) } else { Failure::failed(error.to_string()) }
    })?;
    Ok(Some(opened))
}

/// Builds everything and loads the extensions.
async fn loaded(environment: &Environment, setup: Setup) -> Result<Loaded> {
    let Setup { args, flags, front_end, ledger: sink, mut partner } = setup;
    let records = SessionRecords::new(Disk::system(), &environment.dirs.agent_dir);
    let ambient = Ambient::system();
    let kept = SessionOptions { records: Some(Arc::new(records)), ..ambient.clone().into() };
    let settings = crate::grants::agent_settings_of(environment, provider_options(environment, &args));
    let ready = ready(&args, &settings.provider, &ambient)?;

    let compiler = Compiler::new(environment);
    let supplier = Supplier::new(environment, compiler.cache());
    let observer = partner.as_ref().map(|partner| Rc::clone(&partner.observer));
    let discovery = discover(environment, &args)?;
    let timer = Arc::new(SystemTimer::new());
    let state = ReadableState::default();
    let session = opening::open(environment, &args.session, &kept)?;
    let session_id = session.header().id.clone();
    let left = session.left_with().map_err(|error| Failure::failed(error.to_string()))?.model;
    let published: Arc<dyn StateSink> = Arc::new(state.clone());
    let published = match partner.as_mut().and_then(|partner| partner.entries.take()) {
        Some(between) => between(published),
        None => published,
    };
    let control = AgentControl::new(session, published, ambient.clone());

    let at_terminal = args.mode == Mode::Text && environment.stdin_is_terminal && environment.stderr_is_terminal;
    let has_ui = partner.is_some() || at_terminal;
    let decided = Decided::new(environment, &args)?;
    let ledger = match sink {
        Some(sink) => Ledger::new(LedgerOptions { session_id, ..LedgerOptions::default() }, sink),
        None => ledger::open(environment, &session_id, decided.policy.mode, &*timer),
    };
    ledger::write_aside(&ledger);
    if let Some(key) = &args.api_key {
        ledger.redactor().learn(key);
    }
    control.set_known(models::known(environment, &settings.provider, &ambient, ledger.redactor())?);
    let grant_file = GrantFile::new(environment, timer.clone());
    let book = grant_file.read()?;
    let answers = Arc::new(Answers::new(grant_file, MadeFolder::new(environment)));
    let sessions = file::real(&opening::folder(environment, args.session.session_dir.as_deref()));
    let door =
        Door { sessions, decided: &decided, answers: Arc::clone(&answers), at_terminal, partner: partner.as_ref() };
    let quotes = Quotes::default().with_functions(pijs_extc::Functions);
    let places = environment.places().with_loaded(paths_of_code(environment, &args, &discovery));
    let (dispatcher, tool_requests) =
        dispatcher(environment, places, door, &ledger, (&control, &quotes), timer.clone());
    let dispatcher = Arc::new(dispatcher);

    let realms = isolation::realms(&args, environment, &decided)?;
    // A process starts while the modules that it is to run are read.
    realms.expect(discovery.packages.len());
    let host_modules = preparing(partner.is_some(), || compiler.host_modules())?;
    let mut host = Host::builder(host_modules, Arc::clone(&dispatcher), timer);
    if let Some(observer) = &observer {
        host = host.observer(Rc::clone(observer));
    }
    let host = host
        .quotes(quotes)
        .realms(realms)
        .options(host_options(environment, &decided, &ambient))
        .state(state)
        .watchdog(
            WatchThread::start().map_err(|error| Failure::failed(format!("no thread to watch verdicts: {error}")))?,
        )
        .build();
    let reports = partner.is_none().then(|| Printed::new(host.reports()));
    let asks = decided.asks;
    let loader = Rc::new(Loader {
        environment: environment.clone(),
        args: args.clone(),
        compiler,
        supplier,
        host: host.clone(),
        dispatcher,
        decided,
        answers,
        book: RefCell::new(book),
        first: RefCell::default(),
    });
    let failures = Failures {
        observer: observer.as_deref(),
        redactor: ledger.redactor(),
        are_fatal: args.fail_on_extension_error,
    };
    let loaded = loader.load_all(&discovery.packages, &failures).await;
    // An extension that failed has left evidence by then.
    loaded.inspect_err(|_| drop(ledger.close()))?;
    set_flags(&host, flags)?;
    if let Some(shown) = reports.clone() {
        let ledger = ledger.clone();
        tokio::task::spawn_local(async move {
            loop {
                shown.show(&shown.reports.next().await, ledger.redactor());
            }
        });
    }

    let again = Rc::clone(&loader);
    let extensions = HostExtensions::new(host.clone()).with_source(Box::new(move || {
        let loader = Rc::clone(&again);
        Box::pin(async move { loader.again().await })
    }));
    let extensions = Rc::new(extensions);
    tokio::task::spawn_local(tool_requests.serve(extensions.clone()));
    let mode = match (&partner, args.mode) {
        (Some(partner), _) => partner.mode,
        (None, Mode::Json) => "json",
        (None, _) => "print",
    };
    extensions.set_provenance(provenance(&discovery));
    Ok(Loaded {
        loader,
        args,
        ambient,
        settings,
        asks,
        ready,
        left,
        control,
        extensions,
        front_end,
        has_ui,
        stays: partner.is_some(),
        mode,
        host,
        ledger,
        reports,
    })
}

/// Builds everything, loads the extensions and chooses the model.
pub(crate) async fn assemble(environment: &Environment, setup: Setup) -> Result<Assembled> {
    let loaded = loaded(environment, setup).await?;
    let choice = match &loaded.ready {
        Some(ready) => {
            let model = ready.model().clone();
            // Its provider's other models are reached there, too, when they are chosen later.
            if let (Some(address), Some(known)) = (&loaded.args.base_url, loaded.control.known()) {
                known.move_provider(&model.provider, address);
            }
            Choice::ready(&loaded.args, model)?
        }
        // What is wrong with an offer is reported when the session begins.
        None => models::choose(environment, &loaded.args, &loaded.models().0, loaded.left.clone(), loaded.stays)?,
    };
    let Loaded {
        args, ambient, settings, asks, ready, control, extensions, front_end, mode, host, ledger, loader, ..
    } = loaded;
    let rules = RuleSet::of_session(environment, &args.rules)?;
    let provider = ready.unwrap_or_else(|| Arc::new(Unopened::new(choice.model.clone())));
    let agent = Agent::new(
        AgentOptions {
            cwd: environment.dirs.cwd.clone(),
            system_prompt: args.system_prompt.as_deref().map(|text| text_or_file(environment, text)).transpose()?,
            append_system_prompt: appended(environment, &args, rules.as_ref())?,
            tools: args.tools.choice(usual_tools(environment)),
            mode: mode.to_owned(),
            has_ui: loaded.has_ui,
            caps: Default::default(),
            asks,
            max_turns: MOST_TURNS,
            system: Arc::new(
                OsToolSystem::new(
                    ambient.clone(),
                    environment.temp.clone(),
                    OwnShell::supervised(environment.variables.clone()),
                )
                .at_home(environment.dirs.home.clone()),
            ),
            ambient,
        },
        extensions,
        provider,
        control,
        front_end,
    );
    if let Some(rules) = rules {
        agent.set_rules(rules.into_session());
    }
    agent.set_words(crate::words::of_session(environment, &loader.compiler, &choice.model).await);
    agent.set_settings(settings);
    agent.set_model_network(environment.variable("PI_OFFLINE").is_none());
    agent.begin_with(choice.model, &choice.thinking, choice.session_first);
    if args.thinking.is_some() {
        agent.insist_on_thinking();
    }
    if choice.is_named {
        agent.insist_on_model();
    }
    agent.set_scope(choice.scope);
    let trusted = Trust::read(environment)?.covers(&environment.dirs.cwd);
    let context_files = !args.resources.no_context_files;
    agent.set_places(ResourcePlaces {
        agent_dir: Some(environment.dirs.agent_dir.clone()),
        project: Some(environment.dirs.cwd.clone()),
        context_files,
        trusted,
        told_trusted: environment.trusts.unwrap_or_else(|| trusted || !trust::is_asked_for(environment)),
        protected: Some(environment.places()),
        found_by: Some((places(environment, &args, trusted), args.resources.options())),
    });
    Ok(Assembled { host, agent, ledger, cwd: environment.dirs.cwd.clone(), reports: loaded.reports, loader })
}

impl Assembled {
    /// Opens the session; what extensions say of their tools is settled before the model hears it.
    pub(crate) async fn start(&self) -> Result<(), AgentError> {
        self.agent.start("startup").await?;
        self.agent.untold_context().iter().for_each(|problem| stderr(&clean(&format!("warning: {problem}"))));
        let agreed = self.host.settle_tools().await;
        self.loader.first.borrow_mut().extend(agreed);
        Ok(())
    }

    /// Has extensions look up the models of their providers, while the session goes on.
    pub(crate) fn look_up_models(self: &Rc<Self>) {
        let session = Rc::clone(self);
        tokio::task::spawn_local(async move { session.agent.look_up_models().await });
    }

    /// Shows the reports and writes the ledger lines that are still queued; its file reports its own
    /// failure.
    pub(crate) fn finish(&self) {
        self.reports.iter().for_each(|reports| reports.print(self.ledger.redactor()));
        // Whatever was started is written down as ended.
        self.host.end_calls();
        let _ = self.ledger.close();
    }
}

/// The session itself cannot go on.
pub(crate) fn broken(error: AgentError) -> Failure {
    let failure = Failure::failed(clean(&error.to_string()));
    match error {
        AgentError::Control(ControlError::Session(_)) => {
            failure.help("make its folder writable, set PI_CODING_AGENT_DIR to another one, or use --no-session")
        }
        _ => failure,
    }
}

/// What stands between extensions and their user.
struct Door<'a> {
    /// Where sessions of the project lie.
    sessions: PathBuf,
    decided: &'a Decided,
    answers: Arc<Answers>,
    at_terminal: bool,
    partner: Option<&'a Partner>,
}

fn dispatcher(
    environment: &Environment,
    places: Places,
    Door { sessions, decided, answers, at_terminal, partner }: Door<'_>,
    ledger: &Ledger,
    (control, quotes): (&AgentControl, &Quotes),
    timer: Arc<dyn Timer>,
) -> (Dispatcher, ToolRequests) {
    let dirs = &environment.dirs;
    let terminal = Terminal::default();
    let mut gate = Gate::builder(decided.policy.clone(), places)
        .memory(Arc::clone(&answers) as _)
        .made_files(answers)
        .environment(environment.variables.clone())
        .sessions(sessions, Arc::new(control.clone()));
    let ui: Arc<dyn UiPort> = match partner {
        Some(partner) => {
            gate = gate.prompter(Arc::clone(&partner.prompter)).block_on(Arc::new(terminal::block_on));
            Arc::new(Announced::new(Arc::clone(&partner.ui), control.clone()))
        }
        None => {
            if environment.stdin_is_terminal && environment.stderr_is_terminal {
                gate = gate.prompter(Arc::new(terminal.clone())).block_on(Arc::new(terminal::block_on));
            }
            if at_terminal {
                Arc::new(terminal)
            } else {
                Arc::new(Unanswered { ledger: ledger.clone(), timer: Arc::clone(&timer) })
            }
        }
    };
    let child: BTreeMap<String, String> = PLAIN_ENV
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), environment.variables.get(*name)?.clone())))
        .collect();
    let reach = vec![dirs.cwd.clone(), environment.temp.clone(), dirs.agent_dir.clone()];
    let (env, project) = (child.clone(), dirs.cwd.clone());
    gate = gate.exists(Arc::new(|path| path.symlink_metadata().is_ok()));
    gate = gate.programs(Arc::new(move |command, cwd| {
        let cwd = cwd.map_or_else(|| project.clone(), |cwd| project.join(cwd));
        exec::locate(command, &cwd, &env, &reach)
    }));
    let mut options = ExecOptions::new(child).supervised();
    if decided.policy.mode == GateMode::Strict && guard::is_up("exec.writable") {
        options.writable = Some(vec![dirs.cwd.clone(), environment.temp.clone()]);
    }
    let files = Arc::new(FsConnector::new(Arc::new(OsFileSystem::new())));
    let programs = Arc::new(ExecConnector::new(options));
    let (tools, tool_requests) = HostTools::new(Arc::clone(&files), Arc::clone(&programs), dirs.cwd.clone());
    let connectors = Connectors::new()
        .with("fs", files)
        .with("exec", programs)
        .tool(Arc::new(tools))
        .tools(Arc::new(control.clone()))
        .http(HttpOptions::default())
        .net(Arc::new(SystemResolver))
        .sqlite(Arc::new(OsFileSystem::new()))
        .env(environment.variables.clone())
        .log(ledger.clone(), Arc::clone(&timer))
        .timer(Arc::clone(&timer))
        .with("module", Arc::new(quotes.clone()))
        .ui(ui)
        .session(Arc::new(control.clone()));
    let dispatcher =
        Dispatcher::builder(gate.build(), ledger.clone(), timer).connectors(connectors.into_methods()).build();
    (dispatcher, tool_requests)
}

fn host_options(environment: &Environment, decided: &Decided, ambient: &Ambient) -> HostOptions {
    let mut options = HostOptions { facts: facts(environment), ..HostOptions::default() };
    let mut seed = [0; 8];
    ambient.random.fill(&mut seed);
    options.seed = u64::from_le_bytes(seed);
    options.limits = realm_limits(decided);
    options.profile = decided.profile;
    options
}

/// The limits of each extension, as the settings have it.
pub(crate) fn realm_limits(decided: &Decided) -> Limits {
    let mut limits = Limits::default();
    if let Some(megabytes) = decided.max_memory_mb {
        limits.memory_bytes = megabytes << 20;
    }
    limits
}

fn provider_options(environment: &Environment, args: &RunArgs) -> ProviderOptions {
    let key = |name: &str| environment.variable(name).map(str::to_owned);
    let mut options = ProviderOptions {
        base_url: args.base_url.clone(),
        openai_key: args.api_key.clone().or_else(|| key("OPENAI_API_KEY")),
        anthropic_key: args.api_key.clone().or_else(|| key("ANTHROPIC_API_KEY")),
        ..ProviderOptions::default()
    };
    let setting = crate::settings::proxy(environment);
    options.http.proxies = Proxies::from_variables(|name| {
        let of_setting = || setting.clone().filter(|_| matches!(name, "HTTP_PROXY" | "HTTPS_PROXY"));
        key(name).or_else(of_setting)
    });
    if environment.variable("PI_CACHE_RETENTION") == Some("long") {
        options.http.retention = Retention::Long;
    }
    options
}

/// Prints reports on stderr, the same one once.
#[derive(Clone)]
struct Printed {
    reports: Reports,
    repeated: Rc<RefCell<Repeated>>,
}

impl Printed {
    fn new(reports: Reports) -> Self {
        Self { reports, repeated: Rc::default() }
    }

    fn show(&self, report: &Report, secrets: &Redactor) {
        let words = secrets.text(&report.to_string()).to_string();
        if self.repeated.borrow_mut().shows(report, &words) {
            show(report, &words);
        }
    }

    /// Prints those that are queued, and how often others came again.
    fn print(&self, secrets: &Redactor) {
        self.reports.drain().iter().for_each(|report| self.show(report, secrets));
        let counted = self.repeated.borrow_mut().counted();
        counted.iter().for_each(|line| stderr(&format!("warning: {}", clean(line))));
    }
}

/// A report on stderr. Its words are without the secrets that pi knows: what an extension prints ends up in logs of others.
fn show(report: &Report, words: &str) {
    let level = match &report.kind {
        ReportKind::Log(_) | ReportKind::Restarted => "",
        ReportKind::Warning { .. }
        | ReportKind::Conflict { .. }
        | ReportKind::LateVerdict
        | ReportKind::SlowVerdict { .. } => "warning: ",
        _ => "error: ",
    };
    stderr(&format!("{level}{}", indented(&clean(words))));
}
