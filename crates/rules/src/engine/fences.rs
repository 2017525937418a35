//! Splits streamed Markdown into prose and fenced code blocks.
//!
//! The tracker follows CommonMark: a line continues the block quotes and list items around it, or begins new ones, and a fence
//! may follow their markers (`1. ```sh`, `> - ~~~`). A fence is at least three backticks or tildes, indented by at most three
//! columns; a fence of the same character that is at least as long closes the block, and so does a line that does not continue
//! the block quotes and list items around it. The line of a fence belongs to neither region, nor do the markers and the
//! indentation before a line of code. Text is held back only until it is known whether it begins a fence.
//!
//! Blocks of HTML and definitions of links are read as paragraphs, so a fence is recognised in them.

/// Maximum length of a line that is buffered to decide whether it is a fence.
const MAX_HELD: usize = 1024;
/// Maximum indentation of a fence or a container's marker, in columns; with more it is text.
const MAX_INDENT: usize = 3;
/// Maximum number of columns of white space after a list item's marker that belong to the marker.
const MAX_PADDING: usize = 4;
/// Maximum nesting of block quotes and list items; a blank line is compared with each.
const MAX_DEPTH: usize = 32;
/// Maximum number of digits of a list item's number.
const MAX_DIGITS: usize = 9;

/// A part of the text. Parts are passed on in order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Segment<'a> {
    /// Text outside of code blocks, which begins at this byte of the stream.
    Prose(usize, &'a str),
    /// A code block begins, with this info string.
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
    start: LineStart,
    leaf: Leaf,
    /// The open block quotes and list items, the outermost first.
    containers: Vec<Container>,
    /// Whether a paragraph is open in the innermost container.
    has_paragraph: bool,
    /// The open code block of the innermost container.
    block: Option<Block>,
    /// The beginning of a line that may be a fence, and its offset in the stream.
    held: String,
    held_at: usize,
}

#[derive(Debug, Clone, Copy)]
struct Block {
    marker: u8,
    length: usize,
    indent: usize,
}

/// A block that contains other blocks.
#[derive(Debug, Clone, Copy)]
enum Container {
    Quote,
    /// A list item. `width` is the number of columns from the enclosing content to its own; `is_empty` while it has only a blank
    /// line.
    Item {
        width: usize,
        is_empty: bool,
    },
}

/// Progress within a line.
#[derive(Debug, Clone, Copy, Default)]
enum Line {
    /// In the markers of containers, or white space.
    #[default]
    Start,
    /// After them, in a run of one fence character.
    Run { at: usize, marker: u8, length: usize },
    /// The info string of an opening fence.
    Info { at: usize, marker: u8, length: usize },
    /// The rest of a line that is not a fence.
    Rest,
}

/// The markers at the beginning of a line.
#[derive(Debug, Clone, Copy, Default)]
struct LineStart {
    /// Column of the next byte, and column at which the content of the innermost container begins.
    column: usize,
    base: usize,
    /// Number of containers of earlier lines that this line continues, and the containers that it begins.
    matched: usize,
    /// Number of bytes up to the last `>`, and the column after it.
    quoted: (usize, usize),
    /// Whether one column of white space still belongs to a `>`.
    is_behind_quote: bool,
    /// Whether the text is indented enough to be code, unless it continues a paragraph.
    is_indented: bool,
    marker: Marker,
    ruler: Option<Ruler>,
}

/// The marker of a list item that is being read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Marker {
    #[default]
    None,
    Digits {
        count: usize,
        value: usize,
    },
    /// The bullet, or the delimiter after the digits. States whether the item may interrupt a paragraph.
    Sign {
        may_interrupt: bool,
    },
    /// White space after the sign, which ended at this column.
    Behind {
        end: usize,
        may_interrupt: bool,
    },
}

/// A line of one character and white space: a thematic break, the underline of a heading, or text.
#[derive(Debug, Clone, Copy)]
struct Ruler {
    sign: u8,
    count: usize,
    /// Number of enclosing containers.
    depth: usize,
    /// Whether the line contains white space, and whether the character occurred again after it.
    has_gap: bool,
    is_broken: bool,
}

/// Kind of the rest of a line.
#[derive(Debug, Clone, Copy, Default)]
enum Leaf {
    /// The kind of the line is known, or irrelevant.
    #[default]
    Known,
    /// A heading, after this number of `#`.
    Heading(usize),
    Ruler(Ruler),
}

