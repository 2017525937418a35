//! Diagnostics of the compiler for the author of an extension, with one type for all phases.
//!
//! A [`Diagnostic`] is collected, never thrown: a phase returns its value and its diagnostics, and only the pipeline decides
//! whether an error among them ends the build. Each has a stable [`Code`], a position in a file of the package, and a remedy.
//! Text from a package is made safe when a diagnostic is created ([`sanitise`]), so that printing it cannot move a cursor or
//! reorder a line.

#![warn(missing_docs)]
#![warn(clippy::disallowed_methods)]

use pijs_protocol::artifact::{Finding, Verdict};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// Stable codes of problems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Code {
    /// Source that is not TypeScript or JavaScript.
    Syntax,
    /// A relative import whose file does not exist.
    Resolve,
    /// An import or a link that leaves the package.
    Escape,
    /// Input beyond a limit: file size, package size, nesting.
    Limit,
    /// No extension entry where one was expected.
    Entry,
    /// A file of the package that cannot be read.
    Read,
    /// A damaged or malformed artifact, or one for another version of PiJS.
    Artifact,
    /// A damaged `.wasm` file, or one that is not an extension of pi.
    Component,
    /// An error of the bundler.
    Link,
    /// Bundled source that the engine rejected.
    Emit,
    /// An artifact cache that could not be used; the build continued without it.
    Cache,
    /// `eval` or `new Function`.
    Eval,
    /// A native addon, or a runtime's native interface.
    Native,
    /// `node:worker_threads` or `Worker`.
    Worker,
    /// `import()` of an expression that is not a literal.
    DynamicImport,
    /// A change of the prototype of one of pi's classes.
    Patch,
    /// A package that is not installed.
    Unresolved,
    /// A name that the imported module does not export.
    MissingExport,
    /// Bidirectional controls or invisible characters in source text.
    HiddenText,
    /// An entry without a default export of a function.
    DefaultExport,
    /// A member that pi's API does not have.
    Api,
    /// An event that pi does not have.
    Event,
    /// A tool whose `parameters` are not a JSON Schema.
    Schema,
}

impl Code {
    const ALL: &[Code] = &[
        Code::Syntax,
        Code::Resolve,
        Code::Escape,
        Code::Limit,
        Code::Entry,
        Code::Read,
        Code::Artifact,
        Code::Component,
        Code::Link,
        Code::Emit,
        Code::Cache,
        Code::Eval,
        Code::Native,
        Code::Worker,
        Code::DynamicImport,
        Code::Patch,
        Code::Unresolved,
        Code::MissingExport,
        Code::HiddenText,
        Code::DefaultExport,
        Code::Api,
        Code::Event,
        Code::Schema,
    ];

