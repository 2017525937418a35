//! The parts of a host: [`HostBuilder`] and the services it takes.
//!
//! The host owns no clock, no thread and no engine. Time comes from the driver's [`Timer`], realms
//! from an [`OpenRealm`], the kill at the end of the patience with a verdict from a [`Watchdog`].
//!
//! [`InThread`] is the default. `InProcess` runs realms in sealed worker processes (Linux); `pi` uses it, and it needs a tokio runtime
//! with `enable_all`. An [`Observer`] gets every report at once, for drivers that write down what happens. With the fact `observesEvents` a realm
//! reports emissions on the bus (`events`), console output and calls of `pi.exec` (`log`) at the moment they are made.

use crate::host::Host;
use crate::profile::PiProfile;
use crate::report::Observer;
use crate::report_budget::ReportBudget;
use crate::restart::RestartPolicy;
use crate::source_excerpts::Quotes;
use crate::state::ReadableState;
use crate::wait_limits::WaitBudget;
use pijs_artifact::Verified;
use pijs_environment::Timer;
use pijs_hostcall::Dispatcher;
use pijs_protocol::wire::{Limits, RealmOptions};
use pijs_protocol::{Now, Termination, Yield};
use pijs_realm::{GuestError, Realm, SyncHost, ThreadRealm};
use serde_json::{Map, Value};
use std::rc::Rc;
use std::sync::Arc;

/// Opens realms: in this thread, in a process, or for a test.
pub trait OpenRealm {
    /// Creates a realm, makes `modules` importable (host modules first) and evaluates `pi:runtime`. A component comes alone, and
    /// has no runtime.
    fn open(
        &self,
        options: &RealmOptions,
        modules: Vec<Arc<Verified>>,
        now: Now,
        host: &mut dyn SyncHost,
    ) -> Result<OpenedRealm, OpenError>;

    /// Prepares for so many realms that will be opened soon. Nothing has to come of it.
    fn expect(&self, _realms: usize) {}

    /// Returns how many realms run code at the same time. With 1, the default, packages are loaded one after the other.
    fn concurrency(&self) -> usize {
        1
    }

    /// Begins to open a realm that makes its modules importable while its host does something else. `None`: it is opened by
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
    /// Waits until it is ready for deliveries.
    ///
    /// # Errors
    ///
    /// Those of [`OpenRealm::open`].
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
    /// `pi:runtime` did not survive its own evaluation.
    Ended(Termination),
    /// There is no worker process.
    #[cfg(target_os = "linux")]
    Process(pijs_realm::ProcessError),
    /// The kernel cannot seal a worker, and sealed ones were asked for.
    Unsealed(pijs_realm::seal::Sealed),
}

impl OpenError {
    /// Whether a process died that did nothing wrong yet: the next one may live.
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

/// Stops a realm that does not come back from a delta.
///
/// Fuel ends computation after about a second, wherever it runs. What fuel does not see is time spent
/// outside the interpreter: a synchronous read of a slow disk, one long built-in. For that the driver
/// may lend a thread. One [`Watch`] is made per realm; arming it happens twice per delta and has to
/// cost next to nothing, so an implementation keeps a deadline in an atomic and looks at it now and then.
pub trait Watchdog {
    /// Watches one realm; `stop` ends its running turn.
    fn watch(&self, stop: Arc<dyn Fn() + Send + Sync>) -> Box<dyn Watch>;
}

/// The watch over one realm. Dropping it ends it.
pub trait Watch {
    /// Calls `stop` unless [`Watch::disarm`] comes within so many microseconds.
    fn arm(&self, within_us: u64);
    /// The turn has come back.
    fn disarm(&self);
}

/// How long a verdict may take.
///
/// The fuel of a delta is [`Limits::stream_fuel`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerdictBudget {
    /// A verdict that takes longer is reported, once per extension; the answer counts.
    pub soft_us: u64,
    /// A realm that has not answered by then is stopped, discarded and started again. Synchronous
    /// I/O counts.
    pub kill_us: u64,
    /// No turn of deltas that arrived together begins later than this after the first one. They are shown at most so much
    /// late, and a slow turn among them is noticed at most so much later.
    pub slice_us: u64,
}

