//! Checks that the lists are complete: every attack has a case, every guard has a red run, and every cited Rust test exists.

use crate::case::{self, Case};
use libtest_mimic::{Failed, Trial};
use pijs_protocol::guard::Guard;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

type Cases = BTreeMap<String, (PathBuf, Case)>;

/// The contents of `ids.json`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ids {
    /// Class of each attack id.
    cases: BTreeMap<String, String>,
    /// Ids without a case; empty if the suite is complete.
    pending: BTreeSet<String>,
    /// Guards without a red run; empty if the suite is complete.
    pending_guards: BTreeSet<String>,
}

pub(crate) fn trials(cases: &Cases) -> Vec<Trial> {
    let ids: BTreeSet<String> = cases.keys().cloned().collect();
    let guards: BTreeSet<String> = cases
        .values()
        .flat_map(|(_, case)| &case.guards)
        .flat_map(|guard| guard.name().split('+'))
        .map(str::to_owned)
        .collect();
    let tests: Vec<String> = cases.values().flat_map(|(_, case)| case.rust.clone()).collect();
    let proofs: Vec<(String, bool, Option<String>)> =
        cases.iter().map(|(id, (_, case))| (id.clone(), !case.guards.is_empty(), case.unguarded.clone())).collect();
    vec![
        Trial::test("coverage::every_case_has_a_red_run_or_says_why_not", move || check(Ok(red_runs(&proofs)))),
        Trial::test("coverage::every_attack_has_a_case", move || check(every_attack(&ids))),
        Trial::test("coverage::every_guard_has_a_red_run", move || check(every_guard(&guards))),
        Trial::test("coverage::named_rust_tests_exist", move || check(rust_tests(&tests))),
    ]
}

fn check(problems: Result<Vec<String>, String>) -> Result<(), Failed> {
    match problems {
        Ok(problems) if problems.is_empty() => Ok(()),
        Ok(problems) => Err(Failed::from(problems.join("\n"))),
        Err(error) => Err(Failed::from(error)),
    }
}

fn ids() -> Result<Ids, String> {
    let path = case::folder().join("ids.json");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("ids.json: {error}"))
}

/// Returns the attack id of a folder, whose name is an id, optionally with a variant: `I01`, `I01-absolute`.
fn id_of(folder: &str) -> &str {
    folder.split_once('-').map_or(folder, |(id, _)| id)
}

fn every_attack(folders: &BTreeSet<String>) -> Result<Vec<String>, String> {
    let ids = ids()?;
    let present: BTreeSet<&str> = folders.iter().map(|folder| id_of(folder)).collect();
    let mut problems = Vec::new();
    for id in ids.cases.keys() {
        match (present.contains(id.as_str()), ids.pending.contains(id)) {
            (false, false) => problems.push(format!("{id} has no case")),
            (true, true) => problems.push(format!("{id} has a case now: take it off `pending` in ids.json")),
            _ => {}
        }
    }
    problems
        .extend(present.iter().filter(|id| !ids.cases.contains_key(**id)).map(|id| format!("{id} is not in ids.json")));
    problems.extend(
        ids.pending.iter().filter(|id| !ids.cases.contains_key(*id)).map(|id| format!("pending: {id} is no attack")),
    );
    Ok(problems)
}

fn every_guard(lowered: &BTreeSet<String>) -> Result<Vec<String>, String> {
    let ids = ids()?;
    let pattern = regex::Regex::new(r"guard!\((\w+)\)").expect("a constant");
    let mut used = BTreeSet::new();
    for folder in ["crates", "extc"] {
        sources(&root().join(folder), &mut |path, text| {
            if !path.ends_with("guard.rs") {
                used.extend(pattern.captures_iter(text).map(|found| found[1].to_owned()));
            }
        });
    }
    let there: BTreeSet<String> = Guard::ALL.iter().map(|guard| guard.name().to_owned()).collect();
    let unused = Guard::ALL.iter().filter(|guard| !used.contains(guard.variant()));
    let mut problems: Vec<String> =
        unused.map(|guard| format!("no code asks for the guard {}", guard.name())).collect();
    for guard in &there {
        match (lowered.contains(guard), ids.pending_guards.contains(guard)) {
            (false, false) => problems.push(format!("no case lowers the guard {guard}")),
            (true, true) => problems.push(format!("{guard} has a red run now: take it off `pending_guards`")),
            _ => {}
        }
    }
    problems.extend(lowered.difference(&there).map(|guard| format!("a case lowers {guard}, which no code asks for")));
    problems
        .extend(ids.pending_guards.difference(&there).map(|guard| format!("pending_guards: no code asks for {guard}")));
    Ok(problems)
}

/// Checks that a reason is a sentence, and is present exactly in cases that lower no guard.
fn red_runs(proofs: &[(String, bool, Option<String>)]) -> Vec<String> {
    let problem = |(id, is_guarded, reason): &(String, bool, Option<String>)| match (is_guarded, reason) {
        (true, None) => None,
        (true, Some(_)) => Some(format!("{id} lowers a guard: take `unguarded` away")),
        (false, None) => Some(format!("{id} lowers no guard: name one, or say under `unguarded` why none can fall")),
        (false, Some(reason)) if reason.split_whitespace().count() < SHORTEST_REASON => {
            Some(format!("{id}: {reason:?} is no reason"))
        }
        (false, Some(_)) => None,
    };
    proofs.iter().filter_map(problem).collect()
}

/// Minimum number of words in a meaningful reason.
const SHORTEST_REASON: usize = 6;

fn rust_tests(tests: &[String]) -> Result<Vec<String>, String> {
    let mut problems = Vec::new();
    for test in tests {
        let Some((file, name)) = test.split_once('#') else {
            problems.push(format!("{test}: write path/of/file.rs#name_of_the_test"));
            continue;
        };
        match fs::read_to_string(root().join(file)) {
            Err(error) => problems.push(format!("{file}: {error}")),
            Ok(text) if !is_test(&text, name) => problems.push(format!("{file} has no test {name}")),
            Ok(_) => {}
        }
    }
    Ok(problems)
}

/// Returns whether a source contains a function of this name with a test attribute, or a row of this name in a table of tests.
fn is_test(text: &str, name: &str) -> bool {
    // In a test binary without libtest, each test is created on one line.
    if text.contains(&format!("Trial::test(\"{name}\"")) {
        return true;
    }
    let lines: Vec<&str> = text.lines().collect();
    // The formatter breaks long rows.
    let (row, broken) = (format!("(\"{name}\","), format!("\"{name}\","));
    let is_row = |line: &&str| line.trim_start().starts_with(&row) || line.trim() == broken;
    let has_table = text.contains("libtest_mimic::run") || text.contains("&[(&str, fn())]");
    if has_table && lines.iter().any(is_row) {
        return true;
    }
    lines.iter().enumerate().any(|(at, line)| {
        let is_function = line.trim_start().trim_start_matches("async ").starts_with(&format!("fn {name}("));
        let above = lines[..at].iter().rev().take_while(|line| line.trim_start().starts_with("#["));
        is_function && above.into_iter().any(|line| line.contains("test"))
    })
}

fn sources(folder: &Path, look: &mut impl FnMut(&Path, &str)) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            if entry.file_name() != "node_modules" && entry.file_name() != "target" {
                sources(&path, look);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && let Ok(text) = fs::read_to_string(&path)
        {
            look(&path, &text);
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
