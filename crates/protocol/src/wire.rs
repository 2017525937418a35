//! One turn of a realm: a [`Delivery`] in, a [`Yield`] out.
//!
//! While the realm runs it may make synchronous hostcalls; each is a `HostCall` that a [`SyncReply`] answers before anything else
//! happens (depth 1). Within a thread all of these are plain values; between processes they are frames: a length, a JSON head,
//! raw attachments.

use crate::hostcall::{ErrorCode, HostResult, HostcallError};
use crate::ids::{ExtensionId, Seq};
use crate::message::Message;
use crate::stream::StreamDelta;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::Deserializer;
use serde::ser::{Error as _, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum size of a message to a realm in bytes, JSON and attachments: together with the other parts of a frame it fits into one
/// frame. Senders check the size and report an error, because an oversized message would end the realm.
pub const MESSAGE_BYTES: usize = 96 << 20;

/// Maximum number of values in a message to a realm. Each value costs its reader about a hundred bytes, even if its text is
/// short.
pub const MESSAGE_VALUES: usize = 2_000_000;

/// Time of the driver. The realm never reads a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Now {
    /// Wall clock in milliseconds since 1970, the start of `Date.now()` in this turn.
    pub epoch_ms: u64,
    /// Monotonic microseconds since the session began, for `performance.now()` and timers.
    pub elapsed_us: u64,
}

impl Now {
    /// Returns monotonic milliseconds, the unit of timers.
    pub fn elapsed_ms(self) -> u64 {
        self.elapsed_us / 1000
    }
}

/// Facts and limits of a realm, constant during its life.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RealmOptions {
    /// Extension whose code the realm runs.
    pub extension: ExtensionId,
    /// Memory, stack and turn limits.
    pub limits: Limits,
    /// Seed of `Math.random` and of `crypto` randomness.
    pub seed: u64,
    /// Microseconds by which the clock advances per read inside a turn; 0 stops it.
    pub clock_step_us: u32,
    /// IANA name of the time zone.
    pub time_zone: String,
    /// Values of `process`, `os` and `path`: `cwd`, `platform`, `arch`, `argv`, `homedir`, `tmpdir`, `pid`, `env`, `agentDir`,
    /// ... The host chooses them; the default is empty.
    pub facts: Map<String, Value>,
}

/// Limits of a realm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Limits {
    /// Maximum size of the engine's heap in bytes.
    pub memory_bytes: u64,
    /// Maximum size of the JavaScript stack in bytes; less if the thread of the realm has less.
    pub stack_bytes: u64,
    /// Maximum number of microtasks per turn.
    pub jobs: u32,
    /// Maximum number of engine interrupt polls per turn; one poll is about 10,000 loop edges or calls.
    pub fuel: u64,
    /// Maximum number of engine interrupt polls per streamed delta.
    pub stream_fuel: u64,
    /// Maximum number of live timers.
    pub timers: u32,
}

impl Default for Limits {
    /// Returns 256 MB heap, 6 MB stack (nine thousand plain calls, near Node's default), 100,000 jobs, about 5 s of fuel a turn
    /// and 1 s a delta on a 2020s core, 10,000 timers.
    fn default() -> Self {
        Self {
            memory_bytes: 256 << 20,
            stack_bytes: 6 << 20,
            jobs: 100_000,
            fuel: 100_000,
            stream_fuel: 20_000,
            timers: 10_000,
        }
    }
}

/// One macrotask for a realm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Delivery {
    /// Position in the realm's order.
    pub seq: Seq,
    /// Time at the start of the turn.
    pub now: Now,
    /// The task to run.
    pub task: Task,
    /// State delta since the last delivery or reply to this realm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<StateDelta>,
}

/// The content of a macrotask.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// A message.
    Message(Box<Message>),
    /// A streamed delta, for all `stream_text` handlers of the realm that receive its source.
    Stream(StreamDelta),
}

/// The result of a turn, after its microtasks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Yield {
    /// Messages in the order in which the realm sent them.
    pub messages: Vec<Message>,
    /// The answer to a [`Task::Stream`].
    #[serde(default)]
    pub stream: StreamAnswer,
    /// Resource usage of the turn.
    pub usage: Usage,
}

/// A realm's answer to a streamed delta.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StreamAnswer {
    /// No handler returned a verdict.
    #[default]
    Continue,
    /// A handler requests an abort; later handlers were not called.
    Abort(crate::stream::StreamVerdict),
    /// A handler's promise waits for I/O. This counts as *continue* and is reported once.
    Late {
        /// The handler.
        handler: crate::ids::Handle,
    },
    /// A handler threw or returned an invalid value. This counts as *continue* and as a strike.
    Failed {
        /// The handler.
        handler: crate::ids::Handle,
        /// The exception.
        error: crate::message::ErrorReport,
    },
}

