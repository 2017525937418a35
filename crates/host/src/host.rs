//! [`Host`]: all extensions of a session, and the pump that runs them.
//!
//! Calling order: [`Host::builder`], [`Host::load`] per package, then whatever the session needs
//! (`emit`, `stream`, `call_tool`, ...), with [`Host::drive`] or [`Host::run`] in the background for
//! timers, answers to hostcalls and restarts.
//!
//! A turn begins and is resumed in [`Host::tick`] and nowhere else. The extension is borrowed for exactly that
//! long; what the turn asked for is carried out by [`Host::settle`] after the borrow has ended,
//! so nothing that happens there can meet a running turn. A turn in another process that does not end at once is
//! left to itself ([`Ticked::Running`]): other extensions go on, its own gets nothing until it is over.

use crate::ears;
use crate::extension::{Arrival, Extension, Loaded, Slot, Status};
use crate::options::{HostBuilder, HostOptions, OpenRealm, Watchdog};
use crate::outcome::{CommandInfo, FlagInfo, Owner, ToolInfo};
use crate::pins::Pins;
use crate::position;
use crate::record;
use crate::registry::{Effect, invocation_names};
use crate::report::{Observer, Report, ReportKind, Reports};
use crate::signal::{Signal, WeakSignal};
use crate::state::ReadableState;
use crate::turn::{SyncDoor, Turn, TurnOutput};
use pijs_artifact::Verified;
use pijs_hostcall::{Dispatcher, During, Timer};
use pijs_protocol::message::{BusEvent, ErrorReport, Message};
use pijs_protocol::registration::{Register, Registration};
use pijs_protocol::wire::StreamAnswer;
use pijs_protocol::{
    EntryIndex, ExtensionId, HostCall, HostResult, Now, StreamDelta, StreamSource, Termination, Yield,
};
use pijs_realm::Patience;
use pijs_tick::{CompletionQueue, CompletionSink, Tick, completion_queue};
use serde_json::{Map, Value};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// How long a verdict waits at a time for a turn that is running.
const PATIENCE: Duration = Duration::from_millis(5);

/// All extensions of a session.
///
/// A handle: clones are the same host. It lives on one thread; hostcalls run as tasks of the tokio
/// runtime that thread belongs to.
///
/// # Examples
///
/// `examples/embed.rs` is a whole program. In short:
///
/// ```no_run
/// # async fn example(
/// #     modules: std::sync::Arc<pijs_artifact::Verified>,
/// #     dispatcher: std::sync::Arc<pijs_hostcall::Dispatcher>,
/// #     timer: std::sync::Arc<dyn pijs_hostcall::Timer>,
/// #     package: pijs_host::Package,
/// # ) -> Result<(), pijs_host::LoadError> {
/// use pijs_host::{Event, Host};
///
/// let host = Host::builder(modules, dispatcher, timer).build();
/// host.run(async {
///     let report = host.load(package).await?;
///     for (path, error) in report.failures() {
///         eprintln!("{path}: {}", error.message);
///     }
///     host.emit(Event::new("session_start").with("reason", "startup")).await;
///     Ok(())
/// })
/// .await
/// # }
/// ```
#[derive(Clone)]
pub struct Host(pub(crate) Rc<Core>);

pub(crate) struct Core {
    pub(crate) modules: Arc<Verified>,
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) timer: Arc<dyn Timer>,
    pub(crate) options: HostOptions,
    pub(crate) opener: Box<dyn OpenRealm>,
    pub(crate) watchdog: Option<Box<dyn Watchdog>>,
    pub(crate) state: ReadableState,
    observer: Option<Rc<dyn Observer>>,
    pub(crate) slots: RefCell<Vec<Rc<Slot>>>,
    /// Sources that some live extension hears; all there is to see for a delta nobody listens to.
    heard: Cell<ears::Mask>,
    completions: RefCell<CompletionQueue<Completion>>,
    sink: CompletionSink<Completion>,
    /// Work came up outside of [`Host::drive`].
    pub(crate) wake: Arc<Notify>,
    /// A turn has ended.
    turn_over: Notify,
    counters: Counters,
    subscriptions: RefCell<Vec<Reports>>,
    flags: RefCell<BTreeMap<String, Value>>,
    /// Signals that some realm may know, with their numbers.
    signals: RefCell<Vec<(WeakSignal, u32)>>,
    /// What `ctx.signal` is now.
    pub(crate) active_signal: RefCell<Option<Signal>>,
    pub(crate) verdict_time: Cell<crate::stream::VerdictTime>,
    /// Asynchronous hostcalls whose last answer has not been taken in.
    open_calls: Cell<usize>,
    /// `session_start` has been emitted: a restarted extension is told, too.
    pub(crate) session_started: Cell<bool>,
    /// Definitions of tools that are known.
    pub(crate) pins: RefCell<Pins>,
    /// How often all extensions were loaded again.
    pub(crate) epoch: Cell<u32>,
}

