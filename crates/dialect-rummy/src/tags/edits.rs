//! Parses edits in the body of `set`.
//!
//! From 2.2 on, an edit is enclosed in markers: `<<:::REPLACE`, lines, `:::REPLACE`. The name of a marker is the operation; a
//! suffix, as in `SEARCH_1`, distinguishes markers. The forms that prompts before 2.2 used are accepted as well: merge conflicts,
//! unified diffs and tags.

use serde_json::{Value, json};
use std::fmt;

/// One edit between markers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// Creates the entry with this body.
    New(String),
    /// Inserts the text before the body.
    Prepend(String),
    /// Appends the text to the body.
    Append(String),
    /// Replaces the body by this text.
    Replace(String),
    /// Removes the text from the body.
    Delete(String),
    /// Replaces the first text by the second.
    Search {
        /// The text to search for.
        search: String,
        /// The replacement.
        replace: String,
    },
}

impl Edit {
    /// Returns the edit in the format for handlers.
    pub fn to_json(&self) -> Value {
        match self {
            Self::New(content) => json!({ "op": "new", "content": content }),
            Self::Prepend(content) => json!({ "op": "prepend", "content": content }),
            Self::Append(content) => json!({ "op": "append", "content": content }),
            Self::Replace(content) => json!({ "op": "replace", "content": content }),
            Self::Delete(content) => json!({ "op": "delete", "content": content }),
            Self::Search { search, replace } => json!({ "op": "search_replace", "search": search, "replace": replace }),
        }
    }
}

/// The error of invalid edits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EditError {
    /// A marker has no end marker.
    Unclosed(String),
    /// A search is not followed by a replacement.
    SearchAlone,
}

impl fmt::Display for EditError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unclosed(word) => {
                write!(formatter, "unclosed <<:::{word}: end it with :::{word} on a line of its own")
            }
            Self::SearchAlone => formatter.write_str("SEARCH must be immediately followed by REPLACE"),
        }
    }
}

impl std::error::Error for EditError {}

/// Returns the name of the marker at a position, and the marker's end.
fn marker_at(text: &str, at: usize) -> Option<(&str, usize)> {
    let rest = text.get(at..)?.strip_prefix("<<:::")?;
    let length =
        rest.find(|one: char| !(one.is_alphanumeric() || matches!(one, '_' | '-' | '.'))).unwrap_or(rest.len());
    (length > 0).then(|| (&rest[..length], at + 5 + length))
}

/// Returns the end of a marker's content, and the offset after its end marker.
fn content_end(text: &str, word: &str, from: usize) -> Option<(usize, usize)> {
    let end = format!(":::{word}");
    let is_end = |place: &usize| {
        let after = &text[place + end.len()..];
        let opens = text[..*place].ends_with("<<");
        !opens && !after.starts_with(|one: char| one.is_alphanumeric() || matches!(one, '_' | '-' | '.'))
    };
    let place = text[from..].match_indices(end.as_str()).map(|(place, _)| from + place).find(is_end)?;
    Some((place, place + end.len()))
}

/// Returns the position after the edit that begins at a position; `None` if there is no complete edit.
pub(super) fn marker_end(text: &str, at: usize) -> Option<usize> {
    let (word, from) = marker_at(text, at)?;
    content_end(text, word, from).map(|(_, end)| end)
}

