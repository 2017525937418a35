//! `pi ext drive`: plays a scenario against real extensions and prints a trace of their behaviour, in the form of
//! `oracle/format.md` (`pi-ext-trace/1`).
//!
//! The real pi prints a document of the same form for the same scenario; the conformance harness compares the two.
//!
//! ```text
//! scenario ──> throw-away project, home, servers ──> host, gate, ledger, agent: as in `pi -p`
//!                                                         │ ports and connectors that record calls
//! steps, scripted model, scripted answers ────────────────┴──> trace ──> normalised document
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`scenario`] | the scenario file |
//! | [`clock`] | the clock of its session |
//! | [`trace`] | the items, in order |
//! | [`model`], [`ui`], [`exec`], [`servers`] | answers from the script |
//! | [`observe`] | records everything else |
//! | [`steps`] | the steps |
//! | [`render`] | rendering of messages and tool calls by extensions |
//! | [`files`] | comparison of files |
//! | [`grants`] | grants of the extensions |
//!
//! Invariant: extensions run as in a session, with the same gate and ledger.

mod clock;
mod exec;
mod files;
mod grants;
mod keys;
mod model;
mod observe;
mod render;
mod scenario;
mod servers;
mod steps;
mod trace;
mod ui;

use crate::harness_options::{ComparedArgs, Roots};
use crate::normalise::{Normaliser, Replacement};
use clap::Args;
use clock::StillTimer;
use model::{InnerSteps, Script, ScriptedModel};
use observe::{Bus, Console, Entries, Errors, Events};
use pijs_agent::settings::Settings;
use pijs_agent::{Agent, AgentControl, StateSink};
use pijs_connectors::log::LogConnector;
use pijs_environment::{Ambient, Timer};
use pijs_host::{Host, ReadableState, ReportKind};
use pijs_hostcall::Grant;
use pijs_llm::auth::{Auth, NoKeyEnvironment};
use pijs_llm::known_models::KnownModels;
use pijs_llm::models_json::ModelsJson;
use pijs_packages::{Dirs, DiscoverOptions, ResourceOptions, resolve_extensions};
use pijs_resources::ResourcePlaces;
use pijs_runtime::compile::Compiler;
use pijs_runtime::compiled_package::{CompiledPackage, shown_entries};
use pijs_runtime::facts::node;
use pijs_runtime::supply::Supplier;
use pijs_runtime::throwaway::{NoLedger, surroundings};
use pijs_runtime::{
    AgentSession, Environment, Interface, LoadedSession, Result, SessionBuilder, SessionConfig, UserError, pi_texts,
};
use pijs_session_store::{Body, Session};
use pijs_tools::words::Words;
use scenario::{Fill, Scenario, SessionKind, UiMode};
use serde_json::{Value, json};
use servers::Listening;
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use trace::{Trace, present};
use ui::{KeyWork, RecordedUi};

/// `pi ext drive`
#[derive(Debug, Args)]
pub struct DriveArgs {
    /// Scenario, in the form of oracle/format.md; with --schedule a recording, made by `pi --tape FILE`
    #[arg(value_name = "SCENARIO.json")]
    pub scenario: PathBuf,
    /// Run the extensions of a recording instead of a scenario, under this schedule: `extc test --explore` prints one
    #[arg(long, value_name = "SCHEDULE")]
    pub schedule: Option<String>,
    /// Run this extension, a folder or a file, instead of the recorded one of the same name
    #[arg(long, value_name = "EXTENSION", requires = "schedule")]
    pub against: Option<PathBuf>,
    /// Options that `pi ext snapshot` shares.
    #[command(flatten)]
    pub compared: ComparedArgs,
}

/// The state of one run.
struct Driver {
    keys: keys::Keys,
    scenario: Scenario,
    fill: Fill,
    trace: Trace,
    surroundings: Environment,
    host: Host,
    agent: Agent,
    control: AgentControl,
    state: ReadableState,
    script: Script,
    ui: Option<Arc<RecordedUi>>,
    /// Number of steps that are being played.
    background: Cell<usize>,
}

