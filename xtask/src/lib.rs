//! The commands of `cargo xtask`, as a library, so that tests can run them.

pub mod bench;
pub mod circles;
pub mod codegen;
pub mod links;
pub mod messages;
pub mod nightly;
pub mod notice;
pub mod picture;
pub mod prose;
pub mod references;
pub mod release;
pub mod rules;
pub mod size;
mod sources;
pub mod start;
pub mod tapes;
pub mod unused;
pub mod violation;

use std::path::PathBuf;

/// Returns the workspace's folder.
pub fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("xtask is a folder of the workspace").to_path_buf()
}
