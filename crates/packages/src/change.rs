//! Changes the packages of a scope as a transaction over the folder, the lock file and the settings.
//!
//! Three paths cannot be renamed in one step, so a journal (`.pending.json`) records the change before it is made, and is deleted
//! afterwards. The next process that takes the lock or starts a session reads the journal ([`settle`]): it completes the change
//! if the package is already in place, and rolls it back otherwise. The lock file, the settings and the folder then agree again.

use crate::error::{InstallCode, PackageError, Result};
use crate::git::GitSource;
use crate::lock::LockFile;
use crate::manifest::Manifest;
use crate::settings::PackageSettings;
use crate::source::{PackageName, PackageSource};
use crate::store::{LockedStore, PackageStore, write_file};
use crate::{Dirs, InstallScope};
use pijs_durable::{Disk, Replace};
use serde::{Deserialize, Serialize};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

/// Maximum size of a journal that is read, in bytes.
const LARGEST: u64 = 64 << 20;

/// A change as the journal records it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PackageChange {
    /// `npm:NAME` or `git:HOST/PATH`.
    pub(crate) identity: String,
    /// Folder in staging; for a removal, the folder that the package is moved to.
    pub(crate) staged: PathBuf,
    /// Digest of the new `package.json`; absent for a removal.
    pub(crate) manifest: Option<String>,
    /// Source that settings will list; absent for a removal.
    pub(crate) source: Option<String>,
    /// Source that settings list before the change.
    pub(crate) listed: Option<String>,
    /// Text of the lock file before and after the change.
    pub(crate) lock_before: Option<String>,
    pub(crate) lock_after: String,
}

impl PackageChange {
    /// Makes the whole change. After an error the change is rolled back, or left for [`settle`] if the rollback fails, too.
    pub(crate) fn make(&self, held: &LockedStore, home: &Path) -> Result<()> {
        let store = held.store();
        let staged = &self.staged;
        // An unreadable path is reported before anything is changed.
        exists(store.disk(), &self.place(store)?)?;
        if self.manifest.is_some() {
            let flushed = store.disk().sync_tree(staged);
            flushed.map_err(|error| PackageError::io("write it to disk", staged, error))?;
        }
        let note = serde_json::to_vec(self).expect("a change serializes to JSON");
        write_file(store.disk(), &store.pending(), &note, Replace::DERIVED)?;
        let Err(error) = self.forward(held, home, true) else { return Ok(()) };
        // The first error is reported; the error of a failed rollback is added to it.
        match self.back(held, home) {
            Ok(()) => Err(error),
            Err(undo) => {
                Err(error.help(format!("could not be undone ({undo}); the next pi in this folder finishes it")))
            }
        }
    }

    /// Returns the folder of the package. The identity is parsed again, because the journal may have been edited.
    fn place(&self, store: &PackageStore) -> Result<PathBuf> {
        match GitSource::parse(&self.identity) {
            Some(git) => Ok(store.root().join(git?.place())),
            None => {
                let name = PackageName::parse(self.identity.strip_prefix("npm:").unwrap_or_default())?;
                Ok(PackageStore::place(store.root(), &name))
            }
        }
    }

    /// Completes the change. With `put` the package is moved into place first, unless it is already there.
    fn forward(&self, held: &LockedStore, home: &Path, put: bool) -> Result<()> {
        let store = held.store();
        if self.manifest.is_none() {
            // Settings come first: no session loads files that settings do not list.
            self.list(store, home, None)?;
            write_file(store.files(), &LockFile::path(store.root()), self.lock_after.as_bytes(), Replace::STATE)?;
            held.take_away(&self.place(store)?, &self.staged)?;
        } else {
            if put {
                held.put(&self.place(store)?, &self.staged)?;
            }
            write_file(store.files(), &LockFile::path(store.root()), self.lock_after.as_bytes(), Replace::STATE)?;
            self.list(store, home, self.source.as_deref())?;
        }
        self.strike(store);
        Ok(())
    }

