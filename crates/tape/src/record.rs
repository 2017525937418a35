//! Defines the records of a tape, in memory and as lines of JSON.
//!
//! Digests and comparisons use the *canonical* line of a record. It contains all of the record except for the size of the
//! engine's heap, which depends on the allocator and not on the extension. In the written line at the end of a turn, this size
//! and the digest of all turns of the realm so far follow the canonical part.

use crate::agent_record::AgentRecord;
use crate::error::{TapeError, TapeFault};
use crate::header::TapeHeader;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use pijs_artifact::digest;
use pijs_protocol::wire::{RealmOptions, Task};
use pijs_protocol::{Delivery, ExtensionId, HostCall, Message, Now, SyncReply, Termination, Yield};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Size in bytes from which an attachment is written once and referred to by digest.
const LARGE: usize = 1 << 10;

/// Maximum nesting of a record: 128 levels of a provider's JSON, and the levels around it.
const MAX_LEVELS: usize = 256;

/// Prefix of a reference to an attachment. Base64 contains no colon, so there is no ambiguity.
const BY_DIGEST: &str = "sha256:";

/// Number of a realm on a tape, from 1 in the order of opening. 0 denotes the tape itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct RealmNumber(pub u32);

/// A message on the wire of a realm, or a record about the tape itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Number of the realm.
    pub realm: RealmNumber,
    /// Content of the record.
    pub event: Event,
    /// Digest of all turns of the realm so far; only in a record that ends a turn.
    pub digest: Option<String>,
}

/// The content of a record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", content = "value", rename_all = "snake_case")]
pub enum Event {
    /// The first record.
    Header(Box<TapeHeader>),
    /// A large payload, ahead of the first record that refers to it.
    Blob(Blob),
    /// Host to realm: creates the realm and evaluates the runtime, which is the realm's first turn.
    Open(Box<Opening>),
    /// Host to realm: a macrotask. Streamed deltas that passed together are consecutive and share one yield.
    Delivery(Box<Delivery>),
    /// Realm to host: a synchronous hostcall during the turn.
    Call(HostCall),
    /// Host to realm: the answer to the hostcall.
    Reply(SyncReply),
    /// Realm to host: the end of the turn.
    Yield(Yield),
    /// The realm ended, during this turn or between turns.
    Termination(Termination),
    /// A message crossed a port of the agent.
    Agent(Box<AgentRecord>),
    /// The last record of a recording that was not cut off.
    End(End),
}

/// A payload that is written once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Blob {
    /// `sha256:HEX` of the bytes.
    pub digest: String,
    /// The bytes in base64.
    pub base64: String,
}

/// Options and modules of a realm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Opening {
    /// Limits, seed, facts and extension id of the realm.
    pub options: RealmOptions,
    /// Time at which the realm evaluated the runtime.
    pub now: Now,
    /// Modules in load order: host modules first, the extension's modules last.
    pub modules: Vec<ModuleSet>,
}

/// The modules of one artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModuleSet {
    /// Package name.
    pub name: String,
    /// Package version.
    pub version: String,
    /// `sha256:HEX` of specifiers and bytecode.
    pub digest: String,
    /// Digest of the blob with the sources. Absent for modules that come with pi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// Marks the tape as complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct End {
    /// Number of turns on the tape.
    pub turns: u64,
}

/// A borrowed [`Event`] of a realm's wire, for writing.
#[derive(Debug, Clone, Copy)]
pub enum EventRef<'a> {
    /// See [`Event::Open`].
    Open(&'a Opening),
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
    /// Borrows the content; `None` for a record that belongs to no realm.
    pub fn as_ref(&self) -> Option<EventRef<'_>> {
        Some(match self {
            Self::Open(opening) => EventRef::Open(opening),
            Self::Delivery(delivery) => EventRef::Delivery(delivery),
            Self::Call(call) => EventRef::Call(call),
            Self::Reply(reply) => EventRef::Reply(reply),
            Self::Yield(output) => EventRef::Yield(output),
            Self::Termination(termination) => EventRef::Termination(termination),
            Self::Header(_) | Self::Blob(_) | Self::Agent(_) | Self::End(_) => return None,
        })
    }

    /// Returns whether the record begins a tick: the opening of a realm, or a macrotask.
    pub fn begins_tick(&self) -> bool {
        matches!(self, Self::Open(_) | Self::Delivery(_))
    }

    /// Returns the name of the kind in the file.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Header(_) => "header",
            Self::Blob(_) => "blob",
            Self::Agent(_) => "agent",
            Self::End(_) => "end",
            _ => self.as_ref().map_or("", EventRef::kind),
        }
    }
}

