//! Playing a tape again.
//!
//! Realms are independent of each other, so each plays its own turns: a turn is gathered until its end is read, then run
//! in a fresh realm whose synchronous calls are answered from the tape. What comes out (calls, the yield, a termination)
//! is compared with what was recorded, line by line. The first difference ends the replay.

use crate::compare::{Difference, Divergence, OutputSite, USAGE, compare};
use crate::error::TapeError;
use crate::header::TapeHeader;
use crate::lines::Lines;
use crate::reader::TapeReader;
use crate::record::{Event, EventRef, RealmNumber, Record};
use crate::replay_services::{ReplayError, ReplayOptions, ReplayServices, are_usual, modules_of};
use pijs_artifact::Verified;
use pijs_protocol::artifact::EngineBuild;
use pijs_protocol::wire::{Json, StreamAnswer, Task};
use pijs_protocol::{
    CallId, Delivery, ErrorCode, ExtensionId, HostCall, HostResult, HostcallError, Message, Now, Seq, SyncReply,
    Termination, TimerId, Usage, Yield,
};
use pijs_realm::{Patience, Progress, Realm, SyncHost};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

/// Maximum wait at a time for a realm in another process.
const PATIENCE: Duration = Duration::from_millis(100);

/// The result of a replay.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// Realms that were opened.
    pub realms: u64,
    /// Ticks that were played or, where the realm was ended in them, skipped: openings of realms and macrotasks.
    pub ticks: u64,
    /// Turns that were skipped because the realm was ended in them. A realm that ended between turns counts nothing.
    pub skipped: u64,
    /// Records that were read.
    pub records: u64,
    /// Microseconds of the session up to the last record.
    pub recorded_us: u64,
    /// The first difference; nothing is played after it.
    pub divergence: Option<Divergence>,
    /// The recording was cut off: it ends without its last record, or inside a block.
    pub cut: bool,
    /// State of each realm that lives.
    pub states: Vec<RealmState>,
    /// Entries of the session, as the realm that was notified last has them.
    pub session: Vec<Value>,
}

/// State of a realm between two turns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RealmState {
    /// The extension of the realm.
    pub realm: ExtensionId,
    /// Its last turn.
    pub seq: Seq,
    /// Timers that are armed, and whether they repeat themselves.
    pub timers: BTreeMap<TimerId, bool>,
    /// Asynchronous hostcalls without a final answer: id and method.
    pub calls: Vec<(CallId, String)>,
}

/// A tape that is being replayed.
pub struct Replay<'a, R> {
    tape: TapeReader<R>,
    services: &'a dyn ReplayServices,
    options: ReplayOptions,
    players: BTreeMap<RealmNumber, Player>,
    /// Module sets by digest.
    modules: BTreeMap<String, Arc<Verified>>,
    lines: Lines,
    /// Realms that are not run.
    without: BTreeSet<RealmNumber>,
    /// The first tick whose use of fuel and jobs is compared.
    usage_from: u64,
    outcome: Outcome,
}

/// A record of the turn that is being gathered.
struct Step {
    number: u64,
    event: Event,
    line: Vec<u8>,
}

/// One realm of the tape.
struct Player {
    realm: Option<Box<dyn Realm>>,
    state: RealmState,
    turn: Vec<Step>,
    /// Entries of the session of which the realm was notified.
    entries: Vec<Json>,
    /// The record of its latest notification.
    notified_at: u64,
}

/// Lists the reasons for which a replay refuses the build; empty when it is the same.
fn build_differences(header: &TapeHeader, services: &dyn ReplayServices) -> Vec<String> {
    let (engine, modules) = (services.engine(), services.host_modules());
    let build = |engine: &EngineBuild| {
        format!("{} {} (bytecode {}, {})", engine.name, engine.version, engine.bytecode, engine.target)
    };
    let mut differences = Vec::new();
    if header.engine != engine {
        differences.push(format!("its engine is {}, here it is {}", build(&header.engine), build(&engine)));
    }
    if header.host_modules != modules {
        differences.push(format!(
            "its host modules (of pi {}) are {}, here they are {}",
            header.pi, header.host_modules, modules
        ));
    }
    differences
}

