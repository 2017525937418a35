//! First pass: the names of a module that hold an object of pi's, or a member of one.

use super::class_place::{ClassPlace, field, visit_places};
use super::name_facts::{CallGraph, ChangedNames, FieldValues, HandlerContexts, Part, PatternParts, TypedNames};
use crate::interface::GivenObject;
use crate::syntax::{export_name, member_name, plain, prop_name, property_name, text_of};
use pijs_node_compat::api::callback_of;
use std::collections::HashMap;
use swc_core::common::SyntaxContext;
use swc_core::ecma::ast::*;
use swc_core::ecma::visit::{Visit, VisitWith};

/// An object that a name holds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Given {
    pub(super) object: GivenObject,
    /// Whether the name holds that object only if the module is an entry.
    pub(super) only_in_entry: bool,
}

impl Given {
    /// Returns the object of pi's that is a member of this one.
    pub(super) fn part(self, member: &str) -> Option<Self> {
        Some(Self { object: self.object.part(member)?, ..self })
    }
}

/// The names that hold objects of pi's, and members of them.
#[derive(Default)]
pub(super) struct Known {
    objects: HashMap<Id, Given>,
    members: HashMap<Id, (Given, String)>,
}

impl Known {
    pub(super) fn object(&self, name: &Id) -> Option<Given> {
        self.objects.get(name).copied()
    }

    pub(super) fn member(&self, name: &Id) -> Option<(Given, String)> {
        self.members.get(name).cloned()
    }
}

/// The names of a module and their meanings. Sets and maps are only queried; iteration uses lists.
#[derive(Default)]
pub(super) struct Names {
    typed: TypedNames,
    contexts: HandlerContexts,
    /// `const a = b`.
    aliases: Vec<(Id, Id)>,
    parts: PatternParts,
    fields: FieldValues,
    changed: ChangedNames,
    pub(super) calls: CallGraph,
    /// The kinds of values that constants, functions and classes are declared as.
    declared: HashMap<Id, ValueKind>,
    /// Constants that hold a tool's object literal.
    pub(super) tools: HashMap<Id, ObjectLit>,
    /// Imported names of files, with the module and the export.
    pub(super) imported: HashMap<Id, (String, String)>,
    /// Constants that are instances of a class of the module.
    instances: HashMap<Id, Id>,
    place: ClassPlace,
}

/// The kind of a value, as far as the source shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ValueKind {
    /// A function, with the parameters that can be followed.
    Function(Vec<Option<Id>>),
    /// A value of another kind, with a description.
    Other(&'static str),
    Unknown,
}

impl Names {
    pub(super) fn of(program: &Program) -> Self {
        let mut patterns = Patterns::default();
        program.visit_with(&mut patterns);
        let (typed, parts) = (TypedNames::of(program), PatternParts::new(patterns.0));
        let mut names = Self { typed, parts, ..Self::default() };
        program.visit_with(&mut names);
        names.tools.retain(|name, _| !names.changed.extended.contains(name));
        names
    }

    /// Returns the names that hold an object of pi's, found from the parameter of the factory and those in `given`.
    pub(super) fn known(&self, factory: Option<&Id>, given: Vec<(Option<Id>, usize, Id, GivenObject)>) -> Known {
        let of_factory = |id: &Id| (id.clone(), Given { object: GivenObject::Api, only_in_entry: true });
        let mut known: HashMap<Id, Given> = factory.map(of_factory).into_iter().collect();
        let certain = |object: GivenObject| Given { object, only_in_entry: false };
        known.extend(self.typed.names().map(|(id, object)| (id.clone(), certain(*object))));
        loop {
            let before = known.len();
            for (function, at, parameter, object) in &given {
                if function.as_ref().is_none_or(|name| self.always_given(name, *at, *object, &known)) {
                    known.entry(parameter.clone()).or_insert(certain(*object));
                }
            }
            self.follow_names(&mut known);
            self.follow_handlers(&mut known);
            self.follow_calls(&mut known);
            if known.len() == before {
                break;
            }
        }
        known.retain(|id, _| !self.changed.assigned.contains(id) && !self.changed.extended.contains(id));
        let parts = self.parts.iter().filter(|part| !self.changed.assigned.contains(&part.local));
        let members = parts.filter_map(|part| Some((part.local.clone(), (*known.get(&part.of)?, part.member.clone()))));
        Known { members: members.collect(), objects: known }
    }

