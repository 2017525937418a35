//! Classifies characters by their effect on a terminal and on a reader.

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

/// Returns whether a character is invisible or formats text: category Cf and other default-ignorable characters, except the
/// zero-width joiner.
pub(crate) fn is_hidden(c: char) -> bool {
    matches!(c,
        '\u{ad}'                      // soft hyphen
        | '\u{34f}'                   // combining grapheme joiner
        | '\u{600}'..='\u{605}' | '\u{6dd}' | '\u{70f}' | '\u{8e2}' | '\u{890}'..='\u{891}'
        | '\u{61c}'                   // Arabic letter mark
        | '\u{115f}'..='\u{1160}' | '\u{3164}' | '\u{ffa0}' // Hangul fillers
        | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}'     // Mongolian selectors
        | '\u{200b}'..='\u{200c}' | '\u{200e}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'     // line and paragraph separators, embeddings and overrides
        | '\u{2060}'..='\u{206f}'
        | '\u{2800}'                  // blank Braille pattern
        | '\u{fff0}'..='\u{fffb}'
        | '\u{feff}'
        | '\u{fe00}'..='\u{fe0e}'     // variation selectors; emoji style (fe0f) is kept after a pictograph
        | '\u{110bd}' | '\u{110cd}'
        | '\u{13430}'..='\u{1343f}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}'   // tags and variation selectors supplement
        | '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}' // private use
    )
}

/// Returns whether a zero-width joiner may connect this character to another one.
pub(crate) fn is_pictograph(c: char) -> bool {
    matches!(c, '\u{1f000}'..='\u{1faff}' | '\u{2600}'..='\u{27bf}' | '\u{2190}'..='\u{21ff}' | '\u{2300}'..='\u{23ff}'
        | '\u{2b00}'..='\u{2bff}' | '\u{fe0f}')
}
