//! [`Host`]: all extensions of a session, and the pump that runs them.
//!
//! Calling order: [`Host::builder`], [`Host::load`] per package, then whatever the session needs (`emit`, `stream`, `call_tool`,
//! ...), with [`Host::drive`] or [`Host::run`] in the background for timers, answers to hostcalls and restarts.
//!
//! A turn starts and is resumed in `Host::tick` only. The extension is borrowed only during that call; `Host::settle` carries out
//! the messages of the turn after the borrow, so no turn is running then. A turn in another process that does not end at once
//! keeps running (`Ticked::Running`): other extensions continue, and the extension itself receives nothing until the turn is
//! over.

mod driving;
mod mcp_servers;
mod message_limits;
mod messages;
mod reports;
mod tool_pins;

pub use tool_pins::Digests;

use crate::answer_order::AnswerOrder;
use crate::extension::{Arrival, Extension, ExtensionStatus, Slot};
use crate::outcome::{CommandInfo, FlagInfo, RegistrationOwner, ToolInfo, VerdictTime};
use crate::position;
use crate::profile::PiProfile;
use crate::record;
use crate::registry::invocation_names;
use crate::report::{ExtensionReport, ReportKind, Reports};
use crate::report_budget::ReportFate;
use crate::services::Services;
use crate::signal::{Signal, WeakSignal};
use crate::state::ReadableState;
use crate::stream_handlers;
use crate::turn::arrival_name;
use pijs_hostcall::ResultPermit;
use pijs_hostcall::gate::CURE;
use pijs_node_compat::events::STREAM_TEXT;
use pijs_protocol::message::{BusEvent, ErrorReport, Message};
use pijs_protocol::registration::Registration;
use pijs_protocol::wire::StreamAnswer;
use pijs_protocol::{EntryIndex, ExtensionId, HostResult, StreamSource, guard};
use pijs_tick::{CompletionQueue, CompletionSink, completion_queue};
use serde_json::Value;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::Notify;
use tool_pins::ToolPins;

/// All extensions of a session.
///
/// A handle: clones share one host. It stays on one thread; hostcalls run as tasks of that thread's tokio runtime.
///
/// # Examples
///
/// `examples/embed.rs` is a whole program. In short:
///
/// ```no_run
/// # async fn example(
/// #     modules: std::sync::Arc<pijs_artifact::Verified>,
/// #     dispatcher: std::sync::Arc<pijs_hostcall::Dispatcher>,
/// #     timer: std::sync::Arc<dyn pijs_environment::Timer>,
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
    pub(crate) services: Services,
    pub(crate) state: ReadableState,
    pub(crate) slots: RefCell<Vec<Rc<Slot>>>,
    pub(crate) queue: HostQueue,
    pub(crate) events: EventState,
    pub(crate) session: SessionState,
}

/// Completed hostcalls, and the notifications that wake [`Host::drive`] and its callers.
pub(crate) struct HostQueue {
    completions: RefCell<CompletionQueue<Completion>>,
    sink: CompletionSink<Completion>,
    /// Notified of work that arises outside of [`Host::drive`].
    pub(crate) wake: Arc<Notify>,
    /// Notified at the end of each turn.
    turn_over: Notify,
    /// Number of asynchronous hostcalls that still owe their last answer.
    open_calls: Cell<usize>,
    /// Time of the last check for callers that wait without progress, in microseconds.
    pub(crate) polled_us: Cell<u64>,
}

/// State of events and streamed deltas in flight.
#[derive(Default)]
pub(crate) struct EventState {
    /// Sources that a live extension listens to; the only field read for a delta without listeners.
    listened: Cell<stream_handlers::SourceMask>,
    /// Number of events that are being emitted.
    pub(crate) emitting: Cell<usize>,
    /// Order of the answers of event handlers.
    pub(crate) handler_order: Rc<AnswerOrder>,
    /// Order of the answers of tools.
    pub(crate) tool_order: Rc<AnswerOrder>,
    pub(crate) verdict_time: Cell<VerdictTime>,
    subscriptions: RefCell<Vec<Reports>>,
}

