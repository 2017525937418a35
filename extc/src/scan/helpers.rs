//! Renames names that collide with the bundler's helpers inside a CommonJS module.
//!
//! If such a module requires another, the bundler inserts a call of its own helper, or of the other module. Packages that
//! were bundled earlier contain helpers of the same names, which would be called instead:
//!
//! ```text
//! var __toCommonJS = (mod) => ...;              →   var __toCommonJS$own = (mod) => ...;
//! module.exports = __toCommonJS(exported);      →   module.exports = __toCommonJS$own(exported);
//! var net = require("net");                         var net = (init_net(), __toCommonJS(net_exports));   (the bundler)
//! ```
//!
//! The bundler renames other colliding names itself: it appends `$1` without checking whether that name is taken, as it is in
//! packages that it bundled earlier:
//!
//! ```text
//! const require_context = require("../context.cjs");           →   unchanged: the bundler makes it require_context$1
//! const require_context$1 = require("../api/context.cjs");     →   const require_context$1$own = require("../api/context.cjs");
//! ```
//!
//! The bundler renames the top level of an ES module correctly.

use crate::parse::Parsed;
use crate::rewrite::Edit;
use swc_core::common::Mark;
use swc_core::ecma::ast::{AssignPatProp, Ident, ModuleItem, Program, Prop};
use swc_core::ecma::visit::{Visit, VisitWith};

/// Helpers that rolldown calls inside a module.
const HELPERS: &[&str] =
    &["__exportAll", "__reExport", "__require", "__toBinary", "__toCommonJS", "__toDynamicImportESM", "__toESM"];

/// Renames a CommonJS module's own names that collide with a helper.
pub(super) fn own_names(parsed: &Parsed, unresolved: Mark) -> Vec<Edit> {
    let is_commonjs = match &parsed.program {
        Program::Script(_) => true,
        Program::Module(module) => module.body.iter().all(|item| matches!(item, ModuleItem::Stmt(_))),
    };
    if !is_commonjs || !HELPERS.iter().chain(&["$"]).any(|name| parsed.source.contains(name)) {
        return Vec::new();
    }
    let mut renamer = Renamer { parsed, unresolved, edits: Vec::new() };
    parsed.program.visit_with(&mut renamer);
    renamer.edits
}

/// Returns whether the bundler could generate this name when it renames another one.
fn is_numbered(name: &str) -> bool {
    let number = name.rsplit_once('$').map(|(before, number)| !before.is_empty() && number.parse::<u32>().is_ok());
    number.unwrap_or(false)
}

struct Renamer<'a> {
    parsed: &'a Parsed,
    unresolved: Mark,
    edits: Vec<Edit>,
}

impl Renamer<'_> {
    /// Renames an identifier. With `key`, the name is also a member's name, as in `{ __toESM }`.
    fn rename(&mut self, ident: &Ident, key: bool) {
        let name = ident.sym.as_str();
        if ident.ctxt.outer() == self.unresolved || !(HELPERS.contains(&name) || is_numbered(name)) {
            return;
        }
        let (start, end) = self.parsed.range(ident.span);
        let text = if key { format!("{name}: {name}$own") } else { format!("{name}$own") };
        self.edits.push(Edit { start, end, text });
    }
}

impl Visit for Renamer<'_> {
    fn visit_ident(&mut self, ident: &Ident) {
        self.rename(ident, false);
    }

    fn visit_prop(&mut self, property: &Prop) {
        match property {
            Prop::Shorthand(ident) => self.rename(ident, true),
            other => other.visit_children_with(self),
        }
    }

    fn visit_assign_pat_prop(&mut self, property: &AssignPatProp) {
        self.rename(&property.key, true);
        property.value.visit_with(self);
    }
}
