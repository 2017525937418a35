//! Install, restore, list and remove.
//!
//! An install from a registry runs through the same steps each time, and only the last three change anything that
//! others see: resolve, download and verify, unpack into staging, check the manifest, build, **put in place, lock,
//! settings**. The three are one [`Change`]: made under the lock, taken back when one fails, finished by the next
//! process when this one is killed.

mod fetch;
mod intact;
mod local;
mod own_modules;
mod repository;

use crate::archive::Limits;
use crate::change::{Change, settle};
use crate::entries::{missing_entries, package_entries};
use crate::error::{InstallCode, PackageError, Result};
use crate::git::{GitOptions, GitSource};
use crate::lock::LockFile;
use crate::manifest::Manifest;
use crate::npmrc::NpmConfig;
use crate::registry::Registry;
use crate::resources::count_resources;
use crate::settings::Settings;
use crate::source::{PackageName, Source, Wanted};
use crate::store::{Held, Store};
use crate::{Dirs, Scope};
use fetch::Plan;
use nodejs_semver::Version;
use pijs_durable::Disk;
use pijs_protocol::guard;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use tracing::Instrument as _;

/// Checks and compiles a package before it is put in place, so that one that cannot be used replaces nothing.
///
/// The command line passes `extc`, the check of capability manifests and the consent of the user. A refusal is returned
/// as it is, and what was installed before stays.
pub trait Builder: Send + Sync {
    /// Builds the entries of a package that lies complete under [`BuildInput::root`]. There may be none.
    fn build(&self, input: &BuildInput) -> Result<Built>;
}

impl<F: Fn(&BuildInput) -> Result<Built> + Send + Sync> Builder for F {
    fn build(&self, input: &BuildInput) -> Result<Built> {
        self(input)
    }
}

/// What a [`Builder`] gets.
#[derive(Debug, Clone)]
pub struct BuildInput {
    /// `npm:NAME` or `path:PATH`: the extension's id.
    pub id: String,
    /// Where the package is now; for one from a registry this is staging, not its later place.
    pub root: PathBuf,
    /// Its extension entries, in order, below the root.
    pub entries: Vec<PathBuf>,
    /// For whom it is installed.
    pub scope: Scope,
    /// Its version, where it says one.
    pub version: Option<String>,
    /// The version whose place it takes; absent when nothing is in that place, and for a local path, which is used where
    /// it lies.
    pub replaces: Option<String>,
}

/// What a [`Builder`] answers.
#[derive(Debug, Clone, Default)]
pub struct Built {
    /// Shown to the user, one line each.
    pub warnings: Vec<String>,
}

/// Follows an install; the command line draws a bar on a terminal.
pub trait Progress: Send + Sync {
    /// A new step has begun, in words.
    fn step(&self, what: &str);
    /// Packages of the current step that are done.
    fn done(&self, done: usize, total: usize);
}

/// Shows nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn step(&self, _what: &str) {}
    fn done(&self, _done: usize, _total: usize) {}
}

/// An install that succeeded.
#[derive(Debug, Clone)]
pub struct Installed {
    /// `npm:NAME` or `path:PATH`.
    pub id: String,
    /// The name in its `package.json`.
    pub name: Option<String>,
    /// As it stands in settings.
    pub source: String,
    /// Absent for a local folder without one.
    pub version: Option<String>,
    /// Where it is.
    pub path: PathBuf,
    /// Its entries, below `path`.
    pub entries: Vec<PathBuf>,
    /// Packages that came with it.
    pub dependencies: usize,
    /// Scripts that were not run, optional dependencies left out, findings of the builder.
    pub warnings: Vec<String>,
    /// False for a package that was in its place already, as it is now.
    pub is_new: bool,
}

/// What became of one package among several.
#[derive(Debug)]
pub struct Attempt {
    /// `npm:NAME` or `git:HOST/PATH`.
    pub id: String,
    /// An error leaves this package as it was; the others do not depend on it.
    pub outcome: Result<Installed>,
}

/// One package of the settings.
#[derive(Debug, Clone)]
pub struct Listed {
    /// `npm:NAME` or `path:PATH`.
    pub id: String,
    /// Whose settings list it.
    pub scope: Scope,
    /// As it stands in settings.
    pub source: String,
    /// What its `package.json` says.
    pub version: Option<String>,
    /// Where it is, or would be.
    pub path: PathBuf,
    /// False when settings list it and the disk does not have it.
    pub present: bool,
}

