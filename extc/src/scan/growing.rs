//! Questions about text that grows, which `pi:web/growing` answers without reading all of it again.
//!
//! ```text
//! const lines = text.split("\n");             const lines = __pi_growing.split(text, "\n");
//! lines.some((line) => rule.re.test(line))  →  (__pi_growing.none(lines, "some", rule, "re") ? false : __pi_growing.rest().some((line) => rule.re.test(line)))
//!
//! rule.re.test(event.accumulated)           →  __pi_growing.test(rule, "re", event.accumulated)
//! /a/i.test(event.accumulated)              →  __pi_growing.test(__pi_growing.literal("a", "i"), "", event.accumulated)
//! ```
//!
//! The first form may stand in one expression, may be `find` or `filter`, and takes any text; what `split` returned must
//! be used for nothing else. The second wants to see that the text is what `stream_text` has accumulated. Whether the
//! answer can be given at all is found out when it is asked for.

use super::Edit;
use super::bindings::{Bindings, member_name, property_name};
use super::walk::plain;
use crate::parse::Parsed;
use std::collections::{HashMap, HashSet};
use swc_core::common::{BytePos, Span, Spanned};
use swc_core::ecma::ast::*;
use swc_core::ecma::visit::{Visit, VisitWith};

/// The member of a `stream_text` event that grows.
const ACCUMULATED: &str = "accumulated";
/// What looks at lines, and what it answers where there is none.
const METHODS: &[(&str, &str)] = &[("some", "false"), ("find", "void 0"), ("filter", "[]")];

/// What comes of one module.
#[derive(Debug, Default)]
pub(super) struct Growing {
    pub(super) edits: Vec<Edit>,
    pub(super) insertions: Vec<Edit>,
}

pub(super) fn growing(parsed: &Parsed, bindings: &Bindings) -> Growing {
    let mut finder = Finder {
        parsed,
        bindings,
        seen: HashMap::new(),
        constants: Vec::new(),
        asked: Vec::new(),
        accumulated: HashSet::new(),
        statements: HashSet::new(),
        found: Growing::default(),
    };
    parsed.program.visit_with(&mut finder);
    finder.finish()
}

/// `text.split("\n")`.
struct Split {
    text: Span,
    separator: Span,
}

/// A call of `some`, `find` or `filter` over lines.
struct Question {
    call: Span,
    lines: Span,
    method: String,
    /// What it answers when there are no lines.
    otherwise: &'static str,
    expression: String,
}

/// Sets and maps are looked up; what is returned is in the order of the source.
struct Finder<'a> {
    parsed: &'a Parsed,
    bindings: &'a Bindings,
    /// How often a name stands anywhere, its declaration included.
    seen: HashMap<Id, usize>,
    /// Constants that hold lines.
    constants: Vec<(Id, Split)>,
    asked: Vec<(Id, Question)>,
    /// Names taken from an event.
    accumulated: HashSet<Id>,
    /// Where a statement begins with its expression. A parenthesis there may belong to the line before.
    statements: HashSet<BytePos>,
    found: Growing,
}

