//! Finds dependencies that are not used, from the manifests and the sources, without a network.
//!
//! A dependency counts as used if a path begins with its name (`name::`) or an item imports it (`use name`), outside of comments.
//! A normal dependency has to be used in `src` or the build script, a development dependency anywhere in the package.
//! [`EXCEPTIONS`] lists names that occur only in a macro's argument; unneeded exceptions are reported too. Each of
//! `[workspace.dependencies]` must be named by some crate.

use crate::sources::sources;
use crate::violation::{Violation, violation};
use anyhow::{Context, Result};
use cargo_metadata::{Dependency, DependencyKind, Metadata, Package};
use std::fs;
use std::path::Path;

/// Package, dependency, and why no source contains its name.
pub const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("pijs-compute", "k256", "an argument of the macro `curve!`"),
    ("pijs-compute", "p256", "an argument of the macro `curve!`"),
    ("pijs-compute", "p384", "an argument of the macro `curve!`"),
    ("pijs-compute", "p521", "an argument of the macro `curve!`"),
    ("pijs-tests", "pijs-protocol", "its feature guard-switches makes `pi-attacked` what it is"),
];

/// Returns unused dependencies of the workspace's packages, and unneeded exceptions.
pub fn violations(metadata: &Metadata) -> Result<Vec<Violation>> {
    let packages = metadata.workspace_packages();
    let mut found = Vec::new();
    for package in &packages {
        let code = Code::of(package)?;
        for dependency in &package.dependencies {
            found.extend(unused(&package.name, dependency, extern_name(metadata, package, dependency), &code));
        }
    }
    for (package, dependency, _) in EXCEPTIONS {
        let is_named = |one: &Package| one.dependencies.iter().any(|used| manifest_name(used) == *dependency);
        if !packages.iter().any(|one| one.name == *package && is_named(one)) {
            found.push(violation(*package, format!("does not depend on {dependency}: take it off EXCEPTIONS")));
        }
    }
    let manifest = fs::read_to_string(crate::root().join("Cargo.toml")).context("reading Cargo.toml")?;
    let named = |name: &str| packages.iter().any(|one| one.dependencies.iter().any(|used| manifest_name(used) == name));
    let unnamed = shared(&manifest).into_iter().filter(|name| !named(name));
    found.extend(unnamed.map(|name| violation("Cargo.toml", format!("no crate depends on {name}: remove it"))));
    Ok(found)
}

/// Source text of a package, without comments.
struct Code {
    /// `src` and the build script.
    shipped: String,
    /// Tests, benches and examples.
    others: String,
}

impl Code {
    fn of(package: &Package) -> Result<Self> {
        let root = package.manifest_path.parent().expect("a manifest is in a folder").as_std_path();
        let mut code = Self { shipped: String::new(), others: String::new() };
        for file in sources(root)? {
            let below = file.strip_prefix(root).expect("sources are below their package");
            if is_of_another(root, below) {
                continue;
            }
            let text = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
            let part = if below.starts_with("src") || below == Path::new("build.rs") {
                &mut code.shipped
            } else {
                &mut code.others
            };
            for line in text.lines() {
                // A comment at the end of a line follows a blank; `//` in a URL does not.
                let code =
                    if line.trim_start().starts_with("//") { "" } else { line.split(" //").next().unwrap_or_default() };
                part.push_str(code);
                part.push('\n');
            }
        }
        Ok(code)
    }
}

/// Returns whether a file below `root` belongs to a nested package.
fn is_of_another(root: &Path, below: &Path) -> bool {
    below.ancestors().skip(1).any(|folder| folder != Path::new("") && root.join(folder).join("Cargo.toml").exists())
}

fn unused(package: &str, dependency: &Dependency, name: String, code: &Code) -> Option<Violation> {
    let is_shipped = dependency.kind != DependencyKind::Development;
    let (in_shipped, in_others) = (uses(&code.shipped, &name), uses(&code.others, &name));
    let is_used = in_shipped || !is_shipped && in_others;
    let named = manifest_name(dependency);
    let is_excepted = EXCEPTIONS.iter().any(|(one, other, _)| (*one, *other) == (package, named));
    match (is_used, is_excepted) {
        (true, true) => Some(violation(package, format!("uses {named}: take it off EXCEPTIONS"))),
        (false, false) if in_others => {
            Some(violation(package, format!("uses {named} in tests alone: move it to [dev-dependencies]")))
        }
        (false, false) => Some(violation(package, format!("does not use {named}: remove it from its Cargo.toml"))),
        _ => None,
    }
}

/// Returns whether code uses a crate: `name::`, `use name` or `extern crate name`.
pub fn uses(code: &str, name: &str) -> bool {
    code.match_indices(name).any(|(at, _)| {
        let (before, after) = (&code[..at], &code[at + name.len()..]);
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        if before.ends_with(is_word) || after.starts_with(is_word) {
            return false;
        }
        // In `crate::name::` the name is a module of the package; in `::name::` it is the crate.
        if before.strip_suffix("::").is_some_and(|path| path.ends_with(|c: char| is_word(c) || c == '>')) {
            return false;
        }
        let before = before.trim_end();
        after.trim_start().starts_with("::")
            || before.ends_with(" use")
            || before.ends_with("\nuse")
            || before.ends_with("crate")
    })
}

/// Returns the name of a dependency in the manifest.
fn manifest_name(dependency: &Dependency) -> &str {
    dependency.rename.as_deref().unwrap_or(&dependency.name)
}

/// Returns the name of a dependency in sources: its library's name, unless the manifest renames it.
fn extern_name(metadata: &Metadata, package: &Package, dependency: &Dependency) -> String {
    let nodes = metadata.resolve.as_ref().map(|resolve| resolve.nodes.as_slice()).unwrap_or_default();
    let node = nodes.iter().find(|node| node.id == package.id);
    let is_it = |id: &cargo_metadata::PackageId| {
        metadata.packages.iter().any(|one| one.id == *id && one.name == dependency.name)
    };
    let renames: Vec<String> =
        package.dependencies.iter().filter_map(|one| Some(one.rename.as_ref()?.replace('-', "_"))).collect();
    let resolved = node.into_iter().flat_map(|node| &node.deps);
    let name = match &dependency.rename {
        Some(rename) => rename.clone(),
        None => resolved
            .filter(|used| is_it(&used.pkg) && !renames.contains(&used.name))
            .map(|used| used.name.clone())
            .next()
            .unwrap_or_else(|| dependency.name.clone()),
    };
    name.replace('-', "_")
}

/// Returns the names under `[workspace.dependencies]` in a manifest.
pub fn shared(manifest: &str) -> Vec<&str> {
    let section = manifest.split_once("\n[workspace.dependencies]\n").map_or("", |(_, rest)| rest);
    let section = section.split_once("\n[").map_or(section, |(section, _)| section);
    let names = section.lines().filter_map(|line| Some(line.split_once('=')?.0.trim()));
    names.filter(|name| !name.is_empty() && !name.starts_with('#')).collect()
}
