//! Rewrites matching of accumulated text, so that `pi:web/growing` answers without rereading the whole text.
//!
//! ```text
//! const lines = text.split("\n");             const lines = __pi_growing.split(text, "\n");
//! lines.some((line) => rule.re.test(line))  →  (__pi_growing.none(lines, "some", rule, "re") ? false : __pi_growing.rest().some((line) => rule.re.test(line)))
//!
//! rule.re.test(event.accumulated)           →  __pi_growing.test(rule, "re", event.accumulated)
//! /a/i.test(event.accumulated)              →  __pi_growing.test(__pi_growing.literal("a", "i"), "", event.accumulated)
//! rule.re.exec(event.accumulated)           →  __pi_growing.exec(rule, "re", event.accumulated)
//! event.accumulated.match(rule.re)          →  __pi_growing.match(event.accumulated, rule, "re")
//! event.accumulated.includes(word)          →  __pi_growing.includes(event.accumulated, word)
//!
//! for (const line of text.split("\n"))      →  for (const line of __pi_growing.among(__pi_growing.split(text, "\n"), rule, "re"))
//!   if (rule.re.test(line)) return rule;
//!
//! for (const line of text.split("\n"))      →  for (const line of __pi_growing.amongAll(__pi_growing.split(text, "\n"), rules, "", "re"))
//!   for (const rule of rules)
//!     if (rule.re.test(line)) return rule;
//! ```
//!
//! The first form may be part of any expression, may be `find` or `filter`, and takes any text; the result of `split` must have
//! no other use. The second, which also covers `search` and `matchAll`, requires that the text is `accumulated` of a
//! `stream_text` event. A loop must only test, and stop at the first line that matches: other statements could change the test of
//! the next line. At run time the global decides whether it can answer.
//!
//! The automaton may match more than the expression but never less, so its syntax and Unicode tables may differ from the
//! engine's. No line is skipped for an expression with a state (flags `g` and `y`), except in a whole text that cannot match
//! anywhere. `fixtures/node/growing-text` and `fixtures/node/growing-text-shapes` compare with Node.

use super::bindings::Bindings;
use crate::parse::Parsed;
use crate::rewrite::Edit;
use crate::syntax::{member_name, plain, property_name};
use std::collections::{HashMap, HashSet};
use swc_core::common::{BytePos, Span, Spanned};
use swc_core::ecma::ast::*;
use swc_core::ecma::visit::{Visit, VisitWith};

/// The member of a `stream_text` event that grows.
const ACCUMULATED: &str = "accumulated";
/// Methods that test lines, with their result if no line matches.
const METHODS: &[(&str, &str)] = &[("some", "false"), ("find", "void 0"), ("filter", "[]")];
/// Methods of expressions, and of strings, that match a text.
const OF_EXPRESSION: &[&str] = &["test", "exec"];
const OF_TEXT: &[&str] = &["match", "matchAll", "search"];

/// The edits of one module.
#[derive(Debug, Default)]
pub(super) struct AccumulatedEdits {
    pub(super) edits: Vec<Edit>,
    pub(super) insertions: Vec<Edit>,
}

pub(super) fn accumulated(parsed: &Parsed, bindings: &Bindings) -> AccumulatedEdits {
    let mut finder = LineTestFinder {
        parsed,
        bindings,
        seen: HashMap::new(),
        constants: Vec::new(),
        tests: Vec::new(),
        accumulated: HashSet::new(),
        statements: HashSet::new(),
        iterated: HashSet::new(),
        found: AccumulatedEdits::default(),
    };
    parsed.program.visit_with(&mut finder);
    finder.finish()
}

/// `text.split("\n")`.
struct Split {
    text: Span,
    separator: Span,
}

/// A test of lines.
struct LineTest {
    lines: Span,
    form: Form,
    /// The expression, formatted as arguments of a helper.
    expression: String,
}

