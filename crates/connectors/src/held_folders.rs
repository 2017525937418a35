//! Keeps folders in place while programs work in them.
//!
//! Some programs obey files of their working folder and of the folders above it: `git` finds its repository there. These files are
//! checked before the program starts. A working folder that is moved after the check would have other folders above it. So the
//! file connector does not move a folder in which a program of an extension works, nor one above it: the call fails with `EBUSY`,
//! as it does on Windows. The list belongs to the process, because extensions of several sessions may share folders.

use crate::system::{Dir, Kind};
use pijs_protocol::guard;
use rustix::fs::{AtFlags, statat};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Device and inode of a folder.
type FolderIdentity = (u64, u64);

/// Maximum depth of a working folder. A deeper one has no path.
const MAX_DEPTH: usize = 2048;

/// The number of programs that work in or below each folder.
static HELD: Mutex<BTreeMap<FolderIdentity, usize>> = Mutex::new(BTreeMap::new());

fn held() -> MutexGuard<'static, BTreeMap<FolderIdentity, usize>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps a folder and those above it in place until it is dropped.
#[derive(Debug)]
pub(crate) struct HeldFolder(Vec<FolderIdentity>);

impl HeldFolder {
    /// Holds an open folder.
    ///
    /// # Errors
    ///
    /// Fails if `path`, which was decided about, does not lead to the folder any more.
    pub(crate) fn new(folder: &File, path: &Path) -> io::Result<Self> {
        let mut held = held();
        let (opened, named) = (folder.metadata()?, path.symlink_metadata()?);
        if (opened.dev(), opened.ino()) != (named.dev(), named.ino()) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let mut chain = vec![(opened.dev(), opened.ino())];
        let mut above = "..".to_owned();
        while chain.len() < MAX_DEPTH
            && let Ok(stat) = statat(folder, above.as_str(), AtFlags::empty())
            && chain.last() != Some(&(stat.st_dev, stat.st_ino))
        {
            chain.push((stat.st_dev, stat.st_ino));
            above.push_str("/..");
        }
        for folder in &chain {
            *held.entry(*folder).or_default() += 1;
        }
        Ok(Self(chain))
    }
}

impl Drop for HeldFolder {
    fn drop(&mut self) {
        let mut held = held();
        for folder in &self.0 {
            let Some(count) = held.get_mut(folder) else { continue };
            *count -= 1;
            if *count == 0 {
                held.remove(folder);
            }
        }
    }
}

/// Moves a file or folder; fails with `EBUSY` while it is held.
pub(crate) fn rename(from: (&dyn Dir, &OsStr), to: (&dyn Dir, &OsStr)) -> io::Result<()> {
    let held = held();
    let found = from.0.lstat(from.1)?;
    if found.kind() == Kind::Dir && held.contains_key(&(found.dev, found.ino)) && guard!(ExecHeldFolder) {
        return Err(rustix::io::Errno::BUSY.into());
    }
    from.0.rename(from.1, to.0, to.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::{FileSystem as _, Mounts, OsFileSystem};

    #[test]
    fn a_folder_and_those_above_it_stay_until_the_last_program_ends() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().canonicalize().expect("a path");
        std::fs::create_dir_all(at.join("a/b")).expect("folders");
        let top = OsFileSystem::new().open_root(&at, Mounts::Cross).expect("a folder");
        let moved = |from: &str, to: &str| rename((&*top, OsStr::new(from)), (&*top, OsStr::new(to)));
        let open = File::open(at.join("a/b")).expect("a folder");
        let first = HeldFolder::new(&open, &at.join("a/b")).expect("held");
        let second = HeldFolder::new(&open, &at.join("a/b")).expect("held");
        assert!(moved("a", "c").is_err());
        drop(first);
        assert_eq!(moved("a", "c").expect_err("held").kind(), io::ErrorKind::ResourceBusy);
        drop(second);
        moved("a", "c").expect("moved");
        let moved = HeldFolder::new(&open, &at.join("a/b"));
        assert_eq!(moved.expect_err("another path").kind(), io::ErrorKind::NotFound);
    }
}
