//! Events for front ends: pi's agent events and those of streamed verdicts.
//!
//! The stream is consistent whatever a verdict does: each `message_start` of a reply is followed by updates and then by exactly
//! one of `message_end` and `message_discarded`. The delta that caused a verdict is in no event.

use pijs_llm::message::{Message, ToolResultMessage};
use pijs_llm::partial::PartialMessage;
use pijs_llm::update::{Update, UpdateKind};
use pijs_protocol::StreamSource;
use pijs_session_store::Header;
use serde_json::{Map, Value, json};

/// An event of a session.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentEvent<'a> {
    /// The header of the session, the first line of json mode.
    Session(&'a Header),
    /// A run has begun.
    AgentStart,
    /// A run has ended.
    AgentEnd {
        /// Messages that the run added.
        messages: &'a [Message],
        /// Whether the last reply failed and is retried. Not sent to extensions.
        will_retry: bool,
    },
    /// A turn begins: one reply of the model with its tool calls.
    TurnStart {
        /// Index in the run, from 0.
        index: u32,
        /// Milliseconds since 1970.
        timestamp: u64,
    },
    /// A turn has ended.
    TurnEnd {
        /// Index in the run, from 0.
        index: u32,
        /// The reply.
        message: &'a Message,
        /// Results of the tool calls.
        tool_results: &'a [ToolResultMessage],
    },
    /// A message begins.
    MessageStart {
        /// The message so far.
        message: &'a Message,
    },
    /// A part of a reply passed all verdicts.
    MessageUpdate {
        /// The message so far.
        message: PartialMessage<'a>,
        /// The change.
        update: Update<'a>,
    },
    /// A message is complete and part of the conversation.
    MessageEnd {
        /// The message.
        message: &'a Message,
    },
    /// A tool is about to be checked and run.
    ToolExecutionStart {
        /// Id of the tool call.
        tool_call_id: &'a str,
        /// Name of the tool.
        tool_name: &'a str,
        /// Arguments from the model, before validation.
        args: &'a Value,
    },
    /// A tool has a partial result.
    ToolExecutionUpdate {
        /// Id of the tool call.
        tool_call_id: &'a str,
        /// Name of the tool.
        tool_name: &'a str,
        /// Arguments from the model, before validation.
        args: &'a Value,
        /// Partial result: `{content, details}`.
        partial_result: &'a Value,
    },
    /// A tool call has ended.
    ToolExecutionEnd {
        /// Id of the tool call.
        tool_call_id: &'a str,
        /// Name of the tool.
        tool_name: &'a str,
        /// Result: `{content, details}`.
        result: &'a Value,
        /// Whether the call failed.
        is_error: bool,
    },
    /// A request failed and is retried.
    AutoRetryStart {
        /// Number of the retry, from 1.
        attempt: u32,
        /// Maximum number of retries.
        max_attempts: u32,
        /// Delay before the retry.
        delay_ms: u64,
        /// Error message of the provider's client.
        error_message: &'a str,
        /// Address, proxy and cause, for users. Not part of the serialised event.
        cause: Option<&'a str>,
    },
    /// A handler returned an abort.
    StreamVerdict(&'a VerdictEvent),
    /// A native rule fired.
    RuleFired(&'a RuleFiredEvent),
    /// An event for front ends only: `queue_update`, `compaction_start`, `agent_settled`, ...
    Notice {
        /// Name in pi's vocabulary.
        name: &'static str,
        /// Members of the event.
        payload: &'a Value,
    },
    /// A verdict discarded the reply, which is not a part of the conversation.
    MessageDiscarded {
        /// Number of the attempt in the session.
        attempt: u32,
        /// Always `stream_verdict`.
        reason: &'a str,
        /// Extension of the verdict.
        extension: &'a str,
        /// Output tokens of the discarded reply; estimated when the provider does not report them.
        tokens_burned: u64,
    },
}

/// The event `stream_verdict`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerdictEvent {
    /// Extension of the handler.
    pub extension: String,
    /// Stream of the delta that caused it.
    pub source: StreamSource,
    /// Length of this stream before the delta, in UTF-16 units: `accumulated.length`.
    pub offset: usize,
    /// Time spent in handlers of the delta.
    pub latency_us: u64,
    /// Number of the attempt in the session.
    pub attempt: u32,
    /// The agent's reaction to the verdict.
    pub action: VerdictAction,
}

/// The event `rule_fired`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleFiredEvent {
    /// Name of the rule.
    pub rule: String,
    /// Stream in which it matched.
    pub source: StreamSource,
    /// Tool of the matched arguments, for [`StreamSource::Tool`].
    pub tool: Option<String>,
    /// Path in the arguments of the tool call.
    pub path: Option<String>,
    /// The matched line.
    pub excerpt: String,
    /// Line number in the text, from 1.
    pub line: usize,
    /// Column of the end of the match in characters, from 1.
    pub column: usize,
    /// The agent's reaction to the rule.
    pub action: VerdictAction,
    /// Reason why an interrupting rule was downgraded to a reminder; `None` if it was not.
    pub degraded: Option<String>,
}

