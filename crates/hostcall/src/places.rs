//! The folders of a session, and the protected paths inside them.
//!
//! This module works on names: absolute, normalised paths. The file connector resolves links: it opens each component by handle,
//! and has the path that it reached decided again.

mod own_data;
mod own_state;
mod program_view;
mod tables;

pub use own_state::OwnState;
pub(crate) use own_state::{LEDGER_MARKS, is_lines, is_same, without_aside};
pub use pijs_durable::normal;
pub use pijs_programs::secrets::may_hold_secrets;
pub use program_view::ProgramView;

use crate::subject::{Access, PathForm, PathUse};
use pijs_programs::obeyed;
use pijs_protocol::{HostcallError, guard};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use tables::{AGENT_FOLDER, ANYWHERE, EXTENSIONS, HOME, PI_FOLDER, STORES, SYSTEM};

/// Path of the script that extensions see as pi's own, as in the compiled pi. No file exists there, and accessing it needs no
/// consent.
pub const OWN_SCRIPT: &str = concat!("/$bunfs", "/root", "/pi");

/// Maximum length of a path, in bytes.
const MAX_PATH_BYTES: usize = 4096;

/// The folders of a session. All are absolute, and canonical if they exist, because the file connector compares them with paths
/// that it reached without following links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// The working folder of the session; the base of relative paths.
    pub project: PathBuf,
    /// The user's home.
    pub home: PathBuf,
    /// `~/.pi/agent`, or its configured replacement.
    pub agent_dir: PathBuf,
    /// Folder for temporary files.
    pub temp: PathBuf,
    /// Folders whose content pi owns.
    pi_folders: [PathBuf; 3],
    /// State of PiJS outside of pi's folders.
    own: OwnState,
    /// Targets of links among the settings in the home, with the names of the links below the home.
    linked_settings: Vec<(PathBuf, PathBuf)>,
}

/// Protection of a path that applies in every mode and against every grant, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protection {
    /// Not protected.
    None,
    /// The file runs later by itself (a build file): a write needs a grant that names the file, or a prompt.
    RunsLater,
    /// Cannot be written.
    Write,
    /// Cannot be read or written.
    All,
}

impl Places {
    /// Creates the folders of a session; all absolute.
    pub fn new(
        project: impl Into<PathBuf>,
        home: impl Into<PathBuf>,
        agent_dir: impl Into<PathBuf>,
        temp: impl Into<PathBuf>,
    ) -> Self {
        let (project, home, agent_dir) = (project.into(), home.into(), agent_dir.into());
        let pi_folders = [agent_dir.clone(), home.join(".pi"), project.join(".pi")];
        let (temp, own) = (temp.into(), OwnState::default());
        Self { project, home, agent_dir, temp, pi_folders, own, linked_settings: Vec::new() }
    }

    /// Converts a path of a call to an absolute, normalised one.
    ///
    /// `..` is resolved by name. If a symbolic link makes the result another path, the file connector detects it, because the
    /// path that it reached is decided again.
    pub fn absolute(&self, used: PathUse<'_>) -> Result<PathBuf, HostcallError> {
        let mut path = used.path;
        if let PathForm::Tool = used.form {
            path = path.strip_prefix('@').unwrap_or(path);
            if path == "~" {
                return Ok(self.home.clone());
            }
            if let Some(rest) = path.strip_prefix("~/") {
                check(rest)?;
                return Ok(normal(&self.home, Path::new(rest)));
            }
        }
        check(path)?;
        match used.form {
            PathForm::TargetOf(link) => {
                check(link)?;
                let link = normal(&self.project, Path::new(link));
                Ok(normal(link.parent().unwrap_or(&link), Path::new(path)))
            }
            PathForm::Node | PathForm::Tool => Ok(normal(&self.project, Path::new(path))),
        }
    }

