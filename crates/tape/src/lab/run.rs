//! One run of an extension under one schedule.

use super::case::{Case, Input, RealmScript, is_answer, key};
use super::inputs::Inputs;
use crate::align::Output;
use crate::replay_services::ReplayServices;
use pijs_protocol::message::ErrorReport;
use pijs_protocol::wire::Task;
use pijs_protocol::{
    CallId, Delivery, ErrorCode, HostCall, HostResult, HostcallError, Message, Now, Seq, SyncReply, Termination,
    TimerId, Yield,
};
use pijs_realm::{Patience, Progress, Realm, SyncHost};
use pijs_tick::lab::{Chooser, replay};
use pijs_tick::{Guest, Macrotask, Tick, TickLoop, TickOptions};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Maximum duration of a single wait for a realm in another process.
const PATIENCE: Duration = Duration::from_millis(100);

/// Maximum number of steps of a run, because intervals never end.
const MAX_STEPS: usize = 3_000;

/// Number of timers that may fire while nothing else is left to do, before the run ends.
const LAST_TIMERS: usize = 40;

/// Maximum number of timers that fire while calls are in flight: an interval could delay a call forever.
const MAX_DELAYS: usize = 4;

/// Default schedule, in which every decision is 0. All others are compared with it.
const ZEROS: &str = "lab1:";

/// Faults with which a call may end instead of its answer.
const FAULTS: [LabFault; 5] = [LabFault::Timeout, LabFault::Denied, LabFault::Io, LabFault::Dropped, LabFault::Killed];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LabFault {
    Timeout,
    Denied,
    Io,
    Dropped,
    /// The extension's worker is killed and replaced by a new one.
    Killed,
    /// A message of another extension is swapped with an input from the host.
    Swapped,
}

/// Outputs of an extension in one run, independent of their order.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct RunOutput {
    /// Answers by kind, in the order of the inputs that they answer.
    answers: Vec<Value>,
    /// Unhandled errors.
    errors: BTreeSet<String>,
    /// Calls, with the number of times each was made.
    calls: BTreeMap<String, usize>,
    /// Reason why the realm ended; `None` if it did not.
    ended: Option<String>,
    /// Number of inputs that were not answered or not delivered.
    unanswered: usize,
    dropped: bool,
    /// Errors of event handlers. A handler may pass on the failure of a call, so they count only if no call failed.
    thrown: BTreeSet<String>,
    failed_call: bool,
}

/// Makes the decisions of a run.
struct Decisions<'c> {
    chooser: &'c mut Chooser,
    /// Number of faults that may still happen.
    faults: usize,
}

impl Decisions<'_> {
    /// Decides which of these faults happens, if any.
    fn fault(&mut self, faults: &[LabFault]) -> Option<LabFault> {
        if self.faults == 0 || faults.is_empty() {
            return None;
        }
        let at = self.chooser.choose(1 + faults.len()).checked_sub(1)?;
        self.faults -= 1;
        Some(faults[at])
    }
}

/// A run of one extension.
pub(crate) struct Run<'a> {
    case: &'a Case<'a>,
    at: usize,
    script: &'a RealmScript,
    faults: usize,
}

impl<'a> Run<'a> {
    pub(crate) fn of(case: &'a Case<'a>, at: usize, faults: usize) -> Self {
        Self { case, at, script: case.script(at), faults }
    }

    /// Runs the schedule of `chooser`, and checks the outputs of the extension.
    pub(crate) fn judge(&self, chooser: &mut Chooser) -> Result<(), String> {
        let usual = self.usual()?;
        let mut decisions = Decisions { chooser, faults: self.faults };
        let made = self.run(&mut decisions)?;
        let had_faults = decisions.faults < self.faults;
        let extension = self.script.opening.extension();
        let fail = |what: String| Err(format!("{extension}: {what}"));
        if let (Some(reason), None) = (&made.ended, &usual.ended) {
            return fail(format!("its realm ended: {reason}"));
        }
        let thrown = made.thrown.difference(&usual.thrown).next().filter(|_| had_faults && !made.failed_call);
        if let Some(error) = made.errors.difference(&usual.errors).next().or(thrown) {
            return fail(format!("it throws an unhandled error: {error}"));
        }
        if made.unanswered > usual.unanswered && !made.dropped {
            return fail(format!("{} of its requests are never answered", made.unanswered - usual.unanswered));
        }
        if had_faults {
            return Ok(());
        }
        let differs = usual.answers.iter().zip(&made.answers).find(|(usual, made)| usual != made);
        if let Some((usual, made)) = differs {
            return fail(format!("an answer depends on the order of completions\n- usual: {usual}\n+ here:  {made}"));
        }
        let more = |left: &RunOutput, right: &RunOutput| {
            let differs = left.calls.iter().find(|(call, count)| right.calls.get(*call).unwrap_or(&0) < count);
            differs.map(|(call, _)| call.clone())
        };
        match (more(&usual, &made), more(&made, &usual)) {
            (None, None) => Ok(()),
            (usual, made) => {
                let (usual, made) = (usual.unwrap_or_default(), made.unwrap_or_default());
                fail(format!("a call depends on the order of completions\n- usual: {usual}\n+ here:  {made}"))
            }
        }
    }

