//! A loaded package: its realm, its loop, its registrations and the callers that wait for it.
//!
//! An [`Extension`] stays in a [`Slot`] for the whole session, while realms are replaced. When a realm is stopped,
//! [`Extension::take_down`] answers every call in flight, exactly once.
//!
//! The states:
//!
//! ```text
//! Loading --all entries answered--> Live --realm ended--> Stopped --pause--> Reviving --> Live
//!                                                             \--too often--> Disabled
//! any --Host::reload--> Retired, until nothing runs in its realm
//! ```

use crate::ahead::Ahead;
use crate::answer_order::AnswerTicket;
use crate::emission_quota::{EmissionPermit, EmissionQuota};
use crate::events;
use crate::message_limits::UpdateSender;
use crate::options::{OpenedRealm, Watch};
use crate::package::Package;
use crate::registry::Registrations;
use crate::report_budget::Reported;
use crate::restart::{RealmEnd, RecentEnds, Sequel};
use crate::stream_handlers::{self, StreamHandlers};
use crate::waiter::{EntryLoaded, IdleTime, Listening, LoadWaiter, Waiter};
use crate::wakeup::RealmWaker;
use pijs_hostcall::{Caller, During, ResultPermit};
use pijs_protocol::message::{CallbackResult, EventResult, Message, SlashResult, ToolResult};
use pijs_protocol::{CallId, EntryIndex, EventId, StreamDelta, StreamSource, Termination, guard};
use pijs_realm::Realm;
use pijs_tick::{TickLoop, TickOptions};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc};

/// One item in the queue of a realm's loop.
pub(crate) enum Arrival {
    /// A message; boxed, so that moving a delta stays cheap.
    Message(Box<Message>),
    /// Answer to a hostcall; occupies the quota until the realm has run it.
    Result {
        /// The answer.
        message: Box<Message>,
        /// Frees the quota when the arrival is dropped.
        _held: ResultPermit,
    },
    /// Emission of another extension; occupies the sender's quota until the realm has run it.
    Emission {
        /// The emission.
        message: Box<Message>,
        /// Frees the quota when the last queue drops the emission.
        _held: Rc<EmissionPermit>,
    },
    /// Delta that the caller of `Host::stream` passes.
    Delta,
}

/// State of an extension in its lifecycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExtensionStatus {
    /// The first realm is loading the entries.
    Loading,
    /// The extension is running.
    Live,
    /// The realm was discarded; a new one is due.
    Stopped,
    /// A new realm is loading the entries.
    Reviving,
    /// The extension is disabled for the rest of the session, or until it is released.
    Disabled,
    /// Another extension replaced this one; work in its realm continues until it is done.
    Retired,
}

/// Slot of an extension in the session.
pub(crate) struct Slot {
    /// Position in load order.
    pub(crate) index: usize,
    /// Number of reloads before this extension was loaded.
    pub(crate) epoch: u32,
    pub(crate) cell: RefCell<Extension>,
    /// Notified of changes of the status.
    pub(crate) changed: Notify,
}

impl Slot {
    /// Returns the dispatcher's id for a call of this extension.
    pub(crate) fn call_id(&self, asked: CallId) -> CallId {
        call_id(self.epoch, asked)
    }
}

/// Returns the dispatcher's id for a call. The epoch is part of it, because concurrent realms of one extension use the same call
/// numbers.
pub(crate) fn call_id(epoch: u32, asked: CallId) -> CallId {
    match epoch {
        0 => asked,
        epoch => CallId::new(format!("{}@{epoch}", asked.as_str())),
    }
}

/// A loaded package: its realm, its loop, its registrations.
pub(crate) struct Extension {
    pub(crate) package: Rc<Package>,
    pub(crate) caller: Caller,
    pub(crate) link: RealmLink,
    pub(crate) ticks: TickLoop<Arrival>,
    pub(crate) status: ExtensionStatus,
    /// Messages held back while the package loads ahead of its turn; `None` otherwise.
    pub(crate) ahead: Option<Ahead>,
    pub(crate) registry: Registrations,
    pub(crate) stream_handlers: StreamHandlers,
    pub(crate) pending: PendingCalls,
    pub(crate) progress: WorkProgress,
    pub(crate) restart: RestartState,
    max_timers: usize,
}

