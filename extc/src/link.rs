//! Link: the modules of one entry to a few chunks, by rolldown.
//!
//! The only module that uses the bundler. Code splitting is on, so that dynamic imports load on demand; nothing is minified by
//! default, since that does not make the engine's bytecode smaller. A missing export is `undefined`, and a missing default is the
//! module itself, as under pi's loader: the first run reports such names, a second one fills them in.
//!
//! Linking runs on one thread of our own pool, whose stacks fit the limits, so that neither order nor depth depends on the
//! machine.

mod plugin;
mod probed_files;
mod resolver;
mod virtuals;

pub(crate) use plugin::Modules;

use oxc_sourcemap::SourceMap;
use pijs_diagnostics::{Code, Diagnostic};
use plugin::LinkPlugin;
use rolldown::{
    AttachDebugInfo, Bundler, BundlerOptions, BundlerTransformOptions, CommentsOptions, DecoratorOptions,
    ExperimentalOptions, InputItem, OutputFormat, Platform, RawMinifyOptions, SourceMapType, TsConfig,
};
use rolldown_common::{InnerOptions, ModuleSideEffects, Output, TreeshakeOptions};
use rolldown_error::{BuildDiagnostic, DiagnosticOptions, EventKind};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Rolldown's output folder. Only source maps show it, and they are made relative again.
const OUT_DIR: &str = "dist";

/// Settings of one run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LinkOptions {
    pub(crate) minify: bool,
}

/// One module to start from.
#[derive(Debug)]
pub(crate) struct LinkInput {
    /// Name of the module's chunk.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

/// Several modules that are linked together and share chunks.
#[derive(Debug)]
pub(crate) struct LinkInputs {
    pub(crate) files: Vec<LinkInput>,
    /// Name pattern of a shared chunk, which contains `[name]`.
    pub(crate) chunks: String,
    pub(crate) side_effects: SideEffects,
}

/// Decides whether a module is evaluated if none of its exports is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SideEffects {
    /// The module is evaluated, unless its package declares that it has no side effects.
    Kept,
    /// The module is left out.
    Dropped,
}

/// One linked module of an entry.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// `index.js` for the entry, other names for shared and dynamically imported parts.
    pub(crate) file: String,
    pub(crate) code: String,
    /// Source map; sources are names inside the package.
    pub(crate) map: Option<String>,
}

/// Links one entry. Its chunk comes first, the other chunks sorted by name.
///
/// Diagnostics go to `modules`; returns `None` if they contain errors.
pub(crate) fn link(modules: &Arc<Modules>, entry: &Path, options: LinkOptions) -> Option<Vec<Chunk>> {
    modules.enter(entry);
    let settings = |shim| settings(modules.tree().package(), entry, options, shim);
    link_all(modules, SideEffects::Kept, settings)
}

/// Links several modules at once. Their chunks come first, then the shared chunks, each sorted by name.
///
/// Diagnostics go to `modules`; returns `None` if they contain errors.
pub(crate) fn link_inputs(modules: &Arc<Modules>, inputs: &LinkInputs) -> Option<Vec<Chunk>> {
    link_all(modules, inputs.side_effects, |shim| {
        let first = inputs.files.first().expect("at least one file is linked");
        let mut settings = settings(modules.tree().package(), &first.path, LinkOptions { minify: false }, shim);
        settings.input = Some(inputs.files.iter().map(|input| item(&input.name, &input.path)).collect());
        settings.entry_filenames = Some("[name]".to_owned().into());
        settings.chunk_filenames = Some(inputs.chunks.clone().into());
        if inputs.side_effects == SideEffects::Dropped {
            let module_side_effects = ModuleSideEffects::Boolean(false);
            settings.treeshake = TreeshakeOptions::Option(InnerOptions { module_side_effects, ..Default::default() });
        }
        settings
    })
}

fn link_all(
    modules: &Arc<Modules>,
    side_effects: SideEffects,
    settings: impl Fn(bool) -> BundlerOptions,
) -> Option<Vec<Chunk>> {
    let run = |shim| {
        let linked = run(modules, side_effects, settings(shim));
        if modules.starts_over_for_contexts() { run(modules, side_effects, settings(shim)) } else { linked }
    };
    match run(false) {
        Ok(chunks) => Some(chunks),
        Err(errors) => {
            let (absent, other): (Vec<_>, Vec<_>) =
                errors.into_iter().partition(|error| matches!(error.kind(), EventKind::MissingExportError));
            let (defaults, absent): (Vec<_>, Vec<_>) =
                absent.into_iter().partition(|error| missing_name(error) == "default");
            let exporters: Vec<_> = defaults.iter().filter_map(BuildDiagnostic::exporter).collect();
            modules.give_defaults(exporters.iter().map(Path::new));
            for error in &absent {
                modules.note(missing_export(modules, error));
            }
            if !other.is_empty() {
                for error in &other {
                    modules.note(link_error(modules, error));
                }
                return None;
            }
            run(true).map_err(|errors| errors.iter().for_each(|error| modules.note(link_error(modules, error)))).ok()
        }
    }
}