/// A package that is gone.
#[derive(Debug, Clone)]
pub struct Removed {
    /// `npm:NAME` or `path:PATH`.
    pub id: String,
    /// Where it was; a local folder is still there.
    pub path: PathBuf,
}

/// Installs, restores, lists and removes the packages of one user and one project.
pub struct Installer {
    dirs: Dirs,
    registry: Registry,
    limits: Limits,
    builder: Arc<dyn Builder>,
    progress: Arc<dyn Progress>,
    disk: Disk,
    similar_names: bool,
    git: GitOptions,
}

impl Installer {
    /// An installer over the given folders and registries; nothing is read or created yet.
    pub fn new(dirs: Dirs, npm: NpmConfig, builder: Arc<dyn Builder>) -> Result<Self> {
        Self::with_limits(dirs, npm, builder, Limits::default())
    }

    /// The same under other caps.
    pub fn with_limits(dirs: Dirs, npm: NpmConfig, builder: Arc<dyn Builder>, limits: Limits) -> Result<Self> {
        let registry = Registry::new(npm, limits.clone())?;
        let progress = Arc::new(NoProgress);
        let (disk, git) = (Disk::system(), GitOptions::default());
        Ok(Self { dirs, registry, limits, builder, progress, disk, similar_names: false, git })
    }

    /// Reports what it does to `progress`.
    #[must_use]
    pub fn progress(mut self, progress: Arc<dyn Progress>) -> Self {
        self.progress = progress;
        self
    }

    /// Takes a package although its name can be taken for that of an installed one.
    #[must_use]
    pub fn similar_names(mut self, allowed: bool) -> Self {
        self.similar_names = allowed;
        self
    }

    /// Fetches git sources with this git; without it they are refused.
    #[must_use]
    pub fn git(mut self, git: GitOptions) -> Self {
        self.git = git;
        self
    }

    /// Acts as if versions that were published later did not exist: updates then wait until somebody has looked at them.
    #[must_use]
    pub fn not_newer_than(mut self, time: SystemTime) -> Self {
        self.registry.not_newer_than(time);
        self
    }

    /// Writes to another disk.
    #[must_use]
    pub fn disk(mut self, disk: Disk) -> Self {
        self.disk = disk;
        self
    }

    /// Installs a source as the user wrote it, replacing an older install of the same package.
    ///
    /// A package of a registry is resolved anew; a local path is built and listed, but stays where it is.
    ///
    /// # Errors
    ///
    /// Every refusal leaves packages, lock and settings as they were.
    pub async fn install(&self, source: &str, scope: Scope) -> Result<Installed> {
        let source = Source::parse(source, &self.dirs.cwd, &self.dirs.home)?;
        let span = tracing::debug_span!("install", extension_id = source.identity());
        let installing = async {
            match source {
                Source::Path(path) => self.install_path(&path, scope).await,
                Source::Npm { name, range } => self.install_npm(&name, &range, scope).await,
                Source::Git(git) => self.install_git(git, scope).await,
            }
        };
        installing.instrument(span).await
    }

    /// Shows a step that begins, and traces it.
    fn step(&self, what: &str) {
        tracing::debug!(event = "install.step", "{what}");
        self.progress.step(what);
    }

    /// Installs what settings list and the disk lacks, from the lock file where it has an entry: the same bytes again.
    /// One that fails does not stop the others.
    pub async fn restore(&self, scope: Scope) -> Result<Vec<Attempt>> {
        let mut attempts = Vec::new();
        let missing = self.list()?.into_iter().filter(|listed| listed.scope == scope && !listed.present);
        for listed in missing {
            let outcome = match Source::from_settings(&listed.source, &self.dirs.root(scope), &self.dirs.home) {
                Ok(Source::Npm { name, range }) => self.restore_npm(&name, &range, scope).await,
                Ok(Source::Git(git)) => self.restore_git(git, scope).await,
                Ok(Source::Path(_)) => continue,
                Err(error) => Err(error),
            };
            self.note(&mut attempts, Attempt { id: listed.id, outcome })?;
        }
        Ok(attempts)
    }

