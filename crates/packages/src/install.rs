//! Installs, restores, lists and removes packages.
//!
//! An install from a registry has a fixed order of steps, and only the last three are visible to others: resolve, download and
//! verify, unpack into staging, check the manifest, build, **move into place, lock file, settings**. These three form one
//! [`PackageChange`]: made under the lock, rolled back if one of them fails, and completed by the next process if this one is
//! killed.

mod fetch;
mod intact;
mod local;
mod own_modules;
mod repository;

use crate::archive::InstallLimits;
use crate::change::{PackageChange, settle};
use crate::entries::{missing_entries, package_entries, unbuilt_component};
use crate::error::{InstallCode, PackageError, Result};
use crate::git::{GitOptions, GitSource};
use crate::lock::LockFile;
use crate::manifest::Manifest;
use crate::npmrc::NpmConfig;
use crate::registry::RegistryClient;
use crate::resources::count_resources;
use crate::settings::PackageSettings;
use crate::source::{PackageName, PackageSource, VersionRequest};
use crate::store::{LockedStore, PackageStore};
use crate::{Dirs, InstallScope};
use fetch::Plan;
use nodejs_semver::Version;
use pijs_durable::Disk;
use pijs_protocol::guard;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use tracing::Instrument as _;

/// Checks and compiles a package before it is moved into place, so that an unusable package does not replace the installed
/// version.
///
/// The command line passes `extc`, the check of capability manifests and the user's consent. A refusal is returned unchanged, and
/// the installed version stays.
pub trait Builder: Send + Sync {
    /// Builds the entries of a package, which is complete under [`BuildInput::root`]. A package may have no entries.
    fn build(&self, input: &BuildInput) -> Result<BuildReport>;
}

impl<F: Fn(&BuildInput) -> Result<BuildReport> + Send + Sync> Builder for F {
    fn build(&self, input: &BuildInput) -> Result<BuildReport> {
        self(input)
    }
}

/// Input of a [`Builder`].
#[derive(Debug, Clone)]
pub struct BuildInput {
    /// Id of the extension: `npm:NAME` or `path:PATH`.
    pub id: String,
    /// Current folder of the package; for a package of a registry this is in staging, not its final path.
    pub root: PathBuf,
    /// Final folder of the package.
    pub place: PathBuf,
    /// Extension entries of the package, in order, below the root.
    pub entries: Vec<PathBuf>,
    /// Scope of the install.
    pub scope: InstallScope,
    /// Version in the package's manifest.
    pub version: Option<String>,
    /// Installed version that the package replaces; absent if there is none, and for a local path, which is used in place.
    pub replaces: Option<String>,
}

/// Output of a [`Builder`].
#[derive(Debug, Clone, Default)]
pub struct BuildReport {
    /// Warnings for the user, one line each.
    pub warnings: Vec<String>,
}

/// Observes an install; the command line draws a bar on a terminal.
pub trait InstallProgress: Send + Sync {
    /// A step begins; `what` describes it.
    fn step(&self, what: &str);
    /// Reports how many packages of the current step are done.
    fn done(&self, done: usize, total: usize);
}

/// Ignores all progress.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProgress;

impl InstallProgress for NoProgress {
    fn step(&self, _what: &str) {}
    fn done(&self, _done: usize, _total: usize) {}
}

/// An install that succeeded.
#[derive(Debug, Clone)]
pub struct Installed {
    /// `npm:NAME` or `path:PATH`.
    pub id: String,
    /// Name in the package's `package.json`.
    pub name: Option<String>,
    /// Source that settings list.
    pub source: String,
    /// Version; absent for a local folder without one.
    pub version: Option<String>,
    /// Folder or file that the package is installed at.
    pub path: PathBuf,
    /// Entries of the package, below `path`.
    pub entries: Vec<PathBuf>,
    /// Number of dependencies that were installed with the package.
    pub dependencies: usize,
    /// Scripts that were not run, optional dependencies that were left out, and findings of the builder.
    pub warnings: Vec<String>,
    /// Whether the install changed anything; false for a package that was already in place, unchanged.
    pub is_new: bool,
}

/// Result for one package among several.
#[derive(Debug)]
pub struct PackageAttempt {
    /// `npm:NAME` or `git:HOST/PATH`.
    pub id: String,
    /// Result of the operation. An error leaves this package unchanged and does not affect the others.
    pub outcome: Result<Installed>,
}

