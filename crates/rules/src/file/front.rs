//! Front matter: splits a file, and reads `key: value` with positions.
//!
//! The general reader works like oh-my-pi. It removes HTML comments, requires the text to begin with `---`, and converts tabs to
//! two spaces and kebab-case keys to camel case. If the YAML cannot be parsed, plain values that contain `: ` are quoted; if that
//! does not help, each line is read separately. The reader for files of pi-ttsr (those with a `trigger`) is line by line and
//! strict.

use super::text::Mapped;
use super::yaml::{self, Kind, Node, Style, Value, YamlError};
use crate::diagnostic::{Severity, quoted};
use std::collections::BTreeSet;

/// Maximum size of front matter, in bytes. A rule has a few hundred; the YAML scanner is not linear on hostile text.
pub(super) const MAX_FRONT_MATTER: usize = 64 * 1024;

/// A key with its value.
#[derive(Debug)]
pub(super) struct Entry {
    /// The key in camel case.
    pub(super) key: String,
    /// The key as it is written.
    pub(super) written: String,
    /// The byte of the front matter at which the key begins.
    pub(super) at: usize,
    pub(super) value: Value,
}

/// A finding, at a byte of the front matter.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) severity: Severity,
    pub(super) at: usize,
    pub(super) length: usize,
    pub(super) message: String,
    pub(super) help: Option<String>,
}

/// The parts of a file.
#[derive(Debug)]
pub(super) enum Split {
    /// Front matter, and the text after it, trimmed.
    Parts { front: Mapped, body: String },
    /// No front matter: the whole file is body.
    Body(String),
    /// Begins with an unclosed `---`.
    Unclosed(String),
    /// Front matter longer than [`MAX_FRONT_MATTER`].
    TooLong,
}

/// Splits a file as oh-my-pi does.
pub(super) fn split(lines: &Mapped) -> Split {
    let text = lines.without_comments();
    if !text.text.starts_with("---") {
        return Split::Body(text.text);
    }
    let Some(end) = text.text[3..].find("\n---").map(|at| at + 3) else { return Split::Unclosed(text.text) };
    if end > MAX_FRONT_MATTER {
        return Split::TooLong;
    }
    // A line of more than three dashes opens and closes as well. oh-my-pi treats such lines as text.
    let opening = text.text.len() - text.text.trim_start_matches('-').len();
    let start = text.text.ceil_char_boundary(opening + 1).min(end);
    let front = text.rewritten(start, end, |c| (c == '\t').then_some("  "));
    let body = text.text[end + 4..].trim_start_matches('-').trim().to_owned();
    Split::Parts { front, body }
}

/// Splits a file like pi-ttsr, if it has a `trigger` and no other condition.
pub(super) fn split_ttsr(lines: &Mapped) -> Option<(Mapped, String)> {
    let text = &lines.text;
    let mut ends = text.split_inclusive('\n').scan(0, |at, line| {
        *at += line.len();
        Some((*at - line.len(), line.trim_end()))
    });
    let (_, first) = ends.next()?;
    let start = (first == "---").then(|| text.find('\n'))?? + 1;
    let (end, _) = ends.find(|(_, line)| *line == "---")?;
    let keys: BTreeSet<&str> =
        text[start..end].lines().filter_map(|line| line.split_once(':')).map(|(key, _)| key).collect();
    let is_other =
        ["condition", "astCondition", "ttsr_trigger", "ttsrTrigger", "ttsr-trigger", "ast-condition", "question"];
    if !keys.contains("trigger") || is_other.iter().any(|key| keys.contains(key)) || end > MAX_FRONT_MATTER {
        return None;
    }
    let body = text[end..].split_once('\n').map_or("", |(_, body)| body).trim().to_owned();
    Some((lines.rewritten(start, end, |_| None), body))
}

/// Reads front matter. If the YAML cannot be parsed, a finding states that and how it was read instead.
pub(super) fn entries(front: &mut Mapped, is_lenient: bool) -> (Vec<Entry>, Vec<Finding>) {
    let error = match yaml::parse(&front.text, 0) {
        Ok(value) => return of_value(value),
        Err(error) => error,
    };
    let ranges = ambiguous(&front.text);
    if !ranges.is_empty() {
        let quoted = front.with_quotes(&ranges);
        if let Ok(value) = yaml::parse(&quoted.text, 0) {
            *front = quoted;
            return of_value(value);
        }
    }
    let (entries, mut findings, is_complete) = line_by_line(&front.text);
    // A mistake in a single line has a separate finding.
    if !is_complete || (findings.is_empty() && !is_lenient) {
        let YamlError { at, message } = error;
        let message = format!("the front matter is not valid YAML ({message}); each line was read separately");
        let help = "put values with special characters in single quotes ('...'); until then, lists over several lines are ignored";
        let severity = if is_complete { Severity::Warning } else { Severity::Error };
        let finding = Finding { severity, at, length: 1, message, help: Some(help.to_owned()) };
        findings.insert(0, finding);
    }
    (entries, findings)
}

