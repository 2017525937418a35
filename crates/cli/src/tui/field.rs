//! Text that a person types: the prompt's editor, and the fields of dialogs.
//!
//! What keys do to it is in [`super::editing`]; a large text that was pasted stands in it as one mark ([`super::pastes`]).

use super::editing::{Cuts, Last};
use super::pastes::Pastes;
use pijs_terminal::layout::{boundaries, width};

/// Longest text a field holds; of more, the beginning.
const LONGEST: usize = 1 << 20;

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
        let mut clean = cleaned(&text.replace('\t', "    "));
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
        let clean = cleaned(text);
        let room = LONGEST.saturating_sub(self.text.len());
        let clean = &clean[..clean.floor_char_boundary(room)];
        self.text.insert_str(self.at, clean);
        self.at += clean.len();
    }

    /// Byte offsets between the characters, as the cursor moves: a mark is one.
    pub(super) fn offsets(&self) -> Vec<usize> {
        let marks: Vec<_> = self.pastes.marks(&self.text).collect();
        let is_inside = |at: &usize| marks.iter().any(|mark| mark.start < *at && *at < mark.end);
        boundaries(&self.text).into_iter().filter(|at| !is_inside(at)).collect()
    }

    /// The text in lines of `columns`, the cursor shown as an inverse character.
    pub(super) fn lines(&self, columns: usize) -> Vec<String> {
        let columns = columns.max(2);
        let mut lines = Vec::new();
        let (mut line, mut wide) = (String::new(), 0);
        let offsets = self.offsets();
        for pair in offsets.windows(2) {
            let piece = &self.text[pair[0]..pair[1]];
            let is_here = pair[0] == self.at;
            if piece == "\n" {
                if is_here {
                    line.push_str(&inverse(" "));
                }
                lines.push(std::mem::take(&mut line));
                wide = 0;
                continue;
            }
            let shown = if piece == "\t" { "   " } else { piece };
            // A column is kept for the cursor behind the last character.
            if wide + width(shown) > columns - 1 {
                lines.push(std::mem::take(&mut line));
                wide = 0;
            }
            line.push_str(&if is_here { inverse(shown) } else { shown.to_owned() });
            wide += width(shown);
        }
        if self.at == self.text.len() {
            line.push_str(&inverse(" "));
        }
        lines.push(line);
        lines
    }
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
        assert_eq!(Field::new("ab").lines(10), ["ab\u{1b}[7m \u{1b}[27m"]);
        assert_eq!(Field::new("abcd").lines(4), ["abc", "d\u{1b}[7m \u{1b}[27m"]);
        let mut field = Field::new("a\nb");
        field.key("home", "");
        assert_eq!(field.lines(10), ["a", "\u{1b}[7mb\u{1b}[27m"]);
    }
}
