//! Sessions in pi's format: a file of JSON lines, a tree of entries.
//!
//! A [`Session`] is the tree and its leaf; every append becomes a child of the leaf and moves it.
//! [`file`] puts it on disk by pi's rule: nothing before the first assistant message, then
//! everything so far, then one line per entry. A session of the real pi opens here and the other
//! way round.
//!
//! A long session is not held: in memory are an index of all entries and the newest of them, older ones are read from the
//! file when somebody asks. Whoever takes entries one after the other ([`Session::entries`]) never has more than one.
//!
//! Always holds: an id is unique within its session; entries are never changed after they were
//! appended; a line is written whole or not at all (a damaged end is moved aside when the file is
//! opened); one process at a time writes a file; what is read of an entry is what was read or written first, or an error.
//! [`SessionRecords`] records the lines that PiJS wrote. Text that another program wrote does not count as the user's.
//!
//! A file of up to 32 MiB is read into memory whole. A longer one is read line by line into an index (id, parent, kind, position in the
//! file, checksum; some hundred bytes an entry), and the newest 32 MiB are kept in memory once somebody has read them.

#![warn(missing_docs)]

pub mod context;
pub mod entry;
pub mod file;
mod held;
mod index;
mod lines;
mod migrate;
mod outline;
mod records;
mod store;
mod tree;

pub use entry::{Body, Entry, EntryId, Header};
pub use records::{SessionPlace, SessionRecords};
pub use tree::Left;

use file::Links;
use index::Name;
use pijs_durable::Disk;
use pijs_environment::Ambient;
use pijs_llm::message::Message;
use serde_json::Map;
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::{Entries, Storage};

/// Entries as those take them who read a branch.
pub fn refs(entries: &[Arc<Entry>]) -> Vec<&Entry> {
    entries.iter().map(|entry| &**entry).collect()
}

/// What a session is kept with. Cheap to clone.
#[derive(Clone)]
pub struct SessionOptions {
    /// Gives times and ids to entries.
    pub ambient: Ambient,
    /// Holds the file.
    pub disk: Disk,
    /// Notes which lines were written here; without it every line counts as written here.
    pub records: Option<Arc<SessionRecords>>,
}

impl From<Ambient> for SessionOptions {
    /// A session on the machine's disk, without records.
    fn from(ambient: Ambient) -> Self {
        Self { ambient, disk: Disk::system(), records: None }
    }
}

/// One session.
pub struct Session {
    header: Header,
    entries: Entries,
    leaf: Option<EntryId>,
    storage: Storage,
    options: SessionOptions,
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
    pub fn in_memory(cwd: &Path, options: impl Into<SessionOptions>) -> Self {
        Self::new(cwd, Storage::memory(), options.into())
    }

    /// A new session in `directory` (see [`file::directory`]); the file's name holds time and id.
    pub fn create_in(directory: &Path, cwd: &Path, options: impl Into<SessionOptions>) -> Self {
        let mut session = Self::new(cwd, Storage::memory(), options.into());
        let name = file::name(&session.header.timestamp, &session.header.id);
        session.storage = Storage::file(&session.options, directory.join(name));
        session
    }

    /// Opens a file, or begins a new session under this name when it does not exist.
    ///
    /// Lines that are no entries are skipped, as pi does; a damaged end is moved aside and files of version 1 and 2
    /// are migrated, which [`Session::notices`] says. Fails when the file cannot be read, when another process writes
    /// it, or when its first line is no header or one of a later version.
    pub fn open(path: &Path, cwd: &Path, options: impl Into<SessionOptions>) -> Result<Self, SessionError> {
        Self::open_with(path, cwd, options.into(), Links::Followed)
    }

    /// Opens a file as [`Session::open`] does, at the path where it really lies: for a path that somebody was permitted, and whose
    /// folders may be exchanged for links before it is opened.
    ///
    /// # Errors
    ///
    /// Those of [`Session::open`], and when a link leads elsewhere.
    pub fn open_without_links(
        path: &Path,
        cwd: &Path,
        options: impl Into<SessionOptions>,
    ) -> Result<Self, SessionError> {
        Self::open_with(path, cwd, options.into(), Links::Refused)
    }

