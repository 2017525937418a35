//! Waits until enough of the text after a match is known for the rule's `settle`.

use crate::rule::Settle;

/// A match that later text may undo.
#[derive(Debug)]
pub(crate) struct Wait {
    /// The pattern that matched.
    pub(crate) pattern: usize,
    /// Byte of the stream at which the match ends.
    pub(crate) offset: usize,
    until: Until,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    Now,
    /// Until there is a next character.
    Next,
    /// Until the next character that is not part of a word.
    WordEnd,
    LineEnd,
}

impl Wait {
    /// Starts waiting after a match. `last` is the last character of the match; if the match is empty, the character before it.
    pub(crate) fn new(settle: Settle, pattern: usize, offset: usize, last: Option<char>) -> Self {
        let until = match settle {
            Settle::Now => Until::Now,
            Settle::Word if last.is_some_and(is_word) => Until::WordEnd,
            Settle::Word => Until::Next,
            Settle::Line if last == Some('\n') => Until::Now,
            Settle::Line => Until::LineEnd,
        };
        Self { pattern, offset, until }
    }

    /// Returns whether `rest`, the next part of the text, ends the wait.
    pub(crate) fn is_over(&self, rest: &str) -> bool {
        match self.until {
            Until::Now => true,
            Until::Next => !rest.is_empty(),
            Until::WordEnd => rest.chars().any(|character| !is_word(character)),
            Until::LineEnd => rest.contains('\n'),
        }
    }
}

/// Returns whether a character is part of a word, in any script.
fn is_word(character: char) -> bool {
    character == '_' || character.is_alphanumeric()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_complete_when_another_character_follows() {
        let word = |last, rest: &str| Wait::new(Settle::Word, 0, 0, Some(last)).is_over(rest);
        assert!(!word('O', "") && !word('O', "Sé_9") && word('O', "S "));
        assert!(!word('(', "") && word('(', "a"));
    }

    #[test]
    fn a_line_is_complete_at_its_break() {
        let line = |last, rest: &str| Wait::new(Settle::Line, 0, 0, Some(last)).is_over(rest);
        assert!(!line('x', "y z") && line('x', "y\nz") && line('\n', ""));
    }
}
