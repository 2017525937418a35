//! Checks the invariants of each run of `pi`, in every case (security.md 3.1).
//!
//! | | invariant |
//! |---|---|
//! | N1 | the session files parse, line by line, and every parent exists |
//! | N2 | the ledgers verify, and every call that started finished exactly once |
//! | N3 | if the case has a neighbour: it saw the whole session (`run.rs`) |
//! | N4 | if the case lists it: no file except pi's own changed |
//! | N5 | no process and no temporary file remains |
//! | N6 | no canary was printed, logged, stored or sent |
//! | N7 | no panic, no hang, no termination by a signal (`run.rs`) |
//! | N8 | if the case lists it: settings, trust, lock, grants and keys are unchanged |

use crate::case::Invariant;
use crate::files;
use crate::run::Ran;
use crate::snapshot;
use crate::world::World;
use aho_corasick::AhoCorasick;
use base64::Engine as _;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// Files that `pi` may change even if nothing else may change.
const OWN: &[&str] = &[
    "home/.pi/agent/sessions",
    "home/.pi/agent/sessions/**",
    "home/.pi/agent/logs",
    "home/.pi/agent/logs/**",
    "home/.pi/agent/pijs",
    "home/.pi/agent/pijs/made",
    "home/.pi/agent/pijs/made/**",
    "home/.pi/agent/pijs/results",
    "home/.pi/agent/pijs/results/**",
    "cache/**",
    "tmp/**",
    "model-*.jsonl",
    "supervisor-*.json",
];

/// Files that decide permissions, and the installed packages.
const STATE: &[&str] = &[
    "home/.pi/agent/*.json",
    "home/.pi/agent/pijs",
    "home/.pi/agent/pijs/**",
    "project/.pi/*.json",
    "home/.npmrc",
    "project/.npmrc",
];

/// Runs `work`, which starts `pi`, and checks the invariants.
pub(crate) fn around(
    world: &World,
    may_change: &[String],
    work: impl FnOnce() -> Result<Ran, String>,
) -> Result<(), String> {
    let holds = |invariant| world.case.holds.contains(&invariant);
    let watched = holds(Invariant::N4) || holds(Invariant::N8);
    let leave_out =
        files::globs(OWN.iter().copied().chain(world.case.may_change.iter().chain(may_change).map(String::as_str)))?;
    let before = watched.then(|| snapshot::take(world.root(), &leave_out));
    let ran = work()?;
    if let Some(before) = before {
        let mut differences = snapshot::differences(&before, &snapshot::take(world.root(), &leave_out));
        let name = if holds(Invariant::N4) { "N4" } else { "N8" };
        if !holds(Invariant::N4) {
            let state = files::globs(STATE.iter().copied())?;
            differences.retain(|line| {
                let path = line.split_once(": ").map_or("", |(_, rest)| rest);
                state.is_match(path.split_once(" (").map_or(path, |(path, _)| path))
            });
        }
        if !differences.is_empty() {
            return Err(format!("{name}: {}", differences.join("\n    ")));
        }
    }
    sessions_parse(world)?;
    ledgers_hold(world, ran.killed)?;
    nothing_in_temp(world)?;
    no_canary(world, &ran)
}

/// Checks the invariants after all steps.
pub(crate) fn at_the_end(world: &World) -> Result<(), String> {
    match world.requests("canary")?.first() {
        Some(request) => Err(format!("N6: the forbidden server was asked: {request}")),
        None => Ok(()),
    }
}

/// Returns the JSON lines of all matching files. Invalid lines are left out.
pub(crate) fn lines_of(world: &World, pattern: &str) -> Vec<Value> {
    let paths = files::matching(world, pattern).unwrap_or_default();
    // Excludes other kinds of items: reading a pipe would block.
    let files = paths.into_iter().filter(|path| fs::symlink_metadata(path).is_ok_and(|found| found.is_file()));
    let texts = files.filter_map(|path| fs::read(path).ok());
    texts
        .flat_map(|bytes| {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect::<Vec<_>>()
        })
        .collect()
}

