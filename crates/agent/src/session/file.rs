//! Session files on disk. The only place of this crate that touches them.
//!
//! Reading goes line by line, so that a large session costs what its entries cost; what does not parse is skipped, as
//! pi does, and what is damaged at the end is moved aside before the next append. Writing is one line a write, by one
//! process at a time, flushed to the disk at the end of a turn and before tools run.

use super::SessionError;
use super::entry::{Entry, Header, VERSION};
use super::migrate::migrate;
use crate::ambient::Ambient;
use pijs_durable::{Appender, Disk, Open, Replace, VfsFile};
use pijs_protocol::guard;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufRead, BufReader, ErrorKind, Read as _};
use std::path::{Path, PathBuf};

/// Longest line that is taken for an entry; a longer one is damage. An entry of 50 MB fits with every character escaped.
const LONGEST_LINE: usize = 320 << 20;

/// Where the sessions of a working directory are: `<agentDir>/sessions/--a-b-c--`.
pub fn directory(agent_dir: &Path, cwd: &Path) -> PathBuf {
    let cwd = cwd.display().to_string();
    let trimmed = cwd.strip_prefix(['/', '\\']).unwrap_or(&cwd);
    agent_dir.join("sessions").join(format!("--{}--", trimmed.replace(['/', '\\', ':'], "-")))
}

/// `2026-01-02T03-04-05-678Z_<id>.jsonl`.
pub fn name(timestamp: &str, id: &str) -> String {
    format!("{}_{id}.jsonl", timestamp.replace([':', '.'], "-"))
}

/// The session file that was changed last; names settle equal times.
pub fn latest(directory: &Path) -> Result<Option<PathBuf>, SessionError> {
    let wrong = |error| SessionError::new(directory, "list", error);
    let listing = match fs::read_dir(directory) {
        Ok(listing) => listing,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(wrong(error)),
    };
    let mut files = Vec::new();
    for item in listing {
        let path = item.map_err(wrong)?.path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            let changed = fs::metadata(&path).and_then(|metadata| metadata.modified()).map_err(wrong)?;
            files.push((changed, path));
        }
    }
    Ok(files.into_iter().max().map(|(_, path)| path))
}

/// What a file holds.
pub(super) struct Read {
    pub(super) header: Header,
    pub(super) entries: Vec<Entry>,
    /// What the user should know, one sentence each.
    pub(super) notices: Vec<String>,
    pub(super) storage: Storage,
}

/// Reads a file and prepares to append to it; `None` when it does not exist or is empty.
pub(super) fn read(disk: &Disk, path: &Path, ambient: &Ambient) -> Result<Option<Read>, SessionError> {
    let failed = |doing| move |error: io::Error| SessionError::new(path, doing, error);
    if disk.stat(path).map_or_else(|error| error.kind() == ErrorKind::NotFound, |stat| stat.len == 0) {
        return Ok(None);
    }
    // The lock first: what is read is what will be appended to.
    let appender = match Appender::open(disk, path) {
        Ok(opened) => Some(opened.appender),
        Err(error) if error.kind() == ErrorKind::ResourceBusy => {
            let reason = "another pi is writing it; end that one, or begin a new session";
            return Err(SessionError::new(path, "open", reason));
        }
        // It can still be read; the first append says why it cannot be written.
        Err(error) if error.kind() == ErrorKind::PermissionDenied || error.kind() == ErrorKind::ReadOnlyFilesystem => {
            None
        }
        Err(error) => return Err(failed("open")(error)),
    };
    let file = disk.open(path, Open::Read).map_err(failed("read"))?;
    let lines = Lines::read(file, path)?;
    let mut notices = Vec::new();
    let mut storage = Storage {
        disk: disk.clone(),
        path: Some(path.to_owned()),
        state: match appender {
            Some(appender) => State::Open { appender, written: 0 },
            None => State::Unopened { good: 0, line_break: true, written: 0 },
        },
    };
    let version = lines.header.get("version").and_then(Value::as_u64).unwrap_or(1);
    if version > VERSION {
        let reason = format!("it is of format version {version}, which a later pi wrote; this one knows {VERSION}");
        return Err(SessionError::new(path, "open", reason));
    }
    let mut values = lines.entries;
    let mut header = Value::Object(lines.header);
    if version < VERSION {
        migrate(version, &mut header, &mut values, ambient);
        notices.push(format!("the session file was of format version {version} and is now of version {VERSION}"));
    }
    let header: Header = serde_json::from_value(header)
        .map_err(|error| SessionError::new(path, "open", format!("its header is incomplete: {error}")))?;
    let mut skipped = lines.skipped;
    let mut known = BTreeSet::new();
    let mut entries = Vec::new();
    for value in values {
        // The first of two entries of one name counts: what follows it was said about that one.
        match Entry::from_value(value).filter(|entry| known.insert(entry.id.clone())) {
            Some(entry) => entries.push(entry),
            None => skipped += 1,
        }
    }
    if skipped > 0 {
        notices.push(format!("{skipped} lines of the session file are damaged or repeated and were left out"));
    }
    match &mut storage.state {
        State::Open { appender, written } => {
            *written = entries.len();
            if let Some(aside) =
                repair(disk, path, appender, lines.good, lines.ends_with_line_break).map_err(failed("repair"))?
            {
                notices.push(format!("the end of the session file was damaged; it was moved to {}", aside.display()));
            }
        }
        unopened => {
            *unopened =
                State::Unopened { good: lines.good, line_break: lines.ends_with_line_break, written: entries.len() };
        }
    }
    if version < VERSION {
        storage.rewrite(&header, &entries).map_err(failed("migrate"))?;
    }
    Ok(Some(Read { header, entries, notices, storage }))
}

