//! Runs the inputs of a tape through an extension that has changed.
//!
//! A [`Replay`](crate::Replay) ends at the first difference. A rerun continues: it aligns the outputs of each turn with the
//! recorded ones, reports those that changed, and delivers later inputs to the counterparts of the recorded calls, timers and
//! functions. An input for which the extension no longer has a receiver is left out. A call that was not recorded gets the answer
//! of an equal call if there is one; otherwise a synchronous call fails, and an asynchronous one gets no answer.
//!
//! The resources that a turn consumes are not compared. Realms of other extensions are not run.

mod change;
mod script;

use crate::align::{Aligned, Found, Names, Output, align};
use crate::compare::OutputSite;
use crate::error::TapeError;
use crate::modules;
use crate::reader::TapeReader;
use crate::record::{Blob, Event, EventRef, ModuleSet, Opening, RealmNumber, Record};
use crate::replay::joined;
use crate::replay_services::{ReplayError, ReplayOptions, ReplayServices, are_usual, modules_of};
use crate::source::{Latest, Traced};
use crate::writer::TapeWriter;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use pijs_artifact::Verified;
use pijs_protocol::wire::{EntriesDelta, StateDelta, Task};
use pijs_protocol::{CallId, Delivery, ExtensionId, Handle, HostResult, Message, Seq, Termination, TimerId, Yield};
use pijs_realm::{Patience, Progress, Realm};
use pijs_redact::Redactor;
use script::{CallScript, ScriptHost};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

pub use change::{Change, Changes};

/// Maximum duration of a single wait for a realm in another process.
const PATIENCE: Duration = Duration::from_millis(100);

/// Maximum number of changes that are kept; further ones are only counted.
const MAX_CHANGES: usize = 200;

/// Reports the outputs of an extension that changed since the tape was recorded. The extension is the one for which `services`
/// return a [`ReplayServices::replacement`]. Its realms run in this thread, whose time zone has to be the recorded one.
///
/// # Errors
///
/// Fails if the tape cannot be read, or if a realm cannot be created.
pub fn changes<R: Read>(tape: TapeReader<R>, services: &dyn ReplayServices) -> Result<Changes, ReplayError> {
    let latest = Latest::default();
    let traced = Traced::new(services, &latest);
    Rerun::<R, std::io::Sink>::new(tape, &traced, Some(latest), None, RerunInputs::OfReplaced)
        .run()
        .map(|(changes, _)| changes)
}

/// Runs the extension with the inputs of a tape, and writes the resulting tape to `out`. Replaying that tape shows no difference.
///
/// # Errors
///
/// As [`changes`]; also fails if `out` cannot be written.
pub fn rerecord<R: Read, W: Write>(
    tape: TapeReader<R>,
    services: &dyn ReplayServices,
    out: W,
) -> Result<W, ReplayError> {
    written(tape, services, out, RerunInputs::OfReplaced).map(|(_, out)| out)
}

/// Runs all extensions of a tape with its inputs except those of some ticks, and writes the resulting tape to `out`. Returns
/// `out` and the number of inputs that were left out, including later inputs without a receiver. The opening of a realm and the
/// loading of an entry are never left out.
///
/// # Errors
///
/// As [`rerecord`].
pub fn cut<R: Read, W: Write>(
    tape: TapeReader<R>,
    services: &dyn ReplayServices,
    ticks: Vec<RangeInclusive<u64>>,
    out: W,
) -> Result<(W, u64), ReplayError> {
    written(tape, services, out, RerunInputs::Without(ticks)).map(|(changes, out)| (out, changes.left_out))
}

fn written<R: Read, W: Write>(
    tape: TapeReader<R>,
    services: &dyn ReplayServices,
    out: W,
    inputs: RerunInputs,
) -> Result<(Changes, W), ReplayError> {
    let mut header = tape.header().clone();
    (header.engine, header.host_modules) = (services.engine(), services.host_modules());
    env!("CARGO_PKG_VERSION").clone_into(&mut header.pi);
    let writer = TapeWriter::redacting(out, &header, Redactor::default().substitutes())?;
    let (changes, writer) = Rerun::new(tape, services, None, Some(writer), inputs).run()?;
    Ok((changes, writer.expect("the writer was passed in").finish()?))
}

