//! A text field: the editor of prompts, and the fields of dialogs.
//!
//! [`super::editing`] handles keys; [`super::pastes`] replaces large pasted texts by marks.

use super::editing::{KillRing, LastEdit};
use super::pastes::Pastes;
use pijs_terminal::layout::{boundary_before, boundary_behind, width};
use std::collections::VecDeque;

/// Maximum length of a field's text in bytes; the rest is dropped.
pub(super) const LONGEST: usize = 1 << 20;

/// A text with a cursor.
#[derive(Debug, Default, Clone)]
pub(super) struct TextField {
    pub(super) text: String,
    /// Byte offset of the cursor, between two characters.
    pub(super) at: usize,
    /// Pasted texts behind the marks.
    pub(super) pastes: Pastes,
    /// Undo steps, newest last.
    pub(super) before: Vec<(String, usize, Pastes)>,
    /// The previous key, if the next one can continue it.
    pub(super) last: LastEdit,
    /// Killed texts.
    pub(super) kills: KillRing,
}

impl TextField {
    /// Creates a field with the cursor at the end of `text`.
    pub(super) fn new(text: &str) -> Self {
        let mut field = Self::default();
        field.set(text);
        field
    }

    /// Returns the displayed text, with marks.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the whole text, with marks expanded.
    pub(super) fn whole(&self) -> String {
        self.pastes.expanded(&self.text)
    }

    /// Returns the size in bytes, including pasted texts.
    pub(super) fn size(&self) -> usize {
        self.text.len() + self.pastes.bytes()
    }

    /// Returns the byte offset of the cursor.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Replaces the text, with the cursor at a byte offset. Keeps the pasted texts behind marks.
    pub(super) fn put(&mut self, text: &str, at: usize) {
        self.remember();
        self.last = LastEdit::Other;
        let (head, tail) = text.split_at(text.floor_char_boundary(at));
        self.text.clear();
        self.at = 0;
        self.insert(head);
        let at = self.at;
        self.insert(tail);
        self.at = at;
    }

    /// Replaces the text, with the cursor at its end.
    pub(super) fn set(&mut self, text: &str) {
        if self.text != text {
            self.remember();
        }
        self.last = LastEdit::Other;
        self.text.clear();
        self.pastes = Pastes::default();
        self.at = 0;
        self.insert(text);
    }

    /// Clears the field and returns its whole text.
    pub(super) fn take(&mut self) -> String {
        let whole = self.whole();
        *self = Self { kills: std::mem::take(&mut self.kills), ..Self::default() };
        whole
    }

    /// Inserts a pasted text as one undo step.
    pub(super) fn paste(&mut self, text: &str) {
        self.remember();
        self.last = LastEdit::Other;
        self.insert(text);
    }

    /// Inserts a pasted text as one undo step; a large text becomes a mark.
    pub(super) fn paste_marked(&mut self, text: &str) {
        self.remember();
        self.last = LastEdit::Other;
        let mut clean = cleaned(&beginning(text).replace('\t', "    "));
        // A blank separates a pasted path from the word before it.
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if clean.starts_with(['/', '~', '.']) && self.text[..self.at].ends_with(is_word) {
            clean.insert(0, ' ');
        }
        let clean = &clean[..clean.floor_char_boundary(LONGEST)];
        match self.pastes.keep(clean) {
            Some(mark) => self.insert(&mark),
            None => self.insert(clean),
        }
    }

    /// Inserts text at the cursor, without control characters except tabs.
    pub(super) fn insert(&mut self, text: &str) {
        let clean = cleaned(beginning(text));
        let room = LONGEST.saturating_sub(self.text.len());
        let clean = &clean[..clean.floor_char_boundary(room)];
        self.text.insert_str(self.at, clean);
        self.at += clean.len();
    }

    /// Returns the cursor position before an offset. A mark counts as one character.
    pub(super) fn before(&self, at: usize) -> usize {
        let place = boundary_before(&self.text, at);
        self.pastes.around(&self.text, place).map_or(place, |mark| mark.start)
    }

    /// Returns the cursor position after an offset.
    pub(super) fn behind(&self, at: usize) -> usize {
        match self.pastes.around(&self.text, at) {
            Some(mark) => mark.end,
            None => boundary_behind(&self.text, at),
        }
    }