    fn open_with(path: &Path, cwd: &Path, options: SessionOptions, links: Links) -> Result<Self, SessionError> {
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

    /// What it is kept with, for another one beside it.
    pub fn options(&self) -> &SessionOptions {
        &self.options
    }

    /// Goes on after the entry that was written last, as a file does that is opened.
    pub fn go_to_end(&mut self) {
        self.leaf = self.entries.index.len().checked_sub(1).map(|last| self.id_at(last));
    }

    /// Opens the latest session in `directory`; `None` when there is none.
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

    /// The same under an id that the caller chose. For a new session: its file is called after it.
    #[must_use]
    pub fn with_id(mut self, id: &str) -> Self {
        id.clone_into(&mut self.header.id);
        if let Some(folder) = self.path().and_then(Path::parent) {
            let path = folder.join(file::name(&self.header.timestamp, id));
            self.storage = Storage::file(&self.options, path);
        }
        self
    }

    /// The same with everything that another one holds; for a new session, which is written at once.
    ///
    /// # Errors
    ///
    /// When its file cannot be written.
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

    /// A session that is never written, and holds these entries; those whose id is taken are left out.
    pub fn in_memory_with(header: Header, entries: Vec<Entry>, options: impl Into<SessionOptions>) -> Self {
        let options = options.into();
        let (held, storage) = (Entries::default(), Storage::memory());
        let mut session = Self { header, entries: held, leaf: None, storage, options, notices: Vec::new() };
        for entry in entries {
            if session.place(&entry.id).is_none() {
                session.insert(entry);
            }
        }
        session
    }

    fn new(cwd: &Path, storage: Storage, options: SessionOptions) -> Self {
        let header = Header {
            kind: "session".to_owned(),
            version: entry::VERSION,
            id: options.ambient.uuid_v7(),
            timestamp: options.ambient.now_iso(),
            cwd: cwd.display().to_string(),
            parent_session: None,
            extra: Map::new(),
        };
        Self { header, entries: Entries::default(), leaf: None, storage, options, notices: Vec::new() }
    }

    /// What the user should know about how the file was found, one sentence each.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Makes all entries durable: at the end of a turn, and before tools run.
    pub fn sync(&mut self) -> Result<(), SessionError> {
        self.storage.sync(&self.header, &mut self.entries)
    }

    /// The first line.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The file, also before anything is in it; `None` in memory.
    pub fn path(&self) -> Option<&Path> {
        self.storage.path()
    }

    /// How many entries it has.
    pub fn len(&self) -> usize {
        self.entries.index.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of its lines on disk.
    pub fn bytes(&self) -> u64 {
        self.entries.index.bytes
    }

    /// All entries in file order, one after the other.
    ///
    /// # Errors
    ///
    /// An entry that is not in memory and cannot be read again, here as with all others that give entries: the file is
    /// gone, or another program has changed it.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = Result<Arc<Entry>, SessionError>> + '_ {
        self.entries_from(0)
    }

    /// The same from a number on.
    pub fn entries_from(&self, first: usize) -> impl DoubleEndedIterator<Item = Result<Arc<Entry>, SessionError>> + '_ {
        (first.min(self.len())..self.len()).map(|at| self.read(at))
    }

    /// Ids of all entries in file order, and of what each follows. Reads nothing.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = (EntryId, Option<EntryId>)> + '_ {
        (0..self.len()).map(|at| {
            let node = self.entries.index.node(at);
            (node.name.id(), node.parent.as_ref().map(Name::id))
        })
    }

    /// The number of an entry in the file.
    pub fn place(&self, id: &EntryId) -> Option<usize> {
        self.entries.index.find(&Name::of(&id.0))
    }

    /// An entry by name.
    pub fn entry(&self, id: &EntryId) -> Result<Option<Arc<Entry>>, SessionError> {
        self.place(id).map(|at| self.at(at)).transpose()
    }

    /// An entry by number, which is kept in memory while there is room.
    pub fn at(&self, at: usize) -> Result<Arc<Entry>, SessionError> {
        if let Some(entry) = self.entries.in_memory(at) {
            return Ok(entry);
        }
        let entry = Arc::new(self.storage.entry(self.entries.index.node(at))?);
        self.entries.keep(at, &entry);
        Ok(entry)
    }

    /// An entry by number, for one look.
    fn read(&self, at: usize) -> Result<Arc<Entry>, SessionError> {
        match self.entries.in_memory(at) {
            Some(entry) => Ok(entry),
            None => self.storage.entry(self.entries.index.node(at)).map(Arc::new),
        }
    }

    fn id_at(&self, at: usize) -> EntryId {
        self.entries.index.node(at).name.id()
    }

    /// What the next entry will follow.
    pub fn leaf(&self) -> Option<&EntryId> {
        self.leaf.as_ref()
    }

    /// The latest name of the session.
    pub fn name(&self) -> Option<&str> {
        self.entries.index.name.as_deref().map(str::trim).filter(|name| !name.is_empty())
    }

    /// Appends an entry below the leaf and writes it when it is time.
    pub fn append(&mut self, body: Body) -> Result<Arc<Entry>, SessionError> {
        self.append_named(|_| body)
    }

    /// The same of an extension.
    pub fn append_of(&mut self, extension: &str, body: Body) -> Result<Arc<Entry>, SessionError> {
        self.append_whole(BTreeSet::from([extension.to_owned()]), |_| body)
    }

    /// Appends an entry that these extensions wrote or changed; none stand for the user.
    pub fn append_by(&mut self, authors: BTreeSet<String>, body: Body) -> Result<Arc<Entry>, SessionError> {
        self.append_whole(authors, |_| body)
    }

    /// The same for an entry that names itself.
    pub fn append_named(&mut self, body: impl FnOnce(&EntryId) -> Body) -> Result<Arc<Entry>, SessionError> {
        self.append_whole(BTreeSet::new(), body)
    }

    /// The same, of these extensions.
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

    /// Appends a message, and who wrote it: a custom one as pi's own entry type.
    pub fn append_message(&mut self, message: &Message) -> Result<Arc<Entry>, SessionError> {
        let mut message = message.clone();
        let authors = message.authors_mut().map(std::mem::take).unwrap_or_default();
        let body = match message {
            Message::Custom(custom) => Body::of_custom(custom),
            other => Body::Message { message: other },
        };
        self.append_by(authors, body)
    }

    /// Appends a reply of the model, or what a tool or a command came to, that these extensions changed; none stand for
    /// nobody.
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
        self.entries.push(entry, None).expect("an id that nothing has")
    }

    /// Eight hexadecimal digits; rolled again on the rare clash.
    fn fresh_id(&self) -> EntryId {
        loop {
            let mut bytes = [0; 4];
            self.options.ambient.random.fill(&mut bytes);
            let id = EntryId(format!("{:08x}", u32::from_be_bytes(bytes)));
            if self.place(&id).is_none() {
                return id;
            }
        }
    }
}

#[cfg(test)]
mod tests;
