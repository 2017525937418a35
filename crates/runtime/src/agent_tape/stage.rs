//! The order of a replay: an input is handed in when everything before it on the tape has happened, and outputs are compared in
//! the order of the tape.
//!
//! Everything runs on one thread. Whoever waits for an input is woken when the tape moves on.

use super::questions::{OF_EXTENSION, SLEPT};
use pijs_tape::{AgentDivergence, AgentRecord};
use serde_json::Value;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

/// The place of a replay on its tape.
pub(super) struct Stage {
    state: Mutex<State>,
    /// Carries out an act of an extension.
    of_extension: OnceLock<Box<OfExtension>>,
}

type OfExtension = dyn Fn(&str, &Value) + Send + Sync;

/// A part of an answer, or its end.
pub(super) enum Input {
    Part(Value),
    End(Value),
}

struct State {
    records: Vec<(u64, AgentRecord)>,
    done: Vec<bool>,
    /// The first record that has not happened.
    head: usize,
    facts: HashMap<String, Value>,
    clock: VecDeque<u64>,
    random: VecDeque<String>,
    now_ms: u64,
    first_ms: u64,
    waiting: Vec<Waker>,
    divergence: Option<AgentDivergence>,
    /// An act that is not replayed; the replay ends before it.
    stopped_at: Option<String>,
    /// Whether the recording ended by itself.
    complete: bool,
    /// Counts what has happened.
    happened: u64,
}

impl State {
    fn happened(&mut self, at: usize) {
        self.done[at] = true;
        self.happened += 1;
        self.go_on();
        self.waiting.drain(..).for_each(Waker::wake);
    }

    fn go_on(&mut self) {
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

    fn is_over(&self) -> bool {
        self.divergence.is_some() || self.stopped_at.is_some()
    }

    /// Takes the act at the head, if it is one that is wanted.
    fn take_act(&mut self, is_wanted: impl Fn(&str) -> bool) -> Option<(String, Value)> {
        let Some((_, AgentRecord::Act { act, value })) = self.records.get(self.head) else { return None };
        if self.is_over() || !is_wanted(act) {
            return None;
        }
        let act = (act.clone(), value.clone());
        self.happened(self.head);
        Some(act)
    }
}

impl Stage {
    /// Begins with the records behind the first one. What comes after a tape that is not `complete` is not known.
    pub(super) fn new(records: Vec<(u64, AgentRecord)>, complete: bool) -> Arc<Self> {
        let (mut clock, mut random, mut rest) = (VecDeque::new(), VecDeque::new(), Vec::new());
        for (number, record) in records {
            match record {
                AgentRecord::Clock { epoch_ms } => clock.push_back(epoch_ms),
                AgentRecord::Random { hex } => random.push_back(hex),
                record => rest.push((number, record)),
            }
        }
        let first_ms = clock.front().copied().unwrap_or_default();
        let mut state = State {
            done: vec![false; rest.len()],
            records: rest,
            head: 0,
            facts: HashMap::new(),
            clock,
            random,
            now_ms: first_ms,
            first_ms,
            waiting: Vec::new(),
            divergence: None,
            stopped_at: None,
            complete,
            happened: 0,
        };
        state.go_on();
        Arc::new(Self { state: Mutex::new(state), of_extension: OnceLock::new() })
    }

