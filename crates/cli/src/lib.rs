//! The commands `pi` and `extc`: argument parsing and wiring, without decisions of their own.
//!
//! This is a library, so that the attack suite can build the same command with guards that can be switched off.
//!
//! One program has three front ends over the same session ([`pijs_runtime::SessionBuilder`]): `-p` (`print.rs`), `--mode rpc`
//! (`rpc/`: every command of pi's protocol document) and a terminal (`pijs-tui`). Each provides a `UiPort` and a `Prompter`. If
//! no user can answer, both answer as pi does.

#![warn(missing_docs)]

mod args;
mod consent;
mod demo;
mod export;
mod extc_command;
mod grant_commands;
mod help;
mod inspect;
mod ledger;
mod limits;
mod logging;
mod mcp;
mod models;
mod output;
mod packages;
mod preconditions;
mod print;
mod prompts;
mod rpc;
mod rules;
mod rummy;
mod session;
mod supply_command;
mod tape;
mod tape_tests;
mod terminal;
mod trust;

use args::{Cli, Command, ExtCommand, ExtensionFlag, LedgerCommand};
use clap::Parser;
use pijs_conformance::{drive, snapshot};
use pijs_runtime::{Environment, Exit, Notices, Result, UserError};
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

/// Runs the command with the arguments and the environment of this process.
///
/// Does not return in a process that was started as a sandboxed realm or a supervisor.
pub fn main() -> ExitCode {
    // A sandboxed realm, and the supervisor of an extension's program, run this program again; they do not return from here.
    pijs_realm::worker::enter();
    pijs_connectors::exec::supervisor::enter();
    pijs_extc::worker::enter();
    preconditions::raise_open_files();
    if let Err(failure) = preconditions::check() {
        output::stderr(&failure.to_string());
        return ExitCode::from(failure.exit.code());
    }
    let words: Vec<OsString> = std::env::args_os().collect();
    if let Err(failure) = args::misspelt_command(&words) {
        output::stderr(&failure.to_string());
        return ExitCode::from(failure.exit.code());
    }
    let (argv, flags) = args::split_extension_flags(words);
    if let Err(failure) = args::misspelt_help(&flags) {
        output::stderr(&failure.to_string());
        return ExitCode::from(failure.exit.code());
    }
    let wants_help = help::without_help(&argv);
    let helps = wants_help.is_some();
    let cli = match Cli::try_parse_from(wants_help.unwrap_or(argv)) {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    match run(cli, flags, helps) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !matches!(failure.exit, Exit::Left(_)) {
                output::stderr(&failure.to_string());
            }
            ExitCode::from(failure.exit.code())
        }
    }
}

/// Runs the command `extc`.
///
/// Does not return in a process that was started as a build worker.
pub fn extc() -> ExitCode {
    pijs_extc::worker::enter();
    let (out, mut err) = (std::io::stdout(), std::io::stderr());
    match extc_command::run(std::env::args_os(), &mut out.lock(), &mut err) {
        Ok(code) => ExitCode::from(code),
        // The output was closed, so the error cannot be reported.
        Err(_) => ExitCode::FAILURE,
    }
}

/// Creates the runtime of a command, on a single thread or on several.
fn runtime(is_single: bool) -> Result<tokio::runtime::Runtime> {
    let mut runtime = match is_single {
        true => tokio::runtime::Builder::new_current_thread(),
        false => tokio::runtime::Builder::new_multi_thread(),
    };
    runtime
        .worker_threads(2)
        // Helper threads are kept: if the system cannot start more, work waits for one.
        .max_blocking_threads(256)
        .thread_keep_alive(Duration::MAX)
        .enable_all()
        .build()
        .map_err(|error| UserError::failed(format!("no runtime: {error}")))
}

fn run(cli: Cli, flags: Vec<ExtensionFlag>, helps: bool) -> Result<()> {
    let mut environment = Environment::capture()?;
    environment.notices = Notices::new(output::stderr).with_progress(output::progress);
    logging::install(
        &environment,
        cli.run.log_json.as_deref(),
        cli.command.as_ref().map_or("session", args::Command::name),
    )?;
    environment.log = cli.run.log_json.as_deref().map(|path| environment.dirs.cwd.join(path));
    environment.trusts = cli.run.trust();
    environment.session_dir.clone_from(&cli.run.session.session_dir);
    environment.session.clone_from(&cli.run.session.session);
    if cli.run.offline {
        environment.variables.insert("PI_OFFLINE".to_owned(), "1".to_owned());
    }
    // A trace keeps the order of requests, which requires a single thread.
    let runtime = runtime(matches!(cli.command, Some(Command::Ext(ExtCommand::Drive(_)))))?;
    // Extensions and the agent stay on this thread; the runtime's own threads do the waiting.
    let local = tokio::task::LocalSet::new();
    let result = local.block_on(&runtime, async {
        match cli.command {
            None if helps => help::print(&environment, cli.run, flags).await,
            None => print::run(&environment, cli.run, flags).await,
            Some(Command::Install(args)) => packages::install_all(&environment, &args).await,
            Some(Command::Update(args)) => packages::update(&environment, &args).await,
            Some(Command::Remove(args)) => packages::remove(&environment, &args),
            Some(Command::List { json }) => packages::list(&environment, json),
            Some(Command::Mcp(command)) => mcp::run(&environment, command).await,
            Some(Command::Trust { remove }) => trust::change(&environment, remove),
            Some(Command::Ext(ExtCommand::List { extensions, json })) => {
                packages::loaded(&environment, extensions, json)
            }
            Some(Command::Ext(ExtCommand::Show { extension, json })) => packages::show(&environment, &extension, json),
            Some(Command::Ext(ExtCommand::Ledger(LedgerCommand::Verify { file, json }))) => {
                ledger::verify(&environment, file.as_deref(), json)
            }
            Some(Command::Ext(ExtCommand::Grants(args))) => grant_commands::grants(&environment, &args),
            Some(Command::Ext(ExtCommand::Explain(args))) => grant_commands::explain(&environment, &args),
            Some(Command::Ext(ExtCommand::Limits { json })) => limits::print(&environment, json),
            Some(Command::Ext(ExtCommand::Supply { licences })) => {
                supply_command::print(&environment, licences.as_deref()).await
            }
            Some(Command::Ext(ExtCommand::Drive(args))) => match &args.schedule {
                Some(schedule) => tape::run_schedule(&environment, &args, schedule).await,
                None => drive::play(&environment, &args).await.map(|text| output::stdout(&text)),
            },
            Some(Command::Ext(ExtCommand::Snapshot(args))) => {
                snapshot::take(&environment, &args).await.map(|text| output::stdout(&text))
            }
            Some(Command::Rules(command)) => rules::run(&environment, command),
            Some(Command::Rummy(command)) => rummy::run(&environment, command).await,
            Some(Command::Replay(args)) => tape::replay(&environment, &args).await,
            Some(Command::Tape(command)) => tape::run(&environment, command).await,
            Some(Command::Inspect(args)) => inspect::run(&environment, &args),
            Some(Command::Config { .. }) => Err(help::no_config()),
            Some(Command::Auth { .. }) => Err(help::no_auth()),
            Some(Command::Demo { json }) => demo::run(&environment, json).await,
        }
    });
    drop(local);
    // A dialog may still wait for a line on stdin; it must not delay the exit.
    runtime.shutdown_background();
    result
}
