//! The file system as the import resolver sees it.
//!
//! The resolver accesses files through [`ProbedFiles`] only. It sees the kinds of items, and manifests. Manifests outside the
//! package and its dependencies are hidden: they would decide the meaning of files in the package without being part of it.

use crate::probe::PathKind;
use crate::tree::SourceTree;
use oxc_resolver::{FileMetadata, FileSystem, ResolveError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file system as the resolver accesses it.
#[derive(Debug, Clone)]
pub(super) struct ProbedFiles(pub(super) Arc<SourceTree>);

impl FileSystem for ProbedFiles {
    fn new(_: bool) -> Self {
        unreachable!("each resolver is given the files of its build")
    }

    /// Reads manifests only: resolving needs no contents of other files.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.0.manifest(path).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn read_to_string(&self, path: &Path) -> io::Result<String> {
        String::from_utf8(self.read(path)?).map_err(|_| io::ErrorKind::InvalidData.into())
    }

    /// Returns the metadata of a link's target. The resolver follows links itself, so it calls this only for a dangling link.
    fn metadata(&self, path: &Path) -> io::Result<FileMetadata> {
        match self.0.probe(path) {
            PathKind::Link(_) => Err(io::ErrorKind::NotFound.into()),
            found => metadata(&found),
        }
    }

    fn symlink_metadata(&self, path: &Path) -> io::Result<FileMetadata> {
        metadata(&self.0.probe(path))
    }

    fn read_link(&self, path: &Path) -> Result<PathBuf, ResolveError> {
        match self.0.probe(path) {
            PathKind::Link(target) => Ok(target.into()),
            _ => Err(ResolveError::from(io::Error::from(io::ErrorKind::InvalidInput))),
        }
    }

    fn canonicalize(&self, _: &Path) -> io::Result<PathBuf> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

fn metadata(kind: &PathKind) -> io::Result<FileMetadata> {
    match kind {
        PathKind::Nothing | PathKind::Other => Err(io::ErrorKind::NotFound.into()),
        PathKind::File => Ok(FileMetadata::new(true, false, false)),
        PathKind::Folder => Ok(FileMetadata::new(false, true, false)),
        PathKind::Link(_) => Ok(FileMetadata::new(false, false, true)),
    }
}
