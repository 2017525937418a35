//! The state machine of a session's inputs.
//!
//! An input is a prompt, a steering message, a follow-up, a command, an abort, or a message of an extension that triggers a run.
//! [`Inputs`] decides where each input goes, stores the messages that wait for the model, and counts the inputs in flight. It is
//! a pure state machine: [`Inputs::apply`] takes an [`InputEvent`] and returns the [`InputEffect`]s that its caller carries out
//! in their order. The machine has no lock, reads no clock and never waits; a caller that waits asks one of its predicates after
//! each event that [releases](InputEvent::releases) something.
//!
//! The run:
//!
//! ```text
//!           RunBegan               RetryBegan
//!    Idle -----------> Running ------------------> Retrying
//!      ^               |  ^  ^ <-----------------
//!      |   RunEnded    |  |  |  RetryEnded, AbortRetry
//!      +---------------+  |  |
//!                         v  |  AgentEndBegan, AgentEndEnded
//!                        Ending     (handlers of `agent_end` run, and no caller waits for them)
//! ```
//!
//! An input waits for extensions in one of the stages of [`Stage`], of which several may be occupied at once:
//!
//! ```text
//!    a prompt:                    (Contending ->) Starting -> the run -> Settling
//!    a message for a run:         Unread -> Delivering -> the queue that it names
//!    a message without a queue:   Unread -> Delivering, Rejecting -> refused
//! ```
//!
//! Summaries (compactions, branch summaries) may be written independently of the run, and runs that extensions triggered are
//! scheduled one after the other. The predicates combine these states:
//!
//! | predicate | run is `Idle` | no `Settling` | no summary | nothing scheduled |
//! |---|---|---|---|---|
//! | [`Inputs::is_idle`] | x | | | |
//! | [`Inputs::accepts_run`] | x | x | | |
//! | [`Inputs::is_settled`] | x | | x | x |
//! | [`Inputs::has_come_to_rest`] | x | | x | no triggered message |
//! | [`Inputs::is_quiescent`] | x | x | x | no triggered message |
//!
//! [`Inputs::is_streaming`] returns whether messages belong to a run: one is active, or a triggered message has scheduled one.
//!
//! `fixtures/inputs/` contains sequences of events, each with its effects.

#![warn(missing_docs)]

mod authored;
mod event;
mod lines;
mod queues;
mod report;

pub use authored::{Authored, Authors};
pub use event::{InputEffect, InputEvent, Line, Queue, Refusal, Stage};
pub use queues::{DeliverAs, Pending};

use lines::TicketLines;
use pijs_llm::message::{CustomMessage, Message};
use pijs_protocol::ExtensionId;
use queues::Queues;
use report::QueueReport;

/// Maximum number of runs that extensions may trigger without a prompt of the user in between.
pub const MAX_TRIGGERED_RUNS: u32 = 50;

/// States of the run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum RunState {
    /// No run is active.
    #[default]
    Idle,
    /// Turns are running.
    Running,
    /// The run pauses before it sends the request to the model again.
    Retrying,
    /// The turns have ended, and handlers of `agent_end` run without being awaited. In pi 0.73.1 it is undefined whether
    /// the run still counts as active for a message that such a handler sends; in PiJS it never does.
    Ending,
}

/// The inputs of a session.
#[derive(Debug)]
pub struct Inputs {
    run: RunState,
    /// Whether the run that a message has triggered is aborted as soon as it begins.
    aborts_next: bool,
    /// Number of compactions and branch summaries that are being written.
    summaries: usize,
    /// Number of inputs in flight in each [`Stage`].
    in_flight: [usize; Stage::COUNT],
    queues: Queues,
    lines: TicketLines,
    /// Number of runs that extensions triggered since the user's last prompt.
    triggered: u32,
    /// The queues as last reported to front ends.
    report: QueueReport,
    /// The last published `isIdle` and `hasPendingMessages`.
    published: (bool, bool),
}

impl Default for Inputs {
    fn default() -> Self {
        Self {
            run: RunState::Idle,
            aborts_next: false,
            summaries: 0,
            in_flight: [0; Stage::COUNT],
            queues: Queues::default(),
            lines: TicketLines::default(),
            triggered: 0,
            report: QueueReport::default(),
            published: (true, false),
        }
    }
}

