//! The compiled-extension container.
//!
//! `extc` writes an [`Artifact`] with [`encode`]; everything that reads one goes through [`decode`],
//! which believes nothing: the header is checked before any content, each section against its SHA-256.
//! Digests only show damage. Bytecode is native code in disguise, so an engine takes it from a
//! [`Verified`] alone, and there are three ways to one: this process compiled it a moment ago, the
//! keyed [`Mac`] of this installation matches the bytes for this engine build and this package, or a
//! worker process got it from the parent that checked.
//!
//! | type | is |
//! |---|---|
//! | [`Artifact`], [`Module`] | the content: metadata and modules with source, map, bytecode |
//! | [`ArtifactError`] | why bytes were refused; ask it, it names what was expected and what was there |
//! | [`InstallKey`], [`Mac`] | the secret of this installation, and what it says about one file |
//! | [`Verified`] | an artifact whose bytecode may be loaded |
//! | [`Frame`], [`innermost`] | read the stacks of errors |
//! | [`PositionMap`], [`FindFunctions`] | answer questions about the text of modules; `extc` implements them |
//! | [`quoted()`] | what V8 quotes of a text in an error |
//!
//! What always holds: encoding is deterministic; decoding never panics and never allocates more than
//! the input is long; a MAC binds the bytes, the engine build, the format and the id.

#![warn(missing_docs)]

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
pub use module_text::{FindFunctions, Frame, FunctionText, MOST_FRAMES, PositionMap, innermost};
pub use quoted::quoted;
pub use verified::Verified;