enum Form {
    /// A call of `some`, `find` or `filter`, and its result if there are no lines.
    Call { call: Span, method: String, otherwise: &'static str },
    /// A loop over the lines; the named helper narrows the lines.
    Loop(&'static str),
}

/// Finds the code to rewrite. Sets and maps are only queried; results are in source order.
struct LineTestFinder<'a> {
    parsed: &'a Parsed,
    bindings: &'a Bindings,
    /// Number of occurrences of a name, including its declaration.
    seen: HashMap<Id, usize>,
    /// Constants that hold lines.
    constants: Vec<(Id, Split)>,
    tests: Vec<(Id, LineTest)>,
    /// Names destructured from an event as `accumulated`.
    accumulated: HashSet<Id>,
    /// Start positions of expression statements. A parenthesis inserted there may continue the previous line.
    statements: HashSet<BytePos>,
    /// Calls whose result is only iterated, in a loop or a list.
    iterated: HashSet<Span>,
    found: AccumulatedEdits,
}

impl LineTestFinder<'_> {
    fn finish(mut self) -> AccumulatedEdits {
        let mut splits = Vec::new();
        let mut narrowed = Vec::new();
        let mut tests: HashMap<Id, Vec<LineTest>> = HashMap::new();
        for (name, test) in std::mem::take(&mut self.tests) {
            tests.entry(name).or_default().push(test);
        }
        for (name, split) in std::mem::take(&mut self.constants) {
            let uses = tests.remove(&name).unwrap_or_default();
            if !uses.is_empty() && self.seen.get(&name) == Some(&(uses.len() + 1)) {
                splits.push(split);
                narrowed.extend(uses);
            }
        }
        narrowed.iter().for_each(|test| self.narrow(test));
        splits.iter().for_each(|split| self.split(split));
        self.found
    }

    fn split(&mut self, split: &Split) {
        let (start, end) = self.parsed.range(split.text);
        let (separator, _) = self.parsed.range(split.separator);
        self.found.insertions.push(Edit { start, end: start, text: "__pi_growing.split(".to_owned() });
        self.found.edits.push(Edit { start: end, end: separator, text: ", ".to_owned() });
    }

    fn narrow(&mut self, test: &LineTest) {
        let (start, lines) = self.parsed.range(test.lines);
        let LineTest { form, expression, .. } = test;
        let mut insert = |at, text| self.found.insertions.push(Edit { start: at, end: at, text });
        match form {
            Form::Loop(function) => {
                insert(start, format!("__pi_growing.{function}("));
                insert(lines, format!(", {expression})"));
            }
            Form::Call { call, method, .. } if self.statements.contains(&call.lo) => {
                insert(start, "__pi_growing.narrow(".to_owned());
                insert(lines, format!(", \"{method}\", {expression})"));
            }
            Form::Call { call, method, otherwise } => {
                insert(start, "(__pi_growing.none(".to_owned());
                insert(lines, format!(", \"{method}\", {expression}) ? {otherwise} : __pi_growing.rest()"));
                insert(self.parsed.range(*call).1, ")".to_owned());
            }
        }
    }

