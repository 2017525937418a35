//! Lists source files of the workspace.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Returns the Rust files of a package, sorted.
pub(crate) fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    files(folder, "rs")
}

/// Returns the files with an extension below a folder, sorted. Skips `target` and hidden folders.
pub(crate) fn files(folder: &Path, wanted: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))? {
            let entry = entry?;
            let (path, name) = (entry.path(), entry.file_name());
            let hidden = name.to_string_lossy().starts_with('.');
            if entry.file_type()?.is_dir() {
                if !hidden && name != "target" && name != "node_modules" {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == wanted) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Returns whether a file, by its path relative to `src`, contains only tests.
pub(crate) fn holds_tests(file: &Path) -> bool {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    stem == "tests" || stem.ends_with("_tests") || file.components().any(|part| part.as_os_str() == "tests")
}

/// Returns whether attributes limit an item to tests: `#[test]`, `#[cfg(test)]`, `#[cfg(all(test, ...))]`.
pub(crate) fn is_test(attributes: &[syn::Attribute]) -> bool {
    let is_for_tests = |tokens: String| {
        let tokens: String = tokens.split_whitespace().collect();
        tokens == "test" || tokens.starts_with("all(test,")
    };
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || (attribute.path().is_ident("cfg")
                && attribute.meta.require_list().is_ok_and(|list| is_for_tests(list.tokens.to_string())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_tests_have_their_names() {
        assert!(holds_tests(Path::new("tests/a.rs")) && holds_tests(Path::new("a/frame_tests.rs")));
        assert!(!holds_tests(Path::new("contests.rs")));
    }

    #[test]
    fn attributes_leave_an_item_to_tests() {
        let is_left = |source: &str| is_test(&syn::parse_str::<syn::ItemMod>(source).expect("a module").attrs);
        assert!(is_left("#[cfg(test)] mod a;") && is_left("#[cfg(all(test, unix))] mod a;"));
        assert!(!is_left("#[cfg(unix)] mod a;") && !is_left("#[cfg(not(test))] mod a;"));
    }
}
