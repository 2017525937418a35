//! Compares the table of statements, `fixtures/rummy/statements.json`, with the cases and the page of differences.
//!
//! A row is a checkable statement of a section of rummy's documents, with its evidence: cases of fixtures (`FILE: NAME`) and
//! tests (`FILE#FUNCTION`), the row of `docs/compatibility-rummy.md` if PiJS differs, or the reason why the statement cannot be
//! observed. Each named case must exist, and each case of the documents must be named.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Sections with checkable statements: the headings with anchors, and the headings of bundled and external plugins.
const SECTIONS: &[(&str, &[&str])] = &[
    (
        "002",
        &[
            "Entries",
            "Six Primitives",
            "Three Surfaces, One Grammar",
            "Four Writer Tiers",
            "Runs Are Entries",
            "Events & Filters",
            "Known Store",
            "Schema",
            "Schemes, Status & Visibility",
            "Scheme / Category Split",
            "Scheme Registry",
            "UPSERT Semantics",
            "Relational Tables",
            "Run State Machine",
            "Loops Table",
            "File Constraints",
            "Unified API",
            "Dispatch Path",
            "Plugin Convention",
            "Mode Enforcement",
            "YOLO Mode",
            "Repo Overview",
            "Streaming Entries",
            "Message Structure",
            "Packet Structure",
            "Loops, Previous, and Performed",
            "Key Entries",
            "Materialization",
            "Token Accounting",
            "Budget Enforcement",
            "RPC Methods",
            "Notifications",
            "Resolution",
            "Plugin System",
            "Tool Documentation Design",
            "Hedberg Editing Syntax",
            "Response Healing",
            "SQL Functions",
            "Configuration",
        ],
    ),
    (
        "003",
        &[
            "Quickstart",
            "Plugin Contract",
            "Unified API",
            "Registration",
            "core.ensureTool()",
            "core.registerScheme(config?)",
            "core.on(event, callback, priority?)",
            "core.filter(name, callback, priority?)",
            "Filter Priority Bands",
            "Tool Docs",
            "handler(entry, rummy)",
            "Reporting outcomes",
            "full(entry) / summary(entry)",
            "Two Objects",
            "Tool Verbs (on RummyContext)",
            "Query Methods",
            "Path conventions",
            "Properties",
            "Tool Display Order",
            "Hedberg",
            "Events & Filters",
            "Project Lifecycle",
            "Run & Loop Lifecycle",
            "Turn Pipeline",
            "Architectural exceptions",
            "Entry Events",
            "Budget",
            "Client Notifications",
            "Entry Lifecycle",
            "Streaming Entries",
            "Bundled Plugins",
            "External Plugins",
            "RPC Methods",
            "Wire Format",
            "Connection Handshake",
            "Primitives",
            "Run Lifecycle via Primitives",
            "Config & Query Methods",
            "Notifications (server → client)",
            "Retired Methods",
        ],
    ),
];

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn rows() -> Vec<Value> {
    let rows: Value = serde_json::from_str(&read("fixtures/rummy/statements.json")).expect("the table is JSON");
    rows.as_array().expect("a list").clone()
}

fn texts(value: &Value) -> impl Iterator<Item = &str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// Returns the cases of the fixtures by file, each with a flag: `true` if the case is based on the documents.
fn cases() -> BTreeMap<String, BTreeMap<String, bool>> {
    let mut found: BTreeMap<String, BTreeMap<String, bool>> = BTreeMap::new();
    for folder in ["cases", "entries", "pattern", "rpc", "tags"] {
        let files = fs::read_dir(Path::new(ROOT).join("fixtures/rummy").join(folder)).expect("a folder");
        for path in files.map_while(Result::ok).map(|entry| entry.path()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let Ok(value) = serde_json::from_str::<Value>(&fs::read_to_string(&path).expect("a file")) else {
                continue;
            };
            let list = value.as_array().or_else(|| value["cases"].as_array());
            for case in list.into_iter().flatten() {
                let section = case["section"].as_str().unwrap_or_default();
                let is_of_documents = section.starts_with("002 ") || section.starts_with("003 ");
                let name_of_case = case["name"].as_str().expect("a case has a name").to_owned();
                found.entry(format!("{folder}/{name}")).or_default().insert(name_of_case, is_of_documents);
            }
        }
    }
    found
}

#[test]
fn each_statement_is_shown_or_listed_as_a_difference() {
    let (cases, page) = (cases(), read("docs/compatibility-rummy.md"));
    let mut wrong = Vec::new();
    let mut named: BTreeSet<(String, String)> = BTreeSet::new();
    for row in rows() {
        let says = format!("{}: {}", row["section"], row["says"]);
        let (differs, not_here) = (row["differs"].as_str(), row["not_here"].as_str());
        if row.get("shown").is_none() && differs.is_none() && not_here.is_none() {
            wrong.push(format!("{says}: nothing shows it"));
        }
        for shown in texts(&row["shown"]) {
            if let Some((file, function)) = shown.split_once('#') {
                if !read(file).contains(&format!("fn {function}(")) {
                    wrong.push(format!("{says}: {file} has no {function}"));
                }
                continue;
            }
            let (file, case) = shown.split_once(": ").expect("a file and a case");
            // The table may name a case by the beginning of its name.
            let of_file = cases.get(file).into_iter().flat_map(BTreeMap::keys);
            let fits: Vec<&String> =
                of_file.filter(|name| *name == case || name.starts_with(&format!("{case},"))).collect();
            match fits[..] {
                [name] => drop(named.insert((file.to_owned(), name.clone()))),
                _ => wrong.push(format!("{says}: {file} has {} cases `{case}`", fits.len())),
            }
        }
        if let Some(differs) = differs
            && !page.contains(differs)
        {
            wrong.push(format!("{says}: docs/compatibility-rummy.md does not say `{differs}`"));
        }
    }
    for (file, names) in &cases {
        for (name, _) in names.iter().filter(|(_, is_of_documents)| **is_of_documents) {
            if !named.contains(&(file.clone(), name.clone())) {
                wrong.push(format!("no statement names {file}: {name}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of the table are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn each_section_has_a_statement() {
    let known: BTreeSet<String> = SECTIONS
        .iter()
        .flat_map(|(document, sections)| sections.iter().map(move |section| format!("{document} {section}")))
        .collect();
    let have: BTreeSet<String> = rows().iter().filter_map(|row| row["section"].as_str().map(str::to_owned)).collect();
    let missing: Vec<&String> = known.difference(&have).collect();
    let unknown: Vec<&String> = have.difference(&known).collect();
    assert!(missing.is_empty() && unknown.is_empty(), "missing: {missing:?}, unknown: {unknown:?}");
}
