//! The hooks that rolldown calls: resolve an import, load a file, rewrite it.
//! A hook never fails a build. It records a diagnostic and returns a module that throws, so that one run finds all problems; the
//! linker checks the diagnostics at the end.

mod templates;

use super::SideEffects;
use super::resolver::Resolver;
use super::virtuals::{Virtual, is_virtual};
use crate::interface::{HostInterface, HostName};
use crate::limits::check_nesting;
use crate::parse::parse;
use crate::rewrite::{Edit, Location, location, rewrite};
use crate::scan::{ModuleScan, ScanOptions, scan};
use crate::tree::{Located, SourceTree};
use oxc_sourcemap::SourceMap;
use pijs_diagnostics::{Code, Diagnostic};
use pijs_protocol::guard;
use rolldown::ModuleType;
use rolldown_common::side_effects::HookSideEffects;
use rolldown_common::{ImportKind, RUNTIME_MODULE_KEY, ResolvedExternal};
use rolldown_plugin::{
    HookLoadArgs, HookLoadOutput, HookLoadReturn, HookResolveIdArgs, HookResolveIdOutput, HookResolveIdReturn,
    HookTransformArgs, HookTransformOutput, HookTransformReturn, HookUsage, Plugin, PluginContext,
    SharedLoadPluginContext, SharedTransformPluginContext,
};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// State shared by all linker runs over one package: each module is read, parsed and scanned once.
#[derive(Debug)]
pub(crate) struct Modules {
    tree: Arc<SourceTree>,
    resolver: Resolver,
    host: HostInterface,
    /// Host module by the path of the file that it replaces, or by the import as written: in every file, or only in the file
    /// whose path precedes the import.
    replaced: BTreeMap<String, String>,
    state: Mutex<LinkState>,
}

#[derive(Debug, Default)]
struct LinkState {
    /// Scans by file name; names are unique.
    scanned: BTreeMap<String, Scanned>,
    /// Diagnostics in the order of discovery; sorted when they are returned.
    diagnostics: Vec<Diagnostic>,
    /// Missing modules, by the module that imports them statically.
    absent: Vec<(String, Diagnostic)>,
    /// Static imports of files, by importer: evaluating the key evaluates the values first.
    evaluates: BTreeMap<String, BTreeSet<String>>,
    /// The modules that a realm evaluates when it loads the package.
    entries: BTreeSet<String>,
    /// Paths of modules that only a computed import can reach: an error in one fails only its importer.
    reached: BTreeSet<String>,
    /// Whether a module imports `node:async_hooks`.
    needs_contexts: bool,
    /// Whether the modules are rewritten for `node:async_hooks`.
    has_contexts: bool,
}

impl LinkState {
    fn evaluated_at_load(&self) -> BTreeSet<&str> {
        let mut reached = BTreeSet::new();
        let mut waiting: Vec<&str> = self.entries.iter().map(String::as_str).collect();
        while let Some(module) = waiting.pop() {
            if reached.insert(module) {
                waiting.extend(self.evaluates.get(module).into_iter().flatten().map(String::as_str));
            }
        }
        reached
    }
}

#[derive(Debug)]
struct Scanned {
    scan: ModuleScan,
    rewritten: Option<(String, SourceMap<'static>)>,
}

/// A package that imports this module is linked with a marker at every `await`, which restores the context.
const CONTEXTS: &str = "node:async_hooks";

impl Modules {
    pub(crate) fn new(tree: SourceTree, host: HostInterface) -> Self {
        let tree = Arc::new(tree);
        Self { resolver: Resolver::new(&tree), tree, host, replaced: BTreeMap::new(), state: Mutex::default() }
    }

    /// Sets the host modules that replace files and imports.
    pub(crate) fn replacing(self, replaced: BTreeMap<String, String>) -> Self {
        Self { replaced, ..self }
    }

    pub(crate) fn tree(&self) -> &SourceTree {
        &self.tree
    }

    pub(crate) fn host(&self) -> &HostInterface {
        &self.host
    }