/// State of the session that extensions see or change.
#[derive(Default)]
pub(crate) struct SessionState {
    counters: Counters,
    flags: RefCell<BTreeMap<String, Value>>,
    /// Signals that a realm may know, with their numbers.
    signals: RefCell<Vec<(WeakSignal, u32)>>,
    /// The value of `ctx.signal`.
    pub(crate) active_signal: RefCell<Option<Signal>>,
    /// Number of changes to the MCP servers that extensions registered.
    mcp_servers: tokio::sync::watch::Sender<u64>,
    /// Known definitions of tools.
    pub(crate) pins: RefCell<ToolPins>,
    /// Number of reloads of all extensions.
    pub(crate) epoch: Cell<u32>,
    /// Whether `session_start` has been emitted; a restarted extension receives the event, too.
    pub(crate) started: Cell<bool>,
    /// Time of the user's abort of running work, in microseconds.
    pub(crate) aborted_us: Cell<Option<u64>>,
}

/// Answer to a hostcall, not yet delivered to its realm.
struct Completion {
    slot: usize,
    generation: u32,
    result: HostResult,
    /// Occupies the quota until the realm has received the answer.
    held: ResultPermit,
}

/// Next number of each kind of id.
#[derive(Default)]
struct Counters {
    events: Cell<u64>,
    calls: Cell<u64>,
    signals: Cell<u32>,
}

/// Result of [`Host::tick`].
pub(crate) enum Ticked {
    /// No work was due.
    Idle,
    /// A turn is running in another process; its waker reports progress.
    Running,
    /// An ordinary macrotask ran.
    Ran,
    /// The delta's turn ran, followed by the turns of this many further deltas, which passed.
    Answered(StreamAnswer, usize),
    /// The realm ended.
    Ended,
}

impl Host {
    pub(crate) fn new(services: Services, state: ReadableState) -> Self {
        let (sink, queue) = completion_queue();
        let queue = HostQueue {
            completions: RefCell::new(queue),
            sink,
            wake: Arc::default(),
            turn_over: Notify::default(),
            open_calls: Cell::default(),
            polled_us: Cell::default(),
        };
        let (events, session) = (EventState::default(), SessionState::default());
        Self(Rc::new(Core { services, state, slots: RefCell::default(), queue, events, session }))
    }

    /// Returns whether an extension handles an event, including extensions that are being restarted. Call it before building a
    /// costly payload.
    pub fn has_handlers(&self, event: &str) -> bool {
        self.profile().fires(event) && self.0.slots.borrow().iter().any(|slot| slot.cell.borrow().has_say(event))
    }

    /// Returns the version of pi that extensions see.
    pub fn profile(&self) -> PiProfile {
        self.0.services.options.profile
    }

    /// Returns whether a source has a handler. Costs one branch, and nothing else happens for a delta without a handler.
    #[inline]
    pub fn has_stream_handler(&self, source: StreamSource) -> bool {
        self.0.events.listened.get() & stream_handlers::bit(source) != 0
    }

    /// Lists the tools of all live extensions in load order; if several have one name, only the first.
    pub fn tools(&self) -> Vec<ToolInfo> {
        self.tools_and_missed().0
    }

    /// Lists tools of extensions that were stopped and have not restarted. No other tool of such a name runs in its place,
    /// because the extension may have restricted it.
    pub fn missed_tools(&self) -> Vec<String> {
        self.tools_and_missed().1
    }

    fn tools_and_missed(&self) -> (Vec<ToolInfo>, Vec<String>) {
        let (mut found, mut missed): (Vec<ToolInfo>, Vec<String>) = Default::default();
        for slot in &*self.0.slots.borrow() {
            let extension = slot.cell.borrow();
            let is_new = |name: &String, found: &[ToolInfo], missed: &[String]| {
                !found.iter().any(|known| known.spec.name == *name) && !missed.contains(name)
            };
            if extension.status == ExtensionStatus::Live {
                for (entry, spec) in extension.registry.tools() {
                    if is_new(&spec.name, &found, &missed) {
                        found.push(ToolInfo { owner: extension.owner(entry), spec: spec.clone() });
                    }
                }
            }
            let away: Vec<String> =
                extension.missed_tools().filter(|name| is_new(name, &found, &missed)).cloned().collect();
            missed.extend(away);
        }
        (found, missed)
    }

    /// Lists slash commands of all live extensions in load order, with their invocation names.
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

