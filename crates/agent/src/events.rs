//! What front ends see: pi's agent events, and the two of the streamed verdict.
//!
//! The stream is consistent whatever a verdict does: each `message_start` of an assistant message is
//! followed by updates and then by exactly one of `message_end` and `message_discarded`. The delta
//! that tripped a verdict is in no event.

use pijs_llm::message::{Message, ToolResultMessage};
use pijs_llm::partial::PartialMessage;
use pijs_llm::update::{Update, UpdateKind};
use pijs_protocol::StreamSource;
use pijs_session_store::Header;
use serde_json::{Map, Value, json};

/// One event of a session.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentEvent<'a> {
    /// The first line of json mode: the session's header.
    Session(&'a Header),
    /// A run begins.
    AgentStart,
    /// A run has ended.
    AgentEnd {
        /// What it added to the conversation.
        messages: &'a [Message],
        /// Whether its reply failed and is asked for again. Extensions are not told.
        will_retry: bool,
    },
    /// A turn begins: one reply of the model and its tools.
    TurnStart {
        /// 0 for the first of a run.
        index: u32,
        /// Milliseconds since 1970.
        timestamp: u64,
    },
    /// A turn has ended.
    TurnEnd {
        /// 0 for the first of a run.
        index: u32,
        /// The reply.
        message: &'a Message,
        /// What its tools answered.
        tool_results: &'a [ToolResultMessage],
    },
    /// A message begins.
    MessageStart {
        /// As far as it is there.
        message: &'a Message,
    },
    /// More of an assistant message was let through.
    MessageUpdate {
        /// All of it so far.
        message: PartialMessage<'a>,
        /// What is new.
        update: Update<'a>,
    },
    /// A message is complete and part of the conversation.
    MessageEnd {
        /// The message.
        message: &'a Message,
    },
    /// A tool is about to be checked and run.
    ToolExecutionStart {
        /// Id from the model.
        tool_call_id: &'a str,
        /// Name of the tool.
        tool_name: &'a str,
        /// As the model gave them.
        args: &'a Value,
    },
    /// A tool has a partial result.
    ToolExecutionUpdate {
        /// Id from the model.
        tool_call_id: &'a str,
        /// Name of the tool.
        tool_name: &'a str,
        /// As the model gave them.
        args: &'a Value,
        /// `{content, details}`.
        partial_result: &'a Value,
    },
    /// A tool has ended.
    ToolExecutionEnd {
        /// Id from the model.
        tool_call_id: &'a str,
        /// Name of the tool.
        tool_name: &'a str,
        /// `{content, details}`.
        result: &'a Value,
        /// Whether it failed.
        is_error: bool,
    },
    /// The provider failed and is asked again.
    AutoRetryStart {
        /// 1 for the first.
        attempt: u32,
        /// After this many nobody asks again.
        max_attempts: u32,
        /// How long is waited.
        delay_ms: u64,
        /// The error, in the words of the provider's client.
        error_message: &'a str,
        /// The address, the proxy and the cause, for people. No event has it.
        cause: Option<&'a str>,
    },
    /// A handler asked for an abort.
    StreamVerdict(&'a VerdictEvent),
    /// A native rule fired.
    RuleFired(&'a RuleFiredEvent),
    /// Something that only front ends hear: `queue_update`, `compaction_start`, `agent_settled`, ...
    Notice {
        /// pi's name.
        name: &'static str,
        /// Its members.
        payload: &'a Value,
    },
    /// The reply that a verdict stopped is forgotten: it is no part of the conversation.
    MessageDiscarded {
        /// Counts attempts of the session.
        attempt: u32,
        /// `stream_verdict`.
        reason: &'a str,
        /// Whose verdict.
        extension: &'a str,
        /// Output tokens that were paid for and thrown away; estimated when the provider did not say.
        tokens_burned: u64,
    },
}

/// `stream_verdict`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerdictEvent {
    /// Whose handler.
    pub extension: String,
    /// Which kind of delta tripped it.
    pub source: StreamSource,
    /// How much of this source had been let through, in UTF-16 units: `accumulated.length` before
    /// the delta that tripped.
    pub offset: usize,
    /// Time in handlers on that delta.
    pub latency_us: u64,
    /// Counts attempts of the session.
    pub attempt: u32,
    /// The agent's reaction.
    pub action: VerdictAction,
}

/// `rule_fired`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleFiredEvent {
    /// The rule's name.
    pub rule: String,
    /// The stream that it matched in.
    pub source: StreamSource,
    /// The tool whose arguments they are, on [`StreamSource::Tool`].
    pub tool: Option<String>,
    /// A path of the tool call.
    pub path: Option<String>,
    /// The line that matched.
    pub excerpt: String,
    /// The line's number in its text, counted from 1.
    pub line: usize,
    /// The column at which the match ends, in characters, counted from 1.
    pub column: usize,
    /// The agent's reaction.
    pub action: VerdictAction,
    /// Why it only reminds although it would interrupt here.
    pub degraded: Option<String>,
}

impl RuleFiredEvent {
    /// Describes the firing to a person, in one line.
    pub fn line(&self) -> String {
        let action = match self.action {
            VerdictAction::Remind => "reminds the model",
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

/// What the agent did about a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerdictAction {
    /// Discarded, injected, tried again.
    Retry,
    /// Discarded, and the run ended: the handler gave nothing to inject.
    Stop,
    /// A cap was reached: the text was let through and the content goes with the next request.
    Remind,
}

impl VerdictAction {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Stop => "stop",
            Self::Remind => "remind",
        }
    }
}

impl AgentEvent<'_> {
    /// pi's name of the event.
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

    /// The name under which extensions hear it, if they do.
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

    /// The members without `type`, as extensions get them.
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

    /// The members of an update for extensions whose realms know the message up to the update before this one: what is new.
    /// A realm puts the message together (`pi:pi/growing-message`); `number` counts the updates that extensions are told.
    pub(crate) fn growth(
        message: PartialMessage<'_>,
        update: Update<'_>,
        number: u64,
        is_known: bool,
    ) -> Map<String, Value> {
        // A block begins with its first piece.
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

    /// The event as pi's json and RPC modes write it; `None` for those that they leave out.
    ///
    /// An update holds what is new and the usage so far, never the message: the lines of a reply grow with its length.
    pub fn record(&self) -> Option<Value> {
        let mut members = match self {
            // Clients learn of another session from the answer to their command, or from its header.
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