    /// Splits a member path into its base expression and the names.
    fn path<'e>(&self, expr: &'e Expr) -> Option<(&'e Expr, Vec<String>)> {
        let mut path = Vec::new();
        let mut holder = plain(expr);
        while let Expr::Member(member) = holder {
            let MemberProp::Ident(name) = &member.prop else { return None };
            path.insert(0, name.sym.to_string());
            holder = plain(&member.obj);
        }
        Some((holder, path))
    }

    /// Formats an expression without side effects as arguments: `rule, "re"`. Returns `None` for any other.
    fn expression(&self, expr: &Expr, parameter: Option<&Id>) -> Option<String> {
        let (holder, path) = self.path(expr)?;
        let holder = match holder {
            Expr::Lit(Lit::Regex(literal)) if path.is_empty() => {
                let quoted = |text: &str| serde_json::Value::from(text).to_string();
                format!("__pi_growing.literal({}, {})", quoted(&literal.exp), quoted(&literal.flags))
            }
            Expr::Ident(name) if !self.bindings.is_global(name) && Some(&name.to_id()) != parameter => {
                name.sym.to_string()
            }
            Expr::This(_) => "this".to_owned(),
            _ => return None,
        };
        Some(format!("{holder}, \"{}\"", path.join(".")))
    }

    /// Returns the expression tested by `(line) => expression.test(line)`, as arguments.
    fn tested_expression(&self, callback: &Expr) -> Option<String> {
        let Expr::Arrow(arrow) = plain(callback) else { return None };
        let [Pat::Ident(parameter)] = arrow.params.as_slice() else { return None };
        if arrow.is_async {
            return None;
        }
        let body = match &*arrow.body {
            ArrowFunctionBody::Expr(body) => body,
            ArrowFunctionBody::FunctionBody(body) => match body.stmts.as_slice() {
                [Stmt::Return(ReturnStmt { arg: Some(body), .. })] => body,
                _ => return None,
            },
        };
        let Method { receiver, name, argument } = Method::of_expression(body)?;
        let parameter = parameter.to_id();
        let is_asked = name == "test" && matches!(plain(argument), Expr::Ident(line) if line.to_id() == parameter);
        is_asked.then(|| self.expression(receiver, Some(&parameter)))?
    }

    fn is_accumulated(&self, expr: &Expr) -> bool {
        match plain(expr) {
            Expr::Member(member) => member_name(&member.prop).as_deref() == Some(ACCUMULATED),
            Expr::Ident(name) => self.accumulated.contains(&name.to_id()),
            _ => false,
        }
    }

    fn see_lines(&mut self, call: Span, Method { receiver, name, argument }: Method<'_>, otherwise: &'static str) {
        let Some(expression) = self.tested_expression(argument) else { return };
        let form = Form::Call { call, method: name, otherwise };
        self.see_test(receiver, form, expression);
    }

    fn see_test(&mut self, lines: &Expr, form: Form, expression: String) {
        let test = LineTest { lines: lines.span(), form, expression };
        if let Expr::Ident(lines) = plain(lines) {
            self.tests.push((lines.to_id(), test));
        } else if let Some(split) = split_of(lines) {
            self.narrow(&test);
            self.split(&split);
        }
    }

    /// Rewrites a loop over lines that tests one expression or a list of them, and stops at the first line that matches.
    fn see_loop(&mut self, outer: &ForOfStmt) {
        let Some(line) = variable(outer) else { return };
        let Some(only) = only(&outer.body) else { return };
        if let Some(receiver) = ending_test(only, &line, true) {
            if let Some(expression) = self.expression(receiver, Some(&line)) {
                self.see_test(&outer.right, Form::Loop("among"), expression);
            }
        } else if let Stmt::ForOf(inner) = only {
            let tests = variable(inner).zip(self::only(&inner.body));
            let Some((rule, receiver)) = tests.and_then(|(rule, only)| Some((rule, ending_test(only, &line, false)?)))
            else {
                return;
            };
            let (Some((rules, list)), Some((holder, path))) = (self.path(&inner.right), self.path(receiver)) else {
                return;
            };
            let is_of_each = matches!(plain(holder), Expr::Ident(name) if name.to_id() == rule);
            let is_outside = matches!(plain(rules), Expr::This(_))
                || matches!(plain(rules), Expr::Ident(name) if name.to_id() != line && !self.bindings.is_global(name));
            if is_of_each && is_outside {
                let rules = match plain(rules) {
                    Expr::Ident(name) => name.sym.to_string(),
                    _ => "this".to_owned(),
                };
                let expression = format!("{rules}, \"{}\", \"{}\"", list.join("."), path.join("."));
                self.see_test(&outer.right, Form::Loop("amongAll"), expression);
            }
        }
    }

    /// Rewrites a match on the accumulated text.
    fn see_accumulated(&mut self, call: Span, Method { receiver, name, argument }: &Method<'_>) {
        let (start, end) = self.parsed.range(call);
        if OF_EXPRESSION.contains(&name.as_str()) && self.is_accumulated(argument) {
            if let Some(expression) = self.expression(receiver, None) {
                let (text, _) = self.parsed.range(argument.span());
                self.found.edits.push(Edit { start, end: text, text: format!("__pi_growing.{name}({expression}, ") });
            }
        } else if OF_TEXT.contains(&name.as_str()) && self.is_accumulated(receiver) {
            if let Some(expression) = self.expression(argument, None) {
                // A loop does not expose the object that it iterates.
                let name = if self.iterated.contains(&call) { "eachMatch" } else { name };
                let (_, text) = self.parsed.range(receiver.span());
                self.found.insertions.push(Edit { start, end: start, text: format!("__pi_growing.{name}(") });
                self.found.edits.push(Edit { start: text, end, text: format!(", {expression})") });
            }
        } else if name == "includes" && self.is_accumulated(receiver) {
            let ((_, text), (word, _)) = (self.parsed.range(receiver.span()), self.parsed.range(argument.span()));
            self.found.insertions.push(Edit { start, end: start, text: "__pi_growing.includes(".to_owned() });
            self.found.edits.push(Edit { start: text, end: word, text: ", ".to_owned() });
        }
    }
}

