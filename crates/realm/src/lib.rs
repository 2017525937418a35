//! The wire to a realm: something that takes a delivery and yields.
//!
//! The code above does not know whether the engine runs in this thread ([`ThreadRealm`]) or in a
//! sealed process (`ProcessRealm`, on Linux). A thread answers [`Realm::start`] with the end of the turn; a process may answer
//! [`Progress::Running`], and is then resumed when its [`Attention`] says so, with as much [`Patience`] as the caller
//! has.
//!
//! | module | holds |
//! |---|---|
//! | [`worker`] | the worker's side: [`worker::enter`], first in `main` |
//! | [`frame`] | what travels between the two |
//! | [`seal`] | what a worker can no longer do |
//!
//! A realm runs JavaScript or a WebAssembly component; the modules that it is given decide which.
//!
//! What always holds: after [`Progress::Ended`] a realm is discarded and never entered again.
//!
//! The readable state crosses as the difference to what the realm has, as JSON text that nobody parses on the way. Messages have a limit
//! of their own ([`MESSAGE_BYTES`](pijs_protocol::wire::MESSAGE_BYTES)), which whoever makes a message enforces: the dispatcher for
//! answers, the host for everything else. State and message together therefore fit into frames.
//!
//! Deltas that have arrived together cross in one frame ([`Realm::stream_ahead`]), and the worker answers how many passed. The worker
//! stops at the first delta that causes more than *continue* (a message, a hostcall, an abort, an error). The host holds the frames of
//! that turn until it asks about that delta, so everything observable happens in the order in which single deltas would cause it. The
//! number of deltas in a frame grows while they pass (1, 4, 16, 64, 256) and falls to 1 when one does not.

#![warn(missing_docs)]

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
pub use process::{Opening, ProcessError, ProcessOptions, ProcessRealm, Shelf, Spare, Standing, Zygote};
pub use thread::ThreadRealm;

use pijs_protocol::{Delivery, Now, Seq, StreamDelta, SyncReply, Termination, Yield};
#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;
use std::time::Duration;

/// How far a turn has come.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// Not finished; call [`Realm::resume`]. Only a process ever answers this.
    Running,
    /// The macrotask has run and its microtasks are drained.
    Yielded(Yield),
    /// The realm is gone; discard it.
    Ended(Termination),
}

/// How long [`Realm::resume`] may wait for the other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// Looks once.
    Poll,
    /// Waits at most this long.
    AtMost(Duration),
}

/// Reports how far [`Realm::stream_ahead`] came.
#[derive(Debug, Clone, PartialEq)]
pub struct Streamed {
    /// The end of the first delta's turn.
    pub done: Yield,
    /// Number of the deltas after it that passed, too: with *continue*, and without a message or a hostcall.
    pub passed: usize,
    /// The turn of the delta after those is under way. Nothing of it is known until [`Realm::resume`].
    pub goes_on: bool,
}

impl From<Yield> for Streamed {
    /// Reports one delta alone.
    fn from(done: Yield) -> Self {
        Self { done, passed: 0, goes_on: false }
    }
}

/// One realm, wherever it runs.
pub trait Realm {
    /// Begins a macrotask.
    fn start(&mut self, delivery: Delivery, host: &mut dyn SyncHost) -> Progress;

    /// Goes on with a macrotask that answered [`Progress::Running`].
    fn resume(&mut self, host: &mut dyn SyncHost, patience: Patience) -> Progress;

    /// Brings the answer to a hostcall for which [`SyncHost::begin`] had none yet; then resume. Only for a process.
    fn answer(&mut self, _reply: SyncReply) {}

    /// Runs a streamed delta to its end; the provider's stream does not advance meanwhile.
    fn stream(
        &mut self,
        seq: Seq,
        now: Now,
        delta: &StreamDelta,
        host: &mut dyn SyncHost,
    ) -> Result<Yield, Termination>;

    /// Runs the first delta to its end, and of those that follow as many as come to nothing but *continue*, each as a turn
    /// of its own. Takes no more than [`Realm::lookahead`] after the first, and begins no turn later than `slice` after it.
    ///
    /// A realm in this thread runs the first alone: to go there costs nothing.
    fn stream_ahead(
        &mut self,
        seq: Seq,
        now: Now,
        deltas: &[StreamDelta],
        _slice: Duration,
        host: &mut dyn SyncHost,
    ) -> Result<Streamed, Termination> {
        let first = deltas.first().expect("a delta to run");
        self.stream(seq, now, first, host).map(Streamed::from)
    }

    /// Returns how many deltas after the first one [`Realm::stream_ahead`] would run now.
    fn lookahead(&self) -> usize {
        0
    }

    /// Ends the running macrotask as a timeout, from any thread that holds the realm's handle.
    fn interrupt(&self);

    /// Between turns: why the realm is gone, if it is.
    fn pulse(&mut self) -> Option<Termination> {
        None
    }

    /// What the running turn waits for: when it comes, resume. `None` without a turn under way.
    #[cfg(target_os = "linux")]
    fn attention(&self) -> Option<Attention> {
        None
    }

    /// Becomes readable when the realm's process has ended, between turns too.
    #[cfg(target_os = "linux")]
    fn death(&self) -> Option<OwnedFd> {
        None
    }
}