    /// Returns the diagnostics of the hooks, deduplicated, ordered by file and line.
    ///
    /// A missing module that is imported statically throws when its importer is evaluated: at load, if an entry reaches it.
    pub(crate) fn diagnostics(&self) -> Vec<Diagnostic> {
        let state = self.state();
        let mut found = state.diagnostics.clone();
        let at_load = state.evaluated_at_load();
        found.extend(state.absent.iter().map(|(importer, diagnostic)| {
            if at_load.contains(importer.as_str()) { diagnostic.clone().at_load() } else { diagnostic.clone() }
        }));
        found.sort_by(|a, b| a.place().cmp(&b.place()).then_with(|| a.code().cmp(&b.code())));
        found.dedup();
        found
    }

    pub(crate) fn note(&self, diagnostic: Diagnostic) {
        self.state().diagnostics.push(diagnostic);
    }

    /// Calls `see` with the scan of every module that was read, by name.
    pub(crate) fn for_each_scan(&self, mut see: impl FnMut(&str, &ModuleScan)) {
        for (name, scanned) in &self.state().scanned {
            see(name, &scanned.scan);
        }
    }

    /// Calls `see` with the scan of one module.
    pub(crate) fn with_scan<T>(&self, name: &str, see: impl FnOnce(&ModuleScan) -> T) -> Option<T> {
        self.state().scanned.get(name).map(|scanned| see(&scanned.scan))
    }

    /// Records the file that a realm evaluates first.
    pub(crate) fn enter(&self, entry: &Path) {
        let name = self.tree.name_of(entry);
        self.state().entries.insert(name);
    }

    /// Records that evaluating the importer evaluates another file first.
    fn evaluates(&self, args: &HookResolveIdArgs<'_>, file: &str) {
        if args.kind == ImportKind::Import
            && let Some(importer) = args.importer
        {
            let name = |path: &str| self.tree.name_of(Path::new(path));
            let (importer, file) = (name(importer), name(file));
            self.state().evaluates.entry(importer).or_default().insert(file);
        }
    }

    fn state(&self) -> MutexGuard<'_, LinkState> {
        // After a panic the state is consistent: each insert is one step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the modules have to be read again because one imports `node:async_hooks`. If so, drops their scans.
    pub(crate) fn starts_over_for_contexts(&self) -> bool {
        let mut state = self.state();
        let starts_over = state.needs_contexts && !state.has_contexts;
        if starts_over {
            state.has_contexts = true;
            state.scanned.clear();
        }
        starts_over
    }

    /// Adds a default export to those modules at these paths that lack one: the module itself, as under pi's loader.
    pub(crate) fn give_defaults<'a>(&self, paths: impl Iterator<Item = &'a Path>) {
        let mut state = self.state();
        let has_contexts = state.has_contexts;
        for path in paths {
            let Some(located) = self.tree.locate(path) else { continue };
            let Some(scanned) = state.scanned.get_mut(&located.name) else { continue };
            let end = scanned.scan.source.len();
            let file = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let itself = serde_json::Value::from(format!("./{file}"));
            let text = format!("\nimport * as __pi_itself from {itself};\nexport {{ __pi_itself as default }};\n");
            let default = Edit { start: end, end, text };
            let awaits = if has_contexts { scanned.scan.awaits.as_slice() } else { &[] };
            let insertions = [&scanned.scan.insertions, awaits, &[default]].concat();
            scanned.rewritten = rewrite(&located.name, &scanned.scan.source, &scanned.scan.edits, &insertions);
        }
    }

    /// Attaches the position of the import of `specifier` in `importer` to a diagnostic.
    fn place(&self, diagnostic: Diagnostic, importer: Option<&str>, specifier: &str) -> Diagnostic {
        let Some(located) = importer.and_then(|importer| self.tree.locate(Path::new(importer))) else {
            return diagnostic;
        };
        let placed = self.with_scan(&located.name, |scan| {
            let site = scan.imports.iter().find(|site| site.specifier == specifier)?;
            Some(diagnostic.clone().at(&located.name, &scan.source, site.start, site.end))
        });
        placed.flatten().unwrap_or_else(|| diagnostic.in_file(&located.name))
    }

