//! The deterministic event loop of one realm.
//!
//! A [`TickLoop`] decides what a realm runs next. It depends on no engine, reads no clock, never sleeps and draws no random
//! numbers: the driver passes in the time, the arrivals and a [`Guest`] that runs one turn. The same calls lead to the same
//! decisions, so a recorded session (`pijs-tape`) can be replayed and a test can explore schedules ([`lab`]).
//!
//! | module | contents |
//! |---|---|
//! | [`mod@tick_loop`] | the loop: queue, timers, sequence numbers |
//! | [`microtasks`] | the drain after a macrotask, with its job budget |
//! | [`completion`] | the queue through which other threads complete work for a loop |
//! | [`entropy`] | seeded numbers and bytes |
//! | [`lab`] | schedules as data: explore, print, replay |
//!
//! # Invariants
//!
//! `docs/spec/tick-loop.md` specifies them. Each has a property test in `tests/invariants.rs`.
//!
//! - **I1, single macrotask.** [`TickLoop::tick`] calls [`Guest::turn`] at most once.
//! - **I2, microtask fixpoint.** A turn ends when no microtask remains. The loop never enters a guest before the previous turn
//!   has returned; the guest drains with [`microtasks::drain`], which ends in a fixpoint or in an error that discards the realm.
//! - **I3, stable timers.** Timers with equal deadlines fire in the order they were set. Deadlines are equal if they are to the
//!   microsecond; a shorter deadline precedes an older timer.
//! - **I4, no reentrancy.** Arrivals enter the queue, never the guest: a later tick runs a completion that arrives during a turn.
//! - **I5, total order.** One counter numbers every macrotask and every timer ([`Seq`](pijs_protocol::Seq)), and macrotasks of
//!   all kinds run in increasing number. Arrivals are numbered in order, before the timers that are due in the same tick.

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
