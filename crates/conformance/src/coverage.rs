//! Measures which names of pi's API, of the modules that pi supplies, and of Node's API exist in a realm.
//!
//! The names were captured from the real pi and Node (`fixtures/api`). An extension, `probe/`, looks them up in a realm, so that
//! the count is what an extension sees: a member exists, throws when it is called because it is not supported, or is missing.

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

const PROBE: &str = include_str!("../probe/index.js");

/// Lists of members that the probe examines, with the name of their object.
const OBJECTS: &[(&str, &str)] = &[
    ("pi", "`pi` (`ExtensionAPI`)"),
    ("ctx", "`ctx` of handlers (`ExtensionContext`)"),
    ("command", "`ctx` of commands (`ExtensionCommandContext`)"),
    ("ui", "`ctx.ui` (`ExtensionUIContext`)"),
    ("sessionManager", "`ctx.sessionManager` (`SessionManager`)"),
    ("modelRegistry", "`ctx.modelRegistry` (`ModelRegistry`)"),
];

/// The result of the probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coverage {
    /// Members of the objects that pi passes to extensions, then the modules of pi and of the packages it supplies.
    pub api: Vec<NameCount>,
    /// The version of the API whose names are listed: `pi 0.87.1`.
    pub api_of: String,
    /// Globals, then Node's modules.
    pub node: Vec<NameCount>,
    /// The version of Node whose names are listed: `Node 22.23.3`.
    pub node_of: String,
}

/// One list of names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameCount {
    /// Title, in Markdown.
    pub title: String,
    /// Number of names.
    pub names: usize,
    /// Names that do not exist.
    pub missing: Vec<String>,
    /// Functions and classes that exist, but only throw an error with a hint.
    pub refused: Vec<String>,
}

/// Content of `exports-VERSION.json` and `node-MAJOR.json`.
#[derive(Debug, Deserialize)]
struct Exports {
    of: String,
    modules: BTreeMap<String, Vec<String>>,
}

/// The probe's result for one list of names.
#[derive(Debug, Deserialize)]
struct ProbeLine {
    list: String,
    missing: Vec<String>,
    refused: Vec<String>,
}

impl Coverage {
    /// Runs the probe in the program `pi`; `lists` is the folder `fixtures/api`.
    ///
    /// # Errors
    ///
    /// Fails if lists cannot be read, `pi` does not start, or the probe reports no result for a list.
    pub fn measure(pi: &Path, lists: &Path) -> Result<Self> {
        let members: BTreeMap<String, BTreeMap<String, Value>> = read(&lists.join("members-0.87.1.json"))?;
        let supplied: Exports = read(&lists.join("exports-0.87.1.json"))?;
        let node: Exports = read(&lists.join("node-22.json"))?;
        let mut wanted = serde_json::Map::new();
        for (list, _) in OBJECTS {
            let names = members.get(*list).with_context(|| format!("no members of {list} are listed"))?;
            let kind = |kind: &Value| if kind == "value" { "value" } else { "function" };
            wanted.insert(
                (*list).to_owned(),
                names.iter().map(|(name, found)| (name.clone(), json!(kind(found)))).collect(),
            );
        }
        let modules: Vec<&str> = supplied.modules.keys().chain(node.modules.keys()).map(String::as_str).collect();
        for (module, names) in supplied.modules.iter().chain(&node.modules) {
            wanted.insert(module.clone(), names.iter().map(|name| (name.clone(), json!("any"))).collect());
        }
        let mut seen = look(pi, &Value::Object(wanted), &modules)?;
        let mut counted = |list: &str, title: String, names: usize| {
            let ProbeLine { missing, refused, .. } =
                seen.remove(list).with_context(|| format!("the probe did not reach {list}"))?;
            Ok::<_, anyhow::Error>(NameCount { title, names, missing, refused })
        };
        let mut api = Vec::new();
        for (list, title) in OBJECTS {
            api.push(counted(list, (*title).to_owned(), members[*list].len())?);
        }
        for (module, names) in &supplied.modules {
            api.push(counted(module, format!("`{module}`"), names.len())?);
        }
        let mut of_node = Vec::new();
        for (module, names) in &node.modules {
            let title = if module == "globalThis" { "globals".to_owned() } else { format!("`{module}`") };
            of_node.push(counted(module, title, names.len())?);
        }
        Ok(Self { api, api_of: supplied.of, node: of_node, node_of: node.of })
    }
}

/// Runs the probe, and returns its results by list.
fn look(pi: &Path, lists: &Value, modules: &[&str]) -> Result<BTreeMap<String, ProbeLine>> {
    let folder = tempfile::tempdir()?;
    // A missing module is not an error: none of its names exist.
    let mut imports = "export const modules = {};\n".to_owned();
    for module in modules.iter().filter(|module| **module != "globalThis") {
        writeln!(imports, "modules[\"{module}\"] = await import(\"{module}\").catch(() => ({{}}));")?;
    }
    let scenario = json!({
        "name": "coverage", "extensions": ["./index.js"], "ui": {"mode": "none"}, "steps": [{"command": "/look"}],
    });
    let files = [
        ("index.js", PROBE.to_owned()),
        ("lists.js", format!("export const lists = {lists};\n")),
        ("modules.js", imports),
        ("scenario.json", scenario.to_string()),
    ];
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text)?;
    }
    let output = Command::new(pi)
        .args(["ext", "drive"])
        .arg(folder.path().join("scenario.json"))
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{} cannot be started", pi.display()))?;
    let trace: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("no trace: {}", String::from_utf8_lossy(&output.stderr)))?;
    let items = trace["trace"].as_array().context("a trace has items")?;
    if let Some(error) = items.iter().find(|item| item["t"] == "load_error") {
        bail!("the probe does not load: {}", error["error"]);
    }
    let mut seen = BTreeMap::new();
    for text in items.iter().filter(|item| item["t"] == "output").filter_map(|item| item["text"].as_str()) {
        // A trace keeps output as JSON escapes.
        let text: String = serde_json::from_str(&format!("\"{text}\""))?;
        for line in text.lines().filter_map(|line| line.strip_prefix("coverage ")) {
            let one: ProbeLine = serde_json::from_str(line)?;
            seen.insert(one.list.clone(), one);
        }
    }
    Ok(seen)
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}
