//! The host modules that an extension can import: one canonical specifier for each, and their exports.
//!
//! ```text
//! fs, node:fs                                                     →  node:fs
//! @mariozechner/pi-tui, @earendil-works/pi-tui                    →  @earendil-works/pi-tui
//! typebox, @sinclair/typebox (also /compile and /value)           →  typebox
//! undici                                                          →  undici
//! rummy:host                                                      →  rummy:host
//! ```
//!
//! Each canonical specifier is one module instance in the realm, so that a class is the same class whichever
//! name it was imported by.
//!
//! A builtin of Node that [`pijs_node_compat::MODULES`] lacks throws `ERR_UNKNOWN_BUILTIN_MODULE` when it is evaluated.

use crate::cache::Key;
use crate::host::{HostSource, embedded, embedded_key, fingerprint};
use crate::limits::Limits;
use crate::parse::parse;
use crate::supply::Supply;
use crate::syntax::{export_name, prop_name};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use swc_core::ecma::ast::{
    Decl, ExportSpecifier, Expr, FnDecl, Module, ModuleDecl, ModuleItem, ObjectLit, ObjectPatProp, Pat, Program, Stmt,
    VarDecl,
};
use swc_core::ecma::visit::{Visit, VisitWith};

/// Node's builtin modules by the specifier without a scheme, one on each line.
const BUILTINS: &str = include_str!("builtins.txt");

/// pi's packages, with the sub-paths that pi's loader serves.
const PI_PACKAGES: &[(&str, &[&str])] = &[
    ("pi-agent-core", &[]),
    ("pi-ai", &["compat", "models", "oauth", "providers/all"]),
    ("pi-coding-agent", &[]),
    ("pi-tui", &[]),
];

const PI_SCOPES: &[&str] = &["@earendil-works/", "@mariozechner/"];

/// The module through which the dialect's own modules reach the store of a rummy session.
const RUMMY_HOST: &str = "rummy:host";

/// Node's HTTP client as a package. Its published code parses in WebAssembly and opens sockets that bypass the host.
const NODES_OWN_CLIENT: &str = "undici";

const TYPEBOX_PATHS: &[&str] = &["compile", "value"];

/// The meaning of a specifier, decided without looking up a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HostName {
    /// A builtin of Node, as `node:NAME`.
    Builtin(String),
    /// A module of pi or typebox, by its canonical specifier.
    Package(String),
    /// A sub-path of a host package that no loader serves.
    UnknownSubPath,
}

impl HostName {
    /// Classifies a specifier; `None` if the host does not serve it.
    pub(crate) fn of(specifier: &str) -> Option<Self> {
        if let Some(name) = specifier.strip_prefix("node:") {
            return Some(Self::Builtin(format!("node:{name}")));
        }
        if BUILTINS.lines().any(|name| name == specifier) {
            return Some(Self::Builtin(format!("node:{specifier}")));
        }
        if matches!(specifier, NODES_OWN_CLIENT | RUMMY_HOST) {
            return Some(Self::Package(specifier.to_owned()));
        }
        let unscoped = specifier.strip_prefix("@sinclair/").unwrap_or(specifier);
        if let Some(path) = below(unscoped, "typebox") {
            return Some(Self::package("typebox", path, TYPEBOX_PATHS));
        }
        let name = PI_SCOPES.iter().find_map(|scope| specifier.strip_prefix(scope))?;
        PI_PACKAGES.iter().find_map(|(package, paths)| {
            let path = below(name, package)?;
            Some(Self::package(&format!("@earendil-works/{package}"), path, paths))
        })
    }

    fn package(name: &str, path: &str, served: &[&str]) -> Self {
        match path {
            "" => Self::Package(name.to_owned()),
            path if served.contains(&path) => Self::Package(format!("{name}/{path}")),
            _ => Self::UnknownSubPath,
        }
    }
}

/// Returns the path of `specifier` below package `name`; empty for the package itself.
fn below<'a>(specifier: &'a str, name: &str) -> Option<&'a str> {
    let rest = specifier.strip_prefix(name)?;
    if rest.is_empty() { Some("") } else { rest.strip_prefix('/') }
}

