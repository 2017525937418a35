//! Calls that the factory of an entry runs unconditionally, and that therefore decide whether the extension is loaded.
//!
//! These are calls in the factory's own body, and in functions, constructors and methods of the module that it calls
//! unconditionally: outside of conditions, loops and inner functions, and before anything that may return or throw early.
//! ```text
//! export default (pi) => {
//!   pi.one();                     // runs
//!   if (pi.two()) pi.three();     // `two` runs
//!   later(() => pi.four());
//!   if (isOld) return;
//!   pi.five();
//! };
//! ```

use super::names::{Names, id_of};
use crate::syntax::{member_name, plain, property_name};
use std::collections::HashSet;
use swc_core::common::Span;
use swc_core::ecma::ast::*;
use swc_core::ecma::visit::{Visit, VisitWith};

/// Finds the calls. `factory` is the parameter of the entry's function; `functions` are others that the factory calls
/// unconditionally.
pub(super) fn straight_calls(
    program: &Program,
    factory: Option<&Id>,
    mut functions: HashSet<Id>,
    names: &Names,
) -> HashSet<Span> {
    loop {
        let (calls, called, methods) = Default::default();
        let mut lines = UnconditionalCallFinder {
            factory,
            functions: &functions,
            names,
            is_on: false,
            class: None,
            calls,
            called,
            methods,
        };
        program.visit_with(&mut lines);
        let UnconditionalCallFinder { calls, called, methods, .. } = lines;
        let before = functions.len();
        functions.extend(called.into_iter().filter(|name| names.is_fixed(name)));
        functions.extend(methods);
        if functions.len() == before {
            return calls;
        }
    }
}

struct UnconditionalCallFinder<'a> {
    factory: Option<&'a Id>,
    /// Functions, constructors and methods that are called unconditionally.
    functions: &'a HashSet<Id>,
    names: &'a Names,
    /// The enclosing class.
    class: Option<Id>,
    /// Whether the visited node runs unconditionally.
    is_on: bool,
    /// Spans of calls, and of reads of members.
    calls: HashSet<Span>,
    called: Vec<Id>,
    methods: Vec<Id>,
}

/// Returns the name of a method of a class.
fn method(class: &Id, name: &str) -> Id {
    (format!("{}.{name}", class.0).into(), class.1)
}

impl UnconditionalCallFinder<'_> {
    fn with(&mut self, is_on: bool, visit: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.is_on, is_on);
        visit(self);
        self.is_on = before;
    }

    /// Visits a node that runs conditionally.
    fn sometimes<T: VisitWith<Self>>(&mut self, node: &T) {
        self.with(false, |lines| node.visit_with(lines));
    }

    fn is_factory(&self, first: Option<&Pat>) -> bool {
        self.factory.is_some_and(|factory| first.and_then(id_of).as_ref() == Some(factory))
    }

    fn is_called(&self, name: &Ident) -> bool {
        self.functions.contains(&name.to_id())
    }

    fn function(&mut self, function: &Function, is_called: bool) {
        let first = function.params.first().map(|parameter| &parameter.pat);
        let is_on = (is_called || self.is_factory(first)) && !function.is_generator;
        self.with(is_on, |lines| function.body.visit_with(lines));
    }

    fn arrow(&mut self, arrow: &ArrowExpr, is_called: bool) {
        let is_on = is_called || self.is_factory(arrow.params.first());
        self.with(is_on, |lines| arrow.body.visit_with(lines));
    }
}

