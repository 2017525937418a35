//! The exports of a module: functions that pi calls, and functions that other modules of the package call.

use super::super::bindings::Bindings;
use super::WrongDefault;
use super::names::{Names, ValueKind, parameters};
use crate::interface::GivenObject;
use crate::parse::Parsed;
use crate::syntax::{export_name, member_name, plain};
use std::collections::HashMap;
use swc_core::common::{Span, Spanned};
use swc_core::ecma::ast::*;
use swc_core::ecma::visit::{Visit, VisitWith};

/// The exports of a module.
#[derive(Default)]
pub(super) struct Exported {
    /// Parameters of the function that is exported by default.
    pub(super) parameters: Vec<Option<Id>>,
    pub(super) wrong: Option<WrongDefault>,
    /// Local names by the export name.
    locals: HashMap<String, Id>,
}

impl Exported {
    pub(super) fn of(parsed: &Parsed, names: &Names, bindings: &Bindings) -> Self {
        let mut exported = Self::default_of(parsed, names, bindings);
        let items = parsed.program.as_module().into_iter().flat_map(|module| &module.body);
        for declaration in items.filter_map(ModuleItem::as_module_decl) {
            exported.see(declaration);
        }
        exported
    }

    /// Returns the local name of an export.
    pub(super) fn local(&self, export: &str) -> Option<&Id> {
        self.locals.get(export)
    }

    /// Finds the parameters that always receive an object of pi's. Yields the function's name, the parameter's index and name,
    /// and the object.
    pub(super) fn seeds<'a>(
        &self,
        names: &Names,
        given: impl Iterator<Item = (&'a str, usize, GivenObject)>,
    ) -> Vec<(Option<Id>, usize, Id, GivenObject)> {
        let seed = |(export, at, object): (&str, usize, GivenObject)| {
            let local = self.local(export).filter(|name| names.is_fixed(name));
            let parameters = match local {
                Some(name) => names.calls.parameters(name)?,
                None if export == "default" => &self.parameters,
                None => return None,
            };
            Some((local.cloned(), at, parameters.get(at)?.clone()?, object))
        };
        given.filter_map(seed).collect()
    }

    fn see(&mut self, declaration: &ModuleDecl) {
        match declaration {
            ModuleDecl::ExportDecl(export) => match &export.decl {
                Decl::Fn(function) => self.add(&function.ident.sym, &function.ident),
                Decl::Class(class) => self.add(&class.ident.sym, &class.ident),
                Decl::Var(variables) => {
                    let names = variables.decls.iter().filter_map(|declarator| declarator.name.as_ident());
                    names.for_each(|name| self.add(&name.sym, &name.id));
                }
                _ => {}
            },
            ModuleDecl::ExportDefaultDecl(export) => match &export.decl {
                DefaultDecl::Fn(FnExpr { ident: Some(name), .. }) => self.add("default", name),
                DefaultDecl::Class(ClassExpr { ident: Some(name), .. }) => self.add("default", name),
                _ => {}
            },
            ModuleDecl::ExportDefaultExpr(export) => {
                if let Expr::Ident(name) = plain(&export.expr) {
                    self.add("default", name);
                }
            }
            ModuleDecl::ExportNamed(export) if export.src.is_none() && !export.type_only => {
                for named in export.specifiers.iter().filter_map(ExportSpecifier::as_named) {
                    if let ModuleExportName::Ident(name) = &named.orig {
                        let exported = named.exported.as_ref().map_or_else(|| name.sym.to_string(), export_name);
                        self.add(&exported, name);
                    }
                }
            }
            _ => {}
        }
    }

    fn add(&mut self, export: &str, name: &Ident) {
        self.locals.insert(export.to_owned(), name.to_id());
    }

