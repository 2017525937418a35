//! Limits the output of a server while it arrives.
//!
//! A message is a line. The module limits the length of a line, the lines before the first JSON object, and the lines and bytes
//! since the client's last message. None of these depends on a clock, so equal bytes give equal results.

/// Maximum size of a message in bytes.
pub const MAX_MESSAGE_BYTES: usize = 8 << 20;
/// Maximum number of messages of a server between two messages of the client.
pub const MAX_UNASKED: usize = 20_000;
/// Maximum number of bytes of a server between two messages of the client.
pub const MAX_UNASKED_BYTES: usize = 128 << 20;
/// Maximum number of other lines before the first message: some programs print a greeting, and loaders print warnings.
pub const MAX_NOISE: usize = 200;

/// Counts the output of a server.
#[derive(Debug, Clone, Default)]
pub struct Flow {
    line_bytes: usize,
    /// Whether the current line begins like a message; `None` while the line contains only blanks.
    is_message: Option<bool>,
    lines: usize,
    bytes: usize,
    noise: usize,
    has_spoken: bool,
}

/// An exceeded limit, which ends the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OutputViolation {
    /// A message is too long.
    #[error("it sent a message of more than {} MiB", MAX_MESSAGE_BYTES >> 20)]
    TooLong,
    /// Too many messages or bytes without a message of the client.
    #[error("it sent more than {MAX_UNASKED} messages or {} MiB without a request", MAX_UNASKED_BYTES >> 20)]
    TooMuch,
    /// The output is not MCP.
    #[error("its output is not MCP; its standard output must contain messages only")]
    NotMcp,
}

impl Flow {
    /// Counts received bytes.
    ///
    /// # Errors
    ///
    /// Fails when a limit is exceeded; the caller then stops reading.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(), OutputViolation> {
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
                return Err(OutputViolation::TooLong);
            }
            if end.is_some() {
                self.end_line()?;
            }
            rest = after;
        }
        if self.bytes > MAX_UNASKED_BYTES { Err(OutputViolation::TooMuch) } else { Ok(()) }
    }

    fn end_line(&mut self) -> Result<(), OutputViolation> {
        self.line_bytes = 0;
        match self.is_message.take() {
            Some(true) => self.has_spoken = true,
            Some(false) | None if !self.has_spoken => self.noise += 1,
            _ => {}
        }
        self.lines += 1;
        if self.noise > MAX_NOISE {
            return Err(OutputViolation::NotMcp);
        }
        if self.lines > MAX_UNASKED { Err(OutputViolation::TooMuch) } else { Ok(()) }
    }

    /// Resets the limits between client messages; called when the client sends one.
    pub fn reset(&mut self) {
        (self.lines, self.bytes) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(flow: &mut Flow, bytes: &[u8], times: usize) -> Result<(), OutputViolation> {
        (0..times).try_for_each(|_| flow.take(bytes))
    }

    #[test]
    fn each_kind_of_endless_output_is_refused() {
        assert_eq!(taken(&mut Flow::default(), &[b'x'; 1 << 20], 9), Err(OutputViolation::TooLong));
        assert_eq!(taken(&mut Flow::default(), b"{}\n", MAX_UNASKED), Ok(()));
        assert_eq!(taken(&mut Flow::default(), b"{}\n", MAX_UNASKED + 1), Err(OutputViolation::TooMuch));
        assert_eq!(taken(&mut Flow::default(), b"warn\n", MAX_NOISE + 1), Err(OutputViolation::NotMcp));
        assert_eq!(taken(&mut Flow::default(), b"\n", MAX_NOISE + 1), Err(OutputViolation::NotMcp));
    }

    #[test]
    fn each_client_message_resets_the_limits() {
        let mut flow = Flow::default();
        for _ in 0..5 {
            assert_eq!(taken(&mut flow, b" {}\nnoise\n", MAX_UNASKED / 2), Ok(()));
            flow.reset();
        }
    }

    #[test]
    fn the_split_of_the_bytes_does_not_matter() {
        let text = format!("{{\"a\":1}}\n{}", "warn\n".repeat(MAX_UNASKED)).into_bytes();
        let ends_at = |size: usize| {
            let mut flow = Flow::default();
            text.chunks(size).position(|chunk| flow.take(chunk).is_err()).map(|at| (at * size) / 4096)
        };
        assert_eq!(ends_at(1), ends_at(4096));
    }
}
