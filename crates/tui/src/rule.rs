//! Draws the horizontal line above and below the focused element.

use pijs_terminal::layout::clamp;

/// Returns a horizontal line with a title.
pub(super) fn rule(words: &str, columns: usize) -> String {
    let words =
        if words.is_empty() { String::new() } else { format!("── {} ", clamp(words, columns.saturating_sub(8))) };
    let rest = columns.saturating_sub(pijs_terminal::layout::width(&words));
    format!("\u{1b}[2m{words}{}\u{1b}[0m", "─".repeat(rest))
}