    /// Records an error of an import. Only the error of a static import fails the build: other imports may never run.
    fn refuse(&self, args: &HookResolveIdArgs<'_>, diagnostic: Diagnostic, code: &'static str) -> HookResolveIdOutput {
        let message = diagnostic.message().to_owned();
        let is_reached = || args.importer.is_some_and(|importer| self.state().reached.contains(importer));
        let ends = args.kind == ImportKind::Import && !is_reached();
        let diagnostic = if ends { diagnostic } else { diagnostic.blocked() };
        self.note(self.place(diagnostic, args.importer, args.specifier));
        missing(code, message)
    }

    /// Resolves the import of a missing file whose importer may catch the failure.
    fn resolve_tried(&self, args: &HookResolveIdArgs<'_>) -> HookResolveIdOutput {
        let diagnostic = Diagnostic::new(Code::Unresolved, format!("there is no `{}`", args.specifier))
            .help("importing it throws MODULE_NOT_FOUND at run time, as under Node");
        self.note(self.place(diagnostic, args.importer, args.specifier));
        missing("MODULE_NOT_FOUND", format!("Cannot find module '{}'", args.specifier))
    }

    fn is_tried_by_dependency(&self, args: &HookResolveIdArgs<'_>) -> bool {
        let importer = args.importer.and_then(|importer| self.tree.locate(Path::new(importer)));
        args.kind != ImportKind::Import && importer.is_some_and(|importer| importer.dependency)
    }

    fn note_absent(&self, args: &HookResolveIdArgs<'_>, diagnostic: Diagnostic) {
        match args.importer.filter(|_| args.kind == ImportKind::Import) {
            Some(importer) => {
                let importer = self.tree.name_of(Path::new(importer));
                self.state().absent.push((importer, diagnostic));
            }
            None => self.note(diagnostic),
        }
    }

    fn resolve_host(&self, args: &HookResolveIdArgs<'_>, name: HostName) -> HookResolveIdOutput {
        let (specifier, builtin) = match name {
            HostName::Builtin(specifier) => (specifier, true),
            HostName::Package(specifier) => (specifier, false),
            HostName::UnknownSubPath => return self.resolve_missing(args, "pi's loader does not provide this path"),
        };
        // The bundler's own runtime needs it before any helper exists, so it is never wrapped.
        let from_runtime = args.importer == Some(RUNTIME_MODULE_KEY);
        if !self.host.has_module(&specifier) && !from_runtime {
            let diagnostic = Diagnostic::new(Code::Unresolved, format!("PiJS has no `{specifier}`"))
                .help("code that uses it throws at run time; `extc check` lists every use");
            self.note_absent(args, self.place(diagnostic, args.importer, args.specifier));
            return missing("ERR_UNKNOWN_BUILTIN_MODULE", format!("No such module in PiJS: {specifier}"));
        }
        if specifier == CONTEXTS {
            self.state().needs_contexts = true;
        }
        if args.kind == ImportKind::Require && !from_runtime {
            return virtual_module(&Virtual::Required { specifier, builtin });
        }
        external(&specifier)
    }

    /// Returns the host module that replaces a file or an import, if any.
    fn replacement(&self, met: &str) -> Option<HookResolveIdOutput> {
        self.replaced.get(met).map(|specifier| external(specifier))
    }

    /// Returns the host module that replaces an import in one file only.
    fn replacement_in(&self, args: &HookResolveIdArgs<'_>) -> Option<HookResolveIdOutput> {
        if self.replaced.is_empty() {
            return None;
        }
        self.replacement(&format!("{} {}", args.importer?, args.specifier))
    }

    /// Resolves a package or host path that does not exist to a module that throws when it is evaluated, as under Node.
    fn resolve_missing(&self, args: &HookResolveIdArgs<'_>, why: &str) -> HookResolveIdOutput {
        let message = format!("`{}` is not installed: {why}", args.specifier);
        let diagnostic = Diagnostic::new(Code::Unresolved, message)
            .help("add it to `dependencies`; without it the import throws MODULE_NOT_FOUND at run time");
        self.note_absent(args, self.place(diagnostic, args.importer, args.specifier));
        missing("MODULE_NOT_FOUND", format!("Cannot find module '{}'", args.specifier))
    }

