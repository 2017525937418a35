//! Rewrites assignments to constants, so that they fail at run time instead of at build time.
//!
//! A bundler refuses such a module. Under pi's loader it works until the assignment is executed, so only the assignment is
//! changed, to throw the language's error:
//!
//! ```text
//! const limit = 1;               const limit = 1;
//! limit = 2;                 →   __pi_constant(limit).held = 2;
//! limit++;                   →   __pi_constant(limit).held++;
//! ({ limit } = options);     →   ({ limit: __pi_constant(limit).held } = options);
//! for (limit of limits) {}   →   for (__pi_constant(limit).held of limits) {}
//! ```
//!
//! `pi:pi/constants` defines the global.

use crate::parse::Parsed;
use crate::rewrite::Edit;
use crate::syntax::plain;
use std::collections::HashSet;
use swc_core::ecma::ast::*;
use swc_core::ecma::visit::{Visit, VisitWith};

/// Returns the edits of names that are assigned to and declared `const`.
pub(super) fn assigned(parsed: &Parsed) -> Vec<Edit> {
    let mut constants = Constants::default();
    parsed.program.visit_with(&mut constants);
    if constants.0.is_empty() {
        return Vec::new();
    }
    let mut finder = ConstantFinder { parsed, constants: constants.0, edits: Vec::new() };
    parsed.program.visit_with(&mut finder);
    finder.edits
}

/// The names declared with `const`. Only queried, never iterated.
#[derive(Default)]
struct Constants(HashSet<Id>);

impl Constants {
    fn declare(&mut self, pattern: &Pat) {
        match pattern {
            Pat::Ident(name) => {
                self.0.insert(name.to_id());
            }
            Pat::Array(array) => array.elems.iter().flatten().for_each(|element| self.declare(element)),
            Pat::Object(object) => {
                for property in &object.props {
                    match property {
                        ObjectPatProp::KeyValue(pair) => self.declare(&pair.value),
                        ObjectPatProp::Assign(short) => {
                            self.0.insert(short.key.to_id());
                        }
                        ObjectPatProp::Rest(rest) => self.declare(&rest.arg),
                    }
                }
            }
            Pat::Assign(with_default) => self.declare(&with_default.left),
            Pat::Rest(rest) => self.declare(&rest.arg),
            Pat::Expr(_) | Pat::Invalid(_) => {}
        }
    }
}

impl Visit for Constants {
    fn visit_var_decl(&mut self, declaration: &VarDecl) {
        if declaration.kind == VarDeclKind::Const && !declaration.declare {
            declaration.decls.iter().for_each(|each| self.declare(&each.name));
        }
        declaration.visit_children_with(self);
    }
}

struct ConstantFinder<'a> {
    parsed: &'a Parsed,
    constants: HashSet<Id>,
    edits: Vec<Edit>,
}

impl ConstantFinder<'_> {
    /// Rewrites a name. With `key`, the name is also a member's name, as in `{ limit }`.
    fn written(&mut self, name: &Ident, key: bool) {
        if !self.constants.contains(&name.to_id()) {
            return;
        }
        let (start, end) = self.parsed.range(name.span);
        let name = &name.sym;
        let key = if key { format!("{name}: ") } else { String::new() };
        self.edits.push(Edit { start, end, text: format!("{key}__pi_constant({name}).held") });
    }

    /// Rewrites the target of an assignment: a name, possibly in parentheses or with a type.
    fn expression(&mut self, target: &Expr) {
        if let Expr::Ident(name) = plain(target) {
            self.written(name, false);
        }
    }

    fn pattern(&mut self, target: &Pat) {
        match target {
            Pat::Ident(name) => self.written(&name.id, false),
            Pat::Array(array) => self.array(array),
            Pat::Object(object) => self.object(object),
            Pat::Assign(with_default) => self.pattern(&with_default.left),
            Pat::Rest(rest) => self.pattern(&rest.arg),
            Pat::Expr(target) => self.expression(target),
            Pat::Invalid(_) => {}
        }
    }

    fn array(&mut self, array: &ArrayPat) {
        array.elems.iter().flatten().for_each(|element| self.pattern(element));
    }

    fn object(&mut self, object: &ObjectPat) {
        for property in &object.props {
            match property {
                ObjectPatProp::KeyValue(pair) => self.pattern(&pair.value),
                ObjectPatProp::Assign(short) => self.written(&short.key.id, true),
                ObjectPatProp::Rest(rest) => self.pattern(&rest.arg),
            }
        }
    }

    fn head(&mut self, head: &ForHead) {
        if let ForHead::Pat(target) = head {
            self.pattern(target);
        }
    }
}

impl Visit for ConstantFinder<'_> {
    fn visit_assign_expr(&mut self, assignment: &AssignExpr) {
        match &assignment.left {
            AssignTarget::Simple(SimpleAssignTarget::Ident(name)) => self.written(&name.id, false),
            AssignTarget::Simple(SimpleAssignTarget::Paren(inner)) => self.expression(&inner.expr),
            AssignTarget::Simple(SimpleAssignTarget::TsAs(inner)) => self.expression(&inner.expr),
            AssignTarget::Simple(SimpleAssignTarget::TsNonNull(inner)) => self.expression(&inner.expr),
            AssignTarget::Simple(SimpleAssignTarget::TsSatisfies(inner)) => self.expression(&inner.expr),
            AssignTarget::Simple(SimpleAssignTarget::TsTypeAssertion(inner)) => self.expression(&inner.expr),
            AssignTarget::Pat(AssignTargetPat::Array(array)) => self.array(array),
            AssignTarget::Pat(AssignTargetPat::Object(object)) => self.object(object),
            AssignTarget::Simple(_) | AssignTarget::Pat(AssignTargetPat::Invalid(_)) => {}
        }
        assignment.visit_children_with(self);
    }

    fn visit_update_expr(&mut self, update: &UpdateExpr) {
        self.expression(&update.arg);
        update.visit_children_with(self);
    }

    fn visit_for_of_stmt(&mut self, of: &ForOfStmt) {
        self.head(&of.left);
        of.visit_children_with(self);
    }

    fn visit_for_in_stmt(&mut self, of: &ForInStmt) {
        self.head(&of.left);
        of.visit_children_with(self);
    }
}
