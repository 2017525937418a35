//! Marks the points where an async function resumes, for packages that use `node:async_hooks`.
//!
//! The engine has no hook there, so the code itself reports its context to `pi:web/contexts`. This delays
//! nothing: it creates no additional promise job.
//!
//! ```text
//! await x                          →  __pi_async.resume(__pi_async.now(), await x)
//!
//! async function f() {                async function f() {let __pi_kept = __pi_async.now();
//!   try { await x }                →    try { __pi_async.resume(__pi_kept = __pi_async.now(), await x) }
//!   catch (e) { ... }                   catch (e) {__pi_async.enter(__pi_kept); ... }
//! }                                   }
//!
//! for await (const a of b) {       →  for await (const a of (__pi_kept = __pi_async.now(), b)) {__pi_async.enter(__pi_kept);
//! }                                   }__pi_async.enter(__pi_kept);
//! ```
//!
//! `extc` links a package that imports `node:async_hooks` a second time, with these insertions; other packages have no cost.
//! `pi:web/contexts` also binds callbacks of promises, timers, ticks and chunks.

use crate::parse::Parsed;
use crate::rewrite::Edit;
use swc_core::common::{Span, Spanned};
use swc_core::ecma::ast::*;
use swc_core::ecma::visit::{Visit, VisitWith};

/// Returns the insertions for one module, outer ones first where several begin at one position.
pub(super) fn awaits(parsed: &Parsed) -> Vec<Edit> {
    let mut walker = AwaitWalker { parsed, function: Function::default(), found: Vec::new() };
    match &parsed.program {
        Program::Module(module) => {
            let start = module.body.iter().find(|item| !is_directive(item)).map(Spanned::span);
            walker.function = Function { is_async: true, start, ..Function::default() };
            module.visit_with(&mut walker);
        }
        // A CommonJS module has no top-level `await`.
        Program::Script(script) => script.visit_with(&mut walker),
    }
    let top = std::mem::take(&mut walker.function);
    walker.finish(top);
    let mut found = walker.found;
    // At one position, closing insertions come first, narrower before wider, then opening ones, wider before narrower.
    found.sort_by_key(|insertion| {
        let width = if insertion.opens { usize::MAX - insertion.width } else { insertion.width };
        (insertion.at, insertion.opens, width)
    });
    found.into_iter().map(|insertion| Edit { start: insertion.at, end: insertion.at, text: insertion.text }).collect()
}

fn is_directive(item: &ModuleItem) -> bool {
    matches!(item, ModuleItem::Stmt(statement) if is_directive_statement(statement))
}

fn is_directive_statement(statement: &Stmt) -> bool {
    matches!(statement, Stmt::Expr(expression) if matches!(&*expression.expr, Expr::Lit(Lit::Str(_))))
}

struct Insertion {
    at: usize,
    opens: bool,
    /// Width of the enclosed span; a wider insertion goes outside.
    width: usize,
    text: String,
}

/// Insertions in one function, or the module, while its body is walked.
#[derive(Default)]
struct Function {
    is_async: bool,
    /// Start of the first statement that is not a directive.
    start: Option<Span>,
    awaits: Vec<Span>,
    /// Blocks that run after a failure, or at each iteration of a loop.
    entered: Vec<Span>,
    loops: Vec<Span>,
}

struct AwaitWalker<'a> {
    parsed: &'a Parsed,
    function: Function,
    found: Vec<Insertion>,
}

const ENTER: &str = "__pi_async.enter(__pi_kept);";

impl AwaitWalker<'_> {
    fn within(&mut self, is_async: bool, body: Option<&[Stmt]>, walk: impl FnOnce(&mut Self)) {
        let start = body.and_then(|body| body.iter().find(|statement| !is_directive_statement(statement)));
        let function = Function { is_async, start: start.map(Spanned::span), ..Function::default() };
        let outer = std::mem::replace(&mut self.function, function);
        walk(self);
        let done = std::mem::replace(&mut self.function, outer);
        self.finish(done);
    }

    fn insert(&mut self, at: usize, opens: bool, width: usize, text: impl Into<String>) {
        self.found.push(Insertion { at, opens, width, text: text.into() });
    }

    /// Encloses a span. `outside` puts the insertion around another one of the same width.
    fn around(&mut self, span: Span, outside: bool, before: &str, after: &str) {
        let (start, end) = self.parsed.range(span);
        let width = 2 * (end - start) + usize::from(outside);
        self.insert(start, true, width, before);
        self.insert(end, false, width, after);
    }

    fn finish(&mut self, function: Function) {
        let keeps = !function.loops.is_empty() || !(function.entered.is_empty() || function.awaits.is_empty());
        let Some(start) = function.start.filter(|_| keeps) else {
            for span in function.awaits {
                self.around(span, false, "__pi_async.resume(__pi_async.now(), ", ")");
            }
            return;
        };
        let (at, _) = self.parsed.range(start);
        self.insert(at, true, usize::MAX, "let __pi_kept = __pi_async.now();");
        for span in function.awaits {
            self.around(span, false, "__pi_async.resume(__pi_kept = __pi_async.now(), ", ")");
        }
        for span in function.entered {
            let (start, end) = self.parsed.range(span);
            self.insert(start + 1, true, 2 * (end - start), ENTER);
        }
        for span in function.loops {
            self.around(span, true, "(__pi_kept = __pi_async.now(), ", ")");
        }
    }

    /// Visits a statement list. The statements after a `for await` resume as well.
    fn list<'a>(&mut self, statements: impl Iterator<Item = &'a Stmt>) {
        if !self.function.is_async {
            return;
        }
        for statement in statements {
            let mut inner = statement;
            while let Stmt::Labeled(labelled) = inner {
                inner = &labelled.body;
            }
            if matches!(inner, Stmt::ForOf(each) if each.is_await) {
                let (_, end) = self.parsed.range(statement.span());
                self.insert(end, false, usize::MAX, ENTER);
            }
        }
    }
}

