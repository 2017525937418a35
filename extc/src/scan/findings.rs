//! Messages of the scan: one constructor for each finding, with how to fix it.

use super::compiled_text::TextCompilation;
use pijs_diagnostics::{Code, Diagnostic, is_hidden};
use pijs_protocol::guard;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Help for a computed target.
pub(super) const NAME_IT: &str =
    "name the target literally, so that it is compiled; at run time only builtins and pi's packages are found";

/// Help for an import with a computed target.
pub(super) const NAME_IMPORT: &str = "name the target literally, so that it is compiled; at run time builtins, pi's packages and, with the capability `eval`, files of JavaScript are found";

pub(super) struct Findings<'a> {
    pub(super) file: &'a str,
    pub(super) source: &'a Arc<str>,
    pub(super) dependency: bool,
    pub(super) found: Vec<Diagnostic>,
}

impl Findings<'_> {
    fn push(&mut self, diagnostic: Diagnostic, (start, end): (usize, usize)) {
        let diagnostic = diagnostic.at(self.file, self.source, start, end);
        // Libraries probe for these features and continue without them.
        self.found.push(if self.dependency { diagnostic.soften() } else { diagnostic });
    }

    pub(super) fn compiled_text(&mut self, place: &TextCompilation, at: (usize, usize)) {
        let unseen = if place.is_direct { "; it does not see the local names around it" } else { "" };
        let message = format!("`{}` compiles text while the extension runs{unseen}", place.what);
        let help = "this needs the capability `eval` (`pi ext grants allow EXTENSION eval`) and throws without it; code in a file of the package needs none";
        self.push(Diagnostic::new(Code::Eval, message).help(help), at);
    }

    pub(super) fn native(&mut self, what: &str, at: (usize, usize)) {
        self.push(
            Diagnostic::new(Code::Native, format!("`{what}` loads native code, which is off"))
                .help("use a JavaScript implementation, or run a program with `pi.exec`"),
            at,
        );
    }

    pub(super) fn worker(&mut self, at: (usize, usize)) {
        self.push(
            Diagnostic::new(Code::Worker, "worker threads do not exist in a realm")
                .help("do the work in pieces with `await`, or run a program with `pi.exec`"),
            at,
        );
    }

    /// Reports an `import()` or `require()` of a computed specifier.
    pub(super) fn computed(&mut self, what: &str, at: (usize, usize)) {
        self.push(
            Diagnostic::new(Code::DynamicImport, format!("the target of this `{what}` is computed")).help(NAME_IT),
            at,
        );
    }

    /// Reports an `import()` whose target is computed.
    pub(super) fn computed_import(&mut self, at: (usize, usize)) {
        let message = "the target of this `import()` is computed";
        self.push(Diagnostic::new(Code::DynamicImport, message).help(NAME_IMPORT), at);
    }

    /// Reports a change of the prototype of one of pi's classes.
    pub(super) fn patch(&mut self, class: &str, at: (usize, usize)) {
        let message =
            format!("a change of `{class}.prototype` only affects objects that this package makes, not the host's own");
        self.push(
            Diagnostic::new(Code::Patch, message).help(
                "use pi's API instead: `renderCall` and `renderResult` of a tool, `registerMessageRenderer`, `setEditorComponent`",
            ),
            at,
        );
    }

    /// Reports hidden characters, one finding per file.
    pub(super) fn hidden_text(&mut self) {
        let mut points = BTreeSet::new();
        let mut first = None;
        for (at, character) in self.source.char_indices().filter(|(_, character)| is_hidden(*character)) {
            // A zero-width joiner between emoji is legitimate text.
            if character == '\u{200d}' && between_non_ascii(self.source, at, character) {
                continue;
            }
            points.insert(format!("U+{:04X}", character as u32));
            first.get_or_insert((at, at + character.len_utf8()));
        }
        if let Some(at) = first.filter(|_| guard!(BuildHiddenText)) {
            let list = points.into_iter().collect::<Vec<_>>().join(", ");
            self.push(
                Diagnostic::new(Code::HiddenText, format!("invisible or reordering characters in the source: {list}"))
                    .help("write them as escapes, so that readers see what runs"),
                at,
            );
        }
    }
}

fn between_non_ascii(source: &str, at: usize, character: char) -> bool {
    let before = source[..at].chars().next_back();
    let after = source[at + character.len_utf8()..].chars().next();
    before.is_some_and(|before| !before.is_ascii()) && after.is_some_and(|after| !after.is_ascii())
}
