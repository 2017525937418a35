//! Prepares a tape for the lab: the inputs of each realm in order, and the answers to its calls.

use super::run::RunOutput;
use crate::align::Output;
use crate::reader::TapeReader;
use crate::record::{Event, Opening, RealmNumber};
use crate::replay_services::{ReplayError, ReplayOptions, ReplayServices, are_usual, modules_of};
use crate::rerun::merged;
use pijs_artifact::Verified;
use pijs_protocol::wire::{StateDelta, Task};
use pijs_protocol::{CallId, HostCall, HostResult, Message};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::sync::Arc;

/// A tape, prepared for runs under many schedules.
pub struct Case<'a> {
    pub(crate) services: &'a dyn ReplayServices,
    realms: Vec<RealmScript>,
    /// Outputs of each extension under the default schedule, by index.
    pub(crate) usual: RefCell<BTreeMap<usize, RunOutput>>,
}

/// Inputs and answers of one realm, without their timing.
pub(crate) struct RealmScript {
    pub(crate) opening: Opening,
    pub(crate) modules: Vec<Arc<Verified>>,
    pub(crate) inputs: Vec<Input>,
    /// Answers of synchronous calls, by request, in order.
    pub(crate) replies: BTreeMap<String, Vec<HostResult>>,
    /// Answers of asynchronous calls, by request, in order. Each may consist of several pieces.
    pub(crate) answers: BTreeMap<String, Vec<Vec<HostResult>>>,
}

/// An input from outside that is not the answer to a call.
#[derive(Clone)]
pub(crate) struct Input {
    pub(crate) task: Task,
    pub(crate) state: Option<StateDelta>,
    /// Number of answers that the extension must have given before the input is delivered, as in the recording.
    pub(crate) after: usize,
}

/// Reason why the lab cannot run a tape.
#[derive(Debug)]
pub enum LabError {
    /// The tape cannot be replayed.
    Replay(ReplayError),
    /// No realm of the tape has an input.
    Empty,
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Replay(error) => error.fmt(f),
            Self::Empty => f.write_str("no extension on the tape has received an input"),
        }
    }
}

impl std::error::Error for LabError {}

impl From<ReplayError> for LabError {
    fn from(error: ReplayError) -> Self {
        Self::Replay(error)
    }
}

/// A realm while its records are read.
struct Reading {
    script: RealmScript,
    state: Option<StateDelta>,
    answered: usize,
    /// Requests of the synchronous calls of the turn.
    sync: Vec<String>,
    /// Asynchronous calls in flight: the request, and the pieces of the answer so far.
    flight: BTreeMap<CallId, (String, Vec<HostResult>)>,
}

/// Returns whether a message answers an input.
pub(crate) fn is_answer(message: &Message) -> bool {
    match message {
        Message::Register(register) => register.ready,
        Message::ToolResult(_) | Message::SlashResult(_) | Message::EventResult(_) | Message::CallbackResult(_) => true,
        _ => false,
    }
}

/// Returns a key; calls with the same content have the same key.
pub(crate) fn key(call: &HostCall) -> String {
    Output::of_call(call).key()
}

impl<'a> Case<'a> {
    /// Reads a tape. `services` decide whether the recorded extensions or replacements are run.
    ///
    /// # Errors
    ///
    /// Fails if the tape cannot be read, or if its modules are not available.
    pub fn of<R: Read>(mut tape: TapeReader<R>, services: &'a dyn ReplayServices) -> Result<Self, LabError> {
        let mut modules = BTreeMap::new();
        let mut reading: BTreeMap<RealmNumber, Reading> = BTreeMap::new();
        let options = ReplayOptions { accept_build: true, ..ReplayOptions::default() };
        loop {
            let record = match tape.next() {
                None => break,
                Some(Err(error)) if error.is_cut() => break,
                Some(record) => record.map_err(ReplayError::Tape)?,
            };
            if let Event::Open(opening) = &record.event {
                if !are_usual(&opening.options.limits) {
                    return Err(ReplayError::Limits.into());
                }
                let found =
                    modules_of(opening, &tape, services, &mut modules, options).map_err(ReplayError::Modules)?;
                reading.insert(record.realm, Reading::new(opening.as_ref().clone(), found));
            }
            if let Some(realm) = reading.get_mut(&record.realm) {
                realm.take(record.event);
            }
        }
        let realms: Vec<RealmScript> =
            reading.into_values().map(|reading| reading.script).filter(|script| !script.inputs.is_empty()).collect();
        if realms.is_empty() { Err(LabError::Empty) } else { Ok(Self { services, realms, usual: RefCell::default() }) }
    }

    /// Returns the number of extensions that are run.
    pub fn extensions(&self) -> usize {
        self.realms.len()
    }

    pub(crate) fn script(&self, at: usize) -> &RealmScript {
        &self.realms[at]
    }
}

impl Reading {
    fn new(opening: Opening, modules: Vec<Arc<Verified>>) -> Self {
        let (replies, answers, inputs) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        let script = RealmScript { opening, modules, inputs, replies, answers };
        Self { script, state: None, answered: 0, sync: Vec::new(), flight: BTreeMap::new() }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Delivery(delivery) => {
                self.add_state(delivery.state);
                match delivery.task {
                    Task::Message(message) => self.message(*message),
                    task @ Task::Stream(_) => self.input(task),
                }
            }
            Event::Call(call) => self.sync.push(key(&call)),
            Event::Reply(reply) => {
                self.add_state(reply.state);
                if let Some(asked) = self.sync.pop() {
                    self.script.replies.entry(asked).or_default().push(reply.result);
                }
            }
            Event::Yield(done) => {
                for message in &done.messages {
                    self.answered += usize::from(is_answer(message));
                    if let Message::HostCall(call) = message {
                        self.flight.insert(call.call_id.clone(), (key(call), Vec::new()));
                    }
                }
            }
            _ => {}
        }
    }

    fn message(&mut self, message: Message) {
        match message {
            Message::HostResult(result) => {
                let Some((_, pieces)) = self.flight.get_mut(&result.call_id) else { return };
                let (id, is_final) = (result.call_id.clone(), result.is_final());
                pieces.push(result);
                if is_final && let Some((asked, pieces)) = self.flight.remove(&id) {
                    self.script.answers.entry(asked).or_default().push(pieces);
                }
            }
            Message::TimerFired { .. } => {}
            message => self.input(Task::Message(Box::new(message))),
        }
    }

    fn input(&mut self, task: Task) {
        self.script.inputs.push(Input { task, state: self.state.take(), after: self.answered });
    }

    fn add_state(&mut self, state: Option<StateDelta>) {
        self.state = match (self.state.take(), state) {
            (Some(before), Some(state)) => Some(merged(before, state)),
            (before, state) => before.or(state),
        };
    }
}