/// Makes the end of a file ready for the next line; answers where a damaged end was moved.
fn repair(
    disk: &Disk,
    path: &Path,
    appender: &mut Appender,
    good: u64,
    line_break: bool,
) -> io::Result<Option<PathBuf>> {
    if good < appender.length() && guard::is_up("session.damaged") {
        return set_aside(disk, path, appender, good).map(Some);
    }
    if !line_break {
        appender.append(b"\n")?;
    }
    Ok(None)
}

/// Moves everything behind `good` into a file beside the session, then cuts it off.
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

/// The lines of a file.
struct Lines {
    header: serde_json::Map<String, Value>,
    entries: Vec<Value>,
    /// Lines in the middle that do not parse.
    skipped: usize,
    /// Bytes up to the end of the last line that parses.
    good: u64,
    length: u64,
    ends_with_line_break: bool,
}

impl Lines {
    fn read(file: Box<dyn VfsFile>, path: &Path) -> Result<Self, SessionError> {
        let mut reader = BufReader::with_capacity(64 << 10, FileReader(file));
        let no_session = || SessionError::new(path, "open", "its first line is no session header");
        let mut line = Vec::new();
        let mut at = 0;
        let mut lines: Option<Self> = None;
        let mut bad = 0;
        loop {
            let read = match read_line(&mut reader, &mut line) {
                Ok(read) => read,
                // The good part counts; whether the disk can still be read is not ours to repair.
                Err(error) => return Err(SessionError::new(path, "read", error)),
            };
            if read.bytes == 0 {
                break;
            }
            at += read.bytes;
            let text = if lines.is_none() { line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&line) } else { &line };
            let value = if read.whole { serde_json::from_slice::<Value>(text).ok() } else { None };
            match &mut lines {
                None => {
                    let Some(Value::Object(header)) = value else { return Err(no_session()) };
                    if header.get("type").and_then(Value::as_str) != Some("session") {
                        return Err(no_session());
                    }
                    lines = Some(Self {
                        header,
                        entries: Vec::new(),
                        skipped: 0,
                        good: at,
                        length: at,
                        ends_with_line_break: read.line_break,
                    });
                }
                Some(lines) => {
                    lines.length = at;
                    match value {
                        Some(value) => {
                            lines.entries.push(value);
                            lines.skipped += std::mem::take(&mut bad);
                            lines.good = at;
                            lines.ends_with_line_break = read.line_break;
                        }
                        // An empty line is nothing.
                        None if read.whole && text.trim_ascii().is_empty() && bad == 0 => lines.good = at,
                        None => bad += 1,
                    }
                }
            }
        }
        lines.ok_or_else(no_session)
    }
}

struct FileReader(Box<dyn VfsFile>);

impl io::Read for FileReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

struct ReadLine {
    /// With the line break; 0 at the end.
    bytes: u64,
    line_break: bool,
    /// Not longer than a line may be.
    whole: bool,
}

