//! Operations that create, move and remove names.

use super::FsState;
use super::content::copy;
use super::error::{EEXIST, EINVAL, EISDIR, ENOENT, ENOTDIR, EPERM, ErrorContext, FsError, code};
use super::placed_links::{Move, check_new, check_protected_below, hold_links};
use super::walk::{FinalLink, Reached};
use super::written::{TrackedName, check_granted, check_unchanged, stamp};
use crate::held_folders;
use crate::system::{Dir, Kind};
use pijs_hostcall::{Access, Output, Permit, Request};
use pijs_protocol::{HostcallError, guard};
use serde_json::json;
use std::ffi::OsStr;
use std::path::Path;

/// Maximum depth of a tree that is created, removed or copied.
const DEEPEST: usize = 256;
/// Maximum number of attempts to find a free temporary name.
const MAX_TRIES: usize = 100;

impl FsState {
    fn reach_to_write(&self, request: &Request, path: &str) -> Result<Reached, FsError> {
        self.reach(request, path, Access::Write, FinalLink::Keep)
    }

    pub(super) fn mkdir(
        &self,
        request: &Request,
        path: &str,
        recursive: bool,
        mode: Option<u64>,
    ) -> Result<Output, HostcallError> {
        let at = ErrorContext::path("mkdir", path);
        // The mask keeps nine bits.
        let mode = (mode.unwrap_or(0o777) & 0o777) as u32;
        if !recursive {
            let made = self
                .reach(request, path, Access::Make, FinalLink::Keep)
                .and_then(|reached| make_folder(&request.permit, &reached, mode));
            made.map_err(|failure| failure.at(&at))?;
            return Ok(Output::empty());
        }
        let absolute = request.permit.places().node_path(path)?;
        let first = self.mkdir_all(&request.permit, &absolute, mode).map_err(|failure| failure.at(&at))?;
        Ok(match first {
            Some(first) => Output::new(json!({ "first": first.to_string_lossy() })),
            None => Output::empty(),
        })
    }

    /// Creates `path` and missing folders above it; returns the topmost folder that was created.
    pub(super) fn mkdir_all(
        &self,
        permit: &Permit,
        path: &Path,
        mode: u32,
    ) -> Result<Option<std::path::PathBuf>, FsError> {
        // Each folder is walked to from the root, so that no folder can be exchanged in the meantime.
        if path.components().count() > DEEPEST {
            return Err(code(EINVAL).into());
        }
        let mut missing = vec![path];
        let mut first = None;
        // Each round creates a folder, or finds that its parent is missing.
        while let Some(next) = missing.last().copied() {
            let made = self.walk(permit, next, Access::Make, FinalLink::Follow).and_then(|reached| {
                match make_folder(permit, &reached, mode) {
                    Ok(()) => Ok(true),
                    Err(FsError::Io(error)) if error.raw_os_error() == Some(EEXIST) => match reached.lstat()?.kind() {
                        Kind::Dir => Ok(false),
                        _ if next == path => Err(code(EEXIST).into()),
                        _ => Err(code(ENOTDIR).into()),
                    },
                    Err(failure) => Err(failure),
                }
            });
            match made {
                Ok(made) => {
                    if made && first.is_none() {
                        first = Some(next.to_owned());
                    }
                    missing.pop();
                }
                Err(FsError::Io(error)) if error.raw_os_error() == Some(ENOENT) => match next.parent() {
                    Some(parent) => missing.push(parent),
                    None => return Err(error.into()),
                },
                // The parent exists but may not be written.
                Err(failure) => return Err(failure),
            }
        }
        Ok(first)
    }

    pub(super) fn mkdtemp(&self, request: &Request, prefix: &str) -> Result<Output, HostcallError> {
        // Node's messages show the template before the random part is chosen.
        let shown = format!("{prefix}{}", "X".repeat(6));
        let at = ErrorContext::path("mkdtemp", &shown);
        for _ in 0..MAX_TRIES {
            let path = format!("{prefix}{}", self.system.random_name());
            let absolute = request.permit.places().node_path(&path)?;
            let made = self
                .walk(&request.permit, &absolute, Access::Make, FinalLink::Keep)
                .and_then(|reached| make_folder(&request.permit, &reached, 0o700));
            match made {
                Ok(()) => return Ok(Output::new(json!({ "path": path }))),
                Err(FsError::Io(error)) if error.raw_os_error() == Some(EEXIST) => {}
                Err(failure) => return Err(failure.at(&at)),
            }
        }
        Err(at.io(&code(EEXIST)))
    }

