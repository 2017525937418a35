//! How much an extension may hand over at once.
//!
//! What one extension returns, the host holds, writes to the session and copies to every other realm. Past these limits
//! it is an error of the extension that handed it over, before anybody else has to carry it.

use crate::extension::Slot;
use crate::host::Host;
use crate::report::ReportKind;
use pijs_protocol::message::{ErrorReport, Message};
use pijs_protocol::stream::Injection;
use pijs_protocol::{EntryIndex, HostcallError, guard};
use serde::Serialize;
use serde_json::{Map, Value};
use std::io::{self, ErrorKind, Write};
use std::rc::Rc;

/// Bytes of one result, update or emission as JSON text: dozens of screenshots, and a quarter of what a realm takes in one
/// message.
pub const ANSWER_BYTES: usize = 32 << 20;

/// Bytes of one registration: every realm and every request to the model carries what tools say of themselves.
pub const REGISTRATION_BYTES: usize = 1 << 20;

/// Bytes of the text that a verdict puts into the conversation: more than any model reads.
pub const RETRY_BYTES: usize = 1 << 20;

impl Host {
    /// A message as it may go on: what it carries too much of is replaced by an error, or left out with a warning.
    pub(crate) fn fitting(&self, slot: &Rc<Slot>, message: Message) -> Option<Message> {
        let limit = ANSWER_BYTES;
        let (what, fits) = match &message {
            Message::ToolResult(result) => ("a tool's result", is_within(&result.output, limit)),
            Message::EventResult(result) => ("a handler's answer", is_within(&(&result.value, &result.changed), limit)),
            Message::CallbackResult(result) => ("a function's result", is_within(&result.value, limit)),
            Message::ToolUpdate(update) => ("a partial result", is_within(&update.partial, limit)),
            Message::CallbackUpdate(update) => ("a function's update", is_within(&update.value, limit)),
            Message::BusEmit(event) => ("an emission on the event bus", is_within(event, limit)),
            _ => return Some(message),
        };
        if fits || !guard::is_up("answer.size") {
            return Some(message);
        }
        let error = || report(None, "answer", &too_large(what, limit));
        match message {
            Message::ToolResult(mut result) => {
                (result.output, result.is_error, result.error) = (Value::Null, true, Some(error()));
                Some(Message::ToolResult(result))
            }
            Message::EventResult(mut result) => {
                (result.value, result.changed, result.error) = (None, Map::new(), Some(error()));
                Some(Message::EventResult(result))
            }
            Message::CallbackResult(mut result) => {
                (result.value, result.error) = (None, Some(error()));
                Some(Message::CallbackResult(result))
            }
            _ => {
                self.report(slot, None, ReportKind::Warning { message: error().message });
                None
            }
        }
    }
}

/// What is wrong with a verdict's text, if anything is.
pub(crate) fn unfit(retry: &Injection) -> Option<HostcallError> {
    let fits = retry.content.len() <= RETRY_BYTES || !guard::is_up("hook.retry-size");
    (!fits).then(|| too_large("the text of a verdict", RETRY_BYTES))
}

/// An error of an extension that the host found.
pub(crate) fn report(entry: Option<EntryIndex>, phase: &str, error: &HostcallError) -> ErrorReport {
    let (name, message) = (Some("RangeError".to_owned()), error.to_string());
    ErrorReport { entry, phase: phase.to_owned(), name, message, stack: None, position: None }
}

fn too_large(what: &str, limit: usize) -> HostcallError {
    HostcallError::invalid("too_large", format!("{what} is over its limit of {limit} bytes")).with("limit", limit)
}

/// Whether something takes at most this many bytes as JSON; looks no further than the limit.
pub(crate) fn is_within(value: &impl Serialize, limit: usize) -> bool {
    struct Room(usize);
    impl Write for Room {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(ErrorKind::FileTooLarge)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    serde_json::to_writer(Room(limit), value).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_count_to_the_last_one() {
        let text = "y".repeat(8);
        assert!(is_within(&text, 10), "with its quotes");
        assert!(!is_within(&text, 9));
    }
}
