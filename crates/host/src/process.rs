//! Realms in sealed worker processes, one each.
//!
//! A process starts before its realm is needed ([`crate::OpenRealm::expect`]): the first one while the host reads the
//! modules, each further one while the one before it evaluates the runtime. Where more than one realm is expected, the first process is a
//! zygote and the workers are copies of it. As many extensions are loaded at the same time as there are cores, and one more.

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

/// Opens realms in sealed processes. `main` has to begin with [`pijs_realm::worker::enter`], and the tokio runtime
/// needs its I/O and time drivers (`enable_all`).
///
/// ```no_run
/// use pijs_host::InProcess;
/// use pijs_realm::ProcessOptions;
///
/// let realms = InProcess::new(ProcessOptions::default()).on_incomplete(|sealed| eprintln!("note: {sealed}"));
/// ```
///
/// While [`OpenRealm::expect`]ed realms are to come, the next one's process starts beside what the host and the process
/// before it do. Where several are to come they are copies of one process that has evaluated the runtime, which ends when
/// the last one was opened.
pub struct InProcess {
    options: ProcessOptions,
    /// Realms that are to come.
    expected: Cell<usize>,
    /// The process of the next one.
    spare: RefCell<Option<Spare>>,
    /// The process that workers are copies of.
    zygote: RefCell<Option<Zygote>>,
    walls: Rc<WallPolicy>,
}

/// Is told how far a worker is sealed.
type OnIncomplete = Box<dyn Fn(Sealed)>;

/// Decides about a worker that the kernel cannot seal.
#[derive(Default)]
struct WallPolicy {
    sealed_only: Cell<bool>,
    on_incomplete: RefCell<Option<OnIncomplete>>,
    told: Cell<bool>,
}

impl InProcess {
    /// Processes started like this.
    pub fn new(mut options: ProcessOptions) -> Self {
        if options.shared_code.is_none() {
            // Without one each worker gets a copy.
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

    /// Called once, when the kernel lacks something and the session goes on without it.
    #[must_use]
    pub fn on_incomplete(self, tell: impl Fn(Sealed) + 'static) -> Self {
        self.walls.on_incomplete.replace(Some(Box::new(tell)));
        self
    }

    /// A process: the one that was started before, or one of now.
    fn process(&self) -> Result<Spare, ProcessError> {
        let alive = self.spare.take().and_then(Spare::alive);
        alive.map_or_else(|| self.start(), Ok)
    }

    /// A new process: a copy, where that can be had.
    fn start(&self) -> Result<Spare, ProcessError> {
        let mut zygote = self.zygote.borrow_mut();
        if let Some(copy) = zygote.as_mut().and_then(|zygote| zygote.fork().ok()) {
            return Ok(copy);
        }
        // One that makes no copies will not make the next one either.
        *zygote = None;
        Spare::start(self.options.clone())
    }

    /// Sees to what copies are made of: it is there while more than one realm is to come.
    fn raise(&self, options: &RealmOptions, modules: &[Arc<Verified>], now: Now) {
        // A component has no runtime that others could begin with.
        let is_wanted = self.expected.get() > 1 && !is_component(modules);
        let Some(runtime) = modules.first().filter(|_| is_wanted) else { return };
        let mut zygote = self.zygote.borrow_mut();
        if zygote.is_none() {
            // Whatever keeps it from being made is told of the process that is started instead.
            let made = self.process().and_then(|process| Zygote::of(process, options, runtime, now));
            *zygote = made.ok();
        }
    }

    /// Gives a process what it needs to make a realm, and starts the next one.
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

    /// Starts the process of the realm after this one. That it cannot be had is that one's error, if it still is by then.
    fn prepare(&self) {
        if self.expected.get() == 0 {
            self.zygote.take();
        } else if self.spare.borrow().is_none() {
            let spare = self.start().ok();
            *self.spare.borrow_mut() = spare;
        }
    }
}

/// A realm that its process is making.
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

    /// Returns one more than there are cores: while one waits for its host, another one runs.
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
