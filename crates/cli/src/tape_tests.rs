//! `extc test`: recorded sessions as tests of an extension.
//!
//! Each tape is a test: its inputs are passed to the current extension, and every output that has changed is shown. `--accept`
//! writes the tape again with the new outputs. Extensions must see the time zone of the recording, which is a property of the
//! process; so tapes of another zone are tested in a child process with that zone.

use crate::extc_command::TestArgs;
use crate::output::{clean, stderr, stdout};
use pijs_runtime::tape::{ReplayStage, open, unplayable};
use pijs_runtime::{Environment, Isolation, Result, UserError, meant_path};
use pijs_tape::{Case, Changes, LabError, LabOptions, LabOutcome, Replay, ReplayOptions};
use pijs_terminal::counted;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Suffixes of extension files.
const SOURCES: [&str; 8] = ["ts", "tsx", "mts", "cts", "js", "jsx", "mjs", "cjs"];

/// Exit code if an output changed or a tape could not be tested.
const FAILED: u8 = 1;

/// The result of one tape.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Tested {
    tape: String,
    status: Status,
    /// The outputs that changed.
    #[serde(flatten)]
    changes: Changes,
    /// Results under other schedules, if any were run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    explored: Option<Explored>,
    /// The reason why the tape could not be tested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    milliseconds: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    /// All outputs are as recorded.
    Equal,
    Changed,
    /// Outputs have changed, and the new ones were written to the tape.
    Accepted,
    /// The outputs equal the recording, but the extension fails under another schedule.
    Unordered,
    /// The tape cannot be read or run.
    Failed,
}

/// The result of the schedule lab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Explored {
    /// Number of schedules that were run, except those for shrinking a failure.
    schedules: usize,
    /// Whether all possible schedules were run.
    complete: bool,
    /// The shortest schedule that fails, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    schedule: Option<String>,
    /// The failure under this schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
}

/// All results, in the format of `--json`.
#[derive(Debug, Serialize, Deserialize)]
struct Report {
    tapes: Vec<Tested>,
}

/// Runs the command and returns its exit code.
pub(crate) fn run(args: &TestArgs) -> u8 {
    match Environment::capture().and_then(|environment| test(&environment, args)) {
        Ok(code) => code,
        Err(failure) => {
            stderr(&failure.to_string());
            failure.exit.code()
        }
    }
}

fn test(environment: &Environment, args: &TestArgs) -> Result<u8> {
    let (entry, tapes) = inputs(environment, &args.inputs)?;
    let tested = all(environment, args, &entry, &tapes)?;
    if let Some(file) = &args.junit {
        let path = environment.dirs.cwd.join(file);
        std::fs::write(&path, junit(&tested))
            .map_err(|error| UserError::failed(format!("{} cannot be written: {error}", path.display())))?;
    }
    if args.json {
        stdout(&json!(Report { tapes: tested.clone() }).to_string());
    } else {
        tested.iter().for_each(print);
        stdout(&summary(&tested));
    }
    let failed =
        tested.iter().any(|tested| matches!(tested.status, Status::Changed | Status::Unordered | Status::Failed));
    Ok(if failed { FAILED } else { 0 })
}

/// Separates the extension from the tapes; the default is the package of this folder.
fn inputs(environment: &Environment, inputs: &[PathBuf]) -> Result<(PathBuf, Vec<PathBuf>)> {
    let is_source = |path: &Path| {
        let ending = path.extension().and_then(|ending| ending.to_str());
        environment.dirs.cwd.join(path).is_dir() || ending.is_some_and(|ending| SOURCES.contains(&ending))
    };
    let (entry, tapes) = match inputs.split_first() {
        Some((first, rest)) if is_source(first) => (first.clone(), rest),
        Some((first, rest)) if !rest.is_empty() && !is_tape(first) && !exists(environment, first) => {
            return Err(missing_extension(environment, first));
        }
        _ => (PathBuf::from("."), inputs),
    };
    if !exists(environment, &entry) {
        return Err(missing_extension(environment, &entry));
    }
    match tapes {
        [] => Err(UserError::usage("no tape is named")
            .help("record one with `pi --tape tapes/NAME.tape -e ./my-extension`, then: extc test ./my-extension tapes/*.tape")),
        tapes => Ok((entry, tapes.to_vec())),
    }
}

