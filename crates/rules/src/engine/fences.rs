//! Splits Markdown that streams into prose and fenced code blocks.
//!
//! The tracker follows CommonMark: a fence is a line of at least three backticks or tildes, indented by at most three columns
//! (or by what the list item around it is indented, and three more); a fence of the same character that is at least as long closes
//! the block. In a block quote a fence stands behind the `>` of its line; so do the lines of its block, to which the `>` does not
//! belong, and a line without it ends the block. The line of a fence belongs to neither region. Its characters are held back until it is known whether they are one.

/// Longest line that is held back to see whether it is a fence.
const MAX_HELD: usize = 1024;
/// Columns that a fence may be indented.
const MAX_INDENT: usize = 3;
/// Columns of a list item's content that count.
const MAX_ITEM: usize = 64;

/// A part of the text, in order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Segment<'a> {
    /// Text outside of code blocks, which begins at this byte of the stream.
    Prose(usize, &'a str),
    /// A code block begins; its info string.
    Open(&'a str),
    /// Text of the code block, which begins at this byte of the stream.
    Code(usize, &'a str),
    /// The code block ends.
    Close,
}

/// Reads Markdown piece by piece.
#[derive(Debug, Default)]
pub(crate) struct Fences {
    /// Bytes of the stream that were read.
    offset: usize,
    line: Line,
    block: Option<Block>,
    /// The beginning of a line that may be a fence, and the byte of the stream where it begins.
    held: String,
    held_at: usize,
    quote: Quote,
    /// Column at which the content of the list item around begins; 0 outside of lists.
    item: usize,
    /// The beginning of the line, as far as it tells of a list item.
    marker: Marker,
}

#[derive(Debug, Clone, Copy)]
struct Block {
    marker: u8,
    length: usize,
    indent: usize,
    /// The `>` before each of its lines.
    quotes: usize,
}

/// The markers of block quotes at the beginning of a line.
#[derive(Debug, Clone, Copy, Default)]
struct Quote {
    count: usize,
    /// Bytes of the line up to the last one, and one space behind it.
    length: usize,
}

/// How far a line has been read.
#[derive(Debug, Clone, Copy, Default)]
enum Line {
    /// Spaces, then a run of one fence character.
    #[default]
    Start,
    /// Behind them.
    Run { indent: usize, marker: u8, length: usize },
    /// The info string of an opening fence.
    Info { indent: usize, marker: u8, length: usize },
    /// The rest of a line that is no fence.
    Rest,
}

/// Recognises `- `, `* `, `+ `, `1. ` and `1) ` at the beginning of a line of prose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Marker {
    /// Spaces so far.
    #[default]
    Before,
    Digits,
    /// The bullet, or the point behind the digits.
    Bullet,
    /// Spaces behind the bullet.
    Behind,
    /// Decided.
    Done,
}

impl Fences {
    /// Begins a new text.
    pub(crate) fn restart(&mut self) {
        let held = std::mem::take(&mut self.held);
        *self = Self { held, ..Self::default() };
        self.held.clear();
    }

    /// Reads the next piece of the text.
    pub(crate) fn push(&mut self, piece: &str, segment: &mut impl FnMut(Segment<'_>)) {
        let bytes = piece.as_bytes();
        let base = self.offset;
        let mut at = 0;
        // First byte of the piece that was neither passed on nor held back.
        let mut from = 0;
        while at < bytes.len() {
            let byte = bytes[at];
            match self.line {
                Line::Rest => {
                    let end =
                        bytes[at..].iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |end| at + end + 1);
                    if self.block.is_none() && self.marker != Marker::Done {
                        self.read_marker(&piece[at..end], base + at);
                    }
                    if bytes[end - 1] == b'\n' {
                        self.line = Line::Start;
                    }
                    at = end;
                    if matches!(self.line, Line::Start) || at == bytes.len() {
                        self.pass(base + from, &piece[from..at], segment);
                        from = at;
                    }
                }
                Line::Start => {
                    if self.held.is_empty() {
                        self.held_at = base + at;
                        self.quote = Quote::default();
                    }
                    let Quote { count, length } = self.quote;
                    let indent = self.held.len() - length;
                    let quotes = self.block.map_or(usize::MAX, |block| block.quotes);
                    let is_marker = match self.block {
                        Some(block) => byte == block.marker && count == quotes,
                        None => byte == b'`' || byte == b'~',
                    };
                    let around = match self.block {
                        Some(block) if count == quotes => block.indent,
                        _ if count == 0 => self.item,
                        _ => 0,
                    };
                    let most = around + MAX_INDENT;
                    if byte == b' ' && self.held.ends_with('>') {
                        self.held.push(' ');
                        self.quote.length = self.held.len();
                        at += 1;
                        from = at;
                    } else if byte == b'>' && indent <= most && count < quotes && self.held.len() < MAX_HELD {
                        self.held.push('>');
                        self.quote = Quote { count: count + 1, length: self.held.len() };
                        at += 1;
                        from = at;
                    } else if byte == b' ' && indent < most {
                        self.held.push(' ');
                        at += 1;
                        from = at;
                    } else if self.block.is_some() && count < quotes {
                        // The block quote is over. The line is read again as one outside of the block.
                        self.block = None;
                        segment(Segment::Close);
                    } else if is_marker {
                        self.line = Line::Run { indent: self.held.len(), marker: byte, length: 0 };
                    } else {
                        self.release(segment);
                    }
                }
                Line::Run { indent, marker, length } => {
                    let least = self.block.map_or(3, |block| block.length);
                    let is_tail = self.block.is_some() && matches!(byte, b' ' | b'\t' | b'\r');
                    let in_tail = self.held.len() > indent + length;
                    if byte == marker && !in_tail && self.held.len() < MAX_HELD {
                        self.held.push(char::from(byte));
                        self.line = Line::Run { indent, marker, length: length + 1 };
                        at += 1;
                        from = at;
                    } else if length >= least && self.block.is_none() {
                        self.line = Line::Info { indent, marker, length };
                    } else if length >= least && is_tail && self.held.len() < MAX_HELD {
                        self.held.push(char::from(byte));
                        at += 1;
                        from = at;
                    } else if length >= least && byte == b'\n' {
                        at += 1;
                        from = at;
                        self.close(segment);
                    } else {
                        self.release(segment);
                    }
                }
                Line::Info { indent, marker, length } => {
                    let end = bytes[at..].iter().position(|&byte| byte == b'\n' || (marker == b'`' && byte == b'`'));
                    let until = end.map_or(bytes.len(), |end| at + end);
                    self.held.push_str(&piece[at..until]);
                    at = until;
                    from = at;
                    if end.is_some() && bytes[at] == b'\n' {
                        at += 1;
                        from = at;
                        self.open(indent, marker, length, segment);
                    } else if end.is_some() || self.held.len() > MAX_HELD {
                        self.release(segment);
                    }
                }
            }
        }
        self.offset += piece.len();
    }

    /// Ends the text: what was held back is decided, an open block is closed.
    pub(crate) fn finish(&mut self, segment: &mut impl FnMut(Segment<'_>)) {
        match (self.line, self.block) {
            (Line::Run { length, .. }, Some(block)) if length >= block.length => self.close(segment),
            (Line::Run { indent, marker, length } | Line::Info { indent, marker, length }, None) if length >= 3 => {
                self.open(indent, marker, length, segment);
            }
            _ => self.release(segment),
        }
        if self.block.take().is_some() {
            segment(Segment::Close);
        }
        self.restart();
    }

    fn open(&mut self, indent: usize, marker: u8, length: usize, segment: &mut impl FnMut(Segment<'_>)) {
        segment(Segment::Open(self.held[indent + length..].trim()));
        let Quote { count, length: quoted } = self.quote;
        self.block = Some(Block { marker, length, indent: indent - quoted, quotes: count });
        self.held.clear();
        self.line = Line::Start;
    }

    fn close(&mut self, segment: &mut impl FnMut(Segment<'_>)) {
        self.block = None;
        self.held.clear();
        self.line = Line::Start;
        self.marker = Marker::Before;
        segment(Segment::Close);
    }

    /// Passes on what was held back: the line is no fence.
    fn release(&mut self, segment: &mut impl FnMut(Segment<'_>)) {
        self.line = Line::Rest;
        let held = std::mem::take(&mut self.held);
        if self.block.is_none() {
            self.marker = Marker::Before;
            self.read_marker(&held, self.held_at);
        }
        if !held.is_empty() {
            self.pass(self.held_at, &held, segment);
        }
        self.held = held;
        self.held.clear();
    }

    /// Passes on text of the region in which the tracker is.
    fn pass(&self, at: usize, text: &str, segment: &mut impl FnMut(Segment<'_>)) {
        match self.block {
            Some(block) if at == self.held_at && block.indent + block.quotes > 0 => {
                // A block that is indented: as many columns of its lines belong to the indentation.
                let quoted = self.quote.length;
                let spaces = text.bytes().skip(quoted).take(block.indent).take_while(|&byte| byte == b' ').count();
                if text.len() > quoted + spaces {
                    segment(Segment::Code(at + quoted + spaces, &text[quoted + spaces..]));
                }
            }
            Some(_) => segment(Segment::Code(at, text)),
            None => segment(Segment::Prose(at, text)),
        }
    }

    /// Reads on the beginning of a line of prose, to know at which column the content of a list item begins.
    fn read_marker(&mut self, text: &str, at: usize) {
        for (index, byte) in text.bytes().enumerate() {
            let column = at + index - self.held_at;
            if self.marker == Marker::Before && !byte.is_ascii_whitespace() && column < self.item {
                // Text left of the item's content ends it.
                self.item = 0;
            }
            self.marker = match (self.marker, byte) {
                (Marker::Before, b' ') => Marker::Before,
                (Marker::Before | Marker::Digits, b'0'..=b'9') => Marker::Digits,
                (Marker::Before, b'-' | b'*' | b'+') | (Marker::Digits, b'.' | b')') => Marker::Bullet,
                (Marker::Bullet | Marker::Behind, b' ') => Marker::Behind,
                (Marker::Behind, _) => {
                    self.item = column.min(MAX_ITEM);
                    Marker::Done
                }
                _ => Marker::Done,
            };
            if self.marker == Marker::Done {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the prose, then each block's info string and text.
    fn split(pieces: &[&str]) -> (String, Vec<(String, String)>) {
        let mut fences = Fences::default();
        let (mut prose, mut blocks) = (String::new(), Vec::<(String, String)>::new());
        let whole = pieces.concat();
        let mut take = |segment: Segment<'_>| match segment {
            Segment::Prose(at, text) => {
                assert_eq!(&whole[at..at + text.len()], text);
                prose.push_str(text);
            }
            Segment::Open(info) => blocks.push((info.to_owned(), String::new())),
            Segment::Code(at, text) => {
                assert_eq!(&whole[at..at + text.len()], text);
                blocks.last_mut().expect("a block was opened").1.push_str(text);
            }
            Segment::Close => {}
        };
        for piece in pieces {
            fences.push(piece, &mut take);
        }
        fences.finish(&mut take);
        (prose, blocks)
    }

    fn both(text: &str) -> (String, Vec<(String, String)>) {
        let whole = split(&[text]);
        let mut characters: Vec<String> = text.chars().map(String::from).collect();
        for size in 1..6 {
            let pieces: Vec<String> = characters.chunks(size).map(<[String]>::concat).collect();
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            assert_eq!(split(&pieces), whole, "in pieces of {size}: {text:?}");
        }
        characters.clear();
        whole
    }

    fn blocks(text: &str) -> Vec<(String, String)> {
        both(text).1
    }

    fn block(info: &str, text: &str) -> (String, String) {
        (info.to_owned(), text.to_owned())
    }

    #[test]
    fn a_block_is_apart_from_prose() {
        let (prose, blocks) = both("See größe:\n```rust no_run\nlet a = 1;\n```\nDone.");
        assert_eq!(prose, "See größe:\nDone.");
        assert_eq!(blocks, [block("rust no_run", "let a = 1;\n")]);
    }

    #[test]
    fn a_fence_is_closed_by_its_own_character_and_length() {
        assert_eq!(blocks("~~~~\n```\n~~~\n~~~~~  \nx"), [block("", "```\n~~~\n")]);
        assert_eq!(blocks("```\n``` x\n```\n"), [block("", "``` x\n")]);
    }

    #[test]
    fn inline_code_is_no_fence() {
        assert_eq!(both("``` a ` b\nx").0, "``` a ` b\nx");
        assert_eq!(both("``a``\n`b`").0, "``a``\n`b`");
        assert_eq!(both("    ```\nx").0, "    ```\nx");
    }

    #[test]
    fn an_open_block_ends_with_the_text() {
        assert_eq!(blocks("```js\na"), [block("js", "a")]);
        assert_eq!(blocks("```js\na\n```"), [block("js", "a\n")]);
        assert_eq!(blocks("```js"), [block("js", "")]);
    }

    #[test]
    fn indentation_of_the_fence_belongs_to_the_fence() {
        assert_eq!(blocks("  ```\n  a\n b\n    c\n  ```\n"), [block("", "a\nb\n  c\n")]);
    }

    #[test]
    fn a_fence_may_be_indented_in_a_list_item() {
        assert_eq!(blocks("10. do:\n\n    ```sh\n    ls\n    ```\nx"), [block("sh", "ls\n")]);
        assert_eq!(blocks("- a\n\ntext\n      ```\n"), []);
    }

    #[test]
    fn a_fence_may_stand_in_a_block_quote() {
        assert_eq!(blocks("> ```js\n> a\n>  b\n>\n> ```\n> c"), [block("js", "a\n b\n\n")]);
        assert_eq!(blocks(">>   ~~~\n> >   a\n>> ~~~\nx"), [block("", "a\n")]);
        assert_eq!(blocks("- x\n\n  > ```\n  > a\n  > ```\n"), [block("", "a\n")]);
        assert_eq!(blocks("10. x\n\n    > ```\n    > a\n    > ```\n"), [block("", "a\n")]);
        // The quote ends before the block does.
        assert_eq!(blocks("> ```\n> a\nb\n"), [block("", "a\n")]);
        assert_eq!(blocks("> ```\n> a\n```\nb\n"), [block("", "a\n"), block("", "b\n")]);
        assert_eq!(both("> ```\n> a\n\nb").0, "\nb");
        // A sign of the code is none of the quote.
        assert_eq!(blocks("```\n> a\n> ```\n```\n"), [block("", "> a\n> ```\n")]);
        assert_eq!(blocks("> ```\n> > a\n> ```\n"), [block("", "> a\n")]);
        assert_eq!(both("> a\n>> `b`\n>").0, "> a\n>> `b`\n>");
    }

    #[test]
    fn lines_may_end_in_two_characters() {
        assert_eq!(blocks("```js\r\na\r\n```\r\nx"), [block("js", "a\r\n")]);
    }
}