    /// Says how acts of extensions are carried out.
    pub(super) fn set_of_extension(&self, carry_out: impl Fn(&str, &Value) + Send + Sync + 'static) {
        // It is set once, when the agent is made.
        let _ = self.of_extension.set(Box::new(carry_out));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Compares an output with the next one of the tape. Returns the number of a question; `None` once the replay is over.
    pub(super) fn output(&self, made: AgentRecord) -> Option<u64> {
        let mut state = self.lock();
        if state.is_over() {
            return None;
        }
        let next = (state.head..state.records.len()).find(|at| !state.done[*at] && state.records[*at].1.is_output());
        if next.is_none() && !state.complete {
            return None;
        }
        let (number, recorded) = match next {
            Some(at) => (state.records[at].0, Some(&state.records[at].1)),
            None => (0, None),
        };
        let differs = |made: &AgentRecord| AgentDivergence::between(number, recorded, Some(made));
        // A tape has stand-ins in the place of what looks like a credential.
        let redacted = || differs(&made.without_secrets().outlined());
        if let Some(divergence) = differs(&made.clone().outlined()).and_then(|_| redacted()) {
            state.divergence = Some(divergence);
            return None;
        }
        let at = next?;
        let id = match &state.records[at].1 {
            AgentRecord::Ask { id, .. } => Some(*id),
            _ => None,
        };
        state.happened(at);
        id
    }

    /// Asks a port. `None` once the replay is over.
    pub(super) fn ask(&self, port: &str, value: Value) -> Option<u64> {
        self.output(AgentRecord::Ask { id: 0, port: port.to_owned(), value })
    }

    /// Whether the next output of the tape is a question to this port.
    pub(super) fn asks_next(&self, port: &str) -> bool {
        let state = self.lock();
        let next = (state.head..state.records.len()).find(|at| !state.done[*at] && state.records[*at].1.is_output());
        matches!(next.map(|at| &state.records[at].1), Some(AgentRecord::Ask { port: asked, .. }) if asked == port)
    }

    /// Carries out the acts of extensions that come next.
    pub(super) fn carry_out_acts(&self) {
        loop {
            let act = self.lock().take_act(|act| act.starts_with(OF_EXTENSION));
            let (Some((act, value)), Some(carry_out)) = (act, self.of_extension.get()) else { return };
            carry_out(&act[OF_EXTENSION.len()..], &value);
        }
    }

    /// Waits for the next part of an answer. It never comes once the replay is over.
    pub(super) fn poll_input(&self, question: Option<u64>, cx: &mut Context<'_>) -> Poll<Input> {
        self.carry_out_acts();
        let mut state = self.lock();
        let head = state.head;
        let input = match state.records.get(head).map(|(_, record)| record) {
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

    /// Waits for the end of an answer; its parts go to `part`.
    pub(super) async fn answer(&self, question: Option<u64>, mut part: impl FnMut(Value)) -> Value {
        loop {
            match std::future::poll_fn(|cx| self.poll_input(question, cx)).await {
                Input::Part(value) => part(value),
                Input::End(value) => return value,
            }
        }
    }

    /// Returns the answer of a port that answers at once.
    pub(super) fn answer_now(&self, question: Option<u64>) -> Value {
        self.carry_out_acts();
        let mut state = self.lock();
        let is_answer =
            |record: &AgentRecord| matches!(record, AgentRecord::Answer { id, .. } if Some(*id) == question);
        let at = (state.head..state.records.len()).find(|at| !state.done[*at] && is_answer(&state.records[*at].1));
        let Some(at) = at else { return Value::Null };
        let value = match &state.records[at].1 {
            AgentRecord::Answer { value, .. } => value.clone(),
            _ => Value::Null,
        };
        state.happened(at);
        value
    }

    /// Returns a fact as it is now. One that was read earlier than on the tape is that of its first record.
    pub(super) fn fact(&self, name: &str) -> Value {
        let state = self.lock();
        if let Some(value) = state.facts.get(name) {
            return value.clone();
        }
        let later = state.records[state.head.min(state.records.len())..].iter().find_map(|(_, record)| match record {
            AgentRecord::Fact { fact, value } if fact == name => Some(value.clone()),
            _ => None,
        });
        later.unwrap_or_default()
    }

    /// Waits until a wait of the agent is over.
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

    /// Waits for the next act of the user.
    pub(super) fn poll_act(&self, cx: &mut Context<'_>) -> Poll<(String, Value)> {
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

    /// Ends the replay before an act that is not replayed.
    pub(super) fn stop_at(&self, act: &str) {
        self.lock().stopped_at.get_or_insert_with(|| act.to_owned());
    }

    /// Reads the clock, as milliseconds since 1970 and since its first reading.
    pub(super) fn clock(&self) -> (u64, u64) {
        let mut state = self.lock();
        if let Some(next) = state.clock.pop_front() {
            state.now_ms = next;
        }
        (state.now_ms, state.now_ms.saturating_sub(state.first_ms))
    }

    /// Fills in random bytes.
    pub(super) fn random(&self, out: &mut [u8]) {
        let hex = self.lock().random.pop_front().unwrap_or_default();
        for (at, byte) in out.iter_mut().enumerate() {
            *byte = hex.get(2 * at..2 * at + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok()).unwrap_or(0);
        }
    }

    /// Leaves out random bytes that came of a port's own work, if they come next.
    pub(super) fn skip_random(&self, hex: &str) {
        let random = &mut self.lock().random;
        if random.front().is_some_and(|next| next == hex) {
            random.pop_front();
        }
    }

    /// Counts what has happened.
    pub(super) fn happened(&self) -> u64 {
        self.lock().happened
    }

    /// Whether everything on the tape has happened, or the replay ended before.
    pub(super) fn is_over(&self) -> bool {
        let state = self.lock();
        state.is_over() || state.head == state.records.len()
    }

    /// Reports that the agent does not go on, although the tape does.
    pub(super) fn stuck(&self) {
        let mut state = self.lock();
        if !state.is_over()
            && state.complete
            && let Some((number, record)) = state.records.get(state.head).cloned()
        {
            state.divergence = AgentDivergence::between(number, Some(&record), None);
        }
    }

    /// The end of the replay: the first difference, and the act before which it ended.
    pub(super) fn end(&self) -> (Option<AgentDivergence>, Option<String>) {
        let state = self.lock();
        (state.divergence.clone(), state.stopped_at.clone())
    }
}
