//! `pi ext supply`: fetches and compiles all modules of pi and its packages that extensions may import.

use crate::output::{clean, stdout};
use pijs_extc::{Pinned, Supply, Unit};
use pijs_runtime::Environment;
use pijs_runtime::compile::Compiler;
use pijs_runtime::pi_texts;
use pijs_runtime::supply::Supplier;
use pijs_runtime::{Result, UserError};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// Upper-case prefixes of the names of licence files.
const LICENCE_FILES: &[&str] = &["LICENSE", "LICENCE", "COPYING", "NOTICE"];

/// Prepares all units and prints a line for each; with `licences` also writes their licence texts.
pub(crate) async fn print(environment: &Environment, licences: Option<&Path>) -> Result<()> {
    let compiler = Compiler::new(environment);
    let Some(cache) = compiler.cache() else {
        return Err(UserError::failed("there is no cache folder").help("set XDG_CACHE_HOME to a folder that you own"));
    };
    compiler.host_modules()?;
    let supplier = Supplier::new(environment, Some(cache)).offline(pi_texts::is_offline(environment));
    for unit in Supply::pinned().units() {
        supplier.unit(unit).await?;
        let packages: Vec<String> =
            unit.packages().map(|package| format!("{}@{}", package.name, package.version)).collect();
        stdout(&format!("{:<18} {}", unit.name(), packages.join(", ")));
    }
    pi_texts::of_start(environment, &compiler).await;
    if let Some(file) = licences {
        let texts = licences_of(&supplier).await?;
        std::fs::write(file, texts).map_err(|error| UserError::failed(format!("{}: {error}", file.display())))?;
        stdout(&format!("licences: {}", clean(&file.display().to_string())));
    }
    Ok(())
}

/// Returns the licences of all supplied packages, by name.
async fn licences_of(supplier: &Supplier) -> Result<String> {
    let units = Supply::pinned().units().flat_map(Unit::packages);
    let packages: BTreeMap<&str, Pinned<'_>> = units.map(|package| (package.name, package)).collect();
    let folder = supplier.unpacked_all(packages.values().copied()).await?;
    let mut texts = String::new();
    for (name, package) in packages {
        let _ = writeln!(texts, "{name} {} ({})\n", package.version, package.licence);
        let found = licence_files(&folder.path().join("node_modules").join(name))
            .map_err(|error| UserError::failed(format!("the files of {name}: {error}")))?;
        if found.is_empty() {
            let _ = writeln!(texts, "The package has no file with its licence; its package.json names it.");
        }
        for text in found {
            let _ = writeln!(texts, "{}", text.trim());
        }
        texts.push('\n');
    }
    Ok(texts)
}

fn licence_files(folder: &Path) -> std::io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if LICENCE_FILES.iter().any(|begin| name.to_uppercase().starts_with(begin)) {
            names.push(name);
        }
    }
    names.sort();
    names.iter().map(|name| std::fs::read_to_string(folder.join(name))).collect()
}