/// A package that settings list.
#[derive(Debug, Clone)]
pub struct ListedPackage {
    /// `npm:NAME` or `path:PATH`.
    pub id: String,
    /// Name in the package's `package.json`.
    pub name: Option<String>,
    /// Scope whose settings list the package.
    pub scope: InstallScope,
    /// Source that settings list.
    pub source: String,
    /// Version in the package's `package.json`.
    pub version: Option<String>,
    /// Path that the package is, or would be, installed at.
    pub path: PathBuf,
    /// Whether the package is on disk.
    pub present: bool,
}

/// A package that was removed.
#[derive(Debug, Clone)]
pub struct Removed {
    /// `npm:NAME` or `path:PATH`.
    pub id: String,
    /// Name in the package's `package.json`.
    pub name: Option<String>,
    /// Former path of the package; a local folder still exists there.
    pub path: PathBuf,
}

/// Installs, restores, lists and removes the packages of one user and one project.
pub struct Installer {
    dirs: Dirs,
    registry: RegistryClient,
    limits: InstallLimits,
    builder: Arc<dyn Builder>,
    progress: Arc<dyn InstallProgress>,
    disk: Disk,
    similar_names: bool,
    git: GitOptions,
}

impl Installer {
    /// Creates an installer for the given folders and registries; nothing is read or created yet.
    pub fn new(dirs: Dirs, npm: NpmConfig, builder: Arc<dyn Builder>) -> Result<Self> {
        Self::with_limits(dirs, npm, builder, InstallLimits::default())
    }

    /// Creates an installer with other limits.
    pub fn with_limits(dirs: Dirs, npm: NpmConfig, builder: Arc<dyn Builder>, limits: InstallLimits) -> Result<Self> {
        let registry = RegistryClient::new(npm, limits.clone())?;
        let progress = Arc::new(NoProgress);
        let (disk, git) = (Disk::system(), GitOptions::default());
        Ok(Self { dirs, registry, limits, builder, progress, disk, similar_names: false, git })
    }

    /// Reports each step to `progress`.
    #[must_use]
    pub fn progress(mut self, progress: Arc<dyn InstallProgress>) -> Self {
        self.progress = progress;
        self
    }

    /// Accepts a package although its name resembles that of an installed one.
    #[must_use]
    pub fn similar_names(mut self, allowed: bool) -> Self {
        self.similar_names = allowed;
        self
    }

    /// Sets the git program; without it git sources are refused.
    #[must_use]
    pub fn git(mut self, git: GitOptions) -> Self {
        self.git = git;
        self
    }

    /// Ignores versions that were published after `time`, so that others can examine an update first.
    #[must_use]
    pub fn not_newer_than(mut self, time: SystemTime) -> Self {
        self.registry.not_newer_than(time);
        self
    }

    /// Sets the disk to write to.
    #[must_use]
    pub fn disk(mut self, disk: Disk) -> Self {
        self.disk = disk;
        self
    }

    /// Installs a source as the user wrote it, in place of an older install of the same package.
    ///
    /// A package of a registry is resolved anew; a local path is built and listed, but stays where it is.
    ///
    /// # Errors
    ///
    /// A refusal leaves packages, lock file and settings unchanged.
    pub async fn install(&self, source: &str, scope: InstallScope) -> Result<Installed> {
        let source = PackageSource::parse(source, &self.dirs.cwd, &self.dirs.home)?;
        let span = tracing::debug_span!("install", extension_id = source.identity());
        let installing = async {
            match source {
                PackageSource::Path(path) => self.install_path(&path, scope).await,
                PackageSource::Npm { name, range } => self.install_npm(&name, &range, scope).await,
                PackageSource::Git(git) => self.install_git(git, scope).await,
            }
        };
        installing.instrument(span).await
    }

    /// Reports and traces a step that begins.
    fn step(&self, what: &str) {
        tracing::debug!(event = "install.step", "{what}");
        self.progress.step(what);
    }

    /// Installs packages that settings list but that are not on disk, with the same bytes if the lock file has an entry. A
    /// failure does not stop the others.
    pub async fn restore(&self, scope: InstallScope) -> Result<Vec<PackageAttempt>> {
        let mut attempts = Vec::new();
        let missing = self.list()?.into_iter().filter(|listed| listed.scope == scope && !listed.present);
        for listed in missing {
            let outcome = match PackageSource::from_settings(&listed.source, &self.dirs.root(scope), &self.dirs.home) {
                Ok(PackageSource::Npm { name, range }) => self.restore_npm(&name, &range, scope).await,
                Ok(PackageSource::Git(git)) => self.restore_git(git, scope).await,
                Ok(PackageSource::Path(_)) => continue,
                Err(error) => Err(error),
            };
            self.note(&mut attempts, PackageAttempt { id: listed.id, outcome })?;
        }
        Ok(attempts)
    }

