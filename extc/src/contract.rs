//! What an extension and pi owe one another, as far as the source shows a breach: an entry exports a function, calls members
//! that the API has, listens to events that there are, and gives its tools schemas.
//!
//! Each is found at run time, too, with the same meaning: a missing function when the extension is loaded, a member that is
//! no function and a schema that is none where they stand, an unknown event as a warning. Members are those of the host
//! modules that make these objects, events those of [`pijs_node_compat::events`].

use crate::diagnostics::{Code, Diagnostic, Severity};
use crate::interface::HostInterface;
use crate::link::Modules;
use crate::scan::{ApiUse, ModuleScan, Used};
use pijs_node_compat::events;
use std::collections::BTreeSet;

/// Edits (a letter more, less, changed or moved by one) up to which a name counts as misspelt; one in a short name.
const MOST_EDITS: usize = 2;

/// Notes every breach in the modules that were linked; `entries` are names of modules.
pub(crate) fn check(modules: &Modules, entries: &[String]) {
    let entries: BTreeSet<&str> = entries.iter().map(String::as_str).collect();
    let mut found = Vec::new();
    modules.for_each_scan(|file, scan| {
        let is_entry = entries.contains(file);
        if is_entry {
            found.extend(default_export(file, scan));
        }
        let uses = scan.api.uses.iter().filter(|used| is_entry || !used.only_in_entry);
        found.extend(uses.filter_map(|used| breach(modules.host(), (file, is_entry), scan, used)));
    });
    found.into_iter().for_each(|diagnostic| modules.note(diagnostic));
}

fn default_export(file: &str, scan: &ModuleScan) -> Option<Diagnostic> {
    let wrong = scan.api.default.as_ref()?;
    let message = match wrong.what {
        Some(what) => format!("this entry does not export a valid factory function: its default export is {what}"),
        None => "this entry does not export a valid factory function: it has no default export".to_owned(),
    };
    let help = "write `export default function (pi) { ... }`; it is called when the extension is loaded";
    Some(Diagnostic::new(Code::DefaultExport, message).help(help).at(file, &scan.source, wrong.start, wrong.end))
}

fn breach(
    host: &HostInterface,
    (file, is_entry): (&str, bool),
    scan: &ModuleScan,
    used: &ApiUse,
) -> Option<Diagnostic> {
    let diagnostic = match &used.what {
        Used::Call(object, member) => {
            let members = host.members_of(*object)?;
            // What every object has.
            let is_inherited =
                ["hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toLocaleString", "toString"];
            if members.contains(member) || is_inherited.contains(&member.as_str()) || member == "valueOf" {
                return None;
            }
            let message = format!("`{member}` is not a function: {} has no such member", object.name());
            let help = match similar(member, members.iter().map(String::as_str)) {
                Some(known) => format!("did you mean `{known}`?"),
                None => {
                    "check the spelling; where other versions of pi have it, ask first: `OBJECT.NAME?.()`".to_owned()
                }
            };
            Diagnostic::new(Code::Api, message).help(help)
        }
        Used::Event(event) => {
            if events::is_known(event) {
                return None;
            }
            let message = format!("`{event}` is an event that never fires: pi has none of this name");
            let known = events::EVENTS.iter().map(|rule| rule.name).chain([events::STREAM_TEXT]);
            let help = match similar(event, known) {
                Some(known) => format!("did you mean `{known}`?"),
                None => "check the spelling; the handler is registered and never called".to_owned(),
            };
            Diagnostic::new(Code::Event, message).help(help)
        }
        Used::NoHandler(what) => {
            let message = "this does nothing but fail: it has no function that handles it".to_owned();
            // It registers all the same; what fails is the command, or the event.
            Diagnostic::new(Code::Api, message).help(*what).soften()
        }
        Used::Parameters(what) => {
            let message = format!("a tool must define an object parameter schema: its `parameters` are {what}");
            let help = "give it a JSON schema, such as `Type.Object({ ... })` of typebox; `Type.Object({})` for none";
            Diagnostic::new(Code::Schema, message).help(help)
        }
    };
    let diagnostic = diagnostic.at(file, &scan.source, used.start, used.end);
    Some(match diagnostic.severity() {
        _ if used.is_tried => diagnostic.soften(),
        // What the factory calls in any case.
        Severity::Blocked if is_entry && used.is_straight => diagnostic.at_load(),
        _ => diagnostic,
    })
}

/// The known name that is most like `name`, unless none is.
fn similar<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let most = if name.len() < 6 { 1 } else { MOST_EDITS };
    let edits = |known: &str| strsim::damerau_levenshtein(&name.to_lowercase(), &known.to_lowercase());
    let found = known.map(|known| (edits(known), known)).filter(|(edits, _)| *edits <= most);
    found.min_by_key(|(edits, known)| (*edits, known.len().abs_diff(name.len()), *known)).map(|(_, known)| known)
}
