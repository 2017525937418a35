//! Locates the functions of a linked module, so that `Function.prototype.toString` can return their source.
//!
//! The engine keeps the position of a function, but not its text. A position is matched to the text between the beginning of a
//! function and its body, where no other function of the same beginning can be.
//!
//! The connector `module` of the host answers `String(run)` from this, and reads the functions of each module once.

use crate::limits::{Limits, with_large_stack};
use crate::parse::{Parsed, parse};
use pijs_artifact::{FindFunctions, FunctionText};
use std::ops::Range;
use swc_core::common::{Span, Spanned};
use swc_core::ecma::ast::*;
use swc_core::ecma::visit::{Visit, VisitWith};

/// Maximum length of a parsed module, in bytes: parsing blocks the whole session.
const LONGEST: usize = 2 << 20;

/// Finds the functions of modules that were linked here.
#[derive(Debug, Clone, Copy, Default)]
pub struct Functions;

impl FindFunctions for Functions {
    fn functions(&self, source: &str) -> Vec<FunctionText> {
        if source.len() > LONGEST {
            return Vec::new();
        }
        let found = with_large_stack(|| {
            let parsed = parse("index.js", source, &Limits::default()).ok()?;
            let mut finder = FunctionFinder { parsed: &parsed, found: Vec::new() };
            parsed.program.visit_with(&mut finder);
            Some(finder.found)
        });
        found.ok().flatten().unwrap_or_default()
    }
}

struct FunctionFinder<'a> {
    parsed: &'a Parsed,
    found: Vec<FunctionText>,
}

impl FunctionFinder<'_> {
    fn range(&self, span: Span) -> Range<usize> {
        let (start, end) = self.parsed.range(span);
        start..end
    }

    /// Adds a function that has a body. A function without a body is a type declaration.
    fn add(&mut self, text: Range<usize>, body: Option<Span>) {
        let Some(body) = body.map(|body| self.range(body)) else { return };
        self.found.push(FunctionText { head: text.start..body.start, text });
    }

    /// Adds a member of a class or an object: the text after `static`.
    fn add_member(&mut self, member: Span, function: &Function) {
        let mut text = self.range(member);
        if let Some(rest) = self.parsed.source[text.clone()].strip_prefix("static ") {
            text.start = text.end - rest.trim_start().len();
        }
        self.add(text, function.body.as_ref().map(Spanned::span));
    }
}

impl Visit for FunctionFinder<'_> {
    fn visit_function(&mut self, function: &Function) {
        let text = self.range(function.span);
        self.add(text, function.body.as_ref().map(Spanned::span));
        function.visit_children_with(self);
    }

    fn visit_arrow_expr(&mut self, arrow: &ArrowExpr) {
        let text = self.range(arrow.span);
        self.add(text, Some(arrow.body.span()));
        arrow.visit_children_with(self);
    }

    fn visit_method_prop(&mut self, method: &MethodProp) {
        let start = method.key.span().lo.min(method.function.span.lo);
        self.add_member(method.function.span.with_lo(start), &method.function);
        method.visit_children_with(self);
    }

    fn visit_getter_prop(&mut self, getter: &GetterProp) {
        self.add_member(getter.span, &getter.function);
        getter.visit_children_with(self);
    }

    fn visit_setter_prop(&mut self, setter: &SetterProp) {
        self.add_member(setter.span, &setter.function);
        setter.visit_children_with(self);
    }

    fn visit_class_method(&mut self, method: &ClassMethod) {
        self.add_member(method.span, &method.function);
        method.visit_children_with(self);
    }

    fn visit_private_method(&mut self, method: &PrivateMethod) {
        self.add_member(method.span, &method.function);
        method.visit_children_with(self);
    }

    /// Adds a class at the position of its constructor; without one, at the end of the class.
    fn visit_class(&mut self, class: &Class) {
        let text = self.range(class.span);
        let members = class.body.first().map_or(text.end, |member| self.range(member.span()).start);
        self.found.push(FunctionText { head: text.start..members, text: text.clone() });
        self.found.push(FunctionText { head: text.end - 1..text.end, text: text.clone() });
        for member in &class.body {
            if let ClassMember::Constructor(Constructor { span, body: Some(body), .. }) = member {
                let head = self.range(*span).start..self.range(body.span()).start;
                self.found.push(FunctionText { head, text: text.clone() });
            }
        }
        class.visit_children_with(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the text of the function whose beginning is marked by `^`.
    fn text_at(marked: &str) -> Option<String> {
        let at = marked.find('^').expect("a mark");
        let source = marked.replace('^', "");
        let found = Functions.functions(&source);
        let function =
            found.iter().filter(|function| function.head.contains(&at)).max_by_key(|found| found.head.start)?;
        Some(source[function.text.clone()].to_owned())
    }

    #[test]
    fn each_function_is_found_at_the_engines_position() {
        for (marked, text) in [
            ("const f = ^(x) => x + 1;", "(x) => x + 1"),
            ("const f = ^async (x) => { return \")\"; };", "async (x) => { return \")\"; }"),
            ("^function f(a, b = () => 1) { return /[}]/; }", "function f(a, b = () => 1) { return /[}]/; }"),
            ("function f(a, b = ^() => 1) { return a; }", "() => 1"),
            ("^async function* f() {} f();", "async function* f() {}"),
            ("x = ^function named() {};", "function named() {}"),
            ("const o = { ^m(x) { return x; } };", "m(x) { return x; }"),
            ("const o = { ^async m() {}, *g() {} };", "async m() {}"),
            ("const o = { async m() {}, ^*g() {} };", "*g() {}"),
            ("const o = { ^get a() { return 1; } };", "get a() { return 1; }"),
            ("const o = { get a() { return 1; }, ^set a(v) {} };", "set a(v) {}"),
            ("const o = { ^[\"a\" + 1]() {} };", "[\"a\" + 1]() {}"),
            ("class K { ^m() {} }", "m() {}"),
            ("class K { static ^s() {} }", "s() {}"),
            ("class K { get ^g() { return 1; } }", "get g() { return 1; }"),
            ("class K { async *^ag() {} }", "async *ag() {}"),
            ("class K { ^#p() {} }", "#p() {}"),
            ("class K { field = ^() => 4; }", "() => 4"),
            ("class K { a = 1; ^constructor(q) { this.q = q; } }", "class K { a = 1; constructor(q) { this.q = q; } }"),
            ("x = ^class extends B { m() {} };", "class extends B { m() {} }"),
            ("^class K {}", "class K {}"),
            ("class K ^{}", "class K {}"),
            ("class K { m() {} ^}", "class K { m() {} }"),
            ("x = class { static s() {} ^};", "class { static s() {} }"),
        ] {
            assert_eq!(text_at(marked).as_deref(), Some(text), "{marked}");
        }
        assert_eq!(text_at("const x = ^1;"), None);
        assert_eq!(Functions.functions("const = ;").len(), 0);
        assert_eq!(Functions.functions(&"(".repeat(5000)).len(), 0, "what nests too deep is not read");
        assert_eq!(Functions.functions(&format!("f = () => 1;{}", " ".repeat(LONGEST))).len(), 0);
    }
}
