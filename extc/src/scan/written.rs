//! Calls that compile code which a library has put together, where `pi:web/interpret` carries that code out instead.
//!
//! ```text
//! new Function(`${names.self}`, `${names.scope}`, source)      →  new __pi_interpret(...)       Ajv 7 and 8
//! new Function(`${names.scope}`, source)                       →  new __pi_interpret(...)       Ajv's typed JSON
//! new Function("self", "RULES", "formats", ..., source)        →  new __pi_interpret(...)       Ajv 6
//!
//! new Function("it", text), Function("it", "return " + text)   →  new __pi_interpret(...)       in a dependency
//! Function.apply(this, parameters)                             →  __pi_interpret.apply(...)
//! const Maker = Function;  new Maker("it", text)
//!   →  new (Maker === globalThis.Function ? __pi_interpret : Maker)("it", text)
//! ```
//!
//! Ajv's calls are known by their parameters, which minifiers leave alone: many packages carry it inside a file of their
//! own. What an author's own code makes of text stays refused, and so does a literal in a dependency: `new Function("")`
//! asks whether the library may compile, and it does better without. What it would write is slower interpreted than
//! what it does instead.
//!
//! `Function` and `eval` themselves stay as they are: code that tests whether it may compile continues without. `fixtures/node/written-code`
//! compares the interpreted language with Node.

use super::Edit;
use super::bindings::{Bindings, member_name, text_of};
use super::walk::plain;
use crate::parse::Parsed;
use std::collections::HashSet;
use swc_core::common::Spanned;
use swc_core::ecma::ast::*;
use swc_core::ecma::visit::{Visit, VisitWith};

/// What stands for `Function` in such a call.
pub(super) const INTERPRET: &str = "__pi_interpret";

/// Whether these are the arguments of a call of `Function` that compiles what a library has written.
pub(super) fn is_written(arguments: &[ExprOrSpread], dependency: bool) -> bool {
    (dependency && is_computed(arguments)) || is_of_ajv(arguments)
}

/// Whether the text, the last of the arguments, is put together at run time.
fn is_computed(arguments: &[ExprOrSpread]) -> bool {
    arguments.last().is_some_and(|text| text.spread.is_some() || !is_constant(plain(&text.expr)))
}

fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Lit(_) => true,
        Expr::Tpl(template) => template.exprs.is_empty(),
        Expr::Bin(sum) => is_constant(plain(&sum.left)) && is_constant(plain(&sum.right)),
        _ => false,
    }
}

fn is_of_ajv(arguments: &[ExprOrSpread]) -> bool {
    if arguments.iter().any(|argument| argument.spread.is_some()) {
        return false;
    }
    let Some((_, parameters)) = arguments.split_last() else { return false };
    let parameters: Vec<_> = parameters.iter().map(|parameter| plain(&parameter.expr)).collect();
    match parameters.as_slice() {
        [scope] => is_name(scope, "scope"),
        [this, scope] => is_name(this, "self") && is_name(scope, "scope"),
        [this, rules, formats, ..] => is_text(this, "self") && is_text(rules, "RULES") && is_text(formats, "formats"),
        [] => false,
    }
}

/// `${names.NAME}` and nothing else.
fn is_name(expr: &Expr, name: &str) -> bool {
    let Expr::Tpl(template) = expr else { return false };
    let [Expr::Member(member)] = template.exprs.iter().map(|expr| plain(expr)).collect::<Vec<_>>()[..] else {
        return false;
    };
    template.quasis.iter().all(|text| text.raw.is_empty()) && member_name(&member.prop).as_deref() == Some(name)
}

fn is_text(expr: &Expr, text: &str) -> bool {
    matches!(expr, Expr::Lit(Lit::Str(literal)) if text_of(literal) == text)
}

/// The calls of a dependency that reach `Function` by another name, or by `apply`.
pub(super) fn other_names(parsed: &Parsed, bindings: &Bindings) -> Vec<Edit> {
    let mut names = Names { bindings, found: HashSet::new() };
    parsed.program.visit_with(&mut names);
    let mut calls = Calls { parsed, bindings, names: names.found, edits: Vec::new() };
    parsed.program.visit_with(&mut calls);
    calls.edits
}

/// Names that are given `Function`. The set is looked up, never iterated.
struct Names<'a> {
    bindings: &'a Bindings,
    found: HashSet<Id>,
}

impl Names<'_> {
    fn given(&mut self, name: &Ident, value: &Expr) {
        if self.may_be_function(value) {
            self.found.insert(name.to_id());
        }
    }

    fn may_be_function(&self, value: &Expr) -> bool {
        match plain(value) {
            Expr::Ident(ident) => ident.sym == *"Function" && self.bindings.is_global(ident),
            // Of a global object by any name; whether it was that is seen when it is called.
            Expr::Member(member) => member_name(&member.prop).as_deref() == Some("Function"),
            Expr::Cond(either) => self.may_be_function(&either.cons) || self.may_be_function(&either.alt),
            _ => false,
        }
    }
}

impl Visit for Names<'_> {
    fn visit_var_declarator(&mut self, declarator: &VarDeclarator) {
        if let (Pat::Ident(name), Some(value)) = (&declarator.name, &declarator.init) {
            self.given(name, value);
        }
        declarator.visit_children_with(self);
    }

    fn visit_assign_expr(&mut self, assignment: &AssignExpr) {
        if let AssignTarget::Simple(SimpleAssignTarget::Ident(name)) = &assignment.left {
            self.given(name, &assignment.right);
        }
        assignment.visit_children_with(self);
    }
}

struct Calls<'a> {
    parsed: &'a Parsed,
    bindings: &'a Bindings,
    names: HashSet<Id>,
    edits: Vec<Edit>,
}

impl Calls<'_> {
    fn see(&mut self, callee: &Expr, arguments: &[ExprOrSpread]) {
        match plain(callee) {
            Expr::Ident(name) if self.names.contains(&name.to_id()) && is_computed(arguments) => {
                let text = format!("({0} === globalThis.Function ? {INTERPRET} : {0})", name.sym);
                self.edit(callee, text);
            }
            Expr::Member(member)
                if member_name(&member.prop).as_deref() == Some("apply") && self.is_function(plain(&member.obj)) =>
            {
                self.edit(&member.obj, INTERPRET.to_owned());
            }
            _ => {}
        }
    }

    fn is_function(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::Ident(ident) if ident.sym == *"Function" && self.bindings.is_global(ident))
    }

    fn edit(&mut self, at: &Expr, text: String) {
        let (start, end) = self.parsed.range(at.span());
        self.edits.push(Edit { start, end, text });
    }
}

impl Visit for Calls<'_> {
    fn visit_new_expr(&mut self, new: &NewExpr) {
        self.see(&new.callee, new.args.as_deref().unwrap_or_default());
        new.visit_children_with(self);
    }

    fn visit_call_expr(&mut self, call: &CallExpr) {
        if let Callee::Expr(callee) = &call.callee {
            self.see(callee, &call.args);
        }
        call.visit_children_with(self);
    }
}
