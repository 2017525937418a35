//! Finds the position in the extension's source that caused the first difference of a replay.
//!
//! A tape has no stacks, because recording them would slow a session down too much. So after a replay has found a difference, it
//! runs again up to that difference, in realms of this thread that keep the stack of each call and message
//! ([`pijs_engine::Trace`]). The position is the innermost frame in the extension's source. If there is none, for example in the
//! answer that the runtime sends for a handler, the input of the turn determines the position: the registration of the handler,
//! or the statement that armed the timer or made the call.

use crate::compare::{Divergence, OutputSite};
use crate::reader::TapeReader;
use crate::record::ModuleSet;
use crate::replay::Replay;
use crate::replay_services::{ReplayOptions, ReplayServices};
use crate::source_position::{Relation, SourcePosition};
use pijs_artifact::{Artifact, PositionMap, Verified, innermost};
use pijs_engine::{EngineRealm, SyncHost, Trace};
use pijs_protocol::artifact::EngineBuild;
use pijs_protocol::message::Position;
use pijs_protocol::wire::{RealmOptions, StreamAnswer, Task};
use pijs_protocol::{CallId, Delivery, Handle, Message, Now, Seq, StreamDelta, Termination, TimerId, Yield};
use pijs_realm::{Patience, Progress, Realm};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Read;
use std::rc::Rc;
use std::sync::Arc;

/// Returns the position that caused a difference. The difference must come from a replay of the same tape with the same services.
///
/// `None` if the position is unknown: no code of the extension ran, the difference does not occur in realms of this thread, or
/// the services have no source maps.
pub fn locate<R: Read>(
    tape: TapeReader<R>,
    services: &dyn ReplayServices,
    divergence: &Divergence,
) -> Option<SourcePosition> {
    let latest = Latest::default();
    let traced = Traced::new(services, &latest);
    let options = ReplayOptions { until: Some(divergence.tick), from: Some(divergence.tick), accept_build: true };
    let again = Replay::new(tape, &traced, options).ok()?.usage_from(divergence.tick).run().ok()?.divergence?;
    if !again.is_same(divergence) {
        return None;
    }
    let realm = latest.borrow().clone()?;
    realm.borrow().position(again.deliveries, again.output)
}

/// Services of a replay whose realms keep stacks.
pub(crate) struct Traced<'a> {
    services: &'a dyn ReplayServices,
    latest: Latest,
}

/// The realm that ran last.
pub(crate) type Latest = Rc<RefCell<Option<Rc<RefCell<TracedRealm>>>>>;

impl<'a> Traced<'a> {
    pub(crate) fn new(services: &'a dyn ReplayServices, latest: &Latest) -> Self {
        Self { services, latest: Rc::clone(latest) }
    }
}

impl ReplayServices for Traced<'_> {
    fn engine(&self) -> EngineBuild {
        self.services.engine()
    }

    fn host_modules(&self) -> String {
        self.services.host_modules()
    }

    fn replacement(&self, recorded: &ModuleSet) -> Option<Arc<Verified>> {
        self.services.replacement(recorded)
    }

    fn modules(&self, modules: &ModuleSet) -> Option<Arc<Verified>> {
        self.services.modules(modules)
    }

    fn positions(&self, artifact: &Artifact) -> Option<Box<dyn PositionMap>> {
        self.services.positions(artifact)
    }

    fn open(
        &self,
        options: &RealmOptions,
        modules: Vec<Arc<Verified>>,
        now: Now,
        host: &mut dyn SyncHost,
    ) -> Result<(Box<dyn Realm>, Yield), String> {
        let map = modules.last().and_then(|own| self.services.positions(own.artifact()));
        let mut engine = EngineRealm::new(options).map_err(|error| error.to_string())?;
        engine.trace();
        modules.into_iter().for_each(|modules| engine.add_modules(modules));
        let booted = engine.start(now, host).map_err(|reason| reason.to_string())?;
        let mut realm = TracedRealm {
            engine,
            map,
            turns: Vec::new(),
            timers: BTreeMap::new(),
            calls: BTreeMap::new(),
            functions: BTreeMap::new(),
        };
        realm.keep(None, &booted);
        let shared = SharedRealm { realm: Rc::new(RefCell::new(realm)), latest: Rc::clone(&self.latest) };
        shared.is_latest();
        Ok((Box::new(shared), booted))
    }
}

/// A realm that the replay owns and the tracer can read.
struct SharedRealm {
    realm: Rc<RefCell<TracedRealm>>,
    latest: Latest,
}

impl SharedRealm {
    fn is_latest(&self) {
        *self.latest.borrow_mut() = Some(Rc::clone(&self.realm));
    }

    fn turn(&self, delivery: Delivery, host: &mut dyn SyncHost) -> Result<Yield, Termination> {
        self.is_latest();
        let mut realm = self.realm.borrow_mut();
        let task = delivery.task.clone();
        let done = realm.engine.turn(delivery, host);
        realm.keep(Some(task), done.as_ref().unwrap_or(&Yield::default()));
        done
    }
}

impl Realm for SharedRealm {
    fn start(&mut self, delivery: Delivery, host: &mut dyn SyncHost) -> Progress {
        match self.turn(delivery, host) {
            Ok(done) => Progress::Yielded(done),
            Err(reason) => Progress::Ended(reason),
        }
    }