    /// Refuses specifiers by their spelling alone.
    fn refuse_by_name(&self, args: &HookResolveIdArgs<'_>) -> Option<HookResolveIdOutput> {
        if !guard!(BuildSchemes) {
            return None;
        }
        let specifier = args.specifier;
        let scheme = specifier.split_once(':').map(|(scheme, _)| scheme).filter(|scheme| {
            scheme.len() > 1 && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
        });
        let diagnostic = match scheme {
            Some("http" | "https") => Diagnostic::new(Code::Escape, "code is not imported from the network")
                .help("install the package and import it by name"),
            Some("data") => Diagnostic::new(Code::Escape, "`data:` imports are not supported")
                .help("put the module into a file of the package"),
            Some("file") => Diagnostic::new(Code::Escape, "imports by `file:` URL are not supported")
                .help("use a path relative to the importing file"),
            Some("pi") => Diagnostic::new(Code::Escape, format!("`{specifier}` is internal to the host"))
                .help("use the API that the extension's function receives"),
            Some(_) => return Some(self.resolve_missing(args, "its scheme belongs to another runtime")),
            None if specifier.starts_with('/') || specifier.starts_with('\\') => {
                Diagnostic::new(Code::Escape, "imports by absolute path are not supported")
                    .help("use a path relative to the importing file")
            }
            None => return None,
        };
        Some(self.refuse(args, diagnostic, "ERR_ACCESS_DENIED"))
    }

    /// Accepts a file that the resolver found, if the file belongs to the package.
    fn accept(&self, args: &HookResolveIdArgs<'_>, path: &str) -> Option<HookResolveIdOutput> {
        if is_virtual(path) {
            return None;
        }
        if self.tree.locate(Path::new(path)).is_none() && guard!(BuildEscape) {
            let diagnostic = Diagnostic::new(Code::Escape, format!("`{}` leads out of the package", args.specifier))
                .help("copy the file into the package, or publish it as a package and depend on it");
            return Some(self.refuse(args, diagnostic, "ERR_ACCESS_DENIED"));
        }
        if let Err(diagnostic) = self.tree.admit(Path::new(path), args.specifier) {
            return Some(self.refuse(args, diagnostic, "ERR_ACCESS_DENIED"));
        }
        let extension = Path::new(path).extension().and_then(|extension| extension.to_str());
        match extension {
            Some("node") => Some(missing("ERR_DLOPEN_FAILED", format!("Native addons are off: {}", args.specifier))),
            extension if module_type(extension).is_none() => {
                let diagnostic = Diagnostic::new(Code::Resolve, format!("`{}` is not a module", args.specifier))
                    .help("read it with `fs.readFileSync(new URL(\"...\", import.meta.url))`");
                Some(self.refuse(args, diagnostic, "ERR_UNKNOWN_FILE_EXTENSION"))
            }
            _ => None,
        }
    }