fn of_value(value: Option<Value>) -> (Vec<Entry>, Vec<Finding>) {
    let Some(value) = value else { return (Vec::new(), Vec::new()) };
    let pairs = match value.node {
        Node::Map(pairs) => pairs,
        Node::Scalar { kind: Kind::Null, .. } => Vec::new(),
        _ => {
            let message = "the front matter has no `key: value`".to_owned();
            let help = Some("write for example `condition: 'PATTERN'`".to_owned());
            return (Vec::new(), vec![Finding { severity: Severity::Error, at: value.at, length: 1, message, help }]);
        }
    };
    let entry = |(key, value): (Value, Value)| {
        let Node::Scalar { text: written, .. } = key.node else { return None };
        Some(Entry { key: camel(&written), written, at: key.at, value })
    };
    (pairs.into_iter().filter_map(entry).collect(), Vec::new())
}

/// Turns kebab case into camel case.
fn camel(key: &str) -> String {
    let mut out = String::new();
    let mut chars = key.chars().peekable();
    while let Some(c) = chars.next() {
        match chars.peek() {
            Some(next) if c == '-' && next.is_ascii_lowercase() => {
                out.push(next.to_ascii_uppercase());
                chars.next();
            }
            _ => out.push(c),
        }
    }
    out
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// Reports whether a line begins with `key:`.
pub(super) fn begins_with_key(line: &str) -> bool {
    let key = line.trim_start().split_once(':').map(|(key, _)| key);
    key.is_some_and(|key| !key.is_empty() && key.chars().all(is_word))
}

/// Returns the byte ranges of plain values that contain `: `.
fn ambiguous(front: &str) -> Vec<(usize, usize)> {
    let mut ranges = Vec::new();
    let mut start = 0;
    for line in front.split('\n') {
        let key = line.trim_start();
        let found = key.split_once(':').filter(|(key, rest)| {
            key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && key.chars().all(is_word)
                && rest.starts_with(char::is_whitespace)
        });
        if let Some((_, rest)) = found {
            let value = rest.trim();
            let at = start + line.len() - rest.trim_start().len();
            if value.contains(": ") && !value.starts_with(['"', '\'', '[', '{', '|', '>', '!', '&', '*', '#']) {
                ranges.push((at, at + value.len()));
            }
        }
        start += line.len() + 1;
    }
    ranges
}

/// Reads each line separately, like oh-my-pi. The last value tells whether each line was a `key: value` or has a finding.
fn line_by_line(front: &str) -> (Vec<Entry>, Vec<Finding>, bool) {
    let (mut entries, mut findings, mut is_complete) = (Vec::new(), Vec::new(), true);
    let mut start = 0;
    for line in front.split('\n') {
        let found = line.split_once(':').filter(|(key, _)| !key.is_empty() && key.chars().all(is_word));
        if let Some((key, rest)) = found {
            let raw = rest.trim();
            let at = start + line.len() - rest.trim_start().len();
            let plain = Node::Scalar { text: raw.to_owned(), kind: Kind::Text, style: Style::Plain };
            let value = match yaml::parse(raw, at) {
                Ok(Some(value)) if !matches!(value.node, Node::Map(_) | Node::Scalar { kind: Kind::Null, .. }) => value,
                Err(error) if raw.starts_with(['"', '\'']) => {
                    findings.push(kept_quotes(key, raw, &error));
                    Value { at, node: plain }
                }
                _ => Value { at, node: plain },
            };
            entries.push(Entry { key: camel(key), written: key.to_owned(), at: start, value });
        } else if !line.trim().is_empty() && !line.trim_start().starts_with('#') {
            let indented = indented_key(line, start);
            is_complete &= indented.is_some();
            findings.extend(indented);
        }
        start += line.len() + 1;
    }
    (entries, findings, is_complete)
}

/// Reports a key that is ignored because it does not begin its line.
fn indented_key(line: &str, start: usize) -> Option<Finding> {
    let indent = line.len() - line.trim_start().len();
    let (key, rest) = line.trim_start().split_once(':')?;
    let is_key = indent > 0 && !key.is_empty() && key.chars().all(is_word);
    (is_key && (rest.is_empty() || rest.starts_with(char::is_whitespace))).then(|| Finding {
        severity: Severity::Error,
        at: start + indent,
        length: key.len(),
        message: format!("the key {} is indented, and its line is left out", quoted(key)),
        help: Some(format!("remove the spaces before {}", quoted(key))),
    })
}

fn kept_quotes(key: &str, raw: &str, error: &YamlError) -> Finding {
    let message = format!("this value keeps its quotes, because it is not valid YAML ({})", error.message);
    let help = if raw.starts_with('"') && raw.contains('\\') {
        "in double quotes a backslash is written `\\\\`; in single quotes ('...') it is written once"
    } else if raw.starts_with('\'') && raw.len() > 1 && raw.ends_with('\'') {
        "inside of single quotes ('...') a quote is written twice: `''`"
    } else {
        "close the quote, or put the whole value in single quotes ('...')"
    };
    // Here the quotes are part of the pattern.
    let is_pattern = key.to_lowercase().ends_with("condition") || key.ends_with("trigger");
    let severity = if is_pattern { Severity::Error } else { Severity::Warning };
    Finding { severity, at: error.at, length: 1, message, help: Some(help.to_owned()) }
}

/// Reads the front matter of a pi-ttsr file. An error means that the file is not a rule.
pub(super) fn ttsr_entries(front: &str, known: impl Fn(&str) -> bool) -> Result<Vec<Entry>, Finding> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut start = 0;
    for line in front.split('\n') {
        let begin = start;
        start += line.len() + 1;
        if line.trim().is_empty() || line.starts_with(|c: char| c.is_whitespace() || c == '-' || c == '#') {
            continue;
        }
        let pair = line.split_once(':').filter(|(key, rest)| {
            key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && key.chars().all(is_word)
                && (rest.is_empty() || rest.starts_with(char::is_whitespace))
        });
        let Some((key, rest)) = pair else {
            let message = "this line is not of the form `key: value`".to_owned();
            let help = Some("write a colon and a space after the key".to_owned());
            return Err(Finding { severity: Severity::Error, at: begin, length: line.len(), message, help });
        };
        if entries.iter().any(|entry| entry.written == key) {
            let message = format!("`{key}` is given twice");
            return Err(Finding {
                severity: Severity::Error,
                at: begin,
                length: key.len(),
                message,
                help: Some("remove one of the two".to_owned()),
            });
        }
        let at = begin + line.len() - rest.trim_start().len();
        match ttsr_scalar(rest.trim()) {
            Ok((text, style)) => {
                let value = Value { at, node: Node::Scalar { text, kind: Kind::Text, style } };
                entries.push(Entry { key: camel(key), written: key.to_owned(), at: begin, value });
            }
            Err((offset, message, help)) if known(key) => {
                let severity = Severity::Error;
                return Err(Finding { severity, at: at + offset, length: 1, message, help: Some(help) });
            }
            Err(_) => {}
        }
    }
    Ok(entries)
}

