//! Finds links among the files of a repository that lead to keys or credentials.
//!
//! Git prints lines of its own files in messages and errors: `MERGE_MSG`, `packed-refs`, `shallow`. A repository that comes as a
//! folder or an archive may have a link in place of such a file.

use super::survey::{changed_folder, git_folder};
use std::path::{Path, PathBuf};

/// Maximum number of entries of a repository's own folder that are read.
const MAX_ENTRIES: usize = 20_000;

/// Maximum size in bytes of a file that names another folder of the repository.
const MAX_NAME: u64 = 8 << 10;

/// Folders of a repository that are not read: git prints nothing of them but names, and submodules have repositories of their own.
const SKIPPED: &[&str] = &["hooks", "lfs", "logs", "modules", "objects", "refs"];

/// Result of a search.
pub(super) enum LinkSearch {
    /// No link leads to a closed file.
    Nothing,
    /// A link does.
    Found(PathBuf),
    /// The repository has more entries than are read.
    TooMany,
}

/// Searches the repository that git finds from `folder` with the options `globals` before its command.
pub(super) fn search(folder: &Path, globals: &[&str], is_closed: impl Fn(&Path) -> bool) -> LinkSearch {
    let from = changed_folder(folder, globals);
    let Some(top) = from.ancestors().find(|top| top.join(".git").symlink_metadata().is_ok()) else {
        return LinkSearch::Nothing;
    };
    let repository = git_folder(top);
    // The repository of a linked work tree.
    let name = pijs_durable::read_regular(&repository.join("commondir"), MAX_NAME).ok();
    let name = name.and_then(|name| String::from_utf8(name).ok());
    let common = name.map(|name| repository.join(name.trim()));
    let mut open: Vec<PathBuf> = common.iter().chain([&repository]).cloned().collect();
    open.extend(common.iter().chain([&repository]).map(|folder| folder.join("objects/info")));
    let mut entries = 0;
    while let Some(folder) = open.pop() {
        for entry in folder.read_dir().into_iter().flatten().flatten() {
            entries += 1;
            if entries > MAX_ENTRIES {
                return LinkSearch::TooMany;
            }
            let Ok(kind) = entry.file_type() else { continue };
            let path = entry.path();
            if kind.is_symlink() && path.canonicalize().is_ok_and(|target| is_closed(&target)) {
                return LinkSearch::Found(path);
            }
            if kind.is_dir() && !SKIPPED.iter().any(|name| entry.file_name() == *name) {
                open.push(path);
            }
        }
    }
    LinkSearch::Nothing
}