/// Returns the realms that ended before a tick: a replay from there on does without them.
///
/// # Errors
///
/// The tape cannot be read. One that was cut off is read as far as it is good.
pub fn ended_before(tape: &mut TapeReader<impl Read>, tick: u64) -> Result<BTreeSet<RealmNumber>, TapeError> {
    let (mut ended, mut now) = (BTreeSet::new(), 0);
    for record in tape {
        let record = match record {
            Err(error) if error.is_cut() => break,
            record => record?,
        };
        now += u64::from(record.event.begins_tick());
        if now >= tick {
            break;
        }
        if matches!(record.event, Event::Termination(_)) {
            ended.insert(record.realm);
        }
    }
    Ok(ended)
}

impl<'a, R: Read> Replay<'a, R> {
    /// Begins with a tape whose header was read.
    ///
    /// # Errors
    ///
    /// [`ReplayError::Build`] for a tape of another build, unless it is accepted.
    pub fn new(
        tape: TapeReader<R>,
        services: &'a dyn ReplayServices,
        options: ReplayOptions,
    ) -> Result<Self, ReplayError> {
        let differences = build_differences(tape.header(), services);
        if !differences.is_empty() && !options.accept_build {
            return Err(ReplayError::Build(differences));
        }
        let outcome = Outcome {
            realms: 0,
            ticks: 0,
            skipped: 0,
            records: 1,
            recorded_us: 0,
            divergence: None,
            cut: false,
            states: Vec::new(),
            session: Vec::new(),
        };
        let (players, modules) = (BTreeMap::new(), BTreeMap::new());
        let lines = Lines::new(!differences.is_empty());
        let without = BTreeSet::new();
        // Another engine or other modules of pi take other numbers of jobs and polls for the same outputs.
        let usage_from = if differences.is_empty() { 0 } else { u64::MAX };
        Ok(Self { tape, services, options, players, modules, lines, without, usage_from, outcome })
    }

    /// Leaves realms out: their turns count as skipped.
    #[must_use]
    pub fn without(mut self, realms: BTreeSet<RealmNumber>) -> Self {
        self.without = realms;
        self
    }

    /// Compares what turns consumed from this tick on only.
    pub(crate) fn usage_from(mut self, tick: u64) -> Self {
        self.usage_from = self.usage_from.max(tick);
        self
    }

    /// Plays the tape to its end, to the turn that the options name, or to the first difference.
    ///
    /// # Errors
    ///
    /// The tape cannot be read, or a realm of it cannot be made. A tape that was cut off is played as far as it is good,
    /// and that is not an error.
    pub fn run(mut self) -> Result<Outcome, ReplayError> {
        loop {
            let record = match self.tape.next() {
                None => break,
                Some(Err(error)) if error.is_cut() => break,
                Some(record) => record?,
            };
            let passed = self.tape.take_passed();
            self.outcome.ticks += passed.ticks;
            self.outcome.skipped += passed.ticks;
            self.outcome.realms += passed.realms;
            self.outcome.records = self.tape.number();
            self.take(record)?;
            let is_there = self.options.until.is_some_and(|until| self.outcome.ticks >= until);
            if is_there || self.outcome.divergence.is_some() {
                return Ok(self.stopped());
            }
        }
        self.outcome.cut = !self.tape.is_complete();
        Ok(self.stopped())
    }

    fn stopped(mut self) -> Outcome {
        if let Some(player) = self.players.values().max_by_key(|player| player.notified_at) {
            self.outcome.session = player.entries.iter().map(Json::value).collect();
        }
        let living = self.players.into_values().filter(|player| player.realm.is_some());
        self.outcome.states = living.map(|player| player.state).collect();
        self.outcome
    }

    fn take(&mut self, record: Record) -> Result<(), ReplayError> {
        let Record { realm, event, .. } = record;
        let Some(what) = event.as_ref() else { return Ok(()) };
        let now = match &event {
            Event::Open(opening) => Some(opening.now),
            Event::Delivery(delivery) => Some(delivery.now),
            Event::Reply(reply) => Some(reply.now),
            _ => None,
        };
        self.outcome.recorded_us = self.outcome.recorded_us.max(now.map_or(0, |now| now.elapsed_us));
        if self.without.contains(&realm) {
            // Counted where they begin, as an index counts those that are passed over.
            let begun = u64::from(event.begins_tick());
            self.outcome.ticks += begun;
            self.outcome.skipped += begun;
            self.outcome.realms += u64::from(matches!(event, Event::Open(_)));
            return Ok(());
        }
        let ends_turn = what.ends_turn();
        let step = Step { number: self.tape.number(), event, line: self.tape.canonical().to_vec() };
        if let Event::Open(opening) = &step.event {
            let state = RealmState {
                realm: opening.extension().clone(),
                seq: Seq::default(),
                timers: BTreeMap::new(),
                calls: Vec::new(),
            };
            let (turn, entries) = (Vec::new(), Vec::new());
            self.players.insert(realm, Player { realm: None, state, turn, entries, notified_at: 0 });
            self.outcome.realms += 1;
        }
        // The reader has seen to it that every realm was opened.
        let Some(player) = self.players.get_mut(&realm) else { return Ok(()) };
        player.turn.push(step);
        if ends_turn { self.play(realm) } else { Ok(()) }
    }