/// One line; of one that is too long only its length is kept.
fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<ReadLine> {
    line.clear();
    let mut bytes = (&mut *reader).take(LONGEST_LINE as u64).read_until(b'\n', line)? as u64;
    let mut line_break = line.last() == Some(&b'\n');
    let mut whole = true;
    while !line_break && bytes >= LONGEST_LINE as u64 {
        whole = false;
        line.clear();
        line.shrink_to(0);
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            break;
        }
        let (used, ended) = match buffer.iter().position(|byte| *byte == b'\n') {
            Some(at) => (at + 1, true),
            None => (buffer.len(), false),
        };
        reader.consume(used);
        bytes += used as u64;
        line_break = ended;
    }
    Ok(ReadLine { bytes, line_break, whole })
}

/// Where a session's lines go.
pub(super) struct Storage {
    disk: Disk,
    path: Option<PathBuf>,
    state: State,
}

enum State {
    /// Nothing is on disk yet: pi writes no file for a conversation the model never joined.
    Waiting,
    /// It is on disk and could not be opened for writing: so many bytes are good, so many entries in them.
    Unopened { good: u64, line_break: bool, written: usize },
    /// Open for appending; so many entries are written.
    Open { appender: Appender, written: usize },
}

impl Storage {
    pub(super) fn memory() -> Self {
        Self { disk: Disk::system(), path: None, state: State::Waiting }
    }

    pub(super) fn file(disk: &Disk, path: PathBuf) -> Self {
        Self { disk: disk.clone(), path: Some(path), state: State::Waiting }
    }

    pub(super) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Writes everything now: for a session that begins with entries of another one.
    pub(super) fn write_all(&mut self, header: &Header, entries: &[Entry]) -> Result<(), SessionError> {
        let Some(path) = self.path.clone() else { return Ok(()) };
        let failed = |error| SessionError::new(&path, "write", error);
        let mut appender = Appender::open(&self.disk, &path).map_err(failed)?.appender;
        appender.append(text(header, entries).as_bytes()).map_err(failed)?;
        self.state = State::Open { appender, written: entries.len() };
        Ok(())
    }

    /// The last of `entries` is new: writes what is due. After an error nothing of it counts as written, and all of it
    /// is written with the next one.
    pub(super) fn appended(&mut self, header: &Header, entries: &[Entry]) -> Result<(), SessionError> {
        let Some(path) = self.path.clone() else { return Ok(()) };
        let failed = |error| SessionError::new(&path, "write", error);
        if matches!(&self.state, State::Open { appender, .. } if appender.is_broken()) {
            // Nobody knows what is behind the last flush: a new file is written, not the old one believed.
            return self.rewrite(header, entries).map_err(failed);
        }
        match &mut self.state {
            State::Waiting if !entries.iter().any(Entry::is_assistant) => Ok(()),
            State::Waiting => self.write_all(header, entries),
            State::Unopened { good, line_break, written } => {
                let (good, line_break, written) = (*good, *line_break, *written);
                let mut appender = Appender::open(&self.disk, &path).map_err(failed)?.appender;
                repair(&self.disk, &path, &mut appender, good, line_break).map_err(failed)?;
                self.state = State::Open { appender, written };
                self.appended(header, entries)
            }
            State::Open { appender, written } => {
                for entry in &entries[*written..] {
                    appender.append(format!("{}\n", entry.to_value()).as_bytes()).map_err(failed)?;
                    *written += 1;
                }
                Ok(())
            }
        }
    }

    /// Makes what was appended durable.
    pub(super) fn sync(&mut self, header: &Header, entries: &[Entry]) -> Result<(), SessionError> {
        let (Some(path), State::Open { appender, .. }) = (&self.path, &mut self.state) else { return Ok(()) };
        let Err(error) = appender.sync() else { return Ok(()) };
        let failed = SessionError::new(path, "flush", error);
        // A second flush of the same file would succeed whatever was lost.
        self.rewrite(header, entries).map_err(|_| failed)
    }

    /// Puts a new file with all entries in the place of the old one, which stays as `.bak`.
    fn rewrite(&mut self, header: &Header, entries: &[Entry]) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        self.disk.replace(path, text(header, entries).as_bytes(), Replace::STATE)?;
        // The lock on the old file ends only when the new one has its own.
        let appender = Appender::open(&self.disk, path)?.appender;
        self.state = State::Open { appender, written: entries.len() };
        Ok(())
    }
}

fn text(header: &Header, entries: &[Entry]) -> String {
    let mut text = serde_json::to_string(header).expect("a header has only string keys");
    text.push('\n');
    for entry in entries {
        text.push_str(&entry.to_value().to_string());
        text.push('\n');
    }
    text
}
