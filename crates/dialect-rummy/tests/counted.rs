//! Counts the cases that name a section of rummy's specification or plugin guide, and compares the table of
//! `docs/compatibility-rummy.md`.
//!
//! Cases are lines of fixtures (`"section": "002 Entries"`, where 002 is the specification and 003 the guide), tests and fixture
//! plugins (`rummy's specification, "Entries"`; `rummy's plugin guide, "Tool Verbs", "Query Methods"`). A case that names two
//! sections counts for both.

use regex::Regex;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const BEGINS: &str = "| document | section | cases |\n|---|---|---|\n";

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").map_while(Result::ok) {
        let path = entry.path();
        match path.is_dir() {
            true => walk(&path, found),
            false => found.push(path),
        }
    }
}

/// Returns the name of a document, which fixtures refer to by its number.
fn document_of(name: &str) -> String {
    match name {
        "002" => "specification",
        "003" => "plugin guide",
        name => name,
    }
    .to_owned()
}

#[test]
fn the_table_counts_the_cases_of_each_section() {
    let mut files = Vec::new();
    for folder in ["fixtures/rummy", "crates/dialect-rummy/src", "crates/rummy/src", "crates/rummy/tests"] {
        walk(&Path::new(ROOT).join(folder), &mut files);
    }
    let in_json = Regex::new(r#""section": "([^"]+)""#).expect("an expression");
    let in_comment = Regex::new(r#"^\s*//.*"#).expect("an expression");
    let document =
        Regex::new(r#"(?:rummy's |Document )?(specification|plugin guide|00[23]),((?: ?(?:,|and|;)? ?"[^"]+")+)"#)
            .expect("an expression");
    let quoted = Regex::new(r#""([^"]+)""#).expect("an expression");
    let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
    for file in files {
        // The table of statements refers to cases but does not contain any.
        let Some(text) = fs::read_to_string(&file).ok().filter(|_| !file.ends_with("statements.json")) else {
            continue;
        };
        for line in text.lines() {
            for found in in_json.captures_iter(line) {
                for section in found[1].split("; ").filter_map(|section| section.split(": ").next()) {
                    if let Some((document @ ("002" | "003"), name)) = section.split_once(' ') {
                        *counts.entry((document_of(document), name.trim().to_owned())).or_default() += 1;
                    }
                }
            }
            if !in_comment.is_match(line) || file.ends_with("counted.rs") {
                continue;
            }
            for found in document.captures_iter(line) {
                for section in quoted.captures_iter(&found[2]) {
                    *counts.entry((document_of(&found[1]), section[1].to_owned())).or_default() += 1;
                }
            }
        }
    }
    let mut table = BEGINS.to_owned();
    for ((document, section), cases) in &counts {
        let _ = writeln!(table, "| {document} | {section} | {cases} |");
    }
    let _ = writeln!(table, "| both | {} sections | {} |", counts.len(), counts.values().sum::<usize>());
    let page = fs::read_to_string(Path::new(ROOT).join("docs/compatibility-rummy.md")).expect("the page");
    assert!(page.contains(&table), "the table of docs/compatibility-rummy.md is to be:\n\n{table}");
}