/// An answer to a hostcall on its way back.
struct Completion {
    slot: usize,
    generation: u32,
    result: HostResult,
}

/// One counter per kind of id.
#[derive(Default)]
struct Counters {
    events: Cell<u64>,
    calls: Cell<u64>,
    signals: Cell<u32>,
}

/// What [`Host::tick`] did.
pub(crate) enum Ticked {
    /// Nothing was due.
    Idle,
    /// A turn goes on by itself; there is nothing to do until its bell rings.
    Running,
    /// An ordinary macrotask ran.
    Ran,
    /// The delta's turn ran.
    Answered(StreamAnswer),
    /// The realm ended.
    Ended,
}

impl Host {
    /// Begins a host. `modules` is the compiled host module set (`extc::host_modules`), `timer` the
    /// driver's time.
    pub fn builder(modules: Arc<Verified>, dispatcher: Arc<Dispatcher>, timer: Arc<dyn Timer>) -> HostBuilder {
        HostBuilder::new(modules, dispatcher, timer)
    }

    pub(crate) fn new(builder: HostBuilder) -> Self {
        let (sink, queue) = completion_queue();
        let HostBuilder { modules, dispatcher, timer, options, opener, watchdog, state, observer } = builder;
        Self(Rc::new(Core {
            modules,
            dispatcher,
            timer,
            options,
            opener,
            watchdog,
            state,
            observer,
            slots: RefCell::default(),
            heard: Cell::new(0),
            completions: RefCell::new(queue),
            sink,
            wake: Arc::new(Notify::new()),
            turn_over: Notify::new(),
            counters: Counters::default(),
            subscriptions: RefCell::default(),
            flags: RefCell::default(),
            signals: RefCell::default(),
            active_signal: RefCell::default(),
            verdict_time: Cell::default(),
            open_calls: Cell::default(),
            pins: RefCell::default(),
            session_started: Cell::new(false),
            epoch: Cell::new(0),
        }))
    }

    /// Whether a live extension handles an event. A payload that is costly to build is built only then.
    pub fn has_handlers(&self, event: &str) -> bool {
        self.live_slots().iter().any(|slot| slot.cell.borrow().registry.has_handler(event))
    }

    /// Whether anybody hears deltas of a source: one branch. When not, nothing else happens for a delta.
    #[inline]
    pub fn hears(&self, source: StreamSource) -> bool {
        self.0.heard.get() & ears::bit(source) != 0
    }

    /// Tools of all live extensions in load order; of several with one name the first.
    pub fn tools(&self) -> Vec<ToolInfo> {
        let mut found: Vec<ToolInfo> = Vec::new();
        self.each_live(|extension| {
            for (entry, spec) in extension.registry.tools() {
                if !found.iter().any(|known| known.spec.name == spec.name) {
                    found.push(ToolInfo { owner: extension.owner(entry), spec: spec.clone() });
                }
            }
        });
        found
    }

    /// Slash commands of all live extensions in load order, with the names to type.
    pub fn commands(&self) -> Vec<CommandInfo> {
        let mut found = Vec::new();
        self.each_live(|extension| {
            found.extend(extension.registry.commands().map(|(entry, spec)| (extension.owner(entry), spec.clone())));
        });
        let names = invocation_names(found.iter().map(|(_, spec)| spec.name.as_str()));
        found
            .into_iter()
            .zip(names)
            .map(|((owner, spec), invocation)| CommandInfo { invocation, owner, spec })
            .collect()
    }

    /// Flags of all live extensions in load order with their values; of several with one name the first.
    pub fn flags(&self) -> Vec<FlagInfo> {
        let values = self.0.flags.borrow();
        let mut found: Vec<FlagInfo> = Vec::new();
        self.each_live(|extension| {
            for (entry, spec) in extension.registry.flags() {
                if !found.iter().any(|known| known.spec.name == spec.name) {
                    let value = values.get(&spec.name).cloned();
                    found.push(FlagInfo { owner: extension.owner(entry), spec: spec.clone(), value });
                }
            }
        });
        found
    }

    /// Shortcuts, renderers and providers in load order.
    pub fn other_registrations(&self) -> Vec<(Owner, Registration)> {
        let mut found = Vec::new();
        self.each_live(|extension| {
            found.extend(extension.registry.others().map(|(entry, other)| (extension.owner(entry), other.clone())));
        });
        found
    }