type ScalarError = (usize, String, String);

fn ttsr_scalar(text: &str) -> Result<(String, Style), ScalarError> {
    let unclosed = |quote: char| {
        let message = "the quoted value is not closed, or something follows it".to_owned();
        (0, message, format!("end the line with `{quote}`"))
    };
    let is_end = |rest: &str| rest.trim_start().is_empty() || rest.trim_start().starts_with('#');
    if let Some(inner) = text.strip_prefix('"') {
        let mut out = String::new();
        let mut chars = inner.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' if is_end(&inner[at + 1..]) => return Ok((out, Style::Double)),
                '"' => return Err(unclosed('"')),
                '\\' => {
                    let Some((_, escape)) = chars.next() else { return Err(unclosed('"')) };
                    let digits = match escape {
                        'x' => inner.get(at + 2..at + 4),
                        'u' => inner.get(at + 2..at + 6),
                        _ => None,
                    };
                    let code = digits
                        .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
                        .and_then(|digits| u32::from_str_radix(digits, 16).ok());
                    match (code, unescaped(escape)) {
                        (Some(code), _) => {
                            out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                            for _ in 0..digits.map_or(0, str::len) {
                                chars.next();
                            }
                        }
                        (None, Some(c)) => out.push(c),
                        (None, None) => {
                            let message = format!("unknown escape `\\{escape}` in double quotes");
                            return Err((
                                at + 1,
                                message,
                                format!("write `\\\\{escape}`, or use single quotes ('...')"),
                            ));
                        }
                    }
                }
                c => out.push(c),
            }
        }
        return Err(unclosed('"'));
    }
    if let Some(inner) = text.strip_prefix('\'') {
        let mut out = String::new();
        let mut rest = inner;
        while let Some((part, after)) = rest.split_once('\'') {
            out.push_str(part);
            if let Some(after) = after.strip_prefix('\'') {
                out.push('\'');
                rest = after;
            } else if is_end(after) {
                return Ok((out, Style::Single));
            } else {
                break;
            }
        }
        return Err(unclosed('\''));
    }
    if text.starts_with(['|', '>']) {
        let message = "values over several lines are not supported here".to_owned();
        return Err((0, message, "write the value on one line, in single quotes".to_owned()));
    }
    let comment =
        text.char_indices().find(|&(at, c)| c == '#' && text[..at].chars().next_back().is_none_or(char::is_whitespace));
    Ok((text[..comment.map_or(text.len(), |(at, _)| at)].trim_end().to_owned(), Style::Plain))
}

fn unescaped(escape: char) -> Option<char> {
    Some(match escape {
        '\\' | '"' | '/' | ' ' => escape,
        '0' => '\0',
        'a' => '\x07',
        'b' => '\x08',
        'e' => '\x1b',
        'f' => '\x0c',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\x0b',
        _ => return None,
    })
}
