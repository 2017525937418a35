//! Stamps: file metadata that shows, without reading a file, that it is unchanged.
//!
//! A [`DependencyManifest`](crate::dependency_manifest::DependencyManifest) lists the inputs of an artifact. Comparing them would
//! read every input at each start, so the cache also stores, under a MAC, the metadata of each file and folder at the last
//! comparison: device, inode, size, times of change. A file with an unchanged stamp has unchanged bytes; a folder with an
//! unchanged stamp has unchanged names, so that no new file takes precedence for an import. Items with another
//! stamp are read and stamped again.
//!
//! ```text
//! file      same bytes as before: its stamp, and each folder from it up to a root is stable
//! folder    same names as before: its stamp, and the folder around it is stable
//! absent    still no folder at the path: the folder around the path is stable
//! locked    a dependency of an installed package: the lock file, and each `node_modules` folder on the way to it is stable
//! ```
//!
//! File times have a limited resolution: a file that changes twice within one step keeps its stamp. So the clock of the
//! cache's file system is read before any item is stamped, and only items that changed before that time get a stamp: a later
//! change has a later time. On other file systems, and where times are full seconds, an item has to be [`MARGIN`] older.
//!
//! Only an installation writes files of a store. It checks them and writes the lock file. For a package that its lock file
//! lists unchanged, the package's own files are stamped, and for its dependencies the `node_modules` folders: a replaced
//! dependency changes the names in them.

use crate::package::LockEntry;
use crate::tree::SourceTree;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

/// Minimum age of a stamped file in nanoseconds, if times may be coarse or another clock's: two seconds, FAT's resolution.
const MARGIN: i128 = 2_000_000_000;
const NANOSECONDS: i128 = 1_000_000_000;

/// Metadata of a file or folder; links are not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: i128,
    changed: i128,
}

/// The kind of item at a path, as far as stamps distinguish it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StampKind {
    File,
    Folder,
    Other,
}

impl Stamp {
    #[cfg(unix)]
    fn at(path: &Path) -> Option<(StampKind, Self)> {
        let found = std::fs::symlink_metadata(path).ok()?;
        let kind = match found.file_type() {
            kind if kind.is_file() => StampKind::File,
            kind if kind.is_dir() => StampKind::Folder,
            _ => StampKind::Other,
        };
        Some((kind, Self::of(&found)))
    }

    #[cfg(unix)]
    fn of(found: &std::fs::Metadata) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        Self {
            device: found.dev(),
            inode: found.ino(),
            size: found.size(),
            modified: i128::from(found.mtime()) * NANOSECONDS + i128::from(found.mtime_nsec()),
            changed: i128::from(found.ctime()) * NANOSECONDS + i128::from(found.ctime_nsec()),
        }
    }

    /// Returns `None`: this system does not support stamps, so every file is read.
    #[cfg(not(unix))]
    fn at(_: &Path) -> Option<(StampKind, Self)> {
        None
    }

    /// Returns whether any later change would change the stamp.
    fn is_before(&self, moment: Moment) -> bool {
        let latest = self.modified.max(self.changed);
        let is_coarse = self.modified % NANOSECONDS == 0 && self.changed % NANOSECONDS == 0;
        let margin = if is_coarse || self.device != moment.device { MARGIN } else { 0 };
        latest + margin < moment.time
    }
}

/// A time of a file system's clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    device: u64,
    time: i128,
}

impl Moment {
    /// Reads the clock of a folder's file system, by creating an unnamed temporary file.
    #[cfg(unix)]
    pub(crate) fn of(folder: &Path) -> Option<Self> {
        let found = tempfile::tempfile_in(folder).ok()?.metadata().ok()?;
        let Stamp { device, changed, .. } = Stamp::of(&found);
        Some(Self { device, time: changed })
    }

    #[cfg(not(unix))]
    pub(crate) fn of(_: &Path) -> Option<Self> {
        None
    }
}

/// The recorded state of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum FolderMark {
    Stamped(Stamp),
    /// No folder of that name exists.
    Absent,
}

