//! What keys do to a text: pi's editing keys, with words, cuts that can be put in again, and undoing.

use super::field::{Field, LONGEST};
use pijs_terminal::layout::{boundary_at, width};

/// Texts that can be had again, and the longest of them.
const MOST_UNDONE: usize = 100;
const LONGEST_UNDONE: usize = 1 << 16;
/// Cuts that can be put in again, and their bytes; one that would be longer begins anew.
const MOST_CUTS: usize = 60;
const LARGEST_CUTS: usize = 4 << 20;

/// What a key did, as far as the next one may go on with it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Last {
    #[default]
    Other,
    /// A character was typed: the next one is undone with it.
    Typed,
    /// Something was cut: the next cut is added to it.
    Cut,
    /// A cut was put in, which begins there: it can be exchanged for the one before.
    PutIn(usize),
    /// The next character is a place to go to.
    Jumps { back: bool },
}

/// What was cut, the newest last.
#[derive(Debug, Default, Clone)]
pub(super) struct Cuts(Vec<String>);

impl Cuts {
    /// Adds a cut: to the newest one, before or behind it, when it goes on with that.
    fn add(&mut self, text: &str, goes_on: bool, before: bool) {
        match self.0.last_mut().filter(|last| goes_on && last.len() + text.len() <= LONGEST) {
            Some(last) if before => last.insert_str(0, text),
            Some(last) => last.push_str(text),
            None => self.0.push(text.to_owned()),
        }
        let mut bytes: usize = self.0.iter().map(String::len).sum();
        while self.0.len() > MOST_CUTS || (bytes > LARGEST_CUTS && self.0.len() > 1) {
            bytes -= self.0.remove(0).len();
        }
    }
}

/// What a character is to a key that moves by words.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Blank,
    Word,
    Sign,
    /// Of a mark, which goes as one.
    Mark,
}

impl Field {
    /// A backslash before the cursor makes Enter a new line, for terminals that know no other key for it.
    pub(super) fn breaks_line(&mut self) -> bool {
        let breaks = self.text[..self.at].ends_with('\\');
        if breaks {
            self.remember();
            self.last = Last::Other;
            self.text.replace_range(self.at - 1..self.at, "\n");
        }
        breaks
    }

    /// Keeps what is there now, so that it can be had again.
    pub(super) fn remember(&mut self) {
        if self.text.len() > LONGEST_UNDONE {
            return;
        }
        if self.before.len() >= MOST_UNDONE {
            self.before.remove(0);
        }
        self.before.push((self.text.clone(), self.at, self.pastes.clone()));
    }

    fn undo(&mut self) {
        self.last = Last::Other;
        if let Some((text, at, pastes)) = self.before.pop() {
            (self.text, self.at, self.pastes) = (text, at, pastes);
        }
    }

    /// Does what a key does to a text; whether it does anything.
    pub(super) fn key(&mut self, name: &str, data: &str) -> bool {
        if let Last::Jumps { back } = self.last {
            self.last = Last::Other;
            if let Some(to) = character(name, data) {
                self.jump(&to, back);
                return true;
            }
        }
        let last = std::mem::take(&mut self.last);
        match name {
            "ctrl+-" => self.undo(),
            "left" | "ctrl+b" => self.at = self.previous(),
            "right" | "ctrl+f" => self.at = self.next(),
            "home" | "ctrl+a" => self.at = self.line_start(),
            "end" | "ctrl+e" => self.at = self.line_end(),
            "alt+left" | "ctrl+left" | "alt+b" => self.at = self.word_before(),
            "alt+right" | "ctrl+right" | "alt+f" => self.at = self.word_behind(),
            "backspace" | "shift+backspace" => self.remove(self.previous(), self.at),
            "delete" | "shift+delete" => self.remove(self.at, self.next()),
            "ctrl+w" | "alt+backspace" => self.cut(self.word_before(), self.at, last, true),
            "alt+d" | "alt+delete" => self.cut(self.at, self.word_behind(), last, false),
            "ctrl+u" => {
                let start = self.line_start();
                // At the beginning of a line it is the line's end before it.
                self.cut(if start == self.at { self.previous() } else { start }, self.at, last, true);
            }
            "ctrl+k" => {
                let end = self.line_end();
                self.cut(self.at, if end == self.at { self.next() } else { end }, last, false);
            }
            "ctrl+y" => self.put_in(),
            "alt+y" => self.exchange(last),
            "ctrl+]" => self.last = Last::Jumps { back: false },
            "ctrl+alt+]" => self.last = Last::Jumps { back: true },
            "ctrl+j" | "shift+enter" => {
                self.remember();
                self.insert("\n");
            }
            "up" => return self.up(),
            "down" => return self.down(),
            name => {
                let Some(typed) = character(name, data) else {
                    self.last = last;
                    return false;
                };
                if last != Last::Typed || typed.chars().all(char::is_whitespace) {
                    self.remember();
                }
                self.insert(&typed);
                self.last = Last::Typed;
            }
        }
        true
    }