    /// Returns the code as text: `BD_SYNTAX`, ...
    pub fn as_str(self) -> &'static str {
        match self {
            Code::Syntax => "BD_SYNTAX",
            Code::Resolve => "BD_RESOLVE",
            Code::Escape => "BD_ESCAPE",
            Code::Limit => "BD_LIMIT",
            Code::Entry => "BD_ENTRY",
            Code::Read => "BD_READ",
            Code::Artifact => "BD_ARTIFACT",
            Code::Component => "BD_COMPONENT",
            Code::Link => "BD_LINK",
            Code::Emit => "BD_EMIT",
            Code::Cache => "BD_CACHE",
            Code::Eval => "BD_EVAL",
            Code::Native => "BD_NATIVE",
            Code::Worker => "BD_WORKER",
            Code::DynamicImport => "BD_DYNAMIC_IMPORT",
            Code::Patch => "BD_PATCH",
            Code::Unresolved => "BD_UNRESOLVED",
            Code::MissingExport => "BD_MISSING_EXPORT",
            Code::HiddenText => "BD_HIDDEN_TEXT",
            Code::DefaultExport => "BD_DEFAULT_EXPORT",
            Code::Api => "BD_API",
            Code::Event => "BD_EVENT",
            Code::Schema => "BD_SCHEMA",
        }
    }

    /// Returns the severity of this code, before [`Diagnostic::soften`] and [`Diagnostic::blocked`].
    pub fn severity(self) -> Severity {
        match self {
            Code::Syntax | Code::Resolve | Code::Escape | Code::Limit => Severity::Error,
            Code::Entry | Code::Read | Code::Artifact | Code::Component | Code::Link | Code::Emit => Severity::Error,
            Code::Native | Code::Worker => Severity::Blocked,
            Code::DefaultExport | Code::Api | Code::Schema => Severity::Blocked,
            Code::Eval | Code::DynamicImport | Code::Patch | Code::Unresolved | Code::Event => Severity::Warning,
            Code::MissingExport | Code::HiddenText | Code::Cache => Severity::Warning,
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The effect of a diagnostic on the build.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The extension works, with a restriction.
    Warning,
    /// The artifact is built, but the named call is refused at run time, or the whole extension when it is loaded.
    Blocked,
    /// The build fails.
    Error,
}

/// A position in a file of the package.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    /// Path inside the package, or `dep:NAME@VERSION/PATH`.
    pub file: String,
    /// Line, 1-based.
    pub line: u32,
    /// Column, 1-based, in UTF-16 units.
    pub column: u32,
}

/// The source text around a position, for rendering with a caret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Excerpt {
    #[serde(with = "shared_text")]
    source: Arc<str>,
    start: usize,
    length: usize,
    /// Whether `source` is a part of one line.
    cut: bool,
}

mod shared_text {
    use serde::{Deserialize, Deserializer, Serializer};
    use std::sync::Arc;

    pub(super) fn serialize<S: Serializer>(text: &Arc<str>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(text)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<str>, D::Error> {
        String::deserialize(deserializer).map(Arc::from)
    }
}

/// Length in bytes from which only [`PIECE`] bytes of a line are shown, because minified code is one long line.
const LONG_LINE: usize = 240;
const PIECE: usize = 80;

impl Excerpt {
    fn new(source: &Arc<str>, start: usize, end: usize) -> Self {
        let line_start = source[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = source[start..].find('\n').map_or(source.len(), |newline| start + newline);
        if line_end - line_start <= LONG_LINE {
            return Self { source: harmless(source), start, length: end - start, cut: false };
        }
        let from = floor_boundary(source, start.saturating_sub(PIECE / 2).max(line_start));
        let to = floor_boundary(source, (from + PIECE).min(line_end));
        let piece = harmless(&Arc::from(&source[from..to]));
        Self { source: piece, start: start - from, length: end.min(to).saturating_sub(start), cut: true }
    }
}

/// A problem that a phase of the compiler found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    code: Code,
    severity: Severity,
    place: Option<Place>,
    message: String,
    help: Option<String>,
    /// Whether the problem prevents the extension from being loaded.
    #[serde(default)]
    ends_load: bool,
    /// Boxed, because a diagnostic is usually the error of a result.
    excerpt: Option<Box<Excerpt>>,
}

/// Help for source that cannot be parsed.
pub const SYNTAX_HELP: &str =
    "the parser stopped here; a bracket, quote or comma that is missing or too many may be earlier in the file";

impl Diagnostic {
    /// Creates a diagnostic about the whole input.
    pub fn new(code: Code, message: impl AsRef<str>) -> Self {
        Self {
            code,
            severity: code.severity(),
            place: None,
            message: sanitise(message.as_ref()),
            help: None,
            ends_load: code == Code::DefaultExport,
            excerpt: None,
        }
    }

    /// Sets the remedy.
    #[must_use]
    pub fn help(mut self, help: impl AsRef<str>) -> Self {
        self.help = Some(sanitise(help.as_ref()));
        self
    }

    /// Removes the source text.
    pub fn forget_excerpt(&mut self) {
        self.excerpt = None;
    }

