//! Work that other threads send to the agent's thread.
//!
//! Connectors run on any thread; sessions, extensions and front ends live on the agent's. An [`AgentTask`] is sent through a
//! channel. [`Agent::attend`](crate::Agent::attend) receives it concurrently with the agent's own work, each task as a separate
//! future, so that a command that waits for `ctx.newSession()` does not block itself.

use crate::extensions::Event;
use pijs_connectors::ports::SessionCall;
use pijs_hostcall::{CancelToken, ChunkSink};
use pijs_inputs::{Authored, DeliverAs};
use pijs_llm::message::Message;
use pijs_llm::provider::{Model, Outgoing, ProviderError, ProviderEvent};
use pijs_protocol::{ExtensionId, HostcallError};
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// The receiving end of a [`Mailbox`].
pub(crate) type TaskInbox = mpsc::UnboundedReceiver<AgentTask>;

/// The channel to the agent's thread.
pub(crate) struct Mailbox {
    sender: mpsc::UnboundedSender<AgentTask>,
    /// The receiving end, until the agent takes it.
    inbox: Option<TaskInbox>,
}

impl Default for Mailbox {
    fn default() -> Self {
        let (sender, inbox) = mpsc::unbounded_channel();
        Self { sender, inbox: Some(inbox) }
    }
}

impl Mailbox {
    /// Sends work. Without an agent the work is dropped.
    pub(crate) fn send(&self, work: AgentTask) {
        let _ = self.sender.send(work);
    }

    pub(crate) fn take_inbox(&mut self) -> Option<TaskInbox> {
        self.inbox.take()
    }
}

/// Work for the agent's thread.
pub(crate) enum AgentTask {
    /// A hostcall of an extension, with a sender for the result.
    Call(ExtensionId, SessionCall, oneshot::Sender<Result<Value, HostcallError>>),
    /// A model request of an extension.
    Ask(ModelRequest),
    /// A scheduled run, with the extension that triggered it.
    Run(Option<ExtensionId>),
    /// `sendUserMessage` during a run, with a flag that enables commands and templates. A message without a queue is refused
    /// after the `input` handlers have seen it.
    HandleInput(Authored, Option<DeliverAs>, bool),
    /// `sendUserMessage` while another prompt is about to start, with the extension that called it. Both prompts are processed in
    /// the same way, and the first one to arrive starts a run.
    Contend(Option<ExtensionId>, Authored, bool),
    /// A request to a model of an extension.
    Stream(StreamRequest),
    /// An event for extensions, except for the given one, which calls its own handlers.
    Emit(Event, Option<ExtensionId>),
    /// A message was appended outside of a run; front ends are notified.
    Shown(Message),
    /// An event for front ends only.
    Notice(&'static str, Value),
    /// An event for front ends that lists the queued messages, and its size in bytes.
    Waiting(Value, usize),
    /// Completed when all earlier work has begun.
    Barrier(oneshot::Sender<()>),
}

/// A model request for the agent's thread.
pub(crate) struct ModelRequest {
    pub(crate) extension: ExtensionId,
    pub(crate) params: Map<String, Value>,
    /// Whether the request may go to a model that the extension describes, at any address.
    pub(crate) elsewhere: bool,
    /// Sink for pieces of the reply, when the extension streams it.
    pub(crate) pieces: Option<ChunkSink>,
    /// Cancelled when no caller waits for the reply.
    pub(crate) cancel: CancelToken,
    pub(crate) done: oneshot::Sender<Result<Value, HostcallError>>,
}

/// A request to a model of an extension, for the agent's thread.
pub(crate) struct StreamRequest {
    pub(crate) model: Model,
    pub(crate) outgoing: Outgoing,
    pub(crate) cancel: CancellationToken,
    pub(crate) events: mpsc::UnboundedSender<Result<ProviderEvent, ProviderError>>,
}
