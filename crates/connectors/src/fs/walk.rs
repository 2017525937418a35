//! Resolves a path to one name in an open folder.
//!
//! The walk never lets the system follow a link. It reads a link's target, checks the permit for the target, and starts again
//! from the target's root. Each component of the resulting path was opened without following links, and the permit is checked for
//! that path as well.

use super::FsState;
use super::error::{ELOOP, ENOTDIR, FsError, code};
use crate::system::{Dir, Kind, Stat};
use pijs_hostcall::places::normal;
use pijs_hostcall::{Access, Permit};
use pijs_protocol::guard;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum number of links in one walk, the limit of Linux.
const MAX_LINKS: usize = 40;

/// Result of a walk.
pub(crate) struct Reached {
    /// The folder that contains the file, or the root itself if `name` is `None`.
    pub(crate) dir: Arc<dyn Dir>,
    /// The name in that folder; `None` for a root.
    pub(crate) name: Option<OsString>,
    /// The full path without links.
    pub(crate) real: PathBuf,
}

/// Whether a link at the end of the path is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FinalLink {
    Follow,
    Keep,
}

impl Reached {
    /// Returns the metadata of the file itself, not of a link's target.
    pub(super) fn lstat(&self) -> io::Result<Stat> {
        match &self.name {
            Some(name) => self.dir.lstat(name),
            None => self.dir.stat(),
        }
    }

    /// Opens the file as a folder.
    pub(super) fn as_dir(&self) -> io::Result<Arc<dyn Dir>> {
        match &self.name {
            Some(name) => self.dir.child(name).map_err(not_a_folder),
            None => Ok(Arc::clone(&self.dir)),
        }
    }

    /// Returns the file's name in its folder; fails for a root, which cannot be renamed or removed.
    pub(super) fn named(&self) -> io::Result<&OsString> {
        self.name.as_ref().ok_or_else(|| code(super::error::EPERM))
    }
}

/// Converts `ELOOP` to `ENOTDIR`: a folder that was exchanged for a link during the walk is treated like any file that is not a
/// folder.
fn not_a_folder(error: io::Error) -> io::Error {
    if error.raw_os_error() == Some(ELOOP) { code(ENOTDIR) } else { error }
}

impl FsState {
    /// Walks to an absolute, normalised `path` that the gate allowed for `access`.
    pub(super) fn walk(
        &self,
        permit: &Permit,
        path: &Path,
        access: Access,
        last: FinalLink,
    ) -> Result<Reached, FsError> {
        let named = path;
        let allowed = |path: &Path| match permit.path(access, path) {
            Err(reason) if guard!(FsBeneath) => {
                if reason.can_be_asked() {
                    permit.refuses_place(named, access, path);
                }
                Err(FsError::Denied(access.capability(), reason))
            }
            _ => Ok(()),
        };
        let mut path = path.to_owned();
        for _ in 0..=MAX_LINKS {
            let reached = match self.step(permit, &path, last)? {
                WalkStep::Arrived(reached) => reached,
                WalkStep::Link(target) => {
                    allowed(&target)?;
                    path = target;
                    continue;
                }
            };
            allowed(&reached.real)?;
            return Ok(reached);
        }
        Err(FsError::Io(code(ELOOP)))
    }

    /// Returns whether an open folder is at `path`, without links on the way.
    pub(super) fn is_at(&self, permit: &Permit, open: &dyn Dir, path: &Path) -> io::Result<bool> {
        let WalkStep::Arrived(reached) = self.step(permit, path, FinalLink::Keep)? else { return Ok(false) };
        let (open, found) = (open.stat()?, reached.as_dir()?.stat()?);
        Ok((open.dev, open.ino) == (found.dev, found.ino))
    }

    fn step(&self, permit: &Permit, path: &Path, last: FinalLink) -> io::Result<WalkStep> {
        let (root_path, root) = self.root_for(permit, path)?;
        let rest = path.strip_prefix(&root_path).unwrap_or(path);
        let names: Vec<_> = rest.iter().collect();
        let Some((name, parents)) = names.split_last() else {
            return Ok(WalkStep::Arrived(Reached { dir: root, name: None, real: root_path }));
        };
        let dir = match root.descend(parents) {
            Ok(None) => root,
            Ok(Some(dir)) => dir,
            Err(error) if matches!(error.raw_os_error(), Some(ELOOP | ENOTDIR)) => {
                return first_link(&root_path, root, parents, name);
            }
            Err(error) => return Err(error),
        };
        let folder = path.parent().unwrap_or(path);
        if last == FinalLink::Follow
            && let Ok(stat) = dir.lstat(name)
            && stat.kind() == Kind::Symlink
        {
            return Ok(WalkStep::Link(normal(folder, &dir.readlink(name)?)));
        }
        Ok(WalkStep::Arrived(Reached { dir, name: Some((*name).to_owned()), real: path.to_owned() }))
    }
}

enum WalkStep {
    Arrived(Reached),
    /// The path with its first link replaced by the link's target.
    Link(PathBuf),
}

/// Finds the first link among `parents` and replaces it by its target.
fn first_link(
    root_path: &Path,
    root: Arc<dyn Dir>,
    parents: &[&std::ffi::OsStr],
    last: &std::ffi::OsStr,
) -> io::Result<WalkStep> {
    let mut dir = root;
    let mut real = root_path.to_owned();
    for (at, name) in parents.iter().enumerate() {
        match dir.child(name) {
            Ok(next) => {
                dir = next;
                real.push(name);
            }
            Err(error) => {
                if dir.lstat(name)?.kind() != Kind::Symlink {
                    return Err(not_a_folder(error));
                }
                let mut target = normal(&real, &dir.readlink(name)?);
                target.extend(&parents[at + 1..]);
                target.push(last);
                return Ok(WalkStep::Link(target));
            }
        }
    }
    // The link was removed in the meantime; the next round walks through this component.
    real.push(last);
    Ok(WalkStep::Link(real))
}