fn exists(environment: &Environment, path: &Path) -> bool {
    environment.dirs.cwd.join(path).exists()
}

fn is_tape(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "tape")
}

/// Returns the error for an extension that does not exist; without it, the tapes would be run with the package of this folder.
fn missing_extension(environment: &Environment, path: &Path) -> UserError {
    let meant = meant_path(&environment.dirs.cwd, path);
    UserError::usage(clean(&format!("the extension {} does not exist", path.display())))
        .help(clean(&format!("{meant}name its folder or file, then the tapes")))
}

/// Tests all tapes, grouped by time zone.
fn all(environment: &Environment, args: &TestArgs, entry: &Path, tapes: &[PathBuf]) -> Result<Vec<Tested>> {
    let mut results: BTreeMap<usize, Tested> = BTreeMap::new();
    let mut zones: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, tape) in tapes.iter().enumerate() {
        match open(&environment.dirs.cwd.join(tape)) {
            Ok(opened) => zones.entry(opened.header().time_zone.clone()).or_default().push(at),
            Err(failure) => drop(results.insert(at, failed(tape, &failure, Instant::now()))),
        }
    }
    for (zone, indexes) in zones {
        let of_zone: Vec<&PathBuf> = indexes.iter().map(|at| &tapes[*at]).collect();
        let tested = match environment.variables.get("TZ").is_some_and(|here| *here == zone) {
            true => here(environment, args, entry, &of_zone)?,
            false => elsewhere(&zone, args, entry, &of_zone)?,
        };
        results.extend(indexes.into_iter().zip(tested));
    }
    Ok(results.into_values().collect())
}

/// Tests tapes in a process that has their time zone.
fn elsewhere(zone: &str, args: &TestArgs, entry: &Path, tapes: &[&PathBuf]) -> Result<Vec<Tested>> {
    let broken = |error: String| UserError::failed(format!("tapes of the time zone {zone} cannot be tested: {error}"));
    let program = std::env::current_exe().map_err(|error| broken(error.to_string()))?;
    let mut command = Command::new(program);
    command
        .env("TZ", zone)
        .args(["test", "--json"])
        .args(args.accept.then_some("--accept"))
        .args(args.explore.map(|schedules| format!("--explore={schedules}")))
        .args((args.faults > 0).then(|| format!("--faults={}", args.faults)))
        .arg("--")
        .arg(entry)
        .args(tapes);
    let output = command.output().map_err(|error| broken(error.to_string()))?;
    match serde_json::from_slice::<Report>(&output.stdout) {
        Ok(report) if report.tapes.len() == tapes.len() => Ok(report.tapes),
        _ => Err(broken(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    }
}

/// Tests tapes in this process.
fn here(environment: &Environment, args: &TestArgs, entry: &Path, tapes: &[&PathBuf]) -> Result<Vec<Tested>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| UserError::failed(format!("no runtime: {error}")))?;
    let one = |tape: &&PathBuf| {
        let begin = Instant::now();
        match runtime.block_on(one(environment, args, entry, tape)) {
            Ok((status, changes, explored)) => {
                let (tape, milliseconds) = (tape.display().to_string(), since(begin));
                Tested { tape, status, changes, explored, error: None, milliseconds }
            }
            Err(failure) => failed(tape, &failure, begin),
        }
    };
    Ok(tapes.iter().map(one).collect())
}

type One = (Status, Changes, Option<Explored>);

