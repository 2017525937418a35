//! Keeps large pasted texts: the editor shows a mark for each, and the model receives the whole text.
//!
//! ```text
//! look at [paste #1 +123 lines] and [paste #2 2048 chars]
//! ```

use pijs_protocol::guard;
use std::ops::Range;
use std::sync::Arc;

/// Number of lines from which a text is large, as in pi.
const MANY_LINES: usize = 10;
/// Number of characters from which a text is large, as in pi.
const MANY_CHARACTERS: usize = 1_000;

/// Maximum number of kept texts. Further texts are inserted without a mark.
const MOST: usize = 1_000;
/// Maximum size in bytes of an editor with all of its texts, and of a text with its marks expanded: a mark may be repeated.
pub(super) const MAX_BYTES: usize = 16 << 20;

const BEGIN: &str = "[paste #";
/// Maximum length of a mark in bytes.
const LONGEST_MARK: usize = 64;

/// Texts behind marks. The first is that of `#1`.
#[derive(Debug, Default, Clone)]
pub(super) struct Pastes(Vec<Arc<str>>);

impl Pastes {
    /// Keeps a large text and returns its mark; `None` if the text is not large, or if too many texts are kept already.
    pub(super) fn keep(&mut self, text: &str) -> Option<String> {
        let (lines, characters) = (text.split('\n').count(), text.encode_utf16().count());
        let size = match (lines > MANY_LINES, characters > MANY_CHARACTERS) {
            (true, _) => format!("+{lines} lines"),
            (false, true) => format!("{characters} chars"),
            (false, false) => return None,
        };
        if self.0.len() >= MOST || self.bytes() + text.len() > MAX_BYTES {
            return None;
        }
        self.0.push(text.into());
        Some(format!("{BEGIN}{} {size}]", self.0.len()))
    }

    /// Returns the size of the kept texts in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.0.iter().map(|text| text.len()).sum()
    }

    /// Returns the mark that contains an offset or begins there.
    pub(super) fn around(&self, text: &str, at: usize) -> Option<Range<usize>> {
        if self.0.is_empty() {
            return None;
        }
        let longest = BEGIN.len() + LONGEST_MARK;
        let (from, to) = (text.floor_char_boundary(at.saturating_sub(longest)), text.ceil_char_boundary(at + longest));
        self.marks(&text[from..to]).map(|mark| from + mark.start..from + mark.end).find(|mark| mark.contains(&at))
    }

    /// Returns the ranges of marks with a kept text.
    pub(super) fn marks<'a>(&'a self, text: &'a str) -> impl Iterator<Item = Range<usize>> + 'a {
        let found = text.match_indices(BEGIN).filter(|_| !self.0.is_empty());
        found.filter_map(|(from, _)| {
            let (number, length) = mark(&text[from..])?;
            (1..=self.0.len()).contains(&number).then_some(from..from + length)
        })
    }

    /// Expands the marks of a text up to the size limit.
    pub(super) fn expanded(&self, text: &str) -> String {
        let (mut whole, mut behind) = (String::new(), 0);
        for place in self.marks(text) {
            whole.push_str(&text[behind..place.start]);
            let number = mark(&text[place.clone()]).map_or(0, |(number, _)| number);
            let pasted = self.0.get(number.wrapping_sub(1)).map_or("", |pasted| pasted);
            let has_room = whole.len() + pasted.len() + text.len() <= MAX_BYTES || !guard!(TuiInsertedSize);
            whole.push_str(if has_room { pasted } else { &text[place.clone()] });
            behind = place.end;
        }
        whole + &text[behind..]
    }

    /// Removes the text of a mark that was removed from `text`. Renumbers the later marks and adjusts the cursor.
    pub(super) fn forget(&mut self, gone: &str, text: &mut String, at: &mut usize) {
        let Some((number, _)) = mark(gone).filter(|(number, length)| *length == gone.len() && *number <= self.0.len())
        else {
            return;
        };
        // After kill and yank, the mark may occur a second time.
        if number == 0 || self.marks(text).any(|place| mark(&text[place]).is_some_and(|(other, _)| other == number)) {
            return;
        }
        let (mut renamed, mut behind, mut before) = (String::with_capacity(text.len()), 0, 0);
        for place in self.marks(text) {
            let Some((other, _)) = mark(&text[place.clone()]).filter(|(other, _)| *other > number) else { continue };
            let digits = place.start + BEGIN.len();
            let size = text[digits..].find([' ', ']']).unwrap_or(0);
            renamed.push_str(&text[behind..digits]);
            renamed.push_str(&(other - 1).to_string());
            behind = digits + size;
            if place.start < *at {
                // Number of bytes by which the text before the cursor has become shorter.
                before = behind - renamed.len();
            }
        }
        renamed.push_str(&text[behind..]);
        *at -= before;
        *text = renamed;
        self.0.remove(number - 1);
    }
}

/// Parses the mark at the start of a text: its number and length.
fn mark(text: &str) -> Option<(usize, usize)> {
    let rest = text.strip_prefix(BEGIN)?;
    let (inner, _) = rest[..rest.floor_char_boundary(LONGEST_MARK)].split_once(']')?;
    let (number, size) = inner.split_once(' ').unwrap_or((inner, "1 chars"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    let is_size = match size.split_once(' ') {
        Some((count, "lines")) => count.strip_prefix('+').is_some_and(is_number),
        Some((count, "chars")) => is_number(count),
        _ => false,
    };
    (is_size && is_number(number)).then_some(())?;
    Some((number.parse().ok()?, BEGIN.len() + inner.len() + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_marks_of_pastes_are_expanded() {
        let mut pastes = Pastes::default();
        assert_eq!(pastes.keep("short"), None);
        assert_eq!(pastes.expanded("[paste #1 +11 lines]"), "[paste #1 +11 lines]");
        let text = "x\n".repeat(10);
        assert_eq!(pastes.keep(&text).as_deref(), Some("[paste #1 +11 lines]"));
        for (given, expected) in [
            ("a[paste #1 +11 lines]b", format!("a{text}b")),
            ("[paste #1]", text.clone()),
            ("[paste #2 +11 lines]", "[paste #2 +11 lines]".to_owned()),
            ("[paste #0 +11 lines]", "[paste #0 +11 lines]".to_owned()),
            ("[paste #1 +x lines] [paste #", "[paste #1 +x lines] [paste #".to_owned()),
        ] {
            assert_eq!(pastes.expanded(given), expected, "{given}");
        }
    }

    /// Repeated marks stay within the size limit, and marks without an end take linear time.
    #[test]
    fn repeated_marks_are_bounded() {
        let mut pastes = Pastes::default();
        let large = "x".repeat(1 << 20);
        assert!(pastes.keep(&large).is_some());
        let whole = pastes.expanded(&"[paste #1]".repeat(100_000));
        assert!(whole.len() <= MAX_BYTES && whole.ends_with("[paste #1]"), "{}", whole.len());
        for _ in 0..20 {
            pastes.keep(&large);
        }
        assert!(pastes.bytes() <= MAX_BYTES, "{}", pastes.bytes());
        let many = "[paste #2] ".repeat(90_000);
        let (mut text, mut at) = (many.clone(), many.len());
        pastes.forget("[paste #1]", &mut text, &mut at);
        assert_eq!((text.len(), at, &text[..20]), (many.len(), many.len(), "[paste #1] [paste #1"));
        assert_eq!(pastes.marks(&"[paste #".repeat(120_000)).count(), 0);
    }
}
