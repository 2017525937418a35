//! `pi rummy`: runs, plugins and entries of the rummy dialect.

use crate::output::{clean, indented, stderr, stdout};
use crate::terminal::{Terminal, at_once};
use clap::{Args, Subcommand};
use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;
use pijs_environment::Ambient;
use pijs_rummy::session::{database, find_plugins, open_store, project_plugins};
use pijs_rummy::{
    Decision, EntryConnector, ExternalPlugin, Notification, Proposal, RummyError, RummySession, RunClient, RunFlags,
    RunMode, RunOutcome, RunRequest, SessionOptions, Writer,
};
use pijs_runtime::{
    Environment, ExtensionConfig, Isolation, ModelConfig, Permissions, Result, SessionConfig, UserError,
};
use serde_json::{Value, json};
use std::path::PathBuf;

/// `pi rummy ...`
#[derive(Debug, Subcommand)]
pub(crate) enum RummyCommand {
    /// Run one prompt to its end
    Run(RunCommand),
    /// Serve the client protocol over a WebSocket on this machine
    Serve(ServeCommand),
    /// Write an example plugin to .pi/rummy/plugins
    Init,
    /// List the loaded plugins and their registrations
    Plugins {
        #[command(flatten)]
        common: CommonArgs,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the entries of a run
    Entries {
        /// Name of the run; by default, the latest run of this folder
        #[arg(long)]
        run: Option<String>,
        /// Paths to list, as a pattern of rummy: known://*, src/**
        #[arg(default_value = "**")]
        pattern: String,
        /// Print JSON, with bodies
        #[arg(long)]
        json: bool,
    },
    /// Show the entries of a run in order
    Log {
        /// Name of the run; by default, the latest run of this folder
        #[arg(long)]
        run: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Options of commands that load plugins.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct CommonArgs {
    /// Also load the plugins below a folder; repeatable
    #[arg(long, value_name = "FOLDER")]
    plugins: Vec<PathBuf>,
    /// Also load an extension of pi, with its handlers of streams and calls; repeatable
    #[arg(short, long, value_name = "PATH")]
    extension: Vec<String>,
    /// Record the realms to a file, for pi replay
    #[arg(long, value_name = "FILE")]
    tape: Option<PathBuf>,
    /// Do not load the bundled plugins
    #[arg(long)]
    no_bundled: bool,
    /// Version of rummy that plugins see: 2.x or 0.5
    #[arg(long, value_name = "LINE", default_value = "2.x")]
    dialect: String,
    /// Let an error of a plugin end its hook's operation, as under rummy
    #[arg(long)]
    faithful: bool,
    /// Grant a capability: exec:bash, write:docs/**, http:api.github.com; repeatable
    #[arg(long, value_name = "CAP[:SCOPE]")]
    allow: Vec<String>,
    /// Refuse a capability; repeatable
    #[arg(long, value_name = "CAP")]
    deny: Vec<String>,
    /// Isolation of plugin code
    #[arg(long, value_parser = crate::args::values::isolation(), default_value_t)]
    isolation: Isolation,
    /// Model to use: PROVIDER/ID, an id or a part of one, or script:FILE for a recorded reply
    #[arg(long, value_name = "PROVIDER/ID")]
    model: Option<String>,
    /// Key for the model's provider
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    api_key: Option<String>,
    /// Address of the provider's API
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
}

/// `pi rummy run PROMPT`
#[derive(Debug, Args)]
pub(crate) struct RunCommand {
    /// Task to do; if omitted, the run of --run continues where it was interrupted
    #[arg(required_unless_present = "run")]
    prompt: Option<String>,
    /// Name of the run; an existing run is continued
    #[arg(long, value_name = "NAME")]
    run: Option<String>,
    /// Do not change files or run commands that change something
    #[arg(long)]
    ask: bool,
    /// Accept every proposal without a prompt
    #[arg(long)]
    yolo: bool,
    /// Disable everything that needs acceptance
    #[arg(long)]
    no_proposals: bool,
    /// Print one notification per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    common: CommonArgs,
}

/// `pi rummy serve`
#[derive(Debug, Args)]
pub(crate) struct ServeCommand {
    /// Port on 127.0.0.1; 0 selects a free one
    #[arg(long, default_value_t = 3044)]
    port: u16,
    /// Folder that clients may work in; repeatable; by default, the working folder
    #[arg(long, value_name = "FOLDER")]
    project: Vec<PathBuf>,
    #[command(flatten)]
    common: CommonArgs,
}

impl CommonArgs {
    fn options(self) -> SessionOptions {
        let config = SessionConfig {
            permissions: Permissions { allow: self.allow, deny: self.deny, ..Permissions::default() },
            isolation: self.isolation,
            extensions: ExtensionConfig { named: self.extension, ..ExtensionConfig::default() },
            tape: self.tape,
            model: ModelConfig {
                name: self.model,
                api_key: self.api_key,
                base_url: self.base_url,
                ..ModelConfig::default()
            },
            ..SessionConfig::default()
        };
        SessionOptions {
            config,
            plugins: self.plugins,
            profile: self.dialect,
            bundled: !self.no_bundled,
            faithful: self.faithful,
            in_memory: false,
        }
    }
}

pub(crate) async fn run(environment: &Environment, command: RummyCommand) -> Result<()> {
    match command {
        RummyCommand::Run(args) => prompt(environment, args).await,
        RummyCommand::Serve(args) => serve(environment, args).await,
        RummyCommand::Init => init(environment),
        RummyCommand::Plugins { common, json } => plugins(environment, common, json).await,
        RummyCommand::Entries { run, pattern, json } => entries(environment, run.as_deref(), &pattern, json),
        RummyCommand::Log { run, json } => log(environment, run.as_deref(), json),
    }
}

/// The user at a terminal; without a user, every proposal is rejected.
struct AtTerminal {
    terminal: Option<Terminal>,
    json: bool,
}

impl RunClient for AtTerminal {
    fn notify(&self, _: i64, notification: &Notification) {
        match notification {
            _ if self.json => stdout(&notification.message().to_string()),
            Notification::RunProgress { turn, status, .. } if status == "thinking" => stderr(&format!("turn {turn}")),
            _ => {}
        }
    }

    fn decide<'a>(&'a self, proposal: &'a Proposal) -> LocalBoxFuture<'a, Decision> {
        async move {
            let Some(terminal) = self.terminal.clone() else {
                stderr(&clean(&format!(
                    "rejected, because there is no user to ask: {} {}",
                    proposal.action, proposal.path
                )));
                return Decision::Reject(Some("there was no user to ask; --yolo accepts".to_owned()));
            };
            let text = |key: &str| proposal.attributes.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            let is_question = proposal.action == "ask_user";
            let shown = match proposal.action.as_str() {
                "sh" | "env" => text("command"),
                "ask_user" => {
                    let options = proposal.attributes.get("options").and_then(Value::as_array);
                    let options =
                        options.into_iter().flatten().filter_map(Value::as_str).map(|one| format!("\n- {one}"));
                    format!("{}{}", text("question"), options.collect::<String>())
                }
                _ => proposal.body.clone(),
            };
            let asks = if is_question { "answer, or Enter for none: " } else { "accept? y or n; Enter is no: " };
            let question =
                format!("\n== {} ({})\n{}\n== {asks}", proposal.action, proposal.alias, indented(&clean(&shown)));
            // A line that was typed ahead must not grant anything, but is accepted as an answer to the model.
            let line = tokio::task::spawn_blocking(move || match is_question {
                true => terminal.ask(&question),
                false => terminal.answer(&question),
            });
            let line = line.await.ok().flatten();
            match (is_question, line.unwrap_or_default()) {
                (true, line) if line.is_empty() => Decision::Reject(Some("no answer".to_owned())),
                (true, line) => Decision::Accept(Some(line)),
                (false, line) if matches!(line.as_str(), "y" | "yes") => Decision::Accept(None),
                (false, _) => Decision::Reject(None),
            }
        }
        .boxed_local()
    }
}

fn failed(error: RummyError) -> UserError {
    match error {
        RummyError::Session(failure) => failure,
        RummyError::Missing { .. } => UserError::usage(clean(&error.to_string())),
        other => UserError::failed(clean(&other.to_string())),
    }
}

/// Returns the plugins of rummy that have separate realms and grants here.
pub(crate) fn external_plugins(environment: &Environment) -> Result<Vec<ExternalPlugin>> {
    let is_named =
        environment.variables.iter().any(|(name, value)| name.starts_with("RUMMY_PLUGIN_") && !value.is_empty());
    match is_named {
        true => Ok(find_plugins(environment, &[]).map_err(failed)?.externals().to_vec()),
        false => Ok(Vec::new()),
    }
}

/// Opens a session; its gate prompts at the terminal, if there is one.
async fn open(environment: &Environment, common: CommonArgs) -> Result<RummySession> {
    let interface = at_once(environment, true, Box::new(pijs_agent::NoFrontEnd));
    RummySession::open(environment, common.options(), interface).await.map_err(failed)
}

async fn prompt(environment: &Environment, args: RunCommand) -> Result<()> {
    let session = open(environment, args.common).await?;
    let can_ask = environment.stdin_is_terminal && environment.stderr_is_terminal;
    let client = AtTerminal { terminal: can_ask.then(Terminal::default), json: args.json };
    let flags = RunFlags { yolo: args.yolo, no_proposals: args.no_proposals, ..RunFlags::default() };
    let mode = if args.ask { RunMode::Ask } else { RunMode::Act };
    let alias = args.run.unwrap_or_else(|| format!("run_{}", Ambient::system().epoch_ms()));
    let request = args.prompt.map(|prompt| RunRequest { alias: alias.clone(), prompt, mode, flags });
    let outcome = session.realm().run(async {
        let driver = session.driver(&client).await?;
        let cancel = driver.cancel().clone();
        let run = async {
            let root = environment.dirs.cwd.clone();
            match &request {
                Some(request) => {
                    let project = driver.project(&root.display().to_string(), root).await?;
                    driver.run(&project, request).await
                }
                None => continued(&session, &driver, &alias).await,
            }
        };
        tokio::select! {
            outcome = run => outcome,
            _ = async { tokio::signal::ctrl_c().await.ok(); cancel.cancel(); std::future::pending::<()>().await } => {
                unreachable!("the other branch ends the run")
            }
        }
    });
    let outcome = outcome.await.map_err(failed);
    session.close();
    let outcome = outcome?;
    if let Some(summary) = outcome.summary.as_deref().filter(|_| !args.json) {
        crate::output::reply(summary);
    }
    if matches!(outcome.status, 200 | 204) {
        return Ok(());
    }
    let reason = outcome.reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    let message = format!("the run {} ended with {}{reason}", outcome.alias, outcome.status);
    Err(UserError::failed(clean(&message))
        .help(format!("see what it did: pi rummy log --run {}", clean(&outcome.alias))))
}

/// Continues a run that was interrupted.
async fn continued(
    session: &RummySession,
    driver: &pijs_rummy::RunDriver<'_>,
    alias: &str,
) -> std::result::Result<RunOutcome, RummyError> {
    let run = session.realm().entries().with(|store| store.run_by_alias(alias))?;
    let run = run.ok_or_else(|| RummyError::Absent(format!("run {alias}; pi rummy log lists the last one")))?;
    let outcome = driver.drain(run).await?;
    outcome.ok_or_else(|| RummyError::Absent(format!("prompt of {alias} that was interrupted; give it a new one")))
}

async fn serve(environment: &Environment, args: ServeCommand) -> Result<()> {
    let folders = match args.project.is_empty() {
        true => vec![environment.dirs.cwd.clone()],
        false => args.project,
    };
    let mut sessions = Vec::new();
    for folder in folders {
        let named = folder.canonicalize();
        let cwd = named.map_err(|error| UserError::usage(format!("{}: {error}", folder.display())))?;
        let mut of_folder = environment.clone();
        of_folder.dirs.cwd = cwd;
        sessions.push(open(&of_folder, args.common.clone()).await?);
    }
    let stop = async { drop(tokio::signal::ctrl_c().await) };
    let served = pijs_rummy::server::serve(&sessions, args.port, stdout, stop).await.map_err(failed);
    sessions.into_iter().for_each(RummySession::close);
    served
}

/// The plugin that `pi rummy init` writes.
const EXAMPLE: &str = include_str!("../demo/hello.rummy.js");

fn init(environment: &Environment) -> Result<()> {
    let folder = project_plugins(environment).join("hello");
    let file = folder.join("hello.js");
    if file.exists() {
        return Err(UserError::usage(format!("{} already exists", file.display())).help("edit it, or remove it first"));
    }
    let written = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&file, EXAMPLE));
    written.map_err(|error| UserError::failed(format!("{}: {error}", file.display())))?;
    stdout(&format!("wrote {}", file.display()));
    stdout("next: pi trust, then pi rummy plugins");
    Ok(())
}

async fn plugins(environment: &Environment, common: CommonArgs, as_json: bool) -> Result<()> {
    let session = open(environment, common).await?;
    let loaded = session.realm().run(session.realm().loaded()).await.map_err(failed);
    session.close();
    let loaded = loaded?;
    if as_json {
        let listed: Vec<Value> = loaded
            .plugins
            .iter()
            .map(|one| json!({ "name": one.name, "path": one.path, "kind": one.kind, "error": one.error, "schemes": one.schemes }))
            .collect();
        stdout(&json!({ "plugins": listed, "tools": loaded.tools, "advertised": loaded.advertised, "hooks": loaded.hooks }).to_string());
        return Ok(());
    }
    for plugin in &loaded.plugins {
        let state = match (plugin.kind.as_str(), &plugin.error) {
            ("failed", Some(error)) => format!("not loaded: {}", clean(error)),
            ("none", _) => "no plugin".to_owned(),
            _ => String::new(),
        };
        stdout(format!("{:16} {} {state}", clean(&plugin.name), clean(&plugin.path)).trim_end());
    }
    stdout(&format!("\ntools: {}", clean(&loaded.advertised.join(", "))));
    Ok(())
}

/// Opens the entries of this folder for reading, and finds a run.
fn read(environment: &Environment, run: Option<&str>) -> Result<(EntryConnector, i64)> {
    let file = database(environment);
    if !file.is_file() {
        return Err(UserError::failed("there are no runs in this folder").help("start one: pi rummy run 'PROMPT'"));
    }
    let entries = open_store(environment, "2.x", false, &Ambient::system()).map_err(failed)?;
    let found = entries.with(|store| match run {
        Some(alias) => store.run_by_alias(alias),
        None => store.latest_run(),
    });
    let missing = || match run {
        Some(alias) => UserError::failed(format!("there is no run {}", clean(alias))),
        None => UserError::failed("there are no runs in this folder").help("start one: pi rummy run 'PROMPT'"),
    };
    Ok((entries, found.map_err(failed)?.ok_or_else(missing)?))
}

fn asked(entries: &EntryConnector, method: &str, args: &Value) -> Result<Vec<Value>> {
    let answer = entries.with(|store| store.entries(method, args, Writer::System)).map_err(failed)?;
    Ok(answer.as_array().cloned().unwrap_or_default())
}

fn text<'a>(row: &'a Value, key: &str) -> &'a str {
    row[key].as_str().unwrap_or_default()
}

