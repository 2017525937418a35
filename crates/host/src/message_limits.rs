//! Limits the size of messages from and to an extension.
//!
//! The host keeps an extension's message, writes it to the session and copies it to every other realm. A larger message is an
//! error of the extension that sent it. A message that is too large for a realm ([`Size::is_too_large`]) would end the realm, so
//! the host answers it with an error.

use crate::extension::Slot;
use crate::host::Host;
use crate::report::ReportKind;
use pijs_protocol::message::{CallbackResult, ErrorReport, EventResult, Message, SlashResult, ToolResult};
use pijs_protocol::stream::Injection;
use pijs_protocol::wire::{MESSAGE_BYTES, MESSAGE_VALUES, Size};
use pijs_protocol::{EntryIndex, HostcallError, guard};
use serde::Serialize;
use serde_json::{Map, Value};
use std::cell::Cell;
use std::io::{self, ErrorKind, Write};
use std::rc::Rc;
use tokio::sync::mpsc;

/// Bytes of one result, update or emission as JSON text: dozens of screenshots, and a quarter of what a realm takes in one
/// message.
pub const ANSWER_BYTES: usize = 32 << 20;

/// Bytes of updates of a function that its caller has not received yet: like those of a result, but for many at a time.
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

/// Bytes of one registration: every realm and every request to the model contains descriptions of tools.
pub const REGISTRATION_BYTES: usize = 1 << 20;

/// Bytes of an error, or of a line of output, which users read; an error of a tool goes to the model.
const REPORT_BYTES: usize = 1 << 20;

/// Bytes of the text that a verdict injects: more than any model reads.
pub const RETRY_BYTES: usize = 1 << 20;

impl Host {
    /// Limits a message of an extension: an oversized part is replaced by an error, or dropped with a warning.
    pub(crate) fn limit_outgoing(&self, slot: &Rc<Slot>, message: Message) -> Option<Message> {
        let Some((what, limit)) = oversized(&message).filter(|_| guard!(EventsAnswerSize)) else {
            return Some(message);
        };
        let error = report(None, "answer", &too_large(what, limit));
        match message {
            Message::ToolResult(mut result) => {
                (result.output, result.is_error, result.error) = (Value::Null, true, Some(error));
                Some(Message::ToolResult(result))
            }
            Message::EventResult(mut result) => {
                (result.value, result.changed, result.error) = (None, Map::new(), Some(error));
                Some(Message::EventResult(result))
            }
            Message::CallbackResult(mut result) => {
                (result.value, result.error) = (None, Some(error));
                Some(Message::CallbackResult(result))
            }
            Message::SlashResult(mut result) => {
                result.error = Some(error);
                Some(Message::SlashResult(result))
            }
            Message::StreamFault { handler, .. } => Some(Message::StreamFault { handler, error: Some(error) }),
            Message::Error(long) => {
                Some(Message::Error(ErrorReport { entry: long.entry, phase: cut(long.phase), ..error }))
            }
            _ => {
                self.report(slot, None, ReportKind::Warning { message: error.message });
                None
            }
        }
    }
}

impl Host {
    /// Limits a message to a realm. Returns `None` for one that is too large, which is answered in the realm's place.
    pub(crate) fn limit_incoming(&self, slot: &Rc<Slot>, message: Message) -> Option<Message> {
        let Some((what, size)) = told(&message).filter(|(_, size)| size.is_too_large() && guard!(EventsSize)) else {
            return Some(message);
        };
        let answer = in_its_place(message, &more_than_told(what, size));
        match answer {
            Message::Error(refused) => self.report(slot, None, ReportKind::Warning { message: refused.message }),
            answer => self.carry_out(slot, vec![answer]),
        }
        None
    }
}

/// Returns the kind and size of a message to a realm whose payload may be large.
fn told(message: &Message) -> Option<(&'static str, Size)> {
    Some(match message {
        Message::ToolCall(call) => ("the input of a tool", Size::of(&call.input)),
        Message::SlashCommand(command) => ("the arguments of a command", Size::of_text(&command.args)),
        Message::Callback(callback) => {
            let mut size = Size::default();
            callback.args.iter().for_each(|argument| size.add(argument));
            ("the arguments of a function", size)
        }
        Message::EventHook(hook) => ("the event", Size::of_members(&hook.payload)),
        Message::BusEvent(event) => ("an emission on the event bus", Size::of(&event.data)),
        _ => return None,
    })
}

