//! The loop: turns until the model is done.
//!
//! A turn is one reply that counts, and the tools it calls. A reply that a verdict stops does not
//! count: the turn goes on with what the verdict injects and another attempt. Steering messages go
//! in between turns, follow-up messages when the run would end.

use crate::agent::{Agent, AgentError, Ending, Outcome};
use crate::attempt::{Attempt, Reply};
use crate::control::VERDICT_TYPE;
use crate::events::AgentEvent;
use crate::message::{AssistantMessage, Content, CustomMessage, Message, StopReason};
use crate::provider::ErrorKind;
use crate::verdicts::Injected;
use pijs_protocol::stream::InjectionRole;
use serde_json::json;
use std::ops::ControlFlow;
use tokio_util::sync::CancellationToken;

/// A run in progress.
struct Run {
    cancel: CancellationToken,
    /// What the run adds to the conversation.
    messages: Vec<Message>,
    /// The last reply.
    reply: Option<AssistantMessage>,
}

impl Agent {
    /// Runs turns, beginning with these messages.
    pub(crate) async fn run(&self, prompts: Vec<Message>) -> Result<Outcome, AgentError> {
        if self.system_prompt.borrow().is_empty() {
            *self.system_prompt.borrow_mut() = self.base_prompt();
        }
        let cancel = CancellationToken::new();
        self.control.begin_run(cancel.clone());
        self.extensions.run_began();
        let mut run = Run { cancel: cancel.clone(), messages: Vec::new(), reply: None };
        let ending = {
            let turns = self.turns(&mut run, prompts);
            tokio::pin!(turns);
            tokio::select! {
                biased;
                () = cancel.cancelled() => {
                    self.extensions.run_aborted();
                    turns.await
                }
                ending = &mut turns => ending,
            }
        };
        if cancel.is_cancelled() {
            // The turns may have seen the token before we did. A signal that has fired stays as it is.
            self.extensions.run_aborted();
        }
        self.extensions.run_ended();
        self.control.end_run();
        let ending = ending?;
        self.emit(AgentEvent::AgentEnd { messages: &run.messages }).await?;
        Ok(self.outcome(ending, run.reply))
    }

    async fn turns(&self, run: &mut Run, prompts: Vec<Message>) -> Result<Ending, AgentError> {
        self.emit(AgentEvent::AgentStart).await?;
        let mut incoming = prompts;
        for index in 0..self.options.max_turns {
            self.emit(AgentEvent::TurnStart { index, timestamp: self.now() }).await?;
            for message in std::mem::take(&mut incoming) {
                self.say(run, message).await?;
            }
            self.verdicts.borrow_mut().begin_turn();
            let reply = match self.reply(run).await? {
                ControlFlow::Continue(reply) => reply,
                ControlFlow::Break(ending) => return Ok(ending),
            };
            let error = reply.error;
            let message = self.end_message(Message::Assistant(reply.message)).await?;
            run.messages.push(message.clone());
            let Message::Assistant(assistant) = &message else { unreachable!("message_end keeps the role") };
            run.reply = Some(assistant.clone());
            if let Some(error) = error {
                self.emit(AgentEvent::TurnEnd { index, message: &message, tool_results: &[] }).await?;
                self.control.sync_session()?;
                let aborted = error.kind() == ErrorKind::Cancelled;
                return Ok(if aborted { Ending::Aborted } else { Ending::Failed(error) });
            }
            // What a tool does cannot be undone: the request for it is on the disk first.
            self.control.sync_session()?;
            let batch = self.run_tools(assistant, &reply.bad_arguments, &run.cancel).await?;
            let mut results = Vec::new();
            for result in batch.results {
                let message = Message::ToolResult(result);
                self.emit(AgentEvent::MessageStart { message: &message }).await?;
                let message = self.end_message(message).await?;
                run.messages.push(message.clone());
                if let Message::ToolResult(result) = message {
                    results.push(result);
                }
            }
            self.emit(AgentEvent::TurnEnd { index, message: &message, tool_results: &results }).await?;
            self.control.sync_session()?;
            if run.cancel.is_cancelled() {
                return Ok(Ending::Aborted);
            }
            incoming.extend(self.control.take_steering());
            let more = !results.is_empty() && !batch.terminate;
            if !more && incoming.is_empty() {
                incoming.extend(self.control.take_follow_up());
                if incoming.is_empty() {
                    return Ok(Ending::Done);
                }
            }
        }
        Ok(Ending::TooManyTurns(self.options.max_turns))
    }

    /// The reply of this turn: as many attempts as verdicts ask for and the caps allow.
    async fn reply(&self, run: &mut Run) -> Result<ControlFlow<Ending, Reply>, AgentError> {
        loop {
            let reminders = self.verdicts.borrow_mut().take_reminders();
            for reminder in reminders {
                self.inject(run, reminder).await?;
            }
            match self.attempt(&run.cancel).await? {
                Attempt::Reply(reply) => return Ok(ControlFlow::Continue(reply)),
                Attempt::Discarded(abort) => match abort.retry {
                    Some(injection) => {
                        self.inject(run, Injected { extension: abort.extension, injection, reminder: false }).await?;
                    }
                    None => return Ok(ControlFlow::Break(Ending::Stopped { extension: abort.extension })),
                },
            }
        }
    }

    /// Puts a verdict's text into the conversation, as an entry that the real pi can read.
    async fn inject(&self, run: &mut Run, injected: Injected) -> Result<(), AgentError> {
        let role = match injected.injection.role {
            InjectionRole::System => "system",
            InjectionRole::User => "user",
        };
        let message = Message::Custom(CustomMessage {
            custom_type: VERDICT_TYPE.to_owned(),
            content: Content::Text(injected.injection.content),
            display: true,
            details: Some(json!({"extension": injected.extension, "role": role, "reminder": injected.reminder})),
            timestamp: self.now(),
        });
        self.say(run, message).await
    }

    /// A message that is complete when it begins.
    async fn say(&self, run: &mut Run, message: Message) -> Result<(), AgentError> {
        self.emit(AgentEvent::MessageStart { message: &message }).await?;
        run.messages.push(self.end_message(message).await?);
        Ok(())
    }
}

/// Whether a reply may have called tools that should run.
pub(crate) fn may_call_tools(message: &AssistantMessage) -> bool {
    !matches!(message.stop_reason, StopReason::Error | StopReason::Aborted)
}
