//! Opens and reads session files. Only this module and `store` touch the disk.
//!
//! Reading is line by line: a session within the memory limit is loaded whole, and only the index of a longer one. Lines that do
//! not parse are skipped, as pi does, and a damaged end is moved aside before the next append. A single process at a time
//! appends, one write for each line, with a flush at the end of a turn and before tools run.

use super::SessionError;
use super::SessionOptions;
use super::entry::{Entry, Header, VERSION};
use super::entry_cache::MOST_HELD;
use super::index::{Node, Place};
use super::line_metadata::outline;
use super::lines::{Line, Lines};
use super::migrate::migrate;
use super::records::{LineDigest, Noted, digest};
use super::store::{Entries, State, Storage, repair};
use pijs_durable::{Appender, Open, VfsFile};
use pijs_protocol::guard;
use serde_json::{Map, Value};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Returns the folder with the sessions of a working directory: `<agentDir>/sessions/--a-b-c--`.
pub fn directory(agent_dir: &Path, cwd: &Path) -> PathBuf {
    let cwd = cwd.display().to_string();
    let trimmed = cwd.strip_prefix(['/', '\\']).unwrap_or(&cwd);
    agent_dir.join("sessions").join(format!("--{}--", trimmed.replace(['/', '\\', ':'], "-")))
}

/// Returns the name of a session file: `2026-01-02T03-04-05-678Z_<id>.jsonl`.
pub fn name(timestamp: &str, id: &str) -> String {
    format!("{}_{id}.jsonl", timestamp.replace([':', '.'], "-"))
}

/// Returns the most recently changed session file; equal times are ordered by name.
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

/// Whether a session file may be opened through symbolic links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Links {
    Followed,
    Refused,
}

/// A session file that was read.
pub(super) struct Read {
    pub(super) header: Header,
    pub(super) entries: Entries,
    /// Notices for the user, one sentence each.
    pub(super) notices: Vec<String>,
    pub(super) storage: Storage,
}