    pub(super) fn rmdir(&self, request: &Request, path: &str) -> Result<Output, HostcallError> {
        let at = ErrorContext::path("rmdir", path);
        let done = self.reach_to_write(request, path).and_then(|reached| {
            reached.dir.rmdir(reached.named()?)?;
            request.permit.leaves(&reached.real, None);
            Ok(())
        });
        done.map_err(|failure| failure.at(&at))?;
        Ok(Output::empty())
    }

    pub(super) fn unlink(&self, request: &Request, path: &str) -> Result<Output, HostcallError> {
        let at = ErrorContext::path("unlink", path);
        let done = self.reach_to_write(request, path).and_then(|reached| {
            reached.dir.unlink(reached.named()?)?;
            request.permit.leaves(&reached.real, None);
            Ok(())
        });
        done.map_err(|failure| failure.at(&at))?;
        Ok(Output::empty())
    }

    pub(super) fn rm(
        &self,
        request: &Request,
        path: &str,
        recursive: bool,
        force: bool,
    ) -> Result<Output, HostcallError> {
        let at = ErrorContext::path("rm", path);
        let done = self.reach_to_write(request, path).and_then(|reached| {
            let name = reached.named()?;
            match reached.dir.lstat(name)?.kind() {
                Kind::Dir if !recursive => Err(code(EISDIR).into()),
                Kind::Dir => remove_tree(&*reached.dir, name, &reached.real, request, 0),
                _ => {
                    reached.dir.unlink(name)?;
                    request.permit.leaves(&reached.real, None);
                    Ok(())
                }
            }
        });
        match done {
            Err(FsError::Io(error)) if force && error.raw_os_error() == Some(ENOENT) => {}
            Err(FsError::Io(error)) if error.raw_os_error() == Some(EISDIR) && !recursive => {
                let mut result = at.io(&error);
                result = result.with("node", "ERR_FS_EISDIR");
                return Err(result);
            }
            other => other.map_err(|failure| failure.at(&at))?,
        }
        Ok(Output::empty())
    }

    pub(super) fn rename(&self, request: &Request, from: &str, to: &str) -> Result<Output, HostcallError> {
        let at = ErrorContext::both("rename", from, to);
        let _held = hold_links();
        let done = self.reach_to_write(request, from).and_then(|from| {
            let to = self.reach_to_write(request, to)?;
            let (from_name, to_name) = (from.named()?, to.named()?);
            let mut moved = Move::new(request, &from.real, &to.real);
            match from.dir.lstat(from_name)?.kind() {
                Kind::Dir => {
                    // Moving a folder moves its contents, so each name in it is decided.
                    check_tree(&*from.dir.child(from_name)?, &from.real, &mut moved, 0)?;
                    check_protected_below(request, &to.real)?;
                }
                Kind::Symlink => {
                    check_protected_below(request, &to.real)?;
                    moved.check_link(&*from.dir, from_name, &from.real)?;
                }
                _ => {}
            }
            let is_own = TrackedName::new(&request.permit, &from).is_own();
            held_folders::rename((&*from.dir, from_name), (&*to.dir, to_name))?;
            request.permit.moves(&from.real, &to.real);
            TrackedName::new(&request.permit, &to).record(is_own);
            Ok(())
        });
        done.map_err(|failure| failure.at(&at))?;
        Ok(Output::empty())
    }

    pub(super) fn link(&self, request: &Request, from: &str, to: &str) -> Result<Output, HostcallError> {
        let at = ErrorContext::both("link", from, to);
        let done = self.reach_to_write(request, from).and_then(|from| {
            let to = self.reach_to_write(request, to)?;
            if from.lstat()?.kind() != Kind::File {
                return Err(code(EPERM).into());
            }
            Ok(from.dir.link(from.named()?, &*to.dir, to.named()?)?)
        });
        done.map_err(|failure| failure.at(&at))?;
        Ok(Output::empty())
    }

