//! Compares the entries of folders with those of the real pi. `fixtures/entries/capture.mjs` wrote the expected lists.

use pijs_packages::package_entries;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

fn read<T: serde::de::DeserializeOwned>(name: &str) -> T {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/entries").join(name);
    serde_json::from_slice(&fs::read(path).expect("a fixture")).expect("JSON")
}

/// Returns the paths in load order, or the error.
fn found(files: &BTreeMap<String, Option<String>>) -> Value {
    let folder = tempfile::tempdir().expect("a folder");
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().expect("in a folder")).expect("made");
        fs::write(path, text.as_deref().unwrap_or_default()).expect("written");
    }
    let Ok(entries) = package_entries(folder.path(), true) else { return json!("error") };
    let relative = |path: &Path| path.strip_prefix(folder.path()).expect("inside").display().to_string();
    json!(entries.files.iter().map(|path| relative(path)).collect::<Vec<_>>())
}

#[test]
fn a_folders_extensions_are_those_that_the_real_pi_loads() {
    let cases: BTreeMap<String, BTreeMap<String, Option<String>>> = read("cases.json");
    let expected: BTreeMap<String, Value> = read("expected-0.87.1.json");
    let differs: BTreeMap<String, Value> = read("differs.json");
    assert!(cases.keys().eq(expected.keys()), "captured again");
    let mut wrong = Vec::new();
    for (name, files) in &cases {
        let here = differs.get(name).map(|differs| &differs["here"]);
        if here == Some(&expected[name]) {
            wrong.push(format!("{name}: no longer differs"));
        }
        let (expected, found) = (here.unwrap_or(&expected[name]), found(files));
        if found != *expected {
            wrong.push(format!("{name}: {found}, not {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