    /// Returns the outputs of the extension under the default schedule.
    fn usual(&self) -> Result<RunOutput, String> {
        let mut known = self.case.usual.borrow_mut();
        if let Some(made) = known.get(&self.at) {
            return Ok(made.clone());
        }
        let made = RefCell::new(RunOutput::default());
        replay(ZEROS, |chooser| {
            *made.borrow_mut() = self.run(&mut Decisions { chooser, faults: 0 })?;
            Ok(())
        })?;
        let made = made.into_inner();
        known.insert(self.at, made.clone());
        Ok(made)
    }

    fn run(&self, decisions: &mut Decisions<'_>) -> Result<RunOutput, String> {
        let mut world = World::open(self.case.services, self.script)?;
        let mut last_timers = 0;
        for _ in 0..MAX_STEPS {
            world.settle();
            if world.made.ended.is_some() {
                break;
            }
            let moves = world.moves();
            if moves.is_empty() {
                break;
            }
            if let [Move::Time] = moves[..] {
                // Only timers are left.
                last_timers += 1;
                if last_timers > LAST_TIMERS {
                    break;
                }
            }
            let numbers: Vec<u64> = moves.iter().map(Move::number).collect();
            // Entries are loaded in order, so that their functions get the same numbers as on the tape.
            let picked = match moves.len() == 1 || world.is_loading() {
                true => 0,
                false => decisions.chooser.choose_operation(&numbers),
            };
            let faults: &[LabFault] = match moves[picked] {
                _ if world.is_loading() => &[],
                Move::End(_) => &FAULTS,
                Move::Input if world.inputs.may_swap(world.answered) => &[LabFault::Killed, LabFault::Swapped],
                Move::Input => &[LabFault::Killed],
                Move::Time => &[],
            };
            let fault = decisions.fault(faults);
            match (moves[picked], fault) {
                (_, Some(LabFault::Killed)) => world.kill()?,
                (Move::Input, fault) => world.hand_in(fault == Some(LabFault::Swapped)),
                (Move::Time, _) => world.advance(),
                (Move::End(call), fault) => world.end_call(call, fault),
            }
        }
        Ok(world.end())
    }
}

/// A possible next step of a run.
#[derive(Debug, Clone, Copy)]
enum Move {
    /// The call with this number ends.
    End(u64),
    /// The next input is delivered.
    Input,
    /// Time advances to the next timer.
    Time,
}

impl Move {
    fn number(&self) -> u64 {
        match self {
            Self::Input => 0,
            Self::Time => 1,
            Self::End(call) => 2 + call,
        }
    }
}

/// A call in flight.
struct CallInFlight {
    number: u64,
    id: CallId,
    key: String,
    is_file: bool,
}

/// The realm and its simulated environment.
struct World<'a> {
    services: &'a dyn ReplayServices,
    script: &'a RealmScript,
    realm: Option<Box<dyn Realm>>,
    ticks: TickLoop<Task>,
    arrived: VecDeque<Input>,
    now: Now,
    pending: PendingCalls,
    inputs: Inputs,
    answered: usize,
    replies: Replies<'a>,
    made: RunOutput,
}

/// Asynchronous calls of the extension.
#[derive(Default)]
struct PendingCalls {
    /// Calls in flight, the oldest first.
    in_flight: Vec<CallInFlight>,
    /// Number of the next call.
    next: u64,
    /// Number of timers that fired while calls were in flight.
    delays: usize,
    /// Number of answers that were given, by request.
    given: BTreeMap<String, usize>,
}

impl PendingCalls {
    fn begin(&mut self, call: &HostCall, key: String) {
        let (number, id) = (self.next, call.call_id.clone());
        self.next += 1;
        self.in_flight.push(CallInFlight { number, id, key, is_file: call.method.as_str() == "fs" });
    }

    /// Takes the call with a number.
    fn end(&mut self, number: u64) -> Option<CallInFlight> {
        let at = self.in_flight.iter().position(|call| call.number == number)?;
        Some(self.in_flight.remove(at))
    }
}

/// Answers synchronous calls from the tape.
struct Replies<'a> {
    script: &'a RealmScript,
    given: BTreeMap<String, usize>,
    now: Now,
    calls: BTreeMap<String, usize>,
}

