//! State of PiJS in configurable locations: the artifact cache with its key, ledgers, sessions, temporary files.
//!
//! [`tables`](super::tables) lists names below pi's own folders. Variables, options and symbolic links move this state to other
//! folders; whoever starts a session lists those in an [`OwnState`]. In a shared folder (the project, the home, a temporary
//! folder, or a parent of one) only `.jsonl` files, the format of sessions and ledgers, and the marks of open ledgers are
//! protected.

use super::{Places, Protection, SHARED_SETTINGS, below, is_code, settings_depth};
use pijs_durable::Owner;
use pijs_protocol::guard;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Folder of the marks of open ledgers, inside the ledger folder.
pub(crate) const LEDGER_MARKS: &str = ".open";

/// Files and folders outside of pi's own folders that are protected in every mode. All paths are absolute; each is listed under
/// every name that resolves to it, including the canonical name. Empty by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnState {
    /// Paths that cannot be read or written, with everything below: the cache, the key, targets of links in pi's folders.
    pub closed: Vec<PathBuf>,
    /// Subset of `closed` that links in the home point to: keys and credentials.
    pub credentials: Vec<PathBuf>,
    /// Subset of `closed` that belongs to PiJS: no program of an extension can read or write it.
    pub closed_to_programs: Vec<PathBuf>,
    /// Settings of PiJS that links in its folders point to: no program of an extension can write them.
    pub unwritten_by_programs: Vec<PathBuf>,
    /// Paths that cannot be written, with everything below: settings that links in pi's folders point to.
    pub unwritten: Vec<PathBuf>,
    /// Symbolic links on the way to the other paths; the links themselves cannot be written.
    pub links: Vec<PathBuf>,
    /// Folders of extensions that links in pi's folders point to. Packages store data there, as in `extensions`.
    pub extensions: Vec<PathBuf>,
    /// Package stores that links in pi's folders point to. They are closed, except that a package reads its own files.
    pub stores: Vec<PathBuf>,
    /// Ledger folders.
    pub ledgers: Vec<PathBuf>,
    /// Session folders, protected like `sessions` in the agent folder.
    pub sessions: Vec<PathBuf>,
    /// Code and texts that run later, with everything below: extensions that are loaded from paths, skills that links in pi's
    /// folders point to. An extension may write its own files.
    pub runs_later: Vec<PathBuf>,
    /// Session files in other folders. Next to one of them, other `.jsonl` files need grants that name them.
    pub session_files: Vec<PathBuf>,
}

impl Places {
    /// Sets the state of PiJS outside pi's own folders that is protected too, and looks for links among the settings in the home.
    #[must_use]
    pub fn with_own_state(mut self, own: OwnState) -> Self {
        self.own = own;
        self.linked_settings = self.linked_settings();
        self
    }

    /// Returns the targets of links among the settings in the home, with the names of the links. Left out are targets around or in
    /// the session's folders, and others among the settings.
    fn linked_settings(&self) -> Vec<(PathBuf, PathBuf)> {
        let mut found = Vec::new();
        for folder in [""].iter().chain(SHARED_SETTINGS) {
            let entries = self.home.join(folder).read_dir().into_iter().flatten().flatten();
            let links = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
            for link in links.filter_map(|link| Some((link.path().canonicalize().ok()?, link.path()))) {
                let (target, link) = (link.0, link.1.strip_prefix(&self.home).map(Path::to_owned));
                let is_open = self.is_worked_in(&target) || self.is_shared(&target) || self.is_in_settings(&target);
                let is_settings = |link: &PathBuf| settings_depth(&link.iter().collect::<Vec<_>>()).is_some();
                found.extend(link.ok().filter(|link| !is_open && is_settings(link)).map(|link| (target, link)));
            }
        }
        found
    }

    /// Adds extensions that are loaded from paths to the protected places: files, and package folders.
    #[must_use]
    pub fn with_loaded(mut self, extensions: impl IntoIterator<Item = PathBuf>) -> Self {
        self.own.runs_later.extend(extensions);
        self
    }

