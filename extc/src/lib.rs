//! `extc`: TypeScript or JavaScript to artifact.
//!
//! An extension is written for Node; this compiler turns it, unchanged, into modules that an engine without a file system loads:
//! resolve → parse → scan → rewrite → link → emit. Each phase is a module, takes options and returns a value and diagnostics.
//!
//! | module | does |
//! |---|---|
//! | `resolve` | finds the package and its extension entries |
//! | `tree` | reads the files of one package, and no others; names them |
//! | `access`, `no_follow` | decides which files those are; opens files without following links |
//! | `copied` | reads files that are copied into a package before it is built |
//! | `sealed`, `file_proxy` | compiles in a sandboxed process; serves its file access |
//! | `probe` | the file system as the resolver sees it, with remembered answers |
//! | `parse` | text to syntax tree (swc) |
//! | `scan` | imports, capabilities, findings, edits |
//! | `rewrite` | module locations and created requires, in the author's text |
//! | `interface` | the host modules, under one spelling each |
//! | `link` | modules to chunks (rolldown); the only place that names it |
//! | `contract` | the default export, members, events and schemas that an entry gets wrong |
//! | `imports` | the host modules that chunks import |
//! | `emit` | chunks to bytecode |
//! | `prebuilt` | an artifact as input: its sources, compiled again |
//! | `component` | a WebAssembly component as input: its imports, native code |
//! | `build` | the pipeline |
//! | `cache`, `dependency_manifest` | finished artifacts; finds a hit without linking |
//! | `embedded` | prebuilt artifacts in a release |
//! | `host`, `strip` | the host module set |
//! | `supply` | npm packages beside it, fetched when an extension imports them |
//! | `maps` | from a position in a chunk to the author's file |
//!
//! Invariants: the same input gives the same bytes, whatever the folder it lies in; nothing
//! outside the package is read into an artifact; no script of a package runs.

#![warn(missing_docs)]

mod access;
mod build;
mod cache;
#[cfg(feature = "wasm")]
mod component;
#[cfg(not(feature = "wasm"))]
#[path = "component_disabled.rs"]
mod component;
mod contract;
mod copied;
mod dependency_manifest;
pub mod embedded;
mod emit;
mod file_proxy;
mod functions;
mod host;
mod imports;
mod interface;
mod limits;
mod link;
mod maps;
mod no_follow;
mod parse;
mod phase;
mod prebuilt;
mod probe;
mod resolve;
mod rewrite;
mod scan;
mod sealed;
mod stamps;
mod strip;
mod supply;
mod tree;

use pijs_diagnostics as diagnostics;

/// The side of a sealed build that compiles: this program once more.
pub mod worker {
    pub use crate::sealed::enter;
}

pub use access::FileAccess;
pub use build::{BuildOptions, BuildOutput, CheckOptions, CheckOutput, build, check, verdict};
pub use cache::Cache;
pub use copied::CopiedFolder;
pub use functions::Functions;
pub use host::{HostSource, compile_host_modules, host_modules};
pub use interface::HostInterface;
pub use limits::Limits;
pub use maps::SourceMaps;
pub use pijs_diagnostics::{BuildFailure, Code, Diagnostic, Place, Severity, sanitise};
pub use prebuilt::MOST_ARTIFACT_BYTES;
pub use resolve::Input;
pub use sealed::Seal;
pub use supply::{Pinned, Supply, Unit};
pub use tree::FileEvidence;
