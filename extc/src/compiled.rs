//! The output of the compiler, whether produced by the linker, the component compiler, a worker, or a prebuilt artifact.

use crate::dependency_manifest::DependencyManifest;
use crate::package::Package;
use crate::tree::{FileEvidence, SourceTree};
use pijs_artifact::Artifact;
use pijs_diagnostics::Diagnostic;
use pijs_protocol::artifact::ArtifactMetadata;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The output of the compiler, before the cache stores it.
pub(crate) struct Compiled {
    pub(crate) artifact: Artifact,
    pub(crate) dependency_manifest: DependencyManifest,
    pub(crate) diagnostics: Vec<Diagnostic>,
    pub(crate) evidence: BTreeMap<PathBuf, FileEvidence>,
}

impl Compiled {
    /// Adds the metadata that the tree knows about the inputs to an artifact.
    pub(crate) fn new(artifact: Artifact, diagnostics: Vec<Diagnostic>, package: &Package, tree: &SourceTree) -> Self {
        Self {
            artifact,
            dependency_manifest: DependencyManifest::new(package, tree),
            diagnostics,
            evidence: tree.evidence(),
        }
    }
}

/// Returns the metadata that needs no compiler: the package's identity and the files that were read for it.
pub(crate) fn known(package: &Package, tree: &SourceTree) -> ArtifactMetadata {
    tree.expect_manifest(&package.manifest);
    ArtifactMetadata {
        entries: package.entries.iter().map(|entry| tree.name_of(entry)).collect(),
        inputs: tree.sources(),
        ..ArtifactMetadata::new(package.name.clone(), package.version.clone(), pijs_engine::engine_build())
    }
}
