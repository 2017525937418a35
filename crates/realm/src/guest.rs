//! Runs the code of a realm: JavaScript, or a WebAssembly component, depending on the modules.
//!
//! Thread realms and workers both use it.

#[cfg(target_os = "linux")]
use pijs_artifact::COMPONENT_SCHEME;
use pijs_artifact::Verified;
use pijs_engine::{EngineError, EngineRealm, SyncHost};
use pijs_protocol::wire::RealmOptions;
use pijs_protocol::{Delivery, Now, Seq, StreamDelta, Termination, Yield};
use std::fmt;
use std::sync::Arc;

/// Reason why a realm could not be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuestError {
    /// The QuickJS realm could not be created.
    Engine(EngineError),
    /// The component could not be loaded.
    #[cfg(feature = "wasm")]
    Component(pijs_wasm::WasmError),
    /// The modules are a component, and this program was built without the feature `wasm`.
    #[cfg(not(feature = "wasm"))]
    NoComponents,
}

impl fmt::Display for GuestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Engine(error) => error.fmt(f),
            #[cfg(feature = "wasm")]
            Self::Component(error) => error.fmt(f),
            #[cfg(not(feature = "wasm"))]
            Self::NoComponents => f.write_str("this program was built without WebAssembly components (feature `wasm`)"),
        }
    }
}

impl std::error::Error for GuestError {}

impl From<EngineError> for GuestError {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

/// Returns whether the modules are a component, which is always a single one.
pub fn is_component(modules: &[Arc<Verified>]) -> bool {
    matches!(modules, [module] if module.artifact().component().is_some())
}

/// Returns whether an artifact with these specifiers is a component.
#[cfg(target_os = "linux")]
pub(crate) fn is_component_code(specifiers: &[String]) -> bool {
    matches!(specifiers, [specifier] if specifier.starts_with(COMPONENT_SCHEME))
}

/// The code of one realm, entered once per macrotask.
pub(crate) enum Guest {
    /// A QuickJS runtime.
    Script(Box<EngineRealm>),
    /// A component.
    #[cfg(feature = "wasm")]
    Component(Box<pijs_wasm::ComponentRealm>),
}

impl Guest {
    /// Creates the guest for the modules without running their code, so that a process can seal itself first.
    pub(crate) fn new(options: &RealmOptions, modules: Vec<Arc<Verified>>) -> Result<Self, GuestError> {
        if is_component(&modules) {
            return Self::component(options, &modules[0]);
        }
        let mut engine = EngineRealm::new(options)?;
        modules.into_iter().for_each(|artifact| engine.add_modules(artifact));
        Ok(Self::Script(Box::new(engine)))
    }

    #[cfg(feature = "wasm")]
    fn component(options: &RealmOptions, code: &Verified) -> Result<Self, GuestError> {
        let realm = pijs_wasm::ComponentRealm::new(options, code).map_err(GuestError::Component)?;
        Ok(Self::Component(Box::new(realm)))
    }

    #[cfg(not(feature = "wasm"))]
    fn component(_options: &RealmOptions, _code: &Verified) -> Result<Self, GuestError> {
        Err(GuestError::NoComponents)
    }

    /// Evaluates the runtime. A component has none.
    pub(crate) fn start(&mut self, now: Now, host: &mut dyn SyncHost) -> Result<Yield, Termination> {
        match self {
            Self::Script(engine) => engine.start(now, host),
            #[cfg(feature = "wasm")]
            Self::Component(_) => Ok(Yield::default()),
        }
    }

    /// Runs one macrotask.
    pub(crate) fn turn(&mut self, delivery: Delivery, host: &mut dyn SyncHost) -> Result<Yield, Termination> {
        match self {
            Self::Script(engine) => engine.turn(delivery, host),
            #[cfg(feature = "wasm")]
            Self::Component(realm) => realm.turn(delivery, &mut ComponentHost(host)),
        }
    }

    /// Runs a streamed delta.
    pub(crate) fn stream(
        &mut self,
        seq: Seq,
        now: Now,
        delta: &StreamDelta,
        host: &mut dyn SyncHost,
    ) -> Result<Yield, Termination> {
        match self {
            Self::Script(engine) => engine.stream(seq, now, delta, host),
            #[cfg(feature = "wasm")]
            Self::Component(realm) => realm.stream(seq, now, delta, &mut ComponentHost(host)),
        }
    }

    /// Returns a handle that stops a running turn from another thread.
    pub(crate) fn interrupter(&self) -> Interrupter {
        match self {
            Self::Script(engine) => Interrupter(InterrupterKind::Script(engine.interrupter())),
            #[cfg(feature = "wasm")]
            Self::Component(realm) => Interrupter(InterrupterKind::Component(realm.interrupter())),
        }
    }

    /// Returns empty heap pages to the system.
    #[cfg(target_os = "linux")]
    pub(crate) fn trim_heap(&self) {
        match self {
            Self::Script(engine) => engine.trim_heap(),
            #[cfg(feature = "wasm")]
            Self::Component(_) => {}
        }
    }

    /// Returns all memory to the system that is not needed until the next turn.
    #[cfg(target_os = "linux")]
    pub(crate) fn release_idle_memory(&self) {
        match self {
            Self::Script(engine) => engine.release_idle_memory(),
            #[cfg(feature = "wasm")]
            Self::Component(_) => {}
        }
    }
}

/// Stops a running turn from another thread, at the next loop edge or call.
#[derive(Debug, Clone)]
pub struct Interrupter(InterrupterKind);

#[derive(Debug, Clone)]
enum InterrupterKind {
    Script(pijs_engine::Interrupter),
    #[cfg(feature = "wasm")]
    Component(pijs_wasm::Interrupter),
}

impl Interrupter {
    /// Ends the turn that is running now; does nothing between turns.
    pub fn interrupt(&self) {
        match &self.0 {
            InterrupterKind::Script(interrupter) => interrupter.interrupt(),
            #[cfg(feature = "wasm")]
            InterrupterKind::Component(interrupter) => interrupter.interrupt(),
        }
    }

    /// Returns whether the realm is dropped, so that a watchdog can stop.
    pub fn is_orphaned(&self) -> bool {
        match &self.0 {
            InterrupterKind::Script(interrupter) => interrupter.is_orphaned(),
            #[cfg(feature = "wasm")]
            InterrupterKind::Component(interrupter) => interrupter.is_orphaned(),
        }
    }
}

/// Adapts the host of a turn for a component.
#[cfg(feature = "wasm")]
struct ComponentHost<'a>(&'a mut dyn SyncHost);

#[cfg(feature = "wasm")]
impl pijs_wasm::Hostcalls for ComponentHost<'_> {
    fn call(&mut self, call: pijs_protocol::HostCall) -> pijs_protocol::SyncReply {
        self.0.call(call)
    }
}
