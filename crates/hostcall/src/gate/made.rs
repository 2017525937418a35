//! Lets an extension read what it made with its `write` grant.
//!
//! A grant to write somewhere is none to read what lies there. Yet who wrote a file knows its content, and an extension
//! that keeps its state outside of the project cannot work without reading it back. So the gate remembers, for each file
//! that an extension wrote from its first byte, which file that is and how it was left: device, inode, size and time of
//! the last change. It is read as long as it is still that one. A file that somebody else wrote, replaced or added to
//! since is not; of a folder that the extension made, only what it made in it is listed.
//!
//! | what lies at the path | read |
//! |---|---|
//! | the file as the extension left it, in this session or an earlier one | yes |
//! | the same file, changed by anybody else | no |
//! | another file in its place, a link, a hard link to another file | no |
//! | a file that lay there before, which the extension added to | no |
//! | nothing, where it may write | it is told so |
//!
//! Whether something is there may be asked wherever `write` covers: writing tells the same. Protected places stay closed,
//! and so does everything that other methods than `fs` open. The gate looks at the path; whoever opens it compares once
//! more what was opened ([`Permit::reads`](super::Permit::reads)).

use super::Reason;
use super::case::Case;
use crate::derive::Access;
use pijs_protocol::{ExtensionId, guard};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Files and folders of one extension that are remembered.
pub const MOST_MADE: usize = 4096;

/// Identifies a file or folder and the state that it was left in.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Stamp {
    /// Its device.
    pub dev: u64,
    /// Its number there.
    pub ino: u64,
    /// Bytes of a file; nothing for a folder, which changes with what is in it.
    pub size: Option<u64>,
    /// When a file was changed last, in milliseconds.
    pub changed_ms: Option<f64>,
}

impl Stamp {
    /// Reads the stamp of a path; links are not followed. `None` for nothing, and for what is neither file nor folder.
    fn at(path: &Path) -> Option<Self> {
        let found = std::fs::symlink_metadata(path).ok()?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            if !found.is_file() && !found.is_dir() {
                return None;
            }
            let changed_ms = found.ctime() as f64 * 1000.0 + found.ctime_nsec() as f64 / 1_000_000.0;
            Some(Self {
                dev: found.dev(),
                ino: found.ino(),
                size: found.is_file().then_some(found.len()),
                changed_ms: found.is_file().then_some(changed_ms),
            })
        }
        #[cfg(not(unix))]
        {
            let _ = found;
            None
        }
    }
}

/// The reason for which a caller may read at a path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ReadBy {
    /// By a grant, or without one: whatever is there.
    Grant,
    /// Because it made it: what has this stamp, and nothing else.
    Making(Stamp),
    /// Because it may write there: it learns that nothing is there.
    Writing,
}

/// Keeps what extensions made beyond the session.
pub trait MadeFiles: Send + Sync {
    /// Returns what an extension made in earlier sessions; `None` as long as it is not known whose that is.
    fn read(&self, extension: &ExtensionId) -> Option<Vec<(PathBuf, Stamp)>>;
    /// Writes down that an extension left something at a path; `None` when it is its own no more.
    fn note(&self, extension: &ExtensionId, path: &Path, stamp: Option<Stamp>);
}

/// The files and folders that extensions made.
#[derive(Default)]
pub(super) struct Made {
    kept: Option<Arc<dyn MadeFiles>>,
    /// By extension, once it was asked about.
    known: Mutex<BTreeMap<ExtensionId, BTreeMap<PathBuf, Stamp>>>,
}

impl Made {
    pub(super) fn new(kept: Arc<dyn MadeFiles>) -> Self {
        Self { kept: Some(kept), known: Mutex::default() }
    }

    fn with<R>(&self, extension: &ExtensionId, look: impl FnOnce(&mut BTreeMap<PathBuf, Stamp>) -> R) -> R {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.contains_key(extension) {
            let kept = self.kept.as_ref().map_or_else(|| Some(Vec::new()), |kept| kept.read(extension));
            // Its build may ask before it is known whose files those are.
            let Some(kept) = kept else { return look(&mut BTreeMap::new()) };
            known.insert(extension.clone(), kept.into_iter().collect());
        }
        look(known.entry(extension.clone()).or_default())
    }