impl LockEntry {
    fn stamp(&self) -> Option<Stamp> {
        Stamp::at(&self.file).filter(|(kind, _)| *kind == StampKind::File).map(|(_, stamp)| stamp)
    }
}

/// Stamps of the inputs in a dependency manifest. The default is empty, so that everything is read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamps {
    /// Digest of the dependency manifest that the stamps belong to.
    pub(crate) record: String,
    /// The key of the artifact, so that a lookup need not compute it.
    pub(crate) key: String,
    /// Stamp of the lock file, and whether the lock file vouches for dependencies.
    lock: Option<(Stamp, bool)>,
    files: BTreeMap<PathBuf, Stamp>,
    folders: BTreeMap<PathBuf, FolderMark>,
}

impl Stamps {
    /// Returns the stamps, bound to this note and the artifact to which it leads.
    pub(crate) fn of(self, record: String, key: String) -> Self {
        Self { record, key, ..self }
    }
}

/// Compares the inputs of a dependency manifest with their stamps.
pub(crate) struct StampCheck<'a> {
    known: &'a Stamps,
    tree: &'a SourceTree,
    /// Whether the lock file vouches for dependencies, and is unchanged.
    locked: bool,
    /// Whether the lock file differs from the stamped one.
    other_lock: bool,
    stable: RefCell<HashMap<PathBuf, bool>>,
}

impl<'a> StampCheck<'a> {
    pub(crate) fn new(known: &'a Stamps, tree: &'a SourceTree, lock: Option<&LockEntry>) -> Self {
        let lock_now = lock.and_then(LockEntry::stamp);
        let locked = lock_now.is_some_and(|now| known.lock == Some((now, true)));
        let other_lock = lock_now.is_some() && lock_now != known.lock.map(|(stamp, _)| stamp);
        Self { known, tree, locked, other_lock, stable: RefCell::default() }
    }

    /// Returns whether the lock file changed, so that it may vouch for other dependencies than before.
    pub(crate) fn has_other_lock(&self) -> bool {
        self.other_lock
    }

    /// Returns whether the file at a path has the same bytes as when it was stamped.
    pub(crate) fn is_same_file(&self, path: &Path) -> bool {
        let Some(folder) = path.parent() else { return false };
        if !self.leads_on(folder) {
            return false;
        }
        match self.known.files.get(path) {
            Some(stamp) => Stamp::at(path) == Some((StampKind::File, *stamp)),
            None => self.locked && is_inner(self.tree, path),
        }
    }

    /// Returns whether a folder has the same names as when it was stamped, or is still absent.
    pub(crate) fn has_same_names(&self, folder: &Path) -> bool {
        if let Some(known) = self.stable.borrow().get(folder) {
            return *known;
        }
        let is_same = match self.known.folders.get(folder) {
            Some(FolderMark::Stamped(stamp)) => Stamp::at(folder) == Some((StampKind::Folder, *stamp)),
            Some(FolderMark::Absent) => folder.parent().is_some_and(|around| self.has_same_names(around)),
            None => self.locked && is_inner_folder(self.tree, folder),
        };
        let is_same = is_same && (self.tree.is_root(folder) || folder.parent().is_some_and(|at| self.leads_on(at)));
        self.stable.borrow_mut().insert(folder.to_owned(), is_same);
        is_same
    }

    /// Returns whether the path to a folder is unchanged. A root has no check, because it is opened without following links.
    fn leads_on(&self, folder: &Path) -> bool {
        self.tree.is_root(folder) || self.has_same_names(folder)
    }
}

