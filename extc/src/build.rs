//! The pipeline: resolve → parse, scan, rewrite, link → emit, with the cache around it.
//!
//! Each entry of a package is linked by itself, so that it gets its own instances of the modules that it
//! shares with others, as under pi. Its chunks are named `ext:/INDEX/FILE`; the entry itself is
//! `ext:/INDEX/index.js`, and entry *i* is module *i* of the artifact.

use crate::access::FileAccess;
use crate::cache::Key;
use crate::compiled::{Compiled, known};
use crate::component;
use crate::contract;
use crate::dependency_manifest;
use crate::emit::compile_modules;
use crate::imports::{HostImports, check_names, facades, host_imports};
use crate::interface::HostInterface;
use crate::limits::{Limits, with_large_stack};
use crate::link::{Chunk, LinkOptions, Modules, link};
use crate::maps::PositionTable;
use crate::options::{BuildOptions, CheckOptions};
use crate::output::{BuildOutput, CheckOutput};
use crate::package::Package;
use crate::phase::Phase;
use crate::prebuilt;
use crate::resolve::{Input, resolve};
use crate::scan::Uses;
use crate::sealed;
use crate::tree::SourceTree;
use pijs_artifact::{Artifact, Module, Verified, digest, encode};
use pijs_diagnostics::{BuildFailure, Code, Diagnostic, Severity};
use pijs_protocol::artifact::ArtifactMetadata;
use std::sync::Arc;
use tracing::field::Empty;
use tracing::{Span, debug_span};

/// Compiles a package or an extension file to a loadable artifact.
///
/// # Errors
///
/// Returns all errors of the input at once. Diagnostics that do not stop a build are in the output.
pub fn build(input: &Input, options: &BuildOptions) -> Result<BuildOutput, BuildFailure> {
    let _build = debug_span!("build", package = Empty, sealed = options.sealed.is_some()).entered();
    let package = debug_span!("build.resolve").in_scope(|| resolve(input, &options.access))?;
    Span::current().record("package", package.name.as_str());
    let open = || open(&package, &options.access, package.limits(options.limits));
    if let Some(cache) = &options.cache {
        let _lookup = debug_span!("build.lookup").entered();
        if let Some(hit) = dependency_manifest::lookup(cache, (&package, input.lock()), &open()?, options) {
            tracing::debug!(event = "build.cached", files_read = hit.read, "the cache has the artifact");
            return Ok(hit);
        }
    }
    let compiled = debug_span!("build.compile").in_scope(|| match options.sealed {
        Some(seal) => sealed::compile(&package, open()?, options, seal),
        None => compile(&package, open()?, options),
    })?;
    let Compiled { artifact, dependency_manifest, mut diagnostics, evidence } = compiled;
    let digest = digest(&encode(&artifact));
    if let Some(cache) = &options.cache {
        let _store = debug_span!("build.store").entered();
        let tree = open()?;
        if let Err(error) =
            dependency_manifest.store(cache, (&package, input.lock()), &tree, options, (&artifact, &digest))
        {
            let message = format!("the artifact cache {} cannot be written: {error}", cache.dir().display());
            diagnostics
                .push(Diagnostic::new(Code::Cache, message).help("every start compiles again until this is fixed"));
        }
    }
    Ok(BuildOutput {
        artifact: Verified::compiled_here(artifact),
        digest,
        diagnostics,
        cached: false,
        read: dependency_manifest.files.len(),
        root: package.root,
        dependency_manifest,
        evidence,
    })
}

/// Compiles in this process, without a cache.
pub(crate) fn compile(package: &Package, tree: SourceTree, options: &BuildOptions) -> Result<Compiled, BuildFailure> {
    if package.artifact {
        return prebuilt::compile(package, tree, options);
    }
    if package.component {
        return component::compile(package, tree, options);
    }
    let modules = Arc::new(Modules::new(tree, options.host.clone()));
    let build = Span::current();
    let artifact = with_large_stack(|| {
        let _build = build.entered();
        let linked = link_all(package, &modules, options.minify)?;
        modules.tree().in_phase(Phase::Emit, || emit(linked, &modules))
    })??;
    Ok(Compiled::new(artifact, modules.diagnostics(), package, modules.tree()))
}

/// Checks a package without building it. Returns the verdict, capabilities and locations.
pub fn check(input: &Input, options: &CheckOptions) -> CheckOutput {
    let checked = resolve(input, &options.access).map_err(BuildFailure::from).and_then(|package| {
        let tree = open(&package, &options.access, package.limits(options.limits))?;
        if package.artifact || package.component {
            let build = BuildOptions { host: options.host.clone(), limits: options.limits, ..BuildOptions::default() };
            let compiled = compile(&package, tree, &build)?;
            return Ok((compiled.artifact.metadata, compiled.diagnostics));
        }
        let modules = Arc::new(Modules::new(tree, options.host.clone()));
        let linked = with_large_stack(|| link_all(&package, &modules, false))??;
        Ok((linked.metadata, modules.diagnostics()))
    });
    match checked {
        Ok((metadata, diagnostics)) => CheckOutput { metadata: Some(metadata), diagnostics },
        Err(failure) => CheckOutput { metadata: None, diagnostics: failure.diagnostics().to_vec() },
    }
}