/// Selects the inputs that are run.
enum RerunInputs {
    /// Inputs of the extension that is replaced.
    OfReplaced,
    /// Inputs of all extensions, except those of these ticks.
    Without(Vec<RangeInclusive<u64>>),
}

struct Rerun<'a, R, W: Write> {
    tape: TapeReader<R>,
    services: &'a dyn ReplayServices,
    latest: Option<Latest>,
    out: Option<TapeWriter<W>>,
    players: BTreeMap<RealmNumber, RerunRealm>,
    modules: BTreeMap<String, Arc<Verified>>,
    found: Changes,
    tick: u64,
    inputs: RerunInputs,
}

/// The inputs of a turn.
struct TurnInputs {
    opened: Option<Opening>,
    deliveries: Vec<Delivery>,
    /// Sequence number and name of the last input.
    seq: Seq,
    input: String,
}

/// One realm of the tape.
enum RerunRealm {
    /// A realm of another extension, whose records are copied.
    Other,
    /// A realm of the extension that is run.
    Own(Box<OwnRealm>),
}

struct OwnRealm {
    id: ExtensionId,
    realm: Option<Box<dyn Realm>>,
    /// Events of the turn that is being collected, with the numbers of their ticks.
    turn: Vec<(u64, Event)>,
    names: Names,
    /// Answers of synchronous calls, by request.
    answers: BTreeMap<String, HostResult>,
    /// State changes of inputs that were left out.
    state: Option<StateDelta>,
}

impl<'a, R: Read, W: Write> Rerun<'a, R, W> {
    fn new(
        tape: TapeReader<R>,
        services: &'a dyn ReplayServices,
        latest: Option<Latest>,
        out: Option<TapeWriter<W>>,
        inputs: RerunInputs,
    ) -> Self {
        let (players, modules, found) = (BTreeMap::new(), BTreeMap::new(), Changes::default());
        Self { tape, services, latest, out, players, modules, found, tick: 0, inputs }
    }

    fn run(mut self) -> Result<(Changes, Option<TapeWriter<W>>), ReplayError> {
        loop {
            let record = match self.tape.next() {
                None => break,
                Some(Err(error)) if error.is_cut() => break,
                Some(record) => record.map_err(ReplayError::Tape)?,
            };
            self.take(record)?;
        }
        self.found.cut = !self.tape.is_complete();
        Ok((self.found, self.out))
    }

    fn take(&mut self, record: Record) -> Result<(), ReplayError> {
        let Record { realm, event, .. } = record;
        self.tick += u64::from(event.begins_tick());
        if let Event::Open(opening) = &event {
            let is_replaced = |set: &ModuleSet| set.source.is_some() && self.services.replacement(set).is_some();
            let is_own = match self.inputs {
                RerunInputs::OfReplaced => opening.modules.iter().any(is_replaced),
                RerunInputs::Without(_) => true,
            };
            let player = match is_own {
                true => RerunRealm::Own(Box::new(OwnRealm {
                    id: opening.extension().clone(),
                    realm: None,
                    turn: Vec::new(),
                    names: Names::default(),
                    answers: BTreeMap::new(),
                    state: None,
                })),
                false => {
                    self.copy_sources(opening)?;
                    RerunRealm::Other
                }
            };
            self.players.insert(realm, player);
        }
        let Some(what) = event.as_ref() else { return Ok(()) };
        let ends_turn = what.ends_turn();
        match self.players.get_mut(&realm) {
            Some(RerunRealm::Own(own)) => {
                own.turn.push((self.tick, event));
                if ends_turn {
                    let mut own = self.players.remove(&realm).expect("the realm has a player");
                    if let RerunRealm::Own(own) = &mut own {
                        self.play(realm, own)?;
                    }
                    self.players.insert(realm, own);
                }
                Ok(())
            }
            Some(RerunRealm::Other) => self.write(realm, what),
            // The reader has checked that every realm was opened.
            None => Ok(()),
        }
    }