impl Inputs {
    /// Applies an event, and returns the effects that the caller carries out.
    pub fn apply(&mut self, event: InputEvent) -> Vec<InputEffect> {
        let mut effects = Vec::new();
        match event {
            InputEvent::Message { message, deliver_as, trigger_turn, sender } => {
                self.message(message, deliver_as, trigger_turn, sender, &mut effects);
            }
            InputEvent::UserMessage { content, deliver_as, expand, sender } => {
                self.user_message(content, deliver_as, expand, sender, &mut effects);
            }
            InputEvent::Queue { message, deliver_as } => {
                self.queues.push(message, deliver_as);
                self.publish_queues(false, &mut effects);
            }
            InputEvent::Bash { authors, execution } if self.is_idle() => {
                effects.push(InputEffect::AppendBash { authors, execution });
            }
            InputEvent::Bash { authors, execution } => self.queues.after_run.push((authors, execution)),
            InputEvent::Prompt => self.triggered = 0,
            InputEvent::Triggered => self.triggered += 1,
            InputEvent::Abort => self.abort(&mut effects),
            InputEvent::AbortRetry | InputEvent::RetryEnded => self.leave_run_state(RunState::Retrying),
            InputEvent::Take(queue) => self.take(queue, &mut effects),
            InputEvent::Spoken { text } => {
                self.queues.forget_taken(Some(&text));
                self.publish_queues(false, &mut effects);
            }
            InputEvent::Clear => {
                self.queues.clear();
                self.publish_queues(true, &mut effects);
            }
            InputEvent::Shown { bytes } => {
                if self.report.shown(bytes) {
                    self.publish_queues(true, &mut effects);
                }
            }
            InputEvent::SessionReplaced => {
                self.queues = Queues::default();
                self.publish_queues(false, &mut effects);
            }
            InputEvent::Begin(stage) => self.in_flight[stage as usize] += 1,
            InputEvent::End(stage) => {
                let count = &mut self.in_flight[stage as usize];
                debug_assert!(*count > 0, "{stage:?} ends once for each time it began");
                *count = count.saturating_sub(1);
            }
            InputEvent::Enter(line) => effects.push(InputEffect::Ticket(self.lines.enter(line))),
            InputEvent::Leave(line, ticket) => self.lines.leave(line, ticket),
            progress => self.progress(&progress, &mut effects),
        }
        effects
    }

    /// Applies an event of a run or of a summary.
    fn progress(&mut self, event: &InputEvent, effects: &mut Vec<InputEffect>) {
        let is_idle = match event {
            InputEvent::RunBegan => {
                if std::mem::take(&mut self.aborts_next) {
                    effects.push(InputEffect::CancelRun);
                }
                self.run = RunState::Running;
                false
            }
            InputEvent::RunEnded => {
                self.run = RunState::Idle;
                if self.queues.forget_taken(None) {
                    self.publish_queues(false, effects);
                }
                // A scheduled run does not begin before the end of the current run is announced.
                true
            }
            InputEvent::TriggeredRunEnded => {
                self.queues.scheduled.pop_front();
                // A run that has not begun cannot be aborted.
                self.aborts_next = false;
                self.reads_idle()
            }
            InputEvent::SummaryBegan => {
                self.summaries += 1;
                false
            }
            InputEvent::SummaryEnded => {
                self.summaries = self.summaries.saturating_sub(1);
                self.reads_idle()
            }
            InputEvent::AgentEndBegan => return self.enter_run_state(RunState::Ending),
            InputEvent::AgentEndEnded => return self.leave_run_state(RunState::Ending),
            InputEvent::RetryBegan => return self.enter_run_state(RunState::Retrying),
            _ => return,
        };
        self.publish_idle(is_idle, effects);
    }

    fn enter_run_state(&mut self, state: RunState) {
        if self.run == RunState::Running {
            self.run = state;
        }
    }

    fn leave_run_state(&mut self, state: RunState) {
        if self.run == state {
            self.run = RunState::Running;
        }
    }

