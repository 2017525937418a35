//! Lists the files and folders of PiJS that extensions must not access.
//!
//! The list covers everything outside of pi's own folders: paths that variables, options and settings change, targets of symbolic
//! links, and folders of sessions of earlier runs.

use crate::environment::Environment;
use crate::ledger;
use crate::open_session;
use pijs_connectors::links::{links_below, obeyed_links};
use pijs_durable::{Disk, Links};
use pijs_extc::Cache;
use pijs_git_bounds::ObeyedFiles;
use pijs_hostcall::places::{OwnState, Places, Protection};
use pijs_protocol::guard;
use pijs_session_store::{SessionLocation, SessionRecords};
use std::path::{Path, PathBuf};

/// Maximum number of entries that are checked for links: in the project's folder, and in all of a skill, prompt or rule folder.
pub(crate) const MAX_LINKED_ENTRIES: usize = 5000;

/// Maximum depth of folders in a folder of skills that are searched for links.
pub(crate) const MAX_SKILL_DEPTH: usize = 4;

/// Depth and number of entries to which a protected folder is searched for links. Programs that manage settings link files and
/// folders near its top.
const IN_PROTECTED: (usize, usize) = (2, 500);

/// Entries of the folder of ledgers, each of which may be a link.
const IN_LOGS: [&str; 3] = ["logs", "logs/extensions", "logs/ledger.key"];

/// Returns the files of PiJS outside of pi's folders, for this run's options.
pub(crate) fn of(environment: &Environment) -> OwnState {
    let agent_dir = &environment.dirs.agent_dir;
    let mut own = Collected::default();
    for folder in Cache::user_folders() {
        own.add(|own| &mut own.closed, &folder);
        own.add(|own| &mut own.closed_to_programs, &folder);
    }
    // npm's configuration file, which contains tokens of registries.
    if let Some(config) = environment.variable("NPM_CONFIG_USERCONFIG") {
        own.add(|own| &mut own.closed, &environment.dirs.cwd.join(config));
    }
    own.add(|own| &mut own.ledgers, &ledger::folder(environment));
    for folder in [agent_dir.clone(), environment.dirs.home.join(".pi"), environment.dirs.cwd.join(".pi")] {
        own.add_pi_folder(&folder);
    }
    for (name, protection) in Places::protected_in_home() {
        let path = environment.dirs.home.join(name);
        match protection {
            Protection::All => {
                own.add_linked(|own| &mut own.closed, &path);
                own.add_linked(|own| &mut own.credentials, &path);
            }
            Protection::Write => own.add_linked(|own| &mut own.unwritten, &path),
            Protection::RunsLater => own.add_linked(|own| &mut own.runs_later, &path),
            Protection::None => {}
        }
        own.add_links_in_home(&path, protection);
    }
    if let Some(user) = environment.inspected_by.as_ref().filter(|_| guard!(PlacesInspectedBy)) {
        let view = user.program_view();
        for path in view.closed.into_iter().chain(user.credentials()) {
            own.add(|own| &mut own.closed_to_programs, &path);
        }
        for path in view.unwritten.into_iter().chain(user.runs_in_home()) {
            own.add(|own| &mut own.unwritten_by_programs, &path);
        }
    }
    own.add_links_in(&environment.dirs.home.join(".agents/skills"));
    own.add_links_of_project(&environment.dirs.cwd, &environment.dirs.home);
    let git = ObeyedFiles::of(&environment.dirs.cwd, &environment.dirs.home);
    git.repositories.iter().for_each(|repository| own.add(|own| &mut own.unwritten, repository));
    for path in git.named.iter().filter(|_| guard!(PlacesGitSettings)) {
        own.add(|own| &mut own.runs_later, path);
    }
    own.add_linked(|own| &mut own.sessions, &agent_dir.join("sessions"));
    own.add(|own| &mut own.sessions, &open_session::folder(environment, environment.session_dir.as_deref()));
    for record in [&environment.tape, &environment.log].into_iter().flatten() {
        own.add(|own| &mut own.closed, record);
        own.add(|own| &mut own.closed_to_programs, record);
    }
    if let Some(file) = environment.session.as_deref().filter(|name| open_session::is_path(name)) {
        own.add(|own| &mut own.session_files, &environment.path(file));
    }
    for place in SessionRecords::new(Disk::system(), agent_dir).locations() {
        match place {
            SessionLocation::Folder(folder) => match sessions_among_others(&folder) {
                Some(files) => files.iter().for_each(|file| own.add(|own| &mut own.session_files, file)),
                None => own.add(|own| &mut own.sessions, &folder),
            },
            SessionLocation::File(file) => own.add(|own| &mut own.session_files, &file),
            SessionLocation::Ledgers(folder) => own.add(|own| &mut own.ledgers, &folder),
        }
    }
    let usual = own.links.resolved(&agent_dir.join("sessions"));
    own.state.sessions.retain(|folder| !folder.starts_with(&usual) || *folder == usual);
    own.state
}

