//! `pi replay` and `pi tape`: recorded sessions. `pi --tape FILE` records one.

use crate::args::values::isolation;
use crate::output::{clean, stderr, stdout};
use crate::tape_tests::untested;
use clap::{Args, Subcommand};
use pijs_conformance::drive::DriveArgs;
use pijs_redact::Redactor;
use pijs_runtime::tape::{ReplayStage, open, unplayable, unreadable};
use pijs_runtime::{AgentOutcome, Environment, Isolation, Result, UserError, replay_agent, similar_names};
use pijs_tape::{
    Case, Kept, Outcome, RealmNumber, Replay, ReplayOptions, Spans, Summary, TapeError, TapeIndex, TapeReader,
};
use pijs_terminal::counted;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufReader, BufWriter, Seek as _, SeekFrom};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Instant;
use tokio::task::LocalSet;

/// Maximum number of characters of a session entry that are shown.
const SHOWN: usize = 120;

/// `pi replay TAPE`
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// Recording, made by `pi --tape FILE`
    pub(crate) tape: PathBuf,
    /// Stop after this turn, and print the state of each extension
    #[arg(long, value_name = "TICK")]
    pub(crate) until: Option<u64>,
    /// Compare from this turn on; extensions that had stopped before are not run
    #[arg(long, value_name = "TICK", conflicts_with = "against")]
    pub(crate) from: Option<u64>,
    /// Run this extension, a folder or a file, in place of the recorded one with its name
    #[arg(long, value_name = "EXTENSION")]
    pub(crate) against: Option<PathBuf>,
    /// Isolation of extension code. Without this option the tape runs in its usual isolation, and after a difference again in this
    /// process, to find the position in the source
    #[arg(long, value_parser = isolation())]
    pub(crate) isolation: Option<Isolation>,
    /// Replay even a tape of another build of pi; expect differences
    #[arg(long)]
    pub(crate) accept_build: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `pi tape ...`
