//! Opens the session of a run: a new session, the latest, one selected by file or id, or a copy of another.
//!
//! Follows pi's rules. An id is looked up among the sessions of this folder: first exactly, then as a prefix, then in all other
//! folders; a session from there is only copied.

use crate::config::{SessionChoice, StoreConfig};
use crate::environment::Environment;
use crate::settings;
use crate::text::clean;
use crate::user_error::{Result, UserError};
use pijs_connectors::exec::STARTED_BY;
use pijs_durable::{CheckedFiles, without_links};
use pijs_hostcall::places::normal;
use pijs_protocol::guard;
use pijs_session_store::{Body, Header, Session, SessionLocation, SessionOptions, file};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Subfolder of a project's sessions for the sessions of agents that extensions start. Lists of sessions leave it out.
const AGENT_SESSIONS: &str = "agents";

/// Maximum length in bytes of a session's first line.
const LONGEST_HEADER: u64 = 1 << 20;

/// Opens the session that the configuration selects.
pub fn open(environment: &Environment, config: &StoreConfig, options: &SessionOptions) -> Result<Session> {
    if config.id.as_ref().is_some_and(|id| !is_id(id)) {
        return Err(UserError::usage(
            "Session id must be non-empty, contain only alphanumeric characters, '-', '_', and '.', and start and end with an alphanumeric character",
        ));
    }
    let cwd = &environment.dirs.cwd;
    let mut session = chosen(environment, config, options)?;
    for notice in session.notices() {
        environment.notices.warn(notice);
    }
    if let Some(name) = &config.name {
        let name = name.trim().to_owned();
        if name.is_empty() {
            return Err(UserError::usage("--name requires a non-empty value"));
        }
        session.append(Body::SessionInfo { name: Some(name) }).map_err(|error| UserError::failed(error.to_string()))?;
    }
    if Path::new(&session.header().cwd) != cwd {
        environment.notices.show(&format!(
            "note: this session belongs to {}; it continues in {}",
            session.header().cwd,
            cwd.display()
        ));
    }
    Ok(session)
}

fn is_id(id: &str) -> bool {
    let is_end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let is_inner = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    is_end(id.chars().next()) && is_end(id.chars().next_back()) && id.chars().all(is_inner)
}

fn chosen(environment: &Environment, config: &StoreConfig, options: &SessionOptions) -> Result<Session> {
    let cwd = &environment.dirs.cwd;
    let failed = |error: pijs_session_store::SessionError| UserError::failed(error.to_string());
    let mut sessions = Sessions::new(environment, config.dir.as_deref());
    let checked = environment.started_with.as_ref().filter(|_| guard!(SessionChecked));
    let mut options = options.clone();
    if let Some(checked) = checked {
        // The extension can exchange a folder for a link until the file is written.
        let disk = options.disk.beneath(&[PathBuf::from("/")]);
        options.disk = disk.map_err(|error| UserError::failed(format!("the disk cannot be opened: {error}")))?;
        sessions.folder = match config.dir {
            Some(_) => written_path(checked, cwd, &sessions.folder)?,
            None => without_links(&sessions.folder),
        };
    }
    let options = &options;
    let is_in_memory = config.choice == SessionChoice::InMemory;
    if let (Some(records), false) = (&options.records, is_in_memory) {
        // Later runs protect it from extensions, too.
        records.remember(SessionLocation::Folder(without_links(&sessions.folder)));
    }
    let open = |path: &Path| Session::open(path, cwd, options.clone()).map_err(failed);
    let named_path =
        |path: PathBuf| checked.map_or_else(|| Ok(path.clone()), |checked| written_path(checked, cwd, &path));
    let named = |session: Session| match &config.id {
        Some(id) => session.with_id(id),
        None => session,
    };
    // The user's next `-c` must not continue a conversation that an extension began.
    let is_agents = config.dir.is_none() && environment.variable(STARTED_BY).is_some();
    let folder = match is_agents && guard!(AttributionAgentSessions) {
        true => without_links(&file::directory(&environment.dirs.agent_dir, cwd).join(AGENT_SESSIONS)),
        false => sessions.folder.clone(),
    };
    let fresh = || named(Session::create_in(&folder, cwd, options.clone()));
    let copy = |path: &Path| {
        let source = match path.is_file() {
            true => open(path)?,
            false => return Err(UserError::failed(format!("there is no session file {}", path.display()))),
        };
        fresh().with_entries_of(&source).map_err(failed)
    };
    let missing = |name: &str| {
        UserError::failed(format!("No session found matching '{}'", clean(name)))
            .help("pi --resume lists the sessions of this folder")
    };
    match &config.choice {
        SessionChoice::InMemory => Ok(named(Session::in_memory(cwd, options.clone()))),
        SessionChoice::ForkOf(name) => {
            if let Some(id) = config.id.as_ref().filter(|id| sessions.of_id(id).is_some()) {
                return Err(UserError::failed(format!("Session already exists with id '{id}'")));
            }
            match sessions.find(environment, name) {
                Some(SessionMatch::Here(path)) if is_path(name) => copy(&named_path(path)?),
                Some(SessionMatch::Here(path) | SessionMatch::Elsewhere { path, .. }) => copy(&path),
                None => Err(missing(name)),
            }
        }
        SessionChoice::Named(name) => match sessions.find(environment, name) {
            Some(SessionMatch::Here(path)) if is_path(name) => open(&named_path(path)?),
            Some(SessionMatch::Here(path)) => open(&path),
            Some(SessionMatch::Elsewhere { cwd, .. }) => {
                Err(UserError::failed(format!("this session belongs to another folder: {}", clean(&cwd)))
                    .help(format!("continue with a copy of it here: pi --fork {}", clean(name))))
            }
            None => Err(missing(name)),
        },
        SessionChoice::Latest => {
            // An extension wrote the prompts of such a session, wherever its file was moved.
            let is_users = |path: &PathBuf| header(path).is_none_or(|header| !header.is_of_agent());
            let is_agent = environment.variable(STARTED_BY).is_some() || !guard!(SessionOfAgent);
            match sessions.listed().into_iter().find(|path| is_agent || is_users(path)) {
                Some(path) => open(&path),
                None => Ok(fresh()),
            }
        }
        SessionChoice::New => {
            let Some(id) = &config.id else { return Ok(fresh()) };
            if let Some(path) = sessions.of_id(id) {
                return open(&path);
            }
            environment
                .notices
                .warn(format!("No project session found with id '{id}'; creating a new session with that id."));
            Ok(fresh())
        }
    }
}

