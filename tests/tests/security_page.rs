//! Checks that `docs/security.md` lists exactly the codes and reasons in the source.

use regex::Regex;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package is a folder of the workspace").to_owned()
}

fn page() -> String {
    fs::read_to_string(root().join("docs/security.md")).expect("docs/security.md")
}

/// Returns the rows of the table whose head contains `head`, as cells.
fn table(page: &str, head: &str) -> Vec<Vec<String>> {
    let rows = page.lines().skip_while(|line| !line.starts_with(head)).skip(2).take_while(|line| line.starts_with('|'));
    let cells = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    rows.map(cells).collect()
}

fn words(text: &str) -> BTreeSet<String> {
    let quoted = Regex::new("`([A-Za-z_]+)`").expect("a constant");
    quoted.captures_iter(text).map(|found| found[1].to_owned()).collect()
}

fn sources(folder: &Path, texts: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("sources").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, texts);
        } else if path.extension().is_some_and(|it| it == "rs")
            && !path.file_name().is_some_and(|name| name.to_string_lossy().contains("test"))
        {
            texts.push(fs::read_to_string(&path).expect("text"));
        }
    }
}

fn text_of(folders: &[&str]) -> String {
    let mut texts = Vec::new();
    folders.iter().for_each(|folder| sources(&root().join(folder), &mut texts));
    // Tests within a file are left out.
    texts.iter().map(|text| text.split("#[cfg(test)]").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

fn literals(text: &str, pattern: &str) -> BTreeSet<String> {
    Regex::new(pattern).expect("a constant").captures_iter(text).map(|found| found[1].to_owned()).collect()
}

#[test]
fn reasons_of_hostcalls() {
    let page = page();
    let rows = table(&page, "| situation | `code` |");
    assert!(rows.len() >= 10, "the table of situations is gone");
    let codes: BTreeSet<String> = ["timeout", "denied", "io", "invalid_request", "internal"].map(str::to_owned).into();
    for row in &rows {
        assert!(words(&row[1]).is_subset(&codes), "{row:?}");
    }
    let listed: BTreeSet<String> = rows.iter().flat_map(|row| words(&row[2])).collect();
    let source = text_of(&["crates/hostcall/src", "crates/connectors/src", "crates/realm/src"]);
    let mut used = literals(&source, r#"HostcallError::(?:invalid|denied)\(\s*"([a-z_]+)""#);
    used.extend(literals(&source, r#"\.with\(\s*"reason",\s*"([a-z_]+)""#));
    used.extend(literals(
        &source,
        r#"Self::[A-Za-z]+ => "(no_grant|scope|policy|user|non_interactive|protected_path|blocked_address)""#,
    ));
    let missing: Vec<_> = used.difference(&listed).collect();
    assert!(missing.is_empty(), "not in docs/security.md: {missing:?}");
    let all = text_of(&["crates"]);
    let invented: Vec<_> = listed.iter().filter(|word| !all.contains(&format!("\"{word}\""))).collect();
    assert!(invented.iter().all(|word| word.as_str() == "ENOENT"), "no code says: {invented:?}");
}

#[test]
fn codes_of_installs_and_builds() {
    let page = page();
    let first = |head: &str| table(&page, head).iter().flat_map(|row| words(&row[0])).collect::<BTreeSet<_>>();
    let errors = fs::read_to_string(root().join("crates/packages/src/error.rs")).expect("text");
    assert_eq!(first("| code | refused because |"), literals(&errors, r#"=> "(IN_[A-Z]+)""#));
    let diagnostics = fs::read_to_string(root().join("crates/diagnostics/src/lib.rs")).expect("text");
    assert_eq!(first("| code | means |"), literals(&diagnostics, r#"=> "(BD_[A-Z_]+)""#));
}