    /// Installs the newest version that settings allow, of one package or of all; exact versions stay. A failure does not stop
    /// the others.
    pub async fn update(&self, source: Option<&str>, scope: InstallScope) -> Result<Vec<PackageAttempt>> {
        let only = source.map(|text| self.find(text, scope)).transpose()?;
        let mut attempts = Vec::new();
        for listed in self.list()?.into_iter().filter(|listed| listed.scope == scope) {
            if only.as_ref().is_some_and(|only| only.id != listed.id) {
                continue;
            }
            let outcome = match PackageSource::from_settings(&listed.source, &self.dirs.root(scope), &self.dirs.home) {
                Ok(PackageSource::Npm { name, range }) => self.update_npm(&name, &range, scope).await,
                Ok(PackageSource::Git(git)) if !git.is_pinned() => self.install_git(git, scope).await.map(Some),
                Ok(PackageSource::Git(_) | PackageSource::Path(_)) => continue,
                Err(error) => Err(error),
            };
            if let Some(outcome) = outcome.transpose() {
                self.note(&mut attempts, PackageAttempt { id: listed.id, outcome })?;
            }
        }
        Ok(attempts)
    }

    /// Adds the result of one package.
    fn note(&self, attempts: &mut Vec<PackageAttempt>, attempt: PackageAttempt) -> Result<()> {
        match attempt.outcome {
            Err(error) if !guard!(PackagesEach) => Err(error),
            outcome => {
                attempts.push(PackageAttempt { outcome, ..attempt });
                Ok(())
            }
        }
    }

    /// Updates an npm package. Returns `None` if there is no newer version.
    async fn update_npm(&self, name: &PackageName, range: &str, scope: InstallScope) -> Result<Option<Installed>> {
        if Version::parse(range).is_ok() || !self.has_newer(name, range, scope).await? {
            return Ok(None);
        }
        self.install_npm(name, range, scope).await.map(Some)
    }

    /// Lists the packages in settings, user scope first, in the order of the files.
    pub fn list(&self) -> Result<Vec<ListedPackage>> {
        let mut all = Vec::new();
        for scope in [InstallScope::User, InstallScope::Project] {
            let root = self.dirs.root(scope);
            for configured in PackageSettings::read(&self.disk, &root)?.packages() {
                let Ok(source) = PackageSource::from_settings(&configured.text, &root, &self.dirs.home) else {
                    all.push(ListedPackage {
                        id: configured.text.clone(),
                        name: None,
                        scope,
                        source: configured.text,
                        version: None,
                        path: root.clone(),
                        present: false,
                    });
                    continue;
                };
                let path = PackageStore::place_of(&root, &source);
                let manifest = Manifest::read(&path).ok().flatten();
                let present = match &source {
                    PackageSource::Path(path) => path.exists(),
                    // The target of a link is not the package.
                    _ => PackageStore::holds(&self.disk, &root, scope, &path).unwrap_or(false),
                };
                let (name, version) = manifest.map_or((None, None), |manifest| (manifest.name, manifest.version));
                all.push(ListedPackage {
                    id: source.identity(),
                    name,
                    scope,
                    source: configured.text,
                    version,
                    path,
                    present,
                });
            }
        }
        Ok(all)
    }

    /// Removes a package from settings, lock file and disk, by its source or its name. A local folder is only removed from the
    /// settings.
    pub fn remove(&self, source: &str, scope: InstallScope) -> Result<Removed> {
        let found = self.find(source, scope)?;
        let root = self.dirs.root(scope);
        let store = PackageStore::open(&self.disk, &root, scope)?;
        let held = self.lock(&store)?;
        if let Some(git) = GitSource::parse(&found.id) {
            self.check_holds_none(&store, &git?)?;
        }
        if ["npm:", "git:"].iter().any(|origin| found.id.starts_with(origin)) {
            let (mut lock, lock_before) = LockFile::read_text(store.files(), &root)?;
            lock.packages.remove(&found.id);
            let staging = store.stage("remove")?;
            let change = PackageChange {
                identity: found.id.clone(),
                staged: staging.path().join("package"),
                manifest: None,
                source: None,
                listed: PackageSettings::read(store.files(), &root)?.listed(&found.id, &self.dirs.home),
                lock_before,
                lock_after: lock.to_text(),
            };
            change.make(&held, &self.dirs.home)?;
        } else {
            let mut settings = PackageSettings::read(store.files(), &root)?;
            settings.remove(&found.id, &self.dirs.home);
            settings.save()?;
        }
        Ok(Removed { id: found.id, name: found.name, path: found.path })
    }

