//! `cargo xtask bench tapes`: measures the costs of recording and replaying, with real sessions of the built program.
//!
//! A session of about 10,000 records (timers, hostcalls of both kinds, a denied one, verdicts, a killed worker, many prompts) is
//! recorded and replayed a thousand times, in changing folders, homes, zones and locales, in threads and in sealed workers. Every
//! replay must give an equal outcome, in every member. Further sessions measure idling, an hour of work, and the processor time
//! of recording. Figures are informative; only a replay that differs fails. `cargo bench -p pijs-tape` measures single calls.

mod page;
mod session;

use crate::start::built;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use session::{Plan, Prose, Recorded, Workbench, reply};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fmt, fs};

const WORK: &str = include_str!("tapes/work.ts");
const IDLE: &str = include_str!("tapes/idle.ts");
const WATCH: &str = include_str!("tapes/watch.ts");

/// Every n-th replay runs in a sealed worker.
const SEALED_EVERY: usize = 10;

/// Time zones and locales of replays.
const SURROUNDINGS: [(&str, &str); 4] = [
    ("UTC", "C"),
    ("Asia/Kolkata", "de_DE.UTF-8"),
    ("America/Lima", "tr_TR.UTF-8"),
    ("Pacific/Auckland", "ja_JP.UTF-8"),
];

/// Number of hostcalls in each round of `work.ts`: two of files, one of a program, one of the log.
const CALLS_OF_ROUND: usize = 4;

/// Factor by which the session is longer when the cost of recording is measured.
const COST_ROUNDS: usize = 10;

/// Number of runs of a session with a recording, and without one.
const COST_RUNS: usize = 5;

/// Options of the measurement.
pub struct Options {
    /// The program to measure; `None` for a release build.
    pub pi: Option<PathBuf>,
    /// Number of replays of the session with 10,000 records.
    pub replays: usize,
    /// Whether sessions have a tenth of the usual size.
    pub is_short: bool,
}

/// Sizes of the sessions.
struct Sizes {
    prompts: usize,
    rounds: usize,
    idle: Duration,
    hour_prompts: usize,
    hour_deltas: usize,
}

impl Sizes {
    fn of(options: &Options) -> Self {
        match options.is_short {
            false => {
                Self { prompts: 20, rounds: 50, idle: Duration::from_secs(60), hour_prompts: 120, hour_deltas: 400 }
            }
            true => Self { prompts: 4, rounds: 25, idle: Duration::from_secs(10), hour_prompts: 12, hour_deltas: 40 },
        }
    }
}

/// Measures the given program, or a release build.
pub fn run(options: &Options, print: &mut dyn FnMut(&str)) -> Result<()> {
    let target = PathBuf::from(cargo_metadata::MetadataCommand::new().no_deps().exec()?.target_directory);
    let pi = match &options.pi {
        Some(pi) => fs::canonicalize(pi).with_context(|| format!("opening {}", pi.display()))?,
        None => built(&target)?,
    };
    let folder = target.join("bench-tapes");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let bench = Workbench::new(&pi, &folder)?;
    let sizes = Sizes::of(options);
    print("| subject | figure | target |\n|---|---:|---:|");
    let work = recorded_work(&bench, &sizes, print)?;
    replays(&bench, &work, options.replays, print)?;
    idle(&bench, &sizes, print)?;
    cost(&bench, &sizes, print)?;
    hour(&bench, &sizes, print)?;
    inspected(&bench, &work, print)?;
    fs::remove_dir_all(&folder).context("removing the sessions")
}

/// Records the session that is replayed many times.
fn recorded_work(bench: &Workbench, sizes: &Sizes, print: &mut dyn FnMut(&str)) -> Result<PathBuf> {
    let plan = work(sizes, Some(sizes.prompts / 2));
    let Recorded { tape, .. } = bench.run("work", &plan, sizes.rounds, true)?;
    let info = info(bench, &tape)?;
    let (records, ticks) = (&info["summary"]["records"], &info["summary"]["ticks"]);
    let realms = info["summary"]["realms"].as_array().map_or(0, Vec::len);
    ensure!(realms == 2, "the worker that was killed is one realm and the next one another: {realms}");
    print(&format!(
        "| session: {} prompts, a worker killed | {records} records, {ticks} turns, {} KB | |",
        sizes.prompts,
        kilobytes(&tape)?
    ));
    Ok(tape)
}

fn work(sizes: &Sizes, killed_after: Option<usize>) -> Plan {
    let mut prose = Prose::new(30);
    let mut replies = String::new();
    for prompt in 0..sizes.prompts {
        let mut deltas = prose.deltas(20);
        if prompt % 4 == 3 {
            deltas.push("TODO".to_owned());
            replies += &(reply(&deltas, None) + "\n");
            deltas = prose.deltas(20);
        }
        replies += &(reply(&deltas, None) + "\n");
    }
    Plan { extension: WORK, prompts: sizes.prompts, replies, killed_after }
}