/// Realm of an extension and the state of its connection. Without a realm the extension is stopped.
pub(crate) struct RealmLink {
    pub(crate) realm: Option<Box<dyn Realm>>,
    pub(crate) stop: Option<Arc<dyn Fn() + Send + Sync>>,
    pub(crate) watch: Option<Box<dyn Watch>>,
    /// Wakes the host when this realm needs it.
    pub(crate) waker: Arc<RealmWaker>,
    /// Turn that is running; the realm receives nothing else until the turn ends.
    pub(crate) running: Option<RunningTurn>,
    #[cfg(target_os = "linux")]
    death: Option<crate::wakeup::DescriptorWatch>,
    /// Number of realms so far; messages from an earlier realm are dropped.
    pub(crate) generation: u32,
    /// Start of the current turn in microseconds, while it runs.
    pub(crate) turn_since_us: Option<u64>,
    /// Version of the realm's copy of the readable state.
    pub(crate) seen_state: u64,
    /// Numbers of the signals that the realm knows.
    pub(crate) signals: BTreeSet<u32>,
}

impl RealmLink {
    fn new(wake: Arc<Notify>) -> Self {
        Self {
            realm: None,
            stop: None,
            watch: None,
            waker: RealmWaker::new(wake),
            running: None,
            #[cfg(target_os = "linux")]
            death: None,
            generation: 0,
            turn_since_us: None,
            seen_state: 0,
            signals: BTreeSet::new(),
        }
    }
}

/// Progress of the extension's work.
pub(crate) struct WorkProgress {
    /// Quota of emissions that other extensions have not handled yet.
    pub(crate) emissions: EmissionQuota,
    /// Number of asynchronous hostcalls in flight.
    pub(crate) open_calls: usize,
    /// Open calls that wait for an event.
    pub(crate) listening: Listening,
    /// Time without progress while a caller waits.
    pub(crate) idle: IdleTime,
    /// Errors and lines reported in this turn of the agent.
    pub(crate) reported: Reported,
    /// Number of macrotasks that have run.
    pub(crate) turns_over: usize,
}

/// Registrations of the previous realm, and the restart policy's state.
pub(crate) struct RestartState {
    pub(crate) missing: Missing,
    pub(crate) ends: RecentEnds,
    /// Consequence of the realm's most recent stop.
    pub(crate) sequel: Sequel,
    /// Whether the extension is retired while its references and listeners still work.
    pub(crate) lingers: bool,
}

/// Registrations at the time a realm stopped that have not been made again. Empty once all entries have loaded again.
#[derive(Default)]
pub(crate) struct Missing {
    /// Events that the extension handled, with the entry of each handler.
    pub(crate) events: BTreeSet<(String, EntryIndex)>,
    pub(crate) commands: BTreeSet<String>,
    pub(crate) tools: BTreeSet<String>,
}

impl Missing {
    /// Returns the entries that handled an event.
    fn entries(&self, event: &str) -> impl Iterator<Item = EntryIndex> {
        self.events.iter().filter(move |(name, _)| name == event).map(|(_, entry)| *entry)
    }
}

/// A turn that runs in another process.
pub(crate) struct RunningTurn {
    pub(crate) was_delta: bool,
    pub(crate) span: tracing::Span,
    /// Delta that the turn runs ahead of the host's question; the turn is not resumed before the host asks.
    pub(crate) held: Option<HeldDelta>,
    /// Wakes the host when the turn can continue.
    #[cfg(target_os = "linux")]
    pub(crate) watch: Option<crate::wakeup::DescriptorWatch>,
}

/// A delta whose turn started right after the previous ones and did not simply pass.
pub(crate) struct HeldDelta {
    pub(crate) delta: StreamDelta,
    /// Time spent on these turns together, in microseconds.
    pub(crate) spent_us: u64,
}

/// Callers that wait for an answer of the realm.
#[derive(Default)]
pub(crate) struct PendingCalls {
    pub(crate) load: Option<LoadWaiter>,
    pub(crate) events: BTreeMap<EventId, Waiter<OrderedAnswer<EventResult>>>,
    pub(crate) tools: BTreeMap<String, ToolWaiter>,
    pub(crate) commands: BTreeMap<String, Waiter<SlashResult>>,
    pub(crate) callbacks: BTreeMap<String, Waiter<CallbackResult>>,
    /// Receivers of updates of running callbacks.
    pub(crate) callback_updates: BTreeMap<String, UpdateSender>,
}

/// Answer of a handler or a tool, with its ticket in the order of answers.
pub(crate) struct OrderedAnswer<T> {
    pub(crate) result: T,
    pub(crate) place: AnswerTicket,
}

