//! Results of builds and checks.

use crate::dependency_manifest::DependencyManifest;
use crate::tree::FileEvidence;
use pijs_artifact::{Verified, encode};
use pijs_diagnostics::{Diagnostic, verdict};
use pijs_protocol::artifact::{ArtifactMetadata, Verdict};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

/// A finished build.
#[derive(Debug)]
pub struct BuildOutput {
    /// The artifact, verified and ready to load.
    pub artifact: Verified,
    /// Digest of the encoded artifact, `sha256:HEX`.
    pub(crate) digest: String,
    /// Remarks, in the order of files and lines.
    pub diagnostics: Vec<Diagnostic>,
    /// Whether the artifact came from the cache.
    pub cached: bool,
    /// Number of input files that the cache lookup read; zero if all stamps match.
    pub read: usize,
    /// The folder that the author's file names are relative to: the package's, or the one that contains a single file.
    pub root: PathBuf,
    /// The files that were compiled, and the locations where imports were probed.
    pub(crate) dependency_manifest: DependencyManifest,
    /// The access decisions on files that are not plain source of the package, by canonical path: foreign files, files that may
    /// hold secrets, refused files.
    pub evidence: BTreeMap<PathBuf, FileEvidence>,
}

impl BuildOutput {
    /// Returns the metadata that `extc build -o` writes as `artifact.json`, including the digest of the artifact file.
    pub fn metadata(&self) -> ArtifactMetadata {
        ArtifactMetadata { artifact: self.digest.clone(), ..self.artifact.artifact().metadata.clone() }
    }

    /// Returns the paths that decide which code runs: compiled files, links, and locations that imports were probed at first.
    pub fn places(&self) -> Vec<PathBuf> {
        self.dependency_manifest.places()
    }

    /// Returns the encoded artifact that `extc build -o` writes as `extension.artifact`.
    ///
    /// # Errors
    ///
    /// Fails if the cache has lost the sources since the build; building again restores them.
    pub fn encoded(&self) -> io::Result<Vec<u8>> {
        let lost = || io::Error::new(io::ErrorKind::NotFound, "the cache lost the sources; build it again");
        self.artifact.whole().map(|whole| encode(&whole)).ok_or_else(lost)
    }
}

/// The result of [`check`](crate::check()).
#[derive(Debug)]
pub struct CheckOutput {
    /// The metadata that a build would write; `None` if it would fail.
    pub metadata: Option<ArtifactMetadata>,
    /// Errors first, then remarks in the order of files and lines.
    pub diagnostics: Vec<Diagnostic>,
}

impl CheckOutput {
    /// Returns the [`verdict`] on the metadata and diagnostics.
    pub fn verdict(&self) -> Verdict {
        verdict(&self.diagnostics)
    }
}
