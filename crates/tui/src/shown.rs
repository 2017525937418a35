//! How much of a text is put on the screen.
//!
//! A text of many megabytes takes longer to lay out than anybody waits for a key, and nobody reads it there. What is left
//! out is counted, so nobody takes the part for the whole.

use pijs_protocol::guard;
use serde_json::Value;
use std::borrow::Cow;

/// Of a message of an extension.
pub(super) const MESSAGE: usize = 64 << 10;
/// Of everything else: replies, results, what the person wrote.
pub(super) const TEXT: usize = 512 << 10;

/// Of a line, or the name of anything: more than a screen is wide.
pub(super) const LONGEST_LINE: usize = 16 << 10;

/// The beginning of a text that is kept while it is shown: what nobody could read takes no memory of the host.
pub(super) fn clipped(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// What a value takes in memory, about.
pub(super) fn weight(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(weight).sum(),
            Value::Object(members) => members.iter().map(|(key, value)| 48 + key.len() + weight(value)).sum(),
            _ => 0,
        }
}

/// The beginning of a text, and how much more there is.
pub(super) fn first(text: &str, most: usize) -> Cow<'_, str> {
    if is_short(text, most) {
        return text.into();
    }
    let (shown, rest) = text.split_at(text.floor_char_boundary(most));
    format!("{shown}\n\n[{} more bytes, in the session's file]", rest.len()).into()
}

/// The end of a text, and how much there is before it.
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
    fn what_stays_on_the_screen_is_clipped_between_characters() {
        assert_eq!(clipped("äöü", 3), "ä");
        assert_eq!(clipped("short", 100), "short");
    }

    #[test]
    fn what_is_left_out_is_counted() {
        assert_eq!(first("whole", 5), "whole");
        assert_eq!(first("aé and more", 2), "a\n\n[11 more bytes, in the session's file]");
        assert_eq!(last("whole", 5), "whole");
        assert_eq!(last("before é", 1), "[9 earlier bytes, in the session's file]\n\n");
    }
}
