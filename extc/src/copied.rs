//! Reads files that are copied into a package before it is built, under the rules of its build.
//!
//! A package that is put together of several folders is compiled where it was put together, so its build sees copies alone.
//! [`CopiedFolder`] asks the questions of a build about the files themselves: protected files are refused, links are resolved
//! first, a file is opened without following links, and what was read or refused is evidence.

use crate::access::FileAccess;
use crate::diagnostics::{Code, Diagnostic};
use crate::limits::Limits;
use crate::resolve::folders_around;
use crate::tree::{FileEvidence, Folders, SourceTree};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A folder whose files are copied, with the folders of dependencies around it.
#[derive(Debug)]
pub struct CopiedFolder {
    tree: SourceTree,
    folders: Vec<PathBuf>,
}

impl CopiedFolder {
    /// Opens a folder by its real path. With `loose`, the real path of a file in it, only that file says whose the folder is.
    ///
    /// # Errors
    ///
    /// The folder cannot be opened, or lies in more folders of dependencies than a build searches.
    pub fn open(folder: &Path, loose: Option<&Path>, access: &FileAccess, limits: Limits) -> Result<Self, Diagnostic> {
        let failed = |error| Diagnostic::new(Code::Read, format!("{}: {error}", folder.display()));
        let dependencies = folders_around(folder)?;
        let real = dependencies.iter().filter_map(|path| path.canonicalize().ok());
        let own = vec![folder.to_owned()];
        let all = own.into_iter().chain(real).collect();
        let folders = Folders { package: folder.to_owned(), dependencies, loose: loose.map(Path::to_owned) };
        Ok(Self { tree: SourceTree::open(folders, access, limits).map_err(failed)?, folders: all })
    }

    /// Whether a real path lies in the folder, or in one of dependencies around it.
    pub fn holds(&self, real: &Path) -> bool {
        self.folders.iter().any(|folder| real.starts_with(folder))
    }

    /// Reads a file as a build reads one that is imported.
    ///
    /// # Errors
    ///
    /// [`Code::Escape`] for a file that a build may not read; the others say why it cannot be read.
    pub fn read(&self, path: &Path) -> Result<Vec<u8>, Diagnostic> {
        self.tree.admit(path, &path.display().to_string())?;
        self.tree.read(path)
    }

    /// Returns the digests of the files that were read, by name.
    pub fn inputs(&self) -> BTreeMap<String, String> {
        let inputs = self.tree.inputs().into_iter();
        inputs.map(|(name, file)| (name, format!("sha256:{}", hex::encode(file.sha256)))).collect()
    }

    /// Returns what was decided about files that are not plain source.
    pub fn evidence(&self) -> BTreeMap<PathBuf, FileEvidence> {
        self.tree.evidence()
    }
}
