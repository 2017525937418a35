//! Applies the limits on messages from and to an extension.
//!
//! A message that is too large for a realm ([`Size::is_too_large`]) would end the realm, so the host answers it with an error.

use super::Host;
use crate::extension::Slot;
use crate::message_limits::{ANSWER_BYTES, REPORT_BYTES, is_within, report, too_large};
use crate::report::ReportKind;
use pijs_protocol::message::{CallbackResult, ErrorReport, EventResult, Message, SlashResult, ToolResult};
use pijs_protocol::wire::{MESSAGE_BYTES, MESSAGE_VALUES, Size};
use pijs_protocol::{HostcallError, guard};
use serde_json::{Map, Value};
use std::rc::Rc;

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

    /// Limits a message to a realm. Returns `None` for a message that is too large; the host then answers it in the realm's
    /// place.
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

/// Returns the part of a message that exceeds its limit, and the limit.
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

/// Truncates a text that is used as a name.
fn cut(mut text: String) -> String {
    const NAME: usize = 64;
    text.truncate(text.floor_char_boundary(NAME));
    text
}
