//! Writes the lines of a session, and reads back entries that are not cached.

use super::SessionError;
use super::SessionOptions;
use super::entry::{Entry, Header};
use super::entry_cache::EntryCache;
use super::index::{Index, IndexNode, LinePosition};
use super::records::{LineDigest, RecordWriter, RecordedAuthor, digest};
use pijs_durable::{Appender, Disk, Open, Replace, VfsFile};
use pijs_protocol::guard;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum size in bytes of one write when many lines are due. A write up to this size is atomic.
const PIECE: usize = 16 << 20;
/// Maximum size in bytes of a file that is rewritten when its end cannot be trusted; the limit of an atomic replacement.
const MAX_REWRITTEN_BYTES: u64 = 64 << 20;

/// The entries of a session: the index of all, and the cached ones.
#[derive(Debug, Default)]
pub(super) struct EntryStore {
    pub(super) index: Index,
    cache: Mutex<EntryCache>,
    /// Lines of another program that the model has not replied to.
    pub(super) unanswered: Vec<LineDigest>,
}

impl EntryStore {
    fn cache(&self) -> MutexGuard<'_, EntryCache> {
        // Updates leave the cache consistent even if a panic poisons the lock.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an entry; `None` if its id is taken.
    pub(super) fn push(&mut self, entry: Entry, position: Option<LinePosition>) -> Option<Arc<Entry>> {
        let node = IndexNode { position, ..IndexNode::of(&entry) };
        let at = self.index.len();
        if !self.index.push(node) {
            return None;
        }
        self.index.apply(&entry.body);
        let bytes = position.map_or_else(|| line(&entry).len() as u64, |position| u64::from(position.length));
        let entry = Arc::new(entry);
        self.insert(at, &entry, bytes);
        Some(entry)
    }

    pub(super) fn in_memory(&self, at: usize) -> Option<Arc<Entry>> {
        self.cache().get(at)
    }

    fn insert(&self, at: usize, entry: &Arc<Entry>, bytes: u64) {
        let mut cache = self.cache();
        cache.insert(at, Arc::clone(entry), bytes);
        cache.evict(|at| self.index.node(at).position.is_some());
    }

    /// Caches an entry that was read again.
    pub(super) fn cache_entry(&self, at: usize, entry: &Arc<Entry>) {
        if let Some(position) = self.index.node(at).position {
            self.insert(at, entry, u64::from(position.length));
        }
    }
}

/// Formats the line of an entry.
fn line(entry: &Entry) -> String {
    format!("{}\n", entry.written())
}

/// The file of a session, if it has one.
pub(super) struct Storage {
    disk: Disk,
    path: Option<PathBuf>,
    state: StorageState,
    /// A second handle to the file, for entries that are not cached.
    reader: Mutex<Option<Box<dyn VfsFile>>>,
    /// Writer of the session's records.
    record_writer: Option<RecordWriter>,
    is_written: bool,
}

pub(super) enum StorageState {
    /// No file yet: pi writes none for a conversation without a reply of the model.
    Waiting,
    /// The file exists but is not open for writing: it has `good` valid bytes with `written` entries.
    Unopened { good: u64, line_break: bool, written: usize },
    /// The file is open for appending and has `written` entries.
    Open { appender: Appender, written: usize },
}

impl Storage {
    pub(super) fn memory() -> Self {
        Self {
            disk: Disk::system(),
            path: None,
            state: StorageState::Waiting,
            reader: Mutex::default(),
            record_writer: None,
            is_written: true,
        }
    }

    pub(super) fn file(options: &SessionOptions, path: PathBuf) -> Self {
        let record_writer = options.records.clone().map(RecordWriter::new);
        let (disk, path, is_written) = (options.disk.clone(), Some(path), options.is_written);
        Self { disk, path, state: StorageState::Waiting, reader: Mutex::default(), record_writer, is_written }
    }