async fn one(environment: &Environment, args: &TestArgs, entry: &Path, tape: &Path) -> Result<One> {
    let path = &environment.dirs.cwd.join(tape);
    let stage = ReplayStage::prepare(environment, path, Isolation::Thread).await?;
    let stage = stage.against(environment, path, &environment.dirs.cwd.join(entry)).await?;
    let changes = pijs_tape::changes(open(path)?, &stage).map_err(|error| unplayable(path, &error))?;
    if changes.count == 0 {
        let explored = args.explore.map(|schedules| explore(path, &stage, schedules, args.faults)).transpose()?;
        let fails = explored.as_ref().is_some_and(|explored| explored.schedule.is_some());
        return Ok((if fails { Status::Unordered } else { Status::Equal }, changes, explored));
    }
    if !args.accept {
        return Ok((Status::Changed, changes, None));
    }
    let unwritten = |error: String| UserError::failed(format!("{} cannot be written: {error}", path.display()));
    let folder = path.parent().unwrap_or(Path::new("."));
    let file = tempfile::NamedTempFile::new_in(folder).map_err(|error| unwritten(error.to_string()))?;
    let file = pijs_tape::rerecord(open(path)?, &stage, file).map_err(|error| unplayable(path, &error))?;
    let again = Replay::new(open(file.path())?, &stage, ReplayOptions::default()).and_then(Replay::run);
    if let Some(divergence) = again.map_err(|error| unplayable(path, &error))?.divergence {
        return Err(unwritten(format!("two runs of the extension differ: {divergence}")));
    }
    file.persist(path).map_err(|error| unwritten(error.to_string()))?;
    Ok((Status::Accepted, changes, None))
}

/// Runs a tape under other schedules.
fn explore(path: &Path, stage: &ReplayStage, schedules: usize, faults: usize) -> Result<Explored> {
    let case = Case::of(open(path)?, stage).map_err(|error| untested(path, &error))?;
    let options = LabOptions { schedules, seed: 0, faults };
    Ok(match case.explore(options) {
        Ok(LabOutcome { schedules, complete }) => Explored { schedules, complete, schedule: None, failure: None },
        Err(failure) => Explored {
            schedules: failure.run,
            complete: false,
            schedule: Some(failure.schedule.to_string()),
            failure: Some(failure.message),
        },
    })
}

/// Returns the error for a tape that the schedule lab cannot run.
pub(crate) fn untested(path: &Path, error: &LabError) -> UserError {
    match error {
        LabError::Replay(error) => unplayable(path, error),
        error => UserError::failed(format!("{}: {error}", path.display())).help("record a session with a prompt"),
    }
}

fn failed(tape: &Path, failure: &UserError, begin: Instant) -> Tested {
    let (tape, error) = (tape.display().to_string(), Some(failure.to_string()));
    let milliseconds = since(begin);
    Tested { tape, status: Status::Failed, changes: Changes::default(), explored: None, error, milliseconds }
}

fn since(begin: Instant) -> u64 {
    u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX)
}

fn print(tested: &Tested) {
    let Tested { tape, status, changes, explored, error, .. } = tested;
    match status {
        Status::Equal => {
            let explored = explored.as_ref().map(schedules).unwrap_or_default();
            stdout(&clean(&format!("{tape}: equal ({}){explored}", counted(changes.ticks, "turn"))));
        }
        Status::Unordered => {
            stdout(&clean(&format!(
                "{tape}: equal ({}), and fails under another schedule",
                counted(changes.ticks, "turn")
            )));
            stdout(&clean(&failing(tape, explored.as_ref())));
        }
        Status::Accepted => stdout(&clean(&format!("{tape}: {} accepted", counted(changes.count, "output")))),
        Status::Changed => {
            stdout(&clean(&format!("{tape}: {} changed", counted(changes.count, "output"))));
            stdout(&clean(&details(changes)));
        }
        Status::Failed => {
            let words = error.as_deref().unwrap_or_default();
            stdout(&clean(&format!("{tape}: {}", words.strip_prefix("error: ").unwrap_or(words))));
        }
    }
}

fn schedules(explored: &Explored) -> String {
    let all = if explored.complete { ", all there are" } else { "" };
    format!(", as under {}{all}", counted(explored.schedules, "schedule"))
}

