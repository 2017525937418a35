//! Second pass of the scan: the walk over the syntax tree that finds uses.

use super::accumulated::{self, AccumulatedEdits};
use super::bindings::{Binding, Text};
use super::findings::Findings;
use super::module_names::ModuleNames;
use super::module_scan::{ImportSite, ImportedName, ModuleScan, ScanOptions, Template};
use super::uses::Uses;
use super::{api, awaits, calls, compiled_text, constants, helpers, offers, patches, pi, servers, throwing_calls, umd};
use crate::parse::Parsed;
use crate::rewrite::{Edit, Location, computed_import, location};
use crate::syntax::{export_name, is_import_meta, member_name, plain, property_name, text_of};
use swc_core::common::{GLOBALS, Globals, Mark, Span, Spanned};
use swc_core::ecma::ast::*;
use swc_core::ecma::transforms::base::resolver;
use swc_core::ecma::visit::{Visit, VisitWith};

/// Variables that every extension may read without a grant.
const PLAIN_ENVIRONMENT: &[&str] = &["HOME", "PATH", "LANG", "TERM", "SHELL", "USER", "TMPDIR", "NO_COLOR", "CI"];

/// Scans one parsed module.
pub(crate) fn scan(mut parsed: Parsed, options: ScanOptions<'_>) -> ModuleScan {
    GLOBALS.set(&Globals::new(), || {
        let (unresolved, top_level) = (Mark::new(), Mark::new());
        resolver(unresolved, top_level, true).process(&mut parsed.program);
        let names = ModuleNames::of(&parsed.program, unresolved);
        let source = parsed.source.clone();
        let mut walker = Walker {
            parsed: &parsed,
            options,
            names: &names,
            imports: Vec::new(),
            uses: Uses::default(),
            edits: Vec::new(),
            templates: Vec::new(),
            findings: Findings {
                file: options.file,
                source: &source,
                dependency: options.dependency,
                found: Vec::new(),
            },
        };
        walker.findings.hidden_text();
        parsed.program.visit_with(&mut walker);
        let (compiled, places) = compiled_text::compiled_text(&parsed, &names.bindings);
        walker.uses.compiled_text = compiled;
        for place in places {
            let at = walker.at(place.span);
            walker.findings.compiled_text(&place, at);
        }
        for patch in patches::patches(&parsed, &names.bindings) {
            let at = walker.at(patch.span);
            walker.findings.patch(&patch.class, at);
        }
        let Walker { imports, mut uses, mut edits, templates, findings, .. } = walker;
        uses.makes_own_tools =
            imports.iter().flat_map(|site| &site.names).any(|imported| pi::makes_own_tool(&imported.name));
        let AccumulatedEdits { edits: more, mut insertions } = accumulated::accumulated(&parsed, &names.bindings);
        insertions.extend(throwing_calls::throwing(&parsed, &names.bindings));
        edits.extend(more);
        edits.extend(constants::assigned(&parsed));
        edits.extend(umd::given(&parsed, &names.bindings));
        let edits = joined(edits, helpers::own_names(&parsed, unresolved));
        let awaits = awaits::awaits(&parsed);
        let api = api::api_uses(&parsed, &names.bindings, None);
        let findings = findings.found;
        ModuleScan { imports, uses, findings, api, edits, templates, insertions, awaits, source: source.clone() }
    })
}

/// Joins all edits in source order. If a rename overlaps another edit anywhere, it is dropped at all occurrences.
fn joined(edits: Vec<Edit>, names: Vec<Edit>) -> Vec<Edit> {
    let in_order = |mut edits: Vec<Edit>| {
        edits.sort_by_key(|edit| (edit.start, edit.end));
        edits.dedup();
        edits
    };
    let both = in_order([edits.as_slice(), names.as_slice()].concat());
    let is_apart = both.array_windows().all(|[before, after]| before.end <= after.start);
    if is_apart { both } else { in_order(edits) }
}

/// Finds the uses of pi's API in a scanned module again, under `assumptions` from other modules.
pub(crate) fn api_again(mut parsed: Parsed, assumptions: &api::Assumptions) -> api::ApiUses {
    GLOBALS.set(&Globals::new(), || {
        let (unresolved, top_level) = (Mark::new(), Mark::new());
        resolver(unresolved, top_level, true).process(&mut parsed.program);
        let names = ModuleNames::of(&parsed.program, unresolved);
        api::api_uses(&parsed, &names.bindings, Some(assumptions))
    })
}

