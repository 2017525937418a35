//! WebAssembly modules in an interpreter, under limits: what `WebAssembly` of a JavaScript realm is made of.
//!
//! The crate knows no JavaScript. `pijs-engine` converts values, calls [`Context`] and implements [`Embedder`]; the objects
//! that a guest sees are TypeScript in `pijs-node-compat`.
//!
//! | type | is |
//! |---|---|
//! | [`Store`] | everything that the WebAssembly code of one realm owns, until the realm ends |
//! | [`Context`] | the store while nobody else uses it: each operation is a method here |
//! | [`Embedder`] | imported functions, the budget of a turn and the memory limit, provided by the engine |
//! | [`Value`] | an argument or a result; references are numbers of the store |
//! | [`Failure`], [`Trap`] | why an operation did not succeed |
//!
//! Invariants: running time is counted in fuel, so it is the same on every machine, and [`Embedder::poll`] is asked
//! before each portion; linear memories, tables, modules and instances are counted through [`Embedder::take_memory`]; no
//! byte of machine code is made. The same function, memory, table or global has the same number, whichever way it comes out
//! of a module, because the embedder keeps one object for each.
//!
//! An imported function may call back: [`Embedder::call_import`] gets a context of its own.

#![warn(missing_docs)]
#![warn(clippy::disallowed_methods)]

mod module;
mod store;
mod value;

pub use module::{Export, ExternType, FuncType, Import, ValueType};
pub use store::{Context, Embedder, External, FUEL_PER_POLL, Instance, Stopped, Store};
pub use value::{
    ExternId, Failure, FuncId, GlobalId, ImportId, MemoryId, ModuleId, Reference, ReferenceType, TableId, Trap, Value,
};
