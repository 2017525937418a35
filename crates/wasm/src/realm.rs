//! Runs one component, which is instantiated by its `load` and then entered once per macrotask.
//!
//! ```text
//! turn ─ fuel, clock, host lent ─ export of the task ─ host taken back ─ yield, or the end of the realm
//! ```
//!
//! Invariants: an export runs to its end before the next one begins; a trap ends the realm, because the component's memory is in
//! an undefined state afterwards; a realm that ended answers every later entry with the same [`Termination`].

use crate::bindings::{Extension, ExtensionPre, pi::extension::types};
use crate::error::WasmError;
use crate::imports::{error_of, json_of, object_of, reply_of, report, report_of};
use crate::runtime::engine;
use crate::slot::Hostcalls;
use crate::state::{Awaited, State};
use crate::wasi;
use pijs_artifact::Verified;
use pijs_protocol::hostcall::HostResult;
use pijs_protocol::message::{CallbackResult, ErrorReport, EventHook, EventResult, Load};
use pijs_protocol::registration::{CommandSpec, FlagSpec, HandlerSpec, NamedHandle, Register, Registration, ToolSpec};
use pijs_protocol::stream::{Injection, InjectionRole, StreamVerdict};
use pijs_protocol::wire::{Limits, RealmOptions, StateDelta, StreamAnswer, Task};
use pijs_protocol::{
    Delivery, EntryIndex, Handle, Message, Now, Seq, StreamDelta, StreamSource, Termination, Usage, Yield, guard,
};
use serde_json::{Map, Value};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use wasmtime::component::{Component, HasSelf, Linker};
use wasmtime::{Store, Trap, UpdateDeadline};

/// Number of instructions per unit of a turn's fuel, which take 20 us on an idle core. That is less than the 50 us of a poll of
/// the JavaScript engine, so a loop runs out of fuel, at the same instruction in every run, before the watchdog fires.
const INSTRUCTIONS_PER_FUEL: u64 = 20_000;

/// Stops a running turn from another thread.
///
/// The component stops at the next loop edge or call; a hostcall in progress is not interrupted.
#[derive(Debug, Clone)]
pub struct Interrupter {
    state: Arc<AtomicU8>,
}

const IDLE: u8 = 0;
const RUNNING: u8 = 1;
const STOPPED: u8 = 2;

impl Interrupter {
    /// Returns whether the realm was dropped, so that a watchdog may stop.
    pub fn is_orphaned(&self) -> bool {
        Arc::strong_count(&self.state) == 1
    }

    /// Ends the running turn with `Timeout { quota: "deadline" }`. Has no effect between turns.
    pub fn interrupt(&self) {
        let stopped = self.state.compare_exchange(RUNNING, STOPPED, Ordering::Relaxed, Ordering::Relaxed);
        if stopped.is_ok() {
            // Every component of the process now checks its deadline; those whose turn is not interrupted continue.
            engine().increment_epoch();
        }
    }
}

/// A component from instantiation to termination. Must stay on one thread.
pub struct ComponentRealm {
    store: Store<State>,
    pre: ExtensionPre<State>,
    instance: Option<Extension>,
    entry: EntryIndex,
    /// The handler of `stream_text` during its call.
    stream: Option<Handle>,
    ended: Option<Termination>,
    limits: Limits,
    interrupter: Interrupter,
}

/// Reason why a turn could not be finished.
enum Fault {
    /// The component trapped, or a limit was reached.
    Trap(wasmtime::Error),
    /// An invariant of the host does not hold.
    Bug(String),
}

impl From<wasmtime::Error> for Fault {
    fn from(error: wasmtime::Error) -> Self {
        Self::Trap(error)
    }
}

