//! Lets an extension read files that it created with its `write` grant.
//!
//! A `write` grant does not include reading. But the author of a file knows its content, and an extension that stores its state
//! outside of the project has to read it back. So the gate records the device, inode, size and modification time of each file
//! that an extension wrote from its first byte, and allows reading the file while these are unchanged. In a folder that the
//! extension created, it sees only entries that it created.
//!
//! | file at the path | readable |
//! |---|---|
//! | unchanged since the extension wrote it, in this session or an earlier one | yes |
//! | changed by another program | no |
//! | replaced by another file, a link, or a hard link to another file | no |
//! | older than the extension's first write, which appended to it | no |
//! | missing, where the extension may write | reported as missing |
//!
//! Probing for a file is allowed wherever `write` is, because writing reveals the same information. Protected paths stay
//! protected, and only the method `fs` may read such files. The gate checks the path; the connector checks the opened file again
//! ([`Permit::reads`](super::Permit::reads)).

use super::evaluation::Evaluation;
use crate::decision::Reason;
use crate::subject::Access;
use pijs_protocol::{ExtensionId, guard};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of remembered files and folders of one extension.
pub const MAX_CREATED: usize = 4096;

/// Identity and state of a file or folder at a point in time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Stamp {
    /// Device number.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// Size of a file in bytes; `None` for a folder, whose size changes with its entries.
    pub size: Option<u64>,
    /// Modification time of a file, in milliseconds.
    pub changed_ms: Option<f64>,
}

impl Stamp {
    /// Reads the stamp of a path without following links. Returns `None` for a missing path, and for one that is neither a file
    /// nor a folder.
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

/// Reason for which a caller may read at a path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ReadBy {
    /// The path is granted or free: the caller may read any file there.
    Grant,
    /// The caller created the file, and may read the file with this stamp only.
    Making(Stamp),
    /// The caller may write there, and may learn that there is no file.
    Writing,
}

/// Stores the files that extensions created, beyond the session.
pub trait MadeFiles: Send + Sync {
    /// Returns the files that an extension created in earlier sessions; `None` until the identity of the extension is known.
    fn read(&self, extension: &ExtensionId) -> Option<Vec<(PathBuf, Stamp)>>;
    /// Records the stamp of an extension's file; `None` removes it.
    fn note(&self, extension: &ExtensionId, path: &Path, stamp: Option<Stamp>);
}

/// The files and folders that extensions created.
#[derive(Default)]
pub(super) struct CreatedFiles {
    kept: Option<Arc<dyn MadeFiles>>,
    /// Loaded at the first access, by extension.
    known: Mutex<BTreeMap<ExtensionId, BTreeMap<PathBuf, Stamp>>>,
}

impl CreatedFiles {
    pub(super) fn new(kept: Arc<dyn MadeFiles>) -> Self {
        Self { kept: Some(kept), known: Mutex::default() }
    }

    fn with<R>(&self, extension: &ExtensionId, look: impl FnOnce(&mut BTreeMap<PathBuf, Stamp>) -> R) -> R {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.contains_key(extension) {
            let kept = self.kept.as_ref().map_or_else(|| Some(Vec::new()), |kept| kept.read(extension));
            // A build may ask before the identity of the extension is known.
            let Some(kept) = kept else { return look(&mut BTreeMap::new()) };
            known.insert(extension.clone(), kept.into_iter().collect());
        }
        look(known.entry(extension.clone()).or_default())
    }

    /// Returns the recorded stamp at a path.
    pub(super) fn stamp(&self, extension: &ExtensionId, path: &Path) -> Option<Stamp> {
        self.with(extension, |known| known.get(path).copied())
    }

    /// Updates the paths inside a moved folder.
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

    /// Records the stamp of an extension's file; `None` removes it.
    pub(super) fn note(&self, extension: &ExtensionId, path: &Path, stamp: Option<Stamp>) {
        let changed = self.with(extension, |known| match stamp {
            Some(stamp) if known.len() < MAX_CREATED || known.contains_key(path) => {
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

impl Evaluation<'_> {
    /// Returns whether a call may read at a path without a grant: the file there is unchanged since the caller created it, or
    /// there is no file and the caller may write there.
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
    /// Returns the reason for which the caller may read at a path.
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

    /// Returns whether a file that the caller creates at a path has to be recorded to stay readable.
    pub fn remembers(&self, path: &Path) -> bool {
        self.method.as_str() == "fs" && self.case().path_without_made(Access::Read, path).is_err()
    }

    /// Returns whether the file at a path is unchanged since the caller created it.
    pub fn is_as_left(&self, path: &Path, now: Stamp) -> bool {
        self.gate.inner.made.stamp(self.extension(), path) == Some(now)
    }

    /// Records the stamp of a file that the caller created; `None` removes it.
    pub fn leaves(&self, path: &Path, stamp: Option<Stamp>) {
        self.gate.inner.made.note(self.extension(), path, stamp);
    }

    /// Records that a file or folder was moved, with its content.
    pub fn moves(&self, from: &Path, to: &Path) {
        self.gate.inner.made.moved(self.extension(), from, to);
    }

    /// Records that a path resolved to a location that the caller may not access.
    pub fn refuses_place(&self, named: &Path, access: Access, place: &Path) {
        self.gate.note_refused_place(self, named, access, place);
    }
}
