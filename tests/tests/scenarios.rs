//! Runs scenarios of extensions with `pi ext drive` and compares them with traces of the real pi.
//!
//! `fixtures/FOLDER/NAME.json` is a scenario, its extension is next to it, and `NAME.expected.json` is the trace of the real pi,
//! captured once. Each runs in a sandboxed process and in the host's thread: the tests are `FOLDER::NAME::process` and
//! `FOLDER::NAME::thread`. A new scenario needs only files; `tests/README.md` lists them.

mod drive;

use drive::{ISOLATIONS, differences, drive, fixtures, is_offline};
use libtest_mimic::{Failed, Trial};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The scenarios of one folder.
struct Suite {
    /// Folder below `fixtures/`.
    folder: &'static str,
    /// Suffix of a trace's file name, `NAME.SUFFIX.json`.
    suffix: &'static str,
    /// The version of pi that the traces were captured from.
    captured: &'static str,
    /// Whether the suite needs pi's packages, which are missing on a machine without a registry.
    needs_packages: bool,
    /// Options of `pi ext drive`.
    options: &'static [&'static str],
}

const SUITES: &[Suite] = &[
    Suite { folder: "drive", ..CURRENT },
    Suite { folder: "event-order", ..CURRENT },
    LEGACY,
    Suite { folder: "pi-packages", needs_packages: true, ..CURRENT },
    Suite { folder: "subagents", needs_packages: true, ..CURRENT },
];

const CURRENT: Suite =
    Suite { folder: "", suffix: "expected", captured: "0.87.1", needs_packages: false, options: &[] };

const LEGACY: Suite = Suite {
    folder: "legacy",
    suffix: "0.73.1",
    captured: "0.73.1",
    needs_packages: false,
    options: &["--profile", "0.73"],
};

/// Scenarios of the older pi with the same result in the current version: handlers that wait for the next step of the loop.
const SAME_IN_BOTH: &[&str] = &["queued"];

fn main() {
    let mut trials = vec![Trial::test("a_scenario_that_cannot_be_read_is_named", unreadable)];
    for suite in SUITES {
        trials.extend(suite.trials());
    }
    libtest_mimic::run(&pijs_testkit::arguments(), trials).exit();
}

impl Suite {
    fn trials(&'static self) -> Vec<Trial> {
        let folder = self.folder;
        let (scenarios, traces) = self.names();
        let is_skipped = self.needs_packages && is_offline();
        let mut trials = Vec::new();
        for name in &scenarios {
            for &isolation in ISOLATIONS {
                let run = {
                    let name = name.clone();
                    move || self.compare(&name, isolation)
                };
                trials.push(Trial::test(format!("{folder}::{name}::{isolation}"), run).with_ignored_flag(is_skipped));
            }
            if folder == LEGACY.folder && !SAME_IN_BOTH.contains(&name.as_str()) {
                let run = {
                    let name = name.clone();
                    move || self.differs_without_profile(&name)
                };
                trials.push(Trial::test(format!("{folder}::{name}::without_profile"), run));
            }
        }
        for name in traces.difference(&scenarios) {
            let missing = format!("fixtures/{folder}/{name}.json is missing; its trace is there");
            trials.push(Trial::test(format!("{folder}::{name}"), move || Err(missing.into())));
        }
        trials
    }

    /// Returns the names of the scenarios, and of the traces.
    fn names(&self) -> (BTreeSet<String>, BTreeSet<String>) {
        let folder = fixtures(self.folder);
        let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let files = entries.map(|entry| entry.expect("a readable folder").file_name());
        let files = files.map(|name| name.into_string().expect("fixtures have plain names"));
        let (mut scenarios, mut traces) = (BTreeSet::new(), BTreeSet::new());
        for name in files.filter_map(|name| name.strip_suffix(".json").map(str::to_owned)) {
            match name.strip_suffix(&format!(".{}", self.suffix)) {
                Some(scenario) => traces.insert(scenario.to_owned()),
                None => scenarios.insert(name),
            };
        }
        (scenarios, traces)
    }

    fn scenario(&self, name: &str) -> PathBuf {
        fixtures(self.folder).join(format!("{name}.json"))
    }

    /// Returns the trace of the real pi.
    fn expected(&self, name: &str) -> Result<Value, Failed> {
        let file = format!("{name}.{}.json", self.suffix);
        let expected = read(&fixtures(self.folder).join(&file)).map_err(|why| {
            format!("fixtures/{}/{file}: {why}; tests/README.md says how it is captured from the real pi", self.folder)
        })?;
        if expected["pi"] != self.captured {
            return Err(format!("{file} was captured from pi {}, not {}", expected["pi"], self.captured).into());
        }
        Ok(expected)
    }

    fn compare(&self, name: &str, isolation: &str) -> Result<(), Failed> {
        let expected = self.expected(name)?;
        // Extensions in the folder can be named as examples, so that their errors contain no path of this machine.
        let folder = fixtures(self.folder).display().to_string();
        let options = [self.options, &["--examples", &folder]].concat();
        match differences(&expected, &drive(&self.scenario(name), isolation, &options)) {
            found if found.is_empty() => Ok(()),
            found => Err(found.join("\n").into()),
        }
    }

    /// Checks that a scenario of the older pi shows a change in a later version.
    fn differs_without_profile(&self, name: &str) -> Result<(), Failed> {
        let current = drive(&self.scenario(name), "thread", &[]);
        if current["pi"] != CURRENT.captured {
            return Err(format!("without a profile, pi is {}", current["pi"]).into());
        }
        if differences(&self.expected(name)?, &current).is_empty() {
            return Err("nothing differs without the profile".into());
        }
        Ok(())
    }
}

fn read(path: &Path) -> Result<Value, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

fn unreadable() -> Result<(), Failed> {
    let output =
        Command::new(env!("CARGO_BIN_EXE_pi-attacked")).args(["ext", "drive", "no/such/scenario.json"]).output()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(1) if stderr.contains("no/such/scenario.json") => Ok(()),
        code => Err(format!("{code:?}: {stderr}").into()),
    }
}
