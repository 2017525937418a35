//! Messages of the protocol, version 1 (`docs/spec/protocol.md`).

use crate::hostcall::{HostCall, HostResult};
use crate::ids::{CallId, EntryIndex, EventId, ExtensionId, Handle, TimerId};
use crate::log::LogEntry;
use crate::registration::Register;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Version that every [`Envelope`] carries.
pub const PROTOCOL_VERSION: &str = "1.0";

/// A message with the protocol version, as in a tape or a schema test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Envelope {
    /// `1.0`.
    pub version: String,
    /// The message.
    #[serde(flatten)]
    pub message: Message,
}

impl From<Message> for Envelope {
    fn from(message: Message) -> Self {
        Self { version: PROTOCOL_VERSION.to_owned(), message }
    }
}

/// A message between host and realm, except for `stream_text` deltas.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", content = "payload", rename_all = "snake_case")]
pub enum Message {
    /// Host to realm: evaluate an entry and call its factory. Answered by `register` with
    /// `ready`, or by `error` with `phase: load`.
    Load(Load),
    /// Realm to host: registrations.
    Register(Register),
    /// Host to realm: run a tool.
    ToolCall(ToolCall),
    /// Realm to host: a partial result, `onUpdate`.
    ToolUpdate(ToolUpdate),
    /// Realm to host: the result or the error of a tool.
    ToolResult(ToolResult),
    /// Host to realm: run a slash command.
    SlashCommand(SlashCommand),
    /// Realm to host: a slash command has ended.
    SlashResult(SlashResult),
    /// Host to realm: one event for one handler.
    EventHook(EventHook),
    /// Realm to host: the result of a handler.
    EventResult(EventResult),
    /// Host to realm: call a function of the realm.
    Callback(Callback),
    /// Realm to host: an update of a callback before its result.
    CallbackUpdate(CallbackUpdate),
    /// Realm to host: the result or the error of a callback.
    CallbackResult(CallbackResult),
    /// Host to realm: other realms have replaced this one. Running code may finish; `pi` and contexts no longer work.
    Retired {},
    /// Realm to host: a hostcall.
    HostCall(HostCall),
    /// Realm to host: cancel a call whose answer is no longer needed; idempotent.
    HostCallCancel {
        /// The call to cancel.
        call_id: CallId,
    },
    /// Host to realm: the answer to a hostcall, or a chunk of it.
    HostResult(HostResult),
    /// Realm to host: a `stream_text` handler threw or returned an invalid value. This counts as *continue* and as a strike;
    /// later handlers were called.
    StreamFault {
        /// The handler.
        handler: Handle,
        /// The exception; absent if the handler's promise waits for I/O, which is not a strike.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<ErrorReport>,
    },
    /// Host to realm: a `stream_text` handler has used up its strikes and must not be called again.
    HandlerMuted {
        /// The handler.
        handler: Handle,
    },
    /// Host to realm: an abort signal of the host has fired.
    SignalAborted {
        /// Number of the signal.
        signal: u32,
    },
    /// Realm to host: arm a timer.
    TimerSet {
        /// Id of the new timer.
        timer: TimerId,
        /// Delay in milliseconds; the loop clamps it to at least 0.
        #[serde(deserialize_with = "crate::number::fraction")]
        delay_ms: f64,
        /// Whether the timer repeats.
        repeat: bool,
    },
    /// Realm to host: disarm a timer.
    TimerClear {
        /// Id of the timer; an unknown id is ignored.
        timer: TimerId,
    },
    /// Host to realm: a timer is due.
    TimerFired {
        /// Id of the timer.
        timer: TimerId,
    },
    /// Realm to host: `pi.events.emit`, for the other realms.
    BusEmit(BusEvent),
    /// Host to realm: an emission of another realm.
    BusEvent(BusEvent),
    /// Realm to host: console output and other log records.
    Log(LogEntry),
    /// Realm to host: an unhandled error.
    Error(ErrorReport),
}

/// `load.payload`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Load {
    /// Index of the entry.
    pub entry: EntryIndex,
    /// Module specifier inside the artifact.
    pub module: String,
    /// Path shown in errors, inside the package or as the user gave it.
    pub path: String,
    /// Extension that the entry belongs to.
    pub extension: ExtensionId,
    /// Folder of the package, for the paths of its modules. Reading below it needs no consent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
}

