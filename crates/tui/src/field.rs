//! Text that a person types: the prompt's editor, and the fields of dialogs.
//!
//! What keys do to it is in [`super::editing`]; a large text that was pasted stands in it as one mark ([`super::pastes`]).

use super::editing::{Cuts, Last};
use super::pastes::Pastes;
use pijs_terminal::layout::{boundary_before, boundary_behind, width};
use std::collections::VecDeque;

/// Longest text a field holds; of more, the beginning.
pub(super) const LONGEST: usize = 1 << 20;

/// A text and a cursor in it.
#[derive(Debug, Default, Clone)]
pub(super) struct Field {
    pub(super) text: String,
    /// Byte offset, between two characters.
    pub(super) at: usize,
    /// What stands for the marks in the text.
    pub(super) pastes: Pastes,
    /// What was there before, the newest last.
    pub(super) before: Vec<(String, usize, Pastes)>,
    /// What the last key did, as far as the next one goes on with it.
    pub(super) last: Last,
    /// What was cut.
    pub(super) cuts: Cuts,
}

impl Field {
    /// With the cursor behind `text`.
    pub(super) fn new(text: &str) -> Self {
        let mut field = Self::default();
        field.set(text);
        field
    }

    /// As it is shown, with marks for what is large.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// All of it.
    pub(super) fn whole(&self) -> String {
        self.pastes.expanded(&self.text)
    }

    /// What it holds, in bytes, with what was pasted.
    pub(super) fn size(&self) -> usize {
        self.text.len() + self.pastes.bytes()
    }

    /// Where the cursor is, in bytes.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Another text, with the cursor at a byte offset of it. What marks stand for stays.
    pub(super) fn put(&mut self, text: &str, at: usize) {
        self.remember();
        self.last = Last::Other;
        let (head, tail) = text.split_at(text.floor_char_boundary(at));
        self.text.clear();
        self.at = 0;
        self.insert(head);
        let at = self.at;
        self.insert(tail);
        self.at = at;
    }

    /// Another text, with the cursor behind it.
    pub(super) fn set(&mut self, text: &str) {
        if self.text != text {
            self.remember();
        }
        self.last = Last::Other;
        self.text.clear();
        self.pastes = Pastes::default();
        self.at = 0;
        self.insert(text);
    }

    /// Empties it for good and returns all that it held.
    pub(super) fn take(&mut self) -> String {
        let whole = self.whole();
        *self = Self { cuts: std::mem::take(&mut self.cuts), ..Self::default() };
        whole
    }

    /// Puts in what was pasted, as one change.
    pub(super) fn paste(&mut self, text: &str) {
        self.remember();
        self.last = Last::Other;
        self.insert(text);
    }

    /// The same, where a large text is shown as a mark.
    pub(super) fn paste_marked(&mut self, text: &str) {
        self.remember();
        self.last = Last::Other;
        let mut clean = cleaned(&beginning(text).replace('\t', "    "));
        // The name of a file is set apart from the word before it.
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

    /// Puts text in at the cursor. What a terminal would act on is left out; tabs stay.
    pub(super) fn insert(&mut self, text: &str) {
        let clean = cleaned(beginning(text));
        let room = LONGEST.saturating_sub(self.text.len());
        let clean = &clean[..clean.floor_char_boundary(room)];
        self.text.insert_str(self.at, clean);
        self.at += clean.len();
    }

    /// The place before another one, as the cursor moves: a mark is one character.
    pub(super) fn before(&self, at: usize) -> usize {
        let place = boundary_before(&self.text, at);
        self.pastes.around(&self.text, place).map_or(place, |mark| mark.start)
    }

    /// The place behind another one.
    pub(super) fn behind(&self, at: usize) -> usize {
        match self.pastes.around(&self.text, at) {
            Some(mark) => mark.end,
            None => boundary_behind(&self.text, at),
        }
    }

    /// The lines of `columns` around the cursor, at most `rows` of them; it is shown as an inverse character.
    ///
    /// What is farther away is not laid out: a frame costs what it shows, and at most the one line that the cursor is in.
    pub(super) fn shown(&self, columns: usize, rows: usize) -> Vec<String> {
        let (columns, rows) = (columns.max(2), rows.max(1));
        // Each line of the text is one on the screen or more.
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
            // A column is kept for the cursor behind the last character.
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

/// As much of a text as can become a field's: what a terminal would act on is left out of it.
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
    fn what_is_pasted_is_clean() {
        let mut field = Field::default();
        field.insert("a\r\nb\u{1b}[2Jc\u{7}\u{202e}d");
        assert_eq!(field.text(), "a\nbcd");
    }

    #[test]
    fn the_cursor_is_drawn() {
        assert_eq!(Field::new("ab").shown(10, 99), ["ab\u{1b}[7m \u{1b}[27m"]);
        assert_eq!(Field::new("abcd").shown(4, 99), ["abc", "d\u{1b}[7m \u{1b}[27m"]);
        let mut field = Field::new("a\nb");
        field.key("home", "");
        assert_eq!(field.shown(10, 99), ["a", "\u{1b}[7mb\u{1b}[27m"]);
    }

    /// The same as laying everything out and taking the part that has the cursor.
    #[test]
    fn the_part_around_the_cursor_is_what_it_would_be() {
        let mut field = Field::new("a\nbcdefghij\n\nk[paste #1 +12 lines]l\n日本語\nm");
        field.paste_marked(&"x\n".repeat(11));
        let whole = |field: &Field| field.shown(6, 1_000);
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

    /// Keys and a frame over a large text, in one line, in many, and of marks: each costs at most one pass.
    #[test]
    fn a_large_text_is_no_work() {
        const SIZE: usize = 1 << 18;
        let begun = std::time::Instant::now();
        let texts = ["x".repeat(SIZE), "x ".repeat(SIZE / 2), "x\n".repeat(SIZE / 2), "[paste #1] ".repeat(SIZE / 11)];
        for text in texts {
            let mut field = Field::default();
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
        // A pass takes less than a second even where nothing is optimised; a pass for each character takes hours.
        assert!(begun.elapsed().as_secs() < 600, "{:?}", begun.elapsed());
    }
}
