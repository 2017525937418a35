//! Checks the rules on dependencies from `cargo metadata`, `Cargo.lock` and the sources, without a network.
//!
//! - **Directions.** A workspace crate uses crates of lower layers only ([`LAYERS`]); normal and build dependencies
//!   count, development dependencies do not.
//! - **Engine isolation.** Only `pijs-engine` uses rquickjs; there is exactly one `rquickjs-sys`; only the sources
//!   of the two engines, `pijs-engine` and `pijs-wasm`, contain `unsafe`.
//! - **Switches.** Only `pijs-tests` enables `guard-switches`, and it is not a default member of the workspace. Only tests
//!   enable `test-hooks`.
//! - **Names.** Crates and files named in pages and lists exist, and indexes are complete ([`references`]).
//! - **Links.** Links between pages are valid, and the book has every page ([`links`]).
//! - **Modules.** No source of one crate includes a file of another by `#[path]`.
//! - **Prose.** The number of unclear comments and long commit subjects does not grow ([`prose`]).
//! - **Circles.** Import cycles between the modules of a crate are small ([`circles`]).
//! - **Size.** No crate exceeds a maximum number of lines ([`size`]).
//! - **Unused dependencies.** Each dependency is used ([`unused`]).
//! - **Foreign crates.** None is in [`BANNED`], and each has a licence in [`LICENCES`]. `deny.toml` has the same
//!   lists for cargo-deny, which also looks up advisories; a test compares them.

use crate::sources::sources;
use crate::violation::{Violation, violation};
use crate::{circles, links, prose, references, size, unused};
use anyhow::{Context, Result};
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Layers from the bottom up, as in `docs/architecture.md`.
pub const LAYERS: &[&[&str]] = &[
    &["pijs-protocol"],
    &["pijs-environment"],
    &[
        "pijs-artifact",
        "pijs-compute",
        "pijs-diagnostics",
        "pijs-durable",
        "pijs-matcher",
        "pijs-node-compat",
        "pijs-programs",
        "pijs-redact",
        "pijs-terminal",
        "pijs-tick",
        "pijs-webassembly",
    ],
    &["pijs-engine", "pijs-git-bounds", "pijs-hostcall", "pijs-wasm"],
    &["pijs-connectors", "pijs-mcp", "pijs-packages", "pijs-realm", "pijs-rules"],
    &["pijs-extc", "pijs-llm", "pijs-resources", "pijs-tape"],
    &["pijs-dialect-rummy", "pijs-host", "pijs-inputs", "pijs-inspector", "pijs-session-store", "pijs-tools"],
    &["pijs-agent"],
    &["pijs-runtime"],
    &["pijs-conformance", "pijs-rummy", "pijs-tui"],
    &["pijs-cli", "pijs-readers", "xtask"],
    // No layer is above these two crates, so others can use the kit as a development dependency only.
    &["pijs-testkit", "pijs-tests"],
];

/// Crates that must not occur anywhere in the dependency tree.
pub const BANNED: &[&str] = &["asupersync", "pi_agent_rust", "swc_bundler", "birdcage", "tokio-tar", "command-group"];

/// Permitted licences of foreign crates.
pub const LICENCES: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "MPL-2.0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// The metadata of the workspace from cargo.
pub struct Workspace {
    metadata: Metadata,
}

impl Workspace {
    /// Runs `cargo metadata` without changing the lock file. Uses the network if a crate is missing: a machine that has only
    /// built lacks crates of other systems, whose licences count as well.
    pub fn read() -> Result<Self> {
        let ask = |options: &[&str]| {
            MetadataCommand::new()
                .manifest_path(crate::root().join("Cargo.toml"))
                .other_options(options.iter().map(|&option| option.to_owned()).collect::<Vec<_>>())
                .exec()
        };
        let metadata = ask(&["--locked", "--offline"]).or_else(|_| ask(&["--locked"])).context("cargo metadata")?;
        Ok(Self { metadata })
    }

    /// Returns the number of packages, including foreign ones.
    pub fn packages(&self) -> usize {
        self.metadata.packages.len()
    }

