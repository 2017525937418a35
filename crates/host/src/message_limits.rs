//! How much an extension may hand over at once, and how much it is told at once.
//!
//! Limits messages of extensions: the host holds one, writes it to the session and copies it to every other realm. Past these
//! limits it is an error of the extension that handed it over, before anybody else has to carry it. What is more than a realm
//! takes in one message ([`Size::is_too_large`]) is answered in its place with an error: it would be ended by it.

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

/// Bytes of what a function has said on its way and nobody has taken yet: as with results, but of many at a time.
const WAITING_BYTES: usize = 2 * ANSWER_BYTES;

/// Queues the updates of a running function until its caller takes them.
pub(crate) struct Updates {
    sender: mpsc::UnboundedSender<Value>,
    waiting: Rc<Cell<usize>>,
}

/// The other end.
pub(crate) struct Arriving {
    receiver: mpsc::UnboundedReceiver<Value>,
    waiting: Rc<Cell<usize>>,
}

/// Both ends.
pub(crate) fn updates() -> (Updates, Arriving) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let waiting = Rc::new(Cell::new(0));
    (Updates { sender, waiting: Rc::clone(&waiting) }, Arriving { receiver, waiting })
}

impl Updates {
    /// Passes something on. What comes back says that more waits than may: the one who takes it is slower than the
    /// function speaks.
    pub(crate) fn send(&self, update: Value) -> Option<ErrorReport> {
        let waiting = self.waiting.get() + size(&update);
        if waiting > WAITING_BYTES && guard!(EventsUpdateBacklog) {
            let error = too_large("what a function says before anybody takes it", WAITING_BYTES);
            return Some(report(None, "answer", &error));
        }
        self.waiting.set(waiting);
        // Whoever called it may be gone.
        let _ = self.sender.send(update);
        None
    }
}

impl Arriving {
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

/// Bytes of one registration: every realm and every request to the model carries what tools say of themselves.
pub const REGISTRATION_BYTES: usize = 1 << 20;

/// Bytes of an error, or of a line of output: a person reads them, and an error of a tool goes to the model.
const REPORT_BYTES: usize = 1 << 20;

/// Bytes of the text that a verdict puts into the conversation: more than any model reads.
pub const RETRY_BYTES: usize = 1 << 20;

impl Host {
    /// A message as it may go on: what it carries too much of is replaced by an error, or left out with a warning.
    pub(crate) fn fitting(&self, slot: &Rc<Slot>, message: Message) -> Option<Message> {
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
    /// A message as a realm takes it. One that is too large is answered in its place: `None`.
    pub(crate) fn tellable(&self, slot: &Rc<Slot>, message: Message) -> Option<Message> {
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
        Message::SlashCommand(command) => ("what follows a command", Size::of_text(&command.args)),
        Message::Callback(callback) => {
            let mut size = Size::default();
            callback.args.iter().for_each(|argument| size.add(argument));
            ("what a function is called with", size)
        }
        Message::EventHook(hook) => ("the event", Size::of_members(&hook.payload)),
        Message::BusEvent(event) => ("an emission on the event bus", Size::of(&event.data)),
        _ => return None,
    })
}

fn more_than_told(what: &str, size: Size) -> HostcallError {
    let (limit, unit) = if size.bytes > MESSAGE_BYTES { (MESSAGE_BYTES, "bytes") } else { (MESSAGE_VALUES, "values") };
    let message = format!("{what} has more than {limit} {unit}, and is not shown to this extension");
    HostcallError::invalid("too_large", message).with("limit", limit)
}

/// Makes the answer in place of a realm that cannot take a message.
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

/// The beginning of a text that names something.
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

/// How many bytes something takes as JSON.
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
    // A value that is not JSON (a map with keys that are not strings) never comes off the wire.
    let _ = serde_json::to_writer(&mut counter, value);
    counter.0
}

/// Weight of each value beside its text, about the cost to a reader.
const VALUE_WEIGHT: usize = 40;

/// Returns the weight of a value in a message: its bytes as JSON, and a fixed weight for each value in it.
pub(crate) fn weight(value: &impl Serialize) -> usize {
    #[derive(Default)]
    struct Scales {
        weight: usize,
        in_text: bool,
        is_escaped: bool,
    }
    impl Write for Scales {
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
    let mut scales = Scales::default();
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
