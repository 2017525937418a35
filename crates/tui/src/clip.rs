//! Truncates text for the screen.
//!
//! Laying out many megabytes would block keys, and the user cannot read them. The omitted size is shown.

use pijs_protocol::guard;
use serde_json::Value;
use std::borrow::Cow;

/// Maximum number of bytes shown of an extension's message.
pub(super) const MESSAGE: usize = 64 << 10;
/// Maximum number of bytes shown of replies, results and prompts.
pub(super) const TEXT: usize = 512 << 10;

/// Maximum number of bytes of a line or a name: more than the width of any screen.
pub(super) const LONGEST_LINE: usize = 16 << 10;

/// Returns the beginning of a text that is stored for display, to limit memory.
pub(super) fn clipped(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// Returns the approximate memory of a value.
pub(super) fn weight(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(weight).sum(),
            Value::Object(members) => members.iter().map(|(key, value)| 48 + key.len() + weight(value)).sum(),
            _ => 0,
        }
}

/// Returns the beginning of a text with a note about the omitted rest.
pub(super) fn first(text: &str, most: usize) -> Cow<'_, str> {
    if is_short(text, most) {
        return text.into();
    }
    let (shown, rest) = text.split_at(text.floor_char_boundary(most));
    format!("{shown}\n\n[{} more bytes, in the session's file]", rest.len()).into()
}

/// Returns the end of a text with a note about the omitted beginning.
pub(super) fn last(text: &str, most: usize) -> Cow<'_, str> {
    if is_short(text, most) {
        return text.into();
    }
    let (rest, shown) = text.split_at(text.ceil_char_boundary(text.len() - most));
    format!("[{} earlier bytes, in the session's file]\n\n{shown}", rest.len()).into()
}

fn is_short(text: &str, most: usize) -> bool {
    text.len() <= most || !guard!(TuiTextSize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_clipped_between_characters() {
        assert_eq!(clipped("äöü", 3), "ä");
        assert_eq!(clipped("short", 100), "short");
    }

    #[test]
    fn omitted_bytes_are_reported() {
        assert_eq!(first("whole", 5), "whole");
        assert_eq!(first("aé and more", 2), "a\n\n[11 more bytes, in the session's file]");
        assert_eq!(last("whole", 5), "whole");
        assert_eq!(last("before é", 1), "[9 earlier bytes, in the session's file]\n\n");
    }
}
