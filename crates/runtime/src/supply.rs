//! Fetches packages that pi supplies to its extensions: typebox, pi-tui and others, when an extension imports them.
//!
//! `extc` defines the packages and compiles them; `pijs-packages` fetches and verifies them. A cached unit costs one read, and
//! a unit that is not imported costs nothing.

use crate::environment::Environment;
use crate::notices::Notices;
use crate::slow_task::SlowTask;
use crate::user_error::{Result, UserError};
use pijs_artifact::Verified;
use pijs_durable::OwnTemporary;
use pijs_extc::{Cache, Code, Pinned, Supply, Unit, embedded};
use pijs_packages::{PackageError, PinnedPackage, TarballCache};
use pijs_protocol::artifact::{ArtifactMetadata, Finding};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Units to compile before they are asked for.
#[derive(Default)]
struct Ahead {
    /// Names of all units that were added.
    added: BTreeSet<&'static str>,
    waiting: VecDeque<&'static Unit>,
}

/// Provides the compiled units of one run, by name.
pub struct Supplier {
    environment: Environment,
    cache: Option<Cache>,
    /// Registry to use instead of the user's.
    registry: Option<String>,
    /// Whether missing packages may be fetched.
    fetches: bool,
    ready: Mutex<BTreeMap<String, Arc<Verified>>>,
    ahead: Mutex<Ahead>,
    /// Whether the download was announced.
    announced: AtomicBool,
}

impl Supplier {
    /// Creates a supplier with the environment's registries; compiled units are stored in `cache`.
    pub fn new(environment: &Environment, cache: Option<Cache>) -> Self {
        Self {
            environment: environment.clone(),
            cache,
            registry: None,
            fetches: true,
            ready: Mutex::default(),
            ahead: Mutex::default(),
            announced: AtomicBool::new(false),
        }
    }

    /// Sets the registry, in place of the user's.
    pub fn registry(self, registry: Option<&str>) -> Self {
        Self { registry: registry.map(str::to_owned), ..self }
    }

    /// Disables downloads.
    pub fn offline(self, is_offline: bool) -> Self {
        Self { fetches: !is_offline, ..self }
    }

    /// Returns the units that a compiled extension imports, directly or indirectly.
    ///
    /// A computed `import()` may name any unit: an extension with one gets the units of whole modules, too, if available. They
    /// are evaluated when they are imported.
    pub async fn for_extension(&self, metadata: &ArtifactMetadata) -> Result<Vec<Arc<Verified>>> {
        let mut supplied: Vec<Arc<Verified>> = Vec::new();
        let mut taken: Vec<&str> = Vec::new();
        let mut waiting: VecDeque<(String, &Unit)> = VecDeque::new();
        waiting.extend(units_of(metadata));
        while let Some((module, unit)) = waiting.pop_front() {
            if taken.contains(&unit.name()) {
                continue;
            }
            taken.push(unit.name());
            let artifact = self.unit(unit).await.map_err(|failure| {
                let who = if metadata.name.is_empty() { "an extension" } else { &metadata.name };
                failure.within(&format!("{who} imports `{module}`, which pi supplies"))
            })?;
            waiting.extend(units_of(&artifact.artifact().metadata));
            supplied.push(artifact);
        }
        if metadata.findings.iter().any(is_computed_import) {
            for unit in Supply::pinned().whole_units().filter(|unit| !taken.contains(&unit.name())) {
                // Without the unit such an import rejects, but the extension may never reach it.
                let unit = tokio::time::timeout(FETCHED_WITHIN, self.unit(unit)).await;
                supplied.extend(unit.ok().and_then(Result::ok));
            }
        }
        Ok(supplied)
    }

    /// Returns a unit: from this run, from this program, from the cache, or fetched and compiled.
    pub async fn unit(&self, unit: &Unit) -> Result<Arc<Verified>> {
        if let Some(ready) = self.known(unit) {
            return Ok(ready);
        }
        let packages: Vec<PinnedPackage> = unit.packages().map(pinned).collect();
        let folder = self.unpacked(&packages, is_code).await?;
        let _slow = SlowTask::begin(
            &self.environment.notices,
            format!("compiling {} for the first time (supplied by pi)", unit.name()),
        );
        self.compile(unit, &folder)
    }

