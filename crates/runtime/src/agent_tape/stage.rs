//! Orders a replay: an input is delivered when everything before it on the tape has happened, and outputs are compared in the
//! order of the tape.
//!
//! Everything runs on one thread. A task that waits for an input is woken when the replay advances.

use super::questions::{OF_EXTENSION, SLEPT};
use super::stop::{ReplayStop, StopReason};
use pijs_tape::{AgentDivergence, AgentRecord};
use serde_json::Value;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

/// Position of a replay on its tape.
pub(super) struct Stage {
    state: Mutex<State>,
    /// Carries out an act of an extension.
    of_extension: OnceLock<Box<OfExtension>>,
}

type OfExtension = dyn Fn(&StagedAct) + Send + Sync;

/// A part of an answer, or the end of the answer.
pub(super) enum Input {
    Part(Value),
    End(Value),
}

/// An act of the user or of an extension, taken from the tape.
pub(super) struct StagedAct {
    /// Number of the act's record.
    pub(super) record: u64,
    pub(super) name: String,
    pub(super) value: Value,
}

struct State {
    order: RecordOrder,
    readings: Readings,
    end: ReplayEnd,
    /// Tasks to wake when the replay advances.
    waiting: Vec<Waker>,
}

/// Records of a tape, and the progress of the replay.
struct RecordOrder {
    records: Vec<(u64, AgentRecord)>,
    done: Vec<bool>,
    /// Index of the first record that has not happened.
    head: usize,
    facts: HashMap<String, Value>,
    /// Whether the recording ended by itself, rather than being cut off.
    is_complete: bool,
    /// Number of records that have happened.
    happened: u64,
}

/// Clock readings and random bytes, in the order in which they were taken.
struct Readings {
    clock: VecDeque<u64>,
    random: VecDeque<String>,
    now_ms: u64,
    first_ms: u64,
}

/// Reason why a replay ended before its tape.
#[derive(Default)]
struct ReplayEnd {
    divergence: Option<AgentDivergence>,
    stop: Option<ReplayStop>,
}

impl RecordOrder {
    /// Moves the head past records that have happened, and applies the facts on the way.
    fn advance(&mut self) {
        while let Some((_, record)) = self.records.get(self.head) {
            match record {
                _ if self.done[self.head] => {}
                AgentRecord::Fact { fact, value } => {
                    self.facts.insert(fact.clone(), value.clone());
                }
                _ => break,
            }
            self.head += 1;
        }
    }

    /// Returns the index of the first record that has not happened and that `is_wanted` accepts.
    fn next(&self, is_wanted: impl Fn(&AgentRecord) -> bool) -> Option<usize> {
        (self.head..self.records.len()).find(|at| !self.done[*at] && is_wanted(&self.records[*at].1))
    }
}

impl State {
    fn happened(&mut self, at: usize) {
        self.order.done[at] = true;
        self.order.happened += 1;
        self.order.advance();
        self.waiting.drain(..).for_each(Waker::wake);
    }

    fn is_over(&self) -> bool {
        self.end.divergence.is_some() || self.end.stop.is_some()
    }

    /// Takes the act at the head if `is_wanted` accepts it.
    fn take_act(&mut self, is_wanted: impl Fn(&str) -> bool) -> Option<StagedAct> {
        let head = self.order.head;
        let Some((record, AgentRecord::Act { act, value })) = self.order.records.get(head) else { return None };
        if self.is_over() || !is_wanted(act) {
            return None;
        }
        let act = StagedAct { record: *record, name: act.clone(), value: value.clone() };
        self.happened(head);
        Some(act)
    }
}

