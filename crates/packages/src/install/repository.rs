//! Installing from a git repository: the files come from git, their dependencies from the registry.

use super::fetch::{Plan, Root, Staged};
use super::{Installed, Installer};
use crate::Scope;
use crate::error::{InstallCode, PackageError, Result};
use crate::git::{Checkout, GitSource};
use crate::lock::{LockFile, Locked, LockedPackage};
use crate::manifest::Manifest;
use crate::source::{PackageName, Source};
use crate::store::Store;
use pijs_protocol::guard;

impl Installer {
    pub(super) async fn install_git(&self, git: GitSource, scope: Scope) -> Result<Installed> {
        let folder = self.dirs.root(scope);
        let store = Store::open(&self.disk, &folder, scope)?;
        self.progress.step(&format!("fetching {}", git.identity()));
        let checkout = self.git.fetch(&git, None, &self.limits).await?;
        let commit = checkout.commit.clone();
        let unmoved = |lock: &LockFile| match lock.packages.get(&git.identity()) {
            Some(locked) if git.is_pinned() && locked.source == git.to_settings() => same_commit(&git, locked, &commit),
            _ => Ok(()),
        };
        unmoved(&LockFile::read(&self.disk, &folder)?)?;
        let (staged, notes) = self.stage_git(&store, &git, checkout).await?;
        self.finish(&store, &Source::Git(git.clone()), staged, notes, &unmoved).await
    }

    pub(super) async fn restore_git(&self, git: GitSource, scope: Scope) -> Result<Installed> {
        let folder = self.dirs.root(scope);
        let Some(locked) = LockFile::read(&self.disk, &folder)?.packages.get(&git.identity()).cloned() else {
            return self.install_git(git, scope).await;
        };
        let store = Store::open(&self.disk, &folder, scope)?;
        self.progress.step(&format!("fetching {}", git.identity()));
        let checkout = self.git.fetch(&git, locked.commit.as_deref(), &self.limits).await?;
        same_commit(&git, &locked, &checkout.commit)?;
        let plan = Plan::from_lock(&locked)?.without_root();
        let root = root(&git, checkout)?;
        let staged = self.fetch(&store, &git.identity(), Some(root), &plan).await?;
        if staged.tree != locked.tree && guard::is_up("lock.tree") {
            let why = "its files are not those of the lock file";
            return Err(PackageError::new(InstallCode::Integrity, git.identity(), why)
                .help("install it again by name to lock what the repository has now"));
        }
        self.finish(&store, &Source::Git(git), staged, Vec::new(), &|_| Ok(())).await
    }

    async fn stage_git(&self, store: &Store, git: &GitSource, checkout: Checkout) -> Result<(Staged, Vec<String>)> {
        let root = root(git, checkout)?;
        let name = PackageName::parse(&root.locked.name)?;
        let info = root.manifest.as_version(&root.locked.name, &root.locked.version);
        let tree = crate::resolve::resolve(&self.registry, &self.limits, &name, info).await?;
        let plan = Plan::from_tree(&self.registry, &tree).without_root();
        Ok((self.fetch(store, &git.identity(), Some(root), &plan).await?, tree.notes))
    }
}

/// A tag, or the state that the lock holds, is one commit for ever.
fn same_commit(git: &GitSource, locked: &Locked, now: &str) -> Result<()> {
    match &locked.commit {
        Some(commit) if commit != now && guard::is_up("lock.commit") => {
            let why = format!("it points to {now} now, the lock file has {commit}");
            Err(PackageError::new(InstallCode::Integrity, git.to_settings(), why)
                .help("if that is what you want, remove it first and install it again"))
        }
        _ => Ok(()),
    }
}

fn root(git: &GitSource, checkout: Checkout) -> Result<Root> {
    let Checkout { commit, files } = checkout;
    let subject = git.identity();
    let manifest = match files.get("package.json") {
        Some(bytes) => Manifest::parse(&subject, bytes)?,
        None => Manifest::default(),
    };
    let name = manifest.name.clone().unwrap_or_else(|| git.last_part());
    let locked = LockedPackage {
        name: PackageName::parse(&name).map_err(|error| error.within(&subject))?.as_str().to_owned(),
        version: manifest.version.clone().unwrap_or_else(|| "0.0.0".to_owned()),
        tarball: git.at(&commit),
        integrity: format!("sha256-{}", files.digest()),
    };
    Ok(Root { files, manifest, locked, commit })
}
