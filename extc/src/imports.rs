//! Reads the host modules and names that linked chunks import, from the bundle after unused code is removed.

use crate::interface::{HostInterface, HostName, exports_of};
use crate::limits::Limits;
use crate::link::{Chunk, Modules};
use crate::parse::parse;
use crate::syntax::export_name;
use pijs_artifact::Module;
use pijs_diagnostics::{Code, Diagnostic};
use pijs_engine::FACADE_PREFIX;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use swc_core::ecma::ast::{
    CallExpr, Callee, ExportAll, ExportSpecifier, Expr, ImportDecl, ImportSpecifier, Lit, NamedExport, Str,
};
use swc_core::ecma::visit::{Visit, VisitWith};

/// Host modules by specifier, with the names imported from each; `*` if any name may be used.
pub(crate) type HostImports = BTreeMap<String, BTreeSet<String>>;

/// Reads the host imports of chunks.
pub(crate) fn host_imports(chunks: &[Chunk], limits: &Limits) -> HostImports {
    let mut collect = HostImportCollector::default();
    // A bundle of many modules may exceed the size limit of one file, but nests no deeper.
    let limits = Limits { file_bytes: limits.total_bytes, ..*limits };
    for chunk in chunks {
        if let Ok(parsed) = parse(&chunk.file, &chunk.code, &limits) {
            parsed.program.visit_with(&mut collect);
        }
    }
    collect.imports
}

/// Reports every imported name that the host module does not export.
pub(crate) fn check_names(modules: &Modules, imports: &HostImports) {
    let mut found = Vec::new();
    for (module, names) in imports {
        // A module without a default export is its own default, see `facades`: nothing is missing.
        let missing =
            |name: &&String| !matches!(name.as_str(), "*" | "default") && !modules.host().has_export(module, name);
        for name in names.iter().filter(missing) {
            modules.for_each_scan(|file, scan| {
                let sites = scan.imports.iter().filter(|site| match HostName::of(&site.specifier) {
                    Some(HostName::Builtin(specifier) | HostName::Package(specifier)) => specifier == *module,
                    _ => false,
                });
                for imported in sites.flat_map(|site| &site.names).filter(|imported| imported.name == *name) {
                    let message = format!("`{module}` of PiJS has no `{name}`; it is undefined");
                    found.push(
                        Diagnostic::new(Code::MissingExport, message)
                            .help("check the spelling; code that uses it fails at run time")
                            .at(file, &scan.source, imported.start, imported.end),
                    );
                }
            });
        }
    }
    found.into_iter().for_each(|diagnostic| modules.note(diagnostic));
}

/// Returns facade modules for host modules that lack some of the imported names. Those are undefined, as under pi's loader;
/// the engine alone would refuse to link.
///
/// ```text
/// import { real, gone } from "node:fs"   goes to   pijs:facade/node:fs
///
/// export * from "node:fs";
/// export { default } from "node:fs";
/// let absent; export { absent as gone };
/// ```
///
/// A name that a supplied package adds to a host module is re-exported from that package, whose module is added to `imports`:
/// `export { truncateHead } from "@earendil-works/pi-coding-agent/dist/core/tools/truncate.js"`.
///
/// `tag` separates facades of artifacts that are loaded into one realm.
pub(crate) fn facades(host: &HostInterface, imports: &mut HostImports, tag: Option<&str>) -> Vec<Module> {
    let mut facades = Vec::new();
    let mut supplied = HostImports::new();
    for (module, names) in imports.iter().filter(|(module, _)| host.has_module(module)) {
        // A namespace import sees every name.
        let wanted = |name: &str| names.contains("*") || names.contains(name);
        let parts: BTreeMap<&str, &str> = host.parts(module).filter(|(name, _)| wanted(name)).collect();
        let absent: Vec<&str> = names
            .iter()
            .map(String::as_str)
            .filter(|name| *name != "*" && !host.has_own_export(module, name) && !parts.contains_key(name))
            .collect();
        if absent.is_empty() && parts.is_empty() {
            continue;
        }
        let from = Value::from(module.as_str());
        let mut source = format!("export * from {from};\n");
        if host.has_own_export(module, "default") {
            source.push_str(&format!("export {{ default }} from {from};\n"));
        }
        for (name, from) in &parts {
            source.push_str(&format!("export {{ {name} }} from {};\n", Value::from(*from)));
            supplied.entry((*from).to_owned()).or_default().insert((*name).to_owned());
            for need in host.needs(from) {
                supplied.entry(need).or_default();
            }
        }
        source.push_str("let absent;\n");
        for name in absent {
            match name {
                // Without a default export, the module is its own default, as under pi's loader.
                "default" => source.push_str(&format!("import * as all from {from};\nexport {{ all as default }};\n")),
                name => source.push_str(&format!("export {{ absent as {} }};\n", Value::from(name))),
            }
        }
        let tag = tag.map(|tag| format!("#{tag}")).unwrap_or_default();
        facades.push(Module {
            specifier: format!("{FACADE_PREFIX}{module}{tag}"),
            source,
            source_map: None,
            bytecode: None,
        });
    }
    for (module, names) in supplied {
        imports.entry(module).or_default().extend(names);
    }
    facades
}

/// Returns the names that a chunk exports.
pub(crate) fn exported_names(chunk: &Chunk) -> BTreeSet<String> {
    let limits = Limits { file_bytes: Limits::default().total_bytes, ..Limits::default() };
    let Ok(parsed) = parse(&chunk.file, &chunk.code, &limits) else { return BTreeSet::new() };
    exports_of(&parsed.program)
}

#[derive(Default)]
struct HostImportCollector {
    imports: HostImports,
}

impl HostImportCollector {
    /// Returns the set of names imported from a host module; `None` for a chunk.
    fn names(&mut self, source: &Str) -> Option<&mut BTreeSet<String>> {
        let specifier = source.value.to_string_lossy().into_owned();
        (!specifier.starts_with('.')).then(|| self.imports.entry(specifier).or_default())
    }
}

impl Visit for HostImportCollector {
    fn visit_import_decl(&mut self, import: &ImportDecl) {
        let Some(names) = self.names(&import.src) else { return };
        for specifier in &import.specifiers {
            names.insert(match specifier {
                ImportSpecifier::Named(named) => {
                    named.imported.as_ref().map_or_else(|| named.local.sym.to_string(), export_name)
                }
                ImportSpecifier::Default(_) => "default".to_owned(),
                ImportSpecifier::Namespace(_) => "*".to_owned(),
            });
        }
    }

    fn visit_named_export(&mut self, export: &NamedExport) {
        let Some(names) = export.src.as_ref().and_then(|source| self.names(source)) else { return };
        for specifier in &export.specifiers {
            names.insert(match specifier {
                ExportSpecifier::Named(named) => export_name(&named.orig),
                ExportSpecifier::Namespace(_) | ExportSpecifier::Default(_) => "*".to_owned(),
            });
        }
    }

    fn visit_export_all(&mut self, export: &ExportAll) {
        if let Some(names) = self.names(&export.src) {
            names.insert("*".to_owned());
        }
    }

    fn visit_call_expr(&mut self, call: &CallExpr) {
        if let (Callee::Import(_), Some(first)) = (&call.callee, call.args.first())
            && let Expr::Lit(Lit::Str(source)) = first.expr.as_ref()
            && let Some(names) = self.names(source)
        {
            names.insert("*".to_owned());
        }
        call.visit_children_with(self);
    }
}
