//! Tests that extensions behave as under Node. Each folder of `fixtures/node` has an `index.ts`, whose `run` returns a text, and
//! an `expected.txt` with the text that Node returned (written by `fixtures/node/capture.mjs`). There is one test per folder.

mod support;

use libtest_mimic::{Failed, Trial};
use std::path::Path;
use support::World;

fn main() {
    let fixtures = pijs_testkit::fixture("node");
    let folders = std::fs::read_dir(&fixtures).expect("fixtures/node").map(|entry| entry.expect("an entry").path());
    let mut folders: Vec<_> = folders.filter(|path| path.is_dir()).collect();
    folders.sort();
    let trials = folders.into_iter().map(|folder| {
        let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
        Trial::test(name, move || compare(&folder))
    });
    libtest_mimic::run(&pijs_testkit::arguments(), trials.collect()).exit();
}

fn compare(folder: &Path) -> Result<(), Failed> {
    let world = World::new();
    // Node compiles text without a permission.
    world.answer(&folder.display().to_string(), &["--allow", "eval"]).succeeded();
    let actual = world.read("project/answer.txt");
    let expected = std::fs::read_to_string(folder.join("expected.txt"))
        .map_err(|error| format!("expected.txt: {error}; tests/README.md says how it is captured from Node"))?;
    for (number, (ours, node)) in std::iter::zip(actual.lines(), expected.lines()).enumerate() {
        if ours != node {
            return Err(format!("line {}\nPiJS: {ours}\nNode: {node}", number + 1).into());
        }
    }
    match (actual.lines().count(), expected.lines().count()) {
        _ if actual == expected => Ok(()),
        (ours, node) => Err(format!("{ours} lines, and {node} under Node").into()),
    }
}