    fn default_of(parsed: &Parsed, names: &Names, bindings: &Bindings) -> Self {
        let (items, has_declarations) = match &parsed.program {
            Program::Module(module) => (module.body.as_slice(), exports_anything(module)),
            Program::Script(_) => (&[][..], false),
        };
        for declaration in items.iter().filter_map(ModuleItem::as_module_decl) {
            let (kind, span) = match declaration {
                ModuleDecl::ExportDefaultExpr(export) => (names.kind(&export.expr), export.expr.span()),
                ModuleDecl::ExportDefaultDecl(export) => match &export.decl {
                    DefaultDecl::Fn(function) => (ValueKind::Function(parameters(&function.function)), export.span),
                    DefaultDecl::Class(_) => {
                        (ValueKind::Other("a class, which cannot be called without `new`"), export.span)
                    }
                    // A type has no value at run time.
                    DefaultDecl::TsInterfaceDecl(_) => continue,
                },
                ModuleDecl::TsExportAssignment(export) => (names.kind(&export.expr), export.expr.span()),
                ModuleDecl::ExportNamed(export) if !export.type_only => match default_of(export) {
                    Some((name, span)) if export.src.is_none() => (names.kind(&Expr::Ident(name)), span),
                    Some((_, span)) => (ValueKind::Unknown, span),
                    None => continue,
                },
                _ => continue,
            };
            return Self::from(parsed, kind, span);
        }
        let mut common_js = CommonJs { bindings, exported: None, is_mentioned: false };
        parsed.program.visit_with(&mut common_js);
        match common_js.exported {
            Some(value) => Self::from(parsed, names.kind(&value), value.span()),
            None if common_js.is_mentioned => Self::default(),
            None => {
                let first = items.iter().find(|item| has_declarations && item.is_module_decl() && !is_import(item));
                let (start, end) = first.map_or((0, 0), |item| parsed.range(item.span()));
                let line = parsed.source[start..end].find('\n').map_or(end, |length| start + length);
                Self { wrong: Some(WrongDefault { what: None, start, end: line }), ..Self::default() }
            }
        }
    }

    fn from(parsed: &Parsed, kind: ValueKind, span: Span) -> Self {
        match kind {
            ValueKind::Function(parameters) => Self { parameters, ..Self::default() },
            ValueKind::Other(what) => {
                let (start, end) = parsed.range(span);
                Self { wrong: Some(WrongDefault { what: Some(what), start, end }), ..Self::default() }
            }
            ValueKind::Unknown => Self::default(),
        }
    }
}

fn exports_anything(module: &Module) -> bool {
    module.body.iter().any(|item| item.is_module_decl() && !is_import(item))
}

fn is_import(item: &ModuleItem) -> bool {
    item.as_module_decl().is_some_and(ModuleDecl::is_import)
}

/// Returns the local name in `export { name as default }`.
fn default_of(export: &NamedExport) -> Option<(Ident, Span)> {
    export.specifiers.iter().find_map(|specifier| match specifier {
        ExportSpecifier::Named(named) if !named.is_type_only => {
            let exported = named.exported.as_ref().unwrap_or(&named.orig);
            let ModuleExportName::Ident(name) = &named.orig else { return None };
            (export_name(exported) == "default").then(|| (name.clone(), named.span))
        }
        ExportSpecifier::Default(default) => {
            (default.exported.sym == *"default").then(|| (default.exported.clone(), default.exported.span))
        }
        _ => None,
    })
}

/// Finds the last value assigned to `module.exports`.
struct CommonJs<'a> {
    bindings: &'a Bindings,
    exported: Option<Expr>,
    is_mentioned: bool,
}

impl CommonJs<'_> {
    fn is_module_exports(&self, target: &AssignTarget) -> bool {
        let AssignTarget::Simple(SimpleAssignTarget::Member(member)) = target else { return false };
        member_name(&member.prop).as_deref() == Some("exports")
            && matches!(plain(&member.obj), Expr::Ident(object) if object.sym == *"module" && self.bindings.is_global(object))
    }
}

impl Visit for CommonJs<'_> {
    fn visit_assign_expr(&mut self, assign: &AssignExpr) {
        if self.is_module_exports(&assign.left) {
            self.exported = Some((*assign.right).clone());
        }
        assign.visit_children_with(self);
    }

    fn visit_ident(&mut self, ident: &Ident) {
        self.is_mentioned |= (ident.sym == *"module" || ident.sym == *"exports") && self.bindings.is_global(ident);
    }

    fn visit_ts_type(&mut self, _: &TsType) {}
}
