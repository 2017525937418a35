//! `extc`: TypeScript or JavaScript to artifact.
//!
//! An extension is written for Node; this compiler turns it, unchanged, into modules that an engine without a file system loads:
//! resolve → parse → scan → rewrite → link → emit. Each phase is a module, takes options and returns a value and diagnostics.
//!
//! | module | does |
//! |---|---|
//! | `resolve` | finds the package and its extension entries |
//! | `tree` | reads the files of one package, and no others; names them |
//! | `access`, `opened` | which files those are, and how one is opened |
//! | `copied` | the same for files that are copied into a package before it is built |
//! | `sealed`, `served` | the same in a process that can do nothing else, and how that sees files |
//! | `looked` | what the resolver sees of the file system, remembered |
//! | `parse` | text to syntax tree (swc) |
//! | `scan` | imports, capabilities, findings, places to edit |
//! | `rewrite` | module locations and created requires, in the author's text |
//! | `interface` | which host modules exist, under one spelling each |
//! | `link` | modules to chunks (rolldown); the only place that names it |
//! | `contract` | the default export, members, events and schemas that an entry gets wrong |
//! | `imports` | what chunks take from the host |
//! | `emit` | chunks to bytecode |
//! | `prebuilt` | an artifact as input: its sources, compiled again |
//! | `component` | a WebAssembly component as input: its imports, native code |
//! | `build` | the pipeline |
//! | `cache`, `record` | finished artifacts, and how a hit is found without linking |
//! | `carried` | what a release has inside |
//! | `host`, `strip` | the host module set |
//! | `supply` | npm packages that stand beside it, fetched when an extension imports them |
//! | `maps` | from a position in a chunk to the author's file |
//!
//! What always holds: the same input gives the same bytes, whatever the folder it lies in; nothing
//! outside the package is read into an artifact; no script of a package runs.

#![warn(missing_docs)]

mod access;
mod build;
mod cache;
pub mod carried;
#[cfg(feature = "wasm")]
mod component;
#[cfg(not(feature = "wasm"))]
#[path = "component_disabled.rs"]
mod component;
mod contract;
mod copied;
mod emit;
mod functions;
mod host;
mod imports;
mod interface;
mod limits;
mod link;
mod looked;
mod maps;
mod opened;
mod parse;
mod prebuilt;
mod record;
mod resolve;
mod rewrite;
mod scan;
mod sealed;
mod served;
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