impl Stamps {
    /// Stamps the inputs that `unsure` names and that may be stamped; the others keep their stamp from `known`. Must be called
    /// before the inputs in `unsure` are read.
    pub(crate) fn renewed(
        known: &Self,
        unsure: &Unsure,
        tree: &SourceTree,
        (lock, is_locked): (Option<&LockEntry>, impl Fn(&LockEntry) -> bool),
        moment: Moment,
    ) -> Self {
        let mut stamps = known.clone();
        let now = lock.and_then(|lock| Some((lock, lock.stamp()?)));
        if stamps.lock.map(|(stamp, _)| stamp) != now.map(|(_, stamp)| stamp) {
            // All dependencies that the lock file vouched for are unverified.
            let vouching = now.filter(|(_, stamp)| stamp.is_before(moment));
            stamps.lock = vouching.map(|(lock, stamp)| (stamp, is_locked(lock)));
        }
        let is_locked = stamps.lock.is_some_and(|(_, vouches)| vouches);
        if is_locked {
            stamps.files.retain(|path, _| !is_inner(tree, path));
            stamps.folders.retain(|folder, _| !is_inner_folder(tree, folder));
        }
        let mut folders: BTreeSet<&Path> = unsure.folders.iter().map(PathBuf::as_path).collect();
        for path in &unsure.files {
            folders.extend(path.parent());
            if is_locked && is_inner(tree, path) {
                continue;
            }
            stamps.files.remove(path);
            let is_reached = path.parent().is_some_and(|at| tree.is_root(at) || tree.stamped_root(at).is_some());
            let found = Stamp::at(path).filter(|(_, stamp)| is_reached && stamp.is_before(moment));
            if let Some((StampKind::File, stamp)) = found {
                stamps.files.insert(path.clone(), stamp);
            }
        }
        let ways: BTreeSet<&Path> = folders.into_iter().flat_map(|folder| way_to(tree, folder)).collect();
        for folder in ways {
            let is_sure = !unsure.folders.contains(folder) && stamps.folders.contains_key(folder);
            if is_sure || is_locked && is_inner_folder(tree, folder) {
                continue;
            }
            stamps.folders.remove(folder);
            if unsure.opaque.contains(folder) {
                continue;
            }
            let mark = match Stamp::at(folder) {
                Some((StampKind::Folder, stamp)) => stamp.is_before(moment).then_some(FolderMark::Stamped(stamp)),
                Some((StampKind::File, _)) | None => Some(FolderMark::Absent),
                Some((StampKind::Other, _)) => None,
            };
            stamps.folders.extend(mark.map(|mark| (folder.to_owned(), mark)));
        }
        stamps
    }
}

/// The files and folders that have to be read because no stamp shows that they are unchanged.
#[derive(Debug, Default)]
pub(crate) struct Unsure {
    pub(crate) files: BTreeSet<PathBuf>,
    pub(crate) folders: BTreeSet<PathBuf>,
    /// Folders with entries that the build ignores, so that names alone do not show whether they changed.
    pub(crate) opaque: BTreeSet<PathBuf>,
}

impl Unsure {
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty() && self.folders.is_empty()
    }
}

/// Returns a folder and its ancestors up to and including a root; empty if folders are not stamped there: a folder around a loose
/// file changes often, and may belong to any user.
fn way_to<'p>(tree: &SourceTree, folder: &'p Path) -> Vec<&'p Path> {
    let Some(root) = tree.stamped_root(folder) else { return Vec::new() };
    folder.ancestors().take_while(|at| at.starts_with(root)).collect()
}

/// Returns whether a path is inside a dependency's folder in the package, which is installed as a whole.
fn is_inner(tree: &SourceTree, path: &Path) -> bool {
    path.parent().is_some_and(|folder| is_of_dependency(tree, folder))
}

/// Returns whether a folder belongs to a dependency and is not itself a `node_modules` folder.
fn is_inner_folder(tree: &SourceTree, folder: &Path) -> bool {
    folder.file_name().is_some_and(|name| name != "node_modules") && is_of_dependency(tree, folder)
}

fn is_of_dependency(tree: &SourceTree, folder: &Path) -> bool {
    let Some(below) = below_modules(tree, folder) else { return false };
    below.components().next().is_some_and(|first| !is_scope(first.as_os_str()) || below.components().count() > 1)
}

/// Returns the part of a path after its last `node_modules` in the package.
fn below_modules<'p>(tree: &SourceTree, folder: &'p Path) -> Option<&'p Path> {
    let inside = folder.strip_prefix(tree.package()).ok()?;
    let modules = inside.ancestors().find(|at| at.file_name().is_some_and(|name| name == "node_modules"))?;
    inside.strip_prefix(modules).ok()
}

fn is_scope(name: &std::ffi::OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b"@")
}
