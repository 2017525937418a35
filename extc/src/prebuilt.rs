//! A prebuilt artifact as input: the output of `extc build -o` of another installation.
//!
//! Such a file is untrusted and treated as data. Its modules are compiled again from their sources; its bytecode is
//! ignored. Its maps are kept, so that errors are shown at the author's lines. Its metadata are claims, as a `package.json` is:
//! capabilities are requests, and code that uses other capabilities is not granted them. Listed inputs are ignored: the file
//! itself is the only input, so that grants are bound to its bytes.
//!
//! ```text
//! ext:/0/index.js         entry 0, then the other chunks: parsed under the usual limits, compiled
//! pijs:facade/node:fs     left out, and generated again for the host modules of this program
//! wasm:/0/NAME.wasm       a component, alone: compiled from its bytes; nothing else of it is trusted
//! anything else           refused
//! ```
//!
//! Imports lead to other chunks or to host modules. Imported host modules must exist in this program, so that an artifact of
//! another version works or fails with the missing name.
//!
//! The input is a file `*.artifact`, or a folder with `extension.artifact`. `entries` of its metadata is the number of entries.

use crate::access::{Area, BuildRead, FileAccess};
use crate::cache::Key;
use crate::compiled::{Compiled, known};
use crate::component;
use crate::emit::compile_modules;
use crate::imports::{HostImports, facades, host_imports};
use crate::interface::{HostInterface, HostName};
use crate::limits::{Limits, MAX_ARTIFACT_BYTES, with_large_stack};
use crate::link::Chunk;
use crate::maps::PositionTable;
use crate::options::BuildOptions;
use crate::package::Package;
use crate::parse::parse;
use crate::tree::SourceTree;
use pijs_artifact::{Artifact, ArtifactError, Module, decode, read_metadata};
use pijs_diagnostics::{BuildFailure, Code, Diagnostic, sanitise};
use pijs_durable::read_regular;
use pijs_engine::FACADE_PREFIX;
use pijs_protocol::artifact::ArtifactMetadata;
use pijs_protocol::guard;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;

/// Maximum size of an artifact's metadata, in bytes.
const MAX_METADATA: usize = 4 << 20;
/// Maximum number of entries of one artifact.
const MAX_ENTRIES: usize = 1_000;
/// Maximum length of a claimed name or version; npm's names have at most 214 characters.
const LONGEST_NAME: usize = 214;
/// Maximum length of a chunk's name.
const LONGEST_FILE: usize = 1_024;

const BUILD_AGAIN: &str = "build it again from its sources: extc build FOLDER -o OUT";

/// The name and version that an artifact claims.
#[derive(Debug)]
pub(crate) struct Claims {
    pub(crate) name: String,
    pub(crate) version: String,
}

/// Reads name and version of the artifact `file`, which is below `root`.
pub(crate) fn claims(file: &Path, root: &Path, access: &FileAccess) -> Result<Claims, Diagnostic> {
    let shown = file.strip_prefix(root).unwrap_or(file).display().to_string();
    let read = BuildRead { path: file, area: Area::Package, root, loose: Some(file), imported: false };
    if access.judge(&read).is_err() {
        return Err(Diagnostic::new(Code::Escape, "a protected file, which no extension reads").in_file(&shown));
    }
    let bytes = read_regular(file, MAX_ARTIFACT_BYTES).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => too_large(&shown),
        _ => Diagnostic::new(Code::Read, format!("cannot be read: {error}")).in_file(&shown),
    })?;
    let metadata = read_metadata(&bytes, MAX_METADATA).map_err(|error| refused(&shown, &error))?;
    Ok(Claims { name: bounded(&metadata.name, LONGEST_NAME), version: bounded(&metadata.version, LONGEST_NAME) })
}

/// Truncates claimed text to a length that can be displayed.
fn bounded(text: &str, most: usize) -> String {
    sanitise(&text.chars().take(most).collect::<String>())
}

/// Compiles a package that is an artifact, in this process and without a cache.
pub(crate) fn compile(package: &Package, tree: SourceTree, options: &BuildOptions) -> Result<Compiled, BuildFailure> {
    let file = tree.name_of(&package.entries[0]);
    let bytes = tree.read(&package.entries[0])?;
    let known = known(package, &tree);
    let artifact = with_large_stack(|| {
        let artifact = decode(&bytes).map_err(|error| refused(&file, &error))?;
        compile_again(artifact, known, &file, options)
    })??;
    let diagnostics = artifact.metadata.findings.iter().filter_map(Diagnostic::from_finding).collect();
    Ok(Compiled::new(artifact, diagnostics, package, &tree))
}

