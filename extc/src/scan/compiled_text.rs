//! Finds calls that compile text at run time: `Function` and its siblings, and `eval`.
//!
//! ```text
//! new Function("it", text)            needs `eval`
//! Function.apply(this, parameters)    needs `eval`
//! const F = Function; new F(text)     needs `eval`, unless the package also probes: then it works without
//! eval(text)                          needs `eval`; a remark says that local names are not visible
//! try { eval(text) } catch {}         a remark: code that catches works without
//! new Function("return a + b")        a remark: a literal usually tests a language feature
//! new Function("")                    a probe
//! ```
//!
//! The realm requests the capability for other texts at run time (`pijs-engine`, `text_code`).

use super::bindings::Bindings;
use super::calls::is_global_object;
use super::uses::CompiledText;
use crate::parse::Parsed;
use crate::syntax::{member_name, plain, text_of};
use std::collections::HashSet;
use swc_core::common::{Span, Spanned};
use swc_core::ecma::ast::*;
use swc_core::ecma::visit::{Visit, VisitWith};

/// A call that is reported as a remark.
pub(super) struct TextCompilation {
    /// The compiler that is called: `new Function`, `Function` or `eval`.
    pub(super) what: &'static str,
    pub(super) span: Span,
    /// Whether the call is a direct `eval`, whose text may refer to local names.
    pub(super) is_direct: bool,
}

/// Finds the calls in a module.
pub(super) fn compiled_text(parsed: &Parsed, bindings: &Bindings) -> (CompiledText, Vec<TextCompilation>) {
    let mut names = CompilerNames { bindings, functions: HashSet::new(), evals: HashSet::new() };
    if !["Function", "eval", "constructor"].iter().any(|word| parsed.source.contains(word)) {
        return (CompiledText::default(), Vec::new());
    }
    parsed.program.visit_with(&mut names);
    let mut finder = CompilerCallFinder { names, found: CompiledText::default(), places: Vec::new(), is_caught: false };
    parsed.program.visit_with(&mut finder);
    (finder.found, finder.places)
}

/// Names that hold `Function`, one of its siblings, or `eval`. The sets are only queried, never iterated.
struct CompilerNames<'a> {
    bindings: &'a Bindings,
    functions: HashSet<Id>,
    evals: HashSet<Id>,
}

/// The kind of a callee, by how it is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TextCompiler {
    Function,
    FunctionByOtherName,
    Eval,
    DirectEval,
}

impl CompilerNames<'_> {
    fn given(&mut self, name: &Ident, value: &Expr) {
        // `x.Function`, where `x` may be another name of the global object.
        let is_member =
            matches!(plain(value), Expr::Member(member) if member_name(&member.prop).as_deref() == Some("Function"));
        match self.callee(value) {
            None if is_member => {
                self.functions.insert(name.to_id());
            }
            Some(TextCompiler::Function | TextCompiler::FunctionByOtherName) => {
                self.functions.insert(name.to_id());
            }
            Some(TextCompiler::Eval | TextCompiler::DirectEval) => {
                self.evals.insert(name.to_id());
            }
            None => {}
        }
    }

    fn callee(&self, expr: &Expr) -> Option<TextCompiler> {
        match plain(expr) {
            Expr::Ident(name) if self.bindings.is_global(name) => match &*name.sym {
                "Function" => Some(TextCompiler::Function),
                "eval" => Some(TextCompiler::DirectEval),
                _ => None,
            },
            Expr::Ident(name) if self.functions.contains(&name.to_id()) => Some(TextCompiler::FunctionByOtherName),
            Expr::Ident(name) if self.evals.contains(&name.to_id()) => Some(TextCompiler::Eval),
            Expr::Seq(sequence) => match self.callee(sequence.exprs.last()?)? {
                TextCompiler::DirectEval => Some(TextCompiler::Eval),
                other => Some(other),
            },
            Expr::Member(member) => match member_name(&member.prop)?.as_str() {
                "Function" if self.is_global_object(&member.obj) => Some(TextCompiler::Function),
                "eval" if self.is_global_object(&member.obj) => Some(TextCompiler::Eval),
                "constructor" if is_function_or_its_prototype(&member.obj) => Some(TextCompiler::FunctionByOtherName),
                _ => None,
            },
            Expr::Cond(either) => self.callee(&either.cons).or_else(|| self.callee(&either.alt)),
            _ => None,
        }
    }

    fn is_global_object(&self, expr: &Expr) -> bool {
        matches!(plain(expr), Expr::Ident(name)
            if matches!(&*name.sym, "globalThis" | "global" | "window" | "self") && self.bindings.is_global(name))
    }
}

/// Returns whether an expression is `(async () => {})`, or `Object.getPrototypeOf(async function () {})`.
fn is_function_or_its_prototype(expr: &Expr) -> bool {
    match plain(expr) {
        Expr::Arrow(_) | Expr::Fn(_) => true,
        Expr::Call(call) => match (&call.callee, call.args.as_slice()) {
            (Callee::Expr(callee), [of]) => {
                matches!(plain(callee), Expr::Member(member) if member_name(&member.prop).as_deref() == Some("getPrototypeOf"))
                    && matches!(plain(&of.expr), Expr::Arrow(_) | Expr::Fn(_))
            }
            _ => false,
        },
        _ => false,
    }
}

impl Visit for CompilerNames<'_> {
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