    /// Returns the storage of a file that was read.
    pub(super) fn opened(options: &SessionOptions, path: &Path, state: StorageState, reader: Box<dyn VfsFile>) -> Self {
        let storage = Self::file(options, path.to_owned());
        storage.remember(path);
        Self { state, reader: Mutex::new(Some(reader)), ..storage }
    }

    fn remember(&self, path: &Path) {
        if let Some(record_writer) = &self.record_writer {
            record_writer.remember(path);
        }
    }

    /// Records that the model has replied after these lines of another program.
    pub(super) fn answered(&mut self, header: &Header, lines: Vec<LineDigest>) {
        self.record(header, RecordedAuthor::Answered, lines);
    }

    fn record(&mut self, header: &Header, mark: RecordedAuthor, lines: impl IntoIterator<Item = LineDigest>) {
        if let Some(record_writer) = &mut self.record_writer {
            record_writer.record(&header.id, mark, lines);
        }
    }

    /// Returns the path of the file to write; `None` for a session without a file.
    fn target(&self) -> Option<PathBuf> {
        self.path.clone().filter(|_| self.is_written)
    }

    pub(super) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Reads an entry at its recorded position. Fails if another program has changed the file.
    pub(super) fn entry(&self, node: &IndexNode) -> Result<Entry, SessionError> {
        let (Some(path), Some(position)) = (&self.path, node.position) else {
            unreachable!("an entry is evicted after it was written")
        };
        let line = self.read(path, position)?;
        let entry = serde_json::from_slice(&line).ok().and_then(Entry::from_value);
        let entry = if node.is_foreign { entry.map(Entry::of_another_program) } else { entry };
        entry.filter(|entry| IndexNode::of(entry).name == node.name).ok_or_else(|| changed(path))
    }