    fn follow_names(&self, known: &mut HashMap<Id, Given>) {
        for (alias, of) in &self.aliases {
            if let Some(given) = known.get(of).copied() {
                known.entry(alias.clone()).or_insert(given);
            }
        }
        for part in self.parts.iter() {
            if let Some(given) = known.get(&part.of).and_then(|given| given.part(&part.member)) {
                known.entry(part.local.clone()).or_insert(given);
            }
        }
        for (field, values) in self.fields.iter() {
            let held = |value: &Option<Id>| known.get(value.as_ref()?).copied();
            let mut values = values.iter();
            if let Some(Some(first)) = values.next().map(held)
                && values.all(|value| held(value).is_some_and(|given| given.object == first.object))
            {
                known.entry(field.clone()).or_insert(first);
            }
        }
    }

    fn follow_handlers(&self, known: &mut HashMap<Id, Given>) {
        let is_api = |given: &&Given| given.object == GivenObject::Api;
        for (api, parameter) in &self.contexts.parameters {
            if let Some(given) = known.get(api).filter(is_api).copied() {
                known.entry(parameter.clone()).or_insert(Given { object: GivenObject::Context, ..given });
            }
        }
        for (api, handler, at) in &self.contexts.handlers {
            let parameter = self.calls.parameters(handler).and_then(|parameters| parameters.get(*at)?.as_ref());
            // A handler that the module also calls directly may receive any argument.
            let is_called = self.calls.of(handler).next().is_some();
            if let (Some(given), Some(parameter), false) =
                (known.get(api).filter(is_api).copied(), parameter, is_called)
            {
                known.entry(parameter.clone()).or_insert(Given { object: GivenObject::Context, ..given });
            }
        }
    }

    fn follow_calls(&self, known: &mut HashMap<Id, Given>) {
        for (callee, arguments) in self.calls.iter() {
            let Some(parameters) = self.calls.parameters(callee) else { continue };
            for (at, parameter) in parameters.iter().enumerate() {
                let (Some(parameter), Some(Some(argument))) = (parameter, arguments.get(at)) else { continue };
                if let Some(given) = known.get(argument).copied()
                    && self.always_given(callee, at, given.object, known)
                {
                    known.entry(parameter.clone()).or_insert(given);
                }
            }
        }
    }

    /// Returns whether a name is never reassigned.
    pub(super) fn is_fixed(&self, name: &Id) -> bool {
        self.calls.parameters(name).is_some() && !self.changed.assigned.contains(name)
    }

    /// Returns the class whose instance a name holds.
    pub(super) fn class_of(&self, instance: &Id) -> Option<&Id> {
        self.instances.get(instance).filter(|_| !self.changed.assigned.contains(instance))
    }

    fn always_given(&self, callee: &Id, at: usize, object: GivenObject, known: &HashMap<Id, Given>) -> bool {
        self.calls.of(callee).all(|arguments| {
            let argument = arguments.get(at).and_then(|argument| known.get(argument.as_ref()?));
            argument.is_some_and(|given| given.object == object)
        })
    }

    fn see_parameter(&mut self, pattern: &Pat) {
        let annotation = match pattern {
            Pat::Ident(name) => &name.type_ann,
            Pat::Object(object) => &object.type_ann,
            _ => return,
        };
        self.typed.see(id_of(pattern), annotation.as_deref());
    }

    /// Returns the name of an object: as [`ClassPlace`] names it, or `a.ui` or a similar member of a name that may be a context.
    fn object(&mut self, expr: &Expr) -> Option<Id> {
        if let Some(name) = self.place.name(expr) {
            return Some(name);
        }
        let of = plain(expr).as_member()?;
        let member = member_name(&of.prop).filter(|member| GivenObject::Context.part(member).is_some())?;
        let of = self.place.name(&of.obj)?;
        let local = (format!("{}.{member}", of.0).into(), of.1);
        self.parts.add(Part { of, member, local: local.clone() });
        Some(local)
    }