impl ComponentRealm {
    /// Creates a realm for a compiled component. No code of the component runs before its `load`.
    ///
    /// This maps the component's code, so that a process can seal itself afterwards: no later step needs an executable page.
    ///
    /// # Errors
    ///
    /// Fails when the code was compiled by another version or for another processor, or imports something that the world does not
    /// provide.
    pub fn new(options: &RealmOptions, code: &Verified) -> Result<Self, WasmError> {
        let module = code.artifact().component().ok_or_else(|| WasmError::new("the artifact has no component"))?;
        let bytecode = module.bytecode.as_deref().ok_or_else(|| WasmError::new("the component was not compiled"))?;
        // SAFETY: `precompile` of this crate returned the bytes, because a `Verified` is only created from code that this
        // installation authenticates, that this process compiled, or that the parent process verified.
        let component = unsafe { Component::deserialize(engine(), bytecode) };
        let component = component.map_err(|error| WasmError::new(format!("cannot load the component: {error:#}")))?;
        let pre = prepare(&component)?;
        let interrupter = Interrupter { state: Arc::new(AtomicU8::new(IDLE)) };
        let mut store = Store::new(engine(), State::new(options));
        store.limiter(|state| &mut state.limits);
        let state = Arc::clone(&interrupter.state);
        store.epoch_deadline_callback(move |_| {
            Ok(match state.load(Ordering::Relaxed) {
                STOPPED => UpdateDeadline::Interrupt,
                _ => UpdateDeadline::Continue(1),
            })
        });
        Ok(Self {
            store,
            pre,
            instance: None,
            entry: EntryIndex(0),
            stream: None,
            ended: None,
            limits: options.limits.clone(),
            interrupter,
        })
    }

    /// Returns a handle that stops a running turn from another thread.
    pub fn interrupter(&self) -> Interrupter {
        self.interrupter.clone()
    }

    /// Runs one macrotask and yields.
    ///
    /// # Errors
    ///
    /// Fails if the realm has ended, which must then be discarded.
    pub fn turn(&mut self, delivery: Delivery, host: &mut dyn Hostcalls) -> Result<Yield, Termination> {
        let Delivery { seq, now, task, state } = delivery;
        match task {
            Task::Message(message) => self.enter(now, self.limits.fuel, state, host, |realm| {
                realm.deliver(*message)?;
                Ok(StreamAnswer::Continue)
            }),
            Task::Stream(delta) => self.run_stream(seq, now, &delta, state, host),
        }
    }

    /// Runs a streamed delta.
    ///
    /// # Errors
    ///
    /// Fails like [`ComponentRealm::turn`].
    pub fn stream(
        &mut self,
        seq: Seq,
        now: Now,
        delta: &StreamDelta,
        host: &mut dyn Hostcalls,
    ) -> Result<Yield, Termination> {
        self.run_stream(seq, now, delta, None, host)
    }

    fn run_stream(
        &mut self,
        _seq: Seq,
        now: Now,
        delta: &StreamDelta,
        state: Option<StateDelta>,
        host: &mut dyn Hostcalls,
    ) -> Result<Yield, Termination> {
        self.enter(now, self.limits.stream_fuel, state, host, |realm| realm.judge(delta))
    }

    /// Enters the component for a turn: sets fuel and clock, lends the host, and determines how the turn ended.
    fn enter(
        &mut self,
        now: Now,
        fuel: u64,
        state: Option<StateDelta>,
        host: &mut dyn Hostcalls,
        body: impl FnOnce(&mut Self) -> Result<StreamAnswer, Fault>,
    ) -> Result<Yield, Termination> {
        if let Some(ended) = &self.ended {
            return Err(ended.clone());
        }
        let instructions = if guard!(WasmFuel) { fuel.saturating_mul(INSTRUCTIONS_PER_FUEL) } else { u64::MAX };
        self.store.set_fuel(instructions).expect("the engine is configured to count fuel");
        self.store.set_epoch_deadline(1);
        let data = self.store.data_mut();
        data.wasi.clock.begin(now);
        data.wasi.draws = 0;
        data.logged.begin();
        if let Some(delta) = state {
            data.apply(delta);
        }
        // SAFETY: the slot is cleared below, and `catch_unwind` keeps a panic from passing it.
        unsafe { data.host.lend(host) };
        self.interrupter.state.store(RUNNING, Ordering::Relaxed);
        let outcome = catch_unwind(AssertUnwindSafe(|| body(self)));
        self.interrupter.state.store(IDLE, Ordering::Relaxed);
        let data = self.store.data_mut();
        data.flush();
        data.host.clear();
        let outcome = outcome.unwrap_or_else(|panic| Err(Fault::Bug(panic_text(&*panic))));
        match outcome {
            Ok(stream) => {
                let data = self.store.data_mut();
                let messages = std::mem::take(&mut data.outbox);
                let usage = Usage {
                    jobs: 0,
                    clock_reads: data.wasi.clock.reads,
                    random_draws: data.wasi.draws,
                    heap_bytes: data.limits.used,
                    fuel: instructions.saturating_sub(self.store.get_fuel().unwrap_or_default())
                        / INSTRUCTIONS_PER_FUEL,
                };
                Ok(Yield { messages, stream, usage })
            }
            Err(fault) => {
                let termination = self.termination(fault);
                self.ended = Some(termination.clone());
                Err(termination)
            }
        }
    }

