//! Denies a program and its descendants access to files by Landlock, regardless of the path that they use.
//!
//! Landlock has permissions but no exceptions, and a permission for a folder covers everything below it. So everything is
//! permitted except the folders that contain a closed file, whose other entries are permitted one by one. Nothing new can be
//! created directly in such a folder. File names stay visible. A program with [`FileBounds`] can open only what these contain.

use landlock::{
    ABI, AccessFs, BitFlags, PathBeneath, Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _,
    RulesetError,
};
use pijs_durable::Owner;
use pijs_git_bounds::FileBounds;
use pijs_hostcall::places::is_aside;
use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2};
use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Restricts the calling thread. Has no effect on a kernel without Landlock.
pub(super) fn restrict(closed: &[PathBuf], unwritten: &[PathBuf]) -> io::Result<()> {
    if closed.is_empty() && unwritten.is_empty() {
        return Ok(());
    }
    let refused = |error: RulesetError| io::Error::new(io::ErrorKind::PermissionDenied, error);
    let all = AccessFs::from_write(ABI::V5) | AccessFs::ReadFile;
    let rules = Ruleset::default().handle_access(all).and_then(Ruleset::create).map_err(refused)?;
    let root = openat(CWD, c"/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let rules = FileRules { closed, unwritten }.permit_inside(rules, &root, Path::new("/"), all).map_err(refused)?;
    rules.restrict_self().map_err(refused)?;
    Ok(())
}

/// Restricts the calling thread to these files. Has no effect on a kernel without Landlock.
pub(super) fn bound(bounds: &FileBounds) -> io::Result<()> {
    let refused = |error: RulesetError| io::Error::new(io::ErrorKind::PermissionDenied, error);
    let (reads, changes) = (BitFlags::from(AccessFs::ReadFile), AccessFs::from_write(ABI::V5));
    let mut rules = Ruleset::default().handle_access(reads | changes).and_then(Ruleset::create).map_err(refused)?;
    let read = bounds.read.iter().map(|path| (path, reads));
    for (path, access) in read.chain(bounds.written.iter().map(|path| (path, changes))) {
        // A name that an extension exchanged for a link since the path was resolved does not open.
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let Ok(file) = openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) else { continue };
        let is_folder = fstat(&file).is_ok_and(|found| FileType::from_raw_mode(found.st_mode).is_dir());
        let access = if is_folder { access } else { access & AccessFs::from_file(ABI::V5) };
        rules = rules.add_rule(PathBeneath::new(file, access)).map_err(refused)?;
    }
    rules.restrict_self().map_err(refused)?;
    Ok(())
}

struct FileRules<'a> {
    closed: &'a [PathBuf],
    unwritten: &'a [PathBuf],
}

impl FileRules<'_> {
    /// Returns whether a path is closed, or is a backup copy next to a closed file.
    fn is_closed(&self, path: &Path) -> bool {
        let is_aside = |kept: &PathBuf| {
            kept.parent() == path.parent()
                && path.file_name().zip(kept.file_name()).is_some_and(|(name, of)| is_aside(name, of))
        };
        self.closed.iter().any(|kept| kept == path || is_aside(kept))
    }

    /// Permits the entries of a folder that contains something closed, except the closed ones.
    ///
    /// Every entry is opened relative to the folder's handle without following a link, and the permission is for the opened file,
    /// because an extension may exchange names in the meantime.
    fn permit_inside(
        &self,
        mut rules: RulesetCreated,
        folder: &OwnedFd,
        path: &Path,
        access: BitFlags<AccessFs>,
    ) -> Result<RulesetCreated, RulesetError> {
        // The program cannot access the entries of a folder that cannot be listed.
        for name in names(folder) {
            let path = path.join(OsStr::from_bytes(name.to_bytes()));
            // A temporary file that is about to replace one of PiJS's own files has a different name, so it is skipped by its
            // form.
            if self.is_closed(&path) || name.to_str().is_ok_and(|name| Owner::of(name).is_some()) {
                continue;
            }
            let Ok(entry) = openat(folder, &name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
            else {
                continue;
            };
            let Ok(kind) = fstat(&entry).map(|found| FileType::from_raw_mode(found.st_mode)) else { continue };
            // The target of a link is permitted or not at its own location.
            if kind.is_symlink() {
                continue;
            }
            let access = if self.unwritten.contains(&path) { AccessFs::ReadFile.into() } else { access };
            let is_above = |kept: &PathBuf| kept.starts_with(&path) && *kept != path;
            let is_on_the_way = self.closed.iter().any(is_above)
                || (access != AccessFs::ReadFile && self.unwritten.iter().any(is_above));
            if kind.is_dir() && is_on_the_way {
                rules = self.permit_inside(rules, &entry, &path, access)?;
            } else {
                let access = if kind.is_dir() { access } else { access & AccessFs::from_file(ABI::V5) };
                rules = rules.add_rule(PathBeneath::new(entry, access))?;
            }
        }
        Ok(rules)
    }
}