/// Plays the scenario and returns its trace as JSON text.
///
/// # Errors
///
/// Fails if the scenario cannot be read or set up. Errors of its extensions are part of the trace.
pub async fn play(environment: &Environment, args: &DriveArgs) -> Result<String> {
    let file = environment.dirs.cwd.join(&args.scenario);
    let scenario = Scenario::read(&file)?;
    let folder = file.parent().unwrap_or(&file).to_owned();
    let roots = Roots::new(&folder, args.compared.examples.as_ref(), args.compared.packages.as_ref(), None);
    let named = scenario.extensions.iter().map(|entry| roots.resolve(entry)).collect::<Result<Vec<_>>>()?;
    let base =
        tempfile::Builder::new().prefix("drive-").rand_bytes(6).tempdir_in(&environment.temp).map_err(|error| {
            UserError::failed(format!("cannot create a folder in {}: {error}", environment.temp.display()))
        })?;
    let stage = Stage::set(environment, &scenario, base.path())?;
    let document = stage.play(environment, args, scenario, roots, named).await?;
    Ok(serde_json::to_string_pretty(&document).expect("a JSON value serializes"))
}

/// The environment of a scenario, fully set up.
struct Stage {
    surroundings: Environment,
    base: PathBuf,
    bin: PathBuf,
    servers: Vec<Listening>,
    fill: Fill,
    trace: Trace,
}

impl Stage {
    fn set(environment: &Environment, scenario: &Scenario, base: &Path) -> Result<Self> {
        let trace = Trace::new(&scenario.drop);
        let mut surroundings = surroundings(environment, base)?;
        let base = base.canonicalize().unwrap_or_else(|_| base.to_owned());
        let bin = base.join("bin");
        std::fs::create_dir_all(&bin).map_err(|error| UserError::failed(format!("{}: {error}", bin.display())))?;
        let servers = servers::start(&scenario.http, &trace)?;
        let dirs = &surroundings.dirs;
        let node = node(environment).unwrap_or_else(|| "node".to_owned());
        let shown = |path: &Path| path.display().to_string();
        let mut fill = vec![
            ("cwd".to_owned(), shown(&dirs.cwd)),
            ("home".to_owned(), shown(&dirs.home)),
            ("tmp".to_owned(), shown(&surroundings.temp)),
            ("node".to_owned(), node),
        ];
        fill.extend(servers.iter().enumerate().map(|(index, server)| (format!("http:{index}"), server.url.clone())));
        let fill = Fill(fill);
        files::put(&dirs.cwd, &scenario.files, &fill, false)?;
        files::put(&dirs.home, &scenario.home, &fill, false)?;
        files::put(&bin, &scenario.bin, &fill, true)?;
        let path = environment.variable("PATH").unwrap_or_default();
        let mut set = |name: &str, value: String| surroundings.variables.insert(name.to_owned(), value);
        set("PATH", format!("{}:{path}", bin.display()));
        for (name, value) in [("TERM", "xterm-256color"), ("COLORTERM", "truecolor"), ("GIT_CONFIG_NOSYSTEM", "1")] {
            set(name, value.to_owned());
        }
        for (name, value) in &scenario.env {
            set(name, fill.text(value));
        }
        Ok(Self { surroundings, base, bin, servers, fill, trace })
    }

    fn normaliser(&self, roots: &Roots, scenario: &Scenario) -> Result<Normaliser> {
        let mut normaliser = roots
            .normaliser(&self.surroundings)
            .place(&self.bin, "<bin>")
            .folder(&pijs_runtime::pi_texts::pi_folder(&self.surroundings), "<pi>")
            .place(&self.base.join("sessions"), "<sessions>");
        if let Some(node) = node(&self.surroundings) {
            normaliser = normaliser.literal(&node, "<node>");
        }
        for (index, server) in self.servers.iter().enumerate() {
            normaliser = normaliser
                .literal(&server.url, &format!("<http:{index}>"))
                .literal(&server.host, &format!("<http-host:{index}>"));
        }
        let rules = scenario.normalise.iter().map(|rule| {
            Replacement::new(&rule.pattern, rule.flags.as_deref(), &rule.with)
                .map_err(|error| UserError::failed(format!("normalise: {:?}: {error}", rule.pattern)))
        });
        Ok(normaliser.rules(rules.collect::<Result<_>>()?))
    }