    fn termination(&self, fault: Fault) -> Termination {
        let error = match fault {
            Fault::Bug(detail) => return Termination::HostBug { detail },
            Fault::Trap(error) => error,
        };
        let timeout = |quota: &str| Termination::Timeout { quota: quota.to_owned() };
        match error.downcast_ref::<Trap>() {
            Some(Trap::OutOfFuel) => timeout("fuel"),
            Some(Trap::Interrupt) => timeout("deadline"),
            _ if self.store.data().limits.refused => Termination::OutOfMemory,
            Some(trap) => Termination::Trapped { detail: trap.to_string() },
            None => Termination::Trapped { detail: error.root_cause().to_string() },
        }
    }

    fn deliver(&mut self, message: Message) -> Result<(), Fault> {
        match message {
            Message::Load(load) => self.load(&load),
            Message::EventHook(hook) => self.event(hook),
            Message::ToolCall(call) => {
                let (id, input) = (call.tool_call_id.clone(), call.input.to_string());
                let call = types::ToolCall { id: call.tool_call_id, name: call.name, input, signal: call.signal };
                self.store.data_mut().awaited.insert(id.clone(), Awaited::Tool);
                let outcome = loaded(&self.instance)?.call_call_tool(&mut self.store, &call)?;
                let outcome = outcome.map(|outcome| match outcome {
                    types::Outcome::Value(value) => Some(Some(value)),
                    types::Outcome::Later => None,
                });
                self.answered(Awaited::Tool, id, "tool", outcome);
                Ok(())
            }
            Message::SlashCommand(command) => {
                let id = command.slash_command_id.clone();
                let call = types::CommandCall { id: command.slash_command_id, name: command.name, args: command.args };
                self.store.data_mut().awaited.insert(id.clone(), Awaited::Command);
                let answer = loaded(&self.instance)?.call_run_command(&mut self.store, &call)?;
                let outcome = answer.map(|answer| match answer {
                    types::Answer::Later => None,
                    // A command has no result.
                    types::Answer::Nothing | types::Answer::Value(_) | types::Answer::Changed(_) => Some(None),
                });
                self.answered(Awaited::Command, id, "command", outcome);
                Ok(())
            }
            Message::HostResult(result) => self.result(result),
            Message::TimerFired { timer } => self.complete("timer", types::Completion::Timer(timer.0)),
            Message::SignalAborted { signal } => self.complete("signal", types::Completion::Aborted(signal)),
            Message::BusEvent(event) => {
                let event = types::BusEvent { channel: event.channel, data: event.data.to_string() };
                self.complete("bus_event", types::Completion::Bus(event))
            }
            Message::HandlerMuted { handler } => {
                self.stream = self.stream.filter(|stream| *stream != handler);
                Ok(())
            }
            Message::Callback(callback) => {
                let error = Some(report("callback", "a component has no functions that can be called back"));
                let result = CallbackResult { callback_id: callback.callback_id, value: None, error };
                self.say(Message::CallbackResult(result));
                Ok(())
            }
            // Code of the package may run in the component, but it has no `pi` object to be restricted.
            Message::Retired {} => {
                self.stream = None;
                Ok(())
            }
            other => Err(Fault::Bug(format!("a message for the host came to a component: {other:?}"))),
        }
    }

    fn say(&mut self, message: Message) {
        self.store.data_mut().outbox.push(message);
    }