impl Visit for UnconditionalCallFinder<'_> {
    fn visit_function(&mut self, function: &Function) {
        self.function(function, false);
    }

    fn visit_arrow_expr(&mut self, arrow: &ArrowExpr) {
        self.arrow(arrow, false);
    }

    fn visit_fn_decl(&mut self, declaration: &FnDecl) {
        self.function(&declaration.function, self.is_called(&declaration.ident));
    }

    fn visit_var_declarator(&mut self, declarator: &VarDeclarator) {
        let is_called = declarator.name.as_ident().is_some_and(|name| self.is_called(&name.id));
        match declarator.init.as_deref().map(plain) {
            Some(Expr::Arrow(arrow)) => self.arrow(arrow, is_called),
            Some(Expr::Fn(function)) => self.function(&function.function, is_called),
            _ => declarator.visit_children_with(self),
        }
    }

    fn visit_class(&mut self, class: &Class) {
        self.sometimes(&class.body);
    }

    fn visit_class_decl(&mut self, declaration: &ClassDecl) {
        let name = declaration.ident.to_id();
        let is_made = self.is_called(&declaration.ident);
        let before = self.class.replace(name.clone());
        for member in &declaration.class.body {
            match member {
                ClassMember::Constructor(constructor) => {
                    self.with(is_made, |lines| constructor.body.visit_with(lines));
                }
                ClassMember::Method(ClassMethod { key, function, is_static: false, .. }) => {
                    let is_called = property_name(key).is_some_and(|key| self.functions.contains(&method(&name, &key)));
                    self.function(function, is_called);
                }
                member => self.sometimes(member),
            }
        }
        self.class = before;
    }

    fn visit_new_expr(&mut self, new: &NewExpr) {
        if self.is_on {
            self.calls.insert(new.span);
            self.called.extend(plain(&new.callee).as_ident().map(Ident::to_id));
        }
        new.visit_children_with(self);
    }

    fn visit_stmts(&mut self, statements: &[Stmt]) {
        for statement in statements {
            statement.visit_with(self);
            self.is_on &= !may_end(statement);
        }
    }

    fn visit_if_stmt(&mut self, statement: &IfStmt) {
        statement.test.visit_with(self);
        self.sometimes(&statement.cons);
        self.sometimes(&statement.alt);
    }

    fn visit_cond_expr(&mut self, conditional: &CondExpr) {
        conditional.test.visit_with(self);
        self.sometimes(&conditional.cons);
        self.sometimes(&conditional.alt);
    }

    fn visit_bin_expr(&mut self, binary: &BinExpr) {
        binary.left.visit_with(self);
        let is_short = matches!(binary.op, BinaryOp::LogicalAnd | BinaryOp::LogicalOr | BinaryOp::NullishCoalescing);
        self.with(self.is_on && !is_short, |lines| binary.right.visit_with(lines));
    }

    fn visit_assign_expr(&mut self, assign: &AssignExpr) {
        let is_short = matches!(assign.op, AssignOp::AndAssign | AssignOp::OrAssign | AssignOp::NullishAssign);
        self.with(self.is_on && !is_short, |lines| assign.visit_children_with(lines));
    }

    fn visit_assign_pat(&mut self, pattern: &AssignPat) {
        self.sometimes(pattern.right.as_ref());
    }

    fn visit_opt_chain_expr(&mut self, chain: &OptChainExpr) {
        self.with(false, |lines| chain.visit_children_with(lines));
    }

    fn visit_switch_stmt(&mut self, statement: &SwitchStmt) {
        statement.discriminant.visit_with(self);
        self.sometimes(&statement.cases);
    }

    fn visit_for_stmt(&mut self, statement: &ForStmt) {
        statement.init.visit_with(self);
        statement.test.visit_with(self);
        self.sometimes(&statement.update);
        self.sometimes(&statement.body);
    }

    fn visit_for_in_stmt(&mut self, statement: &ForInStmt) {
        statement.right.visit_with(self);
        self.sometimes(&statement.body);
    }

    fn visit_for_of_stmt(&mut self, statement: &ForOfStmt) {
        statement.right.visit_with(self);
        self.sometimes(&statement.body);
    }

    fn visit_while_stmt(&mut self, statement: &WhileStmt) {
        statement.test.visit_with(self);
        self.sometimes(&statement.body);
    }

    fn visit_try_stmt(&mut self, statement: &TryStmt) {
        let is_caught = statement.handler.is_some();
        self.with(self.is_on && !is_caught, |lines| statement.block.visit_with(lines));
        self.sometimes(&statement.handler);
        statement.finalizer.visit_with(self);
    }

    fn visit_call_expr(&mut self, call: &CallExpr) {
        if self.is_on {
            self.calls.insert(call.span);
            match call.callee.as_expr().map(|callee| plain(callee)) {
                Some(Expr::Ident(name)) => self.called.push(name.to_id()),
                Some(Expr::Member(member)) => {
                    let class = match plain(&member.obj) {
                        Expr::This(_) => self.class.clone(),
                        Expr::Ident(instance) => self.names.class_of(&instance.to_id()).cloned(),
                        Expr::New(new) => plain(&new.callee).as_ident().map(Ident::to_id),
                        _ => None,
                    };
                    let called = class.zip(member_name(&member.prop)).map(|(class, name)| method(&class, &name));
                    self.methods.extend(called);
                }
                _ => {}
            }
        }
        call.visit_children_with(self);
    }

    fn visit_member_expr(&mut self, member: &MemberExpr) {
        if self.is_on {
            self.calls.insert(member.span);
        }
        member.visit_children_with(self);
    }

    fn visit_ts_type(&mut self, _: &TsType) {}
}

/// Returns whether a statement may leave its function early.
fn may_end(statement: &Stmt) -> bool {
    let mut ends = EndFinder(false);
    statement.visit_with(&mut ends);
    ends.0
}

struct EndFinder(bool);

impl Visit for EndFinder {
    fn visit_return_stmt(&mut self, _: &ReturnStmt) {
        self.0 = true;
    }

    fn visit_throw_stmt(&mut self, _: &ThrowStmt) {
        self.0 = true;
    }

    /// A labelled `break` may leave an enclosing block.
    fn visit_break_stmt(&mut self, statement: &BreakStmt) {
        self.0 |= statement.label.is_some();
    }

    fn visit_function(&mut self, _: &Function) {}

    fn visit_arrow_expr(&mut self, _: &ArrowExpr) {}

    fn visit_class(&mut self, _: &Class) {}
}
