//! Second pass: finds the uses of the names that the first pass collected.

use super::super::bindings::Bindings;
use super::class_place::{ClassPlace, visit_places};
use super::names::{Given, Known, Names, ValueKind, member_of, tool_literal};
use super::{ApiUse, Pass, Used};
use crate::interface::GivenObject;
use crate::parse::Parsed;
use crate::syntax::{member_name, plain};
use pijs_node_compat::api::{callback_of, needed_by};
use std::collections::{BTreeSet, HashSet};
use swc_core::common::{Span, Spanned};
use swc_core::ecma::ast::*;
use swc_core::ecma::visit::{Visit, VisitWith};

/// Finds the uses of known objects, and the calls of imported functions that receive one.
pub(super) fn uses(
    parsed: &Parsed,
    bindings: &Bindings,
    names: &Names,
    known: Known,
    straight: HashSet<Span>,
) -> (Vec<ApiUse>, Vec<Pass>) {
    let (mentioned, found, passes) = Default::default();
    let place = ClassPlace::default();
    let mut uses = ApiUseFinder { parsed, bindings, names, known, straight, place, tries: 0, mentioned, found, passes };
    parsed.program.visit_with(&mut uses);
    let ApiUseFinder { mentioned, mut found, passes, .. } = uses;
    let is_asked_for =
        |what: &Used| matches!(what, Used::Member { of, name, .. } if mentioned.contains(&(*of, name.clone())));
    found.retain(|used| !is_asked_for(&used.what));
    (found, passes)
}

struct ApiUseFinder<'a> {
    parsed: &'a Parsed,
    bindings: &'a Bindings,
    names: &'a Names,
    known: Known,
    /// Spans of calls that the factory runs unconditionally.
    straight: HashSet<Span>,
    place: ClassPlace,
    /// Depth of enclosing `try` blocks.
    tries: usize,
    /// Members mentioned without a call or a member access.
    mentioned: BTreeSet<(GivenObject, String)>,
    found: Vec<ApiUse>,
    passes: Vec<Pass>,
}

/// A call or a read of a member of an object of pi's.
#[derive(Clone, Copy)]
struct Called {
    given: Given,
    /// Span of the call, or of the expression that reads a member of the value.
    call: Span,
    /// Span of the member's name.
    at: Span,
    /// Whether the object is cast to another type.
    is_cast: bool,
}

