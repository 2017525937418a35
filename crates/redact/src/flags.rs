//! Recognises command-line options that take a secret as the next word: `--password VALUE`, `["--api-key", "VALUE"]`.
//!
//! Only unambiguous long options are recognised: `--password-file` names a file, `--no-token` and `--ask-password` take no value,
//! and `-p` is often a port. Options with `=` are handled as assignments.

use super::{MAX_NAME, REDACTED, is_hinted, quoted_length, segments};
use serde_json::Value;
use std::ops::Range;

/// Last words of the names of options that take a secret.
const LAST_WORDS: &[&[&str]] = &[
    &["password"],
    &["passwd"],
    &["passphrase"],
    &["token"],
    &["secret"],
    &["api", "key"],
    &["apikey"],
    &["authorization"],
    &["bearer"],
];

/// First words of options that mention a secret but do not take one.
const NO_VALUE: &[&str] = &[
    "no", "ask", "prompt", "with", "without", "use", "show", "hide", "print", "require", "allow", "skip", "save",
    "reset", "generate", "empty", "enable", "disable",
];

/// Words that follow an option in a sentence, as in `--password is required`.
const WORDS_OF_SENTENCES: &[&str] = &[
    "a", "an", "and", "are", "as", "but", "can", "cannot", "flag", "flags", "for", "from", "has", "if", "in",
    "instead", "is", "may", "must", "needs", "not", "of", "on", "option", "options", "or", "requires", "should",
    "that", "the", "to", "was", "when", "which", "will", "with", "without",
];

/// Returns whether text may contain an option that takes a secret. A cheap check that may have false positives.
pub(crate) fn may_be_in(text: &str) -> bool {
    pijs_protocol::guard!(LedgerRedactFlags) && option_ends(text).next().is_some()
}

/// Returns the ranges of option values, in order and disjoint.
pub(crate) fn values(text: &str) -> Vec<Range<usize>> {
    let mut places: Vec<Range<usize>> = Vec::new();
    for after in option_ends(text) {
        if places.last().is_some_and(|last| after < last.end) {
            continue;
        }
        let rest = &text[after..];
        let Some(separator_length) = separator_length(rest) else { continue };
        let (before, value) = rest.split_at(separator_length);
        // The length is computed only for text that may be redacted, so that the scan stays linear.
        if value.starts_with("--") {
            continue;
        }
        let quoted = quoted_length(value, before);
        let length = quoted.unwrap_or_else(|| word_length(value));
        let word = &value[..length];
        // In `{"flag": "--token", "name": 1}` the next string is a key.
        let is_key = quoted.is_some() && value[length..].trim_start_matches(['\\', '"', '\'', ' ']).starts_with(':');
        if is_secret(word) && !is_key && !(quoted.is_none() && WORDS_OF_SENTENCES.contains(&word)) {
            places.push(after + separator_length..after + separator_length + length);
        }
    }
    places
}

/// Returns whether an item of a list is the value of the option before it.
pub(crate) fn is_value(items: &[Value], index: usize) -> bool {
    let before = index.checked_sub(1).and_then(|before| items[before].as_str()?.strip_prefix("--"));
    let is_secret = match &items[index] {
        Value::String(text) => is_secret(text),
        Value::Number(_) => true,
        _ => false,
    };
    is_secret && before.is_some_and(takes_secret) && pijs_protocol::guard!(LedgerRedactFlags)
}

/// Returns whether a word may be a secret: neither another option nor an already redacted value.
fn is_secret(word: &str) -> bool {
    !word.is_empty() && !word.starts_with("--") && word != "-" && word != REDACTED
}

/// Returns whether the option of this name takes a secret.
fn takes_secret(name: &str) -> bool {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if name.starts_with('-') || name.len() > MAX_NAME || !name.bytes().all(is_name) || !is_hinted(name) {
        return false;
    }
    let segments = segments(name);
    let first = segments.first().map(String::as_str).unwrap_or_default();
    let ends = |words: &&[&str]| segments.len() >= words.len() && segments[segments.len() - words.len()..] == **words;
    LAST_WORDS.iter().any(ends) && !NO_VALUE.contains(&first)
}

/// Returns the offsets after the names of options that take a secret.
fn option_ends(text: &str) -> impl Iterator<Item = usize> {
    text.match_indices("--").filter_map(|(at, _)| {
        let begins = !text[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '-' | '_'));
        let name = &text[at + 2..];
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let length = name.bytes().take(MAX_NAME + 1).take_while(is_name).count();
        (begins && takes_secret(&name[..length])).then_some(at + 2 + length)
    })
}

/// Returns the length of the separator between an option and its value: blanks or a comma, optional quotes around both, or a line
/// continuation.
fn separator_length(rest: &str) -> Option<usize> {
    let after_quotes = |text: &str| text.len() - text.trim_start_matches('\\').trim_start_matches(['"', '\'']).len();
    let closed = match after_quotes(rest) {
        // A line continuation has a blank before it.
        length if rest[..length].ends_with(['"', '\'']) => length,
        _ => 0,
    };
    let between = &rest[closed..];
    let blank = between.trim_start_matches([' ', '\t']);
    let value = if let Some(listed) = blank.strip_prefix(',') {
        listed.trim_start()
    } else if let Some(continued) = blank.strip_prefix("\\\n").or_else(|| blank.strip_prefix("\\\r\n")) {
        continued.trim_start_matches([' ', '\t'])
    } else if blank.len() < between.len() {
        blank
    } else {
        return None;
    };
    let opened = after_quotes(value);
    let opened = if value[..opened].ends_with(['"', '\'']) { opened } else { 0 };
    Some(rest.len() - value.len() + opened)
}

/// Returns the length of a shell word, which also ends at the quote of enclosing text. The name of an authentication scheme
/// includes its credential.
fn word_length(value: &str) -> usize {
    let word = |value: &str| {
        let ends = |(at, c): (usize, char)| {
            let is_quote = matches!(c, '"' | '\'' | '`') || (c == '\\' && value[at + 1..].starts_with(['"', '\'']));
            (c.is_whitespace() || is_quote).then_some(at)
        };
        value.char_indices().find_map(ends).unwrap_or(value.len())
    };
    let length = word(value);
    if !["basic", "bearer", "digest"].iter().any(|known| value[..length].eq_ignore_ascii_case(known)) {
        return length;
    }
    let credential = value[length..].trim_start_matches(' ');
    value.len() - credential.len() + word(credential)
}