    /// Providers of live extensions that may register some, in load order.
    pub fn providers(&self) -> Vec<(Owner, Registration)> {
        let mut found = Vec::new();
        for slot in self.live_slots() {
            let extension = slot.cell.borrow();
            let theirs: Vec<_> = extension
                .registry
                .others()
                .filter(|(_, other)| matches!(other, Registration::Provider { .. }))
                .map(|(entry, other)| (extension.owner(entry), other.clone()))
                .collect();
            if theirs.is_empty() {
                continue;
            }
            if record::may(&self.0, &extension.caller, "provider") {
                found.extend(theirs);
                continue;
            }
            drop(extension);
            let message = "its providers do not count: the capability \"provider\" is not granted".to_owned();
            self.report(&slot, None, ReportKind::Warning { message });
        }
        found
    }

    /// Reports an error that belongs to a file, or to none, rather than to a running extension.
    pub fn report_error(&self, path: &str, phase: &str, message: &str) {
        let owner = self.live_slots().into_iter().find(|slot| {
            let extension = slot.cell.borrow();
            extension.package.entries.iter().any(|entry| entry.path == path)
        });
        let extension = owner.map_or_else(|| ExtensionId::new(path), |slot| slot.cell.borrow().package.id().clone());
        let error = ErrorReport {
            entry: None,
            phase: phase.to_owned(),
            name: None,
            message: message.to_owned(),
            stack: None,
            position: None,
        };
        let report = Report { extension, path: path.to_owned(), kind: ReportKind::Error(error) };
        let mut subscriptions = self.0.subscriptions.borrow_mut();
        subscriptions.retain(Reports::is_wanted);
        for subscription in subscriptions.iter() {
            subscription.push(report.clone());
        }
    }

    /// What each entry of the live extensions registered, in load order: tools, commands, flags, handlers, then
    /// the rest, each in registration order. Names that meet are all listed.
    pub fn registrations(&self) -> Vec<(Owner, Vec<Registration>)> {
        let mut found = Vec::new();
        self.each_live(|extension| {
            found.extend(extension.registry.by_entry().map(|(entry, all)| (extension.owner(entry), all)));
        });
        found
    }

    /// Sets a flag, as the command line does. Extensions see it from their next turn on.
    pub fn set_flag(&self, name: &str, value: impl Into<Value>) {
        self.0.flags.borrow_mut().insert(name.to_owned(), value.into());
        self.publish_flags();
    }

    /// The readable state. Connectors may hold a clone and change it on any thread.
    pub fn state(&self) -> &ReadableState {
        &self.0.state
    }

    /// Sets a member of the readable state.
    pub fn set_state(&self, key: &str, value: impl Into<Value>) {
        self.0.state.set(key, value);
    }

    /// Changes the session's entry list in the readable state.
    pub fn session_entries(&self, delta: pijs_protocol::wire::EntriesDelta) {
        self.0.state.change_entries(delta);
    }

    /// Sets what `ctx.signal` is: the signal of the active run, or nothing.
    pub fn set_signal(&self, signal: Option<&Signal>) {
        self.0.active_signal.replace(signal.cloned());
        let number = signal.map(|signal| {
            for slot in self.slots() {
                self.hand_in(&slot, signal);
            }
            self.signal_number(signal)
        });
        self.0.state.set("signal", number);
    }

    /// Subscribes to reports, from now on.
    pub fn reports(&self) -> Reports {
        let subscription = Reports::new();
        self.0.subscriptions.borrow_mut().push(subscription.clone());
        subscription
    }

    /// Runs timers, answers of hostcalls and restarts of all extensions. Never ends.
    ///
    /// Spawn it once on the thread's `LocalSet`, or let [`Host::run`] do it.
    pub async fn drive(&self) {
        let mut revivals = Revivals::default();
        loop {
            for slot in self.slots() {
                if slot.cell.borrow().status == Status::Stopped {
                    slot.cell.borrow_mut().status = Status::Reviving;
                    let host = self.clone();
                    revivals.push(Box::pin(async move { host.revive(&slot).await }));
                }
            }
            if self.pump() {
                tokio::select! {
                    biased;
                    () = revivals.next() => {}
                    () = tokio::task::yield_now() => {}
                }
                continue;
            }
            self.let_go();
            let pause = self.pause();
            tokio::select! {
                biased;
                () = revivals.next() => {}
                () = self.0.wake.notified() => {}
                () = poll_fn(|cx| self.0.completions.borrow_mut().poll_ready(cx)) => {}
                () = sleep(self.0.timer.as_ref(), pause) => {}
            }
        }
    }

