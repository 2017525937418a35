//! Sanitises the lines that extensions draw, and limits their size.

use super::clip::{LONGEST_LINE, clipped};
use pijs_terminal::layout::clamp;
use serde_json::Value;

/// Maximum number of lines of a component.
const MAX_LINES: usize = 1_000;
/// Maximum size of a component's lines in bytes. A full screen with individually coloured cells takes half a megabyte.
const LARGEST_PICTURE: usize = 4 << 20;
/// Maximum size of one line in bytes.
const LONGEST_DRAWN: usize = 256 << 10;
/// Marker that pi-tui's components write before their cursor.
const CURSOR_MARKER: &str = "\u{1b}_pi:c\u{7}";

/// Sanitises the lines of a component and cuts them to `columns`. Lines beyond the limit are dropped.
pub(super) fn picture(lines: &[Value], columns: usize) -> Vec<String> {
    let mut left = LARGEST_PICTURE;
    let line = |line: &Value| {
        let text = clipped(line.as_str().unwrap_or_default(), LONGEST_DRAWN);
        left = left.checked_sub(text.len())?;
        Some(clamp(&text.replace(CURSOR_MARKER, ""), columns))
    };
    lines.iter().take(MAX_LINES).map_while(line).collect()
}

/// Extracts lines of text. Lines beyond the limit are dropped.
pub(super) fn texts(lines: &[Value]) -> Vec<String> {
    let text = |line: &Value| clipped(line.as_str().unwrap_or_default(), LONGEST_LINE).replace(CURSOR_MARKER, "");
    lines.iter().take(MAX_LINES).map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_bounded() {
        let flood: Vec<Value> = vec!["\u{1b}[31m".repeat(10_000).into(); 100_000];
        assert!(picture(&flood, 80).iter().map(String::len).sum::<usize>() < 100_000);
        let long = vec![Value::from("x".repeat(10 << 20)), Value::from("y")];
        let lines = picture(&long, 80);
        assert_eq!((lines.len(), lines[0].chars().count(), lines[1].as_str()), (2, 80, "y"));
        let large: Vec<Value> = vec!["x".repeat(200 << 10).into(); 1_000];
        assert!(picture(&large, 80).len() <= LARGEST_PICTURE / (200 << 10));
    }
}