/// The host modules that a bundle may import.
///
/// [`embedded`](Self::embedded) returns the set of this program; an embedder with its own modules
/// lists them with [`new`](Self::new).
#[derive(Debug, Clone)]
pub struct HostInterface {
    modules: Arc<BTreeMap<String, HostExports>>,
    /// Packages that are fetched when an extension imports them.
    supply: Option<&'static Supply>,
    fingerprint: [u8; 32],
    /// Members of the objects that extensions receive, read on first use.
    objects: Arc<[OnceLock<Option<BTreeSet<String>>>; 4]>,
}

/// An object that the host passes to an extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum GivenObject {
    /// `pi`, the argument of the factory.
    Api,
    /// `ctx`, the argument of handlers, commands and tools. A command's `ctx` has all members.
    Context,
    /// `ctx.ui`.
    Ui,
    /// `ctx.sessionManager`.
    Sessions,
}

impl GivenObject {
    /// Returns the module that creates the object, its functions that return the object or a part of it, and the name of the
    /// constant that holds it.
    fn source(self) -> (&'static str, &'static [&'static str], &'static str) {
        match self {
            Self::Api => ("pi:pi/api", &["createApi"], "api"),
            Self::Context => ("pi:pi/ctx", &["members", "commandMembers", "replacedContext"], ""),
            Self::Ui => ("pi:pi/ui", &[], "ui"),
            Self::Sessions => ("pi:pi/session", &[], "sessionManager"),
        }
    }

    /// Returns the object that a member of this object holds.
    pub(crate) fn part(self, member: &str) -> Option<Self> {
        match (self, member) {
            (Self::Context, "ui") => Some(Self::Ui),
            (Self::Context, "sessionManager") => Some(Self::Sessions),
            _ => None,
        }
    }

    /// Returns the name that messages use.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Api => "pi's API",
            Self::Context => "`ctx`",
            Self::Ui => "`ctx.ui`",
            Self::Sessions => "`ctx.sessionManager`",
        }
    }
}

#[derive(Debug)]
struct HostExports {
    path: Cow<'static, str>,
    source: Cow<'static, str>,
    exports: OnceLock<Option<Exports>>,
}

#[derive(Debug, Clone, Default)]
struct Exports {
    names: BTreeSet<String>,
    /// Targets of `export * from` declarations.
    stars: Vec<String>,
    /// Specifiers that the module imports, or re-exports from.
    imports: Vec<String>,
}

impl HostInterface {
    /// Returns the modules that `pijs-host` embeds and the packages that this program supplies.
    pub fn embedded() -> Self {
        static EMBEDDED: OnceLock<HostInterface> = OnceLock::new();
        EMBEDDED
            .get_or_init(|| {
                let mut key = Key::builder("host modules and supply");
                key.field(&embedded_key().bytes()).field(Supply::fingerprint());
                let modules = embedded().into_iter().map(|module| {
                    let HostSource { specifier, path, source } = module;
                    (specifier.to_owned(), HostExports::new(path.into(), source.into()))
                });
                Self {
                    modules: Arc::new(modules.collect()),
                    supply: Some(Supply::pinned()),
                    fingerprint: key.finish().bytes(),
                    objects: Arc::default(),
                }
            })
            .clone()
    }

