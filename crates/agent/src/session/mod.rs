//! Sessions in pi's format: a file of JSON lines, a tree of entries.
//!
//! A [`Session`] is the tree and its leaf; every append becomes a child of the leaf and moves it.
//! [`file`] puts it on disk by pi's rule: nothing before the first assistant message, then
//! everything so far, then one line per entry. A session of the real pi opens here and the other
//! way round.
//!
//! Always holds: an id is unique within its session; entries are never changed after they were
//! appended; a line is written whole or not at all (a damaged end is moved aside when the file is
//! opened); one process at a time writes a file.

pub mod entry;
pub mod file;
mod migrate;
mod tree;

pub use entry::{Body, Entry, EntryId, Header};
pub use tree::Left;

use crate::ambient::Ambient;
use crate::message::Message;
use file::Storage;
use serde_json::Map;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

/// One session.
pub struct Session {
    header: Header,
    entries: Vec<Entry>,
    index: BTreeMap<EntryId, usize>,
    leaf: Option<EntryId>,
    storage: Storage,
    ambient: Ambient,
    notices: Vec<String>,
}

/// A session file that cannot be read or written: which, and why.
#[derive(Debug)]
pub struct SessionError {
    path: PathBuf,
    doing: &'static str,
    reason: String,
}

impl SessionError {
    fn new(path: &Path, doing: &'static str, reason: impl fmt::Display) -> Self {
        Self { path: path.to_owned(), doing, reason: reason.to_string() }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} the session file {}: {}", self.doing, self.path.display(), self.reason)
    }
}

impl std::error::Error for SessionError {}

impl Session {
    /// A session that is never written.
    pub fn in_memory(cwd: &Path, ambient: Ambient) -> Self {
        Self::new(cwd, Storage::memory(), ambient)
    }

    /// A new session in `directory` (see [`file::directory`]); the file's name holds time and id.
    pub fn create_in(directory: &Path, cwd: &Path, ambient: Ambient) -> Self {
        let mut session = Self::new(cwd, Storage::memory(), ambient);
        let name = file::name(&session.header.timestamp, &session.header.id);
        session.storage = Storage::file(&session.ambient.disk, directory.join(name));
        session
    }

    /// Opens a file, or begins a new session under this name when it does not exist.
    ///
    /// Lines that are no entries are skipped, as pi does; a damaged end is moved aside and files of version 1 and 2
    /// are migrated, which [`Session::notices`] says. Fails when the file cannot be read, when another process writes
    /// it, or when its first line is no header or one of a later version.
    pub fn open(path: &Path, cwd: &Path, ambient: Ambient) -> Result<Self, SessionError> {
        let disk = ambient.disk.clone();
        let Some(read) = file::read(&disk, path, &ambient)? else {
            return Ok(Self::new(cwd, Storage::file(&disk, path.to_owned()), ambient));
        };
        let mut session = Self::new(cwd, read.storage, ambient);
        session.header = read.header;
        session.notices = read.notices;
        for entry in read.entries {
            session.insert(entry);
        }
        Ok(session)
    }

    /// Opens the latest session in `directory`; `None` when there is none.
    pub fn open_latest(directory: &Path, cwd: &Path, ambient: Ambient) -> Result<Option<Self>, SessionError> {
        match file::latest(directory)? {
            Some(path) => Self::open(&path, cwd, ambient).map(Some),
            None => Ok(None),
        }
    }

    fn new(cwd: &Path, storage: Storage, ambient: Ambient) -> Self {
        let header = Header {
            kind: "session".to_owned(),
            version: entry::VERSION,
            id: ambient.uuid_v7(),
            timestamp: ambient.now_iso(),
            cwd: cwd.display().to_string(),
            parent_session: None,
            extra: Map::new(),
        };
        Self { header, entries: Vec::new(), index: BTreeMap::new(), leaf: None, storage, ambient, notices: Vec::new() }
    }

    /// What the user should know about how the file was found, one sentence each.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Makes all entries durable: at the end of a turn, and before tools run.
    pub fn sync(&mut self) -> Result<(), SessionError> {
        self.storage.sync(&self.header, &self.entries)
    }

    /// The first line.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The file, also before anything is in it; `None` in memory.
    pub fn path(&self) -> Option<&Path> {
        self.storage.path()
    }

    /// All entries in file order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// An entry by name.
    pub fn entry(&self, id: &EntryId) -> Option<&Entry> {
        self.index.get(id).map(|at| &self.entries[*at])
    }

    /// What the next entry will follow.
    pub fn leaf(&self) -> Option<&EntryId> {
        self.leaf.as_ref()
    }

    /// The latest name of the session.
    pub fn name(&self) -> Option<&str> {
        let name = self.entries.iter().rev().find_map(|entry| match &entry.body {
            Body::SessionInfo { name } => Some(name.as_deref()),
            _ => None,
        })?;
        name.map(str::trim).filter(|name| !name.is_empty())
    }

    /// Entries from the root to `from`, or to the leaf.
    pub fn branch(&self, from: Option<&EntryId>) -> Vec<&Entry> {
        let mut path = Vec::new();
        let mut seen = BTreeSet::new();
        let mut at = from.or(self.leaf.as_ref());
        // A file made by hand may hold a circle.
        while let Some(entry) = at.and_then(|id| self.entry(id)).filter(|entry| seen.insert(&entry.id)) {
            path.push(entry);
            at = entry.parent.as_ref();
        }
        path.reverse();
        path
    }

    /// Appends an entry below the leaf and writes it when it is time.
    pub fn append(&mut self, body: Body) -> Result<&Entry, SessionError> {
        let entry = Entry { id: self.fresh_id(), parent: self.leaf.clone(), timestamp: self.ambient.now_iso(), body };
        self.insert(entry);
        self.storage.appended(&self.header, &self.entries)?;
        Ok(self.entries.last().expect("just inserted"))
    }

    /// Appends a message: a custom one as pi's own entry type.
    pub fn append_message(&mut self, message: &Message) -> Result<&Entry, SessionError> {
        self.append(match message {
            Message::Custom(custom) => Body::CustomMessage {
                custom_type: custom.custom_type.clone(),
                content: custom.content.clone(),
                display: custom.display,
                details: custom.details.clone(),
            },
            other => Body::Message { message: other.clone() },
        })
    }

    fn insert(&mut self, entry: Entry) {
        self.leaf = Some(entry.id.clone());
        self.index.insert(entry.id.clone(), self.entries.len());
        self.entries.push(entry);
    }

    /// Eight hexadecimal digits; rolled again on the rare clash.
    fn fresh_id(&self) -> EntryId {
        loop {
            let mut bytes = [0; 4];
            self.ambient.random.fill(&mut bytes);
            let id = EntryId(format!("{:08x}", u32::from_be_bytes(bytes)));
            if !self.index.contains_key(&id) {
                return id;
            }
        }
    }
}

#[cfg(test)]
mod tests;
