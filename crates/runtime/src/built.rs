//! A package on its way into a session: compiled, described for the gate, then loaded.
//!
//! Its build reads files as the extension would: what the gate lets it read at run time, and what was read is recorded.

use crate::compile::{Compiler, input_of};
use crate::failure::{Failure, Result};
use crate::session::LoadedSession;
use crate::supply::Supplier;
use pijs_artifact::Verified;
use pijs_extc::{BuildOutput, Code, FileAccess, FileEvidence, SourceMaps};
use pijs_host::{Entry, Package};
use pijs_hostcall::{BuildRecord, Caller, Dispatcher, Evidence, Gate, Grant, Profile, ReadBy};
use pijs_packages::PackageEntry;
use pijs_protocol::artifact::ArtifactMetadata;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

/// A package as `extc` compiled it. Cheap to clone.
#[derive(Clone)]
pub struct Built {
    /// Who asks, for the gate: the package, where it lies and what was compiled into it.
    pub profile: Profile,
    /// Everything that the build found out.
    pub metadata: ArtifactMetadata,
    artifact: Arc<Verified>,
    /// The folder that the names of its files are relative to.
    place: PathBuf,
    entries: Vec<Entry>,
}

impl Built {
    /// Compiles a package for a session, or finds it in the user's cache. A loose file may import what `grants` let it read.
    /// A build that is refused a file is recorded as well.
    pub fn in_session(
        compiler: &Compiler,
        dispatcher: &Dispatcher,
        found: &PackageEntry,
        (grants, never): (&[Grant], Vec<Grant>),
    ) -> Result<Self> {
        let Some(file) = found.loose_file() else { return Self::new(compiler, dispatcher, found) };
        let profile = Profile::new(found.id.as_str()).loose(file, &found.root, None);
        // A gate for the build alone: what the extension holds while an earlier version of it runs stays.
        let gate = Gate::builder(dispatcher.gate().policy().clone(), dispatcher.gate().places().clone()).build();
        // One whose scope cannot be read is reported with the others, once the code is known.
        let readable: Vec<Grant> = grants.iter().filter(|grant| gate.check(&profile, grant).is_ok()).cloned().collect();
        gate.set_grants(&profile, &readable, Evidence::default())
            .map_err(|error| Failure::usage(format!("{}: {error}", profile.extension)))?;
        gate.set_never(&profile, &never);
        let permit = gate.permit(&Caller::new(Arc::new(profile)), "fs");
        // A file that the extension wrote itself is data, and no code of its author.
        let reads = move |path: &Path| permit.reads(path) == Ok(ReadBy::Grant);
        let access = FileAccess::new(gate.places().clone()).readable(reads);
        Self::new(&compiler.with_access(access), dispatcher, found)
    }

    /// Compiles a package, or finds it in the user's cache.
    pub fn new(compiler: &Compiler, dispatcher: &Dispatcher, found: &PackageEntry) -> Result<Self> {
        let id = found.id.as_str();
        let output = compiler.build(id, &input_of(id, &found.root, &found.entries)).inspect_err(|failure| {
            let refused = failure.diagnostics().iter().filter(|diagnostic| diagnostic.code() == Code::Escape);
            let refused: Vec<String> = refused.map(|diagnostic| diagnostic.message().to_owned()).collect();
            if !refused.is_empty() {
                dispatcher.record_build(&Profile::new(id), &BuildRecord { refused, ..BuildRecord::default() });
            }
        })?;
        let metadata = output.metadata();
        let inputs = metadata.inputs.keys().map(String::as_str);
        let mut profile = match found.loose_file() {
            Some(file) => Profile::new(id).loose(file, &output.root, inputs),
            None => Profile::new(id).at(&found.root).with_inputs(inputs),
        };
        profile.artifact_id = Some(metadata.artifact.clone());
        dispatcher.record_build(&profile, &record_of(&output));
        // Files of an installed package are in the store, which nobody writes.
        if found.installed.is_none() {
            dispatcher.gate().add_code(&found.id, output.places.iter().cloned());
        }
        let entries = match found.artifact_file() {
            Some(file) => entries_of_artifact(file, &metadata),
            None => wanted_entries(found),
        };
        Ok(Self { profile, metadata, artifact: Arc::new(output.artifact), place: output.root, entries })
    }

    /// Whether `package` is made of the same code.
    pub fn is(&self, package: &Package) -> bool {
        self.profile == package.profile && self.entries == package.entries
    }

    /// Shows each entry under the path that pi shows it under when it is named on the command line.
    pub fn shown_as_named(mut self, found: &PackageEntry) -> Self {
        for (entry, shown) in self.entries.iter_mut().zip(shown_entries(found)) {
            entry.path = shown;
        }
        self
    }

    /// What the host loads, with the supplied packages it imports.
    pub async fn package(self, supplier: &Supplier) -> Result<Package> {
        let supplied = supplier.for_extension(&self.metadata).await?;
        let maps = SourceMaps::of(&self.artifact);
        let package = Package::new(self.profile, self.artifact).with_supplied(supplied).with_positions(Rc::new(maps));
        Ok(Package { entries: self.entries, place: Some(self.place), ..package })
    }

    /// Loads it with the grants that `granted` says, nothing asked. The entries that failed, with what they said.
    pub async fn load_granted(self, session: &LoadedSession, granted: &[Grant]) -> Result<Vec<(String, String)>> {
        let gate = session.dispatcher().gate();
        gate.set_grants(&self.profile, granted, Evidence::default())
            .map_err(|error| Failure::failed(format!("{}: {error}", self.profile.extension)))?;
        let package = self.package(session.supplier()).await?;
        let report = session.host().load(package).await.map_err(|error| Failure::failed(error.to_string()))?;
        Ok(report.failures().map(|(path, error)| (path.to_owned(), error.message.clone())).collect())
    }
}

/// What is recorded of a build.
fn record_of(output: &BuildOutput) -> BuildRecord {
    let inputs = output.artifact.artifact().metadata.inputs.clone();
    let mut record = BuildRecord { inputs, ..BuildRecord::default() };
    for (path, evidence) in &output.evidence {
        match evidence {
            FileEvidence::Read { secrets } => record.read.push((path.clone(), *secrets)),
            FileEvidence::Refused => record.refused.push(path.display().to_string()),
        }
    }
    record
}

/// All entries of an artifact, under its own path.
fn entries_of_artifact(file: &Path, metadata: &ArtifactMetadata) -> Vec<Entry> {
    let entry = |index| Entry { module: format!("ext:/{index}/index.js"), path: file.display().to_string() };
    (0..metadata.entries.len()).map(entry).collect()
}

/// The entries that discovery chose, as modules of the artifact: entry *i* is `ext:/i/index.js`.
fn wanted_entries(found: &PackageEntry) -> Vec<Entry> {
    let entry = |(index, path): (usize, &PathBuf)| Entry {
        module: format!("ext:/{index}/index.js"),
        path: path.display().to_string(),
    };
    found.entries.iter().enumerate().map(entry).collect()
}

/// The paths under which pi shows the entries: a folder that is one module is shown as it was named.
pub fn shown_entries(found: &PackageEntry) -> Vec<String> {
    match found.entries.as_slice() {
        [_] if found.is_module => vec![found.root.display().to_string()],
        entries => entries.iter().map(|entry| entry.display().to_string()).collect(),
    }
}