    /// Returns whether an extension that was stopped and has not restarted had a slash command of this invocation name.
    pub fn misses_command(&self, invocation: &str) -> bool {
        let numbered =
            invocation.rsplit_once(':').filter(|(_, number)| number.bytes().all(|byte| byte.is_ascii_digit()));
        let names = [Some(invocation), numbered.map(|(name, _)| name)];
        let is_missed = |slot: &Rc<Slot>| {
            let extension = slot.cell.borrow();
            let had = names.iter().flatten().any(|name| extension.restart.missing.commands.contains(*name));
            had && extension.status != ExtensionStatus::Retired && guard!(HostMissingCommands)
        };
        self.0.slots.borrow().iter().any(is_missed)
    }

    /// Lists the flags of all live extensions in load order with their values; if several have one name, only the first.
    pub fn flags(&self) -> Vec<FlagInfo> {
        let values = self.0.session.flags.borrow();
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

    /// Returns the type of a flag's values: the later of two registrations takes effect, as in pi.
    pub fn flag_type(&self, name: &str) -> Option<String> {
        let mut found = None;
        self.each_live(|extension| {
            let own = extension.registry.flags().filter(|(_, spec)| spec.name == name).last();
            found = own.map(|(_, spec)| spec.flag_type.clone()).or(found.take());
        });
        found
    }

    /// Lists shortcuts, renderers and providers in load order.
    pub fn other_registrations(&self) -> Vec<(RegistrationOwner, Registration)> {
        let mut found = Vec::new();
        self.each_live(|extension| {
            found.extend(extension.registry.others().map(|(entry, other)| (extension.owner(entry), other.clone())));
        });
        found
    }

    /// Lists the providers of live extensions that have the capability `provider`, in load order.
    pub fn providers(&self) -> Vec<(RegistrationOwner, Registration)> {
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
            if record::may(&self.0.services, &extension.caller, "provider") {
                found.extend(theirs);
                continue;
            }
            drop(extension);
            let message = "its providers are ignored: the capability \"provider\" is not granted".to_owned();
            self.report(&slot, None, ReportKind::Warning { message });
        }
        found
    }

    /// Reports an error of a file, or of no file, rather than of a running extension.
    pub fn report_error(&self, path: &str, phase: &str, message: &str) {
        let owner = self.slot_of_path(path);
        let extension = owner.map_or_else(|| ExtensionId::new(path), |slot| slot.cell.borrow().package.id().clone());
        let error = ErrorReport {
            entry: None,
            phase: phase.to_owned(),
            name: None,
            message: message.to_owned(),
            stack: None,
            position: None,
        };
        self.tell(&ExtensionReport { extension, path: path.to_owned(), kind: ReportKind::Error(error) });
    }

    /// Delivers a report to all subscribers.
    fn tell(&self, report: &ExtensionReport) {
        if let Some(observer) = &self.0.services.observer {
            observer.report(report);
        }
        let mut subscriptions = self.0.events.subscriptions.borrow_mut();
        subscriptions.retain(Reports::is_wanted);
        for subscription in subscriptions.iter() {
            subscription.push(report.clone());
        }
    }

    /// Returns the registrations of each entry of the live extensions, in load order: tools, commands, flags, handlers, then all
    /// others, each in registration order. Conflicting names are all listed.
    pub fn registrations(&self) -> Vec<(RegistrationOwner, Vec<Registration>)> {
        let mut found = Vec::new();
        self.each_live(|extension| {
            found.extend(extension.registry.by_entry().map(|(entry, all)| (extension.owner(entry), all)));
        });
        found
    }

    /// Sets a flag, as the command line does. Extensions see the value from their next turn on.
    pub fn set_flag(&self, name: &str, value: impl Into<Value>) {
        let value = value.into();
        self.0.session.flags.borrow_mut().insert(name.to_owned(), value.clone());
        self.publish_flag(name, value);
    }

    /// Returns the readable state. Connectors may keep a clone and change it on any thread.
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

    /// Sets `ctx.signal` to the signal of the active run; `None` clears it.
    pub fn set_signal(&self, signal: Option<&Signal>) {
        self.0.session.active_signal.replace(signal.cloned());
        if signal.is_none() {
            self.0.session.aborted_us.set(None);
        }
        let number = signal.map(|signal| {
            for slot in self.slots() {
                self.hand_in(&slot, signal);
            }
            self.signal_number(signal)
        });
        self.0.state.set("signal", number);
    }

