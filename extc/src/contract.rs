//! Checks an extension against pi's API, where the source shows a breach: an entry exports a function, calls members that the
//! API has, listens to events that exist, and gives its tools names and schemas.
//!
//! Each breach also shows at run time, with the same meaning: a missing function when the extension is loaded, a member that is
//! not a function and an invalid schema at the call, an unknown event and a tool's name as warnings. Members are those of the
//! host modules that make these objects, events those of [`pijs_node_compat::events`].

use crate::interface::HostInterface;
use crate::link::Modules;
use crate::parse::parse;
use crate::scan::{ApiUse, ApiUses, Assumptions, Pass, Used, api_again};
use pijs_diagnostics::{Code, Diagnostic, Severity};
use pijs_node_compat::api::INHERITED;
use pijs_node_compat::events;
use pijs_protocol::registration::tool_name_problem;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Maximum number of rounds that follow calls from module to module, which is the maximum call depth in modules.
const MAX_ROUNDS: usize = 8;

/// The known uses of pi's API in a module.
struct ModuleUses {
    api: ApiUses,
    source: Arc<str>,
    assumed: Assumptions,
    /// Whether an entry's factory runs code of this module unconditionally, so that a failure prevents loading the extension.
    is_called: bool,
}

/// Reports every breach in the linked modules; `entries` are names of modules.
pub(crate) fn check(modules: &Modules, entries: &[String]) {
    let entries: BTreeSet<&str> = entries.iter().map(String::as_str).collect();
    let mut seen: BTreeMap<String, ModuleUses> = BTreeMap::new();
    modules.for_each_scan(|file, scan| {
        let is_entry = entries.contains(file);
        let assumed = Assumptions { is_entry, ..Assumptions::default() };
        let (api, source) = (scan.api.clone(), Arc::clone(&scan.source));
        seen.insert(file.to_owned(), ModuleUses { api, source, assumed, is_called: is_entry });
    });
    for _ in 0..MAX_ROUNDS {
        let more = assumptions(&seen);
        let changed: Vec<_> = more.into_iter().filter(|(file, assumed)| seen[file].assumed != *assumed).collect();
        if changed.is_empty() {
            break;
        }
        for (file, assumed) in changed {
            let Some(known) = seen.get_mut(&file) else { continue };
            if let Ok(parsed) = parse(&file, &known.source, modules.tree().limits()) {
                known.api = api_again(parsed, &assumed);
                known.is_called = true;
            }
            known.assumed = assumed;
        }
    }
    let mut found = Vec::new();
    for (file, ModuleUses { api, source, assumed, is_called }) in &seen {
        if assumed.is_entry {
            found.extend(default_export(file, api, source));
        }
        let uses = api.uses.iter().filter(|used| assumed.is_entry || !used.only_in_entry);
        found.extend(uses.filter_map(|used| breach(modules.host(), (file, *is_called), source, used)));
    }
    found.into_iter().for_each(|diagnostic| modules.note(diagnostic));
}

/// Collects the arguments that modules of the package receive from others. Arguments of libraries are not checked.
fn assumptions(seen: &BTreeMap<String, ModuleUses>) -> BTreeMap<String, Assumptions> {
    let mut calls: BTreeMap<(&str, &str), Vec<(&Pass, bool)>> = BTreeMap::new();
    for (file, ModuleUses { api, assumed, is_called, .. }) in seen {
        let counts = |pass: &&Pass| assumed.is_entry || !pass.only_in_entry;
        for pass in api.passes.iter().filter(counts) {
            if let Some(target) = target(seen, file, &pass.specifier) {
                calls.entry((target, &pass.name)).or_default().push((pass, *is_called && pass.is_straight));
            }
        }
    }
    let mut all: BTreeMap<String, Assumptions> = BTreeMap::new();
    for ((file, export), passes) in calls {
        let entry = all.entry(file.to_owned());
        let assumed =
            entry.or_insert_with(|| Assumptions { is_entry: seen[file].assumed.is_entry, ..Default::default() });
        let most = passes.iter().map(|(pass, _)| pass.arguments.len()).max().unwrap_or_default();
        for at in 0..most {
            let mut objects = passes.iter().map(|(pass, _)| pass.arguments.get(at).copied().flatten());
            if let Some(Some(object)) = objects.next()
                && objects.all(|other| other == Some(object))
            {
                assumed.given.insert((export.to_owned(), at), object);
            }
        }
        if passes.iter().any(|(_, is_straight)| *is_straight) {
            assumed.straight.insert(export.to_owned());
        }
    }
    all.retain(|_, assumed| !assumed.given.is_empty());
    all
}