impl EventRef<'_> {
    /// Returns the name of the kind in the file.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Open(_) => "open",
            Self::Delivery(_) => "delivery",
            Self::Call(_) => "call",
            Self::Reply(_) => "reply",
            Self::Yield(_) => "yield",
            Self::Termination(_) => "termination",
        }
    }

    /// Returns whether the record ends a turn.
    pub fn ends_turn(self) -> bool {
        matches!(self, Self::Yield(_) | Self::Termination(_))
    }
}

/// A line to write, and the payloads that must be written before it.
pub(crate) struct Encoded {
    /// The canonical line without a line break.
    pub(crate) line: Vec<u8>,
    /// Digests and payloads that the line refers to.
    pub(crate) blobs: Vec<(String, Vec<u8>)>,
}

#[derive(Serialize)]
struct LineRef<'a, V> {
    realm: RealmNumber,
    kind: &'static str,
    value: &'a V,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    bytes: &'a [Vec<String>],
}

/// One line of a tape.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "TapeRecord")]
struct Line {
    /// Number of the realm; 0 for a record about the tape itself.
    realm: RealmNumber,
    #[serde(flatten)]
    event: Event,
    /// Attachments, one list for each message that may have some; absent if there are none. Each is base64, or the digest of a
    /// blob.
    #[serde(default)]
    bytes: Vec<Vec<String>>,
    /// Size of the engine's heap at the end of the turn, in bytes.
    #[serde(default)]
    heap: u64,
    /// Digest of all turns of the realm so far.
    #[serde(default)]
    digest: Option<String>,
}

impl JsonSchema for Record {
    fn schema_name() -> Cow<'static, str> {
        Line::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Line::json_schema(generator)
    }
}

/// Encodes a message on a wire as its canonical line. `change` may replace an attachment.
pub(crate) fn encode(
    realm: RealmNumber,
    event: EventRef<'_>,
    change: impl Fn(&[u8]) -> Option<Vec<u8>>,
) -> serde_json::Result<Encoded> {
    let mut blobs = Vec::new();
    let mut reference = |bytes: &Vec<u8>| {
        let changed = change(bytes);
        let bytes = changed.as_ref().unwrap_or(bytes);
        if bytes.len() < LARGE {
            return BASE64.encode(bytes);
        }
        let digest = digest(bytes);
        blobs.push((digest.clone(), bytes.clone()));
        digest
    };
    let attached = attachments(event);
    let bytes: Vec<Vec<String>> = match attached.iter().all(|list| list.is_empty()) {
        true => Vec::new(),
        false => attached.iter().map(|list| list.iter().map(&mut reference).collect()).collect(),
    };
    let kind = event.kind();
    let line = match event {
        EventRef::Open(value) => line(realm, kind, value, &bytes),
        EventRef::Delivery(value) => line(realm, kind, value, &bytes),
        EventRef::Call(value) => line(realm, kind, value, &bytes),
        EventRef::Reply(value) => line(realm, kind, value, &bytes),
        EventRef::Yield(value) => line(realm, kind, &canonical(value), &bytes),
        EventRef::Termination(value) => line(realm, kind, value, &bytes),
    }?;
    Ok(Encoded { line, blobs })
}

fn line<V: Serialize>(
    realm: RealmNumber,
    kind: &'static str,
    value: &V,
    bytes: &[Vec<String>],
) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&LineRef { realm, kind, value, bytes })
}

