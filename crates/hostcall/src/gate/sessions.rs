//! Decides access to session files.
//!
//! Session folders contain the conversations of other sessions and are protected: `sessions` in the agent folder, and the
//! configured ones of [`OwnState`](crate::places::OwnState). Sub-agents store their sessions there, too, as in pi, so these parts
//! are accessible (PROJECT is the project's folder in `sessions`, or the configured folder itself):
//!
//! | path | allowed |
//! |---|---|
//! | `PROJECT/NAME.jsonl`, the current session | reading, because every extension sees its entries |
//! | `PROJECT/NAME/`, the folder with the current session's name | as elsewhere in the agent folder, by `read` and `write` |
//! | files that the extension created in this session | the same, for that extension |
//! | other paths in `PROJECT/` | creating files with `session.inject`, because the next session may continue them |
//! | a folder of `sessions` that belongs to no project, like `subagents/` | the same, because a search over all sessions finds them |
//!
//! Existing files cannot be read, replaced, moved or removed.
//!
//! Session files in other folders are protected as well: the current one can be read, earlier ones cannot. Writing another JSON
//! Lines file next to them needs a grant that names it, or a prompt, because a later run may take it for a session.
//!
//! The session may switch to another file ([`Permit::session`](super::Permit::session)) that was the session's in this run, or
//! that is called `NAME.jsonl` and is readable and writable anyway.

use super::evaluation::Evaluation;
use crate::places::{Protection, is_lines, is_same, without_aside};
use crate::subject::Access;
use pijs_protocol::{ExtensionId, guard};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Provides the files of the session.
pub trait SessionFiles: Send + Sync {
    /// Returns the current file of the session, by its real path; `None` for a session without a file.
    fn now(&self) -> Option<PathBuf>;
    /// Returns whether a file was the session's file earlier in this run, under any of its names.
    fn was(&self, file: &Path) -> bool;
    /// Returns whether a current or earlier file of the session is in this folder.
    fn lies_in(&self, folder: &Path) -> bool {
        self.now().is_some_and(|file| file.parent() == Some(folder))
    }
}

/// Maximum number of files and folders that one extension may create in session folders; entries of a created folder do not
/// count.
const MAX_CREATED: usize = 4096;

/// The session folders of this project, and the files that extensions created there.
#[derive(Default)]
pub(super) struct SessionAccess {
    /// The project's folder, and the source of the session's files.
    known: Option<(PathBuf, Arc<dyn SessionFiles>)>,
    made: Mutex<BTreeMap<ExtensionId, BTreeSet<PathBuf>>>,
}

impl SessionAccess {
    pub(super) fn new(folder: PathBuf, files: Arc<dyn SessionFiles>) -> Self {
        Self { known: Some((folder, files)), made: Mutex::default() }
    }

    /// Returns whether a file is or was the session's file in this run.
    pub(super) fn is_known(&self, file: &Path) -> bool {
        self.known.as_ref().is_some_and(|(_, files)| files.was(file) || files.now().as_deref() == Some(file))
    }

    /// Records a file that an extension created. The session folders themselves belong to no extension.
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
        made.get(extension).is_none_or(|made| made.len() < MAX_CREATED)
    }
}

/// Returns whether a path is in a folder of `root` whose name is not the name of a project, such as `--home-me-project--`.
fn belongs_to_no_project(root: &Path, path: &Path) -> bool {
    let below = path.strip_prefix(root).ok().and_then(|below| below.iter().next()).and_then(|name| name.to_str());
    below.is_some_and(|name| !name.starts_with('-') && Path::new(name).extension().is_none())
}

impl Evaluation<'_> {
    /// Returns the protection of a path, given the general protection `found`.
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

    /// Returns the protection of a path inside a session folder.
    fn in_session_folder(&self, root: &Path, access: Access, path: &Path) -> Protection {
        let sessions = &self.inner.sessions;
        let Some((folder, files)) = &sessions.known else { return Protection::All };
        if self.inner.places.is_closed(path) {
            return Protection::All;
        }
        let usual = self.inner.places.sessions();
        let extension = &self.profile.extension;
        // A session directly in `sessions`, or with another form of name, has no folder.
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
            let is_inside = is_inside || (root == usual && belongs_to_no_project(root, path));
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