    fn resume(&mut self, _host: &mut dyn SyncHost, _patience: Patience) -> Progress {
        let detail = "a turn in this thread ends where it began".to_owned();
        Progress::Ended(Termination::Protocol { detail })
    }

    fn stream(
        &mut self,
        seq: Seq,
        now: Now,
        delta: &StreamDelta,
        host: &mut dyn SyncHost,
    ) -> Result<Yield, Termination> {
        self.turn(Delivery { seq, now, task: Task::Stream(delta.clone()), state: None }, host)
    }

    fn interrupt(&self) {}
}

/// A realm that keeps the stacks of its turns.
pub(crate) struct TracedRealm {
    engine: EngineRealm,
    map: Option<Box<dyn PositionMap>>,
    turns: Vec<Turn>,
    /// Stacks of the code that armed each timer.
    timers: BTreeMap<TimerId, String>,
    /// Stacks of the code that made each call.
    calls: BTreeMap<CallId, String>,
    /// Stacks of the code that passed each function to the host.
    functions: BTreeMap<Handle, String>,
}

/// A traced macrotask.
struct Turn {
    /// The task; `None` for the opening of the realm.
    task: Option<Task>,
    trace: Trace,
    messages: Vec<Message>,
    stream: StreamAnswer,
}

impl TracedRealm {
    fn keep(&mut self, task: Option<Task>, done: &Yield) {
        let mut trace = self.engine.take_trace();
        self.functions.extend(std::mem::take(&mut trace.functions));
        for (message, stack) in done.messages.iter().zip(&trace.messages) {
            match message {
                Message::TimerSet { timer, .. } => drop(self.timers.insert(*timer, stack.clone())),
                Message::HostCall(call) => drop(self.calls.insert(call.call_id.clone(), stack.clone())),
                _ => {}
            }
        }
        self.turns.push(Turn { task, trace, messages: done.messages.clone(), stream: done.stream.clone() });
    }

    /// Returns the position that caused an output of the latest turn, which had `deliveries` macrotasks.
    pub(crate) fn position(&self, deliveries: usize, output: OutputSite) -> Option<SourcePosition> {
        let first = self.turns.len().saturating_sub(deliveries.max(1));
        match output {
            OutputSite::Call(index) => {
                let stack = self.turns[first..].iter().flat_map(|turn| &turn.trace.calls).nth(index).cloned();
                self.innermost(stack.as_deref(), Relation::Statement)
            }
            OutputSite::Message(index, registration) => self.of_message(first, index, registration),
            OutputSite::Stream => self.of_stream(first),
            OutputSite::Turn => None,
        }
        .or_else(|| self.of_turn(first))
    }

    fn of_message(&self, first: usize, index: usize, registration: Option<usize>) -> Option<SourcePosition> {
        let turns = &self.turns[first..];
        let (mut at, mut left) = (0, index);
        while left >= turns.get(at)?.messages.len() {
            left -= turns[at].messages.len();
            at += 1;
        }
        None.or_else(|| {
            let written = serde_json::to_value(&turns[at].messages[left]).ok()?;
            let thrown = ["/payload/error/stack", "/payload/stack"].iter().find_map(|at| written.pointer(at)?.as_str());
            thrown.and_then(|stack| self.innermost(Some(stack), Relation::Thrown))
        })
        .or_else(|| {
            // The registrations of one load are sent together, after all of them were made.
            let Message::Register(register) = &turns[at].messages[left] else { return None };
            let written = serde_json::to_value(register.registrations.get(registration?)?).ok()?;
            self.of_handle(handle_in(&written)?)
        })
        .or_else(|| self.innermost(turns[at].trace.messages.get(left).map(String::as_str), Relation::Statement))
    }

    fn of_stream(&self, first: usize) -> Option<SourcePosition> {
        self.turns[first..].iter().find_map(|turn| match &turn.stream {
            StreamAnswer::Continue => None,
            StreamAnswer::Abort(verdict) => self.of_handle(verdict.handler),
            StreamAnswer::Late { handler } => self.of_handle(*handler),
            StreamAnswer::Failed { handler, error } => {
                self.innermost(error.stack.as_deref(), Relation::Thrown).or_else(|| self.of_handle(*handler))
            }
        })
    }

    /// Returns the position of the code that the turn ran.
    fn of_turn(&self, first: usize) -> Option<SourcePosition> {
        let Some(Task::Message(message)) = self.turns.get(first)?.task.as_ref() else { return None };
        match message.as_ref() {
            Message::TimerFired { timer } => {
                self.innermost(self.timers.get(timer).map(String::as_str), Relation::After)
            }
            Message::HostResult(result) => {
                self.innermost(self.calls.get(&result.call_id).map(String::as_str), Relation::After)
            }
            message => self.of_handle(handle_in(serde_json::to_value(message).ok()?.get("payload")?)?),
        }
    }

    fn innermost(&self, stack: Option<&str>, of: Relation) -> Option<SourcePosition> {
        let Position { file, line, column } = innermost(stack?, self.map.as_deref()?)?;
        Some(SourcePosition { file, line, column, of })
    }

    fn of_handle(&self, handle: Handle) -> Option<SourcePosition> {
        self.innermost(self.functions.get(&handle).map(String::as_str), Relation::Function)
    }
}

/// Returns the member of a message that names a function.
fn handle_in(value: &Value) -> Option<Handle> {
    value.get("handle")?.as_u64()?.try_into().ok().map(Handle)
}
