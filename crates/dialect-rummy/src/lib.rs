//! Implements the state of the rummy dialect: entries in SQLite, and pure functions over them.
//!
//! ```text
//! model's reply ──▶ tags ──▶ commands ──▶ (handlers of plugins) ──▶ facade ──▶ Store ──▶ entries, run_views
//!                                                                     │            └──▶ changes, woken waiters, audit lines
//! entries ──▶ assemble ──▶ rows ──▶ (filters of plugins) ──▶ budget   └── writer ceiling of the call's path
//! ```
//!
//! | type | is |
//! |---|---|
//! | [`Profile`] | the vocabulary of one generation of rummy as data: visibilities, log paths, hook names |
//! | [`Store`] | one database: projects, runs, loops, turns, entries; the six verbs are its methods |
//! | [`Set`], [`Target`] | arguments of `set`; the rows that a verb changes |
//! | [`Writer`] | the writer of an entry: model, client, plugin or system; a call's path gives the ceiling |
//! | [`Waiters`] | runs that wait until a proposal is resolved |
//! | [`Pattern`] | a glob, regular expression, sed command, JSONPath or literal, with limits |
//! | [`tags::Parsed`] | the commands of a reply, with warnings and the text between them |
//! | [`proposal::Resolution`] | a proposal between its decision and its end, while filters of plugins run |
//! | [`stream::End`] | how a producer of output ended |
//! | [`assemble::AssembledRow`] | a row of a message, with both views and what they cost |
//! | [`budget::Numbers`] | the cost of a message, and the remaining budget |
//! | [`verdict::Judge`] | the memory of one loop, which decides whether it continues |
//! | [`rpc::Connection`] | one client of the JSON-RPC interface, without its transport |
//! | [`run::Loop`] | a prompt in a run's queue |
//!
//! Invariants: The crate reads no clock and no randomness: [`Store::set_now`] sets the time, and tie breakers are counted per run
//! in the database. Each verb is one transaction with one [`AuditLine`]; when the audit refuses the line, the transaction is
//! rolled back. The state of an entry and its visibility are independent: no function changes one together with the other, except
//! where `docs/compatibility-rummy.md` says that rummy does.
//!
//! The plugin runtime calls [`Store::entries`] and [`Store::statement`] with JSON; everything else is typed.

#![warn(missing_docs)]
#![warn(clippy::disallowed_methods)]

pub mod assemble;
mod audit;
pub mod budget;
mod entry;
mod error;
mod facade;
pub mod pattern;
mod profile;
pub mod proposal;
pub mod rpc;
pub mod run;
mod store;
pub mod stream;
pub mod tags;
pub mod text;
pub mod verdict;
mod waiting;
mod writer;

pub use audit::{Audit, AuditLine, AuditRefusal};
pub use entry::{Entry, Scope, State, Visibility};
pub use error::StoreError;
pub use pattern::{Pattern, PatternError};
pub use profile::{Hook, HookKind, Profile, SchemeRow};
pub use store::{Change, ChangeKind, Options, Relocate, Removal, Set, Store, Target, register_functions};
pub use waiting::{WaiterId, Waiters, Woken};
pub use writer::{Conduct, Writer};