/// Returns the edits between markers; an empty list if the text has no marker.
///
/// Fails if a marker has no end marker, or a search has no replacement.
pub fn edits(text: &str) -> Result<Vec<Edit>, EditError> {
    let mut found = Vec::new();
    let mut search: Option<String> = None;
    let mut at = 0;
    while let Some(place) = text[at..].find("<<:::").map(|place| at + place) {
        let Some((word, from)) = marker_at(text, place) else {
            at = place + 5;
            continue;
        };
        let (end, next) = content_end(text, word, from).ok_or_else(|| EditError::Unclosed(word.to_owned()))?;
        let content = text[from..end].strip_prefix('\n').unwrap_or(&text[from..end]);
        let content = content.strip_suffix('\n').unwrap_or(content).to_owned();
        at = next;
        let keyword =
            ["NEW", "PREPEND", "APPEND", "REPLACE", "DELETE", "SEARCH"].into_iter().find(|one| word.starts_with(one));
        if let Some(search) = search.take() {
            if keyword != Some("REPLACE") {
                return Err(EditError::SearchAlone);
            }
            found.push(Edit::Search { search, replace: content });
            continue;
        }
        match keyword {
            Some("NEW") => found.push(Edit::New(content)),
            Some("PREPEND") => found.push(Edit::Prepend(content)),
            Some("APPEND") => found.push(Edit::Append(content)),
            Some("DELETE") => found.push(Edit::Delete(content)),
            Some("SEARCH") => search = Some(content),
            _ => found.push(Edit::Replace(content)),
        }
    }
    if search.is_some() { Err(EditError::SearchAlone) } else { Ok(found) }
}

/// Returns the edits in the forms before 2.2, as `{"search", "replace"}`; `search` is null in a form without one.
pub(super) fn blocks(text: &str) -> Vec<Value> {
    let conflicts = conflicts(text);
    if !conflicts.is_empty() {
        return conflicts;
    }
    if text.contains("@@") && (text.contains("\n-") || text.contains("\n+")) {
        let hunks = hunks(text);
        if !hunks.is_empty() {
            return hunks;
        }
    }
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((search, after)) =
        rest.split_once("<old_text>").and_then(|(_, after)| after.split_once("</old_text>"))
    {
        let Some(after) = after.trim_start().strip_prefix("<new_text>") else { break };
        let Some((replace, after)) = after.split_once("</new_text>") else { break };
        found.push(json!({ "search": search, "replace": replace }));
        rest = after;
    }
    found
}

/// Parses merge conflicts, whose markers have 3 to 12 characters; without a `SEARCH` part, `search` is null.
fn conflicts(text: &str) -> Vec<Value> {
    let is_marker = |line: &str, sign: char, word: &str| {
        let rest = line.trim_end().trim_start_matches(sign);
        (3..=12).contains(&(line.trim_end().len() - rest.len())) && rest.trim() == word
    };
    let mut found = Vec::new();
    let mut search: Option<Vec<&str>> = None;
    let mut replace: Option<Vec<&str>> = None;
    for line in text.lines() {
        if is_marker(line, '<', "SEARCH") {
            (search, replace) = (Some(Vec::new()), None);
        } else if is_marker(line, '=', "") && replace.is_none() {
            replace = Some(Vec::new());
        } else if is_marker(line, '>', "REPLACE") {
            if let Some(lines) = replace.take() {
                let search = search.take().map_or(Value::Null, |lines| lines.join("\n").into());
                found.push(json!({ "search": search, "replace": lines.join("\n") }));
            }
        } else if let Some(lines) = replace.as_mut().or(search.as_mut()) {
            lines.push(line);
        }
    }
    found
}

/// Parses the hunks of a unified diff.
fn hunks(text: &str) -> Vec<Value> {
    let mut found = Vec::new();
    let mut hunk: Option<(Vec<&str>, Vec<&str>)> = None;
    let mut end = |hunk: Option<(Vec<&str>, Vec<&str>)>| {
        if let Some((old, new)) = hunk.filter(|(old, new)| !old.is_empty() || !new.is_empty()) {
            found.push(json!({ "search": old.join("\n"), "replace": new.join("\n") }));
        }
    };
    for line in text.lines() {
        if line.starts_with("@@") {
            end(hunk.replace((Vec::new(), Vec::new())));
        } else if let Some((old, new)) = &mut hunk {
            match line.chars().next() {
                Some('-') => old.push(&line[1..]),
                Some('+') => new.push(&line[1..]),
                Some(' ') => {
                    old.push(&line[1..]);
                    new.push(&line[1..]);
                }
                _ => {}
            }
        }
    }
    end(hunk);
    found
}
