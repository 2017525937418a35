//! Classifies characters that a reader does not see. Prompts escape them ([`shown`]), terminals do not get them, and packages may
//! not name files with them.

use crate::guard;

/// Invisible characters, and those that reorder their neighbours: Unicode's general category Cf, line and paragraph separators,
/// default ignorable code points, and the blank Braille pattern.
const INVISIBLE: &[(u32, u32)] = &[
    (0x00ad, 0x00ad),
    (0x034f, 0x034f),
    (0x0600, 0x0605),
    (0x061c, 0x061c),
    (0x06dd, 0x06dd),
    (0x070f, 0x070f),
    (0x0890, 0x0891),
    (0x08e2, 0x08e2),
    (0x115f, 0x1160),
    (0x17b4, 0x17b5),
    (0x180b, 0x180f),
    (0x200b, 0x200f),
    (0x2028, 0x202e),
    (0x2060, 0x206f),
    (0x2800, 0x2800),
    (0x3164, 0x3164),
    (0xfe00, 0xfe0f),
    (0xfeff, 0xfeff),
    (0xffa0, 0xffa0),
    (0xfff0, 0xfffb),
    (0x110bd, 0x110bd),
    (0x110cd, 0x110cd),
    (0x13430, 0x1343f),
    (0x1bca0, 0x1bca3),
    (0x1d173, 0x1d17a),
    (0xe0000, 0xe0fff),
];

/// Returns whether a character is invisible or reorders its neighbours. Emoji contain two of them: the zero-width joiner and
/// variation selectors.
pub fn is_invisible(character: char) -> bool {
    let code = u32::from(character);
    INVISIBLE.iter().any(|(first, last)| (*first..=*last).contains(&code))
}

/// Returns whether a character has no meaning outside of a font.
pub fn is_private_use(character: char) -> bool {
    matches!(character, '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}')
}

/// Makes text safe for a prompt: no control, bidirectional or invisible characters, at most `limit` characters, with a note of
/// the number of removed characters. Text is not truncated if the note would be as long as the removed part.
pub fn shown(text: &str, limit: usize) -> String {
    let limit = if fits(text, limit) { usize::MAX } else { limit };
    let mut out = String::with_capacity(text.len().min(limit));
    let mut characters = text.chars();
    for character in characters.by_ref().take(limit) {
        if is_hidden(character) && guard!(PromptSanitised) {
            out.extend(character.escape_unicode());
        } else {
            out.push(character);
        }
    }
    let rest = characters.count();
    if rest > 0 {
        out.push_str(&cut_note(rest));
    }
    out
}

/// Returns whether [`shown`] shows a text in full.
pub fn fits(text: &str, limit: usize) -> bool {
    let rest = text.chars().count().saturating_sub(limit);
    rest <= cut_note(rest).len()
}

fn cut_note(rest: usize) -> String {
    format!("... ({rest} more characters)")
}

/// Returns whether a character is not shown by a terminal as it is.
fn is_hidden(character: char) -> bool {
    character.is_control() || is_invisible(character) || is_private_use(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_contain_no_hidden_characters() {
        assert_eq!(shown("rm\u{1b}[2K\n\u{202e}x", 50), "rm\\u{1b}[2K\\u{a}\\u{202e}x");
        let filled = "\u{3164}\u{115f}\u{2800}\u{e001}\u{fe0f}";
        assert_eq!(shown(filled, 50), "\\u{3164}\\u{115f}\\u{2800}\\u{e001}\\u{fe0f}");
        assert_eq!(shown(&"abcdef".repeat(10), 3), "abc... (57 more characters)");
        assert_eq!(shown("abcdef", 3), "abcdef", "the note would be longer than what it stands for");
    }
}