    /// Drives until no extension has anything at hand: nothing queued or running, no call in flight. Timers may be
    /// armed.
    ///
    /// For the end of a session: what was sent and not waited for (a log line, an event on the bus) still
    /// happens. A call may take for ever, so give this a limit.
    pub async fn quiet(&self) {
        loop {
            if self.pump() {
                tokio::task::yield_now().await;
                continue;
            }
            // Counted here and not asked of the dispatcher: its count falls on another thread, at a moment
            // that wakes nobody.
            let is_running = |slot: &Rc<Slot>| slot.cell.borrow().running.is_some();
            if self.0.open_calls.get() == 0 && !self.slots().iter().any(is_running) {
                return;
            }
            tokio::select! {
                biased;
                () = self.0.wake.notified() => {}
                () = poll_fn(|cx| self.0.completions.borrow_mut().poll_ready(cx)) => {}
            }
        }
    }

    /// Waits until an extension's turn is over, if one runs in another process: what it asked for by the way comes
    /// after it, as on pi's one thread.
    pub async fn turn_over(&self, extension: &ExtensionId) {
        loop {
            let over = self.0.turn_over.notified();
            tokio::pin!(over);
            over.as_mut().enable();
            let runs = |slot: &Rc<Slot>| {
                let slot = slot.cell.borrow();
                slot.running.is_some() && slot.package.id() == extension
            };
            if !self.slots().iter().any(runs) {
                return;
            }
            over.await;
        }
    }

    /// Asynchronous hostcalls of all extensions that have not been answered.
    pub fn open_calls(&self) -> usize {
        self.0.open_calls.get()
    }

    /// Runs a future with [`Host::drive`] beside it.
    pub async fn run<F: Future>(&self, work: F) -> F::Output {
        tokio::select! {
            biased;
            output = work => output,
            () = self.drive() => unreachable!("`drive` never ends"),
        }
    }

    /// Time until the next timer of any realm that could run it.
    fn pause(&self) -> Option<Duration> {
        let now = self.0.timer.now().elapsed_us;
        let next_of = |slot: &Rc<Slot>| {
            let extension = slot.cell.borrow();
            extension.running.is_none().then(|| extension.ticks.next_deadline_us()).flatten()
        };
        let next = self.slots().iter().filter_map(next_of).min()?;
        Some(Duration::from_micros(next.saturating_sub(now)))
    }

    /// Runs what is ready, extension by extension, at most one burst each. Whether anything ran.
    pub(crate) fn pump(&self) -> bool {
        self.ingest();
        let mut is_busy = false;
        for slot in self.slots() {
            is_busy |= self.run_ready(&slot);
        }
        is_busy
    }

    /// Runs what is ready in one extension, at most one burst. Whether anything ran.
    pub(crate) fn run_ready(&self, slot: &Rc<Slot>) -> bool {
        for ran in 0..self.0.options.burst {
            match self.tick(slot, self.0.timer.now(), None) {
                Ticked::Idle | Ticked::Running => return ran > 0,
                Ticked::Ended => return true,
                Ticked::Ran | Ticked::Answered(_) => {}
            }
        }
        // There may be more: whoever drives comes back.
        self.0.wake.notify_one();
        true
    }

    /// Hands answers of hostcalls to the loops, in the order they arrived.
    pub(crate) fn ingest(&self) {
        let arrived = self.0.completions.borrow_mut().drain();
        for Completion { slot, generation, result } in arrived {
            if result.is_final() {
                self.0.open_calls.set(self.0.open_calls.get().saturating_sub(1));
            }
            let Some(slot) = self.slot(slot) else { continue };
            let mut extension = slot.cell.borrow_mut();
            if result.is_final() && extension.generation == generation {
                extension.open_calls = extension.open_calls.saturating_sub(1);
            }
            // An answer to a realm that is gone has nobody to go to.
            if extension.generation == generation && extension.realm.is_some() {
                extension.ticks.enqueue(Arrival::Message(Box::new(Message::HostResult(result))));
            }
        }
    }

