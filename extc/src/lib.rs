//! `extc`: TypeScript or JavaScript to artifact.
//!
//! An extension is written for Node; this compiler turns it, unchanged, into modules that an engine without a file system loads:
//! resolve → parse → scan → rewrite → link → emit. Each phase is a module, takes options and returns a value and diagnostics.
//!
//! | module | does |
//! |---|---|
//! | `resolve` | finds the package and its extension entries |
//! | `package` | the package as passed between the phases |
//! | `tree` | reads and names the files of one package, and no others |
//! | `access`, `no_follow` | decides which files a build may read; opens files without following links |
//! | `copied` | reads files that are copied into a package before it is built |
//! | `sealed`, `worker` | compiles in a sandboxed process: the parent, the child |
//! | `file_proxy`, `file_server` | file access of that process: the child, the parent |
//! | `probe` | the kind of item at a path |
//! | `parse`, `syntax` | text to syntax tree (swc); reads its nodes |
//! | `scan` | imports, capabilities, findings, edits |
//! | `rewrite` | module locations and created requires, in the author's text |
//! | `interface` | the host modules, each under one canonical specifier |
//! | `link` | modules to chunks (rolldown); the only module that uses it, with `manifest_stubs` for a sandbox |
//! | `contract` | the default export, members, events and schemas that an entry gets wrong |
//! | `imports` | the host modules that chunks import |
//! | `emit` | chunks to bytecode |
//! | `prebuilt` | an artifact as input: its sources are compiled again |
//! | `component` | a WebAssembly component as input: its imports, native code |
//! | `build` | the pipeline |
//! | `options`, `compiled`, `output` | settings of the pipeline, the artifact before it is stored, the result |
//! | `cache`, `dependency_manifest` | finished artifacts; finds a hit without linking |
//! | `embedded` | prebuilt artifacts in a release |
//! | `host`, `strip` | the host module set |
//! | `supply`, `compile_unit` | supplied npm packages, fetched when an extension imports them |
//! | `maps` | from a position in a chunk to the author's file |
//!
//! Invariants: the same input gives the same bytes, in any folder; nothing
//! outside the package is read into an artifact; no script of a package runs.

#![warn(missing_docs)]

mod access;
mod build;
mod cache;
mod compile_unit;
mod compiled;
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
mod file_server;
mod functions;
mod host;
mod imports;
mod interface;
mod limits;
mod link;
mod manifest_stubs;
mod maps;
mod no_follow;
mod options;
mod output;
mod package;
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
mod syntax;
mod tree;
pub mod worker;

pub use access::FileAccess;
pub use build::{build, check};
pub use cache::Cache;
pub use copied::CopiedFolder;
pub use functions::Functions;
pub use host::{HostSource, compile_host_modules, host_modules};
pub use interface::HostInterface;
pub use limits::{Limits, MAX_ARTIFACT_BYTES};
pub use maps::SourceMaps;
pub use options::{BuildOptions, CheckOptions, Seal};
pub use output::{BuildOutput, CheckOutput};
pub use pijs_diagnostics::{BuildFailure, Code, Diagnostic, Place, Severity, sanitise, verdict};
pub use resolve::Input;
pub use supply::{Pinned, Supply, Unit};
pub use tree::FileEvidence;
