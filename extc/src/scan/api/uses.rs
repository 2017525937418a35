//! Second pass: finds the uses of the names of the first pass.

use super::super::bindings::Bindings;
use super::class_place::ClassPlace;
use super::names::{Given, Known, Names, ValueKind, is_plain_member, tool_literal};
use super::{ApiUse, Pass, Used};
use crate::interface::GivenObject;
use crate::parse::Parsed;
use crate::syntax::{member_name, plain, property_name};
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
        |what: &Used| matches!(what, Used::Call(object, member) if mentioned.contains(&(*object, member.clone())));
    found.retain(|used| !is_asked_for(&used.what));
    (found, passes)
}

struct ApiUseFinder<'a> {
    parsed: &'a Parsed,
    bindings: &'a Bindings,
    names: &'a Names,
    known: Known,
    /// Calls that the factory runs unconditionally.
    straight: HashSet<Span>,
    place: ClassPlace,
    /// Depth of enclosing `try` blocks.
    tries: usize,
    /// Members that are mentioned without a call.
    mentioned: BTreeSet<(GivenObject, String)>,
    found: Vec<ApiUse>,
    passes: Vec<Pass>,
}

/// A call of a member of an object of pi's.
#[derive(Clone, Copy)]
struct Called {
    given: Given,
    call: Span,
    /// Span of the called name.
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
            Expr::Member(member) if member_name(&member.prop).as_deref() == Some("ui") => {
                let context = self.given(&member.obj).filter(|given| given.object == GivenObject::Context)?;
                Some(Given { object: GivenObject::Ui, ..context })
            }
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

    /// Records `pi.MEMBER(arguments)`; `is_asked`: `pi.MEMBER?.(arguments)`.
    fn see_member(&mut self, call: Span, member: &MemberExpr, arguments: &[ExprOrSpread], is_asked: bool) {
        let (Some(given), Some(name)) = (self.given(&member.obj), member_name(&member.prop)) else { return };
        let is_cast = !matches!(member.obj.as_ref(), Expr::Ident(_) | Expr::Member(_));
        self.see(Called { given, call, at: member.prop.span(), is_cast }, name, arguments, is_asked);
    }

    fn see(&mut self, called: Called, name: String, arguments: &[ExprOrSpread], is_asked: bool) {
        let first = arguments.first().filter(|first| first.spread.is_none());
        match (name.as_str(), first.filter(|_| called.given.object == GivenObject::Api)) {
            ("on", Some(event)) => {
                if let Some(text) = self.bindings.text(plain(&event.expr)).filter(|text| text.whole) {
                    self.push(Used::Event(text.start), event.expr.span(), called);
                }
                if arguments.len() == 1 {
                    let what = "an event is listened to with a function: `pi.on(EVENT, (event, ctx) => { ... })`";
                    self.push(Used::NoHandler(what), event.expr.span(), called);
                }
            }
            ("registerCommand", Some(name)) => {
                let options = arguments.get(1).filter(|options| options.spread.is_none());
                let object = options.and_then(|options| plain(&options.expr).as_object());
                let is_other = |prop: &PropOrSpread| is_plain_member(prop, "handler");
                if arguments.len() == 1 || object.is_some_and(|object| object.props.iter().all(is_other)) {
                    let what = "a command has a handler: `{ handler: async (args, ctx) => { ... } }`";
                    self.push(Used::NoHandler(what), name.expr.span(), called);
                }
            }
            ("registerTool", Some(tool)) => {
                if let Some((what, span)) = self.wrong_parameters(&tool.expr) {
                    self.push(Used::Parameters(what), span, called);
                }
                if let Some((name, span)) = self.name_of_tool(&tool.expr) {
                    self.push(Used::ToolName(name), span, called);
                }
            }
            _ => {}
        }
        if !is_asked {
            self.push(Used::Call(called.given.object, name), called.at, called);
        }
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

    fn tool<'a>(&'a self, tool: &'a Expr) -> Option<&'a ObjectLit> {
        match plain(tool) {
            Expr::Ident(name) => self.names.tools.get(&name.to_id()),
            expr => tool_literal(expr),
        }
    }

    /// Returns the name of a tool, if the source shows it.
    fn name_of_tool(&self, tool: &Expr) -> Option<(String, Span)> {
        // A spread may override the name.
        let members = self.tool(tool)?.props.iter().rev().map_while(PropOrSpread::as_prop);
        let mut values = members.filter_map(|prop| match prop.as_ref() {
            Prop::KeyValue(pair) if property_name(&pair.key).as_deref() == Some("name") => Some((*pair.value).clone()),
            Prop::Shorthand(name) if name.sym == *"name" => Some(Expr::Ident(name.clone())),
            _ => None,
        });
        let value = values.next()?;
        let text = self.bindings.text(plain(&value)).filter(|text| text.whole)?;
        Some((text.start, value.span()))
    }

    /// Describes the kind of a tool's `parameters`, if the source shows that they are no object.
    fn wrong_parameters(&self, tool: &Expr) -> Option<(&'static str, Span)> {
        let tool_object = self.tool(tool)?;
        let value = tool_object.props.iter().rev().find_map(|prop| match prop {
            PropOrSpread::Spread(_) => Some(None),
            PropOrSpread::Prop(prop) => match prop.as_ref() {
                Prop::KeyValue(pair) => {
                    (property_name(&pair.key)? == "parameters").then(|| Some((*pair.value).clone()))
                }
                Prop::Shorthand(name) => (name.sym == *"parameters").then(|| Some(Expr::Ident(name.clone()))),
                Prop::Method(method) => (property_name(&method.key)? == "parameters").then_some(None),
                Prop::Getter(_) | Prop::Setter(_) | Prop::Assign(_) => Some(None),
            },
        });
        let has_computed = tool_object.props.iter().any(|prop| !is_plain_member(prop, ""));
        match value {
            Some(Some(value)) => {
                let what = match self.names.kind(&value) {
                    ValueKind::Function(_) => "a function",
                    ValueKind::Other("an object" | "a regular expression") => return None,
                    ValueKind::Other(what) if what.starts_with("a class") => "a class",
                    ValueKind::Other(what) => what,
                    // A concatenated string.
                    ValueKind::Unknown => self.bindings.text(plain(&value)).map(|_| "a string")?,
                };
                Some((what, value.span()))
            }
            Some(None) => None,
            None if has_computed => None,
            None => Some(("missing", tool.span())),
        }
    }
}

impl Visit for ApiUseFinder<'_> {
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
                // The member is called, not only mentioned.
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

    fn visit_expr(&mut self, expr: &Expr) {
        if let Expr::Ident(name) = expr
            && let Some((given, member)) = self.known.member(&name.to_id())
        {
            self.mentioned.insert((given.object, member));
        }
        expr.visit_children_with(self);
    }

    fn visit_prop(&mut self, property: &Prop) {
        if let Prop::Shorthand(name) = property
            && let Some((given, member)) = self.known.member(&name.to_id())
        {
            self.mentioned.insert((given.object, member));
        }
        property.visit_children_with(self);
    }

    fn visit_member_expr(&mut self, member: &MemberExpr) {
        if let (Some(given), Some(name)) = (self.given(&member.obj), member_name(&member.prop)) {
            self.mentioned.insert((given.object, name));
        }
        member.visit_children_with(self);
    }

    fn visit_bin_expr(&mut self, binary: &BinExpr) {
        // `"registerLater" in pi`
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