    /// Begins or resumes at most one macrotask of one extension; when it is over, carries out what it asked for.
    ///
    /// With a delta at hand it waits a little for a turn that is running: nothing else may happen meanwhile.
    pub(crate) fn tick(&self, slot: &Rc<Slot>, now: Now, delta: Option<&StreamDelta>) -> Ticked {
        let core = &*self.0;
        let mut extension = slot.cell.borrow_mut();
        let during = if delta.is_some() { During::Verdict } else { During::Turn };
        let caller = extension.caller_in(during);
        let Extension { realm, ticks, seen_state, stop, bell, running, .. } = &mut *extension;
        let Some(realm) = realm.as_deref_mut() else { return Ticked::Idle };
        let patience = delta
            .and(stop.as_ref())
            .map(|stop| (now.elapsed_us.saturating_add(core.options.verdict.kill_us), Arc::clone(stop)));
        let mut door = SyncDoor {
            caller: &caller,
            epoch: slot.epoch,
            dispatcher: &core.dispatcher,
            timer: core.timer.as_ref(),
            state: &core.state,
            seen_state,
            patience,
            bell: Some(bell),
        };
        let output = match running {
            Some(_) if delta.is_none() && !bell.heard() => return Ticked::Running,
            Some(turn) => {
                if delta.is_some() {
                    bell.wait_for_answer(PATIENCE);
                }
                if let Some(result) = bell.answer() {
                    let reply = door.reply(result);
                    realm.answer(reply);
                }
                let patience = if delta.is_some() { Patience::AtMost(PATIENCE) } else { Patience::Poll };
                TurnOutput::new(realm.resume(&mut door, patience), turn.was_delta)
            }
            None if bell.tolls() => match realm.pulse() {
                Some(reason) => TurnOutput { result: Some(Err(reason)), was_delta: false },
                None => return Ticked::Idle,
            },
            None => match ticks.tick(now, [], &mut Turn { realm, door, delta }) {
                Tick::Idle => return Ticked::Idle,
                Tick::Ran { output, .. } => output,
            },
        };
        match &output.result {
            None => extension.leave_running(output.was_delta),
            Some(_) => extension.running = None,
        }
        let is_over = extension.running.is_none();
        drop(extension);
        if is_over {
            self.0.turn_over.notify_waiters();
        }
        self.finish_turn(slot, output, delta)
    }

    fn finish_turn(&self, slot: &Rc<Slot>, mut output: TurnOutput, delta: Option<&StreamDelta>) -> Ticked {
        let answer = output.answer();
        match output.result {
            None => Ticked::Running,
            Some(Ok(done)) => {
                self.settle(slot, done);
                match answer {
                    Some(answer) => Ticked::Answered(answer),
                    None => Ticked::Ran,
                }
            }
            Some(Err(reason)) => {
                match delta {
                    Some(delta) if output.was_delta => {
                        self.strike_the_stopped(slot, delta);
                        self.end_in_verdict(slot, &reason);
                    }
                    _ => self.end(slot, &reason),
                }
                Ticked::Ended
            }
        }
    }

    /// Carries out what a turn asked for, in its order.
    pub(crate) fn settle(&self, slot: &Rc<Slot>, done: Yield) {
        if done.messages.is_empty() {
            return;
        }
        self.carry_out(slot, done.messages);
        self.flush_ledger();
    }

    /// Has what the ledger has queued written. A sink that fails keeps the lines and is offered them again;
    /// the dispatcher refuses what must be written first.
    pub(crate) fn flush_ledger(&self) {
        self.0.dispatcher.ledger().kick();
    }

    fn carry_out(&self, slot: &Rc<Slot>, messages: Vec<Message>) {
        let generation = slot.cell.borrow().generation;
        for message in messages {
            if slot.cell.borrow().generation != generation {
                // One of them ended the realm; what it asked for after that is void.
                return;
            }
            match message {
                Message::HostCall(call) => self.start_call(slot, call),
                Message::HostCallCancel { call_id } => {
                    let id = slot.cell.borrow().package.id().clone();
                    self.0.dispatcher.cancel(&id, &slot.call_id(call_id));
                }
                Message::TimerSet { timer, delay_ms, repeat } => {
                    let now = self.0.timer.now();
                    let armed = slot.cell.borrow_mut().ticks.set_timer(timer, delay_ms, repeat, now);
                    if let Err(quota) = armed {
                        self.report(slot, None, ReportKind::Warning { message: quota.to_string() });
                    }
                }
                Message::TimerClear { timer } => {
                    slot.cell.borrow_mut().ticks.clear_timer(timer);
                }
                Message::Register(register) => self.register(slot, register),
                Message::EventResult(result) => {
                    let waiter = slot.cell.borrow_mut().pending.events.remove(&result.event_id);
                    answer(waiter, Ok(result));
                }
                Message::ToolUpdate(update) => {
                    let extension = slot.cell.borrow();
                    if let Some(waiter) = extension.pending.tools.get(&update.tool_call_id) {
                        let _ = waiter.updates.send(update.partial);
                    }
                }
                Message::ToolResult(result) => {
                    let waiter = slot.cell.borrow_mut().pending.tools.remove(&result.tool_call_id);
                    answer(waiter.map(|waiter| waiter.done), Ok(result));
                }
                Message::SlashResult(result) => {
                    let waiter = slot.cell.borrow_mut().pending.commands.remove(&result.slash_command_id);
                    answer(waiter, Ok(result));
                }
                Message::CallbackUpdate(update) => {
                    let extension = slot.cell.borrow();
                    if let Some(waiter) = extension.pending.callback_updates.get(&update.callback_id) {
                        let _ = waiter.send(update.value);
                    }
                }
                Message::CallbackResult(result) => {
                    let waiter = {
                        let pending = &mut slot.cell.borrow_mut().pending;
                        pending.callback_updates.remove(&result.callback_id);
                        pending.callbacks.remove(&result.callback_id)
                    };
                    answer(waiter, Ok(result));
                }
                Message::StreamFault { handler, error } => self.stream_fault(slot, handler, error),
                Message::BusEmit(event) => self.relay(slot, event),
                Message::Log(entry) => self.report(slot, None, ReportKind::Log(Box::new(entry))),
                Message::Error(error) => self.realm_error(slot, error),
                stray @ (Message::Load(_)
                | Message::ToolCall(_)
                | Message::SlashCommand(_)
                | Message::EventHook(_)
                | Message::Callback(_)
                | Message::HostResult(_)
                | Message::HandlerMuted { .. }
                | Message::SignalAborted { .. }
                | Message::TimerFired { .. }
                | Message::Retired {}
                | Message::BusEvent(_)) => {
                    let detail = format!("it sent {}, which only the host sends", kind(&stray));
                    self.end(slot, &Termination::Protocol { detail });
                    return;
                }
            }
        }
    }