fn compile_again(
    artifact: Artifact,
    known: ArtifactMetadata,
    file: &str,
    options: &BuildOptions,
) -> Result<Artifact, Diagnostic> {
    if let Some(module) = artifact.component() {
        return component::compile_again(module, known, file);
    }
    let claimed = artifact.metadata;
    let mut modules = chunks(artifact.modules, claimed.entries.len(), &options.limits)
        .map_err(|(code, why)| Diagnostic::new(code, why).help(BUILD_AGAIN).in_file(file))?;
    let mut imports = check_sources(&modules, file, options)?;
    modules.extend(facades(&options.host, &mut imports, None));
    if guard!(ArtifactSources) {
        modules.iter_mut().for_each(|module| module.bytecode = None);
    }
    compile_without_bytecode(&mut modules)?;
    let findings: Vec<_> = claimed.findings.iter().filter_map(Diagnostic::from_finding).collect();
    let inputs = if guard!(ArtifactInputs) { known.inputs.clone() } else { claimed.inputs };
    let entries = claimed.entries.iter().map(|name| bounded(name, LONGEST_FILE)).collect();
    let metadata = ArtifactMetadata {
        entries,
        inputs,
        cache_key: content_key(&modules, &options.host).to_string(),
        capabilities: claimed.capabilities,
        offers: claimed.offers,
        host_imports: imports.into_iter().map(|(module, names)| (module, names.into_iter().collect())).collect(),
        verdict: pijs_diagnostics::verdict(&findings),
        findings: findings.iter().filter_map(Diagnostic::to_finding).collect(),
        ..known
    };
    Ok(Artifact { metadata, modules })
}

/// Returns the chunks of an artifact with `entries` entries, entries first.
fn chunks(modules: Vec<Module>, entries: usize, limits: &Limits) -> Result<Vec<Module>, (Code, String)> {
    let malformed = |why: String| (Code::Artifact, why);
    if entries == 0 || entries > MAX_ENTRIES {
        return Err(malformed(format!("it has {entries} entries; 1 to {MAX_ENTRIES} are allowed")));
    }
    let chunks: Vec<Module> =
        modules.into_iter().filter(|module| !module.specifier.starts_with(FACADE_PREFIX)).collect();
    let total: usize = chunks.iter().map(|module| module.source.len()).sum();
    if total > limits.total_bytes || chunks.len() > limits.files {
        let why = format!("its sources have more than {} MB or {} modules", limits.total_bytes >> 20, limits.files);
        return Err((Code::Limit, why));
    }
    for index in 0..entries {
        let wanted = entry_module(index);
        if chunks.get(index).is_none_or(|module| module.specifier != wanted) {
            return Err(malformed(format!("its module {index} is not the entry `{wanted}`")));
        }
    }
    let mut names = BTreeSet::new();
    for Module { specifier, .. } in &chunks {
        if !is_chunk_name(specifier, entries) {
            return Err(malformed(format!("`{specifier}` is not a module name of an extension")));
        }
        if !names.insert(specifier.as_str()) {
            return Err(malformed(format!("two modules are named `{specifier}`")));
        }
    }
    Ok(chunks)
}

/// Returns the specifier of an entry.
fn entry_module(index: usize) -> String {
    format!("ext:/{index}/index.js")
}

/// Returns whether a specifier is `ext:/ENTRY/FILE`, the form in which builds name chunks.
fn is_chunk_name(specifier: &str, entries: usize) -> bool {
    let Some((index, file)) = specifier.strip_prefix("ext:/").and_then(|rest| rest.split_once('/')) else {
        return false;
    };
    let is_index = (0..entries).any(|known| known.to_string() == index);
    let is_part = |part: &str| !part.is_empty() && part != "." && part != "..";
    is_index && file.len() <= LONGEST_FILE && file.split('/').all(is_part) && !file.contains(char::is_control)
}