    /// Converts a path in Node's form.
    pub fn node_path(&self, path: &str) -> Result<PathBuf, HostcallError> {
        self.absolute(PathUse { access: Access::Read, path, form: PathForm::Node })
    }

    /// Returns whether reading `path` needs no consent: project, own package, `.pi` folders, and the path of pi's script.
    ///
    /// `own` is the folder of the package, or of a dependency that is compiled into it.
    pub fn reads_freely(&self, path: &Path, own: Option<&Path>) -> bool {
        path.starts_with(&self.project)
            || own.is_some_and(|folder| path.starts_with(folder))
            || path.starts_with(&self.agent_dir)
            || path.strip_prefix(&self.home).is_ok_and(|rest| rest.starts_with(".pi"))
            || path == Path::new(OWN_SCRIPT)
    }

    /// Returns whether tools or prompts obey the file or folder at a relative path, such as `Makefile` or `.git/hooks/pre-commit`.
    pub fn is_obeyed(path: &Path) -> bool {
        let names: Vec<&OsStr> = path.iter().collect();
        (0..names.len()).any(|at| anywhere(&names[at..]) != Protection::None)
    }

    /// Lists the protected names in a home, to resolve links among them.
    pub fn protected_in_home() -> impl Iterator<Item = (&'static str, Protection)> {
        HOME.iter().copied()
    }

    /// Lists the protected names in a pi folder.
    pub fn protected_in_pi_folder() -> impl Iterator<Item = (&'static str, Protection)> {
        PI_FOLDER.iter().copied().filter(|(name, _)| !name.starts_with("agent/"))
    }

    /// Returns whether `path` is in a part of the home that holds settings or programs: hidden files and folders, and folders of
    /// programs, also where links in the home lead. A grant of the home covers none of these; only a grant that names them does.
    /// Exempt is the folder in which the session runs.
    pub(crate) fn is_in_settings(&self, path: &Path) -> bool {
        self.settings_around(path).is_some()
    }

