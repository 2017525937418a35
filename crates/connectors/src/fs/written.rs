//! Reports files that an extension writes to the gate, and checks them before it reads them back.
//!
//! The gate lets an extension without a grant to read a path read a file there that it wrote itself, while it is unchanged. The
//! file's state is known only here: each operation that writes reports which file it left in which state, and each operation that
//! reads compares the file that it opened.

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

/// Refuses to read a changed file when the caller may read it only because it wrote it.
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

/// Refuses to read anything that no grant lets the caller read.
pub(super) fn check_granted(permit: &Permit, real: &Path) -> Result<(), FsError> {
    match permit.reads(real).map_err(denied)? {
        ReadBy::Grant => Ok(()),
        ReadBy::Making(_) | ReadBy::Writing => Err(denied(Reason::Scope)),
    }
}

/// Records a file that was opened for writing. It counts as the caller's if it was empty, or as the caller left it.
pub(super) fn record_opened(permit: &Permit, real: &Path, file: &dyn File) {
    if !permit.remembers(real) {
        return;
    }
    let stat = file.stat().ok().filter(|stat| stat.kind() == Kind::File);
    let own = stat.map(|stat| stamp(&stat)).filter(|now| now.size == Some(0) || permit.is_as_left(real, *now));
    permit.leaves(real, own);
}

/// Changes an open file, and records its state afterwards.
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

/// Tracks a name, at the end of a walk, that is about to be changed.
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

    /// Records a change; the file is the caller's if it was before.
    pub(super) fn record_change(&self) {
        self.record(self.is_own);
    }

    /// Records whether all of the file is the caller's now.
    pub(super) fn record(&self, is_own: bool) {
        if !self.remembers {
            return;
        }
        let stat = self.reached.lstat().ok().filter(|stat| matches!(stat.kind(), Kind::File | Kind::Dir));
        self.permit.leaves(&self.reached.real, stat.filter(|_| is_own).map(|stat| stamp(&stat)));
    }
}