impl RuleFiredEvent {
    /// Describes the firing for users, in one line.
    pub fn line(&self) -> String {
        let action = match self.action {
            VerdictAction::Remind => "reminded the model",
            VerdictAction::Retry | VerdictAction::Stop => "stopped the reply",
        };
        let reason = self.degraded.as_ref().map_or_else(String::new, |reason| format!(" ({reason})"));
        format!("rule {} {action}{reason}: {}", self.rule, self.excerpt.trim())
    }

    fn payload(&self) -> Value {
        let mut members = json!({
            "rule": self.rule, "source": self.source, "excerpt": self.excerpt, "line": self.line, "column": self.column,
            "action": self.action.as_str(),
        });
        for (name, value) in [("toolName", &self.tool), ("path", &self.path), ("degraded", &self.degraded)] {
            if let Some(value) = value {
                members[name] = json!(value);
            }
        }
        members
    }
}

/// Actions of the agent after a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerdictAction {
    /// The reply is discarded, the text injected, and another attempt made.
    Retry,
    /// The reply is discarded and the run ends, since there is no text to inject.
    Stop,
    /// A cap was reached: the reply continues, and the text is added to the next request.
    Remind,
}

impl VerdictAction {
    /// Returns the name in events.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Stop => "stop",
            Self::Remind => "remind",
        }
    }
}

