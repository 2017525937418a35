//! Compiles one unit to one artifact: generated entries, one linker run with several inputs, bytecode.
//!
//! Each module of the unit is an input of the linker, named by its specifier, so that relative imports
//! between its chunks are valid in the realm unchanged:
//!
//! ```text
//! typebox                  import { t as Type } from "./-/typebox/chunk.js"
//! typebox/compile          import { t as Type } from "../-/typebox/chunk.js"
//! -/typebox/chunk.js
//! ```

use crate::access::FileAccess;
use crate::cache::{Cache, Key};
use crate::embedded;
use crate::emit::compile_modules;
use crate::imports::{HostImports, exported_names, facades, host_imports};
use crate::interface::HostInterface;
use crate::limits::{Limits, with_large_stack};
use crate::link::{LinkInput, LinkInputs, Modules, SideEffects, link_inputs};
use crate::package::Folders;
use crate::supply::{Offer, Unit};
use crate::tree::SourceTree;
use pijs_artifact::{Artifact, Module, Verified, encode};
use pijs_diagnostics::{BuildFailure, Code, Diagnostic, Severity};
use pijs_protocol::artifact::ArtifactMetadata;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// Folder of the generated entries, beside `node_modules`.
const ENTRIES: &str = "entries";

impl Unit {
    /// Returns the compiled unit if this program embeds it or the cache has it, in which case no fetch is needed.
    pub fn ready(&self, cache: Option<&Cache>) -> Option<Arc<Verified>> {
        let key = self.key();
        embedded::artifact(&key).or_else(|| Some(Arc::new(cache?.load(&key, &self.id())?)))
    }

    /// Compiles the unit from a folder whose `node_modules` holds its packages. The caller has checked each against its digest;
    /// entry files are written beside them. Sources are left out, as in [`host_modules`](crate::host_modules).
    ///
    /// # Errors
    ///
    /// Fails if a package is missing, or does not hold what the lock file lists.
    pub fn compile(&self, folder: &Path, cache: Option<&Cache>) -> Result<Arc<Verified>, BuildFailure> {
        let artifact = with_large_stack(|| self.link(folder))??.into_code();
        if let Some(cache) = cache {
            // A unit that could not be stored is compiled again next time, which costs only time.
            let _ = cache.store(&self.key(), &self.id(), &encode(&artifact));
        }
        Ok(Arc::new(Verified::compiled_here(artifact)))
    }

    fn key(&self) -> Key {
        let mut key = Key::builder("supplied unit");
        key.field(self.name().as_bytes());
        // Names that our own modules lack become undefined while a unit is compiled.
        key.field(HostInterface::embedded().fingerprint());
        for package in self.packages() {
            for part in [package.name, package.version, package.integrity] {
                key.field(part.as_bytes());
            }
        }
        for (specifier, entry) in self.entries() {
            key.field(specifier.as_bytes());
            key.field(entry.text.as_bytes());
        }
        for (replaced, specifier) in self.replaces() {
            key.field(replaced.as_bytes());
            key.field(specifier.as_bytes());
        }
        key.finish()
    }

    /// Returns the id that the MAC of the cached artifact is bound to.
    fn id(&self) -> String {
        format!("pijs:supply:{}", self.name())
    }

    fn link(&self, folder: &Path) -> Result<Artifact, BuildFailure> {
        let read = |path: &Path, error: std::io::Error| {
            BuildFailure::from(Diagnostic::new(Code::Read, format!("{}: {error}", path.display())))
        };
        let folder = folder.canonicalize().map_err(|error| read(folder, error))?;
        let inputs = self.write_entries(&folder).map_err(|error| read(&folder.join(ENTRIES), error))?;
        let folders = Folders { package: folder.clone(), dependencies: Vec::new(), loose: None };
        // The folder holds only the packages fetched for the unit, no files of the user.
        let tree = SourceTree::open(folders, &FileAccess::default(), Limits::default());
        let tree = tree.map_err(|error| read(&folder, error))?;
        let host = HostInterface::embedded();
        let modules = Arc::new(Modules::new(tree, host.clone()).replacing(self.replaced_in(&folder)));
        let chunks = link_inputs(&modules, &inputs);
        let errors: Vec<_> =
            modules.diagnostics().into_iter().filter(|found| found.severity() == Severity::Error).collect();
        let chunks = match chunks {
            Some(chunks) if errors.is_empty() => chunks,
            _ => return Err(BuildFailure::new(errors)),
        };
        for (specifier, entry) in self.entries() {
            let chunk = chunks.iter().find(|chunk| chunk.file == specifier).expect("every input has a chunk");
            let exported = exported_names(chunk);
            let absent: Vec<&str> = entry.names.iter().copied().filter(|name| !exported.contains(*name)).collect();
            if !absent.is_empty() {
                return Err(lacks(specifier, &absent));
            }
        }
        let mut imports = host_imports(&chunks, modules.tree().limits());
        for (_, specifier) in self.replaces() {
            // In an extension a missing name is undefined; the packages of a unit rely on the names.
            let taken = imports.get(specifier).into_iter().flatten().map(String::as_str);
            let absent: Vec<&str> =
                taken.filter(|name| *name != "*" && !host.has_own_export(specifier, name)).collect();
            if !absent.is_empty() {
                return Err(lacks(specifier, &absent));
            }
        }
        let mut compiled: Vec<Module> = chunks
            .into_iter()
            .map(|chunk| Module { specifier: chunk.file, source: chunk.code, source_map: chunk.map, bytecode: None })
            .collect();
        compiled.extend(facades(&host, &mut imports, Some(self.name())));
        compile_modules(&mut compiled)
            .map_err(|error| Diagnostic::new(Code::Emit, error.to_string()).in_file(&error.specifier))?;
        Ok(Artifact { metadata: self.metadata(&modules, imports), modules: compiled })
    }