    /// Takes out what can be put in again.
    fn cut(&mut self, from: usize, to: usize, last: Last, before: bool) {
        if from < to {
            let text = self.text[from..to].to_owned();
            self.cuts.add(&text, last == Last::Cut, before);
            self.remove(from, to);
            self.last = Last::Cut;
        }
    }

    fn put_in(&mut self) {
        if let Some(cut) = self.cuts.0.last().cloned() {
            self.remember();
            let from = self.at;
            self.insert(&cut);
            self.last = Last::PutIn(from);
        }
    }

    /// In place of the cut that was just put in, the one before it.
    fn exchange(&mut self, last: Last) {
        let Last::PutIn(from) = last else { return };
        self.last = last;
        if self.cuts.0.len() > 1 {
            self.remember();
            self.text.replace_range(from..self.at, "");
            self.at = from;
            self.cuts.0.rotate_right(1);
            let cut = self.cuts.0.last().cloned().unwrap_or_default();
            self.insert(&cut);
        }
    }

    fn remove(&mut self, from: usize, to: usize) {
        if from == to {
            return;
        }
        self.remember();
        let gone = self.text[from..to].to_owned();
        self.text.replace_range(from..to, "");
        self.at = from;
        self.pastes.forget(&gone, &mut self.text, &mut self.at);
    }

    /// To the next place of a character, or the one before.
    fn jump(&mut self, to: &str, back: bool) {
        let found = match back {
            true => self.text[..self.at].rfind(to),
            false => self.text[self.next()..].find(to).map(|found| self.next() + found),
        };
        self.at = found.unwrap_or(self.at);
    }

    fn previous(&self) -> usize {
        self.before(self.at)
    }

    fn next(&self) -> usize {
        self.behind(self.at)
    }

    fn line_start(&self) -> usize {
        self.text[..self.at].rfind('\n').map_or(0, |at| at + 1)
    }

    fn line_end(&self) -> usize {
        self.text[self.at..].find('\n').map_or(self.text.len(), |at| self.at + at)
    }

    /// What the character between two places is.
    fn kind(&self, from: usize, to: usize) -> Kind {
        match self.text[from..to].chars().next().unwrap_or(' ') {
            _ if self.pastes.around(&self.text, from).is_some_and(|mark| mark.start == from) => Kind::Mark,
            first if first.is_whitespace() => Kind::Blank,
            first if first.is_alphanumeric() || first == '_' => Kind::Word,
            _ => Kind::Sign,
        }
    }

    /// Where the word before the cursor begins; at the beginning of a line, the end of the one before.
    fn word_before(&self) -> usize {
        let start = self.line_start();
        if start == self.at {
            return self.previous();
        }
        let mut at = self.at;
        let mut word = None;
        while at > start {
            let before = self.before(at).max(start);
            match (self.kind(before, at), word) {
                (Kind::Blank, None) => {}
                (kind, None) => word = Some(kind),
                (kind, Some(word)) if kind != word || word == Kind::Mark => break,
                _ => {}
            }
            at = before;
        }
        at
    }

