//! Diagnostics of rule files: position, problem, and the fix.
//!
//! ```text
//! error: condition 1 is not a valid regular expression: Unterminated group
//!  --> rules/a.md:2:13
//!   |
//! 2 | condition: "([unclosed"
//!   |             ^
//!   = help: close it with `)`, or write `\(` for the character itself
//! ```

use serde::Serialize;
use std::fmt;
use std::path::{Path, PathBuf};
use unicode_width::UnicodeWidthChar;

/// Maximum number of columns of a line that are shown; a pattern may be very long.
const MAX_EXCERPT: usize = 100;
/// Columns that are kept before the caret when a line is cut.
const BEFORE_CARET: usize = 40;
/// Maximum number of characters of a file's text that a message quotes.
const MAX_QUOTE: usize = 60;

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// The rule, or the marked part, does not work.
    Error,
    /// The rule works, though probably not as intended.
    Warning,
    /// The rule works as intended; the finding is information.
    Note,
}

impl fmt::Display for Severity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        })
    }
}

/// A finding in a rule file.
///
/// `Display` prints one line (`rules/a.md:3:14: error: ...`); [`Diagnostic::render`] adds the excerpt and the help. Text of the
/// file is shown without its control characters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Diagnostic {
    /// The severity.
    pub severity: Severity,
    /// File with the finding.
    pub path: PathBuf,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The line, cut around the column when it is long.
    pub excerpt: String,
    /// Columns of the excerpt before the caret.
    pub caret: usize,
    /// Columns that are underlined, at least 1.
    pub width: usize,
    /// The message: the affected part, and the problem.
    pub message: String,
    /// The text to write instead.
    pub help: Option<String>,
}

impl Diagnostic {
    /// Prints the finding with its line and a caret, without a newline at the end.
    pub fn render(&self) -> String {
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        let path = printable(&self.path.display().to_string());
        let Self { severity, message, line, column, excerpt, .. } = self;
        let mut out = format!("{severity}: {message}\n{margin}--> {path}:{line}:{column}\n{margin} |\n");
        out += &format!("{number} | {excerpt}\n{margin} | {}{}", " ".repeat(self.caret), "^".repeat(self.width.max(1)));
        if let Some(help) = &self.help {
            out += &format!("\n{margin} = help: {help}");
        }
        out
    }
}

impl Diagnostic {
    /// Prints one line without the severity: `rules/a.md:3:14: ... (help)`.
    pub fn brief(&self) -> String {
        let Self { path, line, column, message, .. } = self;
        let help = self.help.as_ref().map_or_else(String::new, |help| format!(" ({help})"));
        format!("{}:{line}:{column}: {message}{help}", printable(&path.display().to_string()))
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = printable(&self.path.display().to_string());
        write!(formatter, "{path}:{}:{}: {}: {}", self.line, self.column, self.severity, self.message)?;
        self.help.as_ref().map_or(Ok(()), |help| write!(formatter, " ({help})"))
    }
}

/// A span of a file, in the form that a diagnostic shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Excerpt {
    line: usize,
    column: usize,
    text: String,
    caret: usize,
    width: usize,
}

impl Excerpt {
    /// Resolves `length` bytes from an offset. Start and end are moved to the nearest character boundary.
    pub(crate) fn new(text: &str, offset: usize, length: usize) -> Self {
        let start = text.floor_char_boundary(offset.min(text.len()));
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find(['\n', '\r']).map_or(text.len(), |at| start + at);
        let end = text.floor_char_boundary(start.saturating_add(length).min(line_end)).max(start);
        let before: Vec<char> = text[line_start..start].chars().collect();
        let shown_before = before.len().min(if columns(&text[line_start..line_end]) > MAX_EXCERPT {
            BEFORE_CARET
        } else {
            usize::MAX
        });
        let mut shown = String::new();
        if shown_before < before.len() {
            shown.push('…');
        }
        shown.extend(before[before.len() - shown_before..].iter().map(|&c| visible(c)));
        let caret = columns(&shown);
        let mut width = 0;
        let mut used = caret;
        for (at, c) in text[start..line_end].char_indices().map(|(at, c)| (start + at, visible(c))) {
            let wide = c.width().unwrap_or(0);
            if used + wide > MAX_EXCERPT {
                shown.push('…');
                break;
            }
            shown.push(c);
            used += wide;
            if at < end {
                width += wide;
            }
        }
        Self {
            line: text[..line_start].matches('\n').count() + 1,
            column: before.len() + 1,
            text: shown.trim_end().to_owned(),
            caret,
            width: width.max(1),
        }
    }

    /// Creates a diagnostic for the excerpt.
    pub(crate) fn report(&self, path: &Path, severity: Severity, message: String, help: Option<String>) -> Diagnostic {
        Diagnostic {
            severity,
            path: path.to_owned(),
            line: self.line,
            column: self.column,
            excerpt: self.text.clone(),
            caret: self.caret,
            width: self.width,
            message,
            help,
        }
    }
}

/// Quotes text of a file in backticks, truncated and without control characters.
pub(crate) fn quoted(text: &str) -> String {
    let mut shown: String = text.chars().take(MAX_QUOTE).map(visible).collect();
    if text.chars().nth(MAX_QUOTE).is_some() {
        shown.push('…');
    }
    format!("`{shown}`")
}

/// Replaces the control characters of a text, so that it is one line.
pub fn printable(text: &str) -> String {
    text.chars().map(visible).collect()
}

/// Replaces characters that would move the cursor or reorder the line. A tab is one column wide.
fn visible(c: char) -> char {
    match c {
        '\t' => ' ',
        '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{FEFF}' => '\u{FFFD}',
        c if c.is_control() => '\u{FFFD}',
        c => c,
    }
}

fn columns(text: &str) -> usize {
    text.chars().map(|c| visible(c).width().unwrap_or(0)).sum()
}

/// Finds the known name that is most similar to `name`: at most two letters differ, one in a short name.
pub(crate) fn similar<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // The distance is quadratic in the length, and no known name is this long.
    if name.len() > 64 {
        return None;
    }
    let most = if name.len() < 6 { 1 } else { 2 };
    let distance = |known: &str| strsim::damerau_levenshtein(&name.to_lowercase(), &known.to_lowercase());
    let found = known.into_iter().map(|known| (distance(known), known)).filter(|(edits, _)| *edits <= most);
    found.min_by_key(|(edits, known)| (*edits, *known)).map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_is_below_its_column_despite_wide_and_control_characters() {
        let report = |text: &str, offset, length| {
            let excerpt = Excerpt::new(text, offset, length);
            excerpt.report("a.md".as_ref(), Severity::Error, "bad".to_owned(), Some("good".to_owned())).render()
        };
        let text = "---\nx: 日本\u{1b}[2J\tbad\u{202e}\r\n";
        assert_eq!(
            report(text, text.find("bad").expect("in the text"), 3),
            "error: bad\n --> a.md:2:11\n  |\n2 | x: 日本\u{FFFD}[2J bad\u{FFFD}\n  |             ^^^\n  = help: good"
        );
        let long = format!("a: {}!{}", "x".repeat(200), "y".repeat(200));
        let shown = report(&long, 203, 1);
        assert!(shown.contains(":1:204\n") && shown.lines().all(|line| columns(line) < 110), "{shown}");
        // Offsets beyond the end or inside of a character are moved.
        assert!(report("ä", 1, 99).contains(":1:1\n") && report("", 7, 0).contains(":1:1\n"));
    }
}