#[derive(Debug, Subcommand)]
pub(crate) enum TapeCommand {
    /// Describe a tape
    Info {
        /// Recording, made by `pi --tape FILE`
        tape: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Keep some extensions, and the beginning, of a tape
    Trim {
        /// Recording, made by `pi --tape FILE`
        tape: PathBuf,
        /// The tape to write
        #[arg(short, long, value_name = "FILE")]
        out: PathBuf,
        /// Keep this extension, by its id or the name of its package; repeatable
        #[arg(long, value_name = "ID")]
        extension: Vec<String>,
        /// Remove everything after this turn
        #[arg(long, value_name = "TICK")]
        until: Option<u64>,
    },
    /// Remove turns from a tape, and run the rest again
    Cut {
        /// Recording, made by `pi --tape FILE`
        tape: PathBuf,
        /// The tape to write
        #[arg(short, long, value_name = "FILE")]
        out: PathBuf,
        /// Turns to remove: one (7) or a range (7..12); repeatable
        #[arg(long, value_name = "TICK[..TICK]", required = true, value_parser = ticks)]
        ticks: Vec<RangeInclusive<u64>>,
    },
    /// Replace secrets by stand-ins of equal length
    Redact {
        /// Recording, made by `pi --tape FILE`
        tape: PathBuf,
        /// The tape to write
        #[arg(short, long, value_name = "FILE")]
        out: PathBuf,
        /// A secret: the text itself, or the variable that contains it; repeatable. Text that looks like a credential is always
        /// replaced
        #[arg(long, value_name = "ENV|TEXT")]
        secret: Vec<String>,
    },
    /// Write a tape as a trace for other tools
    Export {
        /// Recording, made by `pi --tape FILE`
        tape: PathBuf,
        /// Use Chrome's trace event format, which Perfetto can open
        #[arg(long, required_unless_present = "otel")]
        chrome: bool,
        /// Use OpenTelemetry JSON
        #[arg(long, conflicts_with = "chrome")]
        otel: bool,
        /// The file to write, instead of standard output
        #[arg(short, long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
}

/// Parses `7` or `7..12`, an inclusive range.
fn ticks(text: &str) -> std::result::Result<RangeInclusive<u64>, String> {
    let number = |text: &str| text.trim().parse::<u64>().map_err(|_| format!("{text:?} is not the number of a turn"));
    let (first, last) = text.split_once("..").unwrap_or((text, text));
    let (first, last) = (number(first)?, number(last.trim_start_matches('='))?);
    if first > last { Err(format!("{first} comes after {last}")) } else { Ok(first..=last) }
}

/// `pi tape ...`
pub(crate) async fn run(environment: &Environment, command: TapeCommand) -> Result<()> {
    let at = |path: PathBuf| environment.dirs.cwd.join(path);
    match command {
        TapeCommand::Info { tape, json } => info(&at(tape), json),
        TapeCommand::Trim { tape, out, extension, until } => {
            let (path, kept) = (at(tape), Kept { extensions: extension, until });
            check_names(&path, &kept.extensions)?;
            in_time_zone(environment, &open(&path)?.header().time_zone)?;
            let written = Written::begin(environment, &path, at(out))?;
            let (_, ticks) =
                pijs_tape::trim(open(&path)?, &kept, written.file()).map_err(|error| unreadable(&path, &error))?;
            if ticks == 0 {
                return Err(UserError::failed(
                    "the new tape would be empty: these extensions have no turn up to there",
                )
                .help("`pi tape info` lists its extensions and counts its turns"));
            }
            written.finish().await
        }
        TapeCommand::Cut { tape, out, ticks } => {
            let path = at(tape);
            in_time_zone(environment, &open(&path)?.header().time_zone)?;
            let turns = Summary::of(&mut open(&path)?).map_err(|error| unreadable(&path, &error))?.ticks;
            if let Some(tick) = ticks.iter().map(|range| *range.start()).find(|tick| *tick > turns) {
                return Err(no_turn(tick, turns));
            }
            let written = Written::begin(environment, &path, at(out))?;
            let stage = ReplayStage::prepare(environment, &path, Isolation::default()).await?;
            let (_, left_out) = pijs_tape::cut(open(&path)?, &stage, ticks, written.file())
                .map_err(|error| unplayable(&path, &error))?;
            stdout(&format!("inputs left out: {left_out}"));
            written.finish().await
        }
        TapeCommand::Redact { tape, out, secret } => {
            let path = at(tape);
            in_time_zone(environment, &open(&path)?.header().time_zone)?;
            let redactor = Redactor::default();
            for secret in secret {
                let value = environment.variables.get(&secret).unwrap_or(&secret);
                redactor.learn(value);
                if !redactor.finds(value) {
                    return Err(UserError::usage(format!(
                        "{secret:?} is too short to be distinguished from other text"
                    ))
                    .help("name a secret of at least 6 characters, or the variable that holds it"));
                }
            }
            let written = Written::begin(environment, &path, at(out))?;
            pijs_tape::redact(open(&path)?, redactor.substitutes(), written.file())
                .map_err(|error| unplayable(&path, &error))?;
            written.finish().await
        }
        TapeCommand::Export { tape, otel, out, .. } => {
            let path = at(tape);
            let spans = Spans::of(&mut open(&path)?).map_err(|error| unreadable(&path, &error))?;
            let document = if otel { spans.otel() } else { spans.chrome() }.to_string();
            let Some(out) = out.map(at) else {
                stdout(&document);
                return Ok(());
            };
            std::fs::write(&out, document)
                .map_err(|error| UserError::failed(format!("{} cannot be written: {error}", out.display())))
        }
    }
}

/// Returns the error for a number beyond the last turn of a tape.
fn no_turn(tick: u64, turns: u64) -> UserError {
    UserError::usage(format!("the tape has no turn {tick}: it has {}", counted(turns, "turn")))
        .help("give the number of a turn, from 1 on")
}

/// Checks that the tape has an extension of each name.
fn check_names(path: &Path, names: &[String]) -> Result<()> {
    let realms = Summary::of(&mut open(path)?).map_err(|error| unreadable(path, &error))?.realms;
    let Some(unknown) = names.iter().find(|name| !realms.iter().any(|realm| realm.is_called(name))) else {
        return Ok(());
    };
    let all: BTreeSet<&str> = realms.iter().map(|realm| realm.extension.as_str()).collect();
    let all: Vec<&str> = all.into_iter().collect();
    let known = realms.iter().flat_map(|realm| [realm.extension.as_str(), realm.package.as_str()]);
    let near = similar_names(unknown, known, str::to_owned).map(|near| format!("did you mean {near}? "));
    let message = match all.as_slice() {
        [] => format!("the tape has no extension {unknown:?}, and no other"),
        all => format!("the tape has no extension {unknown:?}; it has: {}", all.join(", ")),
    };
    Err(UserError::failed(clean(&message))
        .help(clean(&format!("{}name an id, or the name of a package", near.unwrap_or_default()))))
}

/// A tape that is derived from another one. It replaces the output file once it is complete.
struct Written<'a> {
    environment: &'a Environment,
    file: tempfile::NamedTempFile,
    out: PathBuf,
    /// Size of the source in bytes.
    before: u64,
}

impl<'a> Written<'a> {
    fn begin(environment: &'a Environment, from: &Path, out: PathBuf) -> Result<Self> {
        let folder = out.parent().unwrap_or(Path::new("."));
        let file = tempfile::NamedTempFile::new_in(folder).map_err(|error| Self::unwritten(&out, &error))?;
        let before = from.metadata().map_or(0, |file| file.len());
        Ok(Self { environment, file, out, before })
    }

