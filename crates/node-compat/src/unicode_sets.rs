//! Escapes regular expressions with the flag `v` that the engine rejects.
//!
//! ```text
//! /\p{L}-\d/v   →  /\p{L}\x2d\d/v
//! /a&&b/v       →  /a\x26&b/v
//! ```
//!
//! The engine forbids outside of a class what `v` forbids only inside of one: a hyphen, a slash, some doubled characters. They
//! are literal there, so the first is written as an escape. `pi:web/sets` does the same for expressions that are built at run
//! time.

use std::fmt::Write as _;

/// Characters that `v` reserves where two of them are adjacent in a class.
const DOUBLED: &str = "&!#%,:;<=>@`~";

/// Returns the expression in the engine's syntax; `None` if it needs no change.
pub fn readable(pattern: &str, flags: &str) -> Option<String> {
    if !flags.contains('v') {
        return None;
    }
    let mut written = String::with_capacity(pattern.len());
    let mut depth = 0_usize;
    let mut rest = pattern.chars().peekable();
    while let Some(sign) = rest.next() {
        match sign {
            '\\' => {
                written.push(sign);
                written.extend(rest.next());
                continue;
            }
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            '-' if depth == 0 => {
                written.push_str("\\x2d");
                continue;
            }
            _ if depth == 0 && DOUBLED.contains(sign) && rest.peek() == Some(&sign) => {
                write!(written, "\\x{:02x}", u32::from(sign)).expect("writing to a string cannot fail");
                continue;
            }
            _ => {}
        }
        written.push(sign);
    }
    (written != pattern).then_some(written)
}

#[cfg(test)]
mod tests {
    use super::readable;

    #[test]
    fn characters_reserved_in_a_class_are_literal_outside() {
        for (pattern, expected) in [
            ("a-b", Some(r"a\x2db")),
            ("a&&b", Some(r"a\x26&b")),
            ("<<<", Some(r"\x3c\x3c<")),
            ("[[a-z]--[b]]-c", Some(r"[[a-z]--[b]]\x2dc")),
            (r"\[a-b", Some(r"\[a\x2db")),
            (r"[a\]-]-", Some(r"[a\]-]\x2d")),
            ("a&b/c", None),
            ("[a-z&&[b]]", None),
        ] {
            assert_eq!(readable(pattern, "gv").as_deref(), expected, "{pattern}");
        }
        assert_eq!(readable("a-b", "gu"), None);
    }
}