impl ApiUseFinder<'_> {
    /// Returns the object of pi's that an expression evaluates to.
    fn given(&self, object: &Expr) -> Option<Given> {
        if let Some(given) = self.place.name(object).and_then(|name| self.known.object(&name)) {
            return Some(given);
        }
        match plain(object) {
            Expr::Member(member) => self.given(&member.obj)?.part(&member_name(&member.prop)?),
            _ => None,
        }
    }

    fn push(&mut self, what: Used, span: Span, called: Called) {
        let (start, end) = self.parsed.range(span);
        let is_straight = self.straight.contains(&called.call);
        let is_tried = self.tries > 0 || called.is_cast;
        let only_in_entry = called.given.only_in_entry;
        self.found.push(ApiUse { what, start, end, only_in_entry, is_tried, is_straight });
    }

    /// Records `pi.MEMBER(arguments)`; `is_asked` if written `pi.MEMBER?.(arguments)`.
    fn see_member(&mut self, call: Span, member: &MemberExpr, arguments: &[ExprOrSpread], is_asked: bool) {
        let Some((given, name)) = self.member(member) else { return };
        let called = Called { given, call, at: member.prop.span(), is_cast: is_cast(&member.obj) };
        self.see(called, name, arguments, is_asked);
    }

    fn see(&mut self, called: Called, name: String, arguments: &[ExprOrSpread], is_asked: bool) {
        if called.given.object == GivenObject::Api {
            self.see_arguments(called, &name, arguments);
        }
        if !is_asked {
            self.push(Used::Member { of: called.given.object, name, is_called: true }, called.at, called);
        }
    }

    /// Records the arguments that a call of a method of pi's API lacks.
    fn see_arguments(&mut self, called: Called, method: &str, arguments: &[ExprOrSpread]) {
        let first = arguments.first().filter(|first| first.spread.is_none()).map(|first| first.expr.as_ref());
        let needed = needed_by(method).filter(|needed| shows(arguments, needed.argument));
        let given = needed.map(|it| arguments.get(it.argument).map(|given| self.not_an_object(&given.expr)));
        if let (Some(needed), Some(given @ (None | Some(Some(_))))) = (needed, given)
            && (given.is_some() || needed.throws_without)
        {
            self.push(Used::NoArgument(needed, given.flatten()), called.at, called);
        } else if let Some(help) = self.missing_function(method, arguments) {
            self.push(Used::NoHandler(help), first.map_or(called.at, Spanned::span), called);
        }
        match (method, first) {
            ("on", Some(event)) => {
                if let Some(text) = self.bindings.text(plain(event)).filter(|text| text.whole) {
                    self.push(Used::Event(text.start), event.span(), called);
                }
            }
            ("registerTool", Some(tool)) => {
                let found = [self.wrong_parameters(tool), self.name_of_tool(tool)];
                found.into_iter().flatten().for_each(|(what, span)| self.push(what, span, called));
            }
            _ => {}
        }
    }

    /// Returns help for a call without the function that pi would call.
    fn missing_function(&self, method: &str, arguments: &[ExprOrSpread]) -> Option<&'static str> {
        let callback = callback_of(method).filter(|callback| shows(arguments, callback.argument))?;
        let function = match (arguments.get(callback.argument), callback.member) {
            (None, _) => None,
            (Some(argument), None) => Some(Some((*argument.expr).clone())),
            (Some(argument), Some(member)) => match self.object_literal(&argument.expr) {
                Some(object) => member_of(object, member),
                None => self.not_an_object(&argument.expr).map(|_| None)?,
            },
        };
        let is_none =
            function.is_none_or(|shown| shown.is_some_and(|it| matches!(self.names.kind(&it), ValueKind::Other(_))));
        is_none.then_some(callback.help)
    }

    /// Records a call of an imported function that receives an object of pi's.
    fn see_pass(&mut self, call: Span, callee: &Expr, arguments: &[ExprOrSpread]) {
        let given: Vec<Option<Given>> = arguments.iter().map(|argument| self.given(&argument.expr)).collect();
        let imported = match plain(callee) {
            Expr::Ident(name) => self.names.imported.get(&name.to_id()).cloned(),
            Expr::Member(member) => plain(&member.obj).as_ident().and_then(|module| {
                let (specifier, _) = self.names.imported.get(&module.to_id()).filter(|(_, name)| name == "*")?;
                Some((specifier.clone(), member_name(&member.prop)?))
            }),
            _ => None,
        };
        let Some((specifier, name)) = imported else { return };
        self.passes.push(Pass {
            specifier,
            name,
            only_in_entry: given.iter().flatten().any(|given| given.only_in_entry),
            arguments: given.into_iter().map(|given| Some(given?.object)).collect(),
            is_straight: self.straight.contains(&call) && self.tries == 0,
        });
    }

    /// Returns the object literal of an expression, or of the constant that it names.
    fn object_literal<'a>(&'a self, object: &'a Expr) -> Option<&'a ObjectLit> {
        match plain(object) {
            Expr::Ident(name) => self.names.tools.get(&name.to_id()),
            expr => tool_literal(expr),
        }
    }

    /// Returns the name of a tool, if the source shows it.
    fn name_of_tool(&self, tool: &Expr) -> Option<(Used, Span)> {
        let value = member_of(self.object_literal(tool)?, "name")??;
        let text = self.bindings.text(plain(&value)).filter(|text| text.whole)?;
        Some((Used::ToolName(text.start), value.span()))
    }

    /// Describes the kind of a tool's `parameters` if the source shows that they are not an object.
    fn wrong_parameters(&self, tool: &Expr) -> Option<(Used, Span)> {
        let Some(value) = member_of(self.object_literal(tool)?, "parameters") else {
            return Some((Used::Parameters("missing"), tool.span()));
        };
        let value = value?;
        Some((Used::Parameters(self.not_an_object(&value)?), value.span()))
    }

    /// Describes the kind of a value that is not an object.
    fn not_an_object(&self, value: &Expr) -> Option<&'static str> {
        Some(match self.names.kind(value) {
            ValueKind::Function(_) => "a function",
            ValueKind::Other("an object" | "a regular expression") => return None,
            ValueKind::Other(what) if what.starts_with("a class") => "a class",
            ValueKind::Other(what) => what,
            // A concatenated string.
            ValueKind::Unknown => self.bindings.text(plain(value)).map(|_| "a string")?,
        })
    }

    /// Returns the member of an object of pi's that an expression reads, with its position.
    fn read(&self, expr: &Expr) -> Option<(Called, String)> {
        let (given, member, at, is_cast) = match plain(expr) {
            Expr::Ident(name) => {
                let (given, member) = self.known.member(&name.to_id())?;
                (given, member, name.span, is_cast(expr))
            }
            Expr::Member(inner) => {
                let (given, member) = self.member(inner)?;
                (given, member, inner.prop.span(), is_cast(expr) || is_cast(&inner.obj))
            }
            _ => return None,
        };
        Some((Called { given, call: expr.span(), at, is_cast }, member))
    }

    fn mention(&mut self, member: Option<(Given, String)>) {
        self.mentioned.extend(member.map(|(given, name)| (given.object, name)));
    }

    fn member(&self, member: &MemberExpr) -> Option<(Given, String)> {
        Some((self.given(&member.obj)?, member_name(&member.prop)?))
    }
}

