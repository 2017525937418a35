//! Compiles the host module set: the TypeScript that a realm starts with.
//!
//! Each module is stripped and compiled separately and keeps its specifier (`node:fs`,
//! `pi:runtime`, ...), so that a realm evaluates only imported modules. The set changes with
//! this program only, so the cache usually has it.
//!
//! Host modules and supplied packages are compiled without sources and maps, since every start reads them.

use crate::cache::{Cache, Key};
use crate::embedded;
use crate::emit::compile_modules;
use crate::limits::{Limits, with_large_stack};
use crate::strip::strip_types;
use pijs_artifact::{Artifact, Module, Verified};
use pijs_diagnostics::{BuildFailure, Code, Diagnostic};
use pijs_protocol::artifact::ArtifactMetadata;
use std::sync::Arc;

/// The id that the MAC of a cached host module set is bound to.
const HOST_MODULES_ID: &str = "pijs:host-modules";

/// One TypeScript module of a host module set.
#[derive(Debug, Clone, Copy)]
pub struct HostSource<'a> {
    /// Specifier under which it is imported: `node:fs`, `pi:runtime`.
    pub specifier: &'a str,
    /// TypeScript or JavaScript text of an ES module.
    pub source: &'a str,
    /// File name for diagnostics and stack traces; its suffix chooses the language.
    pub path: &'a str,
}

/// Compiles the host module set that this program embeds (`pijs_node_compat::MODULES`), without its sources, which are two thirds
/// of it: every start reads the set and checks its MAC.
///
/// # Errors
///
/// Fails if a module does not parse or compile. That is a bug in this program, not in an extension, and the modules' tests
/// detect it; the diagnostic names file and line.
pub fn host_modules(cache: Option<&Cache>) -> Result<Arc<Verified>, BuildFailure> {
    let key = embedded_key();
    match embedded::artifact(&key) {
        Some(carried) => Ok(carried),
        None => compile_once(&embedded(), &key, cache, Artifact::into_code),
    }
}

/// Compiles any set of modules as [`host_modules`] does, with their sources: for tests, which check where an error was thrown.
///
/// # Errors
///
/// Fails as [`host_modules`] does.
pub fn compile_host_modules(modules: &[HostSource<'_>], cache: Option<&Cache>) -> Result<Arc<Verified>, BuildFailure> {
    compile_once(modules, &key(modules), cache, |whole| whole)
}

/// Compiles a set of modules unless the cache has it. `kept` selects the parts of the set that stay in memory and in the cache.
fn compile_once(
    modules: &[HostSource<'_>],
    key: &Key,
    cache: Option<&Cache>,
    kept: fn(Artifact) -> Artifact,
) -> Result<Arc<Verified>, BuildFailure> {
    if let Some(hit) = cache.and_then(|cache| cache.load(key, HOST_MODULES_ID)) {
        return Ok(Arc::new(hit));
    }
    let artifact = kept(with_large_stack(|| compile(modules, key))??);
    if let Some(cache) = cache {
        // A set that could not be stored is compiled again next time, which costs only time.
        let _ = cache.store(key, HOST_MODULES_ID, &pijs_artifact::encode(&artifact));
    }
    Ok(Arc::new(Verified::compiled_here(artifact)))
}

fn compile(modules: &[HostSource<'_>], key: &Key) -> Result<Artifact, BuildFailure> {
    let limits = Limits::default();
    let mut stripped = Vec::with_capacity(modules.len());
    let mut failures = Vec::new();
    for module in modules {
        match strip_types(module.path, module.source, &limits) {
            Ok(done) => stripped.push(Module {
                specifier: module.specifier.to_owned(),
                source: done.code,
                source_map: Some(done.map),
                bytecode: None,
            }),
            Err(diagnostic) => failures.push(diagnostic),
        }
    }
    if !failures.is_empty() {
        return Err(BuildFailure::new(failures));
    }
    compile_modules(&mut stripped)
        .map_err(|error| Diagnostic::new(Code::Emit, error.to_string()).in_file(&error.specifier))?;
    let inputs = modules
        .iter()
        .map(|module| (module.path.to_owned(), pijs_artifact::digest(module.source.as_bytes())))
        .collect();
    Ok(Artifact {
        metadata: ArtifactMetadata {
            cache_key: key.to_string(),
            inputs,
            ..ArtifactMetadata::new(HOST_MODULES_ID, env!("CARGO_PKG_VERSION"), pijs_engine::engine_build())
        },
        modules: stripped,
    })
}

/// Returns the set that this program embeds.
pub(crate) fn embedded() -> Vec<HostSource<'static>> {
    let source = |module: &pijs_node_compat::HostModule| HostSource {
        specifier: module.specifier,
        source: module.source,
        path: module.path,
    };
    pijs_node_compat::MODULES.iter().map(source).collect()
}

/// Returns a key that changes whenever a module of the embedded set changes.
pub(crate) fn embedded_key() -> Key {
    let mut key = Key::builder("embedded host modules");
    key.field(&pijs_node_compat::MODULES_DIGEST);
    key.finish()
}

/// Returns a digest that changes whenever a module of the set changes.
pub(crate) fn fingerprint(modules: &[HostSource<'_>]) -> [u8; 32] {
    key(modules).bytes()
}

fn key(modules: &[HostSource<'_>]) -> Key {
    let mut key = Key::builder("host modules");
    for module in modules {
        key.field(module.specifier.as_bytes());
        key.field(module.path.as_bytes());
        key.field(module.source.as_bytes());
    }
    key.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_embedded_host_module_compiles() {
        match host_modules(None) {
            Ok(set) => assert_eq!(set.artifact().modules.len(), pijs_node_compat::MODULES.len()),
            Err(failure) => panic!("{failure}"),
        }
    }

    #[test]
    fn a_mistake_names_the_file_of_the_module() {
        let modules = [HostSource { specifier: "node:a", source: "export const a = ;", path: "node/a.ts" }];
        let failure = compile_host_modules(&modules, None).unwrap_err();
        assert!(failure.to_string().starts_with("node/a.ts:1:18: "), "{failure}");
    }

    #[test]
    fn a_cached_set_is_used_until_one_of_its_bytes_changes() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(dir.path(), pijs_artifact::InstallKey::from_bytes([1; 32]));
        let modules = [HostSource { specifier: "node:a", source: "export const a: number = 1;", path: "node/a.ts" }];
        let first = compile_host_modules(&modules, Some(&cache)).unwrap();
        assert!(cache.load(&key(&modules), HOST_MODULES_ID).is_some());
        assert_eq!(compile_host_modules(&modules, Some(&cache)).unwrap().artifact(), first.artifact());

        let file = dir.path().join(format!("{}.artifact", key(&modules).hex()));
        let mut bytes = std::fs::read(&file).unwrap();
        let last = bytes.len() - 40;
        bytes[last] ^= 1;
        std::fs::write(&file, &bytes).unwrap();
        assert!(cache.load(&key(&modules), HOST_MODULES_ID).is_none(), "a changed byte was taken");
        assert_eq!(compile_host_modules(&modules, Some(&cache)).unwrap().artifact(), first.artifact());
        assert!(cache.load(&key(&modules), HOST_MODULES_ID).is_some(), "it is stored again");

        let stranger = Cache::open(dir.path(), pijs_artifact::InstallKey::from_bytes([2; 32]));
        assert!(stranger.load(&key(&modules), HOST_MODULES_ID).is_none(), "another installation's key opened it");
        assert!(cache.load(&key(&modules), "npm:other").is_none(), "it was taken for something else");
    }
}