    /// Returns the file or folder that a grant has to name to cover a path among the settings of the home: `~/.config/x` for
    /// `~/.config/x/a`.
    pub(crate) fn settings_around<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        if self.project != self.home && path.starts_with(&self.project) {
            return None;
        }
        let around = |names: &[&OsStr]| path.ancestors().nth(names.len() - settings_depth(names)?);
        let linked = || {
            self.linked_settings.iter().find_map(|(target, link)| {
                let names: Vec<&OsStr> = link.iter().chain(below(path, target)?).collect();
                around(&names)
            })
        };
        under(path, &self.home).and_then(|names| around(&names)).or_else(linked)
    }

    /// Returns the folder of sessions.
    pub fn sessions(&self) -> PathBuf {
        self.agent_dir.join("sessions")
    }

    /// Returns whether a probe of `path` is a step of an upward search past the project: a hidden name in a parent folder other
    /// than the home. Such probes do not prompt, because they would for each step.
    pub(crate) fn is_search_above(&self, path: &Path) -> bool {
        let Some(common) = path.ancestors().skip(1).find(|folder| self.project.starts_with(folder)) else {
            return false;
        };
        let name = path.strip_prefix(common).ok().and_then(|rest| rest.iter().next());
        let is_hidden = name.is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        common != self.project && common != self.home && is_hidden
    }

    /// Returns the protection of `path`. An installed package may read itself in the protected store; protected paths inside an
    /// `own` folder stay protected.
    pub fn protection(&self, path: &Path, own: Option<&Path>) -> Protection {
        let found = self.protected(path).max(self.own_protection(path, own));
        let is_own = || own.is_some_and(|folder| path.starts_with(folder) && self.is_installed(folder));
        if found == Protection::All && (is_own() || !pijs_protocol::guard!(GateOwn)) {
            return Protection::Write;
        }
        found
    }

    /// Returns whether no grant lets an extension read `path`.
    pub fn is_withheld(&self, path: &Path) -> bool {
        self.protection(path, None) == Protection::All
    }

    /// Returns whether a package's folder is in one of pi's stores.
    pub fn is_installed(&self, folder: &Path) -> bool {
        let usual = self.pi_folders.iter().flat_map(|folder| STORES.map(|store| folder.join(store)));
        let mut stores = usual.chain(self.own.stores.iter().cloned());
        stores.any(|store| folder != store && folder.starts_with(store))
    }

    /// Returns whether `path` is data of the package at `root` in an extensions folder, or a folder that is created for such
    /// data. All other files there are code, or belong to other extensions.
    pub(crate) fn is_own_data(&self, path: &Path, access: Access, root: Option<&Path>) -> bool {
        let names: Vec<&OsStr> = path.iter().collect();
        let runs = |at: usize| anywhere(&names[at..]) != Protection::None;
        root.is_some_and(|root| {
            self.beside_extensions(path).is_some_and(|(folder, names)| {
                own_data::is_own_data(&names, root, access) && self.keeps_data(&folder, &names, root)
            }) && !(0..names.len()).any(runs)
        })
    }

    /// Returns the folder for data of the package at `root`: `extensions/NAME` of the agent folder. `None` for a package that is
    /// neither in a store nor among the extensions, and if the folder belongs to another package.
    pub fn data_folder(&self, root: &Path) -> Option<PathBuf> {
        let name = own_data::own_name(root)?;
        let extensions = self.agent_dir.join("extensions");
        self.keeps_data(&extensions, &[OsStr::new(name), OsStr::new("")], root).then(|| extensions.join(name))
    }

    /// Returns the working folder for servers of the package at `root` while the project is not trusted: an empty folder, in
    /// which neither the extension nor a program can write. `None` for a package that is neither in a store nor among the
    /// extensions.
    pub fn server_folder(&self, root: &Path) -> Option<PathBuf> {
        own_data::own_name(root).map(|name| self.agent_dir.join("extensions/.empty").join(name))
    }

    /// Returns whether `names` in an extensions folder may be data of the package at `root`. False if another extension or
    /// installed package has that name, and for a package of the project in the user's folders.
    fn keeps_data(&self, folder: &Path, names: &[&OsStr], root: &Path) -> bool {
        let [agent, home, project] = &self.pi_folders;
        let is_of_project = |path: &Path| project != home && path.starts_with(project);
        let Some(first) = names.first().and_then(|name| name.to_str()) else { return true };
        let name = if names.len() == 1 { own_data::stem(first) } else { first };
        let stores = [agent, home].map(|folder| folder.join("npm/node_modules"));
        let linked = self.own.stores.iter().map(|store| store.join("node_modules"));
        let installed = stores.into_iter().chain(linked).map(|store| store.join(name)).find(|package| package.exists());
        let owner = own_data::extension_called(folder, name).or(installed);
        let is_owner = |owner: PathBuf| std::fs::canonicalize(owner).is_ok_and(|owner| owner == root);
        (owner.is_none_or(is_owner) && (is_of_project(folder) || !is_of_project(root))) || !guard!(PlacesDataOwner)
    }

    /// Returns a folder in which pi looks for extensions, and the components of `path` below it.
    fn beside_extensions<'a>(&self, path: &'a Path) -> Option<(PathBuf, Vec<&'a OsStr>)> {
        let usual = self.pi_folders.iter().flat_map(|folder| EXTENSIONS.map(|name| folder.join(name)));
        let mut folders = usual.chain(self.own.extensions.iter().cloned());
        folders.find_map(|folder| under(path, &folder).map(|names| (folder, names)))
    }

    /// Returns whether a folder or a link at `path` would contain a protected path. Its entries are not decided one by one,
    /// because they can change before it is in place.
    pub fn is_above_protected(&self, path: &Path) -> bool {
        let leads = |names: &[&OsStr], pattern: &str| {
            let mut wanted = pattern.split('/');
            let fits = names.iter().all(|name| wanted.next().is_some_and(|want| name.eq_ignore_ascii_case(want)));
            fits && wanted.next().is_some()
        };
        let begins =
            |names: &[&OsStr], table: &[(&str, Protection)]| table.iter().any(|(pattern, _)| leads(names, pattern));
        let inside = |folder: &Path, table| {
            under(folder, path).is_some() || under(path, folder).is_some_and(|rest| begins(&rest, table))
        };
        let names: Vec<&OsStr> = path.iter().collect();
        self.beside_extensions(path).is_some_and(|(_, names)| !names.is_empty())
            || self.pi_folders.iter().any(|folder| inside(folder, PI_FOLDER))
            || inside(&self.home, HOME)
            || self.is_above_own_state(path)
            || (0..names.len()).any(|at| {
                begins(&names[at..], ANYWHERE) || obeyed::FOLDERS.iter().any(|name| leads(&names[at..], name))
            })
    }

    fn protected(&self, path: &Path) -> Protection {
        for folder in SYSTEM {
            if path.starts_with(folder) {
                return Protection::All;
            }
        }
        if self.is_ticket(path) {
            return Protection::All;
        }
        let mut worst = Protection::None;
        for folder in &self.pi_folders {
            if let Some(rest) = under(path, folder) {
                match look_up(&rest, PI_FOLDER) {
                    Protection::None => {}
                    Protection::RunsLater => worst = Protection::RunsLater,
                    stronger => return stronger,
                }
            }
        }
        if let Some(rest) = under(path, &self.agent_dir) {
            let found = look_up(&rest, AGENT_FOLDER);
            if found != Protection::None {
                return found;
            }
        }
        if let Some(rest) = under(path, &self.home) {
            match look_up(&rest, HOME) {
                Protection::None => {}
                // A session in such a folder works on these files; a session in the home works on other files.
                Protection::RunsLater if self.project != self.home && path.starts_with(&self.project) => {}
                Protection::RunsLater => worst = Protection::RunsLater,
                stronger => return stronger,
            }
        }
        let names: Vec<&OsStr> = path.iter().collect();
        for at in 0..names.len() {
            match anywhere(&names[at..]) {
                Protection::None => {}
                Protection::RunsLater => worst = Protection::RunsLater,
                stronger => return stronger,
            }
        }
        if is_in_bare_repository(path) { Protection::Write } else { worst }
    }

    /// Returns whether a path is a ticket of Kerberos, which authenticates like a key, in a folder where they are kept.
    fn is_ticket(&self, path: &Path) -> bool {
        let is_kept_in = |folder: &Path| {
            let mut names = below(path, folder)?;
            let first = names.next()?;
            // A user has a folder of its own in `/run/user`.
            let name = if folder.ends_with("run/user") { names.next()? } else { first };
            Some(name.as_encoded_bytes().starts_with(b"krb5cc"))
        };
        let folders = [self.temp.as_path(), Path::new("/tmp"), Path::new("/run/user")];
        !path.starts_with(&self.project) && folders.into_iter().any(|folder| is_kept_in(folder) == Some(true))
    }

    /// Expands a leading `<project>`, `<package>`, `<pi>`, `<home>` or `<temp>` of a grant's path pattern; `<pi>` expands to
    /// several folders. Other patterns are relative to the project.
    pub(crate) fn expand(&self, pattern: &str, package_root: Option<&Path>) -> Vec<(PathBuf, String)> {
        let rest_of = |token: &str| pattern.strip_prefix(token).map(|rest| rest.trim_start_matches('/').to_owned());
        if let Some(rest) = rest_of("<project>") {
            return vec![(self.project.clone(), rest)];
        }
        if let Some(rest) = rest_of("<package>") {
            return package_root.map(|root| (root.to_owned(), rest)).into_iter().collect();
        }
        if let Some(rest) = rest_of("<pi>") {
            return self.pi_folders.iter().map(|folder| (folder.clone(), rest.clone())).collect();
        }
        if let Some(rest) = rest_of("<home>").or_else(|| pattern.strip_prefix("~/").map(below_folder)) {
            return vec![(self.home.clone(), rest)];
        }
        if let Some(rest) = rest_of("<temp>") {
            return vec![(self.temp.clone(), rest)];
        }
        vec![(self.project.clone(), pattern.to_owned())]
    }
}