    /// Creates an interface from modules. [`compile_host_modules`](crate::compile_host_modules) compiles them.
    pub fn new(modules: &[HostSource<'_>]) -> Self {
        let fingerprint = fingerprint(modules);
        let modules = modules
            .iter()
            .map(|module| {
                let value = HostExports::new(module.path.to_owned().into(), module.source.to_owned().into());
                (module.specifier.to_owned(), value)
            })
            .collect();
        Self { modules: Arc::new(modules), supply: None, fingerprint, objects: Arc::default() }
    }

    /// Returns a digest that changes whenever a module of the set changes.
    pub(crate) fn fingerprint(&self) -> &[u8; 32] {
        &self.fingerprint
    }

    /// Returns the members of an object that extensions receive, read from the host module that creates it; `None` for a set
    /// without that module.
    pub(crate) fn members_of(&self, object: GivenObject) -> Option<&BTreeSet<String>> {
        let read = || {
            let (module, functions, constant) = object.source();
            let HostExports { path, source, .. } = self.modules.get(module)?;
            let parsed = parse(path, source, &Limits::default()).ok()?;
            let mut members = ObjectMembers { functions, constant, names: BTreeSet::new() };
            parsed.program.visit_with(&mut members);
            Some(members.names).filter(|names| !names.is_empty())
        };
        self.objects[object as usize].get_or_init(read).as_ref()
    }

    /// Returns whether the host serves a module.
    pub(crate) fn has_module(&self, specifier: &str) -> bool {
        self.modules.contains_key(specifier) || self.supply.is_some_and(|supply| supply.has_module(specifier))
    }

    /// Returns the names that supplied packages add to a host module, each with its module.
    pub(crate) fn parts<'a>(&'a self, specifier: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let parts = self.supply.into_iter().flat_map(move |supply| supply.parts(specifier));
        parts.filter(move |(name, _)| !self.has_own_export(specifier, name))
    }

    /// Returns the supplied modules that a host module imports: an import of its names includes them.
    pub(crate) fn needs(&self, specifier: &str) -> Vec<String> {
        let imports =
            self.modules.get(specifier).and_then(HostExports::exports).map(|exports| exports.imports.as_slice());
        let is_supplied = |module: &&String| self.supply.is_some_and(|supply| supply.unit_of(module).is_some());
        imports.into_iter().flatten().filter(is_supplied).cloned().collect()
    }

    /// Returns whether a module exports a name itself or through a supplied package. True if the exports are unknown.
    pub(crate) fn has_export(&self, specifier: &str, name: &str) -> bool {
        self.has_own_export(specifier, name) || self.parts(specifier).any(|(part, _)| part == name)
    }

    /// Returns whether a module itself exports a name. True if the exports are unknown.
    pub(crate) fn has_own_export(&self, specifier: &str, name: &str) -> bool {
        if let Some(names) = self.supply.and_then(|supply| supply.names(specifier)) {
            return names.contains(name);
        }
        // Terminates a cycle of `export *`.
        let mut seen = BTreeSet::new();
        let mut waiting = vec![specifier.to_owned()];
        while let Some(specifier) = waiting.pop() {
            let Some(module) = self.modules.get(&specifier) else { return true };
            let Some(exports) = module.exports() else { return true };
            if exports.names.contains(name) {
                return true;
            }
            // `export *` leaves the default export out.
            if name != "default" {
                let targets = exports.stars.iter().map(|target| star_target(target));
                waiting.extend(targets.filter(|target| seen.insert(target.clone())));
            }
        }
        false
    }
}

/// Returns the module that `export * from target` names. A relative target is not in the set, so its names are unknown.
fn star_target(target: &str) -> String {
    match HostName::of(target) {
        Some(HostName::Builtin(name) | HostName::Package(name)) => name,
        _ => target.to_owned(),
    }
}

impl HostExports {
    fn new(path: Cow<'static, str>, source: Cow<'static, str>) -> Self {
        Self { path, source, exports: OnceLock::new() }
    }

    /// Returns the exports; `None` where they are unknown: the module does not parse, or assigns `module.exports`.
    fn exports(&self) -> Option<&Exports> {
        self.exports
            .get_or_init(|| {
                let parsed = parse(&self.path, &self.source, &Limits::default()).ok()?;
                let Program::Module(module) = &parsed.program else { return None };
                Some(Exports::of(module))
            })
            .as_ref()
    }
}

/// Returns the names that a program itself exports; empty for a script.
pub(crate) fn exports_of(program: &Program) -> BTreeSet<String> {
    program.as_module().map(|module| Exports::of(module).names).unwrap_or_default()
}

impl Exports {
    fn of(module: &Module) -> Self {
        let mut exports = Self::default();
        module.body.iter().for_each(|item| exports.see(item));
        exports
    }