/// Returns whether the module exports by ES declarations. A module that only imports may still assign to `module.exports`.
fn exports_by_declaration(parsed: &Parsed) -> bool {
    let Program::Module(module) = &parsed.program else { return false };
    module.body.iter().any(|item| {
        matches!(
            item,
            ModuleItem::ModuleDecl(
                ModuleDecl::ExportDecl(_)
                    | ModuleDecl::ExportNamed(_)
                    | ModuleDecl::ExportDefaultDecl(_)
                    | ModuleDecl::ExportDefaultExpr(_)
                    | ModuleDecl::ExportAll(_)
            )
        )
    })
}

struct Walker<'a> {
    parsed: &'a Parsed,
    options: ScanOptions<'a>,
    names: &'a ModuleNames,
    imports: Vec<ImportSite>,
    uses: Uses,
    edits: Vec<Edit>,
    templates: Vec<Template>,
    findings: Findings<'a>,
}

impl Walker<'_> {
    /// Returns the target of an `import()` that begins with a relative path. Dependencies are skipped: their targets fit their
    /// own package's layout, which a bundle or an install may have changed.
    fn template(&self, args: &[ExprOrSpread], at: (usize, usize)) -> Option<Template> {
        let start = self.text(args.first()).map(|text| text.start)?;
        let is_relative = start.starts_with("./") || start.starts_with("../");
        let end = match args.first()?.expr.as_ref() {
            Expr::Tpl(template) => template.quasis.last().map(|last| last.raw.to_string()).unwrap_or_default(),
            _ => String::new(),
        };
        (is_relative && !self.options.dependency).then_some(Template { start, end, at })
    }

    fn at(&self, span: Span) -> (usize, usize) {
        self.parsed.range(span)
    }

    fn edit(&mut self, span: Span, text: impl Into<String>) {
        let (start, end) = self.at(span);
        self.edits.push(Edit { start, end, text: text.into() });
    }

    fn import(&mut self, specifier: String, span: Span, names: Vec<ImportedName>) {
        let (start, end) = self.at(span);
        match specifier.strip_prefix("node:").unwrap_or(&specifier) {
            "worker_threads" => self.findings.worker((start, end)),
            "bun:ffi" => self.findings.native("bun:ffi", (start, end)),
            path if path.ends_with(".node") => self.findings.native(path, (start, end)),
            _ => {}
        }
        self.imports.push(ImportSite { specifier, start, end, names });
    }

    /// Records a known target, even if it is spelled as a constant: the bundler only reads literals.
    fn import_literal(&mut self, specifier: String, argument: &Expr) {
        if !matches!(argument, Expr::Lit(_) | Expr::Tpl(_)) {
            self.edit(argument.span(), serde_json::Value::from(specifier.as_str()).to_string());
        }
        self.import(specifier, argument.span(), Vec::new());
    }

    fn name(&self, name: String, span: Span) -> ImportedName {
        let (start, end) = self.at(span);
        ImportedName { name, start, end }
    }

    fn text(&self, argument: Option<&ExprOrSpread>) -> Option<Text> {
        let argument = argument.filter(|argument| argument.spread.is_none())?;
        match argument.expr.as_ref() {
            Expr::New(new) if self.is_global(&new.callee, "URL") => self.text(new.args.as_ref()?.first()),
            expr => self.names.bindings.text(expr),
        }
    }

    fn is_global(&self, expr: &Expr, name: &str) -> bool {
        matches!(expr, Expr::Ident(ident) if ident.sym == *name && self.names.bindings.is_global(ident))
    }

    fn is_process(&self, expr: &Expr) -> bool {
        let expr = plain(expr);
        self.is_global(expr, "process")
            || matches!(self.names.bindings.resolve(expr), Some(Binding::Module(module)) if without_scheme(&module) == "process")
            || matches!(expr, Expr::Member(member)
                if self.is_global(&member.obj, "globalThis") && member_name(&member.prop).as_deref() == Some("process"))
    }

    fn is_environment(&self, expr: &Expr) -> bool {
        match plain(expr) {
            Expr::Member(member) => self.is_environment_member(member),
            Expr::OptChain(chain) => match chain.base.as_ref() {
                OptChainBase::Member(member) => self.is_environment_member(member),
                OptChainBase::Call(_) => false,
            },
            expr => {
                matches!(self.names.bindings.resolve(expr), Some(Binding::Member(module, name))
                    if without_scheme(&module) == "process" && name == "env")
            }
        }
    }

    fn is_environment_member(&self, member: &MemberExpr) -> bool {
        member_name(&member.prop).as_deref() == Some("env") && self.is_process(&member.obj)
    }

    fn see_variable(&mut self, name: Option<String>) {
        if !name.as_deref().is_some_and(|name| PLAIN_ENVIRONMENT.contains(&name)) {
            self.uses.env.see(name);
        }
    }

    /// Returns whether an expression is `pi`, `api`, `this.pi`, or a parameter known to be the API.
    fn is_api(&self, expr: &Expr) -> bool {
        match plain(expr) {
            Expr::Ident(ident) => self.names.api.contains(&ident.to_id()) || ident.sym == *"pi" || ident.sym == *"api",
            Expr::Member(member) => matches!(member_name(&member.prop).as_deref(), Some("pi" | "api")),
            _ => false,
        }
    }

    fn see_method(&mut self, member: &MemberExpr, args: &[ExprOrSpread]) {
        let Some(method) = member_name(&member.prop) else { return };
        self.uses.plain.extend(pi::of_method(&method));
        offers::see(&mut self.uses.offers, &method, args, |expr| self.names.bindings.text(expr));
        if method == "registerMcpServer" {
            servers::see(&mut self.uses, args, |expr| self.names.bindings.text(expr));
        }
        if let Expr::Member(outer) = plain(&member.obj)
            && let Some(outer) = member_name(&outer.prop)
        {
            self.uses.plain.extend(pi::of_member(&outer));
            if outer == "ui" {
                self.uses.plain.extend(pi::of_screen_method(&method));
            }
        }
        if matches!(plain(&member.obj), Expr::Ident(ident) if ident.sym == *"ctx" || ident.sym == *"context") {
            self.uses.plain.extend(pi::of_context_method(&method));
        }
        if !self.is_api(&member.obj) {
            return;
        }
        let first = self.text(args.first()).filter(|text| text.whole);
        match method.as_str() {
            "on" => {
                let event = first.as_ref().map(|event| event.start.as_str()).unwrap_or_default();
                self.uses.plain.extend(pi::of_event(event));
                self.uses.plain.extend(pi::of_system_messages(event));
                self.uses.answers.events.extend(pi::by_answer(event));
            }
            "exec" => self.uses.exec.see(first.map(|program| program.start)),
            "http" => self.uses.network.http.see(None),
            "fs" => {
                self.uses.read.see(None);
                self.uses.write.see(None);
            }
            "tool" => {
                self.uses.plain.insert("tool");
            }
            _ => {}
        }
    }

    /// Records the use of a global name as a value.
    fn see_global(&mut self, ident: &Ident) {
        if !self.names.bindings.is_global(ident) {
            return;
        }
        match &*ident.sym {
            "__dirname" => self.edit(ident.span, location(self.options.file, self.options.place, Location::Dirname)),
            "__filename" => self.edit(ident.span, location(self.options.file, self.options.place, Location::Filename)),
            // A dependency that tests for these names does not expect CommonJS here, under Node either.
            "module" | "exports" if !self.options.dependency && exports_by_declaration(self.parsed) => {
                let part = if ident.sym == *"module" { Location::Module } else { Location::Exports };
                self.edit(ident.span, location(self.options.file, self.options.place, part));
            }
            _ => {}
        }
    }

    fn created(&self, ident: &Ident) -> bool {
        self.names.created.contains(&ident.to_id())
    }

    /// Renames a created require that shadows the bundler's `require`, and keeps its value.
    fn rename_created(&mut self, ident: &Ident) {
        if self.created(ident) && ident.sym == *"require" {
            self.edit(ident.span, "__pi_created_require");
        }
    }

    fn see_call(&mut self, call: &CallExpr, callee: &Expr) -> bool {
        let bindings = &self.names.bindings;
        let created = matches!(callee, Expr::Ident(ident) if self.created(ident)) || self.names.creates_require(callee);
        if created || self.is_global(callee, "require") {
            let literal = self.text(call.args.first()).filter(|text| text.whole);
            let Some(literal) = literal else {
                let at = self.at(call.span);
                if !call.args.is_empty() {
                    self.findings.computed("require()", at);
                }
                return false;
            };
            if created {
                self.edit(callee.span(), "require");
            }
            self.import_literal(literal.start, &call.args[0].expr);
            return true;
        }
        if let Some(Binding::Member(module, name)) = bindings.resolve(callee) {
            let first = self.text(call.args.first());
            calls::see_host_function(&mut self.uses, without_scheme(&module), &name, first, &call.args);
            // `require("x").name()` and `import("x").then()` name a module before the member.
            if let Expr::Member(member) = callee {
                member.obj.visit_with(self);
            }
            call.args.visit_with(self);
            return true;
        }
        if let Some(text) = calls::global_object(callee, &call.args, bindings) {
            self.edit(call.span, text);
            return true;
        }
        if let Expr::Ident(ident) = callee
            && bindings.is_global(ident)
            && ident.sym == *"fetch"
        {
            let first = self.text(call.args.first());
            self.uses.network.http.see(first.as_ref().and_then(calls::host));
        }
        if let Expr::Member(member) = callee {
            self.see_method(member, &call.args);
        }
        false
    }
}

