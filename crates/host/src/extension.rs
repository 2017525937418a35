//! One loaded package: its realm, its loop, what it registered, what it still owes.
//!
//! An [`Extension`] lives in a [`Slot`] for the whole session; realms come and go in it. Whatever
//! stops a realm, [`Extension::take_down`] answers every call that was in flight, exactly once.
//!
//! The states:
//!
//! ```text
//! Loading --all entries answered--> Live --realm ended--> Stopped --pause--> Reviving --> Live
//!                                                             \--too often--> Disabled
//! any --Host::reload--> Retired, until nothing runs in its realm
//! ```

use crate::answer_order::Place;
use crate::emission_quota::{Backlog, Ticket};
use crate::events;
use crate::load_order::Ahead;
use crate::message_limits::Updates;
use crate::options::{OpenedRealm, Watch};
use crate::package::Package;
use crate::registry::Registry;
use crate::report_budget::Reported;
use crate::restart::{End, Ends, Sequel};
use crate::stream_handlers::{self, Ears};
use crate::wait_limits::{Listening, LoadWaiter, Lull, Waiter};
use crate::wakeup::Bell;
use pijs_hostcall::{Caller, During, ResultPermit};
use pijs_protocol::manifest::CapabilityManifest;
use pijs_protocol::message::{CallbackResult, ErrorReport, EventResult, Message, SlashResult, ToolResult};
use pijs_protocol::{EntryIndex, EventId, StreamDelta, StreamSource, Termination, guard};
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
    /// A message; boxed, so that a delta moves no more than it needs.
    Message(Box<Message>),
    /// The answer to a hostcall, counted until it is run.
    Result {
        /// The answer.
        message: Box<Message>,
        /// Ends with the arrival.
        _held: ResultPermit,
    },
    /// An emission of another extension, counted until it has run.
    Emission {
        /// The emission.
        message: Box<Message>,
        /// Ends with the last arrival of it.
        _held: Rc<Ticket>,
    },
    /// The delta that the caller of `Host::stream` holds.
    Delta,
}

/// State of an extension in its lifecycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// Its first realm loads the entries.
    Loading,
    /// It takes part.
    Live,
    /// Its realm was discarded; a new one is due.
    Stopped,
    /// The new realm loads the entries.
    Reviving,
    /// It is left out, for the rest of the session or until it is released.
    Disabled,
    /// Another extension has taken its place; what still runs in its realm goes on until it ends.
    Retired,
}

/// The place of an extension in the session.
pub(crate) struct Slot {
    /// Position in load order.
    pub(crate) index: usize,
    /// How often all extensions had been loaded again when this one was.
    pub(crate) epoch: u32,
    pub(crate) cell: RefCell<Extension>,
    /// Told when the status changes.
    pub(crate) changed: Notify,
}

/// One loaded package: its realm, its loop, its registrations.
pub(crate) struct Extension {
    pub(crate) package: Rc<Package>,
    pub(crate) caller: Caller,
    pub(crate) link: RealmLink,
    pub(crate) ticks: TickLoop<Arrival>,
    pub(crate) status: Status,
    /// Set while it loads before those in front of it have; until they have, the host keeps back what comes in load order.
    pub(crate) ahead: Option<Ahead>,
    pub(crate) registry: Registry,
    pub(crate) ears: Ears,
    pub(crate) pending: Pending,
    pub(crate) progress: WorkProgress,
    pub(crate) restart: RestartState,
    max_timers: usize,
}

