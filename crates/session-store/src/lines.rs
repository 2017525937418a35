//! Reads the lines of a session file one at a time, so that only one line is in memory.

use std::io::{self, BufRead, BufReader, Read as _};

/// Maximum length in bytes of a valid entry's line; a longer line is treated as damage. An entry of 50 MB fits even if every
/// character is escaped.
const MAX_LINE_BYTES: usize = 320 << 20;
/// Maximum capacity in bytes at which the line buffer is kept for the next line.
const KEPT_CAPACITY: usize = 1 << 20;

/// A line of a file.
pub(super) struct FileLine<'a> {
    /// Bytes of the line, including its line break.
    pub(super) bytes: &'a [u8],
    /// Offset in the file of the first byte, and of the byte after the last.
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) line_break: bool,
    /// Whether the line is within the length limit; otherwise `bytes` is empty.
    pub(super) whole: bool,
}

/// A reader of lines.
pub(super) struct LineReader<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    at: u64,
}

impl<R: io::Read> LineReader<R> {
    pub(super) fn new(file: R) -> Self {
        Self { reader: BufReader::with_capacity(64 << 10, file), line: Vec::new(), at: 0 }
    }

    /// Reads the next line; `None` at the end of the file.
    pub(super) fn next(&mut self) -> io::Result<Option<FileLine<'_>>> {
        let from = self.at;
        self.line.clear();
        self.line.shrink_to(KEPT_CAPACITY);
        let longest = MAX_LINE_BYTES as u64;
        let mut bytes = (&mut self.reader).take(longest).read_until(b'\n', &mut self.line)? as u64;
        let mut line_break = self.line.last() == Some(&b'\n');
        let mut whole = true;
        while !line_break && bytes >= longest {
            whole = false;
            self.line.clear();
            self.line.shrink_to(0);
            let buffer = self.reader.fill_buf()?;
            if buffer.is_empty() {
                break;
            }
            let (used, ended) = match buffer.iter().position(|byte| *byte == b'\n') {
                Some(at) => (at + 1, true),
                None => (buffer.len(), false),
            };
            self.reader.consume(used);
            bytes += used as u64;
            line_break = ended;
        }
        self.at += bytes;
        Ok((bytes > 0).then_some(FileLine { bytes: &self.line, from, to: self.at, line_break, whole }))
    }

    /// Returns the file at its current position.
    pub(super) fn into_file(self) -> R {
        self.reader.into_inner()
    }
}
