//! The events that the machine takes, and the effects that it returns.

use crate::{Authored, DeliverAs};
use pijs_llm::message::{BashExecution, CustomMessage, Message};
use pijs_protocol::ExtensionId;
use std::collections::BTreeSet;
use std::fmt;

/// Something that happened to the inputs of a session.
#[derive(Debug, Clone, PartialEq)]
pub enum InputEvent {
    /// The user submits a prompt: the runs that extensions trigger are counted anew.
    Prompt,
    /// An extension has triggered a run, and it begins.
    Triggered,
    /// A custom message sent by an extension (`sendMessage`).
    Message {
        /// The message.
        message: CustomMessage,
        /// The queue that it names.
        deliver_as: Option<DeliverAs>,
        /// Whether the message requests a turn.
        trigger_turn: Option<bool>,
        /// The extension that sends it.
        sender: Option<ExtensionId>,
    },
    /// A user message sent by an extension (`sendUserMessage`).
    UserMessage {
        /// Content of the message.
        content: Authored,
        /// The queue that it names.
        deliver_as: Option<DeliverAs>,
        /// Whether commands and templates count in it.
        expand: bool,
        /// The extension that sends it.
        sender: Option<ExtensionId>,
    },
    /// A message is ready for the current run: handlers of `input` have seen it.
    Queue {
        /// The message.
        message: Message,
        /// Queue of the message.
        deliver_as: DeliverAs,
    },
    /// A shell command of the user has ended.
    Bash {
        /// Extensions that answered in the place of the shell.
        authors: BTreeSet<String>,
        /// The command and its output.
        execution: BashExecution,
    },
    /// The run, and all summaries, are to end.
    Abort,
    /// The run is not to ask the model again.
    AbortRetry,
    /// The user takes the waiting messages back.
    Clear,
    /// The agent takes messages out of a queue: the next message of a queue for a run, all messages of another queue.
    Take(Queue),
    /// A message that a run has taken begins: it waits no longer.
    Spoken {
        /// Text of the input.
        text: String,
    },
    /// Front ends were shown the queues.
    Shown {
        /// Size that [`InputEffect::ShowQueues`] had.
        bytes: usize,
    },
    /// Another session is in place of this one.
    SessionReplaced,
    /// A run begins.
    RunBegan,
    /// The turns are over, and the run goes on without waiting for the handlers of `agent_end`.
    AgentEndBegan,
    /// Handlers of `agent_end` have been called.
    AgentEndEnded,
    /// The run pauses before it asks the model again.
    RetryBegan,
    /// The pause is over.
    RetryEnded,
    /// The run has ended.
    RunEnded,
    /// The run that was scheduled first is over, or dropped.
    TriggeredRunEnded,
    /// A compaction or a summary of a branch begins.
    SummaryBegan,
    /// A compaction or a summary of a branch has ended.
    SummaryEnded,
    /// An input enters a stage.
    Begin(Stage),
    /// An input leaves a stage.
    End(Stage),
    /// A caller joins a line.
    Enter(Line),
    /// A caller leaves a line, whether it is first or not.
    Leave(Line, u64),
}

impl InputEvent {
    /// Returns whether waiting callers may continue after this event.
    pub fn releases(&self) -> bool {
        matches!(
            self,
            Self::AbortRetry
                | Self::RunEnded
                | Self::TriggeredRunEnded
                | Self::SummaryEnded
                | Self::Leave(..)
                | Self::End(
                    Stage::Rejecting
                        | Stage::Contending
                        | Stage::Starting
                        | Stage::Settling
                        | Stage::Delivering
                        | Stage::Announcing
                )
        )
    }
}