    async fn play(
        self,
        environment: &Environment,
        args: &DriveArgs,
        scenario: Scenario,
        roots: Roots,
        named: Vec<PathBuf>,
    ) -> Result<Value> {
        let prompts = self.normaliser(&roots, &scenario)?;
        let mut normaliser = self.normaliser(&roots, &scenario)?;
        let (fill, trace) = (&self.fill, &self.trace);
        let (state, keys) = (ReadableState::default(), keys::Keys::default());
        let answers = scenario.ui.answers.iter().map(|answer| fill.map(answer)).collect();
        let (recorded, key_work) =
            RecordedUi::new(&scenario.ui, answers, trace.clone(), Arc::new(state.clone()), keys.clone());
        let ui = (scenario.ui.mode != UiMode::None).then(|| Arc::new(recorded));
        let replies = scenario.model.iter().cloned().map(scenario::Reply::whole).collect();
        let (script, during) = Script::new(replies, scenario.chunk, fill.clone(), trace.clone(), prompts);
        let scripted = Scripted { state, keys, ui, script };

        let loaded = self.load(environment, args, &scenario, &named, &scripted).await?;
        self.load_extensions(&loaded, &scenario, &named).await;
        let control = loaded.control().clone();
        let AgentSession { host, agent, .. } = loaded.open().await?;
        prepare(&agent, &scenario, &scripted.script);
        let shutdowns = self.trace.clone();
        control.on_shutdown(move || {
            shutdowns.record("shutdown_requested", json!({}));
        });
        let Self { surroundings, fill, trace, .. } = self;
        let Scripted { state, keys, ui, script } = scripted;
        let background = Cell::new(0);
        let driver =
            Driver { keys, scenario, fill, trace, surroundings, host, agent, control, state, script, ui, background };
        let driver = Rc::new(driver);
        driver.clone().serve(key_work, during);
        let host = driver.host.clone();
        // Files that extensions write while they are loaded are not counted as changes of the session.
        let dirs = &driver.surroundings.dirs;
        let before = files::list(&dirs.cwd, &dirs.home);
        let ending = host.run(driver.agent.attend(driver.run())).await;
        let document = driver.document(ending, &before);
        normaliser = normaliser.numbering(driver.trace.entry_ids());
        Ok(normaliser.document(document))
    }