/// Reads a file and prepares appending to it; `None` when it does not exist or is empty.
///
/// With `links` refused, the opened file must lie at the path that was permitted, even if folders were replaced by links in
/// between.
pub(super) fn read(path: &Path, options: &SessionOptions, links: Links) -> Result<Option<Read>, SessionError> {
    let disk = &options.disk;
    let failed = |doing| move |error: io::Error| SessionError::new(path, doing, error);
    if disk.stat(path).map_or_else(|error| error.kind() == ErrorKind::NotFound, |stat| stat.len == 0) {
        return Ok(None);
    }
    // The lock comes first, so that no other process appends after the read.
    let appender = match Appender::open(disk, path) {
        Ok(opened) => Some(opened.appender),
        Err(error) if error.kind() == ErrorKind::ResourceBusy => {
            let reason = "another pi is writing it; end that one, or begin a new session";
            return Err(SessionError::new(path, "open", reason));
        }
        // The file is readable; the first append reports that it is not writable.
        Err(error) if error.kind() == ErrorKind::PermissionDenied || error.kind() == ErrorKind::ReadOnlyFilesystem => {
            None
        }
        Err(error) => return Err(failed("open")(error)),
    };
    let file = disk.open(path, Open::Read).map_err(failed("read"))?;
    if links == Links::Refused {
        let written = appender.as_ref().map_or_else(|| Ok(path.to_owned()), Appender::real_path);
        for real in [written, file.real_path(path)] {
            let real = real.map_err(failed("open"))?;
            if real != path {
                let reason = format!("a link leads to {} there; name that file", real.display());
                return Err(SessionError::new(path, "open", reason));
            }
        }
    }
    let length = file.stat().map_err(failed("read"))?.len;
    let mut lines = Lines::new(FileReader(file));
    let (header, mut scan) = Scan::begin(&mut lines, path)?;
    let version = header.get("version").and_then(Value::as_u64).unwrap_or(1);
    if version > VERSION {
        let reason = format!("it is of format version {version}, which a later pi wrote; this one knows {VERSION}");
        return Err(SessionError::new(path, "open", reason));
    }
    if let (Some(records), Some(id)) = (&options.records, header.get("id").and_then(Value::as_str)) {
        scan.noted = Some(records.noted(id));
    }
    let mut header = Value::Object(header);
    let mut notices = Vec::new();
    if version < VERSION {
        let mut values = Vec::new();
        scan.each(&mut lines, path, |scan, line| {
            let writer = scan.writer(line.bytes);
            scan.value(line.bytes).map(|value| values.push((value, writer))).is_some()
        })?;
        let (mut values, writers): (Vec<Value>, Vec<Writer>) = values.into_iter().unzip();
        migrate(version, &mut header, &mut values, &options.ambient);
        notices.push(format!("the session file was of format version {version} and is now of version {VERSION}"));
        values.into_iter().zip(writers).for_each(|(value, writer)| scan.take(value, None, writer));
    } else if length <= MOST_HELD || !guard!(SessionCachedBytes) {
        scan.each(&mut lines, path, |scan, line| {
            let place = Place::of(line.from, line.bytes);
            let writer = scan.writer(line.bytes);
            scan.value(line.bytes).map(|value| scan.take(value, Some(place), writer)).is_some()
        })?;
    } else {
        scan.each(&mut lines, path, Scan::note)?;
    }
    let header: Header = serde_json::from_value(header)
        .map_err(|error| SessionError::new(path, "open", format!("its header is incomplete: {error}")))?;
    notices.extend(scan.says_who_wrote());
    let Scan { entries, skipped, good, ends_with_line_break: line_break, unanswered, .. } = scan;
    if skipped > 0 {
        notices.push(format!("{skipped} lines of the session file are damaged or repeated and were left out"));
    }
    let written = entries.index.len();
    let state = match appender {
        Some(mut appender) => {
            if let Some(aside) = repair(disk, path, &mut appender, good, line_break).map_err(failed("repair"))? {
                notices.push(format!("the end of the session file was damaged; it was moved to {}", aside.display()));
            }
            State::Open { appender, written }
        }
        None => State::Unopened { good, line_break, written },
    };
    let mut storage = Storage::opened(options, path, state, lines.into_file().0);
    let mut entries = entries;
    entries.unanswered = unanswered;
    if version < VERSION {
        storage.rewrite(&header, &mut entries).map_err(failed("migrate"))?;
    }
    Ok(Some(Read { header, entries, notices, storage }))
}

/// Scan state of a file.
struct Scan {
    entries: Entries,
    /// Invalid lines in the middle, and invalid or repeated entries.
    skipped: usize,
    /// Lines after the last valid one.
    bad: usize,
    /// Length of the file up to the end of the last valid line.
    good: u64,
    ends_with_line_break: bool,
    /// Digests that PiJS recorded for this session.
    noted: Option<Noted>,
    /// Lines of another program, to which the model has not replied.
    unanswered: Vec<LineDigest>,
}

/// Authors of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writer {
    /// PiJS.
    Own,
    /// Another program; the model has replied since.
    Answered,
    /// Another program; the model has not replied.
    Foreign(LineDigest),
}

impl Scan {
    /// Reads the header.
    fn begin(lines: &mut Lines<FileReader>, path: &Path) -> Result<(Map<String, Value>, Self), SessionError> {
        let no_session = || SessionError::new(path, "open", "its first line is no session header");
        let first = lines.next().map_err(|error| SessionError::new(path, "read", error))?.ok_or_else(no_session)?;
        let text = first.bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(first.bytes);
        let header = match serde_json::from_slice(text) {
            Ok(Value::Object(header)) if first.whole => header,
            _ => return Err(no_session()),
        };
        if header.get("type").and_then(Value::as_str) != Some("session") {
            return Err(no_session());
        }
        let (good, ends_with_line_break) = (first.to, first.line_break);
        let scan = Self {
            entries: Entries::default(),
            skipped: 0,
            bad: 0,
            good,
            ends_with_line_break,
            noted: None,
            unanswered: Vec::new(),
        };
        Ok((header, scan))
    }

