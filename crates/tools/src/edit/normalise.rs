//! Normalises text, so that characters which models do not reproduce exactly do not prevent a match.

use unicode_normalization::UnicodeNormalization as _;

/// Returns the text in Unicode compatibility form (NFKC), without blanks at line ends, with plain quotes, dashes and spaces. The
/// number of lines is unchanged.
pub(super) fn normalised(text: &str) -> String {
    let compatible: String = text.nfkc().collect();
    let lines: Vec<String> = compatible.split('\n').map(|line| line.trim_end().chars().map(plain).collect()).collect();
    lines.join("\n")
}

fn plain(letter: char) -> char {
    match letter {
        '\u{2018}'..='\u{201b}' => '\'',
        '\u{201c}'..='\u{201f}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{a0}' | '\u{2002}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        letter => letter,
    }
}

#[cfg(test)]
mod tests {
    use super::normalised;

    #[test]
    fn similar_characters_are_normalised() {
        assert_eq!(normalised("\u{201c}a\u{201d} \u{2014} b\u{2019}s \t\nc\u{a0}d \n"), "\"a\" - b's\nc d\n");
        assert_eq!(normalised("\u{fb01}ne\u{2026}"), "fine...");
    }
}