    fn back(&self, held: &LockedStore, home: &Path) -> Result<()> {
        let store = held.store();
        let place = self.place(store)?;
        if self.manifest.is_none() {
            // For a removal, the folder is moved last.
            if !exists(store.disk(), &place)? && exists(store.disk(), &self.staged)? {
                held.put(&place, &self.staged)?;
            }
        } else if self.is_in_place(store)? && self.lock_before.as_deref() != Some(&self.lock_after) {
            if exists(store.disk(), &self.staged)? {
                held.put(&place, &self.staged)?;
            } else {
                held.take_away(&place, &self.staged)?;
            }
        }
        let lock = LockFile::path(store.root());
        match &self.lock_before {
            Some(before) => write_file(store.files(), &lock, before.as_bytes(), Replace::STATE)?,
            None => store.files().remove(&lock).map_err(|error| PackageError::io("remove it", &lock, error))?,
        }
        self.list(store, home, self.listed.as_deref())?;
        self.strike(store);
        Ok(())
    }

    /// Returns whether the new package is in place.
    fn is_in_place(&self, store: &PackageStore) -> Result<bool> {
        match Manifest::read_on(store.disk(), &self.place(store)?) {
            Ok(there) => Ok(there.is_some_and(|there| Some(&there.hash) == self.manifest.as_ref())),
            // A manifest that cannot be parsed belongs to another package. A manifest that cannot be read may be this package's.
            Err(error) if matches!(error.code, InstallCode::Manifest | InstallCode::Size) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn list(&self, store: &PackageStore, home: &Path, source: Option<&str>) -> Result<()> {
        let mut settings = PackageSettings::read(store.files(), store.root())?;
        match source {
            Some(text) => settings.add(&PackageSource::from_settings(text, store.root(), home)?, home)?,
            None => {
                if !settings.remove(&self.identity, home) {
                    return Ok(());
                }
            }
        }
        settings.save()
    }

    /// Removes the journal. A failure here does not fail the change: a journal that remains, or reappears after a power cut, is
    /// settled once more, which changes nothing.
    fn strike(&self, store: &PackageStore) {
        let _ = store.disk().remove(&store.pending());
    }
}

fn exists(disk: &Disk, path: &Path) -> Result<bool> {
    disk.exists(path).map_err(|error| PackageError::io("look at it", path, error))
}

/// Completes or rolls back the change of a process that ended, then sweeps staging.
pub(crate) fn settle(held: &LockedStore, home: &Path) -> Result<()> {
    let store = held.store();
    let path = store.pending();
    let note = store.disk().read(&path, LARGEST).map_err(|error| PackageError::io("read it", &path, error))?;
    if let Some(note) = note {
        let change: PackageChange = serde_json::from_slice(&note).map_err(|error| {
            PackageError::new(InstallCode::Manifest, path.display().to_string(), error.to_string())
                .help("remove the file and install the package again")
        })?;
        let staging = store.root().join("npm/.staging");
        let below = change.staged.strip_prefix(&staging).unwrap_or(Path::new(".."));
        if !below.components().all(|part| matches!(part, Component::Normal(_))) {
            let message = "it names a folder outside the store";
            return Err(PackageError::new(InstallCode::Path, path.display().to_string(), message)
                .help("remove the file and install the package again"));
        }
        let (placed, staged) = (exists(store.disk(), &change.place(store)?)?, exists(store.disk(), &change.staged)?);
        let in_place = change.manifest.is_some() && change.is_in_place(store)?;
        // On file systems that cannot swap, there is a moment at which neither folder exists.
        let between = !placed && staged;
        // A removal is always completed. So is the change of a package that is in place, or was about to be moved there.
        if change.manifest.is_none() || in_place || between {
            change.forward(held, home, between)?;
        } else {
            change.back(held, home)?;
        }
    }
    held.sweep()
}

/// Settles changes that a process left unfinished. Called when a session starts; for a project only if it is trusted. Writes
/// nothing if there is nothing to settle, and does not touch a change that another process is making.
///
/// # Errors
///
/// Returns one error for each scope that cannot be settled; its packages are loaded nevertheless.
pub fn recover(disk: &Disk, dirs: &Dirs, scopes: &[InstallScope]) -> Vec<PackageError> {
    let mut problems = Vec::new();
    for scope in scopes {
        let settled = PackageStore::at(disk, &dirs.root(*scope), *scope).and_then(|store| {
            if !store.is_unsettled() {
                return Ok(());
            }
            let store = PackageStore::open(disk, store.root(), *scope)?;
            match store.lock(Duration::ZERO, |_| ()) {
                Err(error) if error.is_busy() => Ok(()),
                Err(error) => Err(error),
                Ok(held) => settle(&held, &dirs.home),
            }
        });
        problems.extend(settled.err());
    }
    problems
}
