//! The files that programs of extensions cannot access, whatever is granted.
//!
//! A grant of a program does not cover the files that its arguments name. PiJS's own state is closed to every program; the user's
//! keys and credentials are closed to programs that do not need them.

use super::own_state::{LEDGER_MARKS, is_lines};
use super::tables::{AGENT_FOLDER, HOME, PI_FOLDER, STORES};
use super::{OwnState, Places, Protection};
use pijs_protocol::guard;
use std::path::{Path, PathBuf};

/// The paths that a program cannot access (all absolute, each with everything below), and its environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgramView {
    /// Paths that can neither be read nor written.
    pub closed: Vec<PathBuf>,
    /// Paths that can be read, but not written.
    pub unwritten: Vec<PathBuf>,
    /// Whether pi's own shell leaves out variables that hold secrets by their names.
    pub hides_secrets: bool,
}

impl ProgramView {
    /// Returns whether there are no restrictions.
    pub fn is_open(&self) -> bool {
        self.closed.is_empty() && self.unwritten.is_empty()
    }
}

impl Places {
    /// Returns the paths that no program of an extension can access: keys, grants, sessions, ledgers, packages and settings of
    /// PiJS.
    ///
    /// Excludes the folders of a project, because programs work there, and sessions and ledgers in the project or in the
    /// temporary folder.
    pub fn program_view(&self) -> ProgramView {
        let mut view = ProgramView::default();
        for folder in [self.home.join(".pi"), self.agent_dir.clone()] {
            let agent = AGENT_FOLDER.iter().filter(|_| folder == self.agent_dir);
            for (name, protection) in PI_FOLDER.iter().chain(agent) {
                match protection {
                    // Stores are excluded, because they contain programs of packages.
                    Protection::All if !STORES.contains(name) => view.closed.push(folder.join(name)),
                    Protection::None => {}
                    // No program of an extension writes files in pi's own folders that run later or become part of prompts.
                    _ => view.unwritten.push(folder.join(name)),
                }
            }
        }
        // Skills shared by all agents.
        view.unwritten.push(self.home.join(".agents/skills"));
        let own = &self.own;
        view.closed.extend(own.closed_to_programs.iter().cloned());
        view.unwritten.extend(own.unwritten_by_programs.iter().chain(&own.extensions).chain(&own.stores).cloned());
        let folders = own.sessions.iter().chain(&own.ledgers).filter(|folder| !self.is_worked_in(folder));
        let (shared, whole): (Vec<&PathBuf>, Vec<&PathBuf>) = folders.partition(|folder| self.is_shared(folder));
        let files = own.session_files.iter().filter(|path| !self.is_worked_in(path));
        view.closed.extend(whole.into_iter().chain(files).cloned());
        for folder in shared.into_iter().filter(|_| guard!(PlacesSharedView)) {
            let names = folder.read_dir().into_iter().flatten().flatten().filter(|entry| is_lines(&entry.file_name()));
            // With a closed entry, nothing can be created in the folder: neither sessions nor ledgers.
            view.closed.extend(names.map(|entry| entry.path()).chain([folder.join(LEDGER_MARKS)]));
        }
        view
    }

    /// Returns the keys and credentials in the home, and targets of links among them, which are closed to programs that do not
    /// need them.
    pub fn credentials(&self) -> impl Iterator<Item = PathBuf> {
        let closed = HOME.iter().filter(|(_, protection)| *protection == Protection::All);
        closed.map(|(name, _)| self.home.join(name)).chain(self.own.credentials.iter().cloned())
    }

    /// Returns files in the home that run by themselves or configure programs that do: start files of shells, folders of
    /// programs, settings of git and editors. Programs that do not need credentials cannot write these files.
    pub fn runs_in_home(&self) -> impl Iterator<Item = PathBuf> {
        let run = HOME.iter().filter(|(_, protection)| *protection != Protection::All);
        run.map(|(name, _)| self.home.join(name))
    }

    /// Returns code and settings outside of the session's folders, which programs run or obey later: targets of links in the home,
    /// folders of the search path, extensions, and what settings, keys and servers name. Left out are folders around those of the
    /// session, and what belongs to the extension at `own`.
    pub fn runs_elsewhere(&self, own: Option<&Path>) -> impl Iterator<Item = PathBuf> {
        let OwnState { unwritten, runs_later, links, .. } = &self.own;
        let is_open = move |path: &Path| self.is_open_to_programs(path) || own.is_some_and(|own| own.starts_with(path));
        unwritten.iter().chain(runs_later).chain(links).filter(move |path| !is_open(path)).cloned()
    }

    /// Returns whether programs may write to a path because the session works there: in the project or among temporary files, or
    /// around the session's folders.
    pub fn is_open_to_programs(&self, path: &Path) -> bool {
        self.is_worked_in(path) || self.is_shared(path)
    }

    /// Returns whether an entry of the home contains settings of programs, or programs. File tools cannot write such an entry.
    pub fn is_settings_of_home(&self, entry: &Path) -> bool {
        let mut used = [&self.project, &self.temp, &self.agent_dir].into_iter();
        let is_cache = entry.file_name().is_some_and(|name| name == ".cache" || name == ".pi");
        self.is_in_settings(entry) && !is_cache && !used.any(|used| used.starts_with(entry))
    }

    /// Returns whether a folder is or contains state of PiJS, so that no program may run in it.
    pub fn holds_own_files(&self, folder: &Path) -> bool {
        let is_worked_in = [&self.project, &self.home, &self.temp].into_iter().any(|used| used.starts_with(folder));
        let ProgramView { closed, unwritten, .. } = self.program_view();
        !is_worked_in && guard!(ExecCwdOwn) && closed.iter().chain(&unwritten).any(|kept| kept.starts_with(folder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pis_own_folders_are_no_working_folders_and_the_home_is_one() {
        let places = Places::new("/home/me/app", "/home/me", "/home/me/.pi/agent", "/tmp");
        for folder in ["/home/me/.pi", "/home/me/.pi/agent", "/home/me/.pi/agent/sessions"] {
            assert!(places.holds_own_files(Path::new(folder)), "{folder}");
        }
        for folder in ["/", "/home", "/home/me", "/home/me/app", "/home/me/.pi/agent/skills/x", "/usr"] {
            assert!(!places.holds_own_files(Path::new(folder)), "{folder}");
        }
    }

    #[test]
    fn programs_read_the_code_of_packages_and_no_keys() {
        let view = Places::new("/p", "/home/me", "/home/me/.pi/agent", "/tmp").program_view();
        let has = |list: &[PathBuf], path: &str| list.iter().any(|kept| kept == Path::new(path));
        assert!(has(&view.closed, "/home/me/.pi/agent/auth.json") && has(&view.closed, "/home/me/.pi/agent/logs"));
        assert!(
            has(&view.unwritten, "/home/me/.pi/agent/npm") && has(&view.unwritten, "/home/me/.pi/agent/extensions")
        );
        assert!(!has(&view.closed, "/home/me/.pi/agent/npm") && !has(&view.closed, "/p/.pi/auth.json"));
    }

    #[test]
    fn targets_of_credential_links_are_closed() {
        let own = OwnState { credentials: vec!["/home/me/dotfiles/ssh".into()], ..OwnState::default() };
        let places = Places::new("/p", "/home/me", "/home/me/.pi/agent", "/tmp").with_own_state(own);
        let closed: Vec<PathBuf> = places.credentials().collect();
        for path in ["/home/me/.ssh", "/home/me/dotfiles/ssh"] {
            assert!(closed.iter().any(|kept| kept == Path::new(path)), "{path}");
        }
    }
}
