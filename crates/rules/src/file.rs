//! Rule files: markdown with front matter, in the formats of pi, pi-ttsr, oh-my-pi and Cursor.
//!
//! ```text
//! ---                              │ key            │ of         │ value
//! condition: '\bTODO\b'            │ condition      │ oh-my-pi   │ one regular expression, or a list
//! scope: "tool:edit(*.ts), text"   │ trigger, flags │ pi-ttsr    │ one regular expression; `scope` is then line,
//! interruptMode: always            │                │            │ chunk or accumulated
//! ---                              │ globs          │ Cursor     │ separated by commas
//!                                  │ where, settle  │ us         │ any, code, prose; now, word, line
//! Finish the work.                 │ ...            │            │ [`KEYS`]
//! ```
//!
//! [`parse`] takes text and returns a [`ParsedFile`]: rules and [`Diagnostic`]s. A mistake invalidates only the part that
//! contains it; the other conditions of a list stay valid. No text makes it panic, and the limits below bound its time and
//! memory.

mod decode;
mod front;
mod keys;
mod text;
mod yaml;

use crate::diagnostic::{Diagnostic, Excerpt, Severity};
use crate::rule::{Origin, Rule};
use decode::Decoder;
use front::Split;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use text::Mapped;

pub use keys::KEYS;

/// Maximum size of a rule file, in bytes. A rule is a page of text, which is added to a model's context.
pub const MAX_FILE: usize = 1024 * 1024;
/// Maximum number of bytes that are shown of a file larger than [`MAX_FILE`].
const MAX_FIRST_LINE: usize = 400;
/// Maximum number of conditions of each kind in a rule. All conditions of a session are compiled into one automaton.
pub const MAX_CONDITIONS: usize = 200;

/// The format of a file. It decides the meaning of a comma in `globs`, and names the provider of the rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// The format of PiJS; a file with a `trigger` is read as one of pi-ttsr.
    Pi,
    /// The format of oh-my-pi.
    Omp,
    /// The format of Cursor: commas separate globs.
    Cursor,
    /// The format of PiJS, for a rule that is compiled into the program.
    BuiltIn,
}

impl Format {
    /// Returns the format of a file in one of pi's folders: Cursor's for `.mdc`.
    pub fn of_path(path: &Path) -> Self {
        match path.extension() {
            Some(extension) if extension == "mdc" => Self::Cursor,
            _ => Self::Pi,
        }
    }

    fn provider(self) -> &'static str {
        match self {
            Self::Pi => "pi",
            Self::Omp => "omp",
            Self::Cursor => "cursor",
            Self::BuiltIn => "built-in",
        }
    }
}

/// The contents of a file.
#[derive(Debug, Clone)]
pub struct ParsedFile {
    /// Path of the file.
    pub path: PathBuf,
    /// The rule of the file; empty if the file has no rule or has `enabled: false`.
    pub rules: Vec<Rule>,
    /// The rule of a file with `enabled: false`, which is only listed.
    pub disabled: Vec<Rule>,
    /// Findings, in the order of the file.
    pub diagnostics: Vec<Diagnostic>,
    pub(crate) places: Places,
    /// Whether front matter was read; if not, a finding states the reason.
    pub(crate) has_front_matter: bool,
}

/// A part of a rule that a finding may point at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Rule,
    Condition,
    AstCondition,
    /// A misspelt key of a condition, in a rule without one.
    UnknownCondition,
    Question,
    Scope,
    Glob,
    Agent,
    InterruptMode,
    Where,
}

/// The positions of a rule's parts in its file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Places(BTreeMap<(Part, usize), Excerpt>);

impl Places {
    fn insert(&mut self, part: Part, index: usize, excerpt: Excerpt) {
        self.0.insert((part, index), excerpt);
    }

    /// Returns whether the file contains a part.
    pub(crate) fn has(&self, part: (Part, usize)) -> bool {
        self.0.contains_key(&part)
    }

    /// Reports on a part; on the file's first line when the part is absent from the file.
    pub(crate) fn report(
        &self,
        path: &Path,
        (part, index): (Part, usize),
        severity: Severity,
        message: String,
        help: Option<String>,
    ) -> Diagnostic {
        let excerpt = self.0.get(&(part, index)).or_else(|| self.0.get(&(Part::Rule, 0)));
        excerpt.cloned().unwrap_or_else(|| Excerpt::new("", 0, 0)).report(path, severity, message, help)
    }
}

/// Decodes the bytes of a file as text.
///
/// # Errors
///
/// Fails for a file that is longer than [`MAX_FILE`] or is not UTF-8.
pub fn decode<'a>(path: &Path, bytes: &'a [u8]) -> Result<&'a str, Box<Diagnostic>> {
    let report = |excerpt: Excerpt, message: String, help: &str| {
        Box::new(excerpt.report(path, Severity::Error, message, Some(help.to_owned())))
    };
    if bytes.len() > MAX_FILE {
        let message = format!("the file has more than {MAX_FILE} bytes, the limit of a rule file");
        let first = String::from_utf8_lossy(&bytes[..MAX_FIRST_LINE]);
        return Err(report(Excerpt::new(&first, 0, 1), message, "keep other files outside of the folder of rules"));
    }
    std::str::from_utf8(bytes).map_err(|error| {
        let valid = std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default();
        let excerpt = Excerpt::new(&format!("{valid}\u{FFFD}"), valid.len(), 1);
        report(excerpt, "the file is not UTF-8".to_owned(), "save it as UTF-8")
    })
}

/// Parses the bytes of a rule file, as [`parse`] does; invalid bytes have one finding.
pub fn parse_bytes(path: &Path, bytes: &[u8], format: Format, origin: Origin) -> ParsedFile {
    match decode(path, bytes) {
        Ok(text) => parse(path, text, format, origin),
        Err(diagnostic) => ParsedFile {
            path: path.to_owned(),
            rules: Vec::new(),
            disabled: Vec::new(),
            diagnostics: vec![*diagnostic],
            has_front_matter: false,
            places: Places::default(),
        },
    }
}

/// Parses a rule file. The name of the rule is that of the file without its extension.
pub fn parse(path: &Path, file: &str, format: Format, origin: Origin) -> ParsedFile {
    let mut parsed = ParsedFile {
        path: path.to_owned(),
        rules: Vec::new(),
        disabled: Vec::new(),
        diagnostics: Vec::new(),
        places: Places::default(),
        has_front_matter: false,
    };
    if let Err(diagnostic) = decode(path, file.as_bytes()) {
        parsed.diagnostics.push(*diagnostic);
        return parsed;
    }
    let lines = Mapped::lines(file);
    let mut decoder = Decoder::new(path, file, format, origin);
    let ttsr = matches!(format, Format::Pi | Format::BuiltIn).then(|| front::split_ttsr(&lines)).flatten();
    let body = match ttsr {
        Some((front, body)) => {
            decoder.take_ttsr(front);
            body
        }
        None => match front::split(&lines) {
            Split::Parts { front, body } => {
                decoder.take(front);
                body
            }
            Split::Body(body) => {
                decoder.report_no_front_matter();
                body
            }
            Split::Unclosed(body) => {
                decoder.report_unclosed();
                body
            }
            Split::TooLong => {
                decoder.report_too_long();
                String::new()
            }
        },
    };
    decoder.finish(body, &mut parsed);
    parsed
}

#[cfg(test)]
mod tests;