/// `tool_call.payload`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCall {
    /// Id from the model.
    pub tool_call_id: String,
    /// Entry that registered the tool.
    pub entry: EntryIndex,
    /// Handle of `execute`.
    pub handle: Handle,
    /// Tool name.
    pub name: String,
    /// Validated arguments.
    pub input: Value,
    /// Abort signal of the run, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<u32>,
}

/// `tool_update.payload`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolUpdate {
    /// Id of the tool call.
    pub tool_call_id: String,
    /// `{content, details}`.
    pub partial: Value,
}

/// `tool_result.payload`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolResult {
    /// Id of the tool call.
    pub tool_call_id: String,
    /// `{content, details, terminate?}` as the tool returned it; `null` if the tool threw.
    pub output: Value,
    /// Whether the tool threw.
    pub is_error: bool,
    /// The exception; absent if the tool did not throw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorReport>,
}

/// `slash_command.payload`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SlashCommand {
    /// Id that the result repeats.
    pub slash_command_id: String,
    /// Entry that registered the command.
    pub entry: EntryIndex,
    /// Handle of `handler`.
    pub handle: Handle,
    /// Invocation name.
    pub name: String,
    /// Text after the single space that follows the name, untrimmed.
    pub args: String,
}

/// `slash_result.payload`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlashResult {
    /// Id of the command's call.
    pub slash_command_id: String,
    /// The exception of the handler; absent if the handler did not throw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorReport>,
}

/// Events at the start of a session: the first model request waits until their handlers have returned.
pub const START_EVENTS: [&str; 2] = ["session_start", "resources_discover"];

/// `event_hook.payload`: one event for one handler. The host calls the handlers in load order, then registration order, and
/// combines their answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EventHook {
    /// Id that the result repeats.
    pub event_id: EventId,
    /// Entry that registered the handler.
    pub entry: EntryIndex,
    /// Handle of the handler.
    pub handle: Handle,
    /// Event name.
    pub event: String,
    /// The event object without `type`; a signal member is `{"$signal": n}`.
    pub payload: Map<String, Value>,
    /// Top-level members that the handler may change in place; sent back only if they differ.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mutable: Vec<String>,
}

/// `event_result.payload`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EventResult {
    /// Id of the delivery.
    pub event_id: EventId,
    /// Return value of the handler; absent for `undefined`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// Mutable members that the handler changed in place.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub changed: Map<String, Value>,
    /// The exception of the handler; absent if the handler did not throw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorReport>,
}

/// `callback.payload`: a renderer, a completion function, a component method.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Callback {
    /// Id that the result repeats.
    pub callback_id: String,
    /// Entry that the function belongs to.
    pub entry: EntryIndex,
    /// Handle of the function.
    pub handle: Handle,
    /// Arguments as JSON values.
    pub args: Vec<Value>,
}

/// `callback_update.payload`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallbackUpdate {
    /// Id of the callback's call.
    pub callback_id: String,
    /// Value of the update.
    pub value: Value,
}

/// `callback_result.payload`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallbackResult {
    /// Id of the callback's call.
    pub callback_id: String,
    /// The return value; absent for `undefined`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// The exception; absent if the function did not throw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorReport>,
}

/// One emission on the event bus. Data is copied; functions inside it are an error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BusEvent {
    /// Channel name.
    pub channel: String,
    /// Payload.
    pub data: Value,
}

/// `error.payload`: an extension error with its TypeScript position.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorReport {
    /// Entry that the code belongs to, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<EntryIndex>,
    /// Phase of the error: `load`, the event name, `tool`, `command`, `timer`, `unhandled_rejection`, ...
    pub phase: String,
    /// Class name of the error, such as `TypeError`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// First line of a thrown error; for other thrown values, their text.
    pub message: String,
    /// Stack with bundle positions from the realm; the host replaces them with source positions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<String>,
    /// Innermost frame in the extension's own source, filled in by the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<Position>,
}

/// A position in a source file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Position {
    /// Path inside the package.
    pub file: String,
    /// Line, 1-based.
    pub line: u32,
    /// Column, 1-based.
    pub column: u32,
}