    /// Where the word behind the cursor ends; at the end of a line, the beginning of the next.
    fn word_behind(&self) -> usize {
        let end = self.line_end();
        if end == self.at {
            return self.next();
        }
        let mut at = self.at;
        let mut word = None;
        while at < end {
            let behind = self.behind(at).min(end);
            match (self.kind(at, behind), word) {
                (Kind::Blank, None) => {}
                (kind, None) => word = Some(kind),
                (kind, Some(word)) if kind != word || word == Kind::Mark => break,
                _ => {}
            }
            at = behind;
        }
        at
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
        let place = self.at + boundary_at(line, column);
        // Never into a mark.
        let place = self.pastes.around(&self.text, place).map_or(place, |mark| mark.start);
        place.saturating_sub(self.at)
    }
}

/// The character that a key types, if it types one.
fn character(name: &str, data: &str) -> Option<String> {
    let typed = name.strip_prefix("shift+").unwrap_or(name);
    if typed == "space" {
        return Some(" ".to_owned());
    }
    if typed.chars().count() != 1 {
        return None;
    }
    // A terminal that tells the keys of the keypad apart names them.
    if data.starts_with("\u{1b}[") && data.ends_with('u') {
        return Some(typed.to_owned());
    }
    // One character, by itself or held with shift.
    let is_plain = !data.starts_with('\u{1b}') && !data.chars().any(char::is_control);
    is_plain.then(|| data.to_owned())
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
            ("", &["a", "b", "space", "c", "ctrl+-"], "ab|"),
            ("", &["a", "b", "space", "c", "ctrl+-", "ctrl+-", "ctrl+-", "ctrl+-"], "|"),
            ("one two", &["ctrl+w", "ctrl+w", "ctrl+-"], "one |"),
            ("one two", &["ctrl+w", "ctrl+w", "ctrl+y", "!"], "one two!|"),
            ("one two", &["home", "alt+d", "alt+d", "ctrl+y", "ctrl+y"], "one twoone two|"),
            ("one two", &["ctrl+w", "left", "ctrl+u", "ctrl+y", "alt+y"], "two| "),
            ("one two-three (x", &["alt+b", "alt+b", "alt+b", "alt+b"], "one two|-three (x"),
            ("one two-three", &["home", "alt+f", "alt+f", "alt+f"], "one two-|three"),
            ("a\nb", &["home", "ctrl+u"], "a|b"),
            ("a\nb", &["up", "end", "ctrl+k", "ctrl+y"], "a\n|b"),
            ("abcabc", &["home", "ctrl+]", "c", "x"], "abx|cabc"),
            ("abcabc", &["ctrl+alt+]", "b", "x"], "abcax|bc"),
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
    fn a_mark_is_one_character_and_one_word() {
        let pasted = "line\n".repeat(20);
        let mut field = Field::new("a b");
        field.paste_marked(&pasted);
        assert_eq!(field.text(), "a b[paste #1 +21 lines]");
        assert_eq!(field.whole(), format!("a b{pasted}"));
        field.key("left", "");
        field.key("x", "x");
        field.key("alt+right", "");
        field.paste_marked(&"y".repeat(1_001));
        assert_eq!(field.text(), "a bx[paste #1 +21 lines][paste #2 1001 chars]");
        field.key("home", "");
        field.key("alt+f", "");
        field.key("alt+f", "");
        field.key("delete", "");
        assert_eq!(field.text(), "a bx[paste #1 1001 chars]");
        assert_eq!(field.whole(), format!("a bx{}", "y".repeat(1_001)));
        field.key("ctrl+-", "");
        assert_eq!(field.whole(), format!("a bx{pasted}{}", "y".repeat(1_001)));
        assert_eq!(field.take(), format!("a bx{pasted}{}", "y".repeat(1_001)));
        field.insert("[paste #1 +21 lines]");
        assert_eq!(field.whole(), "[paste #1 +21 lines]");
    }
}