/// Caller of a tool.
pub(crate) struct ToolWaiter {
    pub(crate) updates: mpsc::UnboundedSender<Value>,
    pub(crate) done: Waiter<OrderedAnswer<ToolResult>>,
}

impl Extension {
    pub(crate) fn new(package: Rc<Package>, max_timers: usize, wake: Arc<Notify>) -> Self {
        let caller = Caller::new(Arc::new(package.profile.clone()));
        Self {
            registry: Registrations::with_entries(package.entries.len()),
            package,
            caller,
            link: RealmLink::new(wake),
            ticks: TickLoop::new(TickOptions { max_timers }),
            status: ExtensionStatus::Loading,
            ahead: None,
            stream_handlers: StreamHandlers::default(),
            pending: PendingCalls::default(),
            progress: WorkProgress {
                emissions: EmissionQuota::default(),
                open_calls: 0,
                listening: Listening::new(),
                idle: IdleTime::default(),
                reported: Reported::default(),
                turns_over: 0,
            },
            restart: RestartState {
                missing: Missing::default(),
                ends: RecentEnds::default(),
                sequel: Sequel::Restart(Duration::ZERO),
                lingers: false,
            },
            max_timers,
        }
    }

    /// Installs a new realm.
    pub(crate) fn move_in(&mut self, opened: OpenedRealm, watch: Option<Box<dyn Watch>>, wake: Arc<Notify>) {
        // Tasks of the old realm keep the old waker.
        self.link.waker = RealmWaker::new(wake);
        #[cfg(target_os = "linux")]
        {
            self.link.death = opened
                .realm
                .death()
                .and_then(|process| crate::wakeup::DescriptorWatch::death(process, &self.link.waker));
        }
        self.link.realm = Some(opened.realm);
        self.link.stop = Some(opened.stop);
        self.link.watch = watch;
    }

    /// Describes the end of the extension's realm. Call this before the realm is taken down.
    pub(crate) fn end_of(&self, reason: &Termination, now_us: u64) -> RealmEnd {
        let stopped = self.link.turn_since_us.filter(|_| matches!(reason, Termination::Timeout { .. }));
        let took_us = stopped.map_or(0, |since_us| now_us.saturating_sub(since_us));
        RealmEnd { at_us: now_us, took_us, at_start: self.pending.is_start() }
    }

    /// Discards the realm and answers all callers.
    pub(crate) fn take_down(&mut self, reason: &Termination) {
        self.link.realm = None;
        self.link.stop = None;
        self.link.watch = None;
        self.link.running = None;
        self.link.turn_since_us = None;
        #[cfg(target_os = "linux")]
        {
            self.link.death = None;
        }
        self.link.generation += 1;
        self.progress.open_calls = 0;
        self.progress.listening.clear();
        self.progress.idle = IdleTime::default();
        if let Some(ahead) = &mut self.ahead {
            *ahead = Ahead::default();
        }
        if self.status == ExtensionStatus::Live {
            self.restart.missing.events.extend(self.registry.events().map(|(entry, event)| (event.to_owned(), entry)));
            self.restart.missing.commands.extend(self.registry.commands().map(|(_, spec)| spec.name.clone()));
            self.restart.missing.tools.extend(self.registry.tools().map(|(_, spec)| spec.name.clone()));
        }
        if self.status != ExtensionStatus::Retired {
            self.status = ExtensionStatus::Stopped;
        }
        self.ticks = TickLoop::new(TickOptions { max_timers: self.max_timers });
        self.registry = Registrations::with_entries(self.package.entries.len());
        self.stream_handlers.clear();
        self.link.seen_state = 0;
        self.link.signals.clear();
        std::mem::take(&mut self.pending).end(reason);
    }

    /// Returns whether it has a handler for deltas of a source.
    pub(crate) fn listens(&self, source: StreamSource) -> bool {
        self.status == ExtensionStatus::Live && self.stream_handlers.mask() & stream_handlers::bit(source) != 0
    }

    /// Returns whether the extension handles an event, will handle it after its restart, or is missing for it
    /// ([`Extension::is_missed`]).
    pub(crate) fn has_say(&self, event: &str) -> bool {
        match self.status {
            ExtensionStatus::Live => self.registry.has_handler(event) || self.is_missed(event),
            ExtensionStatus::Loading | ExtensionStatus::Stopped | ExtensionStatus::Reviving => {
                self.restart.missing.entries(event).next().is_some() && guard!(HostAwaitDecider)
            }
            ExtensionStatus::Disabled => self.is_missed(event),
            ExtensionStatus::Retired => false,
        }
    }