    /// Handles `sendMessage`: adds the message to a queue or to the session, or schedules a run for it.
    fn message(
        &mut self,
        message: CustomMessage,
        deliver_as: Option<DeliverAs>,
        trigger_turn: Option<bool>,
        sender: Option<ExtensionId>,
        effects: &mut Vec<InputEffect>,
    ) {
        let is_streaming = self.is_streaming();
        match deliver_as {
            Some(DeliverAs::NextTurn) => self.queues.next_turn.push(message),
            // A message must not separate a tool call from its result.
            _ if is_streaming && trigger_turn == Some(false) => self.queues.after_turn.push(message),
            how if is_streaming => self.queues.push(Message::Custom(message), how.unwrap_or(DeliverAs::Steer)),
            _ if trigger_turn == Some(true) => {
                self.queues.scheduled.push_back(Pending::Custom(message));
                effects.push(InputEffect::ScheduleRun { sender });
                self.publish_idle(self.reads_idle(), effects);
            }
            _ => return effects.push(InputEffect::Append(message)),
        }
        self.publish_queues(false, effects);
    }

    /// Handles `sendUserMessage`: passes the message to the handlers of `input`, which put it into a queue or begin a run, or
    /// refuses it.
    fn user_message(
        &mut self,
        content: Authored,
        deliver_as: Option<DeliverAs>,
        expand: bool,
        sender: Option<ExtensionId>,
        effects: &mut Vec<InputEffect>,
    ) {
        let is_streaming = self.is_streaming();
        let is_unnamed = deliver_as.is_none() && is_streaming && self.run != RunState::Ending;
        let is_for_run = deliver_as.is_some() && is_streaming;
        let is_contended = self.count(Stage::Starting) > 0 || self.queues.has_scheduled_prompt();
        if deliver_as == Some(DeliverAs::NextTurn) {
            return effects.push(InputEffect::Refuse(Refusal::NoSuchQueue));
        }
        if is_unnamed && sender.is_none() {
            return effects.push(InputEffect::Refuse(Refusal::Undelivered));
        }
        if is_for_run || is_unnamed {
            self.in_flight[Stage::Unread as usize] += 1;
            // A message that may run a command is in flight until the command has ended.
            self.in_flight[Stage::Delivering as usize] += usize::from(!expand);
            self.in_flight[Stage::Rejecting as usize] += usize::from(is_unnamed);
            effects.push(InputEffect::HandleInput { content, deliver_as, expand });
        } else if sender.is_some() && is_contended {
            self.in_flight[Stage::Unread as usize] += 1;
            self.in_flight[Stage::Contending as usize] += 1;
            effects.push(InputEffect::Contend { content, expand, sender });
        } else if self.queues.has_scheduled_prompt() {
            return effects.push(InputEffect::Refuse(Refusal::PromptInProgress));
        } else {
            self.queues.scheduled.push_back(Pending::User(content, expand));
            effects.push(InputEffect::ScheduleRun { sender });
        }
        self.publish_queues(false, effects);
    }

    /// Cancels the summaries, and the run that is active or that a message has triggered.
    fn abort(&mut self, effects: &mut Vec<InputEffect>) {
        self.aborts_next = self.is_idle() && self.is_streaming();
        if !self.is_idle() {
            effects.push(InputEffect::CancelRun);
        }
        if self.summaries > 0 {
            effects.push(InputEffect::CancelSummaries);
        }
    }

    /// Gives messages to the caller, in the order of their queue.
    fn take(&mut self, queue: Queue, effects: &mut Vec<InputEffect>) {
        let give = |message| InputEffect::Give(Message::Custom(message));
        match queue {
            Queue::Steering | Queue::FollowUp => {
                effects.extend(self.queues.take_next(queue).map(InputEffect::Give));
                self.publish_queues(false, effects);
            }
            Queue::NextTurn => effects.extend(std::mem::take(&mut self.queues.next_turn).into_iter().map(give)),
            Queue::AfterTurn => {
                effects.extend(std::mem::take(&mut self.queues.after_turn).into_iter().map(InputEffect::Append));
            }
            Queue::AfterRun => {
                let executions = std::mem::take(&mut self.queues.after_run).into_iter();
                effects.extend(executions.map(|(authors, execution)| InputEffect::AppendBash { authors, execution }));
            }
        }
    }

    fn publish_idle(&mut self, is_idle: bool, effects: &mut Vec<InputEffect>) {
        if std::mem::replace(&mut self.published.0, is_idle) != is_idle {
            effects.push(InputEffect::PublishIdle(is_idle));
        }
    }

