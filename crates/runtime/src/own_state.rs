//! Lists the files and folders of PiJS that extensions must not access.
//!
//! The list covers everything outside of pi's own folders: paths that variables, options and settings change, targets of symbolic
//! links, and folders of sessions of earlier runs.

mod links;

use self::links::Links;
use crate::environment::Environment;
use crate::ledger;
use crate::open_session;
use pijs_durable::{Disk, read_regular};
use pijs_extc::Cache;
use pijs_hostcall::places::{OwnState, Places, Protection, normal};
use pijs_protocol::guard;
use pijs_session_store::{SessionLocation, SessionRecords};
use std::path::{Path, PathBuf};

/// Maximum size in bytes of a file that names a repository.
const LONGEST_NAME: u64 = 8 << 10;

/// Maximum number of entries that are checked for links: in the project's folder, and in all of a skill, prompt or rule folder.
const MAX_LINKED_ENTRIES: usize = 5000;

/// Maximum depth of folders in a folder of skills that are searched for links.
const MAX_SKILL_DEPTH: usize = 4;

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
    }
    if let Some(user) = environment.inspected_by.as_ref().filter(|_| guard!(PlacesInspectedBy)) {
        let places = Places::new(&user.cwd, &user.home, &user.agent_dir, &environment.temp);
        let view = places.program_view();
        for path in view.closed.into_iter().chain(places.credentials()) {
            own.add(|own| &mut own.closed_to_programs, &path);
        }
        for path in view.unwritten.into_iter().chain(places.runs_in_home()) {
            own.add(|own| &mut own.unwritten_by_programs, &path);
        }
    }
    own.add_links_of_project(&environment.dirs.cwd);
    for repository in repositories(&environment.dirs.cwd) {
        own.add(|own| &mut own.unwritten, &repository);
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
            SessionLocation::Folder(folder) => own.add(|own| &mut own.sessions, &folder),
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

/// Returns the folders of the working folder's git repositories that have a name other than `.git`, because a link leads to them
/// or a file names them. Git runs their configuration and hooks.
fn repositories(cwd: &Path) -> Vec<PathBuf> {
    let Some(dot_git) = cwd.ancestors().map(|folder| folder.join(".git")).find(|path| path.symlink_metadata().is_ok())
    else {
        return Vec::new();
    };
    let named_in = |file: &Path, before: &str| {
        let text = String::from_utf8(read_regular(file, LONGEST_NAME).ok()?).ok()?;
        let name = text.strip_prefix(before)?.trim();
        (!name.is_empty()).then(|| file.parent().map(|folder| normal(folder, Path::new(name))))?
    };
    let repository = match dot_git.is_file() {
        true => named_in(&dot_git, "gitdir:"),
        false => dot_git.is_symlink().then_some(dot_git),
    };
    let common = repository.as_ref().and_then(|repository| named_in(&repository.join("commondir"), ""));
    repository.into_iter().chain(common).collect()
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

    /// Adds the targets of links that have the name of a file which tools or prompts obey, such as `Makefile` or `AGENTS.md`.
    fn add_links_of_project(&mut self, project: &Path) {
        for entry in project.read_dir().into_iter().flatten().flatten().take(MAX_LINKED_ENTRIES) {
            let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
            if is_link && Places::is_obeyed(&entry.file_name()) && guard!(PlacesLinkedProjectFiles) {
                self.add_linked(|own| &mut own.runs_later, &entry.path());
            }
        }
    }

    /// Adds the targets of links in a folder whose texts become part of prompts, at any depth that a skill has.
    fn add_links_in(&mut self, folder: &Path) {
        let mut open = vec![(folder.to_owned(), 0)];
        let mut entries = 0;
        while let Some((folder, depth)) = open.pop().filter(|_| guard!(PlacesLinkedEntries)) {
            for entry in folder.read_dir().into_iter().flatten().flatten() {
                entries += 1;
                let kind = entry.file_type().ok().filter(|_| entries <= MAX_LINKED_ENTRIES);
                if kind.is_some_and(|kind| kind.is_symlink()) {
                    self.add_linked(|own| &mut own.runs_later, &entry.path());
                    self.add_linked(|own| &mut own.unwritten_by_programs, &entry.path());
                } else if kind.is_some_and(|kind| kind.is_dir()) && depth < MAX_SKILL_DEPTH {
                    open.push((entry.path(), depth + 1));
                }
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
                    self.add_linked(|own| &mut own.closed, &path);
                    self.add_linked(|own| &mut own.closed_to_programs, &path);
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
