//! Renames parameters that receive a module's `require` under that name.
//!
//! A bundler follows calls of the module's `require`, not of a parameter of that name. In the wrapper that TypeScript and others
//! generate for every kind of loader both are the same function, so the parameter is renamed:
//!
//! ```text
//! (function (factory) {                                   (function (factory) {
//!   if (typeof module === "object") {                       if (typeof module === "object") {
//!     factory(require, exports);                              factory(require, exports);
//!   } else if (typeof define === "function") {        →     } else if (typeof define === "function") {
//!     define(["require", "exports", "./x"], factory);         define(["require", "exports", "./x"], factory);
//!   }                                                       }
//! })(function (require, exports) {                        })(function (require$given, exports) {
//!   exports.x = require("./x");                             exports.x = require("./x");
//! });                                                     });
//! ```

use super::bindings::Bindings;
use crate::parse::Parsed;
use crate::rewrite::Edit;
use crate::syntax::plain;
use swc_core::ecma::ast::*;
use swc_core::ecma::visit::{Visit, VisitWith};

/// Returns the edits that rename the parameters.
pub(super) fn given(parsed: &Parsed, bindings: &Bindings) -> Vec<Edit> {
    if !parsed.source.contains("require") {
        return Vec::new();
    }
    let mut wrappers = Wrappers { parsed, bindings, edits: Vec::new() };
    parsed.program.visit_with(&mut wrappers);
    wrappers.edits
}

/// Finds immediately invoked functions whose arguments are functions.
struct Wrappers<'a> {
    parsed: &'a Parsed,
    bindings: &'a Bindings,
    edits: Vec<Edit>,
}

impl Visit for Wrappers<'_> {
    fn visit_call_expr(&mut self, call: &CallExpr) {
        if let Callee::Expr(callee) = &call.callee
            && let Expr::Fn(wrapper) = plain(callee)
        {
            for (param, arg) in wrapper.function.params.iter().zip(&call.args) {
                if let (Pat::Ident(factory), Expr::Fn(module)) = (&param.pat, plain(&arg.expr)) {
                    let mut calls = FactoryCallFinder { factory: &factory.id, bindings: self.bindings, at: None };
                    wrapper.function.body.visit_with(&mut calls);
                    self.step_aside(calls.at, &module.function);
                }
            }
        }
        call.visit_children_with(self);
    }
}

impl Wrappers<'_> {
    fn step_aside(&mut self, at: Option<usize>, module: &Function) {
        if let Some(Pat::Ident(name)) = at.and_then(|at| module.params.get(at)).map(|param| &param.pat)
            && name.sym == *"require"
        {
            let (start, end) = self.parsed.range(name.id.span);
            self.edits.push(Edit { start, end, text: "require$given".to_owned() });
        }
    }
}

/// Finds the call of one function, and the index of the argument that is the module's `require`.
struct FactoryCallFinder<'a> {
    factory: &'a Ident,
    bindings: &'a Bindings,
    at: Option<usize>,
}

impl Visit for FactoryCallFinder<'_> {
    fn visit_call_expr(&mut self, call: &CallExpr) {
        let is_factory = |callee: &Expr| matches!(callee, Expr::Ident(name) if name.to_id() == self.factory.to_id());
        if let Callee::Expr(callee) = &call.callee
            && is_factory(plain(callee))
        {
            let is_require = |arg: &Expr| matches!(arg, Expr::Ident(name) if name.sym == *"require" && self.bindings.is_global(name));
            self.at = self.at.or_else(|| call.args.iter().position(|arg| is_require(plain(&arg.expr))));
        }
        call.visit_children_with(self);
    }
}