    fn find(&self, text: &str, scope: InstallScope) -> Result<ListedPackage> {
        let wanted = PackageSource::parse(text, &self.dirs.cwd, &self.dirs.home).ok().map(|source| source.identity());
        let listed: Vec<ListedPackage> = self.list()?.into_iter().filter(|listed| listed.scope == scope).collect();
        let names: Vec<&str> = listed.iter().map(|listed| listed.source.as_str()).collect();
        let help = if names.is_empty() {
            "nothing is installed in this scope".to_owned()
        } else {
            format!("installed: {}", names.join(", "))
        };
        let by_name = |listed: &ListedPackage| listed.name.as_deref() == Some(text);
        let position = listed
            .iter()
            .position(|listed| Some(&listed.id) == wanted.as_ref() || listed.source == text || listed.id == text)
            // A single file can be named by its path, as in a command.
            .or_else(|| listed.iter().position(|listed| !text.is_empty() && listed.path == self.dirs.cwd.join(text)))
            .or_else(|| listed.iter().position(by_name));
        match position {
            Some(position) => Ok(listed.into_iter().nth(position).expect("the position was just found")),
            None => Err(PackageError::new(
                InstallCode::Source,
                crate::source::printable(text),
                format!("not among the {} packages", scope.as_str()),
            )
            .help(help)),
        }
    }

    /// Returns whether the registry has a version above the locked one.
    async fn has_newer(&self, name: &PackageName, range: &str, scope: InstallScope) -> Result<bool> {
        let lock = LockFile::read(&self.disk, &self.dirs.root(scope))?;
        let Some(locked) = lock.packages.get(&format!("npm:{name}")) else { return Ok(true) };
        self.check_registries(&lock, name)?;
        let offered = self.registry.document(name).await?.pick(range)?.version;
        let newer = Version::parse(&offered).ok() > Version::parse(&locked.version).ok();
        Ok(newer)
    }

    /// Refuses a new name that resembles an installed one, which is most likely the name that was meant.
    fn check_similar(&self, name: &PackageName) -> Result<()> {
        if self.similar_names || !guard!(PackagesSimilarName) {
            return Ok(());
        }
        for listed in self.list()? {
            let Some(known) = listed.id.strip_prefix("npm:") else { continue };
            if known == name.as_str() {
                return Ok(());
            }
            if let Some(difference) = crate::similar::difference(name.as_str(), known) {
                let why = format!("its name can be taken for {known}, which is installed: {difference}");
                return Err(PackageError::new(InstallCode::Name, format!("npm:{name}"), why)
                    .help("check the spelling; if it is the one you mean, add --similar-name"));
            }
        }
        Ok(())
    }

    async fn install_npm(&self, name: &PackageName, range: &str, scope: InstallScope) -> Result<Installed> {
        let root = self.dirs.root(scope);
        self.check_similar(name)?;
        let store = PackageStore::open(&self.disk, &root, scope)?;
        let lock = LockFile::read(store.files(), &root)?;
        self.check_registries(&lock, name)?;
        self.step(&format!("resolving {name}"));
        let info = self.registry.document(name).await?.pick(range)?;
        let source = PackageSource::Npm { name: name.clone(), range: range.to_owned() };
        refuse_step_back(&lock, &source, range, &info)?;
        if let Some(locked) = lock.packages.get(&source.identity()).filter(|locked| locked.version == info.version)
            && let Some(installed) = self.keep_in_place((&store, scope), &source, locked)?
        {
            return Ok(installed);
        }
        let tree = crate::resolve::resolve(&self.registry, &self.limits, name, info.clone(), Vec::new()).await?;
        for placed in &tree.packages {
            self.check_registries(&lock, &placed.name)?;
        }
        let plan = Plan::from_tree(&self.registry, &tree);
        let staged = self.fetch(&store, &format!("npm:{name}"), None, &plan).await?;
        staged.manifest.agrees_with(&info)?;
        // Another process may have installed the package in the meantime.
        let unchanged = |lock: &LockFile| refuse_step_back(lock, &source, range, &info);
        self.finish((&store, scope), &source, staged, tree.notes, &unchanged).await
    }

