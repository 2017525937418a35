//! QuickJS realms that run compiled modules under limits, deterministically.
//!
//! The only crate that uses rquickjs, and the only one with `unsafe` code. Host code passes in
//! [`Delivery`](pijs_protocol::Delivery)s and gets [`Yield`](pijs_protocol::Yield)s; no type or lifetime of the engine is public.
//!
//! | type | description |
//! |---|---|
//! | [`EngineRealm`] | one runtime and one context without a compiler, from start to termination |
//! | [`SyncHost`] | answers the synchronous hostcalls of a running turn |
//! | [`Interrupter`] | stops a running turn from another thread |
//! | [`RegExpVm`] | regular expressions of the engine, with a budget of steps |
//! | [`Trace`] | the stacks at which a turn produced its outputs, for a replay |
//! | [`compile()`] | compiles source to bytecode, in a temporary context, the only one with `eval` |
//!
//! Invariants: bytecode comes from a [`Verified`](pijs_artifact::Verified) artifact; a realm that ended with a
//! [`Termination`](pijs_protocol::Termination) does not run again; time and randomness are inputs, so the same deliveries produce
//! the same yields, including the usage.
//!
//! [`EngineRealm`] is not `Send`. An [`Interrupter`] stops a running turn only; between turns it has no effect.
//!
//! A realm has one native module, `pi:engine`. `crates/node-compat/modules/types/engine.d.ts` declares its functions,
//! `natives.rs` defines them, and `runtime_exports.rs` has the functions of `pi:runtime` that the engine calls. Everything else
//! in a realm is TypeScript of `pijs-node-compat`.

#![expect(unsafe_code, reason = "the engine is C; every block states why it is sound")]
#![warn(missing_docs)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod clock;
mod collector;
mod compile;
mod compute;
mod dynamic_code;
mod error;
#[cfg(target_os = "linux")]
mod fork;
#[cfg(all(target_os = "linux", feature = "test-hooks"))]
pub mod hooks;
mod hostcall;
mod intrinsics;
mod limits;
mod loader;
mod message;
mod module_table;
mod native_call;
mod natives;
mod nesting;
mod originals;
mod panics;
mod pending_promises;
mod realm;
mod regexp;
mod rejections;
mod runtime_exports;
mod shared;
#[cfg(unix)]
mod sqlite;
mod stack;
mod state;
mod string_cache;
mod strings;
mod text;
mod text_code;
mod trace;
#[cfg(target_os = "linux")]
mod truncated_maps;
mod url;
mod v8_messages;
mod values;
mod webassembly;
mod zones;

pub use compile::{CompileError, ModuleSource, compile, engine_build};
pub use error::EngineError;
#[cfg(target_os = "linux")]
pub use fork::cow_heap::release_program_pages;
#[cfg(target_os = "linux")]
pub use fork::heap_growth::fault_in;
#[cfg(target_os = "linux")]
pub use fork::heap_padding::return_free_memory;
#[cfg(target_os = "linux")]
pub use fork::{ForkSide, close_inherited_files, fork_for_parent, map_sealed_memory, replace_stdin};
pub use limits::Interrupter;
pub use module_table::FACADE_PREFIX;
pub use nesting::{Nested, NestingCaps, check_nesting};
pub use realm::EngineRealm;
pub use regexp::{OutOfSteps, RegExpId, RegExpVm};
pub use shared::SyncHost;
#[cfg(unix)]
pub use sqlite::{MayRemove, bound_sqlite_stack, guard_sqlite};
pub use trace::Trace;
#[cfg(target_os = "linux")]
pub use truncated_maps::{met_truncated_map, survive_truncated_maps};

/// Faults in the pages of a new buffer, on systems that can; this one faults them in when they are written to.
#[cfg(not(target_os = "linux"))]
pub fn fault_in(_buffer: &mut [u8]) {}