    /// Builds the session, without extensions.
    async fn load(
        &self,
        environment: &Environment,
        args: &DriveArgs,
        scenario: &Scenario,
        named: &[PathBuf],
        scripted: &Scripted,
    ) -> Result<LoadedSession> {
        let surroundings = &self.surroundings;
        let compiler = Compiler::new(environment);
        let supplier = Supplier::new(environment, compiler.cache());
        let timer: Arc<dyn Timer> = Arc::new(StillTimer::new(scenario)?);
        // The session uses the extensions' clock.
        let ambient = Ambient { timer, ..Ambient::system() };
        let session = match scenario.session {
            SessionKind::Memory => Session::in_memory(&surroundings.dirs.cwd, ambient.clone()),
            SessionKind::File => {
                Session::create_in(&self.base.join("sessions"), &surroundings.dirs.cwd, ambient.clone())
            }
        };
        // The model catalogue is available, but there is no key for any provider.
        let no_keys = Auth::new(Arc::new(NoKeyEnvironment), ambient.clone(), Default::default());
        let known = KnownModels::new(ModelsJson::default(), Arc::new(no_keys));
        let start = scenario.start_model.as_deref().unwrap_or("faux-1");
        let mut spoken = Words::clone(&*pi_texts::of_start(environment, &compiler).await);
        spoken.pi_folder = Some(pi_texts::pi_folder(surroundings).display().to_string());
        let seed = match scenario.random {
            // Computes JavaScript's `>>> 0`.
            Some(Some(seed)) => u64::from(seed.rem_euclid(4_294_967_296.0) as u32),
            None => 1,
            Some(None) => ambient.fraction().to_bits(),
        };
        let config = SessionConfig {
            isolation: args.compared.isolation,
            profile: Some(args.compared.profile),
            system_prompt: match &scenario.system_prompt {
                None => Some(scenario::SYSTEM_PROMPT.to_owned()),
                Some(prompt) => prompt.clone(),
            },
            ..SessionConfig::default()
        };
        let (exec, console, first) = (scenario.exec.clone(), self.trace.clone(), scripted.keys.clone());
        let patience = scenario.quiet();
        SessionBuilder::new(surroundings)
            .config(config)
            .interface(self.interface(environment, scenario, scripted))
            .build_with(compiler, supplier)
            .ledger(Arc::new(NoLedger))
            .ambient(ambient)
            .session(session)
            .state(scripted.state.clone())
            .models(known)
            .provider(Arc::new(ScriptedModel::new(start, scripted.script.clone())))
            .words(Arc::new(spoken))
            .resources(resource_places(&surroundings.dirs, scenario.resources, named))
            .child_environment(surroundings.variables.clone())
            .without_discovery()
            .without_memory()
            .host_options(move |options| {
                options.facts.insert("observesEvents".to_owned(), true.into());
                options.seed = seed;
                options.clock_step_us = 0;
            })
            .connectors(move |connectors, parts| {
                let record = Arc::new(exec::ExecRecord {
                    scripted: exec,
                    trace: console.clone(),
                    announced: Default::default(),
                });
                let log = Arc::new(LogConnector::new(parts.ledger, parts.timer));
                let bus = Bus(console.clone());
                connectors
                    .with("log", Arc::new(Console { trace: console, exec: Arc::clone(&record), log }))
                    .with("exec", Arc::new(exec::RecordedExec { record, real: parts.exec }))
                    .events(Arc::new(bus))
                    .session(Arc::new(keys::SessionAfterKeys { session: parts.control, keys: first, patience }))
            })
            .load()
            .await
    }

    /// Returns the user interface, which records everything in the trace.
    fn interface(&self, environment: &Environment, scenario: &Scenario, scripted: &Scripted) -> Interface {
        let (trace, ui, entries) = (&self.trace, &scripted.ui, self.trace.clone());
        Interface {
            mode: if ui.is_some() { scenario.ui.mode.as_str() } else { "print" },
            has_ui: ui.is_some(),
            front_end: Box::new(Events { trace: trace.clone(), updates: scenario.updates }),
            ui: Some(match ui {
                Some(ui) => ui.clone() as _,
                None => Arc::new(pijs_agent::ports::NoUi),
            }),
            announces_dialogs: ui.is_some(),
            observer: Some(Rc::new(Errors { trace: trace.clone(), notices: environment.notices.clone() })),
            wrap_state: Some(Box::new(|state| Arc::new(Entries::new(entries, state)) as Arc<dyn StateSink>)),
            ..Interface::default()
        }
    }

    /// Loads the extensions with their flags. Failures are recorded in the trace.
    async fn load_extensions(&self, loaded: &LoadedSession, scenario: &Scenario, named: &[PathBuf]) {
        let granted = grants::grants(&self.base.join("sessions"));
        let failures = load(loaded, &self.surroundings, &granted, named).await;
        let flags = scenario.flags.iter().map(|(name, value)| (name.clone(), value.as_str().map(str::to_owned)));
        let wrong_flags = loaded.give_flags(flags);
        for failure in failures {
            self.trace.record("load_error", failure);
        }
        for message in wrong_flags {
            self.trace.record("diagnostic", json!({"level": "error", "message": message}));
        }
    }
}

/// The parts of a session that take their answers from the scenario.
struct Scripted {
    state: ReadableState,
    keys: keys::Keys,
    ui: Option<Arc<RecordedUi>>,
    script: Script,
}

