//! Matches in the arguments of a call, and the paths that decide whether they are in scope.

use super::history::{History, Site};
use super::lane::{Match, MatchKind};
use super::waiting::{CallScope, PathVerdict, Paths, PendingMatches};
use std::collections::HashSet;

/// Maximum number of paths of a call.
const MAX_PATHS: usize = 256;
/// Maximum length of a path, in bytes.
const MAX_PATH: usize = 4096;
/// Maximum number of matches of a call that wait for a path.
const MAX_FOUND: usize = 4096;

/// A match of a call, and the paths that may decide whether it is in scope.
#[derive(Debug)]
pub(crate) struct CallMatch {
    pub(crate) found: Match,
    pub(crate) site: Site,
    pub(crate) owner: Owner,
}

impl CallMatch {
    /// Returns the key that identifies later repetitions of this match.
    pub(crate) fn key(&self) -> (usize, MatchKind, Owner) {
        (self.found.rule, self.found.kind, self.owner.clone())
    }
}

/// The paths that belong to a text of a call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Owner {
    /// The paths of the enclosing objects.
    Objects(Vec<u32>),
    /// The file that a patch names.
    File(String),
}

/// A path among the arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallPath {
    pub(crate) object: u32,
    pub(crate) path: String,
    pub(crate) is_complete: bool,
}

/// The matches and paths of a call.
#[derive(Debug, Default)]
pub(crate) struct CallMatches {
    /// Matches that were not judged yet, and the keys of all matches.
    found: Vec<CallMatch>,
    keys: HashSet<(usize, MatchKind, Owner)>,
    pub(crate) waiting: PendingMatches,
    /// Whether matches are to be judged: there are new ones, or paths have changed.
    pub(crate) is_unjudged: bool,
    paths: Vec<CallPath>,
    has_new_paths: bool,
    /// Paths that the caller knows, and the number of their changes.
    given: Vec<String>,
    given_version: u64,
}

impl CallMatches {
    /// Begins a call.
    pub(crate) fn restart(&mut self) {
        self.found.clear();
        self.keys.clear();
        self.waiting.restart();
        self.is_unjudged = false;
        self.paths.clear();
        self.given.clear();
        self.given_version = 0;
    }

    /// Returns the paths in the arguments and those that the caller supplied.
    pub(crate) fn paths(&self) -> Paths<'_> {
        Paths { known: &self.paths, given: &self.given, given_version: self.given_version }
    }

    /// Sets the paths that the caller knows.
    pub(crate) fn give_paths(&mut self, paths: &[&str]) {
        if self.given != paths {
            self.given = paths.iter().map(|&path| path.to_owned()).collect();
            self.given_version += 1;
            self.note_new_paths();
        }
    }

    /// Begins a path among the arguments. Returns false if the call already has the maximum number.
    pub(crate) fn begin_path(&mut self, object: u32) -> bool {
        let has_room = self.paths.len() < MAX_PATHS;
        if has_room {
            self.paths.push(CallPath { object, path: String::new(), is_complete: false });
        }
        has_room
    }

    /// Continues the last path.
    pub(crate) fn push_path(&mut self, text: &str) {
        if let Some(path) = self.paths.last_mut()
            && path.path.len() + text.len() <= MAX_PATH
        {
            path.path.push_str(text);
        }
    }

    /// Ends the last path.
    pub(crate) fn end_path(&mut self) {
        if let Some(path) = self.paths.last_mut() {
            path.is_complete = true;
            self.note_new_paths();
        }
    }

    /// Ends all paths, at the end of the arguments. A truncated path is used as it is.
    pub(crate) fn complete_paths(&mut self) {
        self.paths.iter_mut().for_each(|path| path.is_complete = true);
        self.note_new_paths();
    }

    /// Marks the waiting matches to be judged again.
    fn note_new_paths(&mut self) {
        self.has_new_paths = true;
        self.is_unjudged |= self.waiting.len() > 0;
    }

    /// Adds a match, unless one with the same key exists.
    pub(crate) fn add(&mut self, found: Match, owner: Owner, history: &History) {
        let key = (found.rule, found.kind, owner);
        let is_full = self.found.len() + self.waiting.len() >= MAX_FOUND;
        if self.keys.contains(&key) || self.waiting.has(&key) || is_full {
            return;
        }
        let site = Site::new(history, found.offset);
        self.is_unjudged = true;
        self.found.push(CallMatch { found, site, owner: key.2.clone() });
        self.keys.insert(key);
    }

    /// Judges the matches by the known paths. A match that may still get a path waits.
    pub(crate) fn judge(&mut self, scope: &mut CallScope<'_>) -> Vec<(CallMatch, PathVerdict)> {
        let mut judged = Vec::new();
        self.is_unjudged = false;
        self.keys.clear();
        let paths = Paths { known: &self.paths, given: &self.given, given_version: self.given_version };
        if std::mem::take(&mut self.has_new_paths) {
            self.waiting.judge(paths, scope, &mut judged);
        }
        for found in self.found.drain(..) {
            self.waiting.judge_new(found, paths, scope, &mut judged);
        }
        judged
    }
}