    /// Plays a turn whose end was read.
    fn play(&mut self, number: RealmNumber) -> Result<(), ReplayError> {
        let player = self.players.get_mut(&number).expect("a turn is gathered in its player");
        let mut turn = std::mem::take(&mut player.turn);
        let Some(end) = turn.pop() else { return Ok(()) };
        self.outcome.ticks += turn.iter().filter(|step| step.event.begins_tick()).count() as u64;
        if matches!(end.event, Event::Termination(_)) {
            // A turn that was stopped from outside stops elsewhere each time: the turn is not entered.
            player.realm = None;
            self.outcome.skipped += u64::from(!turn.is_empty());
            return Ok(());
        }
        let mut script = RecordedReplies::new(number, &turn, &self.lines);
        let mut deliveries = Vec::new();
        let mut opening = None;
        for step in &turn {
            player.take_entries(step);
            match &step.event {
                Event::Open(open) => opening = Some(open.as_ref().clone()),
                Event::Delivery(delivery) => deliveries.push(delivery.as_ref().clone()),
                _ => {}
            }
        }
        let deliveries_of_turn = deliveries.len();
        let done = match opening {
            Some(opening) => {
                if !are_usual(&opening.options.limits) {
                    return Err(ReplayError::Limits);
                }
                let modules = modules_of(&opening, &self.tape, self.services, &mut self.modules, self.options)?;
                let opened = self.services.open(&opening.options, modules, opening.now, &mut script);
                let (realm, booted) = opened.map_err(ReplayError::Open)?;
                player.realm = Some(realm);
                Ok(booted)
            }
            None => {
                for delivery in &deliveries {
                    player.state.delivered(delivery);
                }
                run_all(player.realm.as_deref_mut(), deliveries, &mut script)
            }
        };
        let difference =
            script.difference.take().map(|(call, record, difference)| (OutputSite::Call(call), record, difference));
        let difference = difference.or_else(|| {
            if let Some(difference) = script.left_over() {
                return Some((OutputSite::Turn, end.number, difference));
            }
            let event = match &done {
                Ok(done) => EventRef::Yield(done),
                Err(reason) => EventRef::Termination(reason),
            };
            let difference = self.lines.compare(number, &end.line, event)?;
            Some((OutputSite::in_yield(&difference.at), end.number, difference))
        });
        if let Ok(done) = &done {
            player.state.yielded(done);
        }
        let tick = self.outcome.ticks;
        let from = self.options.from.unwrap_or_default();
        let counts = |(_, _, difference): &(_, _, Difference)| {
            tick >= from && (tick >= self.usage_from || !difference.at.starts_with(USAGE))
        };
        if let Some((output, record, Difference { at, recorded, replayed })) = difference.filter(counts) {
            let (realm, seq, deliveries) = (player.state.realm.clone(), player.state.seq, deliveries_of_turn);
            let divergence =
                Divergence { tick, record, realm, seq, at, recorded, replayed, source: None, deliveries, output };
            self.outcome.divergence = Some(divergence);
        }
        Ok(())
    }
}

