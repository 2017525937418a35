//! Classifies characters by their effect on a terminal and on a reader.

use pijs_protocol::characters::{is_invisible, is_private_use};

/// An invisible character, or one that changes the order of the visible text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HiddenCharacter {
    /// Byte offset in the text.
    pub at: usize,
    /// The character.
    pub character: char,
}

impl std::fmt::Display for HiddenCharacter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "U+{:04X}", u32::from(self.character))
    }
}

/// Finds bidirectional controls, tags and invisible characters in source text ("trojan source"), in order.
///
/// Ignores a byte order mark at the start of the text.
pub fn hidden(text: &str) -> impl Iterator<Item = HiddenCharacter> + '_ {
    let mut before = None;
    text.char_indices().filter_map(move |(at, character)| {
        let previous = before.replace(character);
        let next = || text[at + character.len_utf8()..].chars().next();
        let joins = character == ZWJ && previous.is_some_and(is_pictograph) && next().is_some_and(is_pictograph);
        let found = (is_hidden(character) || character == ZWJ) && !joins && !(at == 0 && character == '\u{feff}');
        found.then_some(HiddenCharacter { at, character })
    })
}

/// Zero-width joiner.
pub(crate) const ZWJ: char = '\u{200d}';

/// Variation selector 16, which requests the emoji form of the preceding character.
pub(crate) const EMOJI_STYLE: char = '\u{fe0f}';

/// Returns whether a character is a control: C0, C1 or DEL.
pub(crate) fn is_control(c: char) -> bool {
    c.is_control()
}

/// Returns whether a character is invisible, formats text or is of private use, except the zero-width joiner and the emoji style,
/// which are kept in emoji.
pub(crate) fn is_hidden(c: char) -> bool {
    (is_invisible(c) && c != ZWJ && c != EMOJI_STYLE) || is_private_use(c)
}

/// Returns whether a zero-width joiner may connect this character to another one.
pub(crate) fn is_pictograph(c: char) -> bool {
    matches!(c, '\u{1f000}'..='\u{1faff}' | '\u{2600}'..='\u{27bf}' | '\u{2190}'..='\u{21ff}' | '\u{2300}'..='\u{23ff}'
        | '\u{2b00}'..='\u{2bff}' | '\u{fe0f}')
}
