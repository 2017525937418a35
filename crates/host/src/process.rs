//! Opens each realm in a sealed worker process of its own.
//!
//! A process starts before its realm is needed ([`crate::OpenRealm::expect`]): the first one while the host reads the modules,
//! each further one while the previous one evaluates the runtime. For more than one expected realm, the first process is a zygote
//! and the workers are copies of it. Extensions are loaded concurrently, one more than there are cores.

use crate::options::{OpenError, OpenRealm, OpenedRealm, OpeningRealm};
use pijs_artifact::Verified;
use pijs_protocol::Now;
use pijs_protocol::wire::RealmOptions;
use pijs_realm::seal::Sealed;
use pijs_realm::{Opening, ProcessError, ProcessOptions, SharedCode, Spare, SyncHost, Zygote, is_component};
use std::cell::{Cell, RefCell};
use std::num::NonZero;
use std::rc::Rc;
use std::sync::Arc;

/// Opens realms in sealed processes. `main` has to begin with [`pijs_realm::worker::enter`], and the tokio runtime needs its I/O
/// and time drivers (`enable_all`).
///
/// ```no_run
/// use pijs_host::InProcess;
/// use pijs_realm::ProcessOptions;
///
/// let realms = InProcess::new(ProcessOptions::default()).on_incomplete(|sealed| eprintln!("note: {sealed}"));
/// ```
///
/// While more realms are expected ([`OpenRealm::expect`]), the next process starts concurrently with the host and the previous
/// process. If several realms are expected, their processes are copies of a zygote that has evaluated the runtime; the zygote
/// exits once the last realm is open.
pub struct InProcess {
    options: ProcessOptions,
    /// Number of expected realms.
    expected: Cell<usize>,
    /// Process that was started for the next realm.
    spare: RefCell<Option<Spare>>,
    /// Process that workers are copied from.
    zygote: RefCell<Option<Zygote>>,
    walls: Rc<WallPolicy>,
}

/// Callback that receives the missing parts of a worker's seal.
type OnIncomplete = Box<dyn Fn(Sealed)>;

/// Decides about a worker that the kernel cannot seal completely.
#[derive(Default)]
struct WallPolicy {
    sealed_only: Cell<bool>,
    on_incomplete: RefCell<Option<OnIncomplete>>,
    told: Cell<bool>,
}

impl InProcess {
    /// Creates an opener with these options.
    pub fn new(mut options: ProcessOptions) -> Self {
        if options.shared_code.is_none() {
            // Without shared code each worker gets a copy.
            options.shared_code = Some(Arc::new(SharedCode::default()));
        }
        Self {
            options,
            expected: Cell::new(0),
            spare: RefCell::new(None),
            zygote: RefCell::new(None),
            walls: Rc::default(),
        }
    }

    /// Refuses to open a realm where the kernel cannot seal it.
    #[must_use]
    pub fn sealed_only(self, sealed_only: bool) -> Self {
        self.walls.sealed_only.set(sealed_only);
        self
    }

    /// Sets a callback for the first worker that is not sealed completely.
    #[must_use]
    pub fn on_incomplete(self, tell: impl Fn(Sealed) + 'static) -> Self {
        self.walls.on_incomplete.replace(Some(Box::new(tell)));
        self
    }

    /// Returns the prepared process, or starts a new one.
    fn process(&self) -> Result<Spare, ProcessError> {
        let alive = self.spare.take().and_then(Spare::alive);
        alive.map_or_else(|| self.start(), Ok)
    }

    /// Starts a new process: a copy of the zygote, if possible.
    fn start(&self) -> Result<Spare, ProcessError> {
        let mut zygote = self.zygote.borrow_mut();
        if let Some(copy) = zygote.as_mut().and_then(|zygote| zygote.fork().ok()) {
            return Ok(copy);
        }
        // A zygote that failed once is not used again.
        *zygote = None;
        Spare::start(self.options.clone())
    }

    /// Creates the zygote when more than one realm is expected.
    fn raise(&self, options: &RealmOptions, modules: &[Arc<Verified>], now: Now) {
        // A component has no runtime to copy.
        let is_wanted = self.expected.get() > 1 && !is_component(modules);
        let Some(runtime) = modules.first().filter(|_| is_wanted) else { return };
        let mut zygote = self.zygote.borrow_mut();
        if zygote.is_none() {
            // An error is reported by the process that is started instead of a copy.
            let made = self.process().and_then(|process| Zygote::of(process, options, runtime, now));
            *zygote = made.ok();
        }
    }

    /// Sends a process the parts of its realm, and starts the next process.
    fn begin_process(
        &self,
        options: &RealmOptions,
        modules: &[Arc<Verified>],
        now: Now,
    ) -> Result<Box<OpeningProcess>, OpenError> {
        self.raise(options, modules, now);
        self.expected.set(self.expected.get().saturating_sub(1));
        let opening = self.process().and_then(|process| process.open(options, modules, now));
        self.prepare();
        let opening = opening.map_err(OpenError::Process)?;
        Ok(Box::new(OpeningProcess { opening, walls: Rc::clone(&self.walls) }))
    }

    /// Starts the process of the next realm. A persistent error is reported when that realm is opened.
    fn prepare(&self) {
        if self.expected.get() == 0 {
            self.zygote.take();
        } else if self.spare.borrow().is_none() {
            let spare = self.start().ok();
            *self.spare.borrow_mut() = spare;
        }
    }
}

/// A realm that is being opened in its process.
struct OpeningProcess {
    opening: Opening,
    walls: Rc<WallPolicy>,
}

impl OpeningRealm for OpeningProcess {
    fn finish(self: Box<Self>, host: &mut dyn SyncHost) -> Result<OpenedRealm, OpenError> {
        let Self { opening, walls } = *self;
        let (realm, booted) = opening.finish(host).map_err(OpenError::Process)?;
        walls.check(realm.sealed())?;
        Ok(OpenedRealm { stop: Arc::new(realm.stopper()), realm: Box::new(realm), booted })
    }
}

impl WallPolicy {
    fn check(&self, sealed: Sealed) -> Result<(), OpenError> {
        if self.sealed_only.get() && !sealed.holds() {
            return Err(OpenError::Unsealed(sealed));
        }
        if !sealed.is_complete()
            && let Some(tell) = &*self.on_incomplete.borrow()
            && !self.told.replace(true)
        {
            tell(sealed);
        }
        Ok(())
    }
}

impl OpenRealm for InProcess {
    fn open(
        &self,
        options: &RealmOptions,
        modules: Vec<Arc<Verified>>,
        now: Now,
        host: &mut dyn SyncHost,
    ) -> Result<OpenedRealm, OpenError> {
        self.begin_process(options, &modules, now)?.finish(host)
    }

    fn begin(
        &self,
        options: &RealmOptions,
        modules: &[Arc<Verified>],
        now: Now,
    ) -> Option<Result<Box<dyn OpeningRealm>, OpenError>> {
        Some(self.begin_process(options, modules, now).map(|opening| opening as _))
    }

    /// Starts the zygote.
    fn warm_up(&self, options: &RealmOptions, runtime: &Arc<Verified>, now: Now) {
        self.raise(options, std::slice::from_ref(runtime), now);
    }

    /// Returns one more than the number of cores: one realm can run while another waits for the host.
    fn concurrency(&self) -> usize {
        std::thread::available_parallelism().map_or(2, NonZero::get) + 1
    }

    fn expect(&self, realms: usize) {
        self.expected.set(realms);
        if realms == 0 {
            self.spare.take();
        }
        self.prepare();
    }
}
