//! Scenarios of one folder of fixtures, played by the real program and held against what a real pi did, in a sealed process
//! and in the host's thread.

use pijs_conformance::compare::{Options, compare};
use pijs_conformance::corpus::OFFLINE;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Where an extension can run here.
pub(crate) const ISOLATIONS: &[&str] = if cfg!(target_os = "linux") { &["process", "thread"] } else { &["thread"] };

/// Scenarios `NAME.json`, and `NAME.SUFFIX.json` beside each: what that pi did, captured once.
pub(crate) struct Played {
    /// Below `fixtures/`.
    pub(crate) folder: &'static str,
    pub(crate) suffix: &'static str,
    /// The pi that it was captured from.
    pub(crate) captured: &'static str,
    /// Whether pi's packages are needed, which a machine without a registry lacks.
    pub(crate) needs_packages: bool,
    /// Options of `pi ext drive`.
    pub(crate) options: &'static [&'static str],
}

/// Whether what pi's packages supply is left out.
pub(crate) fn is_offline() -> bool {
    std::env::var_os(OFFLINE).is_some_and(|value| !value.is_empty())
}

/// Runs the program, with words of its own: pi's are compared where its package can be fetched.
fn pi(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pi-attacked")).args(args).env("PIJS_WORDS", "own").output().expect("pi starts")
}

/// What an extension does in a scenario.
pub(crate) fn drive(scenario: &Path, isolation: &str, options: &[&str]) -> Value {
    let scenario = scenario.display().to_string();
    let output = pi(&[&["ext", "drive", "--isolation", isolation], options, &[&scenario]].concat());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{scenario}: {stderr}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{scenario}: {error}\n{stderr}"))
}

/// Where two documents differ, in words.
pub(crate) fn differences(expected: &Value, actual: &Value) -> Vec<String> {
    compare(expected, actual, &Options::default()).iter().map(ToString::to_string).collect()
}

impl Played {
    pub(crate) fn folder(&self) -> PathBuf {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures");
        fixtures.join(self.folder).canonicalize().unwrap_or_else(|error| panic!("fixtures/{}: {error}", self.folder))
    }

    pub(crate) fn scenario(&self, name: &str) -> PathBuf {
        self.folder().join(format!("{name}.json"))
    }

    /// What the real pi did.
    #[track_caller]
    pub(crate) fn expected(&self, name: &str) -> Value {
        let path = self.folder().join(format!("{name}.{}.json", self.suffix));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let expected: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(expected["pi"], self.captured, "{name} was captured from another pi");
        expected
    }

    #[track_caller]
    pub(crate) fn as_in_pi(&self, name: &str) {
        if self.needs_packages && is_offline() {
            return;
        }
        let expected = self.expected(name);
        // Extensions of the folder can be named as examples: then what they threw names no place of a machine.
        let folder = self.folder().display().to_string();
        let options = [self.options, &["--examples", &folder]].concat();
        for isolation in ISOLATIONS {
            let found = differences(&expected, &drive(&self.scenario(name), isolation, &options));
            assert!(found.is_empty(), "{name} in a {isolation}:\n{}", found.join("\n"));
        }
    }
}