    /// Returns the session folder that contains a path, or that the path names: `sessions` of the agent folder, or another one.
    pub fn session_folder_of(&self, path: &Path) -> Option<PathBuf> {
        let usual = self.sessions();
        if below(path, &usual).is_some() {
            return Some(usual);
        }
        self.other_session_folder_of(path).cloned()
    }

    fn other_session_folder_of(&self, path: &Path) -> Option<&PathBuf> {
        let found = self.own.sessions.iter().find(|folder| self.is_kept_in(path, folder));
        found.filter(|_| guard!(PlacesSessions))
    }

    /// Returns whether a path is a session file outside of all session folders.
    pub(crate) fn is_session_file(&self, path: &Path) -> bool {
        let files = &self.own.session_files;
        !files.is_empty() && guard!(PlacesSessions) && {
            let path = without_aside(path);
            let session = without_tape(&path);
            files.iter().any(|file| below(&path, file).is_some() || is_same(&session, file))
        }
    }

    /// Returns whether a path is closed for a reason other than being in a session folder.
    pub(crate) fn is_closed(&self, path: &Path) -> bool {
        let own = &self.own;
        guard!(PlacesOwnState)
            && (is_temporary(path)
                || is_inside(path, &own.closed)
                || is_inside(path, &own.stores)
                || own.ledgers.iter().any(|folder| self.is_ledger(path, folder)))
    }

    /// Returns the protection of a path as state of PiJS. `own_folder` is the caller's folder that contains the path.
    pub(super) fn own_protection(&self, path: &Path, own_folder: Option<&Path>) -> Protection {
        let own = &self.own;
        if self.is_closed(path) || self.other_session_folder_of(path).is_some() || self.is_session_file(path) {
            return Protection::All;
        }
        let is_link = || own.links.iter().any(|link| is_same(path, link));
        let unwritten = is_inside(path, &own.unwritten) || is_inside(path, &own.extensions) || is_link();
        if unwritten && guard!(PlacesOwnState) {
            return Protection::Write;
        }
        let is_beside = own.session_files.iter().any(|file| file.parent() == path.parent());
        let is_beside = is_beside && path.file_name().is_some_and(is_lines) && guard!(PlacesSessions);
        let is_whose_own = |kept: &Path| own_folder.is_some_and(|folder| folder.starts_with(kept));
        let runs_later = || own.runs_later.iter().any(|kept| self.is_loaded_from(path, kept) && !is_whose_own(kept));
        match is_beside || (runs_later() && guard!(PlacesLoadedCode)) {
            true => Protection::RunsLater,
            false => Protection::None,
        }
    }

    /// Returns whether a path is part of an extension that is loaded from a file or folder. In a shared folder only code counts.
    fn is_loaded_from(&self, path: &Path, kept: &Path) -> bool {
        below(path, kept).is_some_and(|mut rest| {
            !self.is_shared(kept)
                || is_code(path)
                || path.file_name().is_some_and(|name| name == "package.json")
                || rest.any(|name| name == "node_modules")
        })
    }

    /// Returns whether a path contains, or would contain, state of PiJS.
    pub(super) fn is_above_own_state(&self, path: &Path) -> bool {
        let own = &self.own;
        let all = [&own.closed, &own.unwritten, &own.links, &own.extensions, &own.stores, &own.ledgers];
        let all = all.into_iter().chain([&own.sessions, &own.session_files, &own.runs_later]);
        let linked = self.linked_settings.iter().map(|(target, _)| target);
        all.flatten().chain(linked).any(|kept| below(kept, path).is_some())
    }

    /// Returns whether a path is part of a ledger in a folder.
    fn is_ledger(&self, path: &Path, folder: &Path) -> bool {
        self.is_kept_in(path, folder) || below(path, &folder.join(LEDGER_MARKS)).is_some()
    }

    /// Returns whether a path is part of a ledger or session in a folder.
    fn is_kept_in(&self, path: &Path, folder: &Path) -> bool {
        let Some(mut rest) = below(path, folder) else { return false };
        !self.is_shared(folder) || (rest.next().is_some_and(is_lines) && rest.next().is_none())
    }

