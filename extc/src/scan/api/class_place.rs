//! Tracks the class around a node of the syntax tree, and the fields of its `this`.

use crate::syntax::{member_name, plain};
use swc_core::common::{Span, SyntaxContext};
use swc_core::ecma::ast::*;

/// The class that `this` is an instance of, while a program is visited.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ClassPlace {
    pub(super) class: Option<Span>,
    /// Whether the next function is a method of the class.
    is_method: bool,
}

impl ClassPlace {
    pub(super) fn enter_class(&mut self, class: &Class) -> Self {
        std::mem::replace(self, Self { class: Some(class.span), is_method: false })
    }

    pub(super) fn expect_method(&mut self, is_static: bool) {
        self.is_method = !is_static;
    }

    /// Enters a function that binds `this`.
    pub(super) fn enter_function(&mut self) -> Self {
        let class = self.class.filter(|_| self.is_method);
        std::mem::replace(self, Self { class, is_method: false })
    }

    /// Returns the name of the object in an expression: a variable, or a field of `this`.
    pub(super) fn name(&self, expr: &Expr) -> Option<Id> {
        match plain(expr) {
            Expr::Ident(ident) => Some(ident.to_id()),
            Expr::Member(member) if plain(&member.obj).is_this() => field(self.class?, &field_name(&member.prop)?),
            _ => None,
        }
    }

    /// Returns the names of the objects in arguments.
    pub(super) fn names(&self, arguments: &[ExprOrSpread]) -> Vec<Option<Id>> {
        arguments.iter().map(|one| self.name(&one.expr).filter(|_| one.spread.is_none())).collect()
    }
}

/// Implements the visits of classes and methods for a visitor with a field `place`.
macro_rules! visit_places {
    () => {
        fn visit_class(&mut self, class: &Class) {
            let before = self.place.enter_class(class);
            class.visit_children_with(self);
            self.place = before;
        }

        fn visit_class_method(&mut self, method: &ClassMethod) {
            self.place.expect_method(method.is_static);
            method.visit_children_with(self);
        }

        fn visit_private_method(&mut self, method: &PrivateMethod) {
            self.place.expect_method(method.is_static);
            method.visit_children_with(self);
        }
    };
}
pub(super) use visit_places;

/// Returns the name of a field in a class.
pub(super) fn field(class: Span, name: &str) -> Option<Id> {
    Some((format!("this.{name} at {}", class.lo.0).into(), SyntaxContext::empty()))
}

fn field_name(property: &MemberProp) -> Option<String> {
    match property {
        MemberProp::PrivateName(name) => Some(format!("#{}", name.name)),
        property => member_name(property),
    }
}