    /// Sends a hostcall on its way; the answer comes back as an arrival.
    fn start_call(&self, slot: &Rc<Slot>, call: HostCall) {
        let (caller, generation) = {
            let extension = slot.cell.borrow();
            (extension.caller_in(During::Turn), extension.generation)
        };
        let (sink, index) = (self.0.sink.clone(), slot.index);
        self.0.open_calls.set(self.0.open_calls.get() + 1);
        slot.cell.borrow_mut().open_calls += 1;
        let asked = call.call_id.clone();
        let call = HostCall { call_id: slot.call_id(call.call_id), ..call };
        let running = self.0.dispatcher.call(&caller, call, move |result| {
            let result = HostResult { call_id: asked.clone(), ..result };
            sink.push(Completion { slot: index, generation, result });
        });
        tokio::spawn(running);
    }

    fn register(&self, slot: &Rc<Slot>, register: Register) {
        let Register { entry, ready, capability_manifest, registrations, .. } = register;
        if slot.cell.borrow().status == Status::Retired {
            // Its place is taken.
            return;
        }
        let mut ears_changed = false;
        for registration in registrations {
            let counts = record::registration(&self.0, &slot.cell.borrow().caller, &registration);
            if let Err(message) = counts {
                self.report(slot, Some(entry), ReportKind::Warning { message });
                continue;
            }
            if let Some((kind, name)) = named(&registration) {
                record::registered(&self.0, &slot.cell.borrow().caller, kind, name);
            }
            if let Registration::Tool(spec) = &registration
                && self.withholds(slot, entry, spec)
            {
                continue;
            }
            let effect = slot.cell.borrow_mut().registry.add(entry, registration);
            match effect {
                None => {
                    let detail = format!("it registered something for entry {}, which it does not have", entry.0);
                    self.end(slot, &Termination::Protocol { detail });
                    return;
                }
                Some(Effect::None) => {}
                Some(Effect::Ears) => ears_changed = true,
                Some(Effect::Tool(name)) => self.note_tool(slot, entry, &name),
                Some(Effect::Flag(spec)) => self.note_flag(slot, entry, spec),
                Some(Effect::UnknownEvent(event)) => {
                    let message = format!("listens to \"{event}\", an event that never fires");
                    self.report(slot, Some(entry), ReportKind::Warning { message });
                }
            }
        }
        if ears_changed {
            self.refresh_ears(slot);
        }
        if ready {
            self.loaded(slot, entry, Loaded::Ready(capability_manifest));
        }
    }

    pub(crate) fn note_tool(&self, slot: &Rc<Slot>, entry: EntryIndex, name: &str) {
        let earlier = self.first_owner(slot, entry, |extension| {
            extension.registry.tools().find(|(_, spec)| spec.name == name).map(|(entry, _)| entry)
        });
        if let Some(owner) = earlier {
            let message = format!("Tool \"{name}\" conflicts with {}", owner.path);
            self.report(slot, Some(entry), ReportKind::Conflict { message });
        }
    }

    fn note_flag(&self, slot: &Rc<Slot>, entry: EntryIndex, spec: pijs_protocol::registration::FlagSpec) {
        let earlier = self.first_owner(slot, entry, |extension| {
            extension.registry.flags().find(|(_, known)| known.name == spec.name).map(|(entry, _)| entry)
        });
        if let Some(owner) = earlier {
            let message = format!("Flag \"--{}\" conflicts with {}", spec.name, owner.path);
            self.report(slot, Some(entry), ReportKind::Conflict { message });
        }
        if let Some(default) = spec.default {
            self.0.flags.borrow_mut().entry(spec.name).or_insert(default);
            self.publish_flags();
        }
    }

