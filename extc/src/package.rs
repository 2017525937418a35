//! The package to compile, as passed between the phases: its identity, its entries, and the folders that it is read from.

use crate::limits::Limits;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A package found on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Package {
    /// Canonical folder of the package; imports do not leave it.
    pub(crate) root: PathBuf,
    pub(crate) name: String,
    pub(crate) version: String,
    /// Bytes of `package.json`; empty if there is none.
    pub(crate) manifest: Vec<u8>,
    /// Canonical paths of the entries, in load order; at least one.
    pub(crate) entries: Vec<PathBuf>,
    /// Folders outside the package that hold dependencies.
    pub(crate) dependencies: Vec<PathBuf>,
    /// Whether the package is a loose file.
    pub(crate) loose: bool,
    /// Whether the entry is an artifact, which contains the modules.
    pub(crate) artifact: bool,
    /// Whether the entry is a WebAssembly component.
    pub(crate) component: bool,
}

impl Package {
    /// Returns the caps on the input files.
    pub(crate) fn limits(&self, limits: Limits) -> Limits {
        if self.artifact || self.component { limits.of_artifact() } else { limits }
    }

    /// Returns the folders that the build reads from.
    pub(crate) fn folders(&self) -> Folders {
        Folders {
            package: self.root.clone(),
            dependencies: self.dependencies.clone(),
            loose: self.loose.then(|| self.entries[0].clone()),
        }
    }
}

/// The folders that a build reads from.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Folders {
    /// Canonical folder of the package, or of a loose file.
    pub(crate) package: PathBuf,
    /// Folders of dependencies.
    pub(crate) dependencies: Vec<PathBuf>,
    /// Canonical path of the extension's file if it is a loose file, whose imports may lead out of its folder.
    pub(crate) loose: Option<PathBuf>,
}

/// The lock file that lists an installed package, and the package's name in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LockEntry {
    pub(crate) file: PathBuf,
    pub(crate) identity: String,
}

/// Strips the byte order mark that some editors put before a manifest, as npm does.
pub(crate) fn without_mark(manifest: &[u8]) -> &[u8] {
    manifest.strip_prefix(b"\xef\xbb\xbf").unwrap_or(manifest)
}
