//! `pi ext drive`: plays a scenario against real extensions and prints what they did, in the form of
//! `oracle/format.md` (`pi-ext-trace/1`).
//!
//! The real pi prints the same document of the same scenario; the conformance harness compares the two.
//!
//! ```text
//! scenario ──> throw-away project, home, servers ──> host, gate, ledger, agent: as for `pi -p`
//!                                                         │ ports and connectors that write down
//! steps, scripted model, scripted answers ────────────────┴──> trace ──> normalised document
//! ```
//!
//! | module | is |
//! |---|---|
//! | [`scenario`] | the file |
//! | [`clock`] | the time of its session |
//! | [`trace`] | the items, in order |
//! | [`model`], [`ui`], [`exec`], [`servers`] | what answers from the script |
//! | [`observe`] | what writes down the rest |
//! | [`steps`] | what happens |
//! | [`render`] | how extensions draw messages and tool calls |
//! | [`files`] | what is left on disk |
//! | [`granted`] | what extensions may do |
//!
//! What always holds: extensions run as in a session, behind the same gate and ledger.

mod clock;
mod exec;
mod files;
mod granted;
mod keys;
mod model;
mod observe;
mod render;
mod scenario;
mod servers;
mod steps;
mod trace;
mod ui;

use crate::announced::Announced;
use crate::args::DriveArgs;
use crate::built::Built;
use crate::compile::Compiler;
use crate::environment::Environment;
use crate::facts::{facts, node};
use crate::failure::{Failure, Result};
use crate::isolation;
use crate::loading::give_flags;
use crate::normalise::{Normaliser, Replacement};
use crate::output::stdout;
use crate::stage::{NoLedger, Roots, shown_entries, surroundings};
use crate::supply::Supplier;
use crate::system::WatchThread;
use clock::StillTimer;
use model::{During, Script, ScriptedModel};
use observe::{Bus, Console, Entries, Errors, Events};
use pijs_agent::host::HostExtensions;
use pijs_agent::resources::ResourcePlaces;
use pijs_agent::settings::Settings;
use pijs_agent::tool_port::HostTools;
use pijs_agent::words::Words;
use pijs_agent::{Agent, AgentControl, AgentOptions, MOST_TURNS, StateSink};
use pijs_connectors::Connectors;
use pijs_connectors::exec::{ExecConnector, ExecOptions, OwnShell};
use pijs_connectors::fs::FsConnector;
use pijs_connectors::http::HttpOptions;
use pijs_connectors::http::address::SystemResolver;
use pijs_connectors::log::LogConnector;
use pijs_connectors::ports::UiPort;
use pijs_connectors::system::OsFileSystem;
use pijs_environment::Ambient;
use pijs_environment::Timer;
use pijs_host::{Host, HostOptions, Quotes, ReadableState, ReportKind};
use pijs_hostcall::{Dispatcher, Gate, Grant, Ledger, LedgerOptions, Places, Policy};
use pijs_llm::auth::{Auth, Nowhere};
use pijs_llm::known::Known;
use pijs_llm::models_json::ModelsJson;
use pijs_packages::{DiscoverOptions, ResourceOptions, resolve_extensions};
use pijs_session_store::{self, Body, Session};
use pijs_tools::system::OsToolSystem;
use scenario::{Fill, Scenario, SessionKind, UiMode};
use serde_json::{Value, json};
use servers::Listening;
use std::cell::Cell;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use trace::{Trace, present};
use ui::{KeyWork, RecordedUi};

/// Everything of one run.
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
    /// Steps that are being played.
    background: Cell<usize>,
}

/// `pi ext drive SCENARIO.json`
pub(crate) async fn print(environment: &Environment, args: &DriveArgs) -> Result<()> {
    let file = environment.dirs.cwd.join(&args.scenario);
    let scenario = Scenario::read(&file)?;
    let beside = file.parent().unwrap_or(&file).to_owned();
    let roots = Roots::new(&beside, args.compared.examples.as_ref(), args.compared.packages.as_ref(), None);
    let named = scenario.extensions.iter().map(|entry| roots.resolve(entry)).collect::<Result<Vec<_>>>()?;
    let base = tempfile::Builder::new()
        .prefix("drive-")
        .rand_bytes(6)
        .tempdir_in(&environment.temp)
        .map_err(|error| Failure::failed(format!("no folder in {}: {error}", environment.temp.display())))?;
    let stage = Stage::set(environment, &scenario, base.path())?;
    let document = stage.play(environment, args, scenario, roots, named).await?;
    stdout(&serde_json::to_string_pretty(&document).expect("JSON values print"));
    Ok(())
}