struct CompilerCallFinder<'a> {
    names: CompilerNames<'a>,
    found: CompiledText,
    places: Vec<TextCompilation>,
    /// Whether the node is inside a `try` whose `catch` does not throw.
    is_caught: bool,
}

impl CompilerCallFinder<'_> {
    fn see(&mut self, callee: &Expr, arguments: &[ExprOrSpread], is_new: bool, span: Span) {
        let Some(callee) = self.names.callee(callee) else { return };
        let what = match callee {
            TextCompiler::Function | TextCompiler::FunctionByOtherName if is_new => "new Function",
            TextCompiler::Function | TextCompiler::FunctionByOtherName => "Function",
            TextCompiler::Eval | TextCompiler::DirectEval => "eval",
        };
        self.note(callee, what, arguments, span);
    }

    fn note(&mut self, callee: TextCompiler, what: &'static str, arguments: &[ExprOrSpread], span: Span) {
        let is_function = what != "eval";
        if is_function && is_global_object(arguments) {
            // The compiler replaces this call.
            return;
        }
        let is_literal = arguments.iter().all(|argument| argument.spread.is_none() && is_constant(&argument.expr));
        if is_literal && is_probe(arguments) {
            self.found.is_probed = true;
            return;
        }
        if !is_literal && (!self.is_caught || is_of_ajv(arguments)) {
            match callee {
                TextCompiler::FunctionByOtherName => self.found.is_by_other_name = true,
                _ => self.found.is_computed = true,
            }
        }
        self.places.push(TextCompilation { what, span, is_direct: callee == TextCompiler::DirectEval });
    }
}

impl Visit for CompilerCallFinder<'_> {
    fn visit_new_expr(&mut self, new: &NewExpr) {
        self.see(&new.callee, new.args.as_deref().unwrap_or_default(), true, new.span);
        new.visit_children_with(self);
    }

    fn visit_call_expr(&mut self, call: &CallExpr) {
        if let Callee::Expr(callee) = &call.callee {
            match plain(callee) {
                // Skips the argument for `this`.
                Expr::Member(member)
                    if matches!(member_name(&member.prop).as_deref(), Some("apply" | "call" | "bind"))
                        && matches!(self.names.callee(&member.obj), Some(TextCompiler::Function)) =>
                {
                    self.note(TextCompiler::Function, "Function", call.args.get(1..).unwrap_or_default(), call.span);
                }
                Expr::Seq(_) if is_this(&call.args) => {}
                callee => self.see(callee, &call.args, false, call.span()),
            }
        }
        call.visit_children_with(self);
    }

    fn visit_try_stmt(&mut self, statement: &TryStmt) {
        let before = self.is_caught;
        self.is_caught |= statement.handler.as_ref().is_some_and(|handler| !throws(&handler.body));
        statement.block.visit_with(self);
        self.is_caught = before;
        statement.handler.visit_with(self);
        statement.finalizer.visit_with(self);
    }
}

/// Returns whether a `catch` block may throw.
fn throws(block: &BlockStmt) -> bool {
    struct Throws(bool);
    impl Visit for Throws {
        fn visit_throw_stmt(&mut self, _: &ThrowStmt) {
            self.0 = true;
        }
        fn visit_function(&mut self, _: &Function) {}
        fn visit_arrow_expr(&mut self, _: &ArrowExpr) {}
    }
    let mut found = Throws(false);
    block.visit_with(&mut found);
    found.0
}

/// Returns whether the arguments are `"this"` and nothing else, as in `(0, eval)("this")`, which the compiler replaces.
fn is_this(arguments: &[ExprOrSpread]) -> bool {
    matches!(arguments, [only] if matches!(&*only.expr, Expr::Lit(Lit::Str(text)) if text_of(text) == "this"))
}

fn is_constant(expr: &Expr) -> bool {
    match plain(expr) {
        Expr::Lit(_) => true,
        Expr::Tpl(template) => template.exprs.is_empty(),
        Expr::Bin(sum) => is_constant(&sum.left) && is_constant(&sum.right),
        _ => false,
    }
}

/// Returns whether a literal text computes nothing, by the engine's own criteria.
fn is_probe(arguments: &[ExprOrSpread]) -> bool {
    let text = match arguments {
        [] => String::new(),
        [only] => match plain(&only.expr) {
            Expr::Lit(Lit::Str(text)) => text_of(text),
            _ => return false,
        },
        _ => return false,
    };
    let text = text.trim().trim_end_matches(';').trim_end();
    let value = text.strip_prefix("return").map_or(text, str::trim);
    matches!(value, "" | "true" | "false" | "null" | "this") || value.bytes().all(|byte| byte.is_ascii_digit())
}

/// Recognises Ajv's call by its parameters: it compiles anywhere, and rethrows.
fn is_of_ajv(arguments: &[ExprOrSpread]) -> bool {
    let name = |argument: &ExprOrSpread| match plain(&argument.expr) {
        Expr::Tpl(template) => match template.exprs.as_slice() {
            [of] => match plain(of) {
                Expr::Member(member) => member_name(&member.prop),
                _ => None,
            },
            _ => None,
        },
        Expr::Lit(Lit::Str(text)) => Some(text_of(text)),
        _ => None,
    };
    let Some((_, parameters)) = arguments.split_last() else { return false };
    let parameters: Vec<_> = parameters.iter().filter_map(name).collect();
    let parameters: Vec<&str> = parameters.iter().map(String::as_str).collect();
    matches!(parameters.as_slice(), ["scope"] | ["self", "scope"] | ["self", "RULES", "formats", ..])
}