    fn publish_flags(&self) {
        let flags: Map<String, Value> = self.0.flags.borrow().clone().into_iter().collect();
        self.0.state.set("flags", flags);
    }

    /// Who had something before `entry` of `slot`: the first in load order, if that is somebody else.
    fn first_owner(
        &self,
        slot: &Rc<Slot>,
        entry: EntryIndex,
        find: impl Fn(&Extension) -> Option<EntryIndex>,
    ) -> Option<Owner> {
        self.slots().iter().take(slot.index + 1).find_map(|earlier| {
            let extension = earlier.cell.borrow();
            let owner = find(&extension)?;
            (earlier.index < slot.index || owner < entry).then(|| extension.owner(owner))
        })
    }

    /// Answers a `load` that waits for this entry.
    pub(crate) fn loaded(&self, slot: &Rc<Slot>, entry: EntryIndex, loaded: Loaded) {
        let waiter = {
            let mut extension = slot.cell.borrow_mut();
            match extension.pending.load.take() {
                Some((waiting, waiter)) if waiting == entry => Some(waiter),
                other => {
                    extension.pending.load = other;
                    None
                }
            }
        };
        if let Some(waiter) = waiter {
            let _ = waiter.send(loaded);
        }
    }

    fn realm_error(&self, slot: &Rc<Slot>, error: ErrorReport) {
        let error = self.located(slot, error);
        let answers_load = error.phase == "load"
            && slot.cell.borrow().pending.load.as_ref().is_some_and(|(entry, _)| Some(*entry) == error.entry);
        match error.entry {
            Some(entry) if answers_load => {
                slot.cell.borrow_mut().registry.clear(entry);
                self.refresh_ears(slot);
                self.loaded(slot, entry, Loaded::Failed(error));
            }
            entry => self.report(slot, entry, ReportKind::Error(error)),
        }
    }

    /// Tells the other realms of an emission, after the current macrotask, in load order.
    fn relay(&self, from: &Rc<Slot>, event: BusEvent) {
        let retired = |slot: &Slot| slot.cell.borrow().status == Status::Retired;
        if retired(from) {
            return;
        }
        for slot in self.slots() {
            if slot.index != from.index && !retired(&slot) {
                self.post(&slot, Message::BusEvent(event.clone()));
            }
        }
    }

    /// Emits on the event bus from outside: every realm hears it, in load order.
    pub fn emit_bus(&self, channel: &str, data: Value) {
        for slot in self.slots() {
            self.post(&slot, Message::BusEvent(BusEvent { channel: channel.to_owned(), data: data.clone() }));
        }
    }

    /// Queues a message for a realm, if it has one.
    pub(crate) fn post(&self, slot: &Rc<Slot>, message: Message) {
        let mut extension = slot.cell.borrow_mut();
        if extension.realm.is_some() {
            extension.ticks.enqueue(Arrival::Message(Box::new(message)));
            self.0.wake.notify_one();
        }
    }

    /// Makes a signal known to a realm and returns its number.
    pub(crate) fn hand_in(&self, slot: &Rc<Slot>, signal: &Signal) -> u32 {
        let number = self.signal_number(signal);
        let generation = {
            let mut extension = slot.cell.borrow_mut();
            if extension.realm.is_none() || !extension.signals.insert(number) {
                return number;
            }
            extension.generation
        };
        let (core, target) = (Rc::downgrade(&self.0), Rc::downgrade(slot));
        signal.on_abort(move || {
            let (Some(core), Some(slot)) = (core.upgrade(), target.upgrade()) else { return };
            if slot.cell.borrow().generation == generation {
                Host(core).post(&slot, Message::SignalAborted { signal: number });
            }
        });
        number
    }

    /// The number of a signal: the same in every realm, so that it can stand in the shared state.
    fn signal_number(&self, signal: &Signal) -> u32 {
        let mut signals = self.0.signals.borrow_mut();
        if let Some((_, number)) = signals.iter().find(|(known, _)| known.is(signal)) {
            return *number;
        }
        signals.retain(|(known, _)| !known.is_dead());
        let number = self.0.counters.signals.get() + 1;
        self.0.counters.signals.set(number);
        signals.push((signal.downgrade(), number));
        number
    }

    /// Takes over the `stream_text` handlers of one extension and works out who hears what.
    pub(crate) fn refresh_ears(&self, slot: &Rc<Slot>) {
        let muted = {
            let mut extension = slot.cell.borrow_mut();
            let Extension { registry, ears, .. } = &mut *extension;
            ears.listen(registry.handlers(crate::events::pi::STREAM_TEXT))
        };
        for handler in muted {
            self.post(slot, Message::HandlerMuted { handler });
        }
        self.refresh_heard();
    }