/// Encodes a record that belongs to no realm.
pub(crate) fn encode_own(event: &Event) -> serde_json::Result<Vec<u8>> {
    #[derive(Serialize)]
    struct Own<'a> {
        realm: RealmNumber,
        #[serde(flatten)]
        event: &'a Event,
    }
    serde_json::to_vec(&Own { realm: RealmNumber(0), event })
}

/// Appends heap size and digest to the canonical line of a turn's end.
pub(crate) fn append_end(line: &mut Vec<u8>, heap: u64, digest: &str) {
    let brace = line.pop();
    debug_assert_eq!(brace, Some(b'}'), "a line is an object");
    line.extend_from_slice(format!(",\"heap\":{heap},\"digest\":\"{digest}\"}}").as_bytes());
}

/// Parses the record of a line. `blob` returns the payload of a digest.
pub(crate) fn decode(text: &[u8], number: u64, blob: impl Fn(&str) -> Option<Vec<u8>>) -> Result<Record, TapeError> {
    let bad = |what| TapeError::at(number, what);
    let Line { realm, mut event, bytes, heap, digest } =
        read_json(text).map_err(|error| bad(TapeFault::Json(error.to_string())))?;
    if !bytes.is_empty() {
        let places = attachments_mut(&mut event);
        if places.len() != bytes.len() {
            let (found, expected) = (bytes.len(), places.len());
            return Err(bad(TapeFault::Attachment(format!(
                "attachments of {found} messages, {expected} may carry some"
            ))));
        }
        for (place, encoded) in places.into_iter().zip(bytes) {
            let read = |one: String| match one.starts_with(BY_DIGEST) {
                true => blob(&one).ok_or_else(|| bad(TapeFault::Attachment(format!("the payload {one} is missing")))),
                false => BASE64.decode(one).map_err(|error| bad(TapeFault::Attachment(error.to_string()))),
            };
            *place = encoded.into_iter().map(read).collect::<Result<_, _>>()?;
        }
    }
    if let Event::Yield(output) = &mut event {
        output.usage.heap_bytes = heap;
    }
    Ok(Record { realm, event, digest })
}

/// Parses JSON that may be nested as deeply as a message of a host.
pub(crate) fn read_json<T: DeserializeOwned>(text: &[u8]) -> serde_json::Result<T> {
    if depth(text) > MAX_LEVELS {
        return Err(serde::de::Error::custom(format!("nested more than {MAX_LEVELS} levels deep")));
    }
    let mut reader = serde_json::Deserializer::from_slice(text);
    reader.disable_recursion_limit();
    let value = T::deserialize(&mut reader)?;
    reader.end()?;
    Ok(value)
}

/// Returns the deepest nesting of lists and objects.
fn depth(json: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut in_text, mut is_escaped) = (false, false);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_text => is_escaped = true,
            b'"' => in_text = !in_text,
            b'[' | b'{' if !in_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Returns the attachments of each message that may have some, in order.
pub(crate) fn attachments(event: EventRef<'_>) -> Vec<&Vec<Vec<u8>>> {
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
        EventRef::Open(_) | EventRef::Delivery(_) | EventRef::Termination(_) => Vec::new(),
    }
}

/// Returns the attachments of an event, to be set.
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
        Event::Header(_)
        | Event::Blob(_)
        | Event::Open(_)
        | Event::Termination(_)
        | Event::Agent(_)
        | Event::End(_) => Vec::new(),
    }
}

/// Returns a yield without the size of the heap, and without numbers that JSON cannot represent: a delay that is not finite is
/// written as 1 ms, as the loop treats it.
fn canonical(output: &Yield) -> Yield {
    let mut output = output.clone();
    output.usage.heap_bytes = 0;
    for message in &mut output.messages {
        if let Message::TimerSet { delay_ms, .. } = message
            && !delay_ms.is_finite()
        {
            *delay_ms = 1.0;
        }
    }
    output
}

impl Opening {
    /// Returns the extension of the realm.
    pub fn extension(&self) -> &ExtensionId {
        &self.options.extension
    }

    /// Returns the name of the extension's package; empty if the realm has no modules of its own.
    pub fn package(&self) -> &str {
        self.modules.iter().find(|set| set.source.is_some()).map_or("", |own| &own.name)
    }
}
