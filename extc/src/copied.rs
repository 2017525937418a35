//! Reads files that are copied into a package before it is built, under the rules of its build.
//!
//! A package that is assembled from several folders is compiled where it was assembled, so its build only sees copies.
//! [`CopiedFolder`] applies the checks of a build to the originals: it refuses protected files, resolves links first, opens files
//! without following links, and records what was read or refused as evidence.

use crate::access::FileAccess;
use crate::limits::Limits;
use crate::package::Folders;
use crate::resolve::folders_around;
use crate::tree::{FileEvidence, SourceTree};
use pijs_diagnostics::{Code, Diagnostic};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A folder whose files are copied, with the folders of dependencies around it.
#[derive(Debug)]
pub struct CopiedFolder {
    tree: SourceTree,
    folders: Vec<PathBuf>,
}

impl CopiedFolder {
    /// Opens a folder by its canonical path. With `loose`, the canonical path of a file in it, only that file belongs to the
    /// extension.
    ///
    /// # Errors
    ///
    /// Fails if the folder cannot be opened, or is inside more folders of dependencies than a build searches.
    pub fn open(folder: &Path, loose: Option<&Path>, access: &FileAccess, limits: Limits) -> Result<Self, Diagnostic> {
        let failed = |error| Diagnostic::new(Code::Read, format!("{}: {error}", folder.display()));
        let dependencies = folders_around(folder)?;
        let real = dependencies.iter().filter_map(|path| path.canonicalize().ok());
        let own = vec![folder.to_owned()];
        let all = own.into_iter().chain(real).collect();
        let folders = Folders { package: folder.to_owned(), dependencies, loose: loose.map(Path::to_owned) };
        Ok(Self { tree: SourceTree::open(folders, access, limits).map_err(failed)?, folders: all })
    }

    /// Returns whether a canonical path is in the folder, or in a folder of dependencies around it.
    pub fn holds(&self, real: &Path) -> bool {
        self.folders.iter().any(|folder| real.starts_with(folder))
    }

    /// Reads a file under the rules for an imported file.
    ///
    /// # Errors
    ///
    /// [`Code::Escape`] for a file that a build may not read; other codes say why it cannot be read.
    pub fn read(&self, path: &Path) -> Result<Vec<u8>, Diagnostic> {
        self.tree.admit(path, &path.display().to_string())?;
        self.tree.read(path)
    }

    /// Returns the digests of the files that were read, by name.
    pub fn inputs(&self) -> BTreeMap<String, String> {
        let inputs = self.tree.inputs().into_iter();
        inputs.map(|(name, file)| (name, format!("sha256:{}", hex::encode(file.sha256)))).collect()
    }

    /// Returns the access decisions on files that are not plain source.
    pub fn evidence(&self) -> BTreeMap<PathBuf, FileEvidence> {
        self.tree.evidence()
    }
}
