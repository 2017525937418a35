//! Finds the end of a command's body.

use super::edits;

/// The end of a body.
pub(super) struct Close {
    /// Byte offset of the end of the body.
    pub(super) body_end: usize,
    /// Byte offset just past the closing tag.
    pub(super) end: usize,
    /// The repair that was made, if any.
    pub(super) warning: Option<String>,
}

/// Returns the name that begins at a position.
pub(super) fn name_at(text: &str, at: usize) -> Option<&str> {
    let rest = text.get(at..)?;
    let length =
        rest.find(|one: char| !(one.is_ascii_alphanumeric() || matches!(one, '_' | '-'))).unwrap_or(rest.len());
    rest[..length].starts_with(|first: char| first.is_ascii_alphabetic()).then_some(&rest[..length])
}

/// Parses a close tag at a position. Returns its name in lower case, and its end.
pub(super) fn close_tag(text: &str, at: usize) -> Option<(String, usize)> {
    let name = text.get(at..)?.strip_prefix("</").and_then(|_| name_at(text, at + 2))?;
    let after = at + 2 + name.len();
    let rest = &text[after..];
    let blanks = rest.len() - rest.trim_start().len();
    rest[blanks..].starts_with('>').then(|| (name.to_ascii_lowercase(), after + blanks + 1))
}

/// Returns whether the tag at a position closes itself; `None` if the tag has no end.
fn closes_itself(text: &str, at: usize) -> Option<bool> {
    let mut quote = None;
    let mut before = ' ';
    for character in text[at..].chars().skip(1) {
        match quote {
            Some(open) if character == open => quote = None,
            Some(_) => {}
            None if matches!(character, '"' | '\'') && before == '=' => quote = Some(character),
            None if character == '>' => return Some(before == '/'),
            None if character == '<' => return None,
            None => {}
        }
        before = character;
    }
    None
}

/// Finds the end of the body that begins at `from`.
pub(super) fn close(text: &str, name: &str, from: usize, tools: &[&str]) -> Close {
    let mut depth = 0_usize;
    let mut first_own = None;
    let mut orphan = None;
    let mut next_tool = None;
    let mut opened: Vec<String> = Vec::new();
    let mut at = from;
    while let Some(place) = text[at..].find('<').map(|place| place + at) {
        at = place + 1;
        if name == "set"
            && let Some(end) = edits::marker_end(text, place)
        {
            at = end;
            continue;
        }
        if let Some((closed, end)) = close_tag(text, place) {
            if closed == name {
                if depth == 0 {
                    return Close { body_end: place, end, warning: None };
                }
                depth -= 1;
                first_own = first_own.or(Some((place, end)));
            } else if tools.contains(&closed.as_str()) {
                match opened.iter().rposition(|one| *one == closed) {
                    Some(index) => opened.truncate(index),
                    None if first_own.is_none() => orphan = orphan.or(Some((place, end, closed))),
                    None => {}
                }
            }
            at = end;
        } else if let Some(other) = name_at(text, place + 1) {
            let other = other.to_ascii_lowercase();
            if !tools.contains(&other.as_str()) {
                continue;
            }
            next_tool = next_tool.or_else(|| Some((place, other.clone())));
            match closes_itself(text, place) {
                Some(false) if other == name => depth += 1,
                Some(false) => opened.push(other),
                _ => {}
            }
        }
    }
    repaired(text, name, from, first_own, orphan, next_tool)
}

/// Chooses the end of a body that has no balancing close tag.
fn repaired(
    text: &str,
    name: &str,
    from: usize,
    first_own: Option<(usize, usize)>,
    orphan: Option<(usize, usize, String)>,
    next_tool: Option<(usize, String)>,
) -> Close {
    if let Some((place, other)) = &next_tool
        && is_blank(&text[from..*place])
        && first_own.is_none_or(|(own, _)| own > *place)
    {
        let warning = format!("Unclosed <{name}> before <{other}>: recovered; end it with /> or </{name}>.");
        return Close { body_end: from, end: *place, warning: Some(warning) };
    }
    if let Some((place, end, closed)) = orphan {
        let warning = format!("Mismatched </{closed}> closing <{name}>: corrected to </{name}>.");
        return Close { body_end: place, end, warning: Some(warning) };
    }
    if let Some((place, end)) = first_own {
        return Close { body_end: place, end, warning: None };
    }
    let warning = format!("Unclosed <{name}> tag: its content was taken up to the end; close it with </{name}>.");
    Close { body_end: text.len(), end: text.len(), warning: Some(warning) }
}

/// Returns whether a text consists of blanks and close tags only.
fn is_blank(text: &str) -> bool {
    let mut rest = text.trim();
    while let Some((_, end)) = close_tag(rest, 0) {
        rest = rest[end..].trim_start();
    }
    rest.is_empty()
}
