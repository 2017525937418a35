//! Finds changes to the prototypes of pi's classes.
//!
//! Under pi such a change is visible everywhere, since extensions share its objects. Here the host draws its own components, so
//! the change only affects objects that this package makes.
//!
//! ```text
//! ToolExecutionComponent.prototype.render = compact;          changed
//! const rows = UserMessageComponent.prototype as unknown as Rows;
//! rows.render = compact;                                      changed
//! install(CustomEditor.prototype);                            passed on
//! CustomEditor.prototype.handleInput.call(editor, key);       only read
//! ```

use super::bindings::{Binding, Bindings};
use crate::parse::Parsed;
use crate::syntax::{member_name, plain};
use std::collections::{HashMap, HashSet};
use swc_core::common::{Span, Spanned};
use swc_core::ecma::ast::*;
use swc_core::ecma::visit::{Visit, VisitWith};

/// pi's packages, under either scope.
const PACKAGES: &[&str] = &["pi-agent-core", "pi-ai", "pi-coding-agent", "pi-tui"];

/// Functions of `Object` and `Reflect` that change their first argument.
const CHANGING: &[&str] = &["assign", "defineProperties", "defineProperty", "deleteProperty", "set", "setPrototypeOf"];

/// A class of pi's, with the position of the first change to its prototype.
#[derive(Debug)]
pub(super) struct Patch {
    pub(super) class: String,
    pub(super) span: Span,
}

/// Returns pi's classes whose prototypes a module changes, each once, in source order.
pub(super) fn patches(parsed: &Parsed, bindings: &Bindings) -> Vec<Patch> {
    let mut names = Prototypes { bindings, held: HashMap::new() };
    parsed.program.visit_with(&mut names);
    let mut finder = PatchFinder { names: &names, seen: HashSet::new(), found: Vec::new() };
    parsed.program.visit_with(&mut finder);
    finder.found
}

/// Names that hold a prototype. Only queried, never iterated.
struct Prototypes<'a> {
    bindings: &'a Bindings,
    held: HashMap<Id, String>,
}

impl Prototypes<'_> {
    /// Returns pi's class whose prototype an expression evaluates to.
    fn class(&self, expr: &Expr) -> Option<String> {
        match plain(expr) {
            Expr::Ident(ident) => self.held.get(&ident.to_id()).cloned(),
            Expr::Member(member) if member_name(&member.prop).as_deref() == Some("prototype") => {
                match self.bindings.resolve(plain(&member.obj))? {
                    Binding::Member(module, class) if is_pi(&module) => Some(class),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Returns the class whose prototype contains the target of an assignment or a `delete`.
    fn owner(&self, expr: &Expr) -> Option<String> {
        match plain(expr) {
            Expr::Member(member) => self.class(&member.obj),
            _ => None,
        }
    }
}

impl Visit for Prototypes<'_> {
    fn visit_var_declarator(&mut self, declarator: &VarDeclarator) {
        if let (Pat::Ident(name), Some(init)) = (&declarator.name, &declarator.init)
            && let Some(class) = self.class(init)
        {
            self.held.insert(name.to_id(), class);
        }
        declarator.visit_children_with(self);
    }

    fn visit_ts_type(&mut self, _: &TsType) {}
}

struct PatchFinder<'a> {
    names: &'a Prototypes<'a>,
    seen: HashSet<String>,
    found: Vec<Patch>,
}

impl PatchFinder<'_> {
    fn see(&mut self, class: Option<String>, span: Span) {
        if let Some(class) = class
            && self.seen.insert(class.clone())
        {
            self.found.push(Patch { class, span });
        }
    }
}

impl Visit for PatchFinder<'_> {
    fn visit_assign_expr(&mut self, assign: &AssignExpr) {
        if let AssignTarget::Simple(target) = &assign.left {
            let class = match target {
                SimpleAssignTarget::Member(member) => self.names.class(&member.obj),
                SimpleAssignTarget::Paren(inner) => self.names.owner(&inner.expr),
                SimpleAssignTarget::TsAs(cast) => self.names.owner(&cast.expr),
                _ => None,
            };
            self.see(class, target.span());
        }
        assign.visit_children_with(self);
    }

    fn visit_unary_expr(&mut self, unary: &UnaryExpr) {
        if unary.op == UnaryOp::Delete {
            self.see(self.names.owner(&unary.arg), unary.span);
        }
        unary.visit_children_with(self);
    }

    fn visit_call_expr(&mut self, call: &CallExpr) {
        if let Callee::Expr(callee) = &call.callee {
            let of_language = method_of(callee, &["Object", "Reflect"]);
            for argument in &call.args {
                let changes = of_language.as_deref().is_none_or(|method| CHANGING.contains(&method));
                if changes {
                    self.see(self.names.class(&argument.expr), argument.expr.span());
                }
            }
        }
        call.visit_children_with(self);
    }

    fn visit_ts_type(&mut self, _: &TsType) {}
}

fn is_pi(module: &str) -> bool {
    let Some((scope, name)) = module.split_once('/') else { return false };
    matches!(scope, "@earendil-works" | "@mariozechner") && PACKAGES.contains(&name)
}

/// Returns the method name of a call such as `Object.keys`, if its object is in `objects`.
fn method_of(callee: &Expr, objects: &[&str]) -> Option<String> {
    let Expr::Member(member) = plain(callee) else { return None };
    let Expr::Ident(object) = plain(&member.obj) else { return None };
    objects.contains(&&*object.sym).then(|| member_name(&member.prop)).flatten()
}