    /// Returns all violations of the rules, sorted.
    pub fn violations(&self) -> Result<Vec<Violation>> {
        let mut found = BTreeSet::new();
        for package in self.metadata.workspace_packages() {
            let used: Vec<&str> = package
                .dependencies
                .iter()
                .filter(|dependency| dependency.kind != DependencyKind::Development)
                .map(|dependency| dependency.name.as_str())
                .collect();
            found.extend(directions(&package.name, &used));
            let switched = package.dependencies.iter().flat_map(|dependency| &dependency.features);
            found.extend(switches(&package.name, switched.chain(package.features.values().flatten())));
            let shipped = package.dependencies.iter().filter(|used| used.kind != DependencyKind::Development);
            found.extend(hooks(
                &package.name,
                shipped.flat_map(|used| &used.features).chain(package.features.values().flatten()),
            ));
            found.extend(unsafe_words(package)?);
            found.extend(includes(package)?);
            found.extend(size::violations(package)?);
            found.extend(circles::violations(package)?);
        }
        found.extend(references::violations(&self.metadata, LAYERS)?);
        found.extend(links::violations()?);
        found.extend(unused::violations(&self.metadata)?);
        found.extend(prose::violations(&crate::root())?);
        let names: Vec<&str> = self.metadata.packages.iter().map(|package| package.name.as_str()).collect();
        found.extend(foreign(&names));
        let run = self.metadata.workspace_default_packages();
        if run.iter().any(|package| package.name.as_str() == "pijs-tests") {
            found.insert(violation("pijs-tests", "is a default member: what cargo runs would have guard-switches"));
        }
        let ours = &self.metadata.workspace_members;
        for package in self.metadata.packages.iter().filter(|package| !ours.contains(&package.id)) {
            if !package.license.as_deref().is_some_and(licensed) {
                let licence = package.license.as_deref().unwrap_or("no licence expression");
                found.insert(violation(
                    format!("{} {}", package.name, package.version),
                    format!("is under {licence}; allowed are {}", LICENCES.join(", ")),
                ));
            }
        }
        Ok(found.into_iter().collect())
    }
}

/// Checks a crate's dependency directions and its use of rquickjs.
pub fn directions(name: &str, used: &[&str]) -> Vec<Violation> {
    let layer = |name: &str| LAYERS.iter().position(|crates| crates.contains(&name));
    let Some(own) = layer(name) else {
        return vec![violation(name, "is in no layer; put it into docs/architecture.md and xtask/src/rules.rs")];
    };
    let mut found = Vec::new();
    for dependency in used {
        if layer(dependency).is_some_and(|other| other >= own) {
            found.push(violation(name, format!("uses {dependency}, which is not in a lower layer")));
        }
        if dependency.starts_with("rquickjs") && name != "pijs-engine" {
            found.push(violation(name, format!("uses {dependency}; only pijs-engine may")));
        }
    }
    found
}

/// Checks that only the package of the attack suite, which is never released, enables guard switches.
pub fn switches<'a>(name: &str, features: impl IntoIterator<Item = &'a String>) -> Option<Violation> {
    let on = features.into_iter().any(|feature| feature.rsplit('/').next() == Some("guard-switches"));
    (on && name != "pijs-tests").then(|| violation(name, "turns guard-switches on; only pijs-tests may"))
}

/// Checks that only development dependencies enable the engine's test hooks.
pub fn hooks<'a>(name: &str, features: impl IntoIterator<Item = &'a String>) -> Option<Violation> {
    let on = features.into_iter().any(|feature| feature.rsplit('/').next() == Some("test-hooks"));
    on.then(|| violation(name, "turns test-hooks on; only development dependencies may"))
}

/// Checks the set of all packages in the tree.
pub fn foreign(names: &[&str]) -> Vec<Violation> {
    let mut found: Vec<_> = BANNED
        .iter()
        .filter(|banned| names.contains(banned))
        .map(|banned| violation(*banned, "must not be in the tree; `cargo tree -i` says who brought it"))
        .collect();
    let engines = names.iter().filter(|name| **name == "rquickjs-sys").count();
    if engines != 1 {
        found.push(violation("rquickjs-sys", format!("is in the tree {engines} times, must be there once")));
    }
    found
}

