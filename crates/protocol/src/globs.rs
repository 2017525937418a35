//! Bounds glob patterns before they are compiled.
//!
//! The glob library recurses for each nested brace, and panics when the compiled pattern is larger than its engine allows.
//! Patterns come from models, packages and the ignore files of a cloned folder, so all of them are checked here first.

use crate::guard;

/// Maximum length of a pattern in bytes; about the maximum length of a path.
pub const LONGEST: usize = 4096;

/// Maximum number of brace groups (`{a,b}`) in a pattern, which also bounds their nesting.
pub const MAX_BRACES: usize = 64;

/// Returns whether a pattern is short and simple enough to be compiled.
///
/// ```
/// assert!(pijs_protocol::globs::fits("src/**/*.{ts,tsx}"));
/// assert!(!pijs_protocol::globs::fits(&"{".repeat(100)));
/// ```
pub fn fits(pattern: &str) -> bool {
    let fits = pattern.len() <= LONGEST && pattern.bytes().filter(|byte| *byte == b'{').count() <= MAX_BRACES;
    fits || !guard!(GlobBounds)
}

/// Describes the limits for an error message; the text continues *is* or a colon.
pub fn problem() -> String {
    format!("longer than {LONGEST} bytes, or contains more than {MAX_BRACES} brace groups")
}
