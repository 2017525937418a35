//! Uses of pi's API that can be wrong in a way that the source shows: members, events, schemas, the default export.
//!
//! Only what is pi's API for certain counts: a parameter of type `ExtensionAPI`, imported from pi's package; the parameter of
//! the function that an entry exports; names that stand for one of them; and parameters of this module's functions that are
//! always given one. The same holds of contexts, which handlers, commands and tools get. A member that is mentioned without a call is being asked for, so calls of it are left alone, and so
//! is everything where the object is extended.
//!
//! ```text
//! pi.registerTol({...})                     Call Api "registerTol"
//! ctx.ui.notfy("done")                      Call Ui "notfy"
//! if (pi.registerLater) pi.registerLater()  nothing
//! pi.on("sesion_start", ...)                Event "sesion_start"
//! pi.registerTool({ parameters: "{}" })     Parameters "a string"
//! ```

use super::bindings::{Bindings, export_name, member_name, property_name, text_of};
use super::straight::straight_calls;
use super::walk::plain;
use crate::interface::{GivenObject, HostName};
use crate::parse::Parsed;
use std::collections::{BTreeSet, HashMap, HashSet};
use swc_core::common::{Span, Spanned};
use swc_core::ecma::ast::*;
use swc_core::ecma::visit::{Visit, VisitWith};

/// Types of pi's package, by the object that they describe.
const TYPES: [(&str, GivenObject); 3] = [
    ("ExtensionAPI", GivenObject::Api),
    ("ExtensionContext", GivenObject::Context),
    ("ExtensionCommandContext", GivenObject::Context),
];

/// Methods of pi's API that take a function with a context: the method, its argument, the member of that argument that is
/// the function (empty: the argument itself), and which of its parameters the context is.
const TAKES_CONTEXT: [(&str, usize, &str, usize); 4] = [
    ("on", 1, "", 1),
    ("registerCommand", 1, "handler", 1),
    ("registerShortcut", 1, "handler", 0),
    ("registerTool", 0, "execute", 4),
];

/// pi's package.
const PI: &str = "@earendil-works/pi-coding-agent";

/// The uses that one module makes of pi's API.
#[derive(Debug, Clone, Default)]
pub(crate) struct ApiUses {
    pub(crate) uses: Vec<ApiUse>,
    /// What is wrong with its default export, if it is an entry.
    pub(crate) default: Option<WrongDefault>,
}

/// One use, with its place.
#[derive(Debug, Clone)]
pub(crate) struct ApiUse {
    pub(crate) what: Used,
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// It is pi's API if the module is an entry, whose function pi calls.
    pub(crate) only_in_entry: bool,
    /// Failure is expected: it stands in a `try`, or the object is cast to another type.
    pub(crate) is_tried: bool,
    /// It runs whenever the module's factory does.
    pub(crate) is_straight: bool,
}