    /// Publishes `hasPendingMessages` to extensions and the queues to front ends, if they changed or `always` is set.
    fn publish_queues(&mut self, always: bool, effects: &mut Vec<InputEffect>) {
        let has_waiting = self.queues.has_waiting();
        if std::mem::replace(&mut self.published.1, has_waiting) != has_waiting {
            effects.push(InputEffect::PublishPending(has_waiting));
        }
        if let Some(bytes) = self.report.changed(|| self.queues.texts(), always) {
            let (steering, follow_up) = self.report.texts().clone();
            effects.push(InputEffect::ShowQueues { steering, follow_up, bytes });
        }
    }

    fn count(&self, stage: Stage) -> usize {
        self.in_flight[stage as usize]
    }
}

/// Queries of the state.
impl Inputs {
    /// Returns whether no run is active.
    pub fn is_idle(&self) -> bool {
        self.run == RunState::Idle
    }

    /// Returns whether a run may begin: no run is active, and the end of the last one was announced.
    pub fn accepts_run(&self) -> bool {
        self.is_idle() && self.is_over(Stage::Settling)
    }

    /// Returns whether nothing is active and nothing is scheduled.
    pub fn is_settled(&self) -> bool {
        self.is_idle() && self.summaries == 0 && self.queues.scheduled.is_empty()
    }

    /// Returns whether nothing is active. A prompt of an extension does not count as active while handlers of `input` receive it;
    /// a triggered message does.
    pub fn has_come_to_rest(&self) -> bool {
        self.is_idle() && self.summaries == 0 && !self.queues.has_triggered()
    }

    /// Returns whether nothing is active and the end of the last run was announced.
    pub fn is_quiescent(&self) -> bool {
        self.has_come_to_rest() && self.is_over(Stage::Settling)
    }

    /// Returns whether messages belong to an active run. A message that triggers a turn activates a run at once, as in pi, before
    /// the agent's thread begins it. If another run is ending, the message waits for its end.
    pub fn is_streaming(&self) -> bool {
        !self.is_idle() || (self.is_over(Stage::Settling) && self.queues.has_triggered())
    }

    /// Returns whether a summary is being written.
    pub fn is_summarising(&self) -> bool {
        self.summaries > 0
    }

    /// Returns whether the run pauses before a retry.
    pub fn is_retrying(&self) -> bool {
        self.run == RunState::Retrying
    }

    /// Returns the value of `isIdle` for extensions.
    fn reads_idle(&self) -> bool {
        !self.is_streaming() && self.summaries == 0
    }

    /// Returns whether no input is in this stage.
    pub fn is_over(&self, stage: Stage) -> bool {
        self.count(stage) == 0
    }

    /// Returns whether a ticket is the first of its line.
    pub fn is_first(&self, line: Line, ticket: u64) -> bool {
        self.lines.is_first(line, ticket)
    }

    /// Returns whether an extension may trigger one more run.
    pub fn may_trigger(&self) -> bool {
        self.triggered < MAX_TRIGGERED_RUNS
    }

    /// Returns the first scheduled run. It stays first until [`InputEvent::TriggeredRunEnded`].
    pub fn scheduled(&self) -> Option<&Pending> {
        self.queues.scheduled.front()
    }

    /// Returns the number of events whose handlers have not run.
    pub fn unannounced(&self) -> usize {
        self.count(Stage::Announcing)
    }

    /// Returns the number of messages that wait for the model, in all queues and in flight.
    pub fn waiting_count(&self) -> usize {
        self.queues.count() + self.count(Stage::Unread)
    }

    /// Returns the texts of waiting messages: steering, and follow-up.
    pub fn waiting(&self) -> (Vec<String>, Vec<String>) {
        self.queues.texts()
    }

    /// Returns the value of `hasPendingMessages` for extensions: whether messages of the user wait.
    pub fn has_waiting(&self) -> bool {
        self.queues.has_waiting()
    }

    /// Returns whether messages wait for a run.
    pub fn has_queued(&self) -> bool {
        self.queues.has_queued()
    }

    /// Returns whether a run has taken a message of this text but not yet added it to the conversation.
    pub fn has_taken(&self, text: &str) -> bool {
        self.queues.has_taken(text)
    }

    /// Returns the messages that the next request would take, and the messages that were added without a request. `steer_all` and
    /// `follow_up_all` state whether a queue is taken as a whole.
    pub fn next_queued(&self, steer_all: bool, follow_up_all: bool) -> (Vec<Message>, Vec<Message>) {
        self.queues.next(steer_all, follow_up_all)
    }
}

#[cfg(test)]
mod tests;