    /// Subscribes to reports; earlier ones are not delivered.
    pub fn reports(&self) -> Reports {
        let subscription = Reports::new();
        self.0.events.subscriptions.borrow_mut().push(subscription.clone());
        subscription
    }

    /// Flushes the ledger. A sink that fails gets the same lines again at the next flush; the dispatcher refuses calls that must
    /// be recorded first.
    pub(crate) fn flush_ledger(&self) {
        self.0.services.dispatcher.ledger().kick();
    }

    /// Publishes one flag alone, because an extension may register thousands, each with a long text.
    fn publish_flag(&self, name: &str, value: Value) {
        self.0.state.set_entry("flags", name, value);
    }

    /// Emits an event on the bus from outside of all realms, to every realm, in load order.
    pub fn emit_bus(&self, channel: &str, data: Value) {
        for slot in self.slots() {
            self.post(&slot, Message::BusEvent(BusEvent { channel: channel.to_owned(), data: data.clone() }));
        }
    }

    /// Queues a message for a realm, if the extension has one. The host answers a message that is too large in the realm's place.
    pub(crate) fn post(&self, slot: &Rc<Slot>, message: Message) {
        if let Some(message) = self.limit_incoming(slot, message) {
            self.enqueue(slot, Arrival::Message(Box::new(message)));
        }
    }

    pub(crate) fn enqueue(&self, slot: &Rc<Slot>, arrival: Arrival) {
        let mut extension = slot.cell.borrow_mut();
        if extension.link.realm.is_some() {
            trace_arrival(&extension, &arrival);
            extension.ticks.enqueue(arrival);
            self.0.queue.wake.notify_one();
        }
    }

    /// Makes a signal known to a realm and returns its number.
    pub(crate) fn hand_in(&self, slot: &Rc<Slot>, signal: &Signal) -> u32 {
        let number = self.signal_number(signal);
        let generation = {
            let mut extension = slot.cell.borrow_mut();
            if extension.link.realm.is_none() || !extension.link.signals.insert(number) {
                return number;
            }
            extension.link.generation
        };
        let (core, target) = (Rc::downgrade(&self.0), Rc::downgrade(slot));
        signal.on_abort(move || {
            let (Some(core), Some(slot)) = (core.upgrade(), target.upgrade()) else { return };
            if slot.cell.borrow().link.generation == generation {
                Host(core).post(&slot, Message::SignalAborted { signal: number });
            }
        });
        number
    }

    /// Returns the number of a signal. All realms use the same number, so the shared state can contain it.
    fn signal_number(&self, signal: &Signal) -> u32 {
        let mut signals = self.0.session.signals.borrow_mut();
        if let Some((_, number)) = signals.iter().find(|(known, _)| known.is(signal)) {
            return *number;
        }
        signals.retain(|(known, _)| !known.is_dead());
        let number = self.0.session.counters.signals.get() + 1;
        self.0.session.counters.signals.set(number);
        signals.push((signal.downgrade(), number));
        number
    }

    /// Updates the `stream_text` handlers of one extension and the listened sources.
    pub(crate) fn refresh_stream_handlers(&self, slot: &Rc<Slot>) {
        let muted = {
            let mut extension = slot.cell.borrow_mut();
            let Extension { registry, stream_handlers, .. } = &mut *extension;
            stream_handlers.listen(registry.handlers(STREAM_TEXT))
        };
        for handler in muted {
            self.post(slot, Message::HandlerMuted { handler });
        }
        self.refresh_listened();
    }

    /// Updates the set of sources that any live extension handles.
    pub(crate) fn refresh_listened(&self) {
        let heard = self.live_slots().iter().fold(0, |mask, slot| mask | slot.cell.borrow().stream_handlers.mask());
        self.0.events.listened.set(heard);
    }

    /// Returns an error with source positions, and with quoted source if its message needs it.
    pub(crate) fn located(&self, slot: &Rc<Slot>, error: ErrorReport) -> ErrorReport {
        let package = Rc::clone(&slot.cell.borrow().package);
        let source = |module: &str| package.artifact.source(module);
        let error =
            position::translate(position::suggest(position::quote(error, source)), package.positions.as_deref());
        self.with_cure(package.id(), error)
    }