/// Configures an agent with the models and settings of a scenario.
fn prepare(agent: &Agent, scenario: &Scenario, script: &Script) {
    for id in ["faux-1", "faux-2"] {
        agent.add_model(Arc::new(ScriptedModel::new(id, script.clone())));
    }
    agent.set_initial_thinking(scenario.thinking.as_deref().unwrap_or("off"));
    let mut quiet = Settings::default();
    (quiet.compaction.enabled, quiet.retry.enabled) = (false, false);
    agent.set_settings(pijs_runtime::grants::agent_settings(quiet, &scenario.settings));
}

/// Returns the folders of resources: skills and prompts of the packages, and with `all` also those of project and home.
fn resource_places(dirs: &Dirs, all: bool, named: &[PathBuf]) -> ResourcePlaces {
    let options = DiscoverOptions {
        dirs: dirs.clone(),
        named: named.iter().map(|path| path.display().to_string()).collect(),
        only_named: true,
        trusted: true,
    };
    let asked = ResourceOptions {
        only_named_skills: !all,
        only_named_prompts: !all,
        only_named_themes: !all,
        ..ResourceOptions::default()
    };
    ResourcePlaces {
        agent_dir: all.then(|| dirs.agent_dir.clone()),
        project: all.then(|| dirs.cwd.clone()),
        context_files: all,
        trusted: true,
        told_trusted: true,
        protected: None,
        found_by: Some((options, asked)),
        checked: None,
        read: None,
    }
}

/// Loads the extensions with their grants. Returns failures, as items of the trace.
async fn load(loaded: &LoadedSession, surroundings: &Environment, granted: &[Grant], named: &[PathBuf]) -> Vec<Value> {
    let failures = RefCell::new(Vec::new());
    let failed = |path: &str, message: &str| {
        failures.borrow_mut().push(json!({"path": path, "error": trace::first_line(message)}));
    };
    let reports = loaded.host().reports();
    for path in named {
        let found = resolve_extensions(&DiscoverOptions {
            dirs: surroundings.dirs.clone(),
            named: vec![path.display().to_string()],
            only_named: true,
            trusted: false,
        });
        for problem in &found.refused {
            failed(&path.display().to_string(), &problem.message);
        }
        for found in &found.packages {
            let result = async {
                let (compiler, dispatcher, supplier) = (loaded.compiler(), loaded.dispatcher(), loaded.supplier());
                let package = [(found, (granted.to_vec(), Vec::new()))];
                let mut built = CompiledPackage::all_in_session(compiler, dispatcher, supplier, &package, &|_| ());
                built.swap_remove(0)?.shown_as_named(found).load_granted(loaded, granted).await
            };
            match loaded.host().run(result).await {
                Ok(failures) => failures.iter().for_each(|(path, message)| failed(path, message)),
                Err(failure) => {
                    let message = format!("Failed to load extension: {}", failure.brief());
                    shown_entries(found).iter().for_each(|path| failed(path, &message));
                }
            }
        }
    }
    for report in reports.drain() {
        if let ReportKind::Conflict { message } = &report.kind {
            failed(&report.path, message);
        }
    }
    failures.into_inner()
}

impl Driver {
    /// Presses keys, and plays the steps inside model calls when they are due.
    fn serve(
        self: Rc<Self>,
        mut key_work: mpsc::UnboundedReceiver<KeyWork>,
        mut during: mpsc::UnboundedReceiver<InnerSteps>,
    ) {
        let driver = Rc::clone(&self);
        tokio::task::spawn_local(async move {
            while let Some(work) = key_work.recv().await {
                let driver = Rc::clone(&driver);
                tokio::task::spawn_local(async move { driver.press_keys(work).await });
            }
        });
        tokio::task::spawn_local(async move {
            while let Some(InnerSteps { call, steps, done }) = during.recv().await {
                let driver = Rc::clone(&self);
                tokio::task::spawn_local(async move {
                    for (index, step) in steps.iter().enumerate() {
                        driver.step(step, &format!("llm{call}.{index}"), true).await;
                    }
                    // The receiver is dropped if the call was cancelled.
                    let _ = done.send(());
                });
            }
        });
    }

