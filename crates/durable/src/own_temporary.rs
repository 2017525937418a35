//! A temporary folder of PiJS. Its name protects it from extensions wherever it is (`OwnState` of `hostcall`).

use crate::Disk;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// A folder that only its owner can access. Dropping it removes the folder.
#[derive(Debug)]
pub struct OwnTemporary {
    path: PathBuf,
}

impl OwnTemporary {
    /// Creates a folder with a new name in `folder`.
    ///
    /// # Errors
    ///
    /// Returns the error of the system.
    pub fn new_in(folder: &Path, label: &str) -> io::Result<Self> {
        let path = Disk::system().temporary_in(folder, label)?;
        // Fails if the folder exists.
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self { path })
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Renames the folder to `target`, where it is kept.
    ///
    /// # Errors
    ///
    /// Returns the error of the system.
    pub fn keep_as(self, target: &Path) -> io::Result<()> {
        std::fs::rename(&self.path, target)
    }
}

impl Drop for OwnTemporary {
    fn drop(&mut self) {
        // A folder that cannot be removed stays protected by its name.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