/// Returns the names in a folder; empty if it cannot be listed.
fn names(folder: &OwnedFd) -> Vec<CString> {
    // The handle is `O_PATH` only; its `.` entry is not a link and cannot be exchanged.
    let listing = openat(folder, c".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let Ok(entries) = listing.and_then(Dir::new) else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok().map(|entry| entry.file_name().to_owned()));
    names.filter(|name| !matches!(name.to_bytes(), b"." | b"..")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Number of rounds in which a name is exchanged while the rules are applied.
    const ROUNDS: usize = 300;
    /// Number of sibling folders.
    const ENTRIES: usize = 300;

    /// Returns whether a thread can read `file` after it has restricted itself.
    fn reads(file: &Path, closed: &Path) -> bool {
        let (file, closed) = (file.to_owned(), closed.to_owned());
        let confined = std::thread::spawn(move || {
            restrict(&[closed], &[]).expect("Landlock takes the rules");
            std::fs::read(file).is_ok()
        });
        confined.join().expect("the thread ends")
    }

    #[test]
    fn files_that_are_about_to_replace_closed_ones_are_closed() {
        let home = tempfile::tempdir().expect("a folder");
        let home = home.path().canonicalize().expect("a path");
        let (closed, open) = (home.join("auth.json"), home.join("notes.tmp"));
        let new = home.join(Owner::this_process().expect("an owner").temporary_name("auth.json"));
        for file in [&closed, &open, &new] {
            std::fs::write(file, "x").expect("written");
        }
        if reads(&closed, &closed) {
            return; // This kernel has no Landlock.
        }
        assert!(reads(&open, &closed) && !reads(&new, &closed));
    }

    #[test]
    fn a_name_that_is_exchanged_for_a_link_opens_nothing() {
        let home = tempfile::tempdir().expect("a folder");
        let home = home.path().canonicalize().expect("a path");
        let (closed, swapped) = (home.join("closed"), home.join("swapped"));
        std::fs::create_dir(&closed).expect("a folder");
        // More entries widen the time between listing the folder and opening the last entry.
        (0..ENTRIES).for_each(|n| std::fs::create_dir(home.join(format!("other{n}"))).expect("a folder"));
        let secret = closed.join("secret");
        std::fs::write(&secret, "x").expect("written");
        if reads(&secret, &closed) {
            return; // This kernel has no Landlock.
        }
        let is_over = AtomicBool::new(false);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    std::fs::write(&swapped, "x").expect("written");
                    std::fs::remove_file(&swapped).expect("removed");
                    std::os::unix::fs::symlink(&closed, &swapped).expect("a link");
                    std::fs::remove_file(&swapped).expect("removed");
                }
            });
            let opened = (0..ROUNDS).position(|_| reads(&secret, &closed));
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(opened, None, "a view was made of what the name led to");
        });
    }
}