/// The realm of an extension and the state of the wire to it. Without a realm the extension is stopped.
pub(crate) struct RealmLink {
    pub(crate) realm: Option<Box<dyn Realm>>,
    pub(crate) stop: Option<Arc<dyn Fn() + Send + Sync>>,
    pub(crate) watch: Option<Box<dyn Watch>>,
    /// Rings when the realm needs its host.
    pub(crate) bell: Arc<Bell>,
    /// The turn that continues by itself; until it is over the realm gets nothing else.
    pub(crate) running: Option<Running>,
    #[cfg(target_os = "linux")]
    death: Option<crate::wakeup::Watch>,
    /// Counts realms; messages of an earlier one are dropped.
    pub(crate) generation: u32,
    /// Start of the current turn in microseconds, while it runs.
    pub(crate) turn_since_us: Option<u64>,
    /// Version of the readable state that the realm has.
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
            bell: Bell::new(wake),
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

/// Work of an extension that is under way, and how far it has come.
pub(crate) struct WorkProgress {
    /// Emissions of this extension that others have not handled yet.
    pub(crate) backlog: Backlog,
    /// Asynchronous hostcalls that have not ended.
    pub(crate) open_calls: usize,
    /// Open calls that only listen.
    pub(crate) listening: Listening,
    /// Time since which nothing has moved while a caller waits.
    pub(crate) lull: Lull,
    /// Errors and lines reported in this turn of the agent.
    pub(crate) reported: Reported,
    /// Macrotasks that have run.
    pub(crate) turns_over: usize,
}

/// Registrations that ended with a realm, and the policy for restarting it.
pub(crate) struct RestartState {
    pub(crate) missing: Missing,
    pub(crate) ends: Ends,
    /// Consequence of the last end of a realm.
    pub(crate) sequel: Sequel,
    /// It is retired, and what it kept works on, with the listeners of its realm.
    pub(crate) lingers: bool,
}

/// Registrations of an extension at the end of its realm. Nothing is missing any more once all its entries are back.
#[derive(Default)]
pub(crate) struct Missing {
    /// Events that it handled, and in which entry.
    pub(crate) events: BTreeSet<(String, EntryIndex)>,
    pub(crate) commands: BTreeSet<String>,
    pub(crate) tools: BTreeSet<String>,
}

impl Missing {
    /// The entries that handled an event.
    fn entries(&self, event: &str) -> impl Iterator<Item = EntryIndex> {
        self.events.iter().filter(move |(name, _)| name == event).map(|(_, entry)| *entry)
    }
}

/// A turn in another process.
pub(crate) struct Running {
    pub(crate) was_delta: bool,
    pub(crate) span: tracing::Span,
    /// The delta, while the host has not been asked about it; until then nobody resumes the turn.
    pub(crate) held: Option<HeldDelta>,
    /// Rings when it can go on.
    #[cfg(target_os = "linux")]
    pub(crate) watch: Option<crate::wakeup::Watch>,
}

/// Holds a delta whose turn began right after those before it, and came to more than *continue*.
pub(crate) struct HeldDelta {
    pub(crate) delta: StreamDelta,
    /// Microseconds that all of these turns took together.
    pub(crate) spent_us: u64,
}

/// Callers that wait for an answer of the realm.
#[derive(Default)]
pub(crate) struct Pending {
    pub(crate) load: Option<LoadWaiter>,
    pub(crate) events: BTreeMap<EventId, Waiter<Answered<EventResult>>>,
    pub(crate) tools: BTreeMap<String, ToolWaiter>,
    pub(crate) commands: BTreeMap<String, Waiter<SlashResult>>,
    pub(crate) callbacks: BTreeMap<String, Waiter<CallbackResult>>,
    /// Receivers of updates of running callbacks.
    pub(crate) callback_updates: BTreeMap<String, Updates>,
}

/// The answer of a handler or a tool, and its place among the other answers.
pub(crate) struct Answered<T> {
    pub(crate) result: T,
    pub(crate) place: Place,
}

/// The answer to `load`.
pub(crate) enum Loaded {
    Ready(Option<CapabilityManifest>),
    Failed(ErrorReport),
    Ended(Termination),
}

/// The caller of a tool.
pub(crate) struct ToolWaiter {
    pub(crate) updates: mpsc::UnboundedSender<Value>,
    pub(crate) done: Waiter<Answered<ToolResult>>,
}

impl Extension {
    pub(crate) fn new(package: Rc<Package>, max_timers: usize, wake: Arc<Notify>) -> Self {
        let caller = Caller::new(Arc::new(package.profile.clone()));
        Self {
            registry: Registry::with_entries(package.entries.len()),
            package,
            caller,
            link: RealmLink::new(wake),
            ticks: TickLoop::new(TickOptions { max_timers }),
            status: Status::Loading,
            ahead: None,
            ears: Ears::default(),
            pending: Pending::default(),
            progress: WorkProgress {
                backlog: Backlog::default(),
                open_calls: 0,
                listening: Listening::new(),
                lull: Lull::default(),
                reported: Reported::default(),
                turns_over: 0,
            },
            restart: RestartState {
                missing: Missing::default(),
                ends: Ends::default(),
                sequel: Sequel::Restart(Duration::ZERO),
                lingers: false,
            },
            max_timers,
        }
    }

    /// Moves a new realm in.
    pub(crate) fn move_in(&mut self, opened: OpenedRealm, watch: Option<Box<dyn Watch>>, wake: Arc<Notify>) {
        // A new one: whoever still holds the old one rings for a realm that is gone.
        self.link.bell = Bell::new(wake);
        #[cfg(target_os = "linux")]
        {
            self.link.death =
                opened.realm.death().and_then(|process| crate::wakeup::Watch::death(process, &self.link.bell));
        }
        self.link.realm = Some(opened.realm);
        self.link.stop = Some(opened.stop);
        self.link.watch = watch;
    }

    /// The end of its realm as it is counted. Called before the realm is taken down.
    pub(crate) fn end_of(&self, reason: &Termination, now_us: u64) -> End {
        let stopped = self.link.turn_since_us.filter(|_| matches!(reason, Termination::Timeout { .. }));
        let took_us = stopped.map_or(0, |since_us| now_us.saturating_sub(since_us));
        End { at_us: now_us, took_us, at_start: self.pending.is_start() }
    }