/// Resource usage of a turn; recorded, so that a replay can be compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Number of microtasks that ran.
    pub jobs: u32,
    /// Number of interrupt polls.
    pub fuel: u64,
    /// Number of clock reads.
    pub clock_reads: u32,
    /// Number of random draws.
    pub random_draws: u32,
    /// Size of the engine's heap at the end of the turn, in bytes.
    pub heap_bytes: u64,
}

/// Answer to a synchronous hostcall.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SyncReply {
    /// The result; never chunked.
    pub result: HostResult,
    /// Time after the call.
    pub now: Now,
    /// State delta of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<StateDelta>,
}

/// A change of the readable state (`getEntries`, `isIdle`, `model`, ...).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StateDelta {
    /// Version of the state after applying this delta.
    pub version: u64,
    /// Top-level members to replace.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, Json>,
    /// Change of the session's entry list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entries: Option<EntriesDelta>,
}

/// Change of the session's entry list: truncates it to `keep` entries, then appends.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EntriesDelta {
    /// Number of entries to keep.
    pub keep: usize,
    /// Entries to append.
    pub append: Vec<Json>,
}

/// JSON as text, for values that are long, shared and rarely read: the readable state.
///
/// Clones share the text. Two values are equal if their texts are equal. Texts made by [`From<Value>`] or a deserializer have no
/// spaces, so they are equal if the values are equal and have their members in the same order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Json(Arc<str>);

impl Json {
    /// Wraps JSON text without validation.
    pub fn from_text(text: &str) -> Self {
        Self(text.into())
    }

    /// Returns the text.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Parses the text; returns `null` for invalid JSON.
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or_default()
    }
}

/// The cost of a value for its reader.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    /// Size of the value's JSON in bytes, with the maximum length for each number.
    pub bytes: usize,
    /// Number of values in the value, including itself, lists and objects ([`count_values`]).
    pub values: usize,
}

impl Size {
    /// Returns whether the size exceeds the limits of a message.
    pub fn is_too_large(self) -> bool {
        self.bytes > MESSAGE_BYTES || self.values > MESSAGE_VALUES
    }

    /// Measures a value.
    pub fn of(value: &Value) -> Self {
        let mut size = Self::default();
        size.add(value);
        size
    }

    /// Measures a text.
    pub fn of_text(text: &str) -> Self {
        Self { bytes: text_bytes(text), values: 1 }
    }

    /// Measures the members of an object.
    pub fn of_members(members: &Map<String, Value>) -> Self {
        let mut size = Self { bytes: 2, values: 1 };
        size.add_members(members);
        size
    }

    /// Adds another value.
    pub fn add(&mut self, value: &Value) {
        /// Maximum length of a number as text: `-2.2250738585072014e-308`.
        const NUMBER: usize = 24;
        self.values += 1;
        self.bytes += match value {
            Value::Null | Value::Bool(_) => 5,
            Value::Number(_) => NUMBER,
            Value::String(text) => text_bytes(text),
            Value::Array(items) => {
                items.iter().for_each(|item| self.add(item));
                2 + items.len()
            }
            Value::Object(members) => {
                self.add_members(members);
                2
            }
        };
    }

    fn add_members(&mut self, members: &Map<String, Value>) {
        for (name, value) in members {
            self.bytes += text_bytes(name) + 2;
            self.add(value);
        }
    }
}

/// Returns the bytes of a string in JSON, including quotes and escapes.
fn text_bytes(text: &str) -> usize {
    let escaped = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 1,
        0..0x20 => 5,
        _ => 0,
    };
    2 + text.len() + text.bytes().map(escaped).sum::<usize>()
}

/// Counts the values in a value, including itself, lists and objects. This measures the cost for a reader, even if the text is
/// short.
pub fn count_values(value: &Value) -> usize {
    match value {
        Value::Object(members) => members.values().map(count_values).sum::<usize>() + 1,
        Value::Array(items) => items.iter().map(count_values).sum::<usize>() + 1,
        _ => 1,
    }
}

impl From<Value> for Json {
    fn from(value: Value) -> Self {
        Self::from(&value)
    }
}

impl From<&Value> for Json {
    fn from(value: &Value) -> Self {
        Self(value.to_string().into())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Without a depth limit, because an entry may contain a provider's JSON of the maximum depth.
        let mut text = serde_json::Deserializer::from_str(&self.0);
        text.disable_recursion_limit();
        Value::deserialize(&mut text).map_err(S::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::from)
    }
}

