//! A WebAssembly component as input: an author's `.wasm`, compiled to native code.
//!
//! ```text
//! wasm:/0/NAME.wasm    source: the component in base64    bytecode: native code from wasmtime
//! ```
//!
//! Imports show what the extension can request, as the scan does for JavaScript. An import of `calls`, which accepts any
//! method, shows nothing; such an extension declares its capabilities in its manifest.

use crate::cache::Key;
use crate::compiled::{Compiled, known};
use crate::options::BuildOptions;
use crate::package::Package;
use crate::tree::SourceTree;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use pijs_artifact::{Artifact, COMPONENT_SCHEME, Module};
use pijs_diagnostics::{BuildFailure, Code, Diagnostic};
use pijs_protocol::Capability;
use pijs_protocol::artifact::ArtifactMetadata;
use pijs_protocol::manifest::{CAPABILITY_SCHEMA, CapabilityManifest, CapabilityRequest, Scope};
use std::collections::{BTreeMap, BTreeSet};

/// Capabilities that every component may register: commands, tools, a verdict.
const REGISTERS: [&str; 3] = ["commands", "tools", "verdict"];

/// Functions of the WIT world, with the capability that each needs. An interface without a function covers all of its functions.
const NEEDS: &[(&str, &str, &str)] = &[
    ("env", "get", "env"),
    ("events", "emit", "events"),
    ("exec", "run", "exec"),
    ("fs", "make-dir", "write"),
    ("fs", "read-dir", "read"),
    ("fs", "read-file", "read"),
    ("fs", "remove", "write"),
    ("fs", "stat", "read"),
    ("fs", "write-file", "write"),
    ("http", "fetch", "http"),
    ("log", "write", "log"),
    ("session", "append-entry", "session"),
    ("session", "send-message", "session.inject"),
    ("session", "send-user-message", "session.inject"),
    ("tools", "list", "tools"),
    ("tools", "run", "tool"),
    ("ui", "notify", "ui"),
    ("ui", "set-status", "ui"),
];

/// Compiles a package whose entry is a `.wasm`, in this process and without a cache.
pub(crate) fn compile(package: &Package, tree: SourceTree, _options: &BuildOptions) -> Result<Compiled, BuildFailure> {
    let file = tree.name_of(&package.entries[0]);
    let bytes = tree.read(&package.entries[0])?;
    let artifact = artifact(&bytes, known(package, &tree), &file)?;
    Ok(Compiled::new(artifact, Vec::new(), package, &tree))
}

/// Recompiles the component of an artifact.
pub(crate) fn compile_again(module: &Module, known: ArtifactMetadata, file: &str) -> Result<Artifact, Diagnostic> {
    let bytes = BASE64_STANDARD.decode(&module.source).map_err(|error| {
        Diagnostic::new(Code::Artifact, format!("its component is not valid base64: {error}"))
            .help("build it again: extc build FILE.wasm -o OUT")
            .in_file(file)
    })?;
    let name = module.specifier.rsplit('/').next().unwrap_or_default().to_owned();
    artifact(&bytes, ArtifactMetadata { entries: vec![name.clone()], ..known }, file)
}

fn artifact(bytes: &[u8], known: ArtifactMetadata, file: &str) -> Result<Artifact, Diagnostic> {
    let compiled = pijs_wasm::compile(bytes)
        .map_err(|refusal| Diagnostic::new(Code::Component, refusal.message).help(refusal.help).in_file(file))?;
    let pijs_wasm::Compiled { component, code, imports } = compiled;
    let name = known.entries.first().and_then(|entry| entry.rsplit('/').next()).unwrap_or("component.wasm");
    let module = Module {
        specifier: format!("{COMPONENT_SCHEME}0/{name}"),
        source: BASE64_STANDARD.encode(&component),
        source_map: None,
        bytecode: Some(code.into()),
    };
    let mut key = Key::builder("component");
    key.field(&component).field(pijs_wasm::engine_name().as_bytes());
    let metadata = ArtifactMetadata {
        cache_key: key.finish().to_string(),
        capabilities: needs(&imports),
        host_imports: imports,
        ..known
    };
    Ok(Artifact { metadata, modules: vec![module] })
}

/// Returns the capabilities that the imports can use.
fn needs(imports: &BTreeMap<String, Vec<String>>) -> CapabilityManifest {
    let takes = |(interface, function, _): &&(&str, &str, &str)| {
        let functions = imports.get(&format!("pi:extension/{interface}"));
        functions.is_some_and(|functions| functions.iter().any(|name| name == function))
    };
    let found: BTreeSet<&str> =
        NEEDS.iter().filter(takes).map(|(_, _, capability)| *capability).chain(REGISTERS).collect();
    let request = |capability: &str| {
        // The scope equals the one that the scan proposes: the project, unless a manifest names other paths.
        let paths = ["read", "write"].contains(&capability).then(|| vec![".".to_owned()]);
        CapabilityRequest {
            capability: Capability::new(capability),
            methods: None,
            scope: paths.map(|paths| Scope { paths: Some(paths), ..Scope::default() }),
        }
    };
    CapabilityManifest { schema: CAPABILITY_SCHEMA.to_owned(), capabilities: found.into_iter().map(request).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pijs_hostcall::vocabulary::CAPABILITIES;

    #[test]
    fn each_function_needs_an_existing_capability() {
        for (_, _, capability) in NEEDS {
            assert!(CAPABILITIES.iter().any(|(name, _)| name == capability), "{capability}");
        }
    }

    #[test]
    fn imports_decide_the_requested_capabilities() {
        let imports = BTreeMap::from([
            ("pi:extension/fs".to_owned(), vec!["read-file".to_owned()]),
            ("pi:extension/exec".to_owned(), vec!["run".to_owned()]),
            ("wasi:io/streams".to_owned(), Vec::new()),
        ]);
        let asked = needs(&imports).capabilities;
        let names: Vec<_> = asked.iter().map(|request| request.capability.as_str()).collect();
        assert_eq!(names, ["commands", "exec", "read", "tools", "verdict"]);
        assert_eq!(asked[2].scope.as_ref().and_then(|scope| scope.paths.as_deref()), Some(&[".".to_owned()][..]));
    }
}