    pub(super) fn symlink(&self, request: &Request, target: &str, path: &str) -> Result<Output, HostcallError> {
        let at = ErrorContext::both("symlink", target, path);
        let _held = hold_links();
        let done = self.reach_to_write(request, path).and_then(|reached| {
            check_new(request, Path::new(target), &reached.real)?;
            Ok(reached.dir.symlink(Path::new(target), reached.named()?)?)
        });
        done.map_err(|failure| failure.at(&at))?;
        Ok(Output::empty())
    }

    pub(super) fn chmod(&self, request: &Request, path: &str, mode: u64) -> Result<Output, HostcallError> {
        let at = ErrorContext::path("chmod", path);
        // The mask keeps twelve bits.
        let mode = (mode & 0o7777) as u32;
        let done = self.reach(request, path, Access::Write, FinalLink::Follow).and_then(|reached| {
            let named = TrackedName::new(&request.permit, &reached);
            reached.dir.chmod(reached.named()?, mode)?;
            named.record_change();
            Ok(())
        });
        done.map_err(|failure| failure.at(&at))?;
        Ok(Output::empty())
    }

    /// Performs `utimes`, and `lutimes` on a link itself.
    pub(super) fn utimes(
        &self,
        request: &Request,
        path: &str,
        (atime, mtime): (f64, f64),
        last: FinalLink,
    ) -> Result<Output, HostcallError> {
        let at = ErrorContext::path("utime", path);
        let done = self.reach(request, path, Access::Write, last).and_then(|reached| {
            let named = TrackedName::new(&request.permit, &reached);
            reached.dir.utimes(reached.named()?, atime, mtime)?;
            named.record_change();
            Ok(())
        });
        done.map_err(|failure| failure.at(&at))?;
        Ok(Output::empty())
    }

    pub(super) fn cp(
        &self,
        request: &Request,
        from: &str,
        to: &str,
        options: CopyOptions,
    ) -> Result<Output, HostcallError> {
        let at = ErrorContext::both("cp", from, to);
        let done = self.reach(request, from, Access::Read, FinalLink::Keep).and_then(|from| {
            let to = self.reach_to_write(request, to)?;
            if to.real.starts_with(&from.real) {
                // The target is the source, or lies inside it.
                return Err(code(EINVAL).into());
            }
            self.copy_tree(&CopyEntry::of(&from)?, &CopyEntry::of(&to)?, options, request, 0)
        });
        done.map_err(|failure| failure.at(&at))?;
        Ok(Output::empty())
    }
}

/// Options of `cp` for folders and existing files.
#[derive(Clone, Copy)]
pub(super) struct CopyOptions {
    pub(super) recursive: bool,
    pub(super) force: bool,
    pub(super) error_on_exist: bool,
}

/// A name in an open folder, with its full path.
struct CopyEntry<'a> {
    dir: &'a dyn Dir,
    name: &'a OsStr,
    real: std::path::PathBuf,
}

impl<'a> CopyEntry<'a> {
    fn of(reached: &'a Reached) -> Result<Self, FsError> {
        Ok(Self { dir: &*reached.dir, name: reached.named()?, real: reached.real.clone() })
    }
}

/// Creates one folder. A root already exists, which is an error.
fn make_folder(permit: &Permit, reached: &Reached, mode: u32) -> Result<(), FsError> {
    let Some(name) = &reached.name else { return Err(code(EEXIST).into()) };
    reached.dir.mkdir(name, mode)?;
    if permit.only_new(&reached.real) {
        permit.made(&reached.real);
    } else {
        TrackedName::new(permit, reached).record(true);
    }
    Ok(())
}

fn check_access(request: &Request, access: Access, path: &Path) -> Result<(), FsError> {
    request.permit.path(access, path).map_err(|reason| FsError::Denied(access.capability(), reason))
}

fn check_depth(request: &Request, depth: usize) -> Result<(), FsError> {
    if request.cancel.is_cancelled() {
        return Err(std::io::Error::from(std::io::ErrorKind::Interrupted).into());
    }
    if depth > DEEPEST { Err(code(super::error::EFBIG).into()) } else { Ok(()) }
}

