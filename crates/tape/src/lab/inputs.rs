//! Manages the inputs of a realm in one run, including those that a new realm receives after the old one was killed.

use super::case::Input;
use crate::rerun::merged;
use pijs_protocol::wire::{StateDelta, Task};
use pijs_protocol::{EventId, Message};
use serde_json::Value;
use std::collections::VecDeque;

/// Event that a realm receives when it replaces a killed one, as in a session.
const STARTED: &str = "session_start";

/// Id of that event, which identifies its answer.
const STARTED_AGAIN: &str = "lab-restart";

/// The inputs of one run.
pub(super) struct Inputs {
    waiting: VecDeque<Input>,
    /// Number of requests that were delivered. If the realm is killed, the host answers them.
    questions: usize,
    loads: Vec<Input>,
    /// The session's start event, once it was delivered.
    started: Option<Input>,
    /// State changes that the realm has received, merged.
    state: Option<StateDelta>,
    /// Number of entries that a new realm has not loaded yet.
    reloading: usize,
}

impl Inputs {
    pub(super) fn of(inputs: &[Input]) -> Self {
        let waiting: VecDeque<Input> = inputs.iter().cloned().collect();
        Self { waiting, questions: 0, loads: Vec::new(), started: None, state: None, reloading: 0 }
    }

    /// Returns whether an input can be delivered after `answered` answers.
    pub(super) fn is_ready(&self, answered: usize) -> bool {
        self.waiting.front().is_some_and(|input| input.after <= answered)
    }

    /// Returns whether entries are being loaded.
    pub(super) fn is_loading(&self, answered: usize) -> bool {
        self.reloading > 0
            || answered < self.loads.len()
            || self.waiting.front().is_some_and(|input| message(input, is_load))
    }

    /// Returns whether the next two inputs may be swapped: one has to come from another extension, whose realm runs
    /// independently.
    pub(super) fn may_swap(&self, answered: usize) -> bool {
        let (Some(first), Some(second)) = (self.waiting.front(), self.waiting.get(1)) else { return false };
        let is_bus = |input: &Input| message(input, |message| matches!(message, Message::BusEvent(_)));
        second.after <= answered && is_bus(first) != is_bus(second)
    }

    /// Swaps the next two inputs.
    pub(super) fn swap(&mut self) {
        let Some(mut first) = self.waiting.pop_front() else { return };
        if let Some(mut second) = self.waiting.pop_front() {
            // State changes keep their order, so the inputs exchange them.
            std::mem::swap(&mut first.state, &mut second.state);
            self.waiting.push_front(first);
            first = second;
        }
        self.waiting.push_front(first);
    }

    /// Takes the next input.
    pub(super) fn next(&mut self) -> Option<Input> {
        let input = self.waiting.pop_front()?;
        self.questions += usize::from(is_question(&input));
        if let Some(state) = input.state.clone() {
            self.state = Some(match self.state.take() {
                Some(before) => merged(before, state),
                None => state,
            });
        }
        if message(&input, is_load) {
            self.loads.push(input.clone());
        }
        if message(&input, |message| matches!(message, Message::EventHook(hook) if hook.event == STARTED)) {
            self.started = Some(input.clone());
        }
        Some(input)
    }

    /// Returns the number of requests that were delivered.
    pub(super) fn questions(&self) -> usize {
        self.questions
    }

    /// Begins a realm that replaces a killed one. Returns the inputs that load its entries.
    pub(super) fn reload(&mut self) -> Vec<Input> {
        let mut loads = self.loads.clone();
        self.reloading = loads.len();
        if let Some(first) = loads.first_mut() {
            first.state.clone_from(&self.state);
        }
        loads
    }

    /// Records an answer. Returns whether it counts, and the input that it triggers: the start event, once all entries were
    /// loaded again.
    pub(super) fn answered(&mut self, answer: &Message) -> (bool, Option<Input>) {
        match answer {
            Message::Register(_) if self.reloading > 0 => {
                self.reloading -= 1;
                let started = self.started.as_ref().filter(|_| self.reloading == 0);
                (false, started.map(started_again))
            }
            Message::EventResult(result) => (result.event_id.as_str() != STARTED_AGAIN, None),
            _ => (true, None),
        }
    }

    /// Returns the number of requests in all inputs.
    pub(super) fn all_questions(inputs: &[Input]) -> usize {
        inputs.iter().filter(|input| is_question(input)).count()
    }
}

fn started_again(started: &Input) -> Input {
    let mut again = Input { state: None, ..started.clone() };
    if let Task::Message(message) = &mut again.task
        && let Message::EventHook(hook) = message.as_mut()
    {
        hook.event_id = EventId::from(STARTED_AGAIN);
        hook.payload.insert("reason".to_owned(), Value::from("reload"));
    }
    again
}

fn message(input: &Input, is: impl Fn(&Message) -> bool) -> bool {
    matches!(&input.task, Task::Message(message) if is(message))
}

fn is_load(message: &Message) -> bool {
    matches!(message, Message::Load(_))
}

fn is_question(input: &Input) -> bool {
    message(input, |message| {
        matches!(
            message,
            Message::Load(_)
                | Message::ToolCall(_)
                | Message::SlashCommand(_)
                | Message::EventHook(_)
                | Message::Callback(_)
        )
    })
}
