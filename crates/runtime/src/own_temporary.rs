//! A temporary folder of PiJS. Its name says so, which keeps extensions out of it wherever it lies
//! ([`OwnState`](pijs_hostcall::places::OwnState)).

use pijs_durable::Disk;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// The folder, for its owner alone; removed when dropped.
#[derive(Debug)]
pub struct OwnTemporary {
    path: PathBuf,
}

impl OwnTemporary {
    /// A new one in `folder`.
    pub fn new_in(folder: &Path, label: &str) -> io::Result<Self> {
        let path = Disk::system().temporary_in(folder, label)?;
        // Never one that is there already.
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self { path })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives it a name to stay under.
    pub fn keep_as(self, target: &Path) -> io::Result<()> {
        std::fs::rename(&self.path, target)
    }
}

impl Drop for OwnTemporary {
    fn drop(&mut self) {
        // Its name says who left it.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