/// Suffixes that are tried for a relative import.
const ENDINGS: [&str; 9] = ["", ".ts", ".tsx", ".js", ".mjs", ".mts", "/index.ts", "/index.js", "/index.mjs"];

/// Returns the module of the package that a relative import resolves to.
fn target<'a>(seen: &'a BTreeMap<String, ModuleUses>, from: &str, specifier: &str) -> Option<&'a str> {
    if from.starts_with("dep:") || from.split('/').any(|part| part == "node_modules") {
        return None;
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in specifier.split('/') {
        match part {
            "." => {}
            ".." => _ = parts.pop()?,
            part => parts.push(part),
        }
    }
    let path = parts.join("/");
    let written = ENDINGS.iter().map(|ending| format!("{path}{ending}"));
    let compiled = path.strip_suffix("js").map(|start| format!("{start}ts"));
    let found = written.chain(compiled).find_map(|name| seen.get_key_value(&name));
    found.map(|(name, _)| name.as_str())
}

fn default_export(file: &str, api: &ApiUses, source: &Arc<str>) -> Option<Diagnostic> {
    let wrong = api.default.as_ref()?;
    let message = match wrong.what {
        Some(what) => format!("this entry does not export a valid factory function: its default export is {what}"),
        None => "this entry does not export a valid factory function: it has no default export".to_owned(),
    };
    let help = "write `export default function (pi) { ... }`; it is called when the extension is loaded";
    Some(Diagnostic::new(Code::DefaultExport, message).help(help).at(file, source, wrong.start, wrong.end))
}

fn breach(
    host: &HostInterface,
    (file, is_called): (&str, bool),
    source: &Arc<str>,
    used: &ApiUse,
) -> Option<Diagnostic> {
    let diagnostic = match &used.what {
        Used::Member { of, name, is_called } => {
            let members = host.members_of(*of)?;
            if members.contains(name) || INHERITED.contains(&name.as_str()) {
                return None;
            }
            let (what, test) = if *is_called { ("not a function", "()") } else { ("undefined", "MEMBER") };
            let message = format!("`{name}` is {what}: {} has no such member", of.name());
            let help = events::meant(name, members.iter().map(String::as_str)).unwrap_or_else(|| {
                format!("check the spelling; if other versions of pi have it, test for it: `OBJECT.NAME?.{test}`")
            });
            Diagnostic::new(Code::Api, message).help(help)
        }
        Used::NoArgument(needed, given) => {
            let found = Diagnostic::new(Code::Api, needed.message(*given)).help(format!("write `{}`", needed.example));
            if needed.throws(*given) { found } else { found.soften() }
        }
        Used::Event(event) => {
            let (message, help) = events::unknown(event)?;
            Diagnostic::new(Code::Event, message).help(help)
        }
        Used::NoHandler(what) => {
            let message = "this always fails: pi finds no function to call".to_owned();
            // The extension still registers; only the command, the tool or the event handler fails.
            Diagnostic::new(Code::Api, message).help(*what).soften()
        }
        Used::ToolName(name) => {
            let problem = tool_name_problem(name)?;
            Diagnostic::new(Code::Api, format!("the tool `{name}` is not registered: {problem}"))
                .help("give it a name of letters, digits, `_` and `-`; its description tells models what it does")
        }
        Used::Parameters(what) => {
            let message = format!("a tool must define an object parameter schema: its `parameters` are {what}");
            let help = "give it a JSON schema, such as `Type.Object({ ... })` of typebox; `Type.Object({})` for none";
            Diagnostic::new(Code::Schema, message).help(help)
        }
    };
    let diagnostic = diagnostic.at(file, source, used.start, used.end);
    Some(match diagnostic.severity() {
        _ if used.is_tried => diagnostic.soften(),
        // The factory calls it unconditionally, so loading fails. A tool with a refused name is only left out.
        _ if matches!(used.what, Used::ToolName(_)) => diagnostic,
        Severity::Blocked if is_called && used.is_straight => diagnostic.at_load(),
        _ => diagnostic,
    })
}