/// Returns the constant that a loop declares for each item.
fn variable(each: &ForOfStmt) -> Option<Id> {
    let ForHead::VarDecl(variables) = &each.left else { return None };
    match variables.decls.as_slice() {
        [VarDeclarator { name: Pat::Ident(name), .. }] if !each.is_await && variables.kind == VarDeclKind::Const => {
            Some(name.to_id())
        }
        _ => None,
    }
}

/// Returns the only statement of a body.
fn only(body: &Stmt) -> Option<&Stmt> {
    match body {
        Stmt::Block(block) => match block.stmts.as_slice() {
            [only] => Some(only),
            _ => None,
        },
        other => Some(other),
    }
}

/// Returns the expression of `if (expression.test(line)) { .. return }`; `may_break`: or `break`, which leaves one loop only.
fn ending_test<'a>(statement: &'a Stmt, line: &Id, may_break: bool) -> Option<&'a Expr> {
    let Stmt::If(IfStmt { test, cons, alt: None, .. }) = statement else { return None };
    let Method { receiver, name, argument } = Method::of_expression(test)?;
    let is_asked = name == "test" && matches!(plain(argument), Expr::Ident(ident) if ident.to_id() == *line);
    let (last, before) = match &**cons {
        Stmt::Block(block) => block.stmts.split_last()?,
        last => (last, &[][..]),
    };
    let ends = match last {
        Stmt::Return(_) | Stmt::Throw(_) => true,
        Stmt::Break(BreakStmt { label: None, .. }) => may_break,
        _ => false,
    };
    let is_straight = before.iter().all(|statement| matches!(statement, Stmt::Expr(_) | Stmt::Decl(Decl::Var(_))));
    (is_asked && ends && is_straight).then_some(receiver)
}

/// `receiver.name(argument)`.
struct Method<'a> {
    receiver: &'a Expr,
    name: String,
    argument: &'a Expr,
}

impl<'a> Method<'a> {
    fn of(call: &'a CallExpr) -> Option<Self> {
        let (Callee::Expr(callee), [argument]) = (&call.callee, call.args.as_slice()) else { return None };
        let Expr::Member(MemberExpr { obj: receiver, prop: MemberProp::Ident(name), .. }) = &**callee else {
            return None;
        };
        let name = name.sym.to_string();
        argument.spread.is_none().then_some(Self { receiver, name, argument: &argument.expr })
    }

    fn of_expression(expr: &'a Expr) -> Option<Self> {
        match plain(expr) {
            Expr::Call(call) => Self::of(call),
            _ => None,
        }
    }
}

fn split_of(expr: &Expr) -> Option<Split> {
    let Method { receiver, name, argument } = Method::of_expression(expr)?;
    let is_split =
        name == "split" && matches!(plain(argument), Expr::Lit(Lit::Str(separator)) if !separator.value.is_empty());
    is_split.then(|| Split { text: receiver.span(), separator: argument.span() })
}