    /// Returns the stamp that an extension left at a path.
    pub(super) fn stamp(&self, extension: &ExtensionId, path: &Path) -> Option<Stamp> {
        self.with(extension, |known| known.get(path).copied())
    }

    /// Follows what lies in a folder that was moved.
    pub(super) fn moved(&self, extension: &ExtensionId, from: &Path, to: &Path) {
        let inside: Vec<(PathBuf, Stamp)> = self.with(extension, |known| {
            let below = known.iter().filter(|(path, _)| path.starts_with(from) && path.as_path() != from);
            below.map(|(path, stamp)| (path.clone(), *stamp)).collect()
        });
        self.note(extension, from, None);
        for (path, stamp) in inside {
            self.note(extension, &path, None);
            if let Ok(rest) = path.strip_prefix(from) {
                self.note(extension, &to.join(rest), Some(stamp));
            }
        }
    }

    /// Notes how an extension left something, or that it is its own no more.
    pub(super) fn note(&self, extension: &ExtensionId, path: &Path, stamp: Option<Stamp>) {
        let changed = self.with(extension, |known| match stamp {
            Some(stamp) if known.len() < MOST_MADE || known.contains_key(path) => {
                known.insert(path.to_owned(), stamp) != Some(stamp)
            }
            Some(_) => false,
            None => known.remove(path).is_some(),
        });
        if let (true, Some(kept)) = (changed, &self.kept) {
            kept.note(extension, path, stamp);
        }
    }
}

impl Case<'_> {
    /// Whether a call may read at a path although nothing allows it: what is there is as the caller left it, or there is
    /// nothing and the caller may write there.
    pub(super) fn reads_own(&self, access: Access, path: &Path) -> bool {
        if access != Access::Read || self.method != "fs" {
            return false;
        }
        match self.inner.made.stamp(&self.profile.extension, path) {
            Some(left) if Stamp::at(path) == Some(left) || !guard!(GateUnchangedSinceWrite) => true,
            _ => {
                let is_absent = || std::fs::symlink_metadata(path).is_err_and(|error| is_missing(&error));
                self.path_without_made(Access::Write, path).is_ok() && is_absent()
            }
        }
    }
}

fn is_missing(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

impl super::Permit {
    /// Says for which reason the caller may read at a path.
    pub fn reads(&self, path: &Path) -> Result<ReadBy, Reason> {
        for permit in &self.also {
            match permit.reads(path)? {
                ReadBy::Grant => {}
                other => return Ok(other),
            }
        }
        let allowed_once =
            || self.once.iter().any(|grant| grant.capability.as_str() == "read" && grant.scope.path(path));
        if self.case().path_without_made(Access::Read, path).is_ok() {
            return Ok(ReadBy::Grant);
        }
        match self.case().path(Access::Read, path) {
            Err(refusal) if refusal.reason.can_be_asked() && (self.passes_unasked() || allowed_once()) => {
                Ok(ReadBy::Grant)
            }
            Err(refusal) => Err(refusal.reason),
            Ok(_) => {
                let made = self.gate.inner.made.stamp(self.extension(), path);
                Ok(made.map_or(ReadBy::Writing, ReadBy::Making))
            }
        }
    }

    /// Whether what the caller makes at a path has to be remembered, so that it can be read.
    pub fn remembers(&self, path: &Path) -> bool {
        self.method.as_str() == "fs" && self.case().path_without_made(Access::Read, path).is_err()
    }

    /// Whether what is at a path is as the caller left it.
    pub fn is_as_left(&self, path: &Path, now: Stamp) -> bool {
        self.gate.inner.made.stamp(self.extension(), path) == Some(now)
    }

    /// Notes how the caller left what it made at a path, or that it is its own no more.
    pub fn leaves(&self, path: &Path, stamp: Option<Stamp>) {
        self.gate.inner.made.note(self.extension(), path, stamp);
    }

    /// Notes that something was moved, with all that is in it.
    pub fn moves(&self, from: &Path, to: &Path) {
        self.gate.inner.made.moved(self.extension(), from, to);
    }

    /// Notes that a path which the caller named led to a place that it may not touch.
    pub fn refuses_place(&self, named: &Path, access: Access, place: &Path) {
        self.gate.note_refused_place(self, named, access, place);
    }
}