fn more_than_told(what: &str, size: Size) -> HostcallError {
    let (limit, unit) = if size.bytes > MESSAGE_BYTES { (MESSAGE_BYTES, "bytes") } else { (MESSAGE_VALUES, "values") };
    let message = format!("{what} has more than {limit} {unit}, and is not delivered to this extension");
    HostcallError::invalid("too_large", message).with("limit", limit)
}

/// Creates the answer in place of a realm that cannot receive a message.
fn in_its_place(message: Message, error: &HostcallError) -> Message {
    match message {
        Message::ToolCall(call) => Message::ToolResult(ToolResult {
            tool_call_id: call.tool_call_id,
            output: Value::Null,
            is_error: true,
            error: Some(report(Some(call.entry), "tool", error)),
        }),
        Message::SlashCommand(command) => Message::SlashResult(SlashResult {
            slash_command_id: command.slash_command_id,
            error: Some(report(Some(command.entry), "command", error)),
        }),
        Message::Callback(callback) => Message::CallbackResult(CallbackResult {
            callback_id: callback.callback_id,
            value: None,
            error: Some(report(Some(callback.entry), "callback", error)),
        }),
        Message::EventHook(hook) => Message::EventResult(EventResult {
            event_id: hook.event_id,
            value: None,
            changed: Map::new(),
            error: Some(report(Some(hook.entry), &hook.event, error)),
        }),
        _ => Message::Error(report(None, "host", error)),
    }
}

/// Returns the part of a message that is over its limit, and the limit.
fn oversized(message: &Message) -> Option<(&'static str, usize)> {
    let error = |error: &Option<ErrorReport>| {
        let fits = error.as_ref().is_none_or(|error| is_within(error, REPORT_BYTES));
        (!fits).then_some(("an error", REPORT_BYTES))
    };
    let answer = |what, fits: bool| (!fits).then_some((what, ANSWER_BYTES));
    match message {
        Message::ToolResult(result) => {
            answer("a tool's result", is_within(&result.output, ANSWER_BYTES)).or_else(|| error(&result.error))
        }
        Message::EventResult(result) => {
            let fits = is_within(&(&result.value, &result.changed), ANSWER_BYTES);
            answer("a handler's answer", fits).or_else(|| error(&result.error))
        }
        Message::CallbackResult(result) => {
            answer("a function's result", is_within(&result.value, ANSWER_BYTES)).or_else(|| error(&result.error))
        }
        Message::SlashResult(result) => error(&result.error),
        Message::StreamFault { error: fault, .. } => error(fault),
        Message::Error(report) => (!is_within(report, REPORT_BYTES)).then_some(("an error", REPORT_BYTES)),
        Message::Log(entry) => (!is_within(entry, REPORT_BYTES)).then_some(("a line of output", REPORT_BYTES)),
        Message::ToolUpdate(update) => answer("a partial result", is_within(&update.partial, ANSWER_BYTES)),
        Message::CallbackUpdate(update) => answer("a function's update", is_within(&update.value, ANSWER_BYTES)),
        Message::BusEmit(event) => answer("an emission on the event bus", is_within(event, ANSWER_BYTES)),
        _ => None,
    }
}

/// Truncates a text that names something.
fn cut(mut text: String) -> String {
    const NAME: usize = 64;
    text.truncate(text.floor_char_boundary(NAME));
    text
}

/// Returns an error when the text of a verdict is not acceptable.
pub(crate) fn unfit(retry: &Injection) -> Option<HostcallError> {
    let fits = retry.content.len() <= RETRY_BYTES || !guard!(HookRetrySize);
    (!fits).then(|| too_large("the text of a verdict", RETRY_BYTES))
}

/// Creates an error report that the host found.
pub(crate) fn report(entry: Option<EntryIndex>, phase: &str, error: &HostcallError) -> ErrorReport {
    let (name, message) = (Some("RangeError".to_owned()), error.to_string());
    ErrorReport { entry, phase: phase.to_owned(), name, message, stack: None, position: None }
}

fn too_large(what: &str, limit: usize) -> HostcallError {
    HostcallError::invalid("too_large", format!("{what} is over its limit of {limit} bytes")).with("limit", limit)
}

/// Returns whether a value takes at most this many bytes as JSON; stops at the limit.
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
    // A value that is not JSON (a map with keys that are not strings) never comes from the wire.
    let _ = serde_json::to_writer(&mut counter, value);
    counter.0
}

/// Weight of each value besides its text, about the cost to a reader.
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
    // See `size`.
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