    /// Sets the position to the first line of a file.
    #[must_use]
    pub fn in_file(mut self, file: &str) -> Self {
        self.place = Some(Place { file: sanitise(file), line: 1, column: 1 });
        self
    }

    /// Sets the position to the bytes `start..end` of a file's source.
    #[must_use]
    pub fn at(mut self, file: &str, source: &Arc<str>, start: usize, end: usize) -> Self {
        let start = floor_boundary(source, start);
        let end = floor_boundary(source, end).max(start);
        let (line, column) = line_column(source, start);
        self.place = Some(Place { file: sanitise(file), line, column });
        self.excerpt = Some(Box::new(Excerpt::new(source, start, end)));
        self
    }

    /// Sets the position to a 1-based line and column of a file's source.
    #[must_use]
    pub fn at_line(self, file: &str, source: &Arc<str>, line: u32, column: u32) -> Self {
        let before: usize = source.split_inclusive('\n').take(line.saturating_sub(1) as usize).map(str::len).sum();
        let units = column.saturating_sub(1) as usize;
        let mut seen = 0;
        let rest = &source[before.min(source.len())..];
        let within = rest.char_indices().find(|(_, character)| {
            let found = seen >= units;
            seen += character.len_utf16();
            found
        });
        let start = before + within.map_or(rest.len(), |(at, _)| at);
        self.at(file, source, start, start + 1)
    }

    /// Creates a diagnostic about a JSON file that does not parse.
    pub fn of_json(code: Code, file: &str, text: &str, error: &serde_json::Error) -> Self {
        let message = error.to_string();
        // The position is rendered separately.
        let message = message.split(" at line ").next().unwrap_or_default();
        let position = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        let (line, column) = (position(error.line()), position(error.column()));
        Self::new(code, format!("not JSON: {message}")).at_line(file, &Arc::from(text), line, column)
    }

    /// Returns the code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// Returns the severity: the code's severity, unless it was changed for this position.
    pub fn severity(&self) -> Severity {
        self.severity
    }

    /// Lowers the severity to a warning, for code that may never run.
    #[must_use]
    pub fn soften(mut self) -> Self {
        self.severity = Severity::Warning;
        self.ends_load = false;
        self
    }

    /// Marks a blocked part as blocking the whole extension, because the code throws when the package is loaded.
    #[must_use]
    pub fn at_load(mut self) -> Self {
        self.severity = self.severity.max(Severity::Blocked);
        self.ends_load = true;
        self
    }

    /// Lowers an error to a blocked part, because the rest of the extension can run.
    #[must_use]
    pub fn blocked(mut self) -> Self {
        self.severity = self.severity.min(Severity::Blocked);
        self
    }

    /// Returns whether the problem prevents the extension from being loaded, as a call that throws in the factory does.
    pub fn ends_load(&self) -> bool {
        self.ends_load
    }

    /// Returns the position; `None` for the whole input.
    pub fn place(&self) -> Option<&Place> {
        self.place.as_ref()
    }

    /// Returns the description of the problem.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the remedy.
    pub fn advice(&self) -> Option<&str> {
        self.help.as_deref()
    }

    /// Reads a diagnostic from an artifact; `None` for a code that this version does not know.
    pub fn from_finding(finding: &Finding) -> Option<Self> {
        let code = *Code::ALL.iter().find(|code| code.as_str() == finding.code)?;
        let severity = match finding.class {
            Verdict::Compatible | Verdict::Warning => Severity::Warning,
            Verdict::Blocked => Severity::Blocked,
        };
        // The artifact is untrusted, so its text is sanitised.
        let help = finding.help.as_deref().map(sanitise);
        let place = Place { file: sanitise(&finding.file), line: finding.line, column: finding.column };
        let (message, ends_load) = (sanitise(&finding.message), finding.ends_load);
        Some(Self { code, severity, place: Some(place), message, help, ends_load, excerpt: None })
    }

