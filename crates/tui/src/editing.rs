//! Editing keys of a text field: pi's keys for words, kill and yank, and undo.

use super::text_field::{LONGEST, TextField};
use pijs_terminal::layout::{boundary_at, width};

/// Maximum number of undo steps.
const MAX_UNDO: usize = 100;
/// Maximum length in bytes of a text that is recorded for an undo step.
const MAX_UNDO_TEXT: usize = 1 << 16;
/// Maximum number of killed texts.
const MAX_KILLS: usize = 60;
/// Maximum size of all killed texts in bytes. A larger text is not extended.
const MAX_KILL_BYTES: usize = 4 << 20;

/// The previous key, if the next one can continue it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum LastEdit {
    #[default]
    Other,
    /// A typed character. The next one belongs to the same undo step.
    Typed,
    /// A kill. The next one is appended to it.
    Cut,
    /// A yank that begins at this offset. It can be replaced by the previous kill.
    PutIn(usize),
    /// The next character is the target of a jump.
    Jumps { back: bool },
}

/// Killed texts, newest last.
#[derive(Debug, Default, Clone)]
pub(super) struct KillRing(Vec<String>);

impl KillRing {
    /// Adds a kill. If it continues the newest one, the two are joined.
    fn add(&mut self, text: &str, goes_on: bool, before: bool) {
        match self.0.last_mut().filter(|last| goes_on && last.len() + text.len() <= LONGEST) {
            Some(last) if before => last.insert_str(0, text),
            Some(last) => last.push_str(text),
            None => self.0.push(text.to_owned()),
        }
        let mut bytes: usize = self.0.iter().map(String::len).sum();
        while self.0.len() > MAX_KILLS || (bytes > MAX_KILL_BYTES && self.0.len() > 1) {
            bytes -= self.0.remove(0).len();
        }
    }
}

/// Character classes for movement by words.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CharacterClass {
    Blank,
    Word,
    Sign,
    /// A mark of a pasted text, which the cursor moves over as one unit.
    Mark,
}

impl TextField {
    /// Handles a backslash before Enter, which inserts a line break on terminals that have no other key for it.
    pub(super) fn breaks_line(&mut self) -> bool {
        let breaks = self.text[..self.at].ends_with('\\');
        if breaks {
            self.remember();
            self.last = LastEdit::Other;
            self.text.replace_range(self.at - 1..self.at, "\n");
        }
        breaks
    }

    /// Records an undo step.
    pub(super) fn remember(&mut self) {
        if self.text.len() > MAX_UNDO_TEXT {
            return;
        }
        if self.before.len() >= MAX_UNDO {
            self.before.remove(0);
        }
        self.before.push((self.text.clone(), self.at, self.pastes.clone()));
    }

    fn undo(&mut self) {
        self.last = LastEdit::Other;
        if let Some((text, at, pastes)) = self.before.pop() {
            (self.text, self.at, self.pastes) = (text, at, pastes);
        }
    }

