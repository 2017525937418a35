//! A realm in this thread.

use crate::{Patience, Progress, Realm};
use pijs_artifact::Verified;
use pijs_engine::{EngineError, EngineRealm, Interrupter, SyncHost};
use pijs_protocol::wire::RealmOptions;
use pijs_protocol::{Delivery, Now, Seq, StreamDelta, Termination, Yield};
use std::sync::Arc;

/// Runs the engine on the calling thread: lowest latency, no kill from outside.
///
/// Values cross as the typed structs they are, without encoding. A turn is always finished when
/// [`Realm::start`] returns.
pub struct ThreadRealm {
    engine: EngineRealm,
    interrupter: Interrupter,
}

impl ThreadRealm {
    /// Creates the engine and adds `modules`: the host module set first, then the extension's artifact.
    pub fn open(options: &RealmOptions, modules: Vec<Arc<Verified>>) -> Result<Self, EngineError> {
        let mut engine = EngineRealm::new(options)?;
        for artifact in modules {
            engine.add_modules(artifact);
        }
        let interrupter = engine.interrupter();
        Ok(Self { engine, interrupter })
    }

    /// Evaluates the runtime; call it once, before the first delivery.
    pub fn boot(&mut self, now: Now, host: &mut dyn SyncHost) -> Result<Yield, Termination> {
        self.engine.start(now, host)
    }

    /// A handle that stops a running turn from another thread.
    pub fn interrupter(&self) -> Interrupter {
        self.interrupter.clone()
    }
}

impl Realm for ThreadRealm {
    fn start(&mut self, delivery: Delivery, host: &mut dyn SyncHost) -> Progress {
        match self.engine.turn(delivery, host) {
            Ok(done) => Progress::Yielded(done),
            Err(termination) => Progress::Ended(termination),
        }
    }

    fn resume(&mut self, _host: &mut dyn SyncHost, _patience: Patience) -> Progress {
        Progress::Ended(Termination::Protocol {
            detail: "resumed a thread realm, whose turns end where they began".to_owned(),
        })
    }

    fn stream(
        &mut self,
        seq: Seq,
        now: Now,
        delta: &StreamDelta,
        host: &mut dyn SyncHost,
    ) -> Result<Yield, Termination> {
        self.engine.stream(seq, now, delta, host)
    }

    fn interrupt(&self) {
        self.interrupter.interrupt();
    }
}