/// Replays a tape many times in changing surroundings. All outcomes must be equal.
fn replays(bench: &Workbench, tape: &Path, count: usize, print: &mut dyn FnMut(&str)) -> Result<()> {
    let folders: Vec<PathBuf> =
        (0..SURROUNDINGS.len()).map(|at| bench.folder.join(format!("elsewhere-{at}"))).collect();
    folders.iter().try_for_each(fs::create_dir_all)?;
    let mut times: [(Duration, u32); 2] = Default::default();
    let mut first: Option<Value> = None;
    for run in 0..count {
        let is_sealed = run % SEALED_EVERY == SEALED_EVERY - 1;
        // Folders and surroundings change at different rates, so that all pairs occur.
        let ((zone, locale), folder) = (SURROUNDINGS[run % 4], &folders[run / 4 % 4]);
        let mut command = Command::new(&bench.pi);
        command.args(["replay", "--json", "--isolation", if is_sealed { "process" } else { "thread" }]).arg(tape);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", folder).env("TZ", zone).env("LANG", locale);
        command.env("LC_ALL", locale).current_dir(folder);
        let begin = Instant::now();
        let mut outcome = outcome(&mut command)?;
        let (time, runs) = &mut times[usize::from(is_sealed)];
        *time += begin.elapsed();
        *runs += 1;
        ensure!(outcome["equal"] == true, "replay {run} differs from the recording: {outcome}");
        if let Some(members) = outcome.as_object_mut() {
            members.remove("replayed_us");
        }
        let first = first.get_or_insert_with(|| outcome.clone());
        ensure!(*first == outcome, "replay {run} has another outcome than the first one: {outcome}");
    }
    for ((time, runs), kind) in times.iter().zip(["thread", "sealed worker"]).filter(|((_, runs), _)| *runs > 0) {
        let mean = time.as_secs_f64() * 1e3 / f64::from(*runs);
        print(&format!("| its replay in a {kind}, whole process | {mean:.0} ms, mean of {runs}, all equal | |"));
    }
    Ok(())
}

/// Compares the time of replaying a mostly idle session with the session's duration.
fn idle(bench: &Workbench, sizes: &Sizes, print: &mut dyn FnMut(&str)) -> Result<()> {
    let wait = json!({"delay_ms": u64::try_from(sizes.idle.as_millis())?});
    let replies = json!({"events": [{"text": "wait"}, wait, {"text": " done"}], "stop": "end_turn"}).to_string();
    let plan = Plan { extension: IDLE, prompts: 1, replies, killed_after: None };
    let Recorded { tape, .. } = bench.run("idle", &plan, 0, true)?;
    let replayed = (0..COST_RUNS).map(|_| {
        let begin = Instant::now();
        let outcome = outcome(bench.command(&["replay", "--json"]).arg(&tape))?;
        ensure!(outcome["equal"] == true, "the idle session differs: {outcome}");
        Ok((begin.elapsed(), Duration::from_micros(outcome["recorded_us"].as_u64().unwrap_or_default())))
    });
    let (time, recorded) = replayed.collect::<Result<Vec<_>>>()?.into_iter().min().unwrap_or_default();
    let (ratio, ms) = (recorded.as_secs_f64() / time.as_secs_f64(), time.as_secs_f64() * 1e3);
    print(&format!(
        "| replay of {:.0} s that were idle, whole process | {ms:.0} ms, {ratio:.0} times as fast | 50 times |",
        recorded.as_secs_f64()
    ));
    Ok(())
}

/// Measures how much processor time recording adds to a session with many hostcalls. The writing thread can be measured alone;
/// whole sessions are also compared, but their times vary by more than that between runs.
fn cost(bench: &Workbench, sizes: &Sizes, print: &mut dyn FnMut(&str)) -> Result<()> {
    // No worker is killed, because the processor time of a dead worker is lost.
    let plan = work(sizes, None);
    let Compared { without, with, writing } = compare(bench, &plan, sizes.rounds * COST_ROUNDS)?;
    let calls = sizes.prompts * sizes.rounds * COST_ROUNDS * CALLS_OF_ROUND;
    print(&format!(
        "| recording {calls} hostcalls and their turns, time of the thread that writes | {:.1} µs a hostcall, {:.1} % of {:.2} s | 5 % |",
        writing.as_secs_f64() * 1e6 / calls as f64,
        writing.as_secs_f64() / without.median().as_secs_f64() * 100.0,
        without.median().as_secs_f64()
    ));
    print(&format!(
        "| the same sessions as a whole, time on processors, {COST_RUNS} of each in turn | with {with}, without {without}: {:+.1} % | 5 % |",
        share(without.median(), with.median())
    ));
    Ok(())
}

