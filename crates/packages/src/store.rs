//! Where the packages of a scope live, and how a new one takes its place.
//!
//! ```text
//! <root>/npm/node_modules/NAME/              as `npm install` would leave it; a second tool finds sane paths
//! <root>/npm/node_modules/NAME/node_modules/ its own dependencies
//! <root>/npm/.staging/                       work in progress; swept whenever the lock is taken
//! <root>/npm/.lock                           kernel lock: one writer for each scope
//! ```
//!
//! A package is complete and flushed in staging before one rename (or exchange, when there is an older one) makes it
//! visible. [`Change::undo`] is the same rename back.

use crate::Scope;
use crate::error::{InstallCode, PackageError, Result};
use crate::source::{PackageName, Source};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The packages of one scope, locked for writing until dropped.
pub(crate) struct Store {
    npm: PathBuf,
    _lock: File,
}

impl Store {
    /// Where a package of a scope is, installed or not.
    pub(crate) fn place(root: &Path, name: &PackageName) -> PathBuf {
        root.join("npm").join("node_modules").join(name.as_str())
    }

    /// The same for any source; a local path is where it is.
    pub(crate) fn place_of(root: &Path, source: &Source) -> PathBuf {
        match source {
            Source::Npm { name, .. } => Self::place(root, name),
            Source::Git(git) => root.join(git.place()),
            Source::Path(path) => path.clone(),
        }
    }

    /// Creates what is missing, waits for other writers, and clears what a killed one left behind. Blocks.
    pub(crate) fn open(root: &Path, scope: Scope) -> Result<Self> {
        let npm = root.join("npm");
        if scope == Scope::Project {
            // A cloned project could point these anywhere.
            for folder in [root, &npm, &npm.join("node_modules"), &npm.join(".staging"), &root.join("git")] {
                if fs::symlink_metadata(folder).is_ok_and(|metadata| metadata.is_symlink()) {
                    return Err(PackageError::new(
                        InstallCode::Link,
                        folder.display().to_string(),
                        "a symbolic link where packages are stored",
                    )
                    .help("remove the link"));
                }
            }
        }
        let failed = |path: &Path| {
            let path = path.to_path_buf();
            move |error| PackageError::io("create it", &path, error)
        };
        let modules = npm.join("node_modules");
        fs::create_dir_all(&modules).map_err(failed(&modules))?;
        for (name, text) in [
            (".gitignore", "*\n!.gitignore\n"),
            ("package.json", "{\n  \"name\": \"pi-extensions\",\n  \"private\": true\n}\n"),
        ] {
            let path = npm.join(name);
            match File::create_new(&path) {
                Ok(mut file) => file.write_all(text.as_bytes()).map_err(failed(&path))?,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(PackageError::io("create it", &path, error)),
            }
        }
        let path = npm.join(".lock");
        let lock = File::options().create(true).truncate(false).write(true).open(&path).map_err(failed(&path))?;
        lock.lock().map_err(|error| PackageError::io("lock it", &path, error))?;
        let this = Self { npm, _lock: lock };
        this.sweep()?;
        Ok(this)
    }

    fn sweep(&self) -> Result<()> {
        let staging = self.npm.join(".staging");
        remove_tree(&staging).map_err(|error| PackageError::io("clear it", &staging, error))?;
        fs::create_dir(&staging).map_err(|error| PackageError::io("create it", &staging, error))
    }

    /// An empty folder to build a package in; removed when dropped without [`Store::put`].
    pub(crate) fn stage(&self, label: &str) -> Result<tempfile::TempDir> {
        let staging = self.npm.join(".staging");
        tempfile::Builder::new()
            .prefix(label)
            .tempdir_in(&staging)
            .map_err(|error| PackageError::io("create a folder in it", &staging, error))
    }

