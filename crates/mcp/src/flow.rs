//! Limits on what a server writes, counted byte by byte as it comes.
//!
//! A message is a line. What is counted never depends on a clock, so that the same bytes end the same way: the length of a line, lines that
//! are no JSON objects before the first that is one, and lines and bytes since the client last sent anything.

/// Longest message.
pub const MAX_MESSAGE_BYTES: usize = 8 << 20;
/// Messages that a server may send between two of the client's.
pub const MAX_UNASKED: usize = 20_000;
/// Bytes that a server may send between two messages of the client's.
pub const MAX_UNASKED_BYTES: usize = 128 << 20;
/// Lines that are no messages before the first message: programs greet, and loaders warn.
pub const MAX_NOISE: usize = 200;

/// Counts what a server writes.
#[derive(Debug, Clone, Default)]
pub struct Flow {
    line_bytes: usize,
    /// Whether the line so far begins as a message does; `None`: nothing but blanks so far.
    is_message: Option<bool>,
    lines: usize,
    bytes: usize,
    noise: usize,
    has_spoken: bool,
}

/// Why a server is not read any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A line is too long, or never ends.
    #[error("it sent a message of more than {} MiB", MAX_MESSAGE_BYTES >> 20)]
    TooLong,
    /// It writes and writes.
    #[error("it sent more than {MAX_UNASKED} messages or {} MiB without a request", MAX_UNASKED_BYTES >> 20)]
    Flood,
    /// It speaks something else.
    #[error("its output is not MCP; its standard output must contain messages only")]
    Garbage,
}

impl Flow {
    /// Counts bytes that came.
    ///
    /// # Errors
    ///
    /// A limit is passed: nothing more is to be read.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(), Violation> {
        self.bytes = self.bytes.saturating_add(bytes.len());
        let mut rest = bytes;
        while !rest.is_empty() {
            let end = rest.iter().position(|byte| *byte == b'\n');
            let (line, after) = end.map_or((rest, &rest[rest.len()..]), |end| (&rest[..end], &rest[end + 1..]));
            self.line_bytes = self.line_bytes.saturating_add(line.len());
            if self.is_message.is_none() {
                let first = line.iter().find(|byte| !byte.is_ascii_whitespace());
                self.is_message = first.map(|byte| *byte == b'{');
            }
            if self.line_bytes > MAX_MESSAGE_BYTES {
                return Err(Violation::TooLong);
            }
            if end.is_some() {
                self.end_line()?;
            }
            rest = after;
        }
        if self.bytes > MAX_UNASKED_BYTES { Err(Violation::Flood) } else { Ok(()) }
    }

    fn end_line(&mut self) -> Result<(), Violation> {
        self.line_bytes = 0;
        match self.is_message.take() {
            Some(true) => self.has_spoken = true,
            Some(false) | None if !self.has_spoken => self.noise += 1,
            _ => {}
        }
        self.lines += 1;
        if self.noise > MAX_NOISE {
            return Err(Violation::Garbage);
        }
        if self.lines > MAX_UNASKED { Err(Violation::Flood) } else { Ok(()) }
    }

    /// Notes that the client sent something: the server may answer.
    pub fn asked(&mut self) {
        (self.lines, self.bytes) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(flow: &mut Flow, bytes: &[u8], times: usize) -> Result<(), Violation> {
        (0..times).try_for_each(|_| flow.take(bytes))
    }

    #[test]
    fn each_kind_of_server_that_never_ends_ends() {
        assert_eq!(taken(&mut Flow::default(), &[b'x'; 1 << 20], 9), Err(Violation::TooLong));
        assert_eq!(taken(&mut Flow::default(), b"{}\n", MAX_UNASKED), Ok(()));
        assert_eq!(taken(&mut Flow::default(), b"{}\n", MAX_UNASKED + 1), Err(Violation::Flood));
        assert_eq!(taken(&mut Flow::default(), b"warn\n", MAX_NOISE + 1), Err(Violation::Garbage));
        assert_eq!(taken(&mut Flow::default(), b"\n", MAX_NOISE + 1), Err(Violation::Garbage));
    }

    #[test]
    fn a_server_that_is_asked_may_answer_and_noise_beside_messages_is_harmless() {
        let mut flow = Flow::default();
        for _ in 0..5 {
            assert_eq!(taken(&mut flow, b" {}\nnoise\n", MAX_UNASKED / 2), Ok(()));
            flow.asked();
        }
    }

    #[test]
    fn how_the_bytes_are_cut_makes_no_difference() {
        let text = format!("{{\"a\":1}}\n{}", "warn\n".repeat(MAX_UNASKED)).into_bytes();
        let ends_at = |size: usize| {
            let mut flow = Flow::default();
            text.chunks(size).position(|chunk| flow.take(chunk).is_err()).map(|at| (at * size) / 4096)
        };
        assert_eq!(ends_at(1), ends_at(4096));
    }
}
