//! Finds links among the files of a repository that lead to keys or credentials.
//!
//! Git prints lines of its own files in messages and errors: `MERGE_MSG`, `packed-refs`, `shallow`. A repository that comes as a
//! folder or an archive may have a link in place of such a file.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Maximum number of entries of a repository's own folder that are read.
const MAX_ENTRIES: usize = 20_000;

/// Folders of a repository that are not read: git prints nothing of them but names, and submodules have repositories of their own.
const SKIPPED: &[&str] = &["hooks", "lfs", "logs", "modules", "objects", "refs"];

/// Result of a search for links.
#[derive(Debug)]
pub enum LinkSearch {
    /// No link leads to a closed file; contains the name and target of each.
    Open(Vec<(OsString, PathBuf)>),
    /// A link does.
    Found(PathBuf),
    /// The repository has more entries than are read.
    TooMany,
}

/// Searches the folders of a repository, and the folders that links in them lead to.
pub fn search_links(repository: &[PathBuf], is_closed: impl Fn(&Path) -> bool) -> LinkSearch {
    let mut open = repository.to_vec();
    open.extend(repository.iter().map(|folder| folder.join("objects/info")));
    let (mut linked, mut links, mut entries) = (BTreeSet::new(), Vec::new(), 0);
    while let Some(folder) = open.pop() {
        for entry in folder.read_dir().into_iter().flatten().flatten() {
            entries += 1;
            if entries > MAX_ENTRIES {
                return LinkSearch::TooMany;
            }
            let Ok(kind) = entry.file_type() else { continue };
            let path = entry.path();
            let target = kind.is_symlink().then(|| path.canonicalize().ok()).flatten();
            if target.as_deref().is_some_and(&is_closed) {
                return LinkSearch::Found(path);
            }
            links.extend(target.clone().map(|target| (entry.file_name(), target)));
            if SKIPPED.iter().any(|name| entry.file_name() == *name) {
                continue;
            }
            match target {
                Some(target) if target.is_dir() && linked.insert(target.clone()) => open.push(target),
                None if kind.is_dir() => open.push(path),
                _ => {}
            }
        }
    }
    LinkSearch::Open(links)
}