impl Visit for LineTestFinder<'_> {
    fn visit_ident(&mut self, name: &Ident) {
        *self.seen.entry(name.to_id()).or_default() += 1;
    }

    fn visit_export_decl(&mut self, export: &ExportDecl) {
        // An exported name is visible to other modules.
        if let Decl::Var(variables) = &export.decl {
            for declarator in &variables.decls {
                declarator.name.visit_with(self);
            }
        }
        export.visit_children_with(self);
    }

    fn visit_var_decl(&mut self, variables: &VarDecl) {
        for declarator in variables.decls.iter().filter(|_| variables.kind == VarDeclKind::Const) {
            if let (Pat::Ident(name), Some(split)) = (&declarator.name, declarator.init.as_deref().and_then(split_of)) {
                self.constants.push((name.to_id(), split));
            }
        }
        variables.visit_children_with(self);
    }

    fn visit_expr_stmt(&mut self, statement: &ExprStmt) {
        self.statements.insert(statement.expr.span().lo);
        statement.visit_children_with(self);
    }

    fn visit_object_pat(&mut self, pattern: &ObjectPat) {
        for property in &pattern.props {
            match property {
                ObjectPatProp::Assign(name) if name.key.sym == *ACCUMULATED => {
                    self.accumulated.insert(name.key.to_id());
                }
                ObjectPatProp::KeyValue(pair) if property_name(&pair.key).as_deref() == Some(ACCUMULATED) => {
                    if let Pat::Ident(name) = &*pair.value {
                        self.accumulated.insert(name.to_id());
                    }
                }
                _ => {}
            }
        }
        pattern.visit_children_with(self);
    }

    fn visit_expr_or_spread(&mut self, item: &ExprOrSpread) {
        if item.spread.is_some() {
            self.iterated.insert(plain(&item.expr).span());
        }
        item.visit_children_with(self);
    }

    fn visit_for_of_stmt(&mut self, each: &ForOfStmt) {
        if !each.is_await {
            self.iterated.insert(plain(&each.right).span());
        }
        self.see_loop(each);
        each.visit_children_with(self);
    }

    fn visit_call_expr(&mut self, call: &CallExpr) {
        if let Some(method) = Method::of(call) {
            let looks = METHODS.iter().find(|(name, _)| *name == method.name);
            if let Some((_, otherwise)) = looks {
                self.see_lines(call.span, method, otherwise);
            } else {
                self.see_accumulated(call.span, &method);
            }
        }
        call.visit_children_with(self);
    }
}

#[cfg(test)]
mod tests {
    use crate::limits::Limits;
    use crate::parse::parse;
    use crate::rewrite::rewrite;
    use crate::scan::{ScanOptions, scan};

    /// Rewrites a source and removes `__pi_growing.`, as the documentation above does.
    fn rewritten(source: &str) -> String {
        let parsed = parse("a.ts", source, &Limits::default()).unwrap();
        let scan = scan(parsed, ScanOptions { file: "a.ts", place: None, dependency: false });
        let Some((text, _)) = rewrite("a.ts", source, &scan.edits, &scan.insertions) else { return source.to_owned() };
        parse("a.ts", &text, &Limits::default()).unwrap_or_else(|error| panic!("{error:?}\n{text}"));
        text.replace("__pi_growing.", "")
    }