    /// Handles an editing key. Returns whether it had an effect.
    pub(super) fn key(&mut self, name: &str, data: &str) -> bool {
        if let LastEdit::Jumps { back } = self.last {
            self.last = LastEdit::Other;
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
                // At the start of a line, removes the preceding line break.
                self.cut(if start == self.at { self.previous() } else { start }, self.at, last, true);
            }
            "ctrl+k" => {
                let end = self.line_end();
                self.cut(self.at, if end == self.at { self.next() } else { end }, last, false);
            }
            "ctrl+y" => self.put_in(),
            "alt+y" => self.exchange(last),
            "ctrl+]" => self.last = LastEdit::Jumps { back: false },
            "ctrl+alt+]" => self.last = LastEdit::Jumps { back: true },
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
                if last != LastEdit::Typed || typed.chars().all(char::is_whitespace) {
                    self.remember();
                }
                self.insert(&typed);
                self.last = LastEdit::Typed;
            }
        }
        true
    }

    /// Kills a range.
    fn cut(&mut self, from: usize, to: usize, last: LastEdit, before: bool) {
        if from < to {
            let text = self.text[from..to].to_owned();
            self.kills.add(&text, last == LastEdit::Cut, before);
            self.remove(from, to);
            self.last = LastEdit::Cut;
        }
    }

    fn put_in(&mut self) {
        if let Some(cut) = self.kills.0.last().cloned() {
            self.remember();
            let from = self.at;
            self.insert(&cut);
            self.last = LastEdit::PutIn(from);
        }
    }

    /// Replaces a yank by the previous kill.
    fn exchange(&mut self, last: LastEdit) {
        let LastEdit::PutIn(from) = last else { return };
        self.last = last;
        if self.kills.0.len() > 1 {
            self.remember();
            self.text.replace_range(from..self.at, "");
            self.at = from;
            self.kills.0.rotate_right(1);
            let cut = self.kills.0.last().cloned().unwrap_or_default();
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

    /// Jumps to the next or previous occurrence of a character.
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

    /// Returns the class of the character in a range.
    fn kind(&self, from: usize, to: usize) -> CharacterClass {
        match self.text[from..to].chars().next().unwrap_or(' ') {
            _ if self.pastes.around(&self.text, from).is_some_and(|mark| mark.start == from) => CharacterClass::Mark,
            first if first.is_whitespace() => CharacterClass::Blank,
            first if first.is_alphanumeric() || first == '_' => CharacterClass::Word,
            _ => CharacterClass::Sign,
        }
    }

    /// Returns the start of the word before the cursor; at the start of a line, the end of the previous line.
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
                (CharacterClass::Blank, None) => {}
                (kind, None) => word = Some(kind),
                (kind, Some(word)) if kind != word || word == CharacterClass::Mark => break,
                _ => {}
            }
            at = before;
        }
        at
    }

    /// Returns the end of the word after the cursor; at the end of a line, the start of the next line.
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
                (CharacterClass::Blank, None) => {}
                (kind, None) => word = Some(kind),
                (kind, Some(word)) if kind != word || word == CharacterClass::Mark => break,
                _ => {}
            }
            at = behind;
        }
        at
    }

    /// Moves to the line above; returns `false` in the first line.
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

    /// Moves to the line below; returns `false` in the last line.
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

    /// Returns the offset of a column in the line that begins at the cursor.
    fn near(&self, column: usize) -> usize {
        let line = &self.text[self.at..self.line_end()];
        let place = self.at + boundary_at(line, column);
        // The cursor must not be inside a mark.
        let place = self.pastes.around(&self.text, place).map_or(place, |mark| mark.start);
        place.saturating_sub(self.at)
    }
}

/// Returns the character that a key inserts.
fn character(name: &str, data: &str) -> Option<String> {
    let typed = name.strip_prefix("shift+").unwrap_or(name);
    if typed == "space" {
        return Some(" ".to_owned());
    }
    if typed.chars().count() != 1 {
        return None;
    }
    // The keypad sequences of the Kitty protocol contain the name of the key.
    if data.starts_with("\u{1b}[") && data.ends_with('u') {
        return Some(typed.to_owned());
    }
    // A single character, possibly with shift.
    let is_plain = !data.starts_with('\u{1b}') && !data.chars().any(char::is_control);
    is_plain.then(|| data.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Applies keys by name to a field with `text`. Single characters are typed.
    fn typed(text: &str, keys: &[&str]) -> String {
        let mut field = TextField::new(text);
        for key in keys {
            field.key(key, if key.chars().count() == 1 { key } else { "" });
        }
        let (head, tail) = field.text.split_at(field.at);
        format!("{head}|{tail}")
    }

    #[test]
    fn editing_keys_change_the_text() {
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
        let mut field = TextField::new("one\\");
        assert!(field.breaks_line() && !field.breaks_line());
        field.key("7", "\u{1b}[57406u");
        assert_eq!(field.text(), "one\n7");
        assert!(!TextField::new("one").key("up", ""));
        assert!(!TextField::new("one").key("f5", "\u{1b}[15~"));
    }

    #[test]
    fn a_mark_is_one_character_and_one_word() {
        let pasted = "line\n".repeat(20);
        let mut field = TextField::new("a b");
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