    /// Installs the newest version that settings allow, of one package or of all; exact versions stay. One that fails
    /// does not stop the others.
    pub async fn update(&self, source: Option<&str>, scope: Scope) -> Result<Vec<Attempt>> {
        let only = source.map(|text| self.find(text, scope)).transpose()?;
        let mut attempts = Vec::new();
        for listed in self.list()?.into_iter().filter(|listed| listed.scope == scope) {
            if only.as_ref().is_some_and(|only| only.id != listed.id) {
                continue;
            }
            let outcome = match Source::from_settings(&listed.source, &self.dirs.root(scope), &self.dirs.home) {
                Ok(Source::Npm { name, range }) => self.update_npm(&name, &range, scope).await,
                Ok(Source::Git(git)) if !git.is_pinned() => self.install_git(git, scope).await.map(Some),
                Ok(Source::Git(_) | Source::Path(_)) => continue,
                Err(error) => Err(error),
            };
            if let Some(outcome) = outcome.transpose() {
                self.note(&mut attempts, Attempt { id: listed.id, outcome })?;
            }
        }
        Ok(attempts)
    }

    /// Keeps what became of a package.
    fn note(&self, attempts: &mut Vec<Attempt>, attempt: Attempt) -> Result<()> {
        match attempt.outcome {
            Err(error) if !guard!(PackagesEach) => Err(error),
            outcome => {
                attempts.push(Attempt { outcome, ..attempt });
                Ok(())
            }
        }
    }

    /// `None` when there is no newer one.
    async fn update_npm(&self, name: &PackageName, range: &str, scope: Scope) -> Result<Option<Installed>> {
        if Version::parse(range).is_ok() || !self.has_newer(name, range, scope).await? {
            return Ok(None);
        }
        self.install_npm(name, range, scope).await.map(Some)
    }

    /// The packages that settings list, user scope first, in the order of the files.
    pub fn list(&self) -> Result<Vec<Listed>> {
        let mut all = Vec::new();
        for scope in [Scope::User, Scope::Project] {
            let root = self.dirs.root(scope);
            for configured in Settings::read(&self.disk, &root)?.packages() {
                let Ok(source) = Source::from_settings(&configured.text, &root, &self.dirs.home) else {
                    all.push(Listed {
                        id: configured.text.clone(),
                        scope,
                        source: configured.text,
                        version: None,
                        path: root.clone(),
                        present: false,
                    });
                    continue;
                };
                let path = Store::place_of(&root, &source);
                let manifest = Manifest::read(&path).ok().flatten();
                let present = match &source {
                    Source::Path(path) => path.exists(),
                    // What a link leads to is not the package.
                    _ => Store::holds(&self.disk, &root, scope, &path).unwrap_or(false),
                };
                let version = manifest.and_then(|manifest| manifest.version);
                all.push(Listed { id: source.identity(), scope, source: configured.text, version, path, present });
            }
        }
        Ok(all)
    }

    /// Takes a package off settings, lock and disk, by its source or its name. A local folder is only taken off the list.
    pub fn remove(&self, source: &str, scope: Scope) -> Result<Removed> {
        let found = self.find(source, scope)?;
        let root = self.dirs.root(scope);
        let store = Store::open(&self.disk, &root, scope)?;
        let held = self.lock(&store)?;
        if let Some(git) = GitSource::parse(&found.id) {
            self.check_holds_none(&store, &git?)?;
        }
        if ["npm:", "git:"].iter().any(|origin| found.id.starts_with(origin)) {
            let (mut lock, lock_before) = LockFile::read_text(store.files(), &root)?;
            lock.packages.remove(&found.id);
            let staging = store.stage("remove")?;
            let change = Change {
                identity: found.id.clone(),
                staged: staging.path().join("package"),
                manifest: None,
                source: None,
                listed: Settings::read(store.files(), &root)?.listed(&found.id, &self.dirs.home),
                lock_before,
                lock_after: lock.to_text(),
            };
            change.make(&held, &self.dirs.home)?;
        } else {
            let mut settings = Settings::read(store.files(), &root)?;
            settings.remove(&found.id, &self.dirs.home);
            settings.save()?;
        }
        Ok(Removed { id: found.id, path: found.path })
    }