    /// Records the context parameter of a function passed to `NAME.on(...)` or a similar method. Returns whether the call is one.
    fn see_handler(&mut self, callee: &Expr, arguments: &[ExprOrSpread]) -> bool {
        let called = match callee {
            Expr::Member(member) => self.place.name(&member.obj).zip(member_name(&member.prop)),
            Expr::Ident(name) => {
                let part = self.parts.of_pattern(&name.to_id());
                part.map(|part| (part.of.clone(), part.member.clone()))
            }
            _ => None,
        };
        let Some((api, method)) = called else { return false };
        let Some(callback) = callback_of(&method) else { return false };
        let argument = arguments.get(callback.argument).filter(|argument| argument.spread.is_none());
        let Some(argument) = argument else { return false };
        let mut see = |parameters: Vec<Option<Id>>| {
            let context = parameters.into_iter().nth(callback.context).flatten();
            self.contexts.parameters.extend(context.map(|context| (api.clone(), context)));
        };
        let handler = match callback.member {
            None => Some(plain(&argument.expr)),
            Some(inside) => {
                let object = tool_literal(&argument.expr);
                object.into_iter().flat_map(|object| &object.props).find_map(|prop| match prop.as_prop()?.as_ref() {
                    Prop::Method(method) if property_name(&method.key).as_deref() == Some(inside) => {
                        see(parameters(&method.function));
                        None
                    }
                    Prop::KeyValue(pair) if property_name(&pair.key).as_deref() == Some(inside) => {
                        Some(plain(&pair.value))
                    }
                    _ => None,
                })
            }
        };
        match handler {
            Some(Expr::Arrow(arrow)) => see(arrow.params.iter().map(id_of).collect()),
            Some(Expr::Fn(function)) => see(parameters(&function.function)),
            Some(Expr::Ident(name)) => self.contexts.handlers.push((api, name.to_id(), callback.context)),
            _ => {}
        }
        true
    }

    /// Records the declaration of a field.
    fn see_property(&mut self, field: Option<Id>, annotation: Option<&TsTypeAnn>, value: Option<&Expr>) {
        self.typed.see(field.clone(), annotation);
        if let Some(value) = value.filter(|value| !is_nothing(value)) {
            let value = self.object(value);
            self.fields.see(field, value);
        }
    }

    fn declare(&mut self, name: &Ident, kind: ValueKind) {
        if let ValueKind::Function(parameters) = &kind {
            self.calls.declare(name.to_id(), parameters.clone());
        }
        self.declared.insert(name.to_id(), kind);
    }

    pub(super) fn kind(&self, expr: &Expr) -> ValueKind {
        match plain(expr) {
            Expr::Arrow(arrow) => ValueKind::Function(arrow.params.iter().map(id_of).collect()),
            Expr::Fn(function) => ValueKind::Function(parameters(&function.function)),
            // pi's loader treats an object that holds the function in `default` as a CommonJS module.
            Expr::Object(object) if object.props.iter().all(|prop| is_plain_member(prop, "default")) => {
                ValueKind::Other("an object")
            }
            Expr::Array(_) => ValueKind::Other("an array"),
            Expr::Class(_) => ValueKind::Other("a class, which cannot be called without `new`"),
            Expr::Lit(Lit::Str(_)) | Expr::Tpl(_) => ValueKind::Other("a string"),
            Expr::Lit(Lit::Num(_)) => ValueKind::Other("a number"),
            Expr::Lit(Lit::Bool(_)) => ValueKind::Other("a boolean"),
            Expr::Lit(Lit::Null(_)) => ValueKind::Other("null"),
            Expr::Lit(Lit::Regex(_)) => ValueKind::Other("a regular expression"),
            Expr::Ident(ident) if ident.sym == *"undefined" => ValueKind::Other("undefined"),
            Expr::Ident(ident) if !self.changed.assigned.contains(&ident.to_id()) => {
                self.declared.get(&ident.to_id()).cloned().unwrap_or(ValueKind::Unknown)
            }
            _ => ValueKind::Unknown,
        }
    }
}

pub(super) fn parameters(function: &Function) -> Vec<Option<Id>> {
    function.params.iter().map(|parameter| id_of(&parameter.pat)).collect()
}

/// Returns the name of a parameter or a variable; a destructuring pattern gets a synthetic name.
pub(super) fn id_of(pattern: &Pat) -> Option<Id> {
    match pattern {
        Pat::Ident(name) => Some(name.to_id()),
        Pat::Object(object) => Some(unnamed(object)),
        _ => None,
    }
}

fn unnamed(pattern: &ObjectPat) -> Id {
    (format!("{{}} at {}", pattern.span.lo.0).into(), SyntaxContext::empty())
}

/// Returns the parameters of a class's constructor.
fn constructor(class: &Class) -> Vec<Option<Id>> {
    let constructor = class.body.iter().find_map(ClassMember::as_constructor);
    let parameters = constructor.into_iter().flat_map(|constructor| &constructor.params);
    let name = |parameter: &ParamOrTsParamProp| match parameter {
        ParamOrTsParamProp::Param(parameter) => id_of(&parameter.pat),
        ParamOrTsParamProp::TsParamProp(property) => property.param.as_ident().map(BindingIdent::to_id),
    };
    parameters.map(name).collect()
}