fn entries(environment: &Environment, run: Option<&str>, pattern: &str, as_json: bool) -> Result<()> {
    let (store, id) = read(environment, run)?;
    for row in asked(&store, "getEntriesByPattern", &json!([id, pattern]))? {
        if as_json {
            stdout(&row.to_string());
            continue;
        }
        let outcome = row["outcome"].as_str().map(|outcome| format!(" ({outcome})")).unwrap_or_default();
        let line = format!(
            "{:10} {:10} {:>6}  {}{outcome}",
            text(&row, "state"),
            text(&row, "visibility"),
            row["tokens"],
            text(&row, "path")
        );
        stdout(&clean(&line));
    }
    Ok(())
}

fn log(environment: &Environment, run: Option<&str>, as_json: bool) -> Result<()> {
    let (store, id) = read(environment, run)?;
    for row in asked(&store, "getLog", &json!([id]))? {
        if as_json {
            stdout(&row.to_string());
            continue;
        }
        let outcome = row["outcome"].as_str().map(|outcome| format!(" {outcome}")).unwrap_or_default();
        stdout(&clean(&format!("turn {} {} {}{outcome}", row["turn"], text(&row, "path"), text(&row, "state"))));
        text(&row, "body").lines().for_each(|line| stdout(&clean(&format!("    {line}"))));
    }
    Ok(())
}