/// What is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Used {
    /// A call of a member.
    Call(GivenObject, String),
    /// An event that is listened to.
    Event(String),
    /// `parameters` of a tool that are no object, in words.
    Parameters(&'static str),
    /// An event or a command without a function that handles it.
    NoHandler(&'static str),
}

/// A default export that is no function.
#[derive(Debug, Clone)]
pub(crate) struct WrongDefault {
    /// What there is in its place; nothing if there is none.
    pub(crate) what: Option<&'static str>,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// Finds them in a module whose scopes are resolved.
pub(super) fn api_uses(parsed: &Parsed, bindings: &Bindings) -> ApiUses {
    let mut names = Names { types: api_types(&parsed.program), ..Names::default() };
    parsed.program.visit_with(&mut names);
    let exported = Exported::of(parsed, &names, bindings);
    let known = names.known(exported.factory.as_ref());
    let is_fixed = |name: &Id| names.functions.contains_key(name) && !names.assigned.contains(name);
    let straight = exported.factory.as_ref().map(|factory| straight_calls(&parsed.program, factory, is_fixed));
    let straight = straight.unwrap_or_default();
    let (mentioned, found) = Default::default();
    let mut uses = Uses { parsed, bindings, names: &names, known, straight, tries: 0, mentioned, found };
    parsed.program.visit_with(&mut uses);
    let Uses { mentioned, mut found, .. } = uses;
    let is_asked_for =
        |what: &Used| matches!(what, Used::Call(object, member) if mentioned.contains(&(*object, member.clone())));
    found.retain(|used| !is_asked_for(&used.what));
    ApiUses { uses: found, default: exported.wrong }
}

/// The names under which the module imports types of [`TYPES`] from pi.
fn api_types(program: &Program) -> HashMap<String, GivenObject> {
    let Program::Module(module) = program else { return HashMap::new() };
    let imports = module.body.iter().filter_map(|item| item.as_module_decl()?.as_import());
    let from_pi =
        imports.filter(|import| HostName::of(&text_of(&import.src)) == Some(HostName::Package(PI.to_owned())));
    let named = from_pi.flat_map(|import| &import.specifiers).filter_map(ImportSpecifier::as_named);
    let described = named.filter_map(|named| {
        let imported = named.imported.as_ref().map_or_else(|| named.local.sym.to_string(), export_name);
        let (_, object) = TYPES.iter().find(|(name, _)| *name == imported)?;
        Some((named.local.sym.to_string(), *object))
    });
    described.collect()
}

/// An object that a name holds.
#[derive(Debug, Clone, Copy)]
struct Given {
    object: GivenObject,
    /// It is that object if the module is an entry.
    only_in_entry: bool,
}

/// What the names of a module stand for. Sets and maps are looked up; what is iterated is a list.
#[derive(Default)]
struct Names {
    types: HashMap<String, GivenObject>,
    /// Parameters of such a type.
    typed: Vec<(Id, GivenObject)>,
    /// Parameters that are contexts if the first name holds pi's API.
    contexts: Vec<(Id, Id)>,
    /// Functions that are given to a method of the first name, with the parameter that is the context if that is pi's API.
    handlers: Vec<(Id, Id, usize)>,
    /// `const a = b`
    aliases: Vec<(Id, Id)>,
    /// Names that are assigned to, and so may be anything.
    assigned: HashSet<Id>,
    /// Parameters of functions, by the function's name; `None` where one is a pattern.
    functions: HashMap<Id, Vec<Option<Id>>>,
    /// Arguments of calls of a name; `None` where one is no plain name.
    calls: Vec<(Id, Vec<Option<Id>>)>,
    /// What constants, functions and classes are declared as.
    declared: HashMap<Id, Kind>,
    /// Tools in constants.
    tools: HashMap<Id, ObjectLit>,
    /// Objects that are given more members.
    extended: HashSet<Id>,
}

/// What a value is, as far as the source shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// With the parameters that are plain names.
    Function(Vec<Option<Id>>),
    /// In words.
    Other(&'static str),
    Unknown,
}

impl Names {
    /// The names that hold an object of pi's.
    fn known(&self, factory: Option<&Id>) -> HashMap<Id, Given> {
        let of_factory = |id: &Id| (id.clone(), Given { object: GivenObject::Api, only_in_entry: true });
        let mut known: HashMap<Id, Given> = factory.map(of_factory).into_iter().collect();
        known.extend(
            self.typed.iter().map(|(id, object)| (id.clone(), Given { object: *object, only_in_entry: false })),
        );
        loop {
            let before = known.len();
            for (alias, of) in &self.aliases {
                if let Some(given) = known.get(of).copied() {
                    known.entry(alias.clone()).or_insert(given);
                }
            }
            let is_api = |given: &&Given| given.object == GivenObject::Api;
            for (api, parameter) in &self.contexts {
                if let Some(given) = known.get(api).filter(is_api).copied() {
                    known.entry(parameter.clone()).or_insert(Given { object: GivenObject::Context, ..given });
                }
            }
            for (api, handler, at) in &self.handlers {
                let parameter = self.functions.get(handler).and_then(|parameters| parameters.get(*at)?.as_ref());
                // One that is called here, too, may be given anything.
                let is_called = self.calls.iter().any(|(called, _)| called == handler);
                if let (Some(given), Some(parameter), false) =
                    (known.get(api).filter(is_api).copied(), parameter, is_called)
                {
                    known.entry(parameter.clone()).or_insert(Given { object: GivenObject::Context, ..given });
                }
            }
            for (callee, arguments) in &self.calls {
                let Some(parameters) = self.functions.get(callee) else { continue };
                for (at, parameter) in parameters.iter().enumerate() {
                    let (Some(parameter), Some(Some(argument))) = (parameter, arguments.get(at)) else { continue };
                    if let Some(given) = known.get(argument).copied()
                        && self.always_given(callee, at, given.object, &known)
                    {
                        known.entry(parameter.clone()).or_insert(given);
                    }
                }
            }
            if known.len() == before {
                break;
            }
        }
        known.retain(|id, _| !self.assigned.contains(id) && !self.extended.contains(id));
        known
    }

    fn always_given(&self, callee: &Id, at: usize, object: GivenObject, known: &HashMap<Id, Given>) -> bool {
        let mut calls = self.calls.iter().filter(|(called, _)| called == callee);
        calls.all(|(_, arguments)| {
            let argument = arguments.get(at).and_then(|argument| known.get(argument.as_ref()?));
            argument.is_some_and(|given| given.object == object)
        })
    }

    fn see_parameter(&mut self, pattern: &Pat) {
        let Pat::Ident(name) = pattern else { return };
        let Some(TsType::TsTypeRef(reference)) = name.type_ann.as_ref().map(|annotation| annotation.type_ann.as_ref())
        else {
            return;
        };
        if let TsEntityName::Ident(ident) = &reference.type_name
            && let Some(object) = self.types.get(&*ident.sym)
        {
            self.typed.push((name.to_id(), *object));
        }
    }

    /// Notes the context of a function that is given to `NAME.on(...)` and its like; whether it is such a call.
    fn see_handler(&mut self, member: &MemberExpr, arguments: &[ExprOrSpread]) -> bool {
        let (Expr::Ident(api), Some(method)) = (plain(&member.obj), member_name(&member.prop)) else { return false };
        let Some((_, at, inside, parameter)) = TAKES_CONTEXT.iter().find(|(name, ..)| *name == method) else {
            return false;
        };
        let Some(argument) = arguments.get(*at).filter(|argument| argument.spread.is_none()) else { return false };
        let api = api.to_id();
        let mut see = |parameters: Vec<Option<Id>>| {
            let context = parameters.into_iter().nth(*parameter).flatten();
            self.contexts.extend(context.map(|context| (api.clone(), context)));
        };
        let handler = if inside.is_empty() {
            Some(plain(&argument.expr))
        } else {
            let object = tool_literal(&argument.expr);
            object.into_iter().flat_map(|object| &object.props).find_map(|prop| match prop.as_prop()?.as_ref() {
                Prop::Method(method) if property_name(&method.key).as_deref() == Some(*inside) => {
                    see(parameters(&method.function));
                    None
                }
                Prop::KeyValue(pair) if property_name(&pair.key).as_deref() == Some(*inside) => {
                    Some(plain(&pair.value))
                }
                _ => None,
            })
        };
        match handler {
            Some(Expr::Arrow(arrow)) => see(arrow.params.iter().map(name_of).collect()),
            Some(Expr::Fn(function)) => see(parameters(&function.function)),
            Some(Expr::Ident(name)) => self.handlers.push((api, name.to_id(), *parameter)),
            _ => {}
        }
        true
    }

    fn declare(&mut self, name: &Ident, kind: Kind) {
        if let Kind::Function(parameters) = &kind {
            self.functions.insert(name.to_id(), parameters.clone());
        }
        self.declared.insert(name.to_id(), kind);
    }

    fn kind(&self, expr: &Expr) -> Kind {
        match plain(expr) {
            Expr::Arrow(arrow) => Kind::Function(arrow.params.iter().map(name_of).collect()),
            Expr::Fn(function) => Kind::Function(parameters(&function.function)),
            // One that keeps the function one level down is a CommonJS module to pi's loader.
            Expr::Object(object) if object.props.iter().all(|prop| is_plain_member(prop, "default")) => {
                Kind::Other("an object")
            }
            Expr::Array(_) => Kind::Other("an array"),
            Expr::Class(_) => Kind::Other("a class, which cannot be called without `new`"),
            Expr::Lit(Lit::Str(_)) | Expr::Tpl(_) => Kind::Other("a string"),
            Expr::Lit(Lit::Num(_)) => Kind::Other("a number"),
            Expr::Lit(Lit::Bool(_)) => Kind::Other("a boolean"),
            Expr::Lit(Lit::Null(_)) => Kind::Other("null"),
            Expr::Lit(Lit::Regex(_)) => Kind::Other("a regular expression"),
            Expr::Ident(ident) if ident.sym == *"undefined" => Kind::Other("undefined"),
            Expr::Ident(ident) if !self.assigned.contains(&ident.to_id()) => {
                self.declared.get(&ident.to_id()).cloned().unwrap_or(Kind::Unknown)
            }
            _ => Kind::Unknown,
        }
    }
}

fn parameters(function: &Function) -> Vec<Option<Id>> {
    function.params.iter().map(|parameter| name_of(&parameter.pat)).collect()
}

fn name_of(pattern: &Pat) -> Option<Id> {
    pattern.as_ident().map(BindingIdent::to_id)
}

/// Whether a member has a known name, and another one than `name`.
fn is_plain_member(prop: &PropOrSpread, name: &str) -> bool {
    let PropOrSpread::Prop(prop) = prop else { return false };
    let key = match prop.as_ref() {
        Prop::Shorthand(ident) => Some(ident.sym.to_string()),
        Prop::KeyValue(pair) => property_name(&pair.key),
        Prop::Method(method) => property_name(&method.key),
        Prop::Getter(_) | Prop::Setter(_) | Prop::Assign(_) => None,
    };
    key.is_some_and(|key| key != name)
}

impl Visit for Names {
    fn visit_function(&mut self, function: &Function) {
        function.params.iter().for_each(|parameter| self.see_parameter(&parameter.pat));
        function.visit_children_with(self);
    }

    fn visit_arrow_expr(&mut self, arrow: &ArrowExpr) {
        arrow.params.iter().for_each(|parameter| self.see_parameter(parameter));
        arrow.visit_children_with(self);
    }

    fn visit_fn_decl(&mut self, declaration: &FnDecl) {
        self.declare(&declaration.ident, Kind::Function(parameters(&declaration.function)));
        declaration.visit_children_with(self);
    }

    fn visit_class_decl(&mut self, declaration: &ClassDecl) {
        self.declare(&declaration.ident, Kind::Other("a class, which cannot be called without `new`"));
        declaration.visit_children_with(self);
    }

    fn visit_var_decl(&mut self, declaration: &VarDecl) {
        for declarator in &declaration.decls {
            let (Pat::Ident(name), Some(init)) = (&declarator.name, &declarator.init) else { continue };
            if let Expr::Ident(of) = plain(init) {
                self.aliases.push((name.to_id(), of.to_id()));
            }
            let kind = self.kind(init);
            if declaration.kind == VarDeclKind::Const || matches!(kind, Kind::Function(_)) {
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
            AssignTarget::Simple(SimpleAssignTarget::Ident(name)) => _ = self.assigned.insert(name.to_id()),
            AssignTarget::Simple(SimpleAssignTarget::Member(member)) => {
                if let Expr::Ident(object) = plain(&member.obj) {
                    // Of a tool, `parameters` may come later; of pi, another member.
                    self.tools.remove(&object.to_id());
                    if member_name(&member.prop).is_none() {
                        self.extended.insert(object.to_id());
                    }
                }
            }
            _ => {}
        }
        assign.visit_children_with(self);
    }

    fn visit_call_expr(&mut self, call: &CallExpr) {
        if let Callee::Expr(callee) = &call.callee {
            let argument = |argument: &ExprOrSpread| match plain(&argument.expr) {
                Expr::Ident(ident) if argument.spread.is_none() => Some(ident.to_id()),
                _ => None,
            };
            match plain(callee) {
                Expr::Ident(name) => self.calls.push((name.to_id(), call.args.iter().map(argument).collect())),
                Expr::Member(member) if self.see_handler(member, &call.args) => {}
                // `Object.assign(pi, {...})`, `Object.defineProperty(pi, ...)`
                Expr::Member(member) if matches!(plain(&member.obj), Expr::Ident(of) if of.sym == *"Object" || of.sym == *"Reflect") =>
                {
                    self.extended.extend(call.args.first().and_then(argument));
                }
                _ => {}
            }
        }
        call.visit_children_with(self);
    }

    fn visit_ts_type(&mut self, _: &TsType) {}
}

/// The object of `{...}` and of `defineTool({...})`, which returns what it is given.
fn tool_literal(expr: &Expr) -> Option<&ObjectLit> {
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

/// The default export of a module.
struct Exported {
    /// The parameter of the function, if it is a plain name.
    factory: Option<Id>,
    wrong: Option<WrongDefault>,
}

impl Exported {
    fn of(parsed: &Parsed, names: &Names, bindings: &Bindings) -> Self {
        let (items, has_declarations) = match &parsed.program {
            Program::Module(module) => (module.body.as_slice(), exports_anything(module)),
            Program::Script(_) => (&[][..], false),
        };
        for declaration in items.iter().filter_map(ModuleItem::as_module_decl) {
            let (kind, span) = match declaration {
                ModuleDecl::ExportDefaultExpr(export) => (names.kind(&export.expr), export.expr.span()),
                ModuleDecl::ExportDefaultDecl(export) => match &export.decl {
                    DefaultDecl::Fn(function) => (Kind::Function(parameters(&function.function)), export.span),
                    DefaultDecl::Class(_) => {
                        (Kind::Other("a class, which cannot be called without `new`"), export.span)
                    }
                    // A type, of which nothing is there at run time.
                    DefaultDecl::TsInterfaceDecl(_) => continue,
                },
                ModuleDecl::TsExportAssignment(export) => (names.kind(&export.expr), export.expr.span()),
                ModuleDecl::ExportNamed(export) if !export.type_only => match default_of(export) {
                    Some((name, span)) if export.src.is_none() => (names.kind(&Expr::Ident(name)), span),
                    Some((_, span)) => (Kind::Unknown, span),
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
            None if common_js.is_mentioned => Self { factory: None, wrong: None },
            None => {
                let first = items.iter().find(|item| has_declarations && item.is_module_decl() && !is_import(item));
                let (start, end) = first.map_or((0, 0), |item| parsed.range(item.span()));
                let line = parsed.source[start..end].find('\n').map_or(end, |length| start + length);
                Self { factory: None, wrong: Some(WrongDefault { what: None, start, end: line }) }
            }
        }
    }

    fn from(parsed: &Parsed, kind: Kind, span: Span) -> Self {
        match kind {
            Kind::Function(parameters) => Self { factory: parameters.into_iter().next().flatten(), wrong: None },
            Kind::Other(what) => {
                let (start, end) = parsed.range(span);
                Self { factory: None, wrong: Some(WrongDefault { what: Some(what), start, end }) }
            }
            Kind::Unknown => Self { factory: None, wrong: None },
        }
    }
}

fn exports_anything(module: &Module) -> bool {
    module.body.iter().any(|item| item.is_module_decl() && !is_import(item))
}

fn is_import(item: &ModuleItem) -> bool {
    item.as_module_decl().is_some_and(ModuleDecl::is_import)
}

/// The `name` of `export { name as default }`.
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

/// The value that is assigned to `module.exports` last.
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

/// The second pass.
struct Uses<'a> {
    parsed: &'a Parsed,
    bindings: &'a Bindings,
    names: &'a Names,
    known: HashMap<Id, Given>,
    /// Calls that run whenever the factory does.
    straight: HashSet<Span>,
    /// `try` blocks around.
    tries: usize,
    /// Members that are mentioned without a call.
    mentioned: BTreeSet<(GivenObject, String)>,
    found: Vec<ApiUse>,
}

impl Uses<'_> {
    /// The object of pi's that an expression is.
    fn given(&self, object: &Expr) -> Option<Given> {
        match plain(object) {
            Expr::Ident(ident) => self.known.get(&ident.to_id()).copied(),
            Expr::Member(member) if member_name(&member.prop).as_deref() == Some("ui") => {
                let context = self.given(&member.obj).filter(|given| given.object == GivenObject::Context)?;
                Some(Given { object: GivenObject::Ui, ..context })
            }
            _ => None,
        }
    }

    fn push(&mut self, what: Used, span: Span, (call, member): (Span, &MemberExpr), only_in_entry: bool) {
        let (start, end) = self.parsed.range(span);
        let is_straight = self.straight.contains(&call);
        let is_cast = !matches!(member.obj.as_ref(), Expr::Ident(_) | Expr::Member(_));
        let is_tried = self.tries > 0 || is_cast;
        self.found.push(ApiUse { what, start, end, only_in_entry, is_tried, is_straight });
    }

    /// `pi.MEMBER(arguments)`; `is_asked`: `pi.MEMBER?.(arguments)`.
    fn see(&mut self, call: Span, member: &MemberExpr, arguments: &[ExprOrSpread], is_asked: bool) {
        let (Some(given), Some(name)) = (self.given(&member.obj), member_name(&member.prop)) else { return };
        let Given { object, only_in_entry } = given;
        let first = arguments.first().filter(|first| first.spread.is_none());
        match (name.as_str(), first.filter(|_| object == GivenObject::Api)) {
            ("on", Some(event)) => {
                if let Some(text) = self.bindings.text(plain(&event.expr)).filter(|text| text.whole) {
                    self.push(Used::Event(text.start), event.expr.span(), (call, member), only_in_entry);
                }
                if arguments.len() == 1 {
                    let what = "an event is listened to with a function: `pi.on(EVENT, (event, ctx) => { ... })`";
                    self.push(Used::NoHandler(what), event.expr.span(), (call, member), only_in_entry);
                }
            }
            ("registerCommand", Some(name)) => {
                let options = arguments.get(1).filter(|options| options.spread.is_none());
                let object = options.and_then(|options| plain(&options.expr).as_object());
                let is_other = |prop: &PropOrSpread| is_plain_member(prop, "handler");
                if arguments.len() == 1 || object.is_some_and(|object| object.props.iter().all(is_other)) {
                    let what = "a command has a handler: `{ handler: async (args, ctx) => { ... } }`";
                    self.push(Used::NoHandler(what), name.expr.span(), (call, member), only_in_entry);
                }
            }
            ("registerTool", Some(tool)) => {
                if let Some((what, span)) = self.wrong_parameters(&tool.expr) {
                    self.push(Used::Parameters(what), span, (call, member), only_in_entry);
                }
            }
            _ => {}
        }
        if !is_asked {
            self.push(Used::Call(object, name), member.prop.span(), (call, member), only_in_entry);
        }
    }

    /// What the `parameters` of a tool are, if the source shows that they are no object.
    fn wrong_parameters(&self, tool: &Expr) -> Option<(&'static str, Span)> {
        let known = match plain(tool) {
            Expr::Ident(name) => self.names.tools.get(&name.to_id()),
            expr => tool_literal(expr),
        };
        let tool_object = known?;
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
                    Kind::Function(_) => "a function",
                    Kind::Other("an object" | "a regular expression") => return None,
                    Kind::Other(what) if what.starts_with("a class") => "a class",
                    Kind::Other(what) => what,
                    // A text that is put together.
                    Kind::Unknown => self.bindings.text(plain(&value)).map(|_| "a string")?,
                };
                Some((what, value.span()))
            }
            Some(None) => None,
            None if has_computed => None,
            None => Some(("missing", tool.span())),
        }
    }
}

impl Visit for Uses<'_> {
    fn visit_call_expr(&mut self, call: &CallExpr) {
        if let Callee::Expr(callee) = &call.callee
            && let Expr::Member(member) = plain(callee)
            && self.given(&member.obj).is_some()
        {
            self.see(call.span, member, &call.args, false);
            // The member is called, not mentioned.
            if let MemberProp::Computed(computed) = &member.prop {
                computed.visit_with(self);
            }
            call.args.visit_with(self);
            return;
        }
        call.visit_children_with(self);
    }

    fn visit_opt_call(&mut self, call: &OptCall) {
        if let Expr::Member(member) = plain(&call.callee) {
            self.see(call.span, member, &call.args, true);
        }
        call.visit_children_with(self);
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