    /// Returns whether a path is in the project or in the folder for temporary files.
    pub(super) fn is_worked_in(&self, path: &Path) -> bool {
        path.starts_with(&self.project) || path.starts_with(&self.temp)
    }

    /// Returns whether a folder also contains files other than state of PiJS.
    pub(super) fn is_shared(&self, folder: &Path) -> bool {
        [&self.project, &self.home, &self.temp, &self.agent_dir].into_iter().any(|used| below(used, folder).is_some())
    }
}

fn is_inside(path: &Path, folders: &[PathBuf]) -> bool {
    folders.iter().any(|folder| below(path, folder).is_some())
}

/// Returns the original of a copy: `x.jsonl` for `x.jsonl.bak` and `x.jsonl.damaged-1`.
pub(crate) fn without_aside(path: &Path) -> PathBuf {
    let Some(name) = path.file_name().and_then(OsStr::to_str) else { return path.to_owned() };
    let lower = name.to_ascii_lowercase();
    let ends = lower.strip_suffix(".bak").map(str::len).or_else(|| lower.rfind(".damaged-"));
    ends.map_or_else(|| path.to_owned(), |at| path.with_file_name(&name[..at]))
}

/// Returns the session file of a tape next to it: `x.jsonl` for `x.jsonl.tape` and `x.jsonl.2.tape`.
fn without_tape(path: &Path) -> PathBuf {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let lower = name.to_ascii_lowercase();
    let Some(stem) = lower.strip_suffix(".tape") else { return path.to_owned() };
    let run = stem.rsplit_once('.').filter(|(_, run)| !run.is_empty() && run.bytes().all(|byte| byte.is_ascii_digit()));
    path.with_file_name(&name[..run.map_or(stem.len(), |(session, _)| session.len())])
}

/// Compares paths without regard to ASCII case.
pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    below(one, other).is_some_and(|mut rest| rest.next().is_none())
}

const LINES: &[u8] = b".jsonl";

/// Returns whether a name is the name of a JSON Lines file, or of a copy of one.
pub(crate) fn is_lines(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    let ends = |at: usize| matches!(name.get(at + LINES.len()), None | Some(b'.'));
    name.windows(LINES.len()).enumerate().any(|(at, part)| part.eq_ignore_ascii_case(LINES) && ends(at))
}