fn run(
    modules: &Arc<Modules>,
    side_effects: SideEffects,
    settings: BundlerOptions,
) -> Result<Vec<Chunk>, Vec<BuildDiagnostic>> {
    let plugin = Arc::new(LinkPlugin { modules: Arc::clone(modules), side_effects });
    let runtime =
        tokio::runtime::Builder::new_current_thread().build().expect("a runtime without drivers can be created");
    let output = runtime.block_on(async {
        let mut bundler = Bundler::with_plugins(settings, vec![plugin]).map_err(|errors| errors.into_vec())?;
        bundler.generate().await.map_err(|errors| errors.into_vec())
    })?;
    let mut chunks: Vec<_> = output
        .assets
        .into_iter()
        .filter_map(|asset| match asset {
            Output::Chunk(chunk) => Some(chunk),
            Output::Asset(_) => None,
        })
        .collect();
    chunks.sort_by(|a, b| b.is_entry.cmp(&a.is_entry).then_with(|| a.filename.cmp(&b.filename)));
    Ok(chunks
        .iter()
        .map(|chunk| Chunk {
            file: chunk.filename.to_string(),
            code: chunk.code.clone(),
            map: chunk.map.as_ref().map(|map| portable_map(modules, map.clone())),
        })
        .collect())
}

fn settings(package: &Path, entry: &Path, options: LinkOptions, shim: bool) -> BundlerOptions {
    BundlerOptions {
        input: Some(vec![item("index", entry)]),
        cwd: Some(package.to_owned()),
        dir: Some(OUT_DIR.to_owned()),
        // Distinguishes `require` from `import`.
        platform: Some(Platform::Node),
        format: Some(OutputFormat::Esm),
        entry_filenames: Some("[name].js".to_owned().into()),
        chunk_filenames: Some("[name].js".to_owned().into()),
        shim_missing_exports: Some(shim),
        sourcemap: Some(SourceMapType::Hidden),
        sourcemap_exclude_sources: Some(true),
        minify: Some(RawMinifyOptions::Bool(options.minify)),
        comments: Some(CommentsOptions { legal: false, annotation: false, jsdoc: false }),
        // A package's tsconfig configures its author's type checks, and may refer to any path.
        tsconfig: Some(TsConfig::Auto(false)),
        transform: Some(BundlerTransformOptions {
            // As pi's loader does, compiles decorators in the legacy form; the engine does not support decorators.
            decorator: Some(DecoratorOptions { legacy: Some(true), ..Default::default() }),
            ..Default::default()
        }),
        experimental: Some(ExperimentalOptions {
            // Region comments would contain absolute paths.
            attach_debug_info: Some(AttachDebugInfo::None),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn item(name: &str, path: &Path) -> InputItem {
    let import = path.to_str().expect("the resolver checked that paths are UTF-8").to_owned();
    InputItem { name: Some(name.to_owned()), import }
}

/// Replaces paths with names inside the package, so that the map is the same on every machine.
fn portable_map(modules: &Modules, mut map: SourceMap<'static>) -> String {
    let out = modules.tree().package().join(OUT_DIR);
    let sources: Vec<String> = map
        .get_sources()
        .map(|source| {
            let path = normal(&out.join(source));
            modules.tree().locate(&path).map_or_else(|| "(extc)".to_owned(), |located| located.name)
        })
        .collect();
    map.set_sources(sources);
    map.to_json_string()
}

/// Removes `.` and `..` lexically, which is correct because the path was joined and no part of it is a link.
fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out
}

/// Returns the name of the missing export, which only the text of the message contains.
fn missing_name(error: &BuildDiagnostic) -> String {
    error.to_string().split('"').nth(1).unwrap_or_default().to_owned()
}

fn missing_export(modules: &Modules, error: &BuildDiagnostic) -> Diagnostic {
    let name = missing_name(error);
    let exporter = error.exporter().unwrap_or_default();
    let from = modules.tree().locate(Path::new(&exporter)).map_or_else(|| exporter.clone(), |located| located.name);
    let diagnostic =
        Diagnostic::new(Code::MissingExport, format!("`{from}` does not export `{name}`; it is undefined"))
            .help("check the spelling; a type needs `import type`");
    let Some(importer) = error.id().and_then(|id| modules.tree().locate(Path::new(&id))) else { return diagnostic };
    let placed = modules.with_scan(&importer.name, |scan| {
        let named = scan.imports.iter().flat_map(|site| &site.names).find(|imported| imported.name == name)?;
        Some(diagnostic.clone().at(&importer.name, &scan.source, named.start, named.end))
    });
    placed.flatten().unwrap_or_else(|| diagnostic.in_file(&importer.name))
}

fn link_error(modules: &Modules, error: &BuildDiagnostic) -> Diagnostic {
    // Keeps the working directory of this process out of paths in messages.
    let options = DiagnosticOptions { cwd: modules.tree().package().to_owned() };
    let shown = error.to_diagnostic_with(&options);
    let code = if matches!(error.kind(), EventKind::ParseError) { Code::Syntax } else { Code::Link };
    let diagnostic = Diagnostic::new(code, error.to_message_with(&options));
    let Some((file, line, column, _)) = shown.get_primary_location() else { return diagnostic };
    let path = normal(&modules.tree().package().join(&file));
    let name = modules.tree().locate(&path).map_or(file, |located| located.name);
    let position = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    // Edits move columns within a line, but never change a line number.
    let placed = modules
        .with_scan(&name, |scan| diagnostic.clone().at_line(&name, &scan.source, position(line), position(column + 1)));
    placed.unwrap_or_else(|| diagnostic.in_file(&name))
}