/// Runs deliveries one after the other; what several come to together is one yield, as the recording has it.
fn run_all(
    realm: Option<&mut (dyn Realm + '_)>,
    deliveries: Vec<Delivery>,
    script: &mut RecordedReplies<'_>,
) -> Result<Yield, Termination> {
    let gone = || Termination::Protocol { detail: "the realm is stopped".to_owned() };
    let realm = realm.ok_or_else(gone)?;
    let mut all: Option<Yield> = None;
    for delivery in deliveries {
        let done = run(realm, delivery, script)?;
        all = Some(match all {
            None => done,
            Some(before) => joined(before, done),
        });
    }
    all.ok_or_else(gone)
}

fn run(realm: &mut dyn Realm, delivery: Delivery, script: &mut RecordedReplies<'_>) -> Result<Yield, Termination> {
    let mut progress = realm.start(delivery, script);
    loop {
        match progress {
            Progress::Running => progress = realm.resume(script, Patience::AtMost(PATIENCE)),
            Progress::Yielded(done) => return Ok(done),
            Progress::Ended(reason) => return Err(reason),
        }
    }
}

pub(crate) fn joined(mut before: Yield, done: Yield) -> Yield {
    let (left, right) = (before.usage, done.usage);
    before.messages.extend(done.messages);
    if before.stream == StreamAnswer::Continue {
        before.stream = done.stream;
    }
    before.usage = Usage {
        jobs: left.jobs + right.jobs,
        fuel: left.fuel + right.fuel,
        clock_reads: left.clock_reads + right.clock_reads,
        random_draws: left.random_draws + right.random_draws,
        heap_bytes: right.heap_bytes,
    };
    before
}

/// Answers the synchronous calls of a turn from the tape.
struct RecordedReplies<'a> {
    realm: RealmNumber,
    lines: &'a Lines,
    calls: Vec<(&'a Step, Option<&'a SyncReply>)>,
    next: usize,
    /// The first call that was not made as recorded: its index, the record, and how it differs.
    difference: Option<(usize, u64, Difference)>,
    now: Now,
}

impl<'a> RecordedReplies<'a> {
    fn new(realm: RealmNumber, turn: &'a [Step], lines: &'a Lines) -> Self {
        let mut calls: Vec<(&Step, Option<&SyncReply>)> = Vec::new();
        let mut now = Now::default();
        for step in turn {
            match &step.event {
                Event::Call(_) => calls.push((step, None)),
                Event::Reply(reply) => {
                    if let Some((_, answer)) = calls.last_mut() {
                        *answer = Some(reply);
                    }
                }
                Event::Delivery(delivery) => now = delivery.now,
                Event::Open(opening) => now = opening.now,
                _ => {}
            }
        }
        Self { realm, lines, calls, next: 0, difference: None, now }
    }

    /// Returns a recorded call that was not made.
    fn left_over(&self) -> Option<Difference> {
        let (step, _) = self.calls.get(self.next)?;
        compare(Some(&step.line), None)
    }
}

impl SyncHost for RecordedReplies<'_> {
    fn call(&mut self, call: HostCall) -> SyncReply {
        let recorded = self.calls.get(self.next).copied();
        self.next += 1;
        if self.difference.is_none() {
            let event = EventRef::Call(&call);
            let (number, difference) = match recorded {
                Some((step, _)) => (step.number, self.lines.compare(self.realm, &step.line, event)),
                None => {
                    let line = self.lines.encoder.canonical(self.realm, event).map(|encoded| encoded.line);
                    (0, compare(None, line.ok().as_deref()))
                }
            };
            self.difference = difference.map(|difference| (self.next - 1, number, difference));
        }
        match recorded.and_then(|(_, reply)| reply).filter(|_| self.difference.is_none()) {
            Some(reply) => {
                self.now = reply.now;
                reply.clone()
            }
            None => {
                let error = HostcallError::new(ErrorCode::Internal, "the replay has no answer to this call");
                SyncReply { result: HostResult::failed(call.call_id, error), now: self.now, state: None }
            }
        }
    }
}

impl Player {
    /// Applies a change of the session's entries that a record has.
    fn take_entries(&mut self, step: &Step) {
        let state = match &step.event {
            Event::Delivery(delivery) => delivery.state.as_ref(),
            Event::Reply(reply) => reply.state.as_ref(),
            _ => None,
        };
        if let Some(entries) = state.and_then(|state| state.entries.as_ref()) {
            self.entries.truncate(entries.keep);
            self.entries.extend(entries.append.iter().cloned());
            self.notified_at = step.number;
        }
    }
}

impl RealmState {
    fn delivered(&mut self, delivery: &Delivery) {
        self.seq = delivery.seq;
        let Task::Message(message) = &delivery.task else { return };
        match message.as_ref() {
            Message::HostResult(result) if result.is_final() => self.calls.retain(|(id, _)| *id != result.call_id),
            Message::TimerFired { timer } if self.timers.get(timer) == Some(&false) => drop(self.timers.remove(timer)),
            _ => {}
        }
    }

    fn yielded(&mut self, done: &Yield) {
        for message in &done.messages {
            match message {
                Message::TimerSet { timer, repeat, .. } => drop(self.timers.insert(*timer, *repeat)),
                Message::TimerClear { timer } => drop(self.timers.remove(timer)),
                Message::HostCall(call) => self.calls.push((call.call_id.clone(), call.method.to_string())),
                _ => {}
            }
        }
    }
}