impl Finder<'_> {
    fn finish(mut self) -> Growing {
        let mut splits = Vec::new();
        let mut questions = Vec::new();
        let mut asked: HashMap<Id, Vec<Question>> = HashMap::new();
        for (name, question) in std::mem::take(&mut self.asked) {
            asked.entry(name).or_default().push(question);
        }
        for (name, split) in std::mem::take(&mut self.constants) {
            let uses = asked.remove(&name).unwrap_or_default();
            if !uses.is_empty() && self.seen.get(&name) == Some(&(uses.len() + 1)) {
                splits.push(split);
                questions.extend(uses);
            }
        }
        questions.iter().for_each(|question| self.narrow(question));
        splits.iter().for_each(|split| self.split(split));
        self.found
    }

    fn split(&mut self, split: &Split) {
        let (start, end) = self.parsed.range(split.text);
        let (separator, _) = self.parsed.range(split.separator);
        self.found.insertions.push(Edit { start, end: start, text: "__pi_growing.split(".to_owned() });
        self.found.edits.push(Edit { start: end, end: separator, text: ", ".to_owned() });
    }

    fn narrow(&mut self, question: &Question) {
        let ((start, lines), (_, end)) = (self.parsed.range(question.lines), self.parsed.range(question.call));
        let Question { method, otherwise, expression, .. } = question;
        let mut insert = |at, text| self.found.insertions.push(Edit { start: at, end: at, text });
        if self.statements.contains(&question.call.lo) {
            insert(start, "__pi_growing.narrow(".to_owned());
            insert(lines, format!(", \"{method}\", {expression})"));
        } else {
            insert(start, "(__pi_growing.none(".to_owned());
            insert(lines, format!(", \"{method}\", {expression}) ? {otherwise} : __pi_growing.rest()"));
            insert(end, ")".to_owned());
        }
    }

    /// An expression that is the same however often it is evaluated, as arguments: `rule, "re"`.
    fn expression(&self, expr: &Expr, parameter: Option<&Id>) -> Option<String> {
        let mut path = Vec::new();
        let mut holder = plain(expr);
        while let Expr::Member(member) = holder {
            let MemberProp::Ident(name) = &member.prop else { return None };
            path.insert(0, name.sym.to_string());
            holder = plain(&member.obj);
        }
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

    /// The expression of `(line) => expression.test(line)`, as arguments.
    fn asked_of_each(&self, callback: &Expr) -> Option<String> {
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
        let Some(expression) = self.asked_of_each(argument) else { return };
        let question = Question { call, lines: receiver.span(), method: name, otherwise, expression };
        if let Expr::Ident(lines) = plain(receiver) {
            self.asked.push((lines.to_id(), question));
        } else if let Some(split) = split_of(receiver) {
            self.narrow(&question);
            self.split(&split);
        }
    }

    fn see_test(&mut self, call: Span, Method { receiver, argument, .. }: &Method<'_>) {
        if !self.is_accumulated(argument) {
            return;
        }
        if let Some(expression) = self.expression(receiver, None) {
            let ((start, _), (end, _)) = (self.parsed.range(call), self.parsed.range(argument.span()));
            self.found.edits.push(Edit { start, end, text: format!("__pi_growing.test({expression}, ") });
        }
    }
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

impl Visit for Finder<'_> {
    fn visit_ident(&mut self, name: &Ident) {
        *self.seen.entry(name.to_id()).or_default() += 1;
    }

    fn visit_export_decl(&mut self, export: &ExportDecl) {
        // Seen from elsewhere, too.
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

    fn visit_call_expr(&mut self, call: &CallExpr) {
        if let Some(method) = Method::of(call) {
            let looks = METHODS.iter().find(|(name, _)| *name == method.name);
            if let Some((_, otherwise)) = looks {
                self.see_lines(call.span, method, otherwise);
            } else if method.name == "test" {
                self.see_test(call.span, &method);
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

    /// As the documentation writes it, without `__pi_growing.`.
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
            // A parenthesis would be the arguments of the line before.
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
    fn what_could_be_seen_stays() {
        for source in [
            // The array is used elsewhere.
            "(t, r) => { const a = t.split('\\n'); a.pop(); return a.some((l) => r.test(l)); }",
            "(t, r) => { let a = t.split('\\n'); return a.some((l) => r.test(l)); }",
            "export const a = t.split('\\n'); const r = /a/; a.some((l) => r.test(l));",
            "const r = /a/; const a = t.split('\\n'); a.some((l) => r.test(l)); export { a };",
            // The callback sees more than the line.
            "(t, r) => t.split('\\n').some((l, i) => r.test(l))",
            "(t, r) => t.split('\\n').some((l) => r.test(l), r)",
            "(t, r) => t.split('\\n').some((l) => r.test(l) && l.length)",
            "(t, r) => t.split('\\n').some(async (l) => r.test(l))",
            "(t) => t.split('\\n').some((l) => l.re.test(l))",
            "(t, r) => t.split('\\n').some((l) => r[0].test(l))",
            "(t, r) => t.split('\\n').some((l) => r().test(l))",
            // Other separators, limits, and names of nobody.
            "(t, r) => t.split('').some((l) => r.test(l))",
            "(t, r) => t.split('\\n', 2).some((l) => r.test(l))",
            "(t, r) => t.split(/\\n/).some((l) => r.test(l))",
            "(t) => t.split('\\n').some((l) => r.test(l))",
            "(t, r) => t?.split('\\n').some((l) => r.test(l))",
            "(e, r) => r.test(e.chunk)",
            "(e, r) => r.exec(e.accumulated)",
        ] {
            assert_eq!(rewritten(source), source);
        }
    }
}