/// Returns the failure of a schedule, with the name of its tape.
fn failing(tape: &str, explored: Option<&Explored>) -> String {
    let Some(Explored { schedule: Some(schedule), failure, schedules, .. }) = explored else { return String::new() };
    let mut text = String::new();
    for line in failure.as_deref().unwrap_or_default().lines() {
        let _ = writeln!(text, "  {line}");
    }
    let _ = write!(text, "  found in schedule {schedules}; run it again: pi ext drive --schedule {schedule} {tape}");
    text
}

/// Returns the changes of a tape, with its name.
fn details(changes: &Changes) -> String {
    let mut text = String::new();
    for change in &changes.changes {
        for line in change.to_string().lines() {
            let _ = writeln!(text, "  {line}");
        }
    }
    let more = changes.count.saturating_sub(changes.changes.len() as u64);
    if more > 0 {
        let _ = writeln!(text, "  and {more} more");
    }
    if changes.left_out > 0 {
        let _ =
            writeln!(text, "  {} of the recording that nothing waits for any more", counted(changes.left_out, "input"));
    }
    text.truncate(text.trim_end().len());
    text
}

fn summary(tested: &[Tested]) -> String {
    let count = |status: Status| tested.iter().filter(|tested| tested.status == status).count();
    let all = counted(tested.len(), "tape");
    let parts = [
        (Status::Equal, "equal"),
        (Status::Changed, "changed"),
        (Status::Accepted, "accepted"),
        (Status::Unordered, "failing under another schedule"),
        (Status::Failed, "not tested"),
    ];
    let parts = parts.into_iter().map(|(status, word)| (count(status), word)).filter(|(count, _)| *count > 0);
    let parts: Vec<String> = parts.map(|(count, word)| format!("{count} {word}")).collect();
    let hint = match count(Status::Changed) {
        0 => "",
        _ => "; --accept takes what changed as the new expectation",
    };
    format!("{all}: {}{hint}", parts.join(", "))
}

/// Returns the results in the format of JUnit, which CI services show.
fn junit(tested: &[Tested]) -> String {
    let count = |status: Status| tested.iter().filter(|tested| tested.status == status).count();
    let (tests, failures, errors) =
        (tested.len(), count(Status::Changed) + count(Status::Unordered), count(Status::Failed));
    let seconds = |milliseconds: u64| format!("{}.{:03}", milliseconds / 1000, milliseconds % 1000);
    let time = seconds(tested.iter().map(|tested| tested.milliseconds).sum());
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  \
         <testsuite name=\"extc test\" tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" time=\"{time}\">\n"
    );
    for Tested { tape, status, changes, explored, error, milliseconds } in tested {
        let (name, time) = (escaped(tape), seconds(*milliseconds));
        let _ = write!(text, "    <testcase classname=\"extc test\" name=\"{name}\" time=\"{time}\"");
        let (element, message, body) = match status {
            Status::Equal | Status::Accepted => {
                text.push_str("/>\n");
                continue;
            }
            Status::Changed => ("failure", format!("{} changed", counted(changes.count, "output")), details(changes)),
            Status::Unordered => {
                ("failure", "fails under another schedule".to_owned(), failing(tape, explored.as_ref()))
            }
            Status::Failed => ("error", "not tested".to_owned(), error.clone().unwrap_or_default()),
        };
        let body = escaped(&body);
        let _ = writeln!(text, ">\n      <{element} message=\"{message}\">{body}</{element}>\n    </testcase>");
    }
    text.push_str("  </testsuite>\n</testsuites>\n");
    text
}

/// Escapes text for XML, and drops the characters that XML cannot represent.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' | '\n' => out.push(character),
            '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            _ => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_in_xml_is_escaped() {
        assert_eq!(escaped("a<b> & \"c\"\u{1b}[0m\n"), "a&lt;b&gt; &amp; &quot;c&quot;\u{fffd}[0m\n");
    }
}
