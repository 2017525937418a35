//! An interpreter of WebAssembly modules with limits, used by the `WebAssembly` object of JavaScript realms.
//!
//! The crate does not depend on JavaScript. `pijs-engine` converts values, calls [`Context`] and implements [`Embedder`]; the
//! objects that a guest sees are TypeScript in `pijs-node-compat`.
//!
//! | type | is |
//! |---|---|
//! | [`Store`] | all objects of a realm's WebAssembly code, until the realm ends |
//! | [`Context`] | an exclusive borrow of the store; its methods are the operations |
//! | [`Embedder`] | imported functions, the budget of a turn and the memory limit, provided by the engine |
//! | [`Value`] | an argument or a result; references are ids of the store |
//! | [`Failure`], [`Trap`] | the reason why an operation failed |
//!
//! Invariants: running time is counted in fuel, so it is the same on every machine, and [`Embedder::poll`] is called before each
//! portion; linear memories, tables, modules and instances reserve memory with [`Embedder::take_memory`]; no machine code is
//! generated. A function, memory, table or global always has the same id, because the embedder keeps one JavaScript object for
//! each.
//!
//! An imported function may call into the store again, with the context that [`Embedder::call_import`] receives.

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