    /// Passes every line to `take`, which returns whether the line is valid JSON.
    fn each(
        &mut self,
        lines: &mut Lines<FileReader>,
        path: &Path,
        mut take: impl FnMut(&mut Self, &Line<'_>) -> bool,
    ) -> Result<(), SessionError> {
        // A read error is fatal: damage is only assumed in data that can be read.
        while let Some(line) = lines.next().map_err(|error| SessionError::new(path, "read", error))? {
            if line.whole && take(self, &line) {
                self.skipped += std::mem::take(&mut self.bad);
                (self.good, self.ends_with_line_break) = (line.to, line.line_break);
            } else if line.whole && line.bytes.trim_ascii().is_empty() && self.bad == 0 {
                // An empty line is ignored.
                self.good = line.to;
            } else {
                self.bad += 1;
            }
        }
        Ok(())
    }

    /// Parses the JSON of a line.
    fn value(&self, line: &[u8]) -> Option<Value> {
        serde_json::from_slice(line).ok()
    }

    /// Returns the author of a line by its recorded digest.
    fn writer(&self, line: &[u8]) -> Writer {
        let Some(noted) = self.noted.as_ref().filter(|_| guard!(SessionForeignLines)) else { return Writer::Own };
        let line = digest(line);
        match () {
            () if noted.is_own(&line) => Writer::Own,
            () if noted.is_answered(&line) => Writer::Answered,
            () => Writer::Foreign(line),
        }
    }

    /// Counts an accepted or skipped entry.
    fn count(&mut self, taken: bool, writer: Writer) {
        self.skipped += usize::from(!taken);
        if let (true, Writer::Foreign(line)) = (taken, writer) {
            self.unanswered.push(line);
        }
    }

    /// Returns the warning about entries of another program, for the user.
    fn says_who_wrote(&self) -> Option<String> {
        let (foreign, all) = (self.unanswered.len(), self.entries.index.len());
        let whose = "does not count as your own words until the model has answered you";
        match foreign {
            0 => None,
            _ if self.noted.as_ref().is_some_and(Noted::is_empty) => Some(format!(
                "the session file was not written by PiJS but by another program, such as the real pi, or by an earlier \
                 version of PiJS; what is in it {whose}"
            )),
            _ => Some(format!(
                "{foreign} of {all} entries of the session file were not written by PiJS but added or changed by another \
                 program, such as the real pi; what is in them {whose}"
            )),
        }
    }

    /// Adds an entry to the index and to memory.
    fn take(&mut self, value: Value, place: Option<Place>, writer: Writer) {
        let entry = Entry::from_value(value);
        let entry = if writer == Writer::Own { entry } else { entry.map(Entry::of_another_program) };
        let taken = entry.is_some_and(|entry| self.entries.push(entry, place).is_some());
        self.count(taken, writer);
    }

    /// Adds an entry to the index only.
    fn note(&mut self, line: &Line<'_>) -> bool {
        let Ok(found) = outline(line.bytes) else { return false };
        let place = Some(Place::of(line.from, line.bytes));
        let writer = self.writer(line.bytes);
        let is_foreign = writer != Writer::Own;
        let taken = found.is_some_and(|found| {
            let node = Node { name: found.name, parent: found.parent, kind: found.kind, place, is_foreign };
            let is_new = self.entries.index.push(node);
            if is_new
                && found.tells
                && let Some(entry) = self.value(line.bytes).and_then(Entry::from_value)
            {
                self.entries.index.heed(&entry.body);
            }
            is_new
        });
        self.count(taken, writer);
        true
    }
}

pub(super) struct FileReader(pub(super) Box<dyn VfsFile>);

impl io::Read for FileReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}