    fn metadata(&self, modules: &Modules, imports: HostImports) -> ArtifactMetadata {
        let inputs = modules.tree().inputs();
        ArtifactMetadata {
            cache_key: self.key().to_string(),
            inputs: inputs
                .into_values()
                .map(|file| (modules.tree().name_of(&file.path), format!("sha256:{}", hex::encode(file.sha256))))
                .collect(),
            host_imports: imports.into_iter().map(|(module, names)| (module, names.into_iter().collect())).collect(),
            ..ArtifactMetadata::new(self.id(), env!("CARGO_PKG_VERSION"), pijs_engine::engine_build())
        }
    }

    /// Returns the linker's inputs by specifier: files that export the names of each module.
    fn entries(&self) -> BTreeMap<&str, UnitEntry<'_>> {
        let mut entries: BTreeMap<&str, UnitEntry<'_>> = BTreeMap::new();
        for (specifier, offer) in &self.modules {
            match offer {
                Offer::Whole { from, names } => {
                    let names: Vec<&str> = names.iter().map(String::as_str).collect();
                    let from = place(from);
                    let mut text = format!("export * from {from};\n");
                    if names.contains(&"default") {
                        text.push_str(&format!("export {{ default }} from {from};\n"));
                    }
                    entries.insert(specifier, UnitEntry { text, names });
                }
                Offer::Parts { parts } => {
                    for (name, file) in parts.iter().filter(|(_, file)| self.holds(file)) {
                        let entry = entries.entry(file).or_default();
                        // Two of pi's modules may export the same name of the same file.
                        if !entry.names.contains(&name.as_str()) {
                            entry.text.push_str(&format!("export {{ {name} }} from {};\n", place(file)));
                            entry.names.push(name);
                        }
                    }
                }
            }
        }
        entries
    }

    /// Returns the replacements in the linker's form. Keys are file paths, or imports as written.
    fn replaced_in(&self, folder: &Path) -> BTreeMap<String, String> {
        let met = |replaced: &str| match self.holds(replaced) {
            true => folder.join("node_modules").join(replaced).to_string_lossy().into_owned(),
            false => replaced.to_owned(),
        };
        self.replaces().map(|(replaced, specifier)| (met(replaced), specifier.to_owned())).collect()
    }

    /// Writes the inputs beside the packages.
    fn write_entries(&self, folder: &Path) -> std::io::Result<LinkInputs> {
        let entries = folder.join(ENTRIES);
        fs::create_dir_all(&entries)?;
        let mut files: Vec<LinkInput> = Vec::new();
        for (index, (specifier, entry)) in self.entries().into_iter().enumerate() {
            let path = entries.join(format!("{index}.js"));
            fs::write(&path, entry.text)?;
            files.push(LinkInput { name: specifier.to_owned(), path });
        }
        let parts = self.modules.values().any(|offer| matches!(offer, Offer::Parts { .. }));
        Ok(LinkInputs {
            files,
            chunks: format!("-/{}/[name].js", self.name()),
            // Selected names of a large package: unused modules are left out, whatever their side effects.
            side_effects: if parts { SideEffects::Dropped } else { SideEffects::Kept },
        })
    }
}

/// One input of the linker.
#[derive(Debug, Default)]
struct UnitEntry<'a> {
    text: String,
    names: Vec<&'a str>,
}

/// Returns the import specifier of a package's file, as a generated entry writes it.
fn place(file: &str) -> serde_json::Value {
    format!("../node_modules/{file}").into()
}

