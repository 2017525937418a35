//! Probes of the import resolver: the kind of item at a path, and manifests.
//!
//! The resolver accesses the file system through [`ProbedFiles`] alone, and every answer is remembered. So the cache can repeat the
//! probes ([`dependency_manifest`](crate::dependency_manifest)): a file that appears where an import would find it first, a link that leads elsewhere, or a
//! manifest with other `exports` gives another answer, and invalidates the artifact.
//!
//! Manifests outside the package and its dependencies are hidden from the resolver: they would decide the meaning of files of the
//! package, and do not belong to it.

use crate::tree::SourceTree;
use oxc_resolver::{FileMetadata, FileSystem, ResolveError};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The kind of item at a path; links are not followed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum PathKind {
    /// No item, or none that the build may see.
    #[serde(rename = "-")]
    Nothing,
    /// A regular file.
    #[serde(rename = "f")]
    File,
    /// A folder.
    #[serde(rename = "d")]
    Folder,
    /// A link, with its target.
    #[serde(rename = "l")]
    Link(String),
    /// A pipe or a socket; a link whose target is not valid UTF-8.
    #[serde(rename = "o")]
    Other,
}

impl PathKind {
    /// Probes a path, uncached.
    pub(crate) fn at(path: &Path) -> Self {
        let Ok(found) = std::fs::symlink_metadata(path) else { return Self::Nothing };
        let kind = found.file_type();
        if kind.is_file() {
            Self::File
        } else if kind.is_dir() {
            Self::Folder
        } else if kind.is_symlink() {
            let target = std::fs::read_link(path).ok().and_then(|target| target.into_os_string().into_string().ok());
            target.map_or(Self::Other, Self::Link)
        } else {
            Self::Other
        }
    }

    /// Encodes the kind for a cache key; the encoding is injective.
    pub(crate) fn to_field(&self) -> Vec<u8> {
        match self {
            Self::Nothing => b"-".to_vec(),
            Self::File => b"f".to_vec(),
            Self::Folder => b"d".to_vec(),
            Self::Other => b"o".to_vec(),
            Self::Link(target) => [b"l", target.as_bytes()].concat(),
        }
    }

    fn metadata(&self) -> io::Result<FileMetadata> {
        match self {
            Self::Nothing | Self::Other => Err(io::ErrorKind::NotFound.into()),
            Self::File => Ok(FileMetadata::new(true, false, false)),
            Self::Folder => Ok(FileMetadata::new(false, true, false)),
            Self::Link(_) => Ok(FileMetadata::new(false, false, true)),
        }
    }
}

/// The file system as the resolver accesses it.
#[derive(Debug, Clone)]
pub(crate) struct ProbedFiles(pub(crate) Arc<SourceTree>);

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

    /// Returns the metadata of a link's target. The resolver follows links by itself, so it requests this only for a dangling
    /// link.
    fn metadata(&self, path: &Path) -> io::Result<FileMetadata> {
        match self.0.probe(path) {
            PathKind::Link(_) => Err(io::ErrorKind::NotFound.into()),
            found => found.metadata(),
        }
    }

    fn symlink_metadata(&self, path: &Path) -> io::Result<FileMetadata> {
        self.0.probe(path).metadata()
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