/// Strips the slashes after a folder's name. Another slash would make the path absolute.
fn below_folder(rest: &str) -> String {
    if guard!(ScopeHome) { rest.trim_start_matches('/').to_owned() } else { rest.to_owned() }
}

/// Returns whether a name in the home belongs to settings or programs. The name may be the start of a pattern.
pub(crate) fn is_settings_name(name: &str) -> bool {
    name.starts_with('.') || SETTINGS.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// Returns whether a file name is the name of a code module. A hidden file counts as a module.
pub fn is_code(path: &Path) -> bool {
    const ENDINGS: [&str; 8] = ["ts", "mts", "cts", "tsx", "js", "mjs", "cjs", "jsx"];
    let name = path.file_name().unwrap_or_default();
    let ending = path.extension().and_then(OsStr::to_str);
    !name.as_encoded_bytes().starts_with(b".") && ending.is_some_and(|ending| ENDINGS.contains(&ending))
}

/// Returns the number of names below the home that a grant has to give in full to cover a path among settings.
fn settings_depth(names: &[&OsStr]) -> Option<usize> {
    names.first().and_then(|name| name.to_str()).filter(|name| is_settings_name(name))?;
    let shared = SHARED_SETTINGS.iter().filter(|shared| begins_exactly(names, shared) && guard!(PlacesSharedSettings));
    let depth = shared.map(|shared| shared.split('/').count() + 1).max().unwrap_or(1);
    Some(depth.min(names.len()))
}

/// Folders of a home in which each entry belongs to another program.
const SHARED_SETTINGS: &[&str] = &[".cache", ".config", ".local", ".local/share", ".local/state"];

/// Folders of a home that are not hidden and contain programs or settings.
const SETTINGS: &[&str] = &["AppData", "Library", "bin"];

/// Checks a path string: it must not be empty, contain NUL or be too long.
fn check(path: &str) -> Result<(), HostcallError> {
    if path.is_empty() {
        return Err(HostcallError::invalid("path", "the path is empty"));
    }
    if path.contains('\0') {
        return Err(HostcallError::invalid("path", "the path contains a null byte"));
    }
    if path.len() > MAX_PATH_BYTES {
        return Err(HostcallError::invalid("path", format!("the path is longer than {MAX_PATH_BYTES} bytes")));
    }
    Ok(())
}

/// Returns the components of `path` below `folder`, compared without regard to ASCII case, because `Auth.json` and `auth.json`
/// are the same file on a case-insensitive file system.
fn under<'a>(path: &'a Path, folder: &Path) -> Option<Vec<&'a OsStr>> {
    below(path, folder).map(Iterator::collect)
}