    /// Works out which sources any live extension hears.
    pub(crate) fn refresh_heard(&self) {
        let heard = self.live_slots().iter().fold(0, |mask, slot| mask | slot.cell.borrow().ears.mask());
        self.0.heard.set(heard);
    }

    /// An error with source positions.
    pub(crate) fn located(&self, slot: &Rc<Slot>, error: ErrorReport) -> ErrorReport {
        let package = Rc::clone(&slot.cell.borrow().package);
        position::translate(error, package.positions.as_deref())
    }

    /// Tells every subscriber.
    pub(crate) fn report(&self, slot: &Rc<Slot>, entry: Option<EntryIndex>, kind: ReportKind) {
        let report = {
            let extension = slot.cell.borrow();
            Report { extension: extension.package.id().clone(), path: extension.path(entry), kind }
        };
        tracing::debug!(%report, "extension report");
        if let Some(observer) = &self.0.observer {
            observer.report(&report);
        }
        if let ReportKind::Error(error) = &report.kind {
            record::threw(&self.0, &slot.cell.borrow().caller, error);
        }
        let mut subscriptions = self.0.subscriptions.borrow_mut();
        subscriptions.retain(Reports::is_wanted);
        for subscription in subscriptions.iter() {
            subscription.push(report.clone());
        }
    }

    pub(crate) fn notify_driver(&self) {
        self.0.wake.notify_one();
    }

    pub(crate) fn next_event_number(&self) -> u64 {
        next(&self.0.counters.events)
    }

    pub(crate) fn next_call_number(&self) -> u64 {
        next(&self.0.counters.calls)
    }

    pub(crate) fn slot(&self, index: usize) -> Option<Rc<Slot>> {
        self.0.slots.borrow().get(index).cloned()
    }

    /// All slots in load order. A copy, because what is done with them may load more.
    pub(crate) fn slots(&self) -> Vec<Rc<Slot>> {
        self.0.slots.borrow().clone()
    }

    pub(crate) fn live_slots(&self) -> Vec<Rc<Slot>> {
        self.0.slots.borrow().iter().filter(|slot| slot.cell.borrow().status == Status::Live).cloned().collect()
    }

    fn each_live(&self, mut look: impl FnMut(&Extension)) {
        for slot in self.live_slots() {
            look(&slot.cell.borrow());
        }
    }
}

impl Extension {
    pub(crate) fn owner(&self, entry: EntryIndex) -> Owner {
        Owner::new(self.package.id(), entry, &self.package.entries)
    }
}

/// Restarts that are under way. Waiting for none of them waits for ever.
#[derive(Default)]
struct Revivals(Vec<std::pin::Pin<Box<dyn Future<Output = ()>>>>);

impl Revivals {
    fn push(&mut self, revival: std::pin::Pin<Box<dyn Future<Output = ()>>>) {
        self.0.push(revival);
    }

    /// Waits until one is through.
    async fn next(&mut self) {
        poll_fn(|cx| {
            let before = self.0.len();
            self.0.retain_mut(|revival| revival.as_mut().poll(cx).is_pending());
            if self.0.len() < before { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
    }
}

/// Waits through the driver; for ever without a deadline.
async fn sleep(timer: &dyn Timer, pause: Option<Duration>) {
    match pause {
        Some(pause) => timer.sleep(pause).await,
        None => std::future::pending().await,
    }
}

/// Answers whoever waits; somebody who no longer listens is no error, nor is an answer nobody asked for
/// (a tool that reports twice).
fn answer<T>(waiter: Option<tokio::sync::oneshot::Sender<T>>, value: T) {
    if let Some(waiter) = waiter {
        let _ = waiter.send(value);
    }
}

fn next(counter: &Cell<u64>) -> u64 {
    counter.set(counter.get() + 1);
    counter.get()
}

/// Kind and name of what the ledger mentions.
fn named(registration: &Registration) -> Option<(&'static str, &str)> {
    match registration {
        Registration::Tool(spec) => Some(("tool", &spec.name)),
        Registration::Command(spec) => Some(("command", &spec.name)),
        Registration::Handler(spec) => Some(("handler", &spec.event)),
        Registration::Flag(spec) => Some(("flag", &spec.name)),
        Registration::Provider { name, .. } => Some(("provider", name)),
        _ => None,
    }
}

/// Wire name of a message that has no business in a yield.
fn kind(message: &Message) -> String {
    match serde_json::to_value(message) {
        Ok(Value::Object(members)) => members.get("type").and_then(Value::as_str).unwrap_or("a message").to_owned(),
        _ => "a message".to_owned(),
    }
}