    /// Adds the units that newly compiled code imports to those of [`Supplier::compile_ahead`].
    pub(crate) fn add_ahead(&self, metadata: &ArtifactMetadata) {
        let mut ahead = locked(&self.ahead);
        for (_, unit) in units_of(metadata) {
            if ahead.added.insert(unit.name()) {
                ahead.waiting.push_back(unit);
            }
        }
    }

    /// Compiles added units, and the units that they import, on the calling thread until none is waiting. Several threads may
    /// call it. Skips units that would have to be fetched. Errors are left to [`Supplier::unit`], which tries again.
    pub(crate) fn compile_ahead(&self) {
        let next = || locked(&self.ahead).waiting.pop_front();
        while let Some(unit) = next() {
            let compiled = self.known(unit).or_else(|| {
                let packages: Vec<PinnedPackage> = unit.packages().map(pinned).collect();
                let (folder, depot, _) = self.folder().ok()?;
                depot
                    .only(is_code)
                    .unpack_cached(&packages, folder.path())
                    .ok()?
                    .then(|| self.compile(unit, &folder).ok())?
            });
            if let Some(compiled) = compiled {
                self.add_ahead(&compiled.artifact().metadata);
            }
        }
    }

    /// Returns a unit from this run, from this program, or from the cache.
    fn known(&self, unit: &Unit) -> Option<Arc<Verified>> {
        if let Some(ready) = locked(&self.ready).get(unit.name()) {
            return Some(Arc::clone(ready));
        }
        let cached = unit.ready(self.cache.as_ref())?;
        locked(&self.ready).insert(unit.name().to_owned(), Arc::clone(&cached));
        Some(cached)
    }

    fn compile(&self, unit: &Unit, folder: &OwnTemporary) -> Result<Arc<Verified>> {
        let compiled = unit.compile(folder.path(), self.cache.as_ref())?;
        locked(&self.ready).insert(unit.name().to_owned(), Arc::clone(&compiled));
        Ok(compiled)
    }

    /// Creates a folder to unpack packages in, and opens the cache of tarballs, which is in the last folder.
    fn folder(&self) -> Result<(OwnTemporary, TarballCache, PathBuf)> {
        let failed = |place: &Path| {
            let place = place.display().to_string();
            move |error| UserError::failed(format!("cannot create a folder in {place}: {error}"))
        };
        // Programs of extensions cannot write beside the cache, but may in the folder for temporary files.
        let place = match self.kept().and_then(|kept| Some(kept.parent()?.to_owned())) {
            Some(beside) => fs::create_dir_all(&beside).map(|()| beside.clone()).map_err(failed(&beside))?,
            None => self.environment.temp.clone(),
        };
        let folder = OwnTemporary::new_in(&place, "pijs").map_err(failed(&place))?;
        let kept = self.kept().unwrap_or_else(|| folder.path().join("tarballs"));
        let depot = TarballCache::open(&kept, self.environment.npm_config(self.registry.as_deref())?)?;
        Ok((folder, depot.carrying(embedded::packages()), kept))
    }

    /// Unpacks packages below `node_modules` of a new folder.
    async fn unpacked(&self, packages: &[PinnedPackage], is_unpacked: fn(&str) -> bool) -> Result<OwnTemporary> {
        let (folder, depot, kept) = self.folder()?;
        let depot = depot.only(is_unpacked);
        let absent: Vec<&PinnedPackage> = packages.iter().filter(|package| !depot.holds(package)).collect();
        if !self.fetches && !absent.is_empty() {
            let failure = UserError::failed(format!("{} would have to be fetched", named(&absent)));
            return Err(
                failure.help("run `pi ext supply` once where the npm registry can be reached, without PI_OFFLINE")
            );
        }
        let is_first = !absent.is_empty() && !self.announced.swap(true, Ordering::Relaxed);
        unpack(&self.environment.notices, &depot, packages, &absent, folder.path(), is_first).await.map_err(
            |error| {
                UserError::failed(error.to_string()).help(format!(
                    "let this machine reach the npm registry once ({}); it is kept in {} from then on",
                    named(&packages.iter().collect::<Vec<_>>()),
                    kept.display(),
                ))
            },
        )?;
        Ok(folder)
    }

