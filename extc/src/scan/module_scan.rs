//! The result of scanning one module.

use super::api::ApiUses;
use super::uses::Uses;
use crate::rewrite::Edit;
use pijs_diagnostics::Diagnostic;
use std::sync::Arc;

/// Imports, capabilities, findings and edits of one module.
#[derive(Debug, Clone)]
pub(crate) struct ModuleScan {
    /// The module's text; offsets count its bytes.
    pub(crate) source: Arc<str>,
    /// Imports, requires and dynamic imports with a literal specifier, in source order.
    pub(crate) imports: Vec<ImportSite>,
    pub(crate) uses: Uses,
    pub(crate) findings: Vec<Diagnostic>,
    /// Uses of pi's API, which [`contract`](crate::contract) checks.
    pub(crate) api: ApiUses,
    pub(crate) edits: Vec<Edit>,
    /// Targets of `import()` with a known beginning, in source order; empty for dependencies.
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
    /// The text before the computed part: `./providers/` of `./providers/${name}.ts`.
    pub(crate) start: String,
    /// The text after it: `.ts`; empty if unknown.
    pub(crate) end: String,
    pub(crate) at: (usize, usize),
}

/// Properties of a module that its syntax tree does not contain.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScanOptions<'a> {
    /// The module's name inside the package.
    pub(crate) file: &'a str,
    /// Path relative to the package's folder; set only for a file outside of it.
    pub(crate) place: Option<&'a str>,
    /// Whether the module is third-party code. Run-time code generation is usually guarded there, so it is only a warning.
    pub(crate) dependency: bool,
}
