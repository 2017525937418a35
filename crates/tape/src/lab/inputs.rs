//! The inputs of a realm in one run: those that are pending, and those that a new realm receives after the old one was killed.

use super::case::Input;
use crate::rerun::merged;
use pijs_protocol::wire::{StateDelta, Task};
use pijs_protocol::{EventId, Message};
use serde_json::Value;
use std::collections::VecDeque;

/// The event that a realm gets which takes the place of a killed one, as in a session.
const STARTED: &str = "session_start";

/// Correlates the answer to it.
const STARTED_AGAIN: &str = "lab-restart";

/// The inputs of one run.
pub(super) struct Inputs {
    waiting: VecDeque<Input>,
    /// Questions that were handed in: the host answers them when the realm is killed.
    questions: usize,
    loads: Vec<Input>,
    /// The start of the session, once it was announced.
    started: Option<Input>,
    /// All messages about the session that the realm has received.
    state: Option<StateDelta>,
    /// Entries that a new realm has not loaded yet.
    reloading: usize,
}

impl Inputs {
    pub(super) fn of(inputs: &[Input]) -> Self {
        let waiting: VecDeque<Input> = inputs.iter().cloned().collect();
        Self { waiting, questions: 0, loads: Vec::new(), started: None, state: None, reloading: 0 }
    }

    /// Returns whether an input can be handed in after so many answers.
    pub(super) fn is_ready(&self, answered: usize) -> bool {
        self.waiting.front().is_some_and(|input| input.after <= answered)
    }

    /// Returns whether entries are being loaded.
    pub(super) fn is_loading(&self, answered: usize) -> bool {
        self.reloading > 0
            || answered < self.loads.len()
            || self.waiting.front().is_some_and(|input| message(input, is_load))
    }

    /// Returns whether the next two may be swapped: one comes from another extension, whose realm runs by itself.
    pub(super) fn may_swap(&self, answered: usize) -> bool {
        let (Some(first), Some(second)) = (self.waiting.front(), self.waiting.get(1)) else { return false };
        let is_bus = |input: &Input| message(input, |message| matches!(message, Message::BusEvent(_)));
        second.after <= answered && is_bus(first) != is_bus(second)
    }

    /// Lets the second input come first.
    pub(super) fn swap(&mut self) {
        let Some(mut first) = self.waiting.pop_front() else { return };
        if let Some(mut second) = self.waiting.pop_front() {
            // Changes of the session come in their order, whichever input brings them.
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

    /// Returns the number of questions that were handed in.
    pub(super) fn questions(&self) -> usize {
        self.questions
    }

    /// Begins a realm in the place of one that was killed. Returns the entries to load.
    pub(super) fn reload(&mut self) -> Vec<Input> {
        let mut loads = self.loads.clone();
        self.reloading = loads.len();
        if let Some(first) = loads.first_mut() {
            first.state.clone_from(&self.state);
        }
        loads
    }

    /// Takes note of an answer. Returns whether it counts, and what is handed in because of it: the start of the session, when
    /// all entries were loaded again.
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

    /// Returns how many questions a whole run answers.
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