    fn see(&mut self, item: &ModuleItem) {
        let ModuleItem::ModuleDecl(declaration) = item else { return };
        match declaration {
            ModuleDecl::Import(import) => self.imports.push(import.src.value.to_string_lossy().into_owned()),
            ModuleDecl::ExportDefaultDecl(_) | ModuleDecl::ExportDefaultExpr(_) => self.add("default"),
            ModuleDecl::ExportAll(all) => self.stars.push(all.src.value.to_string_lossy().into_owned()),
            ModuleDecl::ExportNamed(named) => {
                self.imports.extend(named.src.iter().map(|from| from.value.to_string_lossy().into_owned()));
                for specifier in &named.specifiers {
                    match specifier {
                        ExportSpecifier::Named(named) => {
                            self.add(&export_name(named.exported.as_ref().unwrap_or(&named.orig)))
                        }
                        ExportSpecifier::Namespace(namespace) => self.add(&export_name(&namespace.name)),
                        ExportSpecifier::Default(default) => self.add(&default.exported.sym),
                    }
                }
            }
            ModuleDecl::ExportDecl(export) => match &export.decl {
                Decl::Class(class) => self.add(&class.ident.sym),
                Decl::Fn(function) => self.add(&function.ident.sym),
                Decl::Var(variables) => {
                    variables.decls.iter().for_each(|declarator| self.add_pattern(&declarator.name))
                }
                Decl::TsEnum(decl) => self.add(&decl.id.sym),
                Decl::TsModule(decl) => {
                    if let Some(ident) = decl.id.as_ident() {
                        self.add(&ident.sym);
                    }
                }
                _ => {}
            },
            _ => {}
        }
    }

    fn add(&mut self, name: &str) {
        self.names.insert(name.to_owned());
    }

    fn add_pattern(&mut self, pattern: &Pat) {
        match pattern {
            Pat::Ident(name) => self.add(&name.sym),
            Pat::Array(array) => array.elems.iter().flatten().for_each(|element| self.add_pattern(element)),
            Pat::Assign(assign) => self.add_pattern(&assign.left),
            Pat::Rest(rest) => self.add_pattern(&rest.arg),
            Pat::Object(object) => {
                for property in &object.props {
                    match property {
                        ObjectPatProp::Assign(assign) => self.add(&assign.key.sym),
                        ObjectPatProp::KeyValue(pair) => self.add_pattern(&pair.value),
                        ObjectPatProp::Rest(rest) => self.add_pattern(&rest.arg),
                    }
                }
            }
            Pat::Expr(_) | Pat::Invalid(_) => {}
        }
    }
}

/// Reads the members of a constant's object, and of objects that functions return or pass to the call that they return.
struct ObjectMembers {
    functions: &'static [&'static str],
    constant: &'static str,
    names: BTreeSet<String>,
}

impl ObjectMembers {
    fn add(&mut self, object: &ObjectLit) {
        self.names.extend(object.props.iter().filter_map(|prop| prop_name(prop.as_prop()?)));
    }
}

impl Visit for ObjectMembers {
    fn visit_fn_decl(&mut self, function: &FnDecl) {
        let is_read = self.functions.contains(&function.ident.sym.as_str());
        for statement in function.function.body.iter().flat_map(|body| &body.stmts).filter(|_| is_read) {
            match statement {
                Stmt::Decl(Decl::Var(variables)) => self.visit_var_decl(variables),
                Stmt::Return(returned) => {
                    let value = returned.arg.as_deref();
                    value.and_then(Expr::as_object).into_iter().for_each(|object| self.add(object));
                    let arguments = value.and_then(Expr::as_call).into_iter().flat_map(|call| &call.args);
                    arguments.filter_map(|argument| argument.expr.as_object()).for_each(|object| self.add(object));
                }
                _ => {}
            }
        }
    }

