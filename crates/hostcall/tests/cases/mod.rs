//! Reads the test cases in one folder of `fixtures/`.

use serde::de::DeserializeOwned;
use std::path::Path;

/// Parses all files, sorted by name.
pub(crate) fn all<T: DeserializeOwned>(folder: &str) -> Vec<T> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(folder);
    let entries = std::fs::read_dir(&folder).expect("the fixtures are there");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("the folder can be listed").path()).collect();
    paths.sort();
    let read = |path: &Path| {
        let text = std::fs::read_to_string(path).expect("a fixture is text");
        toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    paths.iter().map(|path| read(path)).collect()
}