/// The surroundings of a scenario, with everything in place.
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
        std::fs::create_dir_all(&bin).map_err(|error| Failure::failed(format!("{}: {error}", bin.display())))?;
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
            .folder(&crate::words::pi_folder(&self.surroundings), "<pi>")
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
                .map_err(|error| Failure::failed(format!("normalise: {:?}: {error}", rule.pattern)))
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
        let Self { surroundings, base, fill, trace, .. } = self;
        let compiler = Compiler::new(environment);
        let supplier = Supplier::new(environment, compiler.cache());
        let timer: Arc<dyn Timer> = Arc::new(StillTimer::new(&scenario)?);
        // The session's clock is the extension's.
        let ambient = Ambient { timer: Arc::clone(&timer), ..Ambient::system() };
        let state = ReadableState::default();

        let session = match scenario.session {
            SessionKind::Memory => Session::in_memory(&surroundings.dirs.cwd, ambient.clone()),
            SessionKind::File => Session::create_in(&base.join("sessions"), &surroundings.dirs.cwd, ambient.clone()),
        };
        let sink: Arc<dyn StateSink> = Arc::new(Entries::new(trace.clone(), Arc::new(state.clone())));
        let control = AgentControl::new(session, sink, ambient.clone());
        // The catalogue is there, and no key for any of it.
        let no_keys = Auth::new(Arc::new(Nowhere), ambient.clone(), Default::default());
        control.set_known(Known::new(ModelsJson::default(), Arc::new(no_keys)));

        let answers = scenario.ui.answers.iter().map(|answer| fill.map(answer)).collect();
        let first_keys = keys::Keys::default();
        let (recorded, key_work) =
            RecordedUi::new(&scenario.ui, answers, trace.clone(), Arc::new(state.clone()), first_keys.clone());
        let recorded = (scenario.ui.mode != UiMode::None).then(|| Arc::new(recorded));
        let ui: Arc<dyn UiPort> = match &recorded {
            Some(recorded) => Arc::new(Announced::new(recorded.clone(), control.clone())),
            None => Arc::new(pijs_agent::ports::NoUi),
        };

        let ledger = Ledger::new(
            LedgerOptions { session_id: "drive".to_owned(), ..LedgerOptions::default() },
            Arc::new(NoLedger),
        );
        let dirs = &surroundings.dirs;
        let files_connector = Arc::new(FsConnector::new(Arc::new(OsFileSystem::new())));
        let programs = Arc::new(ExecConnector::new(ExecOptions::new(surroundings.variables.clone())));
        let (tools, tool_requests) =
            HostTools::new(Arc::clone(&files_connector), Arc::clone(&programs), dirs.cwd.clone());
        let record = Arc::new(exec::ExecRecord {
            scripted: scenario.exec.clone(),
            trace: trace.clone(),
            announced: Default::default(),
        });
        let log = Console {
            trace: trace.clone(),
            exec: Arc::clone(&record),
            log: Arc::new(LogConnector::new(ledger.clone(), Arc::clone(&timer))),
        };
        let exec = exec::RecordedExec { record, real: programs };
        let quotes = Quotes::default().with_functions(pijs_extc::Functions);
        let connectors = Connectors::new()
            .with("fs", files_connector)
            .with("exec", Arc::new(exec))
            .with("log", Arc::new(log))
            .tool(Arc::new(tools))
            .tools(Arc::new(control.clone()))
            .http(HttpOptions::default())
            .net(Arc::new(SystemResolver))
            .sqlite(Arc::new(OsFileSystem::new()))
            .env(surroundings.variables.clone())
            .timer(Arc::clone(&timer))
            .with("module", Arc::new(quotes.clone()))
            .ui(ui)
            .events(Arc::new(Bus(trace.clone())))
            .session(Arc::new(keys::SessionAfterKeys {
                session: control.clone(),
                keys: first_keys.clone(),
                patience: scenario.quiet(),
            }));
        let places = Places::new(&dirs.cwd, &dirs.home, &dirs.agent_dir, &surroundings.temp);
        let kept = pijs_session_store::file::directory(&dirs.agent_dir, &dirs.cwd);
        let gate = Gate::builder(Policy::default(), places)
            .environment(surroundings.variables.clone())
            .sessions(kept, Arc::new(control.clone()))
            .build();
        let granted = granted::grants(&base.join("sessions"));
        let dispatcher = Dispatcher::builder(gate, ledger, Arc::clone(&timer)).connectors(connectors.into_methods());
        let dispatcher = Arc::new(dispatcher.build());

        let mut facts = facts(&surroundings);
        facts.insert("observesEvents".to_owned(), true.into());
        let seed = match scenario.random {
            // JavaScript's `>>> 0`.
            Some(Some(seed)) => u64::from(seed.rem_euclid(4_294_967_296.0) as u32),
            None => 1,
            Some(None) => ambient.fraction().to_bits(),
        };
        let options =
            HostOptions { facts, seed, clock_step_us: 0, profile: args.compared.profile, ..HostOptions::default() };
        let host = Host::builder(compiler.host_modules()?, Arc::clone(&dispatcher), Arc::clone(&timer));
        let host = host
            .quotes(quotes)
            .realms(isolation::opener(args.compared.isolation, &surroundings, isolation::Terms::default()))
            .options(options)
            .state(state.clone())
            .observer(Rc::new(Errors(trace.clone())))
            .watchdog(
                WatchThread::start()
                    .map_err(|error| Failure::failed(format!("no thread to watch verdicts: {error}")))?,
            )
            .build();

        let extensions = Rc::new(HostExtensions::new(host.clone()));
        tokio::task::spawn_local(tool_requests.serve(extensions.clone()));
        let replies = scenario.model.iter().cloned().map(scenario::Reply::whole).collect();
        let (script, during) = Script::new(replies, scenario.chunk, fill.clone(), trace.clone(), prompts);
        let start = scenario.start_model.as_deref().unwrap_or("faux-1");
        let system_prompt = match &scenario.system_prompt {
            None => Some(scenario::SYSTEM_PROMPT.to_owned()),
            Some(prompt) => prompt.clone(),
        };
        let agent = Agent::new(
            AgentOptions {
                cwd: dirs.cwd.clone(),
                system_prompt,
                append_system_prompt: None,
                tools: Default::default(),
                mode: if recorded.is_some() { scenario.ui.mode.as_str() } else { "print" }.to_owned(),
                has_ui: recorded.is_some(),
                caps: Default::default(),
                asks: Default::default(),
                max_turns: MOST_TURNS,
                system: Arc::new(
                    OsToolSystem::new(
                        Ambient::system(),
                        surroundings.temp.clone(),
                        OwnShell::supervised(surroundings.variables.clone()),
                    )
                    .at_home(surroundings.dirs.home.clone()),
                ),
                ambient,
            },
            extensions,
            Arc::new(ScriptedModel::new(start, script.clone())),
            control.clone(),
            Box::new(Events { trace: trace.clone(), updates: scenario.updates }),
        );
        for id in ["faux-1", "faux-2"] {
            agent.add_model(Arc::new(ScriptedModel::new(id, script.clone())));
        }
        let mut words = Words::clone(&*crate::words::of_start(environment, &compiler).await);
        words.pi_folder = Some(crate::words::pi_folder(&surroundings).display().to_string());
        agent.set_words(Arc::new(words));
        agent.set_initial_thinking(scenario.thinking.as_deref().unwrap_or("off"));
        agent.insist_on_model();
        let mut quiet = Settings::default();
        (quiet.compaction.enabled, quiet.retry.enabled) = (false, false);
        agent.set_settings(crate::grants::agent_settings(quiet, &scenario.settings));
        let shutdowns = trace.clone();
        control.on_shutdown(move || {
            shutdowns.record("shutdown_requested", json!({}));
        });
        let driver = Rc::new(Driver {
            keys: first_keys,
            scenario,
            fill,
            trace,
            surroundings,
            host,
            agent,
            control,
            state,
            script,
            ui: recorded,
            background: Cell::new(0),
        });
        driver.clone().serve(key_work, during);
        let host = driver.host.clone();
        let (before, ending) = host
            .run(async {
                driver.load(&dispatcher, &compiler, &supplier, &granted, &named).await;
                driver.place(&named);
                // What extensions write while they are loaded was there when the session began.
                let dirs = &driver.surroundings.dirs;
                let before = files::list(&dirs.cwd, &dirs.home);
                (before, driver.agent.attend(driver.run()).await)
            })
            .await;
        let document = driver.document(ending, &before);
        normaliser = normaliser.numbering(driver.trace.entry_ids());
        Ok(normaliser.document(document))
    }
}

