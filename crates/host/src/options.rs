//! Options of a host, and the traits of its services.
//!
//! The host owns no clock, no thread and no engine. Time comes from the driver's [`Timer`](pijs_environment::Timer), realms from
//! an [`OpenRealm`], the kill of a verdict that exceeds its deadline from a [`Watchdog`].
//!
//! [`InThread`] is the default. `InProcess` runs realms in sealed worker processes (Linux); `pi` uses it, and it needs a tokio
//! runtime with `enable_all`. An [`Observer`](crate::Observer) gets every report at once, for drivers that record them. With the
//! fact `observesEvents` a realm reports emissions on the bus (`events`), console output and calls of `pi.exec` (`log`) when they
//! are made.

use crate::profile::PiProfile;
use crate::report_budget::ReportBudget;
use crate::restart::RestartPolicy;
use pijs_artifact::Verified;
use pijs_protocol::wire::{Limits, RealmOptions};
use pijs_protocol::{Now, Termination, Yield};
use pijs_realm::{GuestError, Realm, SyncHost, ThreadRealm};
use serde_json::{Map, Value};
use std::sync::Arc;

/// Opens realms: in this thread, in a process, or for a test.
pub trait OpenRealm {
    /// Creates a realm, makes `modules` importable (host modules first) and evaluates `pi:runtime`. A WebAssembly component is
    /// the only module of its realm, and has no runtime.
    fn open(
        &self,
        options: &RealmOptions,
        modules: Vec<Arc<Verified>>,
        now: Now,
        host: &mut dyn SyncHost,
    ) -> Result<OpenedRealm, OpenError>;

    /// Announces the number of realms that will be opened soon. Implementations may ignore it.
    fn expect(&self, _realms: usize) {}

    /// Prepares for the announced realms while their packages are still read: they will have these options, except for the
    /// extension, and this runtime. Implementations may ignore it.
    fn warm_up(&self, _options: &RealmOptions, _runtime: &Arc<Verified>, _now: Now) {}

    /// Returns how many realms run code at the same time. With 1, the default, packages are loaded one after the other.
    fn concurrency(&self) -> usize {
        1
    }

    /// Starts opening a realm that loads its modules concurrently. Returns `None` if the realm has to be opened by
    /// [`OpenRealm::open`].
    fn begin(
        &self,
        _options: &RealmOptions,
        _modules: &[Arc<Verified>],
        _now: Now,
    ) -> Option<Result<Box<dyn OpeningRealm>, OpenError>> {
        None
    }
}

/// A realm that is being opened: see [`OpenRealm::begin`].
pub trait OpeningRealm {
    /// Waits until the realm is ready for deliveries.
    ///
    /// # Errors
    ///
    /// Fails like [`OpenRealm::open`].
    fn finish(self: Box<Self>, host: &mut dyn SyncHost) -> Result<OpenedRealm, OpenError>;
}

/// A realm that is ready for deliveries.
pub struct OpenedRealm {
    /// The realm.
    pub realm: Box<dyn Realm>,
    /// Stops a running turn, from any thread.
    pub stop: Arc<dyn Fn() + Send + Sync>,
    /// Messages that `pi:runtime` sent when it was evaluated.
    pub booted: Yield,
}

/// A realm that could not be opened.
#[derive(Debug)]
pub enum OpenError {
    /// The engine could not be created.
    Engine(GuestError),
    /// The realm ended while `pi:runtime` was evaluated.
    Ended(Termination),
    /// The worker process could not be started.
    #[cfg(target_os = "linux")]
    Process(pijs_realm::ProcessError),
    /// The kernel cannot seal a worker, and the options require a seal.
    Unsealed(pijs_realm::seal::Sealed),
}

impl OpenError {
    /// Returns whether a process died through no fault of its own, so that a retry may succeed.
    pub(crate) fn is_death(&self) -> bool {
        #[cfg(target_os = "linux")]
        if let Self::Process(pijs_realm::ProcessError::Ended(reason)) = self {
            return matches!(reason, Termination::Crashed { .. });
        }
        false
    }
}

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Engine(error) => error.fmt(f),
            Self::Ended(reason) => write!(f, "the realm's runtime {reason}"),
            #[cfg(target_os = "linux")]
            Self::Process(error) => error.fmt(f),
            Self::Unsealed(sealed) => write!(f, "this kernel cannot seal a worker process ({sealed})"),
        }
    }
}

impl std::error::Error for OpenError {}

/// Realms in the calling thread: the default.
#[derive(Debug, Clone, Copy, Default)]
pub struct InThread;