impl AgentEvent<'_> {
    /// Returns the name in pi's vocabulary.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Session(_) => "session",
            Self::AgentStart => "agent_start",
            Self::AgentEnd { .. } => "agent_end",
            Self::TurnStart { .. } => "turn_start",
            Self::TurnEnd { .. } => "turn_end",
            Self::MessageStart { .. } => "message_start",
            Self::MessageUpdate { .. } => "message_update",
            Self::MessageEnd { .. } => "message_end",
            Self::ToolExecutionStart { .. } => "tool_execution_start",
            Self::ToolExecutionUpdate { .. } => "tool_execution_update",
            Self::ToolExecutionEnd { .. } => "tool_execution_end",
            Self::AutoRetryStart { .. } => "auto_retry_start",
            Self::StreamVerdict(_) => "stream_verdict",
            Self::RuleFired(_) => "rule_fired",
            Self::MessageDiscarded { .. } => "message_discarded",
            Self::Notice { name, .. } => name,
        }
    }

    /// Returns the name of the event for extensions, unless it is for front ends only.
    pub fn extension_event(&self) -> Option<&'static str> {
        match self {
            Self::Session(_)
            | Self::AutoRetryStart { .. }
            | Self::StreamVerdict(_)
            | Self::MessageDiscarded { .. }
            | Self::Notice { .. } => None,
            other => Some(other.name()),
        }
    }

    /// Returns the members without `type`, for extensions.
    pub fn payload(&self) -> Map<String, Value> {
        let value = match self {
            Self::Session(header) => json!(header),
            Self::AgentStart => json!({}),
            Self::AgentEnd { messages, .. } => json!({"messages": messages}),
            Self::TurnStart { index, timestamp } => json!({"turnIndex": index, "timestamp": timestamp}),
            Self::TurnEnd { index, message, tool_results } => {
                let results: Vec<Value> =
                    tool_results.iter().map(|result| Message::ToolResult(result.clone()).to_value()).collect();
                json!({"turnIndex": index, "message": message, "toolResults": results})
            }
            Self::MessageStart { message } | Self::MessageEnd { message } => json!({"message": message}),
            Self::Notice { payload, .. } => (*payload).clone(),
            Self::MessageUpdate { message, update } => {
                let partial = Message::Assistant(message.so_far()).to_value();
                let mut event = update.to_map();
                event.insert("partial".to_owned(), partial.clone());
                json!({"message": partial, "assistantMessageEvent": event})
            }
            Self::ToolExecutionStart { tool_call_id, tool_name, args } => {
                json!({"toolCallId": tool_call_id, "toolName": tool_name, "args": args})
            }
            Self::ToolExecutionUpdate { tool_call_id, tool_name, args, partial_result } => {
                json!({"toolCallId": tool_call_id, "toolName": tool_name, "args": args, "partialResult": partial_result})
            }
            Self::ToolExecutionEnd { tool_call_id, tool_name, result, is_error } => {
                json!({"toolCallId": tool_call_id, "toolName": tool_name, "result": result, "isError": is_error})
            }
            Self::AutoRetryStart { attempt, max_attempts, delay_ms, error_message, .. } => json!({
                "attempt": attempt, "maxAttempts": max_attempts, "delayMs": delay_ms, "errorMessage": error_message,
            }),
            Self::StreamVerdict(verdict) => json!({
                "extension": verdict.extension, "source": verdict.source, "offset": verdict.offset,
                "latency_us": verdict.latency_us, "attempt": verdict.attempt, "action": verdict.action.as_str(),
            }),
            Self::RuleFired(event) => event.payload(),
            Self::MessageDiscarded { attempt, reason, extension, tokens_burned } => json!({
                "attempt": attempt, "reason": reason, "extension": extension, "tokens_burned": tokens_burned,
            }),
        };
        match value {
            Value::Object(members) => members,
            _ => unreachable!("every payload is an object"),
        }
    }

    /// Returns the members of an update for extensions whose realms know the message up to the previous update: only the change.
    /// A realm reassembles the message (`pi:pi/growing-message`); `number` counts the updates.
    pub(crate) fn growth(
        message: PartialMessage<'_>,
        update: Update<'_>,
        number: u64,
        is_known: bool,
    ) -> Map<String, Value> {
        // The first delta of a block also carries its beginning.
        let is_piece = match update.kind {
            UpdateKind::TextDelta(piece) | UpdateKind::ThinkingDelta(piece) => !message.is_all(update.index, piece),
            _ => false,
        };
        let mut grows = json!({"number": number});
        let mut members = Map::new();
        if !is_known {
            members.insert("message".to_owned(), Message::Assistant(message.so_far()).to_value());
        } else {
            grows["head"] = message.head();
            if !is_piece {
                grows["block"] = message.block(update.index);
            }
        }
        members.insert("assistantMessageEvent".to_owned(), update.to_map().into());
        members.insert("$grows".to_owned(), grows);
        members
    }

    /// Returns the event in the format of pi's json and RPC modes; `None` for events that these omit.
    ///
    /// An update contains the change and the usage so far, but not the message, so that the output is linear in the length of the
    /// reply.
    pub fn record(&self) -> Option<Value> {
        let mut members = match self {
            // Clients learn about another session from the response to their command, or from its header.
            Self::Notice { name: "session_replaced", .. } => return None,
            Self::TurnStart { .. } => Map::new(),
            Self::MessageUpdate { message, update } => {
                let mut event = update.to_map();
                if let (UpdateKind::ToolCallStart, Some(call)) = (update.kind, message.call(update.index)) {
                    event.insert("id".to_owned(), call.id.clone().into());
                    event.insert("toolName".to_owned(), call.name.clone().into());
                }
                Map::from_iter([
                    ("usage".to_owned(), json!(message.usage())),
                    ("assistantMessageEvent".to_owned(), event.into()),
                ])
            }
            Self::AgentEnd { will_retry, .. } => {
                let mut members = self.payload();
                members.insert("willRetry".to_owned(), (*will_retry).into());
                members
            }
            other => other.payload(),
        };
        members.shift_remove("turnIndex");
        let mut record = Map::from_iter([("type".to_owned(), Value::from(self.name()))]);
        record.extend(members);
        Some(record.into())
    }
}
