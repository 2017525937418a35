//! Replaces literal text, and expands the `$` patterns of `String.prototype.replace`.

/// Returns the text with all occurrences replaced; `None` if there is no occurrence.
pub(super) fn replace_all(text: &str, search: &str, replacement: &str) -> Option<String> {
    let mut places = text.match_indices(search).map(|(place, _)| place).peekable();
    places.peek()?;
    let mut out = String::with_capacity(text.len());
    let mut end = 0;
    for place in places {
        out.push_str(&text[end..place]);
        end = place + search.len();
        expand(text, place, end, replacement, &mut out);
    }
    out.push_str(&text[end..]);
    Some(out)
}

/// Returns the text with the match at `start..end` replaced.
pub(super) fn one(text: &str, start: usize, end: usize, replacement: &str) -> String {
    let mut out = text[..start].to_owned();
    expand(text, start, end, replacement, &mut out);
    out.push_str(&text[end..]);
    out
}

fn expand(text: &str, start: usize, end: usize, replacement: &str, out: &mut String) {
    let mut rest = replacement;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        let mut next = after.chars();
        match next.next() {
            Some('$') => out.push('$'),
            Some('&') => out.push_str(&text[start..end]),
            Some('`') => out.push_str(&text[..start]),
            Some('\'') => out.push_str(&text[end..]),
            _ => {
                out.push('$');
                next = after.chars();
            }
        }
        rest = next.as_str();
    }
    out.push_str(rest);
}