/// Returns whether a path contains a temporary file or folder of PiJS, from a replacement of state, an install or a build. Such
/// names are recognized in any folder.
fn is_temporary(path: &Path) -> bool {
    path.iter().any(|name| name.to_str().is_some_and(|name| Owner::of(name).is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(paths: &[&str]) -> Vec<PathBuf> {
        paths.iter().map(PathBuf::from).collect()
    }

    fn places(own: OwnState) -> Places {
        Places::new("/projects/app", "/home/me", "/home/me/.pi/agent", "/tmp").with_own_state(own)
    }

    fn protected(places: &Places, path: &str) -> Protection {
        places.protection(Path::new(path), None)
    }

    #[test]
    fn the_cache_is_closed_under_each_of_its_names() {
        let closed = at(&["/home/me/.cache/pijs", "/data/cache/pijs"]);
        let places = places(OwnState { closed, links: at(&["/home/me/.cache"]), ..OwnState::default() });
        for path in ["/home/me/.cache/pijs", "/data/cache/pijs/install.key", "/DATA/Cache/PIJS/artifacts/x.mac"] {
            assert_eq!(protected(&places, path), Protection::All, "{path}");
            assert!(places.is_withheld(Path::new(path)), "{path}");
        }
        assert_eq!(protected(&places, "/home/me/.cache"), Protection::Write);
        for path in ["/data/cache/other", "/data/cache", "/home/me/cache/pijs"] {
            assert_eq!(protected(&places, path), Protection::None, "{path}");
        }
        for above in ["/data", "/data/cache", "/data/cache/pijs", "/home/me/.cache"] {
            assert!(places.is_above_protected(Path::new(above)), "{above}");
        }
        assert!(!places.is_above_protected(Path::new("/data/other")));
    }

    #[test]
    fn in_a_shared_folder_only_json_lines_files_are_closed() {
        let own = OwnState {
            sessions: at(&["/projects/app", "/data/sessions"]),
            ledgers: at(&["/home/me"]),
            session_files: at(&["/data/one.jsonl"]),
            ..OwnState::default()
        };
        let places = places(own);
        for path in [
            "/projects/app/x.jsonl",
            "/projects/app/X.JSONL.bak",
            "/projects/app/x.jsonl-.jsonl",
            "/home/me/s.1.jsonl",
            "/home/me/.open",
            "/home/me/.Open/s",
            "/data/sessions",
            "/data/sessions/any/thing",
            "/data/one.jsonl",
            "/data/ONE.jsonl.damaged-1",
            "/data/one.jsonl.tape",
            "/data/one.jsonl.12.TAPE",
        ] {
            assert_eq!(protected(&places, path), Protection::All, "{path}");
        }
        for path in [
            "/projects/app",
            "/projects/app/src/x.jsonl",
            "/projects/app/x.json",
            "/home/me/notes",
            "/data/one.jsonl2",
            "/data/one.json.tape",
            "/data",
        ] {
            assert_eq!(protected(&places, path), Protection::None, "{path}");
        }
        assert_eq!(protected(&places, "/data/two.jsonl"), Protection::RunsLater);
        assert_eq!(places.session_folder_of(Path::new("/data/sessions/x")), Some("/data/sessions".into()));
        let usual = Path::new("/home/me/.pi/agent/sessions/--a--/x.jsonl");
        assert_eq!(places.session_folder_of(usual), Some(places.sessions()));
        assert_eq!(places.session_folder_of(Path::new("/projects/app/src")), None);
    }

    #[test]
    fn a_package_reads_its_own_files_in_a_linked_store() {
        let places = places(OwnState { stores: at(&["/data/npm"]), ..OwnState::default() });
        let (own, other) = (Path::new("/data/npm/node_modules/x"), Path::new("/data/npm/node_modules/y"));
        assert!(places.is_installed(own));
        assert_eq!(places.protection(&own.join("a.js"), Some(own)), Protection::Write);
        assert_eq!(places.protection(&other.join("a.js"), Some(own)), Protection::All);
        assert_eq!(places.protection(&other.join("a.js"), None), Protection::All);
    }

    #[test]
    fn loaded_code_is_writable_by_its_own_extension() {
        let loaded = at(&["/home/me/tool", "/home/me/one.ts", "/projects/app", "/projects/app/inner"]);
        let places = places(OwnState::default()).with_loaded(loaded);
        let written = |path: &str, own: &str| places.protection(Path::new(path), Some(Path::new(own)));
        for (path, own) in [
            ("/home/me/tool/data.txt", "/home/me/tool"),
            ("/home/me/one.ts", "/home/me/one.ts"),
            ("/projects/app/src/a.ts", "/projects/app"),
        ] {
            assert_eq!(protected(&places, path), Protection::RunsLater, "{path}");
            assert_eq!(written(path, own), Protection::None, "{path}");
        }
        for path in [
            "/home/me/tool",
            "/home/me/TOOL/lib/a.js",
            "/home/me/one.ts",
            "/projects/app/package.json",
            "/projects/app/node_modules",
            "/projects/app/node_modules/dep/data.txt",
        ] {
            assert_eq!(protected(&places, path), Protection::RunsLater, "{path}");
        }
        assert_eq!(written("/projects/app/inner/a.ts", "/projects/app"), Protection::RunsLater);
        for path in ["/home/me/tools", "/home/me/one.txt", "/projects/app/notes.md", "/projects/app/src"] {
            assert_eq!(protected(&places, path), Protection::None, "{path}");
        }
    }

    #[test]
    fn temporary_files_are_protected_everywhere() {
        let places = places(OwnState::default());
        for path in ["/home/me/.pi/agent/auth.json.12-00c0ffee-3.tmp", "/tmp/pijs.12-00c0ffee-3.tmp/node_modules/x"] {
            assert_eq!(protected(&places, path), Protection::All, "{path}");
        }
        assert_eq!(protected(&places, "/tmp/upload.12-3.tmp"), Protection::None);
    }
}