/// Returns the path without links of a session, or of a folder of sessions, that an extension named on the command line.
fn written_path(checked: &CheckedFiles, cwd: &Path, path: &Path) -> Result<PathBuf> {
    let written = checked.written_path(&normal(cwd, path));
    written.map_err(|error| UserError::failed(format!("{} cannot be opened: {error}", path.display())))
}

/// File of a session, and the folder it belongs to.
enum SessionMatch {
    /// A file that the user named, or a session of this folder.
    Here(PathBuf),
    Elsewhere {
        path: PathBuf,
        cwd: String,
    },
}

/// Returns whether a name is a session's file.
pub fn is_path(name: &str) -> bool {
    name.contains(['/', '\\']) || name.ends_with(".jsonl")
}

/// Returns the folder of this project's sessions, as set on the command line, in the environment or in the settings.
pub fn folder(environment: &Environment, said: Option<&str>) -> PathBuf {
    let asked = said.filter(|folder| !folder.is_empty()).map(str::to_owned);
    let asked = asked.or_else(|| environment.variable("PI_CODING_AGENT_SESSION_DIR").map(str::to_owned));
    let asked = asked.or_else(|| settings::session_dir(environment));
    match asked {
        Some(folder) => environment.path(&folder),
        None => file::directory(&environment.dirs.agent_dir, &environment.dirs.cwd),
    }
}

/// The sessions of a folder.
pub struct Sessions {
    folder: PathBuf,
    /// Set in a folder that several projects share: sessions of other projects are left out.
    only_of: Option<PathBuf>,
}

impl Sessions {
    /// Returns the sessions of the working folder; `named` overrides the folder that they are stored in.
    pub fn new(environment: &Environment, named: Option<&str>) -> Self {
        let dirs = &environment.dirs;
        let usual = file::directory(&dirs.agent_dir, &dirs.cwd);
        let folder = folder(environment, named);
        let only_of = (folder != usual).then(|| dirs.cwd.clone());
        Self { folder, only_of }
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Lists the files, most recently changed first, then by name.
    fn listed(&self) -> Vec<PathBuf> {
        files(&self.folder).into_iter().filter(|path| self.counts(path)).collect()
    }

    fn counts(&self, path: &Path) -> bool {
        self.only_of.as_ref().is_none_or(|cwd| header(path).is_some_and(|header| Path::new(&header.cwd) == cwd))
    }

    fn of_id(&self, id: &str) -> Option<PathBuf> {
        self.listed().into_iter().find(|path| header(path).is_some_and(|header| header.id == id))
    }

    fn find(&self, environment: &Environment, name: &str) -> Option<SessionMatch> {
        if is_path(name) {
            return Some(SessionMatch::Here(environment.path(name)));
        }
        let begins = |path: &PathBuf| header(path).is_some_and(|header| header.id.starts_with(name));
        let here = self.of_id(name).or_else(|| self.listed().into_iter().find(begins));
        if let Some(path) = here {
            return Some(SessionMatch::Here(path));
        }
        let folders = match &self.only_of {
            Some(_) => vec![self.folder.clone()],
            None => folders(&environment.dirs.agent_dir.join("sessions")),
        };
        let all: Vec<PathBuf> = folders.iter().flat_map(|folder| files(folder)).collect();
        let is = |path: &&PathBuf| header(path).is_some_and(|header| header.id == name);
        let path = all.iter().find(is).or_else(|| all.iter().find(|path| begins(path)))?;
        Some(SessionMatch::Elsewhere { path: path.clone(), cwd: header(path)?.cwd })
    }
}

/// Lists the session files of a folder, most recently changed first.
fn files(folder: &Path) -> Vec<PathBuf> {
    let of = |entry: std::io::Result<std::fs::DirEntry>| -> Option<(SystemTime, PathBuf)> {
        let path = entry.ok()?.path();
        let changed = path.metadata().ok()?.modified().ok()?;
        (path.extension()? == "jsonl").then_some((changed, path))
    };
    let mut files: Vec<_> = std::fs::read_dir(folder).into_iter().flatten().filter_map(of).collect();
    files.sort();
    files.into_iter().rev().map(|(_, path)| path).collect()
}

fn folders(parent: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(parent).into_iter().flatten();
    let mut folders: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    folders.sort();
    folders
}

/// Reads the header line of a session.
fn header(path: &Path) -> Option<Header> {
    let mut line = String::new();
    BufReader::new(std::fs::File::open(path).ok()?.take(LONGEST_HEADER)).read_line(&mut line).ok()?;
    serde_json::from_str(&line).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_of_pi() {
        for id in ["a", "7", "my-session_1.2", "A-b"] {
            assert!(is_id(id), "{id}");
        }
        for id in ["", "-a", "a-", ".", "a b", "a/b", "ä"] {
            assert!(!is_id(id), "{id}");
        }
    }
}