    /// Discards the realm and answers everything that waited for it.
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
        self.progress.lull = Lull::default();
        if let Some(ahead) = &mut self.ahead {
            *ahead = Ahead::default();
        }
        if self.status == Status::Live {
            self.restart.missing.events.extend(self.registry.events().map(|(entry, event)| (event.to_owned(), entry)));
            self.restart.missing.commands.extend(self.registry.commands().map(|(_, spec)| spec.name.clone()));
            self.restart.missing.tools.extend(self.registry.tools().map(|(_, spec)| spec.name.clone()));
        }
        if self.status != Status::Retired {
            self.status = Status::Stopped;
        }
        self.ticks = TickLoop::new(TickOptions { max_timers: self.max_timers });
        self.registry = Registry::with_entries(self.package.entries.len());
        self.ears.deafen();
        self.link.seen_state = 0;
        self.link.signals.clear();
        std::mem::take(&mut self.pending).end(reason);
    }

    /// Returns whether it hears deltas of a source now.
    pub(crate) fn listens(&self, source: StreamSource) -> bool {
        self.status == Status::Live && self.ears.mask() & stream_handlers::bit(source) != 0
    }

    /// Whether it handles an event, will when it is back, or is missed by it ([`Extension::is_missed`]).
    pub(crate) fn has_say(&self, event: &str) -> bool {
        match self.status {
            Status::Live => self.registry.has_handler(event) || self.is_missed(event),
            Status::Loading | Status::Stopped | Status::Reviving => {
                self.restart.missing.entries(event).next().is_some() && guard!(HostAwaitDecider)
            }
            Status::Disabled => self.is_missed(event),
            Status::Retired => false,
        }
    }

    /// Whether it decided about an event before its realm ended, and will not again: it is in quarantine, or the entry that
    /// decided failed to load. What it guarded then passes no more than if its handler had thrown.
    pub(crate) fn is_missed(&self, event: &str) -> bool {
        matches!(self.status, Status::Live | Status::Disabled)
            && self
                .restart
                .missing
                .entries(event)
                .any(|entry| self.registry.handlers(event).all(|(other, _)| other != entry))
            && events::is_decided(event)
            && guard!(HostMissingDecider)
    }

    /// Tools that it had before its realm ended, and has not now: nobody else's of the same name is run in their place.
    pub(crate) fn missed_tools(&self) -> impl Iterator<Item = &String> {
        let is_there = |name: &&String| self.registry.tools().any(|(_, spec)| spec.name == **name);
        let is_away = self.status != Status::Retired && guard!(HostMissingTools);
        self.restart.missing.tools.iter().filter(move |name| is_away && !is_there(name))
    }

    /// Takes note of the turn of a delta that is asked about next.
    pub(crate) fn hold_running(&mut self, delta: &StreamDelta) {
        self.link.running = Some(Running {
            was_delta: true,
            span: tracing::Span::none(),
            held: Some(HeldDelta { delta: delta.clone(), spent_us: 0 }),
            #[cfg(target_os = "linux")]
            watch: None,
        });
    }

    /// Returns the delta whose turn is under way although the host was not asked about it.
    pub(crate) fn held(&mut self) -> Option<&mut HeldDelta> {
        self.link.running.as_mut()?.held.as_mut()
    }

    /// Takes note of a turn that goes on by itself.
    pub(crate) fn leave_running(&mut self, was_delta: bool, span: &tracing::Span) {
        #[cfg(target_os = "linux")]
        {
            use pijs_realm::Attention;
            let started = || Running { was_delta, span: span.clone(), held: None, watch: None };
            let running = self.link.running.get_or_insert_with(started);
            match self.link.realm.as_deref().and_then(Realm::attention) {
                // A watch would wake a thread at each word that is said.
                Some(Attention::AtOnce) => {
                    running.watch = None;
                    self.link.bell.ring();
                }
                Some(Attention::When { by, .. }) if running.watch.is_some() => self.link.bell.set_time(by),
                Some(Attention::When { socket, by }) => {
                    running.watch = Some(crate::wakeup::Watch::turn(socket, by, &self.link.bell))
                }
                None => {}
            }
        }
        #[cfg(not(target_os = "linux"))]
        {
            self.link.running = Some(Running { was_delta, span: span.clone(), held: None });
        }
    }

    /// The path to show for an entry, or the package's name.
    pub(crate) fn path(&self, entry: Option<EntryIndex>) -> String {
        entry
            .and_then(|entry| self.package.entries.get(entry.0 as usize))
            .map_or_else(|| self.package.name.clone(), |entry| entry.path.clone())
    }

    /// The caller as it stands in a verdict.
    pub(crate) fn caller_in(&self, during: During) -> Caller {
        match during {
            During::Turn => self.caller.clone(),
            During::Verdict => self.caller.clone().in_verdict(),
            During::Model => self.caller.clone().behind_model(),
        }
    }
}

impl Pending {
    /// Whether nobody waits for anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.load.is_none()
            && self.events.is_empty()
            && self.tools.is_empty()
            && self.commands.is_empty()
            && self.callbacks.is_empty()
    }

    /// Answers everybody with the end of the realm. Somebody who no longer listens is no error.
    fn end(self, reason: &Termination) {
        if let Some(waiter) = self.load {
            let _ = waiter.done.send(Loaded::Ended(reason.clone()));
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