/// Returns whether a member has a known name other than `name`.
pub(super) fn is_plain_member(prop: &PropOrSpread, name: &str) -> bool {
    prop.as_prop().and_then(|prop| prop_name(prop)).is_some_and(|key| key != name)
}

/// Returns the value of an object's member: `None` if the object has no such member, `Some(None)` if the source does not show it.
pub(super) fn member_of(object: &ObjectLit, name: &str) -> Option<Option<Expr>> {
    let found = object.props.iter().rev().find(|prop| !is_plain_member(prop, name))?;
    Some(match found.as_prop().map(Box::as_ref) {
        Some(Prop::KeyValue(pair)) if property_name(&pair.key).is_some() => Some((*pair.value).clone()),
        Some(Prop::Shorthand(value)) => Some(Expr::Ident(value.clone())),
        _ => None,
    })
}

impl Visit for Names {
    fn visit_function(&mut self, function: &Function) {
        function.params.iter().for_each(|parameter| self.see_parameter(&parameter.pat));
        let before = self.place.enter_function();
        function.visit_children_with(self);
        self.place = before;
    }

    fn visit_arrow_expr(&mut self, arrow: &ArrowExpr) {
        arrow.params.iter().for_each(|parameter| self.see_parameter(parameter));
        arrow.visit_children_with(self);
    }

    fn visit_fn_decl(&mut self, declaration: &FnDecl) {
        self.declare(&declaration.ident, ValueKind::Function(parameters(&declaration.function)));
        declaration.visit_children_with(self);
    }

    fn visit_class_decl(&mut self, declaration: &ClassDecl) {
        self.declare(&declaration.ident, ValueKind::Other("a class, which cannot be called without `new`"));
        self.calls.declare(declaration.ident.to_id(), constructor(&declaration.class));
        declaration.visit_children_with(self);
    }

    visit_places!();

    fn visit_class_prop(&mut self, property: &ClassProp) {
        if let (Some(class), Some(name), false) = (self.place.class, property_name(&property.key), property.is_static) {
            self.see_property(field(class, &name), property.type_ann.as_deref(), property.value.as_deref());
        }
        property.visit_children_with(self);
    }

    fn visit_private_prop(&mut self, property: &PrivateProp) {
        if let (Some(class), false) = (self.place.class, property.is_static) {
            let name = field(class, &format!("#{}", property.key.name));
            self.see_property(name, property.type_ann.as_deref(), property.value.as_deref());
        }
        property.visit_children_with(self);
    }

    /// `constructor(private pi: ExtensionAPI)`.
    fn visit_ts_param_prop(&mut self, property: &TsParamProp) {
        if let (Some(class), TsParamPropParam::Ident(name)) = (self.place.class, &property.param) {
            self.typed.see(Some(name.to_id()), name.type_ann.as_deref());
            self.fields.see(field(class, &name.sym), Some(name.to_id()));
        }
        property.visit_children_with(self);
    }

    fn visit_constructor(&mut self, constructor: &Constructor) {
        let parameters = constructor.params.iter().filter_map(ParamOrTsParamProp::as_param);
        parameters.for_each(|parameter| self.see_parameter(&parameter.pat));
        constructor.visit_children_with(self);
    }

    fn visit_import_decl(&mut self, import: &ImportDecl) {
        let module = text_of(&import.src);
        if import.type_only || !module.starts_with('.') {
            return;
        }
        for specifier in &import.specifiers {
            let name = match specifier {
                ImportSpecifier::Named(named) if named.is_type_only => continue,
                ImportSpecifier::Named(named) => {
                    named.imported.as_ref().map_or_else(|| named.local.sym.to_string(), export_name)
                }
                ImportSpecifier::Default(_) => "default".to_owned(),
                ImportSpecifier::Namespace(_) => "*".to_owned(),
            };
            self.imported.insert(specifier.local().to_id(), (module.clone(), name));
        }
    }