impl Environment {
    /// Returns the folders of a session here with their protected files.
    pub fn places(&self) -> Places {
        let places = Places::new(&self.dirs.cwd, &self.dirs.home, &self.dirs.agent_dir, &self.temp);
        places.with_own_state(of(self))
    }
}

/// Returns the sessions in a folder that holds other files as well; `None` if it holds sessions only. An agent of an extension may
/// have been given a folder of code.
fn sessions_among_others(folder: &Path) -> Option<Vec<PathBuf>> {
    let names: Vec<PathBuf> = folder.read_dir().ok()?.flatten().map(|entry| entry.path()).collect();
    let is_session = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().contains(".jsonl"));
    let (mut sessions, others): (Vec<PathBuf>, Vec<PathBuf>) = names.into_iter().partition(is_session);
    // Files beside a session need a grant that names them, also while there is no session.
    if sessions.is_empty() {
        sessions.push(folder.join(".jsonl"));
    }
    (!others.is_empty() && guard!(PlacesSharedSessions)).then_some(sessions)
}

/// Collects paths, with a cache of the file system's answers.
#[derive(Default)]
struct Collected {
    state: OwnState,
    links: Links,
}

impl Collected {
    /// Adds a path under each of its names.
    fn add(&mut self, list: impl Fn(&mut OwnState) -> &mut Vec<PathBuf>, path: &Path) {
        let (names, links) = self.links.names(path);
        list(&mut self.state).extend(names);
        self.state.links.extend(links);
    }

    /// Adds the other names of a path. Its own name is protected by another rule.
    fn add_linked(&mut self, list: impl Fn(&mut OwnState) -> &mut Vec<PathBuf>, path: &Path) {
        let (mut names, links) = self.links.names(path);
        names.retain(|name| name != path);
        list(&mut self.state).extend(names);
        self.state.links.extend(links);
    }

    /// Adds the targets of links that tools or prompts obey, in the project's folder, below and above it.
    fn add_links_of_project(&mut self, project: &Path, home: &Path) {
        for link in obeyed_links(project, home, MAX_LINKED_ENTRIES).iter().filter(|_| guard!(PlacesLinkedProjectFiles))
        {
            self.add_linked(|own| &mut own.runs_later, link);
        }
    }

    /// Returns the links in a folder like [`links_below`], with one call of the system less if there is no folder.
    fn links_below(&mut self, folder: &Path, max_depth: usize, max_entries: usize) -> Vec<PathBuf> {
        match self.links.is_folder(folder) {
            true => links_below(folder, max_depth, max_entries),
            false => Vec::new(),
        }
    }

    /// Adds the targets of links in a folder whose texts become part of prompts, at any depth that a skill has.
    fn add_links_in(&mut self, folder: &Path) {
        for link in self.links_below(folder, MAX_SKILL_DEPTH, MAX_LINKED_ENTRIES) {
            self.add_linked(|own| &mut own.runs_later, &link);
            self.add_linked(|own| &mut own.unwritten_by_programs, &link);
        }
    }

    /// Adds the targets of links in a protected folder of the home, as if they lay in that folder.
    fn add_links_in_home(&mut self, folder: &Path, protection: Protection) {
        let (depth, entries) = IN_PROTECTED;
        for link in self.links_below(folder, depth, entries) {
            match protection {
                Protection::All => {
                    self.add_linked(|own| &mut own.closed, &link);
                    self.add_linked(|own| &mut own.credentials, &link);
                }
                Protection::Write => {
                    self.add_linked(|own| &mut own.unwritten, &link);
                    self.add_linked(|own| &mut own.unwritten_by_programs, &link);
                }
                Protection::RunsLater => self.add_linked(|own| &mut own.runs_later, &link),
                Protection::None => {}
            }
        }
    }

    /// Adds the targets of links in a folder of pi.
    fn add_pi_folder(&mut self, folder: &Path) {
        let logs = IN_LOGS.iter().map(|name| (*name, Protection::All));
        for (name, protection) in Places::protected_in_pi_folder().chain(logs) {
            let path = folder.join(name);
            match (name, protection) {
                // Folders of sessions are added one by one elsewhere.
                ("sessions", _) | (_, Protection::None) => {}
                ("npm" | "git" | "rummy/stage", _) => self.add_linked(|own| &mut own.stores, &path),
                ("extensions", _) => self.add_linked(|own| &mut own.extensions, &path),
                (_, Protection::All) => {
                    let (depth, entries) = IN_PROTECTED;
                    for path in self.links_below(&path, depth, entries).into_iter().chain([path]) {
                        self.add_linked(|own| &mut own.closed, &path);
                        self.add_linked(|own| &mut own.closed_to_programs, &path);
                    }
                }
                (_, Protection::Write) => {
                    self.add_linked(|own| &mut own.unwritten, &path);
                    self.add_linked(|own| &mut own.unwritten_by_programs, &path);
                    if name == "rummy" {
                        self.add_links_in(&path);
                    }
                }
                (_, Protection::RunsLater) => {
                    self.add_linked(|own| &mut own.runs_later, &path);
                    self.add_linked(|own| &mut own.unwritten_by_programs, &path);
                    self.add_links_in(&path);
                }
            }
        }
    }
}
