//! The phases of [`SessionBuilder::load`](super::SessionBuilder::load), each a function from values to a value.
//!
//! ```text
//! find      Discovered      settings, compiler, extensions to load, the session's file
//!   v
//! keep      SessionParts    control of the session, its ledger, the user's decisions
//!   v
//! enclose   Boundary        gate, connectors, servers of `mcp.json`
//!   v
//! host      Hosting         realms, recorder, host
//! ```
//!
//! A phase reads the values of earlier phases. A part taken from `Replaced` replaces the one that the phase would create.

use super::{ConnectorParts, Replaced, connectors, exec_connector, gate, host_options};
use crate::agent_tape::AgentTap;
use crate::compile::Compiler;
use crate::config::SessionConfig;
use crate::environment::Environment;
use crate::grant_file::{AnswerRecorder, GrantFile};
use crate::grants::{self, UserDecisions};
use crate::interface::Interface;
use crate::isolation;
use crate::ledger;
use crate::loading::{discover, preparing};
use crate::made_files::MadeFolder;
use crate::mcp::McpSession;
use crate::models;
use crate::open_session;
use crate::reports::PrintedReports;
use crate::supply::Supplier;
use crate::tape::{self, RecordedRealms, Recording, TapeSettings};
use crate::user_error::{Result, UserError};
use crate::watchdog::WatchThread;
use pijs_agent::settings::Settings;
use pijs_agent::tool_port::ToolRequests;
use pijs_agent::{AgentControl, StateSink};
use pijs_connectors::exec::STARTED_BY;
use pijs_connectors::fs::FsConnector;
use pijs_connectors::system::OsFileSystem;
use pijs_durable::Disk;
use pijs_environment::Ambient;
use pijs_host::{Host, ReadableState, SourceExcerpts};
use pijs_hostcall::grant_store::GrantStore;
use pijs_hostcall::{Dispatcher, Ledger, LedgerOptions};
use pijs_llm::provider::Provider;
use pijs_packages::Discovery;
use pijs_session_store::{Session, SessionLocation, SessionOptions, SessionRecords};
use pijs_tape::Recorder;
use std::rc::Rc;
use std::sync::Arc;

/// Parts that exist before the session.
pub(super) struct Discovered {
    pub(super) environment: Environment,
    pub(super) ambient: Ambient,
    /// Records what crosses the ports of the agent.
    pub(super) tap: Arc<AgentTap>,
    pub(super) settings: Settings,
    /// A model that needs no selection.
    pub(super) ready: Option<Arc<dyn Provider>>,
    pub(super) compiler: Compiler,
    pub(super) supplier: Supplier,
    pub(super) discovery: Discovery,
}

/// Reads settings, finds the extensions, and opens the session.
pub(super) fn find(
    mut environment: Environment,
    config: &SessionConfig,
    replaced: &mut Replaced,
) -> Result<(Discovered, Session)> {
    environment.tape = tape::path_of(&environment, config);
    let ambient = replaced.ambient.take().unwrap_or_else(Ambient::system);
    let tap = AgentTap::new(&ambient);
    let settings = grants::agent_settings_of(&environment, models::provider_options(&environment, &config.model));
    let ready = match replaced.provider.take() {
        Some(provider) => Some(provider),
        None => models::ready(&config.model, &settings.provider, &ambient)?,
    };
    let (compiler, supplier) = replaced.compiled_by.take().unwrap_or_else(|| {
        let compiler = Compiler::new(&environment);
        let supplier = Supplier::new(&environment, compiler.cache());
        (compiler, supplier)
    });
    let mut discovery = match replaced.loads_nothing {
        true => Discovery::default(),
        false => discover(&environment, config)?,
    };
    for package in &mut discovery.packages {
        let copied = replaced.copied.iter().find(|copied| copied.is_at(&package.root));
        if let Some((id, installed)) = copied.and_then(|copied| copied.identity.clone()) {
            (package.id, package.installed) = (id, installed);
        }
    }
    let session = match replaced.session.take() {
        Some(session) => session,
        None => {
            let is_agents = environment.variable(STARTED_BY).is_some();
            let records = SessionRecords::new(Disk::system(), &environment.dirs.agent_dir).of_agent(is_agents);
            if let Some(folder) = ledger::other_folder(&environment).filter(|_| replaced.ledger.is_none()) {
                // Later runs protect it from extensions, too.
                records.remember(SessionLocation::Ledgers(pijs_durable::without_links(&folder)));
            }
            let kept = SessionOptions { records: Some(Arc::new(records)), ..tap.ambient().into() };
            open_session::open(&environment, &config.store, &kept)?
        }
    };
    if environment.tape.is_none() {
        environment.tape = TapeSettings::of(&environment)?.beside(session.path());
    }
    Ok((Discovered { environment, ambient, tap, settings, ready, compiler, supplier, discovery }, session))
}