    /// Returns the form that `artifact.json` stores; `None` for errors, because a failed build has no artifact, and for
    /// diagnostics about this machine.
    pub fn to_finding(&self) -> Option<Finding> {
        let class = match self.severity() {
            Severity::Warning => Verdict::Warning,
            Severity::Blocked => Verdict::Blocked,
            Severity::Error => return None,
        };
        let place = self.place.as_ref()?;
        Some(Finding {
            code: self.code.as_str().to_owned(),
            class,
            file: place.file.clone(),
            line: place.line,
            column: place.column,
            message: self.message.clone(),
            help: self.help.clone(),
            ends_load: self.ends_load,
        })
    }

    /// Formats the diagnostic for a terminal or a log: code, excerpt with a caret, remedy.
    pub fn render(&self, colour: bool) -> String {
        let theme = if colour { miette::GraphicalTheme::unicode() } else { miette::GraphicalTheme::unicode_nocolor() };
        let mut text = String::new();
        if let (None, Some(place)) = (&self.excerpt, &self.place) {
            text = format!("{}:{}:{}\n", place.file, place.line, place.column);
        }
        miette::GraphicalReportHandler::new_themed(theme)
            .render_report(&mut text, self)
            .expect("writing to a string cannot fail");
        text
    }

    /// Returns the form that `--json` prints.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "code": self.code.as_str(),
            "severity": self.severity(),
            "file": self.place.as_ref().map(|place| &place.file),
            "line": self.place.as_ref().map(|place| place.line),
            "column": self.place.as_ref().map(|place| place.column),
            "message": self.message,
            "help": self.help,
            "ends_load": self.ends_load,
        })
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Diagnostic {}

impl miette::Diagnostic for Diagnostic {
    fn code<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(self.code))
    }

    fn severity(&self) -> Option<miette::Severity> {
        Some(match self.severity {
            Severity::Warning | Severity::Blocked => miette::Severity::Warning,
            Severity::Error => miette::Severity::Error,
        })
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn miette::SourceCode> {
        self.excerpt.as_ref().map(|_| self as &dyn miette::SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = miette::LabeledSpan> + '_>> {
        let excerpt = self.excerpt.as_ref()?;
        let label =
            miette::LabeledSpan::new_primary_with_span(Some("here".to_owned()), (excerpt.start, excerpt.length));
        Some(Box::new(std::iter::once(label)))
    }
}

impl miette::SourceCode for Diagnostic {
    fn read_span<'a>(
        &'a self,
        span: &miette::SourceSpan,
        context_lines_before: usize,
        context_lines_after: usize,
    ) -> Result<Box<dyn miette::SpanContents<'a> + 'a>, miette::MietteError> {
        let excerpt = self.excerpt.as_ref().ok_or(miette::MietteError::OutOfBounds)?;
        let contents = excerpt.source.as_ref().read_span(span, context_lines_before, context_lines_after)?;
        let name = self.place.as_ref().map_or_else(String::new, |place| place.file.clone());
        if let (true, Some(place)) = (excerpt.cut, &self.place) {
            let (line, column) = (place.line as usize - 1, place.column as usize - 1);
            let (data, shown) = (contents.data(), *contents.span());
            return Ok(Box::new(miette::MietteSpanContents::new_named(name, data, shown, line, column, 1)));
        }
        Ok(Box::new(miette::MietteSpanContents::new_named(
            name,
            contents.data(),
            *contents.span(),
            contents.line(),
            contents.column(),
            contents.line_count(),
        )))
    }
}

/// The diagnostics of a failed build, with at least one error.
#[derive(Debug, Clone)]
pub struct BuildFailure {
    diagnostics: Vec<Diagnostic>,
}

impl BuildFailure {
    /// Creates a failure from diagnostics: errors first, otherwise in the order in which they were found.
    pub fn new(mut diagnostics: Vec<Diagnostic>) -> Self {
        diagnostics.sort_by_key(|diagnostic| std::cmp::Reverse(diagnostic.severity() == Severity::Error));
        Self { diagnostics }
    }