    fn write(&mut self, realm: RealmNumber, event: EventRef<'_>) -> Result<(), ReplayError> {
        match &mut self.out {
            Some(out) => Ok(out.append(realm, event)?),
            None => Ok(()),
        }
    }

    /// Copies the sources of another extension.
    fn copy_sources(&mut self, opening: &Opening) -> Result<(), ReplayError> {
        let Some(out) = &mut self.out else { return Ok(()) };
        for digest in opening.modules.iter().filter_map(|set| set.source.as_ref()) {
            if let Some(bytes) = self.tape.blob(digest) {
                out.append_blob(&Blob { digest: digest.clone(), base64: BASE64.encode(bytes) })?;
            }
        }
        Ok(())
    }

    /// Runs a turn whose end was read.
    fn play(&mut self, number: RealmNumber, own: &mut OwnRealm) -> Result<(), ReplayError> {
        let mut turn = std::mem::take(&mut own.turn);
        let recorded = match turn.pop() {
            Some((_, Event::Termination(reason))) => return self.pass_stopped(number, own, turn, &reason),
            Some((_, Event::Yield(recorded))) => recorded,
            // A turn ends with a yield or a termination.
            _ => return Ok(()),
        };
        self.found.ticks += 1;
        let mut script = CallScript::new(&turn);
        let TurnInputs { opened, deliveries, seq, input } = self.inputs_of(turn, own);
        if own.realm.is_none() && opened.is_none() {
            self.found.left_out += deliveries.len() as u64;
            return Ok(());
        }
        let place = TurnSite { tick: self.tick, id: own.id.clone(), seq, input, deliveries: deliveries.len() };
        let booted = match opened {
            Some(opening) => Some(Ok(self.boot(number, own, opening, &mut script)?)),
            None => None,
        };
        let done = self.deliver(number, own, deliveries, &mut script, booted)?;
        script.skip_rest(own);
        for (index, recorded, replayed) in std::mem::take(&mut script.changes) {
            self.report(&place, index.map_or(OutputSite::Turn, OutputSite::Call), recorded, replayed);
        }
        match done {
            Some(Ok(done)) => {
                self.compare(&place, own, &recorded, &done);
                self.write(number, EventRef::Yield(&done))
            }
            Some(Err(reason)) => {
                let recorded = serde_json::to_value(&recorded).unwrap_or_default();
                let replayed = serde_json::json!({ "ended": reason.to_string() });
                self.report(&place, OutputSite::Turn, recorded, replayed);
                self.write(number, EventRef::Termination(&reason))
            }
            None => {
                self.compare(&place, own, &recorded, &Yield::default());
                Ok(())
            }
        }
    }

    /// Copies a turn that was stopped from outside without running it.
    fn pass_stopped(
        &mut self,
        number: RealmNumber,
        own: &mut OwnRealm,
        turn: Vec<(u64, Event)>,
        reason: &Termination,
    ) -> Result<(), ReplayError> {
        own.realm = None;
        for (tick, event) in &turn {
            let is_cut = matches!(event, Event::Delivery(delivery) if self.is_cut(*tick, &delivery.task));
            if let Some(event) = event.as_ref().filter(|_| !is_cut) {
                self.write_turn_start(number, event)?;
            }
        }
        self.write(number, EventRef::Termination(reason))
    }