    fn find(&self, text: &str, scope: Scope) -> Result<Listed> {
        let wanted = Source::parse(text, &self.dirs.cwd, &self.dirs.home).ok().map(|source| source.identity());
        let listed: Vec<Listed> = self.list()?.into_iter().filter(|listed| listed.scope == scope).collect();
        let names: Vec<&str> = listed.iter().map(|listed| listed.source.as_str()).collect();
        let help = if names.is_empty() {
            "nothing is installed in this scope".to_owned()
        } else {
            format!("installed: {}", names.join(", "))
        };
        let by_name = |listed: &Listed| {
            let manifest = Manifest::read(&listed.path).ok().flatten();
            manifest.and_then(|manifest| manifest.name).as_deref() == Some(text)
        };
        let position = listed
            .iter()
            .position(|listed| Some(&listed.id) == wanted.as_ref() || listed.source == text || listed.id == text)
            // A file by itself is named as it is for a command.
            .or_else(|| listed.iter().position(|listed| !text.is_empty() && listed.path == self.dirs.cwd.join(text)))
            .or_else(|| listed.iter().position(by_name));
        match position {
            Some(position) => Ok(listed.into_iter().nth(position).expect("just found")),
            None => Err(PackageError::new(
                InstallCode::Source,
                crate::source::printable(text),
                format!("not among the {} packages", scope.as_str()),
            )
            .help(help)),
        }
    }

    /// Whether the registry has a version above the locked one.
    async fn has_newer(&self, name: &PackageName, range: &str, scope: Scope) -> Result<bool> {
        let lock = LockFile::read(&self.disk, &self.dirs.root(scope))?;
        let Some(locked) = lock.packages.get(&format!("npm:{name}")) else { return Ok(true) };
        self.check_registries(&lock, name)?;
        let offered = self.registry.document(name).await?.pick(range)?.version;
        let newer = Version::parse(&offered).ok() > Version::parse(&locked.version).ok();
        Ok(newer)
    }

    /// A new name that a person reads as one that is installed already is most likely not the one that was meant.
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

    async fn install_npm(&self, name: &PackageName, range: &str, scope: Scope) -> Result<Installed> {
        let root = self.dirs.root(scope);
        self.check_similar(name)?;
        let store = Store::open(&self.disk, &root, scope)?;
        let lock = LockFile::read(store.files(), &root)?;
        self.check_registries(&lock, name)?;
        self.step(&format!("resolving {name}"));
        let info = self.registry.document(name).await?.pick(range)?;
        let source = Source::Npm { name: name.clone(), range: range.to_owned() };
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
        // Another process may have installed it meanwhile.
        let unchanged = |lock: &LockFile| refuse_step_back(lock, &source, range, &info);
        self.finish((&store, scope), &source, staged, tree.notes, &unchanged).await
    }

