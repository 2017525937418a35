//! Limits the size of messages from and to an extension.
//!
//! The host keeps an extension's message, writes it to the session and copies it to every other realm. An extension that sends a
//! larger message gets an error.

use pijs_protocol::message::ErrorReport;
use pijs_protocol::stream::Injection;
use pijs_protocol::{EntryIndex, HostcallError, guard};
use serde::Serialize;
use serde_json::Value;
use std::cell::Cell;
use std::io::{self, ErrorKind, Write};
use std::rc::Rc;
use tokio::sync::mpsc;

/// Maximum size of one result, update or emission as JSON text, in bytes: dozens of screenshots, and a quarter of the maximum
/// size of a message to a realm.
pub const ANSWER_BYTES: usize = 32 << 20;

/// Maximum size of a function's updates that its caller has not received yet, in bytes: that of two results.
const WAITING_BYTES: usize = 2 * ANSWER_BYTES;

/// Queues the updates of a running function for its caller.
pub(crate) struct UpdateSender {
    sender: mpsc::UnboundedSender<Value>,
    waiting: Rc<Cell<usize>>,
}

/// Receives updates of a running function.
pub(crate) struct UpdateReceiver {
    receiver: mpsc::UnboundedReceiver<Value>,
    waiting: Rc<Cell<usize>>,
}

/// Creates a channel of updates.
pub(crate) fn updates() -> (UpdateSender, UpdateReceiver) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let waiting = Rc::new(Cell::new(0));
    (UpdateSender { sender, waiting: Rc::clone(&waiting) }, UpdateReceiver { receiver, waiting })
}

impl UpdateSender {
    /// Sends an update. Returns an error when too many wait because the receiver is slower than the function.
    pub(crate) fn send(&self, update: Value) -> Option<ErrorReport> {
        let waiting = self.waiting.get() + size(&update);
        if waiting > WAITING_BYTES && guard!(EventsUpdateBacklog) {
            let error = too_large("a function's undelivered updates", WAITING_BYTES);
            return Some(report(None, "answer", &error));
        }
        self.waiting.set(waiting);
        // The caller may have been dropped.
        let _ = self.sender.send(update);
        None
    }
}

impl UpdateReceiver {
    pub(crate) async fn recv(&mut self) -> Option<Value> {
        let update = self.receiver.recv().await;
        self.taken(update)
    }

    pub(crate) fn try_recv(&mut self) -> Option<Value> {
        let update = self.receiver.try_recv().ok();
        self.taken(update)
    }

    fn taken(&self, update: Option<Value>) -> Option<Value> {
        let bytes = update.as_ref().map_or(0, size);
        self.waiting.set(self.waiting.get().saturating_sub(bytes));
        update
    }
}

/// Maximum size of one registration in bytes. Every realm and every request to the model contains descriptions of tools.
pub const REGISTRATION_BYTES: usize = 1 << 20;

/// Maximum size in bytes of an error or of a line of output. Users read both, and an error of a tool goes to the model.
pub(crate) const REPORT_BYTES: usize = 1 << 20;

/// Maximum size of the text that a verdict injects, in bytes: more than any model reads.
pub const RETRY_BYTES: usize = 1 << 20;

/// Returns an error if the text of a verdict is too large or invalid.
pub(crate) fn unfit(retry: &Injection) -> Option<HostcallError> {
    let fits = retry.content.len() <= RETRY_BYTES || !guard!(HookRetrySize);
    (!fits).then(|| too_large("the text of a verdict", RETRY_BYTES))
}

/// Creates the report of an error that the host found.
pub(crate) fn report(entry: Option<EntryIndex>, phase: &str, error: &HostcallError) -> ErrorReport {
    let (name, message) = (Some("RangeError".to_owned()), error.to_string());
    ErrorReport { entry, phase: phase.to_owned(), name, message, stack: None, position: None }
}

pub(crate) fn too_large(what: &str, limit: usize) -> HostcallError {
    HostcallError::invalid("too_large", format!("{what} is over its limit of {limit} bytes")).with("limit", limit)
}

/// Returns whether a value takes at most `limit` bytes as JSON; stops counting at the limit.
pub(crate) fn is_within(value: &impl Serialize, limit: usize) -> bool {
    struct ByteLimit(usize);
    impl Write for ByteLimit {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(ErrorKind::FileTooLarge)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    serde_json::to_writer(ByteLimit(limit), value).is_ok()
}

/// Returns the number of bytes of a value as JSON.
pub(crate) fn size(value: &impl Serialize) -> usize {
    struct Counter(usize);
    impl Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    // Only a value that is not valid JSON fails here (a map with keys that are not strings), and the wire never carries one.
    let _ = serde_json::to_writer(&mut counter, value);
    counter.0
}

/// Weight of each value in addition to its text; about its cost to a reader.
const VALUE_WEIGHT: usize = 40;

/// Returns the weight of a value in a message: its bytes as JSON, and a fixed weight for each value in it.
pub(crate) fn weight(value: &impl Serialize) -> usize {
    #[derive(Default)]
    struct WeightCounter {
        weight: usize,
        in_text: bool,
        is_escaped: bool,
    }
    impl Write for WeightCounter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.weight += bytes.len();
            for byte in bytes {
                match byte {
                    _ if self.is_escaped => self.is_escaped = false,
                    b'\\' => self.is_escaped = true,
                    b'"' => self.in_text = !self.in_text,
                    b',' | b'[' | b'{' if !self.in_text => self.weight += VALUE_WEIGHT,
                    _ => {}
                }
            }
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut scales = WeightCounter::default();
    // Errors are impossible for the reason given in `size`.
    let _ = serde_json::to_writer(&mut scales, value);
    scales.weight
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_weigh_and_what_looks_like_them_in_a_text_does_not() {
        assert_eq!(weight(&serde_json::json!([0, {}])), 6 + 3 * VALUE_WEIGHT);
        let text = "a,[{\"\\,";
        assert_eq!(weight(&text), size(&text));
    }

    #[test]
    fn bytes_count_to_the_last_one() {
        let text = "y".repeat(8);
        assert!(is_within(&text, 10), "with its quotes");
        assert!(!is_within(&text, 9));
    }
}
