//! Scan: the imports of one module, the capabilities it can use, and findings.
//!
//! Walks the syntax tree once, after scopes are resolved, so that a local variable named `fetch` is not taken for the global.
//! The scan only sees literals: its findings propose grants, and the gate decides about all calls at run time.
//!
//! ```text
//! import { execFile } from "child_process";       imports: child_process {execFile}
//! execFile("git", ["status"]);                    uses:    exec, commands ["git"]
//! await fetch(`https://api.example.com/${id}`);   uses:    http, hosts ["api.example.com"]
//! new Function(code);                             uses:    eval; finding: BD_EVAL at line 4
//! ```
//!
//! The walk also collects the edits of [`rewrite`](crate::rewrite), so that each module is parsed once.

mod accumulated;
mod api;
mod awaits;
mod bindings;
mod calls;
mod compiled_text;
mod constants;
mod findings;
mod helpers;
mod module_names;
mod module_scan;
mod offers;
mod patches;
mod pi;
mod servers;
mod throwing_calls;
mod umd;
mod uses;
mod walk;

pub(crate) use api::{ApiUse, ApiUses, Assumptions, Pass, Used};
pub(crate) use module_scan::{ModuleScan, ScanOptions, Template};
pub(crate) use uses::Uses;
pub(crate) use walk::{api_again, scan};

use pijs_diagnostics::{Code, Diagnostic};
use std::sync::Arc;

/// Reports a computed import target that no file of the package matches.
pub(crate) fn computed(template: &Template, file: &str, source: &Arc<str>) -> Diagnostic {
    let message = "the target of this `import()` is computed, and no file in the package matches its constant prefix";
    let (start, end) = template.at;
    Diagnostic::new(Code::DynamicImport, message).help(findings::NAME_IMPORT).at(file, source, start, end)
}