impl OpenRealm for InThread {
    fn open(
        &self,
        options: &RealmOptions,
        modules: Vec<Arc<Verified>>,
        now: Now,
        host: &mut dyn SyncHost,
    ) -> Result<OpenedRealm, OpenError> {
        let mut realm = ThreadRealm::open(options, modules).map_err(OpenError::Engine)?;
        let interrupter = realm.interrupter();
        let booted = realm.boot(now, host).map_err(OpenError::Ended)?;
        Ok(OpenedRealm { realm: Box::new(realm), stop: Arc::new(move || interrupter.interrupt()), booted })
    }
}

/// Stops a realm that does not return from a delta.
///
/// Fuel ends computation after about a second on any machine, but does not count time outside the interpreter: a synchronous read
/// of a slow disk, one long built-in. A driver may watch for that on a thread. One [`Watch`] is created per realm; it is armed
/// twice per delta, so it must be cheap: an implementation stores a deadline in an atomic and polls it.
pub trait Watchdog {
    /// Watches one realm; `stop` ends its running turn.
    fn watch(&self, stop: Arc<dyn Fn() + Send + Sync>) -> Box<dyn Watch>;
}

/// Watch over one realm. Dropping the value ends the watch.
pub trait Watch {
    /// Calls `stop` unless [`Watch::disarm`] is called within this many microseconds.
    fn arm(&self, within_us: u64);
    /// Disarms after the turn has ended.
    fn disarm(&self);
}

/// Time limits of a verdict.
///
/// The fuel of a delta is [`Limits::stream_fuel`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerdictBudget {
    /// Duration from which a verdict is reported as slow, once per extension, in microseconds; its answer is still used.
    pub soft_us: u64,
    /// Duration after which the realm is stopped, discarded and started again, in microseconds. Synchronous I/O counts.
    pub kill_us: u64,
    /// Latest start of a turn among deltas that arrived together, in microseconds after the first one. Limits how late the deltas
    /// are shown, and how late a slow turn is noticed.
    pub slice_us: u64,
}

impl Default for VerdictBudget {
    /// Returns 250 ms, 1.5 s and 20 ms (a frame at 50 Hz).
    fn default() -> Self {
        Self { soft_us: 250_000, kill_us: 1_500_000, slice_us: 20_000 }
    }
}

/// Limits of waits for an extension without progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitBudget {
    /// Limit for a handler or a factory without pending work, in microseconds.
    pub hook_us: u64,
    /// Limit for a handler or a factory while a timer is armed, a call listens, or another extension works, in microseconds.
    pub hook_waiting_us: u64,
    /// Limit for a tool, a command or a callback without pending work, in microseconds.
    pub call_us: u64,
    /// Limit for a tool, a command or a callback while a timer is armed, a call listens, or another extension works, in
    /// microseconds.
    pub call_waiting_us: u64,
    /// Limit after the user's abort, in microseconds, whatever is pending.
    pub abort_us: u64,
}

impl Default for WaitBudget {
    /// Returns 5 s and 2 min for hooks, 1 min and 30 min for requests of a model or the user, 2 s after an abort.
    fn default() -> Self {
        let seconds = |count: u64| count * 1_000_000;
        Self {
            hook_us: seconds(5),
            hook_waiting_us: seconds(120),
            call_us: seconds(60),
            call_waiting_us: seconds(1800),
            abort_us: seconds(2),
        }
    }
}

/// Options of a host.
#[derive(Clone)]
pub struct HostOptions {
    /// Limits of each realm.
    pub limits: Limits,
    /// Seed of each realm's random numbers.
    pub seed: u64,
    /// Microseconds a realm's clock advances per read inside a turn.
    pub clock_step_us: u32,
    /// IANA time zone.
    pub time_zone: String,
    /// Values that `process`, `os` and `path` report in every realm.
    pub facts: Map<String, Value>,
    /// Time limits of verdicts.
    pub verdict: VerdictBudget,
    /// Number of strikes after which a `stream_text` handler is not called any more.
    pub max_strikes: u32,
    /// Time limits of promises that do not settle.
    pub waits: WaitBudget,
    /// Maximum number of reports per turn of the agent.
    pub reports: ReportBudget,
    /// Policy for an extension that keeps being stopped.
    pub restarts: RestartPolicy,
    /// Version of pi that extensions see.
    pub profile: PiProfile,
    /// Maximum number of macrotasks that one realm runs before other work of the thread gets a turn.
    pub burst: usize,
}

impl Default for HostOptions {
    /// Returns the limits of [`Limits::default`], seed 1, a clock that advances 1 us per read, UTC, no facts, three strikes, the
    /// default time limits, report budget and restart policy, the current pi, and bursts of 256.
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            seed: 1,
            clock_step_us: 1,
            time_zone: "UTC".to_owned(),
            facts: Map::new(),
            verdict: VerdictBudget::default(),
            max_strikes: 3,
            waits: WaitBudget::default(),
            reports: ReportBudget::default(),
            restarts: RestartPolicy::default(),
            profile: PiProfile::default(),
            burst: 256,
        }
    }
}
