//! The events that the state machine accepts, and the effects that it returns.

use crate::{Authored, DeliverAs};
use pijs_llm::message::{BashExecution, CustomMessage, Message};
use pijs_protocol::ExtensionId;
use std::collections::BTreeSet;
use std::fmt;

/// An event that concerns the inputs of a session.
#[derive(Debug, Clone, PartialEq)]
pub enum InputEvent {
    /// The user submits a prompt, which resets the count of runs that extensions triggered.
    Prompt,
    /// A run that an extension triggered begins.
    Triggered,
    /// A custom message sent by an extension (`sendMessage`).
    Message {
        /// The message.
        message: CustomMessage,
        /// The requested queue.
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
        /// The requested queue.
        deliver_as: Option<DeliverAs>,
        /// Whether commands and templates in the content are expanded.
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
        /// Extensions that handled the command instead of the shell.
        authors: BTreeSet<String>,
        /// The command and its output.
        execution: BashExecution,
    },
    /// The run and all summaries are cancelled.
    Abort,
    /// The run must not request another reply from the model.
    AbortRetry,
    /// The user removes the waiting messages from the queues.
    Clear,
    /// The agent takes messages from a queue: the next message of [`Queue::Steering`] and [`Queue::FollowUp`], all messages of
    /// the other queues.
    Take(Queue),
    /// A message that a run has taken is added to the conversation and stops waiting.
    Spoken {
        /// Text of the input.
        text: String,
    },
    /// Front ends have received a report of the queues.
    Shown {
        /// Size of the report, as in [`InputEffect::ShowQueues`].
        bytes: usize,
    },
    /// The session was replaced by another one.
    SessionReplaced,
    /// A run begins.
    RunBegan,
    /// The turns have ended, and the run continues without waiting for the handlers of `agent_end`.
    AgentEndBegan,
    /// The handlers of `agent_end` have returned.
    AgentEndEnded,
    /// The run pauses before it sends the request to the model again.
    RetryBegan,
    /// The pause has ended.
    RetryEnded,
    /// The run has ended.
    RunEnded,
    /// The first scheduled run has ended, or was dropped.
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
    /// A caller leaves a line, at any position.
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
    /// A message was sent that the agent has not received.
    Unread,
    /// Handlers of `input` receive a message that names no queue; the message is refused afterwards.
    Rejecting,
    /// A prompt arrived while another one is about to start; handlers of `input` receive it.
    Contending,
    /// Handlers of `before_agent_start` run before a prompt begins.
    Starting,
    /// Handlers of `agent_settled` run. Callers that wait for the end of the run also wait for these handlers.
    Settling,
    /// A message was sent to a queue and has not arrived there.
    Delivering,
    /// A call of an extension caused an event whose handlers have not all run.
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
    /// Messages for the next request of the run.
    Steering,
    /// Messages for the end of the run.
    FollowUp,
    /// Messages for the next prompt.
    NextTurn,
    /// Messages that request no turn, for the end of the turn.
    AfterTurn,
    /// Shell commands of the user, for the end of the run.
    AfterRun,
}

/// An action that the caller of the state machine carries out.
#[derive(Debug, Clone, PartialEq)]
pub enum InputEffect {
    /// Add the message to the session without requesting a reply.
    Append(CustomMessage),
    /// Add the shell command to the session.
    AppendBash {
        /// Extensions that handled the command instead of the shell.
        authors: BTreeSet<String>,
        /// The command and its output.
        execution: BashExecution,
    },
    /// Refuse the input.
    Refuse(Refusal),
    /// Schedule a run for this extension; `None` for no extension.
    ScheduleRun {
        /// The extension.
        sender: Option<ExtensionId>,
    },
    /// Pass the message to the handlers of `input`; then add it to its queue, or refuse it if it names no queue.
    HandleInput {
        /// Content of the message.
        content: Authored,
        /// The requested queue.
        deliver_as: Option<DeliverAs>,
        /// Whether commands and templates in the content are expanded.
        expand: bool,
    },
    /// Pass the prompt to the handlers of `input` while another prompt is about to start. Both prompts are handled in the same
    /// way, and the first one that is ready is answered.
    Contend {
        /// Content of the message.
        content: Authored,
        /// Whether commands and templates in the content are expanded.
        expand: bool,
        /// The extension that sends it.
        sender: Option<ExtensionId>,
    },
    /// Hand the message, which was removed from its queue, to the caller.
    Give(Message),
    /// Cancel the run.
    CancelRun,
    /// Cancel all summaries.
    CancelSummaries,
    /// Publish `isIdle` to extensions.
    PublishIdle(bool),
    /// Publish `hasPendingMessages` to extensions.
    PublishPending(bool),
    /// Report the queues to front ends.
    ShowQueues {
        /// Texts of steering messages.
        steering: Vec<String>,
        /// Texts of follow-up messages.
        follow_up: Vec<String>,
        /// Size of the messages in bytes.
        bytes: usize,
    },
    /// The caller's ticket in a line.
    Ticket(u64),
}

/// Reasons to refuse a user message, with pi's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The message names the queue of the next turn.
    NoSuchQueue,
    /// The message names no queue while a run is active.
    Undelivered,
    /// Another prompt is about to begin.
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