/// Control of the session, its ledger, and the user's decisions.
pub(super) struct SessionParts {
    pub(super) state: ReadableState,
    pub(super) control: AgentControl,
    /// Model of a resumed session.
    pub(super) left_model: Option<(String, String)>,
    pub(super) decided: UserDecisions,
    pub(super) ledger: Ledger,
    /// Store of the user's answers; new ones are added.
    pub(super) answers: Arc<AnswerRecorder>,
    /// Current answers.
    pub(super) book: GrantStore,
}

/// Creates the control, opens the ledger, and reads the user's decisions.
pub(super) fn keep(
    found: &Discovered,
    session: Session,
    config: &SessionConfig,
    interface: &mut Interface,
    replaced: &mut Replaced,
) -> Result<SessionParts> {
    let Discovered { environment, ambient, tap, settings, .. } = found;
    let session_id = session.header().id.clone();
    let left_model = session.branch_state().map_err(|error| UserError::failed(error.to_string()))?.model;
    let state = replaced.state.take().unwrap_or_default();
    let published: Arc<dyn StateSink> = Arc::new(state.clone());
    let published = match interface.wrap_state.take() {
        Some(wrap) => wrap(published),
        None => published,
    };
    let control = AgentControl::new(session, tap.state(published), tap.ambient());
    let decided = UserDecisions::new(environment, &config.permissions, config.profile)?;
    let ledger = match replaced.ledger.take() {
        Some(sink) => Ledger::new(LedgerOptions { session_id, ..LedgerOptions::default() }, sink),
        None => ledger::open(environment, &session_id, decided.policy.mode, &*ambient.timer),
    };
    ledger::write_aside(&ledger);
    if let Some(key) = &config.model.api_key {
        ledger.redactor().learn(key);
    }
    control.set_known(match replaced.known.take() {
        Some(known) => known,
        None => models::known(environment, &settings.provider, ambient, ledger.redactor())?,
    });
    let grant_file = GrantFile::new(environment, Arc::clone(&ambient.timer));
    let book = if replaced.remembers_nothing { GrantStore::default() } else { grant_file.read()? };
    let answers = Arc::new(AnswerRecorder::new(grant_file, MadeFolder::new(environment)));
    Ok(SessionParts { state, control, left_model, decided, ledger, answers, book })
}

/// Boundary between extensions and the system.
pub(super) struct Boundary {
    pub(super) dispatcher: Arc<Dispatcher>,
    pub(super) files: Arc<FsConnector>,
    pub(super) source_excerpts: SourceExcerpts,
    pub(super) mcp: Option<Rc<McpSession>>,
    /// Calls of extensions to the session's tools.
    pub(super) tool_requests: ToolRequests,
}