    #[test]
    fn lines_are_narrowed() {
        for (source, expected) in [
            (
                "(t, r) => t.split('\\n').some((l) => r.re.test(l))",
                "(t, r) => (none(split(t, '\\n'), \"some\", r, \"re\") ? false : rest().some((l) => r.re.test(l)))",
            ),
            (
                "(t, r) => { const a = t.text.split('x'); return a.find(l => { return r.test(l!); }); }",
                "(t, r) => { const a = split(t.text, 'x'); return (none(a, \"find\", r, \"\") ? void 0 : rest().find(l => { return r.test(l!); })); }",
            ),
            (
                "(t) => t.split('\\n').filter((l: string) => /\\d+/i.test(l))",
                "(t) => (none(split(t, '\\n'), \"filter\", literal(\"\\\\d+\", \"i\"), \"\") ? [] : rest().filter((l: string) => /\\d+/i.test(l)))",
            ),
            (
                "(t, a, b) => { const l = (t as string).split('\\n'); return l.some((x) => a.test(x)) || l.some((x) => b.test(x)); }",
                "(t, a, b) => { const l = split((t as string), '\\n'); return (none(l, \"some\", a, \"\") ? false : rest().some((x) => a.test(x))) || (none(l, \"some\", b, \"\") ? false : rest().some((x) => b.test(x))); }",
            ),
            // A parenthesis at the start would turn into the arguments of a call on the line before.
            (
                "(t, r, f) => { const l = t.split('\\n')\nf\nl.some((x) => r.test(x)) && f()\nreturn !l.some((x) => r.test(x)) }",
                "(t, r, f) => { const l = split(t, '\\n')\nf\nnarrow(l, \"some\", r, \"\").some((x) => r.test(x)) && f()\nreturn !(none(l, \"some\", r, \"\") ? false : rest().some((x) => r.test(x))) }",
            ),
        ] {
            assert_eq!(rewritten(source), expected);
        }
    }

    #[test]
    fn accumulated_text_is_tested() {
        for (source, expected) in [
            ("(e, r) => r.a.b.test(e.accumulated)", "(e, r) => test(r, \"a.b\", e.accumulated)"),
            ("({ accumulated }, r) => r!.test(accumulated)", "({ accumulated }, r) => test(r, \"\", accumulated)"),
            ("({ accumulated: t }) => /a/.test(t)", "({ accumulated: t }) => test(literal(\"a\", \"\"), \"\", t)"),
            (
                "class A { f(e) { return this.re.test(e.accumulated) } }",
                "class A { f(e) { return test(this, \"re\", e.accumulated) } }",
            ),
        ] {
            assert_eq!(rewritten(source), expected);
        }
    }

    #[test]
    fn accumulated_text_is_tested_in_every_way() {
        for (source, expected) in [
            ("(e, r) => r.re.exec(e.accumulated)", "(e, r) => exec(r, \"re\", e.accumulated)"),
            ("(e, r) => e.accumulated.match(r.re)", "(e, r) => match(e.accumulated, r, \"re\")"),
            ("(e, r) => e.accumulated.search(r) < 0", "(e, r) => search(e.accumulated, r, \"\") < 0"),
            ("(e, r) => e.accumulated.matchAll(r.re)", "(e, r) => matchAll(e.accumulated, r, \"re\")"),
            (
                "({ accumulated }) => [...accumulated.matchAll(/a(b)/g)]",
                "({ accumulated }) => [...eachMatch(accumulated, literal(\"a(b)\", \"g\"), \"\")]",
            ),
            (
                "(e, r) => { for (const m of e.accumulated.matchAll(r)) say(m); }",
                "(e, r) => { for (const m of eachMatch(e.accumulated, r, \"\")) say(m); }",
            ),
            ("(e, w) => e.accumulated.includes(w.word)", "(e, w) => includes(e.accumulated, w.word)"),
        ] {
            assert_eq!(rewritten(source), expected);
        }
    }

    #[test]
    fn loops_over_lines_are_narrowed() {
        for (source, expected) in [
            (
                "function f(t, r) { for (const l of t.split('\\n')) { if (r.re.test(l)) { say(l); return r; } } }",
                "function f(t, r) { for (const l of among(split(t, '\\n'), r, \"re\")) { if (r.re.test(l)) { say(l); return r; } } }",
            ),
            (
                "function f(t, r) { const a = t.split('\\n'); for (const l of a) if (r.test(l)) break; for (const l of a) if (/a/.test(l)) throw l; }",
                "function f(t, r) { const a = split(t, '\\n'); for (const l of among(a, r, \"\")) if (r.test(l)) break; for (const l of among(a, literal(\"a\", \"\"), \"\")) if (/a/.test(l)) throw l; }",
            ),
            (
                "function f(t, s) { for (const l of t.split('\\n')) for (const r of s.rules) { if (r.re.test(l)) return r; } }",
                "function f(t, s) { for (const l of amongAll(split(t, '\\n'), s, \"rules\", \"re\")) for (const r of s.rules) { if (r.re.test(l)) return r; } }",
            ),
        ] {
            assert_eq!(rewritten(source), expected);
        }
    }

