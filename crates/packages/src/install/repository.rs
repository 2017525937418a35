//! Installs from a git repository: the files come from git, their dependencies from the registry.

use super::fetch::{Plan, RootPackage, StagedPackage};
use super::{Installed, Installer};
use crate::InstallScope;
use crate::error::{InstallCode, PackageError, Result};
use crate::git::{Checkout, GitSource};
use crate::lock::{LockFile, Locked, LockedPackage};
use crate::manifest::Manifest;
use crate::members::members_of;
use crate::settings::PackageSettings;
use crate::source::{PackageName, PackageSource};
use crate::store::PackageStore;
use pijs_protocol::guard;

impl Installer {
    pub(super) async fn install_git(&self, git: GitSource, scope: InstallScope) -> Result<Installed> {
        let folder = self.dirs.root(scope);
        let store = PackageStore::open(&self.disk, &folder, scope)?;
        self.check_nested(&store, &git)?;
        self.step(&format!("fetching {}", git.identity()));
        let checkout = self.checkout(&store, &git, None).await?;
        let commit = checkout.commit.clone();
        let unmoved = |lock: &LockFile| match lock.packages.get(&git.identity()) {
            Some(locked) if git.is_pinned() && is_state_of(locked, &git) => same_commit(&git, locked, &commit),
            _ => Ok(()),
        };
        let lock = LockFile::read(store.files(), &folder)?;
        unmoved(&lock)?;
        let source = PackageSource::Git(git.clone());
        if let Some(locked) = lock.packages.get(&git.identity())
            && locked.commit.as_ref() == Some(&commit)
            && let Some(installed) = self.keep_in_place((&store, scope), &source, locked)?
        {
            return Ok(installed);
        }
        let (staged, notes) = self.stage_git(&store, &git, checkout).await?;
        self.finish((&store, scope), &source, staged, notes, &unmoved).await
    }

    pub(super) async fn restore_git(&self, git: GitSource, scope: InstallScope) -> Result<Installed> {
        let folder = self.dirs.root(scope);
        let store = PackageStore::open(&self.disk, &folder, scope)?;
        let Some(locked) = LockFile::read(store.files(), &folder)?.packages.get(&git.identity()).cloned() else {
            return self.install_git(git, scope).await;
        };
        self.check_nested(&store, &git)?;
        self.step(&format!("fetching {}", git.identity()));
        let checkout = self.checkout(&store, &git, locked.commit.as_deref()).await?;
        same_commit(&git, &locked, &checkout.commit)?;
        let plan = Plan::from_lock(&locked)?.without_root();
        let root = root(&git, checkout)?;
        let staged = self.fetch(&store, &git.identity(), Some(root), &plan).await?;
        if staged.tree != locked.tree && guard!(LockTree) {
            let why = "its files differ from those in the lock file";
            return Err(PackageError::new(InstallCode::Integrity, git.identity(), why)
                .help("install it again by name to lock what the repository has now"));
        }
        self.finish((&store, scope), &PackageSource::Git(git), staged, Vec::new(), &|_| Ok(())).await
    }

    /// Fetches a repository into staging, where extensions cannot write. In a folder for temporary files they could change the
    /// programs that git runs there.
    async fn checkout(&self, store: &PackageStore, git: &GitSource, commit: Option<&str>) -> Result<Checkout> {
        if !guard!(GitFolder) {
            let failed = |error| PackageError::io("create a folder in it", &std::env::temp_dir(), error);
            let folder = tempfile::tempdir().map_err(failed)?;
            return self.git.fetch(git, commit, &self.limits, folder.path()).await;
        }
        let staging = store.stage("git")?;
        self.git.fetch(git, commit, &self.limits, staging.path()).await
    }