    async fn restore_npm(&self, name: &PackageName, range: &str, scope: InstallScope) -> Result<Installed> {
        let root = self.dirs.root(scope);
        let source = PackageSource::Npm { name: name.clone(), range: range.to_owned() };
        let store = PackageStore::open(&self.disk, &root, scope)?;
        let lock = LockFile::read(store.files(), &root)?;
        let entry = lock.packages.get(&source.identity()).cloned();
        let allowed =
            |version: &str| Version::parse(version).is_ok_and(|version| crate::source::allows(range, &version));
        let Some(entry) = entry.filter(|entry| allowed(&entry.version)) else {
            return self.install_npm(name, range, scope).await;
        };
        let plan = Plan::from_lock(&entry)?;
        for name in plan.names() {
            self.check_registries(&lock, name)?;
        }
        let staged = self.fetch(&store, &format!("npm:{name}"), None, &plan).await?;
        let same = staged.tree == entry.tree && staged.manifest.hash == entry.manifest;
        if !same && guard!(LockTree) {
            return Err(PackageError::new(
                InstallCode::Integrity,
                source.to_string(),
                "its files differ from those in the lock file",
            )
            .help("install it again by name to lock what the registry has now"));
        }
        self.finish((&store, scope), &source, staged, Vec::new(), &|_| Ok(())).await
    }

    /// Takes the lock and settles the change that an ended process left unfinished. Blocks.
    fn lock(&self, store: &PackageStore) -> Result<LockedStore> {
        let held = store.lock(self.limits.lock, |holder| {
            let who = holder.map_or_else(|| "another pi".to_owned(), |pid| format!("the pi with process id {pid}"));
            self.step(&format!("waiting for {who}"));
        })?;
        settle(&held, &self.dirs.home)?;
        Ok(held)
    }

