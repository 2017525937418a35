//! Text that a person types: the prompt's editor, and the fields of dialogs.

use pijs_terminal::layout::{boundaries, width};

/// Longest text a field holds; of more, the beginning.
const LONGEST: usize = 1 << 20;
/// Texts that can be had again, and the longest of them.
const MOST_UNDONE: usize = 100;
const LONGEST_UNDONE: usize = 1 << 16;

/// A text and a cursor in it.
#[derive(Debug, Default, Clone)]
pub(super) struct Field {
    text: String,
    /// Byte offset, between two characters.
    at: usize,
    /// What was there before, the newest last.
    before: Vec<(String, usize)>,
    /// Whether the last key typed a character of a word: the next one belongs to it.
    is_in_word: bool,
    /// What was cut last.
    cut: String,
}

impl Field {
    /// With the cursor behind `text`.
    pub(super) fn new(text: &str) -> Self {
        let mut field = Self::default();
        field.set(text);
        field
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Where the cursor is, in bytes.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Another text, with the cursor at a byte offset of it.
    pub(super) fn put(&mut self, text: &str, at: usize) {
        let (head, tail) = text.split_at(text.floor_char_boundary(at));
        self.set(head);
        let at = self.at;
        self.insert(tail);
        self.at = at;
    }

    /// Another text, with the cursor behind it.
    pub(super) fn set(&mut self, text: &str) {
        self.text.clear();
        self.at = 0;
        self.insert(text);
    }

    /// Empties it for good and returns what it held.
    pub(super) fn take(&mut self) -> String {
        self.at = 0;
        self.before.clear();
        std::mem::take(&mut self.text)
    }

    /// Puts in what was pasted, as one change.
    pub(super) fn paste(&mut self, text: &str) {
        self.remember(false);
        self.insert(text);
    }

    /// Puts text in at the cursor. What a terminal would act on is left out; tabs stay.
    pub(super) fn insert(&mut self, text: &str) {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let limits = pijs_terminal::Limits { styles: false, ..pijs_terminal::Limits::unbounded() };
        let clean = pijs_terminal::within(&text, limits);
        let room = LONGEST.saturating_sub(self.text.len());
        let clean = &clean[..clean.floor_char_boundary(room)];
        self.text.insert_str(self.at, clean);
        self.at += clean.len();
    }

    /// A backslash before the cursor makes Enter a new line, for terminals that know no other key for it.
    pub(super) fn breaks_line(&mut self) -> bool {
        let breaks = self.text[..self.at].ends_with('\\');
        if breaks {
            self.remember(false);
            self.text.replace_range(self.at - 1..self.at, "\n");
        }
        breaks
    }

    /// Keeps what is there now, so that it can be had again.
    fn remember(&mut self, types_word: bool) {
        let goes_on = types_word && self.is_in_word;
        self.is_in_word = types_word;
        if !goes_on && self.text.len() <= LONGEST_UNDONE {
            if self.before.len() >= MOST_UNDONE {
                self.before.remove(0);
            }
            self.before.push((self.text.clone(), self.at));
        }
    }

    fn undo(&mut self) {
        self.is_in_word = false;
        if let Some((text, at)) = self.before.pop() {
            (self.text, self.at) = (text, at);
        }
    }

    /// Does what a key does to a text; whether it does anything.
    pub(super) fn key(&mut self, name: &str, data: &str) -> bool {
        if name == "ctrl+-" {
            self.undo();
            return true;
        }
        let types_word = data.chars().count() == 1 && data.chars().all(char::is_alphanumeric);
        let (text, at) = (self.text.clone(), self.at);
        let was_in_word = self.is_in_word;
        let is_known = self.change(name, data);
        if self.text != text {
            let changed = (std::mem::replace(&mut self.text, text), std::mem::replace(&mut self.at, at));
            self.remember(types_word);
            (self.text, self.at) = changed;
        } else {
            self.is_in_word = was_in_word && self.at == at;
        }
        is_known
    }

    fn change(&mut self, name: &str, data: &str) -> bool {
        match name {
            "left" | "ctrl+b" => self.at = self.previous(),
            "right" | "ctrl+f" => self.at = self.next(),
            "home" | "ctrl+a" => self.at = self.line_start(),
            "end" | "ctrl+e" => self.at = self.line_end(),
            "alt+left" | "ctrl+left" | "alt+b" => self.at = self.word_before(),
            "alt+right" | "ctrl+right" | "alt+f" => self.at = self.word_behind(),
            "backspace" | "shift+backspace" => self.remove(self.previous(), self.at),
            "delete" => self.remove(self.at, self.next()),
            "ctrl+w" | "alt+backspace" => self.cut_out(self.word_before(), self.at),
            "alt+d" | "alt+delete" => self.cut_out(self.at, self.word_behind()),
            "ctrl+u" => self.cut_out(self.line_start(), self.at),
            "ctrl+k" => self.cut_out(self.at, self.line_end()),
            "ctrl+y" => {
                let cut = self.cut.clone();
                self.insert(&cut);
            }
            "ctrl+j" | "shift+enter" => self.insert("\n"),
            "space" | "shift+space" => self.insert(" "),
            "up" => return self.up(),
            "down" => return self.down(),
            name => {
                let typed = name.strip_prefix("shift+").unwrap_or(name);
                // A terminal that tells the keys of the keypad apart names them.
                if typed.chars().count() == 1 && data.starts_with("\u{1b}[") && data.ends_with('u') {
                    self.insert(typed);
                    return true;
                }
                // One character, by itself or held with shift.
                if typed.chars().count() != 1 || data.starts_with('\u{1b}') || data.chars().any(char::is_control) {
                    return false;
                }
                self.insert(data);
            }
        }
        true
    }

    /// Takes out what can be put in again.
    fn cut_out(&mut self, from: usize, to: usize) {
        if from < to {
            self.cut = self.text[from..to].to_owned();
        }
        self.remove(from, to);
    }

    fn remove(&mut self, from: usize, to: usize) {
        self.text.replace_range(from..to, "");
        self.at = from;
    }

    fn previous(&self) -> usize {
        boundaries(&self.text[..self.at]).into_iter().rev().nth(1).unwrap_or(0)
    }

    fn next(&self) -> usize {
        self.at + boundaries(&self.text[self.at..]).get(1).copied().unwrap_or(0)
    }

    fn line_start(&self) -> usize {
        self.text[..self.at].rfind('\n').map_or(0, |at| at + 1)
    }

    fn line_end(&self) -> usize {
        self.text[self.at..].find('\n').map_or(self.text.len(), |at| self.at + at)
    }

    fn word_before(&self) -> usize {
        let head = self.text[..self.at].trim_end();
        head.rfind(char::is_whitespace).map_or(0, |at| at + head[at..].chars().next().map_or(1, char::len_utf8))
    }

    fn word_behind(&self) -> usize {
        let tail = &self.text[self.at..];
        let word = tail.len() - tail.trim_start().len();
        tail[word..].find(char::is_whitespace).map_or(self.text.len(), |at| self.at + word + at)
    }

    /// To the line above; `false` in the first one.
    fn up(&mut self) -> bool {
        let start = self.line_start();
        if start == 0 {
            return false;
        }
        let column = width(&self.text[start..self.at]);
        self.at = start - 1;
        self.at = self.line_start();
        self.at += self.near(column);
        true
    }

    /// To the line below; `false` in the last one.
    fn down(&mut self) -> bool {
        let end = self.line_end();
        if end == self.text.len() {
            return false;
        }
        let column = width(&self.text[self.line_start()..self.at]);
        self.at = end + 1;
        self.at += self.near(column);
        true
    }

    /// Offset of a column in the line that begins at the cursor.
    fn near(&self, column: usize) -> usize {
        let line = &self.text[self.at..self.line_end()];
        boundaries(line).into_iter().rev().find(|at| width(&line[..*at]) <= column).unwrap_or(0)
    }

    /// The text in lines of `columns`, the cursor shown as an inverse character.
    pub(super) fn lines(&self, columns: usize) -> Vec<String> {
        let columns = columns.max(2);
        let mut lines = Vec::new();
        let (mut line, mut wide) = (String::new(), 0);
        let offsets = boundaries(&self.text);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Types keys by name; single characters are typed as they are.
    fn typed(text: &str, keys: &[&str]) -> String {
        let mut field = Field::new(text);
        for key in keys {
            field.key(key, if key.chars().count() == 1 { key } else { "" });
        }
        let (head, tail) = field.text.split_at(field.at);
        format!("{head}|{tail}")
    }

    #[test]
    fn keys_change_the_text() {
        for (text, keys, expected) in [
            ("", &["a", "b", "left", "c"][..], "ac|b"),
            ("one two", &["ctrl+w"], "one |"),
            ("one two", &["home", "alt+right", "ctrl+k"], "one|"),
            ("one two", &["left", "ctrl+u"], "|o"),
            ("ae\u{301}", &["backspace"], "a|"),
            ("one\ntwo", &["up"], "one|\ntwo"),
            ("one\nt", &["up", "down"], "one\nt|"),
            ("abc\nde", &["up", "end", "down"], "abc\nde|"),
            ("ab", &["home", "delete", "ctrl+j"], "\n|b"),
        ] {
            assert_eq!(typed(text, keys), expected, "{text:?} {keys:?}");
        }
        for (text, keys, expected) in [
            ("one two", &["ctrl+w", "home", "ctrl+y"][..], "two|one "),
            ("one\ntwo", &["up", "ctrl+u", "ctrl+y", "ctrl+y"], "oneone|\ntwo"),
            ("", &["a", "b", "space", "c", "ctrl+-"], "ab |"),
            ("", &["a", "b", "space", "c", "ctrl+-", "ctrl+-", "ctrl+-", "ctrl+-"], "|"),
            ("one two", &["ctrl+w", "ctrl+w", "ctrl+-"], "one |"),
        ] {
            assert_eq!(typed(text, keys), expected, "{text:?} {keys:?}");
        }
        let mut field = Field::new("one\\");
        assert!(field.breaks_line() && !field.breaks_line());
        field.key("7", "\u{1b}[57406u");
        assert_eq!(field.text(), "one\n7");
        assert!(!Field::new("one").key("up", ""));
        assert!(!Field::new("one").key("f5", "\u{1b}[15~"));
    }

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