/// The next step at the beginning of a line.
enum Step {
    /// The byte belongs to the beginning.
    Hold,
    /// The byte is processed again in another state.
    Again,
    /// The line is not a fence.
    Release,
}

/// Progress within a piece.
struct PieceProgress<'a> {
    piece: &'a str,
    /// Index of the next byte.
    at: usize,
    /// Index of the first byte that was neither passed on nor buffered from an earlier line.
    from: usize,
    /// Index at which the buffered line began; `None` if it began in an earlier piece.
    line_at: Option<usize>,
}

impl PieceProgress<'_> {
    fn byte(&self) -> u8 {
        self.piece.as_bytes()[self.at]
    }

    /// Continues at a byte without passing on the bytes before it.
    fn skip_to(&mut self, at: usize) {
        (self.at, self.from) = (at, at);
    }
}

impl Fences {
    /// Begins a new text.
    pub(crate) fn restart(&mut self) {
        let (held, containers) = (std::mem::take(&mut self.held), std::mem::take(&mut self.containers));
        *self = Self { held, containers, ..Self::default() };
        self.held.clear();
        self.containers.clear();
    }

    /// Reads the next piece of the text.
    ///
    /// Consecutive lines of the same region are passed on together.
    pub(crate) fn push(&mut self, piece: &str, segment: &mut impl FnMut(Segment<'_>)) {
        let bytes = piece.as_bytes();
        let mut read = PieceProgress { piece, at: 0, from: 0, line_at: None };
        while read.at < bytes.len() {
            match self.line {
                Line::Rest => {
                    let rest = &bytes[read.at..];
                    let length = rest.iter().position(|&byte| byte == b'\n').map_or(rest.len(), |end| end + 1);
                    self.read_leaf(&rest[..length]);
                    read.at += length;
                    if rest[length - 1] == b'\n' {
                        self.begin_line();
                    }
                }
                Line::Start => self.push_start(&mut read, segment),
                Line::Run { at, marker, length } => self.push_run(&mut read, (at, marker, length), segment),
                Line::Info { at, marker, length } => self.push_info(&mut read, (at, marker, length), segment),
            }
        }
        if self.held.is_empty() {
            self.pass(self.offset + read.from, &piece[read.from..], segment);
        } else {
            self.pass_lines(&read, segment);
        }
        self.offset += piece.len();
    }

    /// Reads a byte of the markers at the beginning of a line.
    fn push_start(&mut self, read: &mut PieceProgress<'_>, segment: &mut impl FnMut(Segment<'_>)) {
        if self.held.is_empty() {
            self.held_at = self.offset + read.at;
            read.line_at = Some(read.at);
            // The line may end the block before it.
            if self.block.is_some() && !self.containers.is_empty() {
                self.pass(self.offset + read.from, &read.piece[read.from..read.at], segment);
                read.from = read.at;
            }
        }
        let byte = read.byte();
        let step = match self.held.len() < MAX_HELD {
            true => self.start(byte, segment),
            false => self.text(),
        };
        match step {
            Step::Hold => {
                self.held.push(char::from(byte));
                read.at += 1;
            }
            Step::Again => {}
            Step::Release => self.release(read, segment),
        }
    }