    fn visit_var_decl(&mut self, variables: &VarDecl) {
        for declarator in &variables.decls {
            let is_it = declarator.name.as_ident().is_some_and(|name| name.id.sym == *self.constant);
            let object = declarator.init.as_ref().and_then(|init| init.as_object());
            object.filter(|_| is_it).into_iter().for_each(|object| self.add(object));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pijs_node_compat::api::MEMBERS;

    fn package(name: &str) -> Option<HostName> {
        Some(HostName::Package(name.to_owned()))
    }

    #[test]
    fn each_host_module_has_one_spelling() {
        for (written, meant) in [
            ("@mariozechner/pi-tui", "@earendil-works/pi-tui"),
            ("@earendil-works/pi-ai/providers/all", "@earendil-works/pi-ai/providers/all"),
            ("@sinclair/typebox", "typebox"),
            ("@sinclair/typebox/value", "typebox/value"),
            ("typebox/compile", "typebox/compile"),
        ] {
            assert_eq!(HostName::of(written), package(meant), "{written}");
        }
        assert_eq!(HostName::of("fs/promises"), Some(HostName::Builtin("node:fs/promises".to_owned())));
        assert_eq!(HostName::of("node:sqlite"), Some(HostName::Builtin("node:sqlite".to_owned())));
    }

    #[test]
    fn names_that_only_look_like_host_modules_are_ordinary() {
        for specifier in
            ["sqlite", "fs-extra", "buffer/", "typebox-extra", "@sinclair/other", "@mariozechner/pi", "./fs"]
        {
            assert_eq!(HostName::of(specifier), None, "{specifier}");
        }
        assert_eq!(HostName::of("typebox/type"), Some(HostName::UnknownSubPath));
        assert_eq!(HostName::of("@mariozechner/pi-tui/dist/index.js"), Some(HostName::UnknownSubPath));
    }

    #[test]
    fn members_of_the_api_are_read_from_its_source() {
        let host = HostInterface::embedded();
        let has = |object, name: &str| host.members_of(object).expect("the module is in the set").contains(name);
        for name in ["on", "registerTool", "registerSlashCommand", "events", "exec", "tool", "session", "ui"] {
            assert!(has(GivenObject::Api, name), "{name}");
        }
        for name in ["emit", "kind", "registerTol"] {
            assert!(!has(GivenObject::Api, name), "{name}");
        }
        for name in ["ui", "isIdle", "abort", "newSession", "reload", "sendMessage", "model"] {
            assert!(has(GivenObject::Context, name), "{name}");
        }
        for name in ["notify", "select", "custom", "setWidget", "theme"] {
            assert!(has(GivenObject::Ui, name), "{name}");
        }
        for name in ["getEntries", "getBranch", "getLeafId", "appendMessage"] {
            assert!(has(GivenObject::Sessions, name), "{name}");
        }
        assert!(!has(GivenObject::Context, "notify") && !has(GivenObject::Ui, "abort"));
        for ((_, listed), object) in MEMBERS.iter().zip([GivenObject::Context, GivenObject::Ui, GivenObject::Api]) {
            let members: Vec<&str> = host.members_of(object).expect("it is there").iter().map(String::as_str).collect();
            assert_eq!(members, *listed, "{}", object.name());
        }
        assert_eq!(HostInterface::new(&[]).members_of(GivenObject::Api), None);
    }

    #[test]
    fn exports_are_read_from_the_source() {
        let host = HostInterface::new(&[
            HostSource {
                specifier: "node:a",
                path: "a.ts",
                source: "export const { x, y: [z] } = f(); export enum E {} export interface I {} export default 1; export { q as r };",
            },
            HostSource {
                specifier: "typebox",
                path: "b.ts",
                source: "export * from 'node:a'; export * as ns from 'node:a';",
            },
        ]);
        for name in ["x", "z", "E", "default", "r"] {
            assert!(host.has_export("node:a", name), "{name}");
        }
        for name in ["y", "q", "I"] {
            assert!(!host.has_export("node:a", name), "{name}");
        }
        assert!(host.has_export("typebox", "ns"));
        assert!(!host.has_export("typebox", "default"));
        assert!(!host.has_module("node:fs"));
    }
}