/// Measures an hour of work without its waits: replies, tools, timers and the growing context.
fn hour(bench: &Workbench, sizes: &Sizes, print: &mut dyn FnMut(&str)) -> Result<()> {
    let mut prose = Prose::new(60);
    let mut replies = String::new();
    for prompt in 0..sizes.hour_prompts {
        let (name, arguments) = match prompt % 2 {
            0 => ("read", json!({"path": "notes.txt"})),
            _ => ("bash", json!({"command": format!("seq {prompt} {}", prompt + 600)})),
        };
        replies += &(reply(&prose.deltas(sizes.hour_deltas), Some((name, arguments))) + "\n");
        replies += &(reply(&prose.deltas(sizes.hour_deltas), None) + "\n");
    }
    let plan = Plan { extension: WATCH, prompts: sizes.hour_prompts, replies, killed_after: None };
    let Compared { without, with, writing } = compare(bench, &plan, 0)?;
    let Recorded { tape, .. } = bench.run("hour", &plan, 0, true)?;
    let deltas = 2 * sizes.hour_prompts * sizes.hour_deltas;
    let outcome = outcome(bench.command(&["replay", "--json"]).arg(&tape))?;
    ensure!(outcome["equal"] == true, "the hour differs: {outcome}");
    let work = format!("an hour of work: {} prompts and tools, {deltas} deltas", sizes.hour_prompts);
    print(&format!("| size of {work} | {:.2} MB | 10 MB |", kilobytes(&tape)? as f64 / 1e3));
    let (without, with) = (without.median(), with.median());
    print(&format!(
        "| recording it, time on processors beside a model that answers at once | {:.1} % of {:.2} s, {:.3} % of an hour; the thread that writes {:.0} ms | 5 % |",
        share(without, with),
        without.as_secs_f64(),
        with.saturating_sub(without).as_secs_f64() / 36.0,
        writing.as_secs_f64() * 1e3
    ));
    Ok(())
}

/// Opens the page of a tape in a browser, if one is installed.
fn inspected(bench: &Workbench, tape: &Path, print: &mut dyn FnMut(&str)) -> Result<()> {
    let page = bench.folder.join("report.html");
    let begin = Instant::now();
    let mut command = bench.command(&["inspect"]);
    let output = command.arg(tape).arg("-o").arg(&page).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let written = begin.elapsed();
    let document = fs::read_to_string(&page)?;
    let data = document.split_once("id=\"report\">").and_then(|(_, rest)| rest.split_once("</script>"));
    let report: Value = serde_json::from_str(data.context("the page has its data")?.0)?;
    let rows = report["rows"].as_array().map_or(0, Vec::len);
    let made = format!("{rows} rows, {} KB, written in {:.0} ms", document.len() / 1000, written.as_secs_f64() * 1e3);
    let Some(browser) = page::browser() else {
        print(&format!("| page of the session: {made} | not opened: no Chromium is installed | 2 s |"));
        return Ok(());
    };
    let page::Shown { empty, page } = page::show(&browser, &bench.folder, &page, rows)?;
    print(&format!(
        "| page of the session: {made} | open in {:.0} ms, {:.0} ms with the browser's start | 2 s |",
        page.saturating_sub(empty).as_secs_f64() * 1e3,
        page.as_secs_f64() * 1e3
    ));
    Ok(())
}

/// Processor times of one session, run several times with a recording and without.
struct Compared {
    without: Times,
    with: Times,
    /// Median processor time of the thread that writes the tape.
    writing: Duration,
}

/// Times of several runs, sorted.
struct Times(Vec<Duration>);

impl Times {
    fn new(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    fn median(&self) -> Duration {
        self.0[self.0.len() / 2]
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [least, median, most] = [self.0[0], self.median(), self.0[self.0.len() - 1]].map(|time| time.as_secs_f64());
        write!(f, "{median:.2} s ({least:.2} to {most:.2})")
    }
}

/// Runs a session alternately without and with a recording, so that load on the machine affects both alike.
fn compare(bench: &Workbench, plan: &Plan, rounds: usize) -> Result<Compared> {
    let (mut without, mut with, mut writing) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..COST_RUNS {
        without.push(bench.run("cost", plan, rounds, false)?.cpu);
        let recorded = bench.run("cost", plan, rounds, true)?;
        with.push(recorded.cpu);
        writing.push(recorded.writing);
    }
    let writing = Times::new(writing).median();
    Ok(Compared { without: Times::new(without), with: Times::new(with), writing })
}

/// Returns by how many per cent `with` is longer than `without`.
fn share(without: Duration, with: Duration) -> f64 {
    (with.as_secs_f64() / without.as_secs_f64() - 1.0) * 100.0
}

fn kilobytes(file: &Path) -> Result<u64> {
    Ok(file.metadata().with_context(|| format!("opening {}", file.display()))?.len() / 1000)
}

fn info(bench: &Workbench, tape: &Path) -> Result<Value> {
    outcome(bench.command(&["tape", "info", "--json"]).arg(tape))
}

/// Runs a command that prints JSON.
fn outcome(command: &mut Command) -> Result<Value> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("starting {command:?}"))?;
    serde_json::from_slice(&output.stdout)
        .with_context(|| format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)))
}
