//! Local names that refer to a host module or one of its exports.
//!
//! Follows `import`, `require`, `await import` and destructuring of those, but not assignments or parameters. Constants that hold
//! a string literal are followed too, for hosts and programs.

use crate::syntax::{export_name, member_name, property_name, text_of};
use std::collections::HashMap;
use swc_core::common::Mark;
use swc_core::ecma::ast::{
    BinaryOp, CallExpr, Callee, Expr, Id, Ident, ImportDecl, ImportSpecifier, Lit, MemberExpr, ObjectPatProp, Pat,
    VarDeclKind, VarDeclarator,
};

/// The host value that a name refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Binding {
    /// A whole module: a namespace or default import, or the result of `require`.
    Module(String),
    /// One export of a module.
    Member(String, String),
}

/// A string that is known completely or up to a position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Text {
    pub(super) start: String,
    pub(super) whole: bool,
}

/// The names of one module, keyed by name and scope. Only queried, never iterated.
#[derive(Debug)]
pub(super) struct Bindings {
    modules: HashMap<Id, Binding>,
    texts: HashMap<Id, Text>,
    unresolved: Mark,
}

impl Bindings {
    pub(super) fn new(unresolved: Mark) -> Self {
        Self { modules: HashMap::new(), texts: HashMap::new(), unresolved }
    }

    /// Returns whether a name is a global: declared nowhere in the file.
    pub(super) fn is_global(&self, ident: &Ident) -> bool {
        ident.ctxt.outer() == self.unresolved
    }

    pub(super) fn import(&mut self, import: &ImportDecl) {
        let module = text_of(&import.src);
        for specifier in &import.specifiers {
            let (local, binding) = match specifier {
                ImportSpecifier::Named(named) => {
                    let name = named.imported.as_ref().map_or_else(|| named.local.sym.to_string(), export_name);
                    let binding = if name == "default" {
                        Binding::Module(module.clone())
                    } else {
                        Binding::Member(module.clone(), name)
                    };
                    (&named.local, binding)
                }
                ImportSpecifier::Default(default) => (&default.local, Binding::Module(module.clone())),
                ImportSpecifier::Namespace(namespace) => (&namespace.local, Binding::Module(module.clone())),
            };
            self.modules.insert(local.to_id(), binding);
        }
    }

    pub(super) fn bind_module(&mut self, name: &Ident, module: String) {
        self.modules.insert(name.to_id(), Binding::Module(module));
    }

    pub(super) fn declare(&mut self, declarator: &VarDeclarator, kind: VarDeclKind) {
        let Some(init) = &declarator.init else { return };
        if let (Pat::Ident(name), VarDeclKind::Const) = (&declarator.name, kind)
            && let Some(text) = self.text(init)
        {
            self.texts.insert(name.to_id(), text);
        }
        if let Some(binding) = self.resolve(init) {
            self.bind(&declarator.name, &binding);
        }
    }

    /// Binds the names of a pattern to parts of `binding`.
    fn bind(&mut self, pattern: &Pat, binding: &Binding) {
        match (pattern, binding) {
            (Pat::Ident(name), _) => {
                self.modules.insert(name.to_id(), binding.clone());
            }
            (Pat::Object(object), Binding::Module(module)) => {
                for property in &object.props {
                    match property {
                        ObjectPatProp::Assign(assign) => {
                            let member = Binding::Member(module.clone(), assign.key.sym.to_string());
                            self.modules.insert(assign.key.to_id(), member);
                        }
                        ObjectPatProp::KeyValue(pair) => {
                            if let (Some(key), Pat::Ident(name)) = (property_name(&pair.key), &*pair.value) {
                                self.modules.insert(name.to_id(), Binding::Member(module.clone(), key));
                            }
                        }
                        ObjectPatProp::Rest(_) => {}
                    }
                }
            }
            _ => {}
        }
    }

    /// Returns the host module, or the member of one, that an expression refers to.
    pub(super) fn resolve(&self, expr: &Expr) -> Option<Binding> {
        match expr {
            Expr::Ident(ident) => self.modules.get(&ident.to_id()).cloned(),
            Expr::Await(awaited) => self.resolve(&awaited.arg),
            Expr::Paren(inner) => self.resolve(&inner.expr),
            Expr::TsAs(cast) => self.resolve(&cast.expr),
            Expr::TsNonNull(inner) => self.resolve(&inner.expr),
            Expr::Call(call) => self.required(call).map(Binding::Module),
            Expr::Member(member) => self.member(member),
            _ => None,
        }
    }

    fn member(&self, member: &MemberExpr) -> Option<Binding> {
        let name = member_name(&member.prop)?;
        match self.resolve(&member.obj)? {
            Binding::Module(module) if name == "default" => Some(Binding::Module(module)),
            // `fs.promises` is `fs/promises`.
            Binding::Module(module) if name == "promises" => Some(Binding::Module(format!("{module}/promises"))),
            Binding::Module(module) => Some(Binding::Member(module, name)),
            Binding::Member(module, outer) if outer == "promises" => {
                Some(Binding::Member(format!("{module}/promises"), name))
            }
            Binding::Member(..) => None,
        }
    }

    /// Returns the literal of `require("x")` or `import("x")`.
    pub(super) fn required(&self, call: &CallExpr) -> Option<String> {
        let literal = match &call.args.first()?.expr.as_ref() {
            Expr::Lit(Lit::Str(literal)) => text_of(literal),
            Expr::Tpl(template) if template.exprs.is_empty() => cooked(template.quasis.first()?)?,
            _ => return None,
        };
        match &call.callee {
            Callee::Import(_) => Some(literal),
            Callee::Expr(callee) => match callee.as_ref() {
                Expr::Ident(ident) if ident.sym == *"require" => Some(literal),
                _ => None,
            },
            Callee::Super(_) => None,
        }
    }

    /// Returns the string, or the beginning of the string, that an expression evaluates to.
    pub(super) fn text(&self, expr: &Expr) -> Option<Text> {
        match expr {
            Expr::Lit(Lit::Str(literal)) => Some(Text { start: text_of(literal), whole: true }),
            Expr::Ident(ident) => self.texts.get(&ident.to_id()).cloned(),
            Expr::Paren(inner) => self.text(&inner.expr),
            Expr::TsAs(cast) => self.text(&cast.expr),
            Expr::TsConstAssertion(cast) => self.text(&cast.expr),
            Expr::Tpl(template) => {
                let mut text = Text { start: cooked(template.quasis.first()?)?, whole: true };
                for (expr, quasi) in template.exprs.iter().zip(template.quasis.iter().skip(1)) {
                    text = join(text, self.text(expr));
                    text = join(text, cooked(quasi).map(|start| Text { start, whole: true }));
                }
                Some(text)
            }
            Expr::Bin(sum) if sum.op == BinaryOp::Add => Some(join(self.text(&sum.left)?, self.text(&sum.right))),
            _ => None,
        }
    }
}

fn join(left: Text, right: Option<Text>) -> Text {
    match right {
        _ if !left.whole => left,
        Some(right) => Text { start: left.start + &right.start, whole: right.whole },
        None => Text { whole: false, ..left },
    }
}

fn cooked(quasi: &swc_core::ecma::ast::TplElement) -> Option<String> {
    Some(quasi.cooked.as_ref()?.to_string_lossy().into_owned())
}