impl Default for VerdictBudget {
    /// 250 ms, 1.5 s, 20 ms (a picture of a screen at 50 Hz).
    fn default() -> Self {
        Self { soft_us: 250_000, kill_us: 1_500_000, slice_us: 20_000 }
    }
}

/// Everything a host is told when it is made.
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
    /// Patience with verdicts.
    pub verdict: VerdictBudget,
    /// Strikes after which a `stream_text` handler is no longer called.
    pub max_strikes: u32,
    /// Patience with promises that do not settle.
    pub waits: WaitBudget,
    /// Reports per turn of the agent.
    pub reports: ReportBudget,
    /// Policy for an extension that keeps being stopped.
    pub restarts: RestartPolicy,
    /// Version of pi that extensions meet.
    pub profile: PiProfile,
    /// Macrotasks of one realm that run before other work of the thread gets a turn.
    pub burst: usize,
}

impl Default for HostOptions {
    /// Limits of [`Limits::default`], seed 1, a clock that advances 1 us per read, UTC, no facts,
    /// three strikes, the default patience, reports and restarts, the current pi, bursts of 256.
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

/// Makes a [`Host`].
pub struct HostBuilder {
    pub(crate) modules: Arc<Verified>,
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) timer: Arc<dyn Timer>,
    pub(crate) options: HostOptions,
    pub(crate) opener: Box<dyn OpenRealm>,
    pub(crate) watchdog: Option<Box<dyn Watchdog>>,
    pub(crate) state: ReadableState,
    pub(crate) observer: Option<Rc<dyn Observer>>,
    pub(crate) quotes: Quotes,
}

impl HostBuilder {
    pub(crate) fn new(modules: Arc<Verified>, dispatcher: Arc<Dispatcher>, timer: Arc<dyn Timer>) -> Self {
        Self {
            modules,
            dispatcher,
            timer,
            options: HostOptions::default(),
            opener: Box::new(InThread),
            watchdog: None,
            state: ReadableState::default(),
            observer: None,
            quotes: Quotes::default(),
        }
    }

    /// Replaces all options.
    #[must_use]
    pub fn options(mut self, options: HostOptions) -> Self {
        self.options = options;
        self
    }

    /// Adds a fact that `process`, `os` and `path` report in every realm: `cwd`, `homedir`, `tmpdir`,
    /// `agentDir`, `platform`, `arch`, `pid`, `argv`, `env`.
    #[must_use]
    pub fn fact(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.options.facts.insert(name.to_owned(), value.into());
        self
    }

    /// Sets how realms are opened; the default is [`InThread`].
    #[must_use]
    pub fn realms(mut self, opener: Box<dyn OpenRealm>) -> Self {
        self.opener = opener;
        self
    }

    /// Lends a watchdog for verdicts. Without one only fuel and the time of synchronous hostcalls are
    /// bounded.
    #[must_use]
    pub fn watchdog(mut self, watchdog: impl Watchdog + 'static) -> Self {
        self.watchdog = Some(Box::new(watchdog));
        self
    }

    /// The readable state, shared with the connectors that change it.
    #[must_use]
    pub fn state(mut self, state: ReadableState) -> Self {
        self.state = state;
        self
    }

    /// Tells somebody of every report when it is made.
    #[must_use]
    pub fn observer(mut self, observer: Rc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Sets the source of the text that errors quote, shared with the connector of `module`.
    #[must_use]
    pub fn quotes(mut self, quotes: Quotes) -> Self {
        self.quotes = quotes;
        self
    }

    /// Makes the host. Call it on the thread that will run it.
    pub fn build(self) -> Host {
        Host::new(self)
    }
}
