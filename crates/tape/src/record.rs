//! One line of a tape, in memory and as bytes.

use super::TapeError;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use pijs_protocol::wire::Task;
use pijs_protocol::{Delivery, ExtensionId, HostCall, Message, SyncReply, Termination, Yield};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::io;

/// Something that crossed the wire of one realm.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Whose wire.
    pub realm: ExtensionId,
    /// What crossed.
    pub event: Event,
}

/// What crossed a realm's wire.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(tag = "kind", content = "value", rename_all = "snake_case")]
pub enum Event {
    /// Host to realm: a macrotask.
    Delivery(Box<Delivery>),
    /// Realm to host: a synchronous hostcall inside the turn.
    Call(HostCall),
    /// Host to realm: its answer.
    Reply(SyncReply),
    /// Realm to host: the end of the turn.
    Yield(Yield),
    /// The realm ended in this turn.
    Termination(Termination),
}

/// A borrowed [`Event`], so that recording copies nothing.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(tag = "kind", content = "value", rename_all = "snake_case")]
pub enum EventRef<'a> {
    /// See [`Event::Delivery`].
    Delivery(&'a Delivery),
    /// See [`Event::Call`].
    Call(&'a HostCall),
    /// See [`Event::Reply`].
    Reply(&'a SyncReply),
    /// See [`Event::Yield`].
    Yield(&'a Yield),
    /// See [`Event::Termination`].
    Termination(&'a Termination),
}

impl Event {
    /// Borrows the content, for writing.
    pub fn as_ref(&self) -> EventRef<'_> {
        match self {
            Self::Delivery(delivery) => EventRef::Delivery(delivery),
            Self::Call(call) => EventRef::Call(call),
            Self::Reply(reply) => EventRef::Reply(reply),
            Self::Yield(output) => EventRef::Yield(output),
            Self::Termination(termination) => EventRef::Termination(termination),
        }
    }
}

impl EventRef<'_> {
    /// The kind as it is written.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Delivery(_) => "delivery",
            Self::Call(_) => "call",
            Self::Reply(_) => "reply",
            Self::Yield(_) => "yield",
            Self::Termination(_) => "termination",
        }
    }
}

#[derive(Serialize)]
struct LineRef<'a> {
    realm: &'a ExtensionId,
    #[serde(flatten)]
    event: EventRef<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    bytes: Vec<Vec<String>>,
}

/// One line after the header of a tape.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "TapeRecord")]
pub(super) struct Line {
    /// Whose wire.
    realm: ExtensionId,
    /// What crossed it.
    #[serde(flatten)]
    event: Event,
    /// Attachments in base64, one list for each message that may carry some; absent when there are none.
    #[serde(default)]
    bytes: Vec<Vec<String>>,
}

impl JsonSchema for Record {
    fn schema_name() -> Cow<'static, str> {
        Line::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Line::json_schema(generator)
    }
}

/// A line without its end.
pub(super) fn encode(realm: &ExtensionId, event: EventRef<'_>) -> io::Result<Vec<u8>> {
    let attached = attachments(event);
    let bytes = if attached.iter().all(|bytes| bytes.is_empty()) {
        Vec::new()
    } else {
        attached.iter().map(|bytes| bytes.iter().map(|one| BASE64.encode(one)).collect()).collect()
    };
    let line = match event {
        EventRef::Yield(output) => {
            let output = finite_delays(output);
            serde_json::to_vec(&LineRef { realm, event: EventRef::Yield(&output), bytes })
        }
        _ => serde_json::to_vec(&LineRef { realm, event, bytes }),
    };
    Ok(line?)
}

/// The record of a line.
pub(super) fn decode(text: &[u8], line: usize) -> Result<Record, TapeError> {
    let Line { realm, mut event, bytes } =
        serde_json::from_slice(text).map_err(|source| TapeError::Json { line, source })?;
    if !bytes.is_empty() {
        let places = attachments_mut(&mut event);
        if places.len() != bytes.len() {
            let what = format!("attachments of {} messages, but {} may carry some", bytes.len(), places.len());
            return Err(TapeError::Attachments { line, what });
        }
        for (place, encoded) in places.into_iter().zip(bytes) {
            *place = encoded
                .iter()
                .map(|one| BASE64.decode(one))
                .collect::<Result<_, _>>()
                .map_err(|error| TapeError::Attachments { line, what: format!("an attachment: {error}") })?;
        }
    }
    Ok(Record { realm, event })
}

/// The attachments of each message that may carry some, in order.
fn attachments(event: EventRef<'_>) -> Vec<&Vec<Vec<u8>>> {
    let of = |message| match message {
        &Message::HostCall(HostCall { ref bytes, .. }) => Some(bytes),
        Message::HostResult(result) => Some(&result.bytes),
        _ => None,
    };
    match event {
        EventRef::Delivery(Delivery { task: Task::Message(message), .. }) => of(message).into_iter().collect(),
        EventRef::Call(call) => vec![&call.bytes],
        EventRef::Reply(reply) => vec![&reply.result.bytes],
        EventRef::Yield(output) => output.messages.iter().filter_map(of).collect(),
        EventRef::Delivery(_) | EventRef::Termination(_) => Vec::new(),
    }
}

/// The same, to fill in.
fn attachments_mut(event: &mut Event) -> Vec<&mut Vec<Vec<u8>>> {
    fn of(message: &mut Message) -> Option<&mut Vec<Vec<u8>>> {
        match message {
            Message::HostCall(call) => Some(&mut call.bytes),
            Message::HostResult(result) => Some(&mut result.bytes),
            _ => None,
        }
    }
    match event {
        Event::Delivery(delivery) => match &mut delivery.task {
            Task::Message(message) => of(message).into_iter().collect(),
            Task::Stream(_) => Vec::new(),
        },
        Event::Call(call) => vec![&mut call.bytes],
        Event::Reply(reply) => vec![&mut reply.result.bytes],
        Event::Yield(output) => output.messages.iter_mut().filter_map(of).collect(),
        Event::Termination(_) => Vec::new(),
    }
}

/// JSON has no NaN and no infinity. A delay of that kind is written as the 1 ms that the loop makes of it.
fn finite_delays(output: &Yield) -> Cow<'_, Yield> {
    let odd = |message: &Message| matches!(message, Message::TimerSet { delay_ms, .. } if !delay_ms.is_finite());
    if !output.messages.iter().any(odd) {
        return Cow::Borrowed(output);
    }
    let mut output = output.clone();
    for message in &mut output.messages {
        if let Message::TimerSet { delay_ms, .. } = message
            && !delay_ms.is_finite()
        {
            *delay_ms = 1.0;
        }
    }
    Cow::Owned(output)
}