    /// Translates the inputs of a turn to the ids of the changed extension. Counts inputs without a receiver.
    fn inputs_of(&mut self, turn: Vec<(u64, Event)>, own: &mut OwnRealm) -> TurnInputs {
        let mut inputs =
            TurnInputs { opened: None, deliveries: Vec::new(), seq: Seq::default(), input: "open".to_owned() };
        for (tick, event) in turn {
            match event {
                Event::Open(opening) => inputs.opened = Some(*opening),
                Event::Delivery(delivery) => {
                    (inputs.seq, inputs.input) = (delivery.seq, name(&delivery.task));
                    let state = delivery.state.clone();
                    let kept = Some(*delivery).filter(|delivery| !self.is_cut(tick, &delivery.task));
                    match kept.and_then(|delivery| own.names.translate(delivery)) {
                        Some(delivery) => inputs.deliveries.push(delivery),
                        None => {
                            self.found.left_out += 1;
                            own.leave_out(state.as_ref());
                        }
                    }
                }
                _ => {}
            }
        }
        inputs
    }

    /// Opens a realm with the modules of the changed extension.
    fn boot(
        &mut self,
        number: RealmNumber,
        own: &mut OwnRealm,
        mut opening: Opening,
        script: &mut CallScript,
    ) -> Result<Yield, ReplayError> {
        if !are_usual(&opening.options.limits) {
            return Err(ReplayError::Limits);
        }
        let options = ReplayOptions { accept_build: true, ..ReplayOptions::default() };
        let modules = modules_of(&opening, &self.tape, self.services, &mut self.modules, options)?;
        let host = &mut ScriptHost { script, own };
        let started = self.services.open(&opening.options, modules.clone(), opening.now, host);
        let (realm, booted) = started.map_err(ReplayError::Open)?;
        own.realm = Some(realm);
        self.describe(&mut opening, &modules)?;
        self.write(number, EventRef::Open(&opening))?;
        self.write_calls(number, script)?;
        Ok(booted)
    }

    /// Delivers the inputs of a turn until the realm ends. Returns the joined yields; `None` if no input was run.
    fn deliver(
        &mut self,
        number: RealmNumber,
        own: &mut OwnRealm,
        deliveries: Vec<Delivery>,
        script: &mut CallScript,
        booted: Option<Result<Yield, Termination>>,
    ) -> Result<Option<Result<Yield, Termination>>, ReplayError> {
        let mut done = booted;
        for mut delivery in deliveries {
            delivery.state = own.with_state(delivery.state);
            self.write(number, EventRef::Delivery(&delivery))?;
            script.now = delivery.now;
            let mut realm = own.realm.take();
            let ran = realm.as_deref_mut().map(|realm| run(realm, delivery, &mut ScriptHost { script, own }));
            own.realm = realm;
            self.write_calls(number, script)?;
            match ran {
                Some(Ok(more)) => {
                    done = Some(Ok(match done.take() {
                        Some(Ok(before)) => joined(before, more),
                        _ => more,
                    }));
                }
                Some(Err(reason)) => {
                    own.realm = None;
                    return Ok(Some(Err(reason)));
                }
                None => break,
            }
        }
        Ok(done)
    }

    /// Returns whether an input is in a tick that the caller leaves out.
    fn is_cut(&self, tick: u64, task: &Task) -> bool {
        let is_load = matches!(task, Task::Message(message) if matches!(message.as_ref(), Message::Load(_)));
        match &self.inputs {
            RerunInputs::OfReplaced => false,
            RerunInputs::Without(ticks) => !is_load && ticks.iter().any(|range| range.contains(&tick)),
        }
    }

    fn write_turn_start(&mut self, realm: RealmNumber, event: EventRef<'_>) -> Result<(), ReplayError> {
        if let EventRef::Open(opening) = event {
            self.copy_sources(opening)?;
        }
        self.write(realm, event)
    }

    fn write_calls(&mut self, realm: RealmNumber, script: &mut CallScript) -> Result<(), ReplayError> {
        for (call, reply) in std::mem::take(&mut script.made) {
            self.write(realm, EventRef::Call(&call))?;
            self.write(realm, EventRef::Reply(&reply))?;
        }
        Ok(())
    }

