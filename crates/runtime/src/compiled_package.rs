//! Compiles a package, describes it for the gate, and prepares it for the host.
//!
//! The build may read the files that the gate lets the extension read at run time, and the files it reads are recorded.

use crate::compile::Compiler;
use crate::supply::Supplier;
use crate::user_error::{Result, UserError};
use pijs_artifact::Verified;
use pijs_extc::{BuildFailure, BuildOutput, Code, FileAccess, FileEvidence, SourceMaps};
use pijs_host::{ExtensionEntry, Package};
use pijs_hostcall::{BuildRecord, Caller, Dispatcher, Evidence, Gate, Grant, Profile, ReadBy};
use pijs_packages::PackageEntry;
use pijs_protocol::ExtensionId;
use pijs_protocol::artifact::ArtifactMetadata;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

/// Grants and refusals of a package before its code is known.
pub type GrantsBeforeBuild = (Vec<Grant>, Vec<Grant>);

/// A package as `extc` compiled it. Cheap to clone.
#[derive(Clone)]
pub struct CompiledPackage {
    /// Identity for the gate: the package, its location and the files compiled into it.
    pub profile: Profile,
    /// Metadata of the build.
    pub metadata: ArtifactMetadata,
    artifact: Arc<Verified>,
    /// Folder that the file names in the metadata are relative to.
    place: PathBuf,
    entries: Vec<ExtensionEntry>,
}

impl CompiledPackage {
    /// Compiles packages for a session concurrently, or finds them in the user's cache; returns and records them in their order.
    /// A single file may import the files that its grants let it read. A build that was refused a file is recorded as well.
    /// `progress` receives the remaining packages each time one is done. Threads without a package left compile the units of
    /// `supplier` that new code imports.
    pub fn all_in_session(
        compiler: &Compiler,
        dispatcher: &Dispatcher,
        supplier: &Supplier,
        packages: &[(&PackageEntry, GrantsBeforeBuild)],
        progress: &(dyn Fn(&[&ExtensionId]) + Sync),
    ) -> Vec<Result<Self>> {
        let compilers: Vec<Result<Compiler>> = packages
            .iter()
            .map(|(found, (grants, never))| compiler_in_session(compiler, dispatcher, found, (grants, never.clone())))
            .collect();
        let jobs: Vec<Option<(&PackageEntry, &Compiler)>> = packages
            .iter()
            .zip(&compilers)
            .map(|((found, _), compiler)| Some((*found, compiler.as_ref().ok()?)))
            .collect();
        let left: Mutex<Vec<&ExtensionId>> = Mutex::new(jobs.iter().flatten().map(|(found, _)| &found.id).collect());
        let build = |job: &Option<(&PackageEntry, &Compiler)>| {
            let (found, compiler) = (*job)?;
            let output = compiler.build_found(found);
            let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
            left.retain(|id| **id != found.id);
            progress(&left);
            drop(left);
            if let Ok(new) = &output
                && !new.cached
            {
                supplier.add_ahead(&new.artifact.artifact().metadata);
            }
            Some(output)
        };
        let outputs = side_by_side(&jobs, build, || supplier.compile_ahead());
        let built = packages.iter().zip(outputs).map(|((found, _), output)| Some(Self::of(output?, dispatcher, found)));
        let built: Vec<Option<Result<Self>>> = built.collect();
        let finished = compilers.into_iter().zip(built).map(|(compiler, built)| match (compiler, built) {
            (Err(failure), _) => Err(failure),
            (Ok(_), built) => built.expect("a package that has a compiler is built"),
        });
        finished.collect()
    }

    /// Compiles a package, or finds it in the user's cache.
    pub fn new(compiler: &Compiler, dispatcher: &Dispatcher, found: &PackageEntry) -> Result<Self> {
        Self::of(compiler.build_found(found), dispatcher, found)
    }

