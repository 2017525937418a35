//! Globs of paths: `*` and `?` match within a segment; a segment `**` matches any number of segments.
//!
//! Braces, parentheses and extended globs are literal text. Directly after `://`, a single star crosses segments, because a
//! scheme has no folders. A leading `!` negates the glob.

use super::{PatternError, PatternErrorKind};
use regex::Regex;
use std::fmt::Write as _;

/// Maximum size in bytes of the automaton of one glob.
const MAX_AUTOMATON: usize = 1 << 20;

/// A compiled glob.
#[derive(Debug, Clone)]
pub(super) struct Glob {
    expression: Regex,
    is_negated: bool,
    prefix: String,
}

impl Glob {
    pub(super) fn parse(pattern: &str) -> Result<Self, PatternError> {
        let (rest, is_negated) = match pattern.strip_prefix('!') {
            Some(rest) => (rest, true),
            None => (pattern, false),
        };
        let rest = rest.strip_prefix("./").unwrap_or(rest);
        let prepared = crossing_schemes(rest);
        let translated = translate(&prepared);
        let expression = regex::RegexBuilder::new(&translated)
            .dot_matches_new_line(true)
            .size_limit(MAX_AUTOMATON)
            .build()
            .map_err(|_| PatternError::new(PatternErrorKind::Limit, format!("the glob `{pattern}` is too complex")))?;
        let prefix = if is_negated { String::new() } else { literal_prefix(&prepared) };
        Ok(Self { expression, is_negated, prefix })
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        self.expression.is_match(text) != self.is_negated
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }
}

/// Replaces the single star that directly follows a `://` by a double one.
fn crossing_schemes(pattern: &str) -> String {
    let place = pattern.match_indices("://*").map(|(at, _)| at + 3).find(|&at| !pattern[at + 1..].starts_with('*'));
    match place {
        Some(at) => format!("{}*{}", &pattern[..at], &pattern[at..]),
        None => pattern.to_owned(),
    }
}

fn literal_prefix(pattern: &str) -> String {
    let end = pattern.find(['*', '?', '[', '\\']).unwrap_or(pattern.len());
    // `a/**` matches `a` as well.
    let end = if pattern[end..].starts_with("**") && pattern[..end].ends_with('/') { end - 1 } else { end };
    pattern[..end].to_owned()
}

fn translate(pattern: &str) -> String {
    let mut segments: Vec<&str> = pattern.split('/').collect();
    segments.dedup_by(|one, before| *one == "**" && *before == "**");
    let last = segments.len() - 1;
    let mut out = String::from("^(?:");
    let mut is_after_globstar = false;
    for (number, segment) in segments.iter().enumerate() {
        if *segment == "**" {
            match (number, number == last) {
                (0, true) => out.push_str(".+"),
                (0, false) => out.push_str("(?:|/|.*/)"),
                (_, true) => out.push_str("(?:/.*)?"),
                (_, false) => out.push_str("(?:/.*/|/)"),
            }
            is_after_globstar = true;
            continue;
        }
        if number > 0 && !is_after_globstar {
            out.push('/');
        }
        is_after_globstar = false;
        translate_segment(segment, &mut out);
    }
    out.push_str(")$");
    out
}

fn translate_segment(segment: &str, out: &mut String) {
    if !segment.is_empty() && segment.bytes().all(|byte| byte == b'*') {
        out.push_str("[^/]+");
        return;
    }
    let mut rest = segment.chars();
    while let Some(character) = rest.next() {
        match character {
            '*' => {
                let after = rest.as_str().trim_start_matches('*');
                rest = after.chars();
                out.push_str("[^/]*");
            }
            '?' => out.push_str("[^/]"),
            '\\' => literal(rest.next().unwrap_or('\\'), out),
            '[' => match class(rest.as_str(), out) {
                Some(after) => rest = after.chars(),
                None => literal('[', out),
            },
            other => literal(other, out),
        }
    }
}

fn literal(character: char, out: &mut String) {
    out.push_str(&regex::escape(character.encode_utf8(&mut [0; 4])));
}

/// Appends the character class that begins after a bracket to `out`, and returns the text after the class. The literal text in
/// brackets matches as well.
fn class<'a>(after: &'a str, out: &mut String) -> Option<&'a str> {
    let is_posix = after.starts_with("[:");
    let (inside, rest) = if is_posix { after.split_once(":]]")? } else { after.split_once(']')? };
    if inside.is_empty() {
        return None;
    }
    if is_posix {
        let expression = format!("[{inside}:]]");
        Regex::new(&expression).ok()?;
        out.push_str(&expression);
        return Some(rest);
    }
    let (inner, is_negated) = match inside.strip_prefix('^') {
        Some(inner) => (inner, true),
        None => (inside, false),
    };
    let mut set = String::from(if is_negated { "[^/" } else { "[" });
    for character in inner.chars() {
        match character {
            '-' => set.push('-'),
            '[' | '&' | '~' | '^' | '\\' => {
                set.push('\\');
                set.push(character);
            }
            other => set.push(other),
        }
    }
    set.push(']');
    Regex::new(&set).ok()?;
    if is_negated {
        out.push_str(&set);
    } else {
        let _ = write!(out, "(?:{set}|{})", regex::escape(&format!("[{inside}]")));
    }
    Some(rest)
}
