//! Stores the packages of a scope, and replaces a package by a rename.
//!
//! ```text
//! <root>/npm/node_modules/NAME/              as `npm install` would leave it, so that other tools find it
//! <root>/npm/node_modules/NAME/node_modules/ its own dependencies
//! <root>/npm/.staging/                       work in progress, named after its process; swept under the lock
//! <root>/npm/.pending.json                   the change that is being made; see `change`
//! <root>/npm/.lock                           kernel lock: one writer for each scope
//! ```
//!
//! Downloading, unpacking and building happen in staging, without the lock. A package is complete and flushed there before one
//! rename (or exchange, if there is an older one) makes it visible.
//!
//! A cloned project has its own `.pi`, so files below the root are untrusted: all of them are opened without following a link, by
//! [`Disk::beneath`]. Only the user's own `npm` and `git` folders, settings and lock file may be links.

use crate::InstallScope;
use crate::error::{InstallCode, PackageError, Result};
use crate::lock::LockFile;
use crate::source::{PackageName, PackageSource};
use pijs_durable::{Disk, Kind, LinkInTheWay, Lock, LockError, Owner, Replace};
use pijs_protocol::guard;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Packages of one scope.
#[derive(Debug, Clone)]
pub(crate) struct PackageStore {
    /// Disk for paths below the root.
    disk: Disk,
    /// Disk for settings and lock file.
    files: Disk,
    root: PathBuf,
}

/// A store that is locked for writing until dropped.
#[derive(Debug)]
pub(crate) struct LockedStore {
    store: PackageStore,
    _lock: Lock,
}

/// A folder to build a package in; removed when dropped.
#[derive(Debug)]
pub(crate) struct Staging {
    disk: Disk,
    path: PathBuf,
}