    fn file(&self) -> BufWriter<&File> {
        BufWriter::new(self.file.as_file())
    }

    fn unwritten(out: &Path, error: &std::io::Error) -> UserError {
        UserError::failed(format!("the tape {} cannot be written: {error}", out.display()))
            .help("name a file that does not exist yet, in a folder that can be written")
    }

    /// Replays the tape before it is used.
    async fn finish(self) -> Result<()> {
        let Self { environment, file, out, before } = self;
        let stage = ReplayStage::prepare(environment, file.path(), Isolation::default()).await?;
        let options = ReplayOptions { accept_build: true, ..ReplayOptions::default() };
        let played = Replay::new(open(file.path())?, &stage, options).and_then(Replay::run);
        let played = played.map_err(|error| unplayable(&out, &error))?;
        if let Some(divergence) = &played.divergence {
            return Err(UserError::failed(clean(&format!("the replay of the new tape would differ\n{divergence}"))).help(
                "what an extension computes from a secret, or another build of pi, cannot be kept: record a session without it",
            ));
        }
        let after = file.as_file().metadata().map_or(0, |file| file.len());
        file.persist_noclobber(&out).map_err(|error| Self::unwritten(&out, &error.error))?;
        stdout(&clean(&format!(
            "{}: {}, {before} bytes became {after}; it replays equal",
            out.display(),
            counts(&played)
        )));
        Ok(())
    }
}

/// `pi replay TAPE`: exits with 0 if the replay produces the recorded outputs.
pub(crate) async fn replay(environment: &Environment, args: &ReplayArgs) -> Result<()> {
    let path = &environment.dirs.cwd.join(&args.tape);
    let tape = open(path)?;
    in_time_zone(environment, &tape.header().time_zone)?;
    let stage = ReplayStage::prepare(environment, path, args.isolation.unwrap_or_default()).await?;
    let stage = match &args.against {
        Some(entry) => stage.against(environment, path, &environment.dirs.cwd.join(entry)).await?,
        None => stage,
    };
    let options = ReplayOptions { until: args.until, from: args.from, accept_build: args.accept_build };
    let begin = Instant::now();
    let (tape, ended) = match args.from {
        Some(from) => from_tick(path, tape, from).map_err(|error| unreadable(path, &error))?,
        None => (tape, BTreeSet::new()),
    };
    let played = Replay::new(tape, &stage, options).and_then(|replay| replay.without(ended).run());
    let mut played = played.map_err(|error| unplayable(path, &error))?;
    let is_past_end = |tick: &u64| played.divergence.is_none() && *tick > played.ticks;
    if let Some(tick) = args.from.or(args.until).filter(is_past_end) {
        return Err(no_turn(tick, played.ticks));
    }
    let agent = match &played.divergence {
        None if args.until.is_none() && args.from.is_none() && args.against.is_none() => agent_loop(path).await?,
        _ => None,
    };
    let replayed_us = u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX);
    if let Some(divergence) = &mut played.divergence
        && args.isolation != Some(Isolation::Process)
    {
        divergence.source = pijs_tape::locate(open(path)?, &stage, divergence);
    }
    if args.json {
        if args.until.is_none() {
            played.session.clear();
        }
        let mut document = document(&played, replayed_us);
        if let Some(agent) = &agent {
            document["agent"] = json!(agent);
            if agent.divergence.is_some() || agent.stopped_at.is_some() {
                document["equal"] = false.into();
            }
        }
        stdout(&document.to_string());
    } else {
        if played.cut {
            stderr("note: the recording was cut off; it was replayed up to its last whole block");
        }
        if args.until.is_some() {
            states(&played);
            session(&played);
        }
    }
    let counts = counts(&played);
    match &played.divergence {
        None if args.json => judge_agent(path, agent.as_ref()),
        None => {
            let (recorded, replayed) = (seconds(played.recorded_us), seconds(replayed_us));
            let loop_counts = agent.as_ref().map(agent_counts).unwrap_or_default();
            judge_agent(path, agent.as_ref())?;
            stdout(&format!("{counts}{loop_counts}: equal; recorded in {recorded}, replayed in {replayed}"));
            Ok(())
        }
        Some(divergence) => {
            Err(UserError::failed(clean(&format!("the replay differs from the recording\n{divergence}")))
                .help("the extension, its modules or pi changed; `pi tape info` says what was recorded"))
        }
    }
}

