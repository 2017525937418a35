//! One realm.

use crate::error::EngineError;
use pijs_artifact::Verified;
use pijs_protocol::wire::RealmOptions;
use pijs_protocol::{Delivery, HostCall, Now, Seq, StreamDelta, SyncReply, Termination, Yield};
use std::sync::Arc;

/// Answers the synchronous hostcalls of a running turn.
pub trait SyncHost {
    /// Runs one call to its end; the realm waits.
    fn call(&mut self, call: HostCall) -> SyncReply;
}

/// One QuickJS runtime and context.
pub struct EngineRealm {}

/// Stops a running turn from another thread.
#[derive(Debug, Clone)]
pub struct Interrupter {}

impl Interrupter {
    /// Ends the turn that is running now with `Timeout { quota: "deadline" }`; does nothing between turns.
    pub fn interrupt(&self) {
        unimplemented!()
    }
}

impl EngineRealm {
    /// Creates a realm without modules.
    pub fn new(options: &RealmOptions) -> Result<Self, EngineError> {
        let _ = options;
        unimplemented!()
    }

    /// Makes the modules of an artifact importable: the host module set first, then the extension's artifact.
    pub fn add_modules(&mut self, modules: Arc<Verified>) {
        let _ = modules;
        unimplemented!()
    }

    /// Evaluates `pi:runtime`, whose exports receive every later task.
    pub fn start(&mut self, now: Now, host: &mut dyn SyncHost) -> Result<Yield, Termination> {
        let _ = (now, host);
        unimplemented!()
    }

    /// Runs one macrotask and drains its microtasks.
    pub fn turn(&mut self, delivery: Delivery, host: &mut dyn SyncHost) -> Result<Yield, Termination> {
        let _ = (delivery, host);
        unimplemented!()
    }

    /// The same for a streamed delta, without building a message.
    pub fn stream(
        &mut self,
        seq: Seq,
        now: Now,
        delta: &StreamDelta,
        host: &mut dyn SyncHost,
    ) -> Result<Yield, Termination> {
        let _ = (seq, now, delta, host);
        unimplemented!()
    }

    /// A handle that stops a running turn.
    pub fn interrupter(&self) -> Interrupter {
        unimplemented!()
    }
}
