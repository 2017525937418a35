//! Implements the state of the rummy dialect: entries in SQLite, and pure functions over them.
//!
//! ```text
//! model's reply ──▶ tags ──▶ commands ──▶ (handlers of plugins) ──▶ facade ──▶ Store ──▶ entries, run_views
//!                                                                     │            └──▶ changes, woken waiters, audit lines
//! entries ──▶ assemble ──▶ rows ──▶ (filters of plugins) ──▶ budget   └── writer ceiling of the call's path
//! ```
//!
//! | type | description |
//! |---|---|
//! | [`Profile`] | the names that one generation of rummy uses: visibilities, log paths, hooks |
//! | [`Store`] | one database: projects, runs, loops, turns, entries; the six verbs are its methods |
//! | [`Set`], [`Target`] | arguments of `set`; selection of the rows that a verb changes |
//! | [`Writer`] | the writer of an entry: model, client, plugin or system; the path of a call determines the ceiling |
//! | [`Waiters`] | runs that wait until a proposal is resolved |
//! | [`Pattern`] | a glob, regular expression, sed command, JSONPath or literal, with limits |
//! | [`tags::Parsed`] | the commands of a reply, with warnings and the text between them |
//! | [`proposal::Resolution`] | a proposal after the decision about it, while filters of plugins run |
//! | [`stream::End`] | how a producer of output ended |
//! | [`assemble::AssembledRow`] | a row of a message, with both views and their cost |
//! | [`budget::Numbers`] | the cost of a message, and the remaining budget |
//! | [`verdict::Judge`] | the history of one loop, which decides whether the loop continues |
//! | [`rpc::Connection`] | one client of the JSON-RPC interface, without its transport |
//! | [`run::Loop`] | a prompt from a run's queue |
//!
//! Invariants: The crate does not read the clock or randomness: [`Store::set_now`] sets the time, and tie breakers are counted
//! per run in the database. Each verb is one transaction with one [`AuditLine`]; if the audit refuses the line, the transaction
//! is rolled back. The state of an entry and its visibility are independent: no function changes both at once, except where
//! `docs/compatibility-rummy.md` lists it as rummy's behaviour.
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