    /// Reads a file, and scans it if it is source.
    fn load_file(&self, path: &str, located: &Located) -> Result<(String, ModuleType), Diagnostic> {
        // The resolver refuses imports of other file types, but an entry may be of any type.
        let kind =
            module_type(Path::new(path).extension().and_then(|extension| extension.to_str())).ok_or_else(|| {
                Diagnostic::new(Code::Entry, "not a module: an entry is TypeScript, JavaScript or an artifact")
                    .help("name the .ts or .js file of the extension")
                    .in_file(&located.name)
            })?;
        let bytes = self.tree.read(Path::new(path))?;
        self.tree.read_manifests(Path::new(path))?;
        let text = String::from_utf8(bytes)
            .map_err(|_| Diagnostic::new(Code::Read, "not UTF-8 text").in_file(&located.name))?;
        if let Some(text) = self.stands_for_servers(&located.name, &text) {
            return Ok((text.to_owned(), ModuleType::Js));
        }
        if matches!(kind, ModuleType::Json) {
            check_nesting(&located.name, &Arc::from(text.as_str()), self.tree.limits())?;
            // The bundler's own message does not name the position.
            if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(&text) {
                return Err(Diagnostic::of_json(Code::Syntax, &located.name, &text, &error));
            }
            return Ok((text, kind));
        }
        if let Some(text) = self.with_scan(&located.name, |scan| scan.source.to_string()) {
            return Ok((text, kind));
        }
        let parsed = parse(&located.name, &text, self.tree.limits())?;
        let place = self.tree.place(Path::new(path));
        let options = ScanOptions { file: &located.name, place: place.as_deref(), dependency: located.dependency };
        let mut scan = scan(parsed, options);
        self.reach_templates(Path::new(path), &located.name, place.as_deref(), &mut scan);
        let text = scan.source.to_string();
        let mut state = self.state();
        let awaits = if state.has_contexts { scan.awaits.as_slice() } else { &[] };
        let insertions = [&scan.insertions, awaits].concat();
        let rewritten = rewrite(&located.name, &text, &scan.edits, &insertions);
        state.diagnostics.extend(scan.findings.iter().cloned());
        state.scanned.insert(located.name.clone(), Scanned { scan, rewritten });
        Ok((text, kind))
    }
}

impl Modules {
    /// Returns an entry for a package without code: one whose manifest declares MCP servers.
    fn stands_for_servers(&self, name: &str, manifest: &str) -> Option<&'static str> {
        let is_entry = name == pijs_packages::MANIFEST_FILE && self.state().entries.contains(name);
        let names_servers = || {
            let manifest: serde_json::Value = serde_json::from_str(manifest).ok()?;
            manifest.get("pi")?.get("mcpServers")?.as_object().map(|servers| !servers.is_empty())
        };
        (is_entry && names_servers() == Some(true)).then_some("export default () => {};\n")
    }
}

/// Returns the module type of a file suffix; `None` for files that are not modules.
fn module_type(extension: Option<&str>) -> Option<ModuleType> {
    Some(match extension {
        Some("ts" | "mts" | "cts") => ModuleType::Ts,
        Some("tsx") => ModuleType::Tsx,
        Some("jsx") => ModuleType::Jsx,
        Some("js" | "mjs" | "cjs") | None => ModuleType::Js,
        Some("json") => ModuleType::Json,
        Some(_) => return None,
    })
}

/// Resolves to a module of the host.
fn external(specifier: &str) -> HookResolveIdOutput {
    HookResolveIdOutput {
        id: specifier.into(),
        external: Some(ResolvedExternal::Bool(true)),
        normalize_external_id: Some(false),
        // Without this flag every bundle would keep imports that nothing uses.
        side_effects: Some(HookSideEffects::False),
        package_json_path: None,
    }
}

fn missing(code: &'static str, message: String) -> HookResolveIdOutput {
    virtual_module(&Virtual::Missing { code, message })
}

fn virtual_module(module: &Virtual) -> HookResolveIdOutput {
    HookResolveIdOutput::from_id(module.id())
}

/// The plugin of one linker run.
#[derive(Debug)]
pub(super) struct LinkPlugin {
    pub(super) modules: Arc<Modules>,
    /// With [`SideEffects::Dropped`] a missing module throws only if one of its exports is used.
    pub(super) side_effects: SideEffects,
}