impl Visit for AwaitWalker<'_> {
    fn visit_function(&mut self, function: &swc_core::ecma::ast::Function) {
        // Defaults and decorators are evaluated outside the body, and cannot await.
        let body = function.body.as_ref().map(|body| body.stmts.as_slice());
        self.within(function.is_async, body, |walker| function.visit_children_with(walker));
    }

    fn visit_arrow_expr(&mut self, arrow: &ArrowExpr) {
        let body = match &*arrow.body {
            ArrowFunctionBody::FunctionBody(body) => Some(body.stmts.as_slice()),
            ArrowFunctionBody::Expr(_) => None,
        };
        self.within(arrow.is_async, body, |walker| arrow.visit_children_with(walker));
    }

    fn visit_constructor(&mut self, constructor: &Constructor) {
        self.within(false, None, |walker| constructor.visit_children_with(walker));
    }

    fn visit_getter_prop(&mut self, getter: &GetterProp) {
        self.within(false, None, |walker| getter.visit_children_with(walker));
    }

    fn visit_setter_prop(&mut self, setter: &SetterProp) {
        self.within(false, None, |walker| setter.visit_children_with(walker));
    }

    fn visit_static_block(&mut self, block: &StaticBlock) {
        self.within(false, None, |walker| block.visit_children_with(walker));
    }

    fn visit_class_prop(&mut self, property: &ClassProp) {
        self.within(false, None, |walker| property.visit_children_with(walker));
    }

    fn visit_private_prop(&mut self, property: &PrivateProp) {
        self.within(false, None, |walker| property.visit_children_with(walker));
    }

    fn visit_await_expr(&mut self, expression: &AwaitExpr) {
        self.function.awaits.push(expression.span);
        expression.visit_children_with(self);
    }

    fn visit_try_stmt(&mut self, statement: &TryStmt) {
        if self.function.is_async {
            self.function.entered.extend(statement.handler.iter().map(|handler| handler.body.span));
            self.function.entered.extend(statement.finalizer.iter().map(|finalizer| finalizer.span));
        }
        statement.visit_children_with(self);
    }

    fn visit_for_of_stmt(&mut self, each: &ForOfStmt) {
        if each.is_await {
            self.function.loops.push(each.right.span());
            match &*each.body {
                Stmt::Block(body) => self.function.entered.push(body.span),
                body => self.around(body.span(), true, &format!("{{{ENTER}"), "}"),
            }
        }
        each.visit_children_with(self);
    }

    fn visit_stmts(&mut self, statements: &[Stmt]) {
        self.list(statements.iter());
        statements.visit_children_with(self);
    }

    fn visit_module_items(&mut self, items: &[ModuleItem]) {
        self.list(items.iter().filter_map(ModuleItem::as_stmt));
        items.visit_children_with(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::parse::parse;
    use crate::rewrite::rewrite;

    /// Rewrites a source and abbreviates the result: `R(` for resume with the kept context, `N(` with the current one, `E;` for
    /// enter.
    fn rewritten(source: &str) -> String {
        let parsed = parse("a.ts", source, &Limits::default()).unwrap();
        let awaits = awaits(&parsed);
        let Some((text, _)) = rewrite("a.ts", source, &[], &awaits) else { return source.to_owned() };
        parse("a.ts", &text, &Limits::default()).unwrap_or_else(|error| panic!("{error:?}\n{text}"));
        text.replace("__pi_async.resume(__pi_async.now(), ", "N(")
            .replace("__pi_async.resume(__pi_kept = __pi_async.now(), ", "R(")
            .replace("let __pi_kept = __pi_async.now();", "L;")
            .replace("(__pi_kept = __pi_async.now(), ", "K(")
            .replace("__pi_async.enter(__pi_kept);", "E;")
    }

    #[test]
    fn each_resumption_of_a_function_is_marked() {
        for (source, expected) in [
            ("const a = await b;", "const a = N(await b);"),
            ("async () => await await a", "async () => N(await N(await a))"),
            ("function f() { try { a() } catch {} }", "function f() { try { a() } catch {} }"),
            ("async function f() { try { a() } catch {} }", "async function f() { try { a() } catch {} }"),
            (
                "async function f() { 'use strict'; try { await a } catch (e) { b() } finally { await c } }",
                "async function f() { 'use strict'; L;try { R(await a) } catch (e) {E; b() } finally {E; R(await c) } }",
            ),
            (
                "async () => { await a; return () => { try { b() } catch {} } }",
                "async () => { N(await a); return () => { try { b() } catch {} } }",
            ),
            (
                "async () => { for await (const a of await b) c(a) }",
                "async () => { L;for await (const a of K(R(await b))) {E;c(a)}E; }",
            ),
            (
                "async () => { x: for await (const a of b) { await c } }",
                "async () => { L;x: for await (const a of K(b)) {E; R(await c) }E; }",
            ),
            (
                "async () => { if (a) for await (b of c) await d }",
                "async () => { L;if (a) for await (b of K(c)) {E;R(await d)} }",
            ),
            ("class A { async b() { return `${await c}` } }", "class A { async b() { return `${N(await c)}` } }"),
        ] {
            assert_eq!(rewritten(source), expected);
        }
    }
}