/// Creates the gate and the connectors behind it.
pub(super) fn enclose(
    found: &Discovered,
    kept: &SessionParts,
    config: &SessionConfig,
    interface: &mut Interface,
    replaced: &mut Replaced,
) -> Result<Boundary> {
    let Discovered { environment, ambient, tap, discovery, .. } = found;
    let SessionParts { control, ledger, decided, answers, book, .. } = kept;
    let source_excerpts = SourceExcerpts::default().with_functions(pijs_extc::Functions);
    let parts = ConnectorParts {
        exec: exec_connector(environment, decided, replaced),
        control: control.clone(),
        ledger: ledger.clone(),
        timer: Arc::clone(&ambient.timer),
    };
    let gate = gate(environment, config, discovery, (decided, book), interface, &parts);
    let gate = match replaced.remembers_nothing {
        true => gate,
        false => gate.memory(Arc::clone(answers) as _).made_files(Arc::clone(answers) as _),
    };
    let mcp = match replaced.loads_nothing && !replaced.probes_servers {
        true => None,
        false => McpSession::prepare(environment, config, ambient, (ledger, control, interface.has_ui))?,
    };
    let gate = match &mcp {
        Some(mcp) => gate.mcp_tools(mcp.describe()),
        None => gate,
    };
    let files = Arc::new(FsConnector::new(Arc::new(OsFileSystem::new())));
    let base_url = config.model.base_url.as_deref();
    let (connectors, tool_requests) =
        connectors(environment, base_url, interface, replaced, &source_excerpts, (&files, tap), parts);
    let connectors = match &mcp {
        Some(mcp) => connectors.with("mcp", mcp.connector()),
        None => connectors,
    };
    let dispatcher = Dispatcher::builder(gate.build(), ledger.clone(), Arc::clone(&ambient.timer))
        .connectors(connectors.into_methods())
        .build();
    Ok(Boundary { dispatcher: Arc::new(dispatcher), files, source_excerpts, mcp, tool_requests })
}

/// The host of the extensions.
pub(super) struct Hosting {
    pub(super) host: Host,
    pub(super) recorder: Option<Recorder>,
    pub(super) reports: Option<PrintedReports>,
}

/// Creates the host, without extensions.
pub(super) fn host(
    found: &Discovered,
    kept: &SessionParts,
    boundary: &Boundary,
    config: &SessionConfig,
    interface: &Interface,
    replaced: &mut Replaced,
) -> Result<Hosting> {
    let Discovered { environment, ambient, compiler, discovery, .. } = found;
    let SessionParts { ledger, decided, state, .. } = kept;
    let realms = isolation::realms(config, environment, decided)?;
    // A worker process starts while the host modules are read.
    realms.expect(discovery.packages.len());
    let notices = (!discovery.packages.is_empty()).then_some(&environment.notices);
    let host_modules = preparing(notices, interface.is_interactive, || compiler.host_modules())?;
    let mut options = host_options(environment, decided, ambient);
    if let Some(adapt) = replaced.host_options.take() {
        adapt(&mut options);
    }
    let recording = Recording {
        host_modules: &host_modules,
        options: &options,
        decided,
        redactor: ledger.redactor(),
        epoch_ms: ambient.epoch_ms(),
    };
    let recorder = tape::begin(environment, config, &recording)?;
    let realms = match recorder.clone() {
        Some(recorder) => Box::new(RecordedRealms { opener: realms, recorder }),
        None => realms,
    };
    let mut host = Host::builder(host_modules, Arc::clone(&boundary.dispatcher), Arc::clone(&ambient.timer));
    if let Some(observer) = &interface.observer {
        host = host.observer(Rc::clone(observer));
    }
    let watchdog = WatchThread::start()
        .map_err(|error| UserError::failed(format!("cannot start the thread that watches verdicts: {error}")))?;
    let source_excerpts = boundary.source_excerpts.clone();
    let host = host
        .source_excerpts(source_excerpts)
        .realms(realms)
        .options(options)
        .state(state.clone())
        .watchdog(watchdog)
        .build();
    host.warm_up();
    let prints = interface.observer.is_none();
    let reports = prints.then(|| PrintedReports::new(host.reports(), environment.notices.clone()));
    Ok(Hosting { host, recorder, reports })
}