    /// Reads a byte of a run of fence characters, or after a run that may close the block.
    fn push_run(
        &mut self,
        read: &mut PieceProgress<'_>,
        (run, marker, length): (usize, u8, usize),
        segment: &mut impl FnMut(Segment<'_>),
    ) {
        let byte = read.byte();
        let least = self.block.map_or(3, |block| block.length);
        let is_tail = self.block.is_some() && matches!(byte, b' ' | b'\t' | b'\r');
        let in_tail = self.held.len() > run + length;
        if byte == marker && !in_tail && self.held.len() < MAX_HELD {
            self.held.push(char::from(byte));
            self.line = Line::Run { at: run, marker, length: length + 1 };
            read.at += 1;
        } else if length >= least && self.block.is_none() {
            self.line = Line::Info { at: run, marker, length };
        } else if length >= least && is_tail && self.held.len() < MAX_HELD {
            self.held.push(char::from(byte));
            read.at += 1;
        } else if length >= least && byte == b'\n' {
            self.pass_lines(read, segment);
            read.skip_to(read.at + 1);
            self.close(segment);
        } else {
            self.text();
            self.release(read, segment);
        }
    }

    /// Reads the info string of an opening fence, as far as the piece contains it.
    fn push_info(
        &mut self,
        read: &mut PieceProgress<'_>,
        (run, marker, length): (usize, u8, usize),
        segment: &mut impl FnMut(Segment<'_>),
    ) {
        let rest = &read.piece.as_bytes()[read.at..];
        let end = rest.iter().position(|&byte| byte == b'\n' || (marker == b'`' && byte == b'`'));
        let until = read.at + end.unwrap_or(rest.len());
        self.held.push_str(&read.piece[read.at..until]);
        read.at = until;
        if end.is_some() && read.byte() == b'\n' {
            self.pass_lines(read, segment);
            read.skip_to(read.at + 1);
            self.open(run, marker, length, segment);
        } else if end.is_some() || self.held.len() > MAX_HELD {
            self.text();
            self.release(read, segment);
        }
    }

    /// Passes on the lines of a piece before the buffered one.
    fn pass_lines(&self, read: &PieceProgress<'_>, segment: &mut impl FnMut(Segment<'_>)) {
        if let Some(line_at) = read.line_at {
            self.pass(self.offset + read.from, &read.piece[read.from..line_at], segment);
        }
    }

    /// Releases a line that is not a fence.
    fn release(&mut self, read: &mut PieceProgress<'_>, segment: &mut impl FnMut(Segment<'_>)) {
        let skipped = self.block.map_or(0, |block| self.skipped(&self.held, block));
        match read.line_at {
            Some(_) if skipped == 0 => {}
            Some(line_at) => {
                self.pass_lines(read, segment);
                read.from = line_at + skipped;
            }
            // The line began in an earlier piece.
            None => {
                self.pass_held(skipped, segment);
                read.from = read.at;
            }
        }
        self.line = Line::Rest;
        self.held.clear();
    }