    #[test]
    fn loops_with_other_statements_are_not_rewritten() {
        for source in [
            "function f(t, r) { for (const l of t.split('\\n')) if (r.test(l)) r = /b/; }",
            "function f(t, r) { for (const l of t.split('\\n')) { if (r.test(l)) { if (l) continue; return; } } }",
            "function f(t, r) { for (const l of t.split('\\n')) { if (r.test(l)) return; else r = /b/; } }",
            "function f(t, r) { for (const l of t.split('\\n')) { n++; if (r.test(l)) return; } }",
            "function f(t, r) { for (let l of t.split('\\n')) if (r.test(l)) return; }",
            "function f(t) { for (const l of t.split('\\n')) if (l.re.test(l)) return; }",
            "async function f(t, r) { for await (const l of t.split('\\n')) if (r.test(l)) return; }",
            "function f(t, r) { const a = t.split('\\n'); for (const l of a) if (r.test(l)) return a; }",
            "function f(t, s) { for (const l of t.split('\\n')) for (const r of s.rules) { if (r.re.test(l)) break; } }",
            "function f(t, s) { for (const l of t.split('\\n')) for (const r of s.rules()) { if (r.re.test(l)) return; } }",
            "function f(t, s) { for (const l of t.split('\\n')) for (const r of l.rules) { if (r.re.test(l)) return; } }",
            "function f(t, s, q) { for (const l of t.split('\\n')) for (const r of s.rules) { if (q.re.test(l)) return; } }",
        ] {
            assert_eq!(rewritten(source), source);
        }
    }

    #[test]
    fn observable_uses_are_not_rewritten() {
        for source in [
            // The array has another use.
            "(t, r) => { const a = t.split('\\n'); a.pop(); return a.some((l) => r.test(l)); }",
            "(t, r) => { let a = t.split('\\n'); return a.some((l) => r.test(l)); }",
            "export const a = t.split('\\n'); const r = /a/; a.some((l) => r.test(l));",
            "const r = /a/; const a = t.split('\\n'); a.some((l) => r.test(l)); export { a };",
            // The callback takes more arguments than the line.
            "(t, r) => t.split('\\n').some((l, i) => r.test(l))",
            "(t, r) => t.split('\\n').some((l) => r.test(l), r)",
            "(t, r) => t.split('\\n').some((l) => r.test(l) && l.length)",
            "(t, r) => t.split('\\n').some(async (l) => r.test(l))",
            "(t) => t.split('\\n').some((l) => l.re.test(l))",
            "(t, r) => t.split('\\n').some((l) => r[0].test(l))",
            "(t, r) => t.split('\\n').some((l) => r().test(l))",
            // Other separators, limits, and unrelated names.
            "(t, r) => t.split('').some((l) => r.test(l))",
            "(t, r) => t.split('\\n', 2).some((l) => r.test(l))",
            "(t, r) => t.split(/\\n/).some((l) => r.test(l))",
            "(t) => t.split('\\n').some((l) => r.test(l))",
            "(t, r) => t?.split('\\n').some((l) => r.test(l))",
            "(e, r) => r.test(e.chunk)",
            "(e, r) => r.exec(e.chunk)",
            "(e, r) => e.chunk.match(r)",
            "(e, r) => e.accumulated.match(r())",
            "(e, r) => e.accumulated.replace(r, '')",
            "(e, r) => e.accumulated.includes(r, 3)",
            "(e, r) => e.accumulated?.match(r)",
        ] {
            assert_eq!(rewritten(source), source);
        }
    }
}
