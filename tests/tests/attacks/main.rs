//! The attack suite. Runs every case of `tests/attacks/` against the shipped program, and again for each guard that the case
//! names, with that guard lowered, when the case has to fail.
//!
//! `case` is the format of `case.json`, `world` the disposable home and project of a run. `steps` executes the steps, `run`
//! starts `pi-attacked`, `expect` compares results, `invariants` checks every case, and `coverage` checks that the lists of
//! attacks and guards are complete.

mod archive;
mod case;
mod coverage;
mod expect;
mod files;
mod invariants;
mod run;
mod server;
mod snapshot;
mod steps;
mod supervise;
mod world;

use case::{Case, Guard};
use libtest_mimic::{Failed, Trial};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// The variant of a case that one test runs.
#[derive(Debug, Clone)]
pub(crate) struct Mode {
    pub(crate) policy: String,
    pub(crate) isolation: String,
    /// Names of lowered guards, separated by commas; empty for the shipped program.
    pub(crate) down: String,
    /// Whether a hang is the expected failure, which has a short time limit.
    pub(crate) may_hang: bool,
}

fn main() -> ExitCode {
    // As a supervisor, runs one command and adopts all its descendants.
    let mut argv = std::env::args_os().skip(1);
    if argv.next().is_some_and(|first| first == supervise::FLAG) {
        return supervise::main(argv);
    }
    let arguments = pijs_testkit::arguments();
    let cases = match case::read_all() {
        Ok(cases) => cases,
        Err(error) => return libtest_mimic::run(&arguments, vec![broken(error)]).exit_code(),
    };
    let mut trials = coverage::trials(&cases);
    for (id, (folder, case)) in cases {
        if case.platform.as_ref().is_some_and(|platform| platform.only != std::env::consts::OS) {
            continue;
        }
        trials.extend(trials_of(&id, &folder, Arc::new(case)));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn broken(error: String) -> Trial {
    Trial::test("cases_can_be_read", move || Err(Failed::from(error)))
}

fn trials_of(id: &str, folder: &Path, case: Arc<Case>) -> Vec<Trial> {
    let mut trials = Vec::new();
    if case.steps.is_empty() {
        return trials;
    }
    for policy in &case.policies {
        for isolation in &case.isolations {
            let (policy, isolation) = (policy.clone(), isolation.clone());
            let mode = Mode { policy, isolation, down: String::new(), may_hang: false };
            let (folder, case) = (folder.to_path_buf(), Arc::clone(&case));
            trials.push(Trial::test(format!("{id}::{}::{}", mode.policy, mode.isolation), move || {
                run_case(&folder, &case, &mode).map_err(Failed::from)
            }));
        }
    }
    for guard in &case.guards {
        let (folder, case, guard) = (folder.to_path_buf(), Arc::clone(&case), guard.clone());
        trials.push(Trial::test(format!("{id}::without::{}", guard.name()), move || red(&folder, &case, &guard)));
    }
    trials
}

/// Runs the case with a guard lowered, in each mode until one fails.
fn red(folder: &Path, case: &Case, guard: &Guard) -> Result<(), Failed> {
    let mut failures = Vec::new();
    for policy in &case.policies {
        for isolation in &case.isolations {
            let (policy, isolation, down) = (policy.clone(), isolation.clone(), guard.name().replace('+', ","));
            let mode = Mode { policy, isolation, down, may_hang: matches!(guard.red(), "" | "N7") };
            match run_case(folder, case, &mode) {
                Err(failure) if failure.contains(guard.red()) => return Ok(()),
                Err(failure) => failures.push(failure),
                Ok(()) => {}
            }
        }
    }
    if failures.is_empty() {
        return Err(Failed::from(format!(
            "the case holds without {}: either another wall stands behind it (lower both: \"a+b\"), or the case does not test it",
            guard.name()
        )));
    }
    Err(Failed::from(format!("it fails, but not with {:?}:\n{}", guard.red(), failures.join("\n"))))
}

/// Runs a case once. The error contains all details of the failure.
fn run_case(folder: &Path, case: &Case, mode: &Mode) -> Result<(), String> {
    let world = world::World::new(folder, case, mode)?;
    let outcome = steps::all(&world, &case.steps).and_then(|()| invariants::at_the_end(&world));
    outcome.map_err(|failure| format!("{}\n{failure}\n{}", case.title, world.transcript()))
}