    /// Opens the session, plays the steps, and closes the session. Returns the members of `final` as they are just before the
    /// end.
    async fn run(self: &Rc<Self>) -> Value {
        self.host.set_state("screen", json!({"width": self.scenario.width(), "height": 24}));
        self.host.set_state("played", true);
        self.host.set_state("footer", json!({"branch": "main", "statuses": {}, "providers": 1}));
        if let Err(error) = self.agent.start("startup").await {
            self.trace.record("driver_error", json!({"error": error.to_string()}));
        }
        self.settle().await;
        for (index, step) in self.scenario.steps.clone().iter().enumerate() {
            self.step(step, &index.to_string(), false).await;
        }
        let ending = json!({
            "activeTools": self.control.tools().1,
            "extensionTools": self.host.tools().iter().map(|tool| tool.spec.name.clone()).collect::<Vec<_>>(),
            "commands": self.host.commands().iter().map(|command| command.invocation.clone()).collect::<Vec<_>>(),
        });
        self.trace.record("step", json!({"i": "end", "do": "quit"}));
        if tokio::time::timeout(self.scenario.limit(), self.agent.shutdown("quit")).await.is_err() {
            self.trace.record("unsettled", json!({}));
        }
        let _ = tokio::time::timeout(Duration::from_secs(1), self.host.quiet()).await;
        tokio::time::sleep(self.scenario.quiet()).await;
        ending
    }

    fn document(&self, ending: Value, before: &files::Listing) -> Value {
        let trace: Vec<Value> = self.trace.close().into_iter().map(shown_output).collect();
        let dirs = &self.surroundings.dirs;
        let files = files::changes(before, &files::list(&dirs.cwd, &dirs.home), self.scenario.file_limit);
        let (calls, left) = self.script.counts();
        let mut last = self.control.with_session(|session| {
            let shown: Vec<Value> = session
                .entries()
                .filter_map(Result::ok)
                .map(|entry| {
                    let parent = entry.parent.as_ref();
                    let parent = parent.map(|parent| session.index_of(parent).map_or(json!("?"), |place| json!(place)));
                    let value = entry.to_value();
                    let (role, custom_type) = match &entry.body {
                        Body::Message { message } => (Some(message.role().to_owned()), None),
                        _ => (None, value.get("customType").cloned()),
                    };
                    let kind = &value["type"];
                    let mut shown = present(json!({"type": kind, "role": role, "customType": custom_type}));
                    shown["parent"] = parent.unwrap_or_default();
                    shown
                })
                .collect();
            let leaf = session.leaf().and_then(|leaf| session.index_of(leaf));
            let name = session.name().map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned);
            json!({"entries": shown, "leaf": leaf, "sessionName": name})
        });
        if let Value::Object(members) = &mut last {
            members.retain(|key, value| key == "leaf" || !value.is_null());
            let state = |key: &str| self.state.get(key).unwrap_or_default();
            let model = state("model");
            let text = |key: &str| model[key].as_str().unwrap_or_default().to_owned();
            members.insert("model".to_owned(), format!("{}/{}", text("provider"), text("id")).into());
            members.insert("thinking".to_owned(), state("thinkingLevel"));
            members.insert("llmCalls".to_owned(), calls.into());
            members.insert("modelLeft".to_owned(), left.into());
            members.insert("answersLeft".to_owned(), self.answers_left().into());
            members.insert("files".to_owned(), files);
            if let Value::Object(ending) = ending {
                members.extend(ending);
            }
        }
        let mut document = json!({
            "format": "pi-ext-trace/1",
            "pi": self.host.profile().version(),
            "name": self.scenario.name,
            "ui": self.scenario.ui.mode.as_str(),
            "trace": trace,
            "final": last,
        });
        if let Some(compare) = &self.scenario.compare {
            document["compare"] = compare.clone();
        }
        document
    }

    fn answers_left(&self) -> usize {
        match &self.ui {
            Some(ui) => ui.answers_left(),
            None => self.scenario.ui.answers.iter().filter(|answer| answer.get("repeat").is_none()).count(),
        }
    }
}

/// Formats an `output` item: escape sequences are kept as JSON escapes.
fn shown_output(mut item: Value) -> Value {
    if item["t"] == "output" {
        let text = item["text"].to_string();
        item["text"] = text[1..text.len() - 1].into();
    }
    item
}
