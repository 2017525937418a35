//! Carries out the work that other threads send to the agent's thread.
//!
//! Invariants: one call of [`Agent::attend`] receives at a time; it completes all work that it began before it returns.

use crate::agent::Agent;
use crate::events::AgentEvent;
use crate::mailbox::{AgentTask, TaskInbox};
use crate::outcome::{AgentError, ControlError, InputSource};
use futures_util::stream::{FuturesUnordered, StreamExt};
use pijs_inputs::{Authored, DeliverAs, InputEvent, Inputs, Line, MAX_TRIGGERED_RUNS, Pending, Refusal, Stage};
use pijs_llm::message::Message;
use pijs_protocol::ExtensionId;
use std::cell::RefCell;

/// Puts the inbox back on drop, so that a dropped future does not lose it.
struct Attending<'a> {
    inbox: Option<TaskInbox>,
    home: &'a RefCell<Option<TaskInbox>>,
}

impl Drop for Attending<'_> {
    fn drop(&mut self) {
        *self.home.borrow_mut() = self.inbox.take();
    }
}

impl Agent {
    /// Runs `work` and concurrently carries out requests of extensions. All operations of [`Agent`] call this themselves; call it
    /// around the life of a session as well, so that timers and callbacks of extensions run while nothing else is active.
    pub async fn attend<F: Future>(&self, work: F) -> F::Output {
        let Some(inbox) = self.inbox.borrow_mut().take() else { return work.await };
        let mut attending = Attending { inbox: Some(inbox), home: &self.inbox };
        let inbox = attending.inbox.as_mut().expect("the inbox was just set");
        let mut begun = FuturesUnordered::new();
        tokio::pin!(work);
        let output = loop {
            tokio::select! {
                biased;
                // Earlier requests have precedence over the next step of the work.
                Some(item) = inbox.recv() => begun.push(self.carry_out(item)),
                Some(()) = begun.next(), if !begun.is_empty() => {}
                output = &mut work => break output,
            }
        };
        loop {
            while let Ok(item) = inbox.try_recv() {
                begun.push(self.carry_out(item));
            }
            if begun.is_empty() {
                return output;
            }
            tokio::select! {
                biased;
                Some(()) = begun.next() => {}
                Some(item) = inbox.recv() => begun.push(self.carry_out(item)),
            }
        }
    }

    async fn carry_out(&self, item: AgentTask) {
        match item {
            AgentTask::Call(asker, call, done) => {
                let answer = self.call(&asker, call).await;
                // The caller may have stopped waiting.
                let _ = done.send(answer);
            }
            AgentTask::Ask(question) => self.request_model(question).await,
            AgentTask::Run(asker) => self.run_pending(asker).await,
            AgentTask::HandleInput(content, deliver_as, expand) => {
                self.control.advance(InputEvent::End(Stage::Unread));
                self.hear(content, deliver_as, expand).await;
            }
            AgentTask::Contend(asker, content, expand) => {
                self.control.advance(InputEvent::End(Stage::Unread));
                self.contend(asker, content, expand).await;
            }
            AgentTask::Stream(streamed) => self.stream_through_extension(streamed).await,
            AgentTask::Emit(event, teller) => {
                if self.extensions.has_handlers(event.name) {
                    match &teller {
                        Some(teller) => self.extensions.emit_except(event, teller).await,
                        None => self.extensions.emit(event).await,
                    };
                }
                self.control.advance(InputEvent::End(Stage::Announcing));
            }
            AgentTask::Shown(message) => {
                self.publish_usage();
                self.keep(self.emit_to_front_end(&AgentEvent::MessageStart { message: &message }));
                self.keep(self.emit_to_front_end(&AgentEvent::MessageEnd { message: &message }));
            }
            // The caller may have stopped waiting.
            AgentTask::Barrier(asker) => drop(asker.send(())),
            AgentTask::Waiting(payload, bytes) => {
                self.keep(self.emit_to_front_end(&AgentEvent::Notice { name: "queue_update", payload: &payload }));
                self.control.advance(InputEvent::Shown { bytes });
            }
            AgentTask::Notice(name, payload) => {
                self.keep(self.emit_to_front_end(&AgentEvent::Notice { name, payload: &payload }))
            }
        }
    }