    /// Makes the staged folder `from` the package at `to`, in one step.
    pub(crate) fn put(&self, to: &Path, from: &Path) -> Result<Change> {
        let to = to.to_path_buf();
        let parent = to.parent().expect("below node_modules");
        fs::create_dir_all(parent).map_err(|error| PackageError::io("create it", parent, error))?;
        flush_tree(from).map_err(|error| PackageError::io("write it to disk", from, error))?;
        let replaces = fs::symlink_metadata(&to).is_ok();
        let moved = if replaces { exchange(from, &to) } else { fs::rename(from, &to) };
        moved.map_err(|error| PackageError::io("put the package in place", &to, error))?;
        flush_dir(parent).map_err(|error| PackageError::io("write it to disk", parent, error))?;
        Ok(Change { to, staged: from.to_path_buf(), replaces })
    }

    /// Takes a package away: out of sight by one rename, then deleted.
    pub(crate) fn take_away(&self, place: &Path) -> Result<()> {
        if fs::symlink_metadata(place).is_err() {
            return Ok(());
        }
        let staged = self.stage("removed-")?;
        fs::rename(place, staged.path().join("package"))
            .map_err(|error| PackageError::io("remove it", place, error))?;
        // An empty scope folder would look like a package; one that is not empty stays.
        for folder in
            place.ancestors().skip(1).take_while(|folder| !folder.ends_with("node_modules") && !folder.ends_with("git"))
        {
            let _ = fs::remove_dir(folder);
        }
        Ok(())
    }
}

/// A package that was put in place, and how to take that back.
pub(crate) struct Change {
    to: PathBuf,
    staged: PathBuf,
    replaces: bool,
}

impl Change {
    /// Restores what was there before.
    pub(crate) fn undo(self) -> Result<()> {
        let undone = if self.replaces { exchange(&self.staged, &self.to) } else { fs::rename(&self.to, &self.staged) };
        undone.map_err(|error| PackageError::io("restore it", &self.to, error))
    }
}

/// Swaps two directory entries. Where the file system cannot, two renames, and for a moment neither is there.
fn exchange(a: &Path, b: &Path) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_vendor = "apple"))]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        use rustix::io::Errno;
        match renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE) {
            Ok(()) => return Ok(()),
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let aside = a.with_extension("aside");
    fs::rename(b, &aside)?;
    if let Err(error) = fs::rename(a, b) {
        fs::rename(&aside, b)?;
        return Err(error);
    }
    fs::rename(&aside, a)
}

/// Replaces a file in one rename, flushed before and after; with `backup`, the state before stays as `NAME.bak`.
///
/// A symbolic link is followed, so that settings kept elsewhere stay there.
pub(crate) fn write_atomically(path: &Path, bytes: &[u8], backup: bool) -> Result<()> {
    let failed = |error| PackageError::io("write it", path, error);
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let dir = target.parent().expect("a file in a folder");
    fs::create_dir_all(dir).map_err(failed)?;
    let before = match fs::read(&target) {
        Ok(before) if before == bytes => return Ok(()),
        Ok(before) => Some(before),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(failed(error)),
    };
    let replace = |to: &Path, bytes: &[u8]| -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(dir)?;
        file.write_all(bytes)?;
        if let Ok(metadata) = fs::metadata(&target) {
            file.as_file().set_permissions(metadata.permissions())?;
        }
        file.as_file().sync_all()?;
        file.persist(to)?;
        Ok(())
    };
    if let (Some(before), true) = (before, backup) {
        let mut name = target.file_name().expect("a file").to_owned();
        name.push(".bak");
        replace(&dir.join(name), &before).map_err(failed)?;
    }
    replace(&target, bytes).and_then(|()| flush_dir(dir)).map_err(failed)
}

fn remove_tree(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Everything below `dir` on disk. One call for the file system where there is one; a flush for each file costs seconds.
fn flush_tree(dir: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        rustix::fs::syncfs(File::open(dir)?)?;
        Ok(())
    }
    #[cfg(not(target_os = "linux"))]
    {
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                flush_tree(&entry.path())?;
            } else {
                File::open(entry.path())?.sync_all()?;
            }
        }
        flush_dir(dir)
    }
}

fn flush_dir(dir: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(dir)?.sync_all() } else { Ok(()) }
}