/// Stages in which an input, or an event that it causes, waits for extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// A message was sent that the agent has not read.
    Unread,
    /// Handlers of `input` see a message that names no queue; it is refused afterwards.
    Rejecting,
    /// A prompt arrived while another one was about to start; handlers of `input` see it.
    Contending,
    /// A prompt is about to begin: handlers of `before_agent_start` run.
    Starting,
    /// Handlers of `agent_settled` run. Callers that wait for the end of the run wait for them as well.
    Settling,
    /// A message was sent for a queue and is not in it yet.
    Delivering,
    /// An event was caused by a call of an extension, and its handlers have not all run.
    Announcing,
}

impl Stage {
    /// All stages.
    pub const ALL: [Self; 7] = [
        Self::Unread,
        Self::Rejecting,
        Self::Contending,
        Self::Starting,
        Self::Settling,
        Self::Delivering,
        Self::Announcing,
    ];
    pub(crate) const COUNT: usize = Self::ALL.len();
}

/// Queues of callers that act one at a time, in order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line {
    /// A prompt of an extension is passed to the handlers of `input`.
    Input,
    /// A prompt begins. The prompt whose handlers of `before_agent_start` ran first runs first.
    Start,
    /// A run that an extension triggered is active.
    Run,
}

impl Line {
    /// All lines.
    pub const ALL: [Self; 3] = [Self::Input, Self::Start, Self::Run];
}

/// Queues of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// For the next request of the run.
    Steering,
    /// For the end of the run.
    FollowUp,
    /// For the next prompt.
    NextTurn,
    /// Messages without a turn of their own, for the end of the turn.
    AfterTurn,
    /// Shell commands of the user, for the end of the run.
    AfterRun,
}

/// Something that the caller of the machine carries out.
#[derive(Debug, Clone, PartialEq)]
pub enum InputEffect {
    /// The message is added to the session without a reply.
    Append(CustomMessage),
    /// The shell command goes into the session.
    AppendBash {
        /// Extensions that answered in the place of the shell.
        authors: BTreeSet<String>,
        /// The command and its output.
        execution: BashExecution,
    },
    /// The input is refused.
    Refuse(Refusal),
    /// A run is scheduled for this extension, or without one.
    ScheduleRun {
        /// The extension.
        sender: Option<ExtensionId>,
    },
    /// The message is passed to the handlers of `input`, and then added to its queue, or refused when it names none.
    Hear {
        /// Content of the message.
        content: Authored,
        /// The queue that it names.
        deliver_as: Option<DeliverAs>,
        /// Whether commands and templates count in it.
        expand: bool,
    },
    /// The prompt is passed to the handlers of `input` while another one is about to start. Both are handled alike, and the first
    /// that arrives is answered.
    Contend {
        /// Content of the message.
        content: Authored,
        /// Whether commands and templates count in it.
        expand: bool,
        /// The extension that sends it.
        sender: Option<ExtensionId>,
    },
    /// The message was taken out of its queue.
    Give(Message),
    /// The run is cancelled.
    CancelRun,
    /// All summaries are cancelled.
    CancelSummaries,
    /// Extensions read this as `isIdle`.
    PublishIdle(bool),
    /// Extensions read this as `hasPendingMessages`.
    PublishPending(bool),
    /// Front ends are shown the queues.
    ShowQueues {
        /// Texts that steer.
        steering: Vec<String>,
        /// Texts that follow.
        follow_up: Vec<String>,
        /// Size of the messages in bytes.
        bytes: usize,
    },
    /// The place in a line.
    Ticket(u64),
}

/// Reasons to refuse a user message, in pi's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The message names the queue of the next turn.
    NoSuchQueue,
    /// The message names no queue while a run is active.
    Undelivered,
    /// Another one is about to begin.
    PromptInProgress,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSuchQueue => "sendUserMessage takes \"steer\" or \"followUp\"",
            Self::Undelivered => {
                "Agent is already processing. Specify streamingBehavior ('steer' or 'followUp') to queue the message."
            }
            Self::PromptInProgress => {
                "Agent is already processing a prompt. Use steer() or followUp() to queue messages, or wait for completion."
            }
        })
    }
}