/// Returns the failure of a module that does not export a name in the lock file.
fn lacks(module: &str, names: &[&str]) -> BuildFailure {
    Diagnostic::new(Code::Link, format!("`{module}` does not export {}", names.join(", ")))
        .help("the lock file and its packages disagree; this is a bug of PiJS; report it")
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supply::Supply;

    /// Returns a lock file with one unit `typebox`, and its package in a folder.
    fn unit(names: &str, files: &[(&str, &str)]) -> (Supply, tempfile::TempDir) {
        let text = format!(
            r#"{{"version": 1, "units": {{"typebox": {{
                "packages": {{"kind": {{"version": "1.0.0", "integrity": "sha512-", "licence": "MIT"}}}},
                "modules": {{
                    "typebox": {{"from": "kind/index.js", "names": {names}}},
                    "typebox/value": {{"from": "kind/value.js", "names": ["check"]}}
                }}
            }}}}}}"#
        );
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let path = folder.path().join("node_modules/kind").join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("created");
            fs::write(path, text).expect("written");
        }
        (serde_json::from_str(&text).expect("a lock file"), folder)
    }

    const FILES: &[(&str, &str)] = &[
        ("kind.js", "import { join } from 'path';\nexport class Kind { at = join('a', 'b') }\n"),
        ("index.js", "export { Kind } from './kind.js';\nexport default 1;\n"),
        ("value.js", "import { Kind } from './kind.js';\nexport const check = (x) => x instanceof Kind;\n"),
    ];

    /// Compiles with sources, so that the test can inspect them.
    fn compile(names: &str) -> Result<Artifact, BuildFailure> {
        let (supply, folder) = unit(names, FILES);
        link(&supply, folder.path())
    }

    fn link(supply: &Supply, folder: &Path) -> Result<Artifact, BuildFailure> {
        with_large_stack(|| supply.units().next().expect("one unit").link(folder))?
    }

    #[test]
    fn modules_of_a_unit_share_their_classes_in_one_chunk() {
        let compiled = compile(r#"["Kind", "default"]"#).unwrap_or_else(|failure| panic!("{failure}"));
        let modules = &compiled.modules;
        let defining: Vec<&str> = modules
            .iter()
            .filter(|module| module.source.contains("class"))
            .map(|module| module.specifier.as_str())
            .collect();
        assert_eq!(defining.len(), 1, "{defining:?}");
        for specifier in ["typebox", "typebox/value"] {
            assert!(modules.iter().any(|module| module.specifier == specifier), "{specifier}");
        }
        assert!(modules.iter().all(|module| module.bytecode.is_some()));
        assert!(compiled.metadata.host_imports.contains_key("node:path"));
    }

    /// Returns a package that imports `name` from a file that a host module replaces, and a string from another unit.
    fn replaced(name: &str) -> Result<Artifact, BuildFailure> {
        let text = r#"{"version": 1, "units": {"typebox": {
            "packages": {"kind": {"version": "1.0.0", "integrity": "sha512-", "licence": "MIT"}},
            "modules": {"typebox": {"from": "kind/index.js", "names": ["Kind", "other"]}},
            "replaces": {"kind/keys.js": "node:path", "far/away": "node:os", "kind/index.js fs": "node:url"}
        }}}"#;
        let supply: Supply = serde_json::from_str(text).expect("a lock file");
        let folder = tempfile::tempdir().expect("a folder");
        let package = folder.path().join("node_modules/kind");
        fs::create_dir_all(&package).expect("created");
        let index = format!(
            "import {{ {name} }} from './keys.js';\nimport {{ EOL }} from 'far/away';\nimport {{ parse }} from 'fs';\n\
             export * from './other.js';\nexport const Kind = [{name}, EOL, parse];\n"
        );
        fs::write(package.join("index.js"), index).expect("written");
        fs::write(package.join("other.js"), "import { existsSync } from 'fs';\nexport const other = existsSync;\n")
            .expect("written");
        fs::write(package.join("keys.js"), format!("export const {name} = readTheKeys();\n")).expect("written");
        link(&supply, folder.path())
    }

    #[test]
    fn a_replaced_file_leads_to_the_host_and_is_not_read() {
        let compiled = replaced("join").unwrap_or_else(|failure| panic!("{failure}"));
        let artifact = compiled;
        assert!(artifact.modules.iter().all(|module| !module.source.contains("readTheKeys")));
        // The last two are one import, which leads elsewhere in one file.
        for host in ["node:path", "node:os", "node:url", "node:fs"] {
            assert!(artifact.metadata.host_imports.contains_key(host), "{host}");
        }
    }

    #[test]
    fn a_replacement_has_the_imported_names() {
        let failure = replaced("readKeys").expect_err("node:path reads no keys");
        assert!(failure.to_string().contains("`node:path` does not export readKeys"), "{failure}");
    }

    #[test]
    fn the_location_of_packages_does_not_affect_the_artifact() {
        let names = r#"["Kind"]"#;
        let once = compile(names).unwrap_or_else(|failure| panic!("{failure}"));
        let again = compile(names).unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(encode(&once), encode(&again));
    }

    #[test]
    fn a_missing_listed_name_is_reported() {
        let failure = compile(r#"["Kind", "Sort"]"#).expect_err("there is no Sort");
        assert!(failure.to_string().contains("`typebox` does not export Sort"), "{failure}");
    }
}