    fn read(&self, path: &Path, position: LinePosition) -> Result<Vec<u8>, SessionError> {
        let failed = |error: io::Error| match error.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::NotFound => changed(path),
            _ => SessionError::new(path, "read", error),
        };
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let reader = match &mut *reader {
            Some(reader) => reader,
            none => none.insert(self.disk.open(path, Open::Read).map_err(failed)?),
        };
        let mut line = vec![0; position.length as usize];
        let mut read = 0;
        while read < line.len() {
            match reader.read_at(&mut line[read..], position.offset + read as u64) {
                Ok(0) => return Err(changed(path)),
                Ok(more) => read += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(error)),
            }
        }
        if position.holds(&line) || !guard!(SessionUnchanged) { Ok(line) } else { Err(changed(path)) }
    }

    /// Writes all entries immediately, for a session that starts with entries of another one.
    pub(super) fn write_all(&mut self, header: &Header, entries: &mut EntryStore) -> Result<(), SessionError> {
        let Some(path) = self.target() else { return Ok(()) };
        let failed = |error| SessionError::new(&path, "write", error);
        self.remember(&path);
        let mut appender = Appender::open(&self.disk, &path).map_err(failed)?.appender;
        let before = appender.length();
        match self.append_all(&mut appender, header, entries) {
            Ok((positions, foreign)) => {
                self.written(appender, entries, positions, foreign);
                Ok(())
            }
            Err(error) => {
                // The next attempt would write these pieces a second time.
                if appender.length() > before {
                    appender.cut(before).map_err(failed)?;
                }
                Err(error)
            }
        }
    }

    fn append_all(
        &mut self,
        appender: &mut Appender,
        header: &Header,
        entries: &EntryStore,
    ) -> Result<(Vec<LinePosition>, Vec<LineDigest>), SessionError> {
        let path = self.path.clone().unwrap_or_default();
        let failed = |error| SessionError::new(&path, "write", error);
        let mut due = header_line(header);
        let (mut positions, mut lines, mut foreign) = (Vec::new(), Vec::new(), Vec::new());
        for at in 0..entries.index.len() {
            if due.len() >= PIECE {
                self.record(header, RecordedAuthor::Own, lines.drain(..));
                appender.append(&std::mem::take(&mut due)).map_err(failed)?;
            }
            let from = due.len();
            self.add(entries, at, appender.length(), &mut due, &mut positions)?;
            by_author(entries, at, &mut lines, &mut foreign).push(digest(&due[from..]));
        }
        self.record(header, RecordedAuthor::Own, lines);
        let foreign = self.record_foreign(header, entries, foreign);
        appender.append(&due).map_err(failed)?;
        Ok((positions, foreign))
    }

    /// Records lines of another program that are copied to a new file. Copying does not change their author. Lines that the model
    /// has not replied to are not recorded, and are returned.
    fn record_foreign(&mut self, header: &Header, entries: &EntryStore, lines: Vec<LineDigest>) -> Vec<LineDigest> {
        if entries.unanswered.is_empty() {
            self.record(header, RecordedAuthor::Answered, lines);
            return Vec::new();
        }
        lines
    }

    /// Appends the line of an entry to the text for `offset`, and its position to the list.
    fn add(
        &self,
        entries: &EntryStore,
        at: usize,
        offset: u64,
        due: &mut Vec<u8>,
        positions: &mut Vec<LinePosition>,
    ) -> Result<(), SessionError> {
        let from = due.len();
        match entries.in_memory(at) {
            Some(entry) => due.extend_from_slice(line(&entry).as_bytes()),
            None => due.extend_from_slice(line(&self.entry(entries.index.node(at))?).as_bytes()),
        }
        positions.push(LinePosition::of(offset + from as u64, &due[from..]));
        Ok(())
    }

    /// Updates the state after a new file with all entries has been written.
    fn written(
        &mut self,
        appender: Appender,
        entries: &mut EntryStore,
        positions: Vec<LinePosition>,
        foreign: Vec<LineDigest>,
    ) {
        if !foreign.is_empty() {
            entries.unanswered = foreign;
        }
        self.reader = Mutex::default();
        self.state = StorageState::Open { appender, written: positions.len() };
        positions.into_iter().enumerate().for_each(|(at, position)| entries.index.set_position(at, position));
    }

    /// Writes the due lines after an entry was added. After an error, all of them count as unwritten, and the next append writes
    /// them again.
    pub(super) fn appended(&mut self, header: &Header, entries: &mut EntryStore) -> Result<(), SessionError> {
        let Some(path) = self.target() else { return Ok(()) };
        let failed = |error| SessionError::new(&path, "write", error);
        if matches!(&self.state, StorageState::Open { appender, .. } if appender.is_broken()) {
            // The state of the file after a failed flush is unknown, so a new file replaces it.
            return self.rewrite(header, entries).map_err(failed);
        }
        match &mut self.state {
            StorageState::Waiting if !entries.index.has_reply => Ok(()),
            StorageState::Waiting => self.write_all(header, entries),
            StorageState::Unopened { good, line_break, written } => {
                let (good, line_break, written) = (*good, *line_break, *written);
                let mut appender = Appender::open(&self.disk, &path).map_err(failed)?.appender;
                repair(&self.disk, &path, &mut appender, good, line_break).map_err(failed)?;
                self.state = StorageState::Open { appender, written };
                self.appended(header, entries)
            }
            StorageState::Open { appender, written } => {
                for at in *written..entries.index.len() {
                    let entry = entries.in_memory(at).expect("unwritten entries are cached");
                    let line = line(&entry);
                    let position = LinePosition::of(appender.length(), line.as_bytes());
                    if let Some(record_writer) = &mut self.record_writer {
                        record_writer.record(&header.id, RecordedAuthor::Own, [digest(line.as_bytes())]);
                    }
                    appender.append(line.as_bytes()).map_err(failed)?;
                    entries.index.set_position(at, position);
                    *written += 1;
                }
                Ok(())
            }
        }
    }

    /// Makes the appended lines durable.
    pub(super) fn sync(&mut self, header: &Header, entries: &mut EntryStore) -> Result<(), SessionError> {
        let (Some(path), StorageState::Open { appender, .. }) = (&self.path, &mut self.state) else { return Ok(()) };
        if let Some(record_writer) = &mut self.record_writer {
            record_writer.sync();
        }
        let Err(error) = appender.sync() else { return Ok(()) };
        let failed = SessionError::new(path, "flush", error);
        // A second flush of the same file may succeed although data was lost.
        self.rewrite(header, entries).map_err(|_| failed)
    }

    /// Replaces the file by a new one with all entries, and keeps the old one as `.bak`.
    pub(super) fn rewrite(&mut self, header: &Header, entries: &mut EntryStore) -> io::Result<()> {
        let Some(path) = self.target() else { return Ok(()) };
        if entries.index.bytes > MAX_REWRITTEN_BYTES {
            return Err(io::Error::other(format!(
                "the session file is too large to be rewritten ({} bytes)",
                entries.index.bytes
            )));
        }
        let mut text = header_line(header);
        let (mut positions, mut lines, mut foreign) = (Vec::new(), Vec::new(), Vec::new());
        for at in 0..entries.index.len() {
            let from = text.len();
            self.add(entries, at, 0, &mut text, &mut positions).map_err(io::Error::other)?;
            by_author(entries, at, &mut lines, &mut foreign).push(digest(&text[from..]));
        }
        self.record(header, RecordedAuthor::Own, lines);
        let foreign = self.record_foreign(header, entries, foreign);
        if let Some(record_writer) = &mut self.record_writer {
            record_writer.sync();
        }
        self.disk.replace(&path, &text, Replace::STATE)?;
        // The old file stays locked until the new one is.
        let appender = Appender::open(&self.disk, &path)?.appender;
        self.written(appender, entries, positions, foreign);
        Ok(())
    }
}