/// Returns whether [`LICENCES`] satisfies a licence expression: one licence of a list joined by OR, all of a list joined by AND.
pub fn licensed(expression: &str) -> bool {
    let expression = expression.trim();
    if let Some(parts) = split(expression, &[" OR ", "/"]) {
        return parts.iter().any(|part| licensed(part));
    }
    if let Some(parts) = split(expression, &[" AND "]) {
        return parts.iter().all(|part| licensed(part));
    }
    match expression.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')) {
        Some(inner) => licensed(inner),
        None => LICENCES.contains(&expression),
    }
}

/// Splits at a separator outside of parentheses; `None` if there is none.
fn split<'a>(expression: &'a str, separators: &[&str]) -> Option<Vec<&'a str>> {
    let mut parts = Vec::new();
    let (mut depth, mut start, mut at) = (0_usize, 0, 0);
    while let Some(rest) = expression.get(at..) {
        let Some(first) = rest.chars().next() else { break };
        match first {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        match separators.iter().find(|separator| depth == 0 && rest.starts_with(**separator)) {
            Some(separator) => {
                parts.push(&expression[start..at]);
                at += separator.len();
                start = at;
            }
            None => at += first.len_utf8(),
        }
    }
    if parts.is_empty() {
        return None;
    }
    parts.push(&expression[start..]);
    Some(parts)
}

/// Checks that no package except the engines has `unsafe` in its sources.
fn unsafe_words(package: &Package) -> Result<Vec<Violation>> {
    if ["pijs-engine", "pijs-wasm"].contains(&package.name.as_str()) {
        return Ok(Vec::new());
    }
    let root = package.manifest_path.parent().expect("a manifest is in a folder").as_std_path();
    let mut found = Vec::new();
    for file in sources(root)? {
        let text = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
        for (number, line) in (1..).zip(text.lines()) {
            if says_unsafe(line) {
                let place = file.strip_prefix(crate::root()).unwrap_or(&file).display();
                found.push(violation(format!("{place}:{number}"), "says unsafe; only pijs-engine and pijs-wasm may"));
            }
        }
    }
    Ok(found)
}

/// Checks that no source of a package includes a file outside of it.
fn includes(package: &Package) -> Result<Vec<Violation>> {
    let root = package.manifest_path.parent().expect("a manifest is in a folder").as_std_path();
    let mut found = Vec::new();
    for file in sources(root)? {
        let text = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
        let below = file.strip_prefix(root).expect("sources are below their package");
        for path in text.lines().filter_map(included) {
            if leaves(below, path) {
                let place = file.strip_prefix(crate::root()).unwrap_or(&file).display().to_string();
                found.push(violation(place, format!("includes {path} of another crate; put it into crates/testkit")));
            }
        }
    }
    Ok(found)
}

/// Returns the path of a `#[path]` attribute.
fn included(line: &str) -> Option<&str> {
    line.trim().strip_prefix("#[path = \"")?.strip_suffix("\"]")
}

/// Returns whether a path, relative to a file in the package's folder, leads out of the package.
pub fn leaves(file: &Path, path: &str) -> bool {
    let mut depth = file.components().count() - 1;
    for part in path.split('/') {
        match part {
            ".." if depth == 0 => return true,
            ".." => depth -= 1,
            "." | "" => {}
            _ => depth += 1,
        }
    }
    false
}

/// Returns whether a line contains the keyword `unsafe`. Comments, strings, and names such as `unsafe_code` do not count.
pub fn says_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    const KEYWORD: &str = "unsafe";
    let openings = ["{", "fn ", "impl ", "extern ", "trait "].map(|what| [KEYWORD, what].join(" "));
    openings.iter().map(String::as_str).chain([concat!("#[", "unsafe(")]).any(|word| {
        code.match_indices(word).any(|(at, _)| {
            let before = &code[..at];
            before.matches('"').count().is_multiple_of(2)
                && !before.ends_with(|c: char| c.is_alphanumeric() || c == '_')
        })
    })
}
