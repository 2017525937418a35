//! Checks the version and completeness of `fixtures/conformance/`, which holds output of the real pi, copied unchanged: every
//! scenario has its trace, every extension of the corpus its snapshot.

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The version of pi that was captured; a new capture changes this constant.
const CAPTURED_FROM: &str = "0.87.1";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/conformance")
}

/// Returns the names of the JSON files in a folder.
fn names(path: &str) -> BTreeSet<String> {
    let path = folder().join(path);
    fs::read_dir(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        .map(|entry| entry.expect("a directory entry").file_name().into_string().expect("a UTF-8 name"))
        .filter(|name| name.ends_with(".json"))
        .collect()
}

fn read(path: &str) -> Value {
    let path = folder().join(path);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_scenario_has_its_expected_trace_and_every_trace_its_scenario() {
    let scenarios = names("scenarios/dev");
    assert_eq!(scenarios, names("expected/dev"));
    assert!(scenarios.len() >= 78, "scenarios were lost");
    for name in scenarios {
        let scenario = read(&format!("scenarios/dev/{name}"));
        let expected = read(&format!("expected/dev/{name}"));
        assert_eq!(expected["format"], "pi-ext-trace/1", "{name}");
        assert_eq!(expected["pi"], CAPTURED_FROM, "{name}");
        assert_eq!(expected["name"], scenario["name"], "{name}");
        assert!(expected["trace"].as_array().is_some_and(|trace| !trace.is_empty()), "{name}");
    }
}

#[test]
fn every_extension_of_the_corpus_has_its_snapshot() {
    let corpus = read("dev-corpus.json");
    assert_eq!(corpus["pi"], CAPTURED_FROM);
    let list = |key: &str| corpus[key].as_array().cloned().unwrap_or_else(|| panic!("{key} is a list"));
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let examples = list("examples").into_iter().map(|one| format!("example--{}.json", text(&one["name"])));
    let packages = list("packages")
        .into_iter()
        .map(|one| format!("npm--{}@{}.json", text(&one["name"]).replace('/', "+"), text(&one["version"])));
    let expected: BTreeSet<String> = examples.chain(packages).collect();
    assert!(expected.len() >= 63, "extensions were lost");
    assert_eq!(names("expected/dev/snapshots"), expected);
    for name in expected {
        let snapshot = read(&format!("expected/dev/snapshots/{name}"));
        assert_eq!(snapshot["format"], "pi-ext-snapshot/1", "{name}");
        assert_eq!(snapshot["pi"], CAPTURED_FROM, "{name}");
    }
}