    fn visit_var_decl(&mut self, declaration: &VarDecl) {
        for declarator in &declaration.decls {
            let Some(init) = &declarator.init else { continue };
            if let (Some(name), Some(of)) = (id_of(&declarator.name), self.object(init)) {
                self.aliases.push((name, of));
            }
            let Pat::Ident(name) = &declarator.name else { continue };
            if let Expr::Member(part) = init.as_ref()
                && let (Some(of), Some(member)) = (self.object(&part.obj), member_name(&part.prop))
            {
                self.parts.add(Part { of, member, local: name.to_id() });
            }
            if let Expr::New(new) = plain(init)
                && let Expr::Ident(class) = plain(&new.callee)
            {
                self.instances.insert(name.to_id(), class.to_id());
            }
            let kind = self.kind(init);
            if declaration.kind == VarDeclKind::Const || matches!(kind, ValueKind::Function(_)) {
                self.declare(&name.id, kind);
            }
            if let Some(tool) = tool_literal(init).filter(|_| declaration.kind == VarDeclKind::Const) {
                self.tools.insert(name.to_id(), tool.clone());
            }
        }
        declaration.visit_children_with(self);
    }

    fn visit_assign_expr(&mut self, assign: &AssignExpr) {
        match &assign.left {
            AssignTarget::Simple(SimpleAssignTarget::Ident(name)) => _ = self.changed.assigned.insert(name.to_id()),
            AssignTarget::Simple(SimpleAssignTarget::Member(member)) => {
                if let Some(object) = self.place.name(&member.obj) {
                    // `parameters` of a tool may be assigned later, and so may a member of pi.
                    self.tools.remove(&object);
                    if member_name(&member.prop).is_none() {
                        self.changed.extended.insert(object);
                    }
                }
                let field = self.place.name(&Expr::Member(member.clone()));
                // A field that is reset to nothing is not called afterwards.
                if !is_nothing(&assign.right) {
                    let value = self.object(&assign.right);
                    self.fields.see(field, value);
                }
            }
            _ => {}
        }
        assign.visit_children_with(self);
    }

    fn visit_call_expr(&mut self, call: &CallExpr) {
        if let Callee::Expr(callee) = &call.callee {
            match plain(callee) {
                callee if self.see_handler(callee, &call.args) => {}
                Expr::Ident(name) => self.calls.call(name.to_id(), self.place.names(&call.args)),
                // `Object.assign(pi, {...})` and `Object.defineProperty(pi, ...)`.
                Expr::Member(member) if matches!(plain(&member.obj), Expr::Ident(of) if of.sym == *"Object" || of.sym == *"Reflect") =>
                {
                    self.changed.extended.extend(self.place.names(&call.args).into_iter().next().flatten());
                }
                _ => {}
            }
        }
        call.visit_children_with(self);
    }

    fn visit_new_expr(&mut self, new: &NewExpr) {
        if let Expr::Ident(class) = plain(&new.callee) {
            self.calls.call(class.to_id(), self.place.names(new.args.as_deref().unwrap_or_default()));
        }
        new.visit_children_with(self);
    }

    fn visit_ts_type(&mut self, _: &TsType) {}
}

/// Finds the parts that patterns take out of objects.
#[derive(Default)]
struct Patterns(Vec<Part>);

impl Visit for Patterns {
    fn visit_object_pat(&mut self, pattern: &ObjectPat) {
        let of = unnamed(pattern);
        for property in &pattern.props {
            let (member, local) = match property {
                // A member with a default value may be missing.
                ObjectPatProp::Assign(assign) if assign.value.is_some() => continue,
                ObjectPatProp::Assign(assign) => (Some(assign.key.sym.to_string()), Some(assign.key.to_id())),
                ObjectPatProp::KeyValue(pair) => (property_name(&pair.key), id_of(&pair.value)),
                ObjectPatProp::Rest(_) => continue,
            };
            if let (Some(member), Some(local)) = (member, local) {
                self.0.push(Part { of: of.clone(), member, local });
            }
        }
        pattern.visit_children_with(self);
    }

    fn visit_ts_type(&mut self, _: &TsType) {}
}

/// Returns whether an expression is `null` or `undefined`.
fn is_nothing(expr: &Expr) -> bool {
    match plain(expr) {
        Expr::Lit(Lit::Null(_)) => true,
        Expr::Ident(ident) => ident.sym == *"undefined",
        _ => false,
    }
}

/// Returns the object of `{...}`, also as the argument of `defineTool({...})`, which returns it.
pub(super) fn tool_literal(expr: &Expr) -> Option<&ObjectLit> {
    match plain(expr) {
        Expr::Object(object) => Some(object),
        Expr::Call(call) => match &call.callee {
            Callee::Expr(callee) if matches!(plain(callee), Expr::Ident(name) if name.sym == *"defineTool") => {
                call.args.first().and_then(|first| plain(&first.expr).as_object())
            }
            _ => None,
        },
        _ => None,
    }
}
