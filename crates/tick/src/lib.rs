//! The deterministic loop of one realm.
//!
//! A [`TickLoop`] decides what a realm runs next. It knows no engine, reads no clock, never sleeps and rolls no
//! dice: the driver passes in the time, the arrivals and a [`Guest`] that can take one turn. Given the same calls
//! it makes the same decisions, which is why a recorded session (`pijs-tape`) can be replayed and why a test can go
//! through schedules one by one ([`lab`]).
//!
//! | module | holds |
//! |---|---|
//! | [`mod@tick_loop`] | the loop: queue, timers, sequence numbers |
//! | [`microtasks`] | the drain after a macrotask, with its job budget |
//! | [`completion`] | where other threads leave finished work for a loop |
//! | [`clock`] | where [`Now`](pijs_protocol::Now) comes from |
//! | [`entropy`] | seeded numbers and bytes |
//! | [`lab`] | schedules as data: explore, print, replay |
//!
//! # Invariants
//!
//! `docs/spec/tick-loop.md` specifies them. Each has a property in `tests/invariants.rs` that goes red without it.
//!
//! - **I1, single macrotask.** [`TickLoop::tick`] calls [`Guest::turn`] at most once.
//! - **I2, microtask fixpoint.** A turn ends when no microtask is left. The loop holds its part by never entering a
//!   guest before the previous turn returned; the guest holds its part with [`microtasks::drain`], which ends in
//!   a fixpoint or in an error that discards the realm, never in between.
//! - **I3, stable timers.** Timers with equal deadlines fire in the order they were set. Equal is equal to the
//!   microsecond; a shorter deadline wins over an older timer.
//! - **I4, no reentrancy.** Arrivals enter the queue, never the guest: a completion that comes in while a turn runs
//!   is run by a later tick.
//! - **I5, total order.** One counter numbers every macrotask and every timer ([`Seq`](pijs_protocol::Seq)), and
//!   macrotasks run in increasing number, whatever they are. Arrivals are numbered in the order they came, before
//!   the timers that are due in the same tick.

#![warn(missing_docs)]
#![warn(clippy::disallowed_methods)]

pub mod completion;
pub mod entropy;
pub mod lab;
pub mod microtasks;
pub mod tick_loop;

pub use completion::{CompletionQueue, CompletionSink, completion_queue};
pub use entropy::Entropy;
pub use tick_loop::{Guest, Macrotask, Tick, TickLoop, TickOptions, TimerQuota};
