//! Scan: the imports of one module, the capabilities it can use, and findings.
//!
//! One walk over the syntax tree after scopes are resolved, so that a local variable named `fetch` is not taken for the global.
//! It only sees literals: its findings are a proposal for grants, and the gate decides at run time about all calls.
//!
//! ```text
//! import { execFile } from "child_process";       imports: child_process {execFile}
//! execFile("git", ["status"]);                    uses:    exec, commands ["git"]
//! await fetch(`https://api.example.com/${id}`);   uses:    http, hosts ["api.example.com"]
//! new Function(code);                             uses:    eval; finding: BD_EVAL at line 4
//! ```
//!
//! This walk also collects the edits of [`rewrite`](crate::rewrite), so that each module is
//! parsed once.

mod accumulated;
mod api;
mod awaits;
mod bindings;
mod calls;
mod compiled_text;
mod constants;
mod findings;
mod helpers;
mod offers;
mod patches;
mod pi;
mod servers;
mod throwing_calls;
mod umd;
mod unconditional;
mod unicode_sets;
mod uses;
mod walk;

pub(crate) use api::{ApiUse, ApiUses, Assumptions, Pass, Used};
pub(crate) use uses::Uses;
pub(crate) use walk::api_again;

use crate::diagnostics::{Code, Diagnostic};
use crate::parse::Parsed;
use std::sync::Arc;

/// The result of scanning one module.
#[derive(Debug, Clone)]
pub(crate) struct ModuleScan {
    /// The text; offsets count in its bytes.
    pub(crate) source: Arc<str>,
    /// Imports, requires and dynamic imports with a literal, in source order.
    pub(crate) imports: Vec<ImportSite>,
    pub(crate) uses: Uses,
    pub(crate) findings: Vec<Diagnostic>,
    /// Uses of pi's API, which [`contract`](crate::contract) checks.
    pub(crate) api: ApiUses,
    pub(crate) edits: Vec<Edit>,
    /// Targets of `import()` with a known beginning, in source order; none of dependencies.
    pub(crate) templates: Vec<Template>,
    /// Insertions; several at one position apply in this order.
    pub(crate) insertions: Vec<Edit>,
    /// Insertions that only packages with `node:async_hooks` need.
    pub(crate) awaits: Vec<Edit>,
}

/// One occurrence of an import specifier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ImportSite {
    pub(crate) specifier: String,
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Imported names, with their positions.
    pub(crate) names: Vec<ImportedName>,
}

/// One name in an import clause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ImportedName {
    pub(crate) name: String,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// The target of an `import()` that is concatenated at run time, and begins with a relative path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template {
    /// The beginning: `./providers/` of `./providers/${name}.ts`.
    pub(crate) start: String,
    /// The end: `.ts`; empty where it is unknown.
    pub(crate) end: String,
    pub(crate) at: (usize, usize),
}

/// A replacement of bytes `start..end` of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Edit {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) text: String,
}

/// Properties of a module that its tree does not contain.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScanOptions<'a> {
    /// Name inside the package.
    pub(crate) file: &'a str,
    /// Path relative to the package's folder; only of a file outside of it.
    pub(crate) place: Option<&'a str>,
    /// Whether the module is third-party code: run-time code generation there is usually guarded, so it is a warning.
    pub(crate) dependency: bool,
}

/// Scans one parsed module.
pub(crate) fn scan(parsed: Parsed, options: ScanOptions<'_>) -> ModuleScan {
    walk::walk(parsed, options)
}

/// Reports a computed target that no file of the package matches.
pub(crate) fn computed(template: &Template, file: &str, source: &Arc<str>) -> Diagnostic {
    let message = "the target of this `import()` is computed, and no file of the package begins like it";
    let (start, end) = template.at;
    Diagnostic::new(Code::DynamicImport, message).help(findings::NAME_IMPORT).at(file, source, start, end)
}

/// Joins all edits in source order. A rename that overlaps another edit at one occurrence is dropped at all occurrences.
fn joined(edits: Vec<Edit>, names: Vec<Edit>) -> Vec<Edit> {
    let in_order = |mut edits: Vec<Edit>| {
        edits.sort_by_key(|edit| (edit.start, edit.end));
        edits.dedup();
        edits
    };
    let both = in_order([edits.as_slice(), names.as_slice()].concat());
    let is_apart = both.array_windows().all(|[before, after]| before.end <= after.start);
    if is_apart { both } else { in_order(edits) }
}