/// Finds the extensions that had stopped before a tick. If the tape has an index, blocks with only their records are not read.
fn from_tick(
    path: &Path,
    tape: TapeReader<BufReader<File>>,
    from: u64,
) -> std::result::Result<(TapeReader<BufReader<File>>, BTreeSet<RealmNumber>), TapeError> {
    let mut file = BufReader::new(File::open(path)?);
    if let Some(index) = TapeIndex::of(&mut file)? {
        let ended = index.ended_before(from);
        return Ok((tape.without(&index, ended.clone()), ended));
    }
    file.seek(SeekFrom::Start(0))?;
    let ended = pijs_tape::ended_before(&mut TapeReader::new(file)?, from)?;
    Ok((tape, ended))
}

/// `pi ext drive --schedule SCHEDULE TAPE`: exits with 0 if nothing fails under the schedule.
pub(crate) async fn run_schedule(environment: &Environment, args: &DriveArgs, schedule: &str) -> Result<()> {
    let path = &environment.dirs.cwd.join(&args.scenario);
    in_time_zone(environment, &open(path)?.header().time_zone)?;
    let stage = ReplayStage::prepare(environment, path, Isolation::Thread).await?;
    let stage = match &args.against {
        Some(entry) => stage.against(environment, path, &environment.dirs.cwd.join(entry)).await?,
        None => stage,
    };
    let case = Case::of(open(path)?, &stage).map_err(|error| untested(path, &error))?;
    case.replay(schedule).map_err(|message| {
        UserError::failed(clean(&format!("{} under {schedule}\n{message}", args.scenario.display())))
            .help("fix the extension and run it again with --against EXTENSION")
    })?;
    stdout(&clean(&format!("{} under {schedule}: nothing fails", args.scenario.display())));
    Ok(())
}

/// Replays the agent's loop, if the tape contains it.
async fn agent_loop(path: &Path) -> Result<Option<AgentOutcome>> {
    let mut tape = open(path)?;
    let records = pijs_tape::agent_records(&mut tape).map_err(|error| unreadable(path, &error))?;
    let unread = |error: String| {
        UserError::failed(format!("{}: the agent of the tape cannot be created: {}", path.display(), clean(&error)))
            .help("record the session again")
    };
    LocalSet::new().run_until(replay_agent(records, tape.is_complete())).await.map_err(unread)
}