    /// Replaces the recorded modules in an opening by those that were run.
    fn describe(&mut self, opening: &mut Opening, run: &[Arc<Verified>]) -> Result<(), ReplayError> {
        let Some(out) = &mut self.out else { return Ok(()) };
        for (set, modules) in opening.modules.iter_mut().zip(run) {
            let (described, sources) = modules::describe(modules);
            let keeps_sources = set.source.is_some();
            *set = described;
            if let Some(sources) = sources.filter(|_| keeps_sources) {
                let sources = modules::without_secrets(sources, set, |text| out.without_secrets(text))?;
                let digest = modules::blob_digest(&sources);
                out.append_blob(&Blob { digest: digest.clone(), base64: BASE64.encode(&sources) })?;
                set.source = Some(digest);
            }
        }
        Ok(())
    }

    fn compare(&mut self, at: &TurnSite, own: &mut OwnRealm, recorded: &Yield, replayed: &Yield) {
        let outputs = |done: &Yield| done.messages.iter().map(Output::of_message).collect::<Vec<_>>();
        let (left, right) = (outputs(recorded), outputs(replayed));
        let value = |output: &Output| output.value.clone();
        for aligned in align(&left, &right) {
            match aligned {
                Aligned::Equal(i, j) => {
                    own.names.pair(&left[i], &right[j]);
                    if !own.names.refer_alike(&left[i], &right[j]) {
                        let written = |message| serde_json::to_value(message).unwrap_or_default();
                        let (left, right) = (written(&recorded.messages[i]), written(&replayed.messages[j]));
                        self.report(at, OutputSite::Message(j, None), left, right);
                    }
                }
                Aligned::Changed(i, j) => {
                    own.names.pair(&left[i], &right[j]);
                    let registration = changed_registration(&left[i].value, &right[j].value);
                    self.report(at, OutputSite::Message(j, registration), value(&left[i]), value(&right[j]));
                }
                Aligned::Removed(i) => {
                    own.names.lose(&left[i]);
                    self.report(at, OutputSite::Turn, value(&left[i]), Value::Null);
                }
                Aligned::Added(j) => {
                    own.names.add(&right[j]);
                    self.report(at, OutputSite::Message(j, None), Value::Null, value(&right[j]));
                }
            }
        }
        let (left, right) = (Output::of_stream(&recorded.stream), Output::of_stream(&replayed.stream));
        let is_alike = match (&left, &right) {
            (Some(left), Some(right)) => left.value == right.value && own.names.refer_alike(left, right),
            (left, right) => left.is_none() && right.is_none(),
        };
        if !is_alike {
            let of = |output: Option<&Output>| output.map(value).unwrap_or_default();
            self.report(at, OutputSite::Stream, of(left.as_ref()), of(right.as_ref()));
        }
    }

    fn report(&mut self, at: &TurnSite, output: OutputSite, recorded: Value, replayed: Value) {
        self.found.count += 1;
        if self.found.changes.len() >= MAX_CHANGES {
            return;
        }
        let latest = self.latest.as_ref().and_then(|latest| latest.borrow().clone());
        let source = latest.and_then(|realm| realm.borrow().position(at.deliveries, output));
        let TurnSite { tick, id, seq, input, .. } = at;
        let (tick, realm, seq, input) = (*tick, id.clone(), *seq, input.clone());
        self.found.changes.push(Change { tick, realm, seq, input, recorded, replayed, source });
    }
}

/// Position of a change: its turn.
struct TurnSite {
    tick: u64,
    id: ExtensionId,
    seq: Seq,
    input: String,
    /// Number of macrotasks that were run.
    deliveries: usize,
}

/// Returns the name of a macrotask.
pub(crate) fn name(task: &Task) -> String {
    let message = match task {
        Task::Stream(_) => return "stream".to_owned(),
        Task::Message(message) => message,
    };
    match message.as_ref() {
        Message::EventHook(hook) => format!("event {}", hook.event),
        Message::ToolCall(call) => format!("tool {}", call.name),
        Message::SlashCommand(command) => format!("command /{}", command.name),
        Message::Callback(_) => "callback".to_owned(),
        Message::HostResult(result) => format!("answer of {}", result.call_id),
        Message::TimerFired { timer } => format!("timer {}", timer.0),
        Message::Load(load) => format!("load {}", load.path),
        message => {
            let written = serde_json::to_value(message).unwrap_or_default();
            written.get("type").and_then(Value::as_str).unwrap_or_default().to_owned()
        }
    }
}