impl Stage {
    /// Creates the stage from the records after the first one. If the tape is not complete, outputs after its end are not
    /// compared.
    pub(super) fn new(records: Vec<(u64, AgentRecord)>, is_complete: bool) -> Arc<Self> {
        let (mut clock, mut random, mut rest) = (VecDeque::new(), VecDeque::new(), Vec::new());
        for (number, record) in records {
            match record {
                AgentRecord::Clock { epoch_ms } => clock.push_back(epoch_ms),
                AgentRecord::Random { hex } => random.push_back(hex),
                record => rest.push((number, record)),
            }
        }
        let first_ms = clock.front().copied().unwrap_or_default();
        let (done, facts) = (vec![false; rest.len()], HashMap::new());
        let mut order = RecordOrder { records: rest, done, head: 0, facts, is_complete, happened: 0 };
        order.advance();
        let readings = Readings { clock, random, now_ms: first_ms, first_ms };
        let state = State { order, readings, end: ReplayEnd::default(), waiting: Vec::new() };
        Arc::new(Self { state: Mutex::new(state), of_extension: OnceLock::new() })
    }

    /// Sets the function that carries out acts of extensions.
    pub(super) fn set_of_extension(&self, carry_out: impl Fn(&StagedAct) + Send + Sync + 'static) {
        // The agent is created once, so this is set once.
        let _ = self.of_extension.set(Box::new(carry_out));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Compares an output with the next one of the tape. Returns the id of the question if the output is one; `None` once the
    /// replay is over.
    pub(super) fn output(&self, made: AgentRecord) -> Option<u64> {
        let mut state = self.lock();
        if state.is_over() {
            return None;
        }
        let order = &state.order;
        let next = order.next(AgentRecord::is_output);
        if next.is_none() && !order.is_complete {
            return None;
        }
        let (number, recorded) = match next {
            Some(at) => (order.records[at].0, Some(&order.records[at].1)),
            None => (0, None),
        };
        let differs = |made: &AgentRecord| AgentDivergence::between(number, recorded, Some(made));
        // The tape contains placeholders for values that look like credentials.
        let redacted = || differs(&made.without_secrets().outlined());
        if let Some(divergence) = differs(&made.clone().outlined()).and_then(|_| redacted()) {
            state.end.divergence = Some(divergence);
            return None;
        }
        let at = next?;
        let id = match &state.order.records[at].1 {
            AgentRecord::Ask { id, .. } => Some(*id),
            _ => None,
        };
        state.happened(at);
        id
    }

    /// Asks a port. Returns the id of the question; `None` once the replay is over.
    pub(super) fn ask(&self, port: &str, value: Value) -> Option<u64> {
        self.output(AgentRecord::Ask { id: 0, port: port.to_owned(), value })
    }

    /// Returns whether the next output of the tape is a question to this port.
    pub(super) fn asks_next(&self, port: &str) -> bool {
        let order = &self.lock().order;
        let next = order.next(AgentRecord::is_output).map(|at| &order.records[at].1);
        matches!(next, Some(AgentRecord::Ask { port: asked, .. }) if asked == port)
    }

    /// Carries out the acts of extensions that come next on the tape.
    pub(super) fn carry_out_acts(&self) {
        loop {
            let act = self.lock().take_act(|act| act.starts_with(OF_EXTENSION));
            let (Some(act), Some(carry_out)) = (act, self.of_extension.get()) else { return };
            carry_out(&act);
        }
    }

    /// Polls for the next part of an answer. Stays pending forever once the replay is over.
    pub(super) fn poll_input(&self, question: Option<u64>, cx: &mut Context<'_>) -> Poll<Input> {
        self.carry_out_acts();
        let mut state = self.lock();
        let head = state.order.head;
        let input = match state.order.records.get(head).map(|(_, record)| record) {
            Some(AgentRecord::Part { id, value }) if question == Some(*id) => Some(Input::Part(value.clone())),
            Some(AgentRecord::Answer { id, value }) if question == Some(*id) => Some(Input::End(value.clone())),
            _ => None,
        };
        match input.filter(|_| !state.is_over()) {
            Some(input) => {
                state.happened(head);
                Poll::Ready(input)
            }
            None => {
                state.waiting.push(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Waits for the end of an answer, and passes its parts to `part`.
    pub(super) async fn answer(&self, question: Option<u64>, mut part: impl FnMut(Value)) -> Value {
        loop {
            match std::future::poll_fn(|cx| self.poll_input(question, cx)).await {
                Input::Part(value) => part(value),
                Input::End(value) => return value,
            }
        }
    }

    /// Returns the answer of a port that answers synchronously.
    pub(super) fn answer_now(&self, question: Option<u64>) -> Value {
        self.carry_out_acts();
        let mut state = self.lock();
        let is_answer =
            |record: &AgentRecord| matches!(record, AgentRecord::Answer { id, .. } if Some(*id) == question);
        let Some(at) = state.order.next(is_answer) else { return Value::Null };
        let value = match &state.order.records[at].1 {
            AgentRecord::Answer { value, .. } => value.clone(),
            _ => Value::Null,
        };
        state.happened(at);
        value
    }

    /// Returns the current value of a fact. If it is read before its first record, returns the value of that record.
    pub(super) fn fact(&self, name: &str) -> Value {
        let order = &self.lock().order;
        if let Some(value) = order.facts.get(name) {
            return value.clone();
        }
        let later = order.records[order.head.min(order.records.len())..].iter().find_map(|(_, record)| match record {
            AgentRecord::Fact { fact, value } if fact == name => Some(value.clone()),
            _ => None,
        });
        later.unwrap_or_default()
    }

    /// Polls for the end of a wait of the agent.
    pub(super) fn poll_slept(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.carry_out_acts();
        let mut state = self.lock();
        match state.take_act(|act| act == SLEPT) {
            Some(_) => Poll::Ready(()),
            None => {
                state.waiting.push(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Polls for the next act of the user.
    pub(super) fn poll_act(&self, cx: &mut Context<'_>) -> Poll<StagedAct> {
        self.carry_out_acts();
        let mut state = self.lock();
        match state.take_act(|act| act != SLEPT && !act.starts_with(OF_EXTENSION)) {
            Some(act) => Poll::Ready(act),
            None => {
                state.waiting.push(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Ends the replay before an act that cannot be replayed.
    pub(super) fn stop_at(&self, act: &StagedAct, reason: StopReason) {
        let (record, name) = (act.record, act.name.clone());
        self.lock().end.stop.get_or_insert(ReplayStop { record, act: name, reason });
    }

    /// Reads the clock: milliseconds since 1970, and since the first reading.
    pub(super) fn clock(&self) -> (u64, u64) {
        let readings = &mut self.lock().readings;
        if let Some(next) = readings.clock.pop_front() {
            readings.now_ms = next;
        }
        (readings.now_ms, readings.now_ms.saturating_sub(readings.first_ms))
    }

    /// Fills `out` with the next recorded random bytes.
    pub(super) fn random(&self, out: &mut [u8]) {
        let hex = self.lock().readings.random.pop_front().unwrap_or_default();
        for (at, byte) in out.iter_mut().enumerate() {
            *byte = hex.get(2 * at..2 * at + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok()).unwrap_or(0);
        }
    }

    /// Skips random bytes that a port drew for its own work, if they come next.
    pub(super) fn skip_random(&self, hex: &str) {
        let random = &mut self.lock().readings.random;
        if random.front().is_some_and(|next| next == hex) {
            random.pop_front();
        }
    }

    /// Returns the number of records that have happened.
    pub(super) fn happened(&self) -> u64 {
        self.lock().order.happened
    }

    /// Returns whether everything on the tape has happened, or the replay ended before that.
    pub(super) fn is_over(&self) -> bool {
        let state = self.lock();
        state.is_over() || state.order.head == state.order.records.len()
    }

    /// Ends the replay because the agent does not continue although the tape does.
    pub(super) fn stuck(&self) {
        let mut state = self.lock();
        if !state.is_over()
            && state.order.is_complete
            && let Some((number, record)) = state.order.records.get(state.order.head).cloned()
        {
            state.end.divergence = AgentDivergence::between(number, Some(&record), None);
        }
    }

    /// Returns the first difference, and the act before which the replay ended.
    pub(super) fn end(&self) -> (Option<AgentDivergence>, Option<ReplayStop>) {
        let end = &self.lock().end;
        (end.divergence.clone(), end.stop.clone())
    }
}
