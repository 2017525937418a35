//! The files that programs of extensions are kept from, whatever they were granted for.
//!
//! A grant of a program says nothing of the files that its arguments name. PiJS's own are closed to every program; the
//! user's keys and credentials are closed to tools that have no business with them.

use super::tables::{AGENT_FOLDER, HOME, PI_FOLDER, STORES};
use super::{Places, Protection};
use pijs_protocol::guard;
use std::path::{Path, PathBuf};

/// Lists what a program cannot reach; all paths are absolute, and each covers what lies below it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgramView {
    /// Neither read nor written.
    pub closed: Vec<PathBuf>,
    /// Read, and not written.
    pub unwritten: Vec<PathBuf>,
}

impl ProgramView {
    /// Whether the program is kept from nothing.
    pub fn is_open(&self) -> bool {
        self.closed.is_empty() && self.unwritten.is_empty()
    }
}

impl Places {
    /// Returns what every program of an extension is kept from: keys, grants, sessions, ledgers, packages and settings of PiJS.
    ///
    /// The folders of a project are not part of it, since programs work there, nor are sessions and ledgers that are kept in
    /// the project or in the folder for temporary files.
    pub fn program_view(&self) -> ProgramView {
        let mut view = ProgramView::default();
        for folder in [self.home.join(".pi"), self.agent_dir.clone()] {
            let agent = AGENT_FOLDER.iter().filter(|_| folder == self.agent_dir);
            for (name, protection) in PI_FOLDER.iter().chain(agent) {
                match protection {
                    // A program of a package lies in a store.
                    Protection::All if !STORES.contains(name) => view.closed.push(folder.join(name)),
                    Protection::None => {}
                    // No program of an extension writes files in pi's own folders that run later or that models are told.
                    _ => view.unwritten.push(folder.join(name)),
                }
            }
        }
        // Skills of every agent.
        view.unwritten.push(self.home.join(".agents/skills"));
        let own = &self.own;
        view.closed.extend(own.closed_to_programs.iter().cloned());
        view.unwritten.extend(own.unwritten_by_programs.iter().chain(&own.extensions).chain(&own.stores).cloned());
        let is_worked_in = |path: &Path| path.starts_with(&self.project) || path.starts_with(&self.temp);
        let folders = own.sessions.iter().chain(&own.ledgers).filter(|folder| !self.is_shared(folder));
        view.closed.extend(folders.chain(&own.session_files).filter(|path| !is_worked_in(path)).cloned());
        view
    }

    /// Returns the keys and credentials in the home, and where links lead that stand for them, which a program is kept from that has no business with them.
    pub fn credentials(&self) -> impl Iterator<Item = PathBuf> {
        let closed = HOME.iter().filter(|(_, protection)| *protection == Protection::All);
        closed.map(|(name, _)| self.home.join(name)).chain(self.own.credentials.iter().cloned())
    }

    /// Returns what runs by itself in the home, or is read by what does: start files of shells, folders of programs, settings of git and editors. A tool
    /// that has no business with credentials writes none of it.
    pub fn runs_in_home(&self) -> impl Iterator<Item = PathBuf> {
        let run = HOME.iter().filter(|(_, protection)| *protection != Protection::All);
        run.map(|(name, _)| self.home.join(name))
    }

    /// Whether what lies at the top of the home is settings of programs, or programs, which a tool for files does not write.
    pub fn is_settings_of_home(&self, entry: &Path) -> bool {
        let mut used = [&self.project, &self.temp, &self.agent_dir].into_iter();
        let is_cache = entry.file_name().is_some_and(|name| name == ".cache" || name == ".pi");
        self.is_in_settings(entry) && !is_cache && !used.any(|used| used.starts_with(entry))
    }

    /// Whether files of PiJS lie in a folder, or below it, in which nobody works.
    pub fn holds_own_files(&self, folder: &Path) -> bool {
        let is_worked_in = [&self.project, &self.home, &self.temp].into_iter().any(|used| used.starts_with(folder));
        let ProgramView { closed, unwritten } = self.program_view();
        !is_worked_in && guard!(ExecCwdOwn) && closed.iter().chain(&unwritten).any(|kept| kept.starts_with(folder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places::OwnState;

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
    fn credentials_are_closed_where_links_lead_too() {
        let own = OwnState { credentials: vec!["/home/me/dotfiles/ssh".into()], ..OwnState::default() };
        let places = Places::new("/p", "/home/me", "/home/me/.pi/agent", "/tmp").with_own_state(own);
        let closed: Vec<PathBuf> = places.credentials().collect();
        for path in ["/home/me/.ssh", "/home/me/dotfiles/ssh"] {
            assert!(closed.iter().any(|kept| kept == Path::new(path)), "{path}");
        }
    }
}
