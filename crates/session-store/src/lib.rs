//! Sessions in pi's format: a tree of entries in a file of JSON lines.
//!
//! A [`Session`] consists of the tree and its leaf; an append adds a child of the leaf and makes it the leaf. [`mod@file`] stores
//! it by pi's rule: nothing before the first reply of the model, then all entries so far, then one line for each entry. Sessions
//! of the real pi can be opened here, and vice versa.
//!
//! Invariants: an id is unique within its session; entries never change after they were appended; a line is written completely or
//! not at all (a damaged end is moved aside on opening); only one process at a time writes a file; an entry that is read again
//! equals the one first read or written, or the read fails. [`SessionRecords`] records the lines that PiJS wrote, so that text of
//! another program is not treated as the user's.
//!
//! A file of up to 32 MiB is read into memory completely. A longer one is read line by line into an index (id, parent, kind,
//! position in the file, checksum; some hundred bytes per entry), and 32 MiB of recently read entries are cached.
//! [`Session::entries`] yields entries one at a time and holds only one of them.

#![warn(missing_docs)]

pub mod context;
pub mod entry;
mod entry_cache;
pub mod file;
mod index;
mod line_metadata;
mod lines;
mod migrate;
mod records;
mod store;
pub mod summary;
mod tree;

pub use entry::{Body, Entry, EntryId, Header};
pub use records::{SessionLocation, SessionRecords};
pub use tree::BranchState;

use file::LinkPolicy;
use index::CompactId;
use pijs_durable::Disk;
use pijs_environment::Ambient;
use pijs_llm::message::Message;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::{EntryStore, Storage};

/// Returns references to the entries.
pub fn refs(entries: &[Arc<Entry>]) -> Vec<&Entry> {
    entries.iter().map(|entry| &**entry).collect()
}

/// Options of a session. Cheap to clone.
#[derive(Clone)]
pub struct SessionOptions {
    /// Source of times and ids.
    pub ambient: Ambient,
    /// The disk with the session file.
    pub disk: Disk,
    /// Records of the lines that PiJS wrote. Without them, every line is treated as written by PiJS.
    pub records: Option<Arc<SessionRecords>>,
    /// Whether files are written. In a replay, sessions only have file names.
    pub is_written: bool,
}

impl SessionOptions {
    /// Returns whether an extension started this program.
    fn is_agents(&self) -> bool {
        self.records.as_ref().is_some_and(|records| records.is_agents())
    }
}

impl From<Ambient> for SessionOptions {
    /// Returns options for the machine's disk, without records.
    fn from(ambient: Ambient) -> Self {
        Self { ambient, disk: Disk::system(), records: None, is_written: true }
    }
}

/// A session: a tree of entries with a leaf.
pub struct Session {
    header: Header,
    entries: EntryStore,
    leaf: Option<EntryId>,
    storage: Storage,
    options: SessionOptions,
    notices: Vec<String>,
}

