//! From a path to one name in an open folder.
//!
//! The walk never lets the system follow a link. Where it meets one it reads the target, asks
//! the permit about the place named by it, and starts again from the root of that place; what it
//! arrives at is named by components that were each opened without following anything, and the
//! permit is asked about that name as well.

use super::Inner;
use super::error::{ELOOP, ENOTDIR, Failure, code};
use crate::system::{Dir, Kind, Stat};
use pijs_hostcall::places::normal;
use pijs_hostcall::{Access, Permit};
use pijs_protocol::guard;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Links on the way, as Linux counts them.
const MOST_LINKS: usize = 40;

/// Where a walk arrived.
pub(crate) struct Reached {
    /// The folder that holds it, or the thing itself when `name` is absent.
    pub(crate) dir: Arc<dyn Dir>,
    /// Its name there; absent for a root.
    pub(crate) name: Option<OsString>,
    /// Its whole name, free of links.
    pub(crate) real: PathBuf,
}

/// What to do with a link at the end of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Last {
    Follow,
    Keep,
}

impl Reached {
    /// What is there.
    pub(super) fn lstat(&self) -> io::Result<Stat> {
        match &self.name {
            Some(name) => self.dir.lstat(name),
            None => self.dir.stat(),
        }
    }

    /// As a folder.
    pub(super) fn as_dir(&self) -> io::Result<Arc<dyn Dir>> {
        match &self.name {
            Some(name) => self.dir.child(name).map_err(not_a_folder),
            None => Ok(Arc::clone(&self.dir)),
        }
    }

    /// The name in its folder; a root has none, and verbs that need one do not work on it.
    pub(super) fn named(&self) -> io::Result<&OsString> {
        self.name.as_ref().ok_or_else(|| code(super::error::EPERM))
    }
}

/// Opening something that is no folder says so; a link swapped in meanwhile looks the same.
fn not_a_folder(error: io::Error) -> io::Error {
    if error.raw_os_error() == Some(ELOOP) { code(ENOTDIR) } else { error }
}

impl Inner {
    /// Walks to an absolute, normalised `path` that the gate allowed for `access`.
    pub(super) fn walk(&self, permit: &Permit, path: &Path, access: Access, last: Last) -> Result<Reached, Failure> {
        let named = path;
        let allowed = |path: &Path| match permit.path(access, path) {
            Err(reason) if guard!(FsBeneath) => {
                if reason.can_be_asked() {
                    permit.refuses_place(named, access, path);
                }
                Err(Failure::Denied(access.capability(), reason))
            }
            _ => Ok(()),
        };
        let mut path = path.to_owned();
        for _ in 0..=MOST_LINKS {
            let reached = match self.step(permit, &path, last)? {
                Step::Arrived(reached) => reached,
                Step::Link(target) => {
                    allowed(&target)?;
                    path = target;
                    continue;
                }
            };
            allowed(&reached.real)?;
            return Ok(reached);
        }
        Err(Failure::Io(code(ELOOP)))
    }

    fn step(&self, permit: &Permit, path: &Path, last: Last) -> io::Result<Step> {
        let (root_path, root) = self.root_for(permit, path)?;
        let rest = path.strip_prefix(&root_path).unwrap_or(path);
        let names: Vec<_> = rest.iter().collect();
        let Some((name, parents)) = names.split_last() else {
            return Ok(Step::Arrived(Reached { dir: root, name: None, real: root_path }));
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
        if last == Last::Follow
            && let Ok(stat) = dir.lstat(name)
            && stat.kind() == Kind::Symlink
        {
            return Ok(Step::Link(normal(folder, &dir.readlink(name)?)));
        }
        Ok(Step::Arrived(Reached { dir, name: Some((*name).to_owned()), real: path.to_owned() }))
    }
}

enum Step {
    Arrived(Reached),
    /// The path with its first link replaced.
    Link(PathBuf),
}

/// Goes name by name to the first link among `parents` and replaces it by where it points.
fn first_link(
    root_path: &Path,
    root: Arc<dyn Dir>,
    parents: &[&std::ffi::OsStr],
    last: &std::ffi::OsStr,
) -> io::Result<Step> {
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
                return Ok(Step::Link(target));
            }
        }
    }
    // The link went away meanwhile; the next round walks straight through.
    real.push(last);
    Ok(Step::Link(real))
}