    /// Instantiates the component, which runs its `start` functions, and sends its registrations.
    fn load(&mut self, load: &Load) -> Result<(), Fault> {
        self.entry = load.entry;
        let instance = self.pre.instantiate(&mut self.store)?;
        let registered = instance.call_register(&mut self.store)?;
        self.instance = Some(instance);
        let registrations = match registered {
            Ok(registration) => self.registrations(registration),
            Err(error) => Err(report_of(error, "load").message),
        };
        match registrations {
            Ok(registrations) => self.say(Message::Register(Register {
                entry: load.entry,
                ready: true,
                capabilities: Vec::new(),
                capability_manifest: None,
                registrations,
            })),
            Err(message) => {
                let error = report("load", format!("Failed to load extension: {message}"));
                self.say(Message::Error(ErrorReport { entry: Some(load.entry), ..error }));
            }
        }
        Ok(())
    }

    fn registrations(&mut self, registration: types::Registration) -> Result<Vec<Registration>, String> {
        let types::Registration { tools, commands, events, streams, flags } = registration;
        let mut next = 0;
        let mut handle = || {
            next += 1;
            Handle(next)
        };
        let mut all = Vec::new();
        for tool in tools {
            let parameters = json_of(&format!("parameters of the tool {}", tool.name), &tool.parameters);
            let handle = handle();
            all.push(Registration::Tool(ToolSpec {
                handle,
                label: Some(tool.label),
                description: Some(tool.description),
                parameters: Some(parameters.map_err(|error| error.message)?),
                converts: false,
                prompt_snippet: None,
                prompt_guidelines: None,
                execution_mode: None,
                render_shell: None,
                functions: vec![NamedHandle { name: "execute".to_owned(), handle }],
                other_keys: Vec::new(),
                name: tool.name,
            }));
        }
        for command in commands {
            let types::Command { name, description } = command;
            let spec = CommandSpec { name, description: Some(description), handle: handle(), completions: None };
            all.push(Registration::Command(spec));
        }
        for event in events {
            all.push(Registration::Handler(HandlerSpec { event, handle: handle(), sources: Vec::new() }));
        }
        if !streams.is_empty() {
            let sources = streams.into_iter().map(|source| match source {
                types::StreamSource::Text => StreamSource::Text,
                types::StreamSource::Thinking => StreamSource::Thinking,
                types::StreamSource::Tool => StreamSource::Tool,
            });
            let handle = handle();
            self.stream = Some(handle);
            let spec = HandlerSpec { event: "stream_text".to_owned(), handle, sources: sources.collect() };
            all.push(Registration::Handler(spec));
        }
        for flag in flags {
            let default = flag.default.map(|text| json_of(&format!("default of the flag {}", flag.name), &text));
            all.push(Registration::Flag(FlagSpec {
                default: default.transpose().map_err(|error| error.message)?,
                name: flag.name,
                flag_type: flag.kind,
                description: Some(flag.description),
            }));
        }
        Ok(all)
    }

    fn event(&mut self, mut hook: EventHook) -> Result<(), Fault> {
        let id = hook.event_id.as_str().to_owned();
        let event = types::Event {
            name: hook.event.clone(),
            id: id.clone(),
            payload: Value::Object(std::mem::take(&mut hook.payload)).to_string(),
            mutable: hook.mutable.clone(),
        };
        self.store.data_mut().awaited.insert(id.clone(), Awaited::Event);
        let answer = loaded(&self.instance)?.call_on_event(&mut self.store, &event)?;
        if let Ok(types::Answer::Changed(changes)) = answer {
            self.changed(hook, &changes);
            return Ok(());
        }
        let outcome = answer.map(|answer| match answer {
            types::Answer::Value(value) => Some(Some(value)),
            types::Answer::Nothing | types::Answer::Changed(_) => Some(None),
            types::Answer::Later => None,
        });
        self.answered(Awaited::Event, id, &hook.event, outcome);
        Ok(())
    }

    /// Sends the result of an event whose object was changed. Changing a member that is read-only is an error.
    fn changed(&mut self, hook: EventHook, changes: &str) {
        self.store.data_mut().awaited.remove(hook.event_id.as_str());
        let changes = object_of("changed", changes).map_err(|error| error.message).and_then(|changes| {
            match changes.keys().find(|name| !hook.mutable.contains(name)) {
                Some(name) => Err(format!("{}: `{name}` cannot be changed", hook.event)),
                None => Ok(changes),
            }
        });
        let (changed, error) = match changes {
            Ok(changed) => (changed, None),
            Err(message) => (Map::new(), Some(report(&hook.event, message))),
        };
        self.say(Message::EventResult(EventResult { event_id: hook.event_id, value: None, changed, error }));
    }