    /// Returns at most `rows` lines of at most `columns` around the cursor, which is shown as an inverse character.
    ///
    /// Lays out only the visible lines, and at most the whole line with the cursor, so that the cost of a frame does not depend
    /// on the length of the text.
    pub(super) fn shown(&self, columns: usize, rows: usize) -> Vec<String> {
        let (columns, rows) = (columns.max(2), rows.max(1));
        // Each line of the text takes at least one row.
        let mut at = self.text[..self.at].rmatch_indices('\n').nth(rows - 1).map_or(0, |(end, _)| end + 1);
        let from = at;
        let marks = self.pastes.marks(&self.text[from..]).map(|mark| from + mark.start..from + mark.end);
        let mut marks = marks.peekable();
        let mut lines = VecDeque::new();
        let (mut line, mut wide, mut has_cursor, mut is_past) = (String::new(), 0, false, false);
        let mut end = |line: &mut String, has_cursor: bool| {
            if !is_past || lines.len() < rows {
                lines.push_back(std::mem::take(line));
            }
            if lines.len() > rows {
                lines.pop_front();
            }
            is_past |= has_cursor;
            is_past && lines.len() >= rows
        };
        let is_full = loop {
            if at >= self.text.len() {
                break false;
            }
            while marks.next_if(|mark| mark.start < at).is_some() {}
            let next = match marks.peek() {
                Some(mark) if mark.start == at => mark.end,
                _ => boundary_behind(&self.text, at),
            };
            let piece = &self.text[at..next];
            let is_here = at == self.at;
            at = next;
            if piece.starts_with('\n') {
                if is_here {
                    line.push_str(&inverse(" "));
                }
                wide = 0;
                if end(&mut line, has_cursor || is_here) {
                    break true;
                }
                has_cursor = false;
                continue;
            }
            let shown = if piece == "\t" { "   " } else { piece };
            // One column is reserved for the cursor after the last character.
            if wide + width(shown) > columns - 1 {
                wide = 0;
                if end(&mut line, has_cursor) {
                    break true;
                }
                has_cursor = false;
            }
            line.push_str(&if is_here { inverse(shown) } else { shown.to_owned() });
            has_cursor |= is_here;
            wide += width(shown);
        };
        if !is_full {
            if self.at == self.text.len() {
                line.push_str(&inverse(" "));
            }
            end(&mut line, true);
        }
        lines.into()
    }
}

/// Returns the beginning of a text that can fit into a field after sanitising.
fn beginning(text: &str) -> &str {
    &text[..text.floor_char_boundary(4 * LONGEST)]
}

fn inverse(text: &str) -> String {
    format!("\u{1b}[7m{text}\u{1b}[27m")
}

fn cleaned(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let limits = pijs_terminal::Limits { styles: false, ..pijs_terminal::Limits::unbounded() };
    pijs_terminal::within(&text, limits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pasted_text_is_sanitised() {
        let mut field = TextField::default();
        field.insert("a\r\nb\u{1b}[2Jc\u{7}\u{202e}d");
        assert_eq!(field.text(), "a\nbcd");
    }

    #[test]
    fn the_cursor_is_drawn() {
        assert_eq!(TextField::new("ab").shown(10, 99), ["ab\u{1b}[7m \u{1b}[27m"]);
        assert_eq!(TextField::new("abcd").shown(4, 99), ["abc", "d\u{1b}[7m \u{1b}[27m"]);
        let mut field = TextField::new("a\nb");
        field.key("home", "");
        assert_eq!(field.shown(10, 99), ["a", "\u{1b}[7mb\u{1b}[27m"]);
    }

    /// The visible part equals the same part of the full layout.
    #[test]
    fn the_visible_part_equals_the_full_layout() {
        let mut field = TextField::new("a\nbcdefghij\n\nk[paste #1 +12 lines]l\n日本語\nm");
        field.paste_marked(&"x\n".repeat(11));
        let whole = |field: &TextField| field.shown(6, 1_000);
        for _ in 0..60 {
            let all = whole(&field);
            let at = all.iter().position(|line| line.contains("\u{1b}[7m")).expect("a cursor");
            for rows in 1..8 {
                let from = (at + 1).saturating_sub(rows);
                let expected: Vec<String> = all.iter().skip(from).take(rows).cloned().collect();
                assert_eq!(field.shown(6, rows), expected, "{rows} rows at {}", field.at);
            }
            field.key("left", "");
        }
        assert_eq!(field.at, 0);
    }

    /// Each key and each frame takes at most one pass over a large text, of one line, of many lines, or of marks.
    #[test]
    fn keys_over_a_large_text_take_linear_time() {
        const SIZE: usize = 1 << 18;
        let begun = std::time::Instant::now();
        let texts = ["x".repeat(SIZE), "x ".repeat(SIZE / 2), "x\n".repeat(SIZE / 2), "[paste #1] ".repeat(SIZE / 11)];
        for text in texts {
            let mut field = TextField::default();
            field.paste_marked(&"pasted\n".repeat(20));
            field.put(&text, text.len());
            for key in [
                "up",
                "down",
                "left",
                "alt+left",
                "alt+right",
                "backspace",
                "ctrl+w",
                "ctrl+u",
                "ctrl+y",
                "right",
                "home",
            ] {
                for _ in 0..10 {
                    field.key(key, "");
                }
            }
            field.put(&text, text.len());
            assert!(field.shown(80, 12).len() <= 12);
        }
        // One pass takes less than a second in debug builds; a pass for each character would take hours.
        assert!(begun.elapsed().as_secs() < 600, "{:?}", begun.elapsed());
    }
}
