//! Checks that names in pages and lists of the workspace exist, and that indexes are complete.
//!
//! - **Crates.** Every `pijs-NAME` in [`PAGES`], in `docs/`, in the sources of this package and in
//!   [`LAYERS`](crate::rules::LAYERS) is a package of the workspace; the map in `docs/architecture.md` lists every crate once.
//! - **Files.** Every path in these pages that is formatted as code and begins with a folder of the workspace exists.
//! - **Fixtures.** `fixtures/README.md` has a row for each folder of fixtures, which names the file that runs it.
//! - **Citations.** No source cites a requirement document by number; comments cite pages of `docs/`.
//! - **Test binaries.** `tests/README.md` has a row for each test binary.

use crate::links;
use crate::sources::sources;
use crate::violation::{Violation, violation};
use anyhow::{Context, Result};
use cargo_metadata::{Metadata, TargetKind};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Checked pages outside of `docs/`.
pub const PAGES: &[&str] = &["README.md", "tests/README.md", "tests/attacks/README.md", "fixtures/README.md"];

/// Names that look like crates but are not.
const OTHER_NAMES: &[&str] = &["pijs-host-modules", "pijs-lock"];

/// First folders of checked paths.
const FOLDERS: &[&str] = &["crates/", "docs/", "extc/", "fixtures/", "fuzz/", "schema/", "tests/", "xtask/", ".ci/"];

/// Returns the names in pages and lists that do not exist. `layers` lists the crates of each layer.
pub fn violations(metadata: &Metadata, layers: &[&[&str]]) -> Result<Vec<Violation>> {
    let packages = metadata.workspace_packages();
    let crates: BTreeSet<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    let read = |page: &str| fs::read_to_string(crate::root().join(page)).with_context(|| format!("reading {page}"));
    let mut found = Vec::new();
    for name in layers.iter().flat_map(|layer| *layer).filter(|name| !crates.contains(*name)) {
        found.push(violation("xtask/src/rules.rs", format!("LAYERS names {name}, which does not exist")));
    }
    let docs = links::pages(&crate::root().join("docs"))?;
    let docs = docs.iter().map(|page| format!("docs/{}", page.display()));
    for page in PAGES.iter().map(|page| (*page).to_owned()).chain(docs) {
        let text = read(&page)?;
        found.extend(unknown_crates(&page, &text, &crates));
        let missing = paths(&text).into_iter().filter(|path| !crate::root().join(path).exists());
        found.extend(missing.map(|path| violation(&page, format!("names {path}, which does not exist"))));
    }
    for file in sources(&crate::root().join("xtask/src"))? {
        let name = file.strip_prefix(crate::root()).unwrap_or(&file).display().to_string();
        found.extend(unknown_crates(&name, &fs::read_to_string(&file)?, &crates));
    }
    found.extend(map("docs/architecture.md", &read("docs/architecture.md")?, &crates));
    found.extend(fixtures(&read("fixtures/README.md")?)?);
    for file in sources(&crate::root())? {
        let name = file.strip_prefix(crate::root()).unwrap_or(&file).display().to_string();
        found.extend(cited(&name, &fs::read_to_string(&file)?));
    }
    let page = read("tests/README.md")?;
    let own =
        packages.iter().filter(|package| package.manifest_path.starts_with(metadata.workspace_root.join("tests")));
    for target in own.flat_map(|package| &package.targets).filter(|target| target.kind.contains(&TargetKind::Test)) {
        if row(&page, &target.name).is_none() {
            found.push(violation("tests/README.md", format!("has no row for the test binary {}", target.name)));
        }
    }
    Ok(found)
}

/// Returns the crate names in a text that are not crates of the workspace.
pub fn unknown_crates(page: &str, text: &str, crates: &BTreeSet<&str>) -> Vec<Violation> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let stands_for_others = |word: &str| word.contains(|c: char| c.is_ascii_uppercase());
    let words: BTreeSet<&str> = text.split(|c| !is_part(c)).filter(|word| word.starts_with("pijs-")).collect();
    let unknown = words.into_iter().map(|word| word.trim_end_matches('-'));
    let unknown = unknown.filter(|word| {
        *word != "pijs" && !stands_for_others(word) && !crates.contains(word) && !OTHER_NAMES.contains(word)
    });
    unknown.map(|word| violation(page, format!("names the crate {word}, which does not exist"))).collect()
}