impl Plugin for LinkPlugin {
    fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed("pijs")
    }

    async fn resolve_id(&self, _: &PluginContext, args: &HookResolveIdArgs<'_>) -> HookResolveIdReturn {
        if args.is_entry {
            return Ok(Some(HookResolveIdOutput::from_id(args.specifier)));
        }
        if is_virtual(args.specifier) {
            return Ok(None);
        }
        let replaced = self.modules.replacement_in(args).or_else(|| self.modules.replacement(args.specifier));
        if let Some(replaced) = replaced {
            return Ok(Some(replaced));
        }
        if let Some(name) = HostName::of(args.specifier) {
            return Ok(Some(self.modules.resolve_host(args, name)));
        }
        if let Some(refused) = self.modules.refuse_by_name(args) {
            return Ok(Some(refused));
        }
        match self.modules.resolver.resolve(args.importer, args.specifier, args.kind) {
            Ok(found) => {
                self.modules.evaluates(args, found.id.as_str());
                let settled = self.modules.replacement(found.id.as_str());
                let settled = settled.or_else(|| self.modules.accept(args, found.id.as_str()));
                Ok(Some(settled.unwrap_or(found)))
            }
            // Unlike a static import, a `require` may be guarded, as packages do for addons of other systems.
            Err(_) if args.specifier.starts_with('.') && self.modules.is_tried_by_dependency(args) => {
                Ok(Some(self.modules.resolve_tried(args)))
            }
            Err(_) if args.specifier.starts_with('.') => {
                let diagnostic = Diagnostic::new(Code::Resolve, format!("Cannot find module '{}'", args.specifier))
                    .help("check the spelling and that the file is part of the package");
                Ok(Some(self.modules.refuse(args, diagnostic, "MODULE_NOT_FOUND")))
            }
            Err(_) => Ok(Some(self.modules.resolve_missing(args, "no such package, or it does not export this path"))),
        }
    }

    async fn load(&self, _: SharedLoadPluginContext, args: &HookLoadArgs<'_>) -> HookLoadReturn {
        if let Some(source) = Virtual::source(args.id) {
            return Ok(Some(HookLoadOutput {
                code: source.into(),
                side_effects: Some(if self.keeps(args.id) { HookSideEffects::True } else { HookSideEffects::False }),
                // Set explicitly, because a specifier that ends in `.json` would choose another loader.
                module_type: Some(ModuleType::Js),
                map: None,
            }));
        }
        let Some(located) = self.modules.tree.locate(Path::new(args.id)).filter(|_| !is_virtual(args.id)) else {
            return Ok(None);
        };
        let (code, module_type) = self.modules.load_file(args.id, &located).unwrap_or_else(|diagnostic| {
            self.modules.note(diagnostic);
            (String::new(), ModuleType::Empty)
        });
        Ok(Some(HookLoadOutput { code: code.into(), module_type: Some(module_type), ..Default::default() }))
    }

    async fn transform(&self, _: SharedTransformPluginContext, args: &HookTransformArgs<'_>) -> HookTransformReturn {
        if args.id == RUNTIME_MODULE_KEY {
            // `require` with a computed name resolves from the package, since a chunk has no location.
            let code = args.code.replace("import.meta.url", &format!("{}.url", location("", None, Location::Object)));
            let code = forgets_what_throws(&code);
            return Ok(Some(HookTransformOutput { code: Some(code), ..Default::default() }));
        }
        let Some(located) = self.modules.tree.locate(Path::new(args.id)).filter(|_| !is_virtual(args.id)) else {
            return Ok(None);
        };
        let state = self.modules.state();
        let rewritten = state.scanned.get(&located.name).and_then(|scanned| scanned.rewritten.clone());
        Ok(rewritten.map(|(code, map)| HookTransformOutput { code: Some(code), map: map.into(), ..Default::default() }))
    }

    fn register_hook_usage(&self) -> HookUsage {
        HookUsage::ResolveId | HookUsage::Load | HookUsage::Transform
    }
}

/// Replaces the bundler's CommonJS wrapper with `common_js.js`, which does not cache a module that threw.
fn forgets_what_throws(runtime: &str) -> String {
    const FORGOTTEN: &str = include_str!("common_js.js");
    let (before, rest) = runtime
        .split_once("export var __commonJSMin = ")
        .expect("the pinned bundler's runtime exports `__commonJSMin`");
    let end = rest.find("export var ").expect("another export follows");
    format!("{before}{FORGOTTEN}{}", &rest[end..])
}

impl LinkPlugin {
    /// Returns whether a synthetic module is evaluated although none of its exports is used, because it throws.
    fn keeps(&self, id: &str) -> bool {
        id.contains(":missing:") && self.side_effects == SideEffects::Kept
    }
}
