//! Realms in sealed worker processes, one each.

use crate::options::{OpenError, OpenRealm, OpenedRealm};
use pijs_artifact::Verified;
use pijs_protocol::Now;
use pijs_protocol::wire::RealmOptions;
use pijs_realm::seal::Sealed;
use pijs_realm::{ProcessOptions, ProcessRealm, SyncHost};
use std::cell::Cell;
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
pub struct InProcess {
    options: ProcessOptions,
    sealed_only: bool,
    on_incomplete: Option<Box<dyn Fn(Sealed)>>,
    told: Cell<bool>,
}

impl InProcess {
    /// Processes started like this.
    pub fn new(options: ProcessOptions) -> Self {
        Self { options, sealed_only: false, on_incomplete: None, told: Cell::new(false) }
    }

    /// Refuses to open a realm where the kernel cannot seal it.
    #[must_use]
    pub fn sealed_only(mut self, sealed_only: bool) -> Self {
        self.sealed_only = sealed_only;
        self
    }

    /// Called once, when the kernel lacks something and the session goes on without it.
    #[must_use]
    pub fn on_incomplete(mut self, tell: impl Fn(Sealed) + 'static) -> Self {
        self.on_incomplete = Some(Box::new(tell));
        self
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
        let (realm, booted) =
            ProcessRealm::open(options, &modules, now, host, self.options.clone()).map_err(OpenError::Process)?;
        let sealed = realm.sealed();
        if self.sealed_only && !sealed.holds() {
            return Err(OpenError::Unsealed(sealed));
        }
        if !sealed.is_complete()
            && let Some(tell) = &self.on_incomplete
            && !self.told.replace(true)
        {
            tell(sealed);
        }
        Ok(OpenedRealm { stop: Arc::new(realm.stopper()), realm: Box::new(realm), booted })
    }
}