    /// Returns all diagnostics, errors first.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// Formats all diagnostics for a terminal or a log: code, excerpt with a caret, remedy.
    pub fn render(&self, colour: bool) -> String {
        self.diagnostics.iter().map(|diagnostic| diagnostic.render(colour)).collect::<Vec<_>>().join("\n")
    }

    /// Returns the first error.
    pub fn first(&self) -> &Diagnostic {
        self.diagnostics.first().expect("a failed build has at least one error")
    }
}

impl From<Diagnostic> for BuildFailure {
    fn from(diagnostic: Diagnostic) -> Self {
        Self::new(vec![diagnostic])
    }
}

impl fmt::Display for BuildFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.first();
        if let Some(place) = first.place() {
            write!(f, "{}:{}:{}: ", place.file, place.line, place.column)?;
        }
        write!(f, "{} [{}]", first.message(), first.code())
    }
}

impl std::error::Error for BuildFailure {}

/// Makes text from a package safe to print: escapes control, bidirectional and invisible characters as `\u{...}`, and keeps all
/// other characters.
pub fn sanitise(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if (character.is_control() && character != '\n') || is_hidden(character) {
            out.extend(character.escape_unicode());
        } else {
            out.push(character);
        }
    }
    out
}

/// Replaces each character that could control a terminal by a visible one of the same length, so that offsets stay valid.
fn harmless(source: &Arc<str>) -> Arc<str> {
    let bad = |character: char| (character.is_control() && !matches!(character, '\n' | '\t')) || is_hidden(character);
    if !source.contains(bad) {
        return Arc::clone(source);
    }
    let replaced = source.chars().map(|character| match character.len_utf8() {
        _ if !bad(character) => character,
        1 => '?',
        2 => '¿',
        3 => '\u{fffd}',
        _ => '\u{1f6ab}',
    });
    replaced.collect::<String>().into()
}

/// Returns whether a character is invisible and changes how text reads: bidirectional controls, zero-width characters, tag
/// characters.
pub fn is_hidden(character: char) -> bool {
    matches!(character,
        '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2064}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// Returns the 1-based line and UTF-16 column of a byte offset.
pub fn line_column(source: &str, offset: usize) -> (u32, u32) {
    let before = &source[..floor_boundary(source, offset)];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = before.bytes().filter(|&byte| byte == b'\n').count() + 1;
    let column = before[line_start..].encode_utf16().count() + 1;
    (u32::try_from(line).unwrap_or(u32::MAX), u32::try_from(column).unwrap_or(u32::MAX))
}

fn floor_boundary(source: &str, offset: usize) -> usize {
    let mut offset = offset.min(source.len());
    while !source.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

/// Returns the worst verdict among the diagnostics; an error, which prevents the build, counts as `blocked`.
pub fn verdict(diagnostics: &[Diagnostic]) -> Verdict {
    diagnostics
        .iter()
        .map(|diagnostic| match diagnostic.severity() {
            Severity::Warning => Verdict::Warning,
            Severity::Blocked | Severity::Error => Verdict::Blocked,
        })
        .max()
        .unwrap_or(Verdict::Compatible)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_one_based_and_count_utf16_units() {
        let source = "a\nb😀c";
        assert_eq!(line_column(source, 0), (1, 1));
        assert_eq!(line_column(source, source.find('c').unwrap()), (2, 4));
        assert_eq!(line_column(source, source.len() + 9), (2, 5));
    }

    #[test]
    fn printed_text_cannot_drive_a_terminal() {
        assert_eq!(sanitise("a\u{1b}[2Jb\u{202e}c"), "a\\u{1b}[2Jb\\u{202e}c");
    }

    #[test]
    fn a_failure_shows_its_error_before_remarks() {
        let failure = BuildFailure::new(vec![
            Diagnostic::new(Code::Eval, "remark"),
            Diagnostic::new(Code::Syntax, "error").in_file("a.ts"),
        ]);
        assert_eq!(failure.to_string(), "a.ts:1:1: error [BD_SYNTAX]");
    }
}