/// Returns whether the source shows the argument at a position, or shows that it is missing.
fn shows(arguments: &[ExprOrSpread], at: usize) -> bool {
    arguments.iter().take(at + 1).all(|argument| argument.spread.is_none())
}

/// Returns whether an object is cast to another type.
fn is_cast(object: &Expr) -> bool {
    !matches!(object, Expr::Ident(_) | Expr::Member(_))
}

impl Visit for ApiUseFinder<'_> {
    visit_places!();

    fn visit_function(&mut self, function: &Function) {
        let before = self.place.enter_function();
        function.visit_children_with(self);
        self.place = before;
    }

    fn visit_call_expr(&mut self, call: &CallExpr) {
        let callee = call.callee.as_expr().map(|callee| plain(callee));
        if let Some(callee) = callee {
            self.see_pass(call.span, callee, &call.args);
        }
        match callee {
            Some(Expr::Member(member)) if self.given(&member.obj).is_some() => {
                self.see_member(call.span, member, &call.args, false);
                // The member is called, so it is not recorded as mentioned.
                if let MemberProp::Computed(computed) = &member.prop {
                    computed.visit_with(self);
                }
                call.args.visit_with(self);
            }
            Some(Expr::Ident(name)) => {
                if let Some((given, member)) = self.known.member(&name.to_id()) {
                    let called = Called { given, call: call.span, at: name.span, is_cast: false };
                    self.see(called, member, &call.args, false);
                }
                call.args.visit_with(self);
            }
            _ => call.visit_children_with(self),
        }
    }

    fn visit_new_expr(&mut self, new: &NewExpr) {
        self.see_pass(new.span, &new.callee, new.args.as_deref().unwrap_or_default());
        new.visit_children_with(self);
    }

    fn visit_opt_call(&mut self, call: &OptCall) {
        if let Expr::Member(member) = plain(&call.callee) {
            self.see_member(call.span, member, &call.args, true);
        }
        call.visit_children_with(self);
    }

    fn visit_opt_chain_expr(&mut self, chain: &OptChainExpr) {
        match chain.base.as_ref() {
            // `ctx.MEMBER?.x` tests for the member.
            OptChainBase::Member(member) if chain.optional => {
                self.mention(self.member(member));
                member.visit_children_with(self);
            }
            _ => chain.visit_children_with(self),
        }
    }

    fn visit_var_declarator(&mut self, declarator: &VarDeclarator) {
        // `const held = ctx.MEMBER` mentions the member where `held` is mentioned.
        let is_part = declarator.name.as_ident().is_some_and(|name| self.known.member(&name.to_id()).is_some());
        if !is_part {
            declarator.visit_children_with(self);
        }
    }

    fn visit_expr(&mut self, expr: &Expr) {
        if let Expr::Ident(name) = expr {
            self.mention(self.known.member(&name.to_id()));
        }
        expr.visit_children_with(self);
    }

    fn visit_prop(&mut self, property: &Prop) {
        if let Prop::Shorthand(name) = property {
            self.mention(self.known.member(&name.to_id()));
        }
        property.visit_children_with(self);
    }

    fn visit_member_expr(&mut self, member: &MemberExpr) {
        self.mention(self.member(member));
        let Some((read, name)) = self.read(&member.obj) else { return member.visit_children_with(self) };
        // `ctx.MEMBER.x` fails without the member.
        let read = Called { call: member.span, ..read };
        self.push(Used::Member { of: read.given.object, name, is_called: false }, read.at, read);
        member.prop.visit_with(self);
    }

    fn visit_bin_expr(&mut self, binary: &BinExpr) {
        // `"registerLater" in pi` tests for the member.
        if binary.op == BinaryOp::In
            && let (Some(given), Some(text)) = (self.given(&binary.right), self.bindings.text(plain(&binary.left)))
        {
            self.mentioned.insert((given.object, text.start));
        }
        binary.visit_children_with(self);
    }

    fn visit_try_stmt(&mut self, statement: &TryStmt) {
        let is_caught = usize::from(statement.handler.is_some());
        self.tries += is_caught;
        statement.block.visit_with(self);
        self.tries -= is_caught;
        statement.handler.visit_with(self);
        statement.finalizer.visit_with(self);
    }

    fn visit_ts_type(&mut self, _: &TsType) {}
}