    async fn restore_npm(&self, name: &PackageName, range: &str, scope: Scope) -> Result<Installed> {
        let root = self.dirs.root(scope);
        let source = Source::Npm { name: name.clone(), range: range.to_owned() };
        let store = Store::open(&self.disk, &root, scope)?;
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
                "its files are not those of the lock file",
            )
            .help("install it again by name to lock what the registry has now"));
        }
        self.finish((&store, scope), &source, staged, Vec::new(), &|_| Ok(())).await
    }

    /// Takes the lock and finishes what an ended process left. Blocks.
    fn lock(&self, store: &Store) -> Result<Held> {
        let held = store.lock(|holder| {
            let who = holder.map_or_else(|| "another pi".to_owned(), |pid| format!("the pi with process id {pid}"));
            self.step(&format!("waiting for {who}"));
        })?;
        settle(&held, &self.dirs.home)?;
        Ok(held)
    }

    /// A scope that was installed from one registry is not silently asked for at another.
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
                .help("correct .npmrc, or say --registry URL to change it"))
            }
            _ => Ok(()),
        }
    }

    /// The version of the package that is in a place; empty for one that says none.
    fn in_place(&self, store: &Store, scope: Scope, place: &Path) -> Result<Option<String>> {
        if !Store::holds(&self.disk, store.root(), scope, place)? {
            return Ok(None);
        }
        let manifest = Manifest::read_on(store.disk(), place).ok().flatten();
        Ok(Some(manifest.and_then(|manifest| manifest.version).unwrap_or_default()))
    }

    /// Builds, then the part that others see. `still` looks at the lock file once more, now that nobody changes it.
    async fn finish(
        &self,
        (store, scope): (&Store, Scope),
        source: &Source,
        staged: fetch::Staged,
        mut warnings: Vec<String>,
        still: &(dyn Fn(&LockFile) -> Result<()> + Sync + '_),
    ) -> Result<Installed> {
        let (id, root) = (source.identity(), store.root());
        self.step(&format!("building {source}"));
        let entries = package_entries(staged.package(), false).map_err(|error| at_package(error, source))?;
        let place = Store::place_of(root, source);
        let replaces = self.in_place(store, scope, &place)?;
        if replaces.is_some() && guard!(InstallReview) {
            check_brings(source, staged.package(), &place)?;
        }
        let missing = missing_entries(staged.package());
        warnings.extend(missing.iter().map(|entry| format!("{source}: {}", names_missing(entry))));
        let input = BuildInput {
            id: id.clone(),
            root: staged.package().to_path_buf(),
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
            .map(|entry| place.join(entry.strip_prefix(&input.root).expect("entries lie in the package")))
            .collect();
        let held = self.lock(store)?;
        if let Source::Git(git) = source {
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
        let change = Change {
            identity: id.clone(),
            staged: staged.package().to_owned(),
            manifest: Some(staged.manifest.hash.clone()),
            source: Some(text.clone()),
            listed: Settings::read(store.files(), root)?.listed(&id, &self.dirs.home),
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

fn names_missing(entry: &str) -> String {
    format!("\"pi.extensions\" of its package.json names {}, which is not in it", crate::source::printable(entry))
}

/// Refuses a version of which pi loads nothing, or less than its manifest says, in the place of one that works.
fn check_brings(source: &Source, staged: &Path, place: &Path) -> Result<()> {
    let known = missing_entries(place);
    let missing = missing_entries(staged).into_iter().find(|entry| !known.contains(entry));
    let nothing = || {
        let is_useless = !brings_something(staged) && brings_something(place);
        let entries = package_entries(staged, false).ok().filter(|_| is_useless)?;
        Some(entries.nothing.map_or_else(|| "pi loads nothing of it".to_owned(), |why| why.message))
    };
    match missing.as_deref().map(names_missing).or_else(nothing) {
        Some(why) => Err(PackageError::new(InstallCode::Manifest, source.to_string(), why)
            .help("the installed version stays; tell the author, or remove the package first")),
        None => Ok(()),
    }
}

/// Whether pi loads anything of an installed package.
fn brings_something(place: &Path) -> bool {
    let has_entries = package_entries(place, false).is_ok_and(|entries| !entries.files.is_empty());
    has_entries || count_resources(place).iter().any(|(_, count)| *count > 0)
}

/// Staging folders mean nothing to a user.
fn at_package(error: PackageError, source: &Source) -> PackageError {
    PackageError { subject: source.to_string(), ..error }
}

/// Refuses other bytes under a version that is locked, and an older version for the same wish.
fn refuse_step_back(lock: &LockFile, source: &Source, range: &str, info: &crate::registry::VersionInfo) -> Result<()> {
    let Some(locked) = lock.packages.get(&source.identity()) else { return Ok(()) };
    let refuse = |why: String| {
        Err(PackageError::new(InstallCode::Integrity, source.to_string(), why)
            .help("if that is what you want, remove it first and install it again"))
    };
    let integrity = locked.packages.get("").map(|package| package.integrity.as_str());
    let other_bytes = info.dist.integrity.as_deref().is_some_and(|now| Some(now) != integrity);
    if locked.version == info.version && other_bytes && guard!(LockSameBytes) {
        return refuse(format!("the registry has other bytes for {} than the lock file", info.version));
    }
    let (Ok(before), Ok(now)) = (Version::parse(&locked.version), Version::parse(&info.version)) else { return Ok(()) };
    let tag = matches!(Wanted::parse(range), Some(Wanted::Tag(tag)) if tag != "latest");
    if now < before && !tag && crate::source::allows(range, &before) && guard!(LockStepBack) {
        return refuse(format!("the registry offers {now}, older than the installed {before}"));
    }
    Ok(())
}