/// Returns an iterator over the components of `path` below `folder`.
fn below<'a>(path: &'a Path, folder: &Path) -> Option<std::path::Iter<'a>> {
    let mut names = path.iter();
    for expected in folder.iter() {
        if !names.next()?.eq_ignore_ascii_case(expected) {
            return None;
        }
    }
    Some(names)
}

fn look_up(names: &[&OsStr], table: &[(&str, Protection)]) -> Protection {
    let found = table.iter().find(|(pattern, _)| begins_exactly(names, pattern));
    if let Some((_, protection)) = found {
        return *protection;
    }
    let closed = |protection: Protection| protection == Protection::All;
    let is_aside = || {
        table.iter().any(|(pattern, protection)| {
            closed(*protection) && begins_with(names, pattern, |name, of| is_aside(name, of.as_ref()))
        })
    };
    if is_aside() && guard!(PlacesAside) { Protection::All } else { Protection::None }
}

/// Returns whether the components begin with the components of a pattern; `is_last` compares the last one.
fn begins_with(names: &[&OsStr], pattern: &str, is_last: impl Fn(&OsStr, &str) -> bool) -> bool {
    let mut wanted = pattern.split('/').peekable();
    let mut found = names.iter();
    while let Some(want) = wanted.next() {
        let Some(name) = found.next() else { return false };
        let fits = if wanted.peek().is_none() { is_last(name, want) } else { name.eq_ignore_ascii_case(want) };
        if !fits {
            return false;
        }
    }
    true
}