/// A failure to read or write a session file.
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

    /// Returns the path of the file.
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
    /// Creates a session that is never written.
    pub fn in_memory(cwd: &Path, options: impl Into<SessionOptions>) -> Self {
        Self::new(cwd, Storage::memory(), options.into())
    }

    /// Creates a session in `directory` (see [`file::directory`]). The file name consists of time and id.
    pub fn create_in(directory: &Path, cwd: &Path, options: impl Into<SessionOptions>) -> Self {
        let mut session = Self::new(cwd, Storage::memory(), options.into());
        let name = file::name(&session.header.timestamp, &session.header.id);
        session.storage = Storage::file(&session.options, directory.join(name));
        session
    }

    /// Opens a file, or creates a session with this path if it does not exist.
    ///
    /// Skips invalid lines, as pi does, moves a damaged end aside and migrates files of version 1 and 2; [`Session::notices`]
    /// reports these changes.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, if another process writes to it, or if its first line is not a header or has a later
    /// version.
    pub fn open(path: &Path, cwd: &Path, options: impl Into<SessionOptions>) -> Result<Self, SessionError> {
        Self::open_with(path, cwd, options.into(), LinkPolicy::Followed)
    }

    /// Opens a file like [`Session::open`], but without following symbolic links. For a permitted path whose folders could be
    /// replaced by links before it is opened.
    ///
    /// # Errors
    ///
    /// As [`Session::open`]; also fails if the path contains a link.
    pub fn open_without_links(
        path: &Path,
        cwd: &Path,
        options: impl Into<SessionOptions>,
    ) -> Result<Self, SessionError> {
        Self::open_with(path, cwd, options.into(), LinkPolicy::Refused)
    }

    fn open_with(path: &Path, cwd: &Path, options: SessionOptions, links: LinkPolicy) -> Result<Self, SessionError> {
        let Some(read) = file::read(path, &options, links)? else {
            return Ok(Self::new(cwd, Storage::file(&options, path.to_owned()), options));
        };
        let mut session = Self::new(cwd, read.storage, options);
        session.header = read.header;
        session.notices = read.notices;
        session.entries = read.entries;
        session.go_to_end();
        Ok(session)
    }

    /// Returns the session's options, for creating a related session.
    pub fn options(&self) -> &SessionOptions {
        &self.options
    }

    /// Moves the leaf to the last entry of the file, as after opening it.
    pub fn go_to_end(&mut self) {
        self.leaf = self.entries.index.len().checked_sub(1).map(|last| self.id_at(last));
    }

    /// Opens the latest session in `directory`; `None` if there is none.
    pub fn open_latest(
        directory: &Path,
        cwd: &Path,
        options: impl Into<SessionOptions>,
    ) -> Result<Option<Self>, SessionError> {
        match file::latest(directory)? {
            Some(path) => Self::open(&path, cwd, options).map(Some),
            None => Ok(None),
        }
    }

    /// Sets another id, which is part of the file name. Only for a new session.
    #[must_use]
    pub fn with_id(mut self, id: &str) -> Self {
        id.clone_into(&mut self.header.id);
        if let Some(folder) = self.path().and_then(Path::parent) {
            let path = folder.join(file::name(&self.header.timestamp, id));
            self.storage = Storage::file(&self.options, path);
        }
        self
    }

    /// Copies all entries of another session into this new one, and writes them immediately.
    ///
    /// # Errors
    ///
    /// Fails when the file cannot be written.
    pub fn with_entries_of(mut self, source: &Self) -> Result<Self, SessionError> {
        self.header.parent_session = source.path().map(|path| path.display().to_string());
        for entry in source.entries() {
            self.insert(Entry::clone(&*entry?));
        }
        self.entries.unanswered.clone_from(&source.entries.unanswered);
        self.notices.extend_from_slice(&source.notices);
        self.storage.write_all(&self.header, &mut self.entries)?;
        Ok(self)
    }

    /// Creates a session in memory with these entries. Skips entries with a repeated id.
    pub fn in_memory_with(header: Header, entries: Vec<Entry>, options: impl Into<SessionOptions>) -> Self {
        let options = options.into();
        let (entries_of_session, storage) = (EntryStore::default(), Storage::memory());
        let mut session =
            Self { header, entries: entries_of_session, leaf: None, storage, options, notices: Vec::new() };
        for entry in entries {
            if session.index_of(&entry.id).is_none() {
                session.insert(entry);
            }
        }
        session
    }

    /// Sets the path of the session's file.
    #[must_use]
    pub fn at_path(mut self, path: PathBuf) -> Self {
        self.storage = Storage::file(&self.options, path);
        self
    }

    /// Returns whether the session's file exists; a conversation without a reply has no file. A session in memory counts as
    /// saved.
    pub fn is_saved(&self) -> bool {
        match self.path() {
            Some(path) if self.options.is_written => path.exists(),
            Some(_) => self.entries.index.has_reply,
            None => true,
        }
    }

    fn new(cwd: &Path, storage: Storage, options: SessionOptions) -> Self {
        let mut extra = Map::new();
        if options.is_agents() {
            extra.insert(entry::OF_AGENT.to_owned(), Value::Bool(true));
        }
        let header = Header {
            kind: "session".to_owned(),
            version: entry::VERSION,
            id: options.ambient.uuid_v7(),
            timestamp: options.ambient.now_iso(),
            cwd: cwd.display().to_string(),
            parent_session: None,
            extra,
        };
        Self { header, entries: EntryStore::default(), leaf: None, storage, options, notices: Vec::new() }
    }

    /// Returns notices about the opened file for the user, one sentence each.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Makes all entries durable: at the end of a turn, and before tools run.
    pub fn sync(&mut self) -> Result<(), SessionError> {
        self.storage.sync(&self.header, &mut self.entries)
    }

    /// Returns the header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the path of the file, even before it is written; `None` for a session in memory.
    pub fn path(&self) -> Option<&Path> {
        self.storage.path()
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries.index.len()
    }

    /// Returns whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the total length of the written lines in bytes.
    pub fn bytes(&self) -> u64 {
        self.entries.index.bytes
    }

    /// Iterates over all entries in file order.
    ///
    /// # Errors
    ///
    /// Yields an error if an entry is not in memory and cannot be read again, because the file was removed or another program
    /// changed it. The same applies to all methods that return entries.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = Result<Arc<Entry>, SessionError>> + '_ {
        self.entries_from(0)
    }

    /// Iterates over the entries from an index on.
    pub fn entries_from(&self, first: usize) -> impl DoubleEndedIterator<Item = Result<Arc<Entry>, SessionError>> + '_ {
        (first.min(self.len())..self.len()).map(|at| self.read(at))
    }

    /// Iterates over the ids of all entries and their parents in file order, without reading entries.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = (EntryId, Option<EntryId>)> + '_ {
        (0..self.len()).map(|at| {
            let node = self.entries.index.node(at);
            (node.name.id(), node.parent.as_ref().map(CompactId::id))
        })
    }

    /// Returns the index of an entry in the file.
    pub fn index_of(&self, id: &EntryId) -> Option<usize> {
        self.entries.index.find(&CompactId::of(&id.0))
    }

    /// Returns an entry by id.
    pub fn entry(&self, id: &EntryId) -> Result<Option<Arc<Entry>>, SessionError> {
        self.index_of(id).map(|at| self.at(at)).transpose()
    }

    /// Returns an entry by index and caches it.
    pub fn at(&self, at: usize) -> Result<Arc<Entry>, SessionError> {
        if let Some(entry) = self.entries.in_memory(at) {
            return Ok(entry);
        }
        let entry = Arc::new(self.storage.entry(self.entries.index.node(at))?);
        self.entries.cache_entry(at, &entry);
        Ok(entry)
    }

    /// Returns an entry by index without caching it.
    fn read(&self, at: usize) -> Result<Arc<Entry>, SessionError> {
        match self.entries.in_memory(at) {
            Some(entry) => Ok(entry),
            None => self.storage.entry(self.entries.index.node(at)).map(Arc::new),
        }
    }

    fn id_at(&self, at: usize) -> EntryId {
        self.entries.index.node(at).name.id()
    }

    /// Returns the leaf, which becomes the parent of the next entry.
    pub fn leaf(&self) -> Option<&EntryId> {
        self.leaf.as_ref()
    }

    /// Returns the latest name of the session.
    pub fn name(&self) -> Option<&str> {
        self.entries.index.name.as_deref().map(str::trim).filter(|name| !name.is_empty())
    }

    /// Appends an entry below the leaf, and writes it as soon as the session has a file.
    pub fn append(&mut self, body: Body) -> Result<Arc<Entry>, SessionError> {
        self.append_named(|_| body)
    }

    /// Appends an entry written by an extension.
    pub fn append_of(&mut self, extension: &str, body: Body) -> Result<Arc<Entry>, SessionError> {
        self.append_whole(BTreeSet::from([extension.to_owned()]), |_| body)
    }

    /// Appends an entry that these extensions wrote or changed; an empty set means the user.
    pub fn append_by(&mut self, authors: BTreeSet<String>, body: Body) -> Result<Arc<Entry>, SessionError> {
        self.append_whole(authors, |_| body)
    }

    /// Appends an entry whose body contains its own id.
    pub fn append_named(&mut self, body: impl FnOnce(&EntryId) -> Body) -> Result<Arc<Entry>, SessionError> {
        self.append_whole(BTreeSet::new(), body)
    }

    /// Appends an entry whose body contains its own id, written by these extensions.
    pub fn append_named_by(
        &mut self,
        authors: BTreeSet<String>,
        body: impl FnOnce(&EntryId) -> Body,
    ) -> Result<Arc<Entry>, SessionError> {
        self.append_whole(authors, body)
    }

    fn append_whole(
        &mut self,
        authors: BTreeSet<String>,
        body: impl FnOnce(&EntryId) -> Body,
    ) -> Result<Arc<Entry>, SessionError> {
        let id = self.fresh_id();
        let body = body(&id);
        let timestamp = self.options.ambient.now_iso();
        self.append_entry(Entry { id, parent: self.leaf.clone(), timestamp, body, authors, is_edited: false })
    }

    fn append_entry(&mut self, entry: Entry) -> Result<Arc<Entry>, SessionError> {
        let entry = self.insert(entry);
        self.storage.appended(&self.header, &mut self.entries)?;
        if entry.is_reply() && !self.entries.unanswered.is_empty() {
            self.storage.answered(&self.header, std::mem::take(&mut self.entries.unanswered));
        }
        Ok(entry)
    }

    /// Appends a message with its authors. A custom message becomes an entry of pi's own type.
    pub fn append_message(&mut self, message: &Message) -> Result<Arc<Entry>, SessionError> {
        let mut message = message.clone();
        let authors = message.authors_mut().map(std::mem::take).unwrap_or_default();
        let body = match message {
            Message::Custom(custom) => Body::of_custom(custom),
            other => Body::Message { message: other },
        };
        self.append_by(authors, body)
    }

    /// Appends a reply of the model, or a result of a tool or command, that these extensions changed; an empty set means that it
    /// is unchanged.
    pub fn append_edited(&mut self, authors: BTreeSet<String>, message: &Message) -> Result<Arc<Entry>, SessionError> {
        if authors.is_empty() {
            return self.append_message(message);
        }
        let timestamp = self.options.ambient.now_iso();
        let body = Body::Message { message: message.clone() };
        let id = self.fresh_id();
        self.append_entry(Entry { id, parent: self.leaf.clone(), timestamp, body, authors, is_edited: true })
    }

    fn insert(&mut self, entry: Entry) -> Arc<Entry> {
        self.leaf = Some(entry.id.clone());
        self.entries.push(entry, None).expect("the id is new")
    }

    /// Returns an unused id of eight hexadecimal digits.
    fn fresh_id(&self) -> EntryId {
        loop {
            let mut bytes = [0; 4];
            self.options.ambient.random.fill(&mut bytes);
            let id = EntryId(format!("{:08x}", u32::from_be_bytes(bytes)));
            if self.index_of(&id).is_none() {
                return id;
            }
        }
    }
}

#[cfg(test)]
mod tests;