impl Staging {
    /// Creates an empty folder in `within`.
    pub(crate) fn make(disk: &Disk, within: &Path, label: &str) -> Result<Self> {
        let failed = |error| PackageError::io("create a folder in it", within, error);
        let path = disk.temporary_in(within, label).map_err(failed)?;
        disk.create_dirs(&path).map_err(failed)?;
        Ok(Self { disk: disk.clone(), path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // A folder that remains is swept by the next process that takes the lock.
        let _ = self.disk.remove_tree(&self.path);
    }
}

impl PackageStore {
    /// Returns the folder of an npm package in a scope, whether installed or not.
    pub(crate) fn place(root: &Path, name: &PackageName) -> PathBuf {
        root.join("npm").join("node_modules").join(name.as_str())
    }

    /// Returns the folder of a package of any source; a local path is used in place.
    pub(crate) fn place_of(root: &Path, source: &PackageSource) -> PathBuf {
        match source {
            PackageSource::Npm { name, .. } => Self::place(root, name),
            PackageSource::Git(git) => root.join(git.place()),
            PackageSource::Path(path) => path.clone(),
        }
    }

    /// Returns whether a package is installed in a scope's store.
    ///
    /// # Errors
    ///
    /// Fails with `IN_LINK` if the path of a project's package is, or goes through, a link: other code would get the package's
    /// name, and with it the grants of its user.
    pub(crate) fn holds(disk: &Disk, root: &Path, scope: InstallScope, place: &Path) -> Result<bool> {
        if scope == InstallScope::User || !guard!(PackagesNoLinks) {
            return Ok(place.is_dir());
        }
        match Self::at(disk, root, scope)?.disk.stat(place).map(|stat| stat.kind) {
            Ok(Kind::Link) => Err(PackageError::link(place)),
            Ok(kind) => Ok(kind == Kind::Directory),
            Err(error) if LinkInTheWay::of(&error).is_some() => Err(PackageError::io("look at it", place, error)),
            Err(_) => Ok(false),
        }
    }

    /// Opens a store for reading; nothing is created.
    pub(crate) fn at(disk: &Disk, root: &Path, scope: InstallScope) -> Result<Self> {
        let root = root.to_owned();
        if !guard!(PackagesNoLinks) {
            return Ok(Self { disk: disk.clone(), files: disk.clone(), root });
        }
        let roots = match scope {
            // Users may keep their packages on another disk.
            InstallScope::User => vec![root.clone(), root.join("npm"), root.join("git")],
            // A cloned project could contain a link to any location, even as its `.pi`.
            InstallScope::Project => vec![root.parent().unwrap_or(&root).to_owned()],
        };
        let inside = disk.beneath(&roots).map_err(|error| PackageError::io("open it", &root, error))?;
        let files = if scope == InstallScope::User { disk.clone() } else { inside.clone() };
        Ok(Self { disk: inside, files, root })
    }

    /// Opens a store for writing and creates missing folders.
    ///
    /// # Errors
    ///
    /// Fails with `IN_LINK` if a file of a project's store is a link, before anything is fetched for it.
    pub(crate) fn open(disk: &Disk, root: &Path, scope: InstallScope) -> Result<Self> {
        let this = Self::at(disk, root, scope)?;
        let npm = this.npm();
        if scope == InstallScope::Project && guard!(PackagesNoLinks) {
            for path in [root.join("settings.json"), LockFile::path(root), this.pending(), root.join("git")] {
                match this.files.stat(&path) {
                    Ok(stat) if stat.kind == Kind::Link => return Err(PackageError::link(&path)),
                    Err(error) if LinkInTheWay::of(&error).is_some() => {
                        return Err(PackageError::io("look at it", &path, error));
                    }
                    _ => {}
                }
            }
        }
        for folder in ["node_modules", ".staging"] {
            let path = npm.join(folder);
            disk.create_dirs(&path).map_err(|error| PackageError::io("create it", &path, error))?;
        }
        for (name, text) in [
            (".gitignore", "*\n!.gitignore\n"),
            ("package.json", "{\n  \"name\": \"pi-extensions\",\n  \"private\": true\n}\n"),
        ] {
            let path = npm.join(name);
            disk.create_once(&path, text.as_bytes()).map_err(|error| PackageError::io("create it", &path, error))?;
        }
        Ok(this)
    }

    /// Returns the disk for paths below the root, which follows no link.
    pub(crate) fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Returns the disk for settings and lock file. These may be links for the user's scope, but not for a project's.
    pub(crate) fn files(&self) -> &Disk {
        &self.files
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    fn npm(&self) -> PathBuf {
        self.root.join("npm")
    }

    /// Returns the path of the journal of a change.
    pub(crate) fn pending(&self) -> PathBuf {
        self.npm().join(".pending.json")
    }

    /// Returns whether an ended process left a change to settle or a folder to sweep.
    pub(crate) fn is_unsettled(&self) -> bool {
        let stale = |names: Vec<OsString>| {
            let owners = names.iter().filter_map(|name| Owner::of(name.to_str()?));
            self.disk.owner().is_ok_and(|this| owners.into_iter().any(|owner| owner.is_gone(this)))
        };
        self.disk.exists(&self.pending()).unwrap_or(false)
            || self.disk.list(&self.npm().join(".staging")).is_ok_and(stale)
    }

    /// Waits for other writers, up to `timeout`, and takes the lock; `waiting` gets the process id of the holder. Blocks.
    ///
    /// The caller must settle a pending change before anything else: [`crate::change::settle`].
    pub(crate) fn lock(&self, timeout: Duration, waiting: impl FnOnce(Option<u32>)) -> Result<LockedStore> {
        let path = self.npm().join(".lock");
        let lock = Lock::take(&self.disk, &path, timeout, waiting).map_err(|error| match error {
            LockError::Io { error, .. } => PackageError::io("lock it", &path, error),
            held @ LockError::Held { .. } => {
                PackageError::new(InstallCode::Io, path.display().to_string(), held.to_string())
                    .help("another pi changes packages; try again when it is done")
                    .caused_by(io::Error::from(io::ErrorKind::ResourceBusy))
            }
        })?;
        Ok(LockedStore { store: self.clone(), _lock: lock })
    }

    /// Creates an empty folder to build a package in.
    pub(crate) fn stage(&self, label: &str) -> Result<Staging> {
        Staging::make(&self.disk, &self.npm().join(".staging"), label)
    }
}

impl LockedStore {
    pub(crate) fn store(&self) -> &PackageStore {
        &self.store
    }

    /// Removes the folders of ended processes from staging.
    pub(crate) fn sweep(&self) -> Result<()> {
        let staging = self.store.npm().join(".staging");
        self.store.disk.sweep_owned(&staging).map_err(|error| PackageError::io("clear it", &staging, error))
    }

    /// Moves the staged folder `from` to the package at `to`, in one step; the previous package is then at `from`.
    pub(crate) fn put(&self, to: &Path, from: &Path) -> Result<()> {
        let disk = &self.store.disk;
        let parent = to.parent().expect("the path is below the store");
        disk.create_dirs(parent).map_err(|error| PackageError::io("create it", parent, error))?;
        let replaces = disk.exists(to).map_err(|error| PackageError::io("look at it", to, error))?;
        let moved = if replaces { exchange(disk, from, to) } else { disk.rename(from, to) };
        moved.map_err(|error| PackageError::io("put the package in place", to, error))?;
        self.flush(&[parent, from.parent().expect("the path is below the staging folder")])
    }

    /// Removes a package by one rename, to `aside`.
    pub(crate) fn take_away(&self, place: &Path, aside: &Path) -> Result<()> {
        let disk = &self.store.disk;
        let failed = |error| PackageError::io("remove it", place, error);
        if !disk.exists(place).map_err(failed)? {
            return Ok(());
        }
        // The staging folder may have been swept with those of ended processes.
        disk.create_dirs(aside.parent().expect("the path is below the staging folder")).map_err(failed)?;
        disk.rename(place, aside).map_err(failed)?;
        let parent = place.parent().expect("the path is below the store");
        self.flush(&[parent, aside.parent().expect("the path is below the staging folder")])?;
        // An empty scope folder would look like a package, so it is removed; a folder that is not empty stays.
        let ends = |folder: &&Path| folder.ends_with("node_modules") || folder.ends_with("git");
        for folder in place.ancestors().skip(1).take_while(|folder| !ends(folder)) {
            if disk.remove_dir(folder).is_err() {
                break;
            }
        }
        Ok(())
    }

    fn flush(&self, folders: &[&Path]) -> Result<()> {
        for folder in folders {
            let flushed = self.store.disk.sync_dir(folder);
            flushed.map_err(|error| PackageError::io("write it to disk", folder, error))?;
        }
        Ok(())
    }
}

/// Swaps two directory entries. On a file system that cannot, three renames are used, and nothing is at `place` for a moment; a
/// process that ends then leaves a pending change, which the next process settles.
fn exchange(disk: &Disk, from: &Path, place: &Path) -> io::Result<()> {
    match disk.exchange(from, place) {
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
        other => return other,
    }
    let aside = from.with_extension("aside");
    disk.rename(place, &aside)?;
    if let Err(error) = disk.rename(from, place) {
        disk.rename(&aside, place)?;
        return Err(error);
    }
    disk.rename(&aside, from)
}

/// Writes settings or the lock file; the previous version stays as `NAME.bak`.
pub(crate) fn write_file(disk: &Disk, path: &Path, bytes: &[u8], how: Replace) -> Result<()> {
    disk.replace(path, bytes, how).map_err(|error| PackageError::io("write it", path, error))
}
