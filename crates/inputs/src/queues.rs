//! Messages that wait for the model.

use crate::{Authored, Queue};
use pijs_llm::message::{BashExecution, CustomMessage, Message};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, VecDeque};

/// A triggered run that has not begun.
#[derive(Debug, Clone, PartialEq)]
pub enum Pending {
    /// `sendUserMessage`, with a flag that expands commands and templates.
    User(Authored, bool),
    /// `sendMessage` with `triggerTurn`.
    Custom(CustomMessage),
}

/// The time at which a message of an extension reaches the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeliverAs {
    /// Before the next request of the run.
    Steer,
    /// At the end of the run.
    FollowUp,
    /// With the next prompt.
    NextTurn,
}

impl DeliverAs {
    /// Returns the name in pi's API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Steer => "steer",
            Self::FollowUp => "followUp",
            Self::NextTurn => "nextTurn",
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Queues {
    steering: VecDeque<Message>,
    follow_up: VecDeque<Message>,
    pub(crate) next_turn: Vec<CustomMessage>,
    /// Messages that arrived during a request and do not request a turn.
    pub(crate) after_turn: Vec<CustomMessage>,
    /// Shell commands of the user that ended during a request.
    pub(crate) after_run: Vec<(BTreeSet<String>, BashExecution)>,
    /// Triggered runs; the first one stays in the list until it has ended.
    pub(crate) scheduled: VecDeque<Pending>,
    /// Texts of the user that a run has taken but not added to the conversation. They are still reported as waiting.
    taken: Vec<(DeliverAs, String)>,
}

impl Queues {
    /// Appends a message for a run.
    pub(crate) fn push(&mut self, message: Message, deliver_as: DeliverAs) {
        match deliver_as {
            DeliverAs::FollowUp => self.follow_up.push_back(message),
            _ => self.steering.push_back(message),
        }
    }

    /// Takes the next message for a run.
    pub(crate) fn take_next(&mut self, queue: Queue) -> Option<Message> {
        let (how, message) = match queue {
            Queue::FollowUp => (DeliverAs::FollowUp, self.follow_up.pop_front()),
            _ => (DeliverAs::Steer, self.steering.pop_front()),
        };
        if let Some(Message::User(user)) = &message {
            self.taken.push((how, user.content.text()));
        }
        message
    }

    /// Removes a text that a run has taken, or all such texts. Returns whether there was one.
    pub(crate) fn forget_taken(&mut self, text: Option<&str>) -> bool {
        let is_meant = |known: &str| text.is_none_or(|text| text == known);
        let Some(at) = self.taken.iter().position(|(_, known)| is_meant(known)) else { return false };
        match text {
            Some(_) => drop(self.taken.remove(at)),
            None => self.taken.clear(),
        }
        true
    }

    pub(crate) fn has_taken(&self, text: &str) -> bool {
        self.taken.iter().any(|(_, known)| known == text)
    }

    /// Removes the messages for a run.
    pub(crate) fn clear(&mut self) {
        self.steering.clear();
        self.follow_up.clear();
        self.taken.clear();
    }

    /// Returns the texts of steering and follow-up messages.
    pub(crate) fn texts(&self) -> (Vec<String>, Vec<String>) {
        let texts = |how: DeliverAs, queue: &VecDeque<Message>| {
            let text = |message: &Message| match message {
                Message::User(user) => Some(user.content.text()),
                Message::Custom(custom) => Some(custom.content.text()),
                _ => None,
            };
            let taken = self.taken.iter().filter(|(kind, _)| *kind == how).map(|(_, text)| text.clone());
            taken.chain(queue.iter().filter_map(text)).collect()
        };
        (texts(DeliverAs::Steer, &self.steering), texts(DeliverAs::FollowUp, &self.follow_up))
    }

    /// Returns the messages that the next request would take, and the messages that were added without a request.
    pub(crate) fn next(&self, steer_all: bool, follow_up_all: bool) -> (Vec<Message>, Vec<Message>) {
        let next = |queue: &VecDeque<Message>, all: bool| -> Vec<Message> {
            queue.iter().take(if all { usize::MAX } else { 1 }).cloned().collect()
        };
        let steering = next(&self.steering, steer_all);
        let taken = if steering.is_empty() { next(&self.follow_up, follow_up_all) } else { steering };
        (taken, self.after_turn.iter().cloned().map(Message::Custom).collect())
    }

    /// Returns the number of waiting messages of all kinds.
    pub(crate) fn count(&self) -> usize {
        let for_run = self.steering.len() + self.follow_up.len() + self.scheduled.len();
        for_run + self.next_turn.len() + self.after_turn.len()
    }

    /// Returns whether a triggered message is scheduled.
    pub(crate) fn has_triggered(&self) -> bool {
        self.scheduled.iter().any(|run| matches!(run, Pending::Custom(_)))
    }

    /// Returns whether a prompt of an extension is scheduled.
    pub(crate) fn has_scheduled_prompt(&self) -> bool {
        self.scheduled.iter().any(|run| matches!(run, Pending::User(..)))
    }

    pub(crate) fn has_queued(&self) -> bool {
        !self.steering.is_empty() || !self.follow_up.is_empty()
    }

    /// Returns whether messages of the user wait. As in pi, messages of extensions are ignored.
    pub(crate) fn has_waiting(&self) -> bool {
        let said = |message: &Message| matches!(message, Message::User(_));
        !self.taken.is_empty() || self.steering.iter().chain(&self.follow_up).any(said)
    }
}
