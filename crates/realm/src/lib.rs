//! Runs realms in this thread or in sealed worker processes, behind one trait.
//!
//! A caller of [`Realm`] does not see whether the engine runs in this thread ([`ThreadRealm`]) or in a sealed process
//! (`ProcessRealm`, on Linux). In a thread, [`Realm::start`] returns at the end of the turn. A process may return
//! [`Progress::Running`]; the caller then resumes it on the events of its [`Attention`], with a [`Patience`].
//!
//! | module | contents |
//! |---|---|
//! | [`worker`] | the worker's side: [`worker::enter`], first in `main` |
//! | [`frame`] | the messages between host and worker |
//! | [`seal`] | the restrictions of a worker |
//!
//! A realm runs JavaScript or a WebAssembly component, depending on its modules.
//!
//! Invariant: after [`Progress::Ended`] a realm is discarded and never entered again.
//!
//! The readable state crosses as a delta, as JSON text that is not parsed on the way. Messages have a separate size limit
//! ([`MESSAGE_BYTES`](pijs_protocol::wire::MESSAGE_BYTES)), which the sender enforces: the dispatcher for results of hostcalls,
//! the host for everything else. State and message together therefore fit into frames.
//!
//! Deltas that arrived together are sent in one frame ([`Realm::stream_ahead`]), and the worker reports how many passed. The
//! worker stops at the first delta that causes more than *continue* (a message, a hostcall, an abort, an error). The host keeps
//! the frames of that turn until it requests that delta, so every effect happens in the same order as with single deltas. The
//! number of deltas in a frame grows while they pass (1, 4, 16, 64, 256) and falls to 1 when a delta does not pass.

#![warn(missing_docs)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

#[cfg(target_os = "linux")]
mod attention;
#[cfg(target_os = "linux")]
mod files;
pub mod frame;
mod guest;
#[cfg(target_os = "linux")]
mod link;
#[cfg(target_os = "linux")]
mod process;
pub mod seal;
mod thread;
pub mod worker;

#[cfg(target_os = "linux")]
pub use attention::Attention;
pub use guest::{GuestError, Interrupter, is_component};
#[cfg(target_os = "linux")]
pub use link::Frames;
pub use pijs_engine::{EngineError, SyncHost};
#[cfg(target_os = "linux")]
pub use process::{Opening, ProcessError, ProcessOptions, ProcessRealm, Restrictions, SharedCode, Spare, Zygote};
pub use thread::ThreadRealm;

use pijs_protocol::{Delivery, Now, Seq, StreamDelta, SyncReply, Termination, Yield};
#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;
use std::time::Duration;

/// The progress of a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// The turn continues; call [`Realm::resume`]. Only a process returns this.
    Running,
    /// The macrotask has run and its microtasks are drained.
    Yielded(Yield),
    /// The realm has ended; discard it.
    Ended(Termination),
}

/// Time that [`Realm::resume`] may block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// Polls once and does not block.
    Poll,
    /// Blocks at most this long.
    AtMost(Duration),
}

/// The result of [`Realm::stream_ahead`].
#[derive(Debug, Clone, PartialEq)]
pub struct Streamed {
    /// Yield of the first delta's turn.
    pub done: Yield,
    /// Number of further deltas that passed: they ended with *continue*, without a message or a hostcall.
    pub passed: usize,
    /// Whether the turn of the next delta has begun. Its effects are unknown until [`Realm::resume`].
    pub goes_on: bool,
}

impl From<Yield> for Streamed {
    /// Reports a single delta.
    fn from(done: Yield) -> Self {
        Self { done, passed: 0, goes_on: false }
    }
}

/// One realm, in a thread or a process.
pub trait Realm {
    /// Begins a macrotask.
    fn start(&mut self, delivery: Delivery, host: &mut dyn SyncHost) -> Progress;

    /// Continues a macrotask that returned [`Progress::Running`].
    fn resume(&mut self, host: &mut dyn SyncHost, patience: Patience) -> Progress;

    /// Delivers the reply to a hostcall for which [`SyncHost::begin`] returned `None`; then resume. Has no effect in a thread.
    fn answer(&mut self, _reply: SyncReply) {}

    /// Runs a streamed delta to its end, while the provider's stream is paused.
    fn stream(
        &mut self,
        seq: Seq,
        now: Now,
        delta: &StreamDelta,
        host: &mut dyn SyncHost,
    ) -> Result<Yield, Termination>;

    /// Runs the first delta to its end, and then further ones, each as a separate turn, while they end with *continue*. Runs at
    /// most [`Realm::lookahead`] further ones, and begins no turn later than `slice` after the first.
    ///
    /// A realm in this thread runs only the first, because sending a delta costs nothing there.
    fn stream_ahead(
        &mut self,
        seq: Seq,
        now: Now,
        deltas: &[StreamDelta],
        _slice: Duration,
        host: &mut dyn SyncHost,
    ) -> Result<Streamed, Termination> {
        let first = deltas.first().expect("at least one delta is given");
        self.stream(seq, now, first, host).map(Streamed::from)
    }

    /// Returns the number of deltas after the first one that [`Realm::stream_ahead`] would run now.
    fn lookahead(&self) -> usize {
        0
    }

    /// Ends the running macrotask as a timeout, from any thread that holds the realm's handle.
    fn interrupt(&self);

    /// Returns the termination if the realm has ended between turns.
    fn pulse(&mut self) -> Option<Termination> {
        None
    }

    /// Returns the event that the running turn waits for; resume the realm when it happens. `None` without a running turn.
    #[cfg(target_os = "linux")]
    fn attention(&self) -> Option<Attention> {
        None
    }

    /// Returns a descriptor that becomes readable when the realm's process has ended.
    #[cfg(target_os = "linux")]
    fn death(&self) -> Option<OwnedFd> {
        None
    }
}
