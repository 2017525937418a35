//! Keeps calls whose only purpose is to throw.
//!
//! The bundler drops calls of built-in functions whose result is unused. Some of these throw, and are called for that reason;
//! a call through `globalThis` is unknown to the bundler and kept:
//!
//! ```text
//! try { decodeURIComponent(text); } catch { return; }   →   try { globalThis.decodeURIComponent(text); } catch { return; }
//! ```

use super::bindings::Bindings;
use crate::parse::Parsed;
use crate::rewrite::Edit;
use crate::syntax::{member_name, plain};
use swc_core::ecma::ast::*;
use swc_core::ecma::visit::{Visit, VisitWith};

/// Global functions that throw on invalid arguments.
const GLOBALS: &[&str] = &["decodeURI", "decodeURIComponent", "encodeURI", "encodeURIComponent"];
/// Members of `String` that throw on invalid arguments.
const OF_STRING: &[&str] = &["fromCodePoint"];

/// Returns the insertions that make the bundler keep these calls.
pub(super) fn throwing(parsed: &Parsed, bindings: &Bindings) -> Vec<Edit> {
    let mut finder = ThrowingCallFinder { parsed, bindings, insertions: Vec::new() };
    parsed.program.visit_with(&mut finder);
    finder.insertions
}

struct ThrowingCallFinder<'a> {
    parsed: &'a Parsed,
    bindings: &'a Bindings,
    insertions: Vec<Edit>,
}

impl ThrowingCallFinder<'_> {
    /// Returns the global at the start of a callee, if the callee may throw.
    fn global<'e>(&self, callee: &'e Expr) -> Option<&'e Ident> {
        let (global, is_one) = match callee {
            Expr::Ident(name) => (name, GLOBALS.contains(&name.sym.as_str())),
            Expr::Member(member) => {
                let Expr::Ident(object) = member.obj.as_ref() else { return None };
                let is_one = member_name(&member.prop).is_some_and(|name| OF_STRING.contains(&name.as_str()));
                (object, is_one && object.sym == *"String")
            }
            _ => return None,
        };
        (is_one && self.bindings.is_global(global)).then_some(global)
    }
}

impl Visit for ThrowingCallFinder<'_> {
    fn visit_call_expr(&mut self, call: &CallExpr) {
        if let Callee::Expr(callee) = &call.callee
            && let Some(global) = self.global(plain(callee))
        {
            let (start, _) = self.parsed.range(global.span);
            self.insertions.push(Edit { start, end: start, text: "globalThis.".to_owned() });
        }
        call.visit_children_with(self);
    }
}