    /// Carries out the next scheduled run, once no other is active.
    async fn run_pending(&self, asker: Option<ExtensionId>) {
        let _one_at_a_time = self.control.turn(Line::Run).await;
        if let Some(asker) = &asker {
            // The caller's turn completes before the run begins, as on pi's single thread.
            self.extensions.turn_over(asker).await;
        }
        self.control.until(Inputs::accepts_run).await;
        let Some(pending) = self.control.inputs(|inputs| inputs.scheduled().cloned()) else { return };
        let outcome = if !self.may_trigger() {
            Ok(None)
        } else {
            self.control.advance(InputEvent::Triggered);
            self.control.set_payer(asker);
            match pending {
                Pending::User(content, expand) => {
                    self.ask(content, InputSource::Extension, None, expand, |_| {}).await.map(Some)
                }
                Pending::Custom(message) => self.run(vec![Message::Custom(message)]).await.map(Some),
            }
        };
        self.control.set_payer(None);
        self.control.advance(InputEvent::TriggeredRunEnded);
        match outcome {
            Ok(Some(outcome)) => *self.runs.last.borrow_mut() = Some(outcome),
            Ok(None) => {}
            Err(AgentError::Control(error)) => {
                self.extensions.report("<runtime>", "send_user_message", &error.to_string());
            }
            error @ Err(_) => self.keep(error.map(|_| ())),
        }
    }

    async fn hear(&self, content: Authored, deliver_as: Option<DeliverAs>, expand: bool) {
        let refusing = deliver_as.is_none().then(|| self.control.begun(Stage::Rejecting));
        let done = match deliver_as {
            Some(deliver_as) if !expand => self.deliver(content, deliver_as).await,
            _ => self.ask(content, InputSource::Extension, deliver_as, expand, |_| {}).await.map(drop),
        };
        self.refused(done);
        if refusing.is_some() && !expand {
            self.control.advance(InputEvent::End(Stage::Delivering));
        }
    }

    async fn contend(&self, asker: Option<ExtensionId>, content: Authored, expand: bool) {
        let contending = self.control.begun(Stage::Contending);
        if let Some(asker) = &asker {
            self.extensions.turn_over(asker).await;
        }
        if !self.may_trigger() {
            return;
        }
        let began = || {
            if self.control.is_idle() {
                self.control.advance(InputEvent::Triggered);
                self.control.set_payer(asker);
            }
        };
        if expand {
            // A command may take long and does not block others.
            drop(contending);
            self.refused(self.ask(content, InputSource::Extension, None, expand, |_| began()).await.map(drop));
            return;
        }
        let hearing = self.control.turn(Line::Input).await;
        let heard = self.accept_input(content, InputSource::Extension, None, expand).await;
        drop(hearing);
        let done = match heard {
            Ok(Some(_)) if !self.control.is_idle() => Err(ControlError::from(Refusal::Undelivered).into()),
            Ok(Some(content)) => self.begin_contending(&content, began, Some(contending)).await.map(drop),
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        self.refused(done);
    }

    /// Returns whether an extension may trigger another run; warns otherwise.
    fn may_trigger(&self) -> bool {
        let may = self.control.inputs(Inputs::may_trigger);
        if !may {
            tracing::warn!(runs = MAX_TRIGGERED_RUNS, "extensions keep triggering runs; this one is dropped");
        }
        may
    }

    /// Reports a refused message as pi does, because no caller waits for the result.
    fn refused(&self, done: Result<(), AgentError>) {
        match done {
            Err(AgentError::Control(error)) => {
                self.extensions.report("<runtime>", "send_user_message", &error.to_string());
            }
            done => self.keep(done),
        }
    }

    /// Delivers a message in flight to the queue of the current run, or starts a run that does not wait for this delivery.
    async fn deliver(&self, content: Authored, deliver_as: DeliverAs) -> Result<(), AgentError> {
        let taken = self.accept_input(content, InputSource::Extension, Some(deliver_as), false).await;
        if let Ok(Some(content)) = &taken
            && !self.control.is_idle()
        {
            self.control.queue_input(content.clone(), deliver_as);
            self.control.advance(InputEvent::End(Stage::Delivering));
            return Ok(());
        }
        self.control.advance(InputEvent::End(Stage::Delivering));
        match taken? {
            Some(content) => self.begin(&content, || {}).await.map(drop),
            None => Ok(()),
        }
    }

    /// Stores an error after which the session cannot continue; the next prompt returns it.
    pub(crate) fn keep(&self, result: Result<(), AgentError>) {
        if let Err(error) = result {
            self.runs.broken.borrow_mut().get_or_insert(error);
        }
    }
}
