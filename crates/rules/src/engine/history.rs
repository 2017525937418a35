//! Keeps the end of a text, to resolve positions of matches.

use super::firing::{MAX_EXCERPT, MatchSite, PatternIndex};

/// Minimum number of bytes that are kept of a text that is not kept whole.
const KEPT: usize = 4 * 1024;
/// Size in bytes at which a text is cut to [`KEPT`].
const MAX_TEXT: usize = 16 * 1024;

/// The end of a growing text.
#[derive(Debug, Default)]
pub(crate) struct History {
    text: String,
    /// Byte of the whole text at which `text` begins, number of its line counted from 0, and byte at which that line begins.
    start: usize,
    line: usize,
    line_start: usize,
}

/// The position of a byte in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) offset: usize,
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl History {
    /// Begins a new text.
    pub(crate) fn restart(&mut self) {
        self.text.clear();
        (self.start, self.line, self.line_start) = (0, 0, 0);
    }

    /// Returns the length of the whole text in bytes.
    pub(crate) fn len(&self) -> usize {
        self.start + self.text.len()
    }

    #[inline]
    pub(crate) fn push(&mut self, piece: &str) {
        self.text.push_str(piece);
    }

    /// Discards old text, unless the text is kept whole.
    #[inline]
    pub(crate) fn trim(&mut self) {
        if self.text.len() > MAX_TEXT {
            self.cut();
        }
    }

    #[cold]
    fn cut(&mut self) {
        let mut cut = self.text.len() - KEPT;
        while !self.text.is_char_boundary(cut) {
            cut += 1;
        }
        let gone = &self.text.as_bytes()[..cut];
        self.line += gone.iter().filter(|&&byte| byte == b'\n').count();
        if let Some(last) = gone.iter().rposition(|&byte| byte == b'\n') {
            self.line_start = self.start + last + 1;
        }
        self.text.drain(..cut);
        self.text.shrink_to(2 * MAX_TEXT);
        self.start += cut;
    }

    /// Resolves a byte to a position. A discarded byte resolves to the first kept one.
    pub(crate) fn position(&self, offset: usize) -> Position {
        let before = &self.text[..self.kept(offset)];
        let line = self.line + before.bytes().filter(|&byte| byte == b'\n').count();
        let column = match before.rfind('\n') {
            Some(last) => before[last + 1..].chars().count(),
            // Of the discarded part of the line, only the length in bytes is known.
            None => before.chars().count() + self.start - self.line_start,
        };
        Position { offset, line: line + 1, column: column + 1 }
    }

    /// Returns the line around a byte, cut to [`MAX_EXCERPT`] characters, of which three quarters are before the byte.
    pub(crate) fn excerpt(&self, offset: usize) -> String {
        let at = self.kept(offset);
        let (before, after) = self.text.split_at(at);
        // A match that includes the line break ends after it.
        let before = before.strip_suffix('\n').unwrap_or(before);
        let after = if before.len() < at { "" } else { after };
        let begin = before.rfind('\n').map_or(0, |last| last + 1);
        let line = &before[begin..];
        let rest = after.split('\n').next().unwrap_or_default();
        let least = MAX_EXCERPT * 3 / 4;
        let rest_length = rest.chars().take(MAX_EXCERPT).count();
        let room = MAX_EXCERPT - rest_length.min(MAX_EXCERPT - least);
        let from = line.char_indices().rev().nth(room - 1).map_or(0, |(index, _)| index);
        let taken = line[from..].chars().count();
        let mut excerpt = line[from..].to_owned();
        excerpt.extend(rest.chars().take(MAX_EXCERPT - taken));
        excerpt.truncate(excerpt.trim_end().len());
        excerpt
    }

    fn kept(&self, offset: usize) -> usize {
        let mut at = offset.saturating_sub(self.start).min(self.text.len());
        while !self.text.is_char_boundary(at) {
            at -= 1;
        }
        at
    }
}

/// The position of a match.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    position: Position,
    excerpt: String,
}

impl Site {
    pub(crate) fn new(history: &History, offset: usize) -> Self {
        Self { position: history.position(offset), excerpt: history.excerpt(offset) }
    }

    pub(crate) fn matched(self, pattern: PatternIndex, path: Option<String>) -> MatchSite {
        let Self { position: Position { offset, line, column }, excerpt } = self;
        MatchSite { pattern, offset, line, column, excerpt, path }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_correct_after_old_text_is_discarded() {
        let mut history = History::default();
        let line = "größe 0123456789\n";
        for _ in 0..10_000 {
            history.push(line);
            history.trim();
        }
        assert!(history.text.len() <= MAX_TEXT);
        assert_eq!(history.len(), line.len() * 10_000);
        let position = history.position(line.len() * 9_999 + 7);
        assert_eq!((position.line, position.column), (10_000, 6));
        assert_eq!(history.excerpt(position.offset), "größe 0123456789");
    }

    #[test]
    fn an_excerpt_is_cut_around_the_match() {
        let mut history = History::default();
        history.push(&format!("first\n{}MATCH{}\nlast", "a".repeat(500), "b".repeat(500)));
        let excerpt = history.excerpt(6 + 505);
        assert_eq!(excerpt, format!("{}MATCH{}", "a".repeat(145), "b".repeat(50)));
        assert_eq!(history.excerpt(3), "first");
        assert_eq!(history.excerpt(6), "first");
        let mut short = History::default();
        short.push(&format!("{}MATCH", "a".repeat(500)));
        assert_eq!(short.excerpt(505), format!("{}MATCH", "a".repeat(195)));
    }
}