    /// Ends the text: decides the buffered line, and closes an open block.
    pub(crate) fn finish(&mut self, segment: &mut impl FnMut(Segment<'_>)) {
        match (self.line, self.block) {
            (Line::Run { length, .. }, Some(block)) if length >= block.length => self.close(segment),
            (Line::Run { at, marker, length } | Line::Info { at, marker, length }, None) if length >= 3 => {
                self.open(at, marker, length, segment);
            }
            _ => {
                let skipped = self.block.map_or(0, |block| self.skipped(&self.held, block));
                self.pass_held(skipped, segment);
            }
        }
        if self.block.take().is_some() {
            segment(Segment::Close);
        }
        self.restart();
    }

    fn open(&mut self, at: usize, marker: u8, length: usize, segment: &mut impl FnMut(Segment<'_>)) {
        segment(Segment::Open(self.held[at + length..].trim()));
        self.containers.truncate(self.start.matched);
        self.has_paragraph = false;
        self.block = Some(Block { marker, length, indent: self.indent() });
        self.begin_line();
    }

    fn close(&mut self, segment: &mut impl FnMut(Segment<'_>)) {
        self.block = None;
        self.begin_line();
        segment(Segment::Close);
    }

    fn begin_line(&mut self) {
        self.held.clear();
        self.line = Line::Start;
        self.start = LineStart::default();
    }

    /// Passes on the buffered line, except for the bytes that do not belong to the code.
    fn pass_held(&self, skipped: usize, segment: &mut impl FnMut(Segment<'_>)) {
        self.pass(self.held_at + skipped, &self.held[skipped..], segment);
    }

    /// Passes on text of the current region.
    fn pass(&self, at: usize, text: &str, segment: &mut impl FnMut(Segment<'_>)) {
        match self.block {
            _ if text.is_empty() => {}
            Some(_) => segment(Segment::Code(at, text)),
            None => segment(Segment::Prose(at, text)),
        }
    }

    /// Returns the number of bytes at the beginning of a line of code that belong to its containers and to the indentation of the
    /// fence.
    fn skipped(&self, held: &str, block: Block) -> usize {
        let (quoted, mut column) = self.start.quoted;
        let until = self.start.base + block.indent;
        let is_indent = |byte: &u8| {
            let next = after(*byte, column);
            let is_indent = matches!(byte, b' ' | b'\t') && next <= until;
            column = next;
            is_indent
        };
        quoted + held.as_bytes()[quoted..].iter().copied().take_while(is_indent).count()
    }

    /// Returns the columns between the content of the innermost container and the next byte.
    fn indent(&self) -> usize {
        self.start.column.saturating_sub(self.start.base)
    }

    /// Reads a byte at the beginning of a line.
    fn start(&mut self, byte: u8, segment: &mut impl FnMut(Segment<'_>)) -> Step {
        let is_space = matches!(byte, b' ' | b'\t' | b'\r');
        let column = self.start.column;
        match self.start.marker {
            Marker::Digits { count, value } if byte.is_ascii_digit() && count < MAX_DIGITS => {
                let value = value * 10 + usize::from(byte - b'0');
                self.start.marker = Marker::Digits { count: count + 1, value };
            }
            Marker::Digits { value, .. } if matches!(byte, b'.' | b')') => {
                self.start.marker = Marker::Sign { may_interrupt: value == 1 };
            }
            Marker::Digits { .. } => return self.text(),
            Marker::Sign { may_interrupt } if is_space || byte == b'\n' => {
                self.start.marker = Marker::Behind { end: column, may_interrupt };
                return Step::Again;
            }
            Marker::Sign { .. } => return self.text(),
            Marker::Behind { .. } if is_space => {}
            Marker::Behind { end, may_interrupt } => {
                let is_empty = byte == b'\n';
                let interrupts = self.has_paragraph && self.start.matched == self.containers.len();
                if interrupts && (is_empty || !may_interrupt) {
                    return self.text();
                }
                let content = if is_empty || column - end > MAX_PADDING { end + 1 } else { column };
                let width = content - self.start.base;
                self.start.marker = Marker::None;
                self.enter(Container::Item { width, is_empty }, content);
                return Step::Again;
            }
            Marker::None if is_space => {
                if std::mem::take(&mut self.start.is_behind_quote) && byte != b'\r' {
                    self.start.base += 1;
                }
                if self.block.is_some() {
                    // Code is passed on as soon as the line cannot be a fence.
                    self.start.column = after(byte, column);
                    let is_code = self.continues(byte) && self.indent() > MAX_INDENT;
                    self.start.column = column;
                    if is_code {
                        return Step::Release;
                    }
                }
            }
            Marker::None if byte == b'\n' => return self.blank(segment),
            Marker::None => return self.content(byte, segment),
        }
        self.start.column = after(byte, column);
        Step::Hold
    }

    /// Compares the open containers with the next byte. Returns whether the line continues all of them.
    fn continues(&mut self, byte: u8) -> bool {
        while let Some(container) = self.containers.get_mut(self.start.matched) {
            match container {
                Container::Item { width, is_empty } if self.start.column >= self.start.base + *width => {
                    *is_empty = false;
                    self.start.base += *width;
                    self.start.matched += 1;
                }
                Container::Quote if byte == b'>' && self.start.column <= self.start.base + MAX_INDENT => {
                    self.start.matched += 1;
                    self.quote();
                }
                Container::Item { .. } | Container::Quote => return false,
            }
            if self.start.is_behind_quote {
                return false;
            }
        }
        true
    }

    /// Consumes a `>`.
    fn quote(&mut self) {
        let column = self.start.column + 1;
        self.start.quoted = (self.held.len() + 1, column);
        self.start.base = column;
        self.start.is_behind_quote = true;
        self.start.ruler = None;
    }

    /// Begins a container whose content begins at column `base`.
    fn enter(&mut self, container: Container, base: usize) {
        self.containers.truncate(self.start.matched);
        self.containers.push(container);
        self.start.matched += 1;
        self.start.base = base;
        self.has_paragraph = false;
    }

    /// Reads the first byte of a line after white space and the markers of containers.
    fn content(&mut self, byte: u8, segment: &mut impl FnMut(Segment<'_>)) -> Step {
        self.start.is_behind_quote = false;
        let continues = self.continues(byte);
        if self.start.is_behind_quote {
            self.start.column += 1;
            return Step::Hold;
        }
        if !continues && self.block.is_some() {
            self.block = None;
            self.containers.truncate(self.start.matched);
            segment(Segment::Close);
        }
        let indent = self.indent();
        if let Some(block) = self.block {
            return match byte == block.marker && indent <= MAX_INDENT {
                true => self.run(byte),
                false => Step::Release,
            };
        }
        if indent > MAX_INDENT {
            self.start.is_indented = true;
            // The previous marker may be the beginning of a thematic break.
            if let Some(ruler) = self.start.ruler.filter(|ruler| ruler.sign == byte) {
                self.leaf = Leaf::Ruler(ruler);
                return Step::Release;
            }
            return self.text();
        }
        let has_room = self.start.matched < MAX_DEPTH;
        match byte {
            b'`' | b'~' => return self.run(byte),
            b'>' if has_room => {
                self.enter(Container::Quote, 0);
                self.quote();
            }
            b'0'..=b'9' if has_room => {
                self.start.ruler = None;
                self.start.marker = Marker::Digits { count: 1, value: usize::from(byte - b'0') };
            }
            b'-' | b'*' | b'+' => {
                let again = self.start.ruler.filter(|ruler| ruler.sign == byte);
                let mut ruler = again.unwrap_or_else(|| self.ruler(byte));
                if !has_room {
                    self.leaf = Leaf::Ruler(ruler);
                    return Step::Release;
                }
                ruler.count += 1;
                ruler.is_broken = ruler.count > 1;
                self.start.ruler = Some(ruler);
                self.start.marker = Marker::Sign { may_interrupt: true };
            }
            b'#' => {
                self.leaf = Leaf::Heading(0);
                return Step::Release;
            }
            b'_' | b'=' => {
                self.leaf = Leaf::Ruler(self.ruler(byte));
                return Step::Release;
            }
            _ => return self.text(),
        }
        self.start.column += 1;
        Step::Hold
    }

    fn ruler(&self, sign: u8) -> Ruler {
        Ruler { sign, count: 0, depth: self.start.matched, has_gap: false, is_broken: false }
    }

    fn run(&mut self, marker: u8) -> Step {
        self.line = Line::Run { at: self.held.len(), marker, length: 0 };
        Step::Again
    }

    /// Reads the end of a line that consists of markers and white space.
    fn blank(&mut self, segment: &mut impl FnMut(Segment<'_>)) -> Step {
        if let Some(ruler) = self.start.ruler.filter(|ruler| ruler.sign != b'+' && ruler.count >= 3) {
            self.containers.truncate(ruler.depth);
        } else {
            while let Some(&Container::Item { width, is_empty: false }) = self.containers.get(self.start.matched) {
                self.start.base += width;
                self.start.matched += 1;
            }
            if self.start.matched < self.containers.len() && self.block.take().is_some() {
                segment(Segment::Close);
            }
            self.containers.truncate(self.start.matched);
        }
        self.has_paragraph = false;
        Step::Release
    }

    /// Treats the line as text: of the open paragraph, of a new one, or of indented code.
    fn text(&mut self) -> Step {
        if let (Marker::Sign { .. } | Marker::Behind { .. }, Some(ruler)) = (self.start.marker, self.start.ruler) {
            self.start.marker = Marker::None;
            self.leaf = Leaf::Ruler(ruler);
            return Step::Release;
        }
        self.leaf = Leaf::Known;
        // Text without the markers of its containers continues a paragraph.
        if self.block.is_none() && !self.has_paragraph {
            self.containers.truncate(self.start.matched);
            self.has_paragraph = !self.start.is_indented;
        }
        Step::Release
    }

    /// Reads the rest of a line to determine whether a paragraph is open after it.
    fn read_leaf(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match &mut self.leaf {
                Leaf::Known => return,
                Leaf::Heading(count) if byte == b'#' && *count < 6 => *count += 1,
                Leaf::Heading(_) if matches!(byte, b' ' | b'\t' | b'\r' | b'\n') => {
                    self.leaf = Leaf::Known;
                    self.containers.truncate(self.start.matched);
                    self.has_paragraph = false;
                }
                Leaf::Ruler(ruler) if byte == ruler.sign => {
                    ruler.count += 1;
                    ruler.is_broken |= ruler.has_gap;
                }
                Leaf::Ruler(ruler) if matches!(byte, b' ' | b'\t' | b'\r') => ruler.has_gap = true,
                Leaf::Ruler(ruler) if byte == b'\n' => {
                    let ruler = *ruler;
                    self.end_ruler(ruler);
                }
                Leaf::Heading(_) | Leaf::Ruler(_) => drop(self.text()),
            }
        }
    }

    /// Classifies a line of one character.
    fn end_ruler(&mut self, Ruler { sign, count, depth, is_broken, .. }: Ruler) {
        let is_in_paragraph = self.has_paragraph && self.start.matched == self.containers.len();
        let is_underline = is_in_paragraph && matches!(sign, b'-' | b'=') && !is_broken;
        let is_break = matches!(sign, b'-' | b'*' | b'_') && count >= 3;
        if !is_underline && !is_break {
            self.text();
            return;
        }
        self.leaf = Leaf::Known;
        self.has_paragraph = false;
        if !is_underline {
            self.containers.truncate(depth);
        }
    }
}

/// Returns the column after a white space byte; a tab ends at a multiple of four.
fn after(byte: u8, column: usize) -> usize {
    if byte == b'\t' { (column / 4 + 1) * 4 } else { column + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the prose, then the info string and text of each block.
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
    fn inline_code_is_not_a_fence() {
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
        // The sign belongs to the code and does not begin a block quote.
        assert_eq!(blocks("```\n> a\n> ```\n```\n"), [block("", "> a\n> ```\n")]);
        assert_eq!(blocks("> ```\n> > a\n> ```\n"), [block("", "> a\n")]);
        assert_eq!(both("> a\n>> `b`\n>").0, "> a\n>> `b`\n>");
    }

    #[test]
    fn a_fence_may_follow_the_marker_of_a_list_item() {
        assert_eq!(blocks("1. ```bash\n   ls\n   ```\n\nThat is all."), [block("bash", "ls\n")]);
        assert_eq!(blocks("- ```ts\n  a\n  ```\nx"), [block("ts", "a\n")]);
        assert_eq!(blocks("* ````\n  ```\n  ````\nx"), [block("", "```\n")]);
        assert_eq!(blocks("- > ````\n  > a\n  > ````\nx"), [block("", "a\n")]);
        assert_eq!(blocks("> - ~~~~\n>   a\n>   ~~~~\nx"), [block("", "a\n")]);
        assert_eq!(blocks("-\t```\n\ta\n\t```\nx"), [block("", "a\n")]);
        // A line that is not indented ends the item, and the block with it.
        assert_eq!(both("- a\n  ```\n  x\nprose"), ("- a\nprose".to_owned(), vec![block("", "x\n")]));
        assert_eq!(both("1. ```\n   x\nprose").0, "prose");
        // Neither a thematic break nor a number within a paragraph begins an item.
        assert_eq!(blocks("- - -\n      ```\n"), []);
        assert_eq!(blocks("a\n2. ```\nb"), []);
    }

    #[test]
    fn containers_without_end_are_bounded() {
        let text = format!("{}```\na\n", "- ".repeat(10_000));
        assert_eq!(both(&text[..200]).1, []);
        assert_eq!(split(&[&text]).0, text);
    }

    /// Returns the blocks that a parser of whole documents finds.
    fn reference(text: &str) -> Vec<(String, String)> {
        use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};
        let (mut found, mut is_inside) = (Vec::<(String, String)>::new(), false);
        for event in Parser::new(text) {
            match event {
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                    is_inside = true;
                    found.push((info.trim().to_owned(), String::new()));
                }
                Event::End(TagEnd::CodeBlock) => is_inside = false,
                Event::Text(text) if is_inside => found.last_mut().expect("it has begun").1.push_str(&text),
                _ => {}
            }
        }
        found
    }

    proptest::proptest! {
        #[test]
        fn blocks_are_those_of_a_parser_of_whole_documents(
            lines in proptest::collection::vec(
                r"( {0,5}|  {1,2}> ?)?((> ?|>|[-*+] {1,5}|[-*]|[12][.)] {1,4}) {0,2}){0,3}(```(ts)?|~~~~?|````|a|# b|---|===|\* \*|x  y|)",
                0..9,
            )
        ) {
            let text = lines.join("\n") + "\n";
            let trimmed = |blocks: Vec<(String, String)>| {
                blocks.into_iter().map(|(info, text)| (info, text.trim_end().to_owned())).collect::<Vec<_>>()
            };
            proptest::prop_assert_eq!(trimmed(split(&[&text]).1), trimmed(reference(&text)), "{}", text);
        }
    }

    #[test]
    fn lines_may_end_in_two_characters() {
        assert_eq!(blocks("```js\r\na\r\n```\r\nx"), [block("js", "a\r\n")]);
    }
}
