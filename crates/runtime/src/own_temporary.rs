//! A temporary folder of PiJS. Its name protects it from extensions wherever it lies
//! ([`OwnState`](pijs_hostcall::places::OwnState)).

use pijs_durable::Disk;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// A folder that only its owner can access; removed when dropped.
#[derive(Debug)]
pub struct OwnTemporary {
    path: PathBuf,
}

impl OwnTemporary {
    /// Creates a new one in `folder`.
    pub fn new_in(folder: &Path, label: &str) -> io::Result<Self> {
        let path = Disk::system().temporary_in(folder, label)?;
        // Fails if the folder exists.
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self { path })
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Renames it to a permanent folder.
    pub fn keep_as(self, target: &Path) -> io::Result<()> {
        std::fs::rename(&self.path, target)
    }
}

impl Drop for OwnTemporary {
    fn drop(&mut self) {
        // A folder that remains is recognisable by its name.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