    /// Sends the result of an export; the inner `None` means that the result will follow later.
    fn answered(
        &mut self,
        kind: Awaited,
        id: String,
        phase: &str,
        outcome: Result<Option<Option<String>>, types::Error>,
    ) {
        let data = self.store.data_mut();
        let outcome = match outcome {
            Ok(None) => return,
            Ok(Some(value)) => value.map(|text| json_of("the answer", &text)).transpose(),
            Err(error) => {
                if data.awaited.remove(&id).is_some() {
                    data.finished(kind, id, Err(report_of(error, phase)));
                }
                return;
            }
        };
        // The component may have finished the request while the export ran.
        if data.awaited.remove(&id).is_some() {
            data.finished(kind, id, outcome.map_err(|error| report(phase, error.message)));
        }
    }

    fn result(&mut self, result: HostResult) -> Result<(), Fault> {
        let ticket = result.call_id.as_str().strip_prefix("host-").and_then(|number| number.parse().ok());
        let ticket = ticket
            .ok_or_else(|| Fault::Bug(format!("the id of a hostcall result is not a ticket: {}", result.call_id)))?;
        let is_last = result.is_final();
        let reply = match result.error {
            Some(error) => Err(error_of(error)),
            None => Ok(reply_of(result)),
        };
        self.complete("hostcall", types::Completion::Reply(types::CallResult { ticket, reply, is_last }))
    }

    fn complete(&mut self, phase: &str, completion: types::Completion) -> Result<(), Fault> {
        if let Err(error) = loaded(&self.instance)?.call_complete(&mut self.store, &completion)? {
            let error = ErrorReport { entry: Some(self.entry), ..report_of(error, phase) };
            self.say(Message::Error(error));
        }
        Ok(())
    }

    fn judge(&mut self, delta: &StreamDelta) -> Result<StreamAnswer, Fault> {
        let Some(handler) = self.stream else { return Ok(StreamAnswer::Continue) };
        let delta = types::Delta {
            attempt: delta.attempt,
            source: match delta.source {
                StreamSource::Text => types::StreamSource::Text,
                StreamSource::Thinking => types::StreamSource::Thinking,
                StreamSource::Tool => types::StreamSource::Tool,
            },
            index: delta.stream,
            chunk: delta.chunk.clone(),
            tool_name: delta.tool_name.clone(),
            file_paths: delta.file_paths.clone(),
        };
        let verdict = loaded(&self.instance)?.call_stream_text(&mut self.store, &delta)?;
        let retry = match verdict {
            Ok(types::Verdict::Pass) => return Ok(StreamAnswer::Continue),
            Ok(types::Verdict::Abort(retry)) => retry,
            Err(error) => {
                let error = ErrorReport { entry: Some(self.entry), ..report_of(error, "stream_text") };
                self.say(Message::StreamFault { handler, error: Some(error) });
                return Ok(StreamAnswer::Continue);
            }
        };
        let retry = retry.map(|types::Injection { content, role }| Injection {
            content,
            role: match role {
                types::InjectionRole::System => InjectionRole::System,
                types::InjectionRole::User => InjectionRole::User,
            },
        });
        Ok(StreamAnswer::Abort(StreamVerdict { entry: self.entry, handler, retry }))
    }
}

fn loaded(instance: &Option<Extension>) -> Result<&Extension, Fault> {
    instance.as_ref().ok_or_else(|| Fault::Bug("a component was entered before it was loaded".to_owned()))
}

/// Links a component against the world.
pub(crate) fn prepare(component: &Component) -> Result<ExtensionPre<State>, WasmError> {
    let failed = |error: wasmtime::Error| WasmError::new(format!("the component does not fit pi:extension: {error:#}"));
    let mut linker = Linker::new(engine());
    Extension::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state).map_err(failed)?;
    wasi::add_to_linker(&mut linker, component, engine()).map_err(failed)?;
    // Calling such an import is an error that names it.
    linker.define_unknown_imports_as_traps(component).map_err(failed)?;
    let pre = linker.instantiate_pre(component).map_err(failed)?;
    ExtensionPre::new(pre).map_err(failed)
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without a message".to_owned())
}
