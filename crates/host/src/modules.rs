//! The host modules: TypeScript that stands between an extension and the hostcalls.
//!
//! They are embedded as source; `extc` compiles them once per engine build to the host module set
//! every realm starts with. The files are listed in `modules/**/index.txt`.

/// One host module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostModule {
    /// What an import names: `pi:runtime`, `node:path`, `@earendil-works/pi-coding-agent`.
    pub specifier: &'static str,
    /// File inside this crate, for diagnostics.
    pub path: &'static str,
    /// TypeScript.
    pub source: &'static str,
}

/// Every host module, sorted by specifier.
pub const MODULES: &[HostModule] = include!(concat!(env!("OUT_DIR"), "/modules.rs"));