/// Parses the sources under the usual limits, before recursive code reads them, and returns their imports.
fn check_sources(modules: &[Module], file: &str, options: &BuildOptions) -> Result<HostImports, Diagnostic> {
    let limits = Limits { file_bytes: options.limits.total_bytes, ..options.limits };
    let mut chunks = Vec::with_capacity(modules.len());
    for module in modules {
        parse(&module.specifier, &module.source, &limits)?;
        chunks.push(Chunk { file: module.specifier.clone(), code: module.source.clone(), map: None });
    }
    let imports = host_imports(&chunks, &limits);
    for specifier in imports.keys() {
        let is_host = matches!(HostName::of(specifier), Some(HostName::Builtin(_) | HostName::Package(_)));
        if !is_host && guard!(BuildSchemes) {
            let message =
                format!("it imports `{specifier}`, which is neither one of its modules nor one of the host's");
            return Err(Diagnostic::new(Code::Escape, message).help(BUILD_AGAIN).in_file(file));
        }
        if is_host && !options.host.has_module(specifier) {
            let message = format!("it imports `{specifier}`, which this version of PiJS does not have");
            return Err(Diagnostic::new(Code::Artifact, message)
                .help(format!("{BUILD_AGAIN}, with the extc of this version"))
                .in_file(file));
        }
    }
    Ok(imports)
}

fn compile_without_bytecode(modules: &mut [Module]) -> Result<(), Diagnostic> {
    let mut waiting: Vec<Module> = modules.iter().filter(|module| module.bytecode.is_none()).cloned().collect();
    compile_modules(&mut waiting).map_err(|error| {
        let diagnostic = Diagnostic::new(Code::Emit, format!("the engine refuses this: {}", error.message));
        let place = modules
            .iter()
            .find(|module| module.specifier == error.specifier)
            .and_then(|module| PositionTable::parse(module.source_map.as_deref()?))
            .and_then(|table| table.original(error.line, error.column.max(1)));
        match place {
            Some(place) => diagnostic.help(BUILD_AGAIN).in_file(&format!("{}:{}", place.file, place.line)),
            None => diagnostic.help(BUILD_AGAIN).in_file(&error.specifier),
        }
    })?;
    let mut compiled = waiting.into_iter();
    for module in modules.iter_mut().filter(|module| module.bytecode.is_none()) {
        *module = compiled.next().expect("one module was compiled for each waiting one");
    }
    Ok(())
}

fn content_key(modules: &[Module], host: &HostInterface) -> Key {
    let mut key = Key::builder("artifact of an artifact");
    key.field(host.fingerprint());
    for module in modules {
        key.field(module.specifier.as_bytes()).field(module.source.as_bytes());
    }
    key.finish()
}

fn too_large(file: &str) -> Diagnostic {
    let message = format!("an artifact of more than {} MB", MAX_ARTIFACT_BYTES >> 20);
    Diagnostic::new(Code::Limit, message).help("load data with `fs.readFileSync`, not by import").in_file(file)
}

fn refused(file: &str, error: &ArtifactError) -> Diagnostic {
    let help = if error.is_foreign() {
        format!("an artifact must be written by this version of extc; {BUILD_AGAIN}")
    } else {
        format!("copy it again, or {BUILD_AGAIN}")
    };
    Diagnostic::new(Code::Artifact, error.to_string()).help(help).in_file(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(specifier: &str) -> Module {
        Module { specifier: specifier.to_owned(), source: String::new(), source_map: None, bytecode: None }
    }

    fn taken(specifiers: &[&str], entries: usize) -> Result<usize, Code> {
        let modules = specifiers.iter().map(|specifier| module(specifier)).collect();
        chunks(modules, entries, &Limits::default()).map(|chunks| chunks.len()).map_err(|(code, _)| code)
    }

    #[test]
    fn modules_have_the_names_that_builds_give_them() {
        assert_eq!(taken(&["ext:/0/index.js", "ext:/1/index.js", "ext:/0/a/b.js", "pijs:facade/node:fs"], 2), Ok(3));
        for wrong in
            ["pi:runtime", "node:fs", "ext:/1/a.js", "ext:/00/a.js", "ext:/0/../a.js", "ext:/0//a.js", "ext:/0/"]
        {
            assert_eq!(taken(&["ext:/0/index.js", wrong], 1), Err(Code::Artifact), "{wrong}");
        }
        assert_eq!(taken(&["ext:/0/index.js", "ext:/0/index.js"], 1), Err(Code::Artifact));
        assert_eq!(taken(&["ext:/0/a.js", "ext:/0/index.js"], 1), Err(Code::Artifact));
        assert_eq!(taken(&["ext:/0/index.js"], 0), Err(Code::Artifact));
        assert_eq!(taken(&["ext:/0/index.js"], usize::MAX), Err(Code::Artifact));
    }
}