impl JsonSchema for Json {
    fn inline_schema() -> bool {
        Value::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        Value::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Value::json_schema(generator)
    }
}

/// Reason why a realm ended. A realm that ended is discarded and never reused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Termination {
    /// Out of fuel, out of jobs, or interrupted by the watchdog.
    Timeout {
        /// `fuel`, `jobs`, `deadline`, `settle`.
        quota: String,
    },
    /// The heap limit was reached.
    OutOfMemory,
    /// The worker process died.
    Crashed {
        /// Signal or exit status.
        detail: String,
    },
    /// The realm broke the protocol.
    Protocol {
        /// Description of the violation.
        detail: String,
    },
    /// The code of a component trapped: it panicked, accessed memory out of bounds, or called a refused import.
    Trapped {
        /// The trap.
        detail: String,
    },
    /// A contained host bug.
    HostBug {
        /// File, line and message.
        detail: String,
    },
}

impl Termination {
    /// Quota name for a realm that owes an answer while no work is in flight in it.
    pub const UNSETTLED: &str = "settle";

    /// Returns the error of calls that waited for the realm.
    ///
    /// | reason | code | `details` |
    /// |---|---|---|
    /// | killed after its deadline | `timeout` | `reason: watchdog_kill` |
    /// | fuel, jobs or time used up | `timeout` | `reason: deadline`, `quota` |
    /// | memory used up | `denied` | `reason: quota`, `quota: memory` |
    /// | the worker died | `internal` | `reason: worker_crash` |
    /// | the component's code trapped | `internal` | `reason: trap` |
    /// | the realm broke the protocol | `invalid_request` | `reason: schema` |
    /// | a host bug | `internal` | `reason: invariant` |
    pub fn error(&self) -> HostcallError {
        let message = format!("the extension was {self}");
        let new = |code, reason: &str| HostcallError::new(code, message.clone()).with("reason", reason);
        match self {
            Self::Timeout { quota } if quota == "deadline" => new(ErrorCode::Timeout, "watchdog_kill"),
            Self::Timeout { quota } => new(ErrorCode::Timeout, "deadline").with("quota", quota.as_str()),
            Self::OutOfMemory => new(ErrorCode::Denied, "quota").with("quota", "memory"),
            Self::Crashed { .. } => new(ErrorCode::Internal, "worker_crash"),
            Self::Trapped { .. } => new(ErrorCode::Internal, "trap"),
            Self::Protocol { .. } => new(ErrorCode::InvalidRequest, "schema"),
            Self::HostBug { .. } => new(ErrorCode::Internal, "invariant"),
        }
    }
}

impl std::fmt::Display for Termination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Timeout { quota } if quota == Self::UNSETTLED => {
                f.write_str("stopped: an awaited promise never settles, and no work is in flight")
            }
            Self::Timeout { quota } => write!(f, "stopped: {quota} used up"),
            Self::OutOfMemory => f.write_str(
                "stopped: memory limit reached; `extensions.policy.max_memory_mb` in settings.json sets another",
            ),
            Self::Crashed { detail } => write!(f, "crashed: {detail}"),
            Self::Trapped { detail } => write!(f, "stopped: {detail}"),
            Self::Protocol { detail } => write!(f, "broke the protocol: {detail}"),
            Self::HostBug { detail } => write!(f, "host bug: {detail}"),
        }
    }
}

impl std::error::Error for Termination {}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_size_is_no_less_than_the_text_and_counts_each_value() {
        for (value, values) in [
            (json!(null), 1),
            (json!(-2.225_073_858_507_201e-308), 1),
            (json!("quotes \" and \\, \u{1}\u{1f}\n\t\u{8}\u{c}\u{7f}, ü\u{1F600}"), 1),
            (json!([[], {}, [false]]), 5),
            (json!({"\u{0}": {"a": [1, u64::MAX, i64::MIN]}, "": "x"}), 7),
        ] {
            let size = Size::of(&value);
            assert_eq!((size.values, count_values(&value)), (values, values), "{value}");
            assert!(size.bytes >= value.to_string().len(), "{value}: {size:?}");
            assert!(size.bytes <= value.to_string().len() + 24 * values, "{value}: {size:?}");
            let Value::Object(members) = value else { continue };
            assert_eq!(Size::of_members(&members), size);
        }
        let control = "\u{1}".repeat(MESSAGE_BYTES / 6);
        assert!(Size::of_text(&control).is_too_large() && !Size::of_text(&control[2..]).is_too_large());
        assert!(!Size { bytes: MESSAGE_BYTES, values: MESSAGE_VALUES }.is_too_large());
        assert!(Size { bytes: 0, values: MESSAGE_VALUES + 1 }.is_too_large());
    }
}
