//! Reports to the gate which files an extension writes, and checks them before the extension reads them back.
//!
//! Without a grant for a path, an extension may read a file there that it wrote itself, as long as the file is unchanged. Only
//! this crate knows the state of files: each operation that writes reports the file and its resulting state, and each operation
//! that reads compares the state of the file that it opened.

use super::error::FsError;
use super::walk::Reached;
use crate::system::{File, Kind, Stat};
use pijs_hostcall::{Access, Permit, ReadBy, Reason, Stamp};
use pijs_protocol::guard;
use std::io::{self, ErrorKind};
use std::path::Path;

pub(super) fn stamp(stat: &Stat) -> Stamp {
    let is_file = stat.kind() == Kind::File;
    Stamp {
        dev: stat.dev,
        ino: stat.ino,
        size: is_file.then_some(stat.size),
        changed_ms: is_file.then_some(stat.ctime_ms),
    }
}

fn denied(reason: Reason) -> FsError {
    FsError::Denied(Access::Read.capability(), reason)
}

/// Refuses to read a file that was changed, if the caller may read it only because it wrote it.
pub(super) fn check_unchanged(
    permit: &Permit,
    real: &Path,
    stat: impl FnOnce() -> io::Result<Stat>,
) -> Result<(), FsError> {
    match permit.reads(real).map_err(denied)? {
        ReadBy::Grant => Ok(()),
        ReadBy::Making(left) if left == stamp(&stat()?) || !guard!(GateUnchangedSinceWrite) => Ok(()),
        ReadBy::Making(_) | ReadBy::Writing => Err(denied(Reason::Scope)),
    }
}

/// Refuses to read a file unless a grant allows it.
pub(super) fn check_granted(permit: &Permit, real: &Path) -> Result<(), FsError> {
    match permit.reads(real).map_err(denied)? {
        ReadBy::Grant => Ok(()),
        ReadBy::Making(_) | ReadBy::Writing => Err(denied(Reason::Scope)),
    }
}

/// Records a file that was opened for writing. The file belongs to the caller if it was empty, or unchanged since the caller
/// wrote it.
pub(super) fn record_opened(permit: &Permit, real: &Path, file: &dyn File) {
    if !permit.remembers(real) {
        return;
    }
    let stat = file.stat().ok().filter(|stat| stat.kind() == Kind::File);
    let own = stat.map(|stat| stamp(&stat)).filter(|now| now.size == Some(0) || permit.is_as_left(real, *now));
    permit.leaves(real, own);
}

/// Performs a change of an open file, and records the file's state afterwards.
pub(super) fn change_recorded<R>(
    permit: &Permit,
    real: &Path,
    file: &mut dyn File,
    work: impl FnOnce(&mut dyn File) -> R,
) -> R {
    if !permit.remembers(real) {
        return work(file);
    }
    let now = |file: &dyn File| file.stat().ok().map(|stat| stamp(&stat));
    let is_own = now(file).is_some_and(|now| permit.is_as_left(real, now));
    let result = work(file);
    permit.leaves(real, now(file).filter(|_| is_own));
    result
}

/// Tracks a name at the end of a walk that is about to be changed.
pub(super) struct TrackedName<'a> {
    permit: &'a Permit,
    reached: &'a Reached,
    remembers: bool,
    is_own: bool,
}

impl<'a> TrackedName<'a> {
    pub(super) fn new(permit: &'a Permit, reached: &'a Reached) -> Self {
        let remembers = permit.remembers(&reached.real);
        let as_left = || match reached.lstat() {
            Ok(stat) => permit.is_as_left(&reached.real, stamp(&stat)),
            Err(error) => error.kind() == ErrorKind::NotFound,
        };
        Self { permit, reached, remembers, is_own: remembers && as_left() }
    }

    pub(super) fn is_own(&self) -> bool {
        self.is_own
    }

    /// Records a change. The file belongs to the caller if it did before the change.
    pub(super) fn record_change(&self) {
        self.record(self.is_own);
    }

    /// Records the file's state, and whether the caller has written all of it.
    pub(super) fn record(&self, is_own: bool) {
        if !self.remembers {
            return;
        }
        let stat = self.reached.lstat().ok().filter(|stat| matches!(stat.kind(), Kind::File | Kind::Dir));
        self.permit.leaves(&self.reached.real, stat.filter(|_| is_own).map(|stat| stamp(&stat)));
    }
}