    /// Adds the grant that allows a refused call to its error.
    fn with_cure(&self, extension: &ExtensionId, mut error: ErrorReport) -> ErrorReport {
        if !error.message.contains(CURE)
            && let Some(command) = self.0.services.dispatcher.gate().cure(extension, &error.message)
        {
            error.message.push_str(&format!("{CURE}{command}"));
        }
        error
    }

    /// Reports refused calls that no error and no output of their extension contained
    /// ([`Gate::unreported_refusals`](pijs_hostcall::Gate::unreported_refusals)), for a run without a user to prompt. Returns the
    /// refusals of callers that are no extensions of this host, such as servers of `mcp.json`.
    pub fn report_refusals(&self) -> Vec<(ExtensionId, String)> {
        let (slots, mut others) = (self.slots(), Vec::new());
        for (extension, refusal) in self.0.services.dispatcher.gate().unreported_refusals() {
            let message = refusal.replace(CURE, &CURE.replace('\n', "; "));
            let Some(slot) = slots.iter().rev().find(|slot| *slot.cell.borrow().package.id() == extension) else {
                others.push((extension, message));
                continue;
            };
            let is_single = slot.cell.borrow().package.entries.len() == 1;
            self.report(slot, is_single.then_some(EntryIndex(0)), ReportKind::Warning { message });
        }
        others
    }

    /// Delivers a report to every subscriber.
    pub(crate) fn report(&self, slot: &Rc<Slot>, entry: Option<EntryIndex>, kind: ReportKind) {
        let kind = match self.fate(slot, &kind) {
            ReportFate::Passes => kind,
            ReportFate::Last => self.too_many(&kind),
            ReportFate::Counted => return,
        };
        let report = {
            let extension = slot.cell.borrow();
            ExtensionReport { extension: extension.package.id().clone(), path: extension.path(entry), kind }
        };
        tracing::debug!(%report, "extension report");
        if let ReportKind::Log(entry) = &report.kind {
            // Output that contains a refusal reports it.
            let _ = self.0.services.dispatcher.gate().cure(&report.extension, &entry.message);
        }
        if let ReportKind::Error(error) = &report.kind {
            record::threw(&self.0.services, &slot.cell.borrow().caller, error);
        }
        self.tell(&report);
    }

    pub(crate) fn notify_driver(&self) {
        self.0.queue.wake.notify_one();
    }

    pub(crate) fn next_event_number(&self) -> u64 {
        next(&self.0.session.counters.events)
    }

    pub(crate) fn next_call_number(&self) -> u64 {
        next(&self.0.session.counters.calls)
    }

    pub(crate) fn slot(&self, index: usize) -> Option<Rc<Slot>> {
        self.0.slots.borrow().get(index).cloned()
    }

    /// Returns a copy of all slots in load order, because callers may load more packages.
    pub(crate) fn slots(&self) -> Vec<Rc<Slot>> {
        self.0.slots.borrow().clone()
    }

    pub(crate) fn live_slots(&self) -> Vec<Rc<Slot>> {
        self.0
            .slots
            .borrow()
            .iter()
            .filter(|slot| slot.cell.borrow().status == ExtensionStatus::Live)
            .cloned()
            .collect()
    }

    fn each_live(&self, mut look: impl FnMut(&Extension)) {
        for slot in self.live_slots() {
            look(&slot.cell.borrow());
        }
    }
}

impl Extension {
    pub(crate) fn owner(&self, entry: EntryIndex) -> RegistrationOwner {
        RegistrationOwner::new(self.package.id(), entry, &self.package.entries)
    }
}

fn next(counter: &Cell<u64>) -> u64 {
    counter.set(counter.get() + 1);
    counter.get()
}

/// Traces a message that is queued for a realm.
fn trace_arrival(extension: &Extension, arrival: &Arrival) {
    tracing::trace!(
        event = "macrotask.enqueue",
        extension_id = extension.package.id().as_str(),
        task = arrival_name(arrival),
        queued = extension.ticks.queued(),
        "queued for a realm"
    );
}
