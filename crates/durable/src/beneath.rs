//! A file system view that refuses symbolic links below given folders.
//!
//! It is used for folders whose content others may control: a cloned project, a folder that other tools write. Each operation
//! opens its root anew, following links (a home may be a link), and descends by plain names through handles. A link in the path
//! below the root is the error [`LinkInTheWay`]; so is a link as the last component that the operation would follow. Operations
//! on the last component itself read, move and remove the link.
//!
//! Folders above a root are accessible, because a root may have to be created; every other path is refused.

use crate::os::{self, OsFile, OsVfs};
use crate::owner::Owner;
use crate::vfs::{Kind, LinkInTheWay, Open, Stat, Vfs, VfsFile};
use rustix::fs::{self, AtFlags, Mode, OFlags, RawMode};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Flags for a folder that is only traversed, which needs no read permission where the system supports that.
#[cfg(target_os = "linux")]
const TRAVERSE: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const TRAVERSE: OFlags = LOOK_AT;
const LOOK_AT: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The file system of the machine below some folders.
#[derive(Debug)]
pub(crate) struct Beneath {
    /// Absolute paths of the roots. If two roots contain a path, the deeper one applies.
    roots: Vec<PathBuf>,
}

impl Beneath {
    pub(crate) fn new(roots: &[PathBuf]) -> Self {
        Self { roots: roots.to_vec() }
    }

    /// Opens a folder. Follows links in the root, but not below it.
    fn folder(&self, path: &Path, how: OFlags) -> io::Result<OwnedFd> {
        if self.roots.iter().any(|root| root.starts_with(path)) {
            return Ok(fs::open(path, how, Mode::empty())?);
        }
        let below = |root: &PathBuf| path.strip_prefix(root).is_ok();
        let deepest = self.roots.iter().filter(|root| below(root)).max_by_key(|root| root.as_os_str().len());
        let root = deepest.ok_or_else(|| outside(path))?;
        let below = path.strip_prefix(root).expect("the path was just found below the root");
        if !below.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(outside(path));
        }
        let top = fs::open(root, TRAVERSE, Mode::empty())?;
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::ResolveFlags;
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
            if let Ok(folder) = fs::openat2(&top, below, how | OFlags::NOFOLLOW, Mode::empty(), resolve) {
                return Ok(folder);
            }
        }
        // Fallback if the system call is missing; also finds the name that failed.
        descend(top, root, below, how)
    }

    /// Opens the parent folder of a path; returns the folder and the last name.
    fn parent<'a>(&self, path: &'a Path) -> io::Result<(OwnedFd, &'a OsStr)> {
        if !self.roots.iter().any(|root| root.starts_with(path) || path.starts_with(root)) {
            return Err(outside(path));
        }
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Err(outside(path)) };
        Ok((self.folder(folder, TRAVERSE)?, name))
    }
}

/// Descends name by name.
fn descend(top: OwnedFd, root: &Path, below: &Path, how: OFlags) -> io::Result<OwnedFd> {
    let mut at = top;
    let mut path = root.to_owned();
    let mut names = below.iter().peekable();
    while let Some(name) = names.next() {
        path.push(name);
        let how = if names.peek().is_some() { TRAVERSE } else { how };
        at = fs::openat(&at, name, how | OFlags::NOFOLLOW, Mode::empty())
            .map_err(|error| link_error(&at, name, &path, error))?;
    }
    Ok(at)
}

/// Converts the error of opening `name` to [`LinkInTheWay`] if the name is a link, because the error number differs between
/// systems.
fn link_error(folder: &OwnedFd, name: &OsStr, path: &Path, error: Errno) -> io::Error {
    match fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if kind(&stat) == Kind::Link => LinkInTheWay::error(path),
        _ => error.into(),
    }
}

fn outside(path: &Path) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, format!("{} is outside of the allowed folders", path.display()))
}

fn kind(stat: &fs::Stat) -> Kind {
    match fs::FileType::from_raw_mode(stat.st_mode as RawMode) {
        fs::FileType::RegularFile => Kind::File,
        fs::FileType::Directory => Kind::Directory,
        fs::FileType::Symlink => Kind::Link,
        _ => Kind::Other,
    }
}

