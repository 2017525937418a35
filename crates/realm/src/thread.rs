//! Implements a realm in the calling thread.

use crate::guest::{Guest, GuestError, Interrupter};
use crate::{Patience, Progress, Realm};
use pijs_artifact::Verified;
use pijs_engine::SyncHost;
use pijs_protocol::wire::{RealmOptions, Usage};
use pijs_protocol::{Delivery, Message, Now, Seq, StreamDelta, Termination, Yield};
use std::sync::Arc;

/// Runs the engine on the calling thread: lowest latency, but it cannot be killed.
///
/// Values are passed as typed structs, without encoding. A turn has always ended when [`Realm::start`] returns. The runtime
/// module is evaluated with the first task, as part of its turn.
pub struct ThreadRealm {
    guest: Guest,
    interrupter: Interrupter,
    started: bool,
}

impl ThreadRealm {
    /// Creates the engine and adds `modules`: the host module set first, then the extension's artifact. A component is passed
    /// without host modules.
    pub fn open(options: &RealmOptions, modules: Vec<Arc<Verified>>) -> Result<Self, GuestError> {
        let guest = Guest::new(options, modules)?;
        let interrupter = guest.interrupter();
        Ok(Self { guest, interrupter, started: false })
    }

    /// Returns a handle that stops a running turn from another thread.
    pub fn interrupter(&self) -> Interrupter {
        self.interrupter.clone()
    }

    /// Evaluates the runtime now, before the first task. Later calls have no effect.
    pub fn boot(&mut self, now: Now, host: &mut dyn SyncHost) -> Result<Yield, Termination> {
        self.boot_once(now, host).map(Option::unwrap_or_default)
    }

    /// Evaluates the runtime before the first task; its yield belongs to that task's turn.
    fn boot_once(&mut self, now: Now, host: &mut dyn SyncHost) -> Result<Option<Yield>, Termination> {
        if self.started {
            return Ok(None);
        }
        self.started = true;
        self.guest.start(now, host).map(Some)
    }
}

impl Realm for ThreadRealm {
    fn start(&mut self, delivery: Delivery, host: &mut dyn SyncHost) -> Progress {
        let turn = self.boot_once(delivery.now, host).and_then(|boot| {
            let done = self.guest.turn(delivery, host)?;
            Ok(joined(boot, done))
        });
        match turn {
            Ok(done) => Progress::Yielded(done),
            Err(termination) => Progress::Ended(termination),
        }
    }

    fn resume(&mut self, _host: &mut dyn SyncHost, _patience: Patience) -> Progress {
        Progress::Ended(Termination::Protocol {
            detail: "resumed a thread realm, whose turns end in `start`".to_owned(),
        })
    }

    fn stream(
        &mut self,
        seq: Seq,
        now: Now,
        delta: &StreamDelta,
        host: &mut dyn SyncHost,
    ) -> Result<Yield, Termination> {
        let boot = self.boot_once(now, host)?;
        let done = self.guest.stream(seq, now, delta, host)?;
        Ok(joined(boot, done))
    }

    fn interrupt(&self) {
        self.interrupter.interrupt();
    }
}

/// Combines two yields of one turn: messages in order, usage added up.
fn joined(boot: Option<Yield>, mut done: Yield) -> Yield {
    let Some(boot) = boot else { return done };
    let mut messages: Vec<Message> = boot.messages;
    messages.append(&mut done.messages);
    let usage = Usage {
        jobs: boot.usage.jobs + done.usage.jobs,
        fuel: boot.usage.fuel + done.usage.fuel,
        clock_reads: boot.usage.clock_reads + done.usage.clock_reads,
        random_draws: boot.usage.random_draws + done.usage.random_draws,
        heap_bytes: done.usage.heap_bytes,
    };
    Yield { messages, stream: done.stream, usage }
}
