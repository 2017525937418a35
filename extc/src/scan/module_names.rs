//! First pass of the scan: resolves the meaning of a module's names.

use super::bindings::{Binding, Bindings};
use crate::syntax::{is_import_meta, member_name, text_of};
use std::collections::HashSet;
use swc_core::common::Mark;
use swc_core::ecma::ast::*;
use swc_core::ecma::visit::{Visit, VisitWith};

/// Names of a module with a special meaning. Sets are only queried, never iterated.
pub(super) struct ModuleNames {
    pub(super) bindings: Bindings,
    /// Names that hold `createRequire(import.meta.url)`.
    pub(super) created: HashSet<Id>,
    /// Parameters that hold pi's API, according to their type or position.
    pub(super) api: HashSet<Id>,
}

impl ModuleNames {
    /// Reads the names of a program whose scopes are resolved.
    pub(super) fn of(program: &Program, unresolved: Mark) -> Self {
        let mut names = Self { bindings: Bindings::new(unresolved), created: HashSet::new(), api: HashSet::new() };
        program.visit_with(&mut names);
        names
    }

    fn see_parameter(&mut self, pattern: &Pat, is_api: bool) {
        let Pat::Ident(name) = pattern else { return };
        let reference = name.type_ann.as_ref().and_then(|annotation| annotation.type_ann.as_ts_type_ref());
        let named = reference.and_then(|reference| reference.type_name.as_ident());
        if is_api || named.is_some_and(|named| named.sym == *"ExtensionAPI") {
            self.api.insert(name.to_id());
        }
    }

    /// Returns whether an expression is `createRequire` of `import.meta.url` or `__filename`.
    pub(super) fn creates_require(&self, expr: &Expr) -> bool {
        let Expr::Call(call) = expr else { return false };
        let Callee::Expr(callee) = &call.callee else { return false };
        let Some(Binding::Member(module, name)) = self.bindings.resolve(callee) else { return false };
        if module.strip_prefix("node:").unwrap_or(&module) != "module" || name != "createRequire" {
            return false;
        }
        match call.args.first().map(|argument| argument.expr.as_ref()) {
            Some(Expr::Ident(ident)) => ident.sym == *"__filename",
            Some(Expr::Member(member)) => {
                is_import_meta(&member.obj) && matches!(member_name(&member.prop).as_deref(), Some("url" | "filename"))
            }
            _ => false,
        }
    }
}

impl Visit for ModuleNames {
    fn visit_import_decl(&mut self, import: &ImportDecl) {
        if !import.type_only {
            self.bindings.import(import);
        }
    }

    fn visit_ts_import_equals_decl(&mut self, import: &TsImportEqualsDecl) {
        if let TsModuleRef::TsExternalModuleRef(module) = &import.module_ref {
            self.bindings.bind_module(&import.id, text_of(&module.expr));
        }
    }

    fn visit_var_decl(&mut self, declaration: &VarDecl) {
        for declarator in &declaration.decls {
            self.bindings.declare(declarator, declaration.kind);
            if let (Pat::Ident(name), Some(init)) = (&declarator.name, &declarator.init)
                && self.creates_require(init)
            {
                self.created.insert(name.to_id());
            }
        }
        declaration.visit_children_with(self);
    }

    fn visit_export_default_decl(&mut self, export: &ExportDefaultDecl) {
        if let DefaultDecl::Fn(function) = &export.decl
            && let Some(first) = function.function.params.first()
        {
            self.see_parameter(&first.pat, true);
        }
        export.visit_children_with(self);
    }

    fn visit_export_default_expr(&mut self, export: &ExportDefaultExpr) {
        let first = match export.expr.as_ref() {
            Expr::Arrow(arrow) => arrow.params.first(),
            Expr::Fn(function) => function.function.params.first().map(|first| &first.pat),
            _ => None,
        };
        first.into_iter().for_each(|first| self.see_parameter(first, true));
        export.visit_children_with(self);
    }

    fn visit_function(&mut self, function: &Function) {
        function.params.iter().for_each(|parameter| self.see_parameter(&parameter.pat, false));
        function.visit_children_with(self);
    }

    fn visit_arrow_expr(&mut self, arrow: &ArrowExpr) {
        arrow.params.iter().for_each(|parameter| self.see_parameter(parameter, false));
        arrow.visit_children_with(self);
    }

    fn visit_ts_type(&mut self, _: &TsType) {}
}