    /// Unpacks packages below `node_modules` of a new folder.
    pub async fn unpacked_all(&self, packages: impl Iterator<Item = Pinned<'_>>) -> Result<OwnTemporary> {
        self.unpacked(&packages.map(pinned).collect::<Vec<_>>(), |_| true).await
    }

    /// Copies files and folders of one package into a new folder, which appears complete.
    pub async fn unpack_some(&self, name: &str, members: &[&str], target: &Path) -> Result<()> {
        let all = Supply::pinned().units().flat_map(Unit::packages);
        let package = all.into_iter().find(|package| package.name == name).map(pinned);
        let package = package.ok_or_else(|| UserError::failed(format!("{name} is not among the pinned packages")))?;
        let failed = |error: std::io::Error| UserError::failed(format!("{}: {error}", target.display()));
        let beside = target.parent().unwrap_or(target);
        std::fs::create_dir_all(beside).map_err(failed)?;
        let unpacked = self.unpacked(std::slice::from_ref(&package), |_| true).await?;
        let chosen = OwnTemporary::new_in(beside, ".pi").map_err(failed)?;
        for member in members {
            let from = unpacked.path().join("node_modules").join(name).join(member);
            copy(&from, &chosen.path().join(member)).map_err(failed)?;
        }
        chosen.keep_as(target).map_err(failed)
    }

    /// Returns the folder of tarballs, beside the artifact cache.
    fn kept(&self) -> Option<PathBuf> {
        Some(self.cache.as_ref()?.dir().parent()?.join("packages"))
    }
}

/// Returns whether compiling a package may read one of its files. Most others are type declarations and source maps; with
/// them, a first start spent half of its system time on creating files (ext4 avoids inodes that were freed a moment ago).
fn is_code(path: &str) -> bool {
    let extension = Path::new(path).extension().and_then(std::ffi::OsStr::to_str);
    matches!(extension, Some("js" | "mjs" | "cjs" | "json"))
}