impl Visit for Walker<'_> {
    fn visit_import_decl(&mut self, import: &ImportDecl) {
        if import.type_only {
            return;
        }
        let mut names = Vec::new();
        for specifier in &import.specifiers {
            match specifier {
                ImportSpecifier::Named(named) if named.is_type_only => {}
                ImportSpecifier::Named(named) => {
                    let name = named.imported.as_ref().map_or_else(|| named.local.sym.to_string(), export_name);
                    names.push(self.name(name, named.span));
                }
                ImportSpecifier::Default(default) => names.push(self.name("default".to_owned(), default.span)),
                ImportSpecifier::Namespace(namespace) => names.push(self.name("*".to_owned(), namespace.span)),
            }
        }
        self.import(text_of(&import.src), import.src.span, names);
    }

    fn visit_named_export(&mut self, export: &NamedExport) {
        if let (Some(src), false) = (&export.src, export.type_only) {
            let mut names = Vec::new();
            for specifier in &export.specifiers {
                if let ExportSpecifier::Named(named) = specifier
                    && !named.is_type_only
                {
                    names.push(self.name(export_name(&named.orig), named.span));
                }
            }
            self.import(text_of(src), src.span, names);
        }
    }

    fn visit_export_all(&mut self, export: &ExportAll) {
        if !export.type_only {
            self.import(text_of(&export.src), export.src.span, vec![self.name("*".to_owned(), export.span)]);
        }
    }

    fn visit_ts_import_equals_decl(&mut self, import: &TsImportEqualsDecl) {
        if let (TsModuleRef::TsExternalModuleRef(module), false) = (&import.module_ref, import.is_type_only) {
            self.import(text_of(&module.expr), module.expr.span, Vec::new());
        }
    }

    fn visit_call_expr(&mut self, call: &CallExpr) {
        match &call.callee {
            Callee::Import(_) => match self.text(call.args.first()).filter(|text| text.whole) {
                Some(literal) => self.import_literal(literal.start, &call.args[0].expr),
                None => {
                    let at = self.at(call.span);
                    match self.template(&call.args, at) {
                        Some(template) => self.templates.push(template),
                        // Most of these never name a file that is written later; `eval` is requested when one does.
                        None => self.findings.computed_import(at),
                    }
                    self.edit(call.callee.span(), computed_import(self.options.file, self.options.place));
                    call.args.visit_with(self);
                }
            },
            Callee::Expr(callee) => {
                if !self.see_call(call, plain(callee)) {
                    call.visit_children_with(self);
                }
            }
            Callee::Super(_) => call.args.visit_with(self),
        }
    }

    fn visit_opt_call(&mut self, call: &OptCall) {
        if let Expr::Member(member) = plain(&call.callee) {
            self.see_method(member, &call.args);
        }
        call.visit_children_with(self);
    }

    fn visit_new_expr(&mut self, new: &NewExpr) {
        let first = new.args.as_ref().and_then(|args| args.first());
        let at = self.at(new.span);
        if self.is_global(&new.callee, "Function") && new.args.as_deref().is_some_and(calls::is_global_object) {
            self.edit(new.span, calls::GLOBAL_OBJECT);
        } else if self.is_global(&new.callee, "Worker") {
            self.findings.worker(at);
        } else if self.is_global(&new.callee, "WebSocket") || self.is_global(&new.callee, "EventSource") {
            let target = self.text(first);
            self.uses.network.http.see(target.as_ref().and_then(calls::host));
        }
        new.visit_children_with(self);
    }

    fn visit_regex(&mut self, literal: &Regex) {
        if let Some(pattern) = pijs_node_compat::unicode_sets::readable(&literal.exp, &literal.flags) {
            self.edit(literal.span, format!("/{pattern}/{}", literal.flags));
        }
    }

    fn visit_member_expr(&mut self, member: &MemberExpr) {
        if self.is_global(&member.obj, "require") && member_name(&member.prop).as_deref() == Some("resolve") {
            self.edit(
                member.span,
                format!("{}.requireResolve", location(self.options.file, self.options.place, Location::Object)),
            );
            return;
        }
        if is_import_meta(&member.obj) {
            if matches!(member_name(&member.prop).as_deref(), Some("url" | "dirname" | "filename" | "resolve")) {
                self.edit(member.obj.span(), location(self.options.file, self.options.place, Location::Object));
            }
            return;
        }
        if self.is_environment(&member.obj) {
            self.see_variable(member_name(&member.prop));
            member.prop.visit_with(self);
            return;
        }
        if self.is_environment_member(member) {
            self.see_variable(None);
            return;
        }
        if let Some(name) = member_name(&member.prop)
            && matches!(name.as_str(), "binding" | "_linkedBinding" | "dlopen")
            && self.is_process(&member.obj)
        {
            let at = self.at(member.span);
            self.findings.native(&format!("process.{name}"), at);
        }
        if let Some(Binding::Member(module, name)) = self.names.bindings.resolve(&Expr::Member(member.clone())) {
            calls::see_host_function(&mut self.uses, without_scheme(&module), &name, None, &[]);
        }
        member.visit_children_with(self);
    }

    fn visit_var_declarator(&mut self, declarator: &VarDeclarator) {
        declarator.name.visit_with(self);
        let Some(init) = &declarator.init else { return };
        if !self.is_environment(init) {
            init.visit_with(self);
            return;
        }
        let Pat::Object(object) = &declarator.name else {
            self.see_variable(None);
            return;
        };
        for property in &object.props {
            match property {
                ObjectPatProp::Assign(assign) => self.see_variable(Some(assign.key.sym.to_string())),
                ObjectPatProp::KeyValue(pair) => self.see_variable(property_name(&pair.key)),
                ObjectPatProp::Rest(_) => self.see_variable(None),
            }
        }
    }

    fn visit_expr(&mut self, expr: &Expr) {
        if let Expr::Ident(ident) = expr {
            self.see_global(ident);
            self.rename_created(ident);
            if let Some(Binding::Member(module, name)) = self.names.bindings.resolve(expr) {
                calls::see_host_function(&mut self.uses, without_scheme(&module), &name, None, &[]);
            }
        }
        expr.visit_children_with(self);
    }

    fn visit_prop(&mut self, property: &Prop) {
        match property {
            Prop::Shorthand(ident) => self.uses.answers.words.extend(pi::of_answer(&ident.sym)),
            Prop::KeyValue(pair) => {
                let name = property_name(&pair.key).unwrap_or_default();
                self.uses.answers.words.extend(pi::of_answer(&name));
                let kind = self.names.bindings.text(&pair.value).filter(|text| name == "type" && text.whole);
                self.uses.answers.words.extend(kind.and_then(|kind| pi::of_answer(&kind.start)));
            }
            _ => {}
        }
        if let Prop::Shorthand(ident) = property {
            let before = self.edits.len();
            self.see_global(ident);
            self.rename_created(ident);
            for edit in &mut self.edits[before..] {
                edit.text = format!("{}: {}", ident.sym, edit.text);
            }
        }
        property.visit_children_with(self);
    }

    fn visit_binding_ident(&mut self, binding: &BindingIdent) {
        self.rename_created(&binding.id);
    }

    fn visit_ts_type(&mut self, _: &TsType) {}
}

fn without_scheme(module: &str) -> &str {
    module.strip_prefix("node:").unwrap_or(module)
}