/// Returns the next answer to a request, or the last one if all were given.
fn nth<'b, T>(answers: Option<&'b Vec<T>>, given: &mut BTreeMap<String, usize>, key: &str) -> Option<&'b T> {
    let answers = answers?;
    let count = given.entry(key.to_owned()).or_default();
    *count += 1;
    answers.get(*count - 1).or(answers.last())
}

impl SyncHost for Replies<'_> {
    fn call(&mut self, call: HostCall) -> SyncReply {
        let key = key(&call);
        *self.calls.entry(key.clone()).or_default() += 1;
        let known = nth(self.script.replies.get(&key), &mut self.given, &key).cloned();
        let unknown = || {
            let error = HostcallError::new(ErrorCode::Internal, "the tape has no answer to this call");
            HostResult::failed(call.call_id.clone(), error)
        };
        let mut result = known.unwrap_or_else(unknown);
        result.call_id = call.call_id.clone();
        SyncReply { result, now: self.now, state: None }
    }
}

impl<'a> World<'a> {
    fn open(services: &'a dyn ReplayServices, script: &'a RealmScript) -> Result<Self, String> {
        let now = script.opening.now;
        let mut replies = Replies { script, given: BTreeMap::new(), now, calls: BTreeMap::new() };
        let (options, modules) = (&script.opening.options, script.modules.clone());
        let (realm, booted) = services.open(options, modules, now, &mut replies)?;
        let ticks = TickLoop::new(TickOptions { max_timers: options.limits.timers as usize });
        let realm = Some(realm);
        let mut world = Self {
            services,
            script,
            realm,
            ticks,
            arrived: VecDeque::new(),
            now,
            pending: PendingCalls::default(),
            inputs: Inputs::of(&script.inputs),
            answered: 0,
            replies,
            made: RunOutput::default(),
        };
        world.apply(booted);
        Ok(world)
    }

    /// Runs all turns that can run.
    fn settle(&mut self) {
        loop {
            let arrived: Vec<Input> = self.arrived.drain(..).collect();
            let states: VecDeque<_> = arrived.iter().map(|input| input.state.clone()).collect();
            let mut guest = Turn { realm: self.realm.as_deref_mut(), replies: &mut self.replies, states };
            // Inputs are run one by one, because a state change belongs to its input.
            let tasks = arrived.into_iter().map(|input| input.task);
            match self.ticks.tick(self.now, tasks, &mut guest) {
                Tick::Idle => return,
                Tick::Ran { output: Ok(done), .. } => self.apply(done),
                Tick::Ran { output: Err(reason), .. } => {
                    self.made.ended = Some(reason.to_string());
                    self.realm = None;
                    return;
                }
            }
        }
    }

    /// Returns whether entries are still being loaded.
    fn is_loading(&self) -> bool {
        self.inputs.is_loading(self.answered)
    }

    /// Kills the worker: its calls and timers are dropped, the host answers the open requests, and a new realm loads the entries.
    fn kill(&mut self) -> Result<(), String> {
        let script = self.script;
        self.realm = None;
        self.pending.in_flight.clear();
        self.arrived.clear();
        self.ticks = TickLoop::new(TickOptions { max_timers: script.opening.options.limits.timers as usize });
        self.answered = self.inputs.questions();
        let opened = self.services.open(&script.opening.options, script.modules.clone(), self.now, &mut self.replies);
        let (realm, booted) = opened?;
        self.realm = Some(realm);
        self.apply(booted);
        self.arrived.extend(self.inputs.reload());
        Ok(())
    }

    /// Returns the possible moves, the oldest call first.
    fn moves(&self) -> Vec<Move> {
        let mut moves = Vec::new();
        let mut has_file = false;
        for call in &self.pending.in_flight {
            // Results of file calls arrive in the order of the calls.
            if call.is_file && std::mem::replace(&mut has_file, true) {
                continue;
            }
            moves.push(Move::End(call.number));
        }
        if self.inputs.is_ready(self.answered) {
            moves.push(Move::Input);
        }
        if self.ticks.next_deadline_us().is_some() && (moves.is_empty() || self.pending.delays < MAX_DELAYS) {
            moves.push(Move::Time);
        }
        moves
    }

    fn hand_in(&mut self, swapped: bool) {
        if swapped {
            self.inputs.swap();
        }
        self.arrived.extend(self.inputs.next());
    }

    fn advance(&mut self) {
        self.pending.delays += usize::from(!self.pending.in_flight.is_empty());
        if let Some(deadline) = self.ticks.next_deadline_us() {
            let passed = deadline.saturating_sub(self.now.elapsed_us);
            self.now.elapsed_us += passed;
            self.now.epoch_ms += passed / 1000;
            self.replies.now = self.now;
        }
    }

