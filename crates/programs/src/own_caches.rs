//! The folders of `~/.cache` that listed tools fill for themselves.

use crate::{COMPILERS, name_of};

/// Returns the entries of the home that are a tool's own cache, although others load code from them.
pub fn own_caches(command: &str) -> &'static [&'static str] {
    match name_of(command).to_ascii_lowercase().as_str() {
        "go" => &[".cache/go-build"],
        "cargo" | "rustc" => &[".cache/sccache"],
        // The compiler may be a link to a program that keeps its results.
        name if COMPILERS.contains(&name) => &[".cache/ccache", ".cache/sccache"],
        _ => &[],
    }
}
