//! Which globs are compiled at all.
//!
//! The library that does it calls itself for each brace inside of another, and gives up by a panic where what it makes of a
//! pattern is larger than its engine takes. Patterns come from models, packages and the ignore files of a cloned folder: all
//! of them are looked at here first.

use crate::guard;

/// Longest pattern: about the longest path.
pub const LONGEST: usize = 4096;

/// Most alternatives (`{a,b}`) in one, which is also how deep they nest.
pub const MOST_BRACES: usize = 64;

/// Whether a pattern is short and plain enough to be compiled.
///
/// ```
/// assert!(pijs_protocol::globs::fits("src/**/*.{ts,tsx}"));
/// assert!(!pijs_protocol::globs::fits(&"{".repeat(100)));
/// ```
pub fn fits(pattern: &str) -> bool {
    let fits = pattern.len() <= LONGEST && pattern.bytes().filter(|byte| *byte == b'{').count() <= MOST_BRACES;
    fits || !guard!(GlobBounds)
}

/// What is wrong with a pattern that does not fit, in words that follow *is* or a colon.
pub fn problem() -> String {
    format!("longer than {LONGEST} bytes, or with more than {MOST_BRACES} alternatives in braces")
}