impl Vfs for Beneath {
    fn open(&self, path: &Path, open: Open) -> io::Result<Box<dyn VfsFile>> {
        let (folder, name) = self.parent(path)?;
        let (how, mode) = match open {
            Open::Read => (OFlags::RDONLY, 0),
            Open::CreateNew(mode) => (OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, mode),
            Open::Append(mode) => (OFlags::RDWR | OFlags::APPEND | OFlags::CREATE, mode),
        };
        let how = how | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        match fs::openat(&folder, name, how, Mode::from_raw_mode(mode as RawMode)) {
            Ok(file) => Ok(Box::new(OsFile(file.into()))),
            Err(error @ (Errno::LOOP | Errno::MLINK)) => Err(link_error(&folder, name, path, error)),
            Err(error) => Err(error.into()),
        }
    }

    fn stat(&self, path: &Path) -> io::Result<Stat> {
        let (folder, name) = self.parent(path)?;
        let stat = fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(Stat {
            kind: kind(&stat),
            len: u64::try_from(stat.st_size).unwrap_or_default(),
            mode: stat.st_mode as u32 & 0o7777,
            uid: stat.st_uid,
            links: stat.st_nlink as u64,
            id: (stat.st_dev as u64, stat.st_ino as u64),
            modified: (stat.st_mtime as i64, stat.st_mtime_nsec as i64),
        })
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in fs::Dir::new(self.folder(directory, LOOK_AT)?)? {
            let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let (folder, name) = self.parent(path)?;
        Ok(fs::mkdirat(&folder, name, Mode::RWXU)?)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let ((a, from), (b, to)) = (self.parent(from)?, self.parent(to)?);
        Ok(fs::renameat(&a, from, &b, to)?)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        let ((a, from), (b, to)) = (self.parent(from)?, self.parent(to)?);
        os::rename_new(&a, from, &b, to)
    }

    fn exchange(&self, a: &Path, b: &Path) -> io::Result<()> {
        let ((first, a), (second, b)) = (self.parent(a)?, self.parent(b)?);
        os::exchange(&first, a, &second, b)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let (folder, name) = self.parent(path)?;
        Ok(fs::unlinkat(&folder, name, AtFlags::empty())?)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let (folder, name) = self.parent(path)?;
        Ok(fs::unlinkat(&folder, name, AtFlags::REMOVEDIR)?)
    }

    fn directory(&self, path: &Path) -> io::Result<File> {
        Ok(self.folder(path, LOOK_AT)?.into())
    }

    fn sync_dir(&self, directory: &Path) -> io::Result<()> {
        self.directory(directory)?.sync_all()
    }

    fn sync_tree(&self, directory: &Path) -> io::Result<()> {
        os::sync_tree(self, directory)
    }

    fn step(&self, _what: &str) -> io::Result<()> {
        Ok(())
    }

    fn owner(&self) -> io::Result<Owner> {
        OsVfs.owner()
    }

    fn beneath(&self, roots: &[PathBuf]) -> io::Result<Arc<dyn Vfs>> {
        OsVfs.beneath(roots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Disk;
    use std::os::unix::fs::symlink;

    /// Creates `root/inside/file`, `root/out -> ../outside`, `outside/victim/file`.
    fn world() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["root/inside", "outside/victim"] {
            std::fs::create_dir_all(folder.path().join(name)).expect("a folder");
            std::fs::write(folder.path().join(name).join("file"), name).expect("a file");
        }
        let root = folder.path().join("root");
        symlink("../outside", root.join("out")).expect("a link");
        (folder, root)
    }

    fn beneath(root: &Path) -> Disk {
        Disk::system().beneath(&[root.to_owned()]).expect("on this system")
    }

    #[test]
    fn every_operation_refuses_a_link_on_the_way() {
        let (folder, root) = world();
        let disk = beneath(&root);
        let (through, inside) = (root.join("out/victim"), root.join("inside"));
        let file = through.join("file");
        let attempts: [(&str, io::Result<()>); 16] = [
            ("open", disk.open(&file, Open::Read).map(drop)),
            ("create", disk.open(&through.join("new"), Open::CreateNew(0o600)).map(drop)),
            ("append", disk.open(&file, Open::Append(0o600)).map(drop)),
            ("stat", disk.stat(&file).map(drop)),
            ("list", disk.list(&through).map(drop)),
            ("list the link", disk.list(&root.join("out")).map(drop)),
            ("create_dir", disk.create_dir(&through.join("new"))),
            ("rename from", disk.rename(&file, &inside.join("taken"))),
            ("rename to", disk.rename(&inside.join("file"), &file)),
            ("rename_new", disk.rename_new(&inside.join("file"), &through.join("new"))),
            ("exchange", disk.exchange(&inside.join("file"), &file)),
            ("remove_file", disk.remove_file(&file)),
            ("remove_dir", disk.remove_dir(&through)),
            ("sync_dir", disk.sync_dir(&through)),
            ("remove_tree", disk.remove_tree(&through)),
            ("replace", disk.replace(&file, b"new", crate::Replace::STATE)),
        ];
        for (name, attempt) in attempts {
            let error = attempt.expect_err(name);
            assert_eq!(LinkInTheWay::of(&error), Some(root.join("out").as_path()), "{name}: {error}");
        }
        assert_eq!(std::fs::read(folder.path().join("outside/victim/file")).expect("there"), b"outside/victim");
        assert_eq!(std::fs::read_dir(folder.path().join("outside/victim")).expect("there").count(), 1);
        assert_eq!(std::fs::read(root.join("inside/file")).expect("there"), b"root/inside");
    }

    #[test]
    fn descending_by_name_equals_the_system_call() {
        let (_folder, root) = world();
        let top = || fs::open(&root, TRAVERSE, Mode::empty()).expect("there");
        assert!(descend(top(), &root, Path::new("inside"), LOOK_AT).is_ok());
        for (below, link) in [("out/victim", true), ("out", true), ("inside/file", false), ("none/such", false)] {
            let error = descend(top(), &root, Path::new(below), LOOK_AT).expect_err(below);
            assert_eq!(LinkInTheWay::of(&error).is_some(), link, "{below}: {error}");
        }
    }

    #[test]
    fn operations_at_the_end_act_on_the_link() {
        let (folder, root) = world();
        let disk = beneath(&root);
        let link = root.join("out");
        assert_eq!(disk.stat(&link).expect("there").kind, Kind::Link);
        disk.rename(&link, &root.join("inside/moved")).expect("moved");
        symlink("file", root.join("inside/alias")).expect("a link");
        for open in [Open::Read, Open::Append(0o600)] {
            let error = disk.open(&root.join("inside/alias"), open).expect_err("followed");
            assert!(LinkInTheWay::of(&error).is_some(), "{error}");
        }
        disk.remove_tree(&root.join("inside")).expect("removed");
        symlink("settings", root.join("settings.json")).expect("a link");
        std::fs::write(root.join("settings"), "old").expect("a file");
        let error = disk.replace(&root.join("settings.json"), b"new", crate::Replace::SHARED).expect_err("followed");
        assert!(LinkInTheWay::of(&error).is_some(), "{error}");
        assert_eq!(std::fs::read(root.join("settings")).expect("there"), b"old");
        assert!(!root.join("inside").exists() && folder.path().join("outside/victim/file").exists());
    }

    #[test]
    fn a_root_may_be_a_link_or_missing_and_other_paths_are_refused() {
        let (folder, root) = world();
        let linked = folder.path().join("linked");
        symlink(&root, &linked).expect("a link");
        let disk = beneath(&linked);
        assert_eq!(disk.read(&linked.join("inside/file"), 99).expect("read"), Some(b"root/inside".to_vec()));
        assert_eq!(disk.list(&linked).expect("listed"), ["inside", "out"]);
        for beside in [folder.path().join("outside/victim/file"), linked.join("inside/../../outside/victim/file")] {
            assert_eq!(disk.stat(&beside).expect_err("reached").kind(), ErrorKind::InvalidInput);
            assert_eq!(disk.remove_file(&beside).expect_err("reached").kind(), ErrorKind::InvalidInput);
        }
        let fresh = folder.path().join("a/b");
        let disk = beneath(&fresh);
        assert!(!disk.exists(&fresh.join("c")).expect("the lookup succeeds"));
        disk.create_dirs(&fresh.join("c")).expect("made");
        assert!(fresh.join("c").is_dir());
    }

    /// A root inside another root may be a link, for example a package folder that the user keeps on another disk.
    #[test]
    fn a_nested_root_may_be_a_link() {
        let (_folder, root) = world();
        let disk = Disk::system().beneath(&[root.clone(), root.join("out")]).expect("on this system");
        assert_eq!(disk.read(&root.join("out/victim/file"), 99).expect("read"), Some(b"outside/victim".to_vec()));
        assert_eq!(disk.stat(&root.join("out")).expect("there").kind, Kind::Link);
    }
}
