//! Text that was rewritten before it is parsed, with a mapping back to the file.

use std::borrow::Cow;

/// Text made of pieces of a file; maps each byte to its byte in the file.
#[derive(Debug, Default)]
pub(super) struct Mapped {
    pub(super) text: String,
    /// Offset of each piece in the text and in the file. Within a piece both advance together.
    pieces: Vec<(usize, usize)>,
}

impl Mapped {
    /// Appends a piece of the file.
    fn push(&mut self, piece: &str, origin: usize) {
        if !piece.is_empty() {
            self.pieces.push((self.text.len(), origin));
            self.text.push_str(piece);
        }
    }

    /// Returns the byte of the file that a byte of the text comes from.
    pub(super) fn origin(&self, offset: usize) -> usize {
        let at = self.pieces.partition_point(|&(start, _)| start <= offset);
        at.checked_sub(1).map_or(0, |at| self.pieces[at].1 + offset - self.pieces[at].0)
    }

    /// Normalises a file: each line ends with LF, and a byte order mark is removed.
    pub(super) fn lines(file: &str) -> Self {
        let start = file.len() - file.trim_start_matches('\u{FEFF}').len();
        let mut lines = Self::default();
        let mut at = start;
        while let Some(end) = file[at..].find('\r').map(|end| at + end) {
            lines.push(&file[at..end], at);
            let length = if file[end..].starts_with("\r\n") { 2 } else { 1 };
            // Keeps the LF of a CRLF, and replaces a lone CR.
            lines.push("\n", end + length - 1);
            at = end + length;
        }
        lines.push(&file[at..], at);
        lines
    }

    /// Removes HTML comments.
    pub(super) fn without_comments(&self) -> Self {
        let lines = self;
        let mut out = Self::default();
        let mut at = 0;
        while let Some(open) = lines.text[at..].find("<!--").map(|open| at + open) {
            let Some(close) = lines.text[open + 4..].find("-->").map(|close| open + 4 + close) else { break };
            out.push_all(lines, at, open);
            at = close + 3;
        }
        out.push_all(lines, at, lines.text.len());
        out
    }

    /// Appends a range of another mapped text.
    fn push_all(&mut self, from: &Self, start: usize, end: usize) {
        let mut at = start;
        while at < end {
            let next = from.pieces.partition_point(|&(piece, _)| piece <= at);
            let stop = from.pieces.get(next).map_or(end, |&(piece, _)| piece.min(end));
            self.push(&from.text[at..stop], from.origin(at));
            at = stop;
        }
    }

    /// Copies a range, with each character replaced.
    pub(super) fn rewritten<'a>(&self, start: usize, end: usize, replace: impl Fn(char) -> Option<&'a str>) -> Self {
        let mut out = Self::default();
        let mut at = start;
        for (offset, c) in self.text[start..end].char_indices().map(|(offset, c)| (start + offset, c)) {
            if let Some(replacement) = replace(c) {
                out.push_all(self, at, offset);
                out.push(replacement, self.origin(offset));
                at = offset + c.len_utf8();
            }
        }
        out.push_all(self, at, end);
        out
    }

    /// Puts the ranges in double quotes, with escapes where YAML needs them.
    pub(super) fn with_quotes(&self, ranges: &[(usize, usize)]) -> Self {
        let mut out = Self::default();
        let mut at = 0;
        for &(start, end) in ranges {
            out.push_all(self, at, start);
            out.push("\"", self.origin(start));
            for (offset, c) in self.text[start..end].char_indices().map(|(offset, c)| (start + offset, c)) {
                let written: Cow<'_, str> = match c {
                    '"' => "\\\"".into(),
                    '\\' => "\\\\".into(),
                    c if c.is_control() => format!("\\u{:04x}", u32::from(c)).into(),
                    c => c.to_string().into(),
                };
                out.push(&written, self.origin(offset));
            }
            out.push("\"", self.origin(end.saturating_sub(1)));
            at = end;
        }
        out.push_all(self, at, self.text.len());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_maps_to_its_origin() {
        let file = "\u{FEFF}a\r\nb\rc<!-- \r\n -->d\te";
        let normal = Mapped::lines(file).without_comments();
        assert_eq!(normal.text, "a\nb\ncd\te");
        let spaces = normal.rewritten(2, normal.text.len(), |c| (c == '\t').then_some("  "));
        assert_eq!(spaces.text, "b\ncd  e");
        for (text, offset) in [("b", 0), ("c", 2), ("d", 3), ("e", 6)] {
            assert_eq!(spaces.origin(offset), file.find(text).expect(text), "{text}");
        }
        let quoted = spaces.with_quotes(&[(2, 7)]);
        assert_eq!(quoted.text, "b\n\"cd  e\"");
        assert_eq!(quoted.origin(7), file.find('e').expect("e"));
        // An unclosed comment stays. Parsing it takes linear time.
        assert_eq!(Mapped::lines(&"<!--".repeat(100_000)).without_comments().text.len(), 400_000);
    }
}