/// Lists the modules that an artifact imports from units, with their units.
fn units_of(metadata: &ArtifactMetadata) -> Vec<(String, &'static Unit)> {
    let imported = metadata.host_imports.keys();
    imported.filter_map(|module| Some((module.clone(), Supply::pinned().unit_of(module)?))).collect()
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether a finding is a computed import of the author's own code. Dependencies use them for modules in their own
/// folder.
fn is_computed_import(finding: &Finding) -> bool {
    let is_of_dependency = finding.file.starts_with("dep:") || finding.file.contains("node_modules/");
    finding.code == Code::DynamicImport.as_str() && !is_of_dependency
}

/// Maximum wait at start for units that only a computed import may name.
const FETCHED_WITHIN: Duration = Duration::from_secs(10);

/// Time between two lines about a download.
const PROGRESS: Duration = Duration::from_secs(2);

/// Unpacks packages into a folder, with notices about downloads.
async fn unpack(
    notices: &Notices,
    depot: &TarballCache,
    packages: &[PinnedPackage],
    absent: &[&PinnedPackage],
    folder: &Path,
    is_first: bool,
) -> Result<(), PackageError> {
    let unpacking = depot.unpack(packages, folder);
    if absent.is_empty() {
        return unpacking.await;
    }
    let all = absent.len();
    let plural = if all == 1 { "" } else { "s" };
    if is_first {
        notices.show(&format!("fetching what pi supplies to extensions; this happens once: {}", named(absent)));
    }
    tokio::pin!(unpacking);
    loop {
        tokio::select! {
            biased;
            unpacked = &mut unpacking => return unpacked,
            () = tokio::time::sleep(PROGRESS) => {
                let here = absent.iter().filter(|package| depot.holds(package)).count();
                notices.show(&format!("still fetching {}: {here} of {all} package{plural} fetched", named(absent)));
            }
        }
    }
}

/// Lists as many packages as fit into one line.
fn named(packages: &[&PinnedPackage]) -> String {
    const MOST: usize = 4;
    let names = packages.iter().take(MOST).map(|package| format!("{}@{}", package.name, package.version));
    let mut names: Vec<String> = names.collect();
    if packages.len() > MOST {
        names.push("...".to_owned());
    }
    names.join(", ")
}

fn pinned(package: Pinned<'_>) -> PinnedPackage {
    PinnedPackage {
        name: package.name.to_owned(),
        version: package.version.to_owned(),
        integrity: package.integrity.to_owned(),
    }
}

/// Copies a file or a folder, also between disks.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    if !from.is_dir() {
        return std::fs::copy(from, to).map(drop);
    }
    std::fs::create_dir(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pijs_artifact::Artifact;
    use pijs_packages::Dirs;
    use pijs_protocol::artifact::{EngineBuild, Verdict};

    fn metadata() -> ArtifactMetadata {
        let engine = EngineBuild { name: "none".into(), version: "1".into(), bytecode: 1, target: "none".into() };
        ArtifactMetadata::new("x", "1.0.0", engine)
    }

    fn environment() -> Environment {
        Environment {
            dirs: Dirs { agent_dir: "/agent".into(), cwd: "/project".into(), home: "/home".into() },
            temp: std::env::temp_dir(),
            variables: BTreeMap::new(),
            stderr_is_terminal: false,
            stdin_is_terminal: false,
            stdout_is_terminal: false,
            trusts: None,
            session_dir: None,
            session: None,
            tape: None,
            log: None,
            inspected_by: None,
            started_with: None,
            notices: Notices::to_stderr(),
        }
    }

    #[tokio::test]
    async fn packages_are_unpacked_where_no_program_of_an_extension_writes() {
        let home = tempfile::tempdir().expect("a folder");
        let cache = Cache::open(home.path().join("artifacts"), pijs_artifact::InstallKey::from_bytes([7; 32]));
        let supplier = Supplier::new(&environment(), Some(cache)).offline(true);
        let folder = supplier.unpacked(&[], |_| true).await.expect("a folder");
        assert_eq!(folder.path().parent(), Some(home.path()));
    }

    #[test]
    fn a_unit_that_must_be_fetched_is_not_compiled_ahead() {
        let home = tempfile::tempdir().expect("a folder");
        let cache = Cache::open(home.path().join("artifacts"), pijs_artifact::InstallKey::from_bytes([7; 32]));
        let supplier = Supplier::new(&environment(), Some(cache));
        let host_imports = BTreeMap::from([("typebox".to_owned(), vec!["Type".to_owned()])]);
        supplier.add_ahead(&ArtifactMetadata { host_imports, ..metadata() });
        assert_eq!(locked(&supplier.ahead).waiting.iter().map(|unit| unit.name()).collect::<Vec<_>>(), ["typebox"]);
        // There is no async runtime here, so that a request would panic.
        supplier.compile_ahead();
        assert!(locked(&supplier.ahead).waiting.is_empty());
        assert!(locked(&supplier.ready).is_empty());
        assert_eq!(std::fs::read_dir(home.path()).expect("a folder").count(), 0, "no folder is left");
    }

    #[tokio::test]
    async fn computed_imports_supply_units_that_no_import_names() {
        let supplier = Supplier::new(&environment(), None).offline(true);
        for unit in Supply::pinned().whole_units().filter(|unit| unit.name() == "typebox") {
            let artifact = Verified::compiled_here(Artifact { metadata: metadata(), modules: Vec::new() });
            locked(&supplier.ready).insert(unit.name().to_owned(), Arc::new(artifact));
        }
        let computed = |file: &str| Finding {
            code: "BD_DYNAMIC_IMPORT".to_owned(),
            class: Verdict::Warning,
            file: file.to_owned(),
            line: 1,
            column: 1,
            message: String::new(),
            help: None,
            ends_load: false,
        };
        // pi-tui is neither cached nor fetched, which is not an error.
        for (findings, count) in [
            (vec![], 0),
            (vec![computed("dep:y@1.0.0/a.js"), computed("node_modules/y/a.js")], 0),
            (vec![computed("src/a.ts")], 1),
        ] {
            let metadata = ArtifactMetadata { findings: findings.clone(), ..metadata() };
            let supplied = supplier.for_extension(&metadata).await.expect("an extension that imports nothing by name");
            assert_eq!(supplied.len(), count, "{findings:?}");
        }
    }
}
