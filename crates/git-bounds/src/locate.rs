//! Locates the repository of a use of git without running git.

use pijs_durable::read_regular;
use pijs_programs::GIT_OPTIONS_WITH_VALUE;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Maximum number of bytes of a `.git` file; git does not read more.
const MAX_OF_GIT_FILE: u64 = 1 << 20;

/// Returns the git folder of the repository at `top`, following a `.git` file.
pub fn git_folder(top: &Path) -> PathBuf {
    let git = top.join(".git");
    let text = if git.is_file() { read_regular(&git, MAX_OF_GIT_FILE).unwrap_or_default() } else { Vec::new() };
    let named = text.strip_prefix(b"gitdir: ");
    named.map_or_else(|| git.clone(), |path| top.join(OsStr::from_bytes(without_line_ends(path))))
}

fn without_line_ends(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |at| at + 1);
    &text[..end]
}

/// Returns the folder that git changes to (`-C`) before it looks for a repository. `globals` are the options before its command.
pub fn changed_folder(cwd: &Path, globals: &[&str]) -> PathBuf {
    let mut folder = cwd.to_owned();
    let mut options = globals.iter();
    while let Some(option) = options.next() {
        let value = GIT_OPTIONS_WITH_VALUE.contains(option).then(|| options.next()).flatten();
        if let ("-C", Some(path)) = (*option, value) {
            folder.push(path);
        }
    }
    folder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_names_the_folder_of_the_settings() {
        let folder = tempfile::tempdir().expect("a folder");
        let top = folder.path();
        assert_eq!(git_folder(top), top.join(".git"));
        std::fs::write(top.join(".git"), b"gitdir: ../x \xff\n\r\n").expect("written");
        assert_eq!(git_folder(top), top.join(OsStr::from_bytes(b"../x \xff")));
        assert_eq!(changed_folder(top, &["-c", "-C", "-C", "a", "--bare", "-C", "b"]), top.join("a/b"));
    }
}
