//! The host modules: TypeScript between an extension and the hostcalls.
//!
//! `modules/web` holds the globals of a browser and what every other module uses, `modules/node` the builtins of Node,
//! `modules/pi` pi's API and the packages that pi ships, `modules/rummy` what the rummy dialect calls. [`MODULES`] embeds
//! them as source, as `modules/**/index.txt` lists them; `extc` compiles them once per engine build into the module set that
//! every realm starts with.
//!
//! `modules/tests` runs single modules against output that was captured from Node (`tests/tests/node_modules.rs` and
//! `node_host.rs` of `pijs-tests`); `npm ci && npm run check` in `modules` checks the types.

#![warn(missing_docs)]
#![warn(clippy::disallowed_methods)]

pub mod api;
pub mod events;
pub mod unicode_sets;

/// One host module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostModule {
    /// Specifier of an import: `pi:runtime`, `node:path`, `@earendil-works/pi-coding-agent`.
    pub specifier: &'static str,
    /// File inside this crate, for diagnostics.
    pub path: &'static str,
    /// TypeScript source.
    pub source: &'static str,
}

/// SHA-256 of [`MODULES`]: specifier, path and source of each, each after its length as a little-endian `u64`.
///
/// A starting program identifies its module set by it without reading a megabyte.
pub const MODULES_DIGEST: [u8; 32] = include!(concat!(env!("OUT_DIR"), "/digest.rs"));

/// Every host module, sorted by specifier.
pub const MODULES: &[HostModule] = include!(concat!(env!("OUT_DIR"), "/modules.rs"));

#[cfg(test)]
mod tests {
    use super::{MODULES, MODULES_DIGEST};
    use sha2::{Digest, Sha256};

    #[test]
    fn the_digest_is_that_of_every_module() {
        let mut digest = Sha256::new();
        for module in MODULES {
            for field in [module.specifier, module.path, module.source] {
                digest.update((field.len() as u64).to_le_bytes());
                digest.update(field);
            }
        }
        assert_eq!(MODULES_DIGEST, <[u8; 32]>::from(digest.finalize()));
    }
}
