//! A package on its way into a session: compiled, described for the gate, then loaded.

use crate::compile::{Compiler, input_of};
use crate::failure::{Failure, Result};
use crate::stage::shown_entries;
use crate::supply::Supplier;
use pijs_artifact::Verified;
use pijs_extc::SourceMaps;
use pijs_host::{Entry, Host, Package};
use pijs_hostcall::{Dispatcher, Evidence, Grant, Profile};
use pijs_packages::PackageEntry;
use pijs_protocol::artifact::ArtifactMetadata;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

/// What `extc` made of a package.
pub(crate) struct Built {
    /// Who asks, for the gate: the package, where it lies and what was compiled into it.
    pub(crate) profile: Profile,
    pub(crate) metadata: ArtifactMetadata,
    artifact: Arc<Verified>,
    /// The folder that the names of its files are relative to.
    place: PathBuf,
    entries: Vec<Entry>,
}

impl Built {
    /// Compiles a package, or finds it in the user's cache.
    pub(crate) fn new(compiler: &Compiler, found: &PackageEntry) -> Result<Self> {
        let id = found.id.as_str();
        let output = compiler.build(id, &input_of(id, &found.root, &found.entries))?;
        let metadata = output.metadata();
        let inputs = metadata.inputs.keys().map(String::as_str);
        let mut profile = match found.loose_file() {
            Some(file) => Profile::new(id).loose(file, &output.root, inputs),
            None => Profile::new(id).at(&found.root).with_inputs(inputs),
        };
        profile.artifact_id = Some(metadata.artifact.clone());
        Ok(Self {
            profile,
            metadata,
            artifact: Arc::new(output.artifact),
            place: output.root,
            entries: wanted_entries(found),
        })
    }

    /// Shows each entry under the path that pi shows it under when it is named on the command line.
    pub(crate) fn shown_as_named(mut self, found: &PackageEntry) -> Self {
        for (entry, shown) in self.entries.iter_mut().zip(shown_entries(found)) {
            entry.path = shown;
        }
        self
    }

    /// What the host loads, with the supplied packages it imports.
    pub(crate) async fn package(self, supplier: &Supplier) -> Result<Package> {
        let supplied = supplier.for_extension(&self.metadata).await?;
        let maps = SourceMaps::new(self.artifact.artifact());
        let package = Package::new(self.profile, self.artifact).with_supplied(supplied).with_positions(Rc::new(maps));
        Ok(Package { entries: self.entries, place: Some(self.place), ..package })
    }

    /// Loads it with the grants that `granted` says, nothing asked. The entries that failed, with what they said.
    pub(crate) async fn load_granted(
        self,
        (host, dispatcher): (&Host, &Dispatcher),
        supplier: &Supplier,
        granted: &[Grant],
    ) -> Result<Vec<(String, String)>> {
        dispatcher
            .gate()
            .set_grants(&self.profile, granted, Evidence::default())
            .map_err(|error| Failure::failed(format!("{}: {error}", self.profile.extension)))?;
        let package = self.package(supplier).await?;
        let report = host.load(package).await.map_err(|error| Failure::failed(error.to_string()))?;
        Ok(report.failures().map(|(path, error)| (path.to_owned(), error.message.clone())).collect())
    }
}

/// The entries that discovery chose, as modules of the artifact: entry *i* is `ext:/i/index.js`.
fn wanted_entries(found: &PackageEntry) -> Vec<Entry> {
    let entry = |(index, path): (usize, &PathBuf)| Entry {
        module: format!("ext:/{index}/index.js"),
        path: path.display().to_string(),
    };
    found.entries.iter().enumerate().map(entry).collect()
}