/// Returns whether the components begin with the components of a pattern.
fn begins_exactly(names: &[&OsStr], pattern: &str) -> bool {
    starts_alike(names, pattern) && begins_with(names, pattern, |name, want| name.eq_ignore_ascii_case(want))
}

/// Returns whether the first component and a pattern start with the same letter, or the pattern with a star. Every component of
/// every path is compared with hundreds of patterns, and this excludes most of them.
fn starts_alike(names: &[&OsStr], pattern: &str) -> bool {
    let name = names.first().and_then(|name| name.as_encoded_bytes().first());
    let want = pattern.as_bytes().first();
    want == Some(&b'*') || name.map(u8::to_ascii_lowercase) == want.map(u8::to_ascii_lowercase)
}

/// Returns whether a path is content or settings of a folder with a `HEAD`, which git takes for a repository whatever its name.
/// Writing the `HEAD` itself needs a grant that names it ([`obeyed::FILES`]).
fn is_in_bare_repository(path: &Path) -> bool {
    const ENTRIES: [&str; 7] = ["commondir", "config", "config.worktree", "hooks", "info", "objects", "refs"];
    let is_entry =
        |at: &&Path| at.file_name().is_some_and(|name| ENTRIES.iter().any(|known| name.eq_ignore_ascii_case(known)));
    let mut entries = path.ancestors().filter(is_entry);
    entries.any(|at| at.with_file_name("HEAD").symlink_metadata().is_ok()) && guard!(PlacesBareRepository)
}

/// Returns the protection of names that are protected in any folder.
fn anywhere(names: &[&OsStr]) -> Protection {
    let is_file = |pattern: &&str| {
        starts_alike(names, pattern)
            && names.len() == pattern.split('/').count()
            && begins_with(names, pattern, |name, want| obeyed::is_named(name.as_encoded_bytes(), want))
    };
    match look_up(names, ANYWHERE) {
        Protection::None
            if obeyed::FOLDERS.iter().any(|folder| begins_exactly(names, folder))
                || (names.len() <= obeyed::MAX_FILE_NAMES && obeyed::FILES.iter().any(is_file)) =>
        {
            Protection::RunsLater
        }
        found => found,
    }
}