    /// Returns whether the extension decided about an event before its realm stopped and cannot any more: the extension is in
    /// quarantine, or the entry failed to load. The event then fails as if the handler had thrown.
    pub(crate) fn is_missed(&self, event: &str) -> bool {
        matches!(self.status, ExtensionStatus::Live | ExtensionStatus::Disabled)
            && self
                .restart
                .missing
                .entries(event)
                .any(|entry| self.registry.handlers(event).all(|(other, _)| other != entry))
            && events::is_decided(event)
            && guard!(HostMissingDecider)
    }

    /// Lists the tools that were registered before the realm stopped and are not registered again. No other tool of these names
    /// runs in their place.
    pub(crate) fn missed_tools(&self) -> impl Iterator<Item = &String> {
        let is_there = |name: &&String| self.registry.tools().any(|(_, spec)| spec.name == **name);
        let is_away = self.status != ExtensionStatus::Retired && guard!(HostMissingTools);
        self.restart.missing.tools.iter().filter(move |name| is_away && !is_there(name))
    }

    /// Marks the running turn as the turn of the delta that the host asks about next.
    pub(crate) fn hold_running(&mut self, delta: &StreamDelta) {
        self.link.running = Some(RunningTurn {
            was_delta: true,
            span: tracing::Span::none(),
            held: Some(HeldDelta { delta: delta.clone(), spent_us: 0 }),
            #[cfg(target_os = "linux")]
            watch: None,
        });
    }

    /// Returns the delta whose turn runs before the host has asked about it.
    pub(crate) fn held(&mut self) -> Option<&mut HeldDelta> {
        self.link.running.as_mut()?.held.as_mut()
    }

    /// Records a turn that continues in another process.
    pub(crate) fn leave_running(&mut self, was_delta: bool, span: &tracing::Span) {
        #[cfg(target_os = "linux")]
        {
            use pijs_realm::Attention;
            let started = || RunningTurn { was_delta, span: span.clone(), held: None, watch: None };
            let running = self.link.running.get_or_insert_with(started);
            match self.link.realm.as_deref().and_then(Realm::attention) {
                // A watch would wake a thread for each message.
                Some(Attention::AtOnce) => {
                    running.watch = None;
                    self.link.waker.wake();
                }
                Some(Attention::When { by, .. }) if running.watch.is_some() => self.link.waker.set_time(by),
                Some(Attention::When { socket, by }) => {
                    running.watch = Some(crate::wakeup::DescriptorWatch::turn(socket, by, &self.link.waker))
                }
                None => {}
            }
        }
        #[cfg(not(target_os = "linux"))]
        {
            self.link.running = Some(RunningTurn { was_delta, span: span.clone(), held: None });
        }
    }

    /// Returns the displayed path of an entry, or the package's name.
    pub(crate) fn path(&self, entry: Option<EntryIndex>) -> String {
        entry
            .and_then(|entry| self.package.entries.get(entry.0 as usize))
            .map_or_else(|| self.package.name.clone(), |entry| entry.path.clone())
    }

    /// Returns the caller during a verdict.
    pub(crate) fn caller_in(&self, during: During) -> Caller {
        match during {
            During::Turn => self.caller.clone(),
            During::Verdict => self.caller.clone().in_verdict(),
            During::Model => self.caller.clone().behind_model(),
        }
    }
}

impl PendingCalls {
    /// Returns whether there are no callers.
    pub(crate) fn is_empty(&self) -> bool {
        self.load.is_none()
            && self.events.is_empty()
            && self.tools.is_empty()
            && self.commands.is_empty()
            && self.callbacks.is_empty()
    }

    /// Answers all callers with the reason that the realm ended. A dropped receiver is not an error.
    fn end(self, reason: &Termination) {
        if let Some(waiter) = self.load {
            let _ = waiter.done.send(EntryLoaded::Ended(reason.clone()));
        }
        for (_, waiter) in self.events {
            waiter.answer(Err(reason.clone()));
        }
        for (_, waiter) in self.tools {
            waiter.done.answer(Err(reason.clone()));
        }
        for (_, waiter) in self.commands {
            waiter.answer(Err(reason.clone()));
        }
        for (_, waiter) in self.callbacks {
            waiter.answer(Err(reason.clone()));
        }
    }
}
