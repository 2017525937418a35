//! `extc`: TypeScript or JavaScript to artifact.
//!
//! An extension is written for Node; this compiler turns it, unchanged, into modules that an engine
//! without a file system loads: resolve → parse → scan → rewrite → link → emit. Each phase is a
//! module, takes options and returns a value and diagnostics.
//!
//! | module | does |
//! |---|---|
//! | [`host`] | compiles the host module set |

#![warn(missing_docs)]

mod cache;
mod diagnostics;
mod emit;
mod host;
mod limits;
mod maps;
mod parse;
mod strip;

pub use cache::Cache;
pub use diagnostics::{BuildFailure, Code, Diagnostic, Place, Severity, sanitise};
pub use host::{HostSource, compile_host_modules, host_modules};
pub use limits::Limits;
pub use maps::SourceMaps;
