//! Limits the size of each crate: lines of Rust that ship, without tests.
//!
//! Counts the lines of `src`, including blank lines and comments, except files that hold tests (`tests.rs`, `*_tests.rs`, and
//! files in a folder `tests`) and a trailing `#[cfg(test)]` module.

use crate::sources::{holds_tests, sources};
use crate::violation::{Violation, violation};
use anyhow::{Context, Result};
use cargo_metadata::Package;
use std::fs;

/// Maximum number of lines of a crate, as many as a reader can read before a change.
pub const MAX_LINES: usize = 12_000;

/// Reports a crate that is too large.
pub fn violations(package: &Package) -> Result<Option<Violation>> {
    let root = package.manifest_path.parent().expect("a manifest is in a folder").as_std_path().join("src");
    let mut lines = 0;
    for file in sources(&root)? {
        if !holds_tests(file.strip_prefix(&root).expect("sources are below their package")) {
            lines += shipped(&fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?);
        }
    }
    let advice = format!("has {lines} lines without tests, at most {MAX_LINES} are allowed: give a part of it a crate");
    Ok((lines > MAX_LINES).then(|| violation(package.name.as_str(), advice)))
}

/// Counts the lines of a file up to its tests.
pub fn shipped(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let is_for_tests = |line: &str| line == "#[cfg(test)]" || line.starts_with("#[cfg(all(test,");
    let begins_tests = |pair: &[&str]| is_for_tests(pair[0].trim()) && is_inline_module(pair[1]);
    lines.windows(2).position(begins_tests).unwrap_or(lines.len())
}

fn is_inline_module(line: &str) -> bool {
    line.trim_end().ends_with('{') && line.split_whitespace().any(|word| word == "mod")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_count_up_to_the_tests_of_a_file() {
        assert_eq!(shipped("a\n\n// b\n"), 3);
        assert_eq!(shipped("a\n#[cfg(test)]\nmod tests {\n    b\n}\n"), 1);
        assert_eq!(shipped("a\n#[cfg(test)]\nmod tests;\nb\n"), 4);
        assert_eq!(shipped("#[cfg(test)]\nuse x;\nb\n"), 3);
        assert_eq!(shipped("a\n#[cfg(all(test, unix))]\nmod tests {\n    b\n}\n"), 1);
    }
}