    fn end_call(&mut self, number: u64, fault: Option<LabFault>) {
        let Some(CallInFlight { id, key, .. }) = self.pending.end(number) else { return };
        let error = match fault {
            None | Some(LabFault::Killed | LabFault::Swapped) => None,
            Some(LabFault::Dropped) => {
                self.made.dropped = true;
                return;
            }
            Some(LabFault::Timeout) => Some(HostcallError::new(ErrorCode::Timeout, "the lab lets the call time out")),
            Some(LabFault::Denied) => Some(HostcallError::denied("no_grant", "the lab denies the call")),
            Some(LabFault::Io) => Some(HostcallError::io("EIO", "lab", "EIO: the lab lets the call fail")),
        };
        self.made.failed_call |= error.is_some();
        let results = match error {
            Some(error) => vec![HostResult::failed(id, error)],
            None => match nth(self.script.answers.get(&key), &mut self.pending.given, &key) {
                Some(pieces) => {
                    let mut pieces = pieces.clone();
                    pieces.iter_mut().for_each(|piece| piece.call_id = id.clone());
                    pieces
                }
                // The call had no answer on the tape.
                None => Vec::new(),
            },
        };
        for result in results {
            let task = Task::Message(Box::new(Message::HostResult(result)));
            self.arrived.push_back(Input { task, state: None, after: 0 });
        }
    }

    fn apply(&mut self, done: Yield) {
        for message in done.messages {
            match &message {
                Message::HostCall(call) => {
                    let key = key(call);
                    *self.made.calls.entry(key.clone()).or_default() += 1;
                    self.pending.begin(call, key);
                }
                Message::HostCallCancel { call_id } => self.pending.in_flight.retain(|call| call.id != *call_id),
                Message::TimerSet { timer, delay_ms, repeat } => {
                    let set = self.ticks.set_timer(*timer, *delay_ms, *repeat, self.now);
                    if set.is_err() {
                        self.made.ended = Some("it has too many timers".to_owned());
                    }
                }
                Message::TimerClear { timer } => {
                    self.ticks.clear_timer(*timer);
                }
                Message::Error(error) => {
                    self.made.errors.insert(described(error));
                }
                Message::EventResult(result) => self.made.thrown.extend(result.error.as_ref().map(described)),
                _ => {}
            }
            if is_answer(&message) {
                let (counts, next) = self.inputs.answered(&message);
                self.arrived.extend(next);
                if !counts {
                    continue;
                }
                self.answered += 1;
                if !matches!(message, Message::Register(_)) {
                    self.made.answers.push(Output::of_message(&message).value);
                }
            }
        }
    }

    fn end(mut self) -> RunOutput {
        let asked = Inputs::all_questions(&self.script.inputs);
        self.made.unanswered = asked.saturating_sub(self.answered);
        // Answers have ids, so sorting makes them independent of their order.
        self.made.answers.sort_by_key(ToString::to_string);
        for (call, count) in std::mem::take(&mut self.replies.calls) {
            *self.made.calls.entry(call).or_default() += count;
        }
        self.made
    }
}

/// Runs one turn of the realm.
struct Turn<'t, 'a> {
    realm: Option<&'t mut (dyn Realm + 'static)>,
    replies: &'t mut Replies<'a>,
    states: VecDeque<Option<pijs_protocol::wire::StateDelta>>,
}

impl Guest<Task> for Turn<'_, '_> {
    type Output = Result<Yield, Termination>;

    fn turn(&mut self, seq: Seq, now: Now, task: Macrotask<Task>) -> Self::Output {
        let (task, state) = match task {
            Macrotask::Arrival(task) => (task, self.states.pop_front().flatten()),
            Macrotask::Timer(timer) => (fired(timer), None),
        };
        let gone = || Termination::Protocol { detail: "the realm is stopped".to_owned() };
        let realm = self.realm.as_deref_mut().ok_or_else(gone)?;
        let mut progress = realm.start(Delivery { seq, now, task, state }, self.replies);
        loop {
            match progress {
                Progress::Running => progress = realm.resume(self.replies, Patience::AtMost(PATIENCE)),
                Progress::Yielded(done) => return Ok(done),
                Progress::Ended(reason) => return Err(reason),
            }
        }
    }
}

fn described(error: &ErrorReport) -> String {
    let name = error.name.as_deref().unwrap_or("Error");
    format!("{name}: {} ({})", error.message, error.phase)
}

fn fired(timer: TimerId) -> Task {
    Task::Message(Box::new(Message::TimerFired { timer }))
}
