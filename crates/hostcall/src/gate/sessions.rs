//! Which session files an extension may touch.
//!
//! A folder of sessions holds what was said in other sessions, and is closed: `sessions` in the agent folder, and each
//! other one that sessions are kept in ([`OwnState`](crate::places::OwnState)). Sub-agents keep their sessions there too,
//! as under pi, so this much of it is open (PROJECT is the project's folder in `sessions`, or the other folder itself):
//!
//! | place | open for |
//! |---|---|
//! | `PROJECT/NAME.jsonl`, the session of now | reading: its entries are known to every extension |
//! | `PROJECT/NAME/`, the folder of its name | what `read` and `write` allow elsewhere in the agent folder |
//! | what an extension itself made in this session | the same, for that extension |
//! | anything else in `PROJECT/` | making what is not there, with `session.inject`: the next session may begin with it |
//! | a folder of `sessions` that is no project's, like `subagents/` | the same: it is found by who looks through all sessions |
//!
//! Nothing that was there before is read, replaced, moved or removed.
//!
//! A session file in any other folder is closed as well: the one of now can be read, those of before cannot. Beside them
//! another file of JSON lines is written by a grant that names it, or a person: a later run may take it for a session.
//!
//! The session itself becomes that of another file ([`Permit::session`](super::Permit::session)) where that file was the
//! session's in this run, or is called `NAME.jsonl` and may be read and written anyway.

use super::case::Case;
use crate::derive::Access;
use crate::places::{Protection, is_lines, is_same, without_aside};
use pijs_protocol::{ExtensionId, guard};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Who knows the files of the session.
pub trait SessionFiles: Send + Sync {
    /// The file of the session as it is now, without links on the way; `None` for one without a file.
    fn now(&self) -> Option<PathBuf>;
    /// Whether a file was the session's earlier in this run, by any name that leads to it.
    fn was(&self, file: &Path) -> bool;
    /// Whether a file of the session, of now or of earlier in this run, lies in this folder.
    fn lies_in(&self, folder: &Path) -> bool {
        self.now().is_some_and(|file| file.parent() == Some(folder))
    }
}

/// Files and folders that one extension may make among the sessions; what lies in a folder it made does not count.
const MOST_MADE: usize = 4096;

/// Where sessions of this project lie, and what was made there.
#[derive(Default)]
pub(super) struct Sessions {
    /// The project's folder, and who knows the files.
    known: Option<(PathBuf, Arc<dyn SessionFiles>)>,
    made: Mutex<BTreeMap<ExtensionId, BTreeSet<PathBuf>>>,
}

impl Sessions {
    pub(super) fn new(folder: PathBuf, files: Arc<dyn SessionFiles>) -> Self {
        Self { known: Some((folder, files)), made: Mutex::default() }
    }

    /// Whether a file is or was the session's in this run.
    pub(super) fn is_known(&self, file: &Path) -> bool {
        self.known.as_ref().is_some_and(|(_, files)| files.was(file) || files.now().as_deref() == Some(file))
    }

    /// Notes what an extension made where nothing was. The folders of the sessions themselves are nobody's.
    pub(super) fn note_made(&self, extension: &ExtensionId, path: &Path) {
        if self.known.as_ref().is_none_or(|(folder, _)| folder.starts_with(path)) {
            return;
        }
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.entry(extension.clone()).or_default().insert(path.to_owned());
    }

    fn has_made(&self, extension: &ExtensionId, path: &Path) -> bool {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.get(extension).is_some_and(|made| path.ancestors().any(|part| made.contains(part)))
    }

    fn may_make_more(&self, extension: &ExtensionId) -> bool {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.get(extension).is_none_or(|made| made.len() < MOST_MADE)
    }
}

/// Whether a place lies in a folder of `root` that is named like no project's: those are `--home-me-project--`.
fn is_nobodys(root: &Path, path: &Path) -> bool {
    let below = path.strip_prefix(root).ok().and_then(|below| below.iter().next()).and_then(|name| name.to_str());
    below.is_some_and(|name| !name.starts_with('-') && Path::new(name).extension().is_none())
}

impl Case<'_> {
    /// What stands above every grant at a path, of which `found` holds for everybody, with what is known of sessions.
    pub(super) fn session_protection(&self, access: Access, path: &Path, found: Protection) -> Protection {
        if found == Protection::All
            && let Some(root) = self.inner.places.session_folder_of(path)
        {
            return self.in_session_folder(&root, access, path);
        }
        let Some((_, files)) = &self.inner.sessions.known else { return found };
        if !guard!(GateSessionFiles) {
            return found;
        }
        let (file, now) = (without_aside(path), files.now());
        if now.as_ref().is_some_and(|now| is_same(&file, now)) || files.was(&file) {
            let is_open = found < Protection::All || self.inner.places.is_session_file(path);
            return if is_open && now.as_deref() == Some(path) { Protection::Write } else { Protection::All };
        }
        let is_beside = path.file_name().is_some_and(is_lines) && path.parent().is_some_and(|at| files.lies_in(at));
        if is_beside { found.max(Protection::RunsLater) } else { found }
    }

    /// The same at a place inside a folder of sessions.
    fn in_session_folder(&self, root: &Path, access: Access, path: &Path) -> Protection {
        let sessions = &self.inner.sessions;
        let Some((folder, files)) = &sessions.known else { return Protection::All };
        if self.inner.places.is_closed(path) {
            return Protection::All;
        }
        let usual = self.inner.places.sessions();
        let extension = &self.profile.extension;
        // One that lies right in `sessions`, or is named otherwise, has no folder of its own.
        let current = files.now().filter(|file| {
            let is_below = file.parent().is_some_and(|folder| folder != usual && folder.starts_with(root));
            is_below && file.extension().is_some_and(|ending| ending == "jsonl")
        });
        if let Some(file) = &current {
            if path == file {
                return Protection::Write;
            }
            if path.starts_with(file.with_extension("")) {
                return Protection::None;
            }
        }
        if sessions.has_made(extension, path) {
            return Protection::None;
        }
        let is_above = folder.starts_with(path) || current.is_some_and(|file| file.starts_with(path));
        let may_make = || {
            let is_inside = folder.starts_with(root) && *folder != usual && path.starts_with(folder);
            let is_inside = is_inside || (root == usual && is_nobodys(root, path));
            let injects = self.by_grant("session.inject", |_| true).is_ok() || !guard!(GateSessionFolders);
            (is_above || is_inside) && injects && sessions.may_make_more(extension)
        };
        match access {
            Access::Look if is_above => Protection::None,
            Access::Make if may_make() => Protection::None,
            _ => Protection::All,
        }
    }
}

#[cfg(test)]
#[path = "sessions_tests.rs"]
mod tests;