fn open(package: &Package, access: &FileAccess, limits: Limits) -> Result<SourceTree, Diagnostic> {
    SourceTree::open(package.folders(), access, limits)
        .map_err(|error| Diagnostic::new(Code::Read, format!("{}: {error}", package.root.display())))
}

/// All entries after linking, before bytecode is generated.
struct Linked {
    metadata: ArtifactMetadata,
    modules: Vec<Module>,
}

fn link_all(package: &Package, modules: &Arc<Modules>, minify: bool) -> Result<Linked, BuildFailure> {
    let linked: Vec<Vec<Chunk>> = modules.tree().in_phase(Phase::Link, || {
        package.entries.iter().flat_map(|entry| link(modules, entry, LinkOptions { minify })).collect()
    });
    modules.tree().in_phase(Phase::Check, || check_linked(package, modules, linked))
}

/// Checks the linked chunks and describes the artifact.
fn check_linked(package: &Package, modules: &Arc<Modules>, linked: Vec<Vec<Chunk>>) -> Result<Linked, BuildFailure> {
    let mut imports = HostImports::new();
    for chunks in &linked {
        for (module, names) in host_imports(chunks, modules.tree().limits()) {
            imports.entry(module).or_default().extend(names);
        }
    }
    check_names(modules, &imports);
    let entries: Vec<String> = package.entries.iter().map(|entry| modules.tree().name_of(entry)).collect();
    contract::check(modules, &entries);
    let diagnostics = modules.diagnostics();
    if diagnostics.iter().any(|diagnostic| diagnostic.severity() == Severity::Error) {
        return Err(BuildFailure::new(diagnostics));
    }
    let mut uses = Uses::default();
    modules.for_each_scan(|_, scan| uses.merge(&scan.uses));
    let facades = facades(modules.host(), &mut imports, None);
    let metadata = ArtifactMetadata {
        cache_key: content_key(package, &linked, modules.host()).to_string(),
        capabilities: uses.to_manifest(),
        offers: uses.offers,
        host_imports: imports.into_iter().map(|(module, names)| (module, names.into_iter().collect())).collect(),
        verdict: pijs_diagnostics::verdict(&diagnostics),
        findings: diagnostics.iter().filter_map(Diagnostic::to_finding).collect(),
        ..known(package, modules.tree())
    };
    let mut modules = in_order(linked);
    modules.extend(facades);
    Ok(Linked { metadata, modules })
}

/// Orders chunks: entries first, in manifest order; then the other chunks of each.
fn in_order(linked: Vec<Vec<Chunk>>) -> Vec<Module> {
    let mut entries = Vec::new();
    let mut shared = Vec::new();
    for (index, chunks) in linked.into_iter().enumerate() {
        for (position, chunk) in chunks.into_iter().enumerate() {
            let module = Module {
                specifier: format!("ext:/{index}/{}", chunk.file),
                source: chunk.code,
                source_map: chunk.map,
                bytecode: None,
            };
            if position == 0 { entries.push(module) } else { shared.push(module) }
        }
    }
    entries.append(&mut shared);
    entries
}

fn emit(linked: Linked, modules: &Modules) -> Result<Artifact, BuildFailure> {
    let Linked { metadata, modules: mut emitted } = linked;
    if let Err(error) = compile_modules(&mut emitted) {
        let diagnostic = Diagnostic::new(Code::Emit, format!("the engine refuses this: {}", error.message))
            .help("report it with the source; until it is fixed, another form of the line may work");
        let place = emitted
            .iter()
            .find(|module| module.specifier == error.specifier)
            .and_then(|module| PositionTable::parse(module.source_map.as_deref()?))
            .and_then(|table| table.original(error.line, error.column.max(1)));
        return Err(match place {
            Some(place) => modules
                .with_scan(&place.file, |scan| {
                    diagnostic.clone().at_line(&place.file, &scan.source, place.line, place.column)
                })
                .unwrap_or_else(|| diagnostic.in_file(&place.file)),
            None => diagnostic.in_file(&error.specifier),
        }
        .into());
    }
    Ok(Artifact { metadata, modules: emitted })
}

fn content_key(package: &Package, linked: &[Vec<Chunk>], host: &HostInterface) -> Key {
    let mut key = Key::builder("artifact");
    key.field(&package.manifest);
    key.field(host.fingerprint());
    for chunks in linked {
        key.field(&(chunks.len() as u64).to_le_bytes());
        for chunk in chunks {
            key.field(chunk.file.as_bytes());
            key.field(chunk.code.as_bytes());
        }
    }
    key.finish()
}
