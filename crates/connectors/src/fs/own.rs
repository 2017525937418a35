//! Tells the gate what an extension makes where it may not read, and compares before it reads there.
//!
//! The gate lets an extension read what it made itself, as it left it. What is there is known only here: each verb that
//! writes says afterwards which file it left and how, and each verb that reads compares the file that it opened.

use super::error::Failure;
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

fn denied(reason: Reason) -> Failure {
    Failure::Denied(Access::Read.capability(), reason)
}

/// Refuses to read something that is there and not as the caller left it, where only that lets it read.
pub(super) fn check_left(permit: &Permit, real: &Path, stat: impl FnOnce() -> io::Result<Stat>) -> Result<(), Failure> {
    match permit.reads(real).map_err(denied)? {
        ReadBy::Grant => Ok(()),
        ReadBy::Making(left) if left == stamp(&stat()?) || !guard!(GateUnchangedSinceWrite) => Ok(()),
        ReadBy::Making(_) | ReadBy::Writing => Err(denied(Reason::Scope)),
    }
}

/// Refuses to read what is there unless a grant lets the caller read whatever it is.
pub(super) fn check_granted(permit: &Permit, real: &Path) -> Result<(), Failure> {
    match permit.reads(real).map_err(denied)? {
        ReadBy::Grant => Ok(()),
        ReadBy::Making(_) | ReadBy::Writing => Err(denied(Reason::Scope)),
    }
}

/// Notes a file that was opened for writing: it is the caller's if nothing was in it, or only what the caller left.
pub(super) fn opened(permit: &Permit, real: &Path, file: &dyn File) {
    if !permit.remembers(real) {
        return;
    }
    let stat = file.stat().ok().filter(|stat| stat.kind() == Kind::File);
    let own = stat.map(|stat| stamp(&stat)).filter(|now| now.size == Some(0) || permit.is_as_left(real, *now));
    permit.leaves(real, own);
}

/// Changes an open file, and notes how it is left.
pub(super) fn changes<R>(
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
pub(super) struct Named<'a> {
    permit: &'a Permit,
    reached: &'a Reached,
    remembers: bool,
    is_own: bool,
}

impl<'a> Named<'a> {
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

    /// It was changed, and is the caller's if it was before.
    pub(super) fn changed(&self) {
        self.left(self.is_own);
    }

    /// All of it is the caller's now, or nothing.
    pub(super) fn left(&self, is_own: bool) {
        if !self.remembers {
            return;
        }
        let stat = self.reached.lstat().ok().filter(|stat| matches!(stat.kind(), Kind::File | Kind::Dir));
        self.permit.leaves(&self.reached.real, stat.filter(|_| is_own).map(|stat| stamp(&stat)));
    }
}