    /// Refuses to look up a scope at a registry other than the one that it was installed from.
    fn check_registries(&self, lock: &LockFile, name: &PackageName) -> Result<()> {
        let config = self.registry.config();
        let now = config.registry(name).as_str();
        match lock.registries.get(name.scope().unwrap_or_default()) {
            Some(recorded) if recorded != now && !config.is_explicit() && guard!(LockRegistries) => {
                let which = name.scope().unwrap_or("packages without a scope");
                Err(PackageError::new(
                    InstallCode::Source,
                    format!("npm:{name}"),
                    format!("the lock file has {which} from {recorded}, not from {now}"),
                )
                .help("correct .npmrc, or pass --registry URL to change it"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the version of the installed package; empty if its manifest has no version.
    fn in_place(&self, store: &PackageStore, scope: InstallScope, place: &Path) -> Result<Option<String>> {
        if !PackageStore::holds(&self.disk, store.root(), scope, place)? {
            return Ok(None);
        }
        let manifest = Manifest::read_on(store.disk(), place).ok().flatten();
        Ok(Some(manifest.and_then(|manifest| manifest.version).unwrap_or_default()))
    }

    /// Builds a staged package and makes the visible change. `still` checks the lock file again once the lock is held.
    async fn finish(
        &self,
        (store, scope): (&PackageStore, InstallScope),
        source: &PackageSource,
        staged: fetch::StagedPackage,
        mut warnings: Vec<String>,
        still: &(dyn Fn(&LockFile) -> Result<()> + Sync + '_),
    ) -> Result<Installed> {
        let (id, root) = (source.identity(), store.root());
        self.step(&format!("building {source}"));
        let entries = package_entries(staged.package(), false).map_err(|error| at_package(error, source))?;
        let place = PackageStore::place_of(root, source);
        let replaces = self.in_place(store, scope, &place)?;
        if replaces.is_some() && guard!(InstallReview) {
            check_brings(source, staged.package(), &place)?;
        }
        let missing = missing_entries(staged.package());
        warnings.extend(missing.iter().map(|entry| format!("{source}: {}", names_missing(staged.package(), entry))));
        let input = BuildInput {
            id: id.clone(),
            root: staged.package().to_path_buf(),
            place: place.clone(),
            entries: entries.files,
            scope,
            version: staged.manifest.version.clone(),
            replaces,
        };
        warnings.extend(staged.warnings.iter().cloned());
        warnings.extend(entries.nothing.map(|why| format!("{source}: {}", why.message)));
        warnings.extend(self.builder.build(&input)?.warnings);

        let entries = input
            .entries
            .iter()
            .map(|entry| {
                place.join(entry.strip_prefix(&input.root).expect("every entry is below the root of the package"))
            })
            .collect();
        let held = self.lock(store)?;
        if let PackageSource::Git(git) = source {
            self.check_nested(store, git)?;
        }
        let (mut lock, lock_before) = LockFile::read_text(store.files(), root)?;
        still(&lock)?;
        let text = source.to_settings(root);
        lock.packages.insert(id.clone(), staged.locked(&text));
        for name in staged.names() {
            self.check_registries(&lock, name)?;
            let registry = self.registry.config().registry(name).as_str().to_owned();
            lock.registries.insert(name.scope().unwrap_or_default().to_owned(), registry);
        }
        let change = PackageChange {
            identity: id.clone(),
            staged: staged.package().to_owned(),
            manifest: Some(staged.manifest.hash.clone()),
            source: Some(text.clone()),
            listed: PackageSettings::read(store.files(), root)?.listed(&id, &self.dirs.home),
            lock_before,
            lock_after: lock.to_text(),
        };
        change.make(&held, &self.dirs.home)?;
        drop(held);
        Ok(Installed {
            id,
            name: staged.manifest.name.clone(),
            source: text,
            version: staged.manifest.version.clone(),
            path: place,
            entries,
            dependencies: staged.dependencies(),
            warnings,
            is_new: true,
        })
    }
}

fn names_missing(root: &Path, entry: &str) -> String {
    let shown = crate::source::printable(entry);
    let help = unbuilt_component(root, entry).map(|help| format!("; {help}")).unwrap_or_default();
    format!("\"pi.extensions\" of its package.json names {shown}, which is not in it{help}")
}

/// Refuses an update from which pi loads nothing, or less than its manifest lists, if the installed version works.
fn check_brings(source: &PackageSource, staged: &Path, place: &Path) -> Result<()> {
    let known = missing_entries(place);
    let missing = missing_entries(staged).into_iter().find(|entry| !known.contains(entry));
    let nothing = || {
        let is_useless = !brings_something(staged) && brings_something(place);
        let entries = package_entries(staged, false).ok().filter(|_| is_useless)?;
        Some(entries.nothing.map_or_else(|| "it contains nothing that pi loads".to_owned(), |why| why.message))
    };
    match missing.as_deref().map(|entry| names_missing(staged, entry)).or_else(nothing) {
        Some(why) => Err(PackageError::new(InstallCode::Manifest, source.to_string(), why)
            .help("the installed version stays; tell the author, or remove the package first")),
        None => Ok(()),
    }
}

/// Returns whether pi loads anything from an installed package.
fn brings_something(place: &Path) -> bool {
    let has_entries = package_entries(place, false).is_ok_and(|entries| !entries.files.is_empty());
    has_entries || count_resources(place).iter().any(|(_, count)| *count > 0)
}

/// Replaces the staging path of an error, which means nothing to a user, by the package.
fn at_package(error: PackageError, source: &PackageSource) -> PackageError {
    PackageError { subject: source.to_string(), ..error }
}

/// Refuses different bytes for a locked version, and an older version for the same range.
fn refuse_step_back(
    lock: &LockFile,
    source: &PackageSource,
    range: &str,
    info: &crate::registry::VersionInfo,
) -> Result<()> {
    let Some(locked) = lock.packages.get(&source.identity()) else { return Ok(()) };
    let refuse = |why: String| {
        Err(PackageError::new(InstallCode::Integrity, source.to_string(), why)
            .help("if this is intended, remove it first and install it again"))
    };
    let integrity = locked.packages.get("").map(|package| package.integrity.as_str());
    let other_bytes = info.dist.integrity.as_deref().is_some_and(|now| Some(now) != integrity);
    if locked.version == info.version && other_bytes && guard!(LockSameBytes) {
        return refuse(format!("the bytes of {} at the registry differ from those in the lock file", info.version));
    }
    let (Ok(before), Ok(now)) = (Version::parse(&locked.version), Version::parse(&info.version)) else { return Ok(()) };
    let tag = matches!(VersionRequest::parse(range), Some(VersionRequest::Tag(tag)) if tag != "latest");
    if now < before && !tag && crate::source::allows(range, &before) && guard!(LockStepBack) {
        return refuse(format!("the registry offers {now}, older than the installed {before}"));
    }
    Ok(())
}
