//! Probes of paths: the kind of item at a path.
//!
//! Every answer that a build gets is recorded, so that the cache can repeat the probes
//! ([`dependency_manifest`](crate::dependency_manifest)): a file that appears where an import would find it first, or a link that
//! leads elsewhere, changes an answer and invalidates the artifact.

use serde::{Deserialize, Serialize};
use std::path::Path;

/// The kind of item at a path; links are not followed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum PathKind {
    /// No item, or an item that the build may not see.
    #[serde(rename = "-")]
    Nothing,
    /// A regular file.
    #[serde(rename = "f")]
    File,
    /// A folder.
    #[serde(rename = "d")]
    Folder,
    /// A link, with the target as stored.
    #[serde(rename = "l")]
    Link(String),
    /// A pipe, a socket, or a link whose target is not valid UTF-8.
    #[serde(rename = "o")]
    Other,
}

impl PathKind {
    /// Probes a path without a cache.
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
}
