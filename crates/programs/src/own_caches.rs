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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compiler_keeps_results_and_a_file_tool_nothing() {
        assert!(own_caches("/usr/bin/x86_64-linux-gnu-gcc-12").contains(&".cache/ccache"));
        assert_eq!(own_caches("go"), [".cache/go-build"]);
        assert_eq!(own_caches("cp"), [""; 0]);
    }
}