/// Removes a folder with its contents; checks the permit for every name.
fn remove_tree(dir: &dyn Dir, name: &OsStr, real: &Path, request: &Request, depth: usize) -> Result<(), FsError> {
    check_depth(request, depth)?;
    check_access(request, Access::Write, real)?;
    let folder = dir.child(name)?;
    for (entry, kind) in folder.entries()? {
        let below = real.join(&entry);
        if kind == Kind::Dir {
            remove_tree(&*folder, &entry, &below, request, depth + 1)?;
        } else {
            check_access(request, Access::Write, &below)?;
            folder.unlink(&entry)?;
            request.permit.leaves(&below, None);
        }
    }
    dir.rmdir(name)?;
    request.permit.leaves(real, None);
    Ok(())
}

/// Checks every name of a tree that is about to be moved.
fn check_tree(dir: &dyn Dir, real: &Path, moved: &mut Move<'_>, depth: usize) -> Result<(), FsError> {
    check_depth(moved.request, depth)?;
    for (entry, kind) in dir.entries()? {
        let below = real.join(&entry);
        moved.check_name(&below, kind)?;
        match kind {
            Kind::Symlink => moved.check_link(dir, &entry, &below)?,
            Kind::Dir => check_tree(&*dir.child(&entry)?, &below, moved, depth + 1)?,
            _ => {}
        }
    }
    Ok(())
}

/// Records the state of a file after a copy.
fn record_copy(request: &Request, entry: &CopyEntry<'_>) {
    if request.permit.remembers(&entry.real) {
        let stat = entry.dir.lstat(entry.name).ok();
        request.permit.leaves(&entry.real, stat.map(|stat| stamp(&stat)));
    }
}

impl FsState {
    fn copy_tree(
        &self,
        from: &CopyEntry<'_>,
        to: &CopyEntry<'_>,
        options: CopyOptions,
        request: &Request,
        depth: usize,
    ) -> Result<(), FsError> {
        check_depth(request, depth)?;
        check_access(request, Access::Read, &from.real)?;
        check_access(request, Access::Write, &to.real)?;
        let existing = to.dir.lstat(to.name).ok().map(|stat| stat.kind());
        match from.dir.lstat(from.name)?.kind() {
            Kind::Dir => {
                if !options.recursive {
                    return Err(code(EISDIR).into());
                }
                match existing {
                    None => {
                        to.dir.mkdir(to.name, 0o777)?;
                        record_copy(request, to);
                    }
                    Some(Kind::Dir) => {}
                    Some(_) => return Err(code(ENOTDIR).into()),
                }
                let (source, target) = (from.dir.child(from.name)?, to.dir.child(to.name)?);
                check_unchanged(&request.permit, &from.real, || source.stat())?;
                for (entry, _) in source.entries()? {
                    let below = CopyEntry { dir: &*source, name: &entry, real: from.real.join(&entry) };
                    let there = CopyEntry { dir: &*target, name: &entry, real: to.real.join(&entry) };
                    self.copy_tree(&below, &there, options, request, depth + 1)?;
                }
                Ok(())
            }
            kind @ (Kind::File | Kind::Symlink) => {
                match existing {
                    Some(Kind::Dir) => return Err(code(EISDIR).into()),
                    Some(_) if !options.force => {
                        return if options.error_on_exist { Err(code(EEXIST).into()) } else { Ok(()) };
                    }
                    Some(_) => to.dir.unlink(to.name)?,
                    None => {}
                }
                if kind == Kind::Symlink {
                    check_granted(&request.permit, &from.real)?;
                    let target = from.dir.readlink(from.name)?;
                    return self.copy_link(request, &target, (to.dir, to.name), &to.real);
                }
                if guard!(FsFolderReads) {
                    request.permit.reads_content(&from.real);
                }
                copy(from.dir, (from.name, &from.real), to.dir, to.name, true, request)?;
                record_copy(request, to);
                Ok(())
            }
            _ => Err(code(EINVAL).into()),
        }
    }
}