/// Returns the list that an entry's line belongs to: PiJS's lines, or those of another program.
fn by_author<'a>(
    entries: &EntryStore,
    at: usize,
    own: &'a mut Vec<LineDigest>,
    foreign: &'a mut Vec<LineDigest>,
) -> &'a mut Vec<LineDigest> {
    if entries.index.node(at).is_foreign && guard!(SessionCopiedAuthorship) { foreign } else { own }
}

fn changed(path: &Path) -> SessionError {
    SessionError::new(path, "read", "another program changed it while it was open; open it again")
}

fn header_line(header: &Header) -> Vec<u8> {
    let mut text = serde_json::to_vec(header).expect("a header has only string keys");
    text.push(b'\n');
    text
}

/// Prepares the end of a file for the next line. Returns the path to which a damaged end was moved.
pub(super) fn repair(
    disk: &Disk,
    path: &Path,
    appender: &mut Appender,
    good: u64,
    line_break: bool,
) -> io::Result<Option<PathBuf>> {
    if good < appender.length() && guard!(SessionDamaged) {
        return set_aside(disk, path, appender, good).map(Some);
    }
    if !line_break {
        appender.append(b"\n")?;
    }
    Ok(None)
}

/// Moves everything after `good` to a file next to the session, and truncates the session.
fn set_aside(disk: &Disk, path: &Path, appender: &mut Appender, good: u64) -> io::Result<PathBuf> {
    const PIECE: u64 = 64 << 20;
    let mut from = good;
    let mut first = None;
    for number in 1.. {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".damaged-{number}"));
        let aside = path.with_file_name(name);
        let to = (from + PIECE).min(appender.length());
        let piece = appender.read_range(from, to)?;
        if disk.create_once(&aside, &piece)? {
            first.get_or_insert(aside);
            from = to;
            if from == appender.length() {
                break;
            }
        }
    }
    appender.cut(good)?;
    Ok(first.unwrap_or_default())
}