impl Driver {
    /// Presses keys and plays the steps inside model calls, whenever they come up.
    fn serve(
        self: Rc<Self>,
        mut key_work: mpsc::UnboundedReceiver<KeyWork>,
        mut during: mpsc::UnboundedReceiver<During>,
    ) {
        let driver = Rc::clone(&self);
        tokio::task::spawn_local(async move {
            while let Some(work) = key_work.recv().await {
                let driver = Rc::clone(&driver);
                tokio::task::spawn_local(async move { driver.press_keys(work).await });
            }
        });
        tokio::task::spawn_local(async move {
            while let Some(During { call, steps, done }) = during.recv().await {
                let driver = Rc::clone(&self);
                tokio::task::spawn_local(async move {
                    for (index, step) in steps.iter().enumerate() {
                        driver.step(step, &format!("llm{call}.{index}"), true).await;
                    }
                    // A call that was given up waits for nothing.
                    let _ = done.send(());
                });
            }
        });
    }

    /// Loads the extensions; what fails is part of the trace.
    async fn load(
        &self,
        dispatcher: &Dispatcher,
        compiler: &Compiler,
        supplier: &Supplier,
        granted: &[Grant],
        named: &[PathBuf],
    ) {
        // Told when all are loaded.
        let failures = RefCell::new(Vec::new());
        let failed = |path: &str, message: &str| {
            failures.borrow_mut().push(json!({"path": path, "error": trace::first_line(message)}));
        };
        let reports = self.host.reports();
        for path in named {
            let found = resolve_extensions(&DiscoverOptions {
                dirs: self.surroundings.dirs.clone(),
                named: vec![path.display().to_string()],
                only_named: true,
                trusted: false,
            });
            for problem in &found.refused {
                failed(&path.display().to_string(), &problem.message);
            }
            for found in &found.packages {
                let loaded = async {
                    let built =
                        Built::in_session(compiler, dispatcher, found, (granted, Vec::new()))?.shown_as_named(found);
                    built.load_granted((&self.host, dispatcher), supplier, granted).await
                };
                match loaded.await {
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
        for failure in failures.take() {
            self.trace.record("load_error", failure);
        }
        let flags = self.scenario.flags.iter().map(|(name, value)| (name.clone(), value.as_str().map(str::to_owned)));
        for message in give_flags(&self.host, flags) {
            self.trace.record("diagnostic", json!({"level": "error", "message": message}));
        }
    }

    /// Skills and prompts of the packages count always, everything else only where the scenario says so.
    fn place(&self, named: &[PathBuf]) {
        let dirs = &self.surroundings.dirs;
        let all = self.scenario.resources;
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
        self.agent.set_places(ResourcePlaces {
            agent_dir: all.then(|| dirs.agent_dir.clone()),
            project: all.then(|| dirs.cwd.clone()),
            context_files: all,
            trusted: true,
            told_trusted: true,
            protected: None,
            found_by: Some((options, asked)),
        });
    }

    /// Opens the session, plays the steps, closes it. Gives what `final` says of the moment before the end.
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
                    let parent = parent.map(|parent| session.place(parent).map_or(json!("?"), |place| json!(place)));
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
            let leaf = session.leaf().and_then(|leaf| session.place(leaf));
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

/// `output` items keep their escape sequences, written as JSON escapes.
fn shown_output(mut item: Value) -> Value {
    if item["t"] == "output" {
        let text = item["text"].to_string();
        item["text"] = text[1..text.len() - 1].into();
    }
    item
}
