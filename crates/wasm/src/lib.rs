//! Runs realms of WebAssembly components: extensions that are compiled ahead of time from any language.
//!
//! The world is `pi:extension` (`schema/wit/extension.wit`). A component receives the same messages as a JavaScript realm through
//! typed exports, and makes the same hostcalls through typed imports.
//!
//! | type | is |
//! |---|---|
//! | [`ComponentRealm`] | one component under limits, from its `load` to its termination |
//! | [`Hostcalls`] | executes the synchronous hostcalls of a running turn |
//! | [`Interrupter`] | stops a running turn from another thread |
//! | [`compile()`] | turns an author's `.wasm` into native code; feature `compile` |
//!
//! Invariants: native code comes from a [`Verified`](pijs_artifact::Verified) artifact; time and randomness are inputs, so
//! the same deliveries give the same yields, fuel included; a component that trapped is never entered again; WASI gives a
//! component no authority beyond its hostcalls.

#![expect(
    unsafe_code,
    reason = "compiled code is loaded, and the host is lent to imports; each block states why it is sound"
)]
#![warn(missing_docs)]
#![warn(clippy::disallowed_methods)]

mod bindings;
#[cfg(feature = "compile")]
mod compile;
mod error;
mod imports;
mod log_output;
mod realm;
mod runtime;
mod slot;
mod state;
#[cfg(feature = "text")]
pub mod text;
mod wasi;

#[cfg(feature = "compile")]
pub use compile::{Compiled, Refusal, RefusalKind, compile, engine_name};
pub use error::WasmError;
pub use realm::{ComponentRealm, Interrupter};
pub use slot::Hostcalls;