    /// Describes the output of a build.
    fn of(output: Result<BuildOutput, BuildFailure>, dispatcher: &Dispatcher, found: &PackageEntry) -> Result<Self> {
        let id = found.id.as_str();
        let output = output.inspect_err(|failure| {
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
        // Files of an installed package are in the store, which is not writable to extensions.
        if found.installed.is_none() {
            dispatcher.gate().add_code(&found.id, output.places());
        }
        let entries = match found.artifact_file() {
            Some(file) => entries_of_artifact(file, &metadata),
            None => wanted_entries(found),
        };
        Ok(Self { profile, metadata, artifact: Arc::new(output.artifact), place: output.root, entries })
    }

    /// Returns whether `package` has the same code.
    pub fn is(&self, package: &Package) -> bool {
        self.profile == package.profile && self.entries == package.entries
    }

    /// Sets the path of each entry to the form that pi shows for an extension named on the command line.
    pub fn shown_as_named(mut self, found: &PackageEntry) -> Self {
        for (entry, shown) in self.entries.iter_mut().zip(shown_entries(found)) {
            entry.path = shown;
        }
        self
    }

    /// Returns the package for the host, with the supplied packages it imports.
    pub async fn package(self, supplier: &Supplier) -> Result<Package> {
        let supplied = supplier.for_extension(&self.metadata).await?;
        let maps = SourceMaps::of(&self.artifact);
        let package = Package::new(self.profile, self.artifact).with_supplied(supplied).with_positions(Rc::new(maps));
        Ok(Package { entries: self.entries, place: Some(self.place), ..package })
    }
}

/// Creates a compiler that reads only what the extension of the package may read.
fn compiler_in_session(
    compiler: &Compiler,
    dispatcher: &Dispatcher,
    found: &PackageEntry,
    (grants, never): (&[Grant], Vec<Grant>),
) -> Result<Compiler> {
    let Some(file) = found.loose_file() else { return Ok(compiler.clone()) };
    let profile = Profile::new(found.id.as_str()).loose(file, &found.root, None);
    // A separate gate for the build: grants of a running earlier version stay.
    let gate = Gate::builder(dispatcher.gate().policy().clone(), dispatcher.gate().places().clone()).build();
    // An unreadable scope is reported with the others, once the code is known.
    let readable: Vec<Grant> = grants.iter().filter(|grant| gate.check(&profile, grant).is_ok()).cloned().collect();
    gate.set_grants(&profile, &readable, Evidence::default())
        .map_err(|error| UserError::usage(format!("{}: {error}", profile.extension)))?;
    gate.set_never(&profile, &never);
    let permit = gate.permit(&Caller::new(Arc::new(profile)), "fs");
    // A file that the extension wrote itself is data, not code of its author.
    let reads = move |path: &Path| permit.reads(path) == Ok(ReadBy::Grant);
    let access = FileAccess::new(gate.places().clone()).readable(reads);
    Ok(compiler.with_access(access))
}

/// Processes items on several threads and returns the results in order. Each thread calls `after` when it finds no item.
fn side_by_side<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync, after: impl Fn() + Sync) -> Vec<R> {
    // Querying the number of cores reads system files, so it is skipped for one item.
    let cores = || std::thread::available_parallelism().map_or(1, NonZero::get);
    let threads = if items.len() > 1 { cores().min(items.len()).min(MAX_BUILDS) } else { 1 };
    let next = AtomicUsize::new(0);
    let (sender, done) = std::sync::mpsc::channel();
    let run = |sender: Sender<(usize, R)>| {
        while let Some((index, item)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, items.get(at)?)))
        {
            // The receiver outlives the workers.
            let _ = sender.send((index, work(item)));
        }
        after();
    };
    std::thread::scope(|scope| {
        for number in 1..threads {
            let (run, sender) = (&run, sender.clone());
            // Without other threads this one does all the work.
            let _ =
                std::thread::Builder::new().name(format!("pi-build-{number}")).spawn_scoped(scope, move || run(sender));
        }
        run(sender);
    });
    let mut answers: Vec<(usize, R)> = done.into_iter().collect();
    answers.sort_by_key(|(index, _)| *index);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// Maximum number of packages that are compiled at once: each build takes hundreds of megabytes, and all cores for parts of it.
const MAX_BUILDS: usize = 4;

/// Returns the record of a build.
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

/// Lists all entries of an artifact, under its own path.
fn entries_of_artifact(file: &Path, metadata: &ArtifactMetadata) -> Vec<ExtensionEntry> {
    let entry = |index| ExtensionEntry { module: format!("ext:/{index}/index.js"), path: file.display().to_string() };
    (0..metadata.entries.len()).map(entry).collect()
}

/// Lists the entries that discovery selected, as modules of the artifact: entry *i* is `ext:/i/index.js`.
fn wanted_entries(found: &PackageEntry) -> Vec<ExtensionEntry> {
    let entry = |(index, path): (usize, &PathBuf)| ExtensionEntry {
        module: format!("ext:/{index}/index.js"),
        path: path.display().to_string(),
    };
    found.entries.iter().enumerate().map(entry).collect()
}

/// Returns the paths under which pi shows the entries: a folder that is one module is shown as the folder.
pub fn shown_entries(found: &PackageEntry) -> Vec<String> {
    match found.entries.as_slice() {
        [_] if found.is_module => vec![found.root.display().to_string()],
        entries => entries.iter().map(|entry| entry.display().to_string()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::side_by_side;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn results_are_returned_in_the_order_of_the_items() {
        let items: Vec<usize> = (0..100).collect();
        let ended = AtomicUsize::new(0);
        let after = || _ = ended.fetch_add(1, Ordering::Relaxed);
        assert_eq!(side_by_side(&items, |item| item * 2, after), items.iter().map(|item| item * 2).collect::<Vec<_>>());
        assert!(ended.load(Ordering::Relaxed) > 0);
        assert!(side_by_side(&[] as &[usize], |item| *item, || {}).is_empty());
    }
}