fn sessions_parse(world: &World) -> Result<(), String> {
    for path in files::matching(world, "home/.pi/agent/sessions/**/*.jsonl")? {
        let wrong = |why: String| format!("N1: {}: {why}", path.display());
        let text = fs::read_to_string(&path).map_err(|error| wrong(error.to_string()))?;
        let mut known = BTreeSet::new();
        for (at, line) in text.lines().enumerate() {
            let entry: Value =
                serde_json::from_str(line).map_err(|error| wrong(format!("line {}: {error}", at + 1)))?;
            if at == 0 {
                if entry["type"] != "session" {
                    return Err(wrong("the first line is no header".to_owned()));
                }
                continue;
            }
            if let Some(parent) = entry["parentId"].as_str()
                && !known.contains(parent)
            {
                return Err(wrong(format!("line {}: its parent {parent} is not above it", at + 1)));
            }
            if let Some(id) = entry["id"].as_str()
                && !known.insert(id.to_owned())
            {
                return Err(wrong(format!("line {}: the id {id} is there twice", at + 1)));
            }
        }
    }
    Ok(())
}

fn ledgers_hold(world: &World, killed: bool) -> Result<(), String> {
    for path in files::matching(world, "home/.pi/agent/logs/**/*.jsonl")? {
        let wrong = |why: String| format!("N2: {}: {why}", path.display());
        // A file that an attack put in a ledger's place is not a ledger, and neither is an older part without its successor.
        let older = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.rsplit_once('.'));
        let is_file = fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_file() && metadata.nlink() == 1);
        if !is_file || older.is_some_and(|(_, number)| number.parse::<u64>().is_ok()) {
            continue;
        }
        let mut parts =
            pijs_hostcall::ledger::parts(&pijs_durable::Disk::system(), &path).map_err(|e| wrong(e.to_string()))?;
        parts.push(path.clone());
        let readers = parts.iter().map(|part| fs::File::open(part).map(std::io::BufReader::new));
        let audit = pijs_hostcall::ledger::audit(readers).map_err(|broken| wrong(broken.to_string()))?;
        if !killed && !audit.open.is_empty() {
            return Err(wrong(format!("started and never ended: {:?}", audit.open)));
        }
    }
    Ok(())
}

fn nothing_in_temp(world: &World) -> Result<(), String> {
    let may = files::globs(world.case.may_change.iter().map(String::as_str))?;
    let left: Vec<String> = fs::read_dir(world.path("tmp"))
        .map_err(|error| error.to_string())?
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| !may.is_match(format!("tmp/{name}")))
        .collect();
    if left.is_empty() { Ok(()) } else { Err(format!("N5: left in the temporary folder: {left:?}")) }
}

fn no_canary(world: &World, ran: &Ran) -> Result<(), String> {
    let base64 = base64::engine::general_purpose::STANDARD;
    let words = world.canaries.all().into_iter().flat_map(|canary| [canary.to_owned(), base64.encode(canary)]);
    // One automaton searches for all canaries, so that each file is read once.
    let words: Vec<String> = words.collect();
    let automaton = AhoCorasick::new(&words).map_err(|error| error.to_string())?;
    let leak = |text: &[u8]| automaton.find(text).map(|found| &words[found.pattern().as_usize()]);
    for (stream, text) in
        [("stdout", &ran.said.stdout), ("stderr", &ran.said.stderr), ("the terminal", &ran.said.screen)]
    {
        if let Some(word) = leak(text.as_bytes()) {
            return Err(format!("N6: {word} on {stream}"));
        }
    }
    for pattern in ["home/.pi/agent/**", "project/**", "tmp/**", "cache/**"] {
        for path in files::matching(world, pattern)? {
            let own = path.file_name().is_some_and(|name| name == "auth.json");
            let small = fs::symlink_metadata(&path).is_ok_and(|it| it.is_file() && it.len() < 256 << 20);
            if small
                && !own
                && let Some(word) = leak(&fs::read(&path).unwrap_or_default())
            {
                return Err(format!("N6: {word} in {}", path.display()));
            }
        }
    }
    Ok(())
}