/// Returns the index of the first registration that differs.
fn changed_registration(left: &Value, right: &Value) -> Option<usize> {
    let of = |value: &Value| value.pointer("/payload/registrations").and_then(Value::as_array).cloned();
    let (left, right) = (of(left)?, of(right)?);
    (0..right.len()).find(|at| left.get(*at) != right.get(*at))
}

fn run(realm: &mut dyn Realm, delivery: Delivery, host: &mut ScriptHost<'_>) -> Result<Yield, Termination> {
    let mut progress = realm.start(delivery, host);
    loop {
        match progress {
            Progress::Running => progress = realm.resume(host, Patience::AtMost(PATIENCE)),
            Progress::Yielded(done) => return Ok(done),
            Progress::Ended(reason) => return Err(reason),
        }
    }
}

impl OwnRealm {
    fn leave_out(&mut self, state: Option<&StateDelta>) {
        if let Some(state) = state {
            self.state = Some(match self.state.take() {
                Some(before) => merged(before, state.clone()),
                None => state.clone(),
            });
        }
    }

    /// Returns the state changes of an input, merged with those of omitted inputs before it.
    fn with_state(&mut self, state: Option<StateDelta>) -> Option<StateDelta> {
        match (self.state.take(), state) {
            (Some(before), Some(state)) => Some(merged(before, state)),
            (before, state) => before.or(state),
        }
    }
}

/// Joins two changes of the readable state.
pub(crate) fn merged(mut before: StateDelta, state: StateDelta) -> StateDelta {
    before.set.extend(state.set);
    let entries = match (before.entries, state.entries) {
        (Some(before), Some(mut then)) => Some(match then.keep.checked_sub(before.keep) {
            Some(kept) => {
                let mut append = before.append;
                append.truncate(kept);
                append.append(&mut then.append);
                EntriesDelta { keep: before.keep, append }
            }
            None => then,
        }),
        (before, then) => then.or(before),
    };
    StateDelta { version: state.version, set: before.set, entries }
}

impl Names {
    /// Translates the ids in an input to those of the replay; `None` if nothing waits for the input.
    fn translate(&self, mut delivery: Delivery) -> Option<Delivery> {
        let Task::Message(message) = &mut delivery.task else { return Some(delivery) };
        match message.as_mut() {
            Message::HostResult(result) => match self.calls.find(result.call_id.as_str()) {
                Found::As(id) => result.call_id = CallId::from(id),
                Found::Gone | Found::Unknown => return None,
            },
            Message::TimerFired { timer } => match self.timers.find(&timer.0.to_string()) {
                Found::As(id) => *timer = TimerId(id.parse().ok()?),
                Found::Gone | Found::Unknown => return None,
            },
            Message::EventHook(hook) => self.function(&mut hook.handle)?,
            Message::ToolCall(call) => self.function(&mut call.handle)?,
            Message::SlashCommand(command) => self.function(&mut command.handle)?,
            Message::Callback(callback) => self.function(&mut callback.handle)?,
            Message::HandlerMuted { handler } => self.function(handler)?,
            _ => {}
        }
        Some(delivery)
    }

    fn function(&self, handle: &mut Handle) -> Option<()> {
        match self.functions.find(&handle.0.to_string()) {
            Found::As(id) => *handle = Handle(id.parse().ok()?),
            Found::Gone => return None,
            Found::Unknown => {}
        }
        Some(())
    }
}

impl From<std::io::Error> for ReplayError {
    fn from(error: std::io::Error) -> Self {
        Self::Tape(TapeError::from(error))
    }
}