/// Fails if the agent's loop differs from the recorded one, or was not replayed to its end.
fn judge_agent(path: &Path, agent: Option<&AgentOutcome>) -> Result<()> {
    let Some(AgentOutcome { divergence, stopped_at, .. }) = agent else { return Ok(()) };
    if let Some(divergence) = divergence {
        return Err(UserError::failed(clean(&format!("the replay differs from the recording\n{divergence}")))
            .help("the realms replay equal, so pi changed, or an input of the agent is not on the tape"));
    }
    let Some(stop) = stopped_at else { return Ok(()) };
    let tick = pijs_tape::tick_of_record(&mut open(path)?, stop.record).map_err(|error| unreadable(path, &error))?;
    let message = format!("{}: {stop}; the latest turn before it is {tick} [{}]", path.display(), stop.code().as_str());
    Err(UserError::failed(clean(&message)).help(stop.help()))
}

fn agent_counts(agent: &AgentOutcome) -> String {
    let AgentOutcome { requests, tool_calls, entries, .. } = agent;
    let (requests, tool_calls) = (counted(*requests, "request"), counted(*tool_calls, "tool call"));
    format!("; the agent's loop: {requests}, {tool_calls}, {}", counted(*entries, "session entry"))
}

/// Restarts the process in the recorded time zone. Locating a difference needs a realm in this thread, which has the time zone of
/// the process.
#[cfg(unix)]
fn in_time_zone(environment: &Environment, zone: &str) -> Result<()> {
    use std::os::unix::process::CommandExt as _;
    if environment.variables.get("TZ").is_some_and(|here| here == zone) {
        return Ok(());
    }
    let program = std::env::current_exe()
        .map_err(|error| UserError::failed(format!("cannot find the path of pi's own program: {error}")))?;
    let error = std::process::Command::new(program).args(std::env::args_os().skip(1)).env("TZ", zone).exec();
    Err(UserError::failed(format!("the time zone {zone} cannot be set: {error}"))
        .help(format!("set the variable TZ={zone}")))
}

#[cfg(not(unix))]
fn in_time_zone(_: &Environment, _: &str) -> Result<()> {
    Ok(())
}

fn counts(played: &Outcome) -> String {
    let Outcome { realms, ticks, records, skipped, .. } = played;
    let skipped = match skipped {
        0 => String::new(),
        skipped => format!(" ({skipped} skipped: the realm was stopped during them)"),
    };
    let (realms, ticks) = (counted(*realms, "realm"), counted(*ticks, "tick"));
    format!("{realms}, {ticks}{skipped}, {}", counted(*records, "record"))
}

/// Prints the state of each realm.
fn states(played: &Outcome) {
    for state in &played.states {
        let timers: Vec<String> = state.timers.keys().map(|timer| timer.0.to_string()).collect();
        let calls: Vec<String> = state.calls.iter().map(|(id, method)| format!("{id} {method}")).collect();
        let list = |list: Vec<String>| if list.is_empty() { "none".to_owned() } else { list.join(", ") };
        let (realm, seq) = (&state.realm, state.seq.0);
        stdout(&clean(&format!("{realm}: turn {seq}; timers: {}; calls in flight: {}", list(timers), list(calls))));
    }
}

/// Prints the session so far, one entry per line, as far as it was sent to an extension.
fn session(played: &Outcome) {
    stdout(&format!("session: {}", counted(played.session.len(), "entry")));
    for entry in &played.session {
        let message = entry.get("message").unwrap_or(entry);
        let role = ["role", "customType", "type"].iter().find_map(|member| message.get(member)?.as_str());
        let content = message.get("content");
        let blocks = content.and_then(Value::as_array).into_iter().flatten();
        let texts =
            blocks.filter_map(|block| ["text", "thinking", "name"].iter().find_map(|at| block.get(at)?.as_str()));
        let text = match content.and_then(Value::as_str) {
            Some(text) => text.to_owned(),
            None => texts.collect::<Vec<_>>().join(" "),
        };
        let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(SHOWN).collect();
        stdout(clean(&format!("  {}: {line}", role.unwrap_or("entry"))).trim_end());
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
    let (ticks, records) = (counted(ticks, "tick"), counted(records, "record"));
    stdout(&format!("length   {ticks}, {records}, {lasted}, {size} bytes{is_whole}"));
    for realm in &summary.realms {
        let ended = realm.ended.as_ref().map(|reason| format!(", {reason}")).unwrap_or_default();
        stdout(&clean(&format!(
            "realm {}  {}: {}{ended}",
            realm.realm.0,
            realm.extension,
            counted(realm.ticks, "tick")
        )));
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
