//! `pi replay` and `pi tape`: recorded sessions. `pi --tape FILE` records one.

use crate::args::isolation;
use crate::output::{clean, stderr, stdout};
use clap::{Args, Subcommand};
use pijs_runtime::tape::{ReplayStage, open, unplayable, unreadable};
use pijs_runtime::{Environment, Failure, Isolation, Result};
use pijs_tape::{Outcome, Replay, ReplayOptions, Summary};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// `pi replay TAPE`
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// Recording, made by `pi --tape FILE`
    pub(crate) tape: PathBuf,
    /// Stop after this turn, and say where each extension stands
    #[arg(long, value_name = "TICK")]
    pub(crate) until: Option<u64>,
    /// Play this extension, a folder or a file, in the place of the recorded one of its name
    #[arg(long, value_name = "EXTENSION")]
    pub(crate) against: Option<PathBuf>,
    /// Kind of realms that extension code runs in
    #[arg(long, value_parser = isolation(), default_value_t)]
    pub(crate) isolation: Isolation,
    /// Replay a tape of another build of pi all the same; differences are to be expected
    #[arg(long)]
    pub(crate) accept_build: bool,
    /// Machine output
    #[arg(long)]
    pub(crate) json: bool,
}

/// `pi tape ...`
#[derive(Debug, Subcommand)]
pub(crate) enum TapeCommand {
    /// Say what a tape holds
    Info {
        /// Recording, made by `pi --tape FILE`
        tape: PathBuf,
        /// Machine output
        #[arg(long)]
        json: bool,
    },
}

/// `pi tape ...`
pub(crate) fn run(environment: &Environment, command: TapeCommand) -> Result<()> {
    match command {
        TapeCommand::Info { tape, json } => info(&environment.dirs.cwd.join(tape), json),
    }
}

/// `pi replay TAPE`: exit code 0 when the replay makes what was recorded.
pub(crate) async fn replay(environment: &Environment, args: &ReplayArgs) -> Result<()> {
    let path = &environment.dirs.cwd.join(&args.tape);
    let tape = open(path)?;
    in_time_zone(environment, args, &tape.header().time_zone)?;
    let stage = ReplayStage::prepare(environment, path, args.isolation).await?;
    let stage = match &args.against {
        Some(entry) => stage.against(environment, path, &environment.dirs.cwd.join(entry)).await?,
        None => stage,
    };
    let options = ReplayOptions { until: args.until, accept_build: args.accept_build };
    let begin = Instant::now();
    let played = Replay::new(tape, &stage, options).and_then(Replay::run).map_err(|error| unplayable(path, &error))?;
    let replayed_us = u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX);
    if args.json {
        stdout(&document(&played, replayed_us).to_string());
    } else {
        if played.cut {
            stderr("note: the recording was cut off; it was replayed up to its last whole block");
        }
        if args.until.is_some() {
            states(&played);
        }
    }
    let counts = counts(&played);
    match &played.divergence {
        None if args.json => Ok(()),
        None => {
            let (recorded, replayed) = (seconds(played.recorded_us), seconds(replayed_us));
            stdout(&format!("{counts}: equal; recorded in {recorded}, replayed in {replayed}"));
            Ok(())
        }
        Some(divergence) => {
            Err(Failure::failed(clean(&format!("the replay differs from the recording\n{divergence}")))
                .help("the extension, its modules or pi changed; `pi tape info` says what was recorded"))
        }
    }
}

/// A realm in this thread has the time zone of the process, so the process begins once more in the recorded one.
#[cfg(unix)]
fn in_time_zone(environment: &Environment, args: &ReplayArgs, zone: &str) -> Result<()> {
    use std::os::unix::process::CommandExt as _;
    if args.isolation != Isolation::Thread || environment.variables.get("TZ").is_some_and(|here| here == zone) {
        return Ok(());
    }
    let program = std::env::current_exe().map_err(|error| Failure::failed(format!("no program to run: {error}")))?;
    let error = std::process::Command::new(program).args(std::env::args_os().skip(1)).env("TZ", zone).exec();
    Err(Failure::failed(format!("the time zone {zone} cannot be set: {error}")).help("use --isolation process"))
}

#[cfg(not(unix))]
fn in_time_zone(_: &Environment, _: &ReplayArgs, _: &str) -> Result<()> {
    Ok(())
}

fn counts(played: &Outcome) -> String {
    let Outcome { realms, ticks, records, skipped, .. } = played;
    let skipped = match skipped {
        0 => String::new(),
        skipped => format!(" ({skipped} ended by a kill, not entered)"),
    };
    format!("{realms} {}, {ticks} ticks{skipped}, {records} records", if *realms == 1 { "realm" } else { "realms" })
}

/// Says where each realm stands.
fn states(played: &Outcome) {
    for state in &played.states {
        let timers: Vec<String> = state.timers.keys().map(|timer| timer.0.to_string()).collect();
        let calls: Vec<String> = state.calls.iter().map(|(id, method)| format!("{id} {method}")).collect();
        let list = |list: Vec<String>| if list.is_empty() { "none".to_owned() } else { list.join(", ") };
        let (realm, seq) = (&state.realm, state.seq.0);
        stdout(&clean(&format!("{realm}: turn {seq}; timers: {}; calls in flight: {}", list(timers), list(calls))));
    }
}

fn document(played: &Outcome, replayed_us: u64) -> Value {
    let mut document = serde_json::to_value(played).unwrap_or_default();
    document["equal"] = played.divergence.is_none().into();
    document["replayed_us"] = replayed_us.into();
    document
}

/// `pi tape info TAPE`
fn info(path: &Path, as_json: bool) -> Result<()> {
    let mut tape = open(path)?;
    let size = path.metadata().map_or(0, |file| file.len());
    let summary = Summary::of(&mut tape).map_err(|error| unreadable(path, &error))?;
    let header = tape.header();
    if as_json {
        stdout(&json!({ "header": header, "bytes": size, "summary": summary }).to_string());
        return Ok(());
    }
    let engine = &header.engine;
    let recorded = pijs_environment::iso(header.epoch_ms);
    stdout(&clean(&format!(
        "recorded {recorded} by pi {} ({}, isolation {})",
        header.pi, header.schema, header.isolation
    )));
    stdout(&clean(&format!(
        "engine   {} {} (bytecode {}, {})",
        engine.name, engine.version, engine.bytecode, engine.target
    )));
    stdout(&clean(&format!("modules  {}", header.host_modules)));
    stdout(&clean(&format!("policy   {}; profile {}; time zone {}", header.policy, header.profile, header.time_zone)));
    let is_whole = if summary.complete { "" } else { "; cut off" };
    let (ticks, records, lasted) = (summary.ticks, summary.records, seconds(summary.duration_us));
    stdout(&format!("length   {ticks} ticks, {records} records, {lasted}, {size} bytes{is_whole}"));
    for realm in &summary.realms {
        let ended = realm.ended.as_ref().map(|reason| format!(", {reason}")).unwrap_or_default();
        stdout(&clean(&format!("realm {}  {}: {} ticks{ended}", realm.realm.0, realm.extension, realm.ticks)));
    }
    for kind in &summary.kinds {
        stdout(&clean(&format!("{:>8}  {}", kind.records, kind.kind)));
    }
    Ok(())
}

fn seconds(microseconds: u64) -> String {
    let milliseconds = microseconds / 1000;
    format!("{}.{:03} s", milliseconds / 1000, milliseconds % 1000)
}
