//! Counts with their nouns.

use std::fmt::Display;

/// Formats a count with its noun, which is in the plural unless the count is 1.
///
/// ```
/// use pijs_terminal::counted;
///
/// assert_eq!([counted(1_u8, "tool"), counted(0_u8, "tool")], ["1 tool", "0 tools"]);
/// assert_eq!([counted(2_u8, "more entry"), counted(2_u8, "match")], ["2 more entries", "2 matches"]);
/// ```
#[must_use]
pub fn counted<N: Display + PartialEq + From<u8>>(count: N, noun: &str) -> String {
    let is_one = count == N::from(1);
    let stem = noun.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'o', 'u']));
    match stem {
        _ if is_one => format!("{count} {noun}"),
        Some(stem) => format!("{count} {stem}ies"),
        None => format!("{count} {noun}{}", if noun.ends_with("ch") { "es" } else { "s" }),
    }
}