/// Returns the lines of a source that cite a requirement document by number.
pub fn cited(name: &str, text: &str) -> Vec<Violation> {
    // The literal is split so that this file does not match itself.
    let citation = concat!("ocument", " 00");
    let lines = text.lines().enumerate().filter(|(_, line)| line.contains(citation));
    let what = "cites a document that is not in the repository; cite a page of docs/spec";
    lines.map(|(number, _)| violation(format!("{name}:{}", number + 1), what)).collect()
}

/// Compares the map of crates, the code block under `## Crates`, with the workspace.
pub fn map(page: &str, text: &str, crates: &BTreeSet<&str>) -> Vec<Violation> {
    let block = text.split_once("\n## Crates\n").and_then(|(_, rest)| rest.split("```").nth(1)).unwrap_or_default();
    let mut drawn = BTreeSet::new();
    let mut found = Vec::new();
    for line in block.lines().filter(|line| line.starts_with('L')) {
        // Remarks are in parentheses; the layer comes first.
        let names: String = line.split('(').map(|part| part.split_once(')').map_or(part, |(_, rest)| rest)).collect();
        for name in names.split_whitespace().skip(1) {
            let full = if crates.contains(name) { name.to_owned() } else { format!("pijs-{name}") };
            if !crates.contains(full.as_str()) {
                found.push(violation(page, format!("draws the crate {name}, which does not exist")));
            } else if !drawn.insert(full) {
                found.push(violation(page, format!("draws the crate {name} twice")));
            }
        }
    }
    let missing = crates.iter().filter(|name| !drawn.contains(**name));
    found.extend(missing.map(|name| violation(page, format!("does not draw the crate {name}"))));
    found
}

/// Returns the paths that a page formats as code, except glob patterns.
pub fn paths(text: &str) -> Vec<&str> {
    let is_plain = |path: &&str| {
        let stands_for_others = |part: &str| part.len() > 1 && part.chars().all(|c| c.is_ascii_uppercase() || c == '-');
        !path.contains(|c: char| c.is_whitespace() || "*<>{}[]$|@".contains(c))
            && !path
                .split(['/', '.', '-'])
                .any(|part| stands_for_others(part) && part != "README" && part != "DEVELOPERS")
    };
    let mut found = Vec::new();
    let mut is_block = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_block = !is_block;
        } else if !is_block {
            let code = line.split('`').skip(1).step_by(2);
            found.extend(code.filter(|path| FOLDERS.iter().any(|folder| path.starts_with(folder))).filter(is_plain));
        }
    }
    found
}

/// Compares the index of fixtures with the existing folders.
fn fixtures(index: &str) -> Result<Vec<Violation>> {
    let mut folders = BTreeSet::new();
    for entry in fs::read_dir(crate::root().join("fixtures"))? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            folders.insert(format!("fixtures/{}/", entry.file_name().to_string_lossy()));
        }
    }
    for entry in fs::read_dir(crate::root().join("crates"))? {
        let folder = Path::new("crates").join(entry?.file_name()).join("tests/fixtures");
        if crate::root().join(&folder).is_dir() {
            folders.insert(format!("{}/", folder.display()));
        }
    }
    Ok(folders.iter().filter_map(|folder| unindexed(index, folder)).collect())
}

/// Reports a folder that has no row, or a row that names no runner.
pub fn unindexed(index: &str, folder: &str) -> Option<Violation> {
    let page = "fixtures/README.md";
    match row(index, folder) {
        None => Some(violation(page, format!("has no row for {folder}"))),
        Some(row) if !paths(row).iter().any(|path| path.ends_with(".rs")) => {
            Some(violation(page, format!("names no runner (a .rs file) of {folder}")))
        }
        Some(_) => None,
    }
}

/// Returns the table row whose first cell is this name, formatted as code.
fn row<'a>(page: &'a str, name: &str) -> Option<&'a str> {
    let start = format!("| `{name}`");
    page.lines().find(|line| line.starts_with(&start))
}