    /// Refuses a repository whose path is below, or above, the path of another one. As in pi its folder would be inside the
    /// other's folder: replacing one would remove the other, and files of one could pass for files of the other.
    pub(super) fn check_nested(&self, store: &PackageStore, git: &GitSource) -> Result<()> {
        let place = git.place();
        for other in self.repositories(store)? {
            let beside = other.place();
            let why = if beside == place || !guard!(PackagesNested) {
                continue;
            } else if place.starts_with(&beside) {
                format!("its folder would be inside the folder of {}", other.identity())
            } else if beside.starts_with(&place) {
                format!("the folder of {} would be inside its own folder", other.identity())
            } else {
                continue;
            };
            return Err(PackageError::new(InstallCode::Source, git.identity(), why).help(format!(
                "remove {} first, or install one for you and one for the project (-l)",
                other.identity()
            )));
        }
        Ok(())
    }

    /// Refuses to remove a folder that contains another package.
    pub(super) fn check_holds_none(&self, store: &PackageStore, git: &GitSource) -> Result<()> {
        let place = git.place();
        let inner = self
            .repositories(store)?
            .into_iter()
            .find(|other| other.place() != place && other.place().starts_with(&place) && guard!(PackagesNested));
        match inner {
            Some(inner) => {
                let why = format!("the folder of {} is inside its own folder", inner.identity());
                Err(PackageError::new(InstallCode::Source, git.identity(), why)
                    .help(format!("remove {} first", inner.identity())))
            }
            None => Ok(()),
        }
    }

    /// Lists the repositories of a scope, from settings and lock file.
    fn repositories(&self, store: &PackageStore) -> Result<Vec<GitSource>> {
        let locked = LockFile::read(store.files(), store.root())?.packages.into_keys();
        let listed =
            PackageSettings::read(store.files(), store.root())?.packages().into_iter().map(|package| package.text);
        Ok(listed.chain(locked).filter_map(|text| GitSource::parse(&text)?.ok()).collect())
    }

    async fn stage_git(
        &self,
        store: &PackageStore,
        git: &GitSource,
        checkout: Checkout,
    ) -> Result<(StagedPackage, Vec<String>)> {
        let root = root(git, checkout)?;
        let name = PackageName::parse(&root.locked.name)?;
        let info = root.manifest.as_version(&root.locked.name, &root.locked.version);
        let members = members_of(&root.files);
        let tree = crate::resolve::resolve(&self.registry, &self.limits, &name, info, members).await?;
        let plan = Plan::from_tree(&self.registry, &tree).without_root();
        Ok((self.fetch(store, &git.identity(), Some(root), &plan).await?, tree.notes))
    }
}

/// Returns whether a locked package is the ref that a source names, in whatever form its address is written.
fn is_state_of(locked: &Locked, git: &GitSource) -> bool {
    GitSource::parse(&locked.source).is_some_and(|known| known.is_ok_and(|known| known.is_same_state(git)))
}

/// Refuses a tag or locked ref that points to another commit than before.
fn same_commit(git: &GitSource, locked: &Locked, now: &str) -> Result<()> {
    match &locked.commit {
        Some(commit) if commit != now && guard!(LockCommit) => {
            let why = format!("it points to {now} now, the lock file has {commit}");
            Err(PackageError::new(InstallCode::Integrity, git.to_settings(), why)
                .help("if this is intended, remove it first and install it again"))
        }
        _ => Ok(()),
    }
}

fn root(git: &GitSource, checkout: Checkout) -> Result<RootPackage> {
    let Checkout { commit, files } = checkout;
    let subject = git.identity();
    let manifest = match files.get("package.json") {
        Some(bytes) => Manifest::parse_to_install(&subject, bytes)?,
        None => Manifest::default(),
    };
    manifest.check_names(&subject)?;
    let name = manifest.name.clone().unwrap_or_else(|| git.last_part());
    let locked = LockedPackage {
        name: PackageName::parse(&name).map_err(|error| error.within(&subject))?.as_str().to_owned(),
        version: manifest.version.clone().filter(|version| !version.is_empty()).unwrap_or_else(|| "0.0.0".to_owned()),
        tarball: git.at(&commit),
        integrity: format!("sha256-{}", files.digest()),
    };
    Ok(RootPackage { files, manifest, locked, commit })
}
