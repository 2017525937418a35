//! Turns the output of a component into log entries, within the limits of a turn.

use pijs_protocol::guard;

/// Maximum length in bytes of a line of standard output; a longer line becomes several log entries.
const MAX_LINE_BYTES: usize = 64 << 10;

/// Maximum size in bytes of the log entries of one turn. They wait in the host's memory for the end of the turn.
const MAX_TURN_BYTES: usize = 16 << 20;

/// Memory of a log entry besides its message.
const ENTRY_BYTES: usize = 256;

/// The end of an output stream that does not form a complete line yet.
#[derive(Debug, Default)]
pub(crate) struct LineBuffer {
    bytes: Vec<u8>,
    /// Number of bytes copied so far.
    #[cfg(test)]
    copied: usize,
}

impl LineBuffer {
    /// Appends output, and passes each complete line to `take`.
    pub(crate) fn push(&mut self, output: &[u8], mut take: impl FnMut(String)) {
        for line in output.split_inclusive(|byte| *byte == b'\n') {
            let (mut line, ends) = line.strip_suffix(b"\n").map_or((line, false), |line| (line, true));
            while self.bytes.len() + line.len() > MAX_LINE_BYTES {
                let (front, rest) = line.split_at(MAX_LINE_BYTES - self.bytes.len());
                self.append(front);
                take(self.end_line());
                line = rest;
            }
            self.append(line);
            if ends {
                take(self.end_line());
            }
        }
    }

    /// Returns an incomplete last line.
    pub(crate) fn rest(&mut self) -> Option<String> {
        (!self.bytes.is_empty()).then(|| self.end_line())
    }

    fn append(&mut self, bytes: &[u8]) {
        #[cfg(test)]
        {
            self.copied += bytes.len();
        }
        self.bytes.extend_from_slice(bytes);
    }

    fn end_line(&mut self) -> String {
        let line = String::from_utf8_lossy(&self.bytes).into_owned();
        self.bytes.clear();
        line
    }
}

/// The log entries of one turn.
#[derive(Debug, Default)]
pub(crate) struct LogQuota {
    bytes: usize,
    left_out: usize,
}

impl LogQuota {
    /// Begins a turn.
    pub(crate) fn begin(&mut self) {
        *self = Self::default();
    }

    /// Counts an entry, and returns whether it may be written.
    pub(crate) fn admits(&mut self, message: &str) -> bool {
        self.bytes = self.bytes.saturating_add(ENTRY_BYTES + message.len());
        let admits = self.bytes <= MAX_TURN_BYTES || !guard!(WasmLog);
        self.left_out += usize::from(!admits);
        admits
    }

    /// Returns the message about entries that were left out in this turn.
    pub(crate) fn take_notice(&mut self) -> Option<String> {
        let LogQuota { left_out, .. } = std::mem::take(self);
        let limit = MAX_TURN_BYTES >> 20;
        (left_out > 0).then(|| {
            format!(
                "{left_out} lines of the log were left out: a turn may write {limit} MB, so write fewer or shorter ones"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(buffer: &mut LineBuffer, output: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        buffer.push(output, |line| lines.push(line));
        lines
    }

    #[test]
    fn lines_end_at_a_line_end_or_at_the_limit() {
        let mut buffer = LineBuffer::default();
        assert_eq!(lines(&mut buffer, b"on"), [""; 0]);
        assert_eq!(lines(&mut buffer, b"e\n\ntwo\nthr"), ["one", "", "two"]);
        assert_eq!(buffer.rest().as_deref(), Some("thr"));
        assert_eq!(buffer.rest(), None);
        let long = [vec![b'a'; MAX_LINE_BYTES + 2], b"\n".to_vec()].concat();
        let found: Vec<usize> = lines(&mut buffer, &long).iter().map(String::len).collect();
        assert_eq!(found, [MAX_LINE_BYTES, 2]);
    }

    #[test]
    fn each_byte_of_a_write_is_copied_once() {
        let mut buffer = LineBuffer::default();
        let output = b"\n\n\nword\n".repeat(1 << 17);
        let mut ends = 0;
        buffer.push(&output, |_| ends += 1);
        assert_eq!((ends, buffer.copied), (4 << 17, "word".len() << 17));
    }

    #[test]
    fn entries_of_a_turn_are_limited_and_those_left_out_are_counted() {
        let mut quota = LogQuota::default();
        let admitted = (0..MAX_TURN_BYTES / ENTRY_BYTES + 3).filter(|_| quota.admits("")).count();
        assert_eq!(admitted, MAX_TURN_BYTES / ENTRY_BYTES);
        assert!(quota.take_notice().is_some_and(|notice| notice.starts_with("3 lines")));
        assert!(quota.admits("") && quota.take_notice().is_none());
    }
}