/// Returns whether a name is that of a copy of a file: `auth.json.bak`, `auth.json~`, `.auth.json.swp`. A name without a dot
/// belongs to a folder, which has no copies.
pub fn is_aside(name: &OsStr, of: &OsStr) -> bool {
    let (name, of) = (name.as_encoded_bytes(), of.as_encoded_bytes());
    let is_copy = |name: &[u8]| {
        name.get(of.len()).is_some_and(|next| b".~#".contains(next)) && name[..of.len()].eq_ignore_ascii_case(of)
    };
    // Editors prefix a dot or a number sign.
    let fronts: [&[u8]; 4] = [b"", b".", b"#", b".#"];
    of.contains(&b'.')
        && fronts
            .iter()
            .filter_map(|front| name.strip_prefix(*front))
            .enumerate()
            .any(|(at, rest)| is_copy(rest) || (at > 0 && rest.eq_ignore_ascii_case(of)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> Places {
        Places::new("/projects/app", "/home/me", "/home/me/.pi/agent", "/tmp")
    }

    #[test]
    fn a_search_upwards_ends_at_the_project() {
        let places = places();
        for above in ["/.pi/agents", "/projects/.git", "/projects/.claude/a/b"] {
            assert!(places.is_search_above(Path::new(above)), "{above}");
        }
        for elsewhere in ["/projects/app/.git", "/home/me/.config/x", "/etc/hosts", "/projects/other", "/"] {
            assert!(!places.is_search_above(Path::new(elsewhere)), "{elsewhere}");
        }
    }

    #[test]
    fn project_package_and_pi_folders_are_read_freely() {
        let places = places();
        let own = Path::new("/opt/x");
        for free in ["/projects/app/a", "/opt/x/a", "/home/me/.pi/a", "/home/me/.pi/agent/a", OWN_SCRIPT] {
            assert!(places.reads_freely(Path::new(free), Some(own)), "{free}");
        }
        for asked in ["/projects/apples", "/opt/xy", "/home/me/.pie", "/home/me", "/etc/hosts", "/"] {
            assert!(!places.reads_freely(Path::new(asked), Some(own)), "{asked}");
        }
        assert!(!places.reads_freely(Path::new("/opt/x/a"), None));
        let elsewhere = Places::new("/projects/app", "/home/me", "/srv/agent", "/tmp");
        assert!(elsewhere.reads_freely(Path::new("/srv/agent/a"), None));
        assert_eq!(elsewhere.sessions(), Path::new("/srv/agent/sessions"));
        assert_eq!(elsewhere.protection(Path::new("/srv/agent/sessions/a.jsonl"), None), Protection::All);
    }

    #[test]
    fn each_protected_name_is_protected() {
        let places = places();
        let listed = include_str!("../../../fixtures/gate/protected-names.txt");
        let lines: Vec<(&str, &str)> = listed.lines().filter_map(|line| line.split_once(' ')).collect();
        assert!(lines.len() > 100, "{} lines", lines.len());
        let is_other = |(protection, path): &&(&str, &str)| {
            format!("{:?}", places.protection(Path::new(path), None)) != *protection
        };
        assert_eq!(lines.iter().filter(is_other).collect::<Vec<_>>(), Vec::<&(&str, &str)>::new());
    }

    #[test]
    fn files_in_the_home_that_run_later_need_their_name() {
        let file = Path::new("/home/me/.config/nvim/init.lua");
        assert_eq!(places().protection(file, None), Protection::RunsLater);
        let at_home = Places::new("/home/me/.config/nvim", "/home/me", "/home/me/.pi/agent", "/tmp");
        assert_eq!(at_home.protection(file, None), Protection::None);
        assert_eq!(at_home.protection(Path::new("/home/me/.config/nvim/.git/config"), None), Protection::Write);
        let begun_in_the_home = Places::new("/home/me", "/home/me", "/home/me/.pi/agent", "/tmp");
        assert_eq!(begun_in_the_home.protection(file, None), Protection::RunsLater);
    }

    #[test]
    fn a_moved_folder_counts_with_the_protected_names_in_it() {
        let places = places();
        for above in [
            "/projects/app/.pi",
            "/projects/app/.PI",
            "/projects/app",
            "/home/me/.pi/agent",
            "/home/me/.config",
            "/home/me/.cargo",
            "/projects/app/x/.vscode",
            "/projects/app/.github",
            "/projects/app/src/.pi",
            "/home/me/.pi/agent/extensions/todo",
            "/",
        ] {
            assert!(places.is_above_protected(Path::new(above)), "{above}");
        }
        for elsewhere in ["/projects/app/src", "/home/me/.config/x", "/home/me/.pi/agent/x", "/tmp"] {
            assert!(!places.is_above_protected(Path::new(elsewhere)), "{elsewhere}");
        }
    }

    #[test]
    fn protected_places_do_not_depend_on_letter_case() {
        let places = places();
        for path in [
            "/home/me/.pi/agent/pijs-lock.json",
            "/home/me/.pi/agent/AUTH.json",
            "/home/me/.pi/agent/logs/s.jsonl",
            "/projects/app/.pi/Pijs/grants.json",
            "/home/me/.config/Google-Chrome/Default/Cookies",
            "/home/me/library/Keychains/login.keychain-db",
            "/home/me/.config/solana/id.json",
        ] {
            assert_eq!(places.protection(Path::new(path), None), Protection::All, "{path}");
        }
        for path in [
            "/projects/app/.GIT/hooks/pre-commit",
            "/projects/app/sub/.git/config",
            "/projects/app/.pi/settings.json",
            "/home/me/.pi/agent/bin/rg",
            "/home/me/.pi/agent/notes/.git/config",
            "/home/me/.bash_aliases",
        ] {
            assert_eq!(places.protection(Path::new(path), None), Protection::Write, "{path}");
        }
        for path in
            ["/projects/app/src/auth.json", "/projects/app/.github/dependabot.yml", "/home/me/.pi/logs/mine.jsonl"]
        {
            assert_eq!(places.protection(Path::new(path), None), Protection::None, "{path}");
        }
        for path in ["/projects/app/.pi/rules/a.md", "/home/me/.pi/rules/a.md", "/projects/app/.omp/rules/a.md"] {
            assert_eq!(places.protection(Path::new(path), None), Protection::RunsLater, "{path}");
        }
    }

    #[test]
    fn the_own_package_stays_readable_inside_the_store_but_not_writable() {
        let root = Path::new("/home/me/.pi/agent/npm/node_modules/pi-ttsr");
        let file = root.join("index.ts");
        assert!(places().reads_freely(&file, Some(root)));
        assert_eq!(places().protection(&file, Some(root)), Protection::Write);
        assert_eq!(places().protection(&file, None), Protection::All);
    }

    #[test]
    fn copies_beside_closed_files_are_closed() {
        let places = places();
        for path in
            ["auth.json.bak", "AUTH.json~", ".auth.json.swp", "#mcp.json#", ".#models.json", "oauth.json.migrated"]
        {
            let path = Path::new("/home/me/.pi/agent").join(path);
            assert_eq!(places.protection(&path, None), Protection::All, "{path:?}");
        }
        assert_eq!(places.protection(Path::new("/home/me/.netrc.old"), None), Protection::All);
        assert_eq!(places.protection(Path::new("/home/me/.pi/agent/auth.json.lock"), None), Protection::Write);
        for path in ["auth.jsonl", "notes.json", "pijs.md", "git.txt"] {
            let path = Path::new("/home/me/.pi/agent").join(path);
            assert_eq!(places.protection(&path, None), Protection::None, "{path:?}");
        }
    }

    #[test]
    fn a_path_is_resolved_in_the_form_of_its_caller() {
        let places = places();
        let tool = |path| PathUse { access: Access::Read, path, form: PathForm::Tool };
        assert_eq!(places.absolute(tool("@src/x.ts")).unwrap(), Path::new("/projects/app/src/x.ts"));
        assert_eq!(places.absolute(tool("~/x")).unwrap(), Path::new("/home/me/x"));
        assert_eq!(places.node_path("~/x").unwrap(), Path::new("/projects/app/~/x"));
        assert_eq!(places.node_path("src/../../x").unwrap(), Path::new("/projects/x"));
        assert_eq!(places.node_path("/../../..").unwrap(), Path::new("/"));
        let target = PathUse { access: Access::Read, path: "../etc", form: PathForm::TargetOf("a/b/link") };
        assert_eq!(places.absolute(target).unwrap(), Path::new("/projects/app/a/etc"));
        assert!(places.node_path(&"x".repeat(MAX_PATH_BYTES)).is_ok());
        for bad in ["", "a\0b", &"x".repeat(MAX_PATH_BYTES + 1)] {
            assert_eq!(places.node_path(bad).unwrap_err().details["reason"], "path");
        }
    }
}
