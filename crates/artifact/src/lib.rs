//! The container of compiled extensions.
//!
//! `extc` writes an [`Artifact`] with [`encode`]; every reader uses [`decode`], which trusts nothing: it checks the header before
//! any content, and each section against its SHA-256. Digests only detect damage. Bytecode can do anything in the engine's
//! process, so an engine takes it from a [`Verified`] only, which is created in three ways: this process has just compiled the
//! artifact, the keyed [`Mac`] of this installation matches the bytes for this engine build and this package, or a worker process
//! got it from its parent, which has verified it.
//!
//! | type | description |
//! |---|---|
//! | [`Artifact`], [`Module`] | the content: metadata and modules with source, map, bytecode |
//! | [`ArtifactError`] | the reason why an artifact was refused |
//! | [`InstallKey`], [`Mac`] | the secret of this installation, and its MAC of one file |
//! | [`Verified`] | an artifact whose bytecode may be loaded |
//! | [`Frame`], [`innermost`] | parse the stacks of errors |
//! | [`PositionMap`], [`FindFunctions`] | queries about the text of modules; `extc` implements them |
//! | [`quoted()`] | the expression that V8 quotes in an error |
//!
//! Invariants: encoding is deterministic; decoding never panics and never allocates more than the length of the input; a MAC
//! binds the bytes, the engine build, the format and the id.

#![warn(missing_docs)]
#![warn(clippy::disallowed_methods)]

mod container;
mod error;
mod mac;
mod module_text;
mod quoted;
mod verified;

pub use container::{
    Artifact, COMPONENT_SCHEME, FORMAT_VERSION, MAGIC, Module, decode, digest, encode, read_header, read_metadata,
};
pub use error::ArtifactError;
pub use mac::{InstallKey, Mac, sign, verifies};
pub use module_text::{FindFunctions, Frame, FunctionText, MAX_FRAMES, PositionMap, innermost};
pub use quoted::quoted;
pub use verified::Verified;
