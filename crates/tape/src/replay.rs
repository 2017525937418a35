//! Replays a tape.
//!
//! Realms are independent of each other, so each is replayed separately: the records of a turn are collected until its end is
//! read, then the turn runs in a fresh realm whose synchronous calls are answered from the tape. The outputs (calls, the yield, a
//! termination) are compared with the recorded ones, line by line. The first difference ends the replay.

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

/// Maximum duration of a single wait for a realm in another process.
const PATIENCE: Duration = Duration::from_millis(100);

/// The result of a replay.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// Number of realms that were opened.
    pub realms: u64,
    /// Number of ticks (openings of realms and macrotasks) that were replayed, or skipped because the realm was stopped during
    /// them.
    pub ticks: u64,
    /// Number of turns that were skipped because the realm was stopped during them. A realm that ended between turns adds none.
    pub skipped: u64,
    /// Number of records that were read.
    pub records: u64,
    /// Time of the session up to the last record, in microseconds.
    pub recorded_us: u64,
    /// First difference, where the replay ended; `None` if there is none.
    pub divergence: Option<Divergence>,
    /// Whether the recording was cut off: it has no last record, or ends inside a block.
    pub cut: bool,
    /// States of the realms that are alive at the end.
    pub states: Vec<RealmState>,
    /// Entries of the session, as last sent to a realm.
    pub session: Vec<Value>,
}

/// State of a realm between two turns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RealmState {
    /// The extension of the realm.
    pub realm: ExtensionId,
    /// Sequence number of the last turn.
    pub seq: Seq,
    /// Armed timers; `true` for an interval.
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
    /// Realms that are skipped.
    without: BTreeSet<RealmNumber>,
    /// First tick whose consumed fuel and jobs are compared.
    usage_from: u64,
    outcome: Outcome,
}

/// A record of the turn that is being collected.
struct Step {
    number: u64,
    event: Event,
    line: Vec<u8>,
}

/// Replays one realm of the tape.
struct Player {
    realm: Option<Box<dyn Realm>>,
    state: RealmState,
    turn: Vec<Step>,
    /// Entries of the session that the realm was notified of.
    entries: Vec<Json>,
    /// Number of the record of the latest notification.
    notified_at: u64,
}

/// Returns the differences between the recording build and this one; empty if the builds are the same.
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

/// Returns the realms that ended before a tick. A replay from that tick on does not need them.
///
/// # Errors
///
/// Fails if the tape cannot be read. A tape that was cut off is read as far as it is valid.
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
    /// Creates a replay of a tape whose header was read.
    ///
    /// # Errors
    ///
    /// Fails with [`ReplayError::Build`] for a tape of another build, unless the options accept it.
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
        // With another engine or other modules of pi, the same outputs take different numbers of jobs and polls.
        let usage_from = if differences.is_empty() { 0 } else { u64::MAX };
        Ok(Self { tape, services, options, players, modules, lines, without, usage_from, outcome })
    }

    /// Skips these realms. Their turns count as skipped.
    #[must_use]
    pub fn without(mut self, realms: BTreeSet<RealmNumber>) -> Self {
        self.without = realms;
        self
    }

    /// Compares the resources that turns consume only from this tick on.
    pub(crate) fn usage_from(mut self, tick: u64) -> Self {
        self.usage_from = self.usage_from.max(tick);
        self
    }

    /// Replays the tape to its end, to the tick that the options name, or to the first difference.
    ///
    /// # Errors
    ///
    /// Fails if the tape cannot be read, or if a realm cannot be created. A tape that was cut off is replayed as far as it is
    /// valid, which is not an error.
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
            // Ticks are counted where they begin, like skipped ones in an index.
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
        // The reader has checked that every realm was opened.
        let Some(player) = self.players.get_mut(&realm) else { return Ok(()) };
        player.turn.push(step);
        if ends_turn { self.play(realm) } else { Ok(()) }
    }

    /// Replays a turn whose end was read.
    fn play(&mut self, number: RealmNumber) -> Result<(), ReplayError> {
        let player = self.players.get_mut(&number).expect("a turn has a player until it is complete");
        let mut turn = std::mem::take(&mut player.turn);
        let Some(end) = turn.pop() else { return Ok(()) };
        self.outcome.ticks += turn.iter().filter(|step| step.event.begins_tick()).count() as u64;
        if matches!(end.event, Event::Termination(_)) {
            // A turn that was stopped from outside would stop at another point each time, so it is not entered.
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

/// Runs deliveries in sequence and joins their yields, as in the recording.
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
    /// First call that differs from the recording: its index, the record, and the difference.
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

    /// Returns the first recorded call that was not made.
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
    /// Applies the change of the session's entries in a record.
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
