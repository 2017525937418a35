//! How much of a text is put on the screen.
//!
//! A text of many megabytes takes longer to lay out than anybody waits for a key, and nobody reads it there. What is left
//! out is counted, so nobody takes the part for the whole.

use pijs_protocol::guard;
use std::borrow::Cow;

/// Of a message of an extension.
pub(super) const MESSAGE: usize = 64 << 10;
/// Of everything else: replies, results, what the person wrote.
pub(super) const TEXT: usize = 512 << 10;

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
    text.len() <= most || !guard::is_up("tui.text-size")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_counted() {
        assert_eq!(first("whole", 5), "whole");
        assert_eq!(first("aé and more", 2), "a\n\n[11 more bytes, in the session's file]");
        assert_eq!(last("whole", 5), "whole");
        assert_eq!(last("before é", 1), "[9 earlier bytes, in the session's file]\n\n");
    }
}
